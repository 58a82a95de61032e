/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The manager uvm: its options, what it reports, that every failure of a backend leaves nothing
 * behind; and training under it: losses bit-identical to native's however little memory there is,
 * usually with one or two of three budgets for each of its ways.
 *
 * Long: yes
 */
#include <errno.h>
#include <math.h>

#include "src/backend/flaky/flaky.h"
#include "src/backend/machine.h"
#include "src/policy/builtin.h"
#include "src/policy/policy.h"
#include "tests/support/amount.h"
#include "tests/unit/test_sim_machine.h"
#include "workloads/gcn/gcn.h"
#include "workloads/oracle.h"

#define EPOCHS 4u

static const struct gcn_params params = {
	.nodes = 1500, .slice = 3000, .epochs = EPOCHS, .seed = 11, .hidden = 48, .threads = 2};

static void machine_of(struct weir_machine_desc *desc)
{
	test_machine(desc);
	desc->uvm = (struct weir_uvm_desc){256, 1000, 10, 5000, 100, 50, 0};
}

static struct weir_machine *open_machine(enum weir_data data)
{
	struct weir_machine_desc desc;
	struct weir_machine *machine;

	machine_of(&desc);
	assert_int_equal(weir_machine_simulate(&desc, data, &machine), 0);
	return machine;
}

/* ------------------------------------------------------------------ options */

static void test_uvm_options(void **state)
{
	static const char *const good[] = {"uvm", "uvm+max", "uvm+prefetch", "uvm+prefetch+max",
					   "uvm+max+prefetch"};
	static const char *const bad[] = {"uvm+",     "uvm+min",       "uvm+max+",
					  "uvm++max", "uvm+max+max",   "uvm+maxi",
					  "uvm+ma",   "uvm+prefetch+", "uvm+prefetch++max"};
	struct manager_config config = {.machine = open_machine(WEIR_DATA_PHANTOM)};
	struct manager *m;

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		assert_int_equal(manager_create(good[i], &config, &m), 0);
		m->ops->destroy(m);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_int_equal(manager_create(bad[i], &config, &m), -EINVAL);
	config.gpu_budget_bytes = MIB(17);
	assert_int_equal(manager_create("uvm", &config, &m), -EINVAL);
	config.gpu_budget_bytes = 0;
	weir_machine_close(config.machine);
}

/* A name ends in its policy, which each manager opens for itself. */
static void test_uvm_policy(void **state)
{
	struct manager_config config = {.machine = open_machine(WEIR_DATA_PHANTOM)};
	struct manager_stats stats;
	struct manager *m;

	(void)state;
	assert_null(manager_policy("uvm+max"));
	assert_string_equal(manager_policy("uvm+max policy=more:k=2"), "more:k=2");
	assert_true(manager_find("uvm+max policy=more") == &manager_uvm);
	assert_true(manager_is_near("weir+near policy=lru"));
	assert_false(manager_is_near("weir policy=x+near"));
	assert_int_equal(manager_create("uvm+prefetch policy=more:k=2", &config, &m), 0);
	m->ops->stats(m, &stats);
	assert_true(stats.policy.set);
	assert_int_equal(stats.policy.nr_globals, 1);
	assert_string_equal(stats.policy.global[0].name, "k");
	assert_int_equal(stats.policy.global[0].is.value, 2);
	m->ops->destroy(m);
	assert_int_equal(manager_create("uvm", &config, &m), 0);
	m->ops->stats(m, &stats);
	assert_false(stats.policy.set);
	m->ops->destroy(m);
	assert_int_equal(manager_create("weir policy=lru", &config, &m), 0);
	m->ops->destroy(m);
	assert_int_equal(manager_create("uvm policy=none", &config, &m), -ENOENT);
	assert_int_equal(manager_create("uvm policy=more:l=2", &config, &m), -EINVAL);
	assert_int_equal(manager_create("uvm+min policy=more", &config, &m), -EINVAL);
	assert_int_equal(manager_create("uvm+ policy=more", &config, &m), -EINVAL);
	assert_int_equal(manager_create("uvm more", &config, &m), -EINVAL);
	assert_int_equal(manager_create("native policy=lru", &config, &m), -ENOTSUP);
	assert_int_equal(manager_create("weir-paged policy=lru", &config, &m), -ENOTSUP);
	weir_machine_close(config.machine);
}

/* ------------------------------------------------------------------ the oracle */

/* Read part of a tensor, from an address inside of it. */
static void read_part(struct manager *m, char *tensor, uint64_t offset, uint64_t bytes)
{
	static const struct weir_kernel kernel = {.name = "read"}; /* used when it runs */
	const struct weir_use use = {
		.addr = tensor + offset, .bytes = bytes, .kind = WEIR_READ, .read_bytes = bytes};
	const struct weir_launch launch = {.kernel = &kernel, .uses = &use, .nr_uses = 1};

	assert_int_equal(m->ops->launch(m, &launch), 0);
}

/* Blocks that can be there at a time: of the budget, or of what the context leaves. */
static void test_uvm_room(void **state)
{
	struct manager_config config = {0};
	struct weir_machine_desc desc;
	struct manager_stats stats;
	struct weir_machine *machine;
	struct manager *m;

	(void)state;
	machine_of(&desc);
	desc.uvm.context_bytes = desc.memory[GPU0].bytes - MIB(9);
	assert_int_equal(weir_machine_simulate(&desc, WEIR_DATA_PHANTOM, &machine), 0);
	config.machine = machine;
	for (int i = 0; i < 2; i++) {
		config.gpu_budget_bytes = i ? MIB(6) : 0;
		assert_int_equal(manager_create("uvm", &config, &m), 0);
		m->ops->stats(m, &stats);
		assert_int_equal(stats.movable_blocks, i ? 3 : 4);
		m->ops->destroy(m);
	}
	weir_machine_close(machine);
}

/* Three tensors of two blocks in turn where two have room: the driver brings each of them each
 * time, MIN leaves one of them there half of the time. */
static void test_uvm_against_min(void **state)
{
	enum { PERIODS = 4 };
	struct manager_config config = {.machine = open_machine(WEIR_DATA_PHANTOM),
					.gpu_budget_bytes = MIB(8)};
	struct manager_stats from, to;
	struct oracle_result min;
	struct trace *trace;
	struct manager *m;
	void *tensor[3];

	(void)state;
	assert_int_equal(manager_create("uvm", &config, &m), 0);
	assert_int_equal(trace_manager_create(m, &m), 0);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(m->ops->alloc(m, MIB(4), "t", &tensor[i]), 0);
		assert_int_equal(m->ops->write(m, tensor[i], NULL, MIB(4)), 0);
	}
	for (int period = 0; period < 1 + PERIODS; period++) {
		if (period == 1) {
			assert_int_equal(m->ops->sync(m), 0);
			m->ops->stats(m, &from);
			assert_int_equal(trace_manager_start(m), 0);
		}
		for (int i = 0; i < 3; i++)
			read_part(m, tensor[i], MIB(1), MIB(3));
	}
	assert_int_equal(trace_manager_stop(m, &trace), 0);
	assert_int_equal(m->ops->sync(m), 0);
	m->ops->stats(m, &to);
	assert_int_equal(to.block_bytes, MIB(2));
	assert_int_equal(to.movable_blocks, 4);
	assert_int_equal(trace->block_bytes, MIB(2));
	assert_int_equal(trace->nr_where, PERIODS * 3 * 2);
	assert_int_equal(trace_check(trace), 0);

	assert_int_equal(oracle_compute(trace, to.movable_blocks, 0, &min), 0);
	assert_true(min.exact);
	assert_int_equal(min.largest_set, 2);
	assert_true(fabs(min.copy_ins - PERIODS * 3) < 1e-9);
	/* Pages, and not whole blocks: the first half of each tensor's first block is not read. */
	assert_int_equal(to.bytes[BACKEND_TO_DEVICE][WEIR_CAUSE_DEMAND] -
				 from.bytes[BACKEND_TO_DEVICE][WEIR_CAUSE_DEMAND],
			 PERIODS * 3 * MIB(3));
	assert_int_equal(oracle_compute(trace, 1, 0, &min), -ENOSPC);
	trace_destroy(trace);
	m->ops->destroy(m);
	weir_machine_close(config.machine);
}

/* ------------------------------------------------------------------ failures */

static int scenario(struct weir_machine *machine)
{
	struct manager_config config = {.machine = machine, .gpu_budget_bytes = MIB(8)};
	struct weir_use use = {.bytes = MIB(6), .kind = WEIR_OVERWRITE, .write_bytes = MIB(6)};
	const struct weir_kernel kernel = {.name = "none"};
	const struct weir_launch launch = {.kernel = &kernel, .uses = &use, .nr_uses = 1};
	void *a = NULL, *b = NULL;
	struct manager *m;
	int err;

	err = manager_create("uvm+prefetch policy=onward", &config, &m);
	if (err)
		return err;
	err = m->ops->alloc(m, MIB(6), "a", &a);
	if (!err)
		err = m->ops->alloc(m, KIB(4), "b", &b);
	if (!err)
		err = m->ops->write(m, a, NULL, MIB(6));
	use.addr = a;
	if (!err)
		err = m->ops->launch(m, &launch);
	if (!err)
		err = m->ops->read(m, NULL, b, KIB(4));
	m->ops->free(m, a);
	if (!err)
		err = m->ops->alloc(m, MIB(7), "c", &a);
	if (!err)
		err = m->ops->sync(m);
	assert_int_equal(m->ops->check(m), 0);
	m->ops->destroy(m);
	return err;
}

static void test_uvm_survives_each_failure(void **state)
{
	struct weir_machine_desc desc;
	struct backend *sim, *flaky;
	struct weir_machine *machine;
	uint64_t nr_calls, nr_heard = 0;

	(void)state;
	machine_of(&desc);
	assert_int_equal(sim_create(&desc, WEIR_DATA_PHANTOM, &sim), 0);
	assert_int_equal(flaky_create(sim, &flaky), 0);
	assert_int_equal(machine_wrap(flaky, &machine), 0);
	assert_int_equal(scenario(machine), 0);
	nr_calls = flaky_nr_calls(flaky);
	assert_true(nr_calls > 10);
	for (uint64_t n = 1; n <= nr_calls; n++) {
		flaky_arm(flaky, flaky_nr_calls(flaky) + n, -EIO);
		nr_heard += scenario(machine) == -EIO;
		flaky_arm(flaky, 0, 0);
		assert_int_equal(sim_leaks(sim), 0);
	}
	/* All but three inside destroy, which has nobody to tell: the wait, the policy's end. */
	assert_int_equal(nr_heard, nr_calls - 3);
	weir_machine_close(machine);
}

/* ------------------------------------------------------------------ training */

struct outcome {
	double loss[EPOCHS], epoch_s[EPOCHS];
	double time_s[EPOCHS][BACKEND_TIME_NR];
	struct manager_stats stats;
	int err;
};

static void run(const char *name, uint64_t gpu, uint64_t host, struct outcome *out)
{
	struct manager_config config = {.machine = open_machine(WEIR_DATA_REAL),
					.gpu_budget_bytes = gpu,
					.host_budget_bytes = host,
					.options = ""};
	struct workload_result result;
	struct manager *manager;

	assert_int_equal(manager_create(name, &config, &manager), 0);
	out->err = gcn_run(manager, &params, &result, NULL, 0);
	manager->ops->stats(manager, &out->stats);
	if (!out->err) {
		memcpy(out->loss, result.loss, sizeof(out->loss));
		memcpy(out->epoch_s, result.epoch_s, sizeof(out->epoch_s));
		assert_non_null(result.time_s);
		memcpy(out->time_s, result.time_s, sizeof(out->time_s));
		gcn_result_free(&result);
	}
	assert_int_equal(manager->ops->check(manager), 0);
	manager->ops->destroy(manager);
	assert_int_equal(sim_leaks(machine_backend(config.machine)), 0);
	weir_machine_close(config.machine);
}

/* The parts add up to the epoch. */
static void check_times(const struct outcome *out)
{
	for (uint32_t e = 0; e < EPOCHS; e++) {
		double sum = 0;

		for (int i = 0; i < BACKEND_TIME_NR; i++)
			sum += out->time_s[e][i];
		assert_true(fabs(sum - out->epoch_s[e]) < 1e-9);
	}
}

static void test_uvm_trains_the_same(void **state)
{
	static const char *const names[] = {"uvm", "uvm+max", "uvm+prefetch", "uvm+prefetch+max"};
	static const unsigned int percents[] = {25, 50, 200};
	const uint64_t each = test_amount(NULL, (struct test_amount){1, 2, 1});
	struct outcome whole, part;
	uint64_t peak;

	(void)state;
	run("native", 0, 0, &whole);
	assert_int_equal(whole.err, 0);
	check_times(&whole);
	peak = whole.stats.peak_bytes[GPU0];
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		for (size_t j = 0; j < sizeof(percents) / sizeof(*percents); j++) {
			unsigned int percent = percents[j];

			if ((i * sizeof(percents) / sizeof(*percents) + j) % each)
				continue;
			run(names[i], peak * percent / 100, 0, &part);
			assert_int_equal(part.err, 0);
			assert_memory_equal(part.loss, whole.loss, sizeof(whole.loss));
			check_times(&part);
			assert_true(part.stats.peak_bytes[GPU0] <= peak * percent / 100);
			assert_true(part.stats.nr_first_touches > 0);
			/* What fits is not moved; with prefetch, nothing of it faults. */
			assert_true((part.stats.bytes[BACKEND_TO_HOST][WEIR_CAUSE_EVICTION] > 0) ==
				    (percent <= 50));
			assert_true((part.stats.bytes[BACKEND_TO_DEVICE][WEIR_CAUSE_DEMAND] > 0) ==
				    (percent <= 50));
			assert_true((part.stats.nr_faults > 0) ==
				    (percent <= 50 || !strstr(names[i], "prefetch")));
			for (uint32_t e = 0; e < EPOCHS; e++)
				assert_true(part.epoch_s[e] >
					    whole.epoch_s[e] + part.time_s[e][BACKEND_TIME_DEMAND]);
		}
	}
}

/* Whatever is decided, the losses are the same, and memory holds no more. */
static void test_uvm_trains_the_same_under_policies(void **state)
{
	struct outcome whole, part;
	uint64_t peak;
	char name[64];

	(void)state;
	run("native", 0, 0, &whole);
	peak = whole.stats.peak_bytes[GPU0];
	for (uint32_t i = 0; policy_builtins[i]; i++) {
		if (!policy_builtins[i]->fault && !policy_builtins[i]->victim)
			continue;
		(void)snprintf(name, sizeof(name), "uvm policy=%s", policy_builtins[i]->name);
		run(name, peak / 3, 0, &part);
		assert_int_equal(part.err, 0);
		assert_memory_equal(part.loss, whole.loss, sizeof(whole.loss));
		check_times(&part);
		assert_true(part.stats.peak_bytes[GPU0] <= peak / 3);
		assert_int_equal(part.stats.policy.counts.nr_wrong, 0);
		if (policy_builtins[i]->fault)
			assert_true(part.stats.policy.counts.asked[POLICY_FAULT] > 0);
		if (policy_builtins[i]->victim)
			assert_true(part.stats.policy.counts.asked[POLICY_VICTIM] > 0);
	}
}

/* Out of memory is a result when the host cannot take what is evicted. */
static void test_uvm_out_of_memory(void **state)
{
	struct outcome whole, part;

	(void)state;
	run("native", 0, 0, &whole);
	run("uvm", whole.stats.peak_bytes[GPU0] / 4, KIB(256), &part);
	assert_int_equal(part.err, -ENOMEM);
	run("uvm+prefetch", whole.stats.peak_bytes[GPU0] / 2, KIB(256), &part);
	assert_int_equal(part.err, -ENOMEM);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_uvm_options),
		cmocka_unit_test(test_uvm_policy),
		cmocka_unit_test(test_uvm_room),
		cmocka_unit_test(test_uvm_against_min),
		cmocka_unit_test(test_uvm_survives_each_failure),
		cmocka_unit_test(test_uvm_trains_the_same),
		cmocka_unit_test(test_uvm_trains_the_same_under_policies),
		cmocka_unit_test(test_uvm_out_of_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
