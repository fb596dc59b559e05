#include "nccl_abi.h"

#include "content.h"
#include "device.h"
#include "memory.h"

/*
 * Bytes of an element, by ncclDataType_t: int8, uint8, int32, uint32, int64,
 * uint64, float16, float32, float64, bfloat16, float8e4m3, float8e5m2. One of a
 * newer NCCL counts as one byte, so that nothing is written past an end.
 */
static size_t width(int type)
{
	static const uint8_t widths[] = { 1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1 };

	return type >= 0 && (size_t)type < sizeof(widths) ? widths[type] : 1;
}

PHANTOM_API ncclResult_t ncclAllReduce(const void *from, void *to, size_t count,
				       int type, int operation,
				       ncclComm_t communicator, void *stream)
{
	(void)operation;
	(void)communicator;
	(void)stream;
	phantom_copy(to, from, count * width(type));
	return ncclSuccess;
}

PHANTOM_API ncclResult_t ncclReduce(const void *from, void *to, size_t count,
				    int type, int operation, int root,
				    ncclComm_t communicator, void *stream)
{
	(void)root; /* `to` is of no account anywhere else, and may be NULL */
	if (!to)
		return ncclSuccess;
	return ncclAllReduce(from, to, count, type, operation, communicator,
			     stream);
}

PHANTOM_API ncclResult_t ncclBroadcast(const void *from, void *to, size_t count,
				       int type, int root,
				       ncclComm_t communicator, void *stream)
{
	if (!from) /* of no account but at the root */
		return ncclSuccess;
	return ncclAllReduce(from, to, count, type, root, communicator, stream);
}

PHANTOM_API ncclResult_t ncclBcast(void *buffer, size_t count, int type,
				   int root, ncclComm_t communicator,
				   void *stream)
{
	return ncclBroadcast(buffer, buffer, count, type, root, communicator,
			     stream);
}

PHANTOM_API ncclResult_t ncclAllGather(const void *from, void *to, size_t count,
				       int type, ncclComm_t communicator,
				       void *stream)
{
	size_t bytes = count * width(type);

	(void)stream;
	for (int rank = 0; rank < communicator->size; rank++)
		phantom_copy((char *)to + rank * bytes, from, bytes);
	return ncclSuccess;
}

PHANTOM_API ncclResult_t ncclGather(const void *from, void *to, size_t count,
				    int type, int root, ncclComm_t communicator,
				    void *stream)
{
	if (communicator->rank != root)
		return ncclSuccess;
	return ncclAllGather(from, to, count, type, communicator, stream);
}

PHANTOM_API ncclResult_t ncclReduceScatter(const void *from, void *to,
					   size_t count, int type,
					   int operation,
					   ncclComm_t communicator,
					   void *stream)
{
	size_t bytes = count * width(type);

	return ncclAllReduce((const char *)from + communicator->rank * bytes,
			     to, count, type, operation, communicator, stream);
}

/* What rank r has for this one is taken to be what this one has for itself. */
PHANTOM_API ncclResult_t ncclAlltoAll(const void *from, void *to, size_t count,
				      int type, ncclComm_t communicator,
				      void *stream)
{
	size_t bytes = count * width(type);

	return ncclAllGather((const char *)from + communicator->rank * bytes,
			     to, count, type, communicator, stream);
}

PHANTOM_API ncclResult_t ncclMemAlloc(void **memory, size_t bytes)
{
	*memory = NULL;
	return phantom_memory_alloc(phantom_device(), bytes, memory) ?
		       ncclUnhandledCudaError :
		       ncclSuccess;
}

PHANTOM_API ncclResult_t ncclMemFree(void *memory)
{
	return phantom_memory_free(memory) ? ncclInvalidArgument : ncclSuccess;
}
