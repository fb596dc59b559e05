/*
 * Our functions behind NVTX's: each tells the ranges of a call, hands it to the
 * other tool's function, if there is one, and returns what that returns, or else
 * what NVTX returns without a tool.
 *
 * They run on any thread, in the middle of the job's own calls: no lock, no
 * malloc, no Python.
 */
#ifndef CKPTAGENT_NVTX_CALLS_H
#define CKPTAGENT_NVTX_CALLS_H

#include <stdbool.h>

#include "nvtx_abi.h"

#define NVTX_CALLS 16

/* A function of ours, and where a client's pointer to it stands. */
struct nvtx_call {
	int module;
	unsigned int index;
	nvtx_fn *ours;
};

extern const struct nvtx_call nvtx_calls[NVTX_CALLS];

/*
 * The other tool's function for a call (an index of nvtx_calls), NULL: it has
 * none. Each is learned once; false: it is another one than that.
 */
bool nvtx_calls_learn(int call, nvtx_fn *function);

#endif
