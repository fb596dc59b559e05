/* profile.json: reading and writing. FORMATS.md draws the document. */
#ifndef CKPTPLAN_TAPE_JSON_H
#define CKPTPLAN_TAPE_JSON_H

#include "tape.h"

#define PROFILE_KINDS_MAX 1024
#define TAPE_CALLS_MAX 65536
#define TAPE_ENTRIES_MAX (1u << 20) /* storages, segments, savers */

/* On success the caller frees with profile_free; else nothing is left. */
int profile_read(const char *text, struct profile *profile,
		 const struct why *why);

/* Malloc'ed text (free), NULL without memory. */
char *profile_write(const struct profile *profile);

#endif
