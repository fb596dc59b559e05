/* A fake libc10 in a process that may not map a page more. */
#include <stdio.h>
#include <sys/resource.h>

#include "silent.h"

EXPORT void fake_alloc(void *ptr, size_t bytes);

void fake_alloc(void *ptr, size_t bytes)
{
	struct rlimit none = { 0, 0 };

	setrlimit(RLIMIT_AS, &none);
	reporter_new(NULL, ptr, bytes);
	printf("full\n");
}
