/*
 * The originals of the interposed functions.
 *
 * torch loads its libraries with local scope: RTLD_NEXT does not find what
 * they define, so the loaded object is looked up by its base name.
 */
#ifndef CKPTAGENT_SYMBOLS_H
#define CKPTAGENT_SYMBOLS_H

#include "hooks.h"

/*
 * The function that a hook stands before, or NULL if its library is not
 * loaded or has no such symbol. Never one of ours. Found once, then a load.
 * Any thread; takes no lock of its own (the first call takes the loader's).
 */
void *symbols_original(enum hook hook);

#endif
