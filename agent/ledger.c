#include "ledger.h"

#include <errno.h>
#include <stdatomic.h>

#include "addresses.h"
#include "tape.h"

/*
 * What the table holds of an allocation: bytes in the low 48 bits and the
 * block above; in the note, 1 + the storage on the tape in the low 24 bits
 * (0: not watched) and the device above.
 */
#define BLOCK_SHIFT 48
#define DEVICE_SHIFT 24
#define STORAGE_MASK UINT32_C(0xffffff)

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

static int32_t storage_of(uint32_t note)
{
	return (int32_t)(note & STORAGE_MASK) - 1;
}

static void add(_Atomic uint64_t *counter, uint64_t n)
{
	atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

static void raise_peak(struct device *device, uint64_t live)
{
	uint64_t seen = atomic_load_explicit(&device->peak,
					     memory_order_relaxed);

	while (seen < live &&
	       !atomic_compare_exchange_weak(&device->peak, &seen, live))
		;
}

/* Count out what was taken from the table. */
static void release(uint64_t address, struct address value)
{
	uint64_t bytes = bytes_of(value.held);
	uint32_t block = value.held >> BLOCK_SHIFT;

	if (value.note & STORAGE_MASK)
		tape_freed(storage_of(value.note), address);
	atomic_fetch_sub(&devices[value.note >> DEVICE_SHIFT].live, bytes);
	if (block)
		atomic_fetch_sub(&block_live[block], bytes);
}

static uint32_t block_for(int device)
{
	if (device >= LEDGER_CACHED && device < LEDGER_OUTSIDE)
		return 0;
	return atomic_load_explicit(&current_block, memory_order_relaxed);
}

static int enter(int device, uint64_t address, uint64_t bytes)
{
	uint32_t block = block_for(device);
	struct address value = { bytes | (uint64_t)block << BLOCK_SHIFT,
				 (uint32_t)device << DEVICE_SHIFT };
	uint64_t before = tape_before(device);
	uint64_t live = atomic_fetch_add(&devices[device].live, bytes) + bytes;
	int error;

	raise_peak(&devices[device], live);
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
	raise_peak(d, atomic_load(&d->live));
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
	uint32_t device;
	int32_t id;

	if (!address || !addresses_get(address, &value))
		return -1;
	if (tape_watches(storage_of(value.note), address))
		return storage_of(value.note);
	device = value.note >> DEVICE_SHIFT;
	note = addresses_note(address);
	id = tape_watch((int)device, address, bytes_of(value.held));
	if (id < 0)
		return -1;
	if (atomic_compare_exchange_strong(note, &value.note,
					   device << DEVICE_SHIFT |
						   ((uint32_t)id + 1)))
		return id;
	tape_unwatch(id);
	return storage_of(value.note);
}
