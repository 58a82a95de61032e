/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The solvers, on a simulated machine: how fields are split; the field at the end against plain
 * loops, bit by bit, under every manager, for any number of devices and shapes at random; a halo
 * that is lost is found; what moves; every failure of a backend leaves nothing behind.
 *
 * Timeout: 300
 * Long: yes
 */
#include <errno.h>
#include <stdlib.h>

#include "src/backend/flaky/flaky.h"
#include "src/backend/machine.h"
#include "src/base/util.h"
#include "tests/support/amount.h"
#include "tests/unit/test_sim_machine.h"
#include "workloads/graph/gen.h"
#include "workloads/solver/point.h"
#include "workloads/solver/solver.h"

#define RANDOM_SEED 20254u

static const struct solver_params usual = {
	.kind = SOLVER_DIFFUSION,
	.shape = {9, 7, 12},
	.iterations = 3,
	.passes = 3,
	.warm_up = 1,
	.devices = 3,
	.check = true,
};

/* With real data no two devices that are next to each other take the same time: what does not wait
 * for the other one is too early. */
static struct weir_machine *open_machine(uint32_t devices, enum weir_data data)
{
	struct weir_machine_desc desc;
	struct weir_machine *machine;

	test_machine_gpus(&desc, devices);
	for (uint32_t d = 0; d < devices && data == WEIR_DATA_REAL; d++)
		desc.device[d].launch_ns *= 1 + d * 7 % 5 * 4;
	assert_int_equal(weir_machine_simulate(&desc, data, &machine), 0);
	return machine;
}

static uint32_t budget_percent; /* of what a device's kernels name; 0: all of its memory */

static int manager_of(struct weir_machine *machine, const struct solver_manager_ops *ops,
		      const struct solver_params *p, struct solver_manager **out)
{
	const uint64_t page_bytes = weir_machine_describe(machine)->vmm.granularity_bytes;
	struct solver_config config = {
		.machine = machine,
		.options = ops->options,
	};

	solver_config_set(&config, p);
	for (uint32_t d = 0; d < p->devices; d++)
		config.budget_bytes[d] =
			solver_named_bytes(p, d, page_bytes) * budget_percent / 100;
	return ops->create(&config, out);
}

static int run(struct weir_machine *machine, const struct solver_manager_ops *ops,
	       const struct solver_params *p, struct solver_result *out,
	       struct manager_stats *stats, char *err)
{
	struct solver_manager *m;
	int ret = manager_of(machine, ops, p, &m), check;

	err[0] = '\0';
	if (ret)
		return ret;
	ret = solver_run(m, p, out, err, 256);
	m->ops->stats(m, stats);
	check = m->ops->check(m);
	if (!ret && check != -EIO) /* which a test injects */
		assert_int_equal(check, 0);
	m->ops->destroy(m);
	return ret;
}

/* ------------------------------------------------------------------ the partition */

static void test_solver_partition(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < 1000; i++) {
		uint64_t r = gen_bits(RANDOM_SEED, i);
		struct solver_params p = usual;
		struct solver_layout layout;

		p.devices = 1 + (uint32_t)(r % WEIR_DEVICES_MAX);
		p.shape.slices = p.devices + (uint32_t)(r >> 8) % (i % 2 ? 40 : 1000000);
		layout = solver_layout_of(&p, i % 2);
		assert_int_equal(layout.nr_devices, p.devices);
		assert_int_equal(layout.halo_bytes, 7 * 12 * 4);
		assert_int_equal(layout.offset[0], 0);
		assert_int_equal(layout.offset[p.devices], solver_bytes(&p));
		for (uint32_t d = 0; d < p.devices; d++) {
			uint64_t slices =
				(layout.offset[d + 1] - layout.offset[d]) / layout.halo_bytes;

			assert_int_equal(layout.offset[d] % layout.halo_bytes, 0);
			assert_true(slices >= p.shape.slices / p.devices);
			assert_true(slices <= p.shape.slices / p.devices + 1);
		}
	}
}

/* ------------------------------------------------------------------ right and wrong */

/* An element after a step, of a field in two dimensions or in three; its place is inside. */
static float stepped(const struct solver_params *p, const float *u, uint64_t at)
{
	const uint64_t row = p->shape.columns, plane = row * p->shape.rows;
	float lap, slope;

	if (p->kind == SOLVER_JACOBI)
		return 0.25f * ((u[at - row] + u[at + row]) + (u[at - 1] + u[at + 1]));
	lap = ((u[at - 1] + u[at + 1]) + (u[at - row] + u[at + row])) +
	      (u[at - plane] + u[at + plane]);
	slope = ((u[at + 1] - u[at - 1]) + (u[at + row] - u[at - row])) +
		(u[at + plane] - u[at - plane]);
	return (u[at] + 0.1f * (lap - 6.0f * u[at])) - (0.05f * u[at]) * slope;
}

static bool inside(const struct solver_params *p, uint64_t at)
{
	const struct solver_shape *s = &p->shape;
	const uint64_t x = at % s->columns, y = at / s->columns % s->rows;
	const uint64_t z = at / s->columns / s->rows;

	return x && x + 1 < s->columns && z && z + 1 < s->slices &&
	       (p->kind == SOLVER_JACOBI || (y && y + 1 < s->rows));
}

/* The field after all iterations. */
static float *field_of(const struct solver_params *p)
{
	const uint64_t nr = solver_bytes(p) / sizeof(float);
	float *in = malloc(solver_bytes(p)), *out = malloc(solver_bytes(p));

	assert_true(in && out);
	for (uint64_t at = 0; at < nr; at++)
		in[at] = point_begin(at);
	for (uint32_t i = 0; i < p->iterations * p->passes; i++) {
		float *was = in;

		for (uint64_t at = 0; at < nr; at++)
			out[at] = inside(p, at) ? stepped(p, in, at) : in[at];
		in = out;
		out = was;
	}
	free(out);
	return in;
}

/* A run of the manager, read back, against plain loops. */
static uint64_t run_right(const struct solver_manager_ops *ops, const struct solver_params *p)
{
	struct weir_machine *machine = open_machine(p->devices, WEIR_DATA_REAL);
	float *want = field_of(p), *got = calloc(1, solver_bytes(p));
	struct solver_result r = {.hash = 0};
	struct solver_manager *m;
	char err[256] = "";
	int ret;

	assert_non_null(got);
	assert_int_equal(manager_of(machine, ops, p, &m), 0);
	ret = solver_run(m, p, &r, err, sizeof(err));
	if (ret || !r.passes.passed || !r.passes.checked)
		fail_msg("%s, %u devices, %u x %u x %u: %d, %s %s", ops->name, p->devices,
			 p->shape.slices, p->shape.rows, p->shape.columns, ret, err,
			 r.passes.wrong);
	assert_int_equal(ops->read(m, p->iterations * p->passes % 2, 0, got, solver_bytes(p)), 0);
	assert_memory_equal(got, want, solver_bytes(p));
	assert_int_equal(ops->check(m), 0);
	assert_int_equal(r.passes.nr_passes, p->passes - p->warm_up);
	for (uint32_t i = 0; i < r.passes.nr_passes; i++)
		assert_true(r.passes.pass_s[i] > 0);
	solver_result_free(&r);
	m->ops->destroy(m);
	weir_machine_close(machine);
	free(want);
	free(got);
	return r.hash;
}

static void run_everywhere(struct solver_params p, const uint32_t *devices, size_t nr)
{
	uint64_t hash;

	p.devices = 1;
	hash = run_right(&solver_manager_single, &p);
	for (size_t i = 0; i < nr; i++)
		for (size_t k = 0; solver_managers[k]; k++) {
			p.devices = solver_managers[k]->one_device ? 1 : devices[i];
			if (solver_managers[k]->limit)
				continue;
			assert_int_equal(run_right(solver_managers[k], &p), hash);
		}
}

static void test_solver_same(void **state)
{
	static const uint32_t devices[] = {1, 2, 3, 4, 8, 16};
	static const struct solver_shape shapes[] = {{37, 1, 8}, {16, 5, 4}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(shapes); i++) {
		struct solver_params p = usual;

		p.kind = shapes[i].rows == 1 ? SOLVER_JACOBI : SOLVER_DIFFUSION;
		p.shape = shapes[i];
		p.iterations = i ? 5 : 2;
		run_everywhere(p, devices, ARRAY_LEN(devices));
	}
}

static void test_solver_random(void **state)
{
	static const struct test_amount cases = {4, 1, 400};
	const uint64_t nr = test_amount(NULL, cases);

	(void)state;
	print_message("seed %u\n", RANDOM_SEED);
	for (uint64_t i = 0; i < nr; i++) {
		uint64_t r = gen_bits(RANDOM_SEED, i);
		struct solver_params p = usual;
		uint32_t devices = 1 + (uint32_t)(r % WEIR_DEVICES_MAX);

		p.kind = (enum solver_kind)(r >> 8 & 1);
		p.shape.slices = devices + (uint32_t)(r >> 12) % 30;
		p.shape.rows = p.kind == SOLVER_JACOBI ? 1 : 1 + (uint32_t)(r >> 20) % 12;
		p.shape.columns = 4 * (1 + (uint32_t)(r >> 28) % 20);
		p.iterations = 1 + (uint32_t)(r >> 36) % 6;
		p.passes = 2 + (uint32_t)(r >> 44) % 2;
		run_everywhere(p, &devices, 1);
	}
}

/* Managers that spill, with less memory on each device than its kernels name. */
static void run_with_budgets(struct solver_params p)
{
	static const uint32_t percents[] = {100, 60, 30}, devices[] = {2, 3, 4, 8, 16};
	uint64_t want;

	p.devices = 1;
	want = run_right(&solver_manager_single, &p);
	/* Usually each percentage with some numbers of devices, and the other way round. */
	for (size_t i = 0; i < ARRAY_LEN(percents) * ARRAY_LEN(devices);
	     i += test_amount(NULL, (struct test_amount){4, 7, 1}))
		for (size_t k = 0; solver_managers[k]; k++) {
			if (!solver_managers[k]->spills || solver_managers[k]->limit)
				continue;
			p.devices = devices[i % ARRAY_LEN(devices)];
			budget_percent = percents[i / ARRAY_LEN(devices)];
			assert_int_equal(run_right(solver_managers[k], &p), want);
		}
	budget_percent = 0;
}

static void test_solver_budgets(void **state)
{
	struct solver_params p = usual;

	(void)state;
	p.shape = (struct solver_shape){96, 8, 64};
	run_with_budgets(p);
	p.kind = SOLVER_JACOBI;
	p.shape = (struct solver_shape){96, 1, 512};
	run_with_budgets(p);
}

/* What a manager may do wrong. */
enum plant { HALO_LOST, HALO_LATE, READ_WRONG, PLANT_NR };

static struct {
	enum plant what;
	uint32_t nr_iterations;
} plant;

static int planting_end(struct solver_manager *m)
{
	plant.nr_iterations++;
	if (plant.what == HALO_LOST && plant.nr_iterations > 2)
		return m->ops->sync(m);
	if (plant.what == HALO_LATE && plant.nr_iterations == 6)
		return m->ops->sync(m);
	return solver_manager_memcpy.iteration_end(m);
}

static int planting_read(struct solver_manager *m, uint32_t array, uint64_t offset, void *data,
			 uint64_t bytes)
{
	int err = solver_manager_memcpy.read(m, array, offset, data, bytes);

	if (!err && plant.what == READ_WRONG)
		((uint8_t *)data)[1001] ^= 1;
	return err;
}

static void test_solver_wrong(void **state)
{
	struct solver_params p = usual;
	uint64_t hash;

	(void)state;
	for (int kind = 0; kind < SOLVER_FIELDS_NR; kind++) {
		p.kind = (enum solver_kind)kind;
		p.shape.rows = kind == SOLVER_JACOBI ? 1 : 7;
		p.shape.columns = 84;
		hash = run_right(&solver_manager_memcpy, &p);
		for (plant.what = 0; plant.what < PLANT_NR; plant.what++) {
			struct weir_machine *machine = open_machine(p.devices, WEIR_DATA_REAL);
			struct solver_manager_ops ops = solver_manager_memcpy;
			struct solver_result r;
			struct solver_manager *m;

			plant.nr_iterations = 0;
			assert_int_equal(manager_of(machine, &ops, &p, &m), 0);
			ops.iteration_end = planting_end;
			ops.read = planting_read;
			m->ops = &ops;
			assert_int_equal(solver_run(m, &p, &r, NULL, 0), 0);
			assert_true(r.passes.checked && !r.passes.passed);
			assert_true(r.passes.wrong[0]);
			assert_true((r.hash == hash) == (plant.what == READ_WRONG));
			solver_result_free(&r);
			m->ops->destroy(m);
			weir_machine_close(machine);
		}
	}
}

/* ------------------------------------------------------------------ what moves, times */

static uint64_t bytes_between(const struct manager_stats *stats, enum weir_cause cause)
{
	uint64_t bytes = 0;

	for (uint32_t link = 0; link < WEIR_LINKS_MAX; link++)
		bytes += stats->near[link][WEIR_A_TO_B][cause] +
			 stats->near[link][WEIR_B_TO_A][cause];
	return bytes;
}

/* A slice each way between neighbours, in each iteration and for copies as the arrays are filled;
 * counted for the link between the two, by its cause. */
static void test_solver_bytes(void **state)
{
	const struct {
		const struct solver_manager_ops *ops;
		enum weir_cause cause;
		uint32_t filled;
	} cases[] = {{&solver_manager_memcpy, WEIR_CAUSE_DEMAND, 2},
		     {&solver_manager_overlap, WEIR_CAUSE_PREFETCH, 2},
		     {&solver_manager_rdl, WEIR_CAUSE_INPLACE, 0}};
	struct solver_params p = usual;

	(void)state;
	p.shape.slices = 12;
	p.devices = 4;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct weir_machine *machine = open_machine(p.devices, WEIR_DATA_PHANTOM);
		const uint64_t once =
			solver_slice_bytes(&p.shape) * (p.iterations * p.passes + cases[i].filled);
		struct manager_stats stats;
		struct solver_result r;
		char err[256];

		assert_int_equal(run(machine, cases[i].ops, &p, &r, &stats, err), 0);
		assert_false(r.passes.checked);
		for (int cause = 0; cause < WEIR_CAUSE_NR; cause++)
			assert_int_equal(bytes_between(&stats, (enum weir_cause)cause),
					 (enum weir_cause)cause == cases[i].cause ? 6 * once : 0);
		/* Links to the host come first, then that of the first two devices. */
		for (int way = 0; way < WEIR_DIRECTION_NR; way++)
			assert_int_equal(stats.near[4][way][cases[i].cause], once);
		for (uint32_t d = 0; d < p.devices; d++)
			assert_true(stats.peak_bytes[GPU0 + d] >= 2 * solver_bytes(&p) / 4);
		solver_result_free(&r);
		weir_machine_close(machine);
	}
}

static double pass_s(const struct solver_manager_ops *ops, const struct solver_params *p)
{
	struct weir_machine *machine = open_machine(p->devices, WEIR_DATA_PHANTOM);
	struct manager_stats stats;
	struct solver_result r;
	char err[256];
	double s;

	assert_int_equal(run(machine, ops, p, &r, &stats, err), 0);
	s = r.passes.pass_s[0];
	solver_result_free(&r);
	weir_machine_close(machine);
	return s;
}

/*
 * 4 MiB a field, 50 us a device and iteration; a halo of 16 KiB takes 2 us. By hand nearly all of
 * that is hidden, but what the boundary's launch takes; the bulk-synchronous one waits for it.
 */
static void test_solver_times(void **state)
{
	struct solver_params p = usual;
	double single_s, memcpy_s, overlap_s;

	(void)state;
	p.shape = (struct solver_shape){256, 64, 64};
	p.iterations = 20;
	p.devices = 1;
	single_s = pass_s(&solver_manager_single, &p);
	p.devices = 2;
	memcpy_s = pass_s(&solver_manager_memcpy, &p);
	overlap_s = pass_s(&solver_manager_overlap, &p);
	assert_true(memcpy_s > single_s / 2 + 20 * 2e-6);
	assert_true(overlap_s < memcpy_s);
	assert_true(overlap_s < single_s / 2 + 20 * 1e-6);
}

/* ------------------------------------------------------------------ refusals, failures */

static void refused(struct solver_params p, const char *text)
{
	char err[256];

	assert_int_equal(solver_params_check(&p, err, sizeof(err)), -EINVAL);
	assert_string_equal(err, text);
	assert_int_equal(solver_params_check(&p, NULL, 0), -EINVAL);
}

#define WITH(field, value)         \
	({                         \
		p = usual;         \
		p.field = (value); \
		p;                 \
	})

static void test_solver_refused(void **state)
{
	static const char *const side = "diffusion: each side has 1 to 1048576 elements";
	struct weir_machine *machine = open_machine(2, WEIR_DATA_PHANTOM);
	struct solver_params p = usual;
	struct manager_stats stats;
	struct solver_result r;
	char err[256];

	(void)state;
	assert_int_equal(solver_params_check(&p, err, sizeof(err)), 0);
	refused(WITH(kind, SOLVER_KIND_NR), "solver: no such workload");
	refused(WITH(shape.slices, 0), side);
	refused(WITH(shape.rows, SOLVER_SIDE_MAX + 1), side);
	refused(WITH(shape.columns, 0), side);
	refused(WITH(shape.columns, 6), "diffusion: columns come in multiples of 4");
	refused(WITH(kind, SOLVER_JACOBI),
		"jacobi: a field of two dimensions has slices of one row");
	refused(WITH(iterations, 0), "diffusion: no iteration is left after the warm-up");
	refused(WITH(warm_up, usual.passes), "diffusion: no iteration is left after the warm-up");
	refused(WITH(devices, 0),
		"diffusion: each device has a slice at least, and there are up to 16");
	refused(WITH(devices, 10),
		"diffusion: each device has a slice at least, and there are up to 16");
	refused(WITH(kind, SOLVER_PAGERANK),
		"pagerank: pagerank and sssp need a graph, and nothing else does");
	p = usual;
	assert_int_equal(run(machine, &solver_manager_rdl, &p, &r, &stats, err), -EINVAL);
	/* More than two devices have. */
	p.devices = 2;
	p.shape = (struct solver_shape){1024, 64, 64};
	for (size_t i = 1; solver_managers[i]; i++) {
		if (solver_managers[i]->spills) {
			assert_int_equal(run(machine, solver_managers[i], &p, &r, &stats, err), 0);
			solver_result_free(&r);
			continue;
		}
		assert_int_equal(run(machine, solver_managers[i], &p, &r, &stats, err), -ENOMEM);
		assert_memory_equal(err, "diffusion: no memory for two arrays, 33.554 MB in all",
				    53);
	}
	assert_null(solver_manager_find("weir-paged"));
	assert_null(solver_manager_find(""));
	weir_machine_close(machine);
}

/* Devices that no link joins. */
static void test_solver_no_link(void **state)
{
	struct weir_machine_desc desc;
	struct weir_machine *machine;
	struct solver_params p = usual;
	struct manager_stats stats;
	struct solver_result r;
	char err[256];

	(void)state;
	test_machine_gpus(&desc, 2);
	desc.nr_links = 2;
	assert_int_equal(weir_machine_simulate(&desc, WEIR_DATA_PHANTOM, &machine), 0);
	p.devices = 2;
	for (size_t i = 1; solver_managers[i]; i++)
		assert_int_equal(run(machine, solver_managers[i], &p, &r, &stats, err), -ENOTSUP);
	weir_machine_close(machine);
}

static int stop_at(void *arg, uint32_t done, uint32_t total)
{
	(void)total;
	return done == *(const uint32_t *)arg;
}

static void test_solver_interrupted(void **state)
{
	uint32_t at = 2;
	struct weir_machine *machine = open_machine(3, WEIR_DATA_REAL);
	struct solver_params p = usual;
	struct manager_stats stats;
	struct solver_result r;
	char err[256];

	(void)state;
	p.progress = stop_at;
	p.progress_arg = &at;
	assert_int_equal(run(machine, &solver_manager_overlap, &p, &r, &stats, err), -EINTR);
	assert_string_equal(err, "diffusion: interrupted after 2 of 3 passes");
	weir_machine_close(machine);
}

/* Fail each call of a run in turn, usually every 23rd one; it ends with the error or goes well,
 * and leaves nothing. */
static void faults(const struct solver_manager_ops *ops, const struct solver_params *p)
{
	static const struct test_amount steps = {23, 127, 1};
	const uint64_t each = test_amount(NULL, steps);
	uint64_t nr_calls = 1;

	for (uint64_t at = 0; at <= nr_calls; at += at ? each : 1) {
		struct weir_machine_desc desc;
		struct backend *sim, *flaky;
		struct weir_machine *machine;
		struct manager_stats stats;
		struct solver_result r;
		char err[256];
		int ret;

		test_machine_gpus(&desc, p->devices);
		assert_int_equal(sim_create(&desc, WEIR_DATA_REAL, &sim), 0);
		assert_int_equal(flaky_create(sim, &flaky), 0);
		assert_int_equal(machine_wrap(flaky, &machine), 0);
		flaky_arm(flaky, at, -EIO);
		ret = run(machine, ops, p, &r, &stats, err);
		if (!at)
			nr_calls = flaky_nr_calls(flaky);
		if ((ret && ret != -EIO) || (ret && !at))
			fail_msg("%s: call %llu: %d, %s", ops->name, (unsigned long long)at, ret,
				 err);
		if (!ret && !r.passes.passed)
			fail_msg("%s: call %llu: %s", ops->name, (unsigned long long)at,
				 r.passes.wrong);
		if (!ret)
			solver_result_free(&r);
		for (uint32_t memory = 0; memory <= p->devices; memory++)
			assert_int_equal(sim->ops->memory_used(sim, memory), 0);
		weir_machine_close(machine);
	}
	print_message("%s: %llu calls\n", ops->name, (unsigned long long)nr_calls);
}

static void test_solver_faults(void **state)
{
	struct solver_params p = usual;

	(void)state;
	p.shape = (struct solver_shape){6, 3, 4};
	p.passes = 2;
	p.iterations = 2;
	for (size_t i = 0; solver_managers[i]; i++) {
		p.devices = solver_managers[i]->one_device ? 1 : 3;
		if (solver_managers[i]->limit)
			continue;
		faults(solver_managers[i], &p);
	}
}

/* The same with edges, of which each device has some in memory of its own. */
static void test_solver_graph_faults(void **state)
{
	static const struct solver_manager_ops *const ops[] = {&solver_manager_memcpy,
							       &solver_manager_weir};
	const struct solver_graph_params ask = {
		.scale = 7, .degree = 4, .seed = RANDOM_SEED, .weights = true};
	struct solver_params p = usual;
	struct solver_graph graph;

	(void)state;
	assert_int_equal(solver_graph_open(&ask, &graph, NULL, 0), 0);
	assert_int_equal(solver_graph_split(&graph, p.devices), 0);
	p.graph = &graph;
	p.shape = solver_graph_shape(&graph);
	p.passes = 2;
	p.iterations = 2;
	for (size_t i = 0; i < ARRAY_LEN(ops); i++)
		for (int kind = SOLVER_PAGERANK; kind <= SOLVER_SSSP; kind++) {
			p.kind = (enum solver_kind)kind;
			faults(ops[i], &p);
		}
	solver_graph_close(&graph);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_solver_partition), cmocka_unit_test(test_solver_same),
		cmocka_unit_test(test_solver_random),	 cmocka_unit_test(test_solver_wrong),
		cmocka_unit_test(test_solver_budgets),	 cmocka_unit_test(test_solver_bytes),
		cmocka_unit_test(test_solver_times),	 cmocka_unit_test(test_solver_refused),
		cmocka_unit_test(test_solver_no_link),	 cmocka_unit_test(test_solver_interrupted),
		cmocka_unit_test(test_solver_faults),	 cmocka_unit_test(test_solver_graph_faults),
	};

	return cmocka_run_group_tests_name("solver", tests, NULL, NULL);
}
