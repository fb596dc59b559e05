#include "tape.h"

#include <errno.h>

#include "pages.h"

/*
 * The state word: generation of the tape (23 bits), segments opened so far
 * (32), recording (1), letter of the open segment (8).
 */
#define RECORDING UINT64_C(0x100)
#define COUNT_SHIFT 9
#define GENERATION_SHIFT 41

/* Zero until it is opened. */
struct segment {
	_Atomic uint64_t live, peak;
	_Atomic uint32_t mark;
	_Atomic int32_t call;
};

struct storage {
	_Atomic uint64_t address, bytes;
	_Atomic int32_t freed;
};

static struct segment *segments;
static struct storage *storages;
static const _Atomic uint64_t *_Atomic live_bytes;
static _Atomic int recorded_device;
static _Atomic uint64_t state;
static _Atomic uint32_t watched;
static _Atomic bool full;

/* 1 + the segment in which a watched storage was last freed late; 0: none. */
static _Atomic uint32_t freed_late;

static uint32_t letter_of(uint64_t seen)
{
	return seen & 0xff;
}

static uint32_t count_of(uint64_t seen)
{
	return (uint32_t)(seen >> COUNT_SHIFT);
}

static uint64_t generation_of(uint64_t seen)
{
	return seen >> GENERATION_SHIFT;
}

static uint64_t recording(uint64_t generation, uint32_t count, uint32_t letter)
{
	return generation << GENERATION_SHIFT | (uint64_t)count << COUNT_SHIFT |
	       RECORDING | (letter & 0xff);
}

static bool records(uint64_t seen, int device)
{
	return seen & RECORDING && atomic_load(&recorded_device) == device;
}

static void raise_peak(uint32_t segment, uint64_t live)
{
	_Atomic uint64_t *peak = &segments[segment].peak;
	uint64_t seen = atomic_load_explicit(peak, memory_order_relaxed);

	while (seen < live && !atomic_compare_exchange_weak(peak, &seen, live))
		;
}

/* After the state word shows it: what is allocated meanwhile counts here. */
static void fill(uint32_t segment, uint32_t letter, int32_t call)
{
	struct segment *s = &segments[segment];
	uint64_t live = atomic_load(atomic_load(&live_bytes));

	atomic_store(&s->mark, letter);
	atomic_store(&s->call, call);
	atomic_store(&s->live, live);
	raise_peak(segment, live);
}

static int map_once(void)
{
	if (!segments)
		segments = pages_map(TAPE_SEGMENTS * sizeof(*segments));
	if (!storages)
		storages = pages_map(TAPE_STORAGES * sizeof(*storages));
	return segments && storages ? 0 : -ENOMEM;
}

static void forget(uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		atomic_store_explicit(&segments[i].live, 0,
				      memory_order_relaxed);
		atomic_store_explicit(&segments[i].peak, 0,
				      memory_order_relaxed);
	}
	atomic_store(&watched, 0);
	atomic_store(&freed_late, 0);
	atomic_store(&full, false);
}

int tape_begin(int device, const _Atomic uint64_t *live)
{
	uint64_t last = atomic_fetch_and(&state, ~RECORDING);

	if (map_once()) {
		atomic_store(&full, true);
		return -ENOMEM;
	}
	forget(count_of(last));
	atomic_store(&live_bytes, live);
	atomic_store(&recorded_device, device);
	atomic_store(&state, recording(generation_of(last) + 1, 1, 'S'));
	fill(0, 'S', -1);
	return 0;
}

void tape_abandon(void)
{
	atomic_fetch_and(&state, ~RECORDING);
}

/* Open the next segment after `seen`, which is updated when it is outdated. */
static bool open_segment(uint64_t *seen, uint32_t letter, int32_t call)
{
	uint32_t count = count_of(*seen);

	if (!atomic_compare_exchange_strong(&state, seen,
					    recording(generation_of(*seen),
						      count + 1, letter)))
		return false;
	fill(count, letter, call);
	return true;
}

int tape_mark(uint32_t mark, int32_t call)
{
	uint64_t seen = atomic_load(&state);

	for (;;) {
		uint32_t count = count_of(seen);

		if (!(seen & RECORDING))
			return -1;
		if (count == TAPE_SEGMENTS) {
			atomic_store(&full, true);
			return -1;
		}
		if (open_segment(&seen, mark, call))
			return (int)count;
	}
}

void tape_end(void)
{
	tape_mark('Z', -1);
	atomic_fetch_and(&state, ~RECORDING);
}

bool tape_full(void)
{
	return atomic_load(&full);
}

uint64_t tape_before(int device)
{
	uint64_t seen = atomic_load(&state);

	if (!records(seen, device))
		return 0;
	if (atomic_load_explicit(&freed_late, memory_order_relaxed) ==
	    count_of(seen)) {
		if (count_of(seen) == TAPE_SEGMENTS)
			atomic_store(&full, true);
		else
			open_segment(&seen, 'X', -1);
		seen = atomic_load(&state);
	}
	return seen;
}

void tape_after(int device, uint64_t before, uint64_t live)
{
	uint64_t now = atomic_load(&state);

	if (records(now, device))
		raise_peak(count_of(now) - 1, live);
	if (before && before != now &&
	    generation_of(before) == generation_of(now))
		raise_peak(count_of(before) - 1, live);
}

int32_t tape_watch(int device, uint64_t address, uint64_t bytes)
{
	uint32_t id;

	if (!records(atomic_load(&state), device))
		return -1;
	id = atomic_fetch_add(&watched, 1);
	if (id >= TAPE_STORAGES) {
		atomic_store(&watched, TAPE_STORAGES);
		atomic_store(&full, true);
		return -1;
	}
	atomic_store(&storages[id].bytes, bytes);
	atomic_store(&storages[id].freed, -1);
	atomic_store(&storages[id].address, address);
	return (int32_t)id;
}

static uint32_t watched_count(void)
{
	uint32_t count = atomic_load(&watched);

	return count < TAPE_STORAGES ? count : TAPE_STORAGES;
}

void tape_unwatch(int32_t id)
{
	atomic_store(&storages[id].address, 0);
	atomic_store(&storages[id].bytes, 0);
}

bool tape_watches(int32_t id, uint64_t address)
{
	return atomic_load(&state) & RECORDING && id >= 0 &&
	       (uint32_t)id < watched_count() &&
	       atomic_load(&storages[id].address) == address;
}

void tape_freed(int32_t id, uint64_t address)
{
	uint64_t seen = atomic_load(&state);

	if (!tape_watches(id, address))
		return;
	atomic_store(&storages[id].freed, (int32_t)count_of(seen) - 1);
	if (letter_of(seen) != 'E')
		atomic_store(&freed_late, count_of(seen));
}

size_t tape_segments(struct ckptagent_segment *out, size_t n)
{
	size_t count = count_of(atomic_load(&state));

	for (size_t i = 0; i < count && i < n; i++) {
		struct segment *s = &segments[i];

		out[i].mark = atomic_load(&s->mark);
		out[i].call = atomic_load(&s->call);
		out[i].live = atomic_load(&s->live);
		out[i].peak = atomic_load(&s->peak);
	}
	return count;
}

size_t tape_storages(struct ckptagent_storage *out, size_t n)
{
	size_t count = watched_count();

	for (size_t i = 0; i < count && i < n; i++) {
		out[i].bytes = atomic_load(&storages[i].bytes);
		out[i].freed = atomic_load(&storages[i].freed);
		out[i].reserved = 0;
	}
	return count;
}
