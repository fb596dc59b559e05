/*
 * The devices that the phantom can pretend to be.
 */
#ifndef PHANTOM_MODELS_H
#define PHANTOM_MODELS_H

#include <stddef.h>
#include <stdint.h>

/* One product. */
struct phantom_model {
	const char *key;  /* as in CKPT_PHANTOM_DEVICE */
	const char *name; /* as the runtime reports it */
	int major, minor; /* compute capability */
	uint64_t memory_mib;
	int multiprocessors;
	int l2_bytes;
	int bus_bits;
	int clock_khz, memory_clock_khz;
};

/* What all devices of one compute capability have in common. */
struct phantom_architecture {
	int major, minor;
	int shared_per_multiprocessor; /* bytes */
	int shared_per_block_optin;    /* bytes */
	int threads_per_multiprocessor;
	int blocks_per_multiprocessor;
};

/* NULL: there is none of that key, or of that capability. */
const struct phantom_model *phantom_model_named(const char *key);
const struct phantom_architecture *phantom_architecture_of(int major,
							   int minor);

/* The keys, separated by blanks, as much as fits; ends with '\0'. */
void phantom_model_keys(char *text, size_t bytes);
/* The capabilities likewise: "7.0 7.5 …". */
void phantom_architecture_keys(char *text, size_t bytes);

#endif
