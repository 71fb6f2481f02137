/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * privops_answer: one request to the helper process, from the packet to the answer. A step without a socket, so that
 * tests and the fuzzer drive the very code that root runs. Helper process only.
 */
#pragma once

#include "privops.h"
#include "privops_check.h"

struct privops_helper {
	struct privops priv; /* what it acts with: its root is read, its saved_path is the helper's own */
};

/*
 * Do what the packet of @len bytes asks, if it may be asked, for the process @client. @reply gets the answer. Returns
 * the descriptor that goes along with it, the caller's to close, or -1. What is refused is in @reply->r, see
 * privops_check.h, and was neither done nor tried.
 */
int privops_answer(const struct privops_helper *helper, uint32_t client, const void *data, size_t len,
		   struct privops_reply *reply);

/* Bytes of @reply to send. */
size_t privops_answer_bytes(const struct privops_reply *reply);
