/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * call_counts: whether code allocates, locks, or calls the kernel. A program that includes it has malloc() and
 * pthread_mutex_lock() from here, so that they can be counted; but not under a sanitizer, which has them itself.
 */
#pragma once

#include <linux/seccomp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"
#include "sanitized.h"

#ifndef SANITIZED
/* Calls since the start; the program's own functions come before those of the C library. */
static unsigned long allocations, locks;

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t n, size_t bytes);
void *__libc_realloc(void *p, size_t bytes);

void *malloc(size_t bytes)
{
	allocations++;
	return __libc_malloc(bytes);
}

void *calloc(size_t n, size_t bytes)
{
	allocations++;
	return __libc_calloc(n, bytes);
}

void *realloc(void *p, size_t bytes)
{
	allocations++;
	return __libc_realloc(p, bytes);
}

int pthread_mutex_lock(pthread_mutex_t *mutex)
{
	locks++;
	return pthread_mutex_trylock(mutex); /* as good in a program of one thread */
}
#endif

/*
 * Run @quiet in a child that may do nothing but write and exit: any other system call kills it. And what it writes, as
 * a log would, is seen.
 */
static inline void check_makes_no_system_call(bool (*quiet)(void))
{
	int said = memfd_create("said", MFD_CLOEXEC), status = 0;
	struct stat st;
	pid_t pid;

#ifdef SANITIZED
	close(said);
	test_skip("the sanitizer makes system calls of its own");
	return;
#endif
	if (test_under_valgrind()) {
		close(said);
		test_skip("valgrind makes system calls of its own");
		return;
	}
	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		if (dup2(said, STDOUT_FILENO) < 0 || dup2(said, STDERR_FILENO) < 0 ||
		    prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) < 0)
			_exit(77);
		syscall(SYS_exit, quiet() ? 0 : 1);
	}
	CU_ASSERT(pid > 0);
	CU_ASSERT_EQUAL(waitpid(pid, &status, 0), pid);
	CU_ASSERT_EQUAL(fstat(said, &st), 0);
	CU_ASSERT_EQUAL(st.st_size, 0);
	close(said);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
		test_skip("this kernel has no seccomp");
		return;
	}
	CU_ASSERT_TRUE(WIFEXITED(status));
	CU_ASSERT_EQUAL(WEXITSTATUS(status), 0);
}
