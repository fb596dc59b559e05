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

/* Another function of the library of a hook's original, or NULL. */
void *symbols_beside(enum hook hook, const char *name);

/*
 * Whether an instruction is in a loaded library with this base name. Once the
 * library was found, that takes two loads. One name for all calls.
 */
bool symbols_within(const char *library, const void *instruction);

#endif
