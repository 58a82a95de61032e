/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA kernels on a matrix (workloads/matrix/cuda/sweep.cuh) on warps without a GPU: sums
 * against plain loops, by address and paged, with pages of one, two and four pieces, frames for a
 * few pages and for all, evicting and only filled; tasks of all lengths. How many accesses are in
 * place is not looked at: lanes are apart here when chance wants it.
 * tests/integration/paging_warps.sh runs it.
 */
#include "tests/gpu/paging.cuh"
#include "workloads/matrix/cuda/sweep.cuh"

#define ROWS_MAX 96u
#define COLUMNS_MAX 4096u
#define EXACT (1u << 24) / (81 * 3)

static uint32_t nr_failed;

static struct {
	std::vector<float> elements;
	struct matrix_args args;
	std::vector<int64_t> in, out, want;
} t;

/* Small whole numbers. */
static int64_t number(uint64_t i, uint64_t most)
{
	return (int64_t)((i * 0x9e3779b97f4a7c15ull >> 33) % (2 * most + 1)) - (int64_t)most;
}

static void matrix_begin(uint32_t rows, uint32_t columns, uint32_t exact, uint32_t threads)
{
	t.elements.resize((size_t)rows * columns);
	for (size_t i = 0; i < t.elements.size(); i++)
		t.elements[i] = (float)number(i, 81);
	t.args = {};
	t.args.elements = t.elements.data();
	t.args.rows = rows;
	t.args.columns = columns;
	t.args.exact = exact;
	t.args.threads = threads;
	t.in.resize(COLUMNS_MAX);
	t.out.resize(COLUMNS_MAX);
}

/* The vectors before a sweep, and what it has to make of them. */
static void sweep_begin(bool columns)
{
	const struct matrix_args *a = &t.args;

	for (uint32_t i = 0; i < COLUMNS_MAX; i++) {
		t.in[i] = number(i + 77, 3);
		t.out[i] = number(i, 1000);
	}
	t.want = t.out;
	for (uint32_t i = 0; i < a->rows; i++)
		for (uint32_t j = 0; j < a->columns; j++) {
			int64_t element = (int64_t)t.elements[(size_t)i * a->columns + j];

			t.want[columns ? j : i] += element * t.in[columns ? i : j];
		}
	t.args.in = t.in.data();
	t.args.out = t.out.data();
}

static void report(bool good, const char *what, const char *how, uint64_t nr)
{
	const struct matrix_args *a = &t.args;

	printf("%s - %s, %u x %u, exact %u, %u threads, %s %llu\n", good ? "ok" : "not ok", what,
	       a->rows, a->columns, a->exact, a->threads, how, (unsigned long long)nr);
	nr_failed += !good;
}

static void case_bare(uint32_t rows, uint32_t columns, uint32_t exact, uint32_t blocks,
		      uint32_t threads)
{
	bool good = true;

	matrix_begin(rows, columns, exact, threads);
	sweep_begin(false);
	LAUNCH(sweep_bare<false>, blocks, threads, t.args);
	good &= t.out == t.want;
	sweep_begin(true);
	LAUNCH(sweep_bare<true>, blocks, threads, t.args);
	good &= t.out == t.want;
	report(good, "bare", "blocks", blocks);
}

static bool paged_sweep(struct pool *pool, bool columns, uint32_t blocks)
{
	struct matrix_paged_args args = {};

	sweep_begin(columns);
	args.view = pool->view;
	args.matrix = t.args;
	args.matrix.elements = nullptr;
	if (columns)
		LAUNCH(sweep_paged<true>, blocks, t.args.threads, args);
	else
		LAUNCH(sweep_paged<false>, blocks, t.args.threads, args);
	pool_wait(pool, "sweep");
	return t.out == t.want && pool_right(pool) && !pool_counts(pool).nr[WEIR_PAGED_REFUSED];
}

static void case_paged(uint32_t page_shift, uint64_t nr_frames, bool fill_only, uint32_t blocks)
{
	const uint32_t nr_pieces = (1u << page_shift) / MATRIX_PIECE_BYTES;
	const uint32_t columns = MATRIX_PIECE * nr_pieces * (nr_pieces > 2 ? 1 : 2);
	struct pool pool;
	bool good = true;

	matrix_begin(64, columns, 32, 32 * nr_pieces);
	pool_create(&pool, page_shift, nr_frames);
	pool_range_add(&pool, t.elements.data(), t.elements.size() * sizeof(float), 1, true,
		       fill_only);
	for (int i = 0; i < 4; i++)
		good &= paged_sweep(&pool, i % 2, blocks);
	pool_destroy(&pool);
	report(good, fill_only ? "filled" : "evicting", "frames", nr_frames);
}

int main(void)
{
	case_bare(32, 1024, EXACT, 1, 32);
	case_bare(96, 2048, EXACT, 2, 64);
	case_bare(96, 3072, 32, 3, 96);
	case_bare(96, 1024, 64, 1, 64);
	for (uint32_t page_shift = 12; page_shift <= 14; page_shift++)
		for (int fill_only = 0; fill_only < 2; fill_only++) {
			case_paged(page_shift, 128, fill_only, 2);
			case_paged(page_shift, 40, fill_only, 2);
			case_paged(page_shift, 3, fill_only, 2);
		}
	printf("%u failed\n", nr_failed);
	return nr_failed ? 1 : 0;
}
