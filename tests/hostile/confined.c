/*
 * A fake libc10 that allocates from under a filter: after some allocations it
 * forbids the process every system call but those of printing and ending, and
 * allocates on.
 */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "../fakes/reporter.h"

EXPORT void fake_alloc(void *ptr, size_t bytes);

static long calls;

void reporter_new(void *self, void *ptr, size_t bytes)
{
	(void)self;
	(void)ptr;
	(void)bytes;
	calls++;
}

void reporter_delete(void *self, void *ptr)
{
	(void)self;
	(void)ptr;
	calls++;
}

static void churn(int times)
{
	for (int i = 1; i <= times; i++) {
		reporter_new(NULL, (void *)((size_t)i << 6), 100);
		if (i % 2)
			reporter_delete(NULL, (void *)((size_t)i << 6));
	}
}

static int confine(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	};
	struct sock_fprog program = { sizeof(filter) / sizeof(*filter), filter };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

void fake_alloc(void *ptr, size_t bytes)
{
	reporter_new(NULL, ptr, bytes);
	reporter_delete(NULL, ptr);
	if (confine())
		printf("not confined\n");
	churn(5000);
	printf("%ld\n", calls);
}
