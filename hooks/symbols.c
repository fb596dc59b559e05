#include "symbols.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static const struct {
	const char *library;
	const char *symbol;
	void (*ours)(void);
} table[HOOKS] = {
#define HOOK(name, library, symbol, arguments) \
	{ library, #symbol, (void (*)(void))hook_##name },
#include "hooks.def"
#undef HOOK
};

static void *_Atomic originals[HOOKS];

struct search {
	const char *name;
	char path[4096];
};

static int same_name(struct dl_phdr_info *info, size_t size, void *data)
{
	struct search *search = data;
	const char *slash = strrchr(info->dlpi_name, '/');
	const char *base = slash ? slash + 1 : info->dlpi_name;

	(void)size;
	if (strcmp(base, search->name) ||
	    strlen(info->dlpi_name) >= sizeof(search->path))
		return 0;
	strcpy(search->path, info->dlpi_name);
	return 1;
}

/*
 * The handle is not closed: the library must stay for as long as we forward
 * to it, and it is loaded already.
 */
static void *find(enum hook hook)
{
	struct search search = { .name = table[hook].library };
	void *library, *symbol;

	if (!dl_iterate_phdr(same_name, &search))
		return NULL;
	library = dlopen(search.path, RTLD_NOLOAD | RTLD_LAZY);
	symbol = library ? dlsym(library, table[hook].symbol) : NULL;
	return symbol == (void *)table[hook].ours ? NULL : symbol;
}

void *symbols_original(enum hook hook)
{
	void *original = atomic_load_explicit(&originals[hook],
					      memory_order_acquire);
	int saved = errno;

	if (original)
		return original;
	original = find(hook);
	atomic_store(&originals[hook], original);
	errno = saved;
	return original;
}
