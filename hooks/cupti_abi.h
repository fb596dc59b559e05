/*
 * What we need of CUPTI, NVIDIA's library of profiling: numbers and layouts
 * that are the same in the headers of CUDA 11.8, 12.1, 12.8, 12.9, 13.0 and
 * 13.5 (cupti_result.h, cupti_activity.h, cupti_version.h; compared with a
 * compiler).
 */
#ifndef CKPTAGENT_CUPTI_ABI_H
#define CKPTAGENT_CUPTI_ABI_H

#include <stddef.h>
#include <stdint.h>

/* CUptiResult */
#define CUPTI_SUCCESS 0
#define CUPTI_ERROR_MAX_LIMIT_REACHED 12
#define CUPTI_ERROR_NOT_INITIALIZED 15
#define CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED 39

/* CUpti_ActivityKind: the first field, 4 bytes, of every record */
#define CUPTI_ACTIVITY_KIND_MEMCPY 1
#define CUPTI_ACTIVITY_KIND_MEMSET 2
#define CUPTI_ACTIVITY_KIND_DRIVER 4
#define CUPTI_ACTIVITY_KIND_RUNTIME 5
#define CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL 10
#define CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION 39

#define CUPTI_ACTIVITY_FLAG_FLUSH_FORCED 1

/* CUpti_ExternalCorrelationKind; Kineto uses CUSTOM0 and CUSTOM1. */
#define CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2 5

/* CUpti_ActivityExternalCorrelation */
#define CUPTI_EXTERNAL_KIND 4 /* uint32_t */
#define CUPTI_EXTERNAL_ID 8   /* uint64_t */
#define CUPTI_EXTERNAL_CORRELATION 16

/*
 * CUpti_ActivityKernel8 to 13, CUpti_ActivityMemcpy5 to 7, and
 * CUpti_ActivityMemset4 to 5: nanoseconds, 0 where they could not be taken.
 */
#define CUPTI_START 16 /* uint64_t */
#define CUPTI_END 24   /* uint64_t */
#define CUPTI_KERNEL_CORRELATION 92
#define CUPTI_COPY_CORRELATION 44 /* of memcpy and memset */

/* cuptiGetVersion(): 18 (CUDA 11.8) to 28 (12.9), then xxyyzz of CUDA xx.yy */
#define CUPTI_VERSION_OLDEST 18
#define CUPTI_VERSION_LAST_OF_12 28
#define CUPTI_VERSION_FIRST_OF_13 130000
#define CUPTI_VERSION_NEWEST 130599

typedef void cupti_requested_fn(uint8_t **buffer, size_t *bytes,
				size_t *records_max);
typedef void cupti_completed_fn(void *context, uint32_t stream, uint8_t *buffer,
				size_t bytes, size_t valid_bytes);
typedef int cupti_next_fn(uint8_t *buffer, size_t valid_bytes, void **record);

/* CUPTI(name, arguments), each returns a CUptiResult: all of them must be there. */
#define CUPTI_FUNCTIONS(CUPTI) \
	CUPTI(cuptiGetVersion, (uint32_t *version)) \
	CUPTI(cuptiSubscribe, (void **subscriber, void *callback, void *data)) \
	CUPTI(cuptiUnsubscribe, (void *subscriber)) \
	CUPTI(cuptiActivityRegisterCallbacks, \
	      (cupti_requested_fn *requested, cupti_completed_fn *completed)) \
	CUPTI(cuptiActivityEnable, (uint32_t kind)) \
	CUPTI(cuptiActivityDisable, (uint32_t kind)) \
	CUPTI(cuptiActivityFlushAll, (uint32_t flag)) \
	CUPTI(cuptiActivityGetNextRecord, \
	      (uint8_t *buffer, size_t valid_bytes, void **record)) \
	CUPTI(cuptiActivityGetNumDroppedRecords, \
	      (void *context, uint32_t stream, size_t *dropped)) \
	CUPTI(cuptiActivityPushExternalCorrelationId, \
	      (uint32_t kind, uint64_t id)) \
	CUPTI(cuptiActivityPopExternalCorrelationId, \
	      (uint32_t kind, uint64_t *last))

#endif
