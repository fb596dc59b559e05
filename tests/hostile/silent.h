/* What is behind the agent where nobody listens: it forwards to nothing. */
#ifndef SILENT_H
#define SILENT_H

#include "../fakes/reporter.h"

void reporter_new(void *self, void *ptr, size_t bytes)
{
	(void)self;
	(void)ptr;
	(void)bytes;
}

void reporter_delete(void *self, void *ptr)
{
	(void)self;
	(void)ptr;
}

#endif
