/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "doc.h"

uint64_t doc_number(const json_t *object, const char *key)
{
	json_int_t n = json_integer_value(json_object_get(object, key));

	return n > 0 ? (uint64_t)n : 0;
}

double doc_real(const json_t *object, const char *key)
{
	return json_number_value(json_object_get(object, key));
}

const char *doc_text(const json_t *object, const char *key)
{
	const char *value = json_string_value(json_object_get(object, key));

	return value ? value : "";
}
