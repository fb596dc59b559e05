/*
 * The one error convention of the planner: a function returns 0 or a negative
 * errno value, and on failure `why` holds one line that names the cause.
 */
#ifndef CKPTPLAN_WHY_H
#define CKPTPLAN_WHY_H

#include <stddef.h>

/* A caller's buffer; text may be NULL when size is 0. */
struct why {
	char *text;
	size_t size;
};

/* Fill the buffer and return -EINVAL. */
int why_refuse(const struct why *why, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Fill the buffer with "out of memory" and return -ENOMEM. */
int why_memory(const struct why *why);

#endif
