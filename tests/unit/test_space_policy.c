/* SPDX-License-Identifier: Apache-2.0 */
/* A policy's place in a space's decisions: what it sees, what its answers change, what becomes of
 * wrong ones. */
#include <errno.h>
#include <stdlib.h>

#include "src/residency/residency.h"
#include "tests/support/policy.h"
#include "tests/support/space.h"

#define BLOCK KIB(16)
#define GPU_BLOCKS 8u
#define RANGES 40u
#define ALL (4 * BLOCK)

struct fixture {
	struct test_space t;
	struct test_policy policy;
	uint8_t *range[RANGES]; /* of 4 blocks each: two fit */
	uint32_t nr;

	/* What the policy answers, and what it saw. */
	int result;
	uint32_t level, evict, chosen;
	uint32_t nr_asked;
	struct weir_policy_admit admit;	  /* the last one */
	struct weir_policy_victim victim; /* the same */
	uint32_t nr_came, nr_left;
	struct weir_policy_moved came, left; /* the last ones */
	uint64_t uses_came, uses_left;	     /* sums of theirs */
	uint32_t windows;		     /* to go on to */
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	test_space_open(&f->t, WEIR_DATA_REAL, WEIR_PLANNED, BLOCK, GPU_BLOCKS, 4 * RANGES);
	f->policy.arg = f;
	f->result = WEIR_POLICY_ANSWER;
	f->evict = 1;
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(weir_space_set_policy(f->t.space, NULL), 0);
	test_space_close(&f->t);
	test_policy_close(&f->policy);
	free(f);
	return 0;
}

static void set_policy(struct fixture *f)
{
	test_policy_open(&f->policy);
	assert_int_equal(weir_space_set_policy(f->t.space, &f->policy.base), 0);
}

/* So many ranges with contents, the last two of which are in the GPU's memory. */
static void fill(struct fixture *f, uint32_t nr)
{
	for (; f->nr < nr; f->nr++) {
		f->range[f->nr] = do_alloc(&f->t, ALL, 0);
		do_fill(&f->t, 0, f->range[f->nr], ALL, f->nr + 1);
	}
	do_sync(&f->t);
}

static void use(struct fixture *f, uint32_t n)
{
	do_expect(&f->t, 0, f->range[n], ALL, n + 1);
	do_sync(&f->t);
}

static uint32_t nr_resident(struct fixture *f, uint32_t n)
{
	uint32_t nr = 0;

	for (uint32_t i = 0; i < 4; i++)
		nr += get_block_state(&f->t, f->range[n] + i * BLOCK) == BLOCK_HBM;
	return nr;
}

static int admit(struct test_policy *p, struct weir_policy_admit *q)
{
	struct fixture *f = p->arg;

	f->nr_asked++;
	f->admit = *q;
	q->level = f->level;
	q->evict = f->evict;
	q->range.word[0]++;
	q->range.uses = 77; /* has no effect, nor has the next one */
	q->range.nr_blocks = 100;
	return f->result;
}

static int victim(struct test_policy *p, struct weir_policy_victim *q)
{
	struct fixture *f = p->arg;

	f->nr_asked++;
	f->victim = *q;
	assert_in_range(q->nr, 1, WEIR_POLICY_CANDIDATES);
	for (uint32_t n = 0; n < q->nr; n++) {
		q->candidate[n].range_word[1]++;
		q->candidate[n].block_word[0]++;
	}
	q->window = 60; /* has no effect */
	if (f->victim.window < f->windows)
		return WEIR_POLICY_NEXT;
	q->chosen = f->chosen;
	return f->result;
}

static int moved(struct test_policy *p, struct weir_policy_moved *q)
{
	struct fixture *f = p->arg;

	*(q->came ? &f->nr_came : &f->nr_left) += 1;
	*(q->came ? &f->came : &f->left) = *q;
	*(q->came ? &f->uses_came : &f->uses_left) += q->uses;
	q->block_word[1]++;
	return 0;
}

static void test_space_policy_keeps_a_range_out(void **state)
{
	struct fixture *f = *state;

	fill(f, 3);
	f->policy.admit = admit;
	set_policy(f);
	f->level = 0;
	use(f, 0);
	assert_int_equal(nr_resident(f, 0), 0);
	assert_int_equal(f->nr_asked, 1);
	assert_int_equal(f->admit.range.uses, 0);
	assert_int_equal(f->admit.range.nr_blocks, 4);
	assert_int_equal(f->admit.range.nr_resident, 0);
	assert_int_equal(f->admit.use_read_bytes, ALL);
	assert_int_equal(f->admit.use_write_bytes, 0);
	assert_int_equal(f->admit.block_bytes, BLOCK);
	assert_int_equal(f->admit.all_blocks, GPU_BLOCKS);
	assert_true(f->admit.has_victim && f->admit.in_ns && f->admit.out_ns);
	assert_true(f->admit.in_place_ns >= 4 * f->admit.in_ns / 2);
	use(f, 0);
	assert_int_equal(f->admit.range.uses, 1);
	assert_int_equal(f->admit.range.touched_bytes, ALL);
	assert_int_equal(f->admit.range.in_place_bytes, ALL);
	assert_int_equal(f->admit.range.word[0], 1);
	assert_int_equal(f->admit.range.used_age, 1);
	use(f, 1);
	f->level = 2;
	use(f, 0);
	assert_int_equal(f->admit.range.uses, 2);
	assert_int_equal(f->admit.range.used_age, 2);
	assert_int_equal(nr_resident(f, 0), 2);
	f->level = 4;
	use(f, 0);
	assert_int_equal(f->admit.range.nr_resident, 2);
	assert_int_equal(nr_resident(f, 0), 4);
	/* All of it is there: nobody is asked. */
	f->nr_asked = 0;
	use(f, 0);
	assert_int_equal(f->nr_asked, 0);
}

/* What came and left since counts, and nothing that was before. */
static void test_space_policy_sees_a_range(void **state)
{
	struct fixture *f = *state;
	const struct weir_policy_range *range = &f->admit.range;
	uint32_t number;

	fill(f, 3);
	f->policy.admit = admit;
	f->policy.moved = moved;
	set_policy(f);
	f->level = 2;
	use(f, 0);
	assert_int_equal(range->moved_age, 1); /* it left for range 2 */
	assert_int_equal(f->admit.victim.nr_resident, 4);
	assert_int_equal(f->admit.victim.nr_dirty, 4);
	assert_int_equal(f->came.uses, 0);
	number = range->number;
	assert_int_equal(f->came.range, number);
	do_change(&f->t, 0, f->range[0], ALL, 1, 1);
	do_discard(&f->t, 0, f->range[0] + 2 * BLOCK, 2 * BLOCK);
	do_fill(&f->t, 0, f->range[0] + 2 * BLOCK, 2 * BLOCK, 1);
	do_sync(&f->t);
	assert_int_equal(range->nr_resident, 2);
	assert_int_equal(range->nr_dirty, 2);
	assert_int_equal(range->uses, 3); /* the discard among them */
	assert_int_equal(range->touched_bytes, ALL + 2 * ALL);
	assert_int_equal(range->in_place_bytes, (ALL + 2 * ALL) / 2);
	f->level = 4;
	use(f, 0);
	assert_int_equal(range->uses, 4);
	use(f, 1);
	use(f, 2);
	use(f, 0);
	assert_int_equal(range->in_place_bytes, 0);
	assert_int_equal(f->admit.victim.nr_resident, 4);
	assert_int_equal(f->admit.victim.nr_dirty, 0); /* it came, and was read */
	assert_int_equal(f->uses_came, 4); /* of range 0, before the first of its blocks came */
	f->uses_left = 0;
	use(f, 1); /* 2 leaves, the first of its blocks after one use */
	assert_int_equal(f->uses_left, 1);
	assert_true(f->left.block_word[1] > 0);
	/* A policy that is set anew finds the number that it knew, and no words. */
	assert_int_equal(weir_space_set_policy(f->t.space, &f->policy.base), 0);
	use(f, 2);
	use(f, 0);
	assert_int_equal(f->left.block_word[1], 0);
	assert_int_equal(range->moved_age, 1);
	assert_int_equal(range->number, number);
	assert_int_equal(range->uses, 0);
	assert_int_equal(range->touched_bytes, 0);
	assert_int_equal(range->in_place_bytes, 0);
}

static void test_space_policy_sees_costs(void **state)
{
	struct fixture *f = *state;
	struct weir_use use_of_it;

	fill(f, 3);
	f->policy.admit = admit;
	set_policy(f);
	use_of_it = use_of(f->range[0], ALL, WEIR_READ);
	use_of_it.pattern = WEIR_RANDOM;
	use_of_it.granule = 128;
	assert_int_equal(weir_begin(f->t.space, f->t.stream[0], &use_of_it, 1), 0);
	do_end(&f->t, 0);
	do_sync(&f->t);
	assert_int_equal(f->admit.use_random, 1);
	/* The link takes 4 bytes a nanosecond in and 2 out, 2 in place. */
	use(f, 0);
	assert_int_equal(f->admit.use_random, 0);
	assert_int_equal(f->admit.in_ns, BLOCK / 4);
	assert_int_equal(f->admit.out_ns, BLOCK / 2);
	assert_int_equal(f->admit.in_place_ns, ALL / 2);
	assert_int_equal(f->admit.free_blocks, 0);
	/* What a kernel still uses is free when it is done. */
	do_expect(&f->t, 0, f->range[1], ALL, 2);
	do_free(&f->t, f->range[1], 0);
	do_expect(&f->t, 0, f->range[0], ALL, 1);
	assert_int_equal(f->admit.free_blocks, 0);
	do_sync(&f->t);
	do_change(&f->t, 0, f->range[0], ALL, 1, 1);
	do_sync(&f->t);
	assert_int_equal(f->admit.free_blocks, 4);
	assert_int_equal(f->admit.in_place_ns, ALL / 2);
}

static void test_space_policy_fresh_contents(void **state)
{
	struct fixture *f = *state;

	fill(f, 2);
	f->policy.admit = admit;
	set_policy(f);
	f->level = 4;
	f->evict = 0;
	fill(f, 3);
	assert_int_equal(f->nr_asked, 1);
	assert_int_equal(nr_resident(f, 2), 0);
	assert_int_equal(nr_resident(f, 0), 4);
	f->evict = 2; /* no answer */
	fill(f, 4);
	assert_int_equal(f->policy.base.stats.nr_wrong, 1);
	assert_int_equal(nr_resident(f, 3), 4);
}

/* Of what is advised nothing is asked, and it is no candidate. */
static void test_space_policy_leaves_advice(void **state)
{
	struct fixture *f = *state;

	fill(f, 2);
	f->policy.admit = admit;
	f->policy.victim = victim;
	f->result = WEIR_POLICY_DEFAULT;
	set_policy(f);
	assert_int_equal(weir_advise(f->t.space, f->range[0], WEIR_ADVISE_PREFER_MEMORY, GPU0), 0);
	fill(f, 3);
	assert_true(f->victim.nr > 0);
	for (uint32_t n = 0; n < f->victim.nr; n++)
		assert_int_not_equal(f->victim.candidate[n].range, 1);
	assert_int_equal(f->victim.nr, 1);
	use(f, 1);
	assert_int_equal(weir_advise(f->t.space, f->range[2], WEIR_ADVISE_PREFER_MEMORY, HOST), 0);
	do_sync(&f->t);
	f->nr_asked = 0;
	use(f, 2);
	assert_int_equal(f->nr_asked, 0);
}

static void test_space_policy_admits_into_free_room_only(void **state)
{
	struct fixture *f = *state;

	fill(f, 3);
	f->policy.admit = admit;
	set_policy(f);
	f->level = 4;
	f->evict = 0;
	use(f, 0);
	assert_int_equal(nr_resident(f, 0), 0);
	assert_int_equal(f->admit.free_blocks, 0);
	do_free(&f->t, f->range[2], 0);
	use(f, 0);
	assert_int_equal(f->admit.free_blocks, 4);
	assert_int_equal(nr_resident(f, 0), 4);
	assert_int_equal(nr_resident(f, 1), 4);
}

static void test_space_policy_chooses_who_goes(void **state)
{
	struct fixture *f = *state;

	f->policy.victim = victim;
	set_policy(f);
	fill(f, 2);
	assert_int_equal(f->nr_asked, 0);
	use(f, 0);
	/* 0 came first, and was used last: by default 1 goes. */
	f->chosen = 0;
	fill(f, 3);
	assert_int_equal(nr_resident(f, 0), 0);
	assert_int_equal(nr_resident(f, 1), 4);
	assert_int_equal(f->nr_asked, 4);
	assert_int_equal(f->victim.window, 0);
	assert_int_equal(f->victim.nr_far, 0);
	assert_int_equal(f->victim.by_default, f->victim.nr == 2 ? 1 : 0);
	f->result = WEIR_POLICY_DEFAULT;
	fill(f, 4);
	assert_int_equal(nr_resident(f, 1), 0);
	assert_int_equal(nr_resident(f, 2), 4);
}

static void test_space_policy_sees_candidates(void **state)
{
	struct fixture *f = *state;
	const struct weir_policy_candidate *first = &f->victim.candidate[0];

	f->policy.victim = victim;
	set_policy(f);
	fill(f, 2);
	use(f, 0);
	use(f, 0);
	f->result = WEIR_POLICY_DEFAULT;
	use(f, 1);
	fill(f, 3);
	/* The last of four steps of it that were asked about: 0 gave three blocks before. */
	assert_int_equal(f->victim.nr, 2);
	assert_int_equal(first->nr_blocks, 4);
	assert_int_equal(first->nr_resident, 1);
	assert_int_equal(first->nr_dirty, 1);
	assert_int_equal(first->range_word[1], 3);
	assert_int_equal(first->block_word[0], 0);
	assert_int_equal(f->victim.candidate[1].nr_resident, 4);
	assert_int_equal(f->victim.candidate[1].uses, 2);
	assert_int_equal(f->victim.candidate[1].used_age, 1);
	assert_int_equal(f->victim.candidate[1].block_word[0], 3);
	assert_int_equal(f->victim.candidate[1].arrived_age, 4);
}

static void test_space_policy_looks_at_windows(void **state)
{
	struct fixture *f = *state;
	uint8_t *one[RANGES];

	/* 36 ranges of two blocks each in the GPU's memory. Some are read, so that nothing is
	 * repeated, and no plan made. */
	test_space_close(&f->t);
	test_space_open(&f->t, WEIR_DATA_REAL, WEIR_PLANNED, BLOCK, 72, 4 * RANGES);
	f->policy.victim = victim;
	set_policy(f);
	for (uint32_t n = 0; n < 36; n++) {
		one[n] = do_alloc(&f->t, 2 * BLOCK, 0);
		do_fill(&f->t, 0, one[n], 2 * BLOCK, n + 1);
		if (n % 5 == 0 || n % 7 == 3 || n > 33)
			do_expect(&f->t, 0, one[n / 2], 2 * BLOCK, n / 2 + 1);
	}
	do_sync(&f->t);
	f->windows = 1;
	f->chosen = 3; /* the last one */
	f->range[0] = do_alloc(&f->t, 2 * BLOCK, 0);
	do_fill(&f->t, 0, f->range[0], 2 * BLOCK, 1);
	do_sync(&f->t);
	assert_int_equal(f->nr_asked, 4);
	assert_int_equal(f->victim.window, 1);
	assert_int_equal(f->victim.nr, 4);
	assert_int_equal(f->victim.by_default, WEIR_POLICY_UNKNOWN);
	assert_int_equal(get_block_state(&f->t, one[35]), BLOCK_HOST);
	/* There is no third one: the default. */
	f->windows = 9;
	f->range[1] = do_alloc(&f->t, 2 * BLOCK, 0);
	do_fill(&f->t, 0, f->range[1], 2 * BLOCK, 1);
	do_sync(&f->t);
	assert_int_equal(get_block_state(&f->t, one[0]), BLOCK_HOST);
	assert_int_equal(f->policy.base.stats.nr_wrong, 0);
	assert_int_equal(f->policy.base.stats.answered[POLICY_VICTIM], 2);
	/* Words of the first window were kept four times, although another window followed it. */
	f->windows = 0;
	f->chosen = 0;
	f->range[2] = do_alloc(&f->t, 2 * BLOCK, 0);
	do_fill(&f->t, 0, f->range[2], 2 * BLOCK, 1);
	do_sync(&f->t);
	assert_int_equal(f->victim.window, 0);
	assert_int_equal(f->victim.candidate[0].range_word[1], 5);
}

/* A future of 32 ranges in an order of its own: the 9th is used at 124. */
static uint64_t mixed(void *arg, const void *addr, uint64_t bytes)
{
	const struct fixture *f = arg;

	(void)bytes;
	for (uint32_t n = 0; n < RANGES; n++)
		if (f->range[n] == addr)
			return 100 + n * 7 % WEIR_POLICY_CANDIDATES;
	return 1;
}

/* As many candidates as a window has: there is no second one. */
static void test_space_policy_full_window(void **state)
{
	struct fixture *f = *state;
	const struct policy_future future = {.next_use = mixed, .arg = f};
	uint8_t *one[WEIR_POLICY_CANDIDATES];

	test_space_close(&f->t);
	test_space_open(&f->t, WEIR_DATA_REAL, WEIR_PLANNED, BLOCK, WEIR_POLICY_CANDIDATES,
			4 * RANGES);
	for (uint32_t n = 0; n < WEIR_POLICY_CANDIDATES; n++) {
		one[n] = do_alloc(&f->t, BLOCK, 0);
		do_fill(&f->t, 0, one[n], BLOCK, n + 1);
		if (n % 5 == 0 || n % 7 == 3)
			do_expect(&f->t, 0, one[n / 2], BLOCK, n / 2 + 1);
	}
	do_sync(&f->t);
	f->policy.victim = victim;
	f->windows = 9;
	set_policy(f);
	f->range[0] = do_alloc(&f->t, BLOCK, 0);
	do_fill(&f->t, 0, f->range[0], BLOCK, 1);
	do_sync(&f->t);
	assert_int_equal(f->nr_asked, 1);
	assert_int_equal(f->victim.nr, WEIR_POLICY_CANDIDATES);
	assert_int_equal(f->policy.base.stats.nr_wrong, 0);
	/* The eighth of those that are used again latest, after 31 others and the new one. */
	memcpy(f->range, one, sizeof(one));
	assert_int_equal(get_block_state(&f->t, one[8]), BLOCK_HBM);
	f->policy.base.future = &future;
	f->windows = 0;
	f->chosen = WEIR_POLICY_CANDIDATES + 7;
	f->range[WEIR_POLICY_CANDIDATES] = do_alloc(&f->t, BLOCK, 0);
	do_fill(&f->t, 0, f->range[WEIR_POLICY_CANDIDATES], BLOCK, 1);
	do_sync(&f->t);
	assert_int_equal(f->victim.far[7].next_use, 124);
	assert_int_equal(get_block_state(&f->t, one[8]), BLOCK_HOST);
}

/* A future in which a range is used the later, the earlier it was allocated. */
static uint64_t next_use(void *arg, const void *addr, uint64_t bytes)
{
	const struct fixture *f = arg;

	assert_true(bytes == ALL);
	for (uint32_t n = 0; n < f->nr; n++)
		if (f->range[n] == addr)
			return n == 1 ? WEIR_POLICY_NEVER : 100 - n;
	return 1; /* the one that is being made */
}

static void test_space_policy_sees_the_future(void **state)
{
	struct fixture *f = *state;
	const struct policy_future future = {.next_use = next_use, .arg = f};

	f->policy.victim = victim;
	set_policy(f);
	f->policy.base.future = &future;
	f->chosen = WEIR_POLICY_CANDIDATES;
	fill(f, 2);
	use(f, 0);
	use(f, 1);
	/* By default 0 goes, which was used before 1. */
	fill(f, 3);
	assert_int_equal(nr_resident(f, 0), 4);
	assert_int_equal(nr_resident(f, 1), 0);
	assert_int_equal(f->victim.nr_far, 2);
	assert_true(f->victim.far[0].next_use == WEIR_POLICY_NEVER);
	assert_int_equal(f->victim.far[1].next_use, 100);
	assert_int_equal(f->victim.candidate[0].next_use, 100);
	f->chosen = WEIR_POLICY_CANDIDATES + 2; /* there are two */
	fill(f, 4);
	assert_int_equal(f->policy.base.stats.nr_wrong, 4);
	f->policy.base.future = NULL;
	fill(f, 5);
	assert_int_equal(f->victim.nr_far, 0);
	assert_int_equal(f->victim.candidate[0].next_use, 0);
}

static void test_space_policy_hears_of_moves(void **state)
{
	struct fixture *f = *state;

	f->policy.moved = moved;
	set_policy(f);
	fill(f, 3);
	assert_int_equal(f->nr_came, 12);
	assert_int_equal(f->nr_left, 4);
	use(f, 0);
	assert_int_equal(f->nr_came, 16);
	assert_int_equal(f->nr_left, 8);
	assert_int_equal(f->policy.base.stats.asked[POLICY_MOVED], 24);
}

/* Uses in place are those of what comes then, too. */
static void test_space_policy_hears_of_uses(void **state)
{
	struct fixture *f = *state;

	fill(f, 3);
	f->policy.admit = admit;
	f->policy.moved = moved;
	set_policy(f);
	use(f, 0);
	use(f, 0);
	assert_int_equal(f->nr_came, 0);
	f->level = 4;
	use(f, 0);
	assert_int_equal(f->nr_came, 4);
	assert_int_equal(f->uses_came, 2); /* before the first block; none later */
}

static void test_space_policy_that_is_wrong_is_detached(void **state)
{
	struct fixture *f = *state;

	fill(f, 3);
	f->policy.admit = admit;
	set_policy(f);
	f->level = 5;
	for (uint32_t n = 0; n < 20; n++)
		use(f, n % 3);
	assert_int_equal(f->nr_asked, 16);
	assert_int_equal(f->policy.base.stats.nr_wrong, 16);
	assert_true(f->policy.base.stats.detached);
	/* The default was taken each time. */
	assert_int_equal(nr_resident(f, 19 % 3), 4);
}

static void test_space_policy_words_start_anew(void **state)
{
	struct fixture *f = *state;

	fill(f, 3);
	f->policy.admit = admit;
	set_policy(f);
	use(f, 0);
	use(f, 0);
	assert_int_equal(f->admit.range.word[0], 1);
	assert_int_equal(weir_space_set_policy(f->t.space, &f->policy.base), 0);
	use(f, 0);
	assert_int_equal(f->admit.range.word[0], 0);
	do_free(&f->t, f->range[0], 0);
	f->range[0] = do_alloc(&f->t, ALL, 0);
	do_fill(&f->t, 0, f->range[0], ALL, 1);
	use(f, 0);
	assert_int_equal(f->admit.range.word[0], 1);
}

/* Of two devices each follows a plan: what both use is in neither, and asked about once a use. */
static void test_space_policy_beside_plans(void **state)
{
	struct fixture *f = *state;
	uint8_t *shared, *own[3];
	struct weir_use read;

	test_space_close(&f->t);
	test_space_open_devices(&f->t, BLOCK, 10, 10, 48);
	shared = do_alloc(&f->t, ALL, 0);
	do_fill(&f->t, 0, shared, ALL, 1);
	do_expect(&f->t, TEST_OTHER, shared, ALL, 1);
	read = (struct weir_use){.addr = shared, .bytes = ALL, .kind = WEIR_READ};
	for (uint32_t n = 0; n < 3; n++)
		own[n] = do_alloc(&f->t, 6 * BLOCK, 0);
	assert_int_equal(weir_host_begin(f->t.space, &read, 1), 0); /* it leaves for the host's */
	assert_int_equal(weir_host_end(f->t.space, &read, 1), 0);
	f->policy.admit = admit;
	set_policy(f);
	for (uint32_t n = 0; n < 80; n++) {
		if (n % 4 == 3)
			do_expect(&f->t, 0, shared, ALL, 1);
		else
			do_fill(&f->t, 0, own[n % 4], 6 * BLOCK, n);
		if (n >= 60)
			assert_non_null(range_find(f->t.space, own[0])->residency->planner->plan);
	}
	assert_true(f->admit.range.uses == 19 && f->admit.range.nr_resident == 0);
	f->nr_asked = 0;
	do_expect(&f->t, 0, shared, ALL, 1);
	assert_int_equal(f->nr_asked, 1);
	do_sync(&f->t);
}

/* A policy that is set hears of uses from then on, and so does one that is set again. */
static void test_space_policy_counts_anew(void **state)
{
	struct fixture *f = *state;

	fill(f, 3);
	f->policy.admit = admit;
	f->level = 0;
	use(f, 0);
	set_policy(f);
	do_expect(&f->t, 0, f->range[0], ALL, 1);
	do_sync(&f->t);
	assert_int_equal(nr_resident(f, 0), 4);
	assert_int_equal(f->nr_asked, 0);
	for (uint32_t n = 0; n < 2; n++) {
		use(f, 1);
		use(f, 1);
		assert_int_equal(f->admit.range.uses, 1);
		assert_int_equal(weir_space_set_policy(f->t.space, &f->policy.base), 0);
	}
}

static void test_space_policy_built_in(void **state)
{
	struct fixture *f = *state;
	struct weir_policy_global least;
	struct weir_policy *policy;
	char err[200];

	/* Decimal, whatever it begins with. */
	assert_int_equal(weir_policy_open("second_use:least=010", &policy, err, sizeof(err)), 0);
	assert_true(weir_policy_global_nth(policy, 0, &least));
	assert_int_equal(least.value, 10);
	weir_policy_close(policy);

	assert_int_equal(weir_policy_open("second_use", &policy, err, sizeof(err)), 0);
	fill(f, 3);
	assert_int_equal(weir_space_set_policy(f->t.space, policy), 0);
	use(f, 0);
	assert_int_equal(nr_resident(f, 0), 0);
	use(f, 0);
	assert_int_equal(nr_resident(f, 0), 4);
	assert_int_equal(weir_space_set_policy(f->t.space, NULL), 0);
	use(f, 1);
	assert_int_equal(nr_resident(f, 1), 4);
	weir_policy_close(policy);
	f->policy.admit = admit;
	test_policy_open(&f->policy); /* for teardown() */
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(test_space_policy_##name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(sees_a_range),
		TEST(sees_costs),
		TEST(fresh_contents),
		TEST(leaves_advice),
		TEST(full_window),
		TEST(keeps_a_range_out),
		TEST(admits_into_free_room_only),
		TEST(chooses_who_goes),
		TEST(sees_candidates),
		TEST(looks_at_windows),
		TEST(sees_the_future),
		TEST(hears_of_moves),
		TEST(hears_of_uses),
		TEST(that_is_wrong_is_detached),
		TEST(words_start_anew),
		TEST(beside_plans),
		TEST(counts_anew),
		TEST(built_in),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
