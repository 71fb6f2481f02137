/* SPDX-License-Identifier: GPL-2.0-or-later */
/* victims_rig: migrator_rig with victims beside the migrator, and processes that have mappings. The page rule: cold is
 * what had no sample for a minute. */
#pragma once

#include "decider.h"
#include "migrator_rig.h"
#include "victims.h"

#define QUIET_SEC 60

struct victims_rig {
	struct rig *rig;
	struct decider *decider;
	struct victims *victims;
};

/* Samples come from somewhere. */
MACHINE_UNUSED static void vrig_flow(struct victims_rig *v)
{
	stats_inc(v->rig->params.stats, STAT_USEFUL);
}

/* Victims and migrator anew, as the rig's parameters are now. */
MACHINE_UNUSED static void vrig_renew(struct victims_rig *v)
{
	struct rig *rig = v->rig;
	struct victims_params params = {
		.hotness = rig->hotness,
		.owners = rig->owners,
		.manage = rig->params.manage,
		.topology = rig->topology,
		.root = rig->machine.root,
		.mover_ops = &fake_kernel_ops,
		.mover_ctx = &rig->kernel,
		.clock = &rig->clock,
		.stats = rig->stats,
		.decider = v->decider,
	};

	migrator_free(rig->migrator);
	victims_free(v->victims);
	v->victims = victims_new(&params);
	rig->params.victims = v->victims;
	rig->params.decider = v->decider;
	rig->migrator = migrator_new(&rig->params);
}

MACHINE_UNUSED static void vrig_new(struct victims_rig *v)
{
	static const struct rig_options plain = { 0 };
	struct rig *rig = rig_new(&plain);

	*v = (struct victims_rig){ .rig = rig, .decider = decider_new(rig->hotness) };
	rig->config.make_room = ROOM_EXCHANGE;
	rig->config.promote_policy = POLICY_PAGE;
	rig->config.promote_confidence = 0.95;
	vrig_renew(v);
	vrig_flow(v);
}

MACHINE_UNUSED static void vrig_free(struct victims_rig *v)
{
	migrator_free(v->rig->migrator);
	v->rig->migrator = NULL;
	victims_free(v->victims);
	decider_free(v->decider);
	rig_free(v->rig);
}

/* The process says that it has pages @first..@first+@n-1, and more than 16 MiB. */
MACHINE_UNUSED static void vrig_maps(struct victims_rig *v, uint32_t pid, uint64_t first, uint64_t n)
{
	char path[64];

	rig_process(v->rig, pid);
	snprintf(path, sizeof(path), "proc/%u/maps", pid);
	machine_put(&v->rig->machine, path,
		    "%llx-%llx rw-p 00000000 00:00 0 \n"
		    "7ffff7ff0000-7ffff7ff4000 ---p 00000000 00:00 0 ",
		    (unsigned long long)rig_addr(pid, first), (unsigned long long)rig_addr(pid, first + n));
	snprintf(path, sizeof(path), "proc/%u/statm", pid);
	machine_put(&v->rig->machine, path, "20000 8192 0 0 0 0 0");
}

/* Pages @first..@first+@n-1 of @pid are on @nid. */
MACHINE_UNUSED static void vrig_map(struct victims_rig *v, uint32_t pid, uint64_t first, uint64_t n, uint64_t bytes,
				    int nid, unsigned int flags)
{
	struct fake_process *p = rig_process(v->rig, pid);

	for (uint64_t i = first; i < first + n; i += bytes / RIG_PAGE)
		fake_folio_add(p, rig_addr(pid, i), bytes, nid, flags);
}

/* @sec seconds go by, in steps as the daemon makes them, with room wanted and samples coming. */
MACHINE_UNUSED static void vrig_run(struct victims_rig *v, unsigned int sec)
{
	for (unsigned int i = 0; i < sec; i++) {
		v->rig->now_ns += NSEC_PER_SEC;
		vrig_flow(v);
		victims_want(v->victims, v->rig->now_ns);
		victims_step(v->victims, &v->rig->config, NSEC_PER_SEC, NULL);
	}
}

MACHINE_UNUSED static enum victims_state vrig_state(const struct victims_rig *v)
{
	struct victims_view view;

	victims_look(v->victims, &view);
	return view.state;
}
