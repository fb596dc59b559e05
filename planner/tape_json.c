#include "tape_json.h"

#include <stdlib.h>
#include <string.h>

#include "json_read.h"
#include "json_write.h"

static void read_call(struct json_reader *reader, const json_t *json,
		      struct tape_call *call)
{
	static const char *const keys[] = {
		"name",		"class",       "call",		 "dropped",
		"reason",	"saved_bytes", "boundary_bytes", "forward_ms",
		"recompute_ms", NULL,
	};

	json_read_keys(reader, json, keys);
	call->name = json_read_string(reader, json, "name");
	call->class_name = json_read_string(reader, json, "class");
	call->call = json_read_int(reader, json, "call", 0, INT32_MAX);
	call->dropped = json_read_bool(reader, json, "dropped");
	call->reason = json_read_word_or_null(reader, json, "reason",
					      tape_reasons);
	call->saved_bytes = json_read_bytes(reader, json, "saved_bytes");
	call->boundary_bytes = json_read_bytes(reader, json, "boundary_bytes");
	call->forward_ms = json_read_ms(reader, json, "forward_ms");
	call->recompute_ms = json_read_ms(reader, json, "recompute_ms");
}

/* Every sum that the planner forms must stay in range. */
static void add_bytes(struct json_reader *reader, const char *what,
		      int64_t *sum, int64_t bytes)
{
	if (bytes > TAPE_BYTES_MAX - *sum)
		json_refuse(reader, "%s: together more than %lld", what,
			    (long long)TAPE_BYTES_MAX);
	else
		*sum += bytes;
}

static void read_calls(struct json_reader *reader, const json_t *json,
		       struct tape *tape)
{
	const json_t *list = json_read_list(reader, json, "calls",
					    TAPE_CALLS_MAX, &tape->call_count);
	int64_t sum = 0;

	tape->calls = json_array_alloc(reader, tape->call_count,
				       sizeof(*tape->calls));
	for (size_t i = 0; !reader->error && i < tape->call_count; i++) {
		size_t mark = json_enter(reader, "calls", (long)i);

		read_call(reader, json_array_get(list, i), &tape->calls[i]);
		add_bytes(reader, "saved_bytes", &sum,
			  tape->calls[i].saved_bytes);
		json_leave(reader, mark);
	}
}

/* Entry `s` of a list of dropped calls; `before`: the last one, -1: none. */
static int32_t read_dropped(struct json_reader *reader, const json_t *json,
			    size_t s, const struct tape *tape, int32_t before)
{
	json_int_t call = json_integer_value(json);

	if (!json_is_integer(json) || call < 0 ||
	    call >= (json_int_t)tape->call_count)
		json_refuse(reader, "calls[%zu]: not the index of a call", s);
	else if (!tape->calls[call].dropped)
		json_refuse(reader, "calls[%zu]: call %lld is not dropped", s,
			    (long long)call);
	else if (call <= before)
		json_refuse(reader, "calls[%zu]: not rising", s);
	else
		return (int32_t)call;
	return 0;
}

static void read_storage(struct json_reader *reader, const json_t *json,
			 struct tape *tape, struct tape_storage *storage)
{
	static const char *const keys[] = { "bytes", "freed", "calls", NULL };
	int32_t before = -1;
	size_t count;
	const json_t *list;

	json_read_keys(reader, json, keys);
	storage->bytes = json_read_bytes(reader, json, "bytes");
	storage->freed = (int32_t)json_read_int(reader, json, "freed", -1,
						(int64_t)tape->segment_count -
							1);
	list = json_read_list(reader, json, "calls", TAPE_CALLS_MAX, &count);
	if (!reader->error && !count)
		json_refuse(reader, "calls: empty");
	storage->count = (uint32_t)count;
	for (size_t s = 0; !reader->error && s < count; s++) {
		before = read_dropped(reader, json_array_get(list, s), s, tape,
				      before);
		tape->savers[storage->first + s] = before;
	}
}

/*
 * Room for the calls of every entry of a list (of `size` bytes each), before
 * they are read.
 */
static void *alloc_calls(struct json_reader *reader, const char *key,
			 const json_t *list, size_t size)
{
	size_t total = 0;

	for (size_t j = 0; j < json_array_size(list); j++)
		total += json_array_size(
			json_object_get(json_array_get(list, j), "calls"));
	if (total > TAPE_ENTRIES_MAX)
		json_refuse(reader, "%s: more than %u calls together", key,
			    TAPE_ENTRIES_MAX);
	return json_array_alloc(reader, total, size);
}

static void read_storages(struct json_reader *reader, const json_t *json,
			  struct tape *tape, int64_t *sum)
{
	const json_t *list = json_read_list(reader, json, "storages",
					    TAPE_ENTRIES_MAX,
					    &tape->storage_count);
	uint32_t first = 0;

	tape->storages = json_array_alloc(reader, tape->storage_count,
					  sizeof(*tape->storages));
	tape->savers = alloc_calls(reader, "storages", list,
				   sizeof(*tape->savers));
	for (size_t j = 0; !reader->error && j < tape->storage_count; j++) {
		struct tape_storage *storage = &tape->storages[j];
		size_t mark = json_enter(reader, "storages", (long)j);

		storage->first = first;
		read_storage(reader, json_array_get(list, j), tape, storage);
		first += storage->count;
		add_bytes(reader, "bytes", sum, storage->bytes);
		json_leave(reader, mark);
	}
}

static int32_t read_until(struct json_reader *reader, const json_t *json,
			  size_t n, const struct tape *tape)
{
	json_int_t until = json_integer_value(json);

	if (json_is_integer(json) && until >= 0 &&
	    until <= (json_int_t)tape->segment_count)
		return (int32_t)until;
	json_refuse(reader, "until[%zu]: not 0..%zu", n, tape->segment_count);
	return 0;
}

static void read_noters(struct json_reader *reader, const json_t *json,
			const struct tape *tape, struct tape_noted *noted)
{
	struct tape_noter *noters = tape->noters + noted->first;
	size_t count, untils;
	const json_t *calls = json_read_list(reader, json, "calls",
					     TAPE_CALLS_MAX, &count);
	const json_t *until = json_read_list(reader, json, "until",
					     TAPE_CALLS_MAX, &untils);
	int32_t last = 0, before = -1;

	if (count != untils)
		json_refuse(reader, "until: not as many as calls");
	for (size_t n = 0; !reader->error && n < count; n++) {
		noters[n].call = read_dropped(reader, json_array_get(calls, n),
					      n, tape, before);
		before = noters[n].call;
		noters[n].until = read_until(reader, json_array_get(until, n),
					     n, tape);
		if (noters[n].until > last)
			last = noters[n].until;
	}
	if (noted->to > last)
		json_refuse(reader, "to: no call holds it so long");
	noted->count = (uint32_t)count;
}

static void read_noted(struct json_reader *reader, const json_t *json,
		       const struct tape *tape, struct tape_noted *noted)
{
	static const char *const keys[] = { "bytes", "from",  "to",
					    "calls", "until", NULL };
	int64_t end = (int64_t)tape->segment_count;

	json_read_keys(reader, json, keys);
	noted->bytes = json_read_bytes(reader, json, "bytes");
	noted->from = (int32_t)json_read_int(reader, json, "from", 0, end);
	noted->to = (int32_t)json_read_int(reader, json, "to", noted->from + 1,
					   end);
	read_noters(reader, json, tape, noted);
}

/* Profiles of before have no such list. */
static void read_all_noted(struct json_reader *reader, const json_t *json,
			   struct tape *tape, int64_t *sum)
{
	const json_t *list;
	uint32_t first = 0;

	if (!json_object_get(json, "noted"))
		return;
	list = json_read_list(reader, json, "noted", TAPE_ENTRIES_MAX,
			      &tape->noted_count);
	tape->noted = json_array_alloc(reader, tape->noted_count,
				       sizeof(*tape->noted));
	tape->noters = alloc_calls(reader, "noted", list,
				   sizeof(*tape->noters));
	for (size_t j = 0; !reader->error && j < tape->noted_count; j++) {
		struct tape_noted *noted = &tape->noted[j];
		size_t mark = json_enter(reader, "noted", (long)j);

		noted->first = first;
		read_noted(reader, json_array_get(list, j), tape, noted);
		first += noted->count;
		add_bytes(reader, "bytes", sum, noted->bytes);
		json_leave(reader, mark);
	}
}

static void read_segment(struct json_reader *reader, const json_t *json,
			 const struct tape *tape, struct tape_segment *segment)
{
	static const char *const keys[] = { "mark", "call", "live", "peak",
					    NULL };
	static const char *const letters[] = { "S", "F", "E", "D", "B",
					       "R", "X", "Z", NULL };
	const char *letter;

	json_read_keys(reader, json, keys);
	letter = json_read_word(reader, json, "mark", letters);
	segment->mark = letter ? *letter : 0;
	segment->call = (int32_t)json_read_int(reader, json, "call", -1,
					       (int64_t)tape->call_count - 1);
	segment->live = json_read_bytes(reader, json, "live");
	segment->peak = json_read_bytes(reader, json, "peak");
	if (segment->peak < segment->live)
		json_refuse(reader, "peak: less than live");
}

static void read_segments(struct json_reader *reader, const json_t *json,
			  struct tape *tape)
{
	const json_t *list = json_read_list(reader, json, "segments",
					    TAPE_ENTRIES_MAX,
					    &tape->segment_count);

	if (!reader->error && tape->segment_count < 2)
		json_refuse(reader, "segments: fewer than 2");
	tape->segments = json_array_alloc(reader, tape->segment_count,
					  sizeof(*tape->segments));
	for (size_t k = 0; !reader->error && k < tape->segment_count; k++) {
		size_t mark = json_enter(reader, "segments", (long)k);

		read_segment(reader, json_array_get(list, k), tape,
			     &tape->segments[k]);
		json_leave(reader, mark);
	}
}

static void read_held(struct json_reader *reader, const json_t *json,
		      struct tape *tape)
{
	static const char *const keys[] = { "parameters", "gradients",
					    "optimizer", "buffers", NULL };
	const json_t *held = json_read_object(reader, json, "held");
	size_t mark = json_enter(reader, "held", -1);

	json_read_keys(reader, held, keys);
	for (int i = 0; i < TAPE_HELD_COUNT; i++)
		tape->held[i] = json_read_bytes(reader, held,
						tape_held_names[i]);
	json_leave(reader, mark);
}

static void read_kind(struct json_reader *reader, const json_t *json,
		      struct tape *tape)
{
	static const char *const keys[] = {
		"root",	    "key",	"fingerprint", "size",	"held", "calls",
		"storages", "segments", "device",      "noted", NULL
	};
	int64_t sum = 0;

	json_read_keys(reader, json, keys);
	tape->root = json_read_string(reader, json, "root");
	tape->key = json_read_string(reader, json, "key");
	tape->fingerprint = json_read_fingerprint(reader, json);
	tape->device = json_read_string_or_none(reader, json, "device");
	tape->size = json_read_bytes(reader, json, "size");
	read_held(reader, json, tape);
	read_calls(reader, json, tape);
	read_segments(reader, json, tape);
	read_storages(reader, json, tape, &sum);
	read_all_noted(reader, json, tape, &sum);
	if (!reader->error)
		reader->error = tape_index(tape, reader->place, reader->why);
}

static void read_kinds(struct json_reader *reader, const json_t *json,
		       struct profile *profile)
{
	const json_t *list = json_read_list(reader, json, "kinds",
					    PROFILE_KINDS_MAX,
					    &profile->kind_count);

	profile->kinds = json_array_alloc(reader, profile->kind_count,
					  sizeof(*profile->kinds));
	for (size_t i = 0; !reader->error && i < profile->kind_count; i++) {
		size_t mark = json_enter(reader, "kinds", (long)i);

		read_kind(reader, json_array_get(list, i), &profile->kinds[i]);
		json_leave(reader, mark);
	}
}

int profile_read(const char *text, struct profile *profile,
		 const struct why *why)
{
	static const char *const keys[] = { "format", "version", "torch",
					    "device", "kinds",	 NULL };
	struct json_reader reader = { .why = why };
	json_t *json = json_read_document(&reader, text, "ckptagent.profile",
					  keys);

	memset(profile, 0, sizeof(*profile));
	if (json) {
		profile->torch = json_read_string(&reader, json, "torch");
		profile->device = json_read_string(&reader, json, "device");
		read_kinds(&reader, json, profile);
	}
	json_decref(json);
	if (reader.error) {
		profile_free(profile);
		memset(profile, 0, sizeof(*profile));
	}
	return reader.error;
}

static json_t *write_call(const struct tape_call *call)
{
	return json_pack("{ss ss sI sb ss? sI sI sf sf}", "name", call->name,
			 "class", call->class_name, "call",
			 (json_int_t)call->call, "dropped", call->dropped,
			 "reason", call->reason, "saved_bytes",
			 (json_int_t)call->saved_bytes, "boundary_bytes",
			 (json_int_t)call->boundary_bytes, "forward_ms",
			 call->forward_ms, "recompute_ms", call->recompute_ms);
}

static json_t *write_storage(const struct tape *tape,
			     const struct tape_storage *storage)
{
	json_t *calls = json_array();

	for (uint32_t s = 0; s < storage->count; s++)
		json_write_append(
			&calls, json_integer(tape->savers[storage->first + s]));
	return json_pack("{sI si so}", "bytes", (json_int_t)storage->bytes,
			 "freed", (int)storage->freed, "calls", calls);
}

static json_t *write_noted(const struct tape *tape,
			   const struct tape_noted *noted)
{
	json_t *calls = json_array(), *until = json_array();

	for (uint32_t n = 0; n < noted->count; n++) {
		const struct tape_noter *noter =
			&tape->noters[noted->first + n];

		json_write_append(&calls, json_integer(noter->call));
		json_write_append(&until, json_integer(noter->until));
	}
	return json_pack("{sI si si so so}", "bytes", (json_int_t)noted->bytes,
			 "from", (int)noted->from, "to", (int)noted->to,
			 "calls", calls, "until", until);
}

static json_t *write_segment(const struct tape_segment *segment)
{
	char mark[2] = { segment->mark, '\0' };

	return json_pack("{ss si sI sI}", "mark", mark, "call",
			 (int)segment->call, "live", (json_int_t)segment->live,
			 "peak", (json_int_t)segment->peak);
}

static json_t *write_kind(const struct tape *tape)
{
	json_t *held = json_object(), *calls = json_array();
	json_t *storages = json_array(), *segments = json_array();
	json_t *noted = json_array();

	for (int i = 0; i < TAPE_HELD_COUNT; i++)
		json_write_member(&held, tape_held_names[i],
				  json_integer(tape->held[i]));
	for (size_t i = 0; i < tape->call_count; i++)
		json_write_append(&calls, write_call(&tape->calls[i]));
	for (size_t j = 0; j < tape->storage_count; j++)
		json_write_append(&storages,
				  write_storage(tape, &tape->storages[j]));
	for (size_t j = 0; j < tape->noted_count; j++)
		json_write_append(&noted, write_noted(tape, &tape->noted[j]));
	for (size_t k = 0; k < tape->segment_count; k++)
		json_write_append(&segments, write_segment(&tape->segments[k]));
	return json_pack("{ss ss ss ss* sI so so so so so}", "root", tape->root,
			 "key", tape->key, "fingerprint", tape->fingerprint,
			 "device", tape->device, "size",
			 (json_int_t)tape->size, "held", held, "calls", calls,
			 "storages", storages, "noted", noted, "segments",
			 segments);
}

char *profile_write(const struct profile *profile)
{
	json_t *kinds = json_array();

	for (size_t i = 0; i < profile->kind_count; i++)
		json_write_append(&kinds, write_kind(&profile->kinds[i]));
	return json_write_text(json_pack("{ss si ss ss so}", "format",
					 "ckptagent.profile", "version", 1,
					 "torch", profile->torch, "device",
					 profile->device, "kinds", kinds));
}
