/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The workloads on a matrix, on a simulated machine: what it contains, and its sums, against plain
 * loops; right under every manager, for parameters at random; what is wrong is found; every failure
 * of a backend leaves nothing behind.
 *
 * Labels: threads
 * Timeout: 300
 * Long: yes
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "src/backend/flaky/flaky.h"
#include "src/backend/machine.h"
#include "src/base/util.h"
#include "tests/support/amount.h"
#include "tests/unit/test_sim_machine.h"
#include "workloads/graph/gen.h"
#include "workloads/matrix/bound.h"
#include "workloads/matrix/contents.h"

#define RANDOM_SEED 20252u

static const char *const managers[] = {
	"native", "malloc",	"zerocopy",	   "uvm",
	"weir",	  "weir-paged", "weir-paged+fill", "weir-paged+page"};
#define NR_MANAGERS (sizeof(managers) / sizeof(*managers))

/* 1 MiB. */
static const struct matrix_params usual = {
	.rows = 64,
	.columns = 4096,
	.page_bytes = 8192,
	.seed = 7,
	.passes = 3,
	.warm_up = 1,
	.check = true,
	.threads = 512,
	.agents = 1,
};

static void machine_of(struct weir_machine_desc *desc)
{
	test_machine(desc);
	desc->uvm = (struct weir_uvm_desc){256, 1000, 10, 5000, 100, 50, 0};
}

static struct weir_machine *open_machine(enum weir_data data)
{
	struct weir_machine_desc desc;
	struct weir_machine *machine;

	machine_of(&desc);
	assert_int_equal(weir_machine_simulate(&desc, data, &machine), 0);
	return machine;
}

/* frame_bytes: of weir-paged; others have room for all. */
static int run(struct weir_machine *machine, const char *name, const struct matrix_params *p,
	       uint64_t frame_bytes, struct passes_result *out, char *err)
{
	bool paged = strncmp(name, "weir-paged", 10) == 0;
	struct manager_config config = {.machine = machine,
					.gpu_budget_bytes = paged ? frame_bytes : 0,
					.page_bytes = p->page_bytes,
					.options = ""};
	struct manager *m;
	int ret = manager_create(name, &config, &m), check;

	err[0] = '\0';
	if (ret)
		return ret;
	ret = matrix_run(m, p, out, err, 256);
	check = m->ops->check(m);
	if (!ret && check != -EIO) /* which a test injects */
		assert_int_equal(check, 0);
	m->ops->destroy(m);
	return ret;
}

/* ------------------------------------------------------------------ contents */

/* All elements, and what is right, by plain loops. */
static float *elements_of(const struct matrix_contents *c)
{
	float *elements = calloc((size_t)c->rows * c->columns, sizeof(*elements));

	assert_non_null(elements);
	for (uint32_t i = 0; i < c->rows; i++)
		for (uint32_t j = 0; j < c->columns; j += MATRIX_PIECE)
			matrix_contents_piece(c, i, j, elements + (size_t)i * c->columns + j);
	return elements;
}

static void ends_are_right(const struct matrix_contents *c, const float *elements)
{
	int64_t *columns = calloc(c->columns, sizeof(*columns));

	assert_non_null(columns);
	for (uint32_t i = 0; i < c->rows; i++) {
		int64_t sum = c->begin.row_out[i];

		for (uint32_t j = 0; j < c->columns; j++) {
			int64_t element = (int64_t)elements[(size_t)i * c->columns + j];

			assert_true(element % 2 && llabs(element) <= 81);
			sum += element * c->begin.row_in[j];
			columns[j] += element * c->end.column_in[i];
			assert_true(llabs(element * c->end.column_in[i]) <= (1 << 24) / c->exact);
		}
		assert_int_equal(c->end.row_out[i], sum);
		assert_true(c->end.column_in[i] % 2);
	}
	for (uint32_t j = 0; j < c->columns; j++) {
		assert_int_equal(c->end.column_out[j], c->begin.column_out[j] + columns[j]);
		assert_true(c->begin.row_in[j] != 0);
	}
	assert_true(c->exact >= MATRIX_BATCH);
	free(columns);
}

static void test_matrix_contents(void **state)
{
	static const uint32_t sizes[][2] = {{32, 1024}, {96, 3072}, {320, 1024}};

	(void)state;
	for (int kind = 0; kind < MATRIX_KIND_NR; kind++) {
		for (int i = 0; i < 3; i++) {
			struct matrix_params p = usual;
			struct matrix_contents c;
			float *elements;

			p.kind = (enum matrix_kind)kind;
			p.rows = sizes[i][0];
			p.columns = sizes[i][1];
			p.seed = (uint64_t)i;
			assert_int_equal(matrix_contents_init(&c, &p), 0);
			elements = elements_of(&c);
			ends_are_right(&c, elements);
			free(elements);
			matrix_contents_fini(&c);
		}
	}
}

/* Of atax: signs keep the sums along rows of the largest matrix small. */
static void test_matrix_balance(void **state)
{
	struct matrix_params p = usual;
	struct matrix_contents c;

	(void)state;
	p.kind = MATRIX_ATAX;
	p.rows = p.columns = MATRIX_SIZE_MAX;
	assert_int_equal(matrix_contents_init(&c, &p), 0);
	assert_true(c.exact >= 8 * MATRIX_BATCH);
	matrix_contents_fini(&c);
}

/* No two rows have the same factors, and no two columns. */
static void test_matrix_distinct(void **state)
{
	struct matrix_params p = usual;
	uint8_t *seen = calloc(2, MATRIX_SIZE_MAX);
	struct matrix_contents c;

	(void)state;
	assert_non_null(seen);
	p.rows = p.columns = MATRIX_SIZE_MAX;
	assert_int_equal(matrix_contents_init(&c, &p), 0);
	for (uint32_t i = 0; i < MATRIX_SIZE_MAX; i++) {
		uint32_t row = 0, column = 0;

		for (uint32_t k = 0; k < MATRIX_RANK; k++) {
			row = row * 4 + ((uint32_t)(c.row[i * MATRIX_RANK + k] + 3) >> 1);
			column = column * 4 +
				 ((uint32_t)(c.column[(size_t)k * MATRIX_SIZE_MAX + i] + 3) >> 1);
		}
		assert_int_equal(seen[row]++, 0);
		assert_int_equal(seen[MATRIX_SIZE_MAX + column]++, 0);
	}
	free(seen);
	matrix_contents_fini(&c);
}

/* Of the factors of so many columns from one on: the dimensions that they span. */
static uint32_t rank_of(const struct matrix_contents *c, uint32_t column)
{
	double left[MATRIX_RANK][MATRIX_RANK] = {{0}}; /* [i]: what has its first number at i */
	uint32_t rank = 0;

	for (uint32_t j = column; j < column + MATRIX_PIECE && rank < MATRIX_RANK; j++) {
		double v[MATRIX_RANK];

		for (uint32_t k = 0; k < MATRIX_RANK; k++)
			v[k] = (double)c->column[(size_t)k * c->columns + j];
		for (uint32_t i = 0; i < MATRIX_RANK; i++) {
			double times = left[i][i] != 0 ? v[i] / left[i][i] : 0;

			if (fabs(v[i]) < 1e-9)
				continue;
			if (times == 0) {
				memcpy(left[i], v, sizeof(v));
				rank++;
				break;
			}
			for (uint32_t k = 0; k < MATRIX_RANK; k++)
				v[k] -= times * left[i][k];
		}
	}
	return rank;
}

/* Two rows with other factors differ in each page. */
static void test_matrix_pages_differ(void **state)
{
	struct matrix_params p = usual;
	struct matrix_contents c;

	(void)state;
	p.columns = MATRIX_SIZE_MAX;
	for (p.seed = 0; p.seed < 3; p.seed++) {
		assert_int_equal(matrix_contents_init(&c, &p), 0);
		for (uint32_t j = 0; j < p.columns; j += MATRIX_PIECE)
			assert_int_equal(rank_of(&c, j), MATRIX_RANK);
		matrix_contents_fini(&c);
	}
}

/* ------------------------------------------------------------------ right and wrong */

static void run_everywhere(const struct matrix_params *p, uint64_t frame_bytes)
{
	struct passes_result r = {0};
	char err[256];

	for (size_t i = 0; i < NR_MANAGERS; i++) {
		struct weir_machine *machine = open_machine(WEIR_DATA_REAL);
		int ret = run(machine, managers[i], p, frame_bytes, &r, err);

		if (ret || !r.passed)
			fail_msg("%s: %d, %s %s", managers[i], ret, err, ret ? "" : r.wrong);
		assert_true(r.checked);
		assert_int_equal(r.nr_passes, p->passes - p->warm_up);
		for (uint32_t k = 0; k < r.nr_passes; k++)
			assert_true(r.pass_s[k] > 0);
		passes_result_free(&r);
		weir_machine_close(machine);
	}
}

static void test_matrix_same(void **state)
{
	static const struct test_amount shares = {2, 4, 2};

	(void)state;
	for (int kind = 0; kind < MATRIX_KIND_NR; kind++) {
		struct matrix_params p = usual;

		p.kind = (enum matrix_kind)kind;
		for (uint64_t share = 1; share <= 8; share *= test_amount(NULL, shares)) {
			p.agents = share == 4 ? 4 : 1;
			p.warm = share == 2;
			run_everywhere(&p, matrix_bytes(&p) / share);
		}
	}
}

static void test_matrix_random(void **state)
{
	static const uint32_t pages[] = {4096, 8192, 16384, 65536};
	static const struct test_amount cases = {8, TEST_TSAN ? 1 : 2, 50};
	const uint64_t nr = test_amount(NULL, cases);

	(void)state;
	print_message("seed %u\n", RANDOM_SEED);
	for (uint64_t i = 0; i < nr; i++) {
		uint64_t r = gen_bits(RANDOM_SEED, i);
		struct matrix_params p = usual;
		uint32_t width;

		p.kind = (enum matrix_kind)(r % MATRIX_KIND_NR);
		p.page_bytes = pages[r >> 4 & 3];
		width = p.page_bytes / (uint32_t)sizeof(float);
		p.columns = width * (1 + (uint32_t)(r >> 6 & 3) * (width < 16384));
		p.rows = MATRIX_BATCH * (1 + (uint32_t)(r >> 8) % 5) / (width < 16384 ? 1 : 5);
		p.rows += MATRIX_BATCH - p.rows % MATRIX_BATCH;
		p.warm = r >> 17 & 1;
		p.seed = r;
		p.agents = (uint32_t)(1 + (r >> 32) % 4);
		run_everywhere(&p, p.page_bytes * (1 + (r >> 40) % 40));
	}
}

/* Rows split between 2 and 3 devices, with room for all of it on each down to a tenth; no pass is
 * faster than its bound. */
static void run_split(uint32_t devices, const struct matrix_params *p, uint64_t budget_bytes)
{
	struct manager_config config = {.nr_devices = devices,
					.gpu_budget_bytes = budget_bytes,
					.block_bytes = KIB(16),
					.options = ""};
	const struct passes_held held = {budget_bytes, budget_bytes, NULL};
	struct weir_machine_desc desc;
	struct passes_result r = {0};
	char err[256] = "";
	double bound_s;
	struct manager *m;
	int ret;

	test_machine_gpus(&desc, devices);
	bound_s = matrix_bound_s(&desc, 0, p, &held);
	assert_int_equal(weir_machine_simulate(&desc, WEIR_DATA_REAL, &config.machine), 0);
	assert_int_equal(manager_create("weir", &config, &m), 0);
	ret = matrix_run(m, p, &r, err, sizeof(err));
	if (ret || !r.checked || !r.passed)
		fail_msg("%u devices, %llu bytes each: %d, %s %s", devices,
			 (unsigned long long)budget_bytes, ret, err, r.wrong);
	for (uint32_t i = 0; i < r.nr_passes; i++)
		assert_true(r.pass_s[i] >= bound_s);
	assert_int_equal(m->ops->check(m), 0);
	m->ops->destroy(m);
	passes_result_free(&r);
	weir_machine_close(config.machine);
}

static void test_matrix_split(void **state)
{
	static const struct test_amount steps = {3, 9, 3};

	(void)state;
	for (uint32_t devices = TEST_TSAN ? 3 : 2; devices <= 3; devices++)
		for (int kind = 0; kind < MATRIX_KIND_NR; kind++)
			for (uint64_t tenths = 1; tenths <= 10;
			     tenths += test_amount(NULL, steps)) {
				struct matrix_params p = usual;

				p.kind = (enum matrix_kind)kind;
				p.rows = 160; /* 2 and 3 batches, or 1, 2 and 2 */
				p.devices = devices;
				p.passes = 4;
				run_split(devices, &p,
					  round_up(matrix_bytes(&p) * tenths / 10, KIB(16)) +
						  KIB(128));
			}
}

/* A manager of one device is not asked for more; one that has no launch_on() has one. */
static void test_matrix_split_refused(void **state)
{
	struct weir_machine *machine = open_machine(WEIR_DATA_REAL);
	struct manager_config config = {.machine = machine, .nr_devices = 2, .options = ""};
	struct passes_result r = {0};
	struct matrix_params p = usual;
	struct manager *m;
	char err[256];

	(void)state;
	assert_int_equal(manager_create("native", &config, &m), -ENOTSUP);
	config.nr_devices = 3;
	assert_int_equal(manager_create("weir", &config, &m), -EINVAL);
	p.devices = 2;
	assert_int_equal(run(machine, "zerocopy", &p, 0, &r, err), -ENOTSUP);
	p.devices = 3;
	assert_int_equal(matrix_params_check(&p, err, sizeof(err)), -EINVAL);
	weir_machine_close(machine);
}

/* A manager that fills the matrix otherwise than it is told to, or reads it so. */
enum plant { SWAP_ROWS, SWAP_COLUMNS, STALE, LEFT_OUT, TWICE, READ_WRONG, PLANT_NR };

static const struct manager_ops *inner;
static struct {
	enum plant what;
	const struct matrix_params *p;
	uint64_t random;
} plant;

static float *page_at(float *data, uint64_t row, uint64_t page)
{
	return data + row % plant.p->rows * plant.p->columns +
	       page * plant.p->page_bytes / sizeof(float) % plant.p->columns;
}

static void pages_swap(float *a, float *b)
{
	for (uint32_t j = 0; j < plant.p->page_bytes / sizeof(float); j++) {
		float was = a[j];

		a[j] = b[j];
		b[j] = was;
	}
}

static int planting_write(struct manager *m, void *addr, const void *data, uint64_t bytes)
{
	uint64_t row = plant.random & 0xffff, page = plant.random >> 16 & 0xffff;
	float *copy = malloc(bytes), *at;
	int err;

	assert_non_null(copy);
	assert_int_equal(bytes, matrix_bytes(plant.p));
	memcpy(copy, data, bytes);
	at = page_at(copy, row, page);
	if (plant.what == SWAP_ROWS)
		pages_swap(at, page_at(copy, row + 1 + plant.random % 63, page));
	else if (plant.what == SWAP_COLUMNS)
		pages_swap(at, page_at(copy, row, page + 1));
	else if (plant.what == STALE)
		memset(at, 0, plant.p->page_bytes);
	else if (plant.what == LEFT_OUT)
		at[plant.random >> 32 & 1023] = 0;
	else if (plant.what == TWICE)
		at[plant.random >> 32 & 1023] *= 2;
	err = inner->write(m, addr, copy, bytes);
	free(copy);
	return err;
}

static int planting_read(struct manager *m, void *data, const void *addr, uint64_t bytes)
{
	int err = inner->read(m, data, addr, bytes);

	if (!err && plant.what == READ_WRONG)
		((uint8_t *)data)[plant.random % bytes] ^= 0x10;
	return err;
}

static void plant_found(struct passes_result *r)
{
	struct weir_machine *machine = open_machine(WEIR_DATA_REAL);
	struct manager_config config = {.machine = machine, .options = ""};
	struct manager_ops ops;
	struct manager *m;
	char err[256];

	assert_int_equal(manager_create("native", &config, &m), 0);
	inner = m->ops;
	ops = *inner;
	ops.write = planting_write;
	ops.read = planting_read;
	m->ops = &ops;
	assert_int_equal(matrix_run(m, plant.p, r, err, sizeof(err)), 0);
	m->ops = inner;
	m->ops->destroy(m);
	weir_machine_close(machine);
}

static void test_matrix_wrong(void **state)
{
	struct matrix_params p = usual;

	(void)state;
	plant.p = &p;
	p.passes = 2;
	for (uint64_t i = 0; i < 12 * PLANT_NR; i++) {
		struct passes_result r = {0};

		p.kind = (enum matrix_kind)(i / PLANT_NR % MATRIX_KIND_NR);
		plant.what = (enum plant)(i % PLANT_NR);
		plant.random = gen_bits(RANDOM_SEED, i);
		p.check = plant.what == READ_WRONG; /* others have to be found without */
		plant_found(&r);
		assert_true(r.checked);
		if (r.passed)
			fail_msg("%s: plant %d, %llu", matrix_kind_name(p.kind), plant.what,
				 (unsigned long long)i);
		assert_true(r.wrong[0]);
		passes_result_free(&r);
	}
}

/* ------------------------------------------------------------------ what is moved, times */

/* With frames for all, each page once, cold, and the second sweep finds it; nothing, warm. With
 * frames for half, the second sweep finds as many pages at most. */
static void test_matrix_pages(void **state)
{
	struct weir_machine *machine = open_machine(WEIR_DATA_REAL);
	struct matrix_params p = usual;
	uint64_t nr_pages = matrix_bytes(&p) / p.page_bytes;
	struct passes_result r = {0};
	char err[256];

	(void)state;
	assert_int_equal(run(machine, "weir-paged+page", &p, matrix_bytes(&p), &r, err), 0);
	assert_int_equal(r.pages.nr_in, 2 * nr_pages);
	assert_int_equal(r.pages.nr_out + r.pages.nr_in_place, 0);
	passes_result_free(&r);
	p.warm = true;
	assert_int_equal(run(machine, "weir-paged+page", &p, matrix_bytes(&p), &r, err), 0);
	assert_int_equal(r.pages.nr_in + r.pages.nr_in_place, 0);
	passes_result_free(&r);
	p.warm = false;
	p.page_bytes = 4096; /* a piece in place is a page */
	nr_pages *= 2;
	assert_int_equal(run(machine, "weir-paged+page", &p, matrix_bytes(&p) / 2, &r, err), 0);
	assert_int_equal(r.pages.nr_out, 0);
	assert_true(r.pages.nr_in + r.pages.nr_in_place >= 2 * (nr_pages + nr_pages / 2));
	assert_true(r.pages.nr_in + r.pages.nr_in_place <= 2 * 2 * nr_pages);
	passes_result_free(&r);
	/* Filled only, half of it comes in once, and what did not is in place in each sweep. */
	assert_int_equal(run(machine, "weir-paged+fill", &p, matrix_bytes(&p) / 2, &r, err), 0);
	assert_int_equal(r.pages.nr_in, 2 * nr_pages / 2);
	assert_int_equal(r.pages.nr_in_place, 2 * 2 * nr_pages / 2);
	passes_result_free(&r);
	p.warm = true;
	assert_int_equal(run(machine, "weir-paged+fill", &p, matrix_bytes(&p) / 2, &r, err), 0);
	assert_int_equal(r.pages.nr_in, 0);
	assert_int_equal(r.pages.nr_in_place, 2 * 2 * nr_pages / 2);
	passes_result_free(&r);
	weir_machine_close(machine);
}

/* No pass is faster than its bound; with a part in frames that is the link's time. */
static void test_matrix_bound(void **state)
{
	struct weir_machine_desc desc;

	(void)state;
	machine_of(&desc);
	for (int warm = 0; warm < 2; warm++) {
		for (uint64_t frames = MIB(1); frames >= MIB(1) / 4; frames /= 2) {
			struct weir_machine *machine = open_machine(WEIR_DATA_REAL);
			struct passes_held held = {.begin_bytes = warm ? frames : 0,
						   .end_bytes = frames};
			struct matrix_params p = usual;
			struct passes_result r = {0};
			double bound_s, over;
			char err[256];

			p.warm = warm;
			assert_int_equal(run(machine, "weir-paged", &p, frames, &r, err), 0);
			bound_s = matrix_bound_s(&desc, 0, &p, &held);
			for (uint32_t i = 0; i < r.nr_passes; i++)
				assert_true(r.pass_s[i] >= bound_s);
			over = (double)(2 * MIB(1) - frames - held.begin_bytes);
			if (over > 0)
				assert_true(fabs(bound_s - over / desc.link[0].a_to_b_bytes_per_s) <
					    1e-12);
			else
				assert_true(fabs(bound_s - (double)(2 * MIB(1)) / 106e9) < 1e-12);
			passes_result_free(&r);
			weir_machine_close(machine);
		}
	}
}

/* ------------------------------------------------------------------ refusals, failures */

static void refused(struct matrix_params p, const char *text)
{
	char err[256];

	assert_int_equal(matrix_params_check(&p, err, sizeof(err)), -EINVAL);
	assert_string_equal(err, text);
	assert_int_equal(matrix_params_check(&p, NULL, 0), -EINVAL);
}

#define WITH(field, value)         \
	({                         \
		p = usual;         \
		p.field = (value); \
		p;                 \
	})

static void test_matrix_refused(void **state)
{
	struct weir_machine *machine = open_machine(WEIR_DATA_PHANTOM);
	struct matrix_params p = usual;
	struct passes_result r = {0};
	char err[256];

	(void)state;
	assert_int_equal(matrix_params_check(&p, err, sizeof(err)), 0);
	refused(WITH(page_bytes, 4097), "mvt: pages have 4, 8, 16 or 64 KiB");
	refused(WITH(rows, 33), "mvt: rows come in multiples of 32, up to 262144");
	refused(WITH(rows, 0), "mvt: rows come in multiples of 32, up to 262144");
	refused(WITH(rows, MATRIX_SIZE_MAX + 32),
		"mvt: rows come in multiples of 32, up to 262144");
	refused(WITH(columns, 5 * 1024),
		"mvt: a row has whole pages, and up to 262144 columns of 4 bytes");
	refused(WITH(columns, 0),
		"mvt: a row has whole pages, and up to 262144 columns of 4 bytes");
	refused(WITH(warm_up, usual.passes), "mvt: no pass is left after the warm-up");
	refused(WITH(blocks, MATRIX_BLOCKS_MAX + 1), "mvt: a launch has up to 65536 blocks");
	refused(WITH(threads, 33),
		"mvt: a block has whole warps: a multiple of 32 threads, up to 512");
	refused(WITH(threads, 544),
		"mvt: a block has whole warps: a multiple of 32 threads, up to 512");
	refused(WITH(threads, 96),
		"mvt: a block has a warp for each 4 KiB of a page, or a multiple of them");
	refused(WITH(agents, 0), "mvt: 1 to 64 agents page on the CPU");
	refused(WITH(kind, MATRIX_KIND_NR), "matrix: no such workload");
	p = usual;
	assert_int_equal(run(machine, "weir-paged", &p, matrix_bytes(&p), &r, err), -ENOTSUP);
	assert_int_equal(run(machine, "native", &p, 0, &r, err), 0);
	assert_false(r.checked);
	passes_result_free(&r);
	/* More than the device has. */
	p.rows = 2048;
	assert_int_equal(run(machine, "native", &p, 0, &r, err), -ENOMEM);
	assert_memory_equal(err, "mvt: no memory for the matrix (33.554 MB)", 41);
	weir_machine_close(machine);
}

static int stop_at(void *arg, uint32_t done, uint32_t total)
{
	(void)total;
	return done == *(const uint32_t *)arg;
}

static void test_matrix_interrupted(void **state)
{
	uint32_t at = 2;
	struct weir_machine *machine = open_machine(WEIR_DATA_REAL);
	struct matrix_params p = usual;
	struct passes_result r = {0};
	char err[256];

	(void)state;
	p.kind = MATRIX_BICG;
	p.progress = stop_at;
	p.progress_arg = &at;
	assert_int_equal(run(machine, "weir-paged", &p, MIB(1), &r, err), -EINTR);
	assert_string_equal(err, "bicg: interrupted after 2 of 3 passes");
	weir_machine_close(machine);
}

/* Fail each call of a run in turn, usually every third one, and fewer if sanitized; it ends with
 * the error or goes well, and leaves nothing. */
static void faults(const char *name, const struct matrix_params *p)
{
	static const struct test_amount steps = {3, TEST_TSAN ? 61 : 13, 1};
	const uint64_t each = test_amount(NULL, steps);
	uint64_t nr_calls = 1;

	for (uint64_t at = 0; at <= nr_calls; at += at ? each : 1) {
		struct weir_machine_desc desc;
		struct backend *sim, *flaky;
		struct weir_machine *machine;
		struct passes_result r = {0};
		char err[256];
		int ret;

		machine_of(&desc);
		assert_int_equal(sim_create(&desc, WEIR_DATA_REAL, &sim), 0);
		assert_int_equal(flaky_create(sim, &flaky), 0);
		assert_int_equal(machine_wrap(flaky, &machine), 0);
		flaky_arm(flaky, at, -EIO);
		ret = run(machine, name, p, matrix_bytes(p) / 2, &r, err);
		if (!at)
			nr_calls = flaky_nr_calls(flaky);
		if ((ret && ret != -EIO) || (ret && !at))
			fail_msg("%s: call %llu: %d, %s", name, (unsigned long long)at, ret, err);
		if (!ret && !r.passed)
			fail_msg("%s: call %llu: %s", name, (unsigned long long)at, r.wrong);
		if (!ret)
			passes_result_free(&r);
		assert_int_equal(sim->ops->memory_used(sim, 0), 0);
		assert_int_equal(sim->ops->memory_used(sim, 1), 0);
		weir_machine_close(machine);
	}
	print_message("%s: %llu calls\n", name, (unsigned long long)nr_calls);
}

static void test_matrix_faults(void **state)
{
	struct matrix_params p = usual;

	(void)state;
	p.rows = 32;
	p.columns = 2048;
	p.passes = 2;
	for (size_t i = 0; i < NR_MANAGERS; i++)
		faults(managers[i], &p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_matrix_contents),
		cmocka_unit_test(test_matrix_balance),
		cmocka_unit_test(test_matrix_distinct),
		cmocka_unit_test(test_matrix_pages_differ),
		cmocka_unit_test(test_matrix_same),
		cmocka_unit_test(test_matrix_random),
		cmocka_unit_test(test_matrix_split),
		cmocka_unit_test(test_matrix_split_refused),
		cmocka_unit_test(test_matrix_wrong),
		cmocka_unit_test(test_matrix_pages),
		cmocka_unit_test(test_matrix_bound),
		cmocka_unit_test(test_matrix_refused),
		cmocka_unit_test(test_matrix_interrupted),
		cmocka_unit_test(test_matrix_faults),
	};

	return cmocka_run_group_tests_name("matrix", tests, NULL, NULL);
}
