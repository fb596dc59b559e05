/*
 * One line on standard error with the prefix "phantom: ", in one write(2).
 */
#ifndef PHANTOM_SAY_H
#define PHANTOM_SAY_H

#include "phantom.h"

PHANTOM_API void phantom_say(const char *format, ...)
	__attribute__((format(printf, 1, 2)));

#endif
