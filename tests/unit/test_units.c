#include "check.h"

#include <errno.h>

#include "units.h"

static uint64_t bytes_of(const char *text)
{
	uint64_t bytes = 0;

	assert_int_equal(units_bytes(text, &bytes), 0);
	return bytes;
}

static int refusal_of(const char *text)
{
	struct units_budget budget;

	return units_budget(text, &budget);
}

static void one_letter_and_ib_are_powers_of_1024(void **state)
{
	(void)state;
	assert_int_equal(bytes_of("1K"), 1024);
	assert_int_equal(bytes_of("8G"), UINT64_C(8) << 30);
	assert_int_equal(bytes_of("8GiB"), UINT64_C(8) << 30);
	assert_int_equal(bytes_of("8192M"), UINT64_C(8) << 30);
	assert_int_equal(bytes_of("3KiB"), 3072);
	assert_int_equal(bytes_of("3MiB"), 3 << 20);
	assert_int_equal(bytes_of("2T"), UINT64_C(2) << 40);
	assert_int_equal(bytes_of("2TiB"), UINT64_C(2) << 40);
}

static void b_alone_makes_powers_of_1000(void **state)
{
	(void)state;
	assert_int_equal(bytes_of("8KB"), 8000);
	assert_int_equal(bytes_of("8MB"), 8000000);
	assert_int_equal(bytes_of("8GB"), UINT64_C(8000000000));
	assert_int_equal(bytes_of("8TB"), UINT64_C(8000000000000));
}

static void plain_digits_are_bytes(void **state)
{
	(void)state;
	assert_int_equal(bytes_of("8589934592"), UINT64_C(8) << 30);
	assert_int_equal(bytes_of("1"), 1);
	assert_int_equal(bytes_of("4611686018427387904"), UNITS_BYTES_MAX);
}

static void decimals_are_exact_and_cut_off(void **state)
{
	(void)state;
	assert_int_equal(bytes_of("1.5G"), UINT64_C(3) << 29);
	assert_int_equal(bytes_of("0.5K"), 512);
	assert_int_equal(bytes_of("0.001K"), 1);
	assert_int_equal(bytes_of("0.1GB"), 100000000);
	assert_int_equal(bytes_of("2.999999999999999999999KB"), 2999);
	assert_int_equal(bytes_of("1.50000000000000000000000G"), UINT64_C(3)
									 << 29);
	assert_int_equal(bytes_of("1.000000000000000000000000000000000000000"
				  "00000000000000000000000000000000000G"),
			 1 << 30);
}

static void a_share_has_up_to_four_decimals(void **state)
{
	struct units_budget budget;

	(void)state;
	assert_int_equal(units_budget("70%", &budget), 0);
	assert_int_equal(budget.kind, UNITS_SHARE);
	assert_int_equal(budget.millionths, 700000);
	assert_int_equal(units_budget("12.5%", &budget), 0);
	assert_int_equal(budget.millionths, 125000);
	assert_int_equal(units_budget("0.0001%", &budget), 0);
	assert_int_equal(budget.millionths, 1);
	assert_int_equal(units_budget("100%", &budget), 0);
	assert_int_equal(budget.millionths, 1000000);
	assert_int_equal(units_share(UINT64_MAX / 2, 1000000), UINT64_MAX / 2);
	assert_int_equal(units_share(1000, 125000), 125);
}

static void min_and_max_are_words(void **state)
{
	struct units_budget budget;

	(void)state;
	assert_int_equal(units_budget("min", &budget), 0);
	assert_int_equal(budget.kind, UNITS_MIN);
	assert_int_equal(units_budget("max", &budget), 0);
	assert_int_equal(budget.kind, UNITS_MAX);
}

static void what_is_not_written_that_way_is_refused(void **state)
{
	static const char *const bad[] = {
		"",	 "G",	    "-1G",  "+1G",  " 8G",	"8G ",
		"8 G",	 "8g",	    "8gb",  "8Gb",  "8GIB",	"8B",
		"8P",	 "8Gi",	    "0x10", "1e9",  "1.G",	".5G",
		"1..5G", "1.5.5G",  "1.5",  "8GG",  "8,5G",	"70 %",
		"%",	 "-5%",	    "70%%", "70%G", "1.00001%", "Min",
		"MAX",	 "minimum", "inf",  "nan",  "8G\n",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		if (refusal_of(bad[i]) != -EINVAL)
			fail_msg("\"%s\" gave %d", bad[i], refusal_of(bad[i]));
}

static void nothing_and_too_much_are_out_of_range(void **state)
{
	static const char *const bad[] = {
		"0",
		"0G",
		"0.0G",
		"0.0001K",
		"0%",
		"0.0000%",
		"100.0001%",
		"101%",
		"4611686018427387905",
		"18446744073709551616",
		"99999999999999999999999999999999",
		"4194305T",
		"99999999999999999999%",
		"4194304.1T",
		"16777217T",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		if (refusal_of(bad[i]) != -ERANGE)
			fail_msg("\"%s\" gave %d", bad[i], refusal_of(bad[i]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_letter_and_ib_are_powers_of_1024),
		cmocka_unit_test(b_alone_makes_powers_of_1000),
		cmocka_unit_test(plain_digits_are_bytes),
		cmocka_unit_test(decimals_are_exact_and_cut_off),
		cmocka_unit_test(a_share_has_up_to_four_decimals),
		cmocka_unit_test(min_and_max_are_words),
		cmocka_unit_test(what_is_not_written_that_way_is_refused),
		cmocka_unit_test(nothing_and_too_much_are_out_of_range),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
