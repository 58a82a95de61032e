/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables of text for people: cells are collected, columns get the width of their widest cell, and
 * everything is printed at the end. Cells are ASCII.
 */
#ifndef WEIR_CLI_TABLE_H
#define WEIR_CLI_TABLE_H

#include <stdint.h>
#include <stdio.h>

enum table_align { TABLE_LEFT, TABLE_RIGHT };

struct table_column {
	const char *title; /* borrowed for as long as the table lives */
	enum table_align align;
};

struct table;

/* -EINVAL: no columns. -ENOMEM. */
int table_create(const struct table_column *columns, unsigned int nr, struct table **out);
void table_destroy(struct table *table);

/* The first columns, which say what a row is of; without it the first one. */
void table_set_keys(struct table *table, unsigned int nr);

/*
 * Append a cell, printf-like, to the last row; a full row begins the next one. -ENOMEM: the cell
 * is not there, and table_print() will fail too, so callers may leave checking to the end.
 */
int table_add(struct table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Same, of a number, by a format for one double; "-" unless it is finite. */
int table_add_double(struct table *table, const char *format, double value);

/* Same, of a number of bytes, as size_format() has it. */
int table_add_size(struct table *table, uint64_t bytes);

/* How wide text may be there: what COLUMNS says, or the terminal's width, or 80. */
size_t table_columns(FILE *out);

/* Titles, a rule, the rows. What is wider than COLUMNS says in the environment, than the terminal,
 * or than 80 columns elsewhere is printed in parts, each with the keys. A last row that is not full
 * is filled with empty cells. -ENOMEM: a cell is missing. -EIO: the stream has an error. */
int table_print(const struct table *table, FILE *out);

#endif
