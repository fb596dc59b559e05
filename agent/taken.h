/*
 * What a process takes from each CUDA device.
 *
 * Three sources, of which each byte is in exactly one: memory that torch's
 * caching allocator got from cudaMalloc (cached), memory that anybody else got
 * from it (outside), and memory that the caching allocator mapped itself
 * (expandable segments make no call that we see: it is what the allocator says
 * it reserves beyond what it got from cudaMalloc; what it gave back since its
 * last event is seen at the next one, or when taken_reserved() is told).
 *
 * Not in it: the CUDA context, library code, and what other processes take.
 *
 * `device` is the index of a CUDA device, 0 to LEDGER_CUDA_DEVICES - 1; others
 * read as 0 bytes and take no events. Any thread; no lock, no malloc.
 */
#ifndef CKPTAGENT_TAKEN_H
#define CKPTAGENT_TAKEN_H

#include <stdbool.h>
#include <stdint.h>

/* cudaMalloc gave `bytes` at `address`. 0, or -ENOMEM as ledger_alloc(). */
int taken_alloc(int device, uint64_t address, uint64_t bytes, bool cached);

/* It is about to be freed. */
void taken_free(uint64_t address);

/* What the caching allocator says it has reserved now. */
void taken_reserved(int device, uint64_t bytes);

uint64_t taken_cached(int device); /* cached and mapped */
uint64_t taken_outside(int device);
uint64_t taken_live(int device); /* all three */
uint64_t taken_peak(int device); /* highest since the reset */
void taken_peak_reset(int device);

#endif
