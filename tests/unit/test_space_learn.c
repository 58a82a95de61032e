/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What plans learn from a program that repeats itself on a machine which is not as it is described:
 * the space sees one description, the simulator charges by another.
 */
#include <math.h>

#include "src/backend/flaky/flaky.h"
#include "src/backend/machine.h"
#include "src/cost/cost.h"
#include "src/residency/plan.h"
#include "src/residency/residency.h"
#include "tests/support/space.h"

#define BLOCK KIB(16)
#define GPU_BLOCKS 8u

/* Iterations after which any repetition of a few events is known, and its plans are settled. */
#define WARM_UP 40u

static const struct weir_kernel work = {.name = "work"}, rest = {.name = "rest"};

/*
 * A machine where the description says that pieces at random move in place as fast as a stream,
 * and where changing a mapping takes longer than a use in place: what is where stays there.
 */
static void describe(struct weir_machine_desc *desc)
{
	test_machine(desc);
	desc->link[0].inplace_small_per_s = desc->link[0].inplace_bytes_per_s / 64;
	desc->link[0].inplace_large_per_s = desc->link[0].inplace_small_per_s;
	desc->vmm.map_ns = desc->vmm.set_access_ns = desc->vmm.unmap_ns = 50000;
}

/* A space on it, which in truth is another one. */
static void open_other(struct test_space *t, const struct weir_machine_desc *said,
		       const struct weir_machine_desc *truth)
{
	struct backend *flaky;

	memset(t, 0, sizeof(*t));
	t->desc = *said;
	assert_int_equal(sim_create(truth, WEIR_DATA_PHANTOM, &t->backend), 0);
	assert_int_equal(flaky_create(t->backend, &flaky), 0);
	flaky->desc = *said;
	assert_int_equal(machine_wrap(flaky, &t->machine), 0);
	for (uint32_t i = 0; i < TEST_STREAMS; i++)
		assert_int_equal(weir_stream_create(t->machine, i == TEST_OTHER, &t->stream[i]), 0);
	assert_int_equal(
		test_space_create_try(t, WEIR_PLANNED, BLOCK, GPU_BLOCKS * BLOCK, 32 * BLOCK), 0);
}

/* A range with contents, all of it on the host. */
static void *do_alloc_host(struct test_space *t, uint32_t nr_blocks)
{
	void *addr = do_alloc(t, nr_blocks * BLOCK, 0);

	assert_int_equal(weir_write(t->space, addr, NULL, nr_blocks * BLOCK), 0);
	assert_int_equal(weir_prefetch(t->space, addr, nr_blocks * BLOCK, HOST, NULL), 0);
	do_sync(t);
	return addr;
}

/* A use that touches what it names so many times over. */
static struct weir_use use_times(void *addr, uint32_t nr_blocks, enum weir_use_kind kind,
				 double times)
{
	struct weir_use use = use_of(addr, nr_blocks * BLOCK, kind);

	use.read_bytes = (uint64_t)((double)use.read_bytes * times);
	use.write_bytes = (uint64_t)((double)use.write_bytes * times);
	return use;
}

static struct weir_use at_random(struct weir_use use, uint32_t granule)
{
	use.pattern = WEIR_RANDOM;
	use.granule = granule;
	return use;
}

/* A bracket with one launch. */
static void do_use(struct test_space *t, const struct weir_kernel *kernel,
		   const struct weir_use *use)
{
	struct weir_launch launch = {.kernel = kernel, .uses = use, .nr_uses = 1};

	assert_int_equal(weir_begin(t->space, t->stream[0], use, 1), 0);
	assert_int_equal(weir_stream_launch(t->stream[0], &launch), 0);
	do_end(t, 0);
}

static uint32_t nr_resident(struct test_space *t, const void *addr)
{
	return range_nr_resident(range_find(t->space, addr));
}

/* ------------------------------------------------------------------ kernels slow in place */

#define NR 6u /* blocks of each of two ranges; there is room for a few of the other beside one */
#define ROUNDS 12 /* in a period: the first ones under a plan still move what it wants elsewhere */

/*
 * One range is read at random, so many times over, the other in order. Whether the first one is
 * resident in the end, and not the other, if in truth pieces at random take so many times as long
 * as described.
 */
static bool random_comes_in(double slow, double times, double other_times)
{
	struct weir_machine_desc said, truth;
	struct weir_use use[2];
	struct test_space t;
	bool in;

	describe(&said);
	truth = said;
	truth.link[0].inplace_small_per_s /= slow;
	truth.link[0].inplace_large_per_s /= slow;
	open_other(&t, &said, &truth);
	use[1] = use_times(do_alloc_host(&t, NR), NR, WEIR_READ, other_times);
	use[0] = at_random(use_times(do_alloc_host(&t, NR), NR, WEIR_READ, times), 64);
	/* If uses are too few to come in without a plan, the other one has the room at first. */
	assert_int_equal(weir_prefetch(t.space, use[1].addr, use[1].bytes, GPU0, NULL), 0);
	for (uint32_t i = 0; i < WARM_UP; i++) {
		for (int n = 0; n < 2 * ROUNDS; n++) {
			do_use(&t, &work, &use[n % 2]);
			do_sync(&t);
		}
		/* So that this, and not a part of it, is what repeats. */
		do_free(&t, do_alloc(&t, BLOCK, 0), 0);
	}
	assert_true(get_stats(&t).nr_plans >= 2);
	assert_int_equal(get_stats(&t).nr_divergences, 0);
	in = nr_resident(&t, use[0].addr) >= NR - 1;
	assert_true(in != (nr_resident(&t, use[1].addr) >= NR - 1));
	test_space_close(&t);
	return in;
}

/* The first plan leaves it in place, as it is read less often; then it is seen to be slow. */
static void test_space_learn_what_is_slow_in_place(void **state)
{
	(void)state;
	assert_false(random_comes_in(1, 2, 3));
	assert_true(random_comes_in(8, 2, 3));
	assert_true(random_comes_in(4, 2, 3));
	/* A little slower is taken for noise, though it would do. */
	assert_false(random_comes_in(1.3, 2.6, 3));
}

/* Seen before there was a plan; the second plan, under which it is resident, knows it still. */
static void test_space_learn_and_keep_it(void **state)
{
	(void)state;
	assert_false(random_comes_in(1, 0.9, 1.2));
	assert_true(random_comes_in(8, 0.9, 1.2));
}

/* What a program does again and again: a use, and something by which its period is known. */
static void repeat(struct test_space *t, const struct weir_use *use)
{
	for (uint32_t n = 0; n < ROUNDS; n++) {
		do_use(t, &work, use);
		do_sync(t);
	}
	do_free(t, do_alloc(t, BLOCK, 0), 0);
}

/* Events of the record that say so much of what they take in place: more than a little. */
static uint32_t nr_slow(const struct record *record, uint64_t first)
{
	uint32_t nr = 0;

	for (uint64_t e = MAX(first, record->first_event); e < record->next_event; e++)
		nr += record_event(record, e)->slow > 1.5;
	return nr;
}

/* A kernel that was slow in place for a while, as beside others, is not taken to be so for good:
 * the second plan is made from a period in which it was not. */
static void test_space_learn_slow_for_a_while(void **state)
{
	const uint32_t nr = GPU_BLOCKS + 2;
	struct weir_machine_desc said, truth;
	const struct record *record;
	struct test_space t;
	struct weir_use use;
	uint64_t first = 0;

	(void)state;
	describe(&said);
	truth = said;
	truth.link[0].inplace_small_per_s /= 8;
	truth.link[0].inplace_large_per_s /= 8;
	open_other(&t, &said, &truth);
	record = &t.space->residency->planner->record;
	use = at_random(use_times(do_alloc_host(&t, nr), nr, WEIR_READ, 2), 64);
	for (uint32_t i = 0; i < WARM_UP; i++) {
		repeat(&t, &use);
		if (first || !get_stats(&t).nr_plans)
			continue;
		first = record->next_event;
		assert_true(nr_slow(record, 0) >= ROUNDS / 2);
		t.backend->desc.link[0] = said.link[0];
	}
	assert_int_equal(get_stats(&t).nr_plans, 2);
	assert_true(nr_slow(record, first) <= 1);
	test_space_close(&t);
}

/* What share of the reach a plan takes to be missed after repeated reads of a range whose half is
 * in place: the description says that it has 5 blocks of the 8, and in truth it has so many. */
static double learns_missed(uint64_t reach_blocks)
{
	const uint32_t nr = 2 * GPU_BLOCKS;
	struct weir_machine_desc said, truth;
	struct test_space t;
	struct weir_use use;
	double missed;

	describe(&said);
	said.link[0].inplace_large_per_s *= 0.75;
	said.link[0].inplace_reach_bytes = 5 * BLOCK;
	truth = said;
	truth.link[0].inplace_reach_bytes = MAX(reach_blocks * BLOCK, 1);
	open_other(&t, &said, &truth);
	use = at_random(use_times(do_alloc_host(&t, nr), nr, WEIR_READ, 2), 64);
	for (uint32_t i = 0; i < WARM_UP; i++)
		repeat(&t, &use);
	assert_int_equal(get_stats(&t).nr_plans, 2);
	missed = t.space->residency->planner->missed;
	test_space_close(&t);
	return missed;
}

static void test_space_learn_missed(void **state)
{
	(void)state;
	assert_true(learns_missed(0) > 0.95);
	assert_float_equal(learns_missed(1), 0.8, 0.02);
	/* No faster with more than two blocks: it may as well be as described. */
	for (uint64_t reach = 2; reach <= 5; reach++)
		assert_float_equal(learns_missed(reach), 0, 0);
}

/* What a use takes in place, by what the plan's input has of the machine. */
static double link_ns_of(struct test_space *t, const struct weir_use *use)
{
	struct space_use resolved;

	assert_int_equal(bracket_resolve(t->space, use, 1, &resolved), 0);
	return learn_link_times(t->space, PLACE_OWN, &resolved, 1).ns;
}

/* Two neighbours take no less time than one of them, since they share a port; and both ways take
 * more than one. */
static void test_space_learn_neighbours_as_one(void **state)
{
	static const uint32_t devices[TEST_STREAMS] = {0};
	const struct weir_space_config config = {.budget_bytes = {[HOST] = 32 * BLOCK,
								  [GPU0] = 2 * BLOCK,
								  [GPU1] = 32 * BLOCK,
								  [GPU1 + 1] = 32 * BLOCK},
						 .block_bytes = BLOCK,
						 .mode = WEIR_PLANNED};
	struct weir_use read, update;
	struct test_space t;
	double one, both;

	(void)state;
	test_machine_open_gpus(&t, WEIR_DATA_PHANTOM, 3, devices);
	for (uint32_t l = 0; l < t.backend->desc.nr_links; l++)
		t.backend->desc.link[l].inplace_both_bytes_per_s =
			t.backend->desc.link[l].inplace_bytes_per_s / 2;
	assert_int_equal(test_space_create_config(&t, &config), 0);
	read = use_times(do_alloc_host(&t, NR), NR, WEIR_READ, 1);
	update = use_times(read.addr, NR, WEIR_WRITE, 1);
	assert_int_equal(weir_prefetch(t.space, read.addr, NR * BLOCK, GPU1, NULL), 0);
	do_sync(&t);
	one = link_ns_of(&t, &read);
	both = link_ns_of(&t, &update);
	assert_true(one > 0 && both > 1.99 * one);
	assert_int_equal(weir_prefetch(t.space, read.addr, NR / 2 * BLOCK, GPU1 + 1, NULL), 0);
	do_sync(&t);
	assert_true(link_ns_of(&t, &read) > 0.99 * one);
	assert_true(link_ns_of(&t, &read) < 1.01 * one);
	test_space_close(&t);
}

/* ------------------------------------------------------------------ bytes that are guessed */

/* A bracket that names whole ranges for a launch that reads so much of each. launched: a
 * number of what is. */
static void do_guess(struct test_space *t, uint64_t launched, uint32_t nr, void *const *addr,
		     const uint64_t *read_bytes)
{
	struct weir_use named[2], used[2];
	const struct bracket_asked asked = {
		.uses = named, .nr = nr, .nr_likely = nr, .launched = launched};
	const struct weir_launch launch = {.kernel = &work, .uses = used, .nr_uses = nr};

	for (uint32_t u = 0; u < nr; u++) {
		named[u] = use_of(addr[u], NR * BLOCK, WEIR_ATOMIC);
		used[u] = use_of(addr[u], read_bytes[u], WEIR_ATOMIC);
		named[u].read_bytes = NR * BLOCK;
		used[u].read_bytes = read_bytes[u];
	}
	assert_int_equal(bracket_begin_guessed(t->space, t->stream[0], &asked), 0);
	assert_int_equal(weir_stream_launch(t->stream[0], &launch), 0);
	do_end(t, 0);
	do_sync(t);
}

/*
 * Two ranges, of which one fits: a launch reads so many bytes of the first one three times, and all
 * of the other once, with all of both named. Whether the other one is resident in the end.
 */
static bool other_comes_in(uint64_t read_bytes)
{
	struct weir_machine_desc desc;
	struct test_space t;
	const uint64_t all = NR * BLOCK;
	void *often, *whole;
	bool in;

	describe(&desc);
	open_other(&t, &desc, &desc);
	often = do_alloc_host(&t, NR);
	whole = do_alloc_host(&t, NR);
	for (uint32_t i = 0; i < 2 * WARM_UP; i++) {
		for (int n = 0; n < 4 * ROUNDS; n++)
			do_guess(&t, n % 4 ? 1 : 2, 1, n % 4 ? &often : &whole,
				 n % 4 ? &read_bytes : &all);
		do_free(&t, do_alloc(&t, BLOCK, 0), 0);
	}
	assert_true(get_stats(&t).nr_plans >= 2);
	in = nr_resident(&t, whole) >= NR - 1;
	test_space_close(&t);
	return in;
}

/* What takes less time than what it names would is known to use less of it. */
static void test_space_learn_what_is_not_used(void **state)
{
	(void)state;
	assert_false(other_comes_in(NR * BLOCK));
	assert_true(other_comes_in(NR * BLOCK / 64));
}

/*
 * Two ranges that are named by the same launches, which read all of one and hardly any of the
 * other: of what fits, the first one has nearly all, whichever is named first.
 */
static void test_space_learn_which_is_used(void **state)
{
	(void)state;
	for (uint32_t much = 0; much < 2; much++) {
		uint64_t read_bytes[2] = {NR * BLOCK / 64, NR * BLOCK / 64};
		struct weir_machine_desc desc;
		struct test_space t;
		void *addr[2];

		test_machine(&desc);
		open_other(&t, &desc, &desc);
		read_bytes[much] = NR * BLOCK;
		for (int r = 0; r < 2; r++)
			addr[r] = do_alloc_host(&t, NR);
		for (uint32_t i = 0; i < 4 * WARM_UP; i++) {
			for (int n = 0; n < 4 * ROUNDS; n++)
				do_guess(&t, 1, 2, addr, read_bytes);
			do_free(&t, do_alloc(&t, BLOCK, 0), 0);
		}
		assert_true(nr_resident(&t, addr[much]) >= NR - 1);
		test_space_close(&t);
	}
}

/* What does not overlap on such a link makes no kernel slow: one whose times in place and at home
 * are about as long takes more than SLOW_MIN of the longer one. */
static void test_space_learn_serial_is_not_slow(void **state)
{
	const uint32_t nr = GPU_BLOCKS + 1;
	const struct record *record;
	struct weir_machine_desc desc;
	struct weir_use use;
	struct test_space t;
	double most = 0;

	(void)state;
	describe(&desc);
	desc.link[0].inplace_serial = 1;
	desc.nr_kernels = 1;
	desc.kernel[0] = (struct weir_kernel_rate){"work", 6};
	open_other(&t, &desc, &desc);
	use = use_times(do_alloc_host(&t, nr), nr, WEIR_READ, 1);
	assert_int_equal(weir_prefetch(t.space, use.addr, (GPU_BLOCKS - 1) * BLOCK, GPU0, NULL), 0);
	for (uint32_t i = 0; i < WARM_UP; i++) {
		do_use(&t, &work, &use);
		do_sync(&t);
	}
	assert_true(get_stats(&t).nr_plans >= 1);
	record = &t.space->residency->planner->record;
	for (uint64_t e = record->first_event; e < record->next_event; e++) {
		const struct event *event = record_event(record, e);

		if (event->kind != EVENT_BEGIN || !(event->link.ns > 0))
			continue;
		most = MAX(most, event->ns / event->link.ns);
		assert_true(event->slow <= 1);
	}
	assert_true(most > 1.5);
	test_space_close(&t);
}

/* ------------------------------------------------------------------ computation */

#define SMALL 2u  /* blocks that are resident */
#define LARGE 12u /* and more than there is room for */
#define MUCH 100  /* times that the small one is read: it stays */

/* How many times as long as by its bytes the plan takes a kernel's computation to be whose data
 * never were resident. */
struct unseen {
	const struct weir_kernel *kernel;
	enum weir_use_kind kind;
	uint32_t granule; /* 0: in order */
	double said;	  /* factor of the kernel "work" in the description */
};

static double planned_factor(struct unseen unseen)
{
	struct weir_machine_desc said, truth;
	struct weir_use small, large;
	struct test_space t;
	double ns;

	describe(&said);
	truth = said;
	said.nr_kernels = truth.nr_kernels = 1;
	said.kernel[0] = (struct weir_kernel_rate){"work", unseen.said};
	truth.kernel[0] = (struct weir_kernel_rate){"work", 3};
	open_other(&t, &said, &truth);
	small = use_times(do_alloc_host(&t, SMALL), SMALL, WEIR_READ, MUCH);
	large = use_times(do_alloc_host(&t, LARGE), LARGE, unseen.kind, 1);
	small = at_random(small, 64);
	large = unseen.granule ? at_random(large, unseen.granule) : large;
	for (uint32_t i = 0; i < WARM_UP; i++) {
		do_use(&t, &work, &small);
		do_use(&t, unseen.kernel, &large);
		do_sync(&t);
	}
	assert_int_equal(nr_resident(&t, small.addr), SMALL);
	assert_non_null(t.space->residency->planner->plan);
	ns = t.space->residency->planner->plan->compute_ns /
	     (t.space->residency->planner->plan->nr_steps / 2.0);
	ns -= 3 * cost_hbm_ns(&t.desc.device[0], &small);
	test_space_close(&t);
	return (ns - (double)t.desc.device[0].launch_ns) / cost_hbm_ns(&t.desc.device[0], &large);
}

static void test_space_learn_computation_from_its_kernel(void **state)
{
	static const struct {
		struct unseen unseen;
		double factor;
	} row[] = {
		{{&work, WEIR_READ, 64, 1}, 3},
		/* What was measured counts for more than what was described, ... */
		{{&work, WEIR_READ, 64, 5}, 3},
		/* which is all there is for what is done in another way. */
		{{&work, WEIR_READ, 128, 5}, 5},
		{{&work, WEIR_READ, 0, 5}, 5},
		{{&work, WEIR_WRITE, 64, 5}, 5},
		{{&rest, WEIR_READ, 64, 5}, 1},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		double factor = planned_factor(row[i].unseen);

		/* What the small one takes is measured, a little more than its bytes say. */
		if (fabs(factor - row[i].factor) > 0.2)
			fail_msg("row %zu: %.3f instead of %.1f", i, factor, row[i].factor);
	}
}

/* ------------------------------------------------------------------ what is new */

/* The time beside computation that a plan reckons with for a program that allocates a range in each
 * iteration, uses it so at first, reads it, and frees it. */
static double link_ns_with_first(enum weir_use_kind kind)
{
	struct weir_machine_desc desc;
	struct weir_use kept, use;
	const struct plan *plan;
	struct test_space t;
	double ns;

	test_machine(&desc);
	open_other(&t, &desc, &desc);
	kept = use_times(do_alloc_host(&t, NR), NR, WEIR_READ, 1);
	for (uint32_t i = 0; i < WARM_UP; i++) {
		void *new;

		do_use(&t, &rest, &kept);
		new = do_alloc(&t, NR * BLOCK, 0);
		use = use_times(new, NR, kind, 4);
		do_use(&t, &work, &use);
		use = use_times(new, NR, WEIR_READ, 4);
		do_use(&t, &work, &use);
		do_free(&t, new, 0);
	}
	do_sync(&t);
	plan = t.space->residency->planner[0].plan;
	assert_non_null(plan);
	ns = plan->modelled_ns - plan->compute_ns;
	test_space_close(&t);
	return ns;
}

/* A program may declare that it reads what nobody wrote: there is nothing to be brought. */
static void test_space_learn_new_has_no_contents(void **state)
{
	const double written = link_ns_with_first(WEIR_WRITE);
	const double overwritten = link_ns_with_first(WEIR_OVERWRITE);

	(void)state;
	assert_true(written < overwritten * 1.1);
}

/* ------------------------------------------------------------------ lives */

/* The plan's life of a range that it tracks. */
static const struct plan_span *alive_of(struct test_space *t, const void *addr)
{
	const struct plan *plan = t->space->residency->planner->plan;
	int32_t life = range_find(t->space, addr)->residency->plan_life;

	assert_true(life >= 0);
	assert_int_not_equal(plan->tracked[life], PLAN_UNTRACKED);
	return &plan->alive[plan->tracked[life]];
}

/* Two buffers in turn: the new one is there, and used, before the old one is freed. Both are one
 * life of the plan, which is alive all the time, and not only until the old one goes. */
static void test_space_learn_lives_longer_than_a_period(void **state)
{
	struct weir_machine_desc desc;
	struct test_space t;
	void *old = NULL, *other;

	(void)state;
	describe(&desc);
	open_other(&t, &desc, &desc);
	other = do_alloc(&t, BLOCK, 0);
	for (uint32_t i = 0; i < WARM_UP; i++) {
		void *new = do_alloc(&t, 2 * BLOCK, 0);
		struct weir_use use = use_times(new, 2, WEIR_OVERWRITE, 1);

		do_use(&t, &work, &use);
		if (old) {
			use = use_times(old, 2, WEIR_READ, 1);
			do_use(&t, &rest, &use);
			do_free(&t, old, 0);
		}
		use = use_times(other, 1, WEIR_WRITE, 1);
		do_use(&t, &rest, &use);
		old = new;
	}
	do_sync(&t);
	assert_non_null(t.space->residency->planner->plan);
	assert_int_equal(get_stats(&t).nr_divergences, 0);
	assert_int_equal(alive_of(&t, old)->nr, t.space->residency->planner->plan->nr_stages);
	test_space_close(&t);
}

/* Brackets of a loop, one that frees its temporary after FREED of them. */
#define BRACKETS 30u
#define FREED 27u

static void loop_until(struct test_space *t, uint8_t *other, void *temporary, uint32_t end)
{
	for (uint32_t i = 0; i < end; i++) {
		struct weir_use use = use_of(other, (i + 1) * 256, WEIR_READ);

		if (!i)
			use = use_times(temporary, 2, WEIR_OVERWRITE, 1);
		if (i == FREED)
			do_free(t, temporary, 0);
		do_use(t, &work, &use);
	}
}

/* What was there before the loop and is freed after its first round was allocated a whole number of
 * periods before the loop's temporary: it is not that one all the same. */
static void test_space_learn_knows_an_old_life(void **state)
{
	struct weir_machine_desc desc;
	struct test_space t;
	void *old, *other, *temporary;

	(void)state;
	describe(&desc);
	open_other(&t, &desc, &desc);
	old = do_alloc(&t, 4 * BLOCK, 0);
	other = do_alloc(&t, BLOCK, 0);
	while (t.space->residency->planner->record.next_event < 1 + BRACKETS + 3) {
		struct weir_use use = use_times(other, 1, WEIR_WRITE, 1);

		use.bytes = t.space->residency->planner->record.next_event * 256;
		do_use(&t, &rest, &use);
	}
	temporary = do_alloc(&t, 2 * BLOCK, 0);
	loop_until(&t, other, temporary, BRACKETS);
	do_free(&t, old, 0);
	temporary = do_alloc(&t, 2 * BLOCK, 0);
	loop_until(&t, other, temporary, FREED - 1);
	assert_int_equal(t.space->residency->planner->record.period, BRACKETS + 3);
	assert_non_null(t.space->residency->planner->plan);
	assert_int_equal(t.space->residency->planner->plan->nr_stages, BRACKETS);
	assert_int_equal(alive_of(&t, temporary)->nr, FREED);
	test_space_close(&t);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_space_learn_what_is_slow_in_place),
		cmocka_unit_test(test_space_learn_and_keep_it),
		cmocka_unit_test(test_space_learn_what_is_not_used),
		cmocka_unit_test(test_space_learn_which_is_used),
		cmocka_unit_test(test_space_learn_serial_is_not_slow),
		cmocka_unit_test(test_space_learn_slow_for_a_while),
		cmocka_unit_test(test_space_learn_missed),
		cmocka_unit_test(test_space_learn_neighbours_as_one),
		cmocka_unit_test(test_space_learn_computation_from_its_kernel),
		cmocka_unit_test(test_space_learn_new_has_no_contents),
		cmocka_unit_test(test_space_learn_lives_longer_than_a_period),
		cmocka_unit_test(test_space_learn_knows_an_old_life),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
