/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Alternating least squares: in each iteration all users' rows are computed from the items', then
 * all items' from the users'. Each device computes the rows it owns, and reads all of the other
 * side's. Under managers that send what is written a device has several launches, so that the
 * first rows are on their way while the others are computed.
 */
#include <math.h>

#include "src/base/util.h"
#include "workloads/solver/bound.h"
#include "workloads/solver/internal.h"

#define GROWTH_MAX (4 / 3.0)	/* of rows, from one launch to the next; 1 / GROWTH_MAX the least */
#define LATE_MAX 0.01		/* of all launches' time, that the last messages take */
#define RATINGS_PER_USER_LOG2 4 /* at least */

/* ------------------------------------------------------------------ ratings */

static uint32_t common_divisor(uint32_t a, uint32_t b)
{
	while (b) {
		uint32_t rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

/* Ranks go round the rows in steps of 0.618 of them, or the next that meets all of them. */
static struct ratings_side side_of(uint32_t nr)
{
	struct ratings_side side = {.nr = nr, .step = (uint32_t)(0.6180339887 * nr) + 1};
	int64_t back = 0, next = 1;
	uint32_t a = nr, b;

	while (common_divisor(side.step, nr) != 1)
		side.step++;
	/* Euclid: back * step is a modulo nr, next * step is b. */
	for (b = side.step % nr; b;) {
		const int64_t after = back - (int64_t)(a / b) * next;
		const uint32_t rest = a % b;

		back = next;
		next = after;
		a = b;
		b = rest;
	}
	side.back = (uint32_t)((back % nr + nr) % nr);
	return side;
}

struct ratings als_ratings(const struct solver_params *p)
{
	struct ratings ratings = {.log2 = RATINGS_PER_USER_LOG2,
				  .side = {side_of(p->shape.slices), side_of(p->shape.rows)}};

	while (UINT64_C(1) << ratings.log2 < (uint64_t)p->shape.slices << RATINGS_PER_USER_LOG2)
		ratings.log2++;
	return ratings;
}

/* Once for the right side of the equations, and once for each step. */
uint64_t als_random_bytes(const struct solver_params *p, uint32_t side, uint32_t nr_rows)
{
	const struct ratings ratings = als_ratings(p);
	const double all = (double)(UINT64_C(1) << ratings.log2);

	return (uint64_t)ceil(all * nr_rows / ratings.side[side].nr) * (1 + SOLVER_ALS_STEPS) *
	       SOLVER_WIDTH * sizeof(float);
}

/* ------------------------------------------------------------------ an iteration */

/* Some rows of a side, all of them a device's. */
static int compute(struct solver_job *job, uint32_t device, uint32_t side, uint32_t slice,
		   uint32_t first, uint32_t nr)
{
	struct solver_manager *m = job->m;
	const uint64_t row_bytes = SOLVER_WIDTH * sizeof(float);
	struct solver_als_args args = {
		.ratings = als_ratings(job->p),
		.side = side,
		.first = first,
		.nr = nr,
		.out = m->ops->at(m, side, device, first * row_bytes),
		.nr_parts = job->p->devices,
	};
	const struct solver_step step = {
		.device = device,
		.part = m->ops->split ? SOLVER_BOUNDARY : SOLVER_WHOLE,
		.slice = slice,
		.in_turn = true,
		.kernel = &solver_kernel_als,
		.args = &args,
		.args_bytes = sizeof(args),
		.use = {{.array = !side,
			 .bytes = solver_array_bytes(job->p, !side),
			 .kind = WEIR_READ,
			 .random_bytes = als_random_bytes(job->p, side, nr),
			 .granule = (uint32_t)row_bytes},
			{.array = side,
			 .offset = first * row_bytes,
			 .bytes = nr * row_bytes,
			 .kind = WEIR_OVERWRITE}},
		.nr_uses = 2,
	};

	for (uint32_t d = 0; d <= job->p->devices; d++)
		args.part_first[d] = solver_array_first(job->p, !side, d);
	for (uint32_t d = 0; d < job->p->devices; d++)
		args.part[d] = m->ops->at(m, !side, device, args.part_first[d] * row_bytes);
	return m->ops->step(m, &step);
}

/* How many times as many rows the next launch of a side has: as long as the messages of the one
 * before take, beside which it runs. So ports are idle until the first is done and no more where
 * messages take longest; where launches do, there is only the last one's message behind them. */
static double growth_of(double messages)
{
	return min_double(max_double(messages, 1 / GROWTH_MAX), GROWTH_MAX);
}

/* So many launches that the last one's messages take a hundredth of the time of all launches, and
 * no more: at a launch's end the device has little to do. */
static uint32_t launches_of(double messages)
{
	const double growth = growth_of(messages);
	double last = 1, all = 1;
	uint32_t nr = 1;

	while (nr < SOLVER_ALS_LAUNCHES && messages * last > LATE_MAX * all) {
		last *= growth;
		all += last;
		nr++;
	}
	return nr;
}

/* How a device's rows of a side are split into launches. */
static void plan_launches(struct solver_job *job, uint32_t side)
{
	const double messages = solver_als_messages(&job->m->backend->desc, job->p, side);

	job->growth[side] = growth_of(messages);
	job->nr_launches[side] = launches_of(messages);
}

/* All rows of a side; devices' launches in turn. */
static int side_compute(struct solver_job *job, uint32_t side)
{
	const uint32_t nr_launches = solver_launches(job, side);
	int err = 0;

	for (uint32_t i = 0; i < nr_launches; i++)
		for (uint32_t d = 0; d < job->p->devices && !err; d++) {
			const struct solver_part_slices part = solver_part_at(job, side, d, i);

			if (part.first < part.end)
				err = compute(job, d, side, i, part.first, part.end - part.first);
		}
	return err ? err : job->m->ops->iteration_end(job->m);
}

void als_iterate(struct solver_job *job)
{
	int err;

	for (uint32_t side = 0; side < 2 && job->m->ops->split && job->nr_done == 0; side++)
		plan_launches(job, side);
	err = side_compute(job, RATINGS_USERS);
	err = err ? err : side_compute(job, RATINGS_ITEMS);
	solver_did(job, err, "an iteration");
	job->nr_done++;
}
