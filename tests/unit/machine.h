/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * machine: a machine in a temporary folder, built from a file of tests/unit/machines (see README there) or by hand.
 * Not for use with real paths: every path is relative to the machine's folder.
 */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fsroot.h"

struct machine {
	char dir[64];
	struct fsroot root;
};

#define MACHINE_UNUSED __attribute__((unused))

/* The folder with the dumps: beside this file, or where the environment says. */
static inline const char *machine_folder(char buf[PATH_MAX])
{
	const char *env = getenv("TEST_MACHINES"), *slash = strrchr(__FILE__, '/');

	if (env)
		return env;
	snprintf(buf, PATH_MAX, "%.*smachines", slash ? (int)(slash - __FILE__ + 1) : 0, __FILE__);
	return buf;
}

static void machine_path(const struct machine *m, char buf[PATH_MAX], const char *path)
{
	if (snprintf(buf, PATH_MAX, "%s/%s", m->dir, path) >= PATH_MAX)
		abort();
}

/* Not the test's fault: no room, or a cleaner of temporary files. It must not look like a wrong result. */
MACHINE_UNUSED __attribute__((noreturn)) static void machine_broken(const struct machine *m, const char *path)
{
	fprintf(stderr, "%s/%s: %s\n", m->dir, path, strerror(errno));
	abort();
}

/* The folders on the way to @path. */
static void machine_parents(const char *path)
{
	char buf[PATH_MAX];

	snprintf(buf, sizeof(buf), "%s", path);
	for (char *p = strchr(buf + 1, '/'); p; p = strchr(p + 1, '/')) {
		*p = '\0';
		if (mkdir(buf, 0755) < 0 && errno != EEXIST)
			abort();
		*p = '/';
	}
}

MACHINE_UNUSED static void machine_new(struct machine *m)
{
	const char *tmp = getenv("TMPDIR");

	/* Thousands of small files: in memory where that is possible. */
	if (!tmp || strlen(tmp) > 40)
		tmp = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
	/* Other users read it, too, as they do /proc and /sys. */
	umask(022);
	snprintf(m->dir, sizeof(m->dir), "%.40s/machine-XXXXXX", tmp);
	if (!mkdtemp(m->dir) || fsroot_open(&m->root, m->dir) < 0)
		abort();
}

/* Make a file with @len bytes, as they are. */
MACHINE_UNUSED static void machine_put_bytes(const struct machine *m, const char *path, const void *data, size_t len)
{
	int flags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, fd;
	char buf[PATH_MAX];
	FILE *f;

	/* Through the descriptor that the daemon's code reads through: a folder that somebody took away must not be
	 * made anew under its name, where nobody looks.
	 */
	path += strspn(path, "/");
	fd = openat(m->root.fd, path, flags, 0644);
	if (fd < 0) {
		machine_path(m, buf, path);
		machine_parents(buf);
		fd = openat(m->root.fd, path, flags, 0644);
	}
	f = fd < 0 ? NULL : fdopen(fd, "w");
	if (!f || fwrite(data, 1, len, f) != len || fclose(f) != 0)
		machine_broken(m, path);
}

/* Make a file with this text and a newline. */
__attribute__((format(printf, 3, 4))) MACHINE_UNUSED static void machine_put(const struct machine *m, const char *path,
									     const char *fmt, ...)
{
	char *text;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&text, fmt, ap);
	va_end(ap);
	if (n < 0)
		abort();
	text[n] = '\n'; /* over the NUL */
	machine_put_bytes(m, path, text, (size_t)n + 1);
	free(text);
}

MACHINE_UNUSED static void machine_link(const struct machine *m, const char *path, const char *target)
{
	char buf[PATH_MAX];

	machine_path(m, buf, path);
	if (symlink(target, buf) == 0)
		return;
	machine_parents(buf);
	unlink(buf);
	if (symlink(target, buf) < 0)
		abort();
}

static int machine_remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

/* Remove a file, link or folder with all in it; fine if it isn't there. */
MACHINE_UNUSED static void machine_remove(const struct machine *m, const char *path)
{
	char buf[PATH_MAX];

	machine_path(m, buf, path);
	if (nftw(buf, machine_remove_one, 16, FTW_DEPTH | FTW_PHYS) != 0 && errno != ENOENT)
		machine_broken(m, path);
}

MACHINE_UNUSED static void machine_free(struct machine *m)
{
	fsroot_close(&m->root);
	nftw(m->dir, machine_remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* One memory block, linked both ways to @nid. */
MACHINE_UNUSED static void machine_block(const struct machine *m, unsigned long long block, int nid, const char *state)
{
	char path[256], target[64];

	snprintf(path, sizeof(path), "sys/devices/system/memory/memory%llu/state", block);
	machine_put(m, path, "%s", state);
	snprintf(path, sizeof(path), "sys/devices/system/memory/memory%llu/node%d", block, nid);
	snprintf(target, sizeof(target), "../../node/node%d", nid);
	machine_link(m, path, target);
	snprintf(path, sizeof(path), "sys/devices/system/node/node%d/memory%llu", nid, block);
	snprintf(target, sizeof(target), "../../memory/memory%llu", block);
	machine_link(m, path, target);
}

#define MACHINE_BLOCK_BYTES (128ULL << 20)

/* What the lists of nodes say of nodes 0 to 3, all with memory, in blocks of MACHINE_BLOCK_BYTES. */
MACHINE_UNUSED static void machine_four_nodes(const struct machine *m, const char *has_cpu)
{
	machine_put(m, "sys/devices/system/node/online", "0-3");
	machine_put(m, "sys/devices/system/node/has_cpu", "%s", has_cpu);
	machine_put(m, "sys/devices/system/node/has_memory", "0-3");
	machine_put(m, "sys/devices/system/memory/block_size_bytes", "%llx", MACHINE_BLOCK_BYTES);
}

/* A node with its @bytes of memory from @nid times as much on. */
MACHINE_UNUSED static void machine_node(const struct machine *m, int nid, unsigned long long bytes, const char *cpus,
					const char *distance)
{
	unsigned long long blocks = bytes / MACHINE_BLOCK_BYTES;
	char path[128];

	snprintf(path, sizeof(path), "sys/devices/system/node/node%d/meminfo", nid);
	machine_put(m, path, "Node %d MemTotal:       %llu kB", nid, bytes >> 10);
	snprintf(path, sizeof(path), "sys/devices/system/node/node%d/distance", nid);
	machine_put(m, path, "%s", distance);
	snprintf(path, sizeof(path), "sys/devices/system/node/node%d/cpulist", nid);
	machine_put(m, path, "%s", cpus);
	for (unsigned long long block = 0; block < blocks; block++)
		machine_block(m, (unsigned long long)nid * blocks + block, nid, "online");
}

/* A process: state as in /proc/PID/stat, @flags its kernel flags. */
MACHINE_UNUSED static void machine_process(const struct machine *m, unsigned int pid, const char *comm, char state,
					   unsigned int flags, unsigned long long start_ticks)
{
	char path[64];

	snprintf(path, sizeof(path), "proc/%u/stat", pid);
	machine_put(m, path,
		    "%u (%s) %c 1 1 1 0 -1 %u 1 0 0 0 1 1 0 0 20 0 1 0 %llu 1000000 100 18446744073709551615 1 1 0 0 0 "
		    "0 0 0 0 0 0 0 17 0 0 0 0 0 0 0 0 0 0 0 0 0 0",
		    pid, comm, state, flags, start_ticks);
}

MACHINE_UNUSED static void machine_end_process(const struct machine *m, unsigned int pid)
{
	char path[64];

	snprintf(path, sizeof(path), "proc/%u", pid);
	machine_remove(m, path);
}

/* Add what the dump @f says. 0, or the number of the line that is none. */
static int machine_replay(const struct machine *m, FILE *f)
{
	char line[65536], path[PATH_MAX], text_path[PATH_MAX] = "";
	char *text = NULL;
	size_t len = 0;
	int number = 0, bad = 0;

	while (!bad) {
		bool more = fgets(line, sizeof(line), f) != NULL;
		char *tab = more ? strchr(line, '\t') : NULL, *arrow = more ? strstr(line, " -> ") : NULL;

		number++;
		/* Whatever isn't one more line of it ends a file. */
		if (text && tab != line) {
			machine_put_bytes(m, text_path, text, len);
			free(text);
			text = NULL;
		}
		if (!more)
			break;
		if (line[0] == '#') {
			continue;
		} else if (tab) {
			size_t n = strlen(tab + 1);

			if (tab == line ? !text : tab - line >= PATH_MAX) {
				bad = number;
				continue;
			}
			if (tab != line) {
				snprintf(text_path, sizeof(text_path), "%.*s", (int)(tab - line), line);
				len = 0;
			}
			text = realloc(text, len + n + 1);
			if (!text)
				abort();
			memcpy(text + len, tab + 1, n);
			len += n;
		} else if (arrow) {
			line[strcspn(line, "\n")] = '\0';
			*arrow = '\0';
			machine_link(m, line, arrow + 4);
		} else if (strcspn(line, "\n") > 1 && line[strcspn(line, "\n") - 1] == '/') {
			machine_path(m, path, line);
			machine_parents(path);
		} else {
			bad = number;
		}
	}
	free(text);
	return bad;
}

/* Build the machine @name. Aborts when there is none: the test has nothing to say without it. */
MACHINE_UNUSED static void machine_load(struct machine *m, const char *name)
{
	char folder[PATH_MAX], path[PATH_MAX];
	FILE *f;
	int bad;

	if (snprintf(path, sizeof(path), "%s/%s", machine_folder(folder), name) >= PATH_MAX)
		abort();
	f = fopen(path, "r");
	if (!f) {
		fprintf(stderr, "%s: %s (TEST_MACHINES=FOLDER says where they are)\n", path, strerror(errno));
		abort();
	}
	machine_new(m);
	bad = machine_replay(m, f);
	fclose(f);
	if (bad) {
		fprintf(stderr, "%s:%d: not in the format of README\n", path, bad);
		abort();
	}
}
