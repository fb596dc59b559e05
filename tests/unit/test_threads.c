/* The ledger and the tape under many threads; also for TSan. */
#include "check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ledger.h"
#include "tape.h"

#define THREADS 8
#define ROUNDS 20000

/* What a thread returns that saw something wrong. */
static char wrong;

/*
 * Addresses that all want the same place in the table: see window_start() in
 * addresses.c.
 */
#define CROWD (THREADS * 4)

static uint64_t crowd[CROWD];

static void crowd_fill(void)
{
	uint64_t address = 0x7e0000000000;

	for (int i = 0; i < CROWD; address += 64)
		if ((address >> 4) * UINT64_C(0x9E3779B97F4A7C15) >> 49 == 777)
			crowd[i++] = address;
}

static void *crowd_in(void *number)
{
	uint64_t *mine = crowd + 4 * (uintptr_t)number;
	uint64_t errors = 0;

	for (uint64_t i = 1; i < ROUNDS; i++) {
		for (int k = 0; k < 4; k++)
			ledger_alloc(7, mine[k], i);
		for (int k = 0; k < 4; k++)
			errors += ledger_size(mine[k]) != i;
		for (int k = 0; k < 4; k++)
			ledger_free(mine[k]);
	}
	return errors ? &wrong : NULL;
}

/*
 * As an allocator does, whose lock hands an address from the thread that
 * freed it to the one that gets it next: a free list of addresses shared by
 * all threads.
 */
static pthread_mutex_t heap_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t heap[64];
static int heap_count;

static void heap_fill(void)
{
	for (heap_count = 0; heap_count < 64; heap_count++)
		heap[heap_count] = 0x7f0000001000 + (uint64_t)heap_count * 64;
}

static uint64_t heap_take(void)
{
	uint64_t address;

	pthread_mutex_lock(&heap_lock);
	address = heap_count ? heap[--heap_count] : 0;
	pthread_mutex_unlock(&heap_lock);
	return address;
}

static void heap_give(uint64_t address)
{
	pthread_mutex_lock(&heap_lock);
	heap[heap_count++] = address;
	pthread_mutex_unlock(&heap_lock);
}

static void run_threads(void *(*body)(void *))
{
	pthread_t thread[THREADS];

	for (uintptr_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, body,
						(void *)i),
				 0);
	for (int i = 0; i < THREADS; i++) {
		void *result;

		pthread_join(thread[i], &result);
		assert_null(result);
	}
}

static void *own_addresses(void *number)
{
	uint64_t base = 0x100000000 * (1 + (uintptr_t)number);
	uint64_t errors = 0;

	for (uint64_t i = 0; i < ROUNDS; i++) {
		uint64_t address = base + i % 1000 * 64;

		errors += ledger_alloc(1, address, 1 + i) != 0;
		errors += ledger_size(address) != 1 + i;
		ledger_free(address);
		errors += ledger_size(address) != 0;
	}
	return errors ? &wrong : NULL;
}

static void live_returns_to_zero_when_all_threads_have_freed(void **state)
{
	uint64_t events = ledger_events(), unknown = ledger_unknown_frees();

	(void)state;
	run_threads(own_addresses);
	assert_int_equal(ledger_live(1), 0);
	assert_int_equal(ledger_events() - events, 2 * THREADS * ROUNDS);
	assert_int_equal(ledger_unknown_frees(), unknown);
	assert_true(ledger_peak(1) >= ROUNDS);
	assert_true(ledger_peak(1) <= THREADS * ROUNDS);
}

static void *shared_addresses(void *unused)
{
	uint64_t held[4];

	(void)unused;
	for (int i = 0; i < ROUNDS / 4; i++) {
		for (int k = 0; k < 4; k++) {
			held[k] = heap_take();
			ledger_alloc(2, held[k], 8);
		}
		for (int k = 0; k < 4; k++) {
			ledger_free(held[k]);
			if (held[k])
				heap_give(held[k]);
		}
	}
	return NULL;
}

static void many_threads_crowd_into_one_place(void **state)
{
	uint64_t unknown = ledger_unknown_frees();

	(void)state;
	crowd_fill();
	run_threads(crowd_in);
	assert_int_equal(ledger_live(7), 0);
	assert_int_equal(ledger_unknown_frees(), unknown);
}

static void an_address_passes_from_thread_to_thread(void **state)
{
	uint64_t unknown = ledger_unknown_frees();
	uint64_t repeats = ledger_repeats();

	(void)state;
	heap_fill();
	run_threads(shared_addresses);
	assert_int_equal(ledger_live(2), 0);
	assert_int_equal(ledger_unknown_frees(), unknown);
	assert_int_equal(ledger_repeats(), repeats);
	assert_true(ledger_peak(2) <= 64 * 8);
}

static pthread_barrier_t all_hold;

static void *hold_all_at_once(void *number)
{
	uint64_t address = 0x40000000 + (uintptr_t)number * 64;

	for (int i = 0; i < 200; i++) {
		ledger_alloc(3, address, 1000);
		pthread_barrier_wait(&all_hold);
		ledger_free(address);
		pthread_barrier_wait(&all_hold);
	}
	return NULL;
}

static void the_peak_is_exact_when_all_threads_hold_at_once(void **state)
{
	(void)state;
	pthread_barrier_init(&all_hold, NULL, THREADS);
	run_threads(hold_all_at_once);
	pthread_barrier_destroy(&all_hold);
	assert_int_equal(ledger_peak(3), THREADS * 1000);
	assert_int_equal(ledger_live(3), 0);
}

static void *allocate_two_at_most(void *number)
{
	uint64_t base = 0x50000000 + (uintptr_t)number * 0x100000;

	for (int i = 0; i < ROUNDS; i++) {
		ledger_alloc(4, base, 10);
		ledger_watch(base);
		ledger_alloc(4, base + 64, 10);
		ledger_free(base);
		ledger_free(base + 64);
	}
	return NULL;
}

static _Atomic bool marking;

static void *mark_all_the_while(void *unused)
{
	(void)unused;
	while (atomic_load(&marking)) {
		ledger_tape_begin(4);
		for (int i = 0; i < 100; i++)
			tape_mark(i % 2 ? 'E' : 'F', i);
		tape_end();
	}
	return NULL;
}

static void marks_and_watches_may_fall_between_any_two_events(void **state)
{
	struct ckptagent_segment segment[300];
	pthread_t marker;
	size_t count;

	(void)state;
	atomic_store(&marking, true);
	pthread_create(&marker, NULL, mark_all_the_while, NULL);
	run_threads(allocate_two_at_most);
	atomic_store(&marking, false);
	pthread_join(marker, NULL);
	count = tape_segments(segment, 300);
	assert_true(count >= 102);
	for (size_t i = 0; i < count && i < 300; i++) {
		assert_true(segment[i].peak >= segment[i].live);
		assert_true(segment[i].peak <= THREADS * 20);
	}
	assert_int_equal(ledger_live(4), 0);
}

static void *one_large_spike(void *number)
{
	uint64_t address = 0x60000000 + (uintptr_t)number * 64;

	for (int i = 0; i < ROUNDS; i++) {
		ledger_alloc(5, address, 1 + (uint64_t)i);
		ledger_peak_reset(5);
		ledger_free(address);
	}
	return NULL;
}

static void a_reset_never_leaves_the_peak_below_live(void **state)
{
	(void)state;
	ledger_alloc(5, 0x70000000, 77);
	run_threads(one_large_spike);
	assert_int_equal(ledger_live(5), 77);
	assert_true(ledger_peak(5) >= 77);
	ledger_free(0x70000000);
}

static _Atomic bool hammering;

static void *hammer(void *number)
{
	uint64_t address = 0x80000000 + (uintptr_t)number * 64;

	while (atomic_load(&hammering)) {
		ledger_alloc(6, address, 100);
		ledger_free(address);
	}
	return NULL;
}

/* In the child: nothing waits, live never runs below zero, events count. */
static int child_works(void)
{
	uint64_t before = ledger_live(6);

	if (before > THREADS * 100)
		return 1;
	for (uint64_t i = 0; i < THREADS; i++)
		ledger_free(0x80000000 + i * 64);
	if (ledger_live(6) > before)
		return 2;
	before = ledger_live(6);
	if (ledger_alloc(6, 0x90000000, 5) || ledger_live(6) != before + 5)
		return 3;
	ledger_free(0x90000000);
	return ledger_live(6) == before ? 0 : 4;
}

static void a_fork_at_any_instruction_leaves_a_working_child(void **state)
{
	pthread_t thread[THREADS];
	int status;

	(void)state;
	atomic_store(&hammering, true);
	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&thread[i], NULL, hammer, (void *)i);
	for (int i = 0; i < 100; i++) {
		pid_t child = fork();

		if (!child)
			_exit(child_works());
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_int_equal(status, 0);
	}
	atomic_store(&hammering, false);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	assert_int_equal(ledger_live(6), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			live_returns_to_zero_when_all_threads_have_freed),
		cmocka_unit_test(many_threads_crowd_into_one_place),
		cmocka_unit_test(an_address_passes_from_thread_to_thread),
		cmocka_unit_test(
			the_peak_is_exact_when_all_threads_hold_at_once),
		cmocka_unit_test(
			marks_and_watches_may_fall_between_any_two_events),
		cmocka_unit_test(a_reset_never_leaves_the_peak_below_live),
		cmocka_unit_test(
			a_fork_at_any_instruction_leaves_a_working_child),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
