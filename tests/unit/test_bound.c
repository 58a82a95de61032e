/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recording of traces, and the lower bound where it is known what it must be. That it never
 * exceeds a possible run is the property test's part, tests/property/test_bound_brute.c.
 */
#include <errno.h>
#include <stdlib.h>

#include "tests/unit/test_bound_machine.h"
#include "workloads/bound_dual.h"
#include "workloads/bound_soft.h"

#define NR_SLICES UINT64_C(60)

static const uint64_t near_10_gb[WEIR_MEMORIES_MAX] = {[2] = 10 * GB};

static double bound(const struct trace *trace, const struct weir_machine_desc *d, uint64_t budget,
		    struct bound_result *r)
{
	assert_int_equal(bound_compute(trace, d, 0, budget, NULL, r), 0);
	assert_true(r->bound_s >= r->compute_s);
	assert_true(r->bound_s >= fmax(r->brackets_s, r->prices_s));
	return r->bound_s;
}

/* ------------------------------------------------------------------ recording */

static void test_trace_records(void **state)
{
	struct manager *m = tracer();
	char *before = alloc(m, 3 * MB), *inside;
	struct weir_use uses[2];
	struct trace *t;

	(void)state;
	uses[0] = stream(before, MB, WEIR_READ);
	launch(m, uses, 1, 0); /* not recorded */
	assert_int_equal(trace_manager_start(m), 0);
	launch(m, uses, 1, 0);
	inside = alloc(m, MB);
	uses[0] = stream(before + MB, MB, WEIR_WRITE);
	uses[1] = (struct weir_use){.addr = inside,
				    .bytes = MB,
				    .kind = WEIR_OVERWRITE,
				    .pattern = WEIR_RANDOM,
				    .write_bytes = 7,
				    .granule = 64};
	launch(m, uses, 2, 5e9);
	assert_int_equal(m->ops->write(m, before, NULL, 8), 0);
	m->ops->free(m, inside);
	assert_int_equal(m->ops->check(m), 0);
	t = stop(m);
	launch(m, uses, 1, 0); /* not recorded */

	assert_int_equal(t->nr_lives, 2);
	assert_int_equal(t->lives[0].birth, TRACE_NEVER);
	assert_int_equal(t->lives[0].death, TRACE_NEVER);
	assert_int_equal(t->lives[0].bytes, 3 * MB);
	assert_int_equal(t->lives[1].birth, 1);
	assert_int_equal(t->lives[1].death, 3);
	assert_int_equal(t->nr_steps, 3);
	assert_int_equal(t->nr_uses, 4);
	assert_string_equal(t->steps[1].name, "kernel");
	assert_true(t->steps[1].ops == 5e9);
	assert_int_equal(t->steps[1].first_use, 1);
	assert_int_equal(t->uses[1].offset, MB);
	assert_int_equal(t->uses[2].life, 1);
	assert_int_equal(t->uses[2].granule, 64);
	assert_int_equal(t->uses[2].write_bytes, 7);
	assert_null(t->steps[2].name);
	assert_int_equal(t->uses[3].kind, WEIR_DISCARD);
	assert_int_equal(t->uses[3].bytes, 8);
	trace_destroy(t);
	m->ops->destroy(m);
}

static void test_trace_calls_out_of_order(void **state)
{
	struct manager *m = tracer();
	struct trace *t;

	(void)state;
	assert_int_equal(trace_manager_stop(m, &t), -EINVAL);
	assert_int_equal(trace_manager_start(m), 0);
	assert_int_equal(trace_manager_start(m), -EBUSY);
	m->ops->destroy(m); /* with the record */
	trace_destroy(NULL);
}

static void test_trace_unknown_memory(void **state)
{
	struct manager *m = tracer();
	char *addr = alloc(m, MB);
	struct weir_use use = stream(addr + MB - 1, 2, WEIR_READ);
	struct trace *t;

	(void)state;
	assert_int_equal(trace_manager_start(m), 0);
	launch(m, &use, 1, 0);
	assert_int_equal(trace_manager_stop(m, &t), -EINVAL);
	/* and it can start again */
	assert_int_equal(trace_manager_start(m), 0);
	trace_destroy(stop(m));
	m->ops->destroy(m);
}

/* An inner manager that refuses everything and knows when it was destroyed. */
struct refusing {
	struct manager base;
	int *nr_destroyed;
};

static void refuse_destroy(struct manager *m)
{
	++*((struct refusing *)m)->nr_destroyed;
}

static int refuse_alloc(struct manager *m, uint64_t bytes, const char *name, void **addr)
{
	(void)m;
	(void)bytes;
	(void)name;
	(void)addr;
	return -ENOMEM;
}

static int refuse_launch(struct manager *m, const struct weir_launch *l)
{
	(void)m;
	(void)l;
	return -EIO;
}

static int refuse_write(struct manager *m, void *addr, const void *data, uint64_t bytes)
{
	(void)m;
	(void)addr;
	(void)data;
	(void)bytes;
	return -EIO;
}

static void test_trace_forwards_errors(void **state)
{
	static const struct manager_ops ops = {.destroy = refuse_destroy,
					       .alloc = refuse_alloc,
					       .launch = refuse_launch,
					       .write = refuse_write};
	const struct weir_launch l = {.kernel = &test_kernel};
	int nr_destroyed = 0;
	struct refusing inner = {{.ops = &ops}, &nr_destroyed};
	struct manager *m;
	struct trace *t;
	void *addr;

	(void)state;
	assert_int_equal(trace_manager_create(&inner.base, &m), 0);
	assert_int_equal(trace_manager_start(m), 0);
	assert_int_equal(m->ops->alloc(m, 1, "test", &addr), -ENOMEM);
	assert_int_equal(m->ops->launch(m, &l), -EIO);
	assert_int_equal(m->ops->write(m, NULL, NULL, 1), -EIO);
	t = stop(m);
	assert_int_equal(t->nr_steps, 0);
	assert_int_equal(t->nr_lives, 0);
	trace_destroy(t);
	m->ops->destroy(m);
	assert_int_equal(nr_destroyed, 1);
}

static void test_trace_many_lives(void **state)
{
	struct manager *m = tracer();
	void *addr[300];
	struct trace *t;

	(void)state;
	assert_int_equal(trace_manager_start(m), 0);
	for (uint32_t i = 0; i < 300; i++)
		addr[i] = alloc(m, 1 + i);
	for (uint32_t i = 0; i < 300; i++) {
		uint32_t k = i * 7 % 300;
		struct weir_use use = stream(addr[k], 1 + k, WEIR_READ);

		launch(m, &use, 1, 0);
		m->ops->free(m, addr[k]);
		assert_int_equal(m->ops->check(m), 0);
	}
	t = stop(m);
	for (uint32_t i = 0; i < 300; i++)
		assert_int_equal(t->uses[i].life, i * 7 % 300);
	trace_destroy(t);
	m->ops->destroy(m);
}

static void test_trace_check_refuses(void **state)
{
	struct trace_life life = {.bytes = 100, .birth = 0, .death = 1};
	struct trace_use use = {.life = 0, .offset = 50, .bytes = 50};
	struct trace_step step = {.name = "kernel", .nr_uses = 1};
	struct trace t = {.steps = &step,
			  .uses = &use,
			  .lives = &life,
			  .nr_steps = 1,
			  .nr_uses = 1,
			  .nr_lives = 1};

	(void)state;
#define REFUSED(field, value)                               \
	do {                                                \
		__typeof__(field) kept = (field);           \
		assert_int_equal(trace_check(&t), 0);       \
		(field) = (value);                          \
		assert_int_equal(trace_check(&t), -EINVAL); \
		(field) = kept;                             \
	} while (0)
	REFUSED(life.bytes, 0);
	REFUSED(life.bytes, 99);
	REFUSED(life.birth, 1);
	REFUSED(life.death, 0);
	REFUSED(use.life, 1);
	REFUSED(use.bytes, 0);
	REFUSED(use.bytes, UINT64_MAX);
	REFUSED(use.offset, UINT64_MAX);
	REFUSED(use.kind, (enum weir_use_kind)4);
	REFUSED(use.pattern, (enum weir_use_pattern)2);
	REFUSED(step.nr_uses, 0);
	REFUSED(step.nr_uses, 2);
	REFUSED(step.first_use, 1);
	REFUSED(step.ops, -1);
	REFUSED(step.ops, NAN);
	REFUSED(step.compute_ns, INFINITY);
	REFUSED(t.nr_uses, TRACE_NEVER);
#undef REFUSED
}

/* ------------------------------------------------------------------ the bound */

static void test_bound_bad_arguments(void **state)
{
	struct weir_machine_desc d;
	struct bound_result r;
	struct trace_use use = {.life = 7, .bytes = 1};
	struct trace_step step = {.nr_uses = 1};
	struct trace bad = {.steps = &step, .uses = &use, .nr_steps = 1, .nr_uses = 1};
	struct trace empty = {0};

	(void)state;
	machine(&d);
	assert_int_equal(bound_compute(&bad, &d, 0, 0, NULL, &r), -EINVAL);
	assert_int_equal(bound_compute(&empty, &d, 1, 0, NULL, &r), -EINVAL);
	d.nr_links = 0;
	assert_int_equal(bound_compute(&empty, &d, 0, 0, NULL, &r), -WEIR_EMACHINE);
	machine(&d);
	assert_int_equal(bound_compute(&empty, &d, 0, 0, NULL, &r), 0);
	assert_true(r.bound_s == 0);
	assert_string_equal(bound_part_name(BOUND_BY_PRICES), "prices");
	assert_string_equal(bound_part_name((enum bound_part)99), "unknown");
}

/* Launches on what fits: a third each of streaming, arithmetic and nothing but the launch. */
static struct trace *fitting_trace(void)
{
	struct manager *m = tracer();
	char *x = alloc(m, 3 * GB), *y = alloc(m, 3 * GB);
	struct trace *t;

	assert_int_equal(trace_manager_start(m), 0);
	for (uint32_t i = 0; i < 30; i++) {
		const struct weir_use uses[] = {stream(x, 3 * GB, WEIR_READ),
						stream(y, 3 * GB, WEIR_OVERWRITE)};

		launch(m, uses, 2, 0);
		launch(m, uses, 2, 1e12);
		launch(m, NULL, 0, 0);
	}
	t = stop(m);
	m->ops->destroy(m);
	return t;
}

/* All that fits takes the kernels' time, however fast the link. */
static void test_bound_fits(void **state)
{
	struct trace *t = fitting_trace();
	double expected = 30 * (6e9 / 1500e9 + 1e12 / 60e12 + 2e-6);
	struct weir_machine_desc d;
	struct bound_result r;

	(void)state;
	machine(&d);
	assert_near(bound(t, &d, 0, &r), expected, 1e-6);
	assert_true(r.bound_s <= expected);
	assert_true(r.bound_s == r.compute_s);
	assert_int_equal(r.part, BOUND_BY_COMPUTE);
	/* HBM time does not depend on where bytes are: less budget cannot take less time. */
	assert_true(bound(t, &d, GB, &r) >= r.compute_s);
	trace_destroy(t);
}

/* A kernel's factor counts in its time in HBM, where no time was measured. */
static void test_bound_factor(void **state)
{
	struct trace *t = fitting_trace();
	struct weir_machine_desc d;
	struct bound_result plain, r;

	(void)state;
	machine(&d);
	(void)bound(t, &d, 0, &plain);
	d.nr_kernels = 1;
	d.kernel[0] = (struct weir_kernel_rate){"kernel", 3};
	assert_near(bound(t, &d, 0, &r), 30 * (3 * (6e9 / 1500e9 + 1e12 / 60e12) + 2e-6), 1e-6);
	d.kernel[0] = (struct weir_kernel_rate){"other", 3};
	assert_true(bound(t, &d, 0, &r) == plain.bound_s);
	d.kernel[0] = (struct weir_kernel_rate){"kernel", 3};
	for (uint32_t s = 0; s < t->nr_steps; s++)
		t->steps[s].compute_ns = 1e6;
	assert_near(bound(t, &d, 0, &r), t->nr_steps * 1e-3, 1e-5);
	trace_destroy(t);
}

/* A measured time counts in place of the model's, longer or shorter. */
static void test_bound_measured(void **state)
{
	struct trace *t = fitting_trace();
	struct weir_machine_desc d;
	struct bound_result r;

	(void)state;
	machine(&d);
	for (uint32_t n = 0; n < 2; n++) {
		double ns = n ? 2e7 : 2e5;

		for (uint32_t s = 0; s < t->nr_steps; s++)
			t->steps[s].compute_ns = ns;
		assert_near(bound(t, &d, 0, &r), t->nr_steps * ns * 1e-9, 1e-5);
		assert_true(r.bound_s <= t->nr_steps * ns * 1e-9);
	}
	trace_destroy(t);
}

/* One range, ten times the budget, read over and over: the link carries what the budget does not
 * hold, each time. */
static void test_bound_one_long_stream(void **state)
{
	const uint64_t size = 40 * GB, budget = 4 * GB;
	struct manager *m = tracer();
	struct weir_use use = stream(alloc(m, size), size, WEIR_READ);
	struct weir_machine_desc d;
	struct bound_result r;
	struct trace *t;

	(void)state;
	machine(&d);
	assert_int_equal(trace_manager_start(m), 0);
	for (uint32_t i = 0; i < 10; i++)
		launch(m, &use, 1, 0);
	t = stop(m);
	assert_near(bound(t, &d, budget, &r), 10 * (double)(size - budget) / 51e9, 0.02);
	assert_true(r.bound_s <= 10 * (double)(size - budget) / 51e9);
	trace_destroy(t);
	m->ops->destroy(m);
}

/* With a neighbour's memory what it holds is used in place there, over its own link, while what
 * neither holds is used in place on the host; and so is some of the rest, if that takes longer. */
static void test_bound_near_long_stream(void **state)
{
	const double size = 40e9, budget = 4e9;
	struct manager *m = tracer();
	struct weir_use use = stream(alloc(m, 40 * GB), 40 * GB, WEIR_READ);
	struct weir_machine_desc d;
	struct bound_result r;
	struct trace *t;

	(void)state;
	machine_with_near(&d);
	assert_int_equal(trace_manager_start(m), 0);
	for (uint32_t i = 0; i < 10; i++)
		launch(m, &use, 1, 0);
	t = stop(m);
	for (uint32_t tenths = 1; tenths < 10; tenths += 2) {
		uint64_t near_bytes[WEIR_MEMORIES_MAX] = {[2] = tenths * 4 * GB};
		double beyond = size - budget;
		double expected =
			fmax(beyond / (385e9 + 51e9), (beyond - (double)near_bytes[2]) / 51e9);

		assert_int_equal(bound_compute(t, &d, 0, 4 * GB, near_bytes, &r), 0);
		assert_near(r.bound_s, 10 * expected, 0.03);
		assert_true(r.bound_s <= 10 * expected);
	}
	trace_destroy(t);
	m->ops->destroy(m);
}

/* One range, read at random over and over, of which some does not fit: within reach, and a little
 * beyond, it takes its time over the link; farther beyond, that of the accesses that miss. */
static void test_bound_beyond_reach(void **state)
{
	const uint64_t size = 10 * GB;
	struct manager *m = tracer();
	struct weir_use use = stream(alloc(m, size), size, WEIR_READ);
	double near_s = 2e9 / 51e9, far_s = 2e9 / (10e6 * 1024);
	struct weir_machine_desc d;
	struct bound_result r;
	struct trace *t;

	(void)state;
	machine(&d);
	d.link[0].inplace_large_per_s = 10e6;
	use.pattern = WEIR_RANDOM;
	use.granule = 1024;
	use.read_bytes = 2 * GB;
	assert_int_equal(trace_manager_start(m), 0);
	for (uint32_t i = 0; i < 20; i++)
		launch(m, &use, 1, 0);
	t = stop(m);
	for (uint32_t tenths = 1; tenths < 10; tenths++) {
		double away = 0.1 * tenths - 0.02, beyond = away - 0.1;
		double expected = 20 * fmax(near_s * away, far_s * beyond);

		bound(t, &d, size - (uint64_t)(away * (double)size), &r);
		assert_near(r.bound_s, expected, 0.01);
		assert_true(r.bound_s <= expected);
		assert_int_equal(r.part, BOUND_BY_PRICES);
	}
	trace_destroy(t);
	m->ops->destroy(m);
}

/* What launches that read and write 10 GB at the GPU, the host or the neighbour take, with room for
 * 4 GB of it: in place so many bytes in and out of each. */
static double both_ways_s(const struct weir_machine_desc *d, const uint64_t *near_bytes,
			  uint64_t read_bytes, uint64_t write_bytes, uint32_t granule)
{
	struct manager *m = tracer();
	struct weir_use use = stream(alloc(m, 10 * GB), 10 * GB, WEIR_WRITE);
	struct bound_result r;
	struct trace *t;

	use.read_bytes = read_bytes;
	use.write_bytes = write_bytes;
	use.granule = granule;
	use.pattern = granule ? WEIR_RANDOM : WEIR_STREAM;
	assert_int_equal(trace_manager_start(m), 0);
	for (uint32_t i = 0; i < 20; i++)
		launch(m, &use, 1, 0);
	t = stop(m);
	assert_int_equal(bound_compute(t, d, 0, 4 * GB, near_bytes, &r), 0);
	trace_destroy(t);
	m->ops->destroy(m);
	return r.bound_s;
}

/* Six tenths are in place. While both ways are busy they share the link, until the shorter is
 * done. */
static void test_bound_both_ways_in_place(void **state)
{
	struct weir_machine_desc d;

	(void)state;
	machine(&d);
	d.link[0].inplace_both_bytes_per_s = 30e9;
	assert_near(both_ways_s(&d, NULL, 10 * GB, 10 * GB, 0), 20 * 6e9 / 30e9, 0.01);
	assert_near(both_ways_s(&d, NULL, 10 * GB, 5 * GB, 0), 20 * (3e9 / 30e9 + 3e9 / 51e9),
		    0.01);
	assert_near(both_ways_s(&d, NULL, 5 * GB, 10 * GB, 0), 20 * (3e9 / 30e9 + 3e9 / 51e9),
		    0.01);
	/* slower than that anyway: 700 million accesses a second, of 32 bytes each */
	d.link[0].inplace_reach_bytes = 100 * GB;
	assert_near(both_ways_s(&d, NULL, 10 * GB, 10 * GB, 32), 20 * 6e9 / 22.4e9, 0.01);
	/* less than half of that: no more is claimed than for one way after the other */
	d.link[0].inplace_both_bytes_per_s = 20e9;
	assert_near(both_ways_s(&d, NULL, 10 * GB, 10 * GB, 0), 20 * 12e9 / 51e9, 0.01);
}

/* The same at a neighbour, all of which can be there. */
static void test_bound_both_ways_near(void **state)
{
	const uint64_t near_bytes[WEIR_MEMORIES_MAX] = {[2] = 10 * GB};
	struct weir_machine_desc d;
	double near_ns;

	(void)state;
	machine_with_near(&d);
	d.device[0].hbm_bytes_per_s = 4000e9;
	d.link[0].inplace_bytes_per_s = d.link[0].inplace_both_bytes_per_s = 2e9;
	d.link[2].inplace_both_bytes_per_s = 300e9;
	assert_near(both_ways_s(&d, near_bytes, 10 * GB, 10 * GB, 0), 20 * 6e9 / 302e9, 0.01);
	/* that long for each byte read and half a byte written, at the neighbour */
	near_ns = 0.5 / 300 + 0.5 / 385;
	assert_near(both_ways_s(&d, near_bytes, 10 * GB, 5 * GB, 0), 120 / (1 / near_ns + 2), 0.01);
}

/* Two lives that do not fit together, used in turn, and dead contents between: what is written and
 * needed again crosses the link; what is overwritten need not. */
static void test_bound_dead_contents_cost_nothing(void **state)
{
	struct weir_machine_desc d;
	double time[2];

	(void)state;
	machine(&d);
	for (int dead = 0; dead < 2; dead++) {
		struct manager *m = tracer();
		void *x = alloc(m, 20 * GB), *y = alloc(m, 20 * GB);
		struct weir_use uses[] = {stream(x, 20 * GB, WEIR_WRITE),
					  stream(y, 20 * GB, WEIR_WRITE)};
		struct bound_result r;
		struct trace *t;

		if (dead)
			uses[0] = uses[1] = stream(x, 20 * GB, WEIR_OVERWRITE);
		uses[1].addr = y;
		assert_int_equal(trace_manager_start(m), 0);
		for (uint32_t i = 0; i < 20; i++)
			launch(m, &uses[i % 2], 1, 0);
		t = stop(m);
		time[dead] = bound(t, &d, 20 * GB, &r);
		trace_destroy(t);
		m->ops->destroy(m);
	}
	/* one of the two can stay; the other is read and written in place, both ways at once */
	assert_near(time[0], 10 * 20e9 / 49e9, 0.03);
	assert_true(time[1] < 20 * 20e9 / 1500e9);
}

/*
 * An aggregation in slices whose source and target, both visited at random, do not fit: for each
 * slice what is away of them crosses the link, beside the kernel that touches neither.
 */
static struct trace *sliced_trace(uint64_t matrix, uint64_t slice)
{
	struct manager *m = tracer();
	char *source = alloc(m, matrix), *target = alloc(m, matrix);
	char *entries = alloc(m, NR_SLICES * 16 * MB);
	struct trace *t;

	assert_int_equal(trace_manager_start(m), 0);
	for (uint64_t i = 0; i < NR_SLICES; i++) {
		struct weir_use index = stream(entries + i * 16 * MB, 16 * MB, WEIR_READ);
		void *t1 = alloc(m, slice), *t2 = alloc(m, slice);
		struct weir_use at_random = {
			.addr = source,
			.bytes = matrix,
			.kind = WEIR_READ,
			.pattern = WEIR_RANDOM,
			.read_bytes = slice,
			.granule = 1024,
		};
		struct weir_use gather[] = {index, at_random, stream(t1, slice, WEIR_OVERWRITE)};
		struct weir_use scale[] = {stream(t1, slice, WEIR_READ),
					   stream(t2, slice, WEIR_OVERWRITE)};
		struct weir_use scatter[] = {index, stream(t2, slice, WEIR_READ), at_random};

		scatter[2].addr = target;
		scatter[2].kind = WEIR_WRITE;
		scatter[2].write_bytes = slice;
		launch(m, gather, 3, 0);
		launch(m, scale, 2, 0);
		m->ops->free(m, t1);
		launch(m, scatter, 3, 0);
		m->ops->free(m, t2);
	}
	t = stop(m);
	m->ops->destroy(m);
	return t;
}

static void test_bound_sliced_aggregation(void **state)
{
	const double matrix = 30e9, slice = 2e9, budget = 32e9;
	struct trace *t = sliced_trace(30 * GB, 2 * GB);
	double away = (2 * matrix + 2 * slice - budget) / matrix;
	double rate = 39e6 * 1024, expected;
	struct weir_machine_desc d;
	struct bound_result r;

	(void)state;
	machine(&d);
	/* Of source and target together this share of one is away, and a slice visits all of it.
	 * Where both temporaries are live the matrices rest: they need no room there if they are
	 * shuffled, which a bound cannot exclude; hence one temporary only. */
	away -= slice / matrix;
	expected = (double)NR_SLICES * (away * slice / rate + 2 * slice / 1500e9);
	bound(t, &d, 0, &r);
	assert_true(r.bound_s > 0.93 * expected);
	assert_true(r.bound_s < 1.2 * expected);
	trace_destroy(t);
}

/* Two matrices, visited at random in turn, so little at a time that no copy pays. Both are away a
 * little beyond reach, where the time of those that miss exceeds that of the link; of the rest it
 * does not matter which. */
static void test_bound_two_beyond_reach(void **state)
{
	const double matrix = 16e9, visited = 0.1e9, reach = 1e9 / matrix, away = 4e9 / matrix;
	const double near_s = visited / 51e9, far_s = visited / (10e6 * 1024);
	double each = reach * far_s / (far_s - near_s);
	double expected = 40 * (near_s * 2 * each + far_s * (away - 2 * each));
	struct manager *m = tracer();
	struct weir_use use = {.bytes = 16 * GB,
			       .kind = WEIR_READ,
			       .pattern = WEIR_RANDOM,
			       .read_bytes = MB * 100,
			       .granule = 1024};
	char *x = alloc(m, 16 * GB), *y = alloc(m, 16 * GB);
	struct weir_machine_desc d;
	struct bound_result r;
	struct trace *t;

	(void)state;
	machine(&d);
	d.link[0].inplace_large_per_s = 10e6;
	assert_int_equal(trace_manager_start(m), 0);
	for (uint32_t i = 0; i < 80; i++) {
		use.addr = i % 2 ? x : y;
		launch(m, &use, 1, 0);
	}
	t = stop(m);
	bound(t, &d, 28 * GB, &r);
	assert_true(r.bound_s < expected);
	assert_true(r.bound_s > 0.95 * expected);
	trace_destroy(t);
	m->ops->destroy(m);
}

static void test_bound_less_budget_takes_longer(void **state)
{
	struct trace *t = sliced_trace(8 * GB, GB);
	struct weir_machine_desc d;
	double before = 0;

	(void)state;
	machine(&d);
	for (uint64_t budget = 24 * GB; budget >= 4 * GB; budget -= 4 * GB) {
		struct bound_result r;
		double now = bound(t, &d, budget, &r);

		assert_true(now > 0.98 * before);
		before = now;
	}
	trace_destroy(t);
}

/* The bound falls as the neighbour's capacity grows, and no capacity at all is as if there were no
 * neighbour, bit for bit. */
static void test_bound_near_capacity(void **state)
{
	uint64_t near_bytes[WEIR_MEMORIES_MAX] = {32 * GB, 32 * GB};
	struct trace *t = sliced_trace(20 * GB, GB);
	struct weir_machine_desc d;
	struct bound_result without, r;
	double before;

	(void)state;
	machine_with_near(&d);
	before = bound(t, &d, 16 * GB, &without);
	assert_int_equal(bound_compute(t, &d, 0, 16 * GB, near_bytes, &r), 0);
	assert_memory_equal(&r.bound_s, &without.bound_s, sizeof(r.bound_s));
	assert_memory_equal(&r.prices_s, &without.prices_s, sizeof(r.prices_s));
	for (uint64_t near = 2 * GB; near <= 26 * GB; near += 8 * GB) {
		near_bytes[2] = near;
		assert_int_equal(bound_compute(t, &d, 0, 16 * GB, near_bytes, &r), 0);
		assert_true(r.bound_s < before * 1.01);
		assert_true(r.bound_s >= r.compute_s);
		before = r.bound_s;
	}
	assert_true(before < without.bound_s / 2);
	d.nr_links = 2;
	assert_int_equal(bound_compute(t, &d, 0, 16 * GB, near_bytes, &r), -EINVAL);
	trace_destroy(t);
}

static void test_bound_repeats(void **state)
{
	struct trace *t = sliced_trace(20 * GB, GB);
	struct weir_machine_desc d;
	struct bound_result a, b;

	(void)state;
	machine(&d);
	memset(&a, 0, sizeof(a));
	memset(&b, 0, sizeof(b));
	bound(t, &d, 16 * GB, &a);
	bound(t, &d, 16 * GB, &b);
	assert_true(a.bound_s == b.bound_s && a.prices_s == b.prices_s && a.part == b.part);
	trace_destroy(t);
}

/* ------------------------------------------------------------------ inside */

static double random_unit(uint64_t *state)
{
	*state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (double)(*state >> 11) * 0x1p-53;
}

static struct bound_model *model(const struct trace *t, const struct weir_machine_desc *d,
				 uint64_t budget, const uint64_t *near_bytes)
{
	struct bound_model *m;

	assert_int_equal(bound_model_create(t, d, 0, budget, near_bytes, &m), 0);
	return m;
}

/* Any prices: time adds up to one a step. */
static void random_prices(const struct bound_model *m, uint64_t *state, struct bound_prices *p)
{
	for (uint32_t i = 0; i < m->nr_steps; i++) {
		double sum = 0;

		for (int r = 0; r < m->nr_resources; r++) {
			p->time[i][r] = pow(random_unit(state), 3);
			sum += p->time[i][r];
		}
		for (int r = 0; r < m->nr_resources; r++)
			p->time[i][r] /= sum;
		p->capacity[i] = 1e8 * pow(random_unit(state), 4);
		if (m->near_bytes > 0)
			p->total[i] = 1e8 * pow(random_unit(state), 4);
	}
}

static void test_tables_find_minima(void **state)
{
	struct trace *t = sliced_trace(8 * GB, GB);
	struct weir_machine_desc d;
	struct bound_tables tables;
	struct bound_prices p;
	struct bound_model *m;
	uint64_t random = 1;

	(void)state;
	machine(&d);
	m = model(t, &d, 8 * GB, NULL);
	assert_int_equal(bound_tables_init(&tables, m), 0);
	assert_int_equal(bound_prices_init(&p, m->nr_steps), 0);
	random_prices(m, &random, &p);
	bound_tables_fill(&tables, &p);
	for (uint32_t from = 0; from < m->nr_steps; from++) {
		uint32_t best = from;

		for (uint32_t to = from; to < m->nr_steps; to++) {
			if (tables.copy_out.key[to] < tables.copy_out.key[best])
				best = to;
			assert_int_equal(bound_range_least(&tables.copy_out, from, to), best);
		}
	}
	bound_prices_fini(&p);
	bound_tables_fini(&tables);
	bound_model_destroy(m);
	trace_destroy(t);
}

/* What the softened slope promises between two sets of prices. */
static double promised(const struct bound_model *m, const struct bound_prices *usage,
		       const struct bound_prices *from, const struct bound_prices *to)
{
	double sum = 0;

	for (uint32_t i = 0; i < m->nr_steps; i++) {
		for (int r = 0; r < m->nr_resources; r++)
			sum += usage->time[i][r] * (to->time[i][r] - from->time[i][r]);
		sum += usage->capacity[i] * (to->capacity[i] - from->capacity[i]);
		sum += usage->total[i] * (to->total[i] - from->total[i]);
	}
	return sum;
}

/* With next to no softness the slope is one of the dual, which is concave: no prices give more
 * than it promises. That holds only if both walks count the same costs. */
static void slope_bounds_the_dual(const uint64_t *near_bytes)
{
	struct trace *t = sliced_trace(20 * GB, GB);
	struct bound_prices at, other, usage;
	struct weir_machine_desc d;
	struct bound_tables tables;
	struct bound_soft *soft;
	struct bound_model *m;
	uint64_t random = 7;

	machine_with_near(&d);
	m = model(t, &d, 16 * GB, near_bytes);
	assert_int_equal(bound_tables_init(&tables, m), 0);
	assert_int_equal(bound_soft_create(m, &soft), 0);
	assert_int_equal(bound_prices_init(&at, m->nr_steps), 0);
	assert_int_equal(bound_prices_init(&other, m->nr_steps), 0);
	assert_int_equal(bound_prices_init(&usage, m->nr_steps), 0);
	for (int k = 0; k < 200; k++) {
		double value, most, there;

		random_prices(m, &random, &at);
		random_prices(m, &random, &other);
		bound_tables_fill(&tables, &at);
		value = bound_dual_value(&tables, &at);
		bound_soft_usage(soft, &tables, &at, 1e-9, &usage);
		most = value + promised(m, &usage, &at, &other);
		bound_tables_fill(&tables, &other);
		there = bound_dual_value(&tables, &other);
		if (!(there <= most + 1e-6 * (fabs(most) + m->compute_ns)))
			fail_msg("case %d: %.12g ns where at most %.12g were promised", k, there,
				 most);
	}
	bound_prices_fini(&usage);
	bound_prices_fini(&other);
	bound_prices_fini(&at);
	bound_soft_destroy(soft);
	bound_tables_fini(&tables);
	bound_model_destroy(m);
	trace_destroy(t);
}

static void test_soft_slope_bounds_the_dual(void **state)
{
	(void)state;
	slope_bounds_the_dual(NULL);
	slope_bounds_the_dual(near_10_gb);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_trace_records),
		cmocka_unit_test(test_trace_calls_out_of_order),
		cmocka_unit_test(test_trace_unknown_memory),
		cmocka_unit_test(test_trace_forwards_errors),
		cmocka_unit_test(test_trace_many_lives),
		cmocka_unit_test(test_trace_check_refuses),
		cmocka_unit_test(test_bound_bad_arguments),
		cmocka_unit_test(test_bound_fits),
		cmocka_unit_test(test_bound_factor),
		cmocka_unit_test(test_bound_measured),
		cmocka_unit_test(test_bound_one_long_stream),
		cmocka_unit_test(test_bound_near_long_stream),
		cmocka_unit_test(test_bound_near_capacity),
		cmocka_unit_test(test_bound_beyond_reach),
		cmocka_unit_test(test_bound_both_ways_in_place),
		cmocka_unit_test(test_bound_both_ways_near),
		cmocka_unit_test(test_bound_dead_contents_cost_nothing),
		cmocka_unit_test(test_bound_sliced_aggregation),
		cmocka_unit_test(test_bound_two_beyond_reach),
		cmocka_unit_test(test_bound_less_budget_takes_longer),
		cmocka_unit_test(test_bound_repeats),
		cmocka_unit_test(test_tables_find_minima),
		cmocka_unit_test(test_soft_slope_bounds_the_dual),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
