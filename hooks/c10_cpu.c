/* torch's CPU allocator. */
#include "hooks.h"

#include <stdatomic.h>
#include <stdint.h>

#include "agent.h"
#include "boot.h"
#include "ledger.h"
#include "symbols.h"

typedef void new_fn(void *self, void *ptr, size_t bytes);
typedef void delete_fn(void *self, void *ptr);

static _Atomic int live;

int hook_c10_cpu_live(void)
{
	return atomic_load(&live);
}

/* The original, or NULL: then the events of this torch cannot be forwarded. */
static void *original(enum hook hook)
{
	void *found = symbols_original(hook);

	if (found)
		atomic_store_explicit(&live, 1, memory_order_relaxed);
	else
		agent_stand_down("torch's CPU memory reporter was not found");
	return found;
}

void hook_c10_cpu_new(void *self, void *ptr, size_t bytes)
{
	new_fn *forward = (new_fn *)original(HOOK_c10_cpu_new);

	if (forward)
		forward(self, ptr, bytes);
	if (agent_on())
		boot_event();
	if (agent_on() && ledger_alloc(0, (uintptr_t)ptr, bytes))
		agent_stand_down("no memory for the ledger");
}

void hook_c10_cpu_delete(void *self, void *ptr)
{
	delete_fn *forward = (delete_fn *)original(HOOK_c10_cpu_delete);

	if (agent_on())
		ledger_free((uintptr_t)ptr);
	if (forward)
		forward(self, ptr);
}
