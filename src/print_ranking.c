/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <stdio.h>
#include <string.h>

#include "print_ranking.h"

void print_rank(struct print_ranking *ranking, const char *name, uint64_t n)
{
	size_t at = ranking->n_top;

	if (n == 0)
		return;
	ranking->sum += n;
	while (at > 0 && ranking->top[at - 1].n < n)
		at--;
	if (at == PRINT_RANKED_MAX)
		return;
	if (ranking->n_top < PRINT_RANKED_MAX)
		ranking->n_top++;
	memmove(&ranking->top[at + 1], &ranking->top[at], (ranking->n_top - 1 - at) * sizeof(ranking->top[0]));
	ranking->top[at].name = name;
	ranking->top[at].n = n;
}

const char *print_ranking(const struct print_ranking *ranking, print_number *format, char buf[PRINT_RANKING_MAX])
{
	char n[PRINT_SHORT_MAX], name[32];
	uint64_t rest = ranking->sum;
	size_t used = 0;

	buf[0] = '\0';
	for (size_t i = 0; i < ranking->n_top; i++) {
		snprintf(name, sizeof(name), "%s", ranking->top[i].name);
		for (char *p = name; *p; p++)
			if (*p == '_')
				*p = ' ';
		used += (size_t)snprintf(buf + used, PRINT_RANKING_MAX - used, "%s%s %s", i ? ", " : "",
					 format(n, ranking->top[i].n), name);
		rest -= ranking->top[i].n;
	}
	if (rest)
		snprintf(buf + used, PRINT_RANKING_MAX - used, ", %s other", format(n, rest));
	return buf;
}
