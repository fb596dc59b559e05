#include "nccl_abi.h"

#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

static ncclResult_t new_communicator(ncclComm_t *communicator, int size,
				     int rank)
{
	*communicator = phantom_handle_new(PHANTOM_COMMUNICATOR,
					   sizeof(**communicator));
	if (!*communicator)
		return ncclUnhandledCudaError;
	(*communicator)->size = size;
	(*communicator)->rank = rank;
	return ncclSuccess;
}

/* Unlike any other that this machine made lately; nobody connects with it. */
static void new_id(ncclUniqueId *id)
{
	static atomic_uint count;
	unsigned parts[2] = { (unsigned)getpid(), atomic_fetch_add(&count, 1) };

	memset(id, 0, sizeof(*id));
	memcpy(id->internal, parts, sizeof(parts));
}

PHANTOM_API ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
	new_id(id);
	return ncclSuccess;
}

PHANTOM_API ncclResult_t ncclCommGetUniqueId(ncclComm_t communicator,
					     ncclUniqueId *id)
{
	(void)communicator;
	new_id(id);
	return ncclSuccess;
}

PHANTOM_API ncclResult_t ncclCommInitRank(ncclComm_t *communicator, int size,
					  ncclUniqueId id, int rank)
{
	(void)id;
	return new_communicator(communicator, size, rank);
}

PHANTOM_API ncclResult_t ncclCommInitRankConfig(ncclComm_t *communicator,
						int size, ncclUniqueId id,
						int rank, void *config)
{
	(void)id;
	(void)config;
	return new_communicator(communicator, size, rank);
}

PHANTOM_API ncclResult_t ncclCommInitRankScalable(ncclComm_t *communicator,
						  int size, int rank, int ids,
						  ncclUniqueId *id,
						  void *config)
{
	(void)ids;
	(void)id;
	(void)config;
	return new_communicator(communicator, size, rank);
}

PHANTOM_API ncclResult_t ncclCommInitAll(ncclComm_t *communicators, int count,
					 const int *devices)
{
	ncclResult_t result = ncclSuccess;

	(void)devices;
	for (int i = 0; !result && i < count; i++)
		result = new_communicator(&communicators[i], count, i);
	return result;
}

/*
 * How many ranks chose the same color, only they know together: a part is said
 * to have one rank, so that no output is written past the caller's own share.
 */
PHANTOM_API ncclResult_t ncclCommSplit(ncclComm_t communicator, int color,
				       int key, ncclComm_t *part, void *config)
{
	(void)communicator;
	(void)key;
	(void)config;
	*part = NULL;
	return color < 0 ? ncclSuccess : new_communicator(part, 1, 0);
}

PHANTOM_API ncclResult_t ncclCommShrink(ncclComm_t communicator, int *excluded,
					int count, ncclComm_t *part,
					void *config, int flags)
{
	(void)communicator;
	(void)excluded;
	(void)count;
	(void)config;
	(void)flags;
	return new_communicator(part, 1, 0);
}

PHANTOM_API ncclResult_t ncclCommGrow(ncclComm_t communicator, int size,
				      const ncclUniqueId *id, int rank,
				      ncclComm_t *grown, void *config)
{
	(void)communicator;
	(void)id;
	(void)config;
	return new_communicator(grown, size, rank);
}

PHANTOM_API ncclResult_t ncclCommDestroy(ncclComm_t communicator)
{
	phantom_handle_end(communicator, PHANTOM_COMMUNICATOR);
	return ncclSuccess;
}

PHANTOM_API ncclResult_t ncclCommAbort(ncclComm_t communicator)
{
	return ncclCommDestroy(communicator);
}

PHANTOM_API ncclResult_t ncclCommCount(ncclComm_t communicator, int *count)
{
	*count = communicator->size;
	return ncclSuccess;
}

PHANTOM_API ncclResult_t ncclCommUserRank(ncclComm_t communicator, int *rank)
{
	*rank = communicator->rank;
	return ncclSuccess;
}
