/*
 * What is done on a device, for a library that records it (libraries/
 * cupti_records.c). Nothing takes time there, so each activity is said to take
 * a stated one.
 */
#ifndef PHANTOM_ACTIVITY_H
#define PHANTOM_ACTIVITY_H

#include "phantom.h"

#include <stddef.h>

#define PHANTOM_KERNEL_NS 1000
#define PHANTOM_COPY_NS 500 /* a copy or a fill */

enum phantom_activity {
	PHANTOM_KERNEL,
	PHANTOM_COPY,
	PHANTOM_FILL
};

typedef void phantom_watcher(enum phantom_activity activity, int device,
			     size_t bytes);

/* Whom to tell from now on; NULL: nobody. */
PHANTOM_API void phantom_watch(phantom_watcher *watcher);

/* A kernel ran, or a copy or fill of `bytes`, on a device. */
PHANTOM_API void phantom_did(enum phantom_activity activity, int device,
			     size_t bytes);

#endif
