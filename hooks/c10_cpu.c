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

/* A torch with one of the two alone would be counted wrong. */
static void look_for_both(const void *caller)
{
	if (atomic_load_explicit(&live, memory_order_relaxed) || !agent_on())
		return;
	if (symbols_original(HOOK_c10_cpu_new, caller) &&
	    symbols_original(HOOK_c10_cpu_delete, caller))
		atomic_store(&live, 1);
	else
		agent_stand_down("torch's CPU memory reporter was not found");
}

/* The original, or NULL: then the events of this torch cannot be forwarded. */
static void *original(enum hook hook, const void *caller)
{
	look_for_both(caller);
	return symbols_original(hook, caller);
}

void hook_c10_cpu_new(void *self, void *ptr, size_t bytes)
{
	new_fn *forward = (new_fn *)original(HOOK_c10_cpu_new,
						    SYMBOLS_CALLER);

	if (forward)
		forward(self, ptr, bytes);
	if (agent_on())
		boot_event();
	if (agent_on() && ledger_alloc(0, (uintptr_t)ptr, bytes))
		agent_stand_down("no memory for the ledger");
}

void hook_c10_cpu_delete(void *self, void *ptr)
{
	delete_fn *forward = (delete_fn *)original(HOOK_c10_cpu_delete,
							  SYMBOLS_CALLER);

	if (agent_on())
		ledger_free((uintptr_t)ptr);
	if (forward)
		forward(self, ptr);
}
