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

/* GPUs, of which the first ones are the space's devices, one in half of the sequences; and streams
 * of these. */
static void open_machine(struct model *m)
{
	uint32_t nr_gpus = 2 + below(m, TEST_GPUS_MAX - 1);
	uint32_t nr = one_in(m, 2) ? 1 : 1 + below(m, MIN(nr_gpus, 3));

	for (uint32_t s = 1; s < NR_STREAMS; s++)
		m->device[s] = below(m, nr);
	test_machine_open_gpus(&m->t, WEIR_DATA_REAL, nr_gpus, m->device);
	m->nr_own = MIN(nr, m->t.desc.nr_devices);
	for (uint32_t s = 0; s < NR_STREAMS; s++)
		m->device[s] %= m->t.desc.nr_devices;
	for (uint32_t d = 0; d < m->nr_own; d++)
		m->own[d] = GPU0 + d;
	trace("%u GPUs, %u of the space\n", m->t.desc.nr_devices, m->nr_own);
}

/* Some of the other GPUs' memories are places, in half of the sequences. */
static void draw_near(struct model *m, uint32_t scale)
{
	uint32_t nr = MIN(m->t.desc.nr_devices, TEST_GPUS_MAX);

	for (uint32_t d = m->nr_own, any = one_in(m, 2); any && d < nr; d++)
		if (nr == 2 || !one_in(m, 3)) {
			m->near[m->nr_near++] = GPU0 + d;
			m->budget[GPU0 + d] = (uint64_t)(2 + below(m, 4)) * scale;
		}
}

static void create_space(struct model *m, uint64_t block)
{
	struct weir_space_config config = {
		.devices = (UINT64_C(1) << m->nr_own) - 1, .block_bytes = block, .mode = m->mode};

	for (uint32_t memory = 0; memory < MEMORIES_MAX; memory++) {
		config.budget_bytes[memory] = m->budget[memory] * block;
		m->nr_blocks += m->budget[memory];
		if (m->budget[memory])
			trace("memory %u: %llu blocks\n", memory,
			      (unsigned long long)m->budget[memory]);
	}
	m->most_blocks = m->nr_blocks;
	assert_int_equal(test_space_create_config(&m->t, &config), 0);
	assert_int_equal(m->t.space->nr_places, m->nr_own + m->nr_near + 1);
	m->compares = m->nr_own == 1 && !(block % DIGEST_TILE_BYTES) && one_in(m, 2);
	if (m->compares) {
		trace("compares\n");
		assert_int_equal(compare_init(m->t.space), 0);
	}
	for (uint32_t n = 0; n < m->nr_near; n++) /* copies on the host */
		if (!one_in(m, 4))
			m->t.space->residency->dirty_max[m->nr_own + n] = below(m, 4);
}

void open_space(struct model *m, uint64_t seed)
{
	static const uint32_t granules[] = {1, 2, 4, 3, 7}; /* in a block */
	uint32_t scale;
	uint64_t block;

	open_machine(m);
	block = m->t.desc.vmm.granularity_bytes * granules[below(m, ARRAY_LEN(granules))];
	m->mode = one_in(m, 8) ? WEIR_FIXED : WEIR_PLANNED;
	scale = m->t.desc.memory[GPU0].bytes >= LARGE_GPU && seed % 32 == 0 ? LARGE : 1;
	m->cell_bytes = block * scale / CELLS_PER_BLOCK;
	m->buffer = malloc(CELLS_MAX * m->cell_bytes);
	assert_non_null(m->buffer);
	for (uint32_t d = 0; d < m->nr_own; d++)
		m->budget[m->own[d]] = (uint64_t)(2 + below(m, one_in(m, 2) ? 3 : 15)) * scale;
	m->budget[HOST] = (uint64_t)(4 + below(m, 20)) * scale;
	draw_near(m, scale);
	trace("block %llu times %u mode %d\n", (unsigned long long)block, scale, (int)m->mode);
	create_space(m, block);
	policies_open(seed);
	if (one_in(m, 4)) {
		decide_state.state = seed;
		m->t.space->residency->decide = &decide_random;
		trace("decisions at random\n");
	}
}

static enum link_kind link_kind(const struct model *m, const struct weir_link_desc *link)
{
	bool own = is_own(m, link->a) || is_own(m, link->b);
	bool host = link->a == HOST || link->b == HOST;

	return own && host ? LINK_OWN_HOST
	       : own	   ? LINK_OWN_NEAR
	       : host	   ? LINK_NEAR_HOST
			   : LINK_NEAR_NEAR;
}

static void count_stats(struct model *m, const struct weir_space_stats *stats)
{
	struct weir_space_stats *total = &model_total.stats;

	model_total.nr_places[m->nr_own + m->nr_near + 1]++;
	model_total.nr_devices[m->nr_own]++;
	for (int d = 0; d < BACKEND_DIRECTION_NR; d++)
		for (int c = 0; c < WEIR_CAUSE_NR; c++) {
			model_total.bytes[d][c] += get_bytes(
				&m->t, stats, (enum backend_direction)d, (enum weir_cause)c);
			for (uint32_t l = 0; c != WEIR_CAUSE_INPLACE && l < m->t.desc.nr_links; l++)
				model_total.copied[link_kind(m, &m->t.desc.link[l])] +=
					stats->link_bytes[l][d][c];
		}
	total->nr_plans += stats->nr_plans;
	total->nr_divergences += stats->nr_divergences;
	total->nr_brackets += stats->nr_brackets;
	total->nr_waits += stats->nr_waits;
	total->nr_pool_hits += stats->nr_pool_hits;
	total->nr_dead_dropped += stats->nr_dead_dropped;
	total->nr_clean_dropped += stats->nr_clean_dropped;
	total->nr_compared += stats->nr_compared;
	total->nr_unchanged += stats->nr_unchanged;
	total->nr_overwrites_saved += stats->nr_overwrites_saved;
}

void close_space(struct model *m)
{
	struct weir_space_stats stats;
	uint64_t peak = 0;

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
	for (uint32_t memory = 0; memory < MEMORIES_MAX; memory++)
		peak += stats.memory[memory].peak_bytes;
	assert_true(peak <= (m->nr_own + m->nr_near + 1) * m->most_blocks * stats.block_bytes);
	count_stats(m, &stats);
	test_space_close(&m->t);
	policies_close();
	free(m->buffer);
}
