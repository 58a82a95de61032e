/* SPDX-License-Identifier: Apache-2.0 */
/* Words, parts of ranges, and what launches do with them: see model.h. */
#include <errno.h>

#include "tests/property/replica_random/model.h"
#include "tests/support/tracked.h"

struct model_total model_total;
bool model_tracing, model_ordered;

int pick_live(struct model *m)
{
	uint32_t at = below(m, NR_RANGES);

	for (uint32_t i = 0; i < NR_RANGES; i++)
		if (m->range[(at + i) % NR_RANGES].live)
			return (int)((at + i) % NR_RANGES);
	return -1;
}

/* A word where a part may begin or end: anywhere, at or beside a border of a granule or block, or
 * where an earlier part ended. */
static uint32_t pick_word(struct model *m, uint32_t range)
{
	uint32_t nr = m->range[range].nr_words, at;

	switch (below(m, 4)) {
	case 0:
		return below(m, nr + 1);
	case 1:
		return m->edge[range] <= nr ? m->edge[range] : nr;
	case 2:
		return one_in(m, 2) ? 0 : nr;
	default:
		at = GRANULE_WORDS * (1 + below(m, 1 + nr / GRANULE_WORDS));
		at = at + below(m, 3) - 1;
		return at <= nr ? at : nr;
	}
}

struct part pick_part(struct model *m, uint32_t range, uint32_t device)
{
	const struct model_range *r = &m->range[range];
	uint32_t a = pick_word(m, range), b = pick_word(m, range);
	struct part part = {.range = range, .kind = (enum weir_use_kind)below(m, 3)};
	void *window;

	if (one_in(m, 3)) {
		a = 0;
		b = r->nr_words;
	}
	part.first = MIN(MIN(a, b), r->nr_words - 1);
	part.nr = MAX(MAX(a, b), part.first + 1) - part.first;
	m->edge[range] = one_in(m, 2) ? part.first : part.first + part.nr;
	if (one_in(m, 12))
		part.kind = WEIR_DISCARD;
	part.addr = word_addr(r, part.first);
	if (r->replicated && device < m->nr_devices && r->devices >> device & 1 && !one_in(m, 8)) {
		assert_int_equal(weir_replica(m->t.space, part.addr, device, &window), 0);
		part.window = true;
		part.addr = window;
	}
	if (part.window && r->has_list[device] && one_in(m, 3))
		part.kind = WEIR_READ;
	part.elements = part.kind == WEIR_READ && one_in(m, 2);
	return part;
}

struct weir_use part_use(const struct part *part)
{
	return use_of(part->addr, 8ull * part->nr,
		      part->elements ? WEIR_READ_ELEMENTS : part->kind);
}

bool parts_meet(const struct part *a, const struct part *b)
{
	return a->range == b->range && a->first < b->first + b->nr && b->first < a->first + a->nr;
}

bool parts_contradict(const struct part *a, const struct part *b)
{
	bool same = a->addr - 8ull * a->first == b->addr - 8ull * b->first;

	if (!parts_meet(a, b) || a->kind == WEIR_DISCARD || b->kind == WEIR_DISCARD)
		return false;
	if (same || model_ordered)
		return kind_writes(a->kind) || kind_writes(b->kind) || a->window != b->window;
	return !a->window || !b->window || (kind_writes(a->kind) && kind_writes(b->kind));
}

int find_contradiction(const struct model *m, const struct part *parts, uint32_t nr)
{
	for (uint32_t b = 0; b < NR_BRACKETS; b++)
		for (uint32_t i = 0; m->bracket[b].open && i < m->bracket[b].nr; i++)
			for (uint32_t u = 0; u < nr; u++)
				if (parts_contradict(&m->bracket[b].part[i], &parts[u]))
					return (int)b;
	return -1;
}

/* ------------------------------------------------------------------ launches */

/* Words from `word` on, at most to `end`, that have the same seed. */
static uint32_t same_until(const uint32_t *seeds, uint32_t word, uint32_t end)
{
	uint32_t first = word;

	while (word < end && seeds[word] == seeds[first])
		word++;
	return word;
}

static void launch_words(struct model *m, uint32_t bracket, const struct part *part, uint32_t word,
			 uint32_t nr, uint32_t put)
{
	struct model_range *range = &m->range[part->range];
	uint32_t device = m->device[bracket];
	uint8_t *addr = part->addr + 8ull * (word - part->first);
	struct weir_use use = use_of(addr, 8ull * nr, part->kind);
	struct test_tracked_args args = {
		.cells = {.addr = (uint64_t *)addr,
			  .as = (uint64_t *)word_addr(range, word),
			  .words = nr,
			  .nr_wrong = m->t.nr_wrong_cuda ? m->t.nr_wrong_cuda : &m->t.nr_wrong,
			  .nr = 1,
			  .cell = {{m->bracket[bracket].seed[part->range][word], put}}},
		.tracked = range->tracked[device],
		.noted = {true},
	};
	struct weir_launch launch = {.kernel = &test_kernel_cells,
				     .args = &args.cells,
				     .args_bytes = sizeof(args.cells),
				     .uses = &use,
				     .nr_uses = 1};

	if (part->window && part->kind == WEIR_READ && range->tracking[device] &&
	    !m->t.nr_wrong_cuda) {
		launch.kernel = &test_kernel_tracked;
		launch.args = &args;
		launch.args_bytes = sizeof(args);
		memset(&range->noted[device][word], true, nr * sizeof(bool));
	}
	if (part->kind == WEIR_OVERWRITE || !m->bracket[bracket].ends)
		args.cells.cell[0].expect = 0;
	model_total.nr_checked += args.cells.cell[0].expect ? nr : 0;
	assert_int_equal(weir_stream_launch(m->stream[bracket], &launch), 0);
}

void launch_part(struct model *m, uint32_t bracket, const struct part *part)
{
	uint32_t *seeds = m->bracket[bracket].seed[part->range];
	uint32_t word = part->first, end = part->first + part->nr;
	/* Not always all of it. */
	uint32_t put = part->kind == WEIR_OVERWRITE || (part->kind == WEIR_WRITE && !one_in(m, 3))
			       ? ++m->last_seed
			       : 0;

	if (part->kind == WEIR_DISCARD)
		return;
	if (part->kind != WEIR_OVERWRITE && part->nr > 1 && one_in(m, 4)) {
		word += below(m, part->nr);
		end = word + 1 + below(m, end - word);
	}
	trace("  launch %u: range %u words %u+%u put %u\n", bracket, part->range, word, end - word,
	      put);
	while (word < end) {
		uint32_t next = m->bracket[bracket].ends ? same_until(seeds, word, end) : end;

		if (part->elements) {
			const bool *listed =
				m->bracket[bracket].listed[part - m->bracket[bracket].part];
			uint32_t first = word;

			while (word < next && listed[word] == listed[first])
				word++;
			next = word;
			word = first;
			if (!listed[first]) {
				word = next;
				continue;
			}
			model_total.nr_elements += next - first;
		}
		launch_words(m, bracket, part, word, next - word, put);
		for (; word < next; word++)
			if (put)
				seeds[word] = put;
	}
}

void cpu_part(struct model *m, uint32_t *seeds, const struct part *part, uint64_t *words)
{
	const uint64_t *as = (const uint64_t *)word_addr(&m->range[part->range], part->first);
	uint32_t put = kind_writes(part->kind) ? ++m->last_seed : 0;

	for (uint32_t i = 0; i < part->nr; i++) {
		uint32_t *seed = &seeds[part->first + i];

		if (part->kind != WEIR_OVERWRITE && *seed &&
		    words[i] != test_word_at(*seed, &as[i]))
			fail_msg("word %u of range %u: not what seed %u has", part->first + i,
				 part->range, *seed);
		if (put) {
			words[i] = test_word_at(put, &as[i]);
			*seed = put;
		}
	}
}

void sync_all(struct model *m)
{
	trace("sync\n");
	assert_int_equal(weir_space_sync(m->t.space), 0);
	for (uint32_t s = 0; s < m->nr_streams; s++)
		if (!m->bracket[s].open || !one_in(m, 2))
			assert_int_equal(weir_stream_sync(m->stream[s]), 0);
	assert_int_equal(get_nr_wrong(&m->t), 0);
	do_check(&m->t);
}
