#include "cupti_records.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "pages.h"

#define BUFFERS 16
#define BUFFER_BYTES ((size_t)1 << 20) /* CUPTI advises 1 to 10 MB */
#define RECORDS (1 << 20)
#define REGIONS (1 << 16)

struct link {
	uint32_t correlation;
	uint32_t region; /* its index in this recording */
};

struct span {
	uint32_t correlation;
	uint32_t reserved;
	uint64_t nanoseconds;
};

static struct books {
	struct link links[RECORDS];
	struct span spans[RECORDS];
	uint64_t around[REGIONS];
	uint64_t nanoseconds[REGIONS];
	uint8_t buffers[BUFFERS][BUFFER_BYTES] __attribute__((aligned(4096)));
} *books;

static _Atomic bool lent[BUFFERS];
static _Atomic size_t links, spans, regions;
static _Atomic uint64_t base; /* the number before this recording's first */
static _Atomic bool taking, lost;
static cupti_next_fn *_Atomic next_record;

int records_begin(cupti_next_fn *next)
{
	if (!books)
		books = pages_map(sizeof(*books));
	if (!books)
		return -ENOMEM;
	base += regions;
	memset(books->nanoseconds, 0, regions * sizeof(*books->nanoseconds));
	links = spans = regions = 0;
	lost = false;
	next_record = next;
	taking = true;
	return 0;
}

void records_end(void)
{
	taking = false;
}

uint64_t records_region(uint64_t inside)
{
	size_t index = atomic_fetch_add(&regions, 1);

	if (index >= REGIONS) {
		atomic_store(&regions, REGIONS);
		lost = true;
		return 0;
	}
	books->around[index] = inside;
	return base + index + 1;
}

/* The index of a region of this recording, or REGIONS. */
static size_t index_of(uint64_t region)
{
	size_t index = region - base - 1; /* huge for those before */

	return index < regions && index < REGIONS ? index : REGIONS;
}

uint64_t records_around(uint64_t region)
{
	size_t index = index_of(region);

	return index < REGIONS ? books->around[index] : 0;
}

/* Without one CUPTI drops records, and counts them. */
void records_requested(uint8_t **buffer, size_t *bytes, size_t *records_max)
{
	*buffer = NULL;
	*bytes = *records_max = 0;
	for (int i = 0; i < BUFFERS; i++) {
		if (atomic_exchange(&lent[i], true))
			continue;
		*buffer = books->buffers[i];
		*bytes = BUFFER_BYTES;
		return;
	}
	lost = true;
}

static uint32_t u32(const uint8_t *record, size_t at)
{
	uint32_t value;

	memcpy(&value, record + at, sizeof(value));
	return value;
}

static uint64_t u64(const uint8_t *record, size_t at)
{
	uint64_t value;

	memcpy(&value, record + at, sizeof(value));
	return value;
}

/* Room for one more, or RECORDS. */
static size_t room(_Atomic size_t *count)
{
	size_t index = atomic_fetch_add(count, 1);

	if (index < RECORDS)
		return index;
	atomic_store(count, RECORDS);
	lost = true;
	return RECORDS;
}

static void take_link(const uint8_t *record)
{
	size_t region = index_of(u64(record, CUPTI_EXTERNAL_ID)), index;

	if (u32(record, CUPTI_EXTERNAL_KIND) !=
		    CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2 ||
	    region == REGIONS)
		return;
	index = room(&links);
	if (index < RECORDS)
		books->links[index] = (struct link){
			u32(record, CUPTI_EXTERNAL_CORRELATION),
			(uint32_t)region
		};
}

static void take_span(const uint8_t *record, size_t correlation)
{
	uint64_t start = u64(record, CUPTI_START), end = u64(record, CUPTI_END);
	size_t index;

	if (!start || end < start) {
		lost = true;
		return;
	}
	index = room(&spans);
	if (index < RECORDS)
		books->spans[index] = (struct span){ u32(record, correlation),
						     0, end - start };
}

static void take(const uint8_t *record)
{
	switch (u32(record, 0)) {
	case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION:
		take_link(record);
		break;
	case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
		take_span(record, CUPTI_KERNEL_CORRELATION);
		break;
	case CUPTI_ACTIVITY_KIND_MEMCPY:
	case CUPTI_ACTIVITY_KIND_MEMSET:
		take_span(record, CUPTI_COPY_CORRELATION);
		break;
	}
}

static void take_all(uint8_t *buffer, size_t valid_bytes)
{
	cupti_next_fn *next = next_record;
	void *record = NULL;
	int error;

	while (!(error = next(buffer, valid_bytes, &record)) && record)
		take(record);
	if (error && error != CUPTI_ERROR_MAX_LIMIT_REACHED)
		lost = true;
}

void records_completed(void *context, uint32_t stream, uint8_t *buffer,
		       size_t bytes, size_t valid_bytes)
{
	(void)context;
	(void)stream;
	(void)bytes;
	if (buffer && valid_bytes && taking)
		take_all(buffer, valid_bytes);
	for (int i = 0; i < BUFFERS; i++)
		if (buffer == books->buffers[i])
			atomic_store(&lent[i], false);
}

bool records_lost(void)
{
	return lost;
}

int records_buffers_out(void)
{
	int out = 0;

	for (int i = 0; i < BUFFERS; i++)
		out += atomic_load(&lent[i]);
	return out;
}

bool records_own(const uint8_t *buffer)
{
	for (int i = 0; books && i < BUFFERS; i++)
		if (buffer == books->buffers[i])
			return true;
	return false;
}

static int by_correlation(const void *left, const void *right)
{
	uint32_t a = ((const struct link *)left)->correlation;
	uint32_t b = ((const struct link *)right)->correlation;

	return (a > b) - (a < b);
}

/* A region, and each that it is inside of. */
static void add(size_t index, uint64_t nanoseconds)
{
	while (index < REGIONS) {
		books->nanoseconds[index] += nanoseconds;
		index = index_of(books->around[index]);
	}
}

size_t records_sum(size_t n, const uint64_t *numbers, uint64_t *nanoseconds)
{
	size_t theirs = 0;

	qsort(books->links, links, sizeof(*books->links), by_correlation);
	for (size_t i = 0; i < spans; i++) {
		struct link key = { books->spans[i].correlation, 0 };
		struct link *link = bsearch(&key, books->links, links,
					    sizeof(key), by_correlation);

		if (!link)
			continue;
		add(link->region, books->spans[i].nanoseconds);
		theirs++;
	}
	for (size_t i = 0; i < n; i++) {
		size_t index = index_of(numbers[i]);

		nanoseconds[i] = index < REGIONS ? books->nanoseconds[index] :
						   0;
	}
	return theirs;
}
