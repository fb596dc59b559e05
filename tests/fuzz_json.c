/*
 * A libFuzzer target for the readers and what works on what they accept; built
 * and run by scripts/fuzz.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "plan.h"

static void solve(const char *profile)
{
	static const char *const requests[] = {
		"{\"kind\":0,\"planner\":\"optimal\",\"target\":\"budget\","
		"\"value\":\"min\"}",
		"{\"kind\":0,\"planner\":\"optimal\",\"target\":\"budget\","
		"\"value\":40000,\"base_bytes\":30000}",
		"{\"kind\":0,\"planner\":\"dynamic_programming\","
		"\"target\":\"budget\",\"value\":40000}",
		"{\"kind\":0,\"planner\":\"uniform\",\"target\":\"saving\","
		"\"value\":0.5}",
		"{\"kind\":0,\"planner\":\"optimal\",\"target\":"
		"\"activation_budget\",\"value\":3000}",
	};
	char why[128];
	char *plan;

	for (size_t i = 0; i < sizeof(requests) / sizeof(*requests); i++) {
		if (ckptplan_solve(profile, requests[i], &plan, why,
				   sizeof(why)))
			continue;
		/* What it writes it must read, and it must fit. */
		if (ckptplan_check("plan", plan, why, sizeof(why)) ||
		    ckptplan_validate(plan, profile, why, sizeof(why)))
			abort();
		ckptplan_free(plan);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);
	char why[128];

	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	ckptplan_check("run", text, why, sizeof(why));
	ckptplan_check("plan", text, why, sizeof(why));
	if (!ckptplan_check("profile", text, why, sizeof(why)))
		solve(text);
	free(text);
	return 0;
}
