/*
 * The tape of one iteration: segments with their peak, and where each watched
 * storage is freed. shim_abi.h says what the shim sees of it, FORMATS.md in
 * planner/ what each mark means.
 *
 * One tape at a time, for one device. Lock-free: one word holds the tape's
 * generation, the number of segments and the letter of the open one, and a
 * segment is opened by swapping it. Any thread may call anything; tape_begin
 * is for one thread at a time, and what other threads allocate during it may
 * land on either tape.
 */
#ifndef CKPTAGENT_TAPE_H
#define CKPTAGENT_TAPE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shim_abi.h"

#define TAPE_SEGMENTS 65536
#define TAPE_STORAGES 262144

/*
 * Forget the last tape and open segment 0 with mark S. `live` is the counter
 * of the device's live bytes. 0, or -ENOMEM (then there is no tape).
 */
int tape_begin(int device, const _Atomic uint64_t *live);

/* Close what is open for good: for the child of a fork. */
void tape_abandon(void);

/* See shim_abi.h. */
int tape_mark(uint32_t mark, int32_t call);
void tape_end(void);
bool tape_full(void);
size_t tape_segments(struct ckptagent_segment *out, size_t n);
size_t tape_storages(struct ckptagent_storage *out, size_t n);

/*
 * Around an allocation on `device`: tape_before() opens an X segment where one
 * is due and returns the open segment, 0 without one; tape_after() raises that
 * segment's peak, and that of the segment open by now, to `live`.
 */
uint64_t tape_before(int device);
void tape_after(int device, uint64_t before, uint64_t live);

/* A new storage on the tape of `device`; its index, or -1. */
int32_t tape_watch(int device, uint64_t address, uint64_t bytes);

/* Give back a storage that nobody was told of: it stays, with 0 bytes. */
void tape_unwatch(int32_t id);

/*
 * Whether the tape records, and `id` is of the allocation at `address`. An id
 * may be of an older tape, but not of an allocation that is freed.
 */
bool tape_watches(int32_t id, uint64_t address);

/* The allocation at `address`, once watched as `id`, is freed. */
void tape_freed(int32_t id, uint64_t address);

#endif
