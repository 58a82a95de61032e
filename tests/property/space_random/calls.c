/* SPDX-License-Identifier: Apache-2.0 */
/* What the random programs ask of a space besides brackets: see model.h. */
#include <errno.h>

#include "tests/property/space_random/model.h"

/* ------------------------------------------------------------------ the CPU's side */

void cpu_part(struct model *m, const struct part *part)
{
	struct test_cell cells[CELLS_MAX];

	plan_cells(m, part, cells);
	for (uint32_t i = 0; i < part->nr; i++) {
		uint64_t bytes = part->range->cell_bytes;
		uint8_t *at = (uint8_t *)part_addr(part) + i * bytes;

		if (cells[i].expect)
			assert_int_equal(pattern_wrong(at, at, bytes, cells[i].expect), 0);
		if (cells[i].put)
			pattern_put(at, at, bytes, cells[i].put);
	}
}

static void op_host(struct model *m)
{
	uint32_t nr = 1 + below(m, 2);
	struct weir_use uses[2];
	struct part parts[2];
	int err;

	if (m->mode == WEIR_FIXED)
		return;
	for (uint32_t i = 0; i < nr; i++) {
		struct model_range *range = pick_live(m);

		if (!range || m->open)
			return;
		parts[i] = pick_part_of(m, range);
		if (parts[i].kind == WEIR_DISCARD)
			parts[i].kind = WEIR_READ;
		uses[i] = use_of(part_addr(&parts[i]), part_bytes(&parts[i]), parts[i].kind);
		trace("host %s %u+%u at %p\n", kind_name[parts[i].kind], parts[i].first,
		      parts[i].nr, (void *)range->addr);
	}
	err = weir_host_begin(m->t.space, uses, nr);
	do_check(&m->t);
	if (err) {
		trace("host: %d\n", err);
		assert_int_equal(err, -ENOMEM);
		return;
	}
	for (uint32_t i = 0; i < nr; i++)
		cpu_part(m, &parts[i]);
	if (one_in(m, 4)) {
		/* Beside it a stream may not write. */
		struct weir_use use = uses[below(m, nr)];

		use.kind = one_in(m, 2) ? WEIR_WRITE : WEIR_OVERWRITE;
		assert_int_equal(weir_begin(m->t.space, m->t.stream[below(m, NR_STREAMS)], &use, 1),
				 -EBUSY);
		do_check(&m->t);
	}
	assert_int_equal(weir_host_end(m->t.space, uses, nr), 0);
	do_check(&m->t);
}

static void op_copy(struct model *m)
{
	struct model_range *range = pick_live(m);
	uint8_t *buffer = m->buffer;
	struct test_cell cells[CELLS_MAX];
	struct part part;

	if (!range || m->open)
		return;
	part = pick_part_of(m, range);
	part.kind = one_in(m, 2) ? WEIR_OVERWRITE : WEIR_READ;
	trace("%s %u+%u of %u cells at %p\n", part.kind == WEIR_READ ? "read" : "write", part.first,
	      part.nr, range->nr_cells, (void *)range->addr);
	plan_cells(m, &part, cells);
	for (uint32_t i = 0; i < part.nr && part.kind == WEIR_OVERWRITE; i++)
		pattern_put(buffer + i * range->cell_bytes,
			    (uint8_t *)part_addr(&part) + i * range->cell_bytes, range->cell_bytes,
			    cells[i].put);
	if (part.kind == WEIR_OVERWRITE)
		assert_int_equal(
			weir_write(m->t.space, part_addr(&part), buffer, part_bytes(&part)), 0);
	else
		assert_int_equal(weir_read(m->t.space, buffer, part_addr(&part), part_bytes(&part)),
				 0);
	do_check(&m->t);
	for (uint32_t i = 0; i < part.nr; i++)
		if (cells[i].expect)
			assert_int_equal(
				pattern_wrong(buffer + i * range->cell_bytes,
					      (uint8_t *)part_addr(&part) + i * range->cell_bytes,
					      range->cell_bytes, cells[i].expect),
				0);
}

/* ------------------------------------------------------------------ hints, modes */

/* A memory that the space uses. */
static uint32_t pick_memory(struct model *m)
{
	uint32_t at = below(m, 2 + 2 * m->nr_near);

	if (at < 2 * m->nr_near)
		return m->near[at / 2];
	return one_in(m, 3) ? HOST : m->own[below(m, m->nr_own)];
}

static void op_prefetch(struct model *m)
{
	struct weir_fence **fence = &m->fence[below(m, NR_FENCES)];
	struct model_range *range = pick_live(m);
	struct part part;
	int err;

	if (*fence) {
		trace("fence\n");
		err = one_in(m, 2) ? weir_fence_wait(*fence) : weir_fence_query(*fence);
		assert_true(err >= 0 || err == -ENOMEM);
		weir_fence_put(*fence);
		*fence = NULL;
	}
	if (!range)
		return;
	part = pick_part_of(m, range);
	/* To one place after another: the next one waits for the copies of the last. */
	for (uint32_t hops = below(m, 1 + m->nr_near); hops-- > 0;)
		assert_int_equal(weir_prefetch(m->t.space, part_addr(&part), part_bytes(&part),
					       m->near[below(m, m->nr_near)], NULL),
				 0);
	err = weir_prefetch(m->t.space, part_addr(&part), part_bytes(&part), pick_memory(m),
			    one_in(m, 3) ? NULL : fence);
	trace("prefetch %u+%u at %p: %d\n", part.first, part.nr, (void *)range->addr, err);
	assert_true(!err || err == -ENOMEM);
}

static void op_advise(struct model *m)
{
	struct model_range *range = pick_live(m);
	enum weir_advice advice = (enum weir_advice)below(m, 4);
	uint32_t where;

	if (!range)
		return;
	where = pick_memory(m);
	if (advice == WEIR_ADVISE_ACCESSED_BY)
		where = below(m, m->t.desc.nr_devices);
	trace("advise %d %p\n", (int)advice, (void *)range->addr);
	assert_int_equal(weir_advise(m->t.space, range->addr, advice, where), 0);
}

/* A budget of one of the memories changes. */
static void op_budget(struct model *m)
{
	uint32_t memory = pick_memory(m);
	uint64_t block = m->t.block_bytes, scale = m->cell_bytes * CELLS_PER_BLOCK / block;
	uint64_t nr = (2 + below(m, memory == HOST ? 20 : 8)) * scale;
	uint64_t *old = &m->budget[memory];
	int err;

	if (memory != HOST && !is_own(m, memory) && one_in(m, 4))
		nr = 0;
	err = weir_space_set_budget(m->t.space, memory, nr * block);
	trace("budget of memory %u: %llu of %llu blocks: %d\n", memory, (unsigned long long)nr,
	      (unsigned long long)*old, err);
	/* Arenas; nowhere else to be; an open bracket, or a fixed space. */
	assert_true(!err || err == -EINVAL || err == -ENOMEM || err == -EBUSY);
	assert_true(err != -EBUSY || m->open || m->mode == WEIR_FIXED);
	if (err == -EINVAL || err == -ENOMEM)
		return;
	if (!err)
		assert_true(get_stats(&m->t).memory[memory].bytes <= nr * block);
	model_total.nr_budgets[nr < *old]++;
	m->nr_blocks += nr - *old;
	m->most_blocks = m->nr_blocks > m->most_blocks ? m->nr_blocks : m->most_blocks;
	*old = nr;
}

static void op_mode(struct model *m)
{
	enum weir_space_mode mode = m->mode == WEIR_FIXED ? WEIR_PLANNED : WEIR_FIXED;
	int err = weir_space_set_mode(m->t.space, mode);

	trace("mode %d: %d\n", (int)mode, err);
	if (m->open) {
		assert_int_equal(err, -WEIR_ECONTRACT);
		return;
	}
	assert_int_equal(err, 0);
	m->mode = mode;
}

static void op_sync(struct model *m)
{
	trace("sync\n");
	if (one_in(m, 2)) {
		sync_stream(m, below(m, NR_STREAMS));
		return;
	}
	assert_int_equal(weir_space_sync(m->t.space), 0);
}

void some_op(struct model *m)
{
	struct model_range *range;

	switch (below(m, 16)) {
	case 0:
	case 1:
	case 2:
		op_alloc(m);
		break;
	case 3:
	case 4:
		range = pick_live(m);
		if (range && !is_pinned(m, range))
			free_range(m, range);
		break;
	case 5:
	case 6:
		op_host(m);
		break;
	case 7:
	case 8:
		op_copy(m);
		break;
	case 9:
	case 10:
		op_prefetch(m);
		break;
	case 11:
		op_advise(m);
		break;
	case 12:
		if (one_in(m, 4))
			op_mode(m);
		else
			op_budget(m);
		break;
	case 13:
		op_policy(m);
		break;
	default:
		op_sync(m);
	}
	do_check(&m->t);
}
