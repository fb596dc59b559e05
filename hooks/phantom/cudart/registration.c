#include "abi.h"
#include "content.h"
#include "device.h"
#include "lock.h"
#include "memory.h"

#include <stdlib.h>

/*
 * What nvcc's constructors register: kernels, of which nothing is kept, and
 * variables of the device, which get memory when somebody asks where they are.
 */

static struct variable {
	struct variable *next;
	const void *symbol;
	size_t bytes;
	void *memory[PHANTOM_DEVICES_MAX];
} * variables;

PHANTOM_API void **__cudaRegisterFatBinary(void *binary)
{
	static void *handle;

	(void)binary;
	return &handle;
}

PHANTOM_API void __cudaRegisterFatBinaryEnd(void **handle)
{
	(void)handle;
}

PHANTOM_API void __cudaUnregisterFatBinary(void **handle)
{
	(void)handle;
}

PHANTOM_API char __cudaInitModule(void **handle)
{
	(void)handle;
	return 1;
}

PHANTOM_API void __cudaRegisterFunction(void **handle, const char *host,
					char *device, const char *name,
					int limit, void *thread, void *block,
					dim3 *block_size, dim3 *grid_size,
					int *warp)
{
	(void)handle;
	(void)host;
	(void)device;
	(void)name;
	(void)limit;
	(void)thread;
	(void)block;
	(void)block_size;
	(void)grid_size;
	(void)warp;
}

PHANTOM_API void __cudaRegisterVar(void **handle, char *host, char *device,
				   const char *name, int external, size_t bytes,
				   int constant, int global)
{
	struct variable *variable = calloc(1, sizeof(*variable));

	(void)handle;
	(void)device;
	(void)name;
	(void)external;
	(void)constant;
	(void)global;
	if (!variable) /* it is then an unknown symbol */
		return;
	variable->symbol = host;
	variable->bytes = bytes;
	phantom_lock();
	variable->next = variables;
	variables = variable;
	phantom_unlock();
}

static struct variable *find(const void *symbol)
{
	struct variable *variable;

	phantom_lock();
	variable = variables;
	while (variable && variable->symbol != symbol)
		variable = variable->next;
	phantom_unlock();
	return variable;
}

/* Two threads may both ask first; the memory of one is then not used. */
PHANTOM_API cudaError_t cudaGetSymbolAddress(void **memory, const void *symbol)
{
	struct variable *variable = find(symbol);
	int device = phantom_device();
	int status = 0;
	void *fresh = NULL;

	*memory = NULL;
	if (!variable)
		return cudart_fail(cudaErrorInvalidSymbol);
	if (!variable->memory[device])
		status = phantom_memory_of_context(device, variable->bytes,
						   &fresh);
	if (status)
		return cudart_error_of(status);
	phantom_lock();
	if (!variable->memory[device])
		variable->memory[device] = fresh;
	*memory = variable->memory[device];
	phantom_unlock();
	return cudaSuccess;
}

PHANTOM_API cudaError_t cudaMemcpyToSymbol(const void *symbol, const void *from,
					   size_t bytes, size_t offset,
					   int kind)
{
	void *memory;
	cudaError_t error = cudaGetSymbolAddress(&memory, symbol);

	(void)kind;
	if (!error)
		phantom_copy((char *)memory + offset, from, bytes);
	return error;
}
