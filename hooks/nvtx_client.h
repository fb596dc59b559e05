/*
 * A client: one library that contains NVTX. It is read before any tool has
 * touched it, the other tool is started, and then our functions go in front of
 * that tool's. On the thread that NVTX starts its tool on.
 */
#ifndef CKPTAGENT_NVTX_CLIENT_H
#define CKPTAGENT_NVTX_CLIENT_H

#include <stdbool.h>

#include "nvtx_abi.h"

/* The function pointers of a client, and what they were before any tool. */
struct nvtx_client {
	nvtx_fn **pointer[NVTX_MODULES][NVTX_TABLE_MAX];
	nvtx_fn *before[NVTX_MODULES][NVTX_TABLE_MAX];
};

/* NULL, or why the client's ranges cannot be seen (a text for good). */
const char *nvtx_client_read(struct nvtx_client *client, nvtx_export_fn *get);

/* As if no tool had been there. */
void nvtx_client_put_back(const struct nvtx_client *client);

/*
 * Our functions in front of the other tool's. False, and nothing is done: the
 * tool behind this client is not the one behind those before it.
 */
bool nvtx_client_attach(const struct nvtx_client *client);

#endif
