/* SPDX-License-Identifier: Apache-2.0 */
#include "workloads/matrix/contents.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "workloads/graph/gen.h"

#define FACTOR_BITS 2u /* which of four values */
#define LARGEST_FACTOR 3
#define EXACT_IN_FLOAT (1u << 24)

_Static_assert(MATRIX_SIZE_MAX == 1u << MATRIX_RANK * FACTOR_BITS, "as many as factors tell apart");

/* What each is drawn from; values are part of what makes contents repeatable. */
enum purpose { ROW_FACTORS, COLUMN_FACTORS, ROW_IN, ROW_OUT, COLUMN_IN, COLUMN_OUT };

struct matrix_vectors matrix_vectors_at(const struct matrix_params *p, void *all)
{
	struct matrix_vectors v = {.all = all, .row_in = all};

	if (!all)
		return v;
	v.row_out = v.row_in + p->columns;
	v.column_in = v.row_out + p->rows;
	v.column_out = v.column_in + p->rows;
	if (p->kind == MATRIX_ATAX)
		v.column_in = v.row_out;
	return v;
}

/* -3, -1, 1 or 3, by two bits. */
static int odd(uint64_t bits)
{
	return 2 * (int)(bits & 3) - LARGEST_FACTOR;
}

/* Where rows, or columns, begin, and how far apart factors of one are. */
static void factors_init(float *factor, uint32_t nr, uint32_t apart, uint32_t next, uint64_t seed)
{
	struct gen names = gen_init(GEN_UNIFORM, MATRIX_RANK * FACTOR_BITS, seed);

	for (uint32_t i = 0; i < nr; i++) {
		uint64_t name = gen_rename(&names, i);

		for (uint32_t k = 0; k < MATRIX_RANK; k++, name >>= FACTOR_BITS)
			factor[(size_t)i * next + (size_t)k * apart] = (float)odd(name);
	}
}

static float row_factor(const struct matrix_contents *c, uint32_t row, uint32_t k)
{
	return c->row[(size_t)row * MATRIX_RANK + k];
}

static float column_factor(const struct matrix_contents *c, uint32_t column, uint32_t k)
{
	return c->column[(size_t)k * c->columns + column];
}

void matrix_contents_piece(const struct matrix_contents *c, uint32_t row, uint32_t column,
			   float *restrict piece)
{
	memset(piece, 0, MATRIX_PIECE_BYTES);
	for (uint32_t k = 0; k < MATRIX_RANK; k++) {
		const float *restrict factor = c->column + (size_t)k * c->columns + column;
		float times = row_factor(c, row, k);

		for (uint32_t j = 0; j < MATRIX_PIECE; j++)
			piece[j] += times * factor[j];
	}
}

/* ------------------------------------------------------------------ vectors */

static void odd_init(int64_t *vector, uint32_t nr, uint64_t key)
{
	for (uint32_t i = 0; i < nr; i++)
		vector[i] = odd(gen_bits(key, i));
}

static void any_init(int64_t *vector, uint32_t nr, uint64_t key)
{
	for (uint32_t i = 0; i < nr; i++)
		vector[i] = (int64_t)(gen_bits(key, i) >> 32 & 255) - 128;
}

/*
 * For atax, whose sums along rows are multiplied with elements once more: signs such that these
 * sums stay small, each against what has added up. And the first one is even, so that the sums are
 * odd: none of them is 0.
 */
static void balance(const struct matrix_contents *c, int64_t *in)
{
	int64_t sum[MATRIX_RANK] = {0};

	for (uint32_t j = 0; j < c->columns; j++) {
		int64_t value = j ? llabs(in[j]) : 2, along = 0;

		for (uint32_t k = 0; k < MATRIX_RANK; k++)
			along += sum[k] * (int64_t)column_factor(c, j, k);
		in[j] = along > 0 ? -value : value;
		for (uint32_t k = 0; k < MATRIX_RANK; k++)
			sum[k] += in[j] * (int64_t)column_factor(c, j, k);
	}
}

static void begin_init(struct matrix_contents *c, const struct matrix_params *p, uint64_t key)
{
	struct matrix_vectors *v = &c->begin;

	odd_init(v->row_in, c->columns, gen_bits(key, ROW_IN));
	if (p->kind == MATRIX_ATAX)
		balance(c, v->row_in);
	else
		odd_init(v->column_in, c->rows, gen_bits(key, COLUMN_IN));
	if (p->kind != MATRIX_MVT)
		return;
	any_init(v->row_out, c->rows, gen_bits(key, ROW_OUT));
	any_init(v->column_out, c->columns, gen_bits(key, COLUMN_OUT));
}

static void end_init(struct matrix_contents *c)
{
	int64_t along_row[MATRIX_RANK] = {0}, along_column[MATRIX_RANK] = {0};

	for (uint32_t j = 0; j < c->columns; j++)
		for (uint32_t k = 0; k < MATRIX_RANK; k++)
			along_row[k] += (int64_t)column_factor(c, j, k) * c->end.row_in[j];
	for (uint32_t i = 0; i < c->rows; i++)
		for (uint32_t k = 0; k < MATRIX_RANK; k++)
			c->end.row_out[i] += (int64_t)row_factor(c, i, k) * along_row[k];
	/* Of atax, what has just been made. */
	for (uint32_t i = 0; i < c->rows; i++)
		for (uint32_t k = 0; k < MATRIX_RANK; k++)
			along_column[k] += (int64_t)row_factor(c, i, k) * c->end.column_in[i];
	for (uint32_t j = 0; j < c->columns; j++)
		for (uint32_t k = 0; k < MATRIX_RANK; k++)
			c->end.column_out[j] += (int64_t)column_factor(c, j, k) * along_column[k];
}

static int64_t largest(const int64_t *vector, uint32_t nr, int64_t most)
{
	for (uint32_t i = 0; i < nr; i++)
		if (llabs(vector[i]) > most)
			most = llabs(vector[i]);
	return most;
}

/* ------------------------------------------------------------------ all of it */

int matrix_contents_init(struct matrix_contents *c, const struct matrix_params *p)
{
	const uint64_t bytes = matrix_vectors_bytes(p), key = gen_bits(p->seed, p->kind);
	const int64_t element = (int64_t)LARGEST_FACTOR * LARGEST_FACTOR * MATRIX_RANK;
	int64_t in;

	*c = (struct matrix_contents){
		.rows = p->rows,
		.columns = p->columns,
		.row = calloc(p->rows, MATRIX_RANK * sizeof(*c->row)),
		.column = calloc(p->columns, MATRIX_RANK * sizeof(*c->column)),
		.begin = matrix_vectors_at(p, calloc(1, bytes)),
		.end = matrix_vectors_at(p, calloc(1, bytes)),
	};
	if (!c->row || !c->column || !c->begin.all || !c->end.all) {
		matrix_contents_fini(c);
		return -EAGAIN;
	}
	factors_init(c->row, c->rows, 1, MATRIX_RANK, gen_bits(key, ROW_FACTORS));
	factors_init(c->column, c->columns, c->columns, 1, gen_bits(key, COLUMN_FACTORS));
	begin_init(c, p, key);
	memcpy(c->end.all, c->begin.all, bytes);
	end_init(c);
	in = largest(c->end.column_in, c->rows, largest(c->end.row_in, c->columns, 1));
	c->exact = (uint32_t)(EXACT_IN_FLOAT / (element * in));
	return 0;
}

void matrix_contents_fini(struct matrix_contents *c)
{
	free(c->row);
	free(c->column);
	free(c->begin.all);
	free(c->end.all);
	*c = (struct matrix_contents){.rows = 0};
}
