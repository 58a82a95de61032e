/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of text; see table.h. */
#include "cli/table.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "cli/size.h"

#define GAP 2 /* spaces between columns */

struct table {
	unsigned int nr_columns;
	struct table_column *columns;
	char **cells; /* row by row */
	size_t nr_cells, capacity;
	bool failed; /* a cell could not be added */
};

int table_create(const struct table_column *columns, unsigned int nr, struct table **out)
{
	struct table *table;

	if (!nr)
		return -EINVAL;
	table = calloc(1, sizeof(*table));
	if (!table)
		return -ENOMEM;
	table->columns = reallocarray(NULL, nr, sizeof(*columns));
	if (!table->columns) {
		free(table);
		return -ENOMEM;
	}
	memcpy(table->columns, columns, nr * sizeof(*columns));
	table->nr_columns = nr;
	*out = table;
	return 0;
}

void table_destroy(struct table *table)
{
	if (!table)
		return;
	for (size_t i = 0; i < table->nr_cells; i++)
		free(table->cells[i]);
	free(table->cells);
	free(table->columns);
	free(table);
}

int table_add(struct table *table, const char *format, ...)
{
	char *text;
	va_list args;
	int length;

	if (table->nr_cells == table->capacity) {
		size_t capacity = table->capacity ? table->capacity * 2 : 64;
		char **grown = reallocarray(table->cells, capacity, sizeof(*grown));

		if (!grown)
			goto err_failed;
		table->cells = grown;
		table->capacity = capacity;
	}
	va_start(args, format);
	length = vasprintf(&text, format, args);
	va_end(args);
	if (length < 0)
		goto err_failed;
	table->cells[table->nr_cells++] = text;
	return 0;

err_failed:
	table->failed = true;
	return -ENOMEM;
}

int table_add_double(struct table *table, const char *format, double value)
{
	char text[32];

	snprintf(text, sizeof(text), format, value);
	return table_add(table, "%s", isfinite(value) ? text : "-");
}

int table_add_size(struct table *table, uint64_t bytes)
{
	char text[SIZE_TEXT_BYTES];

	return table_add(table, "%s", size_format(bytes, text, sizeof(text)));
}

static const char *cell(const struct table *table, size_t index)
{
	return index < table->nr_cells ? table->cells[index] : "";
}

static size_t column_width(const struct table *table, unsigned int column)
{
	size_t width = strlen(table->columns[column].title);

	for (size_t i = column; i < table->nr_cells; i += table->nr_columns)
		if (width < strlen(table->cells[i]))
			width = strlen(table->cells[i]);
	return width;
}

/* One cell of a line; the last column gets no blanks behind it. */
static void print_cell(const struct table *table, unsigned int column, size_t width,
		       const char *text, FILE *out)
{
	bool last = column + 1 == table->nr_columns;
	bool left = table->columns[column].align == TABLE_LEFT;
	int blanks = (int)(width - strlen(text));

	fprintf(out, "%*s%s%*s", left ? 0 : blanks, "", text, left && !last ? blanks : 0, "");
	fprintf(out, "%*s", last ? 0 : GAP, "");
	if (last)
		fputc('\n', out);
}

int table_print(const struct table *table, FILE *out)
{
	size_t nr_rows = (table->nr_cells + table->nr_columns - 1) / table->nr_columns;
	size_t *width, rule = 0;

	if (table->failed)
		return -ENOMEM;
	width = calloc(table->nr_columns, sizeof(*width));
	if (!width)
		return -ENOMEM;
	for (unsigned int c = 0; c < table->nr_columns; c++) {
		width[c] = column_width(table, c);
		rule += width[c] + (c ? GAP : 0);
	}
	for (unsigned int c = 0; c < table->nr_columns; c++)
		print_cell(table, c, width[c], table->columns[c].title, out);
	for (size_t i = 0; i < rule; i++)
		fputc('-', out);
	fputc('\n', out);
	for (size_t r = 0; r < nr_rows; r++)
		for (unsigned int c = 0; c < table->nr_columns; c++)
			print_cell(table, c, width[c], cell(table, r * table->nr_columns + c), out);
	free(width);
	return ferror(out) ? -EIO : 0;
}
