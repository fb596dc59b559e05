/*
 * Every mmap of the agent fails once, in turn. The program's mmap is wrapped
 * by the linker; each case runs in a child, which starts with empty books.
 */
#include "check.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ledger.h"
#include "range_bytes.h"
#include "ranges.h"
#include "tape.h"

static int until_failure = -1;

void *__real_mmap(void *, size_t, int, int, int, off_t);
void *__wrap_mmap(void *, size_t, int, int, int, off_t);

void *__wrap_mmap(void *address, size_t bytes, int protection, int flags,
		  int fd, off_t offset)
{
	if (until_failure >= 0 && until_failure-- == 0) {
		errno = ENOMEM;
		return MAP_FAILED;
	}
	return __real_mmap(address, bytes, protection, flags, fd, offset);
}

static void in_a_child(int (*body)(int), int n, int expected)
{
	int status;
	pid_t child = fork();

	if (!child) {
		until_failure = n;
		_exit(body(n));
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), expected);
}

/* 0: no failure was seen, 1: it was, and the books are in order; else wrong. */
static int fill_the_ledger(int n)
{
	uint64_t entered = 0;
	int error = 0;

	(void)n;
	errno = 77;
	while (!error && entered < 300000) {
		error = ledger_alloc(0, 0x10000 + entered * 64, 3);
		entered += !error;
	}
	if (errno != 77)
		return 10;
	if (ledger_live(0) != entered * 3)
		return 11;
	for (uint64_t i = 0; i < entered; i++)
		if (ledger_size(0x10000 + i * 64) != 3)
			return 12;
	for (uint64_t i = 0; i < entered; i++)
		ledger_free(0x10000 + i * 64);
	if (ledger_live(0) || ledger_unknown_frees())
		return 13;
	return error == -ENOMEM;
}

static void the_ledger_says_so_and_keeps_what_it_had(void **state)
{
	(void)state;
	in_a_child(fill_the_ledger, 0, 1);
	in_a_child(fill_the_ledger, 1, 1);
	in_a_child(fill_the_ledger, 2, 1);
	in_a_child(fill_the_ledger, 3, 1);
	in_a_child(fill_the_ledger, 100, 0);
}

static int begin_a_tape(int n)
{
	int error = ledger_tape_begin(0);

	(void)n;
	if (error == -ENOMEM &&
	    (!tape_full() || tape_mark('F', 0) != -1 || tape_segments(NULL, 0)))
		return 10;
	tape_end();
	if (ledger_tape_begin(0) || tape_full() || tape_mark('F', 0) != 1)
		return 11;
	return error == -ENOMEM;
}

static void a_tape_without_memory_is_full(void **state)
{
	(void)state;
	in_a_child(begin_a_tape, 0, 1);
	in_a_child(begin_a_tape, 1, 1);
	in_a_child(begin_a_tape, 2, 0);
}

/* Whatever of it there is no memory for, ranges do no harm. */
static int begin_ranges(int n)
{
	struct ckptagent_range range;
	int error = ranges_begin();

	(void)n;
	if (!error)
		error = range_bytes_begin();
	ranges_push(NULL, "text");
	if (ranges_open(&range, 1) && !error && !ranges_number(range.id))
		return 10;
	if (ledger_alloc(0, 0x1000, 64))
		return 11;
	ledger_free(0x1000);
	ranges_pop(NULL);
	return error == -ENOMEM;
}

static void ranges_without_memory_are_not_seen(void **state)
{
	(void)state;
	in_a_child(begin_ranges, 0, 1);
	in_a_child(begin_ranges, 1, 1);
	in_a_child(begin_ranges, 100, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_ledger_says_so_and_keeps_what_it_had),
		cmocka_unit_test(a_tape_without_memory_is_full),
		cmocka_unit_test(ranges_without_memory_are_not_seen),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
