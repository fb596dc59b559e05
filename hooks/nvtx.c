/*
 * NVTX ranges (CKPT_BLOCKS=nvtx), and the tool that would have had them alone.
 *
 * A library that contains NVTX finds us because getenv tells it our path for
 * NVTX_INJECTION64_PATH. The variable itself is never touched: the job's
 * environment and that of its children stay what they are, and what the variable
 * says at that moment is the tool that we start first, with the same tables. Its
 * functions are then behind ours, which call them and return what they return;
 * what we have no interest in stays its alone.
 */
#include "hooks.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent.h"
#include "log.h"
#include "nvtx_client.h"
#include "nvtx_text.h"
#include "paths.h"
#include "range_bytes.h"
#include "ranges.h"
#include "symbols.h"

#define VARIABLE "NVTX_INJECTION64_PATH"

static _Atomic bool wanted, live;

/* Not NULL on a thread that starts the other tool, which may call us in turn. */
static pthread_key_t inside;

/* ---- what NVTX finds -------------------------------------------------------- */

typedef char *getenv_fn(const char *name);

static getenv_fn *_Atomic next_getenv;

/* Before our load() there is no looking up: a malloc may be asking. */
static char *in_environment(const char *name)
{
	size_t n = strlen(name);

	for (char **entry = environ; entry && *entry; entry++)
		if (!strncmp(*entry, name, n) && (*entry)[n] == '=')
			return *entry + n + 1;
	return NULL;
}

static char *original_getenv(const char *name)
{
	getenv_fn *next = atomic_load_explicit(&next_getenv,
					       memory_order_acquire);

	return next ? next(name) : in_environment(name);
}

/* Not for a process without Python, or whose library file has gone away. */
static bool offers_itself(void)
{
	return agent_on() && dlsym(RTLD_DEFAULT, "Py_IsInitialized") &&
	       !access(paths_library(), R_OK);
}

char *hook_getenv(const char *name)
{
	if (!atomic_load_explicit(&wanted, memory_order_relaxed) ||
	    strcmp(name, VARIABLE) || !offers_itself())
		return original_getenv(name);
	return (char *)paths_library();
}

void hook_nvtx_load(bool is_wanted)
{
	void *next = symbols_original(HOOK_getenv, NULL);

	atomic_store(&next_getenv, (getenv_fn *)next);
	if (is_wanted && next && !pthread_key_create(&inside, NULL))
		atomic_store(&wanted, true);
}

int hook_nvtx_live(void)
{
	return atomic_load(&live);
}

/* ---- the other tool --------------------------------------------------------- */

typedef int nvtx_initialize_fn(nvtx_export_fn *get);
typedef int nvtx_extension_fn(void *module);

/*
 * An entry of the tool that the variable names, NULL without one; *why then says
 * what is wrong with it, if anything. It is never closed: its functions are in
 * use.
 */
static void *entry_of_tool(const char *name, const void *ours, const char **why)
{
	const char *path = original_getenv(VARIABLE);
	void *library, *entry;

	*why = NULL;
	if (!path || !*path)
		return NULL;
	library = dlopen(path, RTLD_LAZY);
	entry = library ? dlsym(library, name) : NULL;
	if (!entry)
		*why = "the tool in " VARIABLE " cannot be loaded";
	return entry == ours ? NULL : entry;
}

static void say(const char *why)
{
	if (why)
		log_format(LOG_WARNING, "NVTX of one library: %s", why);
}

/* Whether it started; where it did not, nothing is left of it. */
static int start_tool(const struct nvtx_client *client, nvtx_export_fn *get)
{
	const char *why;
	nvtx_initialize_fn *tool = (nvtx_initialize_fn *)entry_of_tool(
		"InitializeInjectionNvtx2", (void *)hook_nvtx_initialize, &why);
	int started = 0;

	if (tool) {
		pthread_setspecific(inside, (void *)tool);
		started = tool(get);
		pthread_setspecific(inside, NULL);
	}
	if (tool && !started) {
		why = "the tool in " VARIABLE " did not start";
		nvtx_client_put_back(client);
	}
	say(why);
	return started;
}

/* What NVTX is told: 0 leaves it without any tool. */
int hook_nvtx_initialize(nvtx_export_fn *get)
{
	struct nvtx_client client;
	const char *why;
	int started;

	if (!atomic_load(&wanted))
		return 0;
	if (pthread_getspecific(inside))
		return 1;
	why = nvtx_client_read(&client, get);
	started = start_tool(&client, get);
	if (!agent_on())
		return started;
	if (!why && (ranges_begin() || range_bytes_begin() || nvtx_text_begin()))
		why = "no memory; its ranges are not seen";
	if (!why && !nvtx_client_attach(&client))
		why = "its tool is not that of another library; its ranges are "
		      "not seen";
	say(why);
	if (!why)
		atomic_store(&live, true);
	return !why || started;
}

/* Extensions (payloads) are between the client and the other tool. */
int hook_nvtx_initialize_extension(void *module)
{
	const char *why;
	nvtx_extension_fn *tool = (nvtx_extension_fn *)entry_of_tool(
		"InitializeInjectionNvtxExtension",
		(void *)hook_nvtx_initialize_extension, &why);

	return tool ? tool(module) : 1;
}
