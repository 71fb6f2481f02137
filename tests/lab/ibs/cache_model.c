/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <stdlib.h>

#include "cache_model.h"

int cache_model_init(struct cache_model *model, uint32_t sets, uint32_t ways)
{
	if (!sets || sets & (sets - 1) || sets > 1U << 24 || !ways || ways > 64)
		return -EINVAL;
	model->sets = sets;
	model->ways = ways;
	model->set_bits = (uint32_t)__builtin_ctz(sets);
	model->tags = calloc((size_t)sets * ways, sizeof(*model->tags));
	return model->tags ? 0 : -ENOMEM;
}
