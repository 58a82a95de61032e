/* SPDX-License-Identifier: Apache-2.0 */
/* Brackets of the random programs, on several streams, and launches outside them: see model.h. */
#include <errno.h>

#include "tests/property/space_random/model.h"

void begin_parts(struct model *m, uint32_t stream, const struct part *parts, uint32_t nr)
{
	struct weir_use uses[PARTS_MAX];

	for (uint32_t i = 0; i < nr; i++) {
		uses[i] = part_use(m, &parts[i]);
		trace("begin stream %u: %s %u+%u of %u cells at %p\n", stream,
		      kind_name[parts[i].kind], parts[i].first, parts[i].nr,
		      parts[i].range->nr_cells, (void *)parts[i].range->addr);
	}
	assert_int_equal(weir_begin(m->t.space, m->t.stream[stream], uses, nr), 0);
	m->open |= 1u << stream;
	do_check(&m->t);
}

void end_parts(struct model *m, uint32_t stream, const struct part *parts, uint32_t nr)
{
	trace("end stream %u\n", stream);
	assert_int_equal(weir_end(m->t.space, m->t.stream[stream]), 0);
	m->open &= ~(1u << stream);
	do_check(&m->t);
	for (uint32_t i = 0; i < nr; i++) {
		if (parts[i].kind == WEIR_DISCARD)
			forget_cells(&parts[i]);
		if (parts[i].kind == WEIR_READ)
			parts[i].range->readers |= 1u << stream;
		else
			parts[i].range->writers |= 1u << stream;
	}
}

void forbidden(struct model *m, uint32_t stream, const struct part *part)
{
	struct weir_use use = use_of(part_addr(part), part_bytes(part), WEIR_READ);
	uint8_t byte[1];

	/* What is discarded only may move. */
	switch (part->kind == WEIR_DISCARD ? 2 + below(m, 3) : below(m, 5)) {
	case 0:
		assert_int_equal(weir_host_begin(m->t.space, &use, 1), -EBUSY);
		break;
	case 1:
		assert_int_equal(weir_read(m->t.space, byte, part_addr(part), 1), -EBUSY);
		break;
	case 2:
		assert_int_equal(weir_space_set_mode(m->t.space, WEIR_FIXED), -WEIR_ECONTRACT);
		break;
	case 3:
		assert_int_equal(weir_begin(m->t.space, m->t.stream[stream], &use, 1),
				 -WEIR_ECONTRACT);
		break;
	default:
		assert_int_equal(weir_host_end(m->t.space, &use, 1), -WEIR_ECONTRACT);
	}
	do_check(&m->t);
}

/* Whether a part conflicts with the open bracket. */
static bool meets_pinned(const struct model *m, const struct part *part)
{
	for (uint32_t i = 0; i < m->nr_pinned; i++) {
		const struct part *p = &m->pinned[i];

		if (p->range == part->range && p->first < part->first + part->nr &&
		    part->first < p->first + p->nr &&
		    (p->kind != WEIR_READ || part->kind != WEIR_READ))
			return true;
	}
	return false;
}

/* A bracket inside the open one, on another stream, on what does not conflict. */
static void nested_bracket(struct model *m, uint32_t stream)
{
	struct part part;
	struct model_range *range = pick_live(m);

	if (!range)
		return;
	part = pick_part_of(m, range);
	if (meets_pinned(m, &part))
		return;
	begin_parts(m, stream, &part, 1);
	launch_part(m, stream, &part);
	end_parts(m, stream, &part, 1);
}

void run_bracket(struct model *m, uint32_t stream, const struct part *parts, uint32_t nr)
{
	begin_parts(m, stream, parts, nr);
	memcpy(m->pinned, parts, nr * sizeof(*parts));
	m->nr_pinned = nr;
	if (!m->quiet && one_in(m, 4))
		forbidden(m, stream, &parts[below(m, nr)]);
	for (uint32_t i = 0; i < nr; i++)
		launch_part(m, stream, &parts[i]);
	/* Until the end counts it, for whoever asks in between. */
	for (uint32_t i = 0; i < nr; i++)
		parts[i].range->writers |= 1u << stream;
	if (!m->quiet && one_in(m, 6))
		nested_bracket(m, (stream + 1) % NR_STREAMS);
	if (!m->quiet && one_in(m, 8))
		some_op(m);
	if (!m->quiet && one_in(m, 16) && nr && parts[0].range->live)
		free_range(m, parts[0].range);
	end_parts(m, stream, parts, nr);
	m->nr_pinned = 0;
}

void op_bracket(struct model *m)
{
	struct part parts[PARTS_MAX];
	uint32_t nr = 1 + below(m, PARTS_MAX), stream = below(m, NR_STREAMS);

	for (uint32_t i = 0; i < nr; i++) {
		struct model_range *range = pick_live(m);

		if (!range)
			return;
		parts[i] = pick_part_of(m, range);
	}
	run_bracket(m, stream, parts, nr);
}

void op_whole_space(struct model *m)
{
	uint32_t stream = below(m, NR_STREAMS);
	struct part part;

	trace("begin stream %u: whole space\n", stream);
	assert_int_equal(weir_begin(m->t.space, m->t.stream[stream], NULL, 0), 0);
	do_check(&m->t);
	for (uint32_t i = 0; i < NR_RANGES; i++) {
		if (!m->range[i].live)
			continue;
		part = (struct part){&m->range[i], 0, m->range[i].nr_cells, WEIR_WRITE};
		launch_part(m, stream, &part);
		m->range[i].writers |= 1u << stream;
	}
	assert_int_equal(weir_end(m->t.space, m->t.stream[stream]), 0);
	do_check(&m->t);
}

/* In a fixed space kernels run without brackets; weir knows nothing of them, so they are waited
 * for before anything else is asked of it. */
void op_launch_alone(struct model *m)
{
	struct model_range *range = pick_live(m);
	uint32_t stream = below(m, NR_STREAMS);
	struct part part;

	if (!range || m->mode != WEIR_FIXED)
		return;
	part = pick_part_of(m, range);
	order_part(m, stream, &part);
	trace("launch stream %u alone: %s %u+%u at %p\n", stream, kind_name[part.kind], part.first,
	      part.nr, (void *)range->addr);
	launch_part(m, stream, &part);
	sync_stream(m, stream);
}