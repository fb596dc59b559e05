#include "json_write.h"

#include <stdlib.h>
#include <string.h>

static void fail(json_t **into)
{
	json_decref(*into);
	*into = NULL;
}

void json_write_append(json_t **into, json_t *value)
{
	if (!*into)
		json_decref(value);
	else if (json_array_append_new(*into, value) < 0)
		fail(into);
}

void json_write_member(json_t **into, const char *key, json_t *value)
{
	if (!*into)
		json_decref(value);
	else if (json_object_set_new(*into, key, value) < 0)
		fail(into);
}

/* What json_dump_callback fills; malloc'ed whatever jansson allocates with. */
struct text {
	char *bytes;
	size_t length, room;
	int failed; /* jansson does not pass every failure on */
};

static int add_text(const char *bytes, size_t length, void *context)
{
	struct text *text = context;

	if (text->length + length + 2 > text->room) {
		size_t room = 2 * text->room + length + 2;
		char *grown = realloc(text->bytes, room);

		text->failed |= !grown;
		if (!grown)
			return -1;
		text->bytes = grown;
		text->room = room;
	}
	memcpy(text->bytes + text->length, bytes, length);
	text->length += length;
	return 0;
}

char *json_write_text(json_t *document)
{
	struct text text = { NULL, 0, 0, 0 };
	int failed = !document ||
		     json_dump_callback(document, add_text, &text,
					JSON_INDENT(1) |
						JSON_REAL_PRECISION(15)) < 0;

	json_decref(document);
	if (failed || text.failed) {
		free(text.bytes);
		return NULL;
	}
	memcpy(text.bytes + text.length, "\n", 2);
	return text.bytes;
}
