/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Eight threads on one machine: spaces, pools of plain memory and pools of paged memory that
 * together want more than there is. Each does random work and now and then leaves everything idle,
 * which the others get. Contents are right, budgets hold, accounts add up in the middle of it,
 * nobody waits for ever, and the thread sanitizer is silent. In the end, with all of it idle, each
 * kind in turn gets what the others hold.
 *
 * PHYS_SECONDS=n in the environment: for so long.
 *
 * Labels: threads
 * Timeout: 300
 * Long: yes
 */
#include <pthread.h>
#include <time.h>

#include "src/mem/mem.h"
#include "tests/support/amount.h"
#include "tests/support/space.h"
#include "tests/support/threads.h"
#include "tests/unit/test_paged.h"

#define NR_SPACES 3u
#define NR_PLAIN 3u
#define NR_PAGED 2u
#define NR_THREADS (NR_SPACES + NR_PLAIN + NR_PAGED)
#define SECONDS 1.5
#define BLOCK KIB(64)
#define SPACE_GPU MIB(8)
#define SPACE_HOST MIB(24)
#define NR_RANGES 6u
#define RANGE_MAX MIB(4)
#define NR_OBJECTS 4u
#define OBJECT_MAX MIB(4)
#define FRAMES_BYTES MIB(4)
#define PAGES 256u /* of a range of paged memory, 4 KiB each */
#define PAGE_WORDS 512u

struct worker {
	struct test_random random;
	pthread_t thread;
	uint64_t nr_steps, nr_refused;
	uint32_t number;
	void *buffer; /* RANGE_MAX */

	struct test_space t; /* the machine and, of a space's thread, its space */
	struct {
		uint8_t *addr;
		uint64_t bytes;
		uint32_t seed; /* 0: undefined */
	} range[NR_RANGES];

	struct weir_pool *pool;
	struct {
		struct weir_mem *mem;
		uint64_t bytes;
		uint32_t seed;
	} object[NR_OBJECTS];

	struct paged_test paged;
	uint64_t *host;	     /* of its range */
	uint64_t sum[PAGES]; /* what the first word of each page must be */
	uint32_t paged_range;
};

static struct worker worker[NR_THREADS];
static struct test_space all; /* the machine */

static uint32_t below(struct worker *w, uint32_t n)
{
	return random_below(&w->random, n);
}

static uint32_t fresh_seed(struct worker *w)
{
	return (w->number + 1) << 24 | (uint32_t)(w->nr_steps & 0xffffff) | 1;
}

/* Whether a call succeeded; it may have found no room. */
static bool done(struct worker *w, int err)
{
	require(!err || err == -ENOMEM);
	w->nr_refused += err == -ENOMEM;
	return !err;
}

/* ------------------------------------------------------------------ spaces */

static void space_free(struct worker *w, uint32_t i)
{
	if (w->range[i].addr)
		require(!weir_free(w->t.space, w->range[i].addr,
				   below(w, 2) ? w->t.stream[0] : NULL));
	w->range[i].addr = NULL;
}

static void space_bracket(struct worker *w, uint32_t i)
{
	static const enum weir_use_kind kinds[] = {WEIR_READ, WEIR_WRITE, WEIR_OVERWRITE,
						   WEIR_DISCARD};
	enum weir_use_kind kind = kinds[below(w, ARRAY_LEN(kinds))];
	struct weir_use use = use_of(w->range[i].addr, w->range[i].bytes, kind);
	bool reads = kind == WEIR_READ || kind == WEIR_WRITE;
	struct test_cell cell = {reads ? w->range[i].seed : 0,
				 kind == WEIR_READ ? 0 : fresh_seed(w)};

	if (below(w, 2))
		use.read_bytes *= 16; /* worth a copy */
	if (!done(w, weir_begin(w->t.space, w->t.stream[0], &use, 1)))
		return;
	if (kind != WEIR_DISCARD)
		require(!do_launch_cells_try(&w->t, 0, w->range[i].addr, w->range[i].bytes, &cell,
					     1, kind));
	require(!weir_end(w->t.space, w->t.stream[0]));
	if (kind != WEIR_READ)
		w->range[i].seed = kind == WEIR_DISCARD ? 0 : cell.put;
}

static void space_copy(struct worker *w, uint32_t i)
{
	uint64_t bytes = w->range[i].bytes;
	uint8_t *addr = w->range[i].addr;
	uint32_t seed = fresh_seed(w);

	if (below(w, 2)) {
		pattern_put(w->buffer, addr, bytes, seed);
		if (done(w, weir_write(w->t.space, addr, w->buffer, bytes)))
			w->range[i].seed = seed;
	} else if (done(w, weir_read(w->t.space, w->buffer, addr, bytes)) && w->range[i].seed) {
		require(!pattern_wrong(w->buffer, addr, bytes, w->range[i].seed));
	}
}

static void space_host_bracket(struct worker *w, uint32_t i)
{
	struct weir_use use = use_of(w->range[i].addr, w->range[i].bytes, WEIR_READ);

	if (!done(w, weir_host_begin(w->t.space, &use, 1)))
		return;
	if (w->range[i].seed)
		require(!pattern_wrong(w->range[i].addr, w->range[i].addr, w->range[i].bytes,
				       w->range[i].seed));
	require(!weir_host_end(w->t.space, &use, 1));
}

static void space_prefetch(struct worker *w, uint32_t i)
{
	struct weir_fence *fence;

	if (!done(w, weir_prefetch(w->t.space, w->range[i].addr, w->range[i].bytes,
				   below(w, 2) ? GPU0 : HOST, &fence)))
		return;
	(void)done(w, weir_fence_wait(fence));
	weir_fence_put(fence);
}

static void space_step(struct worker *w)
{
	uint32_t i = below(w, NR_RANGES), what = below(w, 64);
	void *addr;

	if (!w->range[i].addr) {
		w->range[i].bytes = BLOCK * (1 + below(w, RANGE_MAX / BLOCK));
		w->range[i].seed = 0;
		if (done(w, weir_alloc(w->t.space, w->range[i].bytes, w->t.stream[0], &addr)))
			w->range[i].addr = addr;
	} else if (what < 40) {
		space_bracket(w, i);
	} else if (what < 46) {
		space_copy(w, i);
	} else if (what < 50) {
		space_host_bracket(w, i);
	} else if (what < 54) {
		space_prefetch(w, i);
	} else if (what < 60) {
		space_free(w, i);
	} else if (what == 60) {
		require(!weir_space_check(w->t.space));
	} else if (what == 61) {
		for (uint32_t r = 0; r < NR_RANGES; r++)
			space_free(w, r);
	} else {
		require(!weir_space_sync(w->t.space));
	}
}

static void space_leave(struct worker *w)
{
	for (uint32_t i = 0; i < NR_RANGES; i++)
		space_free(w, i);
	require(!weir_space_sync(w->t.space));
	require(!weir_space_check(w->t.space));
	require(!get_nr_wrong(&w->t));
}

/* ------------------------------------------------------------------ plain memory */

static void plain_free(struct worker *w, uint32_t i)
{
	if (!w->object[i].mem)
		return;
	require(!weir_mem_read(w->object[i].mem, 0, 0, w->buffer, w->object[i].bytes));
	require(!pattern_wrong(w->buffer, w->buffer, w->object[i].bytes, w->object[i].seed));
	weir_mem_free(w->object[i].mem, below(w, 2) ? w->t.stream[0] : NULL);
	w->object[i].mem = NULL;
}

static void plain_step(struct worker *w)
{
	struct weir_mem_params params = {.memory = below(w, 4) ? GPU0 : HOST,
					 .page_bytes = below(w, 2) ? 0 : MIB(4)};
	uint32_t i = below(w, NR_OBJECTS), what = below(w, 32);

	if (what == 0) {
		require(!weir_pool_check(w->pool));
	} else if (what == 1) {
		for (uint32_t n = 0; n < NR_OBJECTS; n++)
			plain_free(w, n);
	} else if (what == 2) {
		(void)weir_pool_trim(w->pool);
	} else if (w->object[i].mem) {
		plain_free(w, i);
	} else {
		params.bytes = w->object[i].bytes = 8 * (1 + below(w, OBJECT_MAX / 8));
		w->object[i].seed = fresh_seed(w);
		if (!done(w, weir_mem_alloc(w->pool, &params, &w->object[i].mem)))
			return;
		pattern_put(w->buffer, w->buffer, params.bytes, w->object[i].seed);
		require(!weir_mem_map(w->object[i].mem, 0, WEIR_MEM_DEVICE(0), NULL));
		require(!weir_mem_write(w->object[i].mem, 0, 0, w->buffer, params.bytes));
	}
}

static void plain_leave(struct worker *w)
{
	for (uint32_t i = 0; i < NR_OBJECTS; i++)
		plain_free(w, i);
	require(!weir_pool_check(w->pool));
}

/* ------------------------------------------------------------------ paged memory */

/* Add to some pages by a kernel. */
static void paged_bracket(struct worker *w)
{
	struct paged_op op[32];
	struct weir_paged_view view;

	for (uint32_t i = 0; i < ARRAY_LEN(op); i++) {
		uint32_t page = below(w, PAGES);

		op[i] = (struct paged_op){.what = PAGED_ADD,
					  .range = w->paged_range,
					  .index = page * PAGE_WORDS,
					  .value = 1 + below(w, 9)};
		w->sum[page] += op[i].value;
	}
	require(!weir_paged_begin(w->paged.pool, w->paged.stream, &view));
	require(view.table.nr_frames >= 1 && view.table.nr_frames <= FRAMES_BYTES / 4096);
	require(!paged_launch(&w->paged, &view, false, op, ARRAY_LEN(op)));
	require(!weir_paged_end(w->paged.pool, w->paged.stream));
	if (below(w, 2))
		require(!weir_paged_sync(w->paged.pool));
}

static void paged_expect(struct worker *w)
{
	require(!weir_paged_sync(w->paged.pool));
	require(!weir_paged_flush(w->paged.pool));
	for (uint32_t i = 0; i < PAGES; i++)
		require(w->host[i * PAGE_WORDS] == w->sum[i]);
}

static void paged_step(struct worker *w)
{
	switch (below(w, 16)) {
	case 0:
		paged_expect(w);
		break;
	case 1:
		require(!weir_paged_sync(w->paged.pool));
		(void)done(w, weir_paged_set_budget(w->paged.pool,
						    4096 * (1 + below(w, FRAMES_BYTES / 4096))));
		break;
	case 2:
		require(!weir_paged_sync(w->paged.pool));
		require(!weir_paged_check(w->paged.pool));
		break;
	default:
		paged_bracket(w);
	}
}

static void paged_leave(struct worker *w)
{
	paged_expect(w);
	require(!weir_paged_check(w->paged.pool));
	require(!w->paged.nr_wrong);
}

/* ------------------------------------------------------------------ threads */

enum kind { SPACE, PLAIN, PAGED };

static enum kind kind_of(const struct worker *w)
{
	return w->number < NR_SPACES ? SPACE : w->number < NR_SPACES + NR_PLAIN ? PLAIN : PAGED;
}

static void *worker_main(void *arg)
{
	static void (*const steps[])(struct worker *) = {space_step, plain_step, paged_step};
	static void (*const leaves[])(struct worker *) = {space_leave, plain_leave, paged_leave};
	struct worker *w = arg;
	enum kind kind = kind_of(w);

	for (; !atomic_load(&stop); w->nr_steps++) {
		steps[kind](w);
		if (!below(w, 16))
			for (uint32_t m = 0; m < 2; m++)
				require(!phys_check(phys_of(all.machine, m)));
	}
	leaves[kind](w);
	return NULL;
}

/* The GPU's memory beside that of the sources of zeros, two for each pool, is 16 MiB: the spaces
 * alone may have 24. */
static void machine_open(void)
{
	memset(&all, 0, sizeof(all));
	test_machine(&all.desc);
	all.desc.memory[GPU0].bytes = MIB(16) + NR_PLAIN * 2 * MIB(2);
	assert_int_equal(weir_machine_simulate(&all.desc, WEIR_DATA_REAL, &all.machine), 0);
	all.backend = machine_backend(all.machine);
	for (uint32_t i = 0; i < TEST_STREAMS; i++)
		assert_int_equal(weir_stream_create(all.machine, 0, &all.stream[i]), 0);
}

static void worker_open(struct worker *w, uint32_t number)
{
	const struct weir_paged_config paged = {.page_bytes = 4096, .gpu_bytes = FRAMES_BYTES};

	memset(w, 0, sizeof(*w));
	w->number = number;
	w->random.state = 77 + number;
	w->t = all;
	w->buffer = malloc(RANGE_MAX);
	assert_non_null(w->buffer);
	assert_int_equal(weir_stream_create(all.machine, 0, &w->t.stream[0]), 0);
	switch (kind_of(w)) {
	case SPACE:
		assert_int_equal(
			test_space_create_try(&w->t, WEIR_PLANNED, BLOCK, SPACE_GPU, SPACE_HOST),
			0);
		break;
	case PLAIN:
		assert_int_equal(weir_pool_create(all.machine, NULL, &w->pool), 0);
		break;
	case PAGED:
		w->paged.machine = all.machine;
		w->paged.stream = w->t.stream[0];
		w->paged.kernel = &paged_kernel;
		assert_int_equal(weir_paged_create(all.machine, &paged, &w->paged.pool), 0);
		w->paged_range = paged_range(&w->paged, PAGES * 4096, 0, &w->host);
	}
}

static void worker_close(struct worker *w)
{
	switch (kind_of(w)) {
	case SPACE:
		weir_space_destroy(w->t.space);
		break;
	case PLAIN:
		weir_pool_destroy(w->pool);
		break;
	case PAGED:
		weir_paged_destroy(w->paged.pool);
	}
	weir_stream_destroy(w->t.stream[0]);
	free(w->buffer);
}

/* All is idle: who wants memory gets it, whoever holds it. */
static void each_gets_what_is_idle(void)
{
	struct weir_mem_params params = {.bytes = MIB(8), .memory = GPU0};
	struct worker *space = &worker[0], *plain = &worker[NR_SPACES],
		      *paged = &worker[NR_SPACES + NR_PLAIN];

	for (uint32_t i = 0; i < 3; i++) {
		struct weir_paged_view view;
		struct weir_mem *mem;
		void *addr;

		assert_int_equal(weir_mem_alloc(plain->pool, &params, &mem), 0);
		weir_mem_free(mem, NULL);
		addr = do_alloc(&space->t, SPACE_GPU, 0);
		do_fill(&space->t, 0, addr, SPACE_GPU, 5);
		do_sync(&space->t);
		assert_int_equal(get_stats(&space->t).memory[GPU0].bytes, SPACE_GPU);
		do_free(&space->t, addr, 0);
		do_sync(&space->t);
		assert_int_equal(weir_paged_set_budget(paged->paged.pool, FRAMES_BYTES), 0);
		assert_int_equal(weir_paged_begin(paged->paged.pool, paged->paged.stream, &view),
				 0);
		assert_int_equal(view.table.nr_frames, FRAMES_BYTES / 4096);
		assert_int_equal(weir_paged_end(paged->paged.pool, paged->paged.stream), 0);
		assert_int_equal(weir_paged_sync(paged->paged.pool), 0);
	}
}

static void test_phys_threads(void **state)
{
	static const char *const names[] = {"spaces", "plain", "paged"};
	struct phys_memory *gpu;

	(void)state;
	machine_open();
	gpu = phys_of(all.machine, GPU0);
	for (uint32_t i = 0; i < NR_THREADS; i++)
		worker_open(&worker[i], i);
	for (uint32_t i = 0; i < NR_THREADS; i++)
		assert_int_equal(pthread_create(&worker[i].thread, NULL, worker_main, &worker[i]),
				 0);
	sleep_seconds(test_seconds("PHYS_SECONDS", SECONDS), NULL);
	atomic_store(&stop, true);
	for (uint32_t i = 0; i < NR_THREADS; i++)
		pthread_join(worker[i].thread, NULL);
	if (failed_line)
		fail_msg("line %d", failed_line);
	for (uint32_t i = 0; i < NR_THREADS; i++)
		print_message("%s: %llu steps, %llu refused\n", names[kind_of(&worker[i])],
			      (unsigned long long)worker[i].nr_steps,
			      (unsigned long long)worker[i].nr_refused);
	print_message("gpu0: %llu times asked, %llu KiB given\n", (unsigned long long)gpu->round,
		      (unsigned long long)(gpu->given_bytes >> 10));
	assert_true(gpu->given_bytes > 0);
	each_gets_what_is_idle();
	for (uint32_t i = 0; i < NR_THREADS; i++)
		worker_close(&worker[i]);
	assert_int_equal(gpu->held_bytes, 0);
	test_machine_close(&all);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_phys_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
