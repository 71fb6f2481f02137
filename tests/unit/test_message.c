/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <ctype.h>
#include <string.h>

#include "clock.h"
#include "harness.h"
#include "message.h"

static void table_is_sound(void)
{
	for (int i = 0; i < MESSAGE_MAX; i++) {
		const struct message_info *info = &message_info[i];

		CU_ASSERT_EQUAL(strlen(info->uuid), 32);
		for (const char *p = info->uuid; *p; p++)
			CU_ASSERT(isdigit((unsigned char)*p) || (*p >= 'a' && *p <= 'f'));
		/* What systemd wants of an id: UUID of version 4, sd_id128_randomize(3). */
		CU_ASSERT_EQUAL(info->uuid[12], '4');
		CU_ASSERT(strchr("89ab", info->uuid[16]) != NULL);
		CU_ASSERT(strlen(info->event) >= 2 && strlen(info->event) <= 8);
		CU_ASSERT(info->per_minute > 0 && info->level <= LOG_INFO);
		CU_ASSERT(*info->subject && !strchr(info->subject, '\n'));
		for (int j = 0; j < i; j++)
			CU_ASSERT_STRING_NOT_EQUAL(info->uuid, message_info[j].uuid);
	}
}

static void too_many_are_counted(void)
{
	struct message_limit limit = { 0 };
	uint64_t now_ns = 5 * NSEC_PER_SEC, held;

	for (int i = 0; i < 3; i++)
		CU_ASSERT(message_may(&limit, 3, now_ns + (uint64_t)i, &held) && held == 0);
	for (int i = 0; i < 100; i++)
		CU_ASSERT_FALSE(message_may(&limit, 3, now_ns + 59 * NSEC_PER_SEC, &held));
	/* The next minute tells how many weren't, once. */
	CU_ASSERT(message_may(&limit, 3, now_ns + 60 * NSEC_PER_SEC, &held));
	CU_ASSERT_EQUAL(held, 100);
	CU_ASSERT(message_may(&limit, 3, now_ns + 60 * NSEC_PER_SEC, &held));
	CU_ASSERT_EQUAL(held, 0);
}

TEST_MAIN(message, TEST(table_is_sound), TEST(too_many_are_counted))
