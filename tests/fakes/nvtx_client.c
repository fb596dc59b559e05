/*
 * A library that contains NVTX 3, as far as a tool can tell: function pointers,
 * tables of their addresses, and a start that asks getenv for the tool's path.
 * Built twice, for two clients in one process.
 */
#include "nvtx_client.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "nvtx_abi.h"

#define CORE_SIZE 16
#define CORE2_SIZE 16

/* What each pointer is before the start; it ends up as nothing. */
static void first(void)
{
}

static nvtx_fn *core[CORE_SIZE], *core2[CORE2_SIZE];
static nvtx_fn **core_table[CORE_SIZE + 1], **core2_table[CORE2_SIZE + 1];

static int table_of(int module, nvtx_fn ****out, unsigned int *size)
{
	if (module != NVTX_MODULE_CORE && module != NVTX_MODULE_CORE2)
		return 0;
	*out = module == NVTX_MODULE_CORE ? core_table : core2_table;
	*size = CORE_SIZE;
	return 1;
}

static struct nvtx_callbacks callbacks = { sizeof(callbacks), table_of };
static struct nvtx_version version = { .struct_size = sizeof(version) };

static const void *get(uint32_t table)
{
	return table == NVTX_EXPORT_CALLBACKS ? (void *)&callbacks :
	       table == NVTX_EXPORT_VERSION   ? (void *)&version :
						NULL;
}

static int call_tool(void)
{
	const char *path = getenv("NVTX_INJECTION64_PATH");
	void *library = path ? dlopen(path, RTLD_LAZY) : NULL;
	int (*init)(nvtx_export_fn *) = (int (*)(nvtx_export_fn *))(
		library ? dlsym(library, "InitializeInjectionNvtx2") : NULL);

	return init && init(get);
}

int client_init(uint32_t number)
{
	int started;

	version.version = number;
	for (int i = 1; i < CORE_SIZE; i++) {
		core[i] = core2[i] = first;
		core_table[i] = &core[i];
		core2_table[i] = &core2[i];
	}
	started = call_tool();
	for (int i = 1; i < CORE_SIZE; i++) {
		if (!started || core[i] == first)
			core[i] = NULL;
		if (!started || core2[i] == first)
			core2[i] = NULL;
	}
	return started;
}

int client_push(const char *text)
{
	int (*push)(const char *) = (int (*)(const char *))core[9];

	return push ? push(text) : NVTX_UNTRACKED;
}

int client_push_wide(const wchar_t *text)
{
	int (*push)(const wchar_t *) = (int (*)(const wchar_t *))core[10];

	return push ? push(text) : NVTX_UNTRACKED;
}

int client_push_event(const void *event)
{
	int (*push)(const void *) = (int (*)(const void *))core[8];

	return push ? push(event) : NVTX_UNTRACKED;
}

int client_pop(void)
{
	int (*pop)(void) = (int (*)(void))core[11];

	return pop ? pop() : NVTX_UNTRACKED;
}

uint64_t client_start(const char *text)
{
	uint64_t (*start)(const char *) = (uint64_t(*)(const char *))core[5];

	return start ? start(text) : 0;
}

void client_end(uint64_t id)
{
	void (*end)(uint64_t) = (void (*)(uint64_t))core[7];

	if (end)
		end(id);
}

void client_mark(const char *text)
{
	void (*mark)(const char *) = (void (*)(const char *))core[2];

	if (mark)
		mark(text);
}

void *client_domain(const char *name)
{
	void *(*create)(const char *) = (void *(*)(const char *))core2[12];

	return create ? create(name) : NULL;
}

const void *client_enter(void *domain, const char *text)
{
	const void *(*enter)(void *, const char *) =
		(const void *(*)(void *, const char *))core2[10];

	return enter ? enter(domain, text) : NULL;
}

int client_domain_push(void *domain, const void *event)
{
	int (*push)(void *, const void *) =
		(int (*)(void *, const void *))core2[4];

	return push ? push(domain, event) : NVTX_UNTRACKED;
}

int client_domain_pop(void *domain)
{
	int (*pop)(void *) = (int (*)(void *))core2[5];

	return pop ? pop(domain) : NVTX_UNTRACKED;
}
