/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranges that are used again and again, on a simulated machine: the same words under every manager
 * for parameters at random, what is wrong is found, and what is asked for and bound is counted
 * right; orders are what they are said to be.
 */
#include <errno.h>

#include "src/backend/machine.h"
#include "src/base/util.h"
#include "tests/unit/test_sim_machine.h"
#include "workloads/layers/layers.h"

#define RANDOM_CASES 40
#define RANDOM_SEED 77u

static const char *const managers[] = {"native", "malloc", "zerocopy", "uvm", "weir"};

static const struct layers_params usual = {
	.nr_ranges = 6,
	.range_bytes = 4 * LAYERS_PAGE_BYTES,
	.write = true,
	.compute = 1,
	.seed = 3,
	.split = LAYERS_NO_SPLIT,
	.passes = 3,
	.warm_up = 1,
	.check = true,
	.threads = 64,
};

static int run(const char *name, const struct layers_params *p, uint64_t budget,
	       struct passes_result *out, char *err)
{
	struct manager_config config = {.gpu_budget_bytes = budget, .options = ""};
	struct weir_machine_desc desc;
	struct manager *m;
	int ret;

	test_machine(&desc);
	desc.uvm = (struct weir_uvm_desc){256, 1000, 10, 5000, 100, 50, 0};
	assert_int_equal(weir_machine_simulate(&desc, WEIR_DATA_REAL, &config.machine), 0);
	ret = manager_create(name, &config, &m);
	assert_int_equal(ret, 0);
	err[0] = '\0';
	ret = layers_run(m, p, out, err, 256);
	assert_int_equal(m->ops->check(m), 0);
	m->ops->destroy(m);
	weir_machine_close(config.machine);
	return ret;
}

static void test_layers_same(void **state)
{
	uint64_t random = RANDOM_SEED;

	(void)state;
	print_message("seed %u\n", RANDOM_SEED);
	for (int i = 0; i < RANDOM_CASES; i++) {
		uint64_t r = touch_mix(random += TOUCH_STEP);
		struct layers_params p = usual;
		struct passes_result result;
		char err[256];

		p.nr_ranges = 1 + (uint32_t)(r % 9);
		p.range_bytes = LAYERS_PAGE_BYTES * (1 + (r >> 8) % 9);
		p.order = (enum layers_order)((r >> 16) % LAYERS_ORDER_NR);
		p.write = r >> 20 & 1;
		p.compute = 1 + (double)((r >> 24) % 40) / 10;
		p.seed = r;
		if (r >> 21 & 1)
			p.split = (uint32_t)((r >> 32) % (p.nr_ranges + 1));
		for (size_t k = 0; k < ARRAY_LEN(managers); k++) {
			int ret = run(managers[k], &p, 0, &result, err);

			if (ret || !result.passed)
				fail_msg("%s: %d %s %s", managers[k], ret, err,
					 ret ? "" : result.wrong);
			assert_true(result.checked);
			passes_result_free(&result);
		}
	}
}

/* Each pass reads what it uses, and writes that and temporaries of an eighth to a quarter. */
static void test_layers_asks(void **state)
{
	struct layers_params p = usual;
	struct passes_result r;
	char err[256];

	(void)state;
	p.range_bytes = 16 * LAYERS_PAGE_BYTES;
	assert_int_equal(run("native", &p, 0, &r, err), 0);
	assert_int_equal(r.read_bytes, p.nr_ranges * p.range_bytes);
	assert_int_equal(r.distinct_bytes, r.read_bytes);
	assert_in_range(r.write_bytes, r.read_bytes * 9 / 8, r.read_bytes * 5 / 4);
	passes_result_free(&r);
	/* Beyond reading and writing the range, the temporary makes up for it. */
	p.compute = 5;
	assert_int_equal(run("native", &p, 0, &r, err), 0);
	assert_int_equal(r.write_bytes, r.read_bytes * 4);
	passes_result_free(&r);
	p.range_bytes++;
	assert_int_equal(run("native", &p, 0, &r, err), -EINVAL);
	assert_non_null(strstr(err, "whole pages"));
}

/* A run during which somebody else changes a word of a range, when so many passes are done. */
struct planted {
	struct manager *m;
	uint32_t after;
};

static void *last_range;

static int noting_alloc(struct manager *m, uint64_t bytes, const char *name, void **addr)
{
	int err = manager_native.alloc(m, bytes, name, addr);

	if (!err && !strcmp(name, "range"))
		last_range = *addr;
	return err;
}

static int plant(void *arg, uint32_t done, uint32_t total)
{
	const struct planted *planted = arg;
	const uint64_t wrong = 1;

	(void)total;
	if (done == planted->after)
		assert_int_equal(manager_native.write(planted->m, last_range, &wrong, 8), 0);
	return 0;
}

/* By the sum of the pass after it. */
static void test_layers_finds_what_is_wrong(void **state)
{
	struct manager_ops noting = manager_native;
	struct manager_config config = {.options = ""};
	struct layers_params p = usual;
	struct planted planted = {0};
	struct weir_machine_desc desc;
	struct passes_result r;
	char err[256];

	(void)state;
	noting.alloc = noting_alloc;
	test_machine(&desc);
	for (planted.after = 1; planted.after <= p.passes; planted.after++) {
		assert_int_equal(weir_machine_simulate(&desc, WEIR_DATA_REAL, &config.machine), 0);
		assert_int_equal(manager_create("native", &config, &planted.m), 0);
		planted.m->ops = &noting;
		p.progress = plant;
		p.progress_arg = &planted;
		assert_int_equal(layers_run(planted.m, &p, &r, err, sizeof(err)), 0);
		/* When all passes are done all has been compared. */
		assert_int_equal(r.passed, planted.after == p.passes);
		assert_int_equal(r.wrong[0] == '\0', r.passed);
		passes_result_free(&r);
		planted.m->ops = &manager_native;
		manager_native.destroy(planted.m);
		weir_machine_close(config.machine);
	}
}

/* ------------------------------------------------------------------ orders */

#define NR 60u
#define NR_PASSES 100u

static void count_uses(enum layers_order order, uint32_t nr[NR], struct layers_walk *walk)
{
	memset(nr, 0, NR * sizeof(*nr));
	layers_walk_init(walk, order, NR, 5);
	for (uint32_t i = 0; i < NR * NR_PASSES; i++) {
		uint32_t range = layers_walk_next(walk);

		assert_in_range(range, 0, NR - 1);
		nr[range]++;
	}
}

static void test_layers_orders(void **state)
{
	static struct layers_walk walk;
	uint32_t nr[NR], popular = 0, repeated = 0, last = NR;

	(void)state;
	for (int order = LAYERS_CYCLIC; order <= LAYERS_PERMUTED; order++) {
		count_uses((enum layers_order)order, nr, &walk);
		for (uint32_t i = 0; i < NR; i++)
			assert_int_equal(nr[i], NR_PASSES);
	}
	count_uses(LAYERS_RANDOM, nr, &walk);
	for (uint32_t i = 0; i < NR; i++)
		assert_in_range(nr[i], NR_PASSES / 2, NR_PASSES * 3 / 2);
	count_uses(LAYERS_SKEWED, nr, &walk);
	for (uint32_t i = 0; i < NR / 5; i++)
		popular += nr[walk.rank[i]];
	assert_in_range(popular, NR * NR_PASSES * 78 / 100, NR * NR_PASSES * 82 / 100);
	/* Five walks over 24, then over the next 24. */
	layers_walk_init(&walk, LAYERS_MOVING, NR, 5);
	for (uint32_t i = 0; i < 2 * 5 * 24; i++)
		assert_int_equal(layers_walk_next(&walk), i / (5 * 24) * 24 + i % 24);
	/* No pass of a permuted walk is like the one before. */
	layers_walk_init(&walk, LAYERS_PERMUTED, NR, 5);
	for (uint32_t i = 0; i < NR * NR_PASSES; i++) {
		uint32_t range = layers_walk_next(&walk);

		repeated += i % NR && range == (last + 1) % NR;
		last = range;
	}
	assert_true(repeated < NR * NR_PASSES / 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_layers_same),
		cmocka_unit_test(test_layers_asks),
		cmocka_unit_test(test_layers_finds_what_is_wrong),
		cmocka_unit_test(test_layers_orders),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
