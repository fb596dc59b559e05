#include "pool.h"

#include "device.h"
#include "lock.h"
#include "settings.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/mman.h>

#define PIECE ((size_t)512)
#define STEP ((uint64_t)32 << 20)

static struct pool {
	struct phantom_pool_state state;
	bool mapped;
} pools[PHANTOM_DEVICES_MAX];
static struct ranges pieces;

static uint64_t round_up(uint64_t bytes, uint64_t unit)
{
	return (bytes + unit - 1) / unit * unit;
}

static uintptr_t window(int device)
{
	return WINDOW_POOLS + device * WINDOW_BYTES;
}

/* Addresses cost nothing: the whole window is mapped at the first use. */
static int map_window(int device)
{
	void *wanted = (void *)window(device);

	if (pools[device].mapped)
		return 0;
	if (mmap(wanted, WINDOW_BYTES, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE |
			 MAP_FIXED_NOREPLACE,
		 -1, 0) != wanted)
		return -ENOMEM;
	pools[device].mapped = true;
	return 0;
}

static void raise_high(struct phantom_pool_state *state)
{
	if (state->used > state->used_high)
		state->used_high = state->used;
	if (state->reserved > state->reserved_high)
		state->reserved_high = state->reserved;
}

/* The pool then has `reserved` bytes of the device. */
static int grow(int device, uint64_t reserved)
{
	struct phantom_pool_state *state = &pools[device].state;
	int status;

	if (reserved <= state->reserved)
		return 0;
	status = device_charge(device, reserved - state->reserved);
	if (!status)
		state->reserved = reserved;
	return status;
}

/* A step more, or what is just needed where that is all there is. */
static int take(int device, uint64_t bytes)
{
	struct phantom_pool_state *state = &pools[device].state;
	int status = grow(device, round_up(state->used + bytes, STEP));

	if (status == -ENOMEM)
		status = grow(device,
			      round_up(state->used + bytes, PHANTOM_GRAIN));
	if (status)
		return status;
	state->used += bytes;
	raise_high(state);
	return 0;
}

static void shrink(int device, uint64_t keep)
{
	struct phantom_pool_state *state = &pools[device].state;
	uint64_t reserved = round_up(state->used, STEP);

	if (reserved < keep)
		reserved = keep;
	if (reserved >= state->reserved)
		return;
	device_discharge(device, state->reserved - reserved);
	state->reserved = reserved;
}

int phantom_pool_alloc(int device, size_t bytes, void **memory)
{
	struct range range = { .end = round_up(bytes, PIECE),
			       .device = device };
	int status = -ENOMEM;

	if (!phantom_device_exists(device))
		return -ENODEV;
	if (!bytes || range.end < bytes)
		return -ENOMEM;
	range.bytes = range.end;
	phantom_lock();
	if (!map_window(device))
		status = take(device, range.bytes);
	if (!status) {
		status = ranges_place(&pieces, &range, window(device),
				      window(device) + WINDOW_BYTES, PIECE, 0);
		if (status)
			pools[device].state.used -= range.bytes;
	}
	phantom_unlock();
	if (!status)
		*memory = (void *)range.start;
	return status;
}

int phantom_pool_free(void *memory)
{
	struct range range;
	int status;

	phantom_lock();
	status = ranges_remove(&pieces, (uintptr_t)memory, &range);
	if (!status) {
		pools[range.device].state.used -= range.bytes;
		shrink(range.device, pools[range.device].state.threshold);
	}
	phantom_unlock();
	return status;
}

struct phantom_pool_state phantom_pool_state(int device)
{
	struct phantom_pool_state state;

	phantom_lock();
	state = pools[device].state;
	phantom_unlock();
	return state;
}

void phantom_pool_set_threshold(int device, uint64_t bytes)
{
	phantom_lock();
	pools[device].state.threshold = bytes;
	phantom_unlock();
}

void phantom_pool_reset_high(int device)
{
	struct phantom_pool_state *state = &pools[device].state;

	phantom_lock();
	state->used_high = state->used;
	state->reserved_high = state->reserved;
	phantom_unlock();
}

void phantom_pool_trim(int device, uint64_t keep)
{
	phantom_lock();
	shrink(device, keep);
	phantom_unlock();
}

const struct range *pool_find(const void *address)
{
	return ranges_find(&pieces, (uintptr_t)address);
}
