/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "sim_speed.h"

#define LINE_BYTES 64.0
#define FULL       0.98 /* of the bandwidth: the queue in front of it has no end */
#define HALVINGS   40

/* ns that one access takes, thinking included, while there are @per_sec of them. */
static double access_ns(const struct sim_scenario *s, const double *shares, const double *busy, double per_sec)
{
	double ns = s->think_ns;

	for (size_t i = 0; i < s->n_nodes; i++) {
		double used = per_sec * shares[i] * LINE_BYTES + busy[i];
		double u = used / (s->nodes[i].gib_per_sec * 0x1p30);

		u = u > FULL ? FULL : u;
		ns += shares[i] * s->nodes[i].latency_ns * (1 + u * u / (1 - u));
	}
	return ns;
}

double sim_speed(const struct sim_scenario *s, const double shares[SIM_NODES_MAX],
		 const double busy_bytes_per_sec[SIM_NODES_MAX])
{
	static const double idle[SIM_NODES_MAX];
	double low = 0, high = s->threads * 1e9 / access_ns(s, shares, idle, 0);

	/* No more than the bandwidth that is left, however many threads wait. */
	for (size_t i = 0; i < s->n_nodes; i++) {
		double most = FULL * s->nodes[i].gib_per_sec * 0x1p30 - busy_bytes_per_sec[i];

		if (most < 0.1 * s->nodes[i].gib_per_sec * 0x1p30)
			most = 0.1 * s->nodes[i].gib_per_sec * 0x1p30;
		if (shares[i] > 0 && high * shares[i] * LINE_BYTES > most)
			high = most / (shares[i] * LINE_BYTES);
	}
	for (int i = 0; i < HALVINGS; i++) {
		double mid = (low + high) / 2;

		if (mid * access_ns(s, shares, busy_bytes_per_sec, mid) < s->threads * 1e9)
			low = mid;
		else
			high = mid;
	}
	return low;
}
