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

#endif
