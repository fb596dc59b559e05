#include "abi.h"
#include "activity.h"
#include "capture.h"
#include "settings.h"
#include "stream.h"

#include <string.h>

/*
 * Launches: the configuration is checked, a capture gets its node or a watcher
 * is told, and nothing is computed.
 */

#define THREADS_MAX 1024
#define WARP 32
#define RESERVED_SHARED 1024 /* of each block, cudaDevAttrReserved… */

/* The first fields of struct cudaLaunchConfig_t. */
struct cudaLaunchConfig {
	dim3 grid, block;
	size_t shared_bytes;
	cudaStream_t stream;
};

/* struct cudaFuncAttributes */
struct cudaFuncAttributes {
	size_t sharedSizeBytes;
	size_t constSizeBytes;
	size_t localSizeBytes;
	int maxThreadsPerBlock;
	int numRegs;
	int ptxVersion;
	int binaryVersion;
	int cacheModeCA;
	int maxDynamicSharedSizeBytes;
	int preferredShmemCarveout;
	int clustersAndReserved[22];
};
_Static_assert(sizeof(struct cudaFuncAttributes) == 144, "cudaFuncAttributes");

static bool fits(dim3 grid, dim3 block, size_t shared_bytes)
{
	const struct phantom_architecture *arch =
		phantom_settings()->architecture;
	uint64_t threads = (uint64_t)block.x * block.y * block.z;

	return threads && threads <= THREADS_MAX && block.z <= 64 && grid.x &&
	       grid.x <= 2147483647u && grid.y && grid.y <= 65535 && grid.z &&
	       grid.z <= 65535 && arch &&
	       shared_bytes <= (size_t)arch->shared_per_block_optin;
}

static cudaError_t launch(dim3 grid, dim3 block, size_t shared_bytes,
			  cudaStream_t handle)
{
	struct phantom_stream *stream;

	if (!phantom_settings()->count)
		return cudart_fail(cudaErrorNoDevice);
	if (!stream_of(handle, &stream))
		return cudart_fail(cudaErrorInvalidResourceHandle);
	if (!fits(grid, block, shared_bytes))
		return cudart_fail(cudaErrorInvalidConfiguration);
	if (!capture_node(stream, GRAPH_KERNEL))
		phantom_did(PHANTOM_KERNEL, stream_device(handle), 0);
	return cudaSuccess;
}

PHANTOM_API cudaError_t cudaLaunchKernel(const void *function, dim3 grid,
					 dim3 block, void **arguments,
					 size_t shared_bytes,
					 cudaStream_t stream)
{
	(void)function;
	(void)arguments;
	return launch(grid, block, shared_bytes, stream);
}

PHANTOM_API cudaError_t cudaLaunchCooperativeKernel(const void *function,
						    dim3 grid, dim3 block,
						    void **arguments,
						    size_t shared_bytes,
						    cudaStream_t stream)
{
	(void)function;
	(void)arguments;
	return launch(grid, block, shared_bytes, stream);
}

PHANTOM_API cudaError_t
cudaLaunchKernelExC(const struct cudaLaunchConfig *config, const void *function,
		    void **arguments)
{
	(void)function;
	(void)arguments;
	return launch(config->grid, config->block, config->shared_bytes,
		      config->stream);
}

/* What nvcc 13 emits for <<<…>>>: a kernel's handle, then the launch. */
PHANTOM_API cudaError_t __cudaGetKernel(void **kernel, const void *function)
{
	*kernel = (void *)function;
	return cudaSuccess;
}

PHANTOM_API cudaError_t __cudaLaunchKernel(void *kernel, dim3 grid, dim3 block,
					   void **arguments,
					   size_t shared_bytes,
					   cudaStream_t stream)
{
	(void)kernel;
	(void)arguments;
	return launch(grid, block, shared_bytes, stream);
}

/*
 * The kernels that a device of this capability would take from torch: its
 * wheels hold none for 8.7 and 8.9, which run those for 8.6. CUB refuses a
 * version that it was not built for.
 */
static int code_version(const struct phantom_model *model)
{
	int version = 10 * model->major + model->minor;

	return version > 86 && version < 90 ? 86 : version;
}

/* No kernel is looked at: each is said to use 32 registers and nothing else. */
PHANTOM_API cudaError_t cudaFuncGetAttributes(
	struct cudaFuncAttributes *attributes, const void *function)
{
	const struct phantom_model *model = &phantom_settings()->model;

	(void)function;
	memset(attributes, 0, sizeof(*attributes));
	if (!phantom_settings()->count)
		return cudart_fail(cudaErrorNoDevice);
	attributes->maxThreadsPerBlock = THREADS_MAX;
	attributes->numRegs = 32;
	attributes->ptxVersion = code_version(model);
	attributes->binaryVersion = attributes->ptxVersion;
	attributes->maxDynamicSharedSizeBytes = 48 << 10;
	attributes->preferredShmemCarveout = -1;
	return cudaSuccess;
}

static int smaller(int left, int right)
{
	return left < right ? left : right;
}

PHANTOM_API cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(
	int *blocks, const void *function, int threads, size_t shared_bytes)
{
	const struct phantom_architecture *arch =
		phantom_settings()->architecture;
	int warps = (threads + WARP - 1) / WARP;
	size_t shared = shared_bytes + RESERVED_SHARED;

	(void)function;
	*blocks = 0;
	if (!arch)
		return cudart_fail(cudaErrorNoDevice);
	if (threads <= 0)
		return cudart_fail(cudaErrorInvalidValue);
	*blocks = smaller(arch->blocks_per_multiprocessor,
			  arch->threads_per_multiprocessor / (warps * WARP));
	if (shared > (size_t)arch->shared_per_multiprocessor)
		*blocks = 0;
	else
		*blocks = smaller(*blocks, arch->shared_per_multiprocessor /
						   (int)shared);
	return cudaSuccess;
}

PHANTOM_API cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
	int *blocks, const void *function, int threads, size_t shared_bytes,
	unsigned flags)
{
	(void)flags;
	return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function,
							     threads,
							     shared_bytes);
}
