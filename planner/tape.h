/*
 * One kind of iteration, measured with every droppable call dropped: its
 * calls, the storages they would have held and the segments of live bytes.
 * FORMATS.md draws it and says what each mark means.
 *
 * Sizes are bytes in 0..TAPE_BYTES_MAX, so that a peak plus all storages of a
 * tape never overflows. A tape owns its strings and arrays.
 */
#ifndef CKPTPLAN_TAPE_H
#define CKPTPLAN_TAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "why.h"

#define TAPE_BYTES_MAX ((INT64_C(1) << 62) - 1)

struct tape_call {
	char *name;
	char *class_name;
	int64_t call;	    /* position among the calls of its module */
	bool dropped;	    /* false: it can only be kept */
	const char *reason; /* of tape_reasons, NULL: none */
	int64_t saved_bytes;
	int64_t boundary_bytes;
	double forward_ms;
	double recompute_ms;

	/* By tape_index: alive in segments from <= k < to when it is kept. */
	int32_t from; /* its D, the segment count where it has none */
	int32_t to;   /* its last B, the segment count without one */

	/* By noted_settle. */
	int32_t done;  /* from `to` on the first segment not its recompute */
	int64_t spare; /* of what it alone would hold in all of from..to,
			  what notes are not yet set off against */
};

struct tape_storage {
	int64_t bytes;
	int32_t freed;	       /* segment it was freed in, -1: never */
	uint32_t first, count; /* its calls: tape.savers[first...], rising */
};

/* A dropped call whose note holds a storage, before segment `until`. */
struct tape_noter {
	int32_t call, until;
};

/* A storage that in segments from <= k < to nothing but notes holds. */
struct tape_noted {
	int64_t bytes;
	int32_t from, to;
	uint32_t first, count; /* tape.noters[first...], rising by call */

	/* By noted_settle: kept calls can release it in low <= k < high. */
	int32_t low, high;
};

struct tape_segment {
	char mark;
	int32_t call; /* -1: none */
	int64_t live, peak;

	int32_t recomputes; /* by tape_index: happens only if that call
				   is dropped; -1: always */
};

enum tape_held {
	TAPE_PARAMETERS,
	TAPE_GRADIENTS,
	TAPE_OPTIMIZER,
	TAPE_BUFFERS,
	TAPE_HELD_COUNT
};

extern const char *const tape_held_names[TAPE_HELD_COUNT];

/* Why a call can only be kept: the fixed list, NULL at its end. */
extern const char *const tape_reasons[];

struct tape {
	char *root, *key, *fingerprint;
	char *device; /* NULL: the only one of this kind */
	int64_t size;
	int64_t held[TAPE_HELD_COUNT];
	size_t call_count, storage_count, noted_count, segment_count;
	struct tape_call *calls;
	struct tape_storage *storages;
	struct tape_noted *noted;
	struct tape_noter *noters;
	struct tape_segment *segments;
	int32_t *savers;
};

struct profile {
	char *torch, *device;
	size_t kind_count;
	struct tape *kinds;
};

/*
 * Check that the marks stand in an order that can happen and fill the derived
 * fields of calls, segments and noted storages. `place` is what the message
 * starts with.
 */
int tape_index(struct tape *tape, const char *place, const struct why *why);

/* Whether two kinds of iteration (NULL: the only device) are of one device. */
bool tape_same_device(const char *a, const char *b);

/* Move all segments so that the first starts at `base` live bytes. */
void tape_move(struct tape *tape, int64_t base);

/*
 * The first segment in which keeping call i costs the bytes of storage j that
 * it saved; none when it is not below the call's `to`.
 */
static inline int32_t tape_cost_from(const struct tape_storage *storage,
				     const struct tape_call *call,
				     size_t segment_count)
{
	if (storage->freed < 0)
		return (int32_t)segment_count;
	return storage->freed >= call->from ? storage->freed + 1 : call->from;
}

/* The recompute time of the droppable calls that are not kept. */
double tape_recompute_ms(const struct tape *tape, const bool *keep);

void tape_free(struct tape *tape);
void profile_free(struct profile *profile);

#endif
