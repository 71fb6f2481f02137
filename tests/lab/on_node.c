/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * on_node NODE COMMAND...: run a program whose memory comes from NODE as long as that has some. A preference only,
 * which the program doesn't know of: its pages may be moved to any other node.
 */
#include <errno.h>
#include <linux/mempolicy.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NODES (8 * sizeof(unsigned long))

int main(int argc, char **argv)
{
	unsigned long mask, node = argc > 2 ? strtoul(argv[1], NULL, 10) : NODES;

	if (node >= NODES) {
		fputs("usage: on_node NODE COMMAND...\n", stderr);
		return 64;
	}
	mask = 1UL << node;
	/* One more than there are bits: set_mempolicy(2), "maxnode". */
	if (syscall(SYS_set_mempolicy, MPOL_PREFERRED_MANY, &mask, NODES + 1) < 0) {
		fprintf(stderr, "on_node: set_mempolicy: %s\n", strerror(errno));
		return 1;
	}
	execvp(argv[2], argv + 2);
	fprintf(stderr, "on_node: %s: %s\n", argv[2], strerror(errno));
	return 1;
}
