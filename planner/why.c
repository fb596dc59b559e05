#include "why.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

int why_refuse(const struct why *why, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(why->text, why->size, format, args);
	va_end(args);
	return -EINVAL;
}

int why_memory(const struct why *why)
{
	snprintf(why->text, why->size, "out of memory");
	return -ENOMEM;
}
