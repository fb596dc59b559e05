#include "ledger.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "addresses.h"
#include "range_bytes.h"
#include "range_names.h"
#include "ranges.h"
#include "tape.h"

/*
 * What the table holds of an allocation: bytes in the low 41 bits, the device
 * in 7 and the block in 16; in the note, 1 + the storage on the tape in the low
 * 19 bits (0: not watched) and the range above.
 */
#define DEVICE_SHIFT 41
#define DEVICE_MASK UINT32_C(0x7f)
#define BLOCK_SHIFT 48
#define RANGE_SHIFT 19
#define STORAGE_MASK ((UINT32_C(1) << RANGE_SHIFT) - 1)

_Static_assert(LEDGER_BYTES_MAX < UINT64_C(1) << DEVICE_SHIFT, "held");
_Static_assert(LEDGER_DEVICES <= DEVICE_MASK + 1, "held");
_Static_assert(TAPE_STORAGES <= STORAGE_MASK, "note");
_Static_assert(RANGES_NAMES <= UINT32_C(1) << (32 - RANGE_SHIFT), "note");

/* On a cache line of its own: every event of the device writes it. */
struct device {
	_Alignas(64) _Atomic uint64_t live;
	_Atomic uint64_t peak;
};

static struct device devices[LEDGER_DEVICES];
static _Atomic uint64_t block_live[LEDGER_BLOCKS];
static _Atomic uint32_t current_block;
static _Atomic uint64_t allocations, frees, unknown_frees, repeats;

static uint64_t bytes_of(uint64_t held)
{
	return held & LEDGER_BYTES_MAX;
}

static int device_of(uint64_t held)
{
	return (int)(held >> DEVICE_SHIFT & DEVICE_MASK);
}

static int32_t storage_of(uint32_t note)
{
	return (int32_t)(note & STORAGE_MASK) - 1;
}

static void add(_Atomic uint64_t *counter, uint64_t n)
{
	atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

static void raise_peak(int device, uint64_t live)
{
	_Atomic uint64_t *peak = &devices[device].peak;
	uint64_t seen = atomic_load_explicit(peak, memory_order_relaxed);

	while (seen < live && !atomic_compare_exchange_weak(peak, &seen, live))
		;
	if (seen < live && range_names_any())
		range_bytes_peak(device);
}

/* Count out what was taken from the table. */
static void release(uint64_t address, struct address value)
{
	uint64_t bytes = bytes_of(value.held);
	uint32_t block = value.held >> BLOCK_SHIFT;
	uint32_t range = value.note >> RANGE_SHIFT;
	int device = device_of(value.held);

	if (value.note & STORAGE_MASK)
		tape_freed(storage_of(value.note), address);
	atomic_fetch_sub(&devices[device].live, bytes);
	if (block)
		atomic_fetch_sub(&block_live[block], bytes);
	if (range)
		range_bytes_sub(device, range, bytes);
}

/* The tensors in cached memory belong to blocks and ranges, it does not. */
static bool is_cached(int device)
{
	return device >= LEDGER_CACHED && device < LEDGER_OUTSIDE;
}

static struct address value_for(int device, uint64_t bytes)
{
	uint64_t block = 0;
	uint32_t range = 0;

	if (!is_cached(device)) {
		block = atomic_load_explicit(&current_block,
					     memory_order_relaxed);
		range = ranges_current();
	}
	return (struct address){ bytes | (uint64_t)device << DEVICE_SHIFT |
					 block << BLOCK_SHIFT,
				 range << RANGE_SHIFT };
}

static int enter(int device, uint64_t address, uint64_t bytes)
{
	struct address value = value_for(device, bytes);
	uint32_t block = value.held >> BLOCK_SHIFT;
	uint32_t range = value.note >> RANGE_SHIFT;
	uint64_t before = tape_before(device);
	uint64_t live;
	int error;

	if (range)
		range_bytes_add(device, range, bytes);
	live = atomic_fetch_add(&devices[device].live, bytes) + bytes;
	raise_peak(device, live);
	tape_after(device, before, live);
	if (block)
		atomic_fetch_add(&block_live[block], bytes);
	error = addresses_put(address, value);
	if (error)
		release(address, value);
	return error;
}

int ledger_alloc(int device, uint64_t address, uint64_t bytes)
{
	struct address former;

	if (!address || device < 0 || device >= LEDGER_DEVICES)
		return 0;
	add(&allocations, 1);
	if (addresses_take(address, &former)) {
		add(&repeats, 1);
		release(address, former);
	}
	return enter(device, address,
		     bytes < LEDGER_BYTES_MAX ? bytes : LEDGER_BYTES_MAX);
}

void ledger_free(uint64_t address)
{
	struct address value;

	if (!address)
		return;
	add(&frees, 1);
	if (addresses_take(address, &value))
		release(address, value);
	else
		add(&unknown_frees, 1);
}

static struct device *device_at(int device)
{
	return device >= 0 && device < LEDGER_DEVICES ? &devices[device] : NULL;
}

uint64_t ledger_live(int device)
{
	struct device *d = device_at(device);

	return d ? atomic_load(&d->live) : 0;
}

uint64_t ledger_peak(int device)
{
	struct device *d = device_at(device);
	uint64_t peak, live;

	if (!d)
		return 0;
	peak = atomic_load(&d->peak);
	live = atomic_load(&d->live);
	return peak > live ? peak : live;
}

/* First down, then up to what is live by then: no peak after it gets lost. */
void ledger_peak_reset(int device)
{
	struct device *d = device_at(device);

	if (!d)
		return;
	atomic_store(&d->peak, 0);
	raise_peak(device, atomic_load(&d->live));
}

uint64_t ledger_events(void)
{
	return atomic_load(&allocations) + atomic_load(&frees);
}

uint64_t ledger_unknown_frees(void)
{
	return atomic_load(&unknown_frees);
}

uint64_t ledger_repeats(void)
{
	return atomic_load(&repeats);
}

uint64_t ledger_size(uint64_t address)
{
	struct address value;

	return address && addresses_get(address, &value) ?
		       bytes_of(value.held) :
		       0;
}

uint32_t ledger_block(uint32_t block)
{
	return atomic_exchange(&current_block,
			       block < LEDGER_BLOCKS ? block : 0);
}

uint64_t ledger_block_live(uint32_t block)
{
	return block < LEDGER_BLOCKS ? atomic_load(&block_live[block]) : 0;
}

int ledger_tape_begin(int device)
{
	struct device *d = device_at(device);

	return d ? tape_begin(device, &d->live) : -EINVAL;
}

int32_t ledger_watch(uint64_t address)
{
	struct address value;
	_Atomic uint32_t *note;
	uint32_t range;
	int32_t id;

	if (!address || !addresses_get(address, &value))
		return -1;
	if (tape_watches(storage_of(value.note), address))
		return storage_of(value.note);
	range = value.note & ~STORAGE_MASK;
	note = addresses_note(address);
	id = tape_watch(device_of(value.held), address, bytes_of(value.held));
	if (id < 0)
		return -1;
	if (atomic_compare_exchange_strong(note, &value.note,
					   range | ((uint32_t)id + 1)))
		return id;
	tape_unwatch(id);
	return storage_of(value.note);
}
