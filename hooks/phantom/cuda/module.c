#include "abi.h"
#include "attribute.h"
#include "device.h"
#include "handle.h"
#include "settings.h"

/*
 * Modules and functions, as torch loads the kernels that it has compiled at run
 * time. Nothing is read from them and nothing is launched.
 */

/* CUfunction_attribute */
enum {
	FUNCTION_MAX_THREADS = 0,
	FUNCTION_REGISTERS = 4,
	FUNCTION_PTX_VERSION = 5,
	FUNCTION_BINARY_VERSION = 6,
	FUNCTION_MAX_DYNAMIC_SHARED = 8
};

PHANTOM_API CUresult cuFuncGetAttribute(int *value, int attribute,
					void *function)
{
	const struct phantom_model *model = &phantom_settings()->model;

	(void)function;
	switch (attribute) {
	case FUNCTION_MAX_THREADS:
		*value = 1024;
		break;
	case FUNCTION_REGISTERS:
		*value = 32;
		break;
	case FUNCTION_PTX_VERSION:
	case FUNCTION_BINARY_VERSION:
		*value = 10 * model->major + model->minor;
		break;
	case FUNCTION_MAX_DYNAMIC_SHARED:
		*value = 48 << 10;
		break;
	default: /* shared, constant and local memory, clusters: none */
		*value = 0;
	}
	return CUDA_SUCCESS;
}

/* By its threads alone. */
PHANTOM_API CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(
	int *blocks, void *function, int threads, size_t shared_bytes)
{
	const struct phantom_architecture *arch =
		phantom_settings()->architecture;

	(void)function;
	(void)shared_bytes;
	*blocks = 0;
	if (!arch || threads <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	*blocks = arch->threads_per_multiprocessor / threads;
	if (*blocks > arch->blocks_per_multiprocessor)
		*blocks = arch->blocks_per_multiprocessor;
	return CUDA_SUCCESS;
}
