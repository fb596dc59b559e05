#include "text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *text_bytes(char text[TEXT_SIZE], int64_t bytes)
{
	static const char *const units[] = { "KiB", "MiB", "GiB", "TiB",
					     "PiB" };
	double value = (double)bytes / 1024;
	int unit = 0;

	if (bytes < 0) {
		snprintf(text, TEXT_SIZE, "-");
	} else if (bytes < 1024) {
		snprintf(text, TEXT_SIZE, "%" PRId64 " B", bytes);
	} else {
		/* What would be printed as 1024.00 is 1 of the next. */
		for (; value >= 1023.995 && unit < 4; unit++)
			value /= 1024;
		snprintf(text, TEXT_SIZE, "%.2f %s", value, units[unit]);
	}
	return text;
}

char *text_ms(char text[TEXT_SIZE], double ms)
{
	if (ms < 999.95)
		snprintf(text, TEXT_SIZE, "%.1f ms", ms);
	else
		snprintf(text, TEXT_SIZE, "%.2f s", ms / 1e3);
	return text;
}

char *text_count(char text[TEXT_SIZE], int64_t count)
{
	snprintf(text, TEXT_SIZE, "%" PRId64, count);
	return text;
}

/* A name from a file must not steer the terminal. */
static void tame(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < 0x20 || *text == 0x7f)
			*text = '?';
}

static void add_cell(struct text_table *table, const char *cell)
{
	char *copy = strdup(cell);

	if (!copy) {
		table->failed = true;
		return;
	}
	tame(copy);
	table->cells[table->count++] = copy;
}

void text_row(struct text_table *table, const char *const *cells)
{
	int columns = (int)strlen(table->columns);

	if (table->count + columns > table->room) {
		int room = 2 * table->room + columns;
		char **grown = realloc(table->cells,
				       (size_t)room * sizeof(*grown));

		if (!grown) {
			table->failed = true;
			return;
		}
		table->cells = grown;
		table->room = room;
	}
	for (int c = 0; c < columns && !table->failed; c++)
		add_cell(table, cells[c]);
}

static int width_of(const struct text_table *table, int column, int columns)
{
	int width = 0;

	for (int i = column; i < table->count; i += columns)
		if ((int)strlen(table->cells[i]) > width)
			width = (int)strlen(table->cells[i]);
	return width;
}

/* Nothing is printed after the last cell that is not empty. */
static void print_row(const struct text_table *table, int first,
		      const int *widths, int columns)
{
	int last = columns - 1;

	while (last > 0 && !*table->cells[first + last])
		last--;
	printf("%*s", table->indent, "");
	for (int c = 0; c <= last; c++) {
		int width = c == last ? 0 : -widths[c];

		if (table->columns[c] == 'r')
			width = widths[c];
		printf("%*s%s", width, table->cells[first + c],
		       c == last ? "\n" : "  ");
	}
}

int text_print(struct text_table *table)
{
	int columns = (int)strlen(table->columns);
	int widths[16];

	for (int c = 0; c < columns; c++)
		widths[c] = width_of(table, c, columns);
	for (int i = 0; i + columns <= table->count; i += columns)
		print_row(table, i, widths, columns);
	for (int i = 0; i < table->count; i++)
		free(table->cells[i]);
	free(table->cells);
	table->cells = NULL;
	return table->failed ? -ENOMEM : 0;
}

void text_line(const char *prefix, const char *text)
{
	fputs(prefix, stdout);
	for (; *text; text++)
		putchar((unsigned char)*text < 0x20 || *text == 0x7f ? '?' :
								       *text);
	putchar('\n');
}
