/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The PMU. A timer of each CPU stands for the interrupt that a sample raises on real
 * hardware: it takes what the plugin put into the CPU's ring and hands it to perf. So
 * does every switch of tasks, so that no sample meets the task after its own.
 */
#include <linux/device.h>
#include <linux/mm.h>
#include <linux/perf_event.h>
#include <linux/sched.h>
#include <linux/sched/task_stack.h>
#include <linux/string.h>
#include <linux/tracepoint.h>

#include <asm/irq_regs.h>

#include "pghot_ibs.h"

#define PERIOD_UNIT 16ULL
#define KERNEL_BIT  63
#define LATENCY_MIN 128
#define LATENCY_MAX 2048
/*
 * A round of the timer costs the emulator far more than an interrupt costs a machine, so it comes as seldom as the
 * samples do: when about so many are to be expected. No sample is the worse for it, since those of a task are taken
 * over before another one runs; only perf sees them later. But perf that is told how long a sample takes allows few of
 * them to a tick, and then it should see them one by one.
 */
#define ROUND_SAMPLES 4
#define INTERVAL_MOST 20
/*
 * A round that took longer is followed by a rest of so many times as long, in which nothing
 * is sampled: the guest has three quarters of its time, however small the period is.
 */
#define LONG_NS     1000000ULL
#define REST_FACTOR 3
/* How often a CPU on hold looks whether it still is. */
#define HOLD_LOOK_NS 20000000ULL
/* 2 MiB */
#define HUGE_ORDER 9

DEFINE_PER_CPU(struct ibs_percpu, ibs_percpu);
struct ibs_asked ibs_asked[IBS_CPUS_MAX];
bool ibs_hold;

static struct pmu pmu;

/* ---- samples --------------------------------------------------------------------- */

/*
 * A user address is only worth something with the task that used it. The timer comes
 * later than an interrupt would, so make sure that the page behind the address is still
 * the one that was accessed.
 */
static bool is_current(const struct ibs_entry *entry, bool *huge)
{
	struct page *page;
	bool same;

	*huge = false;
	if (entry->vaddr >> KERNEL_BIT)
		return true;
	if (!current->mm || !entry->phys)
		return false;
	if (get_user_pages_fast_only(entry->vaddr & PAGE_MASK, 1, 0, &page) != 1)
		return false;
	same = page_to_pfn(page) == PHYS_PFN(entry->phys);
	*huge = folio_order(page_folio(page)) >= HUGE_ORDER;
	put_page(page);
	return same;
}

static void program(struct ibs_percpu *me, struct perf_event *event)
{
	u64 period = max(PERIOD_UNIT, event->hw.sample_period & ~(PERIOD_UNIT - 1));
	u32 mode = IBS_MODE_CYCLES;

	if (event->hw.config & IBS_CONFIG_L3_MISS_ONLY)
		mode = ibs_setup.tagged_misses ? IBS_MODE_TAGGED : IBS_MODE_MISSES;
	else if (event->hw.config & IBS_CONFIG_COUNT_OPS)
		mode = IBS_MODE_ACCESSES;
	me->wanted = event->hw.sample_period;
	me->programmed = period;
	me->factor = mode == IBS_MODE_MISSES ? ibs_setup.ops_per_miss : 1;
	WRITE_ONCE(me->channel->mode, mode);
	WRITE_ONCE(me->channel->period, max(1ULL, div_u64(period, me->factor)));
}

/* Returns true when perf wants the event throttled. */
static bool take_entry(struct ibs_percpu *me, struct perf_event *event, const struct ibs_entry *counted,
		       const struct pt_regs *regs)
{
	struct ibs_entry scaled = *counted, *entry = &scaled;
	struct hw_perf_event *hwc = &event->hw;
	struct ibs_raw raw;
	bool huge, throttle;

	scaled.period *= me->factor;
	if (!is_current(entry, &huge)) {
		me->stats.stale++;
		return false;
	}
	local64_add(entry->period, &event->count);
	if (ibs_record_filtered(event, entry)) {
		me->stats.filtered++;
		return false;
	}
	hwc->last_period = entry->period;
	ibs_record_build(&raw, entry, event, huge);
	me->stats.emitted++;
	throttle = ibs_record_emit(event, &raw, entry->ip, regs);
	/* at a fixed frequency perf has just changed the period */
	if (me->running && hwc->sample_period != me->wanted)
		program(me, event);
	return throttle;
}

/* Empties the ring; *throttle is set when perf wants it. */
static void drain(struct ibs_percpu *me, struct perf_event *event, const struct pt_regs *regs, bool *throttle)
{
	struct ibs_cpu *channel = me->channel;
	/* pairs with the plugin's release of head: entries below it are whole */
	u64 head = smp_load_acquire(&channel->head);
	u64 tail = channel->tail;
	u64 nr = head - tail;
	u64 now = ktime_get_ns();
	u64 apart = nr ? (now - me->drained_ns) / nr : 0;

	me->drained_ns = now;
	me->draining = true;
	while (tail != head) {
		struct ibs_entry entry = me->ring[tail % IBS_RING_ENTRIES];

		/* perf takes the time between calls for that between samples */
		if (event->attr.freq)
			event->hw.freq_time_stamp -= apart;
		if (*throttle)
			me->stats.throttled++;
		else
			*throttle = take_entry(me, event, &entry, regs);
		tail++;
		/* pairs with the plugin's acquire: the entry was copied */
		smp_store_release(&channel->tail, tail);
	}
	me->draining = false;
}

static void throttle_event(struct ibs_percpu *me, struct perf_event *event)
{
	me->stats.throttles++;
	me->running = false;
	event->hw.state |= PERF_HES_STOPPED;
	WRITE_ONCE(me->channel->period, 0); /* perf starts the event again at a later tick */
}

/* Hands over what is in the ring. */
static void deliver(struct ibs_percpu *me, const struct pt_regs *regs)
{
	u64 begin = ktime_get_ns(), taken, emitted = me->stats.emitted;
	bool throttle = false;

	WRITE_ONCE(me->channel->paused, 1);
	drain(me, me->event, regs, &throttle);
	if (throttle)
		throttle_event(me, me->event);
	taken = ktime_get_ns() - begin;
	me->stats.handler_ns += taken;
	if (ibs_setup.tell_time)
		ibs_record_took(me->stats.emitted - emitted, taken);
	if (taken > LONG_NS) {
		me->rest_until_ns = begin + taken + REST_FACTOR * taken;
		me->stats.rests++;
	}
	WRITE_ONCE(me->channel->paused, me->rest_until_ns > begin + taken);
}

/* Registers of the current task where it entered the kernel. */
static const struct pt_regs *entry_regs(void)
{
	return current->mm ? task_pt_regs(current) : NULL;
}

/* By the samples since the last round, those that a switch of tasks took over as well. */
static u64 next_round_ns(struct ibs_percpu *me, u64 now)
{
	u64 least = ibs_setup.interval_us * 1000ULL, most = least * INTERVAL_MOST;
	u64 nr = me->channel->tail - me->round_tail;
	u64 ns = nr ? div64_u64((now - me->round_ns) * (ibs_setup.tell_time ? 1 : ROUND_SAMPLES), nr) : most;

	me->round_tail = me->channel->tail;
	me->round_ns = now;
	return clamp(ns, least, most);
}

static enum hrtimer_restart on_timer(struct hrtimer *timer)
{
	struct ibs_percpu *me = this_cpu_ptr(&ibs_percpu);
	u64 now = ktime_get_ns();

	if (!me->event || !me->running)
		return HRTIMER_NORESTART;
	me->stats.timers++;
	if (READ_ONCE(ibs_hold)) {
		WRITE_ONCE(me->channel->paused, 1);
		hrtimer_forward_now(timer, ns_to_ktime(HOLD_LOOK_NS));
		return HRTIMER_RESTART;
	}
	if (now < me->rest_until_ns) {
		hrtimer_forward_now(timer, ns_to_ktime(me->rest_until_ns - now));
		return HRTIMER_RESTART;
	}
	deliver(me, get_irq_regs());
	if (!me->running)
		return HRTIMER_NORESTART;
	hrtimer_forward_now(timer, ns_to_ktime(next_round_ns(me, now)));
	return HRTIMER_RESTART;
}

/* Interrupts are off, current is the task that is about to go. */
static void on_switch(void *unused, bool preempt, struct task_struct *prev, struct task_struct *next,
		      unsigned int prev_state)
{
	struct ibs_percpu *me = this_cpu_ptr(&ibs_percpu);

	if (me->event && me->running && READ_ONCE(me->channel->head) != me->channel->tail)
		deliver(me, entry_regs());
}

int ibs_pmu_inject(const struct ibs_raw *raw)
{
	struct ibs_percpu *me;
	struct ibs_raw mine = *raw;
	unsigned long flags;
	int r = -ENODEV;

	local_irq_save(flags);
	me = this_cpu_ptr(&ibs_percpu);
	if (me->event && me->running) {
		me->event->hw.last_period = me->programmed;
		me->stats.injected++;
		local64_add(me->programmed, &me->event->count);
		if (ibs_record_emit(me->event, &mine, 0, entry_regs()))
			throttle_event(me, me->event);
		r = 0;
	}
	local_irq_restore(flags);
	return r;
}

/* ---- what perf calls ------------------------------------------------------------- */

static u64 config_mask(void)
{
	u64 mask = IBS_CONFIG_MAX_COUNT_LOW;

	if (ibs_setup.caps & IBS_CAP_COUNT_OPS)
		mask |= IBS_CONFIG_COUNT_OPS;
	if (ibs_setup.caps & IBS_CAP_LONG_PERIOD)
		mask |= IBS_CONFIG_MAX_COUNT_HIGH;
	if (ibs_setup.caps & IBS_CAP_ZEN4)
		mask |= IBS_CONFIG_L3_MISS_ONLY;
	return mask;
}

static int check_excludes(const struct perf_event_attr *attr)
{
	bool filter = ibs_setup.soft_filter &&
		      (attr->config2 & IBS_CONFIG2_SOFT_FILTER || ibs_setup.caps & IBS_CAP_RIP_FILTER);

	if (!ibs_setup.soft_filter)
		return 0; /* PERF_PMU_CAP_NO_EXCLUDE: perf has refused them */
	if (attr->exclude_host || attr->exclude_guest || attr->exclude_idle)
		return -EINVAL;
	if ((attr->exclude_user || attr->exclude_kernel || attr->exclude_hv) && !filter)
		return -EINVAL;
	return 0;
}

static int check_group(struct perf_event *event)
{
	struct perf_event *leader = event->group_leader;
	struct perf_event *sibling;

	if (leader == event)
		return 0;
	if (leader->pmu == event->pmu)
		return -EINVAL;
	for_each_sibling_event(sibling, leader)
	{
		if (sibling != event && sibling->pmu == event->pmu)
			return -EINVAL;
	}
	return 0;
}

static int set_period(struct perf_event *event)
{
	const u64 count_bits = IBS_CONFIG_MAX_COUNT_LOW | IBS_CONFIG_MAX_COUNT_HIGH;
	struct hw_perf_event *hwc = &event->hw;
	u64 config = event->attr.config;
	u64 period = hwc->sample_period;

	if (period) {
		if (config & count_bits)
			return -EINVAL;
		period = event->attr.freq ? ibs_setup.min_period : period & ~(PERIOD_UNIT - 1);
		if (!period && ibs_setup.min_period <= PERIOD_UNIT)
			period = PERIOD_UNIT;
	} else {
		period = (config & IBS_CONFIG_MAX_COUNT_LOW) << 4 | (config & IBS_CONFIG_MAX_COUNT_HIGH);
		event->attr.sample_period = period;
	}
	if (!period || period < ibs_setup.min_period)
		return -EINVAL;
	hwc->sample_period = period;
	hwc->last_period = period;
	local64_set(&hwc->period_left, period);
	hwc->config = config & ~count_bits;
	return 0;
}

static int init_event(struct perf_event *event)
{
	const struct perf_event_attr *attr = &event->attr;
	u64 threshold = attr->config1 & IBS_CONFIG1_LATENCY;
	int r;

	if (has_branch_stack(event))
		return -EOPNOTSUPP;
	if (attr->config & ~config_mask())
		return -EINVAL;
	r = check_excludes(attr);
	if (!r)
		r = check_group(event);
	if (!r)
		r = set_period(event);
	if (r)
		return r;
	if (ibs_setup.caps & IBS_CAP_LATENCY_FILTER && threshold) {
		if (threshold < LATENCY_MIN || threshold > LATENCY_MAX)
			return -EINVAL;
		if (ibs_setup.caps & IBS_CAP_ZEN4)
			event->hw.config |= IBS_CONFIG_L3_MISS_ONLY;
	}
	event->hw.config_base = ibs_setup.wipe == IBS_WIPE_OPENER && perf_allow_kernel() != 0;
	return 0;
}

static void remember(const struct perf_event *event, int result)
{
	const struct perf_event_attr *attr = &event->attr;
	struct ibs_asked *asked;

	if (event->cpu < 0 || event->cpu >= IBS_CPUS_MAX)
		return;
	asked = &ibs_asked[event->cpu];
	asked->opens++;
	asked->config = attr->config;
	asked->config1 = attr->config1;
	asked->config2 = attr->config2;
	asked->sample_type = attr->sample_type;
	asked->period = attr->freq ? 0 : attr->sample_period;
	asked->freq = attr->freq ? attr->sample_freq : 0;
	asked->exclude = attr->exclude_user | attr->exclude_kernel << 1 | attr->exclude_hv << 2 |
			 attr->exclude_idle << 3 | attr->exclude_host << 4 | attr->exclude_guest << 5;
	asked->result = result;
}

static int pmu_event_init(struct perf_event *event)
{
	int r;

	if (event->attr.type != pmu.type)
		return -ENOENT;
	r = init_event(event);
	remember(event, r);
	return r;
}

static void pmu_start(struct perf_event *event, int flags)
{
	struct ibs_percpu *me = this_cpu_ptr(&ibs_percpu);

	/*
	 * It runs already when perf asked for a throttle while the event was being stopped
	 * and started for another reason: the next tick then starts it once more.
	 */
	if (!(event->hw.state & PERF_HES_STOPPED))
		return;
	event->hw.state = 0;
	if (me->draining)
		return; /* perf changed the period of a fixed frequency; take_entry() sees to it */
	/* what is left belongs to the time before */
	smp_store_release(&me->channel->tail, READ_ONCE(me->channel->head));
	me->running = true;
	me->drained_ns = ktime_get_ns();
	me->round_ns = me->drained_ns;
	me->round_tail = me->channel->head;
	program(me, event);
	/* the callback of a timer that is being throttled restarts nothing by itself */
	hrtimer_start(&me->timer, ns_to_ktime(ibs_setup.interval_us * 1000ULL), HRTIMER_MODE_REL_PINNED_HARD);
	perf_event_update_userpage(event);
}

static void pmu_stop(struct perf_event *event, int flags)
{
	struct ibs_percpu *me = this_cpu_ptr(&ibs_percpu);
	bool throttle = false;

	if (me->running && !me->draining) {
		hrtimer_try_to_cancel(&me->timer);
		drain(me, event, entry_regs(), &throttle);
		me->running = false;
		WRITE_ONCE(me->channel->period, 0);
	}
	event->hw.state |= PERF_HES_STOPPED | PERF_HES_UPTODATE;
}

static int pmu_add(struct perf_event *event, int flags)
{
	struct ibs_percpu *me = this_cpu_ptr(&ibs_percpu);

	if (!me->channel)
		return -ENODEV;
	if (me->event)
		return -ENOSPC;
	me->event = event;
	event->hw.state = PERF_HES_UPTODATE | PERF_HES_STOPPED;
	if (flags & PERF_EF_START)
		pmu_start(event, PERF_EF_RELOAD);
	return 0;
}

static void pmu_del(struct perf_event *event, int flags)
{
	struct ibs_percpu *me = this_cpu_ptr(&ibs_percpu);

	pmu_stop(event, PERF_EF_UPDATE);
	me->event = NULL;
	perf_event_update_userpage(event);
}

static void pmu_read(struct perf_event *event)
{
}

static int pmu_check_period(struct perf_event *event, u64 value)
{
	if (!ibs_setup.strict_period || event->attr.freq)
		return 0;
	return value % PERIOD_UNIT || value < ibs_setup.min_period ? -EINVAL : 0;
}

/* ---- sysfs ----------------------------------------------------------------------- */

struct ibs_file {
	struct device_attribute attr;
	const char *text;
	u32 cap;          /* that has to be there, 0: none */
	bool soft_filter; /* only with the software filter */
};

static ssize_t show_file(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%s\n", container_of(attr, struct ibs_file, attr)->text);
}

#define IBS_FILE(file, content, capability, filter)                                                                    \
	{                                                                                                              \
		.attr = __ATTR(file, 0444, show_file, NULL), .text = content, .cap = capability, .soft_filter = filter \
	}

static struct ibs_file format_files[] = {
	IBS_FILE(cnt_ctl, "config:19", IBS_CAP_COUNT_OPS, false),
	IBS_FILE(l3missonly, "config:16", IBS_CAP_ZEN4, false),
	IBS_FILE(swfilt, "config2:0", 0, true),
	IBS_FILE(ldlat, "config1:0-11", IBS_CAP_LATENCY_FILTER, false),
	IBS_FILE(strmst, "config1:12", IBS_CAP_STREAMING_STORES, false),
};

static struct ibs_file caps_files[] = {
	IBS_FILE(zen4_ibs_extensions, "1", IBS_CAP_ZEN4, false),
	IBS_FILE(ldlat, "1", IBS_CAP_LATENCY_FILTER, false),
	IBS_FILE(dtlb_pgsize, "1", IBS_CAP_DTLB_PGSIZE, false),
	IBS_FILE(strmst, "1", IBS_CAP_STREAMING_STORES, false),
	IBS_FILE(rmtsocket, "1", IBS_CAP_STREAMING_STORES, false),
};

static struct attribute *format_attrs[ARRAY_SIZE(format_files) + 1];
static struct attribute *caps_attrs[ARRAY_SIZE(caps_files) + 1];
static const struct attribute_group format_group = { .name = "format", .attrs = format_attrs };
static const struct attribute_group caps_group = { .name = "caps", .attrs = caps_attrs };
static const struct attribute_group *groups[] = { &format_group, &caps_group, NULL };

static void choose_files(struct ibs_file *files, size_t nr, struct attribute **res)
{
	size_t i;

	for (i = 0; i < nr; i++) {
		if (files[i].cap & ~ibs_setup.caps || (files[i].soft_filter && !ibs_setup.soft_filter))
			continue;
		sysfs_attr_init(&files[i].attr.attr);
		*res++ = &files[i].attr.attr;
	}
}

static struct pmu pmu = {
	.task_ctx_nr = perf_hw_context,
	.attr_groups = groups,
	.event_init = pmu_event_init,
	.add = pmu_add,
	.del = pmu_del,
	.start = pmu_start,
	.stop = pmu_stop,
	.read = pmu_read,
	.check_period = pmu_check_period,
};

/* The tracepoint isn't exported by its name, only in the list of all of them. */
static struct tracepoint *switch_point;

static void find_switch_point(struct tracepoint *point, void *unused)
{
	if (!strcmp(point->name, "sched_switch"))
		switch_point = point;
}

int ibs_pmu_register(void)
{
	int cpu, r;

	for_each_possible_cpu(cpu)
	{
		struct hrtimer *timer = &per_cpu_ptr(&ibs_percpu, cpu)->timer;

		hrtimer_init(timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL_PINNED_HARD);
		timer->function = on_timer;
	}
	for_each_kernel_tracepoint(find_switch_point, NULL);
	if (!switch_point)
		return -ENOENT;
	r = tracepoint_probe_register(switch_point, on_switch, NULL);
	if (r)
		return r;
	choose_files(format_files, ARRAY_SIZE(format_files), format_attrs);
	choose_files(caps_files, ARRAY_SIZE(caps_files), caps_attrs);
	pmu.module = THIS_MODULE;
	if (!ibs_setup.soft_filter)
		pmu.capabilities = PERF_PMU_CAP_NO_EXCLUDE;
	r = perf_pmu_register(&pmu, ibs_setup.name, -1);
	if (r)
		tracepoint_probe_unregister(switch_point, on_switch, NULL);
	return r;
}

void ibs_pmu_unregister(void)
{
	perf_pmu_unregister(&pmu);
	tracepoint_probe_unregister(switch_point, on_switch, NULL);
	tracepoint_synchronize_unregister();
}
