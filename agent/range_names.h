/*
 * The texts of ranges that have a number, which allocations are counted under.
 *
 * Any thread; no lock, no malloc; at most RANGES_NAMES - 1 texts. Numbers begin
 * at 1 and are never given back.
 */
#ifndef CKPTAGENT_RANGE_NAMES_H
#define CKPTAGENT_RANGE_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "ranges.h"

/* Map what is needed, once, before anything else here. 0 or -ENOMEM. */
int range_names_begin(void);

/* Whether any text has a number: a load, also before the beginning. */
bool range_names_any(void);

/* A text's number, 0: it has none. */
uint32_t range_names_number(const char *text);

/*
 * Give a text a number, if it has none. 0: there are no more, or another thread
 * is giving one at this moment.
 */
uint32_t range_names_add(const char *text);

/* One more range with this number's text was opened; how many so far. */
void range_names_count(uint32_t number);
uint64_t range_names_openings(uint32_t number);

#endif
