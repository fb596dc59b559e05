/*
 * The ledger: which bytes are live, on which device, in which block.
 *
 * It takes every allocator event exactly once, from any thread, and knows
 * nothing of who sends them. Lock-free, without malloc, whole after a fork at
 * any instruction. Live bytes are raised before an allocation is entered and
 * lowered after it was taken out: the sum of what is entered never exceeds
 * them, so they cannot become negative.
 *
 * An address is live from ledger_alloc() to ledger_free(); the allocator hands
 * it to one owner at a time, so events of one address never overlap.
 */
#ifndef CKPTAGENT_LEDGER_H
#define CKPTAGENT_LEDGER_H

#include <stddef.h>
#include <stdint.h>

/*
 * Index 0 is torch's CPU allocator, LEDGER_CUDA + n the tensors on CUDA device
 * n. What the process takes from that device stands apart: LEDGER_CACHED + n
 * is the memory that torch's caching allocator took, LEDGER_OUTSIDE + n that
 * of everybody else (see taken.h).
 */
#define LEDGER_CUDA_DEVICES 32
#define LEDGER_CUDA 1
#define LEDGER_CACHED (LEDGER_CUDA + LEDGER_CUDA_DEVICES)
#define LEDGER_OUTSIDE (LEDGER_CACHED + LEDGER_CUDA_DEVICES)
#define LEDGER_DEVICES (LEDGER_OUTSIDE + LEDGER_CUDA_DEVICES)
#define LEDGER_BLOCKS 65536

/* One allocation can be counted up to this many bytes. */
#define LEDGER_BYTES_MAX ((UINT64_C(1) << 41) - 1)

/*
 * `bytes` were allocated at `address`. An address that is already live counts
 * as a repeat and replaces the first. 0, or -ENOMEM: the event was not
 * entered and the ledger is not to be trusted any more.
 */
int ledger_alloc(int device, uint64_t address, uint64_t bytes);

/* What stood at `address` is about to be freed. */
void ledger_free(uint64_t address);

uint64_t ledger_live(int device);
uint64_t ledger_peak(int device);
void ledger_peak_reset(int device);

/* Allocations and frees so far; frees of unknown addresses; repeats. */
uint64_t ledger_events(void);
uint64_t ledger_unknown_frees(void);
uint64_t ledger_repeats(void);

/* Bytes at `address`, 0 if nothing is known there. */
uint64_t ledger_size(uint64_t address);

/*
 * The block that allocations go to from now on; returns the one before. Cached
 * memory belongs to none: the tensors in it do. Besides, an allocation belongs
 * to the range that is open on its thread (ranges.h, range_bytes.h).
 */
uint32_t ledger_block(uint32_t block);
uint64_t ledger_block_live(uint32_t block);

/* Start a tape of `device`: 0, or -ENOMEM, or -EINVAL for no such device. */
int ledger_tape_begin(int device);

/*
 * Watch the allocation at `address` on the tape: its storage, or -1. Two
 * threads that watch one address for the first time at the same instant get
 * the same storage; the tape then has another one of 0 bytes.
 */
int32_t ledger_watch(uint64_t address);

#endif
