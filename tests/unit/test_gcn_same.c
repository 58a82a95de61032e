/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Training under weir with a half and a quarter of the memory it needs, with vacated chunks
 * poisoned: the losses are those of a GPU that holds everything, bit for bit. That the tests can
 * fail is shown by tests/integration/mutants.sh; the same through the program, with more blocks,
 * by tests/integration/same_results.sh.
 *
 * Labels: slow
 */
#include <errno.h>
#include <stdlib.h>

#include "src/backend/machine.h"
#include "src/core/space.h"
#include "tests/unit/test_sim_machine.h"
#include "workloads/gcn/gcn.h"

#define BLOCK UINT64_C(4096)
#define EPOCHS 4u

static const struct gcn_params params = {
	.nodes = 1500, .slice = 3000, .epochs = EPOCHS, .seed = 11, .hidden = 48, .threads = 2};

/* ------------------------------------------------------------------ poison in its space */

static struct weir_space *space;
static const struct backend_ops *sim_ops;
static struct backend_ops spying_ops;

/* A space registers itself for progress: that is how the test gets hold of the manager's. */
static int spying_set_progress(struct backend *b, void (*fn)(void *arg), void *arg)
{
	if (fn)
		space = arg;
	return sim_ops->set_progress(b, fn, arg);
}

static void spy(struct weir_machine *machine)
{
	struct backend *b = machine_backend(machine);

	sim_ops = b->ops;
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

static void run(const char *name, uint64_t budget, struct outcome *out)
{
	struct manager_config config = {
		.gpu_budget_bytes = budget, .block_bytes = BLOCK, .options = ""};
	struct workload_result result;
	struct weir_machine_desc desc;
	struct manager *manager;
	char why[256] = "";

	test_machine(&desc);
	assert_int_equal(weir_machine_simulate(&desc, WEIR_DATA_REAL, &config.machine), 0);
	spy(config.machine);
	assert_int_equal(manager_create(name, &config, &manager), 0);
	if (space)
		space->poison = true;
	assert_true((space != NULL) == !strcmp(name, "weir"));
	out->err = gcn_run(manager, &params, &result, why, sizeof(why));
	manager->ops->stats(manager, &out->stats);
	if (!out->err) {
		assert_int_equal(result.nr_epochs, EPOCHS);
		memcpy(out->loss, result.loss, sizeof(out->loss));
		gcn_result_free(&result);
	}
	assert_int_equal(manager->ops->check(manager), 0);
	manager->ops->destroy(manager);
	machine_backend(config.machine)->ops = sim_ops;
	assert_int_equal(sim_leaks(machine_backend(config.machine)), 0);
	weir_machine_close(config.machine);
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

static void same_with(unsigned int percent)
{
	struct outcome whole, part;
	uint64_t budget;

	run("native", 0, &whole);
	assert_int_equal(whole.err, 0);
	budget = whole.stats.peak_bytes[GPU0] * percent / 100;
	assert_true(budget > 64 * BLOCK);
	run("native", budget, &part);
	assert_int_equal(part.err, -ENOMEM);
	run("malloc", budget, &part);
	assert_int_equal(part.err, -ENOMEM);
	run("zerocopy", budget, &part);
	assert_int_equal(part.err, 0);
	assert_memory_equal(part.loss, whole.loss, sizeof(whole.loss));
	run("weir", budget, &part);
	assert_int_equal(part.err, 0);
	assert_memory_equal(part.loss, whole.loss, sizeof(whole.loss));
	assert_true(part.stats.peak_bytes[GPU0] <= budget);
	assert_true(copied(&part, BACKEND_TO_DEVICE) > 100 * BLOCK);
	assert_true(copied(&part, BACKEND_TO_HOST) > 100 * BLOCK);
	assert_true(part.stats.bytes[BACKEND_TO_DEVICE][WEIR_CAUSE_INPLACE] > 0);
	print_message("%u %% of %llu bytes: %llu blocks in, %llu out\n", percent,
		      (unsigned long long)whole.stats.peak_bytes[GPU0],
		      (unsigned long long)(copied(&part, BACKEND_TO_DEVICE) / BLOCK),
		      (unsigned long long)(copied(&part, BACKEND_TO_HOST) / BLOCK));
}

static void gcn_same_with_half(void **state)
{
	(void)state;
	same_with(50);
}

static void gcn_same_with_quarter(void **state)
{
	(void)state;
	same_with(25);
}

/* What is as small as a space may be still gives the same. */
static void gcn_same_with_hardly_any(void **state)
{
	struct outcome whole, part;

	(void)state;
	run("native", 0, &whole);
	run("weir", 4 * BLOCK, &part);
	assert_int_equal(part.err, 0);
	assert_memory_equal(part.loss, whole.loss, sizeof(whole.loss));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gcn_same_with_half),
		cmocka_unit_test(gcn_same_with_quarter),
		cmocka_unit_test(gcn_same_with_hardly_any),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
