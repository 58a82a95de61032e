/* SPDX-License-Identifier: Apache-2.0 */
/* Brackets of the random programs, many of them open together: see model.h. */
#include <errno.h>

#include "tests/property/replica_random/model.h"
#include "weir/replica.h"

static const char *const kind_name[] = {"read", "write", "overwrite", "discard"};

static void trace_part(const struct part *part)
{
	trace("  %s%s %s of range %u: words %u+%u\n", kind_name[part->kind],
	      part->elements ? " elements" : "", part->window ? "window" : "one copy", part->range,
	      part->first, part->nr);
}

/* Words that a part writes are not looked at any more, by those who see them in `seeds`. */
static void forget(uint32_t *seeds, const struct part *part)
{
	memset(&seeds[part->first], 0, part->nr * sizeof(*seeds));
}

/* What a bracket sees as it begins, and what others do not see any more. */
static void take_view(struct model *m, struct bracket *b)
{
	for (uint32_t r = 0; r < NR_RANGES; r++)
		memcpy(b->seed[r], m->range[r].seed, sizeof(b->seed[r]));
	for (struct bracket *o = m->bracket; o < m->bracket + NR_BRACKETS; o++) {
		for (uint32_t i = 0; o->open && o != b && i < o->nr; i++)
			if (o->part[i].kind != WEIR_READ)
				forget(b->seed[o->part[i].range], &o->part[i]);
		for (uint32_t i = 0; o->open && o != b && i < b->nr; i++) {
			if (b->part[i].kind == WEIR_READ)
				continue;
			forget(o->seed[b->part[i].range], &b->part[i]);
			for (uint32_t u = 0; u < o->nr; u++)
				model_total.nr_unordered += parts_meet(&b->part[i], &o->part[u]);
		}
		model_total.nr_nested += o->open && o != b;
	}
	/* What it overwrites or discards is undefined until its launches write it, unless another
	 * use of it needs it. */
	for (uint32_t i = 0; i < b->nr; i++) {
		bool needed = b->part[i].kind == WEIR_READ || b->part[i].kind == WEIR_WRITE;

		for (uint32_t u = 0; u < b->nr; u++)
			needed |= b->part[u].kind < b->part[i].kind &&
				  b->part[u].kind != WEIR_OVERWRITE &&
				  parts_meet(&b->part[i], &b->part[u]);
		if (!needed)
			forget(b->seed[b->part[i].range], &b->part[i]);
		if (b->part[i].kind == WEIR_DISCARD)
			forget(b->seed[b->part[i].range], &b->part[i]);
	}
}

/* What a begin that failed may have given up. */
static void lose(struct model *m, const struct bracket *b)
{
	for (uint32_t i = 0; i < b->nr; i++)
		if (b->part[i].kind >= WEIR_OVERWRITE)
			forget(m->range[b->part[i].range].seed, &b->part[i]);
}

/* 1 to 3 parts of a bracket; false: nothing is there. */
static bool pick_parts(struct model *m, struct bracket *b, uint32_t device)
{
	b->nr = 1 + below(m, USES_MAX);
	for (uint32_t i = 0; i < b->nr; i++) {
		int range = pick_live(m);

		if (range < 0)
			return false;
		b->part[i] = pick_part(m, (uint32_t)range, device);
		/* A discard of blocks that another use names would be a write. */
		if (b->nr > 1 && b->part[i].kind == WEIR_DISCARD)
			b->part[i].kind = WEIR_READ;
		/* Not the same bytes at the one copy and through a window; see wrong calls. */
		for (uint32_t u = 0; u < i; u++)
			if (parts_meet(&b->part[i], &b->part[u]) &&
			    b->part[i].window != b->part[u].window)
				return false;
		b->uses[i] = part_use(&b->part[i]);
	}
	return true;
}

/* What of its parts it is brought, where that is not all. */
static void take_lists(const struct model *m, struct bracket *b, uint32_t device)
{
	for (uint32_t i = 0; i < b->nr; i++) {
		const struct model_range *range = &m->range[b->part[i].range];
		bool has_list = b->part[i].window && range->has_list[device];

		for (uint32_t w = 0; b->part[i].elements && w < range->nr_words; w++)
			b->listed[i][w] = !has_list || range->listed[device][w];
	}
}

static void opened(struct model *m, struct bracket *b)
{
	if (b != &m->bracket[HOST_BRACKET])
		take_lists(m, b, m->device[b - m->bracket]);
	take_view(m, b);
	b->open = true;
	for (uint32_t i = 0; i < b->nr; i++)
		m->range[b->part[i].range].nr_names++;
	model_total.nr_begins++;
}

/* Begin the bracket of a stream, whose parts are there. */
static void begin(struct model *m, uint32_t stream)
{
	struct bracket *b = &m->bracket[stream];
	int err, other = find_contradiction(m, b->part, b->nr);

	if (other >= 0 && other != HOST_BRACKET)
		return;
	err = weir_begin(m->t.space, m->stream[stream], b->uses, b->nr);
	trace("begin stream %u of device %u: %d\n", stream, m->device[stream], err);
	for (uint32_t i = 0; i < b->nr; i++)
		trace_part(&b->part[i]);
	do_check(&m->t);
	if (other >= 0) {
		assert_int_equal(err, -EBUSY);
		return;
	}
	if (err) {
		assert_int_equal(err, -ENOMEM);
		assert_false(m->ample);
		model_total.nr_full++;
		lose(m, b);
		return;
	}
	opened(m, b);
}

/* What a bracket put into words is what others see from now on. */
static void finish(struct model *m, const struct bracket *b, uint32_t range, uint32_t first,
		   uint32_t nr)
{
	memcpy(&m->range[range].seed[first], &b->seed[range][first], nr * sizeof(uint32_t));
}

/* Take words out of one of a bracket's parts, which may be left on both sides; there they are read
 * from here on. */
static void cut_part(struct model *m, struct bracket *b, struct part *part, uint32_t first,
		     uint32_t end)
{
	const struct part was = *part;

	part->kind = WEIR_READ;
	part->first = MAX(was.first, first);
	part->nr = MIN(was.first + was.nr, end) - part->first;
	part->addr += 8ull * (part->first - was.first);
	if (was.first < first) {
		b->part[b->nr] = was;
		b->part[b->nr++].nr = first - was.first;
		m->range[was.range].nr_names++;
	}
	if (end < was.first + was.nr) {
		b->part[b->nr] = was;
		b->part[b->nr].addr += 8ull * (end - was.first);
		b->part[b->nr].first = end;
		b->part[b->nr++].nr = was.first + was.nr - end;
		m->range[was.range].nr_names++;
	}
}

/* Publish words from `first` on of a bracket's part, or all of it. */
static void publish_words(struct model *m, uint32_t stream, const struct part *part, uint32_t first,
			  uint32_t nr)
{
	struct bracket *b = &m->bracket[stream];
	struct part slice = *part;
	int err;

	slice.first = first;
	slice.nr = nr;
	slice.addr += 8ull * (first - part->first);
	err = weir_publish(m->t.space, m->stream[stream], slice.addr, 8ull * nr);
	trace("publish %u: range %u words %u+%u: %d\n", stream, slice.range, first, nr, err);
	do_check(&m->t);
	if (!m->range[slice.range].live) {
		assert_int_equal(err, -EINVAL);
		return;
	}
	assert_int_equal(err, 0);
	model_total.nr_slices++;
	finish(m, b, slice.range, first, nr);
	for (uint32_t i = 0, n = b->nr; i < n; i++)
		if (kind_writes(b->part[i].kind) && parts_meet(&b->part[i], &slice))
			cut_part(m, b, &b->part[i], first, first + nr);
}

/* The first part that a bracket writes through a window, or NULL. */
static const struct part *find_written(const struct bracket *b)
{
	for (uint32_t i = 0; i < b->nr; i++)
		if (b->part[i].window && kind_writes(b->part[i].kind))
			return &b->part[i];
	return NULL;
}

/* Publish some of what a bracket writes through a window, or the first half: the same again. */
static void publish_some(struct model *m, uint32_t stream, bool half)
{
	const struct bracket *b = &m->bracket[stream];
	const struct part *part = find_written(b);
	uint32_t first, nr;

	if (!part || b->nr + 2 * USES_MAX > PARTS_MAX)
		return;
	first = half || one_in(m, 4) ? 0 : below(m, part->nr);
	nr = half ? (part->nr + 1) / 2 : part->nr - first;
	publish_words(m, stream, part, part->first + first, half ? nr : 1 + below(m, nr));
}

void end_bracket(struct model *m, uint32_t bracket)
{
	struct bracket *b = &m->bracket[bracket];

	trace("end %u\n", bracket);
	if (bracket == HOST_BRACKET)
		assert_int_equal(weir_host_end(m->t.space, b->uses, b->nr), 0);
	else
		assert_int_equal(weir_end(m->t.space, m->stream[bracket]), 0);
	b->open = false;
	for (uint32_t i = 0; i < b->nr; i++) {
		m->range[b->part[i].range].nr_names--;
		if (b->part[i].kind != WEIR_READ)
			finish(m, b, b->part[i].range, b->part[i].first, b->part[i].nr);
	}
	do_check(&m->t);
}

void end_all(struct model *m)
{
	for (uint32_t i = 0; i < NR_BRACKETS; i++) {
		struct bracket *b = &m->bracket[i];

		if (!b->open)
			continue;
		b->ends = true;
		for (uint32_t u = 0; u < b->nr && i != HOST_BRACKET; u++)
			launch_part(m, i, &b->part[u]);
		end_bracket(m, i);
	}
}

void op_stream(struct model *m)
{
	uint32_t stream = below(m, m->nr_streams);
	struct bracket *b = &m->bracket[stream];

	if (!b->open && pick_parts(m, b, m->device[stream]))
		begin(m, stream);
	b->ends = !one_in(m, 3);
	for (uint32_t i = 0; b->open && i < b->nr; i++)
		if (!one_in(m, 5))
			launch_part(m, stream, &b->part[i]);
	if (b->open && one_in(m, 3))
		publish_some(m, stream, false);
	if (b->open && b->ends)
		end_bracket(m, stream);
}

/* Some brackets, one after the other, again and again, so that it is learnt who reads what. */
void op_phase(struct model *m)
{
	static struct bracket script[SCRIPT_MAX];
	uint32_t stream[SCRIPT_MAX], nr = 2 + below(m, SCRIPT_MAX - 1), nr_made = 0;
	bool publishes = one_in(m, 2);

	for (uint32_t i = 0; i < nr; i++) {
		stream[nr_made] = below(m, m->nr_streams);
		nr_made += !m->bracket[stream[nr_made]].open &&
			   pick_parts(m, &script[nr_made], m->device[stream[nr_made]]);
	}
	trace("phase of %u brackets\n", nr_made);
	for (uint32_t n = 0; n < 6 * nr_made; n++) {
		struct bracket *b = &m->bracket[stream[n % nr_made]];

		b->nr = script[n % nr_made].nr;
		memcpy(b->part, script[n % nr_made].part, sizeof(b->part));
		memcpy(b->uses, script[n % nr_made].uses, sizeof(b->uses));
		b->ends = true;
		begin(m, stream[n % nr_made]);
		for (uint32_t i = 0; b->open && i < b->nr; i++)
			launch_part(m, stream[n % nr_made], &b->part[i]);
		if (b->open && publishes)
			publish_some(m, stream[n % nr_made], true);
		if (b->open)
			end_bracket(m, stream[n % nr_made]);
	}
}

void op_host_bracket(struct model *m)
{
	struct bracket *b = &m->bracket[HOST_BRACKET];
	int err, range = pick_live(m);

	if (b->open) {
		end_bracket(m, HOST_BRACKET);
		return;
	}
	if (range < 0)
		return;
	b->nr = 1;
	b->part[0] = pick_part(m, (uint32_t)range, m->nr_devices);
	if (b->part[0].kind == WEIR_DISCARD)
		b->part[0].kind = WEIR_READ;
	b->uses[0] = part_use(&b->part[0]);
	err = weir_host_begin(m->t.space, b->uses, 1);
	trace("host begin: %d\n", err);
	trace_part(&b->part[0]);
	do_check(&m->t);
	if (err) {
		/* By blocks, which arenas share. */
		assert_true(err == -EBUSY || (err == -ENOMEM && may_be_full(m)));
		if (err == -EBUSY)
			assert_true(m->t.space->nr_open);
		else
			lose(m, b);
		return;
	}
	assert_int_equal(find_contradiction(m, b->part, 1), -1);
	opened(m, b);
	cpu_part(m, b->seed[range], &b->part[0], (uint64_t *)b->part[0].addr);
}
