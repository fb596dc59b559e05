/*
 * A preloaded library as the agent is one: it counts cudaMalloc, cudaFree and
 * the reports of torch's caching allocator, and forwards all of them. Its
 * symbols have no version; those that torch wants have one.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

#define EXPORTED __attribute__((visibility("default")))

static struct {
	int64_t mallocs, frees, malloc_bytes;
	int64_t reports, reported_bytes, reserved_bytes;
} counts;

EXPORTED int cudaMalloc(void **memory, size_t bytes)
{
	int (*original)(void **, size_t);

	*(void **)&original = dlsym(RTLD_NEXT, "cudaMalloc");
	counts.mallocs++;
	counts.malloc_bytes += (int64_t)bytes;
	return original(memory, bytes);
}

EXPORTED int cudaFree(void *memory)
{
	int (*original)(void *);

	*(void **)&original = dlsym(RTLD_NEXT, "cudaFree");
	counts.frees++;
	return original(memory);
}

#define REPORT "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE"

/* c10::Device is two bytes: the type, 1 for CUDA, and the index. */
EXPORTED void report(void *memory, int64_t bytes, size_t allocated,
		     size_t reserved, uint16_t device) __asm__(REPORT);

void report(void *memory, int64_t bytes, size_t allocated, size_t reserved,
	    uint16_t device)
{
	void (*original)(void *, int64_t, size_t, size_t, uint16_t);

	*(void **)&original = dlsym(dlopen("libc10.so", RTLD_NOW | RTLD_NOLOAD),
				    REPORT);
	if ((device & 0xff) == 1) {
		counts.reports++;
		counts.reported_bytes += bytes;
		counts.reserved_bytes = (int64_t)reserved;
	}
	original(memory, bytes, allocated, reserved, device);
}

EXPORTED void interposed(void *out)
{
	memcpy(out, &counts, sizeof(counts));
}
