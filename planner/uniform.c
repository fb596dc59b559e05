/*
 * uniform: recompute k of the m eligible calls, at the positions (j m) / k for
 * j < k, with the smallest k that reaches the bytes wanted.
 */
#include <stdlib.h>
#include <string.h>

#include "by_saving.h"

struct eligible {
	const struct tape *tape;
	int32_t *calls;
	size_t count;
};

static void list_eligible(struct eligible *eligible)
{
	for (size_t i = 0; i < eligible->tape->call_count; i++)
		if (eligible->tape->calls[i].dropped)
			eligible->calls[eligible->count++] = (int32_t)i;
}

/* The call at position j of k. */
static int32_t spaced(const struct eligible *eligible, size_t j, size_t k)
{
	return eligible->calls[j * eligible->count / k];
}

static int64_t saved_by(const struct eligible *eligible, size_t k)
{
	int64_t saved = 0;

	for (size_t j = 0; j < k; j++)
		saved += eligible->tape->calls[spaced(eligible, j, k)]
				 .saved_bytes;
	return saved;
}

/* More calls that save no more than fewer did are chosen for no S. */
static int visit_counts(const struct eligible *eligible, bool *keep,
			struct by_saving_visitor *visitor)
{
	int64_t most = -1;
	int status = 0;

	for (size_t k = 0; k <= eligible->count && !status; k++) {
		int64_t saved = saved_by(eligible, k);

		if (saved <= most)
			continue;
		most = saved;
		memset(keep, true, eligible->tape->call_count);
		for (size_t j = 0; j < k; j++)
			keep[spaced(eligible, j, k)] = false;
		status = visitor->visit(visitor, keep, saved);
	}
	return status;
}

static int uniform_sets(const struct tape *tape, int64_t from,
			struct by_saving_visitor *visitor,
			const struct why *why)
{
	size_t calls = tape->call_count + 1;
	struct eligible eligible = { tape, malloc(calls * sizeof(int32_t)), 0 };
	bool *keep = malloc(calls);
	int status;

	(void)from;
	if (eligible.calls && keep) {
		list_eligible(&eligible);
		status = visit_counts(&eligible, keep, visitor);
	} else {
		status = why_memory(why);
	}
	free(eligible.calls);
	free(keep);
	return status;
}

int uniform_choose(const struct goal *goal, bool *keep, const struct why *why)
{
	return by_saving_choose(uniform_sets, goal, keep, why);
}
