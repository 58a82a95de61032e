/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests of chunks that change hands while launches still use them: a space whose HBM is full,
 * brackets that read long after they have ended for the program, and a program in which one range
 * ends while it is being read and another is born.
 */
#ifndef WEIR_TEST_SPACE_LATE_H
#define WEIR_TEST_SPACE_LATE_H

#include "src/backend/machine.h"
#include "src/residency/residency.h"
#include "tests/support/space.h"

#define BLOCK KIB(16)

/* Of HBM. What dies has all of it, what is born a block less, so that it is another range. */
#define HBM_BLOCKS 6u
#define X_BYTES (6 * BLOCK)
#define Y_BYTES (5 * BLOCK)

/* Iterations after which any repetition of a few events is known, and its plans are settled. */
#define WARM_UP 12u

/* Device time of a launch that others queue behind: more than all mapping calls of an iteration. */
#define SPIN_NS 2000000u

/* How much larger things are where more is stale than progress drops at once. */
#define LARGE 8u

/* Times that long brackets say they read: what is read so often is not used in place. */
#define MUCH 1000u

/* ------------------------------------------------------------------ brackets */

static inline void spin_cpu(const void *args)
{
	(void)args;
}

static const struct weir_kernel spin_kernel = {.name = "spin", .cpu = spin_cpu};

/* A long launch that may read the range at any time, which is trapped if its mappings change. */
static inline int do_spin_try(struct test_space *t, uint32_t stream, void *addr, uint64_t bytes)
{
	struct weir_use use = use_of(addr, bytes, WEIR_READ);
	struct weir_launch launch = {.kernel = &spin_kernel, .uses = &use, .nr_uses = 1};

	use.read_bytes = 0;
	launch.ops = (double)SPIN_NS * t->desc.device[0].ops_per_s / 1e9;
	return weir_stream_launch(t->stream[stream], &launch);
}

/* A launch that only takes time. */
static inline void do_spin(struct test_space *t, uint32_t stream, uint64_t ns)
{
	struct weir_launch launch = {.kernel = &spin_kernel};

	launch.ops = (double)ns * t->desc.device[0].ops_per_s / 1e9;
	assert_int_equal(weir_stream_launch(t->stream[stream], &launch), 0);
}

static inline void do_begin_uses(struct test_space *t, uint32_t stream, const struct weir_use *uses,
				 uint32_t nr)
{
	assert_int_equal(weir_begin(t->space, t->stream[stream], uses, nr), 0);
	do_check(t);
}

/* A bracket that reads, long after it has ended for the program. */
static inline void do_expect_late(struct test_space *t, uint32_t stream, void *addr, uint64_t bytes,
				  uint32_t seed)
{
	struct weir_use use = use_of(addr, bytes, WEIR_READ);

	use.read_bytes *= MUCH;
	do_begin_uses(t, stream, &use, 1);
	assert_int_equal(do_spin_try(t, stream, addr, bytes), 0);
	do_launch(t, stream, addr, bytes, WEIR_READ, seed, 0);
	do_end(t, stream);
}

/* Begin a bracket that overwrites all of y and discards a part of something else. */
static inline void do_begin_discarding(struct test_space *t, void *y, uint64_t bytes, void *part,
				       uint64_t part_bytes)
{
	struct weir_use uses[2] = {use_of(y, bytes, WEIR_OVERWRITE),
				   use_of(part, part_bytes, WEIR_DISCARD)};

	do_begin_uses(t, 0, uses, 2);
}

/* The rest of a bracket that overwrites y. */
static inline void do_fill_and_end(struct test_space *t, void *y, uint64_t bytes, uint32_t seed)
{
	do_launch(t, 0, y, bytes, WEIR_OVERWRITE, 0, seed);
	do_end(t, 0);
}

/* ------------------------------------------------------------------ looking */

static inline fence_t get_fence(struct test_space *t, uint32_t stream)
{
	fence_t fence = 0;

	assert_int_equal(
		t->backend->ops->fence_record(t->backend, stream_id(t->stream[stream]), &fence), 0);
	return fence;
}

static inline bool is_reached(struct test_space *t, fence_t fence)
{
	int done = t->backend->ops->fence_done(t->backend, fence);

	assert_true(done >= 0);
	return done != 0;
}

static inline uint32_t get_stale(struct test_space *t, const void *addr)
{
	const struct range *range = range_find(t->space, addr);

	assert_non_null(range);
	return range->nr_stale;
}

static inline bool has_plan(const struct test_space *t)
{
	return t->space->residency->planner->plan != NULL;
}

/* Blocks that were copied out so far. */
static inline uint64_t get_out(struct test_space *t)
{
	struct weir_space_stats stats = get_stats(t);

	return get_copied(t, &stats, BACKEND_TO_HOST) / BLOCK;
}

/* Blocks that have crossed the link so far, copied or used in place. */
static inline uint64_t get_crossed(struct test_space *t)
{
	struct weir_space_stats stats = get_stats(t);
	uint64_t bytes = 0;

	for (int d = 0; d < BACKEND_DIRECTION_NR; d++)
		for (int cause = 0; cause < WEIR_CAUSE_NR; cause++)
			bytes += get_bytes(t, &stats, (enum backend_direction)d,
					   (enum weir_cause)cause);
	return bytes / BLOCK;
}

/* ------------------------------------------------------------------ one dies, one is born */

/* How x ends: before y is born, in the bracket that y is born in, after it. */
enum death { FREED, DISCARDED, FREED_LATE };

/* A program in which x ends while it is being read, and y is born. */
struct hand_over {
	struct test_space t;
	enum death death;
	uint64_t x_bytes, y_bytes;
	uint8_t *x, *y;
	fence_t read; /* reached when x has been read */
};

static inline void open_scaled(struct test_space *t, uint32_t scale)
{
	test_space_open(t, WEIR_DATA_REAL, WEIR_PLANNED, BLOCK, HBM_BLOCKS * scale, 16 * scale);
	t->space->residency->trials = false;
}

/* x lives and dies, and the bracket that y is born in begins while x is being read. */
static inline void do_begin_birth(struct hand_over *h, uint32_t seed)
{
	struct test_space *t = &h->t;

	h->x = do_alloc(t, h->x_bytes, 0);
	do_fill(t, 0, h->x, h->x_bytes, seed);
	do_expect_late(t, 0, h->x, h->x_bytes, seed);
	h->read = get_fence(t, 0);
	if (h->death == FREED)
		do_free(t, h->x, 0);
	h->y = do_alloc(t, h->y_bytes, 0);
	if (h->death == DISCARDED)
		do_begin_discarding(t, h->y, h->y_bytes, h->x, h->x_bytes);
	else
		do_begin(t, 0, h->y, h->y_bytes, WEIR_OVERWRITE);
}

static inline void do_end_birth(struct hand_over *h, uint32_t seed)
{
	do_fill_and_end(&h->t, h->y, h->y_bytes, seed);
	if (h->death != FREED)
		do_free(&h->t, h->x, 0);
}

/* y is read, and freed. */
static inline void do_die(struct hand_over *h, uint32_t seed)
{
	do_expect_late(&h->t, 0, h->y, h->y_bytes, seed);
	do_free(&h->t, h->y, 0);
}

/* A space in which this has gone on for a while, one at a time. */
static inline void open_hand_over(struct hand_over *h, uint32_t scale, enum death death)
{
	*h = (struct hand_over){
		.death = death, .x_bytes = X_BYTES * scale, .y_bytes = Y_BYTES * scale};
	open_scaled(&h->t, scale);
	for (uint32_t i = 0; i < WARM_UP; i++) {
		do_begin_birth(h, 1000 + i);
		do_end_birth(h, 2000 + i);
		do_die(h, 2000 + i);
		do_sync(&h->t);
	}
	assert_true(has_plan(&h->t));
}

#endif
