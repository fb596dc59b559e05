/*
 * Strict reading of a document: every key known, none missing or twice, every
 * value of its type and in range. The first fault is kept, by name, and every
 * later read returns a harmless value, so a reader is written straight down
 * and looks at `error` once at its end (and before it allocates).
 */
#ifndef CKPTPLAN_JSON_READ_H
#define CKPTPLAN_JSON_READ_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "why.h"

#define JSON_TEXT_MAX (64u << 20)

struct json_reader {
	const struct why *why;
	int error;	 /* 0 or the negative errno of the first fault */
	char place[256]; /* where it reads now, e.g. "kinds[0].calls[3]." */
};

/*
 * Parse a document of one format and version, an object whose other keys are
 * `keys` (NULL at the end). NULL on a fault; the caller owns the reference.
 */
json_t *json_read_document(struct json_reader *reader, const char *text,
			   const char *format, const char *const *keys);

/* The text's object without a format (a request). */
json_t *json_read_text(struct json_reader *reader, const char *text);

/* Refuse with a message that starts with where the reader is. */
void json_refuse(struct json_reader *reader, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Note that memory ran out. */
void json_no_memory(struct json_reader *reader);

/*
 * Enter an element (key alone: index < 0) and check that it is an object with
 * no other keys; json_leave goes back to where `mark` (the return value of
 * json_enter) was.
 */
size_t json_enter(struct json_reader *reader, const char *key, long index);
void json_leave(struct json_reader *reader, size_t mark);
void json_read_keys(struct json_reader *reader, const json_t *object,
		    const char *const *keys);

int64_t json_read_int(struct json_reader *reader, const json_t *object,
		      const char *key, int64_t min, int64_t max);
int64_t json_read_bytes(struct json_reader *reader, const json_t *object,
			const char *key);
/* The same, with null for "none": -1. */
int64_t json_read_bytes_or_null(struct json_reader *reader,
				const json_t *object, const char *key);
/* A finite number that is not negative. */
double json_read_ms(struct json_reader *reader, const json_t *object,
		    const char *key);
bool json_read_bool(struct json_reader *reader, const json_t *object,
		    const char *key);
/* 1, 0, or -1 for null. */
int json_read_bool_or_null(struct json_reader *reader, const json_t *object,
			   const char *key);
/* A malloc'ed copy, NULL on a fault. */
char *json_read_string(struct json_reader *reader, const json_t *object,
		       const char *key);
/* The same, NULL for null too. */
char *json_read_string_or_null(struct json_reader *reader, const json_t *object,
			       const char *key);
/* A copy too, NULL for a missing key. */
char *json_read_string_or_none(struct json_reader *reader, const json_t *object,
			       const char *key);
/* The key "fingerprint": 16 hex digits. */
char *json_read_fingerprint(struct json_reader *reader, const json_t *object);
/* One word of a list (NULL at its end), NULL on a fault. */
const char *json_read_word(struct json_reader *reader, const json_t *object,
			   const char *key, const char *const *words);
const char *json_read_word_or_null(struct json_reader *reader,
				   const json_t *object, const char *key,
				   const char *const *words);
/* An object; NULL on a fault. */
const json_t *json_read_object(struct json_reader *reader, const json_t *object,
			       const char *key);
/* A list of at most `max` entries; an empty one on a fault (count 0). */
const json_t *json_read_list(struct json_reader *reader, const json_t *object,
			     const char *key, size_t max, size_t *count);

/* A zeroed array, NULL (and the fault noted) without memory or on a fault. */
void *json_array_alloc(struct json_reader *reader, size_t count, size_t size);

#endif
