/*
 * NCCL, types and codes as in NVIDIA's NCCL API reference (nccl.h).
 *
 * Ranks do not meet. A collective leaves in a rank's output what it would be if
 * every rank had sent what this one did; nobody waits for anybody.
 */
#ifndef PHANTOM_NCCL_ABI_H
#define PHANTOM_NCCL_ABI_H

#include "handle.h"
#include "phantom.h"

enum {
	ncclSuccess = 0,
	ncclUnhandledCudaError = 1,
	ncclInvalidArgument = 4
};
typedef int ncclResult_t;

typedef struct {
	char internal[128];
} ncclUniqueId;

typedef struct communicator {
	struct phantom_handle head;
	int size, rank;
} * ncclComm_t;

#endif
