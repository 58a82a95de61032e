/* SPDX-License-Identifier: Apache-2.0 */
/* Random programs that repeat a short script, so that plans are made, followed and dropped: see
 * model.h. */
#include <errno.h>

#include "tests/property/space_random/model.h"

#define SCRIPT_MAX 8u
#define SLOTS_MAX 4u

enum script_kind { SCRIPT_BRACKET, SCRIPT_ALLOC, SCRIPT_FREE, SCRIPT_HOST };

struct script_part {
	uint32_t slot, first, nr;
	enum weir_use_kind kind;
};

struct script_op {
	enum script_kind kind;
	uint32_t stream, nr_parts, slot;
	bool open; /* the bracket's launches may touch anything */
	struct script_part part[PARTS_MAX];
};

struct script {
	struct model_range *slot[SLOTS_MAX];
	uint32_t nr_cells[SLOTS_MAX]; /* of temporaries; others are there already */
	uint32_t nr_slots, nr_temporaries, nr_ops;
	struct script_op op[SCRIPT_MAX + SLOTS_MAX];
};

static void script_bracket(struct model *m, const struct script *s, const bool *live,
			   struct script_op *op)
{
	op->kind = one_in(m, 12) ? SCRIPT_HOST : SCRIPT_BRACKET;
	op->stream = one_in(m, 5);
	op->open = m->nr_own == 1 && one_in(m, 6);
	op->nr_parts = 0;
	for (uint32_t i = 0; i < 3; i++) {
		uint32_t slot = below(m, s->nr_slots);
		struct model_range shape = {.nr_cells = s->nr_cells[slot]};
		struct part part;

		if (!live[slot])
			continue;
		part = pick_part_of(m, &shape);
		op->part[op->nr_parts++] =
			(struct script_part){slot, part.first, part.nr, part.kind};
	}
}

static void script_make(struct model *m, struct script *s)
{
	bool live[SLOTS_MAX] = {false};
	uint32_t nr = 2 + below(m, SCRIPT_MAX - 1);

	memset(s, 0, sizeof(*s));
	while (s->nr_slots < 1 + below(m, SLOTS_MAX - 1)) {
		struct model_range *range = pick_live(m);
		bool temporary = !range || s->nr_slots == SLOTS_MAX - 1 || one_in(m, 3);

		live[s->nr_slots] = !temporary;
		s->slot[s->nr_slots] = temporary ? NULL : range;
		s->nr_cells[s->nr_slots++] =
			temporary ? CELLS_PER_BLOCK * (1 + below(m, 3)) : range->nr_cells;
	}
	while (s->nr_ops < nr) {
		struct script_op *op = &s->op[s->nr_ops++];
		uint32_t slot = below(m, s->nr_slots);

		if (!s->slot[slot] && !one_in(m, 3)) {
			*op = (struct script_op){.kind = live[slot] ? SCRIPT_FREE : SCRIPT_ALLOC,
						 .slot = slot};
			live[slot] = !live[slot];
		} else {
			script_bracket(m, s, live, op);
		}
	}
	for (uint32_t i = 0; i < s->nr_slots; i++)
		if (!s->slot[i] && live[i])
			s->op[s->nr_ops++] = (struct script_op){.kind = SCRIPT_FREE, .slot = i};
}

static void script_host(struct model *m, const struct part *part)
{
	struct weir_use use = use_of(part_addr(part), part_bytes(part), part->kind);
	int err = weir_host_begin(m->t.space, &use, 1);

	trace("host %s %u+%u at %p: %d\n", kind_name[part->kind], part->first, part->nr,
	      (void *)part->range->addr, err);
	do_check(&m->t);
	if (err) {
		assert_int_equal(err, -ENOMEM);
		return;
	}
	cpu_part(m, part);
	assert_int_equal(weir_host_end(m->t.space, &use, 1), 0);
	do_check(&m->t);
}

static void script_step(struct model *m, struct script *s, const struct script_op *op)
{
	struct part parts[PARTS_MAX];
	uint32_t nr = 0;

	switch (op->kind) {
	case SCRIPT_ALLOC:
		s->slot[op->slot] = alloc_range(m, m->cell_bytes, s->nr_cells[op->slot], 0);
		break;
	case SCRIPT_FREE:
		if (s->slot[op->slot] && s->slot[op->slot]->live)
			free_range(m, s->slot[op->slot]);
		s->slot[op->slot] = NULL;
		break;
	case SCRIPT_BRACKET:
	case SCRIPT_HOST:
		for (uint32_t i = 0; i < op->nr_parts; i++) {
			const struct script_part *part = &op->part[i];
			struct model_range *range = s->slot[part->slot];

			/* Freed, and perhaps something else by now. */
			if (!range || !range->live || range->nr_cells != s->nr_cells[part->slot])
				continue;
			parts[nr++] = (struct part){range, part->first, part->nr, part->kind};
		}
		if (!nr)
			break;
		if (op->kind == SCRIPT_HOST && m->mode == WEIR_PLANNED &&
		    parts[0].kind != WEIR_DISCARD)
			script_host(m, &parts[0]);
		else if (op->open)
			run_open(m, op->stream, parts, nr);
		else
			run_bracket(m, op->stream, parts, nr);
	}
}

void op_phase(struct model *m)
{
	/* Seldom, rarely or not at all something else happens in between. */
	uint32_t odds = one_in(m, 3) ? 0 : one_in(m, 2) ? 20 : 200, nr_iterations;
	struct script s;

	script_make(m, &s);
	nr_iterations = 5 + 60 / (s.nr_ops ? s.nr_ops : 1);
	trace("phase of %u operations, %u times\n", s.nr_ops, nr_iterations);
	for (uint32_t i = 0; i < nr_iterations; i++)
		for (uint32_t n = 0; n < s.nr_ops; n++) {
			m->quiet = true;
			script_step(m, &s, &s.op[n]);
			m->quiet = false;
			if (odds && one_in(m, odds))
				some_op(m);
		}
}
