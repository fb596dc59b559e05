#include "abi.h"

/*
 * The launch configurations of a thread, between <<<…>>> and the kernel's own
 * launch function. They do not nest deeper than a launch within the arguments
 * of another.
 */
#define DEPTH 16

static _Thread_local struct configuration {
	dim3 grid, block;
	size_t shared_bytes;
	void *stream;
} stack[DEPTH];
static _Thread_local int depth;

PHANTOM_API unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block,
						 size_t shared_bytes,
						 void *stream)
{
	if (depth == DEPTH)
		return 1; /* the launch is then left out, as for an error */
	stack[depth++] = (struct configuration){ grid, block, shared_bytes,
						 stream };
	return 0;
}

PHANTOM_API cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block,
						   size_t *shared_bytes,
						   void *stream)
{
	const struct configuration *top;

	if (!depth)
		return cudart_fail(cudaErrorInvalidConfiguration);
	top = &stack[--depth];
	*grid = top->grid;
	*block = top->block;
	*shared_bytes = top->shared_bytes;
	*(void **)stream = top->stream;
	return cudaSuccess;
}
