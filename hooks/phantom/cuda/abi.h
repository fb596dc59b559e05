/*
 * The part of the CUDA driver's interface that the phantom answers; types, codes
 * and layouts as in NVIDIA's CUDA Driver API reference, 12.x and 13.x (cuda.h).
 */
#ifndef PHANTOM_CUDA_ABI_H
#define PHANTOM_CUDA_ABI_H

#include "phantom.h"

#include <stddef.h>
#include <stdint.h>

#ifndef PHANTOM_CUDA_VERSION
#define PHANTOM_CUDA_VERSION 12000
#endif

/* enum cudaError_enum */
enum {
	CUDA_SUCCESS = 0,
	CUDA_ERROR_INVALID_VALUE = 1,
	CUDA_ERROR_OUT_OF_MEMORY = 2,
	CUDA_ERROR_NO_DEVICE = 100,
	CUDA_ERROR_INVALID_DEVICE = 101,
	CUDA_ERROR_INVALID_CONTEXT = 201,
	CUDA_ERROR_INVALID_HANDLE = 400,
	CUDA_ERROR_NOT_FOUND = 500,
	CUDA_ERROR_NOT_SUPPORTED = 801
};
typedef int CUresult;
typedef int CUdevice;
typedef void *CUcontext;
typedef uintptr_t CUdeviceptr;

/* The code for what the books answered: 0 or a negative errno. */
CUresult cuda_error_of(int status);

/* The one context of a device, and the device of a context or -1. */
CUcontext cuda_context_of(int device);
int cuda_device_of(CUcontext context);

#endif
