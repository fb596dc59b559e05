/* cmocka, and the headers that it wants to find before it. */
#ifndef CKPTAGENT_TESTS_CHECK_H
#define CKPTAGENT_TESTS_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* The same numbers in every run (xorshift64). */
static inline uint64_t next_random(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

#endif
