/* Stands before the runtime as the agent does, and is preloaded after it. */
#include "cudart.h"

#include <dlfcn.h>
#include <stdio.h>

int cudaMalloc(void **ptr, size_t bytes)
{
	int (*next)(void **, size_t) = (int (*)(void **, size_t))dlsym(
		RTLD_NEXT, "cudaMalloc");

	printf("spy ");
	return next(ptr, bytes);
}
