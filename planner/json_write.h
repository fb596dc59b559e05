/*
 * Building a document: a value that could not be made (NULL, no memory) makes
 * the whole that contains it NULL, so only the end result is looked at.
 */
#ifndef CKPTPLAN_JSON_WRITE_H
#define CKPTPLAN_JSON_WRITE_H

#include <jansson.h>

/* Append or set, taking the value; on a failure *into is freed and NULL. */
void json_write_append(json_t **into, json_t *value);
void json_write_member(json_t **into, const char *key, json_t *value);

/* Malloc'ed text of a document, which is taken; NULL without memory. */
char *json_write_text(json_t *document);

#endif
