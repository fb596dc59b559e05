/*
 * NVTX ranges (CKPT_BLOCKS=nvtx), and the tool that would have had them alone.
 *
 * A library that contains NVTX finds us because getenv tells it our path for
 * NVTX_INJECTION64_PATH. The variable itself is never touched: the job's
 * environment and that of its children stay what they are, and what the variable
 * says at that moment is the tool that we start first, with the same tables. Its
 * functions are then behind ours, which call them and return what they return;
 * what we have no interest in stays its alone.
 *
 * The callbacks run on any thread, in the middle of the job's own calls: no lock,
 * no malloc, no Python.
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
#include "nvtx_abi.h"
#include "nvtx_text.h"
#include "paths.h"
#include "range_bytes.h"
#include "ranges.h"
#include "symbols.h"

#define VARIABLE "NVTX_INJECTION64_PATH"
#define DOMAINS 256 /* that we give handles to */

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

/* ---- the callbacks ---------------------------------------------------------- */

typedef int nvtx_initialize_fn(nvtx_export_fn *get);
typedef int nvtx_extension_fn(void *module);
typedef int push_fn(const void *message);
typedef int pop_fn(void);
typedef uint64_t start_fn(const void *message);
typedef void end_fn(uint64_t id);
typedef int domain_push_fn(void *domain, const void *event);
typedef int domain_pop_fn(void *domain);
typedef uint64_t domain_start_fn(void *domain, const void *event);
typedef void domain_end_fn(void *domain, uint64_t id);
typedef void *create_fn(const void *name);
typedef const void *register_fn(void *domain, const void *text);

enum function {
	PUSH_EX,
	PUSH_A,
	PUSH_W,
	POP,
	START_EX,
	START_A,
	START_W,
	END,
	DOMAIN_PUSH_EX,
	DOMAIN_POP,
	DOMAIN_START_EX,
	DOMAIN_END,
	CREATE_A,
	CREATE_W,
	REGISTER_A,
	REGISTER_W,
	FUNCTIONS
};

/* What the other tool has for each; `unset` until the first client came. */
static void unset(void)
{
}

static nvtx_fn *_Atomic theirs[FUNCTIONS] = { [0 ... FUNCTIONS - 1] = unset };

static nvtx_fn *their(enum function function)
{
	return atomic_load_explicit(&theirs[function], memory_order_relaxed);
}

static int push(enum function function, const void *message, const char *text)
{
	push_fn *next = (push_fn *)their(function);

	ranges_push(NULL, text);
	return next ? next(message) : NVTX_UNTRACKED;
}

static int push_ex(const void *event)
{
	char text[RANGES_TEXT];

	nvtx_text_event(text, event);
	return push(PUSH_EX, event, text);
}

static int push_narrow(const void *message)
{
	char text[RANGES_TEXT];

	nvtx_text_narrow(text, message);
	return push(PUSH_A, message, text);
}

static int push_wide(const void *message)
{
	char text[RANGES_TEXT];

	nvtx_text_wide(text, message);
	return push(PUSH_W, message, text);
}

static int pop(void)
{
	pop_fn *next = (pop_fn *)their(POP);

	ranges_pop(NULL);
	return next ? next() : NVTX_UNTRACKED;
}

static int domain_push_ex(void *domain, const void *event)
{
	domain_push_fn *next = (domain_push_fn *)their(DOMAIN_PUSH_EX);
	char text[RANGES_TEXT];

	nvtx_text_event(text, event);
	ranges_push(domain, text);
	return next ? next(domain, event) : NVTX_UNTRACKED;
}

static int domain_pop(void *domain)
{
	domain_pop_fn *next = (domain_pop_fn *)their(DOMAIN_POP);

	ranges_pop(domain);
	return next ? next(domain) : NVTX_UNTRACKED;
}

/* The other tool's id, or else one of ours: the end is told by it. */
static uint64_t new_id(void)
{
	static _Atomic uint64_t last;

	return atomic_fetch_add(&last, 1) + 1;
}

static uint64_t start(enum function function, const void *message,
		      const char *text)
{
	start_fn *next = (start_fn *)their(function);
	uint64_t id = next ? next(message) : new_id();

	ranges_start(id, text);
	return id;
}

static uint64_t start_ex(const void *event)
{
	char text[RANGES_TEXT];

	nvtx_text_event(text, event);
	return start(START_EX, event, text);
}

static uint64_t start_narrow(const void *message)
{
	char text[RANGES_TEXT];

	nvtx_text_narrow(text, message);
	return start(START_A, message, text);
}

static uint64_t start_wide(const void *message)
{
	char text[RANGES_TEXT];

	nvtx_text_wide(text, message);
	return start(START_W, message, text);
}

static void end(uint64_t id)
{
	end_fn *next = (end_fn *)their(END);

	ranges_end(id);
	if (next)
		next(id);
}

static uint64_t domain_start_ex(void *domain, const void *event)
{
	domain_start_fn *next = (domain_start_fn *)their(DOMAIN_START_EX);
	uint64_t id = next ? next(domain, event) : new_id();
	char text[RANGES_TEXT];

	nvtx_text_event(text, event);
	ranges_start(id, text);
	return id;
}

static void domain_end(void *domain, uint64_t id)
{
	domain_end_fn *next = (domain_end_fn *)their(DOMAIN_END);

	ranges_end(id);
	if (next)
		next(domain, id);
}

/* Two domains have two stacks, so they need two handles. */
static void *create(enum function function, const void *name)
{
	static char handles[DOMAINS];
	static _Atomic uint32_t count;
	create_fn *next = (create_fn *)their(function);

	if (next)
		return next(name);
	return &handles[atomic_fetch_add(&count, 1) % DOMAINS];
}

static void *create_narrow(const void *name)
{
	return create(CREATE_A, name);
}

static void *create_wide(const void *name)
{
	return create(CREATE_W, name);
}

static const void *enter_string(enum function function, void *domain,
				const void *string, const char *text)
{
	register_fn *next = (register_fn *)their(function);
	const void *handle = next ? next(domain, string) : NULL;

	return next && !handle ? NULL : nvtx_text_register(handle, text);
}

static const void *register_narrow(void *domain, const void *string)
{
	char text[RANGES_TEXT];

	nvtx_text_narrow(text, string);
	return enter_string(REGISTER_A, domain, string, text);
}

static const void *register_wide(void *domain, const void *string)
{
	char text[RANGES_TEXT];

	nvtx_text_wide(text, string);
	return enter_string(REGISTER_W, domain, string, text);
}

/* ---- a client --------------------------------------------------------------- */

/* Where each stands: NvtxCallbackIdCore and NvtxCallbackIdCore2. */
static const struct {
	int module;
	unsigned int index;
	nvtx_fn *ours;
} table[FUNCTIONS] = {
	[START_EX] = { NVTX_MODULE_CORE, 4, (nvtx_fn *)start_ex },
	[START_A] = { NVTX_MODULE_CORE, 5, (nvtx_fn *)start_narrow },
	[START_W] = { NVTX_MODULE_CORE, 6, (nvtx_fn *)start_wide },
	[END] = { NVTX_MODULE_CORE, 7, (nvtx_fn *)end },
	[PUSH_EX] = { NVTX_MODULE_CORE, 8, (nvtx_fn *)push_ex },
	[PUSH_A] = { NVTX_MODULE_CORE, 9, (nvtx_fn *)push_narrow },
	[PUSH_W] = { NVTX_MODULE_CORE, 10, (nvtx_fn *)push_wide },
	[POP] = { NVTX_MODULE_CORE, 11, (nvtx_fn *)pop },
	[DOMAIN_START_EX] = { NVTX_MODULE_CORE2, 2, (nvtx_fn *)domain_start_ex },
	[DOMAIN_END] = { NVTX_MODULE_CORE2, 3, (nvtx_fn *)domain_end },
	[DOMAIN_PUSH_EX] = { NVTX_MODULE_CORE2, 4, (nvtx_fn *)domain_push_ex },
	[DOMAIN_POP] = { NVTX_MODULE_CORE2, 5, (nvtx_fn *)domain_pop },
	[REGISTER_A] = { NVTX_MODULE_CORE2, 10, (nvtx_fn *)register_narrow },
	[REGISTER_W] = { NVTX_MODULE_CORE2, 11, (nvtx_fn *)register_wide },
	[CREATE_A] = { NVTX_MODULE_CORE2, 12, (nvtx_fn *)create_narrow },
	[CREATE_W] = { NVTX_MODULE_CORE2, 13, (nvtx_fn *)create_wide },
};

/* The function pointers of a client, and what they were before any tool. */
struct client {
	nvtx_fn **pointer[NVTX_MODULES][NVTX_TABLE_MAX];
	nvtx_fn *before[NVTX_MODULES][NVTX_TABLE_MAX];
};

static void read_module(struct client *client, int module,
			const struct nvtx_callbacks *callbacks)
{
	nvtx_fn ***pointers = NULL;
	unsigned int size = 0;

	if (!callbacks->table(module, &pointers, &size) || !pointers)
		return;
	for (unsigned int i = 0; i < size && i < NVTX_TABLE_MAX; i++) {
		client->pointer[module][i] = pointers[i];
		if (pointers[i])
			client->before[module][i] = *pointers[i];
	}
}

/* NULL, or why the client's ranges cannot be seen. */
static const char *read_client(struct client *client, nvtx_export_fn *get)
{
	const struct nvtx_callbacks *callbacks = get(NVTX_EXPORT_CALLBACKS);
	const struct nvtx_version *version = get(NVTX_EXPORT_VERSION);

	memset(client, 0, sizeof(*client));
	if (!callbacks || callbacks->struct_size < sizeof(*callbacks) ||
	    !callbacks->table)
		return "it has no tables; its ranges are not seen";
	if (!version || version->struct_size < sizeof(*version) ||
	    version->version < NVTX_OLDEST || version->version > NVTX_NEWEST)
		return "its version is not known; its ranges are not seen";
	for (int module = 1; module < NVTX_MODULES; module++)
		read_module(client, module, callbacks);
	for (int i = 0; i < FUNCTIONS; i++)
		if (!client->pointer[table[i].module][table[i].index])
			return "its tables lack a function; its ranges are not seen";
	return NULL;
}

static void put_back(const struct client *client)
{
	for (int module = 1; module < NVTX_MODULES; module++)
		for (int i = 0; i < NVTX_TABLE_MAX; i++)
			if (client->pointer[module][i])
				*client->pointer[module][i] =
					client->before[module][i];
}

static nvtx_fn *their_pointer(const struct client *client, int i)
{
	nvtx_fn *now = *client->pointer[table[i].module][table[i].index];

	return now == client->before[table[i].module][table[i].index] ? NULL :
									 now;
}

/* Whether the other tool is behind this client as behind all before it. */
static bool learn_theirs(const struct client *client)
{
	for (int i = 0; i < FUNCTIONS; i++) {
		nvtx_fn *now = their_pointer(client, i), *known = unset;

		if (!atomic_compare_exchange_strong(&theirs[i], &known, now) &&
		    known != now)
			return false;
	}
	return true;
}

static void attach(const struct client *client)
{
	for (int i = 0; i < FUNCTIONS; i++)
		*client->pointer[table[i].module][table[i].index] =
			table[i].ours;
	atomic_store(&live, true);
}

/* ---- the other tool --------------------------------------------------------- */

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
static int start_tool(const struct client *client, nvtx_export_fn *get)
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
		put_back(client);
	}
	say(why);
	return started;
}

/* What NVTX is told: 0 leaves it without any tool. */
int hook_nvtx_initialize(nvtx_export_fn *get)
{
	struct client client;
	const char *why;
	int started;

	if (!atomic_load(&wanted))
		return 0;
	if (pthread_getspecific(inside))
		return 1;
	why = read_client(&client, get);
	started = start_tool(&client, get);
	if (!agent_on())
		return started;
	if (!why && (ranges_begin() || range_bytes_begin() || nvtx_text_begin()))
		why = "no memory; its ranges are not seen";
	if (!why && !learn_theirs(&client))
		why = "its tool is not that of another library; its ranges are "
		      "not seen";
	say(why);
	if (!why)
		attach(&client);
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
