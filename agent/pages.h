/*
 * Memory for the agent's own books: zeroed pages straight from the kernel.
 *
 * The agent runs inside the job's allocator and after a fork at any
 * instruction, so it never calls malloc.
 */
#ifndef CKPTAGENT_PAGES_H
#define CKPTAGENT_PAGES_H

#include <stddef.h>

/*
 * `bytes` of zeroed memory that costs nothing until it is touched, or NULL.
 * errno is left as it was. The caller owns it.
 */
void *pages_map(size_t bytes);
void pages_unmap(void *pages, size_t bytes);

#endif
