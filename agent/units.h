/*
 * How budgets are written: shared by the preloaded library and the command.
 *
 *   8589934592          bytes
 *   8G 8GiB 1.5M        K M G T and KiB MiB GiB TiB: powers of 1024
 *   8GB                 KB MB GB TB: powers of 1000
 *   70% 12.5%           of the device's memory
 *   min max
 *
 * Digits, at most one decimal point between digits, and the suffix as written
 * above, with nothing around or between. Fractions of a byte are cut off;
 * what remains must be from 1 byte to UNITS_BYTES_MAX.
 */
#ifndef CKPTAGENT_UNITS_H
#define CKPTAGENT_UNITS_H

#include <stdint.h>

#define UNITS_BYTES_MAX (UINT64_C(1) << 62)

enum units_kind {
	UNITS_BYTES,
	UNITS_SHARE,
	UNITS_MIN,
	UNITS_MAX
};

struct units_budget {
	enum units_kind kind;
	uint64_t bytes;	     /* of UNITS_BYTES */
	uint32_t millionths; /* of UNITS_SHARE: 1 to 1,000,000 */
};

/* 0; -EINVAL: not written as above; -ERANGE: too large, or nothing. */
int units_bytes(const char *text, uint64_t *bytes);

/*
 * The same for all forms. A percentage has at most four decimals and is more
 * than 0 and at most 100.
 */
int units_budget(const char *text, struct units_budget *budget);

/* `millionths` of `whole` bytes, cut off. */
uint64_t units_share(uint64_t whole, uint32_t millionths);

#endif
