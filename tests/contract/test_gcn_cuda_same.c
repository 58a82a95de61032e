/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Training through the CUDA backend, on a driver without a GPU: under every manager, with all, a
 * half and a quarter of the memory it needs, the losses are those of native on the simulator, bit
 * for bit. The driver watches meanwhile: copies, kernels and mappings that meet without an order,
 * kernels that touch what they may not, whatever is left at the end.
 *
 * The kernels are the CPU's, queued by tests/fakecuda/gcn. Time is real, so that what moves when
 * differs from run to run, unlike in tests/unit/test_gcn_same.c.
 *
 * Takes 8 s of a processor under sanitizers: real training, twice.
 *
 * Labels: threads
 * Links: cuda-fake
 */
#include <errno.h>
#include <stdlib.h>

#include "src/backend/cuda/cuda.h"
#include "src/backend/machine.h"
#include "src/core/space.h"
#include "tests/fakecuda/fakecuda.h"
#include "tests/support/amount.h"
#include "tests/unit/test_sim_machine.h"
#include "workloads/gcn/cuda.h"
#include "workloads/gcn/gcn.h"

/* The build says where the library is; this is for tools that read single files. */
#ifndef GCN_FAKE_PATH
#define GCN_FAKE_PATH "libweir-gcn-fake.so"
#endif

#define BLOCK UINT64_C(4096)
#define EPOCHS 4u

static const struct gcn_params params = {
	.nodes = 1000, .slice = 3000, .epochs = EPOCHS, .seed = 11, .hidden = 48, .threads = 2};

/* Room for what is needed; of managed memory there is an eighth. */
static struct fakecuda_config fake = {
	.devices = 1,
	.hbm_bytes = MIB(16),
	.host_bytes = MIB(64),
	.granularity = BLOCK,
};

/* ------------------------------------------------------------------ poison in its space */

static struct weir_space *space;
static const struct backend_ops *own_ops;
static struct backend_ops spying_ops;

/* A space registers itself for progress: that is how the test gets hold of the manager's. */
static int spying_set_progress(struct backend *b, void (*fn)(void *arg), void *arg)
{
	if (fn)
		space = arg;
	return own_ops->set_progress(b, fn, arg);
}

static void spy(struct weir_machine *machine)
{
	struct backend *b = machine_backend(machine);

	own_ops = b->ops;
	spying_ops = *b->ops;
	spying_ops.set_progress = spying_set_progress;
	b->ops = &spying_ops;
	space = NULL;
}

/* ------------------------------------------------------------------ runs */

struct outcome {
	double loss[EPOCHS];
	struct manager_stats stats;
	int err;
};

/* What all others are held against; made by the first test. */
static struct outcome reference;

static void train(struct weir_machine *machine, const char *name, uint64_t budget,
		  struct outcome *out)
{
	const struct manager_config config = {.machine = machine,
					      .gpu_budget_bytes = budget,
					      .block_bytes = BLOCK,
					      .options = ""};
	struct workload_result result;
	struct manager *manager;
	char why[256] = "";

	spy(machine);
	assert_int_equal(manager_create(name, &config, &manager), 0);
	assert_true((space != NULL) == !strcmp(name, "weir"));
	if (space)
		space->poison = true;
	out->err = gcn_run(manager, &params, &result, why, sizeof(why));
	manager->ops->stats(manager, &out->stats);
	if (!out->err) {
		assert_int_equal(result.nr_epochs, EPOCHS);
		memcpy(out->loss, result.loss, sizeof(out->loss));
		gcn_result_free(&result);
	} else if (out->err != -ENOMEM) {
		fail_msg("%s: %s", name, why);
	}
	assert_int_equal(manager->ops->check(manager), 0);
	manager->ops->destroy(manager);
	machine_backend(machine)->ops = own_ops;
}

static void train_on_cuda(const char *name, uint64_t budget, struct outcome *out)
{
	struct weir_machine *machine;
	struct backend *b;
	char problem[256];

	fakecuda_reset(&fake);
	assert_int_equal(cuda_create(&(struct cuda_config){.library = FAKECUDA_PATH}, &b), 0);
	assert_int_equal(machine_wrap(b, &machine), 0);
	train(machine, name, budget, out);
	assert_int_equal(b->ops->memory_used(b, GPU0), 0);
	weir_machine_close(machine);
	fakecuda_problem(problem, sizeof(problem));
	assert_string_equal(problem, "");
	assert_int_equal(fakecuda_nr_races(), 0);
	assert_int_equal(fakecuda_nr_unmaps_in_use(), 0);
	assert_int_equal(fakecuda_leaks(stderr), 0);
}

static void assert_same(const char *name, uint64_t budget, struct outcome *out)
{
	train_on_cuda(name, budget, out);
	assert_int_equal(out->err, 0);
	assert_memory_equal(out->loss, reference.loss, sizeof(reference.loss));
}

static void assert_too_small(const char *name, uint64_t budget)
{
	struct outcome out;

	train_on_cuda(name, budget, &out);
	assert_int_equal(out.err, -ENOMEM);
}

/* Bytes copied in a direction. */
static uint64_t copied(const struct outcome *o, enum backend_direction direction)
{
	uint64_t sum = 0;

	for (int cause = 0; cause < WEIR_CAUSE_NR; cause++)
		if (cause != WEIR_CAUSE_INPLACE)
			sum += o->stats.bytes[direction][cause];
	return sum;
}

/* ------------------------------------------------------------------ tests */

static int reference_create(void **state)
{
	struct weir_machine *machine;
	struct weir_machine_desc desc;

	(void)state;
	test_machine(&desc);
	if (weir_machine_simulate(&desc, WEIR_DATA_REAL, &machine))
		return -1;
	train(machine, "native", 0, &reference);
	weir_machine_close(machine);
	/* Planning takes longer than an epoch here. */
	if (reference.err || setenv("WEIR_CUDA_KERNELS", GCN_FAKE_PATH, 1) ||
	    setenv("WEIR_PLANS_ASIDE", "0", 1))
		return -1;
	return gcn_cuda_load();
}

static void test_gcn_cuda_with_all(void **state)
{
	struct outcome out;

	(void)state;
	assert_same("native", 0, &out);
	assert_int_equal(out.stats.peak_bytes[GPU0], reference.stats.peak_bytes[GPU0]);
	assert_same("malloc", 0, &out);
	assert_same("weir", 0, &out);
	assert_int_equal(copied(&out, BACKEND_TO_HOST), 0);
}

static void same_with(unsigned int percent)
{
	uint64_t whole = reference.stats.peak_bytes[GPU0], budget = whole * percent / 100;
	uint64_t in, ahead, back;
	struct outcome out;

	assert_true(budget > 64 * BLOCK);
	assert_too_small("native", budget);
	assert_too_small("malloc", budget);
	assert_same("zerocopy", budget, &out);
	assert_same("weir", budget, &out);
	assert_true(out.stats.peak_bytes[GPU0] <= budget);
	in = copied(&out, BACKEND_TO_DEVICE) / BLOCK;
	back = copied(&out, BACKEND_TO_HOST) / BLOCK;
	ahead = out.stats.bytes[BACKEND_TO_DEVICE][WEIR_CAUSE_PREFETCH] / BLOCK;
	print_message("%u %% of %llu bytes: %llu blocks in, %llu of them ahead of use, %llu out\n",
		      percent, (unsigned long long)whole, (unsigned long long)in,
		      (unsigned long long)ahead, (unsigned long long)back);
	/* How many depends on real time, and under load on luck: 300 to 400 in, 10 to 60 ahead.
	 * That plans move enough ahead is for tests of the simulator. */
	assert_true(in > 100);
	assert_true(ahead > 0);
	assert_true(back > 100);
	assert_true(out.stats.bytes[BACKEND_TO_DEVICE][WEIR_CAUSE_INPLACE] > 0);
}

static void test_gcn_cuda_with_half(void **state)
{
	(void)state;
	if (TEST_TSAN) /* the others have more threads meet */
		skip();
	same_with(50);
}

static void test_gcn_cuda_with_quarter(void **state)
{
	(void)state;
	same_with(25);
}

/* What is as small as a space may be still gives the same. */
static void test_gcn_cuda_with_hardly_any(void **state)
{
	struct outcome out;

	(void)state;
	assert_same("weir", 4 * BLOCK, &out);
}

/* Managed memory trains on a card that is eight times as large, and stops at its guard. */
static void test_gcn_cuda_managed(void **state)
{
	struct manager_config config = {.options = ""};
	uint64_t small = fake.hbm_bytes;
	struct manager *manager;
	struct outcome out;
	struct backend *b;

	(void)state;
	fake.hbm_bytes = MIB(64);
	assert_same("uvm", 0, &out);
	assert_true(out.stats.peak_bytes[GPU0] > reference.stats.peak_bytes[GPU0] / 2);
	assert_same("uvm+prefetch", MIB(4), &out);
	assert_int_equal(out.stats.nr_faults, 0); /* nobody counts them here */
	fake.hbm_bytes = small;

	fakecuda_reset(&fake);
	assert_int_equal(cuda_create(&(struct cuda_config){.library = FAKECUDA_PATH}, &b), 0);
	assert_int_equal(machine_wrap(b, &config.machine), 0);
	assert_int_equal(manager_create("uvm+max", &config, &manager), -ENOTSUP);
	assert_int_equal(manager_create("uvm", &config, &manager), 0);
	assert_int_equal(gcn_run(manager, &params, &(struct workload_result){0}, NULL, 0), -EDQUOT);
	manager->ops->destroy(manager);
	weir_machine_close(config.machine);
	assert_int_equal(fakecuda_leaks(stderr), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_gcn_cuda_with_all),
		cmocka_unit_test(test_gcn_cuda_with_half),
		cmocka_unit_test(test_gcn_cuda_with_quarter),
		cmocka_unit_test(test_gcn_cuda_with_hardly_any),
		cmocka_unit_test(test_gcn_cuda_managed),
	};

	return cmocka_run_group_tests(tests, reference_create, NULL);
}
