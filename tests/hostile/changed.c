/*
 * A fake libc10 of another time: NEW and DELETE are the names under which its
 * reporter's functions are called and defined.
 */
#include <stdio.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT void NEW(void *self, void *ptr, unsigned long bytes);
EXPORT void DELETE(void *self, void *ptr);
EXPORT void fake_alloc(void *ptr, unsigned long bytes);
EXPORT void fake_free(void *ptr);

void NEW(void *self, void *ptr, unsigned long bytes)
{
	printf("new %p %p %lu\n", self, ptr, bytes);
}

void DELETE(void *self, void *ptr)
{
	printf("delete %p %p\n", self, ptr);
}

void fake_alloc(void *ptr, unsigned long bytes)
{
	NEW((void *)0x5e1f, ptr, bytes);
}

void fake_free(void *ptr)
{
	DELETE((void *)0x5e1f, ptr);
}
