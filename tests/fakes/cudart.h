/* The functions of the CUDA runtime that matter here. */
#ifndef CKPTAGENT_TESTS_CUDART_H
#define CKPTAGENT_TESTS_CUDART_H

#include <stddef.h>

/* Functions that a library offers; in a static runtime there are none. */
#ifdef STATIC
#define RUNTIME_API __attribute__((visibility("hidden")))
#else
#define RUNTIME_API __attribute__((visibility("default")))
#endif

RUNTIME_API int cudaMalloc(void **ptr, size_t bytes);
RUNTIME_API int cudaMallocPitch(void **ptr, size_t *pitch, size_t width,
				size_t height);
RUNTIME_API int cudaMallocAsync(void **ptr, size_t bytes, void *stream);
RUNTIME_API int cudaMallocFromPoolAsync(void **ptr, size_t bytes, void *pool,
					void *stream);
RUNTIME_API int cudaFree(void *ptr);
RUNTIME_API int cudaFreeAsync(void *ptr, void *stream);
RUNTIME_API int cudaGetDevice(int *device);

#endif
