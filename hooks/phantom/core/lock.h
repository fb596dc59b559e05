/*
 * The one lock of the books. It is held for a look-up or an entry, never while
 * a function of the job is called, and not recursively. A fork waits for it, so
 * that the child finds the books whole.
 */
#ifndef PHANTOM_LOCK_H
#define PHANTOM_LOCK_H

#include "phantom.h"

PHANTOM_API void phantom_lock(void);
PHANTOM_API void phantom_unlock(void);

#endif
