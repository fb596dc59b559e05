/*
 * The environment variables of the phantom, read once, at its first use.
 *
 *   CKPT_PHANTOM_DEVICE      a key of models.c; H100-80G if unset
 *   CKPT_PHANTOM_COUNT       devices, 0 to 16; 1 if unset
 *   CKPT_PHANTOM_MEMORY      memory of a device, as units.h writes bytes
 *   CKPT_PHANTOM_NAME        its name, at most 255 bytes
 *   CKPT_PHANTOM_CAPABILITY  its compute capability, such as 9.0
 *   CKPT_PHANTOM_CONTEXT     what a context takes from it; 512M if unset
 *   CKPT_PHANTOM_COPY_MAX    longer copies to a device are not made; 1M
 *   CKPT_PHANTOM_OVERCOMMIT  1: more than its memory can be taken from a device
 *   CKPT_PHANTOM_STRICT      1: a function that nobody reviewed ends the job
 *   CKPT_PHANTOM_TRACE       1: calls of library functions, counted, at exit
 *   CUDA_VISIBLE_DEVICES     as the CUDA runtime reads it: ordinals and UUIDs
 *
 * A value that cannot be read is named in one line on standard error together
 * with what would be accepted, and there is no device at all.
 */
#ifndef PHANTOM_SETTINGS_H
#define PHANTOM_SETTINGS_H

#include "models.h"
#include "phantom.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PHANTOM_NAME_BYTES 256
#define PHANTOM_UUID_BYTES 16
#define PHANTOM_UUID_TEXT_BYTES 41 /* "GPU-", 32 digits, 4 hyphens, '\0' */

struct phantom_settings {
	struct phantom_model model; /* with the settings applied */
	const struct phantom_architecture *architecture;
	char name[PHANTOM_NAME_BYTES];
	uint64_t memory_bytes;
	uint64_t context_bytes;
	uint64_t copy_max_bytes;
	bool overcommit, strict, trace;
	int physical_count;
	int count;			   /* visible devices */
	int physical[PHANTOM_DEVICES_MAX]; /* of each visible one */
};

/* Never NULL; good for the process's life. */
PHANTOM_API const struct phantom_settings *phantom_settings(void);

/* The UUID of a physical device: the same in every process. */
PHANTOM_API void phantom_uuid(int physical, uint8_t uuid[PHANTOM_UUID_BYTES]);
PHANTOM_API void phantom_uuid_text(int physical,
				   char text[PHANTOM_UUID_TEXT_BYTES]);

#endif
