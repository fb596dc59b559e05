/*
 * The CUDA runtime's memory calls. Calls of torch's caching allocator are told
 * from all others by where they come from.
 *
 * With the backend cudaMallocAsync torch has no caching allocator: each of its
 * calls is one tensor, and there are no events in c10_cuda.c.
 */
#include "hooks.h"

#include <stdatomic.h>
#include <stdbool.h>

#include "agent.h"
#include "boot.h"
#include "ledger.h"
#include "symbols.h"
#include "taken.h"

/* cudaErrorInsufficientDriver: asked for without a runtime in the process. */
#define NO_RUNTIME 35

#define GRAIN 512 /* bytes that each allocation of a memory pool is rounded to */

#define CACHING_ALLOCATOR "libc10_cuda.so"

typedef int malloc_fn(void **ptr, size_t bytes);
typedef int malloc_async_fn(void **ptr, size_t bytes, void *stream);
typedef int free_fn(void *ptr);
typedef int free_async_fn(void *ptr, void *stream);
typedef int device_fn(int *device);

/*
 * The device that the calling thread works on, -1 if that cannot be told.
 * Looked up once: the loader's lock is not for the allocator's calls.
 */
static int current_device(void)
{
	static void *_Atomic found;
	void *get = atomic_load(&found);
	int device = -1;

	if (!get) {
		get = symbols_beside(HOOK_cuda_malloc, "cudaGetDevice");
		atomic_store(&found, get);
	}
	return get && !((device_fn *)get)(&device) ? device : -1;
}

static _Atomic int live;

int hook_cudart_live(void)
{
	return atomic_load(&live);
}

static bool enter(int device, void *ptr, size_t bytes, bool torch, bool tensor)
{
	uint64_t address = (uintptr_t)ptr;

	return !taken_alloc(device, address, bytes, torch) &&
	       (!tensor || device < 0 || device >= LEDGER_CUDA_DEVICES ||
		!ledger_alloc(LEDGER_CUDA + device, address, bytes));
}

static void entered(void *ptr, size_t bytes, const void *caller, bool async)
{
	bool torch = symbols_within(CACHING_ALLOCATOR, caller);

	if (torch && async)     /* as the driver's pool does */
		bytes = (bytes + GRAIN - 1) / GRAIN * GRAIN;
	if (!enter(current_device(), ptr, bytes, torch, torch && async))
		agent_stand_down("no memory for the ledger");
	if (torch && async) {   /* torch holds its allocator's lock */
		boot_event_locked();
		atomic_store_explicit(&live, 1, memory_order_relaxed);
	}
}

static void left(void *ptr)
{
	if (!agent_on() || !ptr)
		return;
	taken_free((uintptr_t)ptr);
}

int hook_cuda_malloc(void **ptr, size_t bytes)
{
	malloc_fn *forward = (malloc_fn *)symbols_original(
		HOOK_cuda_malloc, SYMBOLS_CALLER);
	int error = forward ? forward(ptr, bytes) : NO_RUNTIME;

	if (!error && agent_on() && *ptr)
		entered(*ptr, bytes, SYMBOLS_CALLER, false);
	return error;
}

int hook_cuda_malloc_async(void **ptr, size_t bytes, void *stream)
{
	malloc_async_fn *forward = (malloc_async_fn *)symbols_original(
		HOOK_cuda_malloc_async, SYMBOLS_CALLER);
	int error = forward ? forward(ptr, bytes, stream) : NO_RUNTIME;

	if (!error && agent_on() && *ptr)
		entered(*ptr, bytes, SYMBOLS_CALLER, true);
	return error;
}

int hook_cuda_free(void *ptr)
{
	free_fn *forward = (free_fn *)symbols_original(HOOK_cuda_free,
							SYMBOLS_CALLER);

	left(ptr);
	return forward ? forward(ptr) : NO_RUNTIME;
}

int hook_cuda_free_async(void *ptr, void *stream)
{
	free_async_fn *forward = (free_async_fn *)symbols_original(
		HOOK_cuda_free_async, SYMBOLS_CALLER);

	left(ptr);
	if (agent_on() && ptr &&
	    symbols_within(CACHING_ALLOCATOR, SYMBOLS_CALLER))
		ledger_free((uintptr_t)ptr);
	return forward ? forward(ptr, stream) : NO_RUNTIME;
}
