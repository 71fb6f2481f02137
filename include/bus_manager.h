/* SPDX-License-Identifier: GPL-2.0-or-later */
/* bus_manager: the object that a client of the control socket talks to: its methods, properties and errors. */
#pragma once

#include <systemd/sd-bus.h>

#include "bus.h"

/* What the table's userdata points to; one for each connection. Main thread. */
struct bus_manager {
	const struct bus_ops *ops;
	void *ctx;
	struct bus_peer peer;
	bool hidden; /* what may change says "hidden": it is not for everyone */
};

extern const sd_bus_vtable bus_manager_vtable[];

/*
 * Make @text fit for D-Bus, which carries UTF-8 only, and for a terminal, which obeys control characters: what is
 * neither printable ASCII nor @keep becomes ' ' or '?'.
 */
void bus_manager_make_plain(char *text, char keep);
