/*
 * CUPTI itself: the library that torch's own needs, already loaded, never
 * another version. Errors are those of cupti.h. The caller sees to it that one
 * thread at a time is in here.
 */
#ifndef CKPTAGENT_CUPTI_LIBRARY_H
#define CKPTAGENT_CUPTI_LIBRARY_H

#include "cupti_abi.h"

struct cupti {
#define CUPTI(name, arguments) int(*name) arguments;
	CUPTI_FUNCTIONS(CUPTI)
#undef CUPTI
};

/*
 * Fill *cupti, which begins as zero, where the library is there and of a
 * version that we know. 0, -ENOENT, -ENOTSUP or -EIO.
 */
int cupti_library(struct cupti *cupti, char *why, size_t why_bytes);

/* 0 where no profiler has CUPTI; -EBUSY, -EIO. */
int cupti_alone(const struct cupti *cupti, char *why, size_t why_bytes);

/* Put one line, `what` with the number `code`, into why; returns `error`. */
int cupti_say(int error, char *why, size_t why_bytes, const char *what,
	      int code) __attribute__((format(printf, 4, 0)));

#endif
