/*
 * What device memory holds, as far as it holds anything.
 *
 * Kernels do nothing, so memory holds what the host last copied or set there,
 * maybe for a tensor that is long gone. Two rules keep that defined and cheap:
 *
 * - Copies to a device longer than CKPT_PHANTOM_COPY_MAX are not made, so that
 *   a model does not take host memory twice.
 * - A scalar (at most SCALAR_BYTES) read back to the host is what the host, or a
 *   copy of such a scalar, last wrote to exactly that address with exactly
 *   that length, and else zeros: a count, a flag or a loss that a kernel would
 *   have written reads 0, not what the memory was used for before.
 *
 * Both sides must be mapped; overlapping is allowed.
 */
#ifndef PHANTOM_CONTENT_H
#define PHANTOM_CONTENT_H

#include "phantom.h"

#include <stddef.h>

#define SCALAR_BYTES 64

PHANTOM_API void phantom_copy(void *to, const void *from, size_t bytes);

/* `height` rows of `width` bytes, their starts so far apart. */
PHANTOM_API void phantom_copy_rows(void *to, size_t to_pitch, const void *from,
				   size_t from_pitch, size_t width,
				   size_t height);

PHANTOM_API void phantom_fill(void *to, int value, size_t bytes);

#endif
