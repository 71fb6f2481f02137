/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * manage: whose memory may move, and which of it. One thread looks at processes (owners_facts.h, owners_map.h, the
 * configuration's rules) and leaves what it found with the owner; migrators read that, and ask for a look at what is
 * not known. What is not known stays where it is for now.
 *
 * Writers     the manage thread (verdicts, snapshots); migrators (the wish to be looked at)
 * Readers     migrators, inside a read section
 * Protection  RCU for the snapshots; atomics for the words
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fsroot.h"

struct clock;
struct config;
struct manage;
struct manage_fast;
struct owner;
struct owners;
struct rules;
struct topology_store;

/* A process that is asked about is looked at again after this. */
#define MANAGE_FACTS_NS (10ULL * 1000000000ULL)
/* Its memory no sooner than after this, and never for more than a hundredth of the time. */
#define MANAGE_MAP_NS        (30ULL * 1000000000ULL)
#define MANAGE_MAP_COST_MULT 100
/* What can't be told is tried again after this. */
#define MANAGE_RETRY_NS (1ULL * 1000000000ULL)

enum manage_verdict {
	MANAGE_WAIT, /* not known yet: it stays for now */
	MANAGE_MOVE,
	MANAGE_OBSERVE, /* count what would move */
	MANAGE_LEAVE,
};

/* Why memory is left alone. */
enum manage_reason {
	LEFT_RULE,      /* a rule of the configuration, or manage.default */
	LEFT_SMALL,     /* min_rss_mib of a rule */
	LEFT_OPTED_OUT, /* the control group says so itself */
	LEFT_PINNED,    /* the process has pinned memory */
	LEFT_DEVICE,    /* it has a device open that reaches memory by itself */
	LEFT_REAL_TIME, /* it has a real-time task */
	LEFT_POLICY,    /* bound by its program's own policy */
	LEFT_HUGETLB,
	LEFT_LOCKED,
	LEFT_SHARED,
	LEFT_FILE,
	LEFT_FAST_MAX,      /* the programs of its rule have fast_max_percent of the fast tier */
	LEFT_PING_PONG,     /* its pages go up and down: a guard lets its process rest */
	LEFT_PRESSURE,      /* its control group is short of memory */
	LEFT_NOT_LOOKED_AT, /* not yet */
	LEFT_MAX,
};

/* As in left_alone of status --json. */
extern const char *const manage_reason_name[LEFT_MAX];

struct manage_answer {
	enum manage_verdict verdict;
	enum manage_reason reason; /* of MANAGE_LEAVE and MANAGE_WAIT */
	bool shared;               /* pages that other processes map too may move with it */
	bool hugetlb;              /* the page is one of a hugetlb pool */
	int target_nid;            /* the rule's; -1: none */
	int rule;                  /* index of the rule that holds; -1: none */
	uint32_t uid;              /* effective user, where anything is known */
};

/*
 * @proc: the root that has proc/, sys/ and etc/; its descriptor is borrowed. @topology: which nodes are fast. NULL: no
 * memory.
 */
struct manage *manage_new(struct owners *owners, const struct fsroot *proc, const struct clock *clock,
			  const struct topology_store *topology);
void manage_free(struct manage *manage);

/* What the programs of rules have of the fast tier; of @manage, as long as it lives. Any thread. */
struct manage_fast *manage_get_fast(const struct manage *manage);

/*
 * May the page of @owner at @addr move? No system call. Asks for a look at the process where one is due. Inside a read
 * section; migrator threads. @manage NULL: yes, all of it (for tests and models of other parts).
 */
void manage_ask(struct manage *manage, struct owner *owner, uint64_t addr, uint64_t now_ns, struct manage_answer *ret);

/*
 * @answer says that a page may move: is there a place for its @page_bytes in what its rule in @rules may have of
 * @tier_bytes, the fast tier? When there is none, @answer says so. @manage may be NULL. Any thread.
 */
void manage_ask_share(const struct manage *manage, const struct rules *rules, uint64_t tier_bytes, uint64_t page_bytes,
		      struct manage_answer *answer);

/*
 * @config is the one that holds now: from here on, until manage_step() has taken its rules, nothing is known of any
 * process. Any thread; migrators, at the start of a pass. @manage may be NULL.
 */
void manage_expect(struct manage *manage, const struct config *config);

/* Index of the rule that holds for @owner; -1: none, or not known yet, and then a look is asked for. As manage_ask().
 */
int manage_rule(struct manage *manage, struct owner *owner);

/*
 * What was found of the process as a whole: no kind of memory, and no look is asked for. Inside a read section; any
 * thread.
 */
void manage_known(const struct owner *owner, struct manage_answer *ret);

/*
 * Look at processes that were asked for, for up to @budget_ns, which one large process may exceed; and as long at what
 * programs have of the fast tier, where a rule bounds it. Returns how many of those asked for were looked at. @stop
 * (relaxed, may be NULL): true ends it early. Blocks; its own thread, registered with rcu, outside a read section.
 */
size_t manage_step(struct manage *manage, const struct config *config, uint64_t budget_ns, const _Atomic bool *stop);

/* true while a file of a process is being read, which may take seconds for a large one. Any thread. */
bool manage_is_reading(const struct manage *manage);
