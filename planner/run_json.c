#include "run_json.h"

#include <stdlib.h>
#include <string.h>

#include "json_read.h"
#include "json_write.h"

const char *const run_event_kinds[] = {
	"proof", "plan", "over_budget", "mismatch", "stand_down", NULL,
};

static const char *const peak_names[RUN_PEAK_COUNT] = {
	"first",
	"last",
	"max",
	"predicted",
};

static void read_kind(struct json_reader *reader, const json_t *json,
		      struct run_kind *kind)
{
	static const char *const keys[] = { "root",
					    "key",
					    "iterations",
					    "peak_bytes",
					    "predicted_bytes",
					    "floor_bytes",
					    NULL };

	json_read_keys(reader, json, keys);
	kind->root = json_read_string(reader, json, "root");
	kind->key = json_read_string(reader, json, "key");
	kind->iterations = json_read_bytes(reader, json, "iterations");
	kind->peak = json_read_bytes(reader, json, "peak_bytes");
	kind->predicted = json_read_bytes_or_null(reader, json,
						  "predicted_bytes");
	kind->floor = json_read_bytes_or_null(reader, json, "floor_bytes");
}

static void read_block(struct json_reader *reader, const json_t *json,
		       struct run_block *block)
{
	static const char *const keys[] = {
		"root",		  "name",	"class",      "call",
		"calls",	  "decision",	"reason",     "saved_bytes",
		"boundary_bytes", "forward_ms", "recomputes", NULL,
	};
	const char *word;

	json_read_keys(reader, json, keys);
	block->root = json_read_string(reader, json, "root");
	block->name = json_read_string(reader, json, "name");
	block->class_name = json_read_string(reader, json, "class");
	block->call = json_read_int(reader, json, "call", 0, INT32_MAX);
	block->calls = json_read_bytes(reader, json, "calls");
	word = json_read_word(reader, json, "decision", plan_decision_names);
	while (word && strcmp(word, plan_decision_names[block->decision]))
		block->decision++;
	block->reason = json_read_word_or_null(reader, json, "reason",
					       tape_reasons);
	block->saved_bytes = json_read_bytes(reader, json, "saved_bytes");
	block->boundary_bytes = json_read_bytes(reader, json, "boundary_bytes");
	block->forward_ms = json_read_ms(reader, json, "forward_ms");
	block->recomputes = json_read_bytes(reader, json, "recomputes");
}

static void read_range(struct json_reader *reader, const json_t *json,
		       struct run_range *range)
{
	static const char *const keys[] = { "name",	  "calls",
					    "block",	  "peak_bytes",
					    "outside_bytes", NULL };

	json_read_keys(reader, json, keys);
	range->name = json_read_string(reader, json, "name");
	range->calls = json_read_bytes(reader, json, "calls");
	range->block = json_read_string_or_null(reader, json, "block");
	range->peak_bytes = json_read_bytes(reader, json, "peak_bytes");
	range->outside_bytes = json_read_bytes(reader, json, "outside_bytes");
}

static void read_event(struct json_reader *reader, const json_t *json,
		       struct run_event *event)
{
	static const char *const keys[] = { "iteration", "kind", "detail",
					    NULL };

	json_read_keys(reader, json, keys);
	event->iteration = json_read_bytes(reader, json, "iteration");
	event->kind = json_read_word(reader, json, "kind", run_event_kinds);
	event->detail = json_read_string(reader, json, "detail");
}

static void read_peaks(struct json_reader *reader, const json_t *json,
		       int64_t bytes[RUN_PEAK_COUNT])
{
	static const char *const keys[] = { "first", "last", "max", "predicted",
					    NULL };
	const json_t *peaks = json_read_object(reader, json, "peak_bytes");
	size_t mark = json_enter(reader, "peak_bytes", -1);

	json_read_keys(reader, peaks, keys);
	for (int i = 0; i < RUN_PEAK_COUNT; i++)
		bytes[i] = json_read_bytes_or_null(reader, peaks,
						   peak_names[i]);
	json_leave(reader, mark);
}

static void read_device(struct json_reader *reader, const json_t *json,
			struct run_device *device)
{
	static const char *const keys[] = { "device", "peak_bytes",
					    "floor_bytes", NULL };

	json_read_keys(reader, json, keys);
	device->name = json_read_string(reader, json, "device");
	read_peaks(reader, json, device->peaks);
	device->floor = json_read_bytes_or_null(reader, json, "floor_bytes");
}

/* Only a run on several has them. */
static void read_devices(struct json_reader *reader, const json_t *json,
			 struct run *run)
{
	const json_t *list;

	if (!json_object_get(json, "devices"))
		return;
	list = json_read_list(reader, json, "devices", RUN_ENTRIES_MAX,
			      &run->device_count);
	run->devices = json_array_alloc(reader, run->device_count,
					sizeof(*run->devices));
	for (size_t i = 0; !reader->error && i < run->device_count; i++) {
		size_t mark = json_enter(reader, "devices", (long)i);

		read_device(reader, json_array_get(list, i), &run->devices[i]);
		json_leave(reader, mark);
	}
}

/* Only a run that looks at ranges has them. */
static void read_ranges(struct json_reader *reader, const json_t *json,
			struct run *run)
{
	const json_t *list;

	run->has_ranges = json_object_get(json, "ranges") != NULL;
	if (!run->has_ranges)
		return;
	list = json_read_list(reader, json, "ranges", RUN_ENTRIES_MAX,
			      &run->range_count);
	run->ranges = json_array_alloc(reader, run->range_count,
				       sizeof(*run->ranges));
	for (size_t i = 0; !reader->error && i < run->range_count; i++) {
		size_t mark = json_enter(reader, "ranges", (long)i);

		read_range(reader, json_array_get(list, i), &run->ranges[i]);
		json_leave(reader, mark);
	}
}

static void read_lists(struct json_reader *reader, const json_t *json,
		       struct run *run)
{
	const json_t *list;
	size_t mark;

	list = json_read_list(reader, json, "kinds", RUN_ENTRIES_MAX,
			      &run->kind_count);
	run->kinds = json_array_alloc(reader, run->kind_count,
				      sizeof(*run->kinds));
	for (size_t i = 0; !reader->error && i < run->kind_count; i++) {
		mark = json_enter(reader, "kinds", (long)i);
		read_kind(reader, json_array_get(list, i), &run->kinds[i]);
		json_leave(reader, mark);
	}
	list = json_read_list(reader, json, "blocks", RUN_ENTRIES_MAX,
			      &run->block_count);
	run->blocks = json_array_alloc(reader, run->block_count,
				       sizeof(*run->blocks));
	for (size_t i = 0; !reader->error && i < run->block_count; i++) {
		mark = json_enter(reader, "blocks", (long)i);
		read_block(reader, json_array_get(list, i), &run->blocks[i]);
		json_leave(reader, mark);
	}
	read_ranges(reader, json, run);
	read_devices(reader, json, run);
	list = json_read_list(reader, json, "events", RUN_ENTRIES_MAX,
			      &run->event_count);
	run->events = json_array_alloc(reader, run->event_count,
				       sizeof(*run->events));
	for (size_t i = 0; !reader->error && i < run->event_count; i++) {
		mark = json_enter(reader, "events", (long)i);
		read_event(reader, json_array_get(list, i), &run->events[i]);
		json_leave(reader, mark);
	}
}

int run_read(const char *text, struct run *run, const struct why *why)
{
	static const char *const keys[] = {
		"format",     "version",    "pid",	    "rank",
		"device",     "torch",	    "budget_bytes", "planner",
		"iterations", "peak_bytes", "floor_bytes",  "feasible",
		"kinds",      "blocks",	    "events",	    "ranges",
		"devices",    NULL,
	};
	struct json_reader reader = { .why = why };
	json_t *json = json_read_document(&reader, text, "ckptagent.run", keys);

	memset(run, 0, sizeof(*run));
	if (json) {
		run->pid = json_read_bytes(&reader, json, "pid");
		run->rank = json_read_bytes(&reader, json, "rank");
		run->device = json_read_string(&reader, json, "device");
		run->torch = json_read_string(&reader, json, "torch");
		run->budget = json_read_bytes_or_null(&reader, json,
						      "budget_bytes");
		run->planner = json_read_string_or_null(&reader, json,
							"planner");
		run->iterations = json_read_bytes(&reader, json, "iterations");
		read_peaks(&reader, json, run->peaks);
		run->floor = json_read_bytes_or_null(&reader, json,
						     "floor_bytes");
		run->feasible = json_read_bool_or_null(&reader, json,
						       "feasible");
		read_lists(&reader, json, run);
	}
	json_decref(json);
	if (reader.error)
		run_free(run);
	return reader.error;
}

void run_free(struct run *run)
{
	for (size_t i = 0; run->kinds && i < run->kind_count; i++) {
		free(run->kinds[i].root);
		free(run->kinds[i].key);
	}
	for (size_t i = 0; run->blocks && i < run->block_count; i++) {
		free(run->blocks[i].root);
		free(run->blocks[i].name);
		free(run->blocks[i].class_name);
	}
	for (size_t i = 0; run->ranges && i < run->range_count; i++) {
		free(run->ranges[i].name);
		free(run->ranges[i].block);
	}
	for (size_t i = 0; run->events && i < run->event_count; i++)
		free(run->events[i].detail);
	for (size_t i = 0; run->devices && i < run->device_count; i++)
		free(run->devices[i].name);
	free(run->device);
	free(run->torch);
	free(run->planner);
	free(run->kinds);
	free(run->blocks);
	free(run->ranges);
	free(run->events);
	free(run->devices);
	memset(run, 0, sizeof(*run));
}

static json_t *bytes_or_null(int64_t bytes)
{
	return bytes < 0 ? json_null() : json_integer(bytes);
}

static json_t *write_kind(const struct run_kind *kind)
{
	return json_pack("{ss ss sI sI so so}", "root", kind->root, "key",
			 kind->key, "iterations", (json_int_t)kind->iterations,
			 "peak_bytes", (json_int_t)kind->peak,
			 "predicted_bytes", bytes_or_null(kind->predicted),
			 "floor_bytes", bytes_or_null(kind->floor));
}

static json_t *write_block(const struct run_block *block)
{
	return json_pack("{ss ss ss sI sI ss ss? sI sI sf sI}", "root",
			 block->root, "name", block->name, "class",
			 block->class_name, "call", (json_int_t)block->call,
			 "calls", (json_int_t)block->calls, "decision",
			 plan_decision_names[block->decision], "reason",
			 block->reason, "saved_bytes",
			 (json_int_t)block->saved_bytes, "boundary_bytes",
			 (json_int_t)block->boundary_bytes, "forward_ms",
			 block->forward_ms, "recomputes",
			 (json_int_t)block->recomputes);
}

static json_t *write_range(const struct run_range *range)
{
	return json_pack("{ss sI ss? sI sI}", "name", range->name, "calls",
			 (json_int_t)range->calls, "block", range->block,
			 "peak_bytes", (json_int_t)range->peak_bytes,
			 "outside_bytes", (json_int_t)range->outside_bytes);
}

static json_t *write_ranges(const struct run *run)
{
	json_t *ranges = json_array();

	for (size_t i = 0; i < run->range_count; i++)
		json_write_append(&ranges, write_range(&run->ranges[i]));
	return ranges;
}

static json_t *write_peaks(const int64_t bytes[RUN_PEAK_COUNT])
{
	json_t *peaks = json_object();

	for (int i = 0; i < RUN_PEAK_COUNT; i++)
		json_write_member(&peaks, peak_names[i],
				  bytes_or_null(bytes[i]));
	return peaks;
}

static json_t *write_devices(const struct run *run)
{
	json_t *devices = json_array();

	for (size_t i = 0; i < run->device_count; i++) {
		const struct run_device *device = &run->devices[i];

		json_write_append(&devices,
				  json_pack("{ss so so}", "device",
					    device->name, "peak_bytes",
					    write_peaks(device->peaks),
					    "floor_bytes",
					    bytes_or_null(device->floor)));
	}
	return devices;
}

static json_t *write_event(const struct run_event *event)
{
	return json_pack("{sI ss ss}", "iteration",
			 (json_int_t)event->iteration, "kind", event->kind,
			 "detail", event->detail);
}

char *run_write(const struct run *run)
{
	json_t *kinds = json_array(), *blocks = json_array();
	json_t *events = json_array(), *document;

	for (size_t i = 0; i < run->kind_count; i++)
		json_write_append(&kinds, write_kind(&run->kinds[i]));
	for (size_t i = 0; i < run->block_count; i++)
		json_write_append(&blocks, write_block(&run->blocks[i]));
	for (size_t i = 0; i < run->event_count; i++)
		json_write_append(&events, write_event(&run->events[i]));
	document = json_pack(
		"{ss si sI sI ss ss so ss? sI so so so so so so}", "format",
		"ckptagent.run", "version", 1, "pid", (json_int_t)run->pid,
		"rank", (json_int_t)run->rank, "device", run->device, "torch",
		run->torch, "budget_bytes", bytes_or_null(run->budget),
		"planner", run->planner, "iterations",
		(json_int_t)run->iterations, "peak_bytes",
		write_peaks(run->peaks), "floor_bytes",
		bytes_or_null(run->floor), "feasible",
		run->feasible < 0 ? json_null() : json_boolean(run->feasible),
		"kinds", kinds, "blocks", blocks, "events", events);
	if (run->has_ranges)
		json_write_member(&document, "ranges", write_ranges(run));
	if (run->device_count)
		json_write_member(&document, "devices", write_devices(run));
	return json_write_text(document);
}
