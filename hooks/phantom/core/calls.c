#include "calls.h"

#include "lock.h"
#include "say.h"
#include "settings.h"

#include <stdlib.h>

static struct phantom_call *called;

void phantom_called(struct phantom_call *call)
{
	if (atomic_fetch_add_explicit(&call->count, 1, memory_order_relaxed))
		return;
	phantom_lock();
	call->next = called;
	called = call;
	phantom_unlock();
}

void phantom_unreviewed(struct phantom_call *call, const char *detail)
{
	bool strict = phantom_settings()->strict;
	bool first = !atomic_fetch_add(&call->count, 1);

	if (first || detail || strict)
		phantom_say("%s%s%s: nobody has reviewed what it must answer; "
			    "%s",
			    call->name, detail ? ": " : "",
			    detail ? detail : "",
			    strict ? "CKPT_PHANTOM_STRICT=1 ends the job here" :
				     "it fails as not supported");
	if (strict)
		abort();
}

__attribute__((destructor)) static void show_calls(void)
{
	if (!called || !phantom_settings()->trace)
		return; /* a process that has not used the device says nothing */
	for (const struct phantom_call *call = called; call; call = call->next)
		phantom_say("%lu calls of %s", atomic_load(&call->count),
			    call->name);
}
