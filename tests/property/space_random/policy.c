/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Policies that answer anything, one of which may be set at any time. What they see is checked: it
 * agrees in itself, and words are what the same policy wrote last, or 0.
 */
#include <errno.h>

#include "tests/property/space_random/model.h"
#include "tests/support/policy.h"

static struct test_random answers;
static struct test_policy policies[2];
static uint64_t nr_decisions;
static bool several; /* devices of the space */

static bool one_answer_in(uint32_t n)
{
	return random_below(&answers, n) == 0;
}

/* Words that a policy leaves for what has two numbers. */
static void check_words(uint64_t word[2], uint32_t a, uint32_t b)
{
	uint64_t mine = (uint64_t)a << 32 | b;

	assert_true(!word[0] || word[0] == ~mine);
	assert_true(!word[1] == !word[0]);
	word[0] = ~mine;
	word[1]++;
}

static void check_range(struct weir_policy_range *range)
{
	assert_true(range->nr_resident <= range->nr_blocks);
	assert_true(range->nr_dirty <= range->nr_resident);
	assert_true(range->in_place_bytes <= range->touched_bytes);
	assert_true(range->uses || !range->touched_bytes);
	check_words(range->word, range->number, 0);
}

static int random_admit(struct test_policy *p, struct weir_policy_admit *q)
{
	(void)p;
	nr_decisions++;
	assert_true(q->range.nr_resident < q->range.nr_blocks || q->range.nr_blocks == 0 ||
		    q->use_kind != WEIR_DISCARD);
	assert_true(q->in_ns && q->out_ns && q->block_bytes);
	assert_true(q->free_blocks <= q->all_blocks);
	check_range(&q->range);
	/* Of several devices, one may have in its memory what is another's. */
	if (q->has_victim && !several)
		assert_true(q->victim.nr_resident > 0 || q->victim.number != q->range.number);
	q->level = random_below(&answers, q->range.nr_blocks + 1) + (one_answer_in(64) ? 99 : 0);
	q->evict = random_below(&answers, 2);
	return (int)random_below(&answers, 2);
}

static int random_victim(struct test_policy *p, struct weir_policy_victim *q)
{
	(void)p;
	nr_decisions++;
	assert_true(q->nr > 0 && q->nr <= WEIR_POLICY_CANDIDATES);
	assert_true(q->by_default < q->nr || q->by_default == WEIR_POLICY_UNKNOWN);
	for (uint32_t n = 0; n < q->nr; n++) {
		struct weir_policy_candidate *c = &q->candidate[n];

		assert_true(c->block < c->nr_blocks);
		assert_true(n == 0 || c->arrived_age <= q->candidate[n - 1].arrived_age);
		check_words(c->range_word, c->range, 0);
		check_words(c->block_word, c->range, c->block + 1);
	}
	q->chosen = random_below(&answers, q->nr) + (one_answer_in(64) ? 99 : 0);
	return (int)random_below(&answers, 3);
}

static int random_moved(struct test_policy *p, struct weir_policy_moved *q)
{
	(void)p;
	assert_true(q->came <= 1 && q->block < q->nr_blocks && q->nr_resident <= q->nr_blocks);
	assert_true(q->nr_resident >= q->came);
	check_words(q->range_word, q->range, 0);
	check_words(q->block_word, q->range, q->block + 1);
	return 0;
}

void policies_open(uint64_t seed)
{
	answers.state = seed;
	for (uint32_t n = 0; n < 2; n++) {
		policies[n] = (struct test_policy){
			.admit = random_admit,
			.victim = n ? random_victim : NULL,
			.moved = n ? random_moved : NULL,
		};
		test_policy_open(&policies[n]);
	}
}

void policies_close(void)
{
	model_total.nr_decisions += nr_decisions;
	nr_decisions = 0;
	test_policy_close(&policies[0]);
	test_policy_close(&policies[1]);
}

void op_policy(struct model *m)
{
	uint32_t n = below(m, 3);

	several = m->nr_own > 1;
	trace("policy %u\n", n);
	assert_int_equal(weir_space_set_policy(m->t.space, n < 2 ? &policies[n].base : NULL),
			 n < 2 && m->mode == WEIR_FIXED ? -EINVAL : 0);
	model_total.nr_policies++;
}
