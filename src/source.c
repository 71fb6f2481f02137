/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <string.h>

#include "source.h"

const struct source_ops *const source_table[] = {
	&source_ibs,
	&source_hint_faults,
	NULL,
};

const struct source_ops *source_find(const char *name)
{
	for (const struct source_ops *const *ops = source_table; *ops; ops++)
		if (strcmp((*ops)->name, name) == 0)
			return *ops;
	return NULL;
}
