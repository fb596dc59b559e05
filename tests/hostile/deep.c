/* Loads LIBRARY deep-bound, as some plugin systems do, and allocates in it. */
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL |
							   RTLD_DEEPBIND) :
				   NULL;
	void (*allocate)(void *, size_t);
	void (*release)(void *);

	if (!library)
		return 1;
	setvbuf(stdout, NULL, _IONBF, 0);
	allocate = (void (*)(void *, size_t))dlsym(library, "fake_alloc");
	release = (void (*)(void *))dlsym(library, "fake_free");
	allocate((void *)0x1000, 64);
	release((void *)0x1000);
	return 0;
}
