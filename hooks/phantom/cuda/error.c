#include "abi.h"

#include <errno.h>

static const struct text {
	CUresult error;
	const char *name, *string;
} texts[] = {
	{ CUDA_SUCCESS, "CUDA_SUCCESS", "no error" },
	{ CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE",
	  "invalid argument" },
	{ CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY",
	  "out of memory" },
	{ CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE",
	  "no CUDA-capable device is detected" },
	{ CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE",
	  "invalid device ordinal" },
	{ CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT",
	  "invalid device context" },
	{ CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE",
	  "invalid resource handle" },
	{ CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND",
	  "named symbol not found" },
	{ CUDA_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED",
	  "operation not supported" },
};

CUresult cuda_error_of(int status)
{
	switch (status) {
	case 0:
		return CUDA_SUCCESS;
	case -ENOMEM:
		return CUDA_ERROR_OUT_OF_MEMORY;
	case -ENODEV:
		return CUDA_ERROR_INVALID_DEVICE;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

static const struct text *text_of(CUresult error)
{
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		if (texts[i].error == error)
			return &texts[i];
	return NULL;
}

PHANTOM_API CUresult cuGetErrorName(CUresult error, const char **name)
{
	const struct text *text = text_of(error);

	*name = text ? text->name : NULL;
	return text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

PHANTOM_API CUresult cuGetErrorString(CUresult error, const char **string)
{
	const struct text *text = text_of(error);

	*string = text ? text->string : NULL;
	return text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
