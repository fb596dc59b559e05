#include "range_bytes.h"

#include <stdatomic.h>

#include "ledger.h"
#include "ranges.h"

/* `kept` is what was live at the peak numbered `at`. */
struct bytes {
	_Atomic uint64_t live;
	_Atomic uint64_t kept;
	_Atomic uint64_t at;
};

static struct bytes table[LEDGER_DEVICES][RANGES_NAMES];
static _Atomic uint64_t peaks[LEDGER_DEVICES];

/* Before the bytes of a range change. */
static void keep(int device, struct bytes *bytes)
{
	uint64_t peak = atomic_load(&peaks[device]);

	if (atomic_load_explicit(&bytes->at, memory_order_relaxed) == peak)
		return;
	atomic_store(&bytes->kept, atomic_load(&bytes->live));
	atomic_store(&bytes->at, peak);
}

void range_bytes_add(int device, uint32_t range, uint64_t bytes)
{
	keep(device, &table[device][range]);
	atomic_fetch_add(&table[device][range].live, bytes);
}

void range_bytes_sub(int device, uint32_t range, uint64_t bytes)
{
	keep(device, &table[device][range]);
	atomic_fetch_sub(&table[device][range].live, bytes);
}

void range_bytes_peak(int device)
{
	atomic_fetch_add(&peaks[device], 1);
}

uint64_t range_bytes_live(int device, uint32_t range)
{
	return atomic_load(&table[device][range].live);
}

uint64_t range_bytes_at_peak(int device, uint32_t range)
{
	struct bytes *bytes = &table[device][range];

	return atomic_load(&bytes->at) == atomic_load(&peaks[device]) ?
		       atomic_load(&bytes->kept) :
		       atomic_load(&bytes->live);
}
