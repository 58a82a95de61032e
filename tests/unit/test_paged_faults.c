/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every backend call that a pool of paged memory makes in a script fails in turn: once with
 * -ENOMEM, once with -EIO, once together with the call after it. A call of the pool that returned
 * an error left memory and the view as they were, and works when it is tried again; in the end the
 * bytes are right, and nothing is left in the simulator.
 */
#include "tests/property/test_faults_hook.h"
#include "tests/unit/test_paged.h"

#define TRIES 6
#define PAGE 512u /* words of it */
#define NR_WORDS (6 * PAGE + 5)

static struct paged_test t;
static uint64_t nr_errors;
static _Alignas(16) uint64_t mine[NR_WORDS];

#define EXPECT(what)                                                                             \
	do {                                                                                     \
		if (!(what))                                                                     \
			fail_msg("call %llu (%s) and %u more fail with %d: line %d: %s",         \
				 (unsigned long long)hook.faults.at, hook.op ? hook.op : "none", \
				 hook.faults.nr ? hook.faults.nr - 1 : 0, hook.faults.err,       \
				 __LINE__, #what);                                               \
	} while (0)

/* All that a failed call must leave alone. */
struct state {
	uint64_t used[3];
	struct weir_paged_view view;
	bool open;
};

static bool states_same(const struct state *a, const struct state *b)
{
	const struct pt_table *t1 = &a->view.table, *t2 = &b->view.table;
	bool same = !memcmp(a->used, b->used, sizeof(a->used)) && a->open == b->open;

	same &= t1->nr_frames == t2->nr_frames && t1->window == t2->window &&
		t1->nr_ranges == t2->nr_ranges && a->view.frames == b->view.frames;
	for (uint32_t i = 0; i < WEIR_PAGED_RANGES_MAX; i++)
		same &= a->view.range[i].entry == b->view.range[i].entry &&
			a->view.range[i].host == b->view.range[i].host &&
			a->view.range[i].bytes == b->view.range[i].bytes;
	return same;
}

static struct state state_now(void)
{
	struct state state;

	memset(&state, 0, sizeof(state));
	for (uint32_t m = 0; m < 3; m++)
		state.used[m] = t.flaky->ops->memory_used(t.flaky, m);
	if (t.pool) {
		state.view = t.pool->view;
		state.open = t.pool->open;
	}
	return state;
}

/* Try a call until it succeeds. */
#define MUST(call)                                                                  \
	do {                                                                        \
		struct state before = state_now(), after;                           \
		int last = -EIO;                                                    \
		for (int try = 0; try < TRIES && last; try++) {                     \
			last = (call);                                              \
			after = state_now();                                        \
			if (last) {                                                 \
				nr_errors++;                                        \
				EXPECT(last == hook.faults.err || last == -ENOMEM); \
				EXPECT(states_same(&before, &after));               \
			}                                                           \
		}                                                                   \
		EXPECT(!last);                                                      \
	} while (0)

static void bracket(const struct paged_op *ops, uint32_t nr)
{
	struct weir_paged_view view;
	int err;

	MUST(weir_paged_begin(t.pool, t.stream, &view));
	MUST(paged_launch(&t, &view, false, ops, nr));
	err = weir_paged_end(t.pool, t.stream);
	EXPECT(!err || err == hook.faults.err);
	nr_errors += err != 0;
	MUST(weir_paged_sync(t.pool));
}

static int stats_of(struct weir_paged_stats *stats)
{
	memset(stats, 0xee, sizeof(*stats));
	return weir_paged_query(t.pool, stats);
}

static void script(void)
{
	const struct weir_paged_config config = {
		.page_bytes = 4096, .gpu_bytes = 8192, .gpu_max_bytes = 4 * 4096};
	struct weir_paged_range_config first = {.bytes = 4096};
	struct weir_paged_range_config second = {.bytes = sizeof(mine), .host = mine};
	struct weir_paged_range_config third = {.bytes = 5 * 4096};
	struct weir_paged_stats stats;
	uint64_t value = 77, back;
	uint32_t range = 9;

	MUST(weir_paged_create(t.machine, &config, &t.pool));
	MUST(weir_paged_range_add(t.pool, &first, &range, NULL));
	EXPECT(range == 0);
	MUST(weir_paged_range_add(t.pool, &second, &range, NULL));
	EXPECT(range == 1);
	third.near_bytes[GPU1] = 3 * 4096;
	MUST(weir_paged_range_add(t.pool, &third, &range, NULL));
	EXPECT(range == 2);
	bracket((struct paged_op[]){{PAGED_ADD, 1, 1, 5},
				    {PAGED_ADD, 1, 6 * PAGE + 4, 6},
				    {PAGED_WRITE, 0, 7, 8},
				    {PAGED_READ, 1, 3 * PAGE, 0}},
		4);
	MUST(weir_paged_flush(t.pool));
	EXPECT(mine[1] == 5 && mine[6 * PAGE + 4] == 6);
	MUST(stats_of(&stats));
	EXPECT(stats.nr_frames == 2 && stats.range[1].nr[WEIR_PAGED_IN] >= 2);
	MUST(weir_paged_set_budget(t.pool, 4 * 4096));
	bracket((struct paged_op[]){{PAGED_ADD, 1, 1, 1},
				    {PAGED_ADD, 1, PAGE, 1},
				    {PAGED_ADD, 1, 2 * PAGE, 1},
				    {PAGED_ADD, 1, 3 * PAGE, 1}},
		4);
	MUST(weir_paged_set_budget(t.pool, 4096));
	MUST(weir_paged_check(t.pool));
	MUST(weir_paged_write(t.pool, 1, 3 * 4096, &value, 8));
	bracket((struct paged_op[]){{PAGED_ADD, 1, 3 * PAGE, 1}, {PAGED_READ, 0, 7, 8}}, 2);
	MUST(weir_paged_read(t.pool, 1, 3 * 4096, &back, 8));
	EXPECT(back == 78);
	MUST(weir_paged_write(t.pool, 2, 4096 - 8, mine, 4096 + 16));
	bracket((struct paged_op[]){{PAGED_READ, 2, PAGE, mine[1]}, {PAGED_ADD, 2, 2 * PAGE, 2}},
		2);
	MUST(weir_paged_read(t.pool, 2, 2 * 4096, &back, 8));
	EXPECT(back == mine[PAGE + 1] + 2);
	MUST(weir_paged_range_remove(t.pool, 0));
	MUST(weir_paged_range_remove(t.pool, 2));
	bracket((struct paged_op[]){{PAGED_ADD, 1, 4 * PAGE, 9}}, 1);
	MUST(weir_paged_drain(t.pool));
	EXPECT(mine[1] == 6 && mine[PAGE] == 1 && mine[2 * PAGE] == 1 && mine[4 * PAGE] == 9);
	bracket((struct paged_op[]){{PAGED_ADD, 1, 5 * PAGE, 3}}, 1);
	MUST(weir_paged_check(t.pool));
}

/* @return calls of the backend in all */
static uint64_t run_script(struct faults faults)
{
	struct backend *sim;
	uint64_t nr_calls;

	paged_machine_open(&t, WEIR_DATA_REAL);
	sim = flaky_inner(t.flaky);
	memset(mine, 0, sizeof(mine));
	nr_errors = 0;
	hook_install(t.flaky, &faults);
	script();
	weir_paged_destroy(t.pool);
	nr_calls = flaky_nr_calls(t.flaky);
	EXPECT(mine[5 * PAGE] == 3);
	EXPECT(!t.nr_wrong);
	for (uint32_t m = 0; m < 3; m++)
		EXPECT(!sim->ops->memory_used(sim, m));
	paged_machine_close(&t);
	return nr_calls;
}

static void each_call(uint32_t nr, int err)
{
	uint64_t nr_calls = run_script((struct faults){0}), nr_seen = 0;

	assert_int_equal(nr_errors, 0);
	for (uint64_t at = 3; at <= nr_calls; at++) {
		(void)run_script((struct faults){.at = at, .nr = nr, .err = err});
		nr_seen += nr_errors > 0;
	}
	print_message("%llu calls failed in turn, %llu were told\n", (unsigned long long)nr_calls,
		      (unsigned long long)nr_seen);
	assert_true(nr_calls > 100);
	assert_true(nr_seen > 90);
}

static void test_paged_faults_no_memory(void **unused)
{
	(void)unused;
	each_call(1, -ENOMEM);
}

static void test_paged_faults_error(void **unused)
{
	(void)unused;
	each_call(1, -EIO);
}

static void test_paged_faults_two_in_a_row(void **unused)
{
	(void)unused;
	each_call(2, -EIO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_paged_faults_no_memory),
		cmocka_unit_test(test_paged_faults_error),
		cmocka_unit_test(test_paged_faults_two_in_a_row),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
