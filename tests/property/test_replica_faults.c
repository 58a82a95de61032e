/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every backend call of a scripted run with replicated ranges fails in turn: once with each of two
 * error codes, and together with the call after it. The program tries again. A failure is a status
 * that was injected; the space is whole after each call; what was written is there for every device
 * and the host at the end, and nothing is left then. Three devices, of which one has room for a
 * copy of part of the range only; everything is published, or one device is subscribed, or nobody,
 * or two devices have lists of elements, which are sent by one mechanism.
 *
 * FAULT_AT=n in the environment: only the n-th call fails, to look at one run.
 *
 * One call in 67 fails, or each with WEIR_TEST_LONG.
 *
 * Timeout: 300
 * Long: yes
 */
#include <errno.h>
#include <stdlib.h>

#include "src/backend/machine.h"
#include "src/replica/replica.h"
#include "tests/property/test_faults_hook.h"
#include "tests/support/amount.h"
#include "tests/support/kernels.h"
#include "tests/support/space.h"

#define DEVICES 3u
#define PARTS 4u
#define BLOCK KIB(8)
#define PART KIB(10) /* parts share blocks and granules */
#define BYTES (PARTS * PART)
#define TRIES 6

static struct test_space t;
static struct backend *flaky;
static uint8_t *range;
static uint32_t seed[PARTS], last_seed;
static uint32_t nr_statuses;
static uint64_t nr_calls_alive; /* before teardown */
static char sim_error[256];

#define EXPECT(what, ...)                                                                  \
	do {                                                                               \
		if (!(what)) {                                                             \
			print_error("call %llu (%s) and %u more fail with %d: ",           \
				    (unsigned long long)hook.faults.at,                    \
				    hook.op ? hook.op : "not reached", hook.faults.nr - 1, \
				    hook.faults.err);                                      \
			fail_msg(__VA_ARGS__);                                             \
		}                                                                          \
	} while (0)

static void on_log(void *arg, enum weir_log_level level, const char *message)
{
	(void)arg;
	if (level == WEIR_LOG_ERROR && !sim_error[0] &&
	    (!strncmp(message, "sim", 3) || !strncmp(message, "kernel", 6) ||
	     !strncmp(message, "copy of", 7)))
		snprintf(sim_error, sizeof(sim_error), "%s", message);
}

/* @return whether the call failed, which is to be tried again. */
static bool failed(int err)
{
	if (t.space)
		EXPECT(!weir_space_check(t.space), "the space is broken");
	EXPECT(!sim_error[0], "%s", sim_error);
	if (!err)
		return false;
	EXPECT(hook.nr_failed, "status %d and nothing was injected", err);
	EXPECT(err == hook.faults.err || err == -ENOMEM, "status %d is not what was injected", err);
	nr_statuses++;
	return true;
}

#define MUST(call)                                                        \
	do {                                                              \
		int tries = TRIES;                                        \
                                                                          \
		while (failed(call))                                      \
			EXPECT(--tries > 0, "%s goes on failing", #call); \
	} while (0)

/* ------------------------------------------------------------------ the script */

static int launch_words(uint32_t device, void *addr, void *as, uint32_t words,
			enum weir_use_kind kind, uint32_t part, uint32_t put)
{
	struct weir_use use = use_of(addr, 8ull * words, kind);
	struct test_cells_args args = {
		.addr = addr,
		.as = as,
		.words = words,
		.nr_wrong = &t.nr_wrong,
		.nr = 1,
		.cell = {{kind == WEIR_OVERWRITE ? 0 : seed[part], put}},
	};
	struct weir_launch what = {.kernel = &test_kernel_cells,
				   .args = &args,
				   .args_bytes = sizeof(args),
				   .uses = &use,
				   .nr_uses = 1};

	return weir_stream_launch(t.stream[device], &what);
}

static void use(uint32_t device, uint32_t part, enum weir_use_kind kind, bool one)
{
	uint32_t put = kind == WEIR_READ ? 0 : ++last_seed;
	void *addr = range + part * PART;
	struct weir_use what;

	if (!one)
		assert_int_equal(weir_replica(t.space, addr, device, &addr), 0);
	what = use_of(addr, PART, kind);
	MUST(weir_begin(t.space, t.stream[device], &what, 1));
	MUST(launch_words(device, addr, range + part * PART, PART / 8, kind, part, put));
	if (put && !one && part % 2) /* some of it is finished while the bracket is open */
		MUST(weir_publish(t.space, t.stream[device], (uint8_t *)addr + PART / 4, PART / 2));
	MUST(weir_end(t.space, t.stream[device]));
	seed[part] = put ? put : seed[part];
}

static void write_part(uint32_t part)
{
	static uint8_t buffer[PART];
	uint8_t *addr = range + part * PART;

	pattern_put(buffer, addr, PART, ++last_seed);
	MUST(weir_write(t.space, addr, buffer, PART));
	seed[part] = last_seed;
}

static void read_part(uint32_t part)
{
	static uint8_t buffer[PART];
	uint8_t *addr = range + part * PART;

	MUST(weir_read(t.space, buffer, addr, PART));
	EXPECT(!pattern_wrong(buffer, addr, PART, seed[part]), "the host reads part %u wrong",
	       part);
}

static void open_space(const struct faults *faults)
{
	struct weir_space_config config = {
		.devices = 7,
		.block_bytes = BLOCK,
		.mode = WEIR_PLANNED,
		.budget_bytes = {64 * BLOCK, 16 * BLOCK, 4 * BLOCK, 16 * BLOCK},
	};
	struct backend *sim;

	memset(&t, 0, sizeof(t));
	last_seed = nr_statuses = 0;
	sim_error[0] = '\0';
	test_machine_gpus(&t.desc, DEVICES);
	assert_int_equal(sim_create(&t.desc, WEIR_DATA_REAL, &sim), 0);
	assert_int_equal(flaky_create(sim, &flaky), 0);
	hook_install(flaky, faults);
	assert_int_equal(machine_wrap(flaky, &t.machine), 0);
	for (uint32_t device = 0; device < DEVICES; device++)
		MUST(weir_stream_create(t.machine, device, &t.stream[device]));
	MUST(weir_space_create(t.machine, &config, &t.space));
	t.space->poison = true;
}

static void close_space(void)
{
	/* What failed in the background is told here, once. */
	MUST(weir_space_sync(t.space));
	for (uint32_t device = 0; device < DEVICES; device++)
		MUST(weir_stream_sync(t.stream[device]));
	EXPECT(!t.nr_wrong, "%u words are wrong", t.nr_wrong);
	nr_calls_alive = flaky_nr_calls(flaky);
	weir_space_destroy(t.space);
	t.space = NULL;
	for (uint32_t device = 0; device < DEVICES; device++)
		weir_stream_destroy(t.stream[device]);
	EXPECT(!sim_error[0], "%s", sim_error);
	EXPECT(!sim_leaks(flaky_inner(flaky)), "the simulator has %d things left",
	       sim_leaks(flaky_inner(flaky)));
	weir_machine_close(t.machine);
}

#define APART 160u /* words from where one run of a list begins to where the next one does */
#define RUN 100u   /* words of it */

/* A device reads the elements of its list in a part. */
static void gather(uint32_t device, uint32_t part)
{
	uint8_t *as = range + part * PART;
	struct weir_use what;
	void *addr;

	assert_int_equal(weir_replica(t.space, as, device, &addr), 0);
	what = use_of(addr, PART, WEIR_READ_ELEMENTS);
	MUST(weir_begin(t.space, t.stream[device], &what, 1));
	for (uint32_t w = 0; w < PART / 8; w += APART)
		MUST(launch_words(device, (uint8_t *)addr + 8ull * w, as + 8ull * w, RUN, WEIR_READ,
				  part, 0));
	MUST(weir_end(t.space, t.stream[device]));
}

static void run_steps(void)
{
	for (uint32_t round = 0; round < 4; round++) {
		for (uint32_t part = 0; part < PARTS; part++)
			use(part % DEVICES, part, round % 2 ? WEIR_WRITE : WEIR_OVERWRITE, false);
		for (uint32_t device = 0; device < DEVICES; device++)
			for (uint32_t part = 0; part < PARTS; part++)
				use(device, part, WEIR_READ, false);
		if (round == 1)
			use(2, 1, WEIR_WRITE, true);
		if (round == 2)
			write_part(2);
	}
}

static void run_lists(int how)
{
	static uint32_t element[BYTES / 8];
	struct weir_tracked tracked;
	uint32_t nr = 0;

	MUST(weir_tracking_start(t.space, range, 2, &tracked));
	weir_tracked_note(&tracked, 0);
	MUST(weir_tracking_stop(t.space, range, 2));
	replicas_of(t.space)->forced = (uint32_t)how + 1;
	replicas_of(t.space)->packet_bytes = replicas_of(t.space)->granule_bytes;
	for (uint32_t w = 0; w < BYTES / 8; w++)
		if (w % APART < RUN)
			element[nr++] = w;
	for (uint32_t round = 0; round < 3; round++) {
		/* In the second round in place of one whose messages are under way. */
		for (uint32_t device = 0; device < DEVICES && round < 2; device += 2)
			MUST(weir_subscribe_elements(t.space, range, element, nr, device));
		for (uint32_t part = 0; part < PARTS; part++)
			use(part % DEVICES, part, round % 2 ? WEIR_WRITE : WEIR_OVERWRITE, false);
		for (uint32_t part = 0; part < PARTS; part++)
			gather(part % 2 ? 2 : 0, part);
	}
	MUST(weir_subscribe_elements(t.space, range, NULL, 0, 2));
}

/* Its copy may be the last one of something. */
static int unsubscribe(void)
{
	int err = weir_unsubscribe(t.space, range, BYTES, 2);

	return err == -EBUSY ? 0 : err;
}

/* how: by which mechanism lists are sent; -1: there are none. */
static void run_script(const struct faults *faults, enum weir_subscription subscription, int how)
{
	const struct weir_replica_params params = {.subscription = subscription,
						   .element_bytes = 8};
	void *addr;

	open_space(faults);
	MUST(weir_alloc(t.space, BYTES, t.stream[0], &addr));
	range = addr;
	for (uint32_t part = 0; part < PARTS; part++)
		use(0, part, WEIR_OVERWRITE, true);
	MUST(weir_replicate(t.space, range, &params));
	if (subscription == WEIR_SUBSCRIBE_MANUAL)
		MUST(weir_subscribe(t.space, range, BYTES, 2));
	if (how < 0)
		run_steps();
	else
		run_lists(how);
	if (subscription == WEIR_SUBSCRIBE_MANUAL)
		MUST(unsubscribe());
	for (uint32_t part = 0; part < PARTS; part++)
		read_part(part);
	if (subscription != WEIR_SUBSCRIBE_NONE)
		MUST(weir_unreplicate(t.space, range));
	for (uint32_t part = 0; part < PARTS; part++)
		use(1, part, WEIR_READ, true);
	MUST(weir_free(t.space, range, NULL));
	close_space();
}

/* ------------------------------------------------------------------ rounds */

/* Whether it is right that no call reported the failure: questions and fences are asked for again,
 * a chunk that cannot be had is done without, what destroys has no status, and what is published is
 * a hint. */
static bool may_go_unseen(enum weir_subscription subscription)
{
	static const char *const ops[] = {"chunk_create",     "fence_record", "fence_untimed",
					  "fence_done",	      "fence_seen",   "fence_wait",
					  "fence_wait_awake", "unmap",	      "access_guard"};

	if (hook.faults.at > nr_calls_alive || subscription != WEIR_SUBSCRIBE_NONE)
		return true;
	for (size_t i = 0; i < ARRAY_LEN(ops); i++)
		if (!strcmp(hook.op, ops[i]))
			return true;
	return false;
}

static void each_call(enum weir_subscription subscription, int how)
{
	static const struct faults rounds[] = {
		{.nr = 1, .err = -EIO}, {.nr = 1, .err = -ENOMEM}, {.nr = 2, .err = -EIO}};
	static const struct test_amount apart_usually = {67, 331, 1};
	const char *only = getenv("FAULT_AT");
	uint64_t apart = test_amount(NULL, apart_usually);
	uint32_t nr = 0, nr_unseen = 0;

	for (uint32_t r = 0; r < ARRAY_LEN(rounds); r++) {
		struct faults faults = rounds[r];

		faults.at = only ? strtoull(only, NULL, 10) : (subscription + r) % apart + 1;
		for (; run_script(&faults, subscription, how), hook.nr_failed && !only;
		     faults.at += apart) {
			nr++;
			nr_unseen += !nr_statuses;
			EXPECT(nr_statuses || how >= 0 || may_go_unseen(subscription),
			       "no call reports it");
		}
		assert_true(faults.at > 500 || only);
	}
	print_message("%u calls failed, %u of them without a status\n", nr, nr_unseen);
}

static void test_replica_faults_none(void **state)
{
	static const struct faults none = {0};

	(void)state;
	for (int s = 0; s <= WEIR_SUBSCRIBE_NONE; s++)
		run_script(&none, (enum weir_subscription)s, -1);
	for (int how = 0; how < WEIR_REPLICA_MECHANISM_NR; how++)
		run_script(&none, WEIR_SUBSCRIBE_NONE, how);
}

static void test_replica_faults_learned(void **state)
{
	(void)state;
	each_call(WEIR_SUBSCRIBE_LEARNED, -1);
}

static void test_replica_faults_manual(void **state)
{
	(void)state;
	each_call(WEIR_SUBSCRIBE_MANUAL, -1);
}

static void test_replica_faults_all(void **state)
{
	(void)state;
	each_call(WEIR_SUBSCRIBE_ALL, -1);
}

static void test_replica_faults_nobody(void **state)
{
	(void)state;
	each_call(WEIR_SUBSCRIBE_NONE, -1);
}

/* A mechanism that a chunk fails for is done without. */
static void test_replica_faults_lists(void **state)
{
	(void)state;
	for (int how = 0; how < WEIR_REPLICA_MECHANISM_NR; how++)
		each_call(WEIR_SUBSCRIBE_NONE, how);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_replica_faults_none),
		cmocka_unit_test(test_replica_faults_learned),
		cmocka_unit_test(test_replica_faults_manual),
		cmocka_unit_test(test_replica_faults_all),
		cmocka_unit_test(test_replica_faults_nobody),
		cmocka_unit_test(test_replica_faults_lists),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	weir_log_set(on_log, NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
