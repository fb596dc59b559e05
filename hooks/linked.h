/*
 * Which of several versions of a library a caller was linked to.
 *
 * A process can hold libcudart.so.12 and libcudart.so.13, each with its own
 * handles, streams and errors, under their names or under those of a wheel
 * (libcudart-d0da41ae.so.12.8.90). A call goes to the one that the calling
 * library names among those that it needs (DT_NEEDED of the ELF format). Who
 * calls is told from where the call returns to; a library whose last act is the
 * call may have jumped instead, and then its own caller is taken for it.
 *
 * Any thread. The first call from a library takes the loader's lock, later
 * ones none. errno is left as it was.
 */
#ifndef CKPTAGENT_LINKED_H
#define CKPTAGENT_LINKED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "hooks.h"

/* Calling libraries that are remembered for a function; more are looked up. */
#define LINKED_ROUTES 8

/* One function of a library; zero but for its two names. */
struct linked {
	const char *library; /* without a version: "libcudart.so" */
	const char *name;
	struct {
		_Atomic bool claimed;
		_Atomic uintptr_t from, to; /* the caller's code */
		void *original;
	} routes[LINKED_ROUTES];
};

/*
 * The function that a call from `caller` (an instruction's address) would reach
 * without us: that of a library which stands before the original, as ours
 * does; else that of the version which the caller needs; else, where it names
 * none, of any that is loaded. NULL if there is none. Never ours.
 */
void *linked_function(struct linked *function, const void *caller);

/* The same for the original of a hook. */
void *linked_original(enum hook hook, const void *caller);

/*
 * The name by which the library around `instruction` needs another one, or
 * NULL. The string is the needing library's. Takes the loader's lock.
 */
const char *linked_needs(const void *instruction, const char *library);

#endif
