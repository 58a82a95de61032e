/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The solvers' CUDA kernels (workloads/solver/cuda/stencil.cuh) on warps without a GPU, bit by bit
 * against plain loops: rows shorter than a warp, than a block and longer, fields of one slice and
 * of more than a thread's steps, launches of one range and of two whose slices' neighbours lie
 * elsewhere. tests/integration/paging_warps.sh runs it.
 */
#include "workloads/solver/cuda/stencil.cuh"

static uint32_t nr_failed;

static struct {
	struct solver_shape shape;
	bool flat;
	std::vector<float> in, want, out;
	std::vector<float> before, behind; /* of ranges that begin or end at a cut */
} t;

static float stepped(uint64_t at)
{
	const uint64_t row = t.shape.columns, plane = slice_elements(t.shape);
	const float *u = &t.in[at];
	float sum, slope;

	if (t.flat)
		return 0.25f * ((u[-(int64_t)row] + u[row]) + (u[-1] + u[1]));
	sum = ((u[-1] + u[1]) + (u[-(int64_t)row] + u[row])) + (u[-(int64_t)plane] + u[plane]);
	slope = ((u[1] - u[-1]) + (u[row] - u[-(int64_t)row])) + (u[plane] - u[-(int64_t)plane]);
	return (u[0] + 0.1f * (sum - 6.0f * u[0])) - (0.05f * u[0]) * slope;
}

static bool inside(uint64_t at)
{
	const uint64_t x = at % t.shape.columns, y = at / t.shape.columns % t.shape.rows;
	const uint64_t z = at / t.shape.columns / t.shape.rows;

	return x && x + 1 < t.shape.columns && z && z + 1 < t.shape.slices &&
	       (t.flat || (y && y + 1 < t.shape.rows));
}

static struct solver_range range_of(uint32_t first, uint32_t end)
{
	const uint64_t slice = slice_elements(t.shape);
	struct solver_range range = {first,   end - first, &t.in[first * slice],
				     nullptr, nullptr,	   &t.out[first * slice]};

	if (first)
		range.before = &t.before[(first - 1) * slice];
	if (end < t.shape.slices)
		range.behind = &t.behind[end * slice];
	return range;
}

static void launch(const struct solver_stencil_args &args)
{
	const struct tiles flat = TILES_JACOBI(args.shape), deep = TILES_DIFFUSION(args.shape);
	const struct tiles tiles = t.flat ? flat : deep;
	uint32_t steps = 0;

	for (uint32_t i = 0; i < args.nr_ranges; i++)
		steps += STEPS_OF(args.range[i], t.flat ? STEPS_JACOBI : STEPS_DIFFUSION);
	if (t.flat)
		LAUNCH(jacobi, steps * tiles.along_columns * tiles.along_rows, BLOCK_THREADS, args);
	else
		LAUNCH(diffusion, steps * tiles.along_columns * tiles.along_rows, BLOCK_THREADS,
		       args);
}

/* The numbers of two parts add up to that of the whole. */
static bool hashes_add_up()
{
	const uint64_t slice = slice_elements(t.shape);
	uint64_t sum = 0, want = 0;

	for (uint64_t i = 0; i < t.out.size(); i++)
		want += point_hash(i, t.out[i]);
	for (uint32_t first = 0; first < t.shape.slices; first += (t.shape.slices + 1) / 2) {
		struct solver_hash_args args = {t.shape, {}, &sum};

		args.range.first = first;
		args.range.nr = min((t.shape.slices + 1) / 2, t.shape.slices - first);
		args.range.in = &t.out[first * slice];
		LAUNCH(hash, 2, 64, args);
	}
	return sum == want;
}

/* Cut in three: the outer parts in one launch, the middle one in another. */
static void field(uint32_t slices, uint32_t rows, uint32_t columns, bool flat, uint32_t cut,
		  uint32_t second_cut)
{
	struct solver_fill_args fill_args = {};
	struct solver_stencil_args args = {};
	bool good;

	t.shape = {slices, rows, columns};
	t.flat = flat;
	t.in.assign(slices * slice_elements(t.shape), -1);
	fill_args.shape = t.shape;
	fill_args.range = {0, slices, nullptr, nullptr, nullptr, t.in.data()};
	LAUNCH(fill, 2, 64, fill_args);
	good = true;
	for (uint64_t i = 0; i < t.in.size(); i++)
		good &= t.in[i] == point_begin(i);
	t.before = t.behind = t.want = t.in;
	t.out.assign(t.in.size(), -1);
	for (uint64_t i = 0; i < t.in.size(); i++)
		t.want[i] = inside(i) ? stepped(i) : t.in[i];
	args.shape = t.shape;
	if (cut == second_cut) {
		args.nr_ranges = 1;
		args.range[0] = range_of(0, slices);
		launch(args);
	} else {
		args.nr_ranges = 2;
		args.range[0] = range_of(0, cut);
		args.range[1] = range_of(second_cut, slices);
		launch(args);
		args.nr_ranges = 1;
		args.range[0] = range_of(cut, second_cut);
		launch(args);
	}
	good &= !memcmp(t.out.data(), t.want.data(), t.out.size() * sizeof(float));
	good &= hashes_add_up();
	printf("%s - %s, %u x %u x %u, cut at %u and %u\n", good ? "ok" : "not ok",
	       flat ? "jacobi" : "diffusion", slices, rows, columns, cut, second_cut);
	nr_failed += !good;
}

int main(void)
{
	field(1, 1, 4, true, 0, 0);
	field(5, 1, 8, true, 1, 4);
	field(40, 1, 132, true, 0, 0);
	field(37, 1, 1028, true, 1, 36);
	field(18, 1, 2300, true, 16, 17);
	field(1, 1, 4, false, 0, 0);
	field(3, 3, 4, false, 1, 2);
	field(5, 9, 132, false, 0, 0);
	field(6, 17, 260, false, 1, 5);
	field(35, 8, 12, false, 32, 33);
	field(68, 2, 64, false, 1, 67);
	printf("%u failed\n", nr_failed);
	return nr_failed ? 1 : 0;
}
