/*
 * The descriptors of cuDNN that remember what they were given; the rest is
 * plain handles. Types as in NVIDIA's cuDNN reference (cudnn_ops.h,
 * cudnn_adv.h).
 */
#ifndef PHANTOM_CUDNN_DESCRIPTOR_H
#define PHANTOM_CUDNN_DESCRIPTOR_H

#include "handle.h"

#define CUDNN_DIM_MAX 8

/* Of cuDNN 9. */
enum {
	CUDNN_STATUS_SUCCESS = 0,
	CUDNN_STATUS_BAD_PARAM = 2000,
	CUDNN_STATUS_ALLOC_FAILED = 4003
};
typedef int cudnnStatus_t;

/* A tensor or a filter. */
struct cudnn_tensor {
	struct phantom_handle head;
	int type, format;
	int dimensions;
	int sizes[CUDNN_DIM_MAX];
	int strides[CUDNN_DIM_MAX];
};

/* A recurrent network. */
struct cudnn_rnn {
	struct phantom_handle head;
	int cell;	/* cudnnRNNMode_t: relu, tanh, LSTM, GRU */
	int biases;	/* cudnnRNNBiasMode_t: none, input, both, recurrent */
	int directions; /* 1 or 2 */
	int type;
	int input_size, hidden_size, projected_size, layers;
};

/* What goes in and comes out of one. */
struct cudnn_rnn_data {
	struct phantom_handle head;
	int type;
	int length, batch, size;
};

/* Bytes of an element, by cudnnDataType_t; 4 for one that is not known. */
size_t cudnn_type_bytes(int type);

#endif
