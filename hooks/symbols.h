/*
 * The originals of the interposed functions.
 *
 * torch loads its libraries with local scope: RTLD_NEXT does not find what
 * they define, so the loaded object is looked up by its base name, or else, where
 * it was renamed, as the one that makes the call.
 */
#ifndef CKPTAGENT_SYMBOLS_H
#define CKPTAGENT_SYMBOLS_H

#include <stdbool.h>

#include "hooks.h"

/* Where a hook was called from; of use in a hook alone. */
#define SYMBOLS_CALLER __builtin_return_address(0)

/*
 * The function that a hook stands before: the same hook of a library that was
 * preloaded after us, or else the original; `caller` is an address in the
 * library that called the hook. NULL if there is none. Never ours. Found once,
 * then a load. Any thread; takes no lock of its own (the first call takes the
 * loader's).
 */
void *symbols_original(enum hook hook, const void *caller);

/* Whether no other copy of this library comes before us in the process. */
bool symbols_first(void);

/*
 * Find the originals of every hook whose library is loaded: later calls take
 * no lock of the loader's. For a moment when the caller holds none itself.
 */
void symbols_prepare(void);

/*
 * A function of the loaded library with this base name, or else of the one
 * that `caller` is in; NULL if there is none. It may be ours. Takes the
 * loader's lock.
 */
void *symbols_anywhere(const char *library, const char *name,
		       const void *caller);

/*
 * Whether a path ends in a base name such as "libcudart.so", with or without a
 * version after it (.12) and what a wheel's tool puts before it (-d0da41ae).
 */
bool symbols_is_named(const char *path, const char *name);

/* Where the code of the loaded library with this base name begins, or NULL. */
const void *symbols_text(const char *library);

/*
 * Whether an instruction is in a loaded library with this base name. Once the
 * library was found, that takes two loads. One name for all calls.
 */
bool symbols_within(const char *library, const void *instruction);

#endif
