#include "request.h"

#include <string.h>

#include "json_read.h"
#include "tape_json.h"

const char *const request_targets[] = {
	[REQUEST_BUDGET] = "budget",
	[REQUEST_ACTIVATION_BUDGET] = "activation_budget",
	[REQUEST_SAVING] = "saving",
	NULL,
};

static void read_planner(struct json_reader *reader, const json_t *json,
			 struct request *request)
{
	const char *names[16] = { NULL };
	const char *name;

	for (int i = 0; planners[i].name; i++)
		names[i] = planners[i].name;
	name = json_read_word(reader, json, "planner", names);
	request->planner = name ? planner_find(name) : NULL;
}

static void read_target(struct json_reader *reader, const json_t *json,
			struct request *request)
{
	const char *name = json_read_word(reader, json, "target",
					  request_targets);

	while (name && strcmp(name, request_targets[request->target]))
		request->target++;
}

static void read_value(struct json_reader *reader, const json_t *json,
		       struct request *request)
{
	static const char *const min[] = { "min", NULL };

	if (request->target == REQUEST_SAVING) {
		request->saving = json_read_ms(reader, json, "value");
		if (request->saving > 1)
			json_refuse(reader, "value: not a fraction 0..1");
	} else if (request->target == REQUEST_BUDGET &&
		   json_is_string(json_object_get(json, "value"))) {
		request->min = json_read_word(reader, json, "value", min);
	} else {
		request->bytes = json_read_bytes(reader, json, "value");
	}
}

int request_read(const char *text, struct request *request,
		 const struct why *why)
{
	static const char *const keys[] = { "kind",  "planner",	   "target",
					    "value", "base_bytes", NULL };
	struct json_reader reader = { .why = why, .place = "request." };
	json_t *json = json_read_text(&reader, text);

	memset(request, 0, sizeof(*request));
	request->base = -1;
	if (json) {
		json_read_keys(&reader, json, keys);
		request->kind = json_read_int(&reader, json, "kind", 0,
					      PROFILE_KINDS_MAX);
		read_planner(&reader, json, request);
		read_target(&reader, json, request);
		read_value(&reader, json, request);
		if (json_object_get(json, "base_bytes"))
			request->base = json_read_bytes(&reader, json,
							"base_bytes");
	}
	json_decref(json);
	return reader.error;
}
