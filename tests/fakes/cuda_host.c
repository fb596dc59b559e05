/*
 * A process that uses libraries which call CUDA runtimes.
 *
 *   cuda_host STEP…
 *
 * The steps: local:LIBRARY, deep:LIBRARY (load one, with RTLD_DEEPBIND), then
 * its functions: malloc:BYTES, pitch:BYTES (two rows), async:BYTES, pool:BYTES,
 * free, free_async (the latest allocation); old_free (the first one), free_null; books: what the
 * agent has for devices 1 and 2, by torch's caching allocator and by others;
 * shared: whether it can see torch's runtime. Results that are no success are
 * printed.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "steps.h"

#define ALLOCATIONS 32

static void *library;
static void *allocations[ALLOCATIONS];
static int made;

static void *symbol(void *from, const char *name)
{
	void *found = dlsym(from, name);

	if (!found) {
		fprintf(stderr, "%s\n", dlerror());
		exit(EXIT_FAILURE);
	}
	return found;
}

static void result(int error)
{
	if (error)
		printf("error %d\n", error);
}

static void load(const char *name, int mode)
{
	library = dlopen(name, RTLD_LAZY | RTLD_LOCAL | mode);
	if (!library) {
		fprintf(stderr, "%s\n", dlerror());
		exit(EXIT_FAILURE);
	}
}

static void allocate(const char *function, const char *bytes)
{
	int (*call)(void **, size_t) = (int (*)(void **, size_t))symbol(
		library, function);
	int error = call(&allocations[made], strtoull(bytes, NULL, 10));

	result(error);
	made += !error && made < ALLOCATIONS - 1;
}

static void release(const char *function, void *ptr)
{
	result(((int (*)(void *))symbol(library, function))(ptr));
}

static unsigned long long count(const char *name, int device)
{
	return ((uint64_t(*)(int))symbol(RTLD_DEFAULT, name))(device);
}

static void print_books(void)
{
	for (int device = 1; device <= 2; device++)
		printf("device %d: %llu %llu\n", device,
		       count("ckptagent_cached", device),
		       count("ckptagent_outside", device));
}

static void step(const char *name)
{
	const char *word;

	if ((word = value(name, "local:")))
		load(word, 0);
	else if ((word = value(name, "deep:")))
		load(word, RTLD_DEEPBIND);
	else if ((word = value(name, "malloc:")))
		allocate("user_malloc", word);
	else if ((word = value(name, "pitch:")))
		allocate("user_pitch", word);
	else if ((word = value(name, "async:")))
		allocate("user_async", word);
	else if ((word = value(name, "pool:")))
		allocate("user_pool", word);
	else if (!strcmp(name, "free"))
		release("user_free", allocations[--made]);
	else if (!strcmp(name, "free_async"))
		release("user_free_async", allocations[--made]);
	else if (!strcmp(name, "old_free"))
		release("user_free", allocations[0]);
	else if (!strcmp(name, "free_null"))
		release("user_free", NULL);
	else if (!strcmp(name, "books"))
		print_books();
	else if (!strcmp(name, "shared"))
		printf("shared %d\n",
		       ((int (*)(void))symbol(RTLD_DEFAULT,
					      "ckptagent_live_cudart_hooks"))());
}

int main(int argc, char **argv)
{
	take_steps(argc, argv);
	return EXIT_SUCCESS;
}
