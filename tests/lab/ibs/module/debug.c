/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What tests look at: debugfs pghot_ibs/ with truth, asked, stats, setup, hold and pages;
 * and /dev/pghot_ibs_raw, where they write register values.
 */
#include <linux/debugfs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/seq_file.h>
#include <linux/uaccess.h>

#include "pghot_ibs.h"

static struct dentry *folder;
static struct debugfs_blob_wrapper pages_blob;

static int truth_show(struct seq_file *m, void *unused)
{
	u32 i;

	for (i = 0; i <= IBS_NODES_MAX; i++) {
		const struct ibs_counts *n = &ibs_shared->node[i];

		if (i < IBS_NODES_MAX && !node_online(i))
			continue;
		if (i < IBS_NODES_MAX)
			seq_printf(m, "node=%u delay_percent=%u", i, ibs_shared->delay[i]);
		else
			seq_puts(m, "node=unknown");
		seq_printf(m, " user_loads=%llu user_stores=%llu user_misses=%llu", n->loads[0], n->stores[0],
			   n->misses[0]);
		seq_printf(m, " kernel_loads=%llu kernel_stores=%llu kernel_misses=%llu\n", n->loads[1], n->stores[1],
			   n->misses[1]);
	}
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(truth);

static int asked_show(struct seq_file *m, void *unused)
{
	int cpu;

	for_each_possible_cpu(cpu)
	{
		const struct ibs_percpu *per = per_cpu_ptr(&ibs_percpu, cpu);
		const struct ibs_asked *a = &ibs_asked[cpu % IBS_CPUS_MAX];

		seq_printf(m, "cpu=%d opens=%llu config=%#llx config1=%#llx config2=%#llx", cpu, a->opens, a->config,
			   a->config1, a->config2);
		seq_printf(m, " sample_type=%#llx period=%llu freq=%llu exclude=%#x result=%d", a->sample_type,
			   a->period, a->freq, a->exclude, a->result);
		seq_printf(m, " active=%d programmed=%llu mode=%u\n", per->event && per->running, per->programmed,
			   per->channel ? per->channel->mode : 0);
	}
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(asked);

static int stats_show(struct seq_file *m, void *unused)
{
	int cpu;

	for_each_possible_cpu(cpu)
	{
		const struct ibs_percpu *per = per_cpu_ptr(&ibs_percpu, cpu);
		const struct ibs_stats *s = &per->stats;

		if (!per->channel)
			continue;
		seq_printf(m, "cpu=%d sampled=%llu ring_full=%llu emitted=%llu stale=%llu filtered=%llu", cpu,
			   per->channel->head, per->channel->dropped, s->emitted, s->stale, s->filtered);
		seq_printf(m,
			   " throttles=%llu throttled=%llu rests=%llu timers=%llu injected=%llu handler_us=%llu "
			   "busy_kcycles=%llu gap_kcycles=%llu gaps=%llu\n",
			   s->throttles, s->throttled, s->rests, s->timers, s->injected, s->handler_ns / 1000,
			   per->channel->busy / 1000, per->channel->gap_cycles / 1000, per->channel->gaps);
	}
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(stats);

static int setup_show(struct seq_file *m, void *unused)
{
	seq_printf(m, "name=%s caps=%#x min_period=%llu strict_period=%d swfilt=%d wipe_phys=%d tagged=%d",
		   ibs_setup.name ?: "none", ibs_setup.caps, ibs_setup.min_period, ibs_setup.strict_period,
		   ibs_setup.soft_filter, ibs_setup.wipe, ibs_setup.tagged_misses);
	seq_printf(m,
		   " far_source=%u far_remote=%d interval_us=%u l3_sets=%u l3_ways=%u pages=%u ranges=%u "
		   "miss_gap=%llu\n",
		   ibs_setup.far_source, ibs_setup.far_remote, ibs_setup.interval_us, ibs_shared->l3_sets,
		   ibs_shared->l3_ways, ibs_shared->nr_pages, ibs_shared->nr_ranges, ibs_shared->miss_gap / 1024);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(setup);

static ssize_t raw_write(struct file *file, const char __user *buf, size_t count, loff_t *pos)
{
	size_t done = 0;

	if (!count || count % sizeof(struct ibs_raw))
		return -EINVAL;
	while (done < count) {
		struct ibs_raw raw;
		int r = 0;

		if (copy_from_user(&raw, buf + done, sizeof(raw)))
			r = -EFAULT;
		else if (!raw.nr || raw.nr > IBS_RAW_REGS_MAX)
			r = -EINVAL;
		if (!r)
			r = ibs_pmu_inject(&raw);
		if (r)
			return done ? (ssize_t)done : r;
		done += sizeof(raw);
	}
	return (ssize_t)done;
}

static const struct file_operations raw_fops = {
	.owner = THIS_MODULE,
	.write = raw_write,
};

static struct miscdevice raw_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "pghot_ibs_raw",
	.fops = &raw_fops,
	.mode = 0600,
};

int ibs_debug_register(void)
{
	int r = misc_register(&raw_device);

	if (r)
		return r;
	folder = debugfs_create_dir("pghot_ibs", NULL);
	debugfs_create_file("truth", 0444, folder, NULL, &truth_fops);
	debugfs_create_file("asked", 0444, folder, NULL, &asked_fops);
	debugfs_create_file("stats", 0444, folder, NULL, &stats_fops);
	debugfs_create_file("setup", 0444, folder, NULL, &setup_fops);
	debugfs_create_bool("hold", 0600, folder, &ibs_hold);
	if (ibs_shared->nr_pages) {
		pages_blob.data = (char *)ibs_shared + IBS_PAGES_OFFSET;
		pages_blob.size = ibs_shared->nr_pages * sizeof(struct ibs_page);
		debugfs_create_blob("pages", 0444, folder, &pages_blob);
	}
	return 0;
}

void ibs_debug_unregister(void)
{
	debugfs_remove_recursive(folder);
	misc_deregister(&raw_device);
}
