/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The workloads on a matrix and their kernels on the CUDA backend: sums against what they have to
 * be, for shapes, page sizes, budgets and numbers of blocks at random, under every manager; rows
 * split between parts of the GPU; and the kernels alone, with few rows that add up exactly.
 * WEIR_MATRIX_KERNELS names their library, MATRIX_CASES says how many cases there are (24).
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
#include "workloads/matrix/contents.h"
#include "workloads/matrix/cuda.h"

#define SEED 20253u

static const char *const managers[] = {
	"native", "malloc",	"zerocopy",	   "uvm",
	"weir",	  "weir-paged", "weir-paged+fill", "weir-paged+auto"};
#define NR_MANAGERS (sizeof(managers) / sizeof(*managers))

#define LARGE (UINT64_C(8) << 30) /* a card of at least that has large matrices */

static uint64_t gpu_bytes;

static struct backend *open_backend(void)
{
	struct backend *b;

	assert_int_equal(test_cuda_open(&test_fake_config, &b), 0);
	assert_int_equal(matrix_cuda_load(), 0);
	gpu_bytes = b->desc.memory[b->desc.device[0].memory].bytes;
	return b;
}

/* ------------------------------------------------------------------ under managers */

static struct matrix_params params_at(uint64_t random)
{
	static const uint32_t pages[] = {4096, 8192, 16384, 65536}, blocks[] = {0, 0, 1, 5};
	struct matrix_params p = {
		.kind = (enum matrix_kind)(random % MATRIX_KIND_NR),
		.page_bytes = pages[random >> 4 & 3],
		.seed = random,
		.passes = 2,
		.warm = random >> 8 & 1,
		.check = true,
		.blocks = blocks[random >> 10 & 3],
		.threads = 512,
		.agents = 1 + (random >> 12 & 1),
	};
	uint32_t width = p.page_bytes / (uint32_t)sizeof(float);
	bool large = gpu_bytes >= LARGE;

	if (random >> 13 & 1) /* as few as a page allows */
		p.threads = p.page_bytes / 4096 * 32;
	/* Up to 128 MiB, or up to 4. */
	p.columns = width * (1 + (uint32_t)(random >> 16) % ((large ? 32768 : 16384) / width));
	p.rows = MATRIX_BATCH * (1 + (uint32_t)(random >> 24) % (large ? 32 : 2));
	return p;
}

static void run_one(const char *name, const struct matrix_params *p, uint64_t frame_bytes)
{
	bool paged = strncmp(name, "weir-paged", 10) == 0;
	struct manager_config config = {.gpu_budget_bytes = paged ? frame_bytes : 0,
					.page_bytes = p->page_bytes,
					.paged_kernels = &matrix_cuda_kernels,
					.options = ""};
	struct passes_result r;
	struct manager *m;
	char err[256] = "";
	int ret;

	assert_int_equal(machine_wrap(open_backend(), &config.machine), 0);
	assert_int_equal(manager_create(name, &config, &m), 0);
	ret = matrix_run(m, p, &r, err, sizeof(err));
	if (ret || !r.passed)
		fail_msg("%s, %s of %u x %u, pages of %u, %u blocks, %llu in frames: %s", name,
			 matrix_kind_name(p->kind), p->rows, p->columns, p->page_bytes, p->blocks,
			 (unsigned long long)frame_bytes, ret ? err : r.wrong);
	assert_true(r.checked);
	assert_int_equal(m->ops->check(m), 0);
	m->ops->destroy(m);
	weir_machine_close(config.machine);
	passes_result_free(&r);
	test_cuda_nothing_left(NULL);
}

static void test_matrix_managers(void **state)
{
	static const struct test_amount cases = {24, 6, 100};
	const uint64_t nr = test_amount("MATRIX_CASES", cases);

	(void)state;
	assert_true(nr > 0);
	print_message("seed %u\n", SEED);
	for (uint64_t i = 0; i < nr; i++) {
		uint64_t random = gen_bits(SEED, i);
		struct matrix_params p = params_at(random);
		uint64_t nr_pages = matrix_bytes(&p) / p.page_bytes;
		uint64_t nr_frames = 1 + (random >> 32) % nr_pages;

		if (random >> 60 == 0)
			nr_frames = 1 + nr_frames % 8;
		for (size_t k = 0; k < NR_MANAGERS; k++)
			run_one(managers[k], &p, nr_frames * p.page_bytes);
	}
}

/* Rows split between parts of the first GPU, whose sums along columns the first one adds up; with
 * room for all of the matrix on each, or for less than half of it. */
static void run_split(uint32_t devices, struct matrix_params *p, bool narrow)
{
	struct manager_config config = {.nr_devices = devices, .options = ""};
	struct passes_result r;
	uint64_t bytes;
	struct backend *b;
	struct manager *m;
	char err[256] = "";
	int ret;

	assert_int_equal(test_cuda_open_parts(&test_fake_config, devices, &b), 0);
	assert_int_equal(matrix_cuda_load(), 0);
	config.block_bytes = b->desc.vmm.granularity_bytes;
	p->devices = devices;
	p->rows = MAX(p->rows, devices * MATRIX_BATCH);
	bytes = matrix_bytes(p) / 3 + 4 * matrix_vectors_bytes(p);
	if (narrow)
		config.gpu_budget_bytes =
			round_up(bytes, config.block_bytes) + 4 * config.block_bytes;
	assert_int_equal(machine_wrap(b, &config.machine), 0);
	assert_int_equal(manager_create("weir", &config, &m), 0);
	ret = matrix_run(m, p, &r, err, sizeof(err));
	if (ret || !r.checked || !r.passed)
		fail_msg("%u devices, %s of %u x %u, %llu bytes each: %s", devices,
			 matrix_kind_name(p->kind), p->rows, p->columns,
			 (unsigned long long)config.gpu_budget_bytes, ret ? err : r.wrong);
	assert_int_equal(m->ops->check(m), 0);
	m->ops->destroy(m);
	weir_machine_close(config.machine);
	passes_result_free(&r);
	test_cuda_nothing_left(NULL);
}

static void test_matrix_split(void **state)
{
	static const struct test_amount cases = {12, 6, 60};
	const uint64_t nr = test_amount("MATRIX_CASES", cases);

	(void)state;
	for (uint64_t i = 0; i < nr; i++) {
		struct matrix_params p = params_at(gen_bits(SEED + 2, i));

		p.kind = (enum matrix_kind)(i % MATRIX_KIND_NR);
		run_split(2 + (uint32_t)(i % 3), &p, i & 1);
	}
}

/* ------------------------------------------------------------------ kernels alone */

struct bare {
	struct backend *b;
	stream_id_t stream;
	struct matrix_contents contents;
	float *elements;
	struct matrix_vectors vectors;
	int64_t *got;
};

static void bare_open(struct bare *t, const struct matrix_params *p)
{
	uint64_t bytes = matrix_bytes(p), vector_bytes = matrix_vectors_bytes(p);
	float *buffer = malloc(bytes);
	uint32_t memory;
	void *addr;

	t->b = open_backend();
	memory = t->b->desc.device[0].memory;
	t->got = malloc(vector_bytes);
	assert_true(buffer && t->got);
	assert_int_equal(matrix_contents_init(&t->contents, p), 0);
	for (uint32_t i = 0; i < p->rows; i++)
		for (uint32_t j = 0; j < p->columns; j += MATRIX_PIECE)
			matrix_contents_piece(&t->contents, i, j,
					      buffer + (size_t)i * p->columns + j);
	assert_int_equal(t->b->ops->stream_create(t->b, 0, BACKEND_COMPUTE, &t->stream), 0);
	assert_int_equal(t->b->ops->device_alloc(t->b, memory, vector_bytes, &addr), 0);
	t->vectors = matrix_vectors_at(p, addr);
	assert_int_equal(t->b->ops->device_alloc(t->b, memory, bytes, &addr), 0);
	t->elements = addr;
	assert_int_equal(t->b->ops->upload(t->b, t->stream, t->elements, buffer, bytes), 0);
	free(buffer);
}

static void bare_close(struct bare *t)
{
	t->b->ops->device_free(t->b, t->elements);
	t->b->ops->device_free(t->b, t->vectors.all);
	t->b->ops->stream_destroy(t->b, t->stream);
	t->b->ops->destroy(t->b);
	matrix_contents_fini(&t->contents);
	free(t->got);
	test_cuda_nothing_left(NULL);
}

static int bare_launch(struct bare *t, bool columns, uint32_t exact, uint32_t blocks)
{
	const struct matrix_args args = {
		.elements = t->elements,
		.rows = t->contents.rows,
		.columns = t->contents.columns,
		.in = columns ? t->vectors.column_in : t->vectors.row_in,
		.out = columns ? t->vectors.column_out : t->vectors.row_out,
		.exact = exact,
		.blocks = blocks,
		.threads = 32 * (1 + exact % 16),
	};
	const struct weir_launch launch = {
		.kernel = columns ? &matrix_kernel_columns : &matrix_kernel_rows,
		.args = &args,
		.args_bytes = sizeof(args),
	};

	return t->b->ops->launch(t->b, t->stream, &launch);
}

/* Tasks of all lengths: as few rows as add up, or as many as there are for one block. */
static void test_matrix_tasks(void **state)
{
	static const uint32_t exact[] = {32, 63, 64, 96, 1u << 20}, blocks[] = {0, 1, 2, 9};
	struct matrix_params p = {.kind = MATRIX_BICG, .rows = 288, .columns = 3072, .agents = 1};
	struct bare t;
	uint64_t bytes;

	(void)state;
	bytes = matrix_vectors_bytes(&p);
	bare_open(&t, &p);
	for (size_t i = 0; i < 5 * 4; i++) {
		assert_int_equal(
			t.b->ops->upload(t.b, t.stream, t.vectors.all, t.contents.begin.all, bytes),
			0);
		assert_int_equal(bare_launch(&t, false, exact[i % 5], blocks[i / 5]), 0);
		assert_int_equal(bare_launch(&t, true, exact[i % 5], blocks[i / 5]), 0);
		assert_int_equal(t.b->ops->download(t.b, t.stream, t.got, t.vectors.all, bytes), 0);
		assert_memory_equal(t.got, t.contents.end.all, bytes);
	}
	bare_close(&t);
}

/* What a kernel cannot take, it refuses. */
static void test_matrix_refused(void **state)
{
	struct matrix_params p = {.kind = MATRIX_MVT, .rows = 32, .columns = 1024, .agents = 1};
	struct bare t;

	(void)state;
	bare_open(&t, &p);
	assert_int_equal(bare_launch(&t, true, 31, 0), -EINVAL);
	t.contents.rows = 33;
	assert_int_equal(bare_launch(&t, false, 32, 0), -EINVAL);
	t.contents.rows = 32;
	t.contents.columns = 1000;
	assert_int_equal(bare_launch(&t, false, 32, 0), -EINVAL);
	t.contents.columns = 1024;
	t.elements++;
	assert_int_equal(bare_launch(&t, false, 32, 0), -EINVAL);
	t.elements--;
	bare_close(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_matrix_tasks),
		cmocka_unit_test(test_matrix_refused),
		cmocka_unit_test(test_matrix_managers),
		cmocka_unit_test(test_matrix_split),
	};

	return cmocka_run_group_tests_name("matrix", tests, test_cuda_required, NULL);
}
