/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Generating graphs on a GPU: the file that the CPU builds, byte for byte; in one range of vertices
 * and in many, on a machine that is opened again, and at a scale whose vertices share buckets.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "src/backend/machine.h"
#include "tests/support/driver.h"
#include "tests/support/graph.h"
#include "workloads/graph/input.h"

#define MIB(n) ((uint64_t)(n) << 20)

static struct weir_machine *open_machine(void)
{
	struct weir_machine *machine;
	struct backend *b;

	assert_int_equal(test_cuda_open(&test_fake_config, &b), 0);
	assert_int_equal(machine_wrap(b, &machine), 0);
	return machine;
}

static uint64_t same(const struct graph_gpu *usual, enum gen_kind kind, uint32_t scale,
		     uint64_t degree)
{
	const struct gen gen = gen_init(kind, scale, usual->seed);
	struct graph_gpu gpu = *usual;

	gpu.gen = &gen;
	gpu.nr_edges = degree << scale;
	return graph_gpu_same(&gpu);
}

static void test_generate_same(void **state)
{
	static const uint32_t scales[] = {0, 1, 7, 11};
	struct graph_gpu gpu = {.machine = open_machine()};

	(void)state;
	assert_true(graph_gpu_real(gpu.machine, 0));
	for (unsigned int options = 0; options < 4; options++) {
		gpu.raw = options & 1;
		gpu.weights = options & 2;
		for (unsigned int i = 0; i < sizeof(scales) / sizeof(*scales); i++) {
			gpu.seed = scales[i] + options;
			assert_int_equal(same(&gpu, GEN_KRONECKER, scales[i], 16), 1);
			assert_int_equal(same(&gpu, GEN_UNIFORM, scales[i], 5), 1);
			assert_int_equal(same(&gpu, GEN_KRONECKER, scales[i], 1), 1);
		}
	}
	weir_machine_close(gpu.machine);
	test_cuda_nothing_left(NULL);
}

/* The memory holds a part of the edges; each time on a machine opened anew. */
static void test_generate_ranges(void **state)
{
	struct graph_gpu gpu = {.seed = 9};

	(void)state;
	assert_int_equal(gcn_pool_create(3, &gpu.pool), 0);
	for (unsigned int options = 0; options < 4; options++) {
		gpu.machine = open_machine();
		gpu.raw = options & 1;
		gpu.weights = options & 2;
		gpu.memory_bytes = MIB(2);
		assert_true(same(&gpu, GEN_KRONECKER, 12, 16) >= 2);
		assert_true(same(&gpu, GEN_UNIFORM, 11, 40) >= 2);
		gpu.memory_bytes = MIB(4);
		assert_true(same(&gpu, GEN_KRONECKER, 17, 2) >= 2);
		weir_machine_close(gpu.machine);
		test_cuda_nothing_left(NULL);
	}
	gcn_pool_destroy(gpu.pool);
}

/* As large as the CPU makes in time: GRAPHS_SCALE, where that is set. */
static void test_generate_large(void **state)
{
	const char *named = getenv("GRAPHS_SCALE");
	uint32_t scale = named ? (uint32_t)strtoul(named, NULL, 10) : 12;
	struct graph_gpu gpu = {.machine = open_machine(), .seed = 2, .weights = true};

	(void)state;
	assert_int_equal(same(&gpu, GEN_KRONECKER, scale, 16), 1);
	assert_int_equal(same(&gpu, GEN_UNIFORM, scale, 16), 1);
	gpu.raw = true;
	assert_int_equal(same(&gpu, GEN_KRONECKER, scale, 24), 1);
	weir_machine_close(gpu.machine);
	test_cuda_nothing_left(NULL);
}

/* A program's graph is generated on the GPU: no scratch file can be made. */
static void test_generate_input(void **state)
{
	struct graph_input_params p = {.kind = GEN_KRONECKER,
				       .scale = 10,
				       .degree = 8,
				       .seed = 3,
				       .symmetrize = true,
				       .weights = true,
				       .memory_bytes = MIB(1),
				       .machine = open_machine()};
	struct graph_input gpu, cpu;

	(void)state;
	assert_int_equal(setenv("TMPDIR", "/nowhere", 1), 0);
	assert_int_equal(graph_input_open(&p, &gpu, NULL, 0), 0);
	weir_machine_close(p.machine);
	test_cuda_nothing_left(NULL);
	p.machine = NULL;
	assert_int_equal(graph_input_open(&p, &cpu, NULL, 0), -ENOENT);
	assert_int_equal(unsetenv("TMPDIR"), 0);
	assert_int_equal(graph_input_open(&p, &cpu, NULL, 0), 0);
	assert_int_equal(gpu.graph.map_bytes, cpu.graph.map_bytes);
	assert_memory_equal(gpu.graph.map, cpu.graph.map, cpu.graph.map_bytes);
	graph_input_close(&gpu);
	graph_input_close(&cpu);
}

/* A vertex whose edges do not fit. */
static void test_generate_refused(void **state)
{
	const struct gen gen = gen_init(GEN_KRONECKER, 4, 1);
	const struct graph_gpu gpu = {.machine = open_machine(),
				      .gen = &gen,
				      .nr_edges = UINT64_C(65536) << 4,
				      .memory_bytes = MIB(2)};
	int fd = graph_file("", 0);
	char err[512] = "";

	(void)state;
	assert_int_equal(graph_gpu_generate(&gpu, fd, NULL, err, sizeof(err)), -ENOMEM);
	assert_non_null(strstr(err, "that the GPU has memory for at a time"));
	close(fd);
	weir_machine_close(gpu.machine);
	test_cuda_nothing_left(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_generate_same),	 cmocka_unit_test(test_generate_ranges),
		cmocka_unit_test(test_generate_large),	 cmocka_unit_test(test_generate_input),
		cmocka_unit_test(test_generate_refused),
	};

	return cmocka_run_group_tests_name("graph_generate", tests, test_cuda_required, NULL);
}
