/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <math.h>

#include "policy_unseen.h"

#define SAMPLES_MIN 30.0
#define Z           1.96 /* 95% */

void unseen_step(struct unseen *u, uint64_t samples, uint64_t novel)
{
	uint64_t more = samples - u->last_samples, more_novel = novel - u->last_novel;
	size_t at = u->steps++ % UNSEEN_STEPS;

	u->step[at].samples = more < UINT32_MAX ? (uint32_t)more : UINT32_MAX;
	u->step[at].novel = more_novel < more ? (uint32_t)more_novel : u->step[at].samples;
	u->last_samples = samples;
	u->last_novel = novel;
}

void unseen_look(const struct unseen *u, struct unseen_share *ret)
{
	double n = 0, novel = 0, p;

	*ret = (struct unseen_share){ 0 };
	for (size_t i = 1; i <= UNSEEN_STEPS && i <= u->steps && n < UNSEEN_SAMPLES; i++) {
		n += u->step[(u->steps - i) % UNSEEN_STEPS].samples;
		novel += u->step[(u->steps - i) % UNSEEN_STEPS].novel;
	}
	if (n < SAMPLES_MIN)
		return;
	p = 1 - novel / n;
	ret->known = true;
	ret->seen = (p + Z * Z / (2 * n)) / (1 + Z * Z / n);
	ret->margin = Z / (1 + Z * Z / n) * sqrt(p * (1 - p) / n + Z * Z / (4 * n * n));
}
