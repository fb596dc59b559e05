#include "units.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define SHARE_WHOLE 1000000
#define FRACTION_DIGITS 9

static const struct suffix {
	const char *text;
	uint64_t bytes;
} suffixes[] = {
	{ "", 1 },
	{ "K", UINT64_C(1) << 10 },
	{ "M", UINT64_C(1) << 20 },
	{ "G", UINT64_C(1) << 30 },
	{ "T", UINT64_C(1) << 40 },
	{ "KiB", UINT64_C(1) << 10 },
	{ "MiB", UINT64_C(1) << 20 },
	{ "GiB", UINT64_C(1) << 30 },
	{ "TiB", UINT64_C(1) << 40 },
	{ "KB", UINT64_C(1000) },
	{ "MB", UINT64_C(1000000) },
	{ "GB", UINT64_C(1000000000) },
	{ "TB", UINT64_C(1000000000000) },
};

/* A number as written: whole + fraction / 10^decimals. */
struct number {
	uint64_t whole;
	uint64_t fraction;
	uint64_t divisor; /* 10^decimals */
	int decimals;
	bool overflow;
};

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static const char *read_whole(const char *text, struct number *number)
{
	for (; is_digit(*text); text++) {
		if (number->whole > UNITS_BYTES_MAX / 10)
			number->overflow = true;
		else
			number->whole = number->whole * 10 + (*text - '0');
	}
	return text;
}

/* Digits after the ninth are below any byte that could matter: cut off. */
static const char *read_fraction(const char *text, struct number *number)
{
	for (; is_digit(*text); text++, number->decimals++) {
		if (number->decimals >= FRACTION_DIGITS)
			continue;
		number->fraction = number->fraction * 10 + (*text - '0');
		number->divisor *= 10;
	}
	return text;
}

/* What follows the number, or NULL if there is none. */
static const char *read_number(const char *text, struct number *number)
{
	*number = (struct number){ .divisor = 1 };
	if (!is_digit(*text))
		return NULL;
	text = read_whole(text, number);
	if (*text != '.')
		return text;
	if (!is_digit(text[1]))
		return NULL;
	return read_fraction(text + 1, number);
}

static const struct suffix *find_suffix(const char *text)
{
	for (size_t i = 0; i < sizeof(suffixes) / sizeof(*suffixes); i++)
		if (!strcmp(text, suffixes[i].text))
			return &suffixes[i];
	return NULL;
}

/* fraction / divisor of a unit; the product stays below 2^40 * 10^9 < 2^70. */
static uint64_t part_of(uint64_t unit, const struct number *number)
{
	return (uint64_t)((__extension__(unsigned __int128) unit) *
			  number->fraction / number->divisor);
}

int units_bytes(const char *text, uint64_t *bytes)
{
	const struct suffix *suffix;
	struct number number;
	uint64_t part;

	text = read_number(text, &number);
	suffix = text ? find_suffix(text) : NULL;
	if (!suffix || (number.decimals && !*suffix->text))
		return -EINVAL;
	if (number.overflow || number.whole > UNITS_BYTES_MAX / suffix->bytes)
		return -ERANGE;
	part = part_of(suffix->bytes, &number);
	*bytes = number.whole * suffix->bytes + part;
	return *bytes > 0 && *bytes <= UNITS_BYTES_MAX ? 0 : -ERANGE;
}

static int read_share(const char *text, uint32_t *millionths)
{
	struct number number;

	text = read_number(text, &number);
	if (!text || strcmp(text, "%") || number.decimals > 4)
		return -EINVAL;
	if (number.overflow || number.whole > 100)
		return -ERANGE;
	*millionths = (uint32_t)(number.whole * (SHARE_WHOLE / 100) +
				 part_of(SHARE_WHOLE / 100, &number));
	return *millionths > 0 && *millionths <= SHARE_WHOLE ? 0 : -ERANGE;
}

int units_budget(const char *text, struct units_budget *budget)
{
	*budget = (struct units_budget){ .kind = UNITS_BYTES };
	if (!strcmp(text, "min")) {
		budget->kind = UNITS_MIN;
		return 0;
	}
	if (!strcmp(text, "max")) {
		budget->kind = UNITS_MAX;
		return 0;
	}
	if (!strchr(text, '%'))
		return units_bytes(text, &budget->bytes);
	budget->kind = UNITS_SHARE;
	return read_share(text, &budget->millionths);
}

uint64_t units_share(uint64_t whole, uint32_t millionths)
{
	return (uint64_t)((__extension__(unsigned __int128) whole) *
			  millionths / SHARE_WHOLE);
}
