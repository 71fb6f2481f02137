/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * bus_system: the same object as on the control socket, as org.pghot1 on the system bus. Everyone may read there,
 * unless that is turned off; root and the control group may change. Who asks is what the bus says of the connection,
 * asked for without waiting. There may be no bus, it may go and come, and the name may be another's: that is said once,
 * and tried again. All on the main thread, which never waits for the bus.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <systemd/sd-event.h>

#include "bus.h"

#define BUS_SYSTEM_NAME "org.pghot1"
/* At most, between two tries to get to the bus or to have the name. */
#define BUS_SYSTEM_RETRY_NS (5ULL * 1000000000ULL)
/* More calls than this under way at once are refused; and so are more a second of all who may only read, a map counting
 * as five. */
#define BUS_SYSTEM_CALLS_MAX     64
#define BUS_SYSTEM_READS_PER_SEC 50

struct bus_system;

/*
 * @group may change options, "" or unknown: root alone. The bus is the one of sd_bus_open_system(3). 0 or -ENOMEM; that
 * there is no bus is no error.
 */
int bus_system_new(sd_event *event, const char *group, const struct bus_ops *ops, void *ctx, struct bus_system **ret);
void bus_system_free(struct bus_system *system); /* accepts NULL */

/* Whether everyone may read; so it is at first. Else root and the group, and properties say "hidden". Accepts NULL. */
void bus_system_set_public(struct bus_system *system, bool everyone);

/*
 * Tell who listens that @property has a new value. Dropped where nobody can hear it, and when the bus doesn't take what
 * was sent before. Accepts NULL.
 */
void bus_system_changed(struct bus_system *system, const char *property);

/* Between any two tries to come. */
void bus_system_set_retry_ns(struct bus_system *system, uint64_t ns);

/* true: the name is ours. */
bool bus_system_has_name(const struct bus_system *system);
