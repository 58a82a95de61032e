/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Alternating least squares on a simulated machine: both sides' ratings are the same ones; a row
 * against conjugate gradients in double precision; the factors at the end, bit by bit, under every
 * manager, on any number of devices, with little memory; what moves; no manager is faster than the
 * lower bound.
 */
#include <math.h>
#include <stdlib.h>

#include "src/base/util.h"
#include "tests/support/amount.h"
#include "tests/unit/test_sim_machine.h"
#include "workloads/graph/gen.h"
#include "workloads/solver/bound.h"
#include "workloads/solver/internal.h"

#define SEED 20262u

static struct solver_params params_of(uint32_t users, uint32_t items, uint32_t devices)
{
	return (struct solver_params){
		.kind = SOLVER_ALS,
		.shape = {users, items, SOLVER_WIDTH},
		.iterations = 2,
		.passes = 2,
		.warm_up = 1,
		.devices = devices,
		.check = true,
	};
}

/* ------------------------------------------------------------------ ratings */

/* One of a user and item, by the number that the users have it by. */
static void rating_is_one(const struct ratings *r, uint64_t rating)
{
	const uint64_t all = UINT64_C(1) << r->log2;
	const uint64_t other = (rating * RATINGS_STEP + RATINGS_FIRST) & (all - 1);
	const uint32_t user = ratings_row(r, RATINGS_USERS, rating);
	const uint32_t rank = ratings_rank(&r->side[RATINGS_USERS], user);
	float value, value_there;
	const uint32_t item = ratings_other(r, RATINGS_USERS, rating, &value);

	assert_true(user < r->side[RATINGS_USERS].nr && item < r->side[RATINGS_ITEMS].nr);
	assert_true(ratings_begin(r, RATINGS_USERS, rank) <= rating);
	assert_true(ratings_begin(r, RATINGS_USERS, rank + 1) > rating);
	assert_int_equal(ratings_row(r, RATINGS_ITEMS, other), item);
	assert_int_equal(ratings_other(r, RATINGS_ITEMS, other, &value_there), user);
	assert_true(value == value_there && value >= 0 && value < 1);
}

static void test_als_ratings(void **state)
{
	static const uint32_t sizes[][2] = {
		{1, 1}, {2, 1}, {3, 2}, {10, 1000}, {4096, 64}, {999, 1000}, {8000000, 1000000}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		const struct solver_params p = params_of(sizes[i][0], sizes[i][1], 1);
		const struct ratings r = als_ratings(&p);
		const uint64_t all = UINT64_C(1) << r.log2;

		assert_true(all >= 16 * (uint64_t)sizes[i][0] && all < 32 * (uint64_t)sizes[i][0]);
		for (uint64_t k = 0; k < MIN(all, 20000); k++)
			rating_is_one(&r, all <= 20000 ? k : gen_bits(SEED, k) % all);
		for (uint32_t side = 0; side < 2; side++) {
			const struct ratings_side *s = &r.side[side];

			assert_int_equal(ratings_begin(&r, side, 0), 0);
			assert_int_equal(ratings_begin(&r, side, s->nr), all);
			assert_int_equal((uint64_t)s->step * s->back % s->nr, 1 % s->nr);
		}
	}
}

/* Consecutive rows have about as many as the mean, wherever they begin. */
static void test_als_ratings_even(void **state)
{
	const struct solver_params p = params_of(100000, 20000, 16);
	const struct ratings r = als_ratings(&p);

	(void)state;
	for (uint32_t side = 0; side < 2; side++)
		for (uint32_t d = 0; d < p.devices; d++) {
			uint64_t nr = 0;
			double share;

			for (uint32_t row = solver_array_first(&p, side, d);
			     row < solver_array_first(&p, side, d + 1); row++) {
				const uint32_t rank = ratings_rank(&r.side[side], row);

				nr += ratings_begin(&r, side, rank + 1) -
				      ratings_begin(&r, side, rank);
			}
			share = (double)nr * p.devices / (double)(UINT64_C(1) << r.log2);
			assert_true(share > 0.98 && share < 1.02);
		}
}

/* ------------------------------------------------------------------ one row */

static double product(const double *a, const double *b)
{
	double sum = 0;

	for (uint32_t i = 0; i < SOLVER_WIDTH; i++)
		sum += a[i] * b[i];
	return sum;
}

/* Two steps of conjugate gradients for (sum of y y' + ridge) x = sum of rating y. */
static void row_solve(const struct ratings *r, const float *items, uint32_t user, double *x)
{
	const uint32_t rank = ratings_rank(&r->side[RATINGS_USERS], user), n = SOLVER_WIDTH;
	double matrix[SOLVER_WIDTH][SOLVER_WIDTH] = {{0}}, left[SOLVER_WIDTH] = {0};
	double way[SOLVER_WIDTH], image[SOLVER_WIDTH];

	for (uint32_t i = 0; i < n; i++)
		matrix[i][i] = POINT_RIDGE;
	for (uint64_t e = ratings_begin(r, RATINGS_USERS, rank);
	     e < ratings_begin(r, RATINGS_USERS, rank + 1); e++) {
		float value;
		const float *y = items + ratings_other(r, RATINGS_USERS, e, &value) * n;

		for (uint32_t i = 0; i < n; i++) {
			left[i] += (double)value * (double)y[i];
			for (uint32_t k = 0; k < n; k++)
				matrix[i][k] += (double)y[i] * (double)y[k];
		}
	}
	memcpy(way, left, sizeof(way));
	memset(x, 0, n * sizeof(*x));
	for (uint32_t step = 0; step < SOLVER_ALS_STEPS; step++) {
		const double square = product(left, left);
		double length;

		for (uint32_t i = 0; i < n; i++)
			image[i] = product(matrix[i], way);
		length = square > 0 ? square / product(way, image) : 0;
		for (uint32_t i = 0; i < n; i++) {
			x[i] += length * way[i];
			left[i] -= length * image[i];
		}
		for (uint32_t i = 0; i < n; i++)
			way[i] = left[i] + (square > 0 ? product(left, left) / square : 0) * way[i];
	}
}

static void test_als_row(void **state)
{
	const struct solver_params p = params_of(300, 90, 1);
	float items[90 * SOLVER_WIDTH], got[SOLVER_WIDTH], cut[SOLVER_WIDTH];
	struct solver_als_args args = {
		.ratings = als_ratings(&p),
		.nr = 1,
		.out = got,
		.nr_parts = 1,
		.part_first = {0, 90},
		.part = {items},
	};

	(void)state;
	for (uint32_t i = 0; i < ARRAY_LEN(items); i++)
		items[i] = point_begin(i);
	for (args.first = 0; args.first < 300; args.first++) {
		struct solver_als_args parts = args;
		double want[SOLVER_WIDTH];

		solver_kernel_als.cpu(&args);
		row_solve(&args.ratings, items, args.first, want);
		for (uint32_t i = 0; i < SOLVER_WIDTH; i++)
			assert_true(fabs((double)got[i] - want[i]) < 1e-5);
		/* The same of items in parts. */
		parts.nr_parts = 3;
		parts.part_first[1] = 1;
		parts.part_first[2] = 55;
		parts.part_first[3] = 90;
		parts.part[1] = items + SOLVER_WIDTH;
		parts.part[2] = items + (size_t)55 * SOLVER_WIDTH;
		parts.out = cut;
		solver_kernel_als.cpu(&parts);
		assert_memory_equal(cut, got, sizeof(got));
	}
}

/* ------------------------------------------------------------------ under managers */

struct outcome {
	uint64_t hash, moved_bytes;
	uint64_t most_bytes; /* over a link between two devices, one way */
	double pass_s;
};

static struct outcome run(const struct weir_machine_desc *desc,
			  const struct solver_manager_ops *ops, const struct solver_params *p,
			  enum weir_data data, uint32_t budget_percent)
{
	struct solver_config config = {.options = ops->options};
	struct outcome outcome = {.hash = 0};
	struct manager_stats stats;
	struct solver_result r;
	struct solver_manager *m;
	char err[256] = "";

	solver_config_set(&config, p);
	for (uint32_t d = 0; d < p->devices; d++)
		config.budget_bytes[d] = solver_named_bytes(p, d, 4096) * budget_percent / 100;
	assert_int_equal(weir_machine_simulate(desc, data, &config.machine), 0);
	assert_int_equal(ops->create(&config, &m), 0);
	if (solver_run(m, p, &r, err, sizeof(err)) || !r.passes.passed)
		fail_msg("%s on %u: %s %s", ops->name, p->devices, err, r.passes.wrong);
	assert_int_equal(m->ops->check(m), 0);
	m->ops->stats(m, &stats);
	for (uint32_t l = 0; l < desc->nr_links; l++)
		for (int way = 0; way < WEIR_DIRECTION_NR; way++) {
			uint64_t bytes = 0;

			for (int cause = 0; cause < WEIR_CAUSE_NR; cause++)
				bytes += stats.near[l][way][cause];
			outcome.moved_bytes += bytes;
			outcome.most_bytes = MAX(outcome.most_bytes, bytes);
		}
	outcome.hash = r.hash;
	outcome.pass_s = r.passes.pass_s[0];
	passes_result_free(&r.passes);
	m->ops->destroy(m);
	weir_machine_close(config.machine);
	return outcome;
}

/* No two devices that are next to each other take the same time. */
static void machine_of(uint32_t devices, struct weir_machine_desc *desc)
{
	test_machine_gpus(desc, devices);
	for (uint32_t d = 0; d < devices; d++)
		desc->device[d].launch_ns *= 1 + d * 7 % 5 * 4;
}

static void test_als_same(void **state)
{
	static const uint32_t devices[] = {1, 2, 3, 4, 8, 16}, budgets[] = {0, 100, 60, 30};
	struct solver_params p = params_of(150, 40, 1);
	struct weir_machine_desc desc;
	uint64_t want;

	(void)state;
	machine_of(1, &desc);
	want = run(&desc, &solver_manager_single, &p, WEIR_DATA_REAL, 0).hash;
	for (size_t i = 0; i < ARRAY_LEN(devices); i += TEST_SANITIZED ? 3 : 1)
		for (size_t k = 1; solver_managers[k]; k++)
			for (size_t b = 0; b < (solver_managers[k]->spills ? 4 : 1); b++) {
				if (solver_managers[k]->limit)
					continue;
				p.devices = devices[i];
				machine_of(p.devices, &desc);
				assert_int_equal(run(&desc, solver_managers[k], &p, WEIR_DATA_REAL,
						     budgets[b])
							 .hash,
						 want);
			}
}

/* Each row to each other device, once an iteration and once as the arrays are filled. */
static void test_als_bytes(void **state)
{
	const struct solver_params p = params_of(1500, 400, 4);
	const uint64_t want = 3 * solver_all_bytes(&p) * (p.iterations * p.passes + 1);
	struct weir_machine_desc desc;

	(void)state;
	machine_of(p.devices, &desc);
	assert_int_equal(run(&desc, &solver_manager_memcpy, &p, WEIR_DATA_PHANTOM, 0).moved_bytes,
			 want);
	assert_int_equal(run(&desc, &solver_manager_overlap, &p, WEIR_DATA_PHANTOM, 0).moved_bytes,
			 want);
}

/* Each device sends what it wrote, none what others did: links carry the same. */
static void test_als_links(void **state)
{
	const struct solver_params p = params_of(1500, 400, 4);
	struct weir_machine_desc desc;
	struct outcome outcome;

	(void)state;
	machine_of(p.devices, &desc);
	outcome = run(&desc, &solver_manager_weir, &p, WEIR_DATA_PHANTOM, 0);
	assert_true(outcome.moved_bytes >= 3 * solver_all_bytes(&p) * p.iterations * p.passes);
	assert_true(outcome.most_bytes * 12 < outcome.moved_bytes / 10 * 11);
}

static void test_als_bound(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < 30; i++) {
		const uint64_t r = gen_bits(SEED + 1, i);
		struct solver_params p = params_of(16 + (uint32_t)(r >> 8) % 5000,
						   16 + (uint32_t)(r >> 24) % 3000, 1);
		struct weir_machine_desc desc;

		p.iterations = 1 + (uint32_t)(r >> 40) % 4;
		for (size_t k = 0; solver_managers[k]; k++) {
			const struct solver_manager_ops *ops = solver_managers[k];
			struct solver_bound bound;
			double s, least;

			p.devices = ops->one_device ? 1 : 1 + (uint32_t)r % 6;
			machine_of(p.devices, &desc);
			bound = solver_bound_of(&desc, &p, NULL,
						ops->in_place ? SOLVER_IN_PLACE : SOLVER_COPIED);
			least = ops->limit ? bound.kernels_s : solver_bound_s(&bound);
			s = run(&desc, ops, &p, WEIR_DATA_PHANTOM, 0).pass_s;
			if (!(s >= least * (1 - 1e-12)))
				fail_msg("%llu: %s on %u: %.9g s, bound %.9g",
					 (unsigned long long)i, ops->name, p.devices, s, least);
			/* With one device there is nothing else. */
			if (ops->one_device)
				assert_true(s < 1.1 * least + 3e-6);
		}
	}
}

/* Launches and messages are beside each other, whichever of the two take longer. */
static void test_als_is_near(void **state)
{
	static const double port_bytes_per_s[] = {2e9, 5e9, 8e9, 20e9, 45e9};
	struct solver_params p = params_of(400000, 50000, 4);
	struct weir_machine_desc desc;

	(void)state;
	p.iterations = 10;
	test_machine_gpus(&desc, p.devices);
	for (uint32_t d = 0; d < p.devices; d++)
		desc.memory[GPU0 + d].bytes = MIB(4096);
	desc.nr_ports = p.devices;
	for (size_t i = 0; i < ARRAY_LEN(port_bytes_per_s); i++) {
		struct solver_bound bound;
		double s;

		for (uint32_t d = 0; d < p.devices; d++)
			desc.port[d] = (struct weir_port_desc){GPU0 + d, 1, port_bytes_per_s[i],
							       port_bytes_per_s[i]};
		bound = solver_bound_of(&desc, &p, NULL, SOLVER_COPIED);
		s = run(&desc, &solver_manager_overlap, &p, WEIR_DATA_PHANTOM, 0).pass_s;
		print_message("%.0f GB/s: %.4f times the bound\n", port_bytes_per_s[i] / 1e9,
			      s / solver_bound_s(&bound));
		assert_true(s < 1.02 * solver_bound_s(&bound));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_als_ratings), cmocka_unit_test(test_als_ratings_even),
		cmocka_unit_test(test_als_row),	    cmocka_unit_test(test_als_same),
		cmocka_unit_test(test_als_links),   cmocka_unit_test(test_als_bytes),
		cmocka_unit_test(test_als_bound),   cmocka_unit_test(test_als_is_near),
	};

	return cmocka_run_group_tests_name("als", tests, NULL, NULL);
}
