/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Open brackets of the random programs, whose launches may touch any range: see model.h. What they
 * touch and do not name has no order with the same of others; the model orders launches that touch
 * the same range. All else is the space's to order.
 */
#include <errno.h>

#include "tests/property/space_random/model.h"

#define TOUCHED_MAX 3u

/* What a bracket touches and does not name, of ranges as they were when it began. */
struct touched {
	struct part part[TOUCHED_MAX];
	uint32_t life[TOUCHED_MAX];
	uint32_t nr;
};

static void draw_touched(struct model *m, struct touched *touched)
{
	touched->nr = 0;
	for (uint32_t n = below(m, TOUCHED_MAX + 1); n-- > 0;) {
		struct model_range *range = pick_live(m);
		struct part part;

		if (!range)
			return;
		part = pick_part_of(m, range);
		if (part.kind == WEIR_DISCARD)
			part.kind = WEIR_WRITE;
		touched->life[touched->nr] = range->life;
		touched->part[touched->nr++] = part;
	}
}

/* Launch on what is touched, if it is still there. */
static void touch(struct model *m, uint32_t stream, const struct touched *touched)
{
	for (uint32_t i = 0; i < touched->nr; i++) {
		const struct part *part = &touched->part[i];
		struct model_range *range = part->range;

		if (!range->live || range->life != touched->life[i])
			continue;
		for (uint32_t s = 0; s < NR_STREAMS; s++)
			if (s != stream && range->loose & 1u << s)
				sync_stream(m, s);
		trace("touch stream %u: %s %u+%u at %p\n", stream, kind_name[part->kind],
		      part->first, part->nr, (void *)range->addr);
		launch_part(m, stream, part);
		range->writers |= 1u << stream;
		range->loose |= 1u << stream;
	}
}

static void begin_open(struct model *m, uint32_t stream, const struct part *parts, uint32_t nr)
{
	struct weir_use uses[PARTS_MAX];

	trace("begin stream %u: open\n", stream);
	for (uint32_t i = 0; i < nr; i++) {
		uses[i] = part_use(m, &parts[i]);
		trace("  %s %u+%u of %u cells at %p\n", kind_name[parts[i].kind], parts[i].first,
		      parts[i].nr, parts[i].range->nr_cells, (void *)parts[i].range->addr);
	}
	assert_int_equal(weir_begin_open(m->t.space, m->t.stream[stream], nr ? uses : NULL, nr), 0);
	do_check(&m->t);
	m->open |= 1u << stream;
	model_total.nr_open++;
	for (uint32_t i = 0; i < nr; i++)
		if (parts[i].kind == WEIR_DISCARD)
			forget_cells(&parts[i]);
}

static void end_open(struct model *m, uint32_t stream)
{
	trace("end stream %u\n", stream);
	assert_int_equal(weir_end(m->t.space, m->t.stream[stream]), 0);
	m->open &= ~(1u << stream);
	do_check(&m->t);
}

/* One that is open beside another one; neither names anything. */
static void open_beside(struct model *m, uint32_t stream)
{
	struct touched touched;

	draw_touched(m, &touched);
	begin_open(m, stream, NULL, 0);
	touch(m, stream, &touched);
	if (one_in(m, 4))
		some_op(m);
	end_open(m, stream);
	model_total.nr_beside++;
}

void run_open(struct model *m, uint32_t stream, const struct part *parts, uint32_t nr)
{
	struct touched first, last;

	draw_touched(m, &first);
	draw_touched(m, &last);
	begin_open(m, stream, parts, nr);
	memcpy(m->pinned, parts, nr * sizeof(*parts));
	m->nr_pinned = nr;
	if (!m->quiet && first.nr && one_in(m, 4))
		forbidden(m, stream, &first.part[0]);
	for (uint32_t i = 0; i < nr; i++) {
		launch_part(m, stream, &parts[i]);
		parts[i].range->writers |= 1u << stream;
	}
	touch(m, stream, &first);
	if (!m->quiet && !nr && one_in(m, 2))
		open_beside(m, (stream + 1 + below(m, NR_STREAMS - 1)) % NR_STREAMS);
	if (!m->quiet && one_in(m, 3))
		some_op(m);
	touch(m, stream, &last);
	if (!m->quiet && one_in(m, 8) && first.nr && first.part[0].range->live)
		free_range(m, first.part[0].range);
	end_open(m, stream);
	m->nr_pinned = 0;
}

/* One of them, on any stream, which in half of all cases names nothing. */
static void open_any(struct model *m)
{
	uint32_t nr = one_in(m, 2) ? 0 : below(m, PARTS_MAX + 1), stream = below(m, NR_STREAMS);
	struct part parts[PARTS_MAX] = {{NULL}};

	for (uint32_t i = 0; i < nr; i++) {
		struct model_range *range = pick_live(m);

		if (!range)
			return;
		parts[i] = pick_part_of(m, range);
	}
	run_open(m, stream, parts, nr);
}

void op_open(struct model *m)
{
	if (m->nr_own > 1) {
		assert_int_equal(weir_begin_open(m->t.space, m->t.stream[0], NULL, 0), -ENOTSUP);
		return;
	}
	for (uint32_t n = 1 + below(m, 3); n-- > 0;)
		open_any(m);
}
