#include "floor.h"

#include <string.h>

#include "tape_peak.h"

/*
 * Keep every call whose recompute reaches more than `limit` bytes. False when
 * a segment that always happens does.
 */
static bool force_above(const struct tape *tape, int64_t limit, bool *keep,
			const int64_t *bytes)
{
	for (size_t k = 0; k < tape->segment_count; k++) {
		int32_t call = tape->segments[k].recomputes;

		if (bytes[k] <= limit)
			continue;
		if (call < 0)
			return false;
		keep[call] = true;
	}
	return true;
}

int64_t floor_bytes(const struct tape *tape, bool *keep, int64_t *bytes)
{
	int64_t lowest, peak;

	memset(keep, 0, tape->call_count * sizeof(*keep));
	lowest = tape_peak(tape, keep, bytes).bytes;
	while (force_above(tape, lowest - 1, keep, bytes)) {
		peak = tape_peak(tape, keep, bytes).bytes;
		if (peak < lowest)
			lowest = peak;
	}
	return lowest;
}

bool floor_forced(const struct tape *tape, int64_t budget, bool *keep,
		  int64_t *bytes)
{
	memset(keep, 0, tape->call_count * sizeof(*keep));
	while (tape_peak(tape, keep, bytes).bytes > budget)
		if (!force_above(tape, budget, keep, bytes))
			return false;
	return true;
}
