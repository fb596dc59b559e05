/* The memory reporter of a fake libc10: prints what reaches it. */
#include "reporter.h"

#include <stdio.h>

void reporter_new(void *self, void *ptr, size_t bytes)
{
	printf("new %p %p %zu\n", self, ptr, bytes);
}

void reporter_delete(void *self, void *ptr)
{
	printf("delete %p %p\n", self, ptr);
}
