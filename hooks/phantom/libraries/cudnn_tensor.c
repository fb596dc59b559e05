#include "cudnn_descriptor.h"

#include <string.h>

#define MAKE(function, type) \
	PHANTOM_API cudnnStatus_t cudnnCreate##function(void **descriptor) \
	{ \
		*descriptor = phantom_handle_new(PHANTOM_CUDNN, sizeof(type)); \
		return *descriptor ? CUDNN_STATUS_SUCCESS : \
				     CUDNN_STATUS_ALLOC_FAILED; \
	} \
	PHANTOM_API cudnnStatus_t cudnnDestroy##function(void *descriptor) \
	{ \
		phantom_handle_end(descriptor, PHANTOM_CUDNN); \
		return CUDNN_STATUS_SUCCESS; \
	}

MAKE(TensorDescriptor, struct cudnn_tensor)
MAKE(FilterDescriptor, struct cudnn_tensor)
MAKE(RNNDescriptor, struct cudnn_rnn)
MAKE(RNNDataDescriptor, struct cudnn_rnn_data)

size_t cudnn_type_bytes(int type)
{
	/* float, double, half, int8, int32, int8x4, uint8, uint8x4, int8x32,
	 * bfloat16, int64, boolean, fp8 twice, a faster float */
	static const uint8_t bytes[] = { 4,  8, 2, 1, 4, 4, 1, 4,
					 32, 2, 8, 1, 1, 1, 4 };

	return type >= 0 && (size_t)type < sizeof(bytes) ? bytes[type] : 4;
}

static void set(struct cudnn_tensor *tensor, int type, int dimensions,
		const int *sizes, const int *strides)
{
	tensor->type = type;
	tensor->dimensions = dimensions > CUDNN_DIM_MAX ? CUDNN_DIM_MAX :
							  dimensions;
	for (int i = 0; i < tensor->dimensions; i++) {
		tensor->sizes[i] = sizes[i];
		tensor->strides[i] = strides ? strides[i] : 0;
	}
}

PHANTOM_API cudnnStatus_t
cudnnSetTensorNdDescriptor(struct cudnn_tensor *tensor, int type,
			   int dimensions, const int *sizes, const int *strides)
{
	set(tensor, type, dimensions, sizes, strides);
	return CUDNN_STATUS_SUCCESS;
}

PHANTOM_API cudnnStatus_t
cudnnSetFilterNdDescriptor(struct cudnn_tensor *filter, int type, int format,
			   int dimensions, const int *sizes)
{
	set(filter, type, dimensions, sizes, NULL);
	filter->format = format;
	return CUDNN_STATUS_SUCCESS;
}

/* `count` elements are the caller's: what the descriptor has not is 0. */
static void get(const int *from, int have, int *to, int count)
{
	for (int i = 0; i < count; i++)
		to[i] = i < have ? from[i] : 0;
}

PHANTOM_API cudnnStatus_t
cudnnGetTensorNdDescriptor(const struct cudnn_tensor *tensor, int count,
			   int *type, int *dimensions, int *sizes, int *strides)
{
	*type = tensor->type;
	*dimensions = tensor->dimensions;
	get(tensor->sizes, tensor->dimensions, sizes, count);
	get(tensor->strides, tensor->dimensions, strides, count);
	return CUDNN_STATUS_SUCCESS;
}

PHANTOM_API cudnnStatus_t
cudnnGetFilterNdDescriptor(const struct cudnn_tensor *filter, int count,
			   int *type, int *format, int *dimensions, int *sizes)
{
	*type = filter->type;
	*format = filter->format;
	*dimensions = filter->dimensions;
	get(filter->sizes, filter->dimensions, sizes, count);
	return CUDNN_STATUS_SUCCESS;
}
