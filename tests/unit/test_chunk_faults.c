/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every backend call that a chunk pool makes in a script fails in turn: once with -ENOMEM, once
 * with -EIO, once together with the call after it. After each call of the pool the checker holds;
 * one that returned an error left every chunk as it was and can be tried again; in the end the
 * bytes were right, and nothing is left in the simulator, which never complained.
 */
#include <errno.h>
#include <stdlib.h>

#include "src/base/util.h"
#include "src/mem/chunk.h"
#include "tests/property/test_faults_hook.h"
#include "tests/support/account.h"
#include "tests/unit/test_sim_machine.h"

#define ROOT KIB(256)
#define NR_SLOTS 12u
#define TRIES 6

static struct {
	struct backend *flaky;
	struct test_account account;
	struct chunk_pool *pool;
	stream_id_t stream;
	void *host;
	struct mem_chunk *chunk[NR_SLOTS];
	uint64_t bytes[NR_SLOTS];
	struct chunk_pool_stats stats; /* at the end */
	uint64_t nr_errors;
	char complaint[256];
} run;

static void on_log(void *arg, enum weir_log_level level, const char *message)
{
	(void)arg;
	if (level == WEIR_LOG_ERROR && !run.complaint[0])
		snprintf(run.complaint, sizeof(run.complaint), "%s", message);
}

#define EXPECT(what)                                                                             \
	do {                                                                                     \
		if (!(what))                                                                     \
			fail_msg("call %llu (%s) and %u more fail with %d: line %d: %s (%s)",    \
				 (unsigned long long)hook.faults.at, hook.op ? hook.op : "none", \
				 hook.faults.nr - 1, hook.faults.err, __LINE__, #what,           \
				 run.complaint);                                                 \
	} while (0)

static void expect_sound(void)
{
	struct chunk_pool_stats stats;
	uint64_t nr = 0, bytes = 0;

	for (uint32_t i = 0; i < NR_SLOTS; i++) {
		nr += run.chunk[i] != NULL;
		bytes += run.chunk[i] ? chunk_bytes(run.chunk[i]) : 0;
	}
	EXPECT(!chunk_pool_check(run.pool));
	chunk_pool_stats(run.pool, &stats);
	EXPECT(stats.nr_chunks == nr && stats.allocated_bytes == bytes && !stats.nr_wrong);
	EXPECT(stats.held_bytes == run.account.client.held_bytes);
	EXPECT(!phys_check(&run.account.memory));
}

/* A call of the pool that returns an error must be one of those that are allowed. */
static bool tried(int err)
{
	expect_sound();
	if (!err)
		return true;
	run.nr_errors++;
	EXPECT(err == hook.faults.err || err == -ENOMEM);
	return false;
}

static void progress(void)
{
	run.flaky->ops->host_spend(run.flaky, 5000000);
	(void)chunk_pool_trim(run.pool, 0); /* looks at fences */
	expect_sound();
}

static fence_t copy_out(const struct mem_chunk *chunk)
{
	struct backend_copy copy = {run.host, chunk_addr(chunk), chunk_bytes(chunk)};
	struct backend *b = flaky_inner(run.flaky);
	fence_t fence;

	assert_int_equal(b->ops->copy(b, run.stream, &copy, 1), 0);
	assert_int_equal(b->ops->fence_record(b, run.stream, &fence), 0);
	return fence;
}

static bool is_zero(const char *byte, uint64_t bytes)
{
	for (uint64_t i = 0; i < bytes; i++)
		if (byte[i])
			return false;
	return true;
}

static void get(uint32_t slot, uint64_t bytes, bool zeroed)
{
	struct backend *b = flaky_inner(run.flaky);
	struct mem_chunk *chunk = NULL;
	fence_t fence = 0;
	bool done = false;

	for (int i = 0; i < TRIES && !done; i++) {
		int err = chunk_alloc(run.pool, bytes, zeroed ? &fence : NULL, &chunk);

		/* Before anything is counted that was not handed out. */
		if (!err)
			run.chunk[slot] = chunk;
		done = tried(err);
	}
	EXPECT(done);
	if (fence)
		EXPECT(!b->ops->fence_wait(b, fence));
	if (zeroed)
		EXPECT(is_zero(chunk_addr(chunk), chunk_bytes(chunk)));
	memset(chunk_addr(chunk), (int)(slot + 1), chunk_bytes(chunk));
	run.bytes[slot] = chunk_bytes(chunk);
}

static void put(uint32_t slot, bool pending)
{
	struct mem_chunk *chunk = run.chunk[slot];

	EXPECT(*(char *)chunk_addr(chunk) == (char)(slot + 1));
	run.chunk[slot] = NULL;
	chunk_free(run.pool, chunk, pending ? copy_out(chunk) : 0);
	expect_sound();
}

static void run_create(const struct faults *faults)
{
	struct chunk_pool_config config;
	struct weir_machine_desc desc;
	struct backend *sim;
	bool done = false;

	test_machine(&desc);
	assert_int_equal(sim_create(&desc, WEIR_DATA_REAL, &sim), 0);
	assert_int_equal(sim->ops->stream_create(sim, 0, BACKEND_COPY_OUT, &run.stream), 0);
	assert_int_equal(sim->ops->device_alloc(sim, HOST, MIB(2), &run.host), 0);
	assert_int_equal(flaky_create(sim, &run.flaky), 0);
	hook_install(run.flaky, faults);
	test_account_open(&run.account, run.flaky, GPU0, PHYS_NO_LIMIT);
	config = (struct chunk_pool_config){.client = &run.account.client,
					    .root_bytes = ROOT,
					    .least_bytes = KIB(4),
					    .idle_bytes = ROOT,
					    .nr_pooled = 2,
					    .zero = true};
	for (int i = 0; i < TRIES && !done; i++) {
		int leaks = sim_leaks(sim);

		done = !chunk_pool_create(&config, &run.pool);
		if (!done) {
			run.nr_errors++;
			EXPECT(sim_leaks(sim) == leaks);
		}
	}
	EXPECT(done);
}

static void run_destroy(void)
{
	struct backend *sim = flaky_inner(run.flaky);

	for (uint32_t i = 0; i < NR_SLOTS; i++)
		if (run.chunk[i])
			put(i, i & 1);
	expect_sound();
	chunk_pool_stats(run.pool, &run.stats);
	chunk_pool_destroy(run.pool);
	test_account_close(&run.account);
	EXPECT(!sim->ops->memory_used(sim, GPU0));
	sim->ops->device_free(sim, run.host);
	sim->ops->stream_destroy(sim, run.stream);
	EXPECT(!sim_leaks(sim));
	EXPECT(!run.complaint[0]);
}

/* @return calls of the backend in all */
static uint64_t run_script(struct faults faults)
{
	uint64_t nr_calls;

	memset(&run, 0, sizeof(run));
	run_create(&faults);
	get(0, KIB(4), false);
	get(1, KIB(100), true);
	progress();
	put(1, true);
	get(1, KIB(100), false);
	progress();
	get(2, ROOT, true); /* another root */
	get(3, ROOT, false);
	put(2, true);
	get(4, KIB(64), true);
	put(3, false);
	get(5, ROOT, false);
	progress();
	put(0, false);
	put(4, true);
	put(5, true);
	progress();
	(void)chunk_pool_trim(run.pool, UINT64_MAX);
	get(0, KIB(12), true);
	get(6, ROOT / 2, true);
	get(7, ROOT / 2, false);
	get(8, ROOT, true);
	get(9, ROOT, false);
	run_destroy();
	nr_calls = flaky_nr_calls(run.flaky);
	run.flaky->ops->destroy(run.flaky);
	return nr_calls;
}

/* Whether it is right that no call reports the failure: questions are asked again, and with no
 * memory there may be another way. */
static bool may_go_unseen(void)
{
	static const char *const ops[] = {"fence_done", "fence_wait", "fence_record",
					  "chunk_create"};

	for (size_t i = 0; i < ARRAY_LEN(ops); i++)
		if (!strcmp(hook.op, ops[i]))
			return true;
	return false;
}

static void each_call(uint32_t nr, int err)
{
	uint64_t nr_calls = run_script((struct faults){0}), nr_seen = 0;

	/* The script walks what it is meant to. */
	assert_int_equal(run.nr_errors, 0);
	assert_true(run.stats.nr_zeroings >= 4);
	assert_true(run.stats.nr_destroys >= 3);
	for (uint64_t at = 1; at <= nr_calls; at++) {
		(void)run_script((struct faults){.at = at, .nr = nr, .err = err});
		nr_seen += run.nr_errors > 0;
		EXPECT(run.nr_errors || may_go_unseen());
	}
	print_message("%llu calls failed in turn, %llu were told\n", (unsigned long long)nr_calls,
		      (unsigned long long)nr_seen);
	assert_true(nr_calls > 30);
	assert_true(nr_seen > 5);
}

static void test_chunk_faults_no_memory(void **state)
{
	(void)state;
	each_call(1, -ENOMEM);
}

static void test_chunk_faults_error(void **state)
{
	(void)state;
	each_call(1, -EIO);
}

static void test_chunk_faults_two_in_a_row(void **state)
{
	(void)state;
	each_call(2, -EIO);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_chunk_faults_no_memory),
		cmocka_unit_test(test_chunk_faults_error),
		cmocka_unit_test(test_chunk_faults_two_in_a_row),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	weir_log_set(on_log, NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
