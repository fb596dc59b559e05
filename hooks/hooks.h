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
#include <stdint.h>

/* c10::Device: a DeviceType (CUDA is 1) and the device's index. */
struct c10_device {
	int8_t type;
	int8_t index;
};

/* Named hook_NAME in our sources and by the foreign symbol to the linker. */
#define EXPORTED __attribute__((visibility("default")))
#define HOOK(name, library, symbol, result, arguments) \
	EXPORTED result hook_##name arguments __asm__(#symbol);
#include "hooks.def"
#undef HOOK

enum hook {
#define HOOK(name, library, symbol, result, arguments) HOOK_##name,
#include "hooks.def"
#undef HOOK
	HOOKS
};

/* 1 once an original of the CPU allocator's hooks was found and called. */
int hook_c10_cpu_live(void);

/* 1 once torch's CUDA caching allocator has told of an allocation. */
int hook_c10_cuda_live(void);

/* 1 once torch has allocated a tensor by cudaMallocAsync. */
int hook_cudart_live(void);

#endif
