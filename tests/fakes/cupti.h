/* The functions of CUPTI that matter here; types as in hooks/cupti_abi.h. */
#ifndef CKPTAGENT_TESTS_CUPTI_H
#define CKPTAGENT_TESTS_CUPTI_H

#include "../../hooks/cupti_abi.h"

#define EXPORT __attribute__((visibility("default")))

#define CUPTI(name, arguments) EXPORT int name arguments;
CUPTI_FUNCTIONS(CUPTI)
#undef CUPTI

/* What a call of CUDA does: a kernel that takes so long, or a copy. */
EXPORT void fake_launch(uint64_t nanoseconds);
EXPORT void fake_copy(uint64_t nanoseconds);

/* Hands over the buffers that a flush has kept back (FAKE_CUPTI=late). */
EXPORT void fake_deliver(void);

/* Prints how many numbers are on the stack of regions. */
EXPORT void fake_stack(void);

#endif
