/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of text; see table.h. */
#include "cli/table.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "cli/size.h"
#include "src/base/util.h"

#define GAP 2 /* spaces between columns */
#define COLUMNS_LEAST 20

struct table {
	unsigned int nr_columns, nr_keys;
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
	table->nr_keys = 1;
	*out = table;
	return 0;
}

void table_set_keys(struct table *table, unsigned int nr)
{
	table->nr_keys = nr;
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

/* ------------------------------------------------------------------ printing */

size_t table_columns(FILE *out)
{
	const char *text = getenv("COLUMNS");
	struct winsize size;
	uint64_t columns;

	if (text && !count_parse(text, &columns) && columns >= COLUMNS_LEAST)
		return columns;
	if (fileno(out) >= 0 && !ioctl(fileno(out), TIOCGWINSZ, &size) &&
	    size.ws_col >= COLUMNS_LEAST)
		return size.ws_col;
	return 80;
}

/* One cell of a line; the last column gets no blanks behind it. */
static void print_cell(const struct table *table, unsigned int column, size_t width,
		       const char *text, bool last, FILE *out)
{
	bool left = table->columns[column].align == TABLE_LEFT;
	int blanks = (int)(width - strlen(text));

	fprintf(out, "%*s%s%*s", left ? 0 : blanks, "", text, left && !last ? blanks : 0, "");
	fprintf(out, "%*s", last ? 0 : GAP, "");
	if (last)
		fputc('\n', out);
}

static size_t nr_rows(const struct table *table)
{
	return div_round_up(table->nr_cells, table->nr_columns);
}

/* Some of the columns: nr of them. width: of all. */
static void print_part(const struct table *table, const size_t *width, const unsigned int *part,
		       unsigned int nr, FILE *out)
{
	size_t rule = 0;

	for (unsigned int i = 0; i < nr; i++) {
		const unsigned int c = part[i];

		print_cell(table, c, width[c], table->columns[c].title, i + 1 == nr, out);
		rule += width[c] + (i ? GAP : 0);
	}
	for (size_t i = 0; i < rule; i++)
		fputc('-', out);
	fputc('\n', out);
	for (size_t r = 0; r < nr_rows(table); r++)
		for (unsigned int i = 0; i < nr; i++)
			print_cell(table, part[i], width[part[i]],
				   cell(table, r * table->nr_columns + part[i]), i + 1 == nr, out);
}

/* Whether every row has the same in a column, and there is one. */
static bool is_same(const struct table *table, unsigned int column)
{
	for (size_t r = 1; r < nr_rows(table); r++)
		if (strcmp(cell(table, column), cell(table, r * table->nr_columns + column)) != 0)
			return false;
	return nr_rows(table) > 0;
}

/*
 * One part below the other, each as wide as fits and with the keys. Keys that are the same
 * everywhere, but for the last one, stand above instead. part: room for all columns.
 */
static void print_parts(const struct table *table, const size_t *width, size_t limit,
			unsigned int *part, FILE *out)
{
	unsigned int nr_kept = 0, c;
	size_t keys = 0;
	bool above = false;

	for (c = 0; c < table->nr_keys; c++) {
		if (c + 1 < table->nr_keys && is_same(table, c)) {
			fprintf(out, "%s%s: %s", above ? ", " : "", table->columns[c].title,
				cell(table, c));
			above = true;
			continue;
		}
		part[nr_kept++] = c;
		keys += width[c] + GAP;
	}
	fputs(above ? "\n\n" : "", out);
	while (c < table->nr_columns) {
		unsigned int nr = nr_kept;
		size_t used = keys + width[c];

		part[nr++] = c++;
		while (c < table->nr_columns && used + GAP + width[c] <= limit) {
			used += GAP + width[c];
			part[nr++] = c++;
		}
		print_part(table, width, part, nr, out);
		fputs(c < table->nr_columns ? "\n" : "", out);
	}
}

int table_print(const struct table *table, FILE *out)
{
	const size_t limit = table_columns(out);
	unsigned int *part = calloc(table->nr_columns, sizeof(*part));
	size_t *width = calloc(table->nr_columns, sizeof(*width)), all = 0;
	int err = -ENOMEM;

	if (table->failed || !part || !width)
		goto out;
	for (unsigned int c = 0; c < table->nr_columns; c++) {
		width[c] = column_width(table, c);
		part[c] = c;
		all += width[c] + (c ? GAP : 0);
	}
	if (all <= limit || table->nr_keys >= table->nr_columns)
		print_part(table, width, part, table->nr_columns, out);
	else
		print_parts(table, width, limit, part, out);
	err = ferror(out) ? -EIO : 0;
out:
	free(part);
	free(width);
	return err;
}
