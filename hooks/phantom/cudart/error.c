#include "abi.h"

#include <errno.h>

static _Thread_local cudaError_t last_error;

cudaError_t cudart_fail(cudaError_t error)
{
	if (error)
		last_error = error;
	return error;
}

cudaError_t cudart_error_of(int status)
{
	switch (status) {
	case 0:
		return cudaSuccess;
	case -ENOMEM:
		return cudart_fail(cudaErrorMemoryAllocation);
	case -ENODEV:
		return cudart_fail(cudaErrorInvalidDevice);
	default:
		return cudart_fail(cudaErrorInvalidValue);
	}
}

/* Names and texts of the codes that the phantom returns. */
static const struct text {
	cudaError_t error;
	const char *name, *string;
} texts[] = {
	{ cudaSuccess, "cudaSuccess", "no error" },
	{ cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument" },
	{ cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation",
	  "out of memory" },
	{ cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration",
	  "invalid configuration argument" },
	{ cudaErrorInvalidSymbol, "cudaErrorInvalidSymbol",
	  "invalid device symbol" },
	{ cudaErrorNoDevice, "cudaErrorNoDevice",
	  "no CUDA-capable device is detected" },
	{ cudaErrorInvalidDevice, "cudaErrorInvalidDevice",
	  "invalid device ordinal" },
	{ cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle",
	  "invalid resource handle" },
	{ cudaErrorIllegalState, "cudaErrorIllegalState",
	  "the operation cannot be performed in the present state" },
	{ cudaErrorSymbolNotFound, "cudaErrorSymbolNotFound",
	  "named symbol not found" },
	{ cudaErrorPeerAccessAlreadyEnabled,
	  "cudaErrorPeerAccessAlreadyEnabled",
	  "peer access is already enabled" },
	{ cudaErrorHostMemoryAlreadyRegistered,
	  "cudaErrorHostMemoryAlreadyRegistered",
	  "part or all of the requested memory range is already mapped" },
	{ cudaErrorHostMemoryNotRegistered, "cudaErrorHostMemoryNotRegistered",
	  "pointer does not correspond to a registered memory region" },
	{ cudaErrorNotSupported, "cudaErrorNotSupported",
	  "operation not supported" },
	{ cudaErrorStreamCaptureUnsupported,
	  "cudaErrorStreamCaptureUnsupported",
	  "operation not permitted when stream is capturing" },
	{ cudaErrorStreamCaptureInvalidated,
	  "cudaErrorStreamCaptureInvalidated",
	  "operation failed due to a previous error during capture" },
	{ cudaErrorStreamCaptureUnmatched, "cudaErrorStreamCaptureUnmatched",
	  "capture was not initiated in this stream" },
	{ cudaErrorStreamCaptureIsolation, "cudaErrorStreamCaptureIsolation",
	  "dependency created on uncaptured work in another stream" },
	{ cudaErrorCapturedEvent, "cudaErrorCapturedEvent",
	  "operation not permitted on an event last recorded in a capturing "
	  "stream" },
};

static const struct text *text_of(cudaError_t error)
{
	static const struct text other = { 0, "cudaErrorUnknown",
					   "unrecognized error code" };

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		if (texts[i].error == error)
			return &texts[i];
	return &other;
}

PHANTOM_API cudaError_t cudaGetLastError(void)
{
	cudaError_t error = last_error;

	last_error = cudaSuccess;
	return error;
}

PHANTOM_API cudaError_t cudaPeekAtLastError(void)
{
	return last_error;
}

PHANTOM_API const char *cudaGetErrorName(cudaError_t error)
{
	return text_of(error)->name;
}

PHANTOM_API const char *cudaGetErrorString(cudaError_t error)
{
	return text_of(error)->string;
}
