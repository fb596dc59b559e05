#include "range_bytes.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>

#include "ledger.h"
#include "pages.h"
#include "ranges.h"

/* `kept` is what was live at the peak numbered `at`. */
struct bytes {
	_Atomic uint64_t live;
	_Atomic uint64_t kept;
	_Atomic uint64_t at;
};

/* One for each device and number, mapped by range_bytes_begin(). */
static struct bytes *_Atomic table;
static _Atomic uint64_t peaks[LEDGER_DEVICES];

int range_bytes_begin(void)
{
	size_t size = sizeof(struct bytes) * LEDGER_DEVICES * RANGES_NAMES;
	struct bytes *none = NULL, *mapped;

	if (atomic_load(&table))
		return 0;
	mapped = pages_map(size);
	if (!mapped)
		return -ENOMEM;
	if (!atomic_compare_exchange_strong(&table, &none, mapped))
		pages_unmap(mapped, size);
	return 0;
}

static struct bytes *bytes_of(int device, uint32_t range)
{
	return &atomic_load(&table)[(size_t)device * RANGES_NAMES + range];
}

/* Before the bytes of a range change. */
static void keep(int device, struct bytes *bytes)
{
	uint64_t peak = atomic_load(&peaks[device]);

	if (atomic_load_explicit(&bytes->at, memory_order_relaxed) == peak)
		return;
	atomic_store(&bytes->kept, atomic_load(&bytes->live));
	atomic_store(&bytes->at, peak);
}

void range_bytes_add(int device, uint32_t range, uint64_t n)
{
	struct bytes *bytes = bytes_of(device, range);

	keep(device, bytes);
	atomic_fetch_add(&bytes->live, n);
}

void range_bytes_sub(int device, uint32_t range, uint64_t n)
{
	struct bytes *bytes = bytes_of(device, range);

	keep(device, bytes);
	atomic_fetch_sub(&bytes->live, n);
}

void range_bytes_peak(int device)
{
	atomic_fetch_add(&peaks[device], 1);
}

uint64_t range_bytes_live(int device, uint32_t range)
{
	return atomic_load(&bytes_of(device, range)->live);
}

uint64_t range_bytes_at_peak(int device, uint32_t range)
{
	struct bytes *bytes = bytes_of(device, range);

	return atomic_load(&bytes->at) == atomic_load(&peaks[device]) ?
		       atomic_load(&bytes->kept) :
		       atomic_load(&bytes->live);
}
