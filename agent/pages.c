#include "pages.h"

#include <errno.h>
#include <sys/mman.h>

void *pages_map(size_t bytes)
{
	int saved = errno;
	void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	errno = saved;
	return pages == MAP_FAILED ? NULL : pages;
}

void pages_unmap(void *pages, size_t bytes)
{
	int saved = errno;

	munmap(pages, bytes);
	errno = saved;
}
