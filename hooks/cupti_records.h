/*
 * CUPTI's activity records: which kernels, copies and fills ran for which
 * region of the job, and for how long on the device.
 *
 * A region is a span of one thread's calls. CUPTI writes two records for what
 * is launched in one: the region's number with a correlation number, and the
 * device's time with the same correlation number, in any order, some time
 * later, into buffers from here.
 *
 * What a recording holds is bounded (cupti_records.c); what finds no room is
 * counted as lost. Nothing is ever unmapped: CUPTI may still hold a buffer.
 * Any thread; no lock, and no malloc but in records_sum().
 */
#ifndef CKPTAGENT_CUPTI_RECORDS_H
#define CKPTAGENT_CUPTI_RECORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cupti_abi.h"

/* Begin a recording, empty. 0, or -ENOMEM. One at a time. */
int records_begin(cupti_next_fn *next);

/* No record is taken any more; those that come late are thrown away. */
void records_end(void);

/*
 * A new region inside another one (0: none), or 0 if there is no room. Numbers
 * are never used twice.
 */
uint64_t records_region(uint64_t inside);

/* The region around one of this recording, or 0. */
uint64_t records_around(uint64_t region);

/* CUPTI's callbacks. */
void records_requested(uint8_t **buffer, size_t *bytes, size_t *records_max);
void records_completed(void *context, uint32_t stream, uint8_t *buffer,
		       size_t bytes, size_t valid_bytes);

/* Whether a record, a region or a time was lost in this recording. */
bool records_lost(void);

/* Buffers that CUPTI has not given back. */
int records_buffers_out(void);

/* Whether a buffer is one of those from here. */
bool records_own(const uint8_t *buffer);

/*
 * After the end: the device's nanoseconds of n regions, of those inside them
 * too. Returns how many records were theirs.
 */
size_t records_sum(size_t n, const uint64_t *regions, uint64_t *nanoseconds);

#endif
