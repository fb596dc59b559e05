#include "check.h"

#include <stdlib.h>
#include <string.h>

#include "digest.h"

static void fill_random(char *data, size_t n, uint64_t seed)
{
	for (size_t i = 0; i < n; i++)
		data[i] = (char)next_random(&seed);
}

static void every_single_changed_byte_changes_it(void **state)
{
	static const size_t sizes[] = { 1, 7, 8, 63, 64, 65, 200, 4096, 8300 };
	static char data[8300];

	(void)state;
	for (size_t s = 0; s < sizeof(sizes) / sizeof(*sizes); s++) {
		uint64_t whole;

		fill_random(data, sizes[s], s + 1);
		whole = digest(data, sizes[s]);
		for (size_t i = 0; i < sizes[s]; i++) {
			for (int bit = 0; bit < 8; bit++) {
				data[i] ^= (char)(1 << bit);
				assert_int_not_equal(digest(data, sizes[s]),
						     whole);
				data[i] ^= (char)(1 << bit);
			}
		}
		assert_int_equal(digest(data, sizes[s]), whole);
	}
}

static void exchanging_two_words_changes_it(void **state)
{
	enum {
		WORDS = 4096
	};
	static uint64_t data[WORDS];
	uint64_t whole, seed = 3;

	(void)state;
	for (uint64_t i = 0; i < WORDS; i++)
		data[i] = i; /* small numbers: no carries to help */
	whole = digest(data, sizeof(data));
	for (int i = 0; i < 20000; i++) {
		/* Every other time at a distance of whole groups. */
		uint64_t a = next_random(&seed) % WORDS;
		uint64_t b = i % 2 ? (a + 512) % WORDS :
				     next_random(&seed) % WORDS;
		uint64_t kept = data[a];

		if (a == b)
			continue;
		data[a] = data[b];
		data[b] = kept;
		assert_int_not_equal(digest(data, sizeof(data)), whole);
		data[b] = data[a];
		data[a] = kept;
	}
}

static void all_signs_flipped_changes_it(void **state)
{
	static uint32_t data[1 << 16];
	uint64_t whole, seed = 5;

	(void)state;
	for (size_t i = 0; i < 1 << 16; i++)
		data[i] = (uint32_t)next_random(&seed);
	for (size_t n = 1; n <= 1 << 16; n *= 2) {
		whole = digest(data, n * 4);
		for (size_t i = 0; i < n; i++)
			data[i] ^= UINT32_C(1) << 31;
		assert_int_not_equal(digest(data, n * 4), whole);
	}
}

static void zeros_of_different_lengths_differ(void **state)
{
	static const char zeros[1000];
	uint64_t seen[1001];

	(void)state;
	for (size_t n = 0; n <= 1000; n++) {
		seen[n] = digest(zeros, n);
		for (size_t k = 0; k < n; k++)
			assert_int_not_equal(seen[k], seen[n]);
	}
}

static void alignment_does_not_matter(void **state)
{
	static char data[5000 + 64];
	uint64_t whole;

	(void)state;
	fill_random(data, 5000, 9);
	whole = digest(data, 5000);
	for (size_t shift = 1; shift < 64; shift++) {
		memmove(data + shift, data + shift - 1, 5000);
		assert_int_equal(digest(data + shift, 5000), whole);
	}
}

static void it_is_the_same_on_every_machine_of_this_byte_order(void **state)
{
	static char data[10000];

	(void)state;
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (char)(i * 7 + i / 256);
		/* From a second implementation of the formula in digest.h. */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	assert_int_equal(digest(data, 0), UINT64_C(0x2a57b3f4f949b937));
	assert_int_equal(digest(data, 100), UINT64_C(0x4ad58e486119cce7));
	assert_int_equal(digest(data, 10000), UINT64_C(0x5794c76d30a7eb21));
#endif
}

/* The contiguous copy by the definition: index order, last index fastest. */
static size_t copy(char *to, const char *from, uint32_t itemsize, uint32_t ndim,
		   const int64_t *sizes, const int64_t *strides)
{
	size_t n = 0;

	if (!ndim) {
		memcpy(to, from, itemsize);
		return itemsize;
	}
	for (int64_t i = 0; i < sizes[0]; i++)
		n += copy(to + n, from + i * strides[0] * itemsize, itemsize,
			  ndim - 1, sizes + 1, strides + 1);
	return n;
}

#define DIMENSIONS 5

static void random_shape(uint64_t *seed, uint32_t *ndim, int64_t *sizes,
			 int64_t *strides)
{
	*ndim = (uint32_t)(next_random(seed) % (DIMENSIONS + 1));
	for (uint32_t d = 0; d < *ndim; d++) {
		sizes[d] = (int64_t)(next_random(seed) % 12) + 1;
		strides[d] = (int64_t)(next_random(seed) % 40);
	}
	if (*ndim && next_random(seed) % 3 == 0) {
		strides[*ndim - 1] = 1;
		for (uint32_t d = *ndim - 1; d > 0; d--)
			strides[d - 1] = strides[d] * sizes[d];
	}
	if (*ndim > 1 && next_random(seed) % 3 == 0) {
		int64_t kept = strides[0];

		strides[0] = strides[*ndim - 1];
		strides[*ndim - 1] = kept;
	}
}

static void a_strided_tensor_gives_that_of_its_contiguous_copy(void **state)
{
	static const uint32_t itemsizes[] = { 1, 2, 4, 8, 16, 3 };
	enum {
		BYTES = 16 << 20
	};
	char *data = malloc(BYTES), *packed = malloc(BYTES);
	uint64_t seed = 11;

	(void)state;
	assert_non_null(data);
	assert_non_null(packed);
	fill_random(data, BYTES, 12);
	for (int i = 0; i < 1500; i++) {
		uint32_t itemsize = itemsizes[next_random(&seed) % 6], ndim;
		int64_t sizes[DIMENSIONS], strides[DIMENSIONS];
		size_t n;

		random_shape(&seed, &ndim, sizes, strides);
		n = copy(packed, data, itemsize, ndim, sizes, strides);
		assert_int_equal(digest_strided(data, itemsize, ndim, sizes,
						strides),
				 digest(packed, n));
	}
	free(data);
	free(packed);
}

static void a_tensor_without_elements_gives_that_of_nothing(void **state)
{
	static const int64_t sizes[] = { 3, 0, 2 }, strides[] = { 1, 1, 1 };
	int64_t many[65];

	(void)state;
	assert_int_equal(digest_strided(NULL, 4, 3, sizes, strides),
			 digest(NULL, 0));
	for (int d = 0; d < 65; d++)
		many[d] = 1;
	assert_int_equal(digest_strided("x", 1, 65, many, many), 0);
	assert_int_equal(digest_strided("x", 1, 64, many, many),
			 digest("x", 1));
}

static bool is_probed(size_t at, size_t bytes, size_t stride)
{
	return at % stride < DIGEST_LINE || at >= bytes - DIGEST_LINE;
}

static void a_probe_sees_one_line_a_stride_and_the_last_line(void **state)
{
	static const size_t strides[] = { 64, 100, 256, 1000, 5000, 1 << 20 };
	static char data[5003];
	const size_t n = sizeof(data);

	(void)state;
	fill_random(data, n, 13);
	for (size_t s = 0; s < sizeof(strides) / sizeof(*strides); s++) {
		uint64_t whole = digest_probe(data, n, strides[s]);

		for (size_t i = 0; i < n; i++) {
			data[i] ^= 1;
			if ((digest_probe(data, n, strides[s]) != whole) !=
			    is_probed(i, n, strides[s]))
				fail_msg("byte %zu, stride %zu", i, strides[s]);
			data[i] ^= 1;
		}
	}
}

static void a_probe_of_a_short_range_is_its_digest(void **state)
{
	char data[65];

	(void)state;
	fill_random(data, 65, 14);
	for (size_t n = 0; n <= 64; n++)
		assert_int_equal(digest_probe(data, n, 4096), digest(data, n));
	assert_int_equal(digest_probe(data, 64, 1), digest(data, 64));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_single_changed_byte_changes_it),
		cmocka_unit_test(exchanging_two_words_changes_it),
		cmocka_unit_test(all_signs_flipped_changes_it),
		cmocka_unit_test(zeros_of_different_lengths_differ),
		cmocka_unit_test(alignment_does_not_matter),
		cmocka_unit_test(
			it_is_the_same_on_every_machine_of_this_byte_order),
		cmocka_unit_test(
			a_strided_tensor_gives_that_of_its_contiguous_copy),
		cmocka_unit_test(
			a_tensor_without_elements_gives_that_of_nothing),
		cmocka_unit_test(
			a_probe_sees_one_line_a_stride_and_the_last_line),
		cmocka_unit_test(a_probe_of_a_short_range_is_its_digest),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
