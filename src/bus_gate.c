/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bus_gate.h"

#define HEADER_BYTES 16

void bus_gate_done(struct bus_gate *gate)
{
	free(gate->bytes);
	*gate = (struct bus_gate){ 0 };
}

bool bus_gate_is_empty(const struct bus_gate *gate)
{
	return gate->n == 0;
}

static uint32_t word_at(const uint8_t *bytes, bool big_endian)
{
	uint32_t v;

	memcpy(&v, bytes, sizeof(v));
	return big_endian ? be32toh(v) : le32toh(v);
}

/* Length that the header of a message claims, or -errno. Only once the header is there. */
static ssize_t message_length(const struct bus_gate *gate)
{
	bool big_endian = gate->bytes[0] == 'B';
	uint64_t fields_bytes, bytes;

	if (gate->bytes[0] != 'l' && gate->bytes[0] != 'B')
		return -EBADMSG;
	fields_bytes = word_at(gate->bytes + 12, big_endian);
	bytes = HEADER_BYTES + ((fields_bytes + 7) & ~UINT64_C(7)) + word_at(gate->bytes + 4, big_endian);
	/* Every type of message has at least one header field; sd-bus would wait for more than a bare header for ever.
	 */
	if (fields_bytes == 0)
		return -EBADMSG;
	return bytes > BUS_GATE_MESSAGE_MAX ? -EMSGSIZE : (ssize_t)bytes;
}

/* End of the last whole line, or of the line BEGIN if that comes before; 0: no whole line. */
static size_t auth_lines(const struct bus_gate *gate, bool *ret_begin)
{
	/* The first byte of a connection is a NUL, which belongs to no line. */
	size_t start = gate->auth_bytes == 0 && gate->n > 0 && gate->bytes[0] == '\0', end = 0;

	*ret_begin = false;
	while (start < gate->n) {
		const uint8_t *line = gate->bytes + start;
		const uint8_t *crlf = memmem(line, gate->n - start, "\r\n", 2);

		if (!crlf)
			break;
		end = (size_t)(crlf - gate->bytes) + 2;
		if (crlf - line == 5 && memcmp(line, "BEGIN", 5) == 0) {
			*ret_begin = true;
			break;
		}
		start = end;
	}
	return end;
}

ssize_t bus_gate_unit(const struct bus_gate *gate)
{
	ssize_t bytes;
	size_t end;
	bool begin;

	if (!gate->begun) {
		end = auth_lines(gate, &begin);
		/* What follows BEGIN is a message already and is measured as one. */
		if (gate->auth_bytes + (begin ? end : gate->n) > BUS_GATE_AUTH_MAX)
			return -EMSGSIZE;
		if (end == 0 && gate->auth_bytes + gate->n == BUS_GATE_AUTH_MAX)
			return -EMSGSIZE;
		return (ssize_t)end;
	}
	if (gate->n < HEADER_BYTES)
		return 0;
	bytes = message_length(gate);
	return bytes < 0 ? bytes : gate->n >= (size_t)bytes ? bytes : 0;
}

void bus_gate_take(struct bus_gate *gate, size_t n)
{
	bool begin;

	assert(n > 0 && n <= gate->n);
	if (!gate->begun) {
		size_t end = auth_lines(gate, &begin);

		assert(n == end);
		gate->auth_bytes += end;
		gate->begun = begin;
	}
	gate->n -= n;
	memmove(gate->bytes, gate->bytes + n, gate->n);
}

ssize_t bus_gate_room(struct bus_gate *gate, void **ret)
{
	/* Before BEGIN nobody knows where the handshake ends, so what was read too far is kept for the first message.
	 */
	size_t want = BUS_GATE_AUTH_MAX;

	if (gate->begun && gate->n < HEADER_BYTES) {
		want = HEADER_BYTES;
	} else if (gate->begun) {
		ssize_t bytes = message_length(gate);

		if (bytes > 0)
			want = (size_t)bytes;
	}
	assert(want > gate->n);
	if (want > gate->capacity) {
		uint8_t *bytes = realloc(gate->bytes, want);

		if (!bytes)
			return -ENOMEM;
		gate->bytes = bytes;
		gate->capacity = want;
	}
	*ret = gate->bytes + gate->n;
	return (ssize_t)(want - gate->n);
}

void bus_gate_added(struct bus_gate *gate, size_t n)
{
	assert(gate->n + n <= gate->capacity);
	gate->n += n;
}
