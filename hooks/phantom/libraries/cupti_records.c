#include "activity.h"
#include "phantom.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/*
 * CUPTI's activity records, of what torch itself launches. Layouts as in
 * cupti_activity.h, as far as readers look at them; the rest is zero.
 */

enum {
	CUPTI_SUCCESS = 0,
	CUPTI_ERROR_INVALID_PARAMETER = 1,
	CUPTI_ERROR_MAX_LIMIT_REACHED = 12,
	CUPTI_ERROR_QUEUE_EMPTY = 18,
	CUPTI_ERROR_INVALID_KIND = 21
};

enum kind {
	MEMCPY = 1,
	MEMSET = 2,
	RUNTIME = 5,
	KERNEL = 10,
	EXTERNAL = 39,
	KINDS = 64
};

struct kernel { /* CUpti_ActivityKernel8 and later, in part */
	uint32_t kind;
	uint8_t caches[2];
	uint16_t registers;
	uint64_t partition[1];
	uint64_t start, end, completed;
	uint32_t device, context, stream;
	int32_t grid[3], block[3], memory[4];
	uint32_t correlation;
	int64_t grid_id;
	const char *name;
	uint8_t rest[144];
};

struct copy { /* CUpti_ActivityMemcpy5, CUpti_ActivityMemset4 and later */
	uint32_t kind;
	uint8_t direction, from, to, flags;
	uint64_t bytes, start, end;
	uint32_t device, context, stream, correlation;
	uint8_t rest[64];
};

struct call { /* CUpti_ActivityAPI */
	uint32_t kind, id;
	uint64_t start, end;
	uint32_t process, thread, correlation, result;
};

struct external { /* CUpti_ActivityExternalCorrelation */
	uint32_t kind, external_kind;
	uint64_t id;
	uint32_t correlation, reserved;
};

_Static_assert(offsetof(struct kernel, correlation) == 92, "kernel");
_Static_assert(offsetof(struct kernel, name) == 104, "kernel");
_Static_assert(offsetof(struct copy, correlation) == 44, "copy");
_Static_assert(sizeof(struct call) == 40 && sizeof(struct external) == 24,
	       "call, external");

#define EXTERNAL_KINDS 6
#define EXTERNAL_DEPTH 64
#define DEVICE_TO_DEVICE 8
#define DEVICE_MEMORY 3

/* CUpti_runtime_api_trace_cbid */
static const uint32_t runtime_call[] = { [PHANTOM_KERNEL] = 211,
					 [PHANTOM_COPY] = 41,
					 [PHANTOM_FILL] = 51 };

static _Thread_local uint64_t stack[EXTERNAL_KINDS][EXTERNAL_DEPTH];
static _Thread_local int depth[EXTERNAL_KINDS];

/* Held for everything below, also while a client is asked for a buffer. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool enabled[KINDS];
static uint32_t correlation;
static void (*requested)(uint8_t **, size_t *, size_t *);
static void (*completed)(void *, uint32_t, uint8_t *, size_t, size_t);
static uint64_t (*clock_of_client)(void);
static uint8_t *buffer;
static size_t size, used;

/* A client's own clock may count in other units: so do times, then. */
static uint64_t now(void)
{
	struct timespec time;

	if (clock_of_client)
		return clock_of_client();
	clock_gettime(CLOCK_REALTIME, &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static void hand_over(void)
{
	if (buffer)
		completed(NULL, 0, buffer, size, used);
	buffer = NULL;
	size = used = 0;
}

static void put(const void *record, size_t bytes)
{
	size_t most = 0;

	if (size - used < bytes) {
		hand_over();
		requested(&buffer, &size, &most);
	}
	if (!buffer || size < bytes)
		return;
	memcpy(buffer + used, record, bytes);
	used += bytes;
}

static void put_call(enum phantom_activity activity, uint64_t time)
{
	struct call call = { .kind = RUNTIME,
			     .id = runtime_call[activity],
			     .start = time,
			     .end = time,
			     .process = (uint32_t)getpid(),
			     .thread = (uint32_t)pthread_self(),
			     .correlation = correlation };

	for (uint32_t k = 0; enabled[EXTERNAL] && k < EXTERNAL_KINDS; k++) {
		struct external external = { EXTERNAL, k, 0, correlation, 0 };

		if (!depth[k])
			continue;
		external.id = stack[k][depth[k] - 1];
		put(&external, sizeof(external));
	}
	put(&call, sizeof(call));
}

static void put_kernel(int device, uint64_t time)
{
	struct kernel kernel = { .kind = KERNEL,
				 .registers = 32,
				 .start = time,
				 .end = time + PHANTOM_KERNEL_NS,
				 .device = (uint32_t)device,
				 .context = 1,
				 .stream = 7,
				 .grid = { 1, 1, 1 },
				 .block = { 32, 1, 1 },
				 .correlation = correlation,
				 .name = "phantom" };

	put(&kernel, sizeof(kernel));
}

static void put_copy(enum kind kind, int device, size_t bytes, uint64_t time)
{
	struct copy copy = { .kind = kind,
			     .bytes = bytes,
			     .start = time,
			     .end = time + PHANTOM_COPY_NS,
			     .device = (uint32_t)device,
			     .context = 1,
			     .stream = 7,
			     .correlation = correlation };

	if (kind == MEMCPY) {
		copy.direction = DEVICE_TO_DEVICE;
		copy.from = copy.to = DEVICE_MEMORY;
	}
	put(&copy, sizeof(copy));
}

static void watch(enum phantom_activity activity, int device, size_t bytes)
{
	static const enum kind kinds[] = { [PHANTOM_KERNEL] = KERNEL,
					   [PHANTOM_COPY] = MEMCPY,
					   [PHANTOM_FILL] = MEMSET };
	enum kind kind = kinds[activity];
	uint64_t time;

	pthread_mutex_lock(&lock);
	if (requested) {
		correlation++;
		time = now();
		if (enabled[RUNTIME])
			put_call(activity, time);
		if (enabled[kind] && kind == KERNEL)
			put_kernel(device, time);
		else if (enabled[kind])
			put_copy(kind, device, bytes, time);
	}
	pthread_mutex_unlock(&lock);
}

static int enable(uint32_t kind, bool on)
{
	bool any = false;

	if (kind >= KINDS)
		return CUPTI_ERROR_INVALID_KIND;
	pthread_mutex_lock(&lock);
	enabled[kind] = on;
	for (int i = 0; i < KINDS; i++)
		any |= enabled[i];
	pthread_mutex_unlock(&lock);
	phantom_watch(any ? watch : NULL);
	return CUPTI_SUCCESS;
}

PHANTOM_API int cuptiActivityEnable(uint32_t kind)
{
	return enable(kind, true);
}

PHANTOM_API int cuptiActivityDisable(uint32_t kind)
{
	return enable(kind, false);
}

PHANTOM_API int cuptiActivityRegisterCallbacks(
	void (*request)(uint8_t **, size_t *, size_t *),
	void (*complete)(void *, uint32_t, uint8_t *, size_t, size_t))
{
	if (!request || !complete)
		return CUPTI_ERROR_INVALID_PARAMETER;
	pthread_mutex_lock(&lock);
	requested = request;
	completed = complete;
	pthread_mutex_unlock(&lock);
	return CUPTI_SUCCESS;
}

PHANTOM_API int cuptiActivityRegisterTimestampCallback(uint64_t (*clock)(void))
{
	pthread_mutex_lock(&lock);
	clock_of_client = clock;
	pthread_mutex_unlock(&lock);
	return CUPTI_SUCCESS;
}

PHANTOM_API int cuptiActivityFlushAll(uint32_t flag)
{
	(void)flag;
	pthread_mutex_lock(&lock);
	hand_over();
	pthread_mutex_unlock(&lock);
	return CUPTI_SUCCESS;
}

static size_t bytes_of(uint32_t kind)
{
	switch (kind) {
	case KERNEL:
		return sizeof(struct kernel);
	case RUNTIME:
		return sizeof(struct call);
	case EXTERNAL:
		return sizeof(struct external);
	default:
		return sizeof(struct copy);
	}
}

PHANTOM_API int cuptiActivityGetNextRecord(uint8_t *records, size_t valid,
					   void **record)
{
	uint8_t *next = *record;

	next = next ? next + bytes_of(*(uint32_t *)next) : records;
	if (!records || next >= records + valid)
		return CUPTI_ERROR_MAX_LIMIT_REACHED;
	*record = next;
	return CUPTI_SUCCESS;
}

PHANTOM_API int cuptiActivityPushExternalCorrelationId(uint32_t kind,
						       uint64_t id)
{
	if (kind >= EXTERNAL_KINDS || depth[kind] == EXTERNAL_DEPTH)
		return CUPTI_ERROR_INVALID_PARAMETER;
	stack[kind][depth[kind]++] = id;
	return CUPTI_SUCCESS;
}

PHANTOM_API int cuptiActivityPopExternalCorrelationId(uint32_t kind,
						      uint64_t *last)
{
	if (kind >= EXTERNAL_KINDS)
		return CUPTI_ERROR_INVALID_PARAMETER;
	if (!depth[kind])
		return CUPTI_ERROR_QUEUE_EMPTY;
	depth[kind]--;
	if (last)
		*last = stack[kind][depth[kind]];
	return CUPTI_SUCCESS;
}
