/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The file shared with the emulator's plugin: finding it, and telling the plugin where
 * the guest's memory is. The plugin sees addresses of the emulator's own, which differ
 * from the guest's by a constant for each block of memory. A read that both sides know
 * of gives the constant; done once for every memory section, it covers all of memory.
 */
#include <linux/io.h>
#include <linux/memory_hotplug.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/uaccess.h>

#include "pghot_ibs.h"

#define IVSHMEM_VENDOR 0x1af4
#define IVSHMEM_DEVICE 0x1110
#define IVSHMEM_BAR    2
/* Pages tried in a section until one can be read. */
#define SECTION_TRIES 256

struct ibs_shared *ibs_shared;
static struct pci_dev *device;
static DEFINE_MUTEX(touch_lock);

/* Returns 0 when the plugin saw the read, with the reading CPU's number in ibs_shared. */
static int touch(const u8 *at, u64 first, u64 end, int node)
{
	u32 seen = READ_ONCE(ibs_shared->touch_seen);
	u8 byte;

	ibs_shared->touch_phys = __pa(at);
	ibs_shared->touch_first = first;
	ibs_shared->touch_end = end;
	ibs_shared->touch_node = node;
	/* the plugin looks at the rest when it sees a read at this address */
	smp_store_release(&ibs_shared->touch_vaddr, (u64)at);
	if (copy_from_kernel_nofault(&byte, at, 1)) {
		WRITE_ONCE(ibs_shared->touch_vaddr, 0);
		return -EFAULT;
	}
	/* pairs with the plugin's release: its answer is whole */
	if (smp_load_acquire(&ibs_shared->touch_seen) == seen) {
		WRITE_ONCE(ibs_shared->touch_vaddr, 0);
		return -ENXIO;
	}
	return 0;
}

static int learn_section(unsigned long first, unsigned long end, int node)
{
	unsigned long step = max(1UL, (end - first) / SECTION_TRIES);
	unsigned long pfn;

	for (pfn = first; pfn < end; pfn += step) {
		struct page *page = pfn_to_online_page(pfn);
		int r;

		if (!page || page_to_nid(page) != node)
			continue;
		/* not the first byte, so that it isn't mistaken for a copy of the page */
		r = touch((u8 *)page_address(page) + 129, PFN_PHYS(first), PFN_PHYS(end), node);
		if (r != -EFAULT)
			return r;
	}
	return 0; /* a hole */
}

static int learn_memory(void)
{
	int node, r;

	for_each_online_node(node)
	{
		unsigned long end = node_end_pfn(node);
		unsigned long pfn = node_start_pfn(node);

		while (pfn < end) {
			unsigned long next = min(end, ALIGN(pfn + 1, PAGES_PER_SECTION));

			r = learn_section(pfn, next, node);
			if (r)
				return r;
			pfn = next;
			cond_resched();
		}
	}
	return 0;
}

int ibs_channel_join(void)
{
	struct ibs_percpu *me = this_cpu_ptr(&ibs_percpu);
	static u8 word[IBS_CPUS_MAX][64];
	u32 cpu;
	int r;

	mutex_lock(&touch_lock);
	/* static data isn't in the linear mapping: the address matters here, not where it is */
	r = touch(&word[smp_processor_id() % IBS_CPUS_MAX][17], 0, 0, 0);
	cpu = ibs_shared->touch_cpu;
	mutex_unlock(&touch_lock);
	if (r || cpu >= IBS_CPUS_MAX)
		return -ENXIO;
	me->channel = &ibs_shared->cpu[cpu];
	me->ring = (struct ibs_entry *)((char *)ibs_shared + IBS_RINGS_OFFSET) + (size_t)cpu * IBS_RING_ENTRIES;
	return 0;
}

int ibs_channel_open(void)
{
	int r;

	device = pci_get_device(IVSHMEM_VENDOR, IVSHMEM_DEVICE, NULL);
	if (!device)
		return -ENODEV;
	r = pci_enable_device(device);
	if (r)
		goto put;
	r = -ENODEV;
	if (pci_resource_len(device, IVSHMEM_BAR) < IBS_SHARED_BYTES)
		goto disable;
	ibs_shared = memremap(pci_resource_start(device, IVSHMEM_BAR), IBS_SHARED_BYTES, MEMREMAP_WB);
	if (!ibs_shared)
		goto disable;
	if (ibs_shared->magic != IBS_SHARED_MAGIC || ibs_shared->version != IBS_SHARED_VERSION) {
		pr_err("pghot_ibs: no plugin of this version is behind the shared memory\n");
		goto unmap;
	}
	r = learn_memory();
	if (r) {
		pr_err("pghot_ibs: the plugin doesn't see this machine's accesses\n");
		goto unmap;
	}
	return 0;
unmap:
	memunmap(ibs_shared);
disable:
	pci_disable_device(device);
put:
	pci_dev_put(device);
	return r;
}

void ibs_channel_close(void)
{
	memunmap(ibs_shared);
	pci_disable_device(device);
	pci_dev_put(device);
}
