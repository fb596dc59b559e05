/*
 * The interposed functions. Each turns one foreign call into ledger events
 * and forwards it; see hooks.def.
 *
 * They run on any thread, inside the job's allocator: no lock, no malloc, no
 * Python.
 */
#ifndef CKPTAGENT_HOOKS_H
#define CKPTAGENT_HOOKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cupti_abi.h"

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

/*
 * Whether this process's NVTX libraries are to find us, said once at the load;
 * without it the entries are as good as not there.
 */
void hook_nvtx_load(bool wanted);

/* 1 once a library that contains NVTX tells of its ranges. */
int hook_nvtx_live(void);

/* 1 once torch's CUDA caching allocator has told of an allocation. */
int hook_c10_cuda_live(void);

/*
 * 0 where torch's CUDA library has the CUDA runtime inside: then no call of
 * that runtime comes to us. 1 otherwise, also without a CUDA library. Takes
 * the loader's lock.
 */
int hook_cudart_is_shared(void);

/*
 * Find the originals for torch's caching allocator, which calls them under a
 * lock of its own. For a moment when the caller holds none of the loader's.
 */
void hook_cudart_prepare(void);

/* 1 once torch has allocated a tensor by cudaMallocAsync. */
int hook_cudart_live(void);

#endif
