/*
 * The CUDA runtime's memory calls. Calls of torch's caching allocator are told
 * from all others by where they come from, and each goes to the runtime that
 * its caller was linked to.
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
#include "linked.h"
#include "log.h"
#include "symbols.h"
#include "taken.h"

/* cudaErrorInsufficientDriver: asked for without a runtime in the process. */
#define NO_RUNTIME 35

#define GRAIN 512 /* bytes that each allocation of a memory pool is rounded to */

#define CACHING_ALLOCATOR "libc10_cuda.so"
#define RUNTIME "libcudart.so"

typedef int malloc_fn(void **ptr, size_t bytes);
typedef int malloc_pitch_fn(void **ptr, size_t *pitch, size_t width,
			    size_t height);
typedef int malloc_async_fn(void **ptr, size_t bytes, void *stream);
typedef int malloc_from_pool_fn(void **ptr, size_t bytes, void *pool,
				void *stream);
typedef int free_fn(void *ptr);
typedef int free_async_fn(void *ptr, void *stream);
typedef int device_fn(int *device);

static const char *const names[HOOKS] = {
#define HOOK(name, library, symbol, result, arguments) #symbol,
#include "hooks.def"
#undef HOOK
};

static struct linked get_device = { .library = RUNTIME,
				    .name = "cudaGetDevice" };

/* The original, or NULL after one line for all that are missing. */
static void *original(enum hook hook, const void *caller)
{
	static _Atomic bool said;
	void *found = linked_original(hook, caller);

	if (!found && agent_on() && !atomic_exchange(&said, true))
		log_format(LOG_WARNING,
			   "no CUDA runtime here has %s for its caller; such "
			   "calls fail",
			   names[hook]);
	return found;
}

/* The device that the calling thread works on, -1 if that cannot be told. */
static int current_device(const void *caller)
{
	static _Atomic bool said;
	device_fn *get = (device_fn *)linked_function(&get_device, caller);
	int device = -1;

	if (get)
		return get(&device) ? -1 : device;
	if (!atomic_exchange(&said, true))
		log_format(LOG_WARNING,
			   "%s was not found in the CUDA runtime; what is taken "
			   "from the device beside tensors is not counted",
			   get_device.name);
	return -1;
}

int hook_cudart_is_shared(void)
{
	const void *text = symbols_text(CACHING_ALLOCATOR);

	return !text || linked_needs(text, RUNTIME);
}

void hook_cudart_prepare(void)
{
	const void *caller = symbols_text(CACHING_ALLOCATOR);

	if (!caller)
		return;
	for (int hook = HOOK_cuda_malloc; hook <= HOOK_cuda_free_async; hook++)
		linked_original((enum hook)hook, caller);
	linked_function(&get_device, caller);
	symbols_within(CACHING_ALLOCATOR, caller);
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

/* A call has returned `error`, cudaSuccess being 0. */
static void entered(int error, void **ptr, size_t bytes, const void *caller,
		    bool async)
{
	bool torch;

	if (error || !agent_on() || !*ptr)
		return;
	torch = symbols_within(CACHING_ALLOCATOR, caller);
	if (torch && async) /* as the driver's pool does */
		bytes = (bytes + GRAIN - 1) / GRAIN * GRAIN;
	if (!enter(current_device(caller), *ptr, bytes, torch, torch && async))
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
	malloc_fn *forward = (malloc_fn *)original(HOOK_cuda_malloc,
						   SYMBOLS_CALLER);
	int error = forward ? forward(ptr, bytes) : NO_RUNTIME;

	entered(error, ptr, bytes, SYMBOLS_CALLER, false);
	return error;
}

/* Rows of `width` bytes, `pitch` apart. */
int hook_cuda_malloc_pitch(void **ptr, size_t *pitch, size_t width,
			   size_t height)
{
	malloc_pitch_fn *forward = (malloc_pitch_fn *)original(
		HOOK_cuda_malloc_pitch, SYMBOLS_CALLER);
	int error = forward ? forward(ptr, pitch, width, height) : NO_RUNTIME;

	if (!error)
		entered(error, ptr, *pitch * height, SYMBOLS_CALLER, false);
	return error;
}

int hook_cuda_malloc_async(void **ptr, size_t bytes, void *stream)
{
	malloc_async_fn *forward = (malloc_async_fn *)original(
		HOOK_cuda_malloc_async, SYMBOLS_CALLER);
	int error = forward ? forward(ptr, bytes, stream) : NO_RUNTIME;

	entered(error, ptr, bytes, SYMBOLS_CALLER, true);
	return error;
}

int hook_cuda_malloc_from_pool(void **ptr, size_t bytes, void *pool,
			       void *stream)
{
	malloc_from_pool_fn *forward = (malloc_from_pool_fn *)original(
		HOOK_cuda_malloc_from_pool, SYMBOLS_CALLER);
	int error = forward ? forward(ptr, bytes, pool, stream) : NO_RUNTIME;

	entered(error, ptr, bytes, SYMBOLS_CALLER, true);
	return error;
}

int hook_cuda_free(void *ptr)
{
	free_fn *forward = (free_fn *)original(HOOK_cuda_free, SYMBOLS_CALLER);

	left(ptr);
	return forward ? forward(ptr) : NO_RUNTIME;
}

int hook_cuda_free_async(void *ptr, void *stream)
{
	free_async_fn *forward = (free_async_fn *)original(
		HOOK_cuda_free_async, SYMBOLS_CALLER);

	left(ptr);
	if (agent_on() && ptr &&
	    symbols_within(CACHING_ALLOCATOR, SYMBOLS_CALLER))
		ledger_free((uintptr_t)ptr);
	return forward ? forward(ptr, stream) : NO_RUNTIME;
}
