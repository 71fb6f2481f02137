/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <endian.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "bus_gate.h"
#include "harness.h"

static const char handshake[] = "\0AUTH EXTERNAL\r\nDATA\r\nNEGOTIATE_UNIX_FD\r\nBEGIN\r\n";
#define HANDSHAKE_BYTES (sizeof(handshake) - 1)

/* Room and copy as a reader does it; returns the first error of the gate. */
static ssize_t put(struct bus_gate *gate, const void *data, size_t n, size_t *ret_taken)
{
	void *room;
	ssize_t unit = bus_gate_unit(gate), fits;

	*ret_taken = 0;
	if (unit != 0)
		return unit;
	fits = bus_gate_room(gate, &room);
	if (fits < 0)
		return fits;
	*ret_taken = n < (size_t)fits ? n : (size_t)fits;
	memcpy(room, data, *ret_taken);
	bus_gate_added(gate, *ret_taken);
	return bus_gate_unit(gate);
}

/* Put all of it, taking units on the way; returns how many there were, or -errno. */
static ssize_t put_all(struct bus_gate *gate, const void *data, size_t n, size_t step)
{
	const uint8_t *p = data;
	ssize_t units = 0;

	for (;;) {
		size_t taken;
		ssize_t unit = put(gate, p, n < step ? n : step, &taken);

		p += taken;
		n -= taken;
		if (unit < 0)
			return unit;
		if (unit > 0) {
			bus_gate_take(gate, (size_t)unit);
			units++;
		} else if (n == 0) {
			return units;
		}
	}
}

static size_t make_message(uint8_t *buf, bool big, uint32_t fields_bytes, uint32_t body_bytes)
{
	uint32_t body = big ? htobe32(body_bytes) : htole32(body_bytes);
	uint32_t fields = big ? htobe32(fields_bytes) : htole32(fields_bytes);
	size_t n = 16 + ((fields_bytes + 7) & ~7u) + body_bytes;

	memset(buf, 0x5a, n);
	buf[0] = big ? 'B' : 'l';
	memcpy(buf + 4, &body, 4);
	memcpy(buf + 12, &fields, 4);
	return n;
}

static void begin(struct bus_gate *gate)
{
	*gate = (struct bus_gate){ 0 };
	CU_ASSERT(put_all(gate, handshake, HANDSHAKE_BYTES, HANDSHAKE_BYTES) > 0);
	CU_ASSERT(gate->begun);
	CU_ASSERT(bus_gate_is_empty(gate));
}

static void lines_pass_whole(void)
{
	struct bus_gate gate = { 0 };
	size_t taken;

	CU_ASSERT_EQUAL(put(&gate, "", 1, &taken), 0);
	CU_ASSERT_EQUAL(put(&gate, "AUTH\r", 5, &taken), 0);
	CU_ASSERT_EQUAL(put(&gate, "\nDA", 3, &taken), 7);
	bus_gate_take(&gate, 7);
	CU_ASSERT_EQUAL(gate.n, 2);
	CU_ASSERT_EQUAL(memcmp(gate.bytes, "DA", 2), 0);
	CU_ASSERT_FALSE(gate.begun);
	/* The word alone on its line, as sd-bus has it. */
	CU_ASSERT_EQUAL(put(&gate, "TA\r\nBEGIN \r\n BEGIN\r\n", 20, &taken), 22);
	bus_gate_take(&gate, 22);
	CU_ASSERT_FALSE(gate.begun);
	CU_ASSERT_EQUAL(put(&gate, "BEGIN\r\nl", 8, &taken), 7);
	bus_gate_take(&gate, 7);
	CU_ASSERT(gate.begun);
	CU_ASSERT_EQUAL(gate.n, 1);
	bus_gate_done(&gate);
	bus_gate_done(&gate);
}

static void handshake_is_bounded(void)
{
	struct bus_gate gate = { 0 };
	char line[BUS_GATE_AUTH_MAX];
	size_t taken;

	memset(line, 'x', sizeof(line));
	CU_ASSERT_EQUAL(put(&gate, line, sizeof(line), &taken), -EMSGSIZE);
	bus_gate_done(&gate);
	/* Short lines add up. */
	memcpy(line + 8, "\r\n", 2);
	CU_ASSERT_EQUAL(put_all(&gate, line, 10, 10), 1);
	for (int i = 1; i < BUS_GATE_AUTH_MAX / 10; i++)
		CU_ASSERT_EQUAL(put_all(&gate, line, 10, 10), 1);
	CU_ASSERT_EQUAL(put_all(&gate, line, 10, 10), -EMSGSIZE);
	bus_gate_done(&gate);
}

static void message_is_refused_by_its_header(void)
{
	static uint8_t buf[BUS_GATE_MESSAGE_MAX + 64];
	static const struct {
		uint32_t fields_bytes, body_bytes;
		bool ok;
	} cases[] = {
		{ 8, 0, true },
		{ 8, BUS_GATE_MESSAGE_MAX - 24, true },
		{ 8, BUS_GATE_MESSAGE_MAX - 23, false },
		{ 9, BUS_GATE_MESSAGE_MAX - 32, true },
		{ 9, BUS_GATE_MESSAGE_MAX - 31, false },
		{ BUS_GATE_MESSAGE_MAX - 16, 0, true },
		{ BUS_GATE_MESSAGE_MAX - 15, 0, false },
	};
	struct bus_gate gate;

	for (int big = 0; big < 2; big++)
		for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
			size_t n = make_message(buf, big, cases[i].fields_bytes, cases[i].body_bytes), taken;

			begin(&gate);
			if (cases[i].ok) {
				CU_ASSERT_EQUAL(put_all(&gate, buf, n, n), 1);
				CU_ASSERT(bus_gate_is_empty(&gate));
			} else {
				CU_ASSERT_EQUAL(put(&gate, buf, n, &taken), -EMSGSIZE);
				CU_ASSERT_EQUAL(taken, 16); /* not a byte of it was kept */
			}
			bus_gate_done(&gate);
		}
	/* Lengths that overflow 32 bits together. */
	begin(&gate);
	make_message(buf, false, 8, 0);
	memset(buf + 4, 0xff, 4);
	memset(buf + 12, 0xff, 4);
	CU_ASSERT_EQUAL(put_all(&gate, buf, 16, 16), -EMSGSIZE);
	bus_gate_done(&gate);
}

static void other_protocols_are_refused(void)
{
	uint8_t buf[64];
	struct bus_gate gate;

	begin(&gate);
	make_message(buf, false, 8, 0);
	buf[0] = 'G';
	CU_ASSERT_EQUAL(put_all(&gate, buf, 24, 24), -EBADMSG);
	bus_gate_done(&gate);
	begin(&gate);
	make_message(buf, false, 0, 0);
	CU_ASSERT_EQUAL(put_all(&gate, buf, 16, 16), -EBADMSG);
	bus_gate_done(&gate);
}

/* However the stream is cut, the same units come out, and together they are the stream. */
static void cutting_changes_nothing(void)
{
	static uint8_t stream[1 << 18];
	static uint8_t out[1 << 18];
	unsigned int seed = 7;

	for (int round = 0; round < 40; round++) {
		size_t n = HANDSHAKE_BYTES, units[64], n_units = 0, at = 0, got = 0, seen = 0;
		struct bus_gate gate = { 0 };

		memcpy(stream, handshake, HANDSHAKE_BYTES);
		for (int i = 0; i < 12; i++) {
			uint32_t body_bytes = (uint32_t)rand_r(&seed) % (i % 4 == 0 ? 60000 : 60);

			units[n_units] = make_message(stream + n, rand_r(&seed) & 1, 8 + (uint32_t)rand_r(&seed) % 80,
						      body_bytes);
			n += units[n_units++];
		}
		while (at < n || bus_gate_unit(&gate) > 0) {
			size_t step = 1 + (size_t)rand_r(&seed) % (round % 3 == 0 ? 3 : 9000), taken;
			ssize_t unit = put(&gate, stream + at, n - at < step ? n - at : step, &taken);

			at += taken;
			if (unit < 0)
				break;
			if (unit == 0)
				continue;
			if (gate.begun) {
				CU_ASSERT(seen < n_units);
				CU_ASSERT_EQUAL((size_t)unit, seen < n_units ? units[seen] : 0);
				seen++;
			}
			memcpy(out + got, gate.bytes, (size_t)unit);
			got += (size_t)unit;
			bus_gate_take(&gate, (size_t)unit);
		}
		CU_ASSERT_EQUAL(seen, n_units);
		CU_ASSERT_EQUAL(got, n);
		CU_ASSERT_EQUAL(memcmp(out, stream, n), 0);
		CU_ASSERT(gate.capacity <= BUS_GATE_MESSAGE_MAX);
		bus_gate_done(&gate);
	}
}

TEST_MAIN(bus_gate, TEST(lines_pass_whole), TEST(handshake_is_bounded), TEST(message_is_refused_by_its_header),
	  TEST(other_protocols_are_refused), TEST(cutting_changes_nothing))
