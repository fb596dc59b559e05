/* Sizes, times and tables as people read them. */
#ifndef CKPTAGENT_CLI_TEXT_H
#define CKPTAGENT_CLI_TEXT_H

#include <stdbool.h>
#include <stdint.h>

#define TEXT_SIZE 32

/* "7.43 GiB", "512 B"; "-" for a negative one (unknown). Returns `text`. */
char *text_bytes(char text[TEXT_SIZE], int64_t bytes);

/* "12.3 ms", "1.23 s". */
char *text_ms(char text[TEXT_SIZE], double ms);

/* A whole number. */
char *text_count(char text[TEXT_SIZE], int64_t count);

/*
 * A table collects rows and prints them with every column as wide as its
 * widest cell. `columns` is a string with one letter a column: l or r for the
 * side that its cells lean to.
 */
struct text_table {
	const char *columns;
	int indent;
	char **cells; /* row by row */
	int count, room;
	bool failed; /* memory ran out */
};

/* One cell for each column; control characters become '?'. */
void text_row(struct text_table *table, const char *const *cells);

/* Print to standard output and free. Returns 0 or -ENOMEM. */
int text_print(struct text_table *table);

/* Print one line of text from a file, control characters as '?'. */
void text_line(const char *prefix, const char *text);

#endif
