#include "activity.h"

#include <stdatomic.h>

static phantom_watcher *_Atomic told;

void phantom_watch(phantom_watcher *watcher)
{
	told = watcher;
}

void phantom_did(enum phantom_activity activity, int device, size_t bytes)
{
	phantom_watcher *watcher = told;

	if (watcher)
		watcher(activity, device, bytes);
}
