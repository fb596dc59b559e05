#include "abi.h"
#include "device.h"

/*
 * A device has one context, its primary one, which is there from the start; the
 * handle is an element of this array. Making it current is choosing the device.
 */
static char contexts[PHANTOM_DEVICES_MAX];

#define STACK 32
static _Thread_local int stack[STACK];
static _Thread_local int depth;

CUcontext cuda_context_of(int device)
{
	return &contexts[device];
}

int cuda_device_of(CUcontext context)
{
	ptrdiff_t device = (char *)context - contexts;

	return device >= 0 && device < PHANTOM_DEVICES_MAX ? (int)device : -1;
}

PHANTOM_API CUresult cuDevicePrimaryCtxRetain(CUcontext *context,
					      CUdevice device)
{
	*context = NULL;
	if (!phantom_device_exists(device))
		return CUDA_ERROR_INVALID_DEVICE;
	*context = cuda_context_of(device);
	return CUDA_SUCCESS;
}

PHANTOM_API CUresult cuDevicePrimaryCtxGetState(CUdevice device,
						unsigned *flags, int *active)
{
	*flags = 0;
	*active = phantom_device_exists(device);
	return *active ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

PHANTOM_API CUresult cuCtxGetCurrent(CUcontext *context)
{
	*context = phantom_device_exists(phantom_device()) ?
			   cuda_context_of(phantom_device()) :
			   NULL;
	return CUDA_SUCCESS;
}

/* NULL detaches the thread on a real device; here it keeps its device. */
PHANTOM_API CUresult cuCtxSetCurrent(CUcontext context)
{
	if (!context)
		return CUDA_SUCCESS;
	return phantom_set_device(cuda_device_of(context)) ?
		       CUDA_ERROR_INVALID_CONTEXT :
		       CUDA_SUCCESS;
}

PHANTOM_API CUresult cuCtxGetDevice(CUdevice *device)
{
	*device = phantom_device();
	return phantom_device_exists(*device) ? CUDA_SUCCESS :
						CUDA_ERROR_INVALID_CONTEXT;
}

PHANTOM_API CUresult cuCtxPushCurrent_v2(CUcontext context)
{
	int before = phantom_device();

	if (depth == STACK || phantom_set_device(cuda_device_of(context)))
		return CUDA_ERROR_INVALID_CONTEXT;
	stack[depth++] = before;
	return CUDA_SUCCESS;
}

PHANTOM_API CUresult cuCtxPopCurrent_v2(CUcontext *context)
{
	if (context)
		*context = NULL;
	if (!depth)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (context)
		*context = cuda_context_of(phantom_device());
	phantom_set_device(stack[--depth]);
	return CUDA_SUCCESS;
}
