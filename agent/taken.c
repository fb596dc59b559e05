#include "taken.h"

#include <stdatomic.h>

#include "ledger.h"

/*
 * Tensors start where segments start. Device memory is aligned to far more
 * than two bytes, so the odd address is free for the ledger's second entry.
 */
#define SEGMENT(address) ((address) | 1)

static struct {
	_Alignas(64) _Atomic uint64_t mapped;
	_Atomic uint64_t peak;
} devices[LEDGER_CUDA_DEVICES];

static bool known(int device)
{
	return device >= 0 && device < LEDGER_CUDA_DEVICES;
}

static void raise_peak(int device)
{
	uint64_t live = taken_live(device);
	uint64_t seen = atomic_load(&devices[device].peak);

	while (seen < live && !atomic_compare_exchange_weak(
				      &devices[device].peak, &seen, live))
		;
}

int taken_alloc(int device, uint64_t address, uint64_t bytes, bool cached)
{
	int error;

	if (!address || !known(device))
		return 0;
	error = ledger_alloc((cached ? LEDGER_CACHED : LEDGER_OUTSIDE) + device,
			     SEGMENT(address), bytes);
	raise_peak(device);
	return error;
}

void taken_free(uint64_t address)
{
	if (address && ledger_size(SEGMENT(address)))
		ledger_free(SEGMENT(address));
}

void taken_reserved(int device, uint64_t bytes)
{
	uint64_t cached, mapped;

	if (!known(device))
		return;
	cached = ledger_live(LEDGER_CACHED + device);
	mapped = bytes > cached ? bytes - cached : 0;
	/* Mostly it is as it was: this stands in the path of every event. */
	if (atomic_load_explicit(&devices[device].mapped,
				 memory_order_relaxed) == mapped)
		return;
	atomic_store(&devices[device].mapped, mapped);
	raise_peak(device);
}

uint64_t taken_cached(int device)
{
	return known(device) ? ledger_live(LEDGER_CACHED + device) +
				       atomic_load(&devices[device].mapped) :
			       0;
}

uint64_t taken_outside(int device)
{
	return known(device) ? ledger_live(LEDGER_OUTSIDE + device) : 0;
}

uint64_t taken_live(int device)
{
	return taken_cached(device) + taken_outside(device);
}

uint64_t taken_peak(int device)
{
	uint64_t peak, live;

	if (!known(device))
		return 0;
	peak = atomic_load(&devices[device].peak);
	live = taken_live(device);
	return peak > live ? peak : live;
}

/* First down, then up to what is taken by then: no peak after it gets lost. */
void taken_peak_reset(int device)
{
	if (!known(device))
		return;
	atomic_store(&devices[device].peak, 0);
	raise_peak(device);
}
