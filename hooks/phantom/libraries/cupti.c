#include "handle.h"
#include "phantom.h"

#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

/*
 * CUPTI, codes as in NVIDIA's CUPTI reference (cupti_result.h). As the real
 * one it has one subscriber a process; its callbacks are never made. Activity
 * records are in cupti_records.c.
 */

enum {
	CUPTI_SUCCESS = 0,
	CUPTI_ERROR_INVALID_PARAMETER = 1,
	CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED = 39
};

static char subscriber; /* its address is the handle */
static atomic_bool subscribed;

PHANTOM_API int cuptiSubscribe(void **handle, void *callback, void *data)
{
	(void)callback;
	(void)data;
	*handle = NULL;
	if (atomic_exchange(&subscribed, true))
		return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
	*handle = &subscriber;
	return CUPTI_SUCCESS;
}

PHANTOM_API int cuptiUnsubscribe(void *handle)
{
	if (handle != &subscriber || !atomic_exchange(&subscribed, false))
		return CUPTI_ERROR_INVALID_PARAMETER;
	return CUPTI_SUCCESS;
}

PHANTOM_API int cuptiGetTimestamp(uint64_t *nanoseconds)
{
	struct timespec time;

	clock_gettime(CLOCK_REALTIME, &time);
	*nanoseconds = (uint64_t)time.tv_sec * 1000000000 +
		       (uint64_t)time.tv_nsec;
	return CUPTI_SUCCESS;
}
