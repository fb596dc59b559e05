#include "boot.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "agent.h"
#include "hooks.h"
#include "log.h"
#include "paths.h"
#include "python.h"
#include "symbols.h"

#define START_WAIT_MS 50
#define THREAD_STACK (8 << 20)

/*
 * IDLE → SCHEDULED → (WAITING, if the main thread does not come) → RUNNING →
 * OVER, or back to IDLE when it was too early. PREPARING stands before the
 * first SCHEDULED. Each arrow is one compare-and-swap; who wins goes on.
 */
enum phase {
	IDLE,
	PREPARING,
	SCHEDULED,
	WAITING,
	RUNNING,
	OVER
};

static _Atomic int phase;
static _Atomic bool prepared;
static _Atomic int64_t scheduled_ms;

static struct python python;
static char sitecustomize[PATH_MAX];

static bool move(int from, int to)
{
	return atomic_compare_exchange_strong(&phase, &from, to);
}

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Whether the shim has its place in this process; says why not if it is news. */
static bool prepare(void)
{
	int error = symbols_first() ? python_find(&python) : -EALREADY;

	if (error) {
		if (error == -ENOSYS)
			agent_stand_down("this Python lacks a function that "
					 "the agent needs");
		agent_leave();
		return false;
	}
	if (!agent_prepare())
		return false;
	if (python_is_free_threaded(&python)) {
		agent_stand_down("free-threaded Python is not supported");
		return false;
	}
	if (paths_sitecustomize(sitecustomize, sizeof(sitecustomize))) {
		agent_stand_down("sitecustomize.py was not found beside the "
				 "library or in its data folder");
		return false;
	}
	return true;
}

/* The caller holds the interpreter's lock. */
static int start_shim(void)
{
	char why[1024];
	int result;

	if (!agent_on())
		return OVER;
	if (!python_has_torch(&python))
		return IDLE;
	symbols_prepare();
	hook_cudart_prepare();
	result = python_run(&python, sitecustomize, paths_library(), why,
			    sizeof(why));
	if (result < 0)
		log_format(LOG_ERROR, "the shim did not start: %s", why);
	return result > 0 ? IDLE : OVER;
}

/*
 * 0, with the exception that was pending before pending again; or -1 with an
 * exception of the job's pending.
 */
static int start(void)
{
	void *type, *value, *traceback;
	int next;

	if (!move(SCHEDULED, RUNNING) && !move(WAITING, RUNNING))
		return 0;
	python.PyErr_Fetch(&type, &value, &traceback);
	next = start_shim();
	atomic_store(&phase, next);
	if (python.PyErr_Occurred())
		return -1;
	python.PyErr_Restore(type, value, traceback);
	return 0;
}

static int start_pending(void *unused)
{
	(void)unused;
	return start();
}

static void *start_fallback(void *unused)
{
	int state;

	(void)unused;
	if (!python_runs(&python))
		return NULL;
	state = python.PyGILState_Ensure();
	if (start())
		python.PyErr_Clear();
	python.PyGILState_Release(state);
	return NULL;
}

static int create_detached(void *(*run)(void *))
{
	pthread_attr_t attributes;
	pthread_t thread;
	int error;

	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attributes, THREAD_STACK);
	error = pthread_create(&thread, &attributes, run, NULL);
	pthread_attr_destroy(&attributes);
	return error;
}

/* The thread is born with all signals blocked: the job's go to the job. */
static int begin_thread(void *(*run)(void *))
{
	sigset_t all, before;
	int error;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	error = create_detached(run);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return error;
}

static void fall_back(void)
{
	if (now_ms() - atomic_load(&scheduled_ms) < START_WAIT_MS ||
	    !move(SCHEDULED, WAITING))
		return;
	if (!begin_thread(start_fallback))
		return;
	atomic_store(&scheduled_ms, now_ms());
	move(WAITING, SCHEDULED);
}

static void schedule_prepared(void)
{
	if (!atomic_exchange(&prepared, true) && !prepare()) {
		atomic_store(&phase, OVER);
		return;
	}
	atomic_store(&scheduled_ms, now_ms());
	atomic_store(&phase, SCHEDULED);
	if (!python_runs(&python) ||
	    python.Py_AddPendingCall(start_pending, NULL))
		move(SCHEDULED, IDLE);
}

static void schedule(void)
{
	if (move(IDLE, PREPARING))
		schedule_prepared();
}

static void *schedule_apart(void *unused)
{
	(void)unused;
	schedule_prepared();
	return NULL;
}

/* The caller holds a lock of the job's: whatever takes one is for a thread. */
static void schedule_locked(void)
{
	if (move(IDLE, PREPARING) && begin_thread(schedule_apart))
		move(PREPARING, IDLE);
}

static void event(void (*begin)(void))
{
	int saved = errno;

	switch (atomic_load_explicit(&phase, memory_order_relaxed)) {
	case IDLE:
		begin();
		break;
	case SCHEDULED:
		fall_back();
		break;
	default:
		return;
	}
	errno = saved;
}

void boot_event(void)
{
	event(schedule);
}

void boot_event_locked(void)
{
	event(schedule_locked);
}

/*
 * A start that was under way has lost its thread, and Python its half-run
 * modules: such a child is left alone. One that was only scheduled begins
 * anew (the call that the child's queue inherited then finds nothing to do);
 * one that was over has the shim already.
 */
void boot_after_fork(void)
{
	int now = atomic_load(&phase);

	if (now == RUNNING || now == PREPARING)
		atomic_store(&phase, OVER);
	else if (now != OVER)
		atomic_store(&phase, IDLE);
}
