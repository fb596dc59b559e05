#include "abi.h"
#include "calls.h"

#include <dlfcn.h>
#include <stdio.h>

/*
 * The driver's functions by name. torch gets its virtual memory management so,
 * without linking the driver. A function is found if the phantom's libcuda has
 * it, in its newest form ("_v2") first.
 */

/* enum cudaDriverEntryPointQueryResult */
enum {
	ENTRY_FOUND = 0,
	ENTRY_NOT_FOUND = 1
};

#define NAME_BYTES 128

static void *find(const char *name)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
	char newest[NAME_BYTES];
	void *function = NULL;

	if (!driver)
		return NULL;
	if ((size_t)snprintf(newest, sizeof(newest), "%s_v2", name) <
	    sizeof(newest))
		function = dlsym(driver, newest);
	if (!function)
		function = dlsym(driver, name);
	dlclose(driver);
	return function;
}

/*
 * A function that is not there is one that nobody reviewed: it is said so, and
 * the answer is the one of a driver that is too old for it.
 */
static cudaError_t answer(const char *name, void **function, int *result)
{
	static struct phantom_call call = { .name = "driver entry point" };

	*function = find(name);
	if (!*function)
		phantom_unreviewed(&call, name);
	if (result)
		*result = *function ? ENTRY_FOUND : ENTRY_NOT_FOUND;
	return *function || result ? cudaSuccess :
				     cudart_fail(cudaErrorSymbolNotFound);
}

PHANTOM_API cudaError_t cudaGetDriverEntryPointByVersion(
	const char *name, void **function, unsigned version,
	unsigned long long flags, int *result)
{
	(void)version;
	(void)flags;
	return answer(name, function, result);
}

#if PHANTOM_CUDA_MAJOR == 12
PHANTOM_API cudaError_t cudaGetDriverEntryPoint(const char *name,
						void **function,
						unsigned long long flags,
						int *result)
{
	(void)flags;
	return answer(name, function, result);
}
#endif
