/*
 * The allocator of a fake libc10, which calls the memory reporter through the
 * PLT as the real one does. With reporter.c it is libc10.so; without, it is
 * libnoc10.so, and loop/libc10.so, which needs libckptagent.so and so finds a
 * reporter there.
 */
#include "reporter.h"

#define SELF ((void *)0x5e1f)

EXPORT void fake_alloc(void *ptr, size_t bytes);
EXPORT void fake_free(void *ptr);

void fake_alloc(void *ptr, size_t bytes)
{
	reporter_new(SELF, ptr, bytes);
}

void fake_free(void *ptr)
{
	reporter_delete(SELF, ptr);
}
