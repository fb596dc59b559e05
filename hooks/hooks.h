/*
 * The interposed functions. Each turns one foreign call into ledger events
 * and forwards it; see hooks.def.
 *
 * They run on any thread, inside the job's allocator: no lock, no malloc, no
 * Python.
 */
#ifndef CKPTAGENT_HOOKS_H
#define CKPTAGENT_HOOKS_H

#include <stddef.h>

/* Named hook_NAME in our sources and by the foreign symbol to the linker. */
#define EXPORTED __attribute__((visibility("default")))
#define HOOK(name, library, symbol, arguments) \
	EXPORTED void hook_##name arguments __asm__(#symbol);
#include "hooks.def"
#undef HOOK

enum hook {
#define HOOK(name, library, symbol, arguments) HOOK_##name,
#include "hooks.def"
#undef HOOK
	HOOKS
};

/* 1 once an original of the CPU allocator's hooks was found and called. */
int hook_c10_cpu_live(void);

#endif
