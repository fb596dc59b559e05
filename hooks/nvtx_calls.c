#include "nvtx_calls.h"

#include <stdatomic.h>

#include "nvtx_text.h"
#include "ranges.h"

#define DOMAINS 256 /* that we give handles to */

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

_Static_assert(FUNCTIONS == NVTX_CALLS, "one entry each");

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

/* Where each stands: NvtxCallbackIdCore and NvtxCallbackIdCore2. */
const struct nvtx_call nvtx_calls[NVTX_CALLS] = {
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

bool nvtx_calls_learn(int call, nvtx_fn *function)
{
	nvtx_fn *known = unset;

	return atomic_compare_exchange_strong(&theirs[call], &known,
					      function) ||
	       known == function;
}
