/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The solvers and their kernels on the CUDA backend: fields of random shapes under every manager,
 * on as many devices as there are, each element against the CPU's; rows so long that several blocks
 * add them; the kernels alone, in ranges cut anywhere. WEIR_SOLVER_KERNELS names their library,
 * SOLVER_CASES says how many cases there are (24). The driver without a GPU has four devices, and
 * sees what no wait orders.
 *
 * Long: yes
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "src/backend/machine.h"
#include "src/base/util.h"
#include "tests/support/amount.h"
#include "tests/support/driver.h"
#include "workloads/graph/gen.h"
#include "workloads/solver/cuda.h"
#include "workloads/solver/solver.h"

#define SEED 20255u
#define LARGE (UINT64_C(8) << 30) /* a card of at least that has large fields */

static const struct test_amount cases = {24, 3, 100};

static struct backend *open_backend(void)
{
	struct fakecuda_config fake = test_fake_config;
	struct backend *b;

	fake.devices = 4;
	assert_int_equal(test_cuda_open(&fake, &b), 0);
	assert_int_equal(solver_cuda_load(), 0);
	return b;
}

static struct solver_shape shape_at(uint64_t random, enum solver_kind kind, bool large)
{
	const struct solver_shape als = {4 + (uint32_t)(random >> 16) % (large ? 20000 : 40),
					 4 + (uint32_t)(random >> 32) % (large ? 3000 : 15),
					 SOLVER_WIDTH};
	const uint32_t most = !large ? 12 : kind == SOLVER_JACOBI ? 3000 : 150;

	if (kind == SOLVER_ALS)
		return als;
	return (struct solver_shape){
		.slices = 4 + (uint32_t)(random >> 16) % most,
		.rows = kind == SOLVER_JACOBI ? 1 : 1 + (uint32_t)(random >> 28) % most,
		.columns = 4 * (1 + (uint32_t)(random >> 40) % most),
	};
}

/* What pagerank runs on, split between any number of devices. */
static void graph_make(struct solver_graph *g, uint32_t scale, uint64_t degree, uint64_t seed)
{
	const struct solver_graph_params ask = {
		.scale = scale,
		.degree = degree,
		.seed = seed,
		.weights = true,
	};
	char err[256] = "";

	if (solver_graph_open(&ask, g, err, sizeof(err)))
		fail_msg("%s", err);
	for (uint32_t nr = 1; nr <= 4; nr++)
		assert_int_equal(solver_graph_split(g, nr), 0);
}

static bool is_large(const struct backend *b)
{
	return b->desc.memory[b->desc.device[0].memory].bytes >= LARGE;
}

/* ------------------------------------------------------------------ under managers */

/* @return the number that stands for the field. */
static uint64_t run_one(const struct solver_manager_ops *ops, struct solver_params *p,
			uint64_t random)
{
	struct backend *b = open_backend();
	const uint32_t nr = MIN(b->desc.nr_devices, 4);
	struct solver_config config = {.options = ops->options};
	struct solver_result r;
	struct solver_manager *m;
	char err[256] = "";
	int ret;

	p->shape = p->graph ? solver_graph_shape(p->graph) : shape_at(random, p->kind, is_large(b));
	p->devices = ops->one_device ? 1 : 1 + (uint32_t)(random >> 8) % nr;
	assert_int_equal(machine_wrap(b, &config.machine), 0);
	solver_config_set(&config, p);
	assert_int_equal(ops->create(&config, &m), 0);
	ret = solver_run(m, p, &r, err, sizeof(err));
	if (ret || !r.passes.passed)
		fail_msg("%s, %s of %u x %u x %u on %u: %s", ops->name, solver_kind_name(p->kind),
			 p->shape.slices, p->shape.rows, p->shape.columns, p->devices,
			 ret ? err : r.passes.wrong);
	assert_true(r.passes.checked);
	assert_int_equal(m->ops->check(m), 0);
	m->ops->destroy(m);
	weir_machine_close(config.machine);
	solver_result_free(&r);
	test_cuda_nothing_left(NULL);
	return r.hash;
}

static void test_solver_managers(void **state)
{
	const uint64_t nr = test_amount("SOLVER_CASES", cases);

	(void)state;
	assert_true(nr > 0);
	print_message("seed %u\n", SEED);
	for (uint64_t i = 0; i < nr; i++) {
		uint64_t random = gen_bits(SEED, i), hash = 0;
		struct solver_params p = {
			.kind = (enum solver_kind)(i % SOLVER_KIND_NR),
			.iterations = 1 + (uint32_t)random % 7,
			.passes = 2,
			.warm_up = 1,
			.check = true,
		};

		struct solver_graph graph;

		if (solver_on_graph(&p)) {
			graph_make(&graph, 7 + (uint32_t)(random >> 16) % 4,
				   1 + (random >> 32) % 20, random);
			p.graph = &graph;
		}
		for (unsigned int k = 0; solver_managers[k]; k++) {
			uint64_t one;

			if (solver_managers[k]->limit)
				continue;
			one = run_one(solver_managers[k], &p, random);
			assert_true(!k || one == hash);
			hash = one;
		}
		if (p.graph)
			solver_graph_close(&graph);
	}
}

/* Rows of several pieces, on any number of devices, whole and in slices. */
static void test_solver_pieces(void **state)
{
	struct solver_graph graph;

	(void)state;
	graph_make(&graph, 16, 40, SEED);
	assert_true(graph.nr_pieces > 2);
	for (enum solver_kind kind = SOLVER_PAGERANK; kind <= SOLVER_SSSP; kind++) {
		struct solver_params p = {
			.kind = kind,
			.graph = &graph,
			.iterations = 3,
			.passes = 1,
			.check = true,
		};
		const uint64_t hash = run_one(&solver_manager_single, &p, 0);

		for (uint64_t devices = 1; devices <= 4; devices++) {
			const uint64_t random = (devices - 1) << 8;

			assert_true(run_one(&solver_manager_weir, &p, random) == hash);
			assert_true(run_one(&solver_manager_memcpy, &p, random) == hash);
		}
	}
	solver_graph_close(&graph);
}

/* ------------------------------------------------------------------ the kernels alone */

struct bare {
	struct backend *b;
	stream_id_t stream;
	struct solver_shape shape;
	float *in, *out;   /* the device's */
	float *got, *want; /* this computer's */
};

static uint64_t bytes_of(const struct bare *t)
{
	return t->shape.slices * solver_slice_bytes(&t->shape);
}

static struct solver_range range_of(const struct bare *t, float *in, float *out, uint32_t first,
				    uint32_t nr)
{
	const uint64_t slice = solver_slice_elements(&t->shape);

	return (struct solver_range){
		.first = first,
		.nr = nr,
		.in = in + first * slice,
		.before = first ? in + (first - 1) * slice : NULL,
		.behind = first + nr < t->shape.slices ? in + (first + nr) * slice : NULL,
		.out = out + first * slice,
	};
}

static int launch(const struct bare *t, const struct weir_kernel *kernel, const void *args,
		  size_t bytes)
{
	const struct weir_launch one = {.kernel = kernel, .args = args, .args_bytes = bytes};

	return t->b->ops->launch(t->b, t->stream, &one);
}

static void bare_open(struct bare *t, const struct solver_shape *shape)
{
	const uint32_t memory = t->b->desc.device[0].memory;
	struct solver_fill_args fill = {.shape = *shape};
	void *addr;

	t->shape = *shape;
	assert_int_equal(t->b->ops->stream_create(t->b, 0, BACKEND_COMPUTE, &t->stream), 0);
	assert_int_equal(t->b->ops->device_alloc(t->b, memory, bytes_of(t), &addr), 0);
	t->in = addr;
	assert_int_equal(t->b->ops->device_alloc(t->b, memory, bytes_of(t), &addr), 0);
	t->out = addr;
	t->got = malloc(2 * bytes_of(t));
	t->want = malloc(bytes_of(t));
	assert_true(t->got && t->want);
	fill.range = range_of(t, t->in, t->in, 0, shape->slices);
	assert_int_equal(launch(t, &solver_kernel_fill, &fill, sizeof(fill)), 0);
}

static void bare_close(struct bare *t)
{
	t->b->ops->device_free(t->b, t->in);
	t->b->ops->device_free(t->b, t->out);
	t->b->ops->stream_destroy(t->b, t->stream);
	free(t->got);
	free(t->want);
}

/* What the CPU makes of the same input, in one range; and that the input is what it fills. */
static void bare_want(struct bare *t, const struct weir_kernel *kernel)
{
	float *in = t->got + bytes_of(t) / sizeof(float);
	struct solver_stencil_args args = {.shape = t->shape, .nr_ranges = 1};
	struct solver_fill_args fill = {.shape = t->shape};

	fill.range = range_of(t, in, in, 0, t->shape.slices);
	solver_kernel_fill.cpu(&fill);
	assert_int_equal(t->b->ops->download(t->b, t->stream, t->got, t->in, bytes_of(t)), 0);
	assert_memory_equal(t->got, in, bytes_of(t));
	args.range[0] = range_of(t, in, t->want, 0, t->shape.slices);
	kernel->cpu(&args);
}

/* Two launches of two ranges each, wherever they are cut: every other quarter. */
static void bare_launches(const struct bare *t, const struct weir_kernel *kernel, uint64_t random)
{
	const uint32_t slices = t->shape.slices;
	uint32_t cut[5] = {0, 0, 0, 0, slices};

	for (uint32_t i = 1; i < 4; i++)
		cut[i] = cut[i - 1] + 1 + (uint32_t)((random >> 8 * i) % (slices / 4));
	for (uint32_t i = 0; i < 2; i++) {
		const struct solver_stencil_args args = {
			.shape = t->shape,
			.range = {range_of(t, t->in, t->out, cut[i], cut[i + 1] - cut[i]),
				  range_of(t, t->in, t->out, cut[i + 2], cut[i + 3] - cut[i + 2])},
			.nr_ranges = 2,
		};

		assert_int_equal(launch(t, kernel, &args, sizeof(args)), 0);
	}
}

static void test_solver_ranges(void **state)
{
	static const struct weir_kernel *const kernels[] = {&solver_kernel_jacobi,
							    &solver_kernel_diffusion};
	const uint64_t nr = test_amount("SOLVER_CASES", cases);
	struct bare t = {.b = open_backend()};

	(void)state;
	for (uint64_t i = 0; i < nr; i++) {
		const uint64_t random = gen_bits(SEED + 1, i);
		const enum solver_kind kind = (enum solver_kind)(i % SOLVER_FIELDS_NR);
		const struct solver_shape shape = shape_at(random, kind, is_large(t.b));

		bare_open(&t, &shape);
		bare_launches(&t, kernels[kind], random);
		bare_want(&t, kernels[kind]);
		assert_int_equal(t.b->ops->download(t.b, t.stream, t.got, t.out, bytes_of(&t)), 0);
		if (memcmp(t.got, t.want, bytes_of(&t)))
			fail_msg("case %llu: %u x %u x %u differs", (unsigned long long)i,
				 shape.slices, shape.rows, shape.columns);
		bare_close(&t);
	}
	t.b->ops->destroy(t.b);
	test_cuda_nothing_left(NULL);
}

/* What a kernel cannot take, it refuses. */
static void test_solver_refused(void **state)
{
	const struct solver_shape shape = {6, 4, 8};
	struct bare t = {.b = open_backend()};
	struct solver_stencil_args args = {.nr_ranges = 1}, wrong;

	(void)state;
	bare_open(&t, &shape);
	args.shape = shape;
	args.range[0] = range_of(&t, t.in, t.out, 1, 2);
	for (int i = 0; i < 6; i++) {
		wrong = args;
		wrong.shape.columns = i == 0 ? 6 : 8;
		wrong.nr_ranges = i == 1 ? 0 : i == 2 ? 3 : 1;
		wrong.range[0].nr = i == 3 ? 0 : i == 4 ? 6 : 2;
		wrong.range[0].out += i == 5;
		assert_int_equal(launch(&t, &solver_kernel_diffusion, &wrong, sizeof(wrong)),
				 -EINVAL);
	}
	bare_close(&t);
	t.b->ops->destroy(t.b);
	test_cuda_nothing_left(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_solver_ranges),
		cmocka_unit_test(test_solver_refused),
		cmocka_unit_test(test_solver_managers),
		cmocka_unit_test(test_solver_pieces),
	};

	return cmocka_run_group_tests_name("solver", tests, test_cuda_required, NULL);
}
