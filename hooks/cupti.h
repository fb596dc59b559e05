/*
 * Times of regions from CUPTI's activity records (CKPT_TIMING=cupti).
 *
 * The library is the one that torch's own needs, already loaded, never another
 * version. A subscription, which CUPTI gives to one client a process, is taken
 * and given back at once: it tells that no profiler is there, and none that
 * comes later is refused. Records need none. A profiler that begins during a
 * recording registers its own callbacks for records: the hook of that call
 * ends ours first, so that it finds CUPTI as if we had not been there.
 * cuptiFinalize is never called. Some of what CUPTI adds to each call of CUDA
 * stays until the process ends.
 *
 * Errors are negative codes with one line in why[why_bytes]: -ENOENT (no such
 * library or function), -ENOTSUP (a version that we do not know), -EBUSY (a
 * profiler has CUPTI), -ENOMEM, -EIO (CUPTI failed; records were lost), -EINVAL
 * (no recording to end).
 */
#ifndef CKPTAGENT_CUPTI_H
#define CKPTAGENT_CUPTI_H

#include <stddef.h>
#include <stdint.h>

/* Begin a recording. 0 or an error; nothing is left switched on by an error. */
int cupti_begin(char *why, size_t why_bytes);

/*
 * The calling thread enters a region, inside those it is in. Returns its
 * number; 0 without a recording. Any thread.
 */
uint64_t cupti_enter(void);

/* It leaves the region, and any inside it that it never left. 0: nothing. */
void cupti_leave(uint64_t region);

/*
 * End the recording. The device has finished what was launched; the caller sees
 * to that. nanoseconds[i]: what kernels, copies and fills of regions[i] took,
 * added up. 0, or an error and no times.
 */
int cupti_end(size_t n, const uint64_t *regions, uint64_t *nanoseconds,
	      char *why, size_t why_bytes);

/* In the child of a fork, which has no device: there is no recording. */
void cupti_after_fork(void);

#endif
