/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of ranges, what launches do with them and in which order, allocation: see model.h. */
#include <errno.h>

#include "tests/property/space_random/model.h"

const char *const kind_name[] = {"read", "write", "overwrite", "discard"};
struct model_total model_total;
bool model_tracing;

static uint32_t fresh_seed(struct model *m)
{
	return ++m->last_seed;
}

/* ------------------------------------------------------------------ parts and their order */

struct model_range *pick_live(struct model *m)
{
	uint32_t at = below(m, NR_RANGES);

	for (uint32_t i = 0; i < NR_RANGES; i++)
		if (m->range[(at + i) % NR_RANGES].live)
			return &m->range[(at + i) % NR_RANGES];
	return NULL;
}

struct part pick_part_of(struct model *m, struct model_range *range)
{
	struct part part = {.range = range, .nr = range->nr_cells};

	part.kind = (enum weir_use_kind)below(m, 4);
	if (part.kind == WEIR_DISCARD && !one_in(m, 3))
		part.kind = WEIR_READ;
	if (one_in(m, 2))
		return part;
	part.first = below(m, range->nr_cells);
	part.nr = 1 + below(m, range->nr_cells - part.first);
	return part;
}

struct weir_use part_use(struct model *m, const struct part *part)
{
	struct weir_use use = use_of(part_addr(part), part_bytes(part), part->kind);

	/* Hints may be anything. */
	if (!m->quiet && one_in(m, 8)) {
		use.pattern = WEIR_RANDOM;
		use.granule = 64;
		use.read_bytes = below(m, 2) ? 64 : 1u << 20;
		use.write_bytes = 0;
	}
	return use;
}

bool is_pinned(const struct model *m, const struct model_range *range)
{
	for (uint32_t i = 0; i < m->nr_pinned; i++)
		if (m->pinned[i].range == range)
			return true;
	return false;
}

void sync_stream(struct model *m, uint32_t stream)
{
	assert_int_equal(weir_stream_sync(m->t.stream[stream]), 0);
	assert_int_equal(get_nr_wrong(&m->t), 0);
	for (uint32_t i = 0; i < NR_RANGES; i++) {
		m->range[i].readers &= ~(1u << stream);
		m->range[i].writers &= ~(1u << stream);
		m->range[i].loose &= ~(1u << stream);
	}
}

void order_part(struct model *m, uint32_t stream, const struct part *part)
{
	for (uint32_t s = 0; s < NR_STREAMS; s++) {
		uint32_t busy = part->range->writers;

		if (part->kind != WEIR_READ)
			busy |= part->range->readers;
		if (s != stream && busy & 1u << s)
			sync_stream(m, s);
	}
}

void plan_cells(struct model *m, const struct part *part, struct test_cell *cells)
{
	/* Writes that write nothing, as launches of which nobody knows what they write may. */
	bool writes = part->kind == WEIR_WRITE && !one_in(m, 3);

	for (uint32_t i = 0; i < part->nr; i++) {
		uint32_t *seed = &part->range->seed[part->first + i];
		bool put = part->kind == WEIR_OVERWRITE || (writes && below(m, 2));

		cells[i].expect = part->kind == WEIR_OVERWRITE ? 0 : *seed;
		cells[i].put = put ? fresh_seed(m) : 0;
		if (put)
			*seed = cells[i].put;
	}
}

void forget_cells(const struct part *part)
{
	memset(&part->range->seed[part->first], 0, part->nr * sizeof(uint32_t));
}

void launch_part(struct model *m, uint32_t stream, const struct part *part)
{
	struct test_cell cells[CELLS_MAX];

	if (part->kind == WEIR_DISCARD)
		return;
	plan_cells(m, part, cells);
	assert_int_equal(do_launch_cells_try(&m->t, stream, part_addr(part),
					     part->range->cell_bytes, cells, part->nr, part->kind),
			 0);
}

/* ------------------------------------------------------------------ allocation */

static uint64_t nr_live_blocks(struct model *m)
{
	return get_stats(&m->t).live_bytes / m->t.block_bytes;
}

struct model_range *alloc_range(struct model *m, uint64_t cell_bytes, uint32_t nr_cells,
				uint32_t stream)
{
	uint64_t bytes = cell_bytes * nr_cells, blocks = (bytes - 1) / m->t.block_bytes + 1;
	struct model_range *range = NULL;
	void *addr;
	int err;

	for (uint32_t i = 0; i < NR_RANGES && !range; i++)
		if (!m->range[i].live && !is_pinned(m, &m->range[i]))
			range = &m->range[i];
	if (!range)
		return NULL;
	err = weir_alloc(m->t.space, bytes, stream < NR_STREAMS ? m->t.stream[stream] : NULL,
			 &addr);
	trace("alloc %llu stream %u: %d\n", (unsigned long long)bytes, stream, err);
	do_check(&m->t);
	if (err) {
		assert_int_equal(err, -ENOMEM);
		assert_true(nr_live_blocks(m) + blocks + 2 > m->nr_blocks);
		return NULL;
	}
	memset(range, 0, sizeof(*range));
	range->live = true;
	range->life = ++m->last_life;
	range->addr = addr;
	range->cell_bytes = cell_bytes;
	range->nr_cells = nr_cells;
	/* Used first on that stream, or behind it. */
	range->writers = stream < NR_STREAMS ? 1u << stream : 0;
	return range;
}

void op_alloc(struct model *m)
{
	static const uint32_t nr_blocks[] = {1, 1, 2, 2, 3, BLOCKS_MAX};
	uint32_t stream = below(m, NR_STREAMS + 1), nr;

	if (one_in(m, 4)) {
		(void)alloc_range(m, SMALL_CELL, 1 + below(m, 12), stream);
		return;
	}
	nr = nr_blocks[below(m, ARRAY_LEN(nr_blocks))] * CELLS_PER_BLOCK;
	(void)alloc_range(m, m->cell_bytes, nr - one_in(m, 4), stream);
}

void free_range(struct model *m, struct model_range *range)
{
	uint32_t busy = range->readers | range->writers, stream = below(m, NR_STREAMS + 1);

	if (m->mode == WEIR_FIXED && busy & (busy - 1))
		stream = NR_STREAMS;
	else if (m->mode == WEIR_FIXED && busy && stream < NR_STREAMS)
		stream = (uint32_t)__builtin_ctz(busy);
	trace("free %p stream %u\n", (void *)range->addr, stream);
	assert_int_equal(weir_free(m->t.space, range->addr,
				   stream < NR_STREAMS ? m->t.stream[stream] : NULL),
			 0);
	do_check(&m->t);
	range->live = false;
}