/*
 * The part of the CUDA runtime's interface that the phantom answers: types,
 * codes and layouts as in NVIDIA's CUDA Runtime API reference, 12.x and 13.x
 * (driver_types.h, cuda_runtime_api.h). The functions keep NVIDIA's names and
 * contracts; what the phantom does otherwise stands at each of them.
 *
 * PHANTOM_CUDA_MAJOR is that of the libcudart that torch links: 12 or 13.
 */
#ifndef PHANTOM_CUDART_ABI_H
#define PHANTOM_CUDART_ABI_H

#include "phantom.h"

#include <stddef.h>
#include <stdint.h>

#if PHANTOM_CUDA_MAJOR != 12 && PHANTOM_CUDA_MAJOR != 13
#error "PHANTOM_CUDA_MAJOR must be 12 or 13"
#endif

/* cudaRuntimeGetVersion: 1000 * major + 10 * minor. */
#ifndef PHANTOM_CUDA_VERSION
#define PHANTOM_CUDA_VERSION (1000 * PHANTOM_CUDA_MAJOR)
#endif

/* enum cudaError */
enum {
	cudaSuccess = 0,
	cudaErrorInvalidValue = 1,
	cudaErrorMemoryAllocation = 2,
	cudaErrorInvalidConfiguration = 9,
	cudaErrorInvalidSymbol = 13,
	cudaErrorNoDevice = 100,
	cudaErrorInvalidDevice = 101,
	cudaErrorInvalidResourceHandle = 400,
	cudaErrorIllegalState = 401,
	cudaErrorSymbolNotFound = 500,
	cudaErrorPeerAccessAlreadyEnabled = 704,
	cudaErrorHostMemoryAlreadyRegistered = 712,
	cudaErrorHostMemoryNotRegistered = 713,
	cudaErrorNotSupported = 801,
	cudaErrorStreamCaptureUnsupported = 900,
	cudaErrorStreamCaptureInvalidated = 901,
	cudaErrorStreamCaptureUnmatched = 903,
	cudaErrorStreamCaptureIsolation = 905,
	cudaErrorCapturedEvent = 907
};
typedef int cudaError_t;

typedef struct phantom_stream *cudaStream_t;
typedef struct phantom_event *cudaEvent_t;
typedef struct phantom_graph *cudaGraph_t;
typedef struct phantom_graph_exec *cudaGraphExec_t;
typedef struct phantom_user_object *cudaUserObject_t;
typedef void *cudaGraphNode_t;
typedef void *cudaMemPool_t;
typedef void (*cudaHostFn_t)(void *data);
typedef void (*cudaStreamCallback_t)(cudaStream_t stream, cudaError_t status,
				     void *data);

typedef struct {
	unsigned x, y, z;
} dim3;

/* Sets the thread's last error and returns it; for cudaSuccess only returns. */
cudaError_t cudart_fail(cudaError_t error);
/* The code for what the books answered: 0 or a negative errno. */
cudaError_t cudart_error_of(int status);

#endif
