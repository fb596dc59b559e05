/*
 * What 100% of a budget stands for on a CPU.
 */
#ifndef CKPTAGENT_DEVICE_MEMORY_H
#define CKPTAGENT_DEVICE_MEMORY_H

#include <stdint.h>

/*
 * The smallest, in bytes, of physical memory and every limit among this
 * process's ancestor cgroups (version 1 and 2), divided by `processes` (those
 * that share the machine; 0 reads as 1). Files are looked up below `root`
 * ("" for the machine itself). 0 if nothing is known.
 *
 * Reads a handful of small files, allocates nothing; any thread.
 */
uint64_t device_memory(const char *root, uint64_t processes);

#endif
