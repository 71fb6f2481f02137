/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * privops_wire: what pghotd and its helper process say to each other, over a Unix socket of type SOCK_SEQPACKET: one
 * request, one answer, each a packet. Both are of one build, or refuse each other by PRIVOPS_WIRE_VERSION.
 *
 * What can't be said can't be asked for: there are no pids to sample, no paths, no groups of events, no flags but those
 * here, and of an attr only what the sources differ in.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct perf_event_attr;

#define PRIVOPS_WIRE_VERSION 1
#define PRIVOPS_TEXT_MAX     8192

enum privops_verb {
	PRIVOPS_HELLO = 1,
	PRIVOPS_EVENT_OPEN,  /* event; the answer carries the descriptor */
	PRIVOPS_SETTING_SET, /* setting */
	PRIVOPS_RESTORE,     /* nothing; counts */
	PRIVOPS_ASK,         /* ask; an enum fsroot_question */
};

enum privops_event_flags {
	PRIVOPS_EVENT_EXCLUDE_KERNEL = 1 << 0,
	PRIVOPS_EVENT_WATERMARK = 1 << 1,
};

/* The fields of struct perf_event_attr that have this name; all others are the same for every source. */
struct privops_event {
	uint32_t type;
	int32_t cpu;
	uint64_t config, config1, config2;
	uint64_t sample_period, sample_type, read_format;
	uint32_t wakeup_watermark;
	uint32_t flags; /* enum privops_event_flags */
};

/* What the verb has no use for is 0. */
struct privops_request {
	uint32_t version;
	uint32_t verb;
	union {
		struct privops_event event;
		struct {
			uint32_t setting; /* enum privops_setting */
			uint32_t zero;
			uint64_t value;
		} set;
		struct {
			uint32_t question;
			uint32_t pid;
			uint64_t addr;
		} ask;
		uint64_t words[8];
	};
};

/* As far as n_text bytes of its text. */
struct privops_reply {
	uint32_t version;
	int32_t r;                      /* -errno, or what the verb gives; never a descriptor's number */
	int32_t restored, left, failed; /* PRIVOPS_RESTORE, as struct privops_restored */
	uint32_t n_text;
	char text[PRIVOPS_TEXT_MAX];
};

#define PRIVOPS_REPLY_MIN offsetof(struct privops_reply, text)

/* The attr that @event says. Pure. */
void privops_event_attr(const struct privops_event *event, struct perf_event_attr *ret);

/* The reverse. 0; -EOPNOTSUPP for an attr that can't be said, @ret then being of no use. Pure. */
int privops_event_of(const struct perf_event_attr *attr, int cpu, struct privops_event *ret);

/*
 * Send @len bytes, with the descriptor @fd unless it is negative. 0 or -errno: -EAGAIN when the socket is set not to
 * wait and has no room.
 */
int privops_wire_send(int socket, const void *data, size_t len, int fd);

/*
 * Receive one packet, @size bytes at most; a longer one is -EMSGSIZE. @ret_fd: the descriptor that came along, -1 when
 * none did; when @ret_fd is NULL, or there is more than one, they are closed. Bytes, 0 for the end, or -errno, no
 * descriptor being left open then; -EMFILE: this process has no room for the one that came, which is lost.
 */
ptrdiff_t privops_wire_receive(int socket, void *buf, size_t size, int *ret_fd);
