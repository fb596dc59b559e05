#include "symbols.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "shim_abi.h"

static const struct {
	const char *library;
	const char *symbol;
	void (*ours)(void);
} table[HOOKS] = {
#define HOOK(name, library, symbol, result, arguments) \
	{ library, #symbol, (void (*)(void))hook_##name },
#include "hooks.def"
#undef HOOK
};

static void *_Atomic originals[HOOKS];

/* Between the stem and ".so" a wheel's tool puts "-" and a part of a digest. */
bool symbols_is_named(const char *path, const char *name)
{
	const char *slash = strrchr(path, '/');
	const char *base = slash ? slash + 1 : path;
	size_t stem = strlen(name) - strlen(".so");

	if (strncmp(base, name, stem))
		return false;
	base += stem;
	if (*base == '-')
		base = strchr(base, '.');
	if (!base || strncmp(base, ".so", 3))
		return false;
	return !base[3] || base[3] == '.';
}

struct search {
	const char *name;
	char path[4096];
};

static int same_name(struct dl_phdr_info *info, size_t size, void *data)
{
	struct search *search = data;

	(void)size;
	if (!symbols_is_named(info->dlpi_name, search->name) ||
	    strlen(info->dlpi_name) >= sizeof(search->path))
		return 0;
	strcpy(search->path, info->dlpi_name);
	return 1;
}

/*
 * A symbol of a loaded library, but never ours. The handle is not closed: the
 * library must stay for as long as we forward to it.
 */
static void *symbol_in(const char *path, const char *name)
{
	void *library = dlopen(path, RTLD_NOLOAD | RTLD_LAZY);

	return library ? dlsym(library, name) : NULL;
}

static void *in_library(const char *library, const char *name)
{
	struct search search = { .name = library };

	return dl_iterate_phdr(same_name, &search) ?
		       symbol_in(search.path, name) :
		       NULL;
}

void *symbols_anywhere(const char *library, const char *name,
		       const void *caller)
{
	void *symbol = in_library(library, name);
	Dl_info info;

	if (!symbol && dladdr(caller, &info) && info.dli_fname)
		symbol = symbol_in(info.dli_fname, name);
	return symbol;
}

/* Another library may stand before the original as we do: it comes first. */
static void *find(enum hook hook, const void *caller)
{
	const char *name = table[hook].symbol;
	const void *ours = (const void *)table[hook].ours;
	void *symbol = dlsym(RTLD_NEXT, name);

	if (!symbol || symbol == ours)
		symbol = symbols_anywhere(table[hook].library, name, caller);
	return symbol == ours ? NULL : symbol;
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

void symbols_prepare(void)
{
	for (int hook = 0; hook < HOOKS; hook++)
		symbols_original(hook, NULL);
}

struct range {
	const char *name;
	uintptr_t from, to;
};

/* The executable part of a library. */
static int text_of(struct dl_phdr_info *info, size_t size, void *data)
{
	struct range *range = data;

	(void)size;
	if (!symbols_is_named(info->dlpi_name, range->name))
		return 0;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &info->dlpi_phdr[i];

		if (part->p_type != PT_LOAD || !(part->p_flags & PF_X))
			continue;
		range->from = info->dlpi_addr + part->p_vaddr;
		range->to = range->from + part->p_memsz;
		return 1;
	}
	return 0;
}

const void *symbols_text(const char *library)
{
	struct range range = { .name = library };

	return dl_iterate_phdr(text_of, &range) ? (const void *)range.from :
						  NULL;
}

bool symbols_within(const char *library, const void *instruction)
{
	static _Atomic uintptr_t from, to;
	uintptr_t at = (uintptr_t)instruction;

	if (!atomic_load(&to)) {
		struct range range = { .name = library };

		if (!dl_iterate_phdr(text_of, &range))
			return false;
		atomic_store(&from, range.from);
		atomic_store(&to, range.to);
	}
	return at >= atomic_load(&from) && at < atomic_load(&to);
}
