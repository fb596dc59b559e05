/*
 * torch's CUDA caching allocator. Its events come under its own lock: no lock,
 * no malloc, no CUDA and no Python in here.
 */
#include "hooks.h"

#include <stdatomic.h>

#include "agent.h"
#include "boot.h"
#include "ledger.h"
#include "symbols.h"
#include "taken.h"

#define DEVICE_TYPE_CUDA 1 /* c10::DeviceType::CUDA, also of ROCm builds */

typedef void memory_fn(void *ptr, int64_t bytes, size_t allocated,
		       size_t reserved, struct c10_device device);
typedef void signed_fn(void *ptr, int64_t bytes, int64_t allocated,
		       int64_t reserved, struct c10_device device);

static _Atomic int live;

int hook_c10_cuda_live(void)
{
	return atomic_load(&live);
}

/* CPU events come here too while a profiler runs: c10_cpu.c has counted them. */
static void event(uint64_t address, int64_t bytes, uint64_t reserved,
		  struct c10_device device)
{
	if (!agent_on() || device.type != DEVICE_TYPE_CUDA ||
	    device.index < 0 || device.index >= LEDGER_CUDA_DEVICES)
		return;
	if (bytes < 0)
		ledger_free(address);
	else if (ledger_alloc(LEDGER_CUDA + device.index, address,
			      (uint64_t)bytes))
		agent_stand_down("no memory for the ledger");
	taken_reserved(device.index, reserved);
	boot_event_locked();
	atomic_store_explicit(&live, 1, memory_order_relaxed);
}

static void *original(enum hook hook, const void *caller)
{
	void *found = symbols_original(hook, caller);

	if (!found)
		agent_stand_down("torch's CUDA memory reporter was not found");
	return found;
}

void hook_c10_cuda_memory(void *ptr, int64_t bytes, size_t allocated,
			  size_t reserved, struct c10_device device)
{
	memory_fn *forward = (memory_fn *)original(
		HOOK_c10_cuda_memory, SYMBOLS_CALLER);

	event((uintptr_t)ptr, bytes, reserved, device);
	if (forward)
		forward(ptr, bytes, allocated, reserved, device);
}

void hook_c10_cuda_memory_signed(void *ptr, int64_t bytes, int64_t allocated,
				 int64_t reserved, struct c10_device device)
{
	signed_fn *forward = (signed_fn *)original(
		HOOK_c10_cuda_memory_signed, SYMBOLS_CALLER);

	event((uintptr_t)ptr, bytes, (uint64_t)reserved, device);
	if (forward)
		forward(ptr, bytes, allocated, reserved, device);
}
