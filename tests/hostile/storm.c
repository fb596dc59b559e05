/*
 * A fake libc10 whose first allocation is a storm of them: four threads
 * allocate and free without a pause, while the thread that called does what
 * the variable STORM names. Prints one line about the outcome.
 *
 *   forks    1,000 children, each of which goes on allocating
 *   double   100 children that end at once and leave a child of their own
 *   execs    100 children by vfork, which become EXEC
 *   signals  a signal every 100 microseconds, whose handler allocates on
 *            whatever thread it meets, and in turns forks
 *   births   200 threads more, each of which allocates once, and children in
 *            the midst of them
 */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "silent.h"

#define SELF ((void *)0x5e1f)
#define THREADS 4
#define ALLOCATIONS 64
#define BYTES 100
#define PATIENCE 60 /* seconds until a child counts as stuck */

EXPORT void fake_alloc(void *ptr, size_t bytes);
EXPORT void fake_free(void *ptr);

static uint64_t (*live)(int device);
static void (*tape_begin)(int device);
static int (*mark)(uint32_t mark, int32_t call);
static _Atomic int stop;
static _Atomic long signals, wrong;

static void *address(uintptr_t owner, int i)
{
	return (void *)((owner + 1) << 32 | (uintptr_t)(i + 1) << 6);
}

static void allocate(uintptr_t owner, int count)
{
	for (int i = 0; i < count; i++)
		reporter_new(SELF, address(owner, i), BYTES);
}

static void release(uintptr_t owner, int count)
{
	for (int i = 0; i < count; i++)
		reporter_delete(SELF, address(owner, i));
}

static void *churn(void *owner)
{
	while (!stop) {
		allocate((uintptr_t)owner, ALLOCATIONS);
		release((uintptr_t)owner, ALLOCATIONS);
	}
	return NULL;
}

/* Whether the ledger counts right where nobody else allocates. */
static int counts(void)
{
	uint64_t before = live(0);
	int right;

	allocate(100, ALLOCATIONS);
	right = live(0) == before + ALLOCATIONS * BYTES;
	release(100, ALLOCATIONS);
	tape_begin(0);
	right = right && mark('F', 0) == 1;
	return right && live(0) == before;
}

static void *count_in_thread(void *unused)
{
	(void)unused;
	return counts() ? NULL : "wrong";
}

static int counts_in_thread(void)
{
	pthread_t thread;
	void *result = "no thread";

	if (!pthread_create(&thread, NULL, count_in_thread, NULL))
		pthread_join(thread, &result);
	return !result;
}

static void await(pid_t child)
{
	int status = -1;

	while (waitpid(child, &status, 0) < 0)
		;
	if (status)
		wrong++;
}

static void fork_often(int times)
{
	for (int i = 0; i < times; i++) {
		pid_t child = fork();

		if (!child) {
			alarm(PATIENCE);
			_exit(!counts());
		}
		await(child);
	}
}

/* A child's child, which reports through a pipe after its parent has ended. */
static void fork_twice(void)
{
	char verdict = 0;
	int ends[2];
	pid_t child;

	if (pipe(ends))
		abort();
	child = fork();
	if (!child) {
		if (fork())
			_exit(0);
		alarm(PATIENCE);
		verdict = counts() ? 'y' : 'n';
		_exit(write(ends[1], &verdict, 1) != 1);
	}
	close(ends[1]);
	await(child);
	if (read(ends[0], &verdict, 1) != 1 || verdict != 'y')
		wrong++;
	close(ends[0]);
}

static void exec_once(const char *program)
{
	pid_t child = vfork();

	if (!child) {
		execl(program, program, (char *)NULL);
		_exit(127);
	}
	await(child);
}

/* By the system call: libc's own locks may be held by what was interrupted. */
static void fork_from_handler(uintptr_t owner)
{
	pid_t child = (pid_t)syscall(SYS_fork);

	if (!child) {
		allocate(owner, 8);
		release(owner, 8);
		_exit(0);
	}
	await(child);
}

static void on_signal(int number)
{
	uintptr_t owner = 1000 + (uintptr_t)++signals;

	(void)number;
	allocate(owner, 8);
	release(owner, 8);
	if (owner % 10 == 0)
		fork_from_handler(owner);
}

/* The handler interrupts the hooks themselves, in this thread or another. */
static void signal_often(void)
{
	struct sigaction action = { .sa_handler = on_signal,
				    .sa_flags = SA_RESTART };
	struct itimerval often = { { 0, 100 }, { 0, 100 } }, never = { 0 };

	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	for (int i = 0; i < 1000; i++) {
		for (int k = 0; k < 20; k++) {
			allocate(300, ALLOCATIONS);
			release(300, ALLOCATIONS);
		}
		usleep(100);
	}
	setitimer(ITIMER_REAL, &never, NULL);
	signal(SIGALRM, SIG_IGN);
}

static void *allocate_once(void *owner)
{
	allocate((uintptr_t)owner, ALLOCATIONS);
	release((uintptr_t)owner, ALLOCATIONS);
	return NULL;
}

static void bear_threads(void)
{
	enum { BORN = 200 };
	pthread_t born[BORN];

	for (uintptr_t i = 0; i < BORN; i++) {
		if (pthread_create(&born[i], NULL, allocate_once,
				   (void *)(400 + i)))
			abort();
		if (i % 20 == 0)
			fork_often(1);
	}
	for (int i = 0; i < BORN; i++)
		pthread_join(born[i], NULL);
}

static void do_it(const char *what)
{
	if (!strcmp(what, "forks"))
		fork_often(1000);
	for (int i = 0; !strcmp(what, "double") && i < 100; i++)
		fork_twice();
	for (int i = 0; !strcmp(what, "execs") && i < 100; i++)
		exec_once(getenv("EXEC"));
	if (!strcmp(what, "signals"))
		signal_often();
	if (!strcmp(what, "births"))
		bear_threads();
}

static void look_up(void)
{
	live = (uint64_t(*)(int))dlsym(RTLD_DEFAULT, "ckptagent_live");
	tape_begin = (void (*)(int))dlsym(RTLD_DEFAULT, "ckptagent_tape_begin");
	mark = (int (*)(uint32_t, int32_t))dlsym(RTLD_DEFAULT,
						 "ckptagent_mark");
}

void fake_alloc(void *ptr, size_t bytes)
{
	const char *what = getenv("STORM");
	pthread_t threads[THREADS];

	look_up();
	reporter_new(SELF, ptr, bytes);
	for (uintptr_t i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, churn, (void *)i))
			abort();
	do_it(what);
	stop = 1;
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	if (!counts() || !counts_in_thread())
		wrong++;
	printf("%s: %ld wrong, %s, live %llu\n", what, wrong,
	       signals > 100 ? "many signals" : "no signals",
	       (unsigned long long)live(0));
}

void fake_free(void *ptr)
{
	reporter_delete(SELF, ptr);
}
