/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replaying traces: on the machine that recorded it is the same run, to the nanosecond, with
 * advice, prefetches and changes of budgets; what may be left out makes another one of it; epochs
 * and pauses; budgets in proportion.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "src/backend/machine.h"
#include "src/base/util.h"
#include "tests/unit/test_sim_machine.h"
#include "workloads/replay.h"
#include "weir/trace.h"
#include "workloads/replay_future.h"

#define BLOCK KIB(512)
#define TENSOR (8 * BLOCK)
#define BUDGET (16 * BLOCK)
#define EPOCHS 4u

static char path[32];
static struct weir_machine *machine; /* of the manager that is open */

static int setup(void **state)
{
	int fd;

	(void)state;
	(void)snprintf(path, sizeof(path), "/tmp/weir-replay-XXXXXX");
	fd = mkstemp(path);
	if (fd < 0)
		return -1;
	(void)close(fd);
	return setenv("WEIR_TRACE", path, 1);
}

static int teardown(void **state)
{
	(void)state;
	(void)unsetenv("WEIR_TRACE");
	return unlink(path);
}

static struct manager *open_manager(const char *name, uint64_t budget_bytes)
{
	struct manager_config config = {.gpu_budget_bytes = budget_bytes, .block_bytes = BLOCK};
	struct weir_machine_desc desc;
	struct manager *m;

	test_machine(&desc);
	desc.uvm = (struct weir_uvm_desc){256, 1000, 10, 5000, 100, 50, 0};
	assert_int_equal(weir_machine_simulate(&desc, WEIR_DATA_PHANTOM, &machine), 0);
	config.machine = machine;
	assert_int_equal(manager_create(name, &config, &m), 0);
	return m;
}

static void close_manager(struct manager *m)
{
	m->ops->destroy(m);
	weir_machine_close(machine);
}

static void launch(struct manager *m, void *from, void *to)
{
	static const struct weir_kernel kernel = {.name = "copy"}; /* until it has run */
	const struct weir_use uses[] = {
		{.addr = from, .bytes = TENSOR, .kind = WEIR_READ, .read_bytes = TENSOR},
		{.addr = to, .bytes = TENSOR, .kind = WEIR_OVERWRITE, .write_bytes = TENSOR},
	};
	const struct weir_launch both = {.kernel = &kernel, .uses = uses, .nr_uses = 2};

	assert_int_equal(m->ops->launch(m, &both), 0);
}

/* Four tensors where two have room, then room for three and for one and a half. */
static void program(struct manager *m, double *epoch_s)
{
	struct backend *b = m->backend;
	const uint32_t own = b->desc.device[0].memory;
	void *t[4];

	for (int i = 0; i < 4; i++)
		assert_int_equal(m->ops->alloc(m, TENSOR, "t", &t[i]), 0);
	assert_int_equal(m->ops->write(m, t[0], NULL, TENSOR), 0);
	assert_int_equal(m->ops->advise(m, t[0], WEIR_ADVISE_READ_MOSTLY, 0), 0);
	assert_int_equal(m->ops->advise(m, t[1], WEIR_ADVISE_ACCESSED_BY, 0), 0);
	assert_int_equal(m->ops->advise(m, t[3], WEIR_ADVISE_PREFER_MEMORY, own), 0);
	for (uint32_t epoch = 0; epoch < EPOCHS; epoch++) {
		uint64_t begin_ns = b->ops->now_ns(b);

		manager_mark_epoch(m, epoch, EPOCHS);
		launch(m, t[0], t[1]);
		b->ops->host_spend(b, 30000);
		assert_int_equal(m->ops->prefetch(m, (char *)t[3] + BLOCK, 4 * BLOCK, own), 0);
		launch(m, t[1], t[2]);
		launch(m, t[2], t[3]);
		if (epoch == 1)
			assert_int_equal(m->ops->set_budget(m, own, 3 * BUDGET / 2), 0);
		if (epoch == 2)
			assert_int_equal(m->ops->set_budget(m, own, 3 * BUDGET / 4), 0);
		assert_int_equal(m->ops->sync(m), 0);
		epoch_s[epoch] = (double)(b->ops->now_ns(b) - begin_ns) * 1e-9;
		manager_mark_pause(m);
		assert_int_equal(m->ops->read(m, NULL, t[3], TENSOR), 0);
	}
	for (int i = 0; i < 4; i++)
		m->ops->free(m, t[i]);
}

static void record(struct trace_file *file, struct replay_plan *plan, double *epoch_s)
{
	struct manager *m = open_manager("weir", BUDGET);
	char err[256] = "";

	program(m, epoch_s);
	close_manager(m);
	assert_int_equal(trace_file_open(path, file, err, sizeof(err)), 0);
	assert_int_equal(replay_check(file, plan, err, sizeof(err)), 0);
	assert_int_equal(plan->nr_epochs, EPOCHS);
	assert_int_equal(plan->nr_devices, 1);
	assert_int_equal(plan->needs_bytes, 4 * TENSOR);
	/* What is replayed is not recorded again, over what is being read. */
	assert_int_equal(unsetenv("WEIR_TRACE"), 0);
}

static void replay(const char *manager, const struct replay_params *params, double *epoch_s)
{
	struct manager *m = open_manager(manager, params->gpu_budget_bytes);
	char err[256] = "";

	if (replay_run(m, params, epoch_s, err, sizeof(err)))
		fail_msg("%s: %s", manager, err);
	close_manager(m);
}

static bool same(const double *a, const double *b, uint32_t nr)
{
	for (uint32_t i = 0; i < nr; i++)
		if (fabs(a[i] - b[i]) > 0.5e-9)
			return false;
	return true;
}

static void test_replay_is_the_run(void **state)
{
	double recorded[EPOCHS], got[EPOCHS];
	struct replay_plan plan;
	struct trace_file file;
	struct replay_params params = {.file = &file,
				       .plan = &plan,
				       .think = true,
				       .advice = true,
				       .gpu_budget_bytes = BUDGET};

	(void)state;
	record(&file, &plan, recorded);
	replay("weir", &params, got);
	assert_true(same(recorded, got, EPOCHS));
	params.warm_up = 2;
	replay("weir", &params, got);
	assert_true(same(recorded + 2, got, EPOCHS - 2));
	params.warm_up = 0;

	params.advice = false;
	replay("weir", &params, got);
	assert_false(same(recorded, got, EPOCHS));
	params.advice = true;
	params.think = false;
	replay("weir", &params, got);
	assert_false(same(recorded, got, EPOCHS));
	trace_file_close(&file);
}

/* A program that waits for nothing is at its marks long before the device: its epochs are replayed
 * as the device's. */
static void test_replay_waits_for_epochs(void **state)
{
	struct manager *m = open_manager("weir", 4 * TENSOR);
	struct replay_plan plan;
	struct trace_file file;
	struct replay_params params = {
		.file = &file, .plan = &plan, .gpu_budget_bytes = 4 * TENSOR};
	double epoch_s[EPOCHS], once_s;
	char err[256] = "";
	uint64_t begin_ns;
	void *t[2];

	(void)state;
	for (int i = 0; i < 2; i++)
		assert_int_equal(m->ops->alloc(m, TENSOR, "t", &t[i]), 0);
	for (int i = 0; i < 2; i++) {
		begin_ns = m->backend->ops->now_ns(m->backend); /* the second time: all is there */
		launch(m, t[0], t[1]);
		assert_int_equal(m->ops->sync(m), 0);
	}
	once_s = (double)(m->backend->ops->now_ns(m->backend) - begin_ns) * 1e-9;
	for (uint32_t epoch = 0; epoch <= EPOCHS; epoch++) {
		manager_mark_epoch(m, epoch, EPOCHS);
		for (int i = 0; i < 10 && epoch < EPOCHS; i++)
			launch(m, t[i % 2], t[!(i % 2)]);
	}
	for (int i = 0; i < 2; i++)
		m->ops->free(m, t[i]);
	close_manager(m);
	assert_int_equal(trace_file_open(path, &file, err, sizeof(err)), 0);
	assert_int_equal(replay_check(&file, &plan, err, sizeof(err)), 0);
	assert_int_equal(plan.nr_epochs, EPOCHS);
	assert_int_equal(unsetenv("WEIR_TRACE"), 0);
	replay("native", &params, epoch_s);
	for (uint32_t epoch = 0; epoch < EPOCHS; epoch++)
		assert_true(epoch_s[epoch] > 9 * once_s);
	trace_file_close(&file);
}

/* What a manager does that is asked by hand what the replay asks it. */
static void test_replay_advises_managed_memory(void **state)
{
	double with[EPOCHS], without[EPOCHS], cold[EPOCHS];
	struct replay_plan plan;
	struct trace_file file;
	struct replay_params params = {.file = &file,
				       .plan = &plan,
				       .think = true,
				       .advice = true,
				       .gpu_budget_bytes = BUDGET};

	(void)state;
	record(&file, &plan, with);
	replay("uvm", &params, with);
	params.advice = false;
	replay("uvm", &params, without);
	assert_false(same(with, without, EPOCHS));
	params.cold = true;
	replay("uvm", &params, cold);
	assert_false(same(cold, without, EPOCHS));
	trace_file_close(&file);
}

/* As seen by a manager that only notes it. */
static uint64_t noted[4];
static uint32_t nr_noted;

static int note_budget(struct manager *m, uint32_t memory, uint64_t bytes)
{
	assert_int_equal(memory, m->backend->desc.device[0].memory);
	assert_true(nr_noted < 4);
	noted[nr_noted++] = bytes;
	return -EBUSY;
}

static void test_replay_changes_budgets_in_proportion(void **state)
{
	double epoch_s[EPOCHS];
	struct replay_plan plan;
	struct trace_file file;
	struct replay_params params = {
		.file = &file, .plan = &plan, .advice = true, .gpu_budget_bytes = BUDGET / 2};
	struct manager *m;
	struct manager_ops ops;
	char err[256];

	(void)state;
	record(&file, &plan, epoch_s);
	assert_int_equal(replay_budget(&file, file.machine.device[0].memory), BUDGET);
	m = open_manager("uvm", BUDGET / 2);
	ops = *m->ops;
	ops.set_budget = note_budget;
	m->ops = &ops;
	assert_int_equal(replay_run(m, &params, epoch_s, err, sizeof(err)), 0);
	close_manager(m);
	assert_int_equal(nr_noted, 2);
	assert_int_equal(noted[0], 3 * BUDGET / 4);
	assert_int_equal(noted[1], 3 * BUDGET / 8);
	trace_file_close(&file);
}

static void use_half(struct manager *m, char *tensor, uint32_t half)
{
	static const struct weir_kernel kernel = {.name = "half"};
	const struct weir_use use = {.addr = tensor + half * (TENSOR / 2),
				     .bytes = TENSOR / 2,
				     .kind = WEIR_READ,
				     .read_bytes = TENSOR / 2};
	const struct weir_launch one = {.kernel = &kernel, .uses = &use, .nr_uses = 1};

	assert_int_equal(m->ops->launch(m, &one), 0);
}

/* Steps until the first half of the tensor is used, and until the second one is. */
static void expect_next(const struct replay_future *f, const char *at, uint64_t first,
			uint64_t second)
{
	const struct policy_future *future = replay_future_policy(f);

	assert_true(future->next_use(future->arg, at + BLOCK, BLOCK) == first);
	assert_true(future->next_use(future->arg, at + TENSOR / 2, BLOCK) == second);
}

/* Record a tensor whose halves are used in turn: first, second, first. */
static void record_halves(struct trace_file *file)
{
	struct manager *m = open_manager("weir", BUDGET);
	char err[256] = "";
	void *tensor;

	assert_int_equal(m->ops->alloc(m, TENSOR, "t", &tensor), 0);
	for (uint32_t n = 0; n < 3; n++)
		use_half(m, tensor, n % 2);
	assert_int_equal(m->ops->sync(m), 0);
	m->ops->free(m, tensor);
	close_manager(m);
	assert_int_equal(trace_file_open(path, file, err, sizeof(err)), 0);
}

static void test_replay_knows_the_future(void **state)
{
	struct trace_file file = {0};
	struct replay_future *f;
	static char at[TENSOR]; /* it is not touched */

	(void)state;
	record_halves(&file);
	assert_int_equal(replay_future_create(&file, false, &f), 0);
	expect_next(f, at, WEIR_POLICY_NEVER, WEIR_POLICY_NEVER);
	assert_int_equal(replay_future_alloc(f, 1, at), 0);
	expect_next(f, at, 1, 2);
	replay_future_step(f);
	expect_next(f, at, 0, 1);
	replay_future_step(f);
	expect_next(f, at, 1, 0);
	replay_future_step(f);
	expect_next(f, at, 0, WEIR_POLICY_NEVER);
	replay_future_free(f, at);
	expect_next(f, at, WEIR_POLICY_NEVER, WEIR_POLICY_NEVER);
	replay_future_destroy(f);
	trace_file_close(&file);
}

/* A program of spaces, with what managers do not do: brackets of the host, discards, budgets of the
 * host; on two devices. */
static struct weir_use whole(void *addr, enum weir_use_kind kind)
{
	return (struct weir_use){.addr = addr, .bytes = TENSOR, .kind = kind, .read_bytes = TENSOR};
}

static void host_bracket(struct weir_space *space, void *addr, enum weir_use_kind kind)
{
	const struct weir_use use = whole(addr, kind);

	assert_int_equal(weir_host_begin(space, &use, 1), 0);
	assert_int_equal(weir_host_end(space, &use, 1), 0);
}

static void bracket(struct weir_space *space, struct weir_stream *stream, void *addr,
		    enum weir_use_kind kind)
{
	const struct weir_use use = whole(addr, kind);

	assert_int_equal(weir_begin(space, stream, &use, 1), 0);
	assert_int_equal(weir_end(space, stream), 0);
}

static void record_host(uint64_t devices, struct trace_file *file)
{
	struct weir_space_config config = {
		.devices = devices, .block_bytes = BLOCK, .mode = WEIR_PLANNED};
	struct weir_stream *stream[2];
	struct weir_machine_desc desc;
	struct weir_space *space;
	void *addr[3];
	char err[256] = "";

	test_machine(&desc);
	config.budget_bytes[GPU0] = config.budget_bytes[GPU1] = BUDGET;
	if (devices == 1)
		config.budget_bytes[GPU1] = 0;
	config.budget_bytes[HOST] = 4 * BUDGET;
	assert_int_equal(weir_machine_simulate(&desc, WEIR_DATA_PHANTOM, &machine), 0);
	assert_int_equal(weir_space_create(machine, &config, &space), 0);
	for (uint32_t d = 0; d < 2; d++)
		assert_int_equal(weir_stream_create(machine, d, &stream[d]), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(weir_alloc(space, TENSOR, NULL, &addr[i]), 0);
	assert_int_equal(weir_free(space, addr[1], NULL), 0);
	for (uint32_t i = 1; i < 3; i++)
		assert_int_equal(weir_alloc(space, i * TENSOR, NULL, &addr[i]), 0);
	if (devices != 1)
		bracket(space, stream[1], addr[0], WEIR_OVERWRITE);
	if (devices & 1)
		bracket(space, stream[0], addr[0], WEIR_READ);
	if (devices == 3)
		bracket(space, stream[1], addr[0], WEIR_READ);
	bracket(space, stream[devices == 2], addr[0], WEIR_DISCARD);
	host_bracket(space, addr[0], WEIR_OVERWRITE);
	host_bracket(space, addr[0], WEIR_READ);
	host_bracket(space, addr[0], WEIR_WRITE);
	host_bracket(space, addr[0], WEIR_DISCARD);
	assert_int_equal(weir_advise(space, addr[0], WEIR_ADVISE_PREFER_MEMORY, HOST), 0);
	weir_space_trace_mark(space, "half");
	for (int i = 0; i < 2; i++) /* the second time nothing changes */
		assert_int_equal(weir_space_set_budget(space, HOST, 2 * BUDGET), 0);
	assert_int_equal(weir_space_trace(space, NULL), 0); /* nothing more is freed in it */
	for (uint32_t d = 0; d < 2; d++)
		weir_stream_destroy(stream[d]);
	weir_space_destroy(space);
	weir_machine_close(machine);
	assert_int_equal(trace_file_open(path, file, err, sizeof(err)), 0);
	assert_int_equal(unsetenv("WEIR_TRACE"), 0);
}

static struct {
	const struct manager_ops *ops;
	uint32_t nr_reads, nr_writes, nr_frees, nr_budgets;
	uint32_t advised;
	uint64_t host_bytes;
} calls;

static int call_read(struct manager *m, void *data, const void *addr, uint64_t bytes)
{
	calls.nr_reads++;
	return calls.ops->read(m, data, addr, bytes);
}

static int call_write(struct manager *m, void *addr, const void *data, uint64_t bytes)
{
	calls.nr_writes++;
	return calls.ops->write(m, addr, data, bytes);
}

static void call_free(struct manager *m, void *addr)
{
	calls.nr_frees++;
	calls.ops->free(m, addr);
}

static int call_advise(struct manager *m, void *addr, enum weir_advice advice, uint32_t where)
{
	(void)m, (void)addr, (void)advice;
	calls.advised = where;
	return -ENOTSUP;
}

static int call_set_budget(struct manager *m, uint32_t memory, uint64_t bytes)
{
	(void)m;
	calls.nr_budgets++;
	calls.host_bytes = memory == HOST ? bytes : 0;
	return -EINVAL;
}

/* What the CPU reads and writes of its own is copied, and what the program left is freed. */
static void test_replay_does_what_the_host_did(void **state)
{
	struct manager *m;
	struct manager_ops ops;
	struct replay_plan plan;
	struct trace_file file = {0};
	struct replay_params params = {.file = &file,
				       .plan = &plan,
				       .advice = true,
				       .gpu_budget_bytes = BUDGET,
				       .host_budget_bytes = 8 * BUDGET};
	char err[256] = "";

	(void)state;
	record_host(1, &file);
	assert_int_equal(replay_check(&file, &plan, err, sizeof(err)), 0);
	assert_int_equal(plan.needs_bytes, 4 * TENSOR);
	/* The host's memory is the host's, whatever it is called there. */
	strcpy(file.machine.memory[HOST].name, "ram");
	m = open_manager("weir", BUDGET);
	calls.ops = m->ops;
	ops = *m->ops;
	ops.read = call_read;
	ops.write = call_write;
	ops.free = call_free;
	ops.advise = call_advise;
	ops.set_budget = call_set_budget;
	calls.advised = UINT32_MAX;
	m->ops = &ops;
	if (replay_run(m, &params, NULL, err, sizeof(err)))
		fail_msg("%s", err);
	m->ops = calls.ops;
	close_manager(m);
	assert_int_equal(calls.nr_reads, 2);  /* read, and read and written */
	assert_int_equal(calls.nr_writes, 2); /* and overwritten */
	assert_int_equal(calls.nr_frees, 4);
	assert_int_equal(calls.advised, HOST);
	assert_int_equal(calls.nr_budgets, 1);
	assert_int_equal(calls.host_bytes, 4 * BUDGET);
	trace_file_close(&file);
}

/* A discard is no use, and a bracket of the host is a step. */
static void test_replay_future_of_the_host(void **state)
{
	static char at[TENSOR]; /* it is not touched */
	struct trace_file file = {0};
	struct replay_future *f;

	(void)state;
	record_host(1, &file);
	assert_int_equal(replay_future_create(&file, false, &f), 0);
	assert_int_equal(replay_future_alloc(f, 1, at), 0);
	replay_future_free(f, at + BLOCK); /* nothing begins there */
	replay_future_step(f);
	expect_next(f, at, 0, 0);
	replay_future_step(f); /* the discard */
	expect_next(f, at, 1, 1);
	for (uint32_t n = 0; n < 3; n++) {
		replay_future_step(f);
		expect_next(f, at, 0, 0);
	}
	replay_future_step(f); /* the host's discard */
	expect_next(f, at, WEIR_POLICY_NEVER, WEIR_POLICY_NEVER);
	replay_future_destroy(f);
	trace_file_close(&file);
}

/* What is queued has not begun: launches that run later need what those behind them do not. */
static void test_replay_future_of_what_is_queued(void **state)
{
	struct trace_file file = {0};
	const struct policy_future *policy;
	struct replay_future *f;
	static char at[TENSOR]; /* it is not touched */

	(void)state;
	record_halves(&file);
	assert_int_equal(replay_future_create(&file, true, &f), 0);
	policy = replay_future_policy(f);
	assert_int_equal(replay_future_alloc(f, 1, at), 0);
	for (int n = 0; n < 3; n++) {
		replay_future_step(f);
		assert_int_equal(replay_future_queue(f), 0);
	}
	expect_next(f, at, 1, 2);
	policy->begin(policy->arg);
	assert_int_equal(policy->now(policy->arg), 1);
	expect_next(f, at, 0, 1);
	policy->end(policy->arg); /* its uses are over, and the second has not begun */
	expect_next(f, at, 1, 0);
	policy->begin(policy->arg);
	expect_next(f, at, 1, 0);
	policy->end(policy->arg);
	policy->begin(policy->arg);
	expect_next(f, at, 0, WEIR_POLICY_NEVER);
	policy->end(policy->arg);
	expect_next(f, at, WEIR_POLICY_NEVER, WEIR_POLICY_NEVER);
	replay_future_destroy(f);
	trace_file_close(&file);
}

/* Devices are those that have brackets, from the first one on. */
static void test_replay_finds_devices(void **state)
{
	static const struct {
		uint64_t devices;
		uint32_t device, nr_devices;
	} cases[] = {{1, 0, 1}, {2, 1, 1}, {3, 0, 2}};

	(void)state;
	for (uint32_t n = 0; n < ARRAY_LEN(cases); n++) {
		struct trace_file file = {0};
		struct replay_plan plan;
		char err[256] = "";

		assert_int_equal(setenv("WEIR_TRACE", path, 1), 0);
		record_host(cases[n].devices, &file);
		assert_int_equal(replay_check(&file, &plan, err, sizeof(err)), 0);
		assert_int_equal(plan.device, cases[n].device);
		assert_int_equal(plan.nr_devices, cases[n].nr_devices);
		trace_file_close(&file);
	}
}

/* Copies into the device's memory of a replay under managed memory. */
static uint64_t copied_with(const char *manager, const struct replay_params *params)
{
	struct manager *m = open_manager(manager, params->gpu_budget_bytes);
	double epoch_s[EPOCHS];
	struct manager_stats stats;
	char err[256] = "";
	uint64_t bytes = 0;

	if (replay_run(m, params, epoch_s, err, sizeof(err)))
		fail_msg("%s: %s", manager, err);
	m->ops->stats(m, &stats);
	for (int cause = 0; cause < WEIR_CAUSE_NR; cause++)
		bytes += stats.bytes[BACKEND_TO_DEVICE][cause];
	close_manager(m);
	return bytes;
}

/* Launches are queued long before they run: who takes what is queued for what runs evicts what is
 * needed next, and saves a quarter in place of half of the copies. */
static void test_replay_future_saves_copies(void **state)
{
	double recorded[EPOCHS];
	struct replay_plan plan;
	struct trace_file file;
	struct replay_params params = {
		.file = &file, .plan = &plan, .gpu_budget_bytes = 3 * TENSOR};
	uint64_t first_in, next_use;

	(void)state;
	record(&file, &plan, recorded);
	first_in = copied_with("uvm policy=fifo", &params);
	next_use = copied_with("uvm policy=next_use", &params);
	assert_true(2 * next_use <= first_in);
	trace_file_close(&file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_replay_is_the_run, setup, teardown),
		cmocka_unit_test_setup_teardown(test_replay_waits_for_epochs, setup, teardown),
		cmocka_unit_test_setup_teardown(test_replay_knows_the_future, setup, teardown),
		cmocka_unit_test_setup_teardown(test_replay_future_of_what_is_queued, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_replay_future_saves_copies, setup, teardown),
		cmocka_unit_test_setup_teardown(test_replay_advises_managed_memory, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_replay_changes_budgets_in_proportion, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_replay_does_what_the_host_did, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_replay_future_of_the_host, setup, teardown),
		cmocka_unit_test_setup_teardown(test_replay_finds_devices, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
