/*
 * What the generated stubs write through their arguments. An argument is an
 * integer register or stack slot, whatever its type in the library's header; a
 * NULL is nothing to write to.
 */
#ifndef PHANTOM_PUT_H
#define PHANTOM_PUT_H

#include "handle.h"

#include <stdint.h>
#include <string.h>

#define PUT(type, argument, value) \
	do { \
		if (argument) \
			*(type *)(argument) = (type)(value); \
	} while (0)

static inline void put_zeros(intptr_t argument, size_t bytes)
{
	if (argument)
		memset((void *)argument, 0, bytes);
}

static inline void put_handle(intptr_t argument)
{
	PUT(void *, argument,
	    phantom_handle_new(PHANTOM_DESCRIPTOR,
			       sizeof(struct phantom_handle)));
}

static inline void end_handle(intptr_t argument)
{
	phantom_handle_end((void *)argument, PHANTOM_DESCRIPTOR);
}

static inline void end_handle_at(intptr_t argument)
{
	if (argument)
		end_handle(*(intptr_t *)argument);
	PUT(void *, argument, NULL);
}

#endif
