#include "cudnn_descriptor.h"

#include <string.h>

/*
 * Recurrent networks. torch asks how much memory the weights take and where each
 * is, and arranges its parameters so; the layout here is one that it accepts:
 * the matrices of all pseudo-layers (layer times direction), each the gates of
 * the input, then those of the hidden state, then the projection; after them the
 * biases in the same order. Work and reserve spaces are 0, as all workspaces.
 */

/* cudnnRNNMode_t */
enum {
	CELL_LSTM = 2,
	CELL_GRU = 3
};

enum {
	BIAS_NONE = 0,
	DIRECTION_BOTH = 1
};

PHANTOM_API cudnnStatus_t cudnnSetRNNDescriptor_v8(
	struct cudnn_rnn *rnn, int algorithm, int cell, int biases,
	int direction, int input, int type, int precision, int math,
	int input_size, int hidden_size, int projected_size, int layers,
	void *dropout, unsigned flags)
{
	(void)algorithm;
	(void)input;
	(void)precision;
	(void)math;
	(void)dropout;
	(void)flags;
	rnn->cell = cell;
	rnn->biases = biases;
	rnn->directions = direction == DIRECTION_BOTH ? 2 : 1;
	rnn->type = type;
	rnn->input_size = input_size;
	rnn->hidden_size = hidden_size;
	rnn->projected_size = projected_size;
	rnn->layers = layers;
	return CUDNN_STATUS_SUCCESS;
}

PHANTOM_API cudnnStatus_t cudnnSetRNNDataDescriptor(
	struct cudnn_rnn_data *data, int type, int layout, int length,
	int batch, int size, const int *lengths, void *fill)
{
	(void)layout;
	(void)lengths;
	(void)fill;
	data->type = type;
	data->length = length;
	data->batch = batch;
	data->size = size;
	return CUDNN_STATUS_SUCCESS;
}

static int gates(const struct cudnn_rnn *rnn)
{
	return rnn->cell == CELL_LSTM ? 4 : rnn->cell == CELL_GRU ? 3 : 1;
}

static bool projects(const struct cudnn_rnn *rnn)
{
	return rnn->projected_size && rnn->projected_size != rnn->hidden_size;
}

/* What a layer hands on, in one direction. */
static int output_size(const struct cudnn_rnn *rnn)
{
	return projects(rnn) ? rnn->projected_size : rnn->hidden_size;
}

/* Rows and columns of a matrix; 0 rows: there is none of that number. */
static void matrix(const struct cudnn_rnn *rnn, int pseudo_layer, int number,
		   int *rows, int *columns)
{
	bool first = pseudo_layer / rnn->directions == 0;

	*rows = rnn->hidden_size;
	*columns = output_size(rnn);
	if (number < gates(rnn))
		*columns = first ? rnn->input_size :
				   output_size(rnn) * rnn->directions;
	else if (number == 2 * gates(rnn) && projects(rnn)) {
		*rows = rnn->projected_size;
		*columns = rnn->hidden_size;
	} else if (number >= 2 * gates(rnn)) {
		*rows = 0;
	}
}

/* Elements before a matrix of a pseudo-layer. */
static size_t matrix_offset(const struct cudnn_rnn *rnn, int pseudo_layer,
			    int number)
{
	size_t offset = 0;
	int rows, columns;

	for (int layer = 0; layer <= pseudo_layer; layer++) {
		int end = layer < pseudo_layer ? 2 * gates(rnn) + 1 : number;

		for (int i = 0; i < end; i++) {
			matrix(rnn, layer, i, &rows, &columns);
			offset += (size_t)rows * columns;
		}
	}
	return offset;
}

static size_t bias_offset(const struct cudnn_rnn *rnn, int pseudo_layer,
			  int number)
{
	size_t all = matrix_offset(rnn, rnn->layers * rnn->directions, 0);

	return all + ((size_t)pseudo_layer * 2 * gates(rnn) + number) *
			     rnn->hidden_size;
}

PHANTOM_API cudnnStatus_t cudnnGetRNNWeightSpaceSize(
	void *handle, const struct cudnn_rnn *rnn, size_t *bytes)
{
	int pseudo_layers = rnn->layers * rnn->directions;

	(void)handle;
	*bytes = cudnn_type_bytes(rnn->type) *
		 (rnn->biases == BIAS_NONE ?
			  matrix_offset(rnn, pseudo_layers, 0) :
			  bias_offset(rnn, pseudo_layers, 0));
	return CUDNN_STATUS_SUCCESS;
}

/* One by rows by columns; no dimensions for what is not there. */
static void describe(struct cudnn_tensor *tensor, int type, int rows,
		     int columns)
{
	if (!tensor)
		return;
	*tensor = (struct cudnn_tensor){ .head = tensor->head, .type = type };
	if (!rows)
		return;
	tensor->dimensions = 3;
	tensor->sizes[0] = 1;
	tensor->sizes[1] = rows;
	tensor->sizes[2] = columns;
	tensor->strides[0] = rows * columns;
	tensor->strides[1] = columns;
	tensor->strides[2] = 1;
}

/* Where the byte `offset` of the weights is; NULL for what is not there. */
static void locate(void **address, bool there, void *weights, size_t offset)
{
	if (address)
		*address = there ? (char *)weights + offset : NULL;
}

/* torch asks for the matrix or for the bias, and gives NULL for the other. */
PHANTOM_API cudnnStatus_t cudnnGetRNNWeightParams(
	void *handle, const struct cudnn_rnn *rnn, int pseudo_layer,
	size_t weight_bytes, void *weights, int number,
	struct cudnn_tensor *matrix_shape, void **matrix_address,
	struct cudnn_tensor *bias_shape, void **bias_address)
{
	size_t element = cudnn_type_bytes(rnn->type);
	bool biased = rnn->biases != BIAS_NONE && number < 2 * gates(rnn);
	int rows, columns;

	(void)handle;
	(void)weight_bytes;
	matrix(rnn, pseudo_layer, number, &rows, &columns);
	describe(matrix_shape, rnn->type, rows, columns);
	locate(matrix_address, rows, weights,
	       element * matrix_offset(rnn, pseudo_layer, number));
	describe(bias_shape, rnn->type, biased ? rnn->hidden_size : 0, 1);
	locate(bias_address, biased, weights,
	       element * bias_offset(rnn, pseudo_layer, number));
	return CUDNN_STATUS_SUCCESS;
}

PHANTOM_API cudnnStatus_t cudnnGetRNNTempSpaceSizes(
	void *handle, const struct cudnn_rnn *rnn, int mode,
	const struct cudnn_rnn_data *data, size_t *work, size_t *reserve)
{
	(void)handle;
	(void)rnn;
	(void)mode;
	(void)data;
	if (work)
		*work = 0;
	if (reserve)
		*reserve = 0;
	return CUDNN_STATUS_SUCCESS;
}
