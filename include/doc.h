/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * doc: single values of a JSON document of the daemon, for who shows it. The document may be of a later version: what
 * isn't there, or is of another type, reads as nothing. Any thread; the document is only read.
 */
#pragma once

#include <jansson.h>
#include <stdint.h>

/* 0 also for what is below 0. */
uint64_t doc_number(const json_t *object, const char *key);

/* Whole numbers too; else 0. */
double doc_real(const json_t *object, const char *key);

/* Never NULL; as long as @object. */
const char *doc_text(const json_t *object, const char *key);
