/*
 * A libc10 of two functions: the memory reporter, and an allocator that calls
 * it through the PLT as the real one does. Built as libc10.so; without the
 * reporter as libnoc10.so, and as loop/libc10.so, which needs libckptagent.so
 * and so finds the reporter there.
 */
#include <stddef.h>
#include <stdio.h>

#define NEW _ZN3c1025ProfiledCPUMemoryReporter3NewEPvm
#define DELETE _ZN3c1025ProfiledCPUMemoryReporter6DeleteEPv

#define EXPORT __attribute__((visibility("default")))

EXPORT void NEW(void *self, void *ptr, size_t bytes);
EXPORT void DELETE(void *self, void *ptr);

#ifndef WITHOUT_REPORTER
void NEW(void *self, void *ptr, size_t bytes)
{
	printf("new %p %p %zu\n", self, ptr, bytes);
}

void DELETE(void *self, void *ptr)
{
	printf("delete %p %p\n", self, ptr);
}
#endif

EXPORT void fake_alloc(void *ptr, size_t bytes);
EXPORT void fake_free(void *ptr);

void fake_alloc(void *ptr, size_t bytes)
{
	NEW((void *)0x5e1f, ptr, bytes);
}

void fake_free(void *ptr)
{
	DELETE((void *)0x5e1f, ptr);
}
