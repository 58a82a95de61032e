/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Generating a graph on a device, on a simulated machine: the file that the CPU builds, in one
 * range of vertices and in many; and that whatever fails leaves nothing behind. tests/gpu has the
 * same on the CUDA backend.
 *
 * Labels: threads
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "src/backend/flaky/flaky.h"
#include "src/backend/machine.h"
#include "tests/support/graph.h"
#include "tests/unit/test_sim_machine.h"
#include "workloads/graph/fail.h"

static struct weir_machine *open_machine(enum weir_data data)
{
	struct weir_machine_desc desc;
	struct weir_machine *machine;

	test_machine(&desc);
	assert_int_equal(weir_machine_simulate(&desc, data, &machine), 0);
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

static void test_graph_gpu_same(void **state)
{
	static const uint32_t scales[] = {0, 1, 2, 5, 11};
	struct graph_gpu gpu = {.machine = open_machine(WEIR_DATA_REAL)};

	(void)state;
	for (unsigned int options = 0; options < 8; options++) {
		gpu.raw = options & 1;
		gpu.weights = options & 2;
		gpu.device = options & 4 ? 1 : 0;
		for (unsigned int i = 0; i < sizeof(scales) / sizeof(*scales); i++) {
			gpu.seed = scales[i] + options;
			assert_int_equal(same(&gpu, GEN_KRONECKER, scales[i], 16), 1);
			assert_int_equal(same(&gpu, GEN_UNIFORM, scales[i], 3), 1);
		}
	}
	weir_machine_close(gpu.machine);
}

/* With little memory there are several ranges, of several draws, written in several pieces; above
 * scale 16 a bucket has several vertices. */
static void test_graph_gpu_ranges(void **state)
{
	struct graph_gpu gpu = {.machine = open_machine(WEIR_DATA_REAL),
				.seed = 9,
				.weights = true,
				.memory_bytes = MIB(2)};

	(void)state;
	assert_true(same(&gpu, GEN_KRONECKER, 12, 16) >= 3);
	assert_true(same(&gpu, GEN_UNIFORM, 13, 16) >= 4);
	gpu.raw = true;
	assert_true(same(&gpu, GEN_KRONECKER, 12, 24) >= 2);
	gpu.memory_bytes = MIB(4);
	assert_true(same(&gpu, GEN_UNIFORM, 17, 4) >= 3);
	assert_int_equal(gcn_pool_create(3, &gpu.pool), 0);
	gpu.raw = false;
	assert_true(same(&gpu, GEN_KRONECKER, 17, 2) >= 3);
	gcn_pool_destroy(gpu.pool);
	weir_machine_close(gpu.machine);
}

/* ------------------------------------------------------------------ what is refused */

static void refuse(const struct graph_gpu *gpu, int error, const char *text)
{
	int fd = graph_file("", 0);
	struct csr_built built = {.nr_edges = 77};
	char err[GRAPH_ERROR_BYTES] = "";

	assert_int_equal(graph_gpu_generate(gpu, fd, &built, err, sizeof(err)), error);
	if (!strstr(err, text) || strchr(err, '\n'))
		fail_msg("'%s' instead of '%s'", err, text);
	assert_int_equal(built.nr_edges, 77);
	assert_int_equal(graph_gpu_generate(gpu, fd, NULL, NULL, 0), error);
	close(fd);
}

static void test_graph_gpu_refused(void **state)
{
	struct gen gen = gen_init(GEN_KRONECKER, 12, 1);
	struct graph_gpu gpu = {.machine = open_machine(WEIR_DATA_REAL),
				.gen = &gen,
				.nr_edges = 16 << 12,
				.memory_bytes = 1 << 20};
	struct backend *b = machine_backend(gpu.machine);
	struct graph_gpu phantom = gpu;
	int full;

	(void)state;
	refuse(&gpu, -ENOMEM, "1048576 bytes of the GPU's memory are too few");
	/* The most edges of any vertex are some hundred. */
	gpu.memory_bytes += KIB(36);
	refuse(&gpu, -ENOMEM, "that the GPU has memory for at a time");
	gpu.memory_bytes = 0;
	gpu.device = 2;
	refuse(&gpu, -EINVAL, "the GPU cannot generate the graph");
	gpu.device = 0;
	full = open("/dev/full", O_RDWR | O_CLOEXEC);
	if (full >= 0) {
		char err[GRAPH_ERROR_BYTES] = "";

		assert_int_equal(graph_gpu_generate(&gpu, full, NULL, err, sizeof(err)), -ENOSPC);
		assert_non_null(strstr(err, "cannot write the graph: No space left"));
		close(full);
	}
	gen.scale = 33;
	refuse(&gpu, -ERANGE, "up to scale 32: leave scale 33 to the CPU");
	gen.scale = 12;
	assert_int_equal(b->ops->memory_used(b, GPU0), 0);
	assert_int_equal(b->ops->memory_used(b, HOST), 0);
	weir_machine_close(gpu.machine);
	phantom.machine = open_machine(WEIR_DATA_PHANTOM);
	refuse(&phantom, -ENOTSUP, "a machine without bytes");
	assert_false(graph_gpu_real(phantom.machine, 0));
	weir_machine_close(phantom.machine);
}

/* ------------------------------------------------------------------ stopping and failing */

/* For a Kronecker graph of scale 8 and degree 16. */
#define THREE_RANGES_BYTES (MIB(1) + KIB(64))

static bool stop(void *arg, double fraction, const char *label)
{
	unsigned int *left = arg;

	assert_true(fraction >= 0 && fraction <= 1);
	assert_non_null(label);
	if (!*left)
		return true;
	--*left;
	return false;
}

static void test_graph_gpu_stopped(void **state)
{
	unsigned int left, looks = 0;
	const struct graph_watch watch = {stop, &left};
	const struct gen gen = gen_init(GEN_KRONECKER, 8, 1);
	struct graph_gpu gpu = {.machine = open_machine(WEIR_DATA_REAL),
				.gen = &gen,
				.nr_edges = 16 << 8,
				.memory_bytes = THREE_RANGES_BYTES,
				.watch = &watch};
	struct backend *b = machine_backend(gpu.machine);
	int rc = -ECANCELED;

	(void)state;
	for (; rc == -ECANCELED; looks++) {
		int fd = graph_file("", 0);

		left = looks;
		rc = graph_gpu_generate(&gpu, fd, NULL, NULL, 0);
		assert_int_equal(b->ops->memory_used(b, GPU0), 0);
		assert_int_equal(b->ops->memory_used(b, HOST), 0);
		close(fd);
	}
	assert_int_equal(rc, 0);
	/* Counting, for each range placing, sorting and writing, and once none stops it. */
	assert_int_equal(looks, 1 + 3 * 3 + 1);
	weir_machine_close(gpu.machine);
}

/* Fail each call of a run in turn. */
static void test_graph_gpu_faults(void **state)
{
	const struct gen gen = gen_init(GEN_KRONECKER, 8, 1);
	struct graph_gpu gpu = {.gen = &gen,
				.nr_edges = 16 << 8,
				.weights = true,
				.memory_bytes = THREE_RANGES_BYTES};
	uint64_t nr_calls = 1;

	(void)state;
	for (uint64_t at = 0; at <= nr_calls; at++) {
		struct weir_machine_desc desc;
		struct backend *sim, *flaky;
		int fd = graph_file("", 0), rc;

		test_machine(&desc);
		assert_int_equal(sim_create(&desc, WEIR_DATA_REAL, &sim), 0);
		assert_int_equal(flaky_create(sim, &flaky), 0);
		assert_int_equal(machine_wrap(flaky, &gpu.machine), 0);
		flaky_arm(flaky, at, -EIO);
		rc = graph_gpu_generate(&gpu, fd, NULL, NULL, 0);
		if (!at)
			nr_calls = flaky_nr_calls(flaky);
		assert_int_equal(rc, at ? -EIO : 0);
		assert_int_equal(sim->ops->memory_used(sim, GPU0), 0);
		assert_int_equal(sim->ops->memory_used(sim, HOST), 0);
		weir_machine_close(gpu.machine);
		close(fd);
	}
	assert_true(nr_calls > 50);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_graph_gpu_same),	  cmocka_unit_test(test_graph_gpu_ranges),
		cmocka_unit_test(test_graph_gpu_refused), cmocka_unit_test(test_graph_gpu_stopped),
		cmocka_unit_test(test_graph_gpu_faults),
	};

	return cmocka_run_group_tests_name("graph_gpu", tests, NULL, NULL);
}
