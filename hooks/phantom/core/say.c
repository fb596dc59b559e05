#include "say.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#define LINE_BYTES 1024

void phantom_say(const char *format, ...)
{
	static const char prefix[] = "phantom: ";
	char line[LINE_BYTES];
	int kept = errno, used = snprintf(line, sizeof(line), "%s", prefix);
	va_list arguments;

	va_start(arguments, format);
	used += vsnprintf(line + used, sizeof(line) - used, format, arguments);
	va_end(arguments);
	if (used > LINE_BYTES - 2)
		used = LINE_BYTES - 2;
	line[used++] = '\n';
	if (write(STDERR_FILENO, line, used) < 0)
		errno = kept; /* nobody listens: nothing to do about it */
	errno = kept;
}
