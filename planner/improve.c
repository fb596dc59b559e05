#include "improve.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tape_peak.h"

/* Segments and storages looked at, all trials together. */
#define WORK 20000000

struct rank {
	double ratio;
	int32_t call;
};

static int by_ratio(const void *a, const void *b)
{
	const struct rank *x = a, *y = b;

	if (x->ratio != y->ratio)
		return x->ratio > y->ratio ? -1 : 1;
	return x->call < y->call ? -1 : 1;
}

static void sum_costs(const struct tape *tape, int64_t *costs)
{
	memset(costs, 0, tape->call_count * sizeof(*costs));
	for (size_t j = 0; j < tape->storage_count; j++) {
		const struct tape_storage *storage = &tape->storages[j];

		for (uint32_t s = 0; s < storage->count; s++) {
			int32_t i = tape->savers[storage->first + s];

			if (tape_cost_from(storage, &tape->calls[i],
					   tape->segment_count) <
			    tape->calls[i].to)
				costs[i] += storage->bytes;
		}
	}
	for (size_t j = 0; j < tape->noted_count; j++) {
		const struct tape_noted *noted = &tape->noted[j];

		if (noted->count == 1 && noted->low < noted->high)
			costs[tape->noters[noted->first].call] -= noted->bytes;
	}
}

static int rank_calls(struct improve *m)
{
	const struct tape *tape = m->tape;
	struct rank *ranks = malloc((tape->call_count + 1) * sizeof(*ranks));

	if (!ranks)
		return -ENOMEM;
	sum_costs(tape, m->held);
	for (size_t i = 0; i < tape->call_count; i++) {
		double cost = (double)m->held[i];

		if (!tape->calls[i].dropped || m->forced[i])
			continue;
		ranks[m->count].call = (int32_t)i;
		ranks[m->count++].ratio = cost > 0 ?
						  tape->calls[i].recompute_ms /
							  cost :
						  INFINITY;
	}
	qsort(ranks, m->count, sizeof(*ranks), by_ratio);
	for (size_t i = 0; i < m->count; i++)
		m->order[i] = ranks[i].call;
	free(ranks);
	return 0;
}

int improve_init(struct improve *m, const struct tape *tape, int64_t budget,
		 const bool *forced)
{
	size_t calls = tape->call_count + 1;

	*m = (struct improve){ .tape = tape,
			       .budget = budget,
			       .forced = forced };
	m->bytes = malloc((tape->segment_count + 1) * sizeof(*m->bytes));
	m->held = malloc(calls * sizeof(*m->held));
	m->order = malloc(calls * sizeof(*m->order));
	m->trials = WORK / (tape->segment_count + tape->storage_count +
			    tape->noted_count + 1);
	if (!m->bytes || !m->held || !m->order)
		return -ENOMEM;
	return rank_calls(m);
}

void improve_free(struct improve *m)
{
	free(m->bytes);
	free(m->held);
	free(m->order);
}

void improve_repair(struct improve *m, bool *keep)
{
	for (;;) {
		struct tape_peak peak = tape_peak(m->tape, keep, m->bytes);
		size_t i = m->count;

		if (peak.bytes <= m->budget)
			return;
		tape_kept_bytes(m->tape, keep, peak.segment, m->held);
		while (i > 0 && m->held[m->order[i - 1]] == 0)
			i--;
		if (i == 0)
			return;
		keep[m->order[i - 1]] = false;
	}
}

static bool holds(struct improve *m, const bool *keep)
{
	m->trials--;
	return tape_peak(m->tape, keep, m->bytes).bytes <= m->budget;
}

static void add_calls(struct improve *m, bool *keep)
{
	for (size_t i = 0; i < m->count && m->trials; i++) {
		bool *kept = &keep[m->order[i]];

		if (!*kept) {
			*kept = true;
			*kept = holds(m, keep);
		}
	}
}

/* Keep `call` in place of one that is worth less. */
static bool exchange(struct improve *m, bool *keep, int32_t call)
{
	keep[call] = true;
	for (size_t i = m->count; i-- > 0 && m->trials;) {
		int32_t other = m->order[i];

		if (!keep[other] || m->tape->calls[other].recompute_ms >=
					    m->tape->calls[call].recompute_ms)
			continue;
		keep[other] = false;
		if (holds(m, keep))
			return true;
		keep[other] = true;
	}
	keep[call] = false;
	return false;
}

void improve_plan(struct improve *m, bool *keep)
{
	bool changed = true;

	add_calls(m, keep);
	while (changed && m->trials) {
		changed = false;
		for (size_t i = 0; i < m->count && m->trials; i++)
			if (!keep[m->order[i]])
				changed |= exchange(m, keep, m->order[i]);
		add_calls(m, keep);
	}
}
