/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every backend call that a pool of plain memory makes in a script fails in turn: once with
 * -ENOMEM, once with -EIO, once together with the call after it. A call of the pool that returned
 * an error left objects, figures, mappings, addresses and bytes as they were, and works when it is
 * tried again; taking back and freeing never fail; in the end the bytes are right, and nothing is
 * left in the simulator, which never complained.
 *
 * Under a sanitizer every second call fails, with one error or the other, but for WEIR_TEST_LONG.
 *
 * Long: yes
 */
#include <errno.h>
#include <stdlib.h>

#include "src/backend/machine.h"
#include "src/base/util.h"
#include "src/mem/mem.h"
#include "tests/property/test_faults_hook.h"
#include "tests/support/amount.h"
#include "tests/unit/test_sim_machine.h"

#define NR_SLOTS 5u
#define MOST_BYTES (MIB(2) + 17)
#define TRIES 6

static struct {
	struct backend *flaky;
	struct weir_machine *machine;
	struct weir_pool *pool;
	struct weir_stream *stream;
	struct weir_mem *mem[NR_SLOTS];
	uint64_t nr_errors;
	char complaint[256];
	uint8_t *buffer;
} run;

static void on_log(void *arg, enum weir_log_level level, const char *message)
{
	(void)arg;
	if (level == WEIR_LOG_ERROR && !run.complaint[0])
		(void)snprintf(run.complaint, sizeof(run.complaint), "%s", message);
}

#define EXPECT(what)                                                                             \
	do {                                                                                     \
		if (!(what))                                                                     \
			fail_msg("call %llu (%s) and %u more fail with %d: line %d: %s (%s)",    \
				 (unsigned long long)hook.faults.at, hook.op ? hook.op : "none", \
				 hook.faults.nr - 1, hook.faults.err, __LINE__, #what,           \
				 run.complaint);                                                 \
	} while (0)

/* What is written to a slot begins at its number. */
static uint8_t pattern[MOST_BYTES + NR_SLOTS], zeros[MOST_BYTES];

/* All that a failed call must leave alone; memory that is not in use may come and go. */
struct state {
	struct weir_pool_stats stats;
	struct weir_mem_info info[NR_SLOTS];
};

static struct state state_now(void)
{
	struct state state;

	memset(&state, 0, sizeof(state));
	if (run.pool)
		weir_pool_query(run.pool, &state.stats);
	for (uint32_t i = 0; i < NR_SLOTS; i++)
		if (run.mem[i]) {
			weir_mem_query(run.mem[i], &state.info[i]);
			/* A failed mapping may have reserved the address. */
			if (!state.info[i].users)
				state.info[i].addr = NULL;
		}
	return state;
}

static bool states_same(const struct state *a, const struct state *b)
{
	bool same = !memcmp(a->stats.nr_objects, b->stats.nr_objects, sizeof(a->stats.nr_objects));

	same &= !memcmp(a->stats.object_bytes, b->stats.object_bytes,
			sizeof(a->stats.object_bytes));
	same &= !memcmp(a->stats.dma_bytes, b->stats.dma_bytes, sizeof(a->stats.dma_bytes));
	for (uint32_t i = 0; i < NR_SLOTS; i++)
		same &= a->info[i].users == b->info[i].users &&
			a->info[i].engines == b->info[i].engines &&
			a->info[i].addr == b->info[i].addr && a->info[i].bytes == b->info[i].bytes;
	return same;
}

/* Try a call until it succeeds. */
#define MUST(call)                                                                  \
	do {                                                                        \
		struct state before = state_now();                                  \
		int last = -EIO;                                                    \
		for (int try = 0; try < TRIES && last; try++) {                     \
			last = (call);                                              \
			if (last) {                                                 \
				struct state after = state_now();                   \
				run.nr_errors++;                                    \
				EXPECT(last == hook.faults.err || last == -ENOMEM); \
				EXPECT(states_same(&before, &after));               \
			}                                                           \
			EXPECT(!run.pool || !weir_pool_check(run.pool));            \
		}                                                                   \
		EXPECT(!last);                                                      \
	} while (0)

static void get(uint32_t slot, uint32_t memory, uint64_t bytes, int zero)
{
	const struct weir_mem_params params = {.bytes = bytes, .memory = memory, .zero = zero};

	MUST(weir_mem_alloc(run.pool, &params, &run.mem[slot]));
}

static void put(uint32_t slot, struct weir_stream *stream)
{
	weir_mem_free(run.mem[slot], stream);
	run.mem[slot] = NULL;
	EXPECT(!weir_pool_check(run.pool));
}

static void take_back(uint32_t slot, uint64_t users)
{
	weir_mem_unmap(run.mem[slot], users, 0);
	EXPECT(!weir_pool_check(run.pool));
}

static uint64_t bytes_of(uint32_t slot)
{
	struct weir_mem_info info;

	weir_mem_query(run.mem[slot], &info);
	return info.bytes;
}

static void write_to(uint32_t slot)
{
	MUST(weir_mem_write(run.mem[slot], 0, 0, pattern + slot, bytes_of(slot)));
}

/* Holds what was written to another slot, or zeros. */
static void expect_bytes(uint32_t slot, uint32_t from, bool zero)
{
	uint64_t bytes = bytes_of(slot);

	memset(run.buffer, 0xee, bytes);
	MUST(weir_mem_read(run.mem[slot], 0, 0, run.buffer, bytes));
	EXPECT(!memcmp(run.buffer, zero ? zeros : pattern + from, bytes));
}

static int sync_stream(void)
{
	return weir_stream_sync(run.stream);
}

static void script(void)
{
	void *first = NULL, *again = NULL;

	get(0, HOST, KIB(5), 1);
	get(1, HOST, MOST_BYTES, 0);
	get(2, GPU0, MOST_BYTES, 1);
	get(3, GPU1, KIB(70), 0);
	MUST(weir_mem_map(run.mem[0], WEIR_MEM_CPU, 0, &first));
	MUST(weir_mem_map(run.mem[0], WEIR_MEM_ALL, 0, &again));
	EXPECT(first == again);
	MUST(weir_mem_map(run.mem[1], WEIR_MEM_DEVICE(1) | WEIR_MEM_CPU, 0, &first));
	MUST(weir_mem_map(run.mem[1], WEIR_MEM_ALL, 0, &again));
	EXPECT(first == again);
	MUST(weir_mem_map(run.mem[2], WEIR_MEM_DEVICE(0), 0, NULL));
	MUST(weir_mem_map(run.mem[3], WEIR_MEM_ALL, 0, NULL));
	expect_bytes(0, 0, true);
	expect_bytes(2, 0, true);
	write_to(1);
	MUST(weir_mem_copy(run.stream, run.mem[2], 0, run.mem[1], 0, MOST_BYTES));
	MUST(sync_stream());
	expect_bytes(2, 1, false);
	take_back(1, WEIR_MEM_DEVICE(0));
	take_back(1, WEIR_MEM_ALL);
	MUST(weir_mem_map(run.mem[1], WEIR_MEM_ALL, 0, &again));
	EXPECT(first == again);
	expect_bytes(1, 1, false);
	write_to(3);
	put(0, NULL);
	get(4, HOST, KIB(5), 0);
	MUST(weir_mem_map(run.mem[4], WEIR_MEM_DEVICE(1), 0, NULL));
	put(1, run.stream);
	put(2, NULL);
	get(0, GPU0, MIB(9), 0); /* has to do with what the others gave back */
	MUST(weir_mem_map(run.mem[0], WEIR_MEM_ALL, 0, NULL));
	expect_bytes(3, 3, false);
	put(3, run.stream);
	(void)weir_pool_trim(run.pool);
	EXPECT(!weir_pool_check(run.pool));
	put(0, NULL);
	put(4, NULL);
}

/* @return calls of the backend in all */
static uint64_t run_script(struct faults faults)
{
	const struct weir_pool_config config = {.guard = WEIR_GUARD_OFF};
	struct weir_machine_desc desc;
	uint8_t *buffer = run.buffer;
	struct backend *sim;
	uint64_t nr_calls;

	memset(&run, 0, sizeof(run));
	run.buffer = buffer;
	test_machine(&desc);
	assert_int_equal(sim_create(&desc, WEIR_DATA_REAL, &sim), 0);
	assert_int_equal(flaky_create(sim, &run.flaky), 0);
	assert_int_equal(machine_wrap(run.flaky, &run.machine), 0);
	hook_install(run.flaky, &faults);
	MUST(weir_stream_create(run.machine, 0, &run.stream));
	MUST(weir_pool_create(run.machine, &config, &run.pool));
	script();
	weir_pool_destroy(run.pool);
	nr_calls = flaky_nr_calls(run.flaky);
	for (uint32_t m = 0; m < desc.nr_memories; m++)
		EXPECT(!sim->ops->memory_used(sim, m));
	weir_stream_destroy(run.stream);
	EXPECT(!sim_leaks(sim));
	EXPECT(!run.complaint[0]);
	weir_machine_close(run.machine);
	return nr_calls;
}

static void each_call(uint64_t first, uint32_t nr, int err)
{
	static const struct test_amount apart = {1, 5, 1};
	uint64_t nr_calls = run_script((struct faults){0}), nr_seen = 0;

	assert_int_equal(run.nr_errors, 0);
	for (uint64_t at = first; at <= nr_calls; at += test_amount(NULL, apart)) {
		(void)run_script((struct faults){.at = at, .nr = nr, .err = err});
		nr_seen += run.nr_errors > 0;
	}
	print_message("of %llu calls some failed in turn, %llu were told\n",
		      (unsigned long long)nr_calls, (unsigned long long)nr_seen);
	assert_true(nr_calls > 80);
	assert_true(nr_seen > 40 / test_amount(NULL, apart));
}

static void test_mem_faults_no_memory(void **state)
{
	(void)state;
	each_call(1, 1, -ENOMEM);
}

static void test_mem_faults_error(void **state)
{
	(void)state;
	each_call(TEST_SANITIZED + 1, 1, -EIO);
}

static void test_mem_faults_two_in_a_row(void **state)
{
	(void)state;
	each_call(1, 2, -EIO);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_mem_faults_no_memory),
		cmocka_unit_test(test_mem_faults_error),
		cmocka_unit_test(test_mem_faults_two_in_a_row),
	};
	int failed;

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	for (uint64_t i = 0; i < sizeof(pattern); i++)
		pattern[i] = (uint8_t)(i * 7 + (i >> 8));
	run.buffer = malloc(MIB(9));
	if (!run.buffer)
		return 1;
	weir_log_set(on_log, NULL);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	free(run.buffer);
	return failed;
}
