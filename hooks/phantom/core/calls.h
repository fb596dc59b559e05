/*
 * Calls of library functions: counted for CKPT_PHANTOM_TRACE, and refused where
 * nobody has reviewed what they would have to answer.
 */
#ifndef PHANTOM_CALLS_H
#define PHANTOM_CALLS_H

#include "phantom.h"

#include <stdatomic.h>

/* One function, static in its stub; the counting keeps a list of them. */
struct phantom_call {
	const char *name;
	atomic_ulong count;
	struct phantom_call *next;
};

PHANTOM_API void phantom_called(struct phantom_call *call);

/*
 * A function that is in no table of functions/ was called, or an answer asked
 * of one that is not listed (`detail`, may be NULL). Says so, once for a function;
 * with CKPT_PHANTOM_STRICT=1 it ends the process by SIGABRT. Else it returns,
 * and the stub fails with its library's code for "not supported".
 */
PHANTOM_API void phantom_unreviewed(struct phantom_call *call,
				    const char *detail);

#endif
