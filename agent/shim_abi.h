/*
 * The functions that libckptagent.so offers to the shim, and nothing else.
 *
 * The shim loads the already preloaded library with ctypes and calls these.
 * Conventions, for every function below unless it says otherwise:
 *   - bytes are uint64_t, times are the caller's business;
 *   - no function allocates on the caller's behalf, blocks, raises or calls
 *     into Python; every one may be called from any thread;
 *   - a device is an index of ckptagent_device_* (0 is the CPU, 1 + n is
 *     CUDA device n); an unknown device reads as zero bytes.
 */
#ifndef CKPTAGENT_SHIM_ABI_H
#define CKPTAGENT_SHIM_ABI_H

#include <stddef.h>
#include <stdint.h>

/* Raised whenever a function or struct below changes its meaning. */
#define CKPTAGENT_ABI 1
int ckptagent_abi(void);

/*
 * The value of one setting in canonical text, or NULL for an unknown name.
 * Names are those of the variables without CKPT_ in lower case:
 *   "budget"   "unset" | "min" | "max" | decimal bytes (percent resolved)
 *   "blocks"   as given ("auto" by default)
 *   "planner"  "plan" "on_infeasible" "proof" "on_mismatch" "spill" "out"
 *   "timing"   "cache" "tensorboard" "log": as given or their default;
 *              an unset path is "".
 *   "rehearse" iterations under a plan, "0": it is no rehearsal
 *   "device_memory"  decimal bytes that 100% stands for on the CPU
 *   "budget_share"   of a budget in per cent: millionths of the device's memory
 * The string belongs to the library and never changes or moves.
 */
const char *ckptagent_setting(const char *name);

/*
 * One line of the log, at "error", "warning", "info" or "debug"; filtered
 * and directed by CKPT_LOG. The line is prefixed with "ckptagent: ".
 */
void ckptagent_log(const char *level, const char *line);

/* 1 once a hook of the CPU allocator was called and its original found. */
int ckptagent_live_hooks(void);

/* 1 once an allocator of torch's CUDA part has told of an allocation. */
int ckptagent_live_cuda_hooks(void);

/*
 * 0 where torch's CUDA library has the CUDA runtime inside (linked statically):
 * what others than its caching allocator take is then not seen. Takes the
 * loader's lock.
 */
int ckptagent_live_cudart_hooks(void);

/* ---- ledger ---------------------------------------------------------- */

uint64_t ckptagent_live(int device);          /* live bytes now */
uint64_t ckptagent_peak(int device);          /* highest since the reset */
void ckptagent_peak_reset(int device);        /* peak = live */
uint64_t ckptagent_events(void);              /* allocator events so far */
uint64_t ckptagent_unknown_frees(void);       /* frees of unknown pointers */

/*
 * What the process takes from CUDA device `cuda` (0, 1, ...): by torch's
 * caching allocator, by everybody else through the CUDA runtime, together;
 * and the highest together since the reset. agent/taken.h says what is in it.
 */
uint64_t ckptagent_cached(int cuda);
uint64_t ckptagent_outside(int cuda);
uint64_t ckptagent_taken(int cuda);
uint64_t ckptagent_taken_peak(int cuda);
void ckptagent_taken_peak_reset(int cuda);

/*
 * What the caching allocator says it has reserved now: its own releases with
 * expandable segments are seen by no hook until its next allocation.
 */
void ckptagent_reserved(int cuda, uint64_t bytes);

/*
 * Bytes of the live allocation that starts at each address, 0 where none is
 * known (memory of NumPy, mapped files, an allocation before the load).
 */
void ckptagent_sizes(size_t n, const uint64_t *addresses, uint64_t *bytes);

/*
 * Attribute the allocations that follow, on every thread, to a block
 * (1..65535; 0: none). Returns the block that was set before.
 */
uint32_t ckptagent_block(uint32_t block);
uint64_t ckptagent_block_live(uint32_t block); /* live bytes of a block */

/* ---- ranges ---------------------------------------------------------- */

#define CKPTAGENT_RANGE_TEXT 128 /* bytes, the zero at the end included */

/* A range that the job has opened (NVTX), see agent/ranges.h. */
struct ckptagent_range {
	uint64_t id;		/* of this opening; later ones have larger ids */
	char text[CKPTAGENT_RANGE_TEXT]; /* UTF-8, "" if it has none */
};

/* Whether ranges are looked at: some library of the process makes them. */
int ckptagent_ranges_live(void);

/* The calling thread's open ranges, innermost first: copy at most n; how many. */
size_t ckptagent_ranges(struct ckptagent_range *out, size_t n);

/*
 * Attribute what is allocated in the calling thread's open range `id`, and in
 * every range with the same text from now on, to a number (1..1023), which is
 * returned. 0: no such range is open here, it has no text, or there are no
 * more numbers.
 */
uint32_t ckptagent_range_number(uint64_t id);

struct ckptagent_range_bytes {
	uint64_t openings;	/* of its ranges so far */
	uint64_t tensors;	/* bytes, when the device was at its peak */
	uint64_t outside;	/* bytes that others than torch took from it */
};

/*
 * What belongs to the numbers 0 to n - 1 (number 0: nothing) on a device. The
 * peak is that since the reset; of `outside`, which only CUDA devices have, the
 * highest of all.
 */
void ckptagent_range_bytes(int device, size_t n,
			   struct ckptagent_range_bytes *out);

/* ---- tape ------------------------------------------------------------ */

/*
 * A tape is a list of segments of one iteration. A segment runs from the mark
 * that opens it to the next one. Marks (see planner/FORMATS.md for what each
 * means): S F E D B R Z by the shim, X by the ledger itself (the first
 * allocation after watched storages were freed outside an E segment).
 */
struct ckptagent_segment {
	uint32_t mark;		/* the letter, e.g. 'F' */
	int32_t call;		/* the number given to ckptagent_mark, -1: none */
	uint64_t live;		/* bytes when it was opened */
	uint64_t peak;		/* highest live bytes before the next mark */
};

struct ckptagent_storage {
	uint64_t bytes;		/* of the allocation */
	int32_t freed;		/* index of the segment it was freed in, -1: not yet */
	int32_t reserved;
};

/* Begin a tape: forget the last one, open segment 0 with mark S. */
void ckptagent_tape_begin(int device);

/*
 * Open a segment and return its index. -1 without a tape in progress, and
 * from the first mark that found the tape full on (see ckptagent_tape_full).
 */
int ckptagent_mark(uint32_t mark, int32_t call);

/* End the tape (mark Z). What was recorded stays until the next begin. */
void ckptagent_tape_end(void);

/* 1 if segments or storages were lost since the begin: do not plan from it. */
int ckptagent_tape_full(void);

/*
 * Watch live allocations until they are freed: one storage on the tape for
 * each address, the same one when an address is watched again while alive.
 * ids[i] = index of the storage, or -1 (unknown address, or no tape).
 */
void ckptagent_watch(size_t n, const uint64_t *addresses, int32_t *ids);

/* Copy at most n; return how many there are. */
size_t ckptagent_segments(struct ckptagent_segment *out, size_t n);
size_t ckptagent_storages(struct ckptagent_storage *out, size_t n);

/* ---- times on a CUDA device -------------------------------------------- */

/*
 * CKPT_TIMING=cupti; hooks/cupti.h says what these do. begin and end may wait
 * for CUPTI. 0, or a negative code and one line in why[why_bytes].
 */
int ckptagent_cupti_begin(char *why, size_t why_bytes);
uint64_t ckptagent_cupti_enter(void);
void ckptagent_cupti_leave(uint64_t region);
int ckptagent_cupti_end(size_t n, const uint64_t *regions,
			uint64_t *nanoseconds, char *why, size_t why_bytes);

/* ---- digests --------------------------------------------------------- */

/*
 * A 64-bit, position-dependent digest of each of n memory ranges. Equal bytes
 * give equal digests on every machine of one byte order; any single changed
 * byte changes it. stride 0 digests every byte; otherwise one 64-byte line in
 * every `stride` bytes, and the last one (a probe).
 */
void ckptagent_digests(size_t n, const uint64_t *addresses,
		       const uint64_t *bytes, uint64_t stride, uint64_t *out);

/*
 * The same for one strided tensor, in index order: ndim sizes and strides (in
 * elements), itemsize bytes an element.
 */
uint64_t ckptagent_digest_strided(uint64_t address, uint32_t itemsize,
				  uint32_t ndim, const int64_t *sizes,
				  const int64_t *strides);

#endif
