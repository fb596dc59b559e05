/*
 * Another NVTX tool. Prints the calls that reach it. FAKE_TOOL says how it is:
 * "fails" (its start returns 0, with a pointer already written), "calls-us" (it
 * in turn starts the library that the process has preloaded), "once" (it is
 * behind its first client only).
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nvtx_abi.h"

__attribute__((visibility("default"))) int
InitializeInjectionNvtx2(nvtx_export_fn *get);
__attribute__((visibility("default"))) int
InitializeInjectionNvtxExtension(void *module);

static int push(const char *text)
{
	printf("tool push %s\n", text);
	return 70;
}

static int pop(void)
{
	printf("tool pop\n");
	return 71;
}

static uint64_t start(const char *text)
{
	printf("tool start %s\n", text);
	return 4711;
}

static void end(uint64_t id)
{
	printf("tool end %llu\n", (unsigned long long)id);
}

static void mark(const char *text)
{
	printf("tool mark %s\n", text);
}

static const void *enter(void *domain, const char *text)
{
	static char handle;

	printf("tool register %s %s\n", (const char *)domain, text);
	return &handle;
}

static void *domain(const char *name)
{
	printf("tool domain %s\n", name);
	return (void *)name;
}

static int domain_push(void *domain, const void *event)
{
	(void)event;
	printf("tool push in %s\n", (const char *)domain);
	return 72;
}

int InitializeInjectionNvtx2(nvtx_export_fn *get)
{
	const struct nvtx_callbacks *callbacks = get(NVTX_EXPORT_CALLBACKS);
	const char *how = getenv("FAKE_TOOL");
	static int clients;
	nvtx_fn ***table;
	unsigned int size;

	how = how ? how : "";
	printf("tool init\n");
	if (!strcmp(how, "once") && clients++)
		return 1;
	callbacks->table(NVTX_MODULE_CORE, &table, &size);
	*table[9] = (nvtx_fn *)push;
	if (!strcmp(how, "fails"))
		return 0;
	*table[11] = (nvtx_fn *)pop;
	*table[5] = (nvtx_fn *)start;
	*table[7] = (nvtx_fn *)end;
	*table[2] = (nvtx_fn *)mark;
	callbacks->table(NVTX_MODULE_CORE2, &table, &size);
	*table[12] = (nvtx_fn *)domain;
	*table[10] = (nvtx_fn *)enter;
	*table[4] = (nvtx_fn *)domain_push;
	if (!strcmp(how, "calls-us"))
		((int (*)(nvtx_export_fn *))dlsym(
			RTLD_DEFAULT, "InitializeInjectionNvtx2"))(get);
	return 1;
}

int InitializeInjectionNvtxExtension(void *module)
{
	printf("tool extension %s\n", (const char *)module);
	return 5;
}
