/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random sequences of calls to pools of paged memory on a simulated machine, against a shadow that
 * knows every word: brackets whose kernels read, write and add by several agents, some of which end
 * without leaving; flush, drain, reading and writing by the host, other budgets, ranges added and
 * removed, some of them in a neighbour's memory, calls while online. After each sequence the bytes
 * and the whole table are right.
 *
 *   PAGED_SEEDS    sequences [100, or 30 under a sanitizer]
 *   PAGED_SEED     the first one's seed [1]
 *
 * Labels: threads
 * Long: yes
 */
#include <pthread.h>

#include "tests/support/amount.h"
#include "tests/unit/test_paged.h"

#define NR_CALLS 40u
#define WORDS_MAX 12000u
#define AGENTS 3u
#define NR_OPS 150u

/* What a range must hold. words NULL: there is none. own: the home is weir's; near: the CPU reaches
 * it by copies. */
struct shadow {
	uint64_t *words, *host;
	uint64_t nr;
	bool read_only, own, near;
};

static struct {
	struct paged_test t;
	struct shadow range[WEIR_PAGED_RANGES_MAX];
	uint64_t random, seed;
	uint64_t max_frames;
	uint32_t call;
} run;

#define EXPECT(what)                                                                              \
	do {                                                                                      \
		if (!(what))                                                                      \
			fail_msg("seed %llu, call %u: line %d: %s", (unsigned long long)run.seed, \
				 run.call, __LINE__, #what);                                      \
	} while (0)

/* xorshift64* (Vigna, 2016) */
static uint64_t draw(uint64_t *state, uint64_t below)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return (*state * 0x2545f4914f6cdd1dull >> 33) % below;
}

static uint64_t below(uint64_t n)
{
	return draw(&run.random, n);
}

/* ------------------------------------------------------------------ kernels */

/* Each agent writes the words that it owns, index % AGENTS, and adds to any. */
struct work {
	struct weir_paged_view view;
	uint64_t seed;
	bool stays, wrong; /* ends without leaving; reaches outside its ranges */
};

struct worker {
	const struct work *work;
	struct paging_agent *agent;
	uint32_t number;
	bool failed;
};

/* The shadow is changed as the memory is: a word has one agent that changes it in a kernel. */
static void work_one(struct worker *w, uint64_t *random)
{
	uint32_t range = (uint32_t)draw(random, WEIR_PAGED_RANGES_MAX);
	struct shadow *s = &run.range[range];
	uint64_t index, value = draw(random, 1u << 30), old = 0;

	if (!s->words)
		return;
	index = draw(random, s->nr);
	index -= index % AGENTS;
	index += w->number;
	if (index >= s->nr)
		return;
	switch (s->read_only ? 0 : draw(random, 4)) {
	case 0:
		w->failed |=
			paging_read(w->agent, range, index * 8, &old, 8) || old != s->words[index];
		break;
	case 1:
		w->failed |= paging_write(w->agent, range, index * 8, &value, 8) != 0;
		s->words[index] = value;
		break;
	case 2:
		w->failed |= paging_drop(w->agent, range, index * 8, 8) ||
			     paging_prefetch(w->agent, range, index * 8, 8);
		break;
	default:
		w->failed |= paging_add(w->agent, range, index * 8, 8, value, &old) ||
			     old != s->words[index];
		s->words[index] += value;
	}
}

static void *worker_main(void *arg)
{
	struct worker *w = arg;
	uint64_t random = w->work->seed * 8 + w->number + 1;

	for (uint32_t i = 0; i < NR_OPS; i++)
		work_one(w, &random);
	return NULL;
}

static void work_cpu(const void *args)
{
	const struct work *work = args;
	struct worker worker[AGENTS];
	pthread_t thread[AGENTS];
	struct paging *pool;
	uint64_t value;

	if (paging_over(&work->view, (uint32_t)(work->seed % 5), &pool)) {
		run.t.nr_wrong++;
		return;
	}
	for (uint32_t i = 0; i < AGENTS; i++) {
		worker[i] = (struct worker){.work = work, .number = i};
		run.t.nr_wrong += paging_enter(pool, &worker[i].agent) != 0;
		if (pthread_create(&thread[i], NULL, worker_main, &worker[i]))
			abort();
	}
	for (uint32_t i = 0; i < AGENTS; i++) {
		pthread_join(thread[i], NULL);
		run.t.nr_wrong += worker[i].failed;
		if (work->wrong)
			run.t.nr_wrong += paging_read(worker[i].agent, 0, UINT64_MAX - 7, &value,
						      8) != -EINVAL;
		if (!work->stays || i)
			run.t.nr_wrong += paging_leave(worker[i].agent) != 0;
	}
	paging_destroy(pool);
}

static const struct weir_kernel work_kernel = {.name = "work", .cpu = work_cpu};

static void launch(struct weir_stream *stream, const struct weir_paged_view *view, bool stays,
		   bool wrong)
{
	const struct work work = {
		.view = *view, .seed = below(1u << 30), .stays = stays, .wrong = wrong};
	const struct weir_launch l = {
		.kernel = &work_kernel, .args = &work, .args_bytes = sizeof(work)};

	EXPECT(!weir_stream_launch(stream, &l));
}

/* ------------------------------------------------------------------ calls */

static uint32_t some_range(void)
{
	uint32_t i = (uint32_t)below(WEIR_PAGED_RANGES_MAX);

	for (uint32_t n = 0; n < WEIR_PAGED_RANGES_MAX; n++, i++)
		if (run.range[i % WEIR_PAGED_RANGES_MAX].words)
			return i % WEIR_PAGED_RANGES_MAX;
	return WEIR_PAGED_RANGES_MAX;
}

/* After a flush. */
static void expect_home(uint32_t range)
{
	const struct shadow *s = &run.range[range];
	uint64_t *home = s->near ? malloc(s->nr * 8) : s->host;

	assert_non_null(home);
	if (s->near)
		EXPECT(!weir_paged_read(run.t.pool, range, 0, home, s->nr * 8));
	for (uint64_t i = 0; i < s->nr; i++)
		EXPECT(home[i] == s->words[i]);
	if (s->near)
		free(home);
}

static void do_add(void)
{
	struct weir_paged_range_config config = {
		.bytes = (below(WORDS_MAX) + 1) * 8,
		.admit = (uint32_t)below(3),
		.read_only = below(4) == 0,
		.fill_only = below(3) == 0,
	};
	uint64_t *mine = below(2) ? aligned_alloc(16, (config.bytes + 15) / 16 * 16) : NULL;
	bool near = !mine && below(2);
	struct shadow *s;
	uint32_t range, free_one = 0;
	void *host;
	int err;

	while (free_one < WEIR_PAGED_RANGES_MAX && run.range[free_one].words)
		free_one++;
	config.host = mine;
	config.near_bytes[GPU1] = near ? below(config.bytes) + 1 : 0;
	err = weir_paged_range_add(run.t.pool, &config, &range, &host);
	EXPECT(err == (free_one == WEIR_PAGED_RANGES_MAX ? -ENOSPC : 0));
	if (err) {
		free(mine);
		return;
	}
	EXPECT(range == free_one && (!mine || host == mine));
	s = &run.range[range];
	*s = (struct shadow){.words = calloc(config.bytes / 8, 8),
			     .host = host,
			     .nr = config.bytes / 8,
			     .read_only = config.read_only != 0,
			     .own = mine == NULL,
			     .near = near};
	assert_non_null(s->words);
	if (!mine)
		expect_home(range);
	for (uint64_t i = 0; i < s->nr; i++)
		s->words[i] = below(1u << 30);
	if (near)
		EXPECT(!weir_paged_write(run.t.pool, range, 0, s->words, config.bytes));
	else
		memcpy(s->host, s->words, config.bytes);
}

static void do_remove(uint32_t range)
{
	struct shadow *s = &run.range[range];
	uint64_t *own = s->own ? NULL : s->host;

	EXPECT(!weir_paged_range_remove(run.t.pool, range));
	if (own)
		expect_home(range);
	free(own);
	free(s->words);
	memset(s, 0, sizeof(*s));
}

static void do_brackets(void)
{
	bool stays = below(8) == 0, wrong = below(8) == 0;
	struct weir_paged_view view;
	int err;

	for (uint64_t nr = below(3) + 1; nr; nr--) {
		struct weir_stream *stream = below(4) ? run.t.stream : run.t.other;

		err = weir_paged_begin(run.t.pool, stream, &view);
		if (err == -EBUSY) { /* the kernels of the one before have not run */
			EXPECT(weir_paged_flush(run.t.pool) == -EBUSY);
			continue;
		}
		EXPECT(!err);
		launch(stream, &view, stays, wrong);
		EXPECT(weir_paged_drain(run.t.pool) == -EBUSY);
		if (below(2))
			launch(stream, &view, false, false);
		EXPECT(!weir_paged_end(run.t.pool, stream));
	}
	if (below(4) == 0) {
		EXPECT(!weir_stream_sync(run.t.stream) && !weir_stream_sync(run.t.other));
		EXPECT(weir_paged_watch(run.t.pool) == 1);
		EXPECT(!weir_paged_flush(run.t.pool));
	}
	err = weir_paged_sync(run.t.pool);
	EXPECT(err == (wrong ? -EFAULT : stays ? -WEIR_ECONTRACT : 0));
}

static void do_host(uint32_t range)
{
	struct shadow *s = &run.range[range];
	uint64_t first = below(s->nr), nr = below(s->nr - first) + 1;
	uint64_t *buffer = calloc(nr, 8);

	assert_non_null(buffer);
	if (below(2)) {
		EXPECT(!weir_paged_read(run.t.pool, range, first * 8, buffer, nr * 8));
		EXPECT(!memcmp(buffer, s->words + first, nr * 8));
	} else {
		for (uint64_t i = 0; i < nr; i++)
			buffer[i] = s->words[first + i] = below(1u << 30);
		EXPECT(!weir_paged_write(run.t.pool, range, first * 8, buffer, nr * 8));
	}
	free(buffer);
}

static void do_flush(bool drain)
{
	EXPECT(!(drain ? weir_paged_drain(run.t.pool) : weir_paged_flush(run.t.pool)));
	for (uint32_t i = 0; i < WEIR_PAGED_RANGES_MAX; i++)
		if (run.range[i].words)
			expect_home(i);
	for (uint32_t i = 0; drain && i < WEIR_PAGED_RANGES_MAX; i++)
		for (uint64_t n = below(5); run.range[i].words && n; n--) {
			uint64_t index = below(run.range[i].nr);

			run.range[i].words[index] = below(1u << 30);
			if (run.range[i].near)
				EXPECT(!weir_paged_write(run.t.pool, i, index * 8,
							 &run.range[i].words[index], 8));
			else
				run.range[i].host[index] = run.range[i].words[index];
		}
}

static void do_budget(void)
{
	uint64_t nr = below(run.max_frames + 2);
	int err = weir_paged_set_budget(run.t.pool, nr << run.t.pool->view.page_shift);

	EXPECT(err == (nr && nr <= run.max_frames ? 0 : -EINVAL));
	EXPECT(err || paged_stats(&run.t).nr_frames == nr);
}

static void one_call(void)
{
	uint32_t range = some_range();

	if (range == WEIR_PAGED_RANGES_MAX || below(8) == 0) {
		do_add();
		return;
	}
	switch (below(10)) {
	case 0:
		do_flush(false);
		break;
	case 1:
		do_flush(true);
		break;
	case 2:
		do_budget();
		break;
	case 3:
		do_host(range);
		break;
	case 4:
		if (below(2))
			do_remove(range);
		break;
	default:
		do_brackets();
	}
}

static void one_sequence(uint64_t seed)
{
	static const uint32_t pages[] = {4096, 4096, 4096, 8192, 16384, 65536};
	struct weir_paged_config config = {.watch_ms = 1};

	memset(&run, 0, sizeof(run));
	run.seed = seed;
	run.random = seed * 0x9e3779b97f4a7c15ull | 1;
	config.page_bytes = pages[below(6)];
	run.max_frames = below(20) + 1;
	config.gpu_max_bytes = run.max_frames * config.page_bytes;
	config.gpu_bytes = (below(run.max_frames) + 1) * config.page_bytes;
	paged_machine_open(&run.t, WEIR_DATA_REAL);
	EXPECT(!weir_paged_create(run.t.machine, &config, &run.t.pool));
	for (run.call = 0; run.call < NR_CALLS; run.call++) {
		one_call();
		EXPECT(!run.t.nr_wrong);
		EXPECT(run.call % 8 || !weir_paged_check(run.t.pool));
	}
	do_flush(false);
	EXPECT(!weir_paged_check(run.t.pool));
	EXPECT(!paged_stats(&run.t).nr_stalls);
	weir_paged_destroy(run.t.pool);
	for (uint32_t i = 0; i < WEIR_PAGED_RANGES_MAX; i++) {
		if (!run.range[i].own)
			free(run.range[i].host);
		free(run.range[i].words);
	}
	paged_machine_close(&run.t);
}

static void test_paged_random(void **unused)
{
	static const struct test_amount sequences = {100, 30, 2000}, one = {1, 1, 1};
	const uint64_t first = test_amount("PAGED_SEED", one);
	const uint64_t nr = test_amount("PAGED_SEEDS", sequences);

	(void)unused;
	for (uint64_t i = 0; i < nr; i++)
		one_sequence(first + i);
	print_message("%llu sequences from seed %llu\n", (unsigned long long)nr,
		      (unsigned long long)first);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_paged_random)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
