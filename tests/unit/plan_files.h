/* The documents of tests/data, for the planner's tests. */
#ifndef PLAN_FILES_H
#define PLAN_FILES_H

/* The text of tests/data/NAME, NULL when there is none; the caller frees. */
char *data_text(const char *name);

/* Call `visit` for every .json file of tests/data that starts with a prefix. */
void data_each(const char *prefix, void (*visit)(const char *name));

#endif
