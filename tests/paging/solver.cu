/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The solvers' CUDA kernels (workloads/solver/cuda/) on warps without a GPU, bit by bit against
 * plain loops: rows shorter than a warp, than a block and longer, fields of one slice and of more
 * than a thread's steps, launches of one range and of two whose slices' neighbours lie elsewhere;
 * of als rows of few ratings, and of many, which a block adds, read from two parts; of pagerank
 * and sssp rows of no edge, of some, of so many that a whole block adds them, and of up to 34
 * pieces, of which the last one is whole, or has one edge or some.
 * tests/integration/paging_warps.sh runs it.
 */
#define RATINGS_LONG 24u
#include "workloads/solver/cuda/als.cuh"
#include "workloads/solver/cuda/graph.cuh"

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

/* ---- als */

static float plain_dot(const float *x, const float *y)
{
	float sum[SOLVER_WIDTH];

	for (uint32_t i = 0; i < SOLVER_WIDTH; i++)
		sum[i] = x[i] * y[i];
	for (uint32_t half = SOLVER_WIDTH / 2; half; half /= 2)
		for (uint32_t i = 0; i < half; i++)
			sum[i] += sum[i + half];
	return sum[0];
}

/* Rows of a row's ratings, weighted by these, or by their products with `by`; those of the first
 * ranks eighth by eighth. */
static void plain_add(const struct ratings &r, uint32_t side, uint32_t row, const float *others,
		      const float *by, float *sum)
{
	const uint32_t rank = ratings_rank(&r.side[side], row), parts = rank < 24 ? 8 : 1;
	const uint64_t first = ratings_begin(&r, side, rank);
	const uint64_t nr = ratings_begin(&r, side, rank + 1) - first;

	for (uint32_t k = 0; k < parts; k++) {
		float part[SOLVER_WIDTH] = {}, *to = parts > 1 ? part : sum;

		for (uint64_t e = first + nr * k / parts; e < first + nr * (k + 1) / parts; e++) {
			float weight;
			const float *y =
				others + ratings_other(&r, side, e, &weight) * SOLVER_WIDTH;

			weight = by ? plain_dot(y, by) : weight;
			for (uint32_t i = 0; i < SOLVER_WIDTH; i++)
				to[i] += weight * y[i];
		}
		for (uint32_t i = 0; i < SOLVER_WIDTH && parts > 1; i++)
			sum[i] += part[i];
	}
}

static void plain_row(const struct ratings &r, uint32_t side, uint32_t row, const float *others,
		      float *x)
{
	float left[SOLVER_WIDTH] = {}, way[SOLVER_WIDTH], image[SOLVER_WIDTH];

	plain_add(r, side, row, others, nullptr, left);
	memcpy(way, left, sizeof(way));
	for (uint32_t step = 0; step < SOLVER_ALS_STEPS && plain_dot(left, left) > 0; step++) {
		const float square = plain_dot(left, left);
		float length, more;

		for (uint32_t i = 0; i < SOLVER_WIDTH; i++)
			image[i] = POINT_RIDGE * way[i];
		plain_add(r, side, row, others, way, image);
		length = square / plain_dot(way, image);
		for (uint32_t i = 0; i < SOLVER_WIDTH; i++) {
			x[i] += length * way[i];
			left[i] += -length * image[i];
		}
		more = plain_dot(left, left) / square;
		for (uint32_t i = 0; i < SOLVER_WIDTH; i++)
			way[i] = left[i] + more * way[i];
	}
}

/* All rows of a side, from the other's in two parts. step * back is 1 modulo nr. */
static void factor(struct ratings r, uint32_t side)
{
	const uint32_t nr = r.side[side].nr, others = r.side[!side].nr, cut = others / 3;
	std::vector<float> in(others * SOLVER_WIDTH), out(nr * SOLVER_WIDTH, -1), want(out.size());
	std::vector<float> behind;
	struct solver_als_args args = {};
	bool good;

	for (uint32_t i = 0; i < in.size(); i++)
		in[i] = point_begin(i);
	behind.assign(in.begin() + cut * SOLVER_WIDTH, in.end());
	args.ratings = r;
	args.side = side;
	args.nr_parts = 2;
	args.part_first[1] = cut;
	args.part_first[2] = others;
	args.part[0] = in.data();
	args.part[1] = behind.data();
	for (args.first = 0; args.first < nr; args.first += args.nr) {
		args.nr = min(nr - args.first, 29u);
		args.out = &out[args.first * SOLVER_WIDTH];
		LAUNCH(als, ALS_BLOCKS(args), BLOCK_THREADS, args);
	}
	for (uint32_t row = 0; row < nr; row++)
		plain_row(r, side, row, in.data(), &want[row * SOLVER_WIDTH]);
	good = !memcmp(out.data(), want.data(), out.size() * sizeof(float));
	printf("%s - als, %u rows from %u\n", good ? "ok" : "not ok", nr, others);
	nr_failed += !good;
}

/* ---- graphs */

/* Rows of these many edges, again and again; the vector in two parts. */
static const uint32_t degrees[] = {0,	 1,    2,    31,   32,	  33,	 700,	1024,
				   1025, 3000, 8192, 8193, 16384, 40000, 270341};

struct plain_rows {
	std::vector<uint64_t> offset;
	std::vector<uint32_t> neighbour;
	std::vector<float> in, behind;
	std::vector<struct solver_piece> piece;
	struct solver_rows rows;
	struct solver_vector vector;
};

/* Of a row that is behind nr others. */
static void plain_pieces(struct plain_rows *r, uint32_t nr, uint32_t degree)
{
	for (uint32_t i = 0; i * 8192 < degree && degree > 8192; i++)
		r->piece.push_back({77 + nr, i, -5, 0});
}

static void plain_rows_make(struct plain_rows *r, uint32_t nr, uint64_t edges_before)
{
	const uint32_t n = 5000, cut = 1700;

	r->offset.assign(1, edges_before);
	r->neighbour.clear();
	r->piece.clear();
	for (uint32_t row = 0; row < nr; row++) {
		const uint32_t degree = degrees[row * 4 % 15];

		for (uint32_t i = 0; i < degree; i++)
			r->neighbour.push_back((uint32_t)(point_mix(r->neighbour.size()) % n));
		r->offset.push_back(r->offset.back() + degree);
		plain_pieces(r, row, degree);
	}
	r->in.resize(n);
	for (uint32_t i = 0; i < n; i++)
		r->in[i] = point_begin(i);
	r->behind.assign(r->in.begin() + cut, r->in.end());
	r->rows = {77,
		   nr,
		   r->offset.data(),
		   r->neighbour.data(),
		   nullptr,
		   r->neighbour.size(),
		   r->piece.data(),
		   (uint32_t)r->piece.size()};
	r->vector.nr_parts = 2;
	r->vector.part_first[0] = 0;
	r->vector.part_first[1] = cut;
	r->vector.part_first[2] = n;
	r->vector.part[0] = r->in.data();
	r->vector.part[1] = r->behind.data();
}

/* Every lanes-th value in a sum, and halves of these onto each other. */
static float plain_sum(const std::vector<float> &values, uint64_t lanes)
{
	std::vector<float> sum(lanes);

	for (uint64_t i = 0; i < values.size(); i++)
		sum[i % lanes] += values[i];
	for (uint64_t half = lanes / 2; half; half /= 2)
		for (uint64_t i = 0; i < half; i++)
			sum[i] += sum[i + half];
	return sum[0];
}

static float plain_rank(const struct plain_rows &r, uint32_t row, float base, float damping)
{
	std::vector<float> values, pieces;

	for (uint64_t e = r.offset[row] - r.offset[0]; e < r.offset[row + 1] - r.offset[0]; e++)
		values.push_back(r.in[r.neighbour[e]]);
	for (uint64_t at = 0; at < values.size() && values.size() > 1024; at += 8192)
		pieces.push_back(plain_sum(
			{values.begin() + (ptrdiff_t)at,
			 values.begin() + (ptrdiff_t)std::min<uint64_t>(at + 8192, values.size())},
			256));
	return values.empty() ? 0
			      : (base + damping * plain_sum(pieces.empty() ? values : pieces, 32)) /
					(float)values.size();
}

/* What a launch leaves for the next one. */
static bool pieces_are_as_before(const struct plain_rows &r)
{
	bool good = !r.piece.empty();

	for (const struct solver_piece &piece : r.piece)
		good &= !piece.nr_done;
	return good;
}

static void ranks(uint32_t nr, bool begins)
{
	struct solver_pagerank_args args = {};
	std::vector<float> out(nr, -1);
	struct plain_rows r;
	bool good = true;

	plain_rows_make(&r, nr, 123);
	args.rows = r.rows;
	args.in = r.vector;
	args.base = 0.01f;
	args.damping = 0.85f;
	args.out = out.data();
	if (begins)
		args.in.nr_parts = 0;
	for (int again = 0; again < 2; again++) {
		out.assign(nr, -1);
		LAUNCH(pagerank, ROWS_BLOCKS(args.rows), BLOCK_THREADS, args);
		good &= pieces_are_as_before(r);
	}
	if (begins)
		r.in.assign(r.in.size(), 0);
	for (uint32_t row = 0; row < nr; row++)
		good &= out[row] == plain_rank(r, row, args.base, args.damping);
	printf("%s - pagerank, %u rows%s\n", good ? "ok" : "not ok", nr,
	       begins ? " that begin" : "");
	nr_failed += !good;
}

static void distances(uint32_t nr)
{
	struct solver_relax_args args = {};
	struct solver_commit_args commits = {};
	std::vector<uint32_t> changed((nr + 7) / 8, 5), want = changed;
	std::vector<float> next(nr, -1), out(nr + 9, -1);
	std::vector<uint8_t> weight;
	struct plain_rows r;
	bool good = true;

	plain_rows_make(&r, nr, 123);
	for (uint32_t e = 0; e < r.neighbour.size(); e++)
		weight.push_back((uint8_t)(1 + point_mix(e) % 255));
	for (uint32_t v = 0; v < r.in.size(); v++)
		r.in[v] = v % 3 ? HUGE_VALF : (float)(300 + v % 1000);
	r.behind.assign(r.in.begin() + 1700, r.in.end());
	args.rows = r.rows;
	args.rows.weight = weight.data();
	args.in = r.vector;
	args.next = next.data();
	args.changed = changed.data();
	args.block_log2 = 3;
	args.round = 9;
	LAUNCH(relax, ROWS_BLOCKS(args.rows), BLOCK_THREADS, args);
	for (uint32_t row = 0; row < nr; row++) {
		const float own = r.in[r.rows.first + row];
		float least = own;

		for (uint64_t e = r.offset[row] - 123; e < r.offset[row + 1] - 123; e++)
			least = std::min(least, r.in[r.neighbour[e]] + (float)weight[e]);
		good &= next[row] == least;
		if (least < own)
			want[row / 8] = 9;
	}
	good &= changed == want && pieces_are_as_before(r);
	/* Two ranges, and a beginning between them. */
	commits.nr_ranges = 3;
	commits.range[0] = {&next[0], &out[0], 0, 10};
	commits.range[1] = {nullptr, &out[10], 40, 9};
	commits.range[2] = {&next[10], &out[19], 10, nr - 10};
	commits.source = 42;
	LAUNCH(commit, 2, 64, commits);
	for (uint32_t i = 0; i < nr + 9; i++)
		good &= out[i] == (i < 10    ? next[i]
				   : i >= 19 ? next[i - 9]
				   : i == 12 ? 0
					     : HUGE_VALF);
	printf("%s - sssp, %u rows\n", good ? "ok" : "not ok", nr);
	nr_failed += !good;
}

int main(void)
{
	const struct ratings few = {8, {{40, 27, 3}, {7, 5, 3}}};
	/* More users than those whose rows begin first. */
	const struct ratings many = {12, {{1500, 7, 643}, {11, 5, 9}}};

	factor(few, RATINGS_USERS);
	factor(few, RATINGS_ITEMS);
	factor(many, RATINGS_USERS);
	ranks(64, false);
	ranks(21, false);
	ranks(40, true);
	distances(70);

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
