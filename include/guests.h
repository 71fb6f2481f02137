/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * guests: the virtual machines that run under KVM here. What a guest touches can't be told to pages of its process yet,
 * so an operator should know how much memory that is.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "fsroot.h"

#define GUESTS_TEXT_MAX 8192

struct guest {
	uint32_t pid;   /* of the process that has the machine, QEMU for one */
	char name[17];  /* as /proc/PID/comm has it; "" when it just ended */
	uint64_t bytes; /* resident */
};

/*
 * The guests into @ret, those with most memory first, at most @max of them. Returns how many there are, which may be
 * more; 0 also where the folder that KVM keeps in debugfs can't be read. A process with several machines counts once.
 * Source: kvm_create_vm_debugfs(), virt/kvm/kvm_main.c: a folder "PID-FD" for each. Any thread.
 */
size_t guests_read(const struct fsroot *root, struct guest *ret, size_t max);

/*
 * The names of those folders into @buf, a line each, as many as there is room for. Returns how many there are, or
 * -errno. For who may read debugfs, which is root alone: the others ask, see fsroot_ask(). Any thread.
 */
int guests_list(const struct fsroot *root, char *buf, size_t size);
