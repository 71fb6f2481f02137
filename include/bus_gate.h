/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * bus_gate: what a client sends, cut into whole units before sd-bus sees a byte of it. sd-bus takes a client's word for
 * the length of a message, up to 128 MiB, and keeps what has come of it; here a message is refused by its header alone.
 * Pure: no descriptor, no clock. One gate for each connection, main thread.
 *
 * A unit is one or more whole lines of the handshake (through BEGIN), then one message. Framing: D-Bus Specification,
 * "Authentication Protocol" and "Message Format".
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define BUS_GATE_AUTH_MAX    4096  /* bytes of the whole handshake */
#define BUS_GATE_MESSAGE_MAX 65536 /* bytes of a message, header included */

struct bus_gate {
	uint8_t *bytes;
	size_t n, capacity;
	size_t auth_bytes; /* handed out so far */
	bool begun;        /* BEGIN has been handed out: messages follow */
};

/* A zeroed gate is an empty one. */
void bus_gate_done(struct bus_gate *gate);

/*
 * Room for the next bytes: 1 or more at *@ret, never beyond the end of the message that is being read. Add what was
 * read there with bus_gate_added(). Returns how many fit, or -ENOMEM. Not to be called while a unit is complete.
 */
ssize_t bus_gate_room(struct bus_gate *gate, void **ret);
void bus_gate_added(struct bus_gate *gate, size_t n);

/*
 * Length of the complete unit at the start of gate->bytes, 0 while there is none; -EMSGSIZE when what comes is longer
 * than allowed, -EBADMSG when it is no D-Bus at all.
 */
ssize_t bus_gate_unit(const struct bus_gate *gate);

/* Forget the first @n bytes, which bus_gate_unit() gave. */
void bus_gate_take(struct bus_gate *gate, size_t n);

/* true between two units: nothing of the next one has come. */
bool bus_gate_is_empty(const struct bus_gate *gate);
