#include "json_read.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tape.h"

void json_refuse(struct json_reader *reader, const char *format, ...)
{
	char cause[256];
	va_list args;

	if (reader->error)
		return;
	va_start(args, format);
	vsnprintf(cause, sizeof(cause), format, args);
	va_end(args);
	reader->error = why_refuse(reader->why, "%s%s", reader->place, cause);
}

/* Refuse the element itself: "kinds[0]: cause" in place of "kinds[0].key: ". */
static void refuse_here(struct json_reader *reader, const char *cause)
{
	size_t length = strlen(reader->place);

	if (reader->error)
		return;
	reader->error = why_refuse(reader->why, "%.*s%s%s",
				   length ? (int)length - 1 : 0, reader->place,
				   length ? ": " : "", cause);
}

void json_no_memory(struct json_reader *reader)
{
	if (!reader->error)
		reader->error = why_memory(reader->why);
}

json_t *json_read_text(struct json_reader *reader, const char *text)
{
	json_error_t fault = { 0 }; /* without memory, jansson leaves it so */
	json_t *json;

	if (strnlen(text, JSON_TEXT_MAX + 1) > JSON_TEXT_MAX) {
		json_refuse(reader, "text of more than %u bytes",
			    JSON_TEXT_MAX);
		return NULL;
	}
	json = json_loads(text, JSON_REJECT_DUPLICATES, &fault);
	if (json && json_is_object(json))
		return json;
	if (json)
		refuse_here(reader, "not an object");
	else if (json_error_code(&fault) == json_error_out_of_memory ||
		 !fault.text[0])
		json_no_memory(reader);
	else
		json_refuse(reader, "line %d, column %d: %s", fault.line,
			    fault.column, fault.text);
	json_decref(json);
	return NULL;
}

static bool known_key(const char *key, const char *const *keys)
{
	for (; *keys; keys++)
		if (!strcmp(key, *keys))
			return true;
	return false;
}

void json_read_keys(struct json_reader *reader, const json_t *object,
		    const char *const *keys)
{
	/* jansson's iterators take the object without const. */
	json_t *walked = (json_t *)object;
	char cause[96];

	for (void *at = json_object_iter(walked); at;
	     at = json_object_iter_next(walked, at)) {
		if (known_key(json_object_iter_key(at), keys))
			continue;
		snprintf(cause, sizeof(cause), "unknown key \"%.64s\"",
			 json_object_iter_key(at));
		refuse_here(reader, cause);
	}
}

static void check_format(struct json_reader *reader, const json_t *json,
			 const char *format)
{
	const json_t *version = json_object_get(json, "version");
	const char *found = json_string_value(json_object_get(json, "format"));

	if (!json_object_get(json, "format"))
		json_refuse(reader, "format: missing");
	else if (!found || strcmp(found, format))
		json_refuse(reader, "format: not \"%s\"", format);
	else if (!version)
		json_refuse(reader, "version: missing");
	else if (!json_is_integer(version) || json_integer_value(version) != 1)
		json_refuse(reader, "version: not 1, the only one known");
}

json_t *json_read_document(struct json_reader *reader, const char *text,
			   const char *format, const char *const *keys)
{
	json_t *json = json_read_text(reader, text);

	if (!json)
		return NULL;
	check_format(reader, json, format);
	json_read_keys(reader, json, keys);
	if (!reader->error)
		return json;
	json_decref(json);
	return NULL;
}

size_t json_enter(struct json_reader *reader, const char *key, long index)
{
	size_t mark = strlen(reader->place);
	size_t room = sizeof(reader->place) - mark;

	if (index < 0)
		snprintf(reader->place + mark, room, "%s.", key);
	else
		snprintf(reader->place + mark, room, "%s[%ld].", key, index);
	return mark;
}

void json_leave(struct json_reader *reader, size_t mark)
{
	reader->place[mark] = '\0';
}

static const json_t *member(struct json_reader *reader, const json_t *object,
			    const char *key)
{
	const json_t *value = json_object_get(object, key);

	if (object && !json_is_object(object))
		refuse_here(reader, "not an object");
	else if (!value)
		json_refuse(reader, "%s: missing", key);
	return reader->error ? NULL : value;
}

int64_t json_read_int(struct json_reader *reader, const json_t *object,
		      const char *key, int64_t min, int64_t max)
{
	const json_t *value = member(reader, object, key);

	if (!value)
		return min;
	if (!json_is_integer(value))
		json_refuse(reader, "%s: not an integer", key);
	else if (json_integer_value(value) < min ||
		 json_integer_value(value) > max)
		json_refuse(reader, "%s: %lld is not in %lld..%lld", key,
			    (long long)json_integer_value(value),
			    (long long)min, (long long)max);
	return reader->error ? min : json_integer_value(value);
}

int64_t json_read_bytes(struct json_reader *reader, const json_t *object,
			const char *key)
{
	return json_read_int(reader, object, key, 0, TAPE_BYTES_MAX);
}

int64_t json_read_bytes_or_null(struct json_reader *reader,
				const json_t *object, const char *key)
{
	if (json_is_null(json_object_get(object, key)))
		return -1;
	return json_read_bytes(reader, object, key);
}

double json_read_ms(struct json_reader *reader, const json_t *object,
		    const char *key)
{
	const json_t *value = member(reader, object, key);
	double ms = json_number_value(value);

	if (!value)
		return 0;
	if (!json_is_number(value))
		json_refuse(reader, "%s: not a number", key);
	else if (!isfinite(ms) || ms < 0)
		json_refuse(reader, "%s: negative", key);
	return reader->error ? 0 : ms;
}

bool json_read_bool(struct json_reader *reader, const json_t *object,
		    const char *key)
{
	const json_t *value = member(reader, object, key);

	if (value && !json_is_boolean(value))
		json_refuse(reader, "%s: not true or false", key);
	return !reader->error && json_is_true(value);
}

int json_read_bool_or_null(struct json_reader *reader, const json_t *object,
			   const char *key)
{
	if (json_is_null(json_object_get(object, key)))
		return -1;
	return json_read_bool(reader, object, key);
}

char *json_read_string(struct json_reader *reader, const json_t *object,
		       const char *key)
{
	const json_t *value = member(reader, object, key);
	char *copy;

	if (!value)
		return NULL;
	if (!json_is_string(value)) {
		json_refuse(reader, "%s: not a string", key);
		return NULL;
	}
	copy = strdup(json_string_value(value));
	if (!copy)
		json_no_memory(reader);
	return copy;
}

char *json_read_string_or_null(struct json_reader *reader, const json_t *object,
			       const char *key)
{
	if (json_is_null(json_object_get(object, key)))
		return NULL;
	return json_read_string(reader, object, key);
}

char *json_read_string_or_none(struct json_reader *reader, const json_t *object,
			       const char *key)
{
	if (!json_object_get(object, key))
		return NULL;
	return json_read_string(reader, object, key);
}

char *json_read_fingerprint(struct json_reader *reader, const json_t *object)
{
	char *text = json_read_string(reader, object, "fingerprint");

	if (text &&
	    (strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16))
		json_refuse(reader, "fingerprint: not 16 hex digits");
	return text;
}

const char *json_read_word(struct json_reader *reader, const json_t *object,
			   const char *key, const char *const *words)
{
	const json_t *value = member(reader, object, key);

	if (!value)
		return NULL;
	if (!json_is_string(value)) {
		json_refuse(reader, "%s: not a string", key);
		return NULL;
	}
	for (; *words; words++)
		if (!strcmp(json_string_value(value), *words))
			return *words;
	json_refuse(reader, "%s: unknown \"%.64s\"", key,
		    json_string_value(value));
	return NULL;
}

const char *json_read_word_or_null(struct json_reader *reader,
				   const json_t *object, const char *key,
				   const char *const *words)
{
	if (json_is_null(json_object_get(object, key)))
		return NULL;
	return json_read_word(reader, object, key, words);
}

const json_t *json_read_object(struct json_reader *reader, const json_t *object,
			       const char *key)
{
	const json_t *value = member(reader, object, key);

	if (value && !json_is_object(value))
		json_refuse(reader, "%s: not an object", key);
	return reader->error ? NULL : value;
}

const json_t *json_read_list(struct json_reader *reader, const json_t *object,
			     const char *key, size_t max, size_t *count)
{
	const json_t *value = member(reader, object, key);

	*count = 0;
	if (value && !json_is_array(value))
		json_refuse(reader, "%s: not a list", key);
	else if (value && json_array_size(value) > max)
		json_refuse(reader, "%s: more than %zu entries", key, max);
	if (reader->error)
		return NULL;
	*count = json_array_size(value);
	return value;
}

void *json_array_alloc(struct json_reader *reader, size_t count, size_t size)
{
	void *array;

	if (reader->error)
		return NULL;
	array = calloc(count ? count : 1, size);
	if (!array)
		json_no_memory(reader);
	return array;
}
