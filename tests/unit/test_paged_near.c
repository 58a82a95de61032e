/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Paged ranges whose home is wholly or in part in other GPUs' memory: what lies where, what is
 * refused, what kernels and the host read and write there, and who holds the memory meanwhile.
 */
#include "src/core/space.h"
#include "src/cost/cost.h"
#include "tests/unit/test_paged.h"

#define PAGE 512u /* words of it */
#define PAGES 41u

static struct weir_paged_range_config config_of(uint64_t bytes, uint64_t near_bytes)
{
	struct weir_paged_range_config config = {.bytes = bytes, .name = "near"};

	config.near_bytes[GPU1] = near_bytes;
	return config;
}

static uint32_t add(struct paged_test *t, const struct weir_paged_range_config *config, void **home)
{
	uint32_t range;

	assert_int_equal(weir_paged_range_add(t->pool, config, &range, home), 0);
	return range;
}

/* Chunks of a range that are in a memory, of those from first on. */
static uint64_t chunks_in(const struct paged_test *t, uint32_t range, uint32_t memory,
			  uint64_t first, uint64_t nr)
{
	const struct paged_near *near = t->pool->range[range].near;
	uint64_t in = 0;

	assert_true(first + nr <= near->nr_chunks);
	for (uint64_t i = first; i < first + nr; i++)
		in += near->chunk[i].memory == memory;
	return in;
}

static uint64_t used(const struct paged_test *t, uint32_t memory)
{
	return t->flaky->ops->memory_used(t->flaky, memory);
}

/* ------------------------------------------------------------------ what lies where */

/* Of every run of chunks, as many are near as its length says, but for one at either end. */
static void test_parts_lie_evenly(void **unused)
{
	static const uint64_t near_pages[] = {0, 1, 5, PAGES / 2, 7 * PAGES / 8, PAGES - 1, PAGES};
	struct paged_test t;

	(void)unused;
	paged_open(&t, 2, 2);
	for (size_t n = 0; n < sizeof(near_pages) / sizeof(*near_pages); n++) {
		const uint64_t near = near_pages[n], host = used(&t, HOST);
		struct weir_paged_range_config config = config_of(PAGES * 4096, near * 4096);
		uint32_t range = add(&t, &config, NULL);
		struct weir_paged_stats stats = paged_stats(&t);

		assert_int_equal(used(&t, GPU1), near * 4096);
		assert_int_equal(used(&t, HOST) - host, (PAGES - near) * 4096);
		assert_int_equal(stats.range[range].home_bytes[GPU1], near * 4096);
		assert_int_equal(stats.range[range].home_bytes[HOST], (PAGES - near) * 4096);
		assert_int_equal(stats.range[range].home_bytes[GPU0], 0);
		for (uint64_t first = 0; near && first < PAGES; first++)
			for (uint64_t nr = 1; nr <= PAGES - first; nr++) {
				double in = (double)chunks_in(&t, range, GPU1, first, nr);
				double share = (double)(nr * near) / PAGES;

				if (in < share - 1 || in > share + 1)
					fail_msg("%g of %g chunks from %llu on", in, share,
						 (unsigned long long)first);
			}
		assert_int_equal(weir_paged_range_remove(t.pool, range), 0);
		assert_int_equal(used(&t, GPU1), 0);
		assert_int_equal(used(&t, HOST), host);
	}
	paged_close(&t);
}

/* Parts of pages, and of chunks: what is near is rounded up, and never beyond the range. */
static void test_odd_sizes(void **unused)
{
	static const struct {
		uint64_t bytes, near, is;
	} sizes[] = {{24, 1, 24},
		     {24, 24, 24},
		     {4097, 1, 4096},
		     {4097, 4097, 4097},
		     {3 * 4096 + 16, 4097, 2 * 4096},
		     {3 * 4096 + 16, 3 * 4096, 3 * 4096}};
	struct paged_test t;

	(void)unused;
	paged_open(&t, 2, 2);
	for (size_t n = 0; n < sizeof(sizes) / sizeof(*sizes); n++) {
		struct weir_paged_range_config config = config_of(sizes[n].bytes, sizes[n].near);
		uint32_t range = add(&t, &config, NULL);
		struct weir_paged_stats stats = paged_stats(&t);
		const uint64_t *home = stats.range[range].home_bytes;

		assert_int_equal(home[GPU1] + home[HOST], sizes[n].bytes);
		/* The last chunk, which is cut, is in either. */
		assert_in_range(home[GPU1], sizes[n].is - MIN(sizes[n].is, 4096), sizes[n].is);
		assert_int_equal(used(&t, GPU1), (sizes[n].is + 4095) / 4096 * 4096);
		assert_int_equal(weir_paged_range_remove(t.pool, range), 0);
	}
	paged_close(&t);
}

/* Small chunks where there are few of them, larger ones else, and never parts of a page. */
static void test_chunks_are_of_a_size(void **unused)
{
	struct weir_machine_desc desc;
	struct weir_paged_config pool = {.page_bytes = 65536, .gpu_bytes = 65536};
	struct weir_paged_range_config config;
	struct paged_test t;
	struct backend *sim;
	uint32_t range;

	(void)unused;
	test_machine(&desc);
	desc.memory[GPU1].bytes = MIB(128);
	assert_int_equal(sim_create(&desc, WEIR_DATA_REAL, &sim), 0);
	paged_machine_over(&t, sim);
	assert_int_equal(weir_paged_create(t.machine, &pool, &t.pool), 0);
	config = config_of(MIB(1), MIB(1));
	range = add(&t, &config, NULL);
	assert_int_equal(t.pool->range[range].near->unit, 65536);
	weir_paged_destroy(t.pool);
	pool.page_bytes = 4096;
	assert_int_equal(weir_paged_create(t.machine, &pool, &t.pool), 0);
	config = config_of(MIB(32) - 4096, MIB(32) - 4096);
	range = add(&t, &config, NULL);
	assert_int_equal(t.pool->range[range].near->unit, 4096);
	assert_int_equal(weir_paged_range_remove(t.pool, range), 0);
	config = config_of(MIB(32), MIB(32));
	range = add(&t, &config, NULL);
	assert_int_equal(t.pool->range[range].near->unit, 8192);
	paged_close(&t);
}

/* ------------------------------------------------------------------ contents */

static void expect_words(struct paged_test *t, uint32_t range, const uint64_t *words, uint64_t nr)
{
	uint64_t *have = calloc(nr, 8);

	assert_non_null(have);
	assert_int_equal(weir_paged_read(t->pool, range, 0, have, nr * 8), 0);
	assert_memory_equal(have, words, nr * 8);
	free(have);
}

/* What kernels and the host do to such a range, by frames and in place, is what was meant. */
static void test_contents(void **unused)
{
	static const uint64_t near_pages[] = {1, PAGES / 2, PAGES};
	const uint64_t nr = PAGES * PAGE - 3;
	uint64_t *words = calloc(nr, 8);

	(void)unused;
	assert_non_null(words);
	for (uint32_t n = 0; n < 6; n++) {
		struct weir_paged_range_config config =
			config_of(nr * 8, MIN(near_pages[n % 3] * 4096, nr * 8));
		struct paged_test t;
		uint32_t range;

		memset(words, 0, nr * 8);
		config.fill_only = n >= 3; /* with two frames, the rest is used in place */
		paged_open(&t, 2, 2);
		range = add(&t, &config, NULL);
		expect_words(&t, range, words, nr);
		for (uint64_t i = 0; i < nr; i++)
			words[i] = i * 7;
		assert_int_equal(weir_paged_write(t.pool, range, 0, words, nr * 8), 0);
		for (uint64_t page = 0; page < PAGES; page++) {
			uint64_t word = MIN(page * PAGE + page, nr - 1);

			assert_int_equal(PAGED_RUN(&t, false,
						   {PAGED_READ, range, word, words[word]},
						   {PAGED_ADD, range, word, 5}),
					 0);
			words[word] += 5;
		}
		assert_int_equal(weir_paged_check(t.pool), 0);
		expect_words(&t, range, words, nr);
		/* A part that begins and ends within chunks. */
		words[700] = words[701] = words[1800] = 99;
		assert_int_equal(weir_paged_write(t.pool, range, 700 * 8, words + 700, 1101 * 8),
				 0);
		expect_words(&t, range, words, nr);
		paged_close(&t);
	}
	free(words);
}

/* The walk looks at what is in such a home. */
static void test_check_finds_what_differs(void **unused)
{
	struct weir_paged_range_config config = config_of(3 * 4096, 3 * 4096);
	struct paged_test t;
	struct paged_log log;
	uint64_t wrong = 1;
	uint32_t range;
	void *home;

	(void)unused;
	paged_open(&t, 2, 2);
	range = add(&t, &config, &home);
	assert_int_equal(PAGED_RUN(&t, false, {PAGED_READ, range, PAGE, 0}), 0);
	assert_int_equal(weir_paged_check(t.pool), 0);
	assert_int_equal(
		t.flaky->ops->upload(t.flaky, t.pool->side, (char *)home + 4096, &wrong, 8), 0);
	paged_log_begin(&log);
	assert_int_equal(weir_paged_check(t.pool), -EUCLEAN);
	paged_log_has(&log, "differs from its copy at home");
	weir_log_set(NULL, NULL);
	wrong = 0;
	assert_int_equal(
		t.flaky->ops->upload(t.flaky, t.pool->side, (char *)home + 4096, &wrong, 8), 0);
	paged_close(&t);
}

/* ------------------------------------------------------------------ what is refused */

static void refused(struct paged_test *t, const struct weir_paged_range_config *config, int err,
		    const char *why)
{
	uint64_t before[3] = {used(t, HOST), used(t, GPU0), used(t, GPU1)};
	struct paged_log log;
	uint32_t range = 77;

	paged_log_begin(&log);
	assert_int_equal(weir_paged_range_add(t->pool, config, &range, NULL), err);
	assert_int_equal(range, 77);
	paged_log_has(&log, why);
	weir_log_set(NULL, NULL);
	for (uint32_t m = 0; m < 3; m++)
		assert_int_equal(used(t, m), before[m]);
}

static void test_refused(void **unused)
{
	static _Alignas(16) uint64_t mine[PAGE];
	struct weir_paged_range_config config;
	struct paged_test t;

	(void)unused;
	paged_open(&t, 2, 2);
	config = config_of(4096, 4097);
	refused(&t, &config, -EINVAL, "a range of 4096 bytes with 4097 of them");
	config = config_of(4096, UINT64_MAX);
	config.near_bytes[GPU0] = 1;
	refused(&t, &config, -EINVAL, "with bytes in 'gpu0', the memory of the pool's own device");
	config = config_of(4096, 0);
	config.near_bytes[HOST] = 1;
	refused(&t, &config, -EINVAL, "with bytes in 'host', the host's memory");
	config = config_of(4096, 0);
	config.near_bytes[3] = 1;
	refused(&t, &config, -EINVAL, "with bytes in memory 3, of 3 that there are");
	config = config_of(4096, 4096);
	config.host = mine;
	refused(&t, &config, -EINVAL, "memory of the program's own");
	config = config_of(MIB(17), MIB(17));
	refused(&t, &config, -EINVAL, "beyond memory 'gpu1'");
	config = config_of(MIB(70), MIB(1));
	refused(&t, &config, -EINVAL, "beyond memory 'host'");
	paged_close(&t);
}

static void test_no_link(void **unused)
{
	const struct weir_paged_config pool = {.page_bytes = 4096, .gpu_bytes = 4096};
	struct weir_paged_range_config config = config_of(4096, 4096);
	struct weir_machine_desc desc;
	struct paged_test t;
	struct backend *sim;

	(void)unused;
	test_machine(&desc);
	desc.nr_links = 2;
	assert_int_equal(sim_create(&desc, WEIR_DATA_REAL, &sim), 0);
	paged_machine_over(&t, sim);
	assert_int_equal(weir_paged_create(t.machine, &pool, &t.pool), 0);
	refused(&t, &config, -EINVAL, "with bytes in 'gpu1', memory that the pool's device has no");
	paged_close(&t);
}

/* Another range, or somebody who gives nothing back, has the memory. */
static void test_no_room(void **unused)
{
	const struct weir_paged_config other = {
		.page_bytes = 4096, .gpu_bytes = 4096, .name = "other"};
	struct weir_paged_range_config config = config_of(MIB(12), MIB(12));
	struct weir_paged *pool;
	struct paged_test t;

	(void)unused;
	paged_open(&t, 2, 2);
	add(&t, &config, NULL);
	config = config_of(MIB(8), MIB(6));
	refused(&t, &config, -ENOMEM,
		"6291456 bytes of a range are not to be had of 'gpu1' (12.0 MiB in ranges of paged "
		"pool 'test')");
	assert_int_equal(phys_check(phys_of(t.machine, GPU1)), 0);
	config = config_of(MIB(8), MIB(2));
	add(&t, &config, NULL);
	assert_int_equal(phys_check(phys_of(t.machine, GPU1)), 0);
	/* Who holds it is another pool, which does not give ranges away. */
	pool = t.pool;
	assert_int_equal(weir_paged_create(t.machine, &other, &t.pool), 0);
	config = config_of(MIB(4), MIB(4));
	refused(&t, &config, -ENOMEM, "14.0 MiB in ranges of paged pool 'test'");
	config = config_of(MIB(4), MIB(2));
	add(&t, &config, NULL);
	weir_paged_destroy(t.pool);
	t.pool = pool;
	assert_int_equal(phys_check(phys_of(t.machine, GPU1)), 0);
	paged_close(&t);
}

/* While the pool is online nothing is added, and nothing kept. */
static void test_online(void **unused)
{
	struct weir_paged_range_config config = config_of(3 * 4096, 4096);
	struct weir_paged_view view;
	struct paged_test t;

	(void)unused;
	paged_open(&t, 2, 2);
	assert_int_equal(weir_paged_begin(t.pool, t.stream, &view), 0);
	refused(&t, &config, -EBUSY, "weir_paged_range_add() while it is online");
	assert_int_equal(weir_paged_end(t.pool, t.stream), 0);
	assert_int_equal(weir_paged_sync(t.pool), 0);
	add(&t, &config, NULL);
	paged_close(&t);
}

/* ------------------------------------------------------------------ spaces */

/* A space gives what it has in the neighbour's memory and does not use. */
static void test_a_space_gives(void **unused)
{
	struct weir_space_config config = {.block_bytes = MIB(1), .mode = WEIR_PLANNED};
	struct weir_paged_range_config range = config_of(MIB(15), MIB(15));
	static const uint8_t bytes[MIB(6)];
	struct weir_space *space;
	struct paged_test t;
	void *addr;

	(void)unused;
	paged_open(&t, 2, 2);
	config.budget_bytes[GPU0] = MIB(2);
	config.budget_bytes[GPU1] = MIB(8);
	config.budget_bytes[HOST] = MIB(16);
	assert_int_equal(weir_space_create(t.machine, &config, &space), 0);
	assert_int_equal(weir_alloc(space, MIB(6), t.stream, &addr), 0);
	assert_int_equal(weir_write(space, addr, bytes, sizeof(bytes)), 0);
	assert_int_equal(weir_space_sync(space), 0);
	assert_int_equal(weir_free(space, addr, t.stream), 0);
	assert_true(used(&t, GPU1) >= MIB(2));
	add(&t, &range, NULL);
	assert_int_equal(phys_check(phys_of(t.machine, GPU1)), 0);
	weir_space_destroy(space);
	paged_close(&t);
}

/* Of a pool in a space: brackets name the range, the host writes and reads it through the space. */
static void test_in_a_space(void **unused)
{
	struct weir_space_config config = {.block_bytes = 4096, .mode = WEIR_PLANNED};
	struct weir_paged_config pool = {.page_bytes = 4096, .gpu_bytes = 2 * 4096};
	struct weir_paged_range_config range = config_of(8 * 4096, 4 * 4096);
	uint64_t words[8 * PAGE], back[8 * PAGE];
	struct weir_paged_view view;
	struct weir_use use = {.bytes = 8 * 4096, .kind = WEIR_WRITE};
	struct paged_test t;
	uint32_t number;
	void *home;

	(void)unused;
	paged_machine_open(&t, WEIR_DATA_REAL);
	config.budget_bytes[GPU0] = 16 * 4096;
	config.budget_bytes[HOST] = 16 * 4096;
	assert_int_equal(weir_space_create(t.machine, &config, &pool.space), 0);
	assert_int_equal(weir_paged_create(t.machine, &pool, &t.pool), 0);
	number = add(&t, &range, &home);
	for (uint32_t i = 0; i < 8 * PAGE; i++)
		words[i] = i;
	assert_int_equal(weir_write(pool.space, home, words, sizeof(words)), 0);
	use.addr = home;
	assert_int_equal(weir_begin(pool.space, t.stream, &use, 1), 0);
	assert_int_equal(weir_paged_view_get(t.pool, t.stream, &view), 0);
	for (uint32_t i = 0; i < 8; i++)
		assert_int_equal(paged_launch(&t, &view, false,
					      (struct paged_op[]){{PAGED_ADD, number, i * PAGE, 7}},
					      1),
				 0);
	assert_int_equal(weir_end(pool.space, t.stream), 0);
	for (uint32_t i = 0; i < 8; i++)
		words[i * PAGE] += 7;
	assert_int_equal(weir_read(pool.space, back, home, sizeof(back)), 0);
	assert_memory_equal(back, words, sizeof(words));
	assert_int_equal(weir_paged_sync(t.pool), 0);
	assert_int_equal(weir_space_check(pool.space), 0);
	assert_int_equal(weir_paged_check(t.pool), 0);
	weir_paged_destroy(t.pool);
	weir_space_destroy(pool.space);
	assert_int_equal(t.nr_wrong, 0);
	paged_machine_close(&t);
}

/* ------------------------------------------------------------------ when pages come in */

/* A word costs what the links make of it, each for its part of the range. */
static void test_auto_looks_at_the_links(void **unused)
{
	struct weir_machine_desc desc;
	const struct weir_paged_config pool = {.page_bytes = 4096, .gpu_bytes = 4096};
	const uint64_t bytes = MIB(1);
	struct weir_paged_range_config host = config_of(bytes, 0), near = config_of(bytes, bytes);
	struct weir_paged_range_config half = config_of(bytes, bytes / 2);
	struct paged_test t;
	struct backend *sim;

	(void)unused;
	test_machine(&desc);
	desc.link[2].inplace_small_per_s = 1e9;
	desc.link[2].inplace_reach_bytes = MIB(16);
	assert_int_equal(sim_create(&desc, WEIR_DATA_REAL, &sim), 0);
	paged_machine_over(&t, sim);
	assert_int_equal(weir_paged_create(t.machine, &pool, &t.pool), 0);
	weir_paged_range_auto(t.pool, &host);
	weir_paged_range_auto(t.pool, &near);
	weir_paged_range_auto(t.pool, &half);
	assert_int_equal(near.word, 1);
	assert_true(host.word > 4);
	assert_in_range(half.word, near.word + 1, host.word - 1);
	paged_close(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parts_lie_evenly),
		cmocka_unit_test(test_odd_sizes),
		cmocka_unit_test(test_chunks_are_of_a_size),
		cmocka_unit_test(test_contents),
		cmocka_unit_test(test_check_finds_what_differs),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_no_link),
		cmocka_unit_test(test_no_room),
		cmocka_unit_test(test_online),
		cmocka_unit_test(test_a_space_gives),
		cmocka_unit_test(test_in_a_space),
		cmocka_unit_test(test_auto_looks_at_the_links),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
