#include "linked.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stddef.h>

#include "symbols.h"

static struct linked functions[HOOKS] = {
#define HOOK(hook_name, from, symbol, result, arguments) \
	{ .library = from, .name = #symbol },
#include "hooks.def"
#undef HOOK
};

/* The loaded library around an instruction. */
struct object {
	uintptr_t at;
	uintptr_t base;
	uintptr_t from, to; /* of the segment with the instruction */
	const ElfW(Dyn) *dynamic;
};

static int around(struct dl_phdr_info *info, size_t size, void *data)
{
	struct object *object = data;

	(void)size;
	object->dynamic = NULL;
	object->to = 0;
	object->base = info->dlpi_addr;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &info->dlpi_phdr[i];
		uintptr_t start = info->dlpi_addr + part->p_vaddr;

		if (part->p_type == PT_DYNAMIC)
			object->dynamic = (const void *)start;
		if (part->p_type == PT_LOAD && object->at >= start &&
		    object->at < start + part->p_memsz) {
			object->from = start;
			object->to = start + part->p_memsz;
		}
	}
	return object->to != 0;
}

/* glibc has put the base into some machines' tables, not into others'. */
static const char *strings_of(const struct object *object)
{
	uintptr_t at = 0;

	for (const ElfW(Dyn) *d = object->dynamic; d->d_tag != DT_NULL; d++)
		if (d->d_tag == DT_STRTAB)
			at = d->d_un.d_ptr;
	return (const char *)(at && at < object->base ? at + object->base :
							at);
}

static const char *needed(const struct object *object, const char *library)
{
	const char *strings;

	if (!object->dynamic)
		return NULL;
	strings = strings_of(object);
	for (const ElfW(Dyn) *d = object->dynamic;
	     strings && d->d_tag != DT_NULL; d++)
		if (d->d_tag == DT_NEEDED &&
		    symbols_is_named(strings + d->d_un.d_val, library))
			return strings + d->d_un.d_val;
	return NULL;
}

const char *linked_needs(const void *instruction, const char *library)
{
	struct object object = { .at = (uintptr_t)instruction };

	return dl_iterate_phdr(around, &object) ? needed(&object, library) :
						  NULL;
}

/* The file that holds a function, "" where that cannot be told. */
static const char *file_of(const void *function)
{
	Dl_info info;

	return dladdr(function, &info) && info.dli_fname ? info.dli_fname : "";
}

static bool is_ours(const void *function)
{
	Dl_info ours, theirs;

	return dladdr((const void *)linked_function, &ours) &&
	       dladdr(function, &theirs) && ours.dli_fbase == theirs.dli_fbase;
}

static void *not_ours(void *function)
{
	return function && !is_ours(function) ? function : NULL;
}

/* Libraries stay open: we forward to them for good. */
static void *in_needed(const char *library, const char *name)
{
	void *handle = dlopen(library, RTLD_NOLOAD | RTLD_LAZY);

	return handle ? not_ours(dlsym(handle, name)) : NULL;
}

static void *find(const struct linked *function, const void *caller,
		  const struct object *object)
{
	void *next = not_ours(dlsym(RTLD_NEXT, function->name));
	const char *named;

	if (next && !symbols_is_named(file_of(next), function->library))
		return next;
	named = needed(object, function->library);
	if (named)
		return in_needed(named, function->name);
	if (next)
		return next;
	return not_ours(symbols_anywhere(function->library, function->name,
					 caller));
}

static void *remembered(struct linked *function, uintptr_t at)
{
	for (int i = 0; i < LINKED_ROUTES; i++) {
		if (at < atomic_load_explicit(&function->routes[i].to,
					      memory_order_acquire) &&
		    at >= atomic_load(&function->routes[i].from))
			return function->routes[i].original;
	}
	return NULL;
}

/* What is read last is written last. */
static void remember(struct linked *function, const struct object *object,
		     void *original)
{
	for (int i = 0; i < LINKED_ROUTES; i++) {
		if (atomic_exchange(&function->routes[i].claimed, true))
			continue;
		function->routes[i].original = original;
		atomic_store(&function->routes[i].from, object->from);
		atomic_store(&function->routes[i].to, object->to);
		return;
	}
}

void *linked_function(struct linked *function, const void *caller)
{
	struct object object = { .at = (uintptr_t)caller };
	void *original = remembered(function, object.at);
	int saved = errno;

	if (original)
		return original;
	if (!dl_iterate_phdr(around, &object))
		object.dynamic = NULL; /* code that no library holds */
	original = find(function, caller, &object);
	if (original && object.to)
		remember(function, &object, original);
	errno = saved;
	return original;
}

void *linked_original(enum hook hook, const void *caller)
{
	return linked_function(&functions[hook], caller);
}
