/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Training as a whole: it learns what is there to be learnt, and its losses are the same bit for
 * bit for every number of threads and wherever the tensors lie.
 *
 * Labels: threads
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <math.h>

#include "tests/support/amount.h"
#include "tests/unit/test_gcn_fake.h"
#include "tests/unit/test_gcn_planted.h"
#include "workloads/gcn/gcn.h"
#include "workloads/gcn/pool.h"

static void run(const struct gcn_params *p, uint64_t offset, struct workload_result *r)
{
	struct fake f;
	char err[256] = "";

	fake_init(&f, WEIR_DATA_REAL);
	f.offset = offset;
	if (gcn_run(&f.manager, p, r, err, sizeof(err)))
		fail_msg("%s", err);
	assert_int_equal(f.live_bytes, 0);
	assert_int_equal(r->nr_epochs, p->epochs);
}

/* 67 labelled nodes of 600, and features of which most are noise. */
static void gcn_train_planted_classes(void **state)
{
	struct gcn_params p = {.epochs = 200};
	double sum = 0;
	char dir[PLANTED_DIR_BYTES];

	(void)state;
	if (TEST_SANITIZED)
		skip();
	assert_int_equal(planted_create(dir, 600, 7), 0);
	p.graph_dir = dir;
	for (p.seed = 1; p.seed <= 3; p.seed++) {
		struct workload_result r;

		run(&p, 0, &r);
		print_message("seed %d: loss %.4f to %.4f, test accuracy %.4f\n", (int)p.seed,
			      r.loss[0], r.loss[p.epochs - 1], r.test_accuracy);
		assert_true(fabs(r.loss[0] - log(PLANTED_CLASSES)) < 0.1);
		assert_true(r.loss[p.epochs - 1] < 0.5 * r.loss[0]);
		sum += r.test_accuracy;
		gcn_result_free(&r);
	}
	assert_true(sum / 3 >= 0.95);
	planted_remove(dir);
}

/* Labels are random: there is nothing to be learnt but the training nodes by heart. */
static void gcn_train_random_labels(void **state)
{
	struct gcn_params p = {.nodes = 3000, .slice = 10000, .epochs = 3, .seed = 2025};
	struct workload_result r;

	(void)state;
	if (TEST_SANITIZED) /* the others do what it does */
		skip();
	run(&p, 0, &r);
	for (uint32_t i = 0; i < p.epochs; i++) {
		assert_true(fabs(r.loss[i] - log(10)) < 0.2);
		assert_true(r.epoch_s[i] > 0);
	}
	assert_true(isnan(r.test_accuracy));
	gcn_result_free(&r);
}

static void same_everywhere(struct gcn_params *p)
{
	static const uint32_t threads[] = {1, 2, 3, 7};
	static const uint64_t offsets[] = {0, 256, 4096 + 512, 64};
	struct workload_result first, r;

	p->threads = 1;
	run(p, 0, &first);
	for (int i = 0; i < 4; i++) {
		p->threads = threads[i];
		run(p, offsets[i], &r);
		assert_memory_equal(r.loss, first.loss, p->epochs * sizeof(*r.loss));
		assert_memory_equal(&r.test_accuracy, &first.test_accuracy, sizeof(double));
		gcn_result_free(&r);
	}
	p->seed++;
	run(p, 0, &r);
	assert_memory_not_equal(r.loss, first.loss, p->epochs * sizeof(*r.loss));
	gcn_result_free(&r);
	gcn_result_free(&first);
}

static void gcn_train_same_random_graph(void **state)
{
	struct gcn_params p = {.nodes = 2500, .slice = 7777, .epochs = 3, .seed = 9, .hidden = 40};

	(void)state;
	if (TEST_SANITIZED) /* threads meet in the same places in each */
		p.epochs = 1;
	same_everywhere(&p);
}

static void gcn_train_same_real_graph(void **state)
{
	struct gcn_params p = {.epochs = TEST_SANITIZED ? 4 : 20, .seed = 9};
	char dir[PLANTED_DIR_BYTES];

	(void)state;
	assert_int_equal(planted_create(dir, 700, 3), 0);
	p.graph_dir = dir;
	same_everywhere(&p);
	planted_remove(dir);
}

/* ------------------------------------------------------------------ the pool under it */

struct marks {
	uint8_t mark[5000];
};

static void mark_part(const void *arg, uint64_t part)
{
	/* The pool passes what is constant to it; the marks are each one part's own. */
	((struct marks *)(uintptr_t)arg)->mark[part]++;
}

static void gcn_pool_runs_each_part_once(void **state)
{
	static const uint32_t threads[] = {0, 1, 2, 8};
	static const uint64_t parts[] = {0, 1, 2, 7, 5000};

	(void)state;
	for (int i = 0; i < 4; i++) {
		struct gcn_pool *pool;

		assert_int_equal(gcn_pool_create(threads[i], &pool), 0);
		assert_true(threads[i] == 0 || gcn_pool_threads(pool) == threads[i]);
		for (int j = 0; j < 50; j++) {
			struct marks m = {{0}};

			gcn_pool_run(pool, parts[j % 5], mark_part, &m);
			for (uint64_t k = 0; k < sizeof(m.mark); k++)
				assert_int_equal(m.mark[k], k < parts[j % 5]);
		}
		gcn_pool_destroy(pool);
	}
	gcn_pool_destroy(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gcn_pool_runs_each_part_once),
		cmocka_unit_test(gcn_train_random_labels),
		cmocka_unit_test(gcn_train_same_random_graph),
		cmocka_unit_test(gcn_train_same_real_graph),
		cmocka_unit_test(gcn_train_planted_classes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
