/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "message.h"

#define MINUTE_NS (60 * NSEC_PER_SEC)

const struct message_info message_info[MESSAGE_MAX] = {
#define MESSAGE(id, event_, uuid_, level_, per_minute_, subject_, text_) \
	[MESSAGE_##id] = { event_, uuid_, level_, per_minute_, subject_, text_ },
#include "messages.def"
#undef MESSAGE
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct message_limit limits[MESSAGE_MAX]; /* under the lock */

void message_tell_held(void)
{
	for (int i = 0; i < MESSAGE_MAX; i++) {
		struct log_field id = { "MESSAGE_ID", message_info[i].uuid };
		uint64_t held;

		pthread_mutex_lock(&lock);
		held = limits[i].held;
		limits[i].held = 0;
		pthread_mutex_unlock(&lock);
		if (held)
			log_fields(message_info[i].level, &id, 1, "%s: %llu more of these were not logged",
				   message_info[i].subject, (unsigned long long)held);
	}
}

int message_may(struct message_limit *limit, unsigned int per_minute, uint64_t now_ns, uint64_t *ret_held)
{
	*ret_held = 0;
	if (limit->minute_ns == 0 || now_ns - limit->minute_ns >= MINUTE_NS) {
		limit->minute_ns = now_ns;
		limit->n = 0;
	}
	if (limit->n >= per_minute) {
		limit->held++;
		return 0;
	}
	limit->n++;
	*ret_held = limit->held;
	limit->held = 0;
	return 1;
}

void message(enum message_id id, const struct log_field *fields, size_t n_fields, const char *fmt, ...)
{
	const struct message_info *info = &message_info[id];
	struct log_field all[LOG_FIELDS_MAX];
	char text[LOG_LINE_MAX], held_text[64] = "";
	int saved_errno = errno, may;
	uint64_t held;
	va_list ap;

	pthread_mutex_lock(&lock);
	may = message_may(&limits[id], info->per_minute, clock_now_ns(&clock_monotonic), &held);
	pthread_mutex_unlock(&lock);
	if (!may)
		return;
	if (n_fields > MESSAGE_FIELDS_MAX)
		n_fields = MESSAGE_FIELDS_MAX;
	all[0] = (struct log_field){ "MESSAGE_ID", info->uuid };
	if (n_fields)
		memcpy(all + 1, fields, n_fields * sizeof(*fields));
	if (held)
		snprintf(held_text, sizeof(held_text), " (%llu more like it were not logged)",
			 (unsigned long long)held);
	errno = saved_errno; /* for %m */
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	log_fields(info->level, all, n_fields + 1, "%s%s", text, held_text);
	errno = saved_errno;
}
