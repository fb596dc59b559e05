/*
 * A library that calls the CUDA runtime which it was linked to. As
 * libc10_cuda.so it stands for torch's.
 */
#include "cudart.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT int user_malloc(void **ptr, size_t bytes);
EXPORT int user_pitch(void **ptr, size_t bytes);
EXPORT int user_async(void **ptr, size_t bytes);
EXPORT int user_pool(void **ptr, size_t bytes);
EXPORT int user_free(void *ptr);
EXPORT int user_free_async(void *ptr);

int user_malloc(void **ptr, size_t bytes)
{
	return cudaMalloc(ptr, bytes);
}

/* Two rows. */
int user_pitch(void **ptr, size_t bytes)
{
	size_t pitch;

	return cudaMallocPitch(ptr, &pitch, bytes, 2);
}

int user_async(void **ptr, size_t bytes)
{
	return cudaMallocAsync(ptr, bytes, NULL);
}

int user_pool(void **ptr, size_t bytes)
{
	return cudaMallocFromPoolAsync(ptr, bytes, NULL, NULL);
}

int user_free(void *ptr)
{
	return cudaFree(ptr);
}

int user_free_async(void *ptr)
{
	return cudaFreeAsync(ptr, NULL);
}
