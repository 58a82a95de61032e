/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every backend call that a space and a pool of paged memory in it make in a script fails in turn:
 * once with -ENOMEM, once with -EIO, once together with the call after it. A bracket that did not
 * open left the pool closed and nothing pinned, one that did not end is open; the budget is held;
 * what failed works when it is tried again; in the end the words are right, and nothing is left in
 * the simulator. Under a sanitizer one call in seven fails.
 */
#include "src/core/space.h"
#include "tests/property/test_faults_hook.h"
#include "tests/support/amount.h"
#include "tests/unit/test_paged.h"

#define TRIES 8
#define PAGE 512u
#define BLOCK (UINT64_C(4) * 4096)
#define BUDGET 8u
#define NR_PAGES 16u

static struct paged_test t;
static struct weir_space *space;
static uint64_t nr_errors;

#define EXPECT(what)                                                                             \
	do {                                                                                     \
		if (!(what))                                                                     \
			fail_msg("call %llu (%s) and %u more fail with %d: line %d: %s",         \
				 (unsigned long long)hook.faults.at, hook.op ? hook.op : "none", \
				 hook.faults.nr ? hook.faults.nr - 1 : 0, hook.faults.err,       \
				 __LINE__, #what);                                               \
	} while (0)

/* What holds after each call, whether or not it worked. */
static void expect_whole(bool open)
{
	struct phys_memory *memory = phys_of(t.machine, GPU0);

	EXPECT(!space || !weir_space_check(space));
	EXPECT(!memory || (!phys_check(memory) && memory->held_bytes <= BUDGET * BLOCK));
	EXPECT(!t.pool || t.pool->open == open);
	EXPECT(!space || space->nr_open == open);
	for (uint32_t r = 0; space && !open && r < space->nr_ranges; r++)
		EXPECT(!space->range[r]->pins && !space->range[r]->part_pins);
}

/* Try a call until it succeeds. was, is: whether a bracket is open before and after it. */
#define MUST(call, was, is)                                                         \
	do {                                                                        \
		int last = -EIO;                                                    \
		for (int try = 0; try < TRIES && last; try++) {                     \
			last = (call);                                              \
			expect_whole(last ? (was) : (is));                          \
			if (last) {                                                 \
				nr_errors++;                                        \
				EXPECT(last == hook.faults.err || last == -ENOMEM); \
			}                                                           \
		}                                                                   \
		EXPECT(!last);                                                      \
	} while (0)

static struct weir_use use(void *addr, enum weir_use_kind kind)
{
	return (struct weir_use){
		.addr = addr, .bytes = NR_PAGES * 4096, .kind = kind, .read_bytes = 1 << 20};
}

static int launch(struct weir_stream *stream, uint32_t range, uint64_t value)
{
	struct paged_kernel k = {.nr = NR_PAGES, .nr_wrong = &t.nr_wrong};
	const struct weir_launch launch = {.kernel = t.kernel, .args = &k, .args_bytes = sizeof(k)};
	int err = weir_paged_view_get(t.pool, stream, &k.view);

	EXPECT(!err);
	for (uint32_t i = 0; i < NR_PAGES; i++)
		k.op[i] = (struct paged_op){PAGED_ADD, range, i * PAGE, value};
	return weir_stream_launch(stream, &launch);
}

/* One bracket that names both, and adds to each page of the paged range. */
static void bracket(struct weir_stream *stream, uint64_t *words, void *mapped, uint64_t value)
{
	const struct weir_use uses[] = {use(words, WEIR_WRITE), use(mapped, WEIR_READ)};

	MUST(weir_begin(space, stream, uses, 2), false, true);
	MUST(launch(stream, 0, value), true, true);
	MUST(weir_end(space, stream), true, false);
}

static void expect_word(const void *addr, uint64_t value)
{
	uint64_t word = 0;

	MUST(weir_read(space, &word, addr, 8), false, false);
	EXPECT(word == value);
}

static void script(void)
{
	struct weir_space_config space_config = {.block_bytes = BLOCK, .mode = WEIR_PLANNED};
	struct weir_paged_range_config range_config = {.bytes = NR_PAGES * 4096};
	struct weir_paged_config config = {
		.page_bytes = 4096, .gpu_bytes = BLOCK, .gpu_max_bytes = 4 * BLOCK};
	uint64_t *words, value = 77;
	void *mapped, *live;
	uint32_t range;

	space_config.budget_bytes[GPU0] = BUDGET * BLOCK;
	space_config.budget_bytes[HOST] = BUDGET * BLOCK;
	MUST(weir_space_create(t.machine, &space_config, &space), false, false);
	MUST(weir_alloc(space, BUDGET * BLOCK, t.stream, &mapped), false, false);
	MUST(weir_write(space, mapped, &value, 8), false, false);
	config.space = space;
	MUST(weir_paged_create(t.machine, &config, &t.pool), false, false);
	MUST(weir_paged_range_add(t.pool, &range_config, &range, (void **)&words), false, false);
	bracket(t.stream, words, mapped, 1);
	bracket(t.other, words, mapped, 2);
	expect_word(words + (NR_PAGES - 1) * PAGE, 3);
	/* Blocks that are evicted give frames, frames that are given are blocks. */
	MUST(weir_paged_set_budget(t.pool, 4 * BLOCK), false, false);
	bracket(t.other, words, mapped, 4);
	MUST(weir_paged_sync(t.pool), false, false);
	MUST(weir_alloc(space, 4 * BLOCK, t.stream, &live), false, false);
	bracket(t.stream, words, mapped, 8);
	value = 5;
	MUST(weir_write(space, words + PAGE, &value, 8), false, false);
	bracket(t.stream, words, live, 16);
	expect_word(words + PAGE, 21);
	expect_word(words, 31);
	MUST(weir_free(space, live, NULL), false, false);
	expect_word(mapped, 77);
	MUST(weir_paged_range_remove(t.pool, 0), false, false);
	MUST(weir_paged_check(t.pool), false, false);
}

/* @return calls of the backend in all */
static uint64_t run_script(struct faults faults)
{
	struct backend *sim;
	uint64_t nr_calls;

	paged_machine_open(&t, WEIR_DATA_REAL);
	sim = flaky_inner(t.flaky);
	space = NULL;
	nr_errors = 0;
	hook_install(t.flaky, &faults);
	script();
	weir_paged_destroy(t.pool);
	t.pool = NULL;
	expect_whole(false);
	weir_space_destroy(space);
	nr_calls = flaky_nr_calls(t.flaky);
	EXPECT(!t.nr_wrong);
	for (uint32_t m = 0; m < 3; m++)
		EXPECT(!sim->ops->memory_used(sim, m));
	paged_machine_close(&t);
	return nr_calls;
}

static void each_call(uint32_t nr, int err)
{
	static const struct test_amount amount = {1, 7, 1};
	const uint64_t apart = test_amount(NULL, amount);
	uint64_t nr_calls = run_script((struct faults){0}), nr_seen = 0;

	assert_int_equal(nr_errors, 0);
	for (uint64_t at = 3; at <= nr_calls; at += apart) {
		(void)run_script((struct faults){.at = at, .nr = nr, .err = err});
		nr_seen += nr_errors > 0;
	}
	print_message("of %llu calls one in %llu failed in turn, %llu were told\n",
		      (unsigned long long)nr_calls, (unsigned long long)apart,
		      (unsigned long long)nr_seen);
	assert_true(nr_calls > 200);
	assert_true(nr_seen > 100 / apart);
}

static void test_space_paged_faults_no_memory(void **unused)
{
	(void)unused;
	each_call(1, -ENOMEM);
}

static void test_space_paged_faults_error(void **unused)
{
	(void)unused;
	each_call(1, -EIO);
}

static void test_space_paged_faults_two_in_a_row(void **unused)
{
	(void)unused;
	each_call(2, -EIO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_space_paged_faults_no_memory),
		cmocka_unit_test(test_space_paged_faults_error),
		cmocka_unit_test(test_space_paged_faults_two_in_a_row),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
