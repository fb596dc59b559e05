/*
 * Ranges: what the job itself calls a stretch of its work, such as NVTX's.
 * Which are open on each thread, and which of them allocations belong to.
 *
 * A range that is pushed is open until its thread pops it; a range that is
 * started, until anybody ends it by its handle, and it belongs to the thread
 * that started it. Allocations belong to the innermost open range of their
 * thread whose text was given a number by ranges_number(); a text without one
 * costs a look-up and nothing else.
 *
 * Any thread may call anything. No lock, no malloc, bounded memory: beyond
 * RANGES_OPEN open ranges of all threads together (among them those that ended
 * threads left open) a range is not seen, and beyond RANGES_NAMES - 1 texts
 * none is numbered. Texts are UTF-8 and end in a zero byte, which is within
 * RANGES_TEXT bytes.
 */
#ifndef CKPTAGENT_RANGES_H
#define CKPTAGENT_RANGES_H

#include <stddef.h>
#include <stdint.h>

#include "shim_abi.h"

#define RANGES_OPEN 1024
#define RANGES_NAMES 1024
#define RANGES_TEXT CKPTAGENT_RANGE_TEXT

/*
 * Map what is needed (a few hundred kilobytes). Before it, and if it fails, no
 * range is seen. 0, -ENOMEM, or -EAGAIN where another thread does it or has failed.
 */
int ranges_begin(void);

/* A range of `domain` (any pointer) begins on this thread. */
void ranges_push(const void *domain, const char *text);

/* The innermost one of `domain` that this thread pushed ends, if there is one. */
void ranges_pop(const void *domain);

/* The same with a handle, which is not 0 and of no other open range. */
void ranges_start(uint64_t handle, const char *text);
void ranges_end(uint64_t handle);

/* The number that allocations of this thread belong to now; 0: to none. */
uint32_t ranges_current(void);

/* See shim_abi.h. */
size_t ranges_open(struct ckptagent_range *out, size_t n);
uint32_t ranges_number(uint64_t id);

#endif
