#include "cupti.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "cupti_client.h"
#include "cupti_library.h"
#include "cupti_records.h"
#include "hooks.h"
#include "linked.h"
#include "symbols.h"

/* In the order of switching on. Links come with the records of API calls. */
static const uint32_t kinds[] = {
	CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
	CUPTI_ACTIVITY_KIND_RUNTIME,
	CUPTI_ACTIVITY_KIND_DRIVER,
	CUPTI_ACTIVITY_KIND_MEMCPY,
	CUPTI_ACTIVITY_KIND_MEMSET,
	CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
};
#define KINDS (sizeof(kinds) / sizeof(*kinds))

static struct cupti cupti;

enum state {
	IDLE,
	RECORDING,
	WITHDRAWN, /* for a profiler of the job's */
};

/* Held for a change of state, and for what is switched on and off with it. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic int state;

/* The region that a thread is in; a key, as this library has no TLS segment. */
static pthread_key_t innermost;
static bool has_innermost;

/* After it CUPTI writes no record for us. */
static void switch_off(size_t on)
{
	while (on)
		cupti.cuptiActivityDisable(kinds[--on]);
	cupti.cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
	records_end();
}

static int switch_on(char *why, size_t why_bytes)
{
	size_t ignored;
	int error = cupti.cuptiActivityRegisterCallbacks(records_requested,
							 records_completed);

	if (error)
		return cupti_say(-EIO, why, why_bytes,
				 "cuptiActivityRegisterCallbacks: error %d",
				 error);
	cupti.cuptiActivityGetNumDroppedRecords(NULL, 0, &ignored);
	for (size_t i = 0; i < KINDS; i++) {
		error = cupti.cuptiActivityEnable(kinds[i]);
		if (!error)
			continue;
		switch_off(i);
		return cupti_say(-EIO, why, why_bytes,
				 "cuptiActivityEnable: error %d", error);
	}
	return 0;
}

static int begin_records(char *why, size_t why_bytes)
{
	if (!has_innermost && pthread_key_create(&innermost, NULL))
		return cupti_say(-ENOMEM, why, why_bytes,
				 "no thread key is left", 0);
	has_innermost = true;
	return records_begin(cupti.cuptiActivityGetNextRecord) ?
		       cupti_say(-ENOMEM, why, why_bytes,
				 "no memory for records", 0) :
		       0;
}

static int begin(char *why, size_t why_bytes)
{
	int error = cupti_library(&cupti, why, why_bytes);

	if (!error)
		error = cupti_alone(&cupti, why, why_bytes);
	if (!error)
		error = begin_records(why, why_bytes);
	if (error)
		return error;
	error = switch_on(why, why_bytes);
	if (error)
		records_end();
	return error;
}

int cupti_begin(char *why, size_t why_bytes)
{
	int error;

	pthread_mutex_lock(&lock);
	error = begin(why, why_bytes);
	atomic_store(&state, error ? IDLE : RECORDING);
	pthread_mutex_unlock(&lock);
	return error;
}

static uint64_t get_innermost(void)
{
	return (uintptr_t)pthread_getspecific(innermost);
}

static int set_innermost(uint64_t region)
{
	return pthread_setspecific(innermost, (void *)(uintptr_t)region);
}

static int pop(void)
{
	return cupti.cuptiActivityPopExternalCorrelationId(
		CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2, NULL);
}

uint64_t cupti_enter(void)
{
	uint64_t region;

	if (atomic_load(&state) != RECORDING)
		return 0;
	region = records_region(get_innermost());
	if (!region || cupti.cuptiActivityPushExternalCorrelationId(
			       CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2, region))
		return 0;
	if (!set_innermost(region))
		return region;
	pop();
	return 0;
}

/* Also after the recording: what a thread has put on the stack it takes off. */
void cupti_leave(uint64_t region)
{
	uint64_t left;

	if (!region)
		return;
	for (left = get_innermost(); left && left != region;
	     left = records_around(left))
		pop();
	if (left)
		pop();
	set_innermost(records_around(left));
}

static int end(size_t n, const uint64_t *regions, uint64_t *nanoseconds,
	       char *why, size_t why_bytes)
{
	size_t dropped = 0;

	switch_off(KINDS);
	cupti.cuptiActivityGetNumDroppedRecords(NULL, 0, &dropped);
	if (dropped || records_lost())
		return cupti_say(-EIO, why, why_bytes,
				 "CUPTI's records were lost", 0);
	if (!records_sum(n, regions, nanoseconds) && n)
		return cupti_say(-EIO, why, why_bytes, "CUPTI had no records",
				 0);
	return 0;
}

int cupti_end(size_t n, const uint64_t *regions, uint64_t *nanoseconds,
	      char *why, size_t why_bytes)
{
	int error;

	pthread_mutex_lock(&lock);
	if (atomic_load(&state) == RECORDING)
		error = end(n, regions, nanoseconds, why, why_bytes);
	else if (atomic_load(&state) == WITHDRAWN)
		error = cupti_say(-EBUSY, why, why_bytes,
				  "a profiler of the job began", 0);
	else
		error = cupti_say(-EINVAL, why, why_bytes, "nothing was begun",
				  0);
	atomic_store(&state, IDLE);
	pthread_mutex_unlock(&lock);
	return error;
}

/* Somebody else wants the records: they get all from here on, we none. */
static void withdraw(void)
{
	pthread_mutex_lock(&lock);
	if (atomic_load(&state) == RECORDING) {
		atomic_store(&state, WITHDRAWN);
		switch_off(KINDS);
	}
	pthread_mutex_unlock(&lock);
}

int hook_cupti_register(cupti_requested_fn *requested,
			cupti_completed_fn *completed)
{
	int (*forward)(cupti_requested_fn *, cupti_completed_fn *) =
		(int (*)(cupti_requested_fn *, cupti_completed_fn *))
			linked_original(HOOK_cupti_register, SYMBOLS_CALLER);

	withdraw();
	client_callbacks(&requested, &completed);
	return forward ? forward(requested, completed) :
			 CUPTI_ERROR_NOT_INITIALIZED;
}

void cupti_after_fork(void)
{
	pthread_mutex_init(&lock, NULL);
	atomic_store(&state, IDLE);
}
