#include "symbols.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "shim_abi.h"

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
 * A symbol of a loaded library, but never ours. The handle is not closed: the
 * library must stay for as long as we forward to it.
 */
static void *symbol_in(enum hook hook, const char *path)
{
	void *library = dlopen(path, RTLD_NOLOAD | RTLD_LAZY);
	void *symbol = library ? dlsym(library, table[hook].symbol) : NULL;

	return symbol == (void *)table[hook].ours ? NULL : symbol;
}

/* Another library may stand before the original as we do: it comes first. */
static void *find(enum hook hook, const void *caller)
{
	struct search search = { .name = table[hook].library };
	void *symbol = dlsym(RTLD_NEXT, table[hook].symbol);
	Dl_info info;

	if (!symbol && dl_iterate_phdr(same_name, &search))
		symbol = symbol_in(hook, search.path);
	if (!symbol && dladdr(caller, &info) && info.dli_fname)
		symbol = symbol_in(hook, info.dli_fname);
	return symbol;
}

bool symbols_first(void)
{
	void *abi = dlsym(RTLD_DEFAULT, "ckptagent_abi");

	return !abi || abi == (void *)ckptagent_abi;
}

void *symbols_original(enum hook hook, const void *caller)
{
	void *original = atomic_load_explicit(&originals[hook],
					      memory_order_acquire);
	int saved = errno;

	if (original)
		return original;
	original = find(hook, caller);
	atomic_store(&originals[hook], original);
	errno = saved;
	return original;
}
