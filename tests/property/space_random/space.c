/* SPDX-License-Identifier: Apache-2.0 */
/* The machine and the space of a random program: see model.h. */
#include <stdlib.h>

#include "src/residency/residency.h"
#include "tests/property/space_random/model.h"

#define LARGE 8u /* times as large are ranges and budgets of some sequences, */
#define LARGE_GPU (UINT64_C(16) << 30) /* on GPUs of that and more */

/* ------------------------------------------------------------------ decisions at random */

static struct test_random decide_state;

static struct brought_in random_bring_in(const struct bring_in *q)
{
	return (struct brought_in){
		.level = random_below(&decide_state, q->nr_blocks + 1),
		.evict_for_fresh = random_below(&decide_state, 2) != 0,
		.evict_for_moved = random_below(&decide_state, 2) != 0,
	};
}

static uint64_t random_give_up(const struct give_up *q)
{
	(void)q;
	return random_below(&decide_state, 4);
}

static place_t random_evict_to(const struct evict_to *q)
{
	return (place_t)(q->from + 1 + random_below(&decide_state, q->nr_places - q->from - 1));
}

static const struct decisions decide_random = {
	.name = "random",
	.bring_in = random_bring_in,
	.give_up = random_give_up,
	.evict_to = random_evict_to,
};

/* ------------------------------------------------------------------ opening and closing */

void open_space(struct model *m, uint64_t seed)
{
	static const uint32_t granules[] = {1, 2, 4, 3, 7}; /* in a block */
	uint64_t block;
	uint32_t gpu, middle, host, scale;

	test_machine_open(&m->t, WEIR_DATA_REAL);
	block = m->t.desc.vmm.granularity_bytes * granules[below(m, ARRAY_LEN(granules))];
	gpu = 2 + below(m, one_in(m, 2) ? 3 : 15);
	host = 4 + below(m, 20);
	m->mode = one_in(m, 8) ? WEIR_FIXED : WEIR_PLANNED;
	scale = m->t.desc.memory[GPU0].bytes >= LARGE_GPU && seed % 32 == 0 ? LARGE : 1;
	m->nr_blocks = (gpu + host) * scale;
	m->cell_bytes = block * scale / CELLS_PER_BLOCK;
	m->buffer = malloc(CELLS_MAX * m->cell_bytes);
	assert_non_null(m->buffer);
	m->middle = m->t.desc.nr_devices > 1 && one_in(m, 3);
	middle = m->middle ? 2 + below(m, 4) : 0;
	m->nr_blocks += middle * scale;
	m->most_blocks = m->nr_blocks;
	m->budget[GPU0] = gpu * scale;
	m->budget[GPU1] = middle * scale;
	m->budget[HOST] = host * scale;
	trace("block %llu gpu %u middle %u host %u times %u mode %d\n", (unsigned long long)block,
	      gpu, middle, host, scale, (int)m->mode);
	assert_int_equal(test_space_create_places(&m->t, m->mode, block, gpu * scale * block,
						  middle * scale * block, host * scale * block),
			 0);
	if (m->middle) /* copies on the host of what is there */
		m->t.space->residency->dirty_max[1] = below(m, 4);
	if (one_in(m, 4)) {
		decide_state.state = seed;
		m->t.space->residency->decide = &decide_random;
		trace("decisions at random\n");
	}
}

void close_space(struct model *m)
{
	struct weir_space_stats stats;

	for (uint32_t i = 0; i < NR_FENCES; i++)
		weir_fence_put(m->fence[i]);
	for (uint32_t i = 0; i < NR_RANGES; i++) {
		struct part part = {&m->range[i], 0, m->range[i].nr_cells, WEIR_READ};

		if (!m->range[i].live || m->mode == WEIR_FIXED)
			continue;
		begin_parts(m, 0, &part, 1);
		launch_part(m, 0, &part);
		end_parts(m, 0, &part, 1);
	}
	if (below(m, 2))
		do_sync(&m->t);
	stats = get_stats(&m->t);
	assert_true(stats.memory[GPU0].peak_bytes + stats.memory[GPU1].peak_bytes +
			    stats.memory[HOST].peak_bytes <=
		    3 * m->most_blocks * stats.block_bytes);
	model_total.middle_bytes += stats.memory[GPU1].peak_bytes;
	for (int d = 0; d < BACKEND_DIRECTION_NR; d++)
		for (int c = 0; c < WEIR_CAUSE_NR; c++)
			model_total.bytes[d][c] += get_bytes(
				&m->t, &stats, (enum backend_direction)d, (enum weir_cause)c);
	model_total.stats.nr_plans += stats.nr_plans;
	model_total.stats.nr_divergences += stats.nr_divergences;
	model_total.stats.nr_brackets += stats.nr_brackets;
	model_total.stats.nr_waits += stats.nr_waits;
	model_total.stats.nr_pool_hits += stats.nr_pool_hits;
	model_total.stats.nr_dead_dropped += stats.nr_dead_dropped;
	model_total.stats.nr_clean_dropped += stats.nr_clean_dropped;
	model_total.stats.nr_overwrites_saved += stats.nr_overwrites_saved;
	test_space_close(&m->t);
	free(m->buffer);
}
