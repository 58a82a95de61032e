/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How kernels cut a count into parts for the pool.
 */
#ifndef WEIR_GCN_PARTS_H
#define WEIR_GCN_PARTS_H

#include <stdint.h>

struct gcn_run {
	uint64_t first, end;
};

/* Parts of unit each that cover nr. */
static inline uint64_t gcn_nr_parts(uint64_t nr, uint64_t unit)
{
	return nr / unit + (nr % unit != 0);
}

static inline struct gcn_run gcn_part(uint64_t part, uint64_t unit, uint64_t nr)
{
	uint64_t first = part * unit;

	return (struct gcn_run){first, unit < nr - first ? first + unit : nr};
}

/* Rows of about 256 KiB: a part is worth the handing out, and many fit the count of rows. */
static inline uint64_t gcn_rows_unit(uint32_t width)
{
	uint64_t rows = 65536 / width;

	return rows ? rows : 1;
}

#endif
