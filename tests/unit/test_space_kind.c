/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranges of another kind than mapped ones in a space: when a bracket asks a kind of the test's own
 * to make them ready and to release them, what becomes of a bracket that it refuses, and what else
 * a program can do with such ranges. test_space_paged.c has those of paged memory.
 */
#include <errno.h>
#include <stdlib.h>

#include "src/core/kind.h"
#include "src/residency/residency.h"
#include "tests/support/space.h"

#define BLOCK 4096u
#define OTHER_BYTES 10000u /* no whole blocks */
#define NR_OTHERS 3u

/* What the test's kind does, and was asked. */
struct other_pool {
	struct range_owner owner; /* first */
	struct weir_space *space;
	struct range *range[NR_OTHERS];
	uint8_t bytes[NR_OTHERS][OTHER_BYTES];
	uint32_t nr_ready[NR_OTHERS], nr_released[NR_OTHERS];
	uint32_t nr_waits;	  /* ready is to ask for so many waits first */
	uint32_t nr_calls;	  /* that were made without the lock */
	uint32_t refused;	  /* number of the range that is not made ready, + 1 */
	uint32_t pins_at_refusal; /* of the mapped range */
	const struct range *mapped;
	int release_err, check_err;
	uint32_t nr_checks, nr_queries, nr_destroyed;
};

static void other_call(void *arg)
{
	struct range_ready *use = arg;
	struct other_pool *pool = (struct other_pool *)use->owner;

	assert_int_equal(pthread_mutex_trylock(&pool->space->lock), 0);
	pthread_mutex_unlock(&pool->space->lock);
	pool->nr_calls++;
	use->called = true;
}

static int other_ready(struct weir_space *space, struct range_ready *use, struct settle *settle)
{
	struct other_pool *pool = (struct other_pool *)use->owner;

	assert_int_equal(pthread_mutex_trylock(&space->lock), EBUSY);
	assert_true(space->placing);
	if (pool->nr_waits && !use->called) {
		pool->nr_waits--;
		settle->call = other_call;
		settle->arg = use;
		return SETTLE_WAIT;
	}
	if (settle_on_seq(space, space->last_seq, settle))
		return SETTLE_WAIT;
	if (pool->refused == use->number + 1) {
		pool->pins_at_refusal = pool->mapped ? pool->mapped->pins : 0;
		return -EXFULL;
	}
	pool->nr_ready[use->number]++;
	return 0;
}

static int other_release(struct range_owner *owner, uint32_t number, struct weir_stream *stream)
{
	struct other_pool *pool = (struct other_pool *)owner;

	assert_int_equal(pthread_mutex_trylock(&pool->space->lock), 0);
	pthread_mutex_unlock(&pool->space->lock);
	assert_non_null(stream);
	pool->nr_released[number]++;
	return pool->release_err;
}

static int other_copy(struct range_owner *owner, uint32_t number, uint64_t offset, const void *in,
		      void *out, uint64_t bytes)
{
	struct other_pool *pool = (struct other_pool *)owner;

	if (in)
		memcpy(pool->bytes[number] + offset, in, bytes);
	else
		memcpy(out, pool->bytes[number] + offset, bytes);
	return 0;
}

static int other_check(const struct weir_space *space, const struct range *range)
{
	struct other_pool *pool = (struct other_pool *)range->owner;

	(void)space;
	pool->nr_checks++;
	return pool->check_err;
}

static void other_query(const struct range *range, struct weir_space_stats *out)
{
	(void)out;
	((struct other_pool *)range->owner)->nr_queries++;
}

static void other_destroy(struct range_owner *owner)
{
	((struct other_pool *)owner)->nr_destroyed++;
}

static const struct range_kind other_kind = {
	.name = "another",
	.ready = other_ready,
	.release = other_release,
	.copy = other_copy,
	.check = other_check,
	.query = other_query,
	.destroy = other_destroy,
};

struct kind_test {
	struct test_space t;
	struct other_pool pool;
	uint8_t *mapped; /* 2 blocks */
};

static void other_open(struct kind_test *k, enum weir_space_mode mode)
{
	memset(k, 0, sizeof(*k));
	test_space_open(&k->t, WEIR_DATA_REAL, mode, BLOCK, 8, 16);
	k->pool.space = k->t.space;
	space_owner_add(k->t.space, &k->pool.owner, &other_kind, PLACE_OWN, NULL);
	for (uint32_t i = 0; i < NR_OTHERS; i++)
		assert_int_equal(space_range_add(k->t.space, &k->pool.owner, i, k->pool.bytes[i],
						 OTHER_BYTES, &k->pool.range[i]),
				 0);
	k->mapped = do_alloc(&k->t, (uint64_t)2 * BLOCK, 0);
	k->pool.mapped = range_find(k->t.space, k->mapped);
}

/* As paged pools do it: the ranges, then their owner, then the space. */
static void other_close(struct kind_test *k)
{
	do_check(&k->t);
	for (uint32_t i = 0; i < NR_OTHERS; i++)
		if (k->pool.range[i])
			space_range_del(k->t.space, k->pool.range[i]);
	space_owner_del(k->t.space, &k->pool.owner);
	test_space_close(&k->t);
	assert_int_equal(k->pool.nr_destroyed, 0);
}

/* Uses of a range of the test's and of the mapped one. */
static struct weir_use use(void *addr, uint64_t bytes, enum weir_use_kind kind)
{
	return (struct weir_use){.addr = addr, .bytes = bytes, .kind = kind};
}

static int begin_both(struct kind_test *k, enum weir_use_kind kind)
{
	const struct weir_use uses[] = {
		use(k->pool.bytes[0], OTHER_BYTES, kind),
		use(k->mapped, (uint64_t)2 * BLOCK, WEIR_OVERWRITE),
		use(k->pool.bytes[2] + 5, 77, kind),
	};

	return weir_begin(k->t.space, k->t.stream[0], uses, 3);
}

static void expect_counts(const struct kind_test *k, uint32_t nr_ready, uint32_t nr_released)
{
	assert_int_equal(k->pool.nr_ready[0], nr_ready);
	assert_int_equal(k->pool.nr_ready[1], 0);
	assert_int_equal(k->pool.nr_ready[2], nr_ready);
	assert_int_equal(k->pool.nr_released[0], nr_released);
	assert_int_equal(k->pool.nr_released[1], 0);
	assert_int_equal(k->pool.nr_released[2], nr_released);
}

/* Made ready before weir_begin() returns, released in weir_end(): in either mode. */
static void test_kind_in_a_bracket(void **unused)
{
	struct kind_test k;

	(void)unused;
	for (int mode = WEIR_FIXED; mode <= WEIR_PLANNED; mode++) {
		other_open(&k, (enum weir_space_mode)mode);
		for (uint32_t i = 0; i < 20; i++) { /* enough for a plan */
			assert_int_equal(begin_both(&k, i % 2 ? WEIR_READ : WEIR_OVERWRITE), 0);
			do_launch(&k.t, 0, k.mapped, (uint64_t)2 * BLOCK, WEIR_OVERWRITE, 0, 1 + i);
			expect_counts(&k, i + 1, i);
			assert_int_equal(k.pool.range[0]->pins, 1);
			do_check(&k.t);
			do_end(&k.t, 0);
			expect_counts(&k, i + 1, i + 1);
			assert_int_equal(k.pool.range[0]->pins, 0);
			if (mode == WEIR_PLANNED) { /* of three uses the mapped one is recorded */
				const struct record *record =
					&k.t.space->residency->planner->record;

				assert_int_equal(
					record_event(record, record->next_event - 1)->nr_uses, 1);
			}
		}
		do_read(&k.t, k.mapped, (uint64_t)2 * BLOCK, 20);
		other_close(&k);
	}
}

/* A discard touches nothing; the bracket that names the whole space names these ranges, too. */
static void test_kind_discarded_and_all(void **unused)
{
	struct kind_test k;

	(void)unused;
	other_open(&k, WEIR_PLANNED);
	assert_int_equal(begin_both(&k, WEIR_DISCARD), 0);
	do_end(&k.t, 0);
	expect_counts(&k, 0, 0);
	assert_int_equal(weir_begin(k.t.space, k.t.stream[0], NULL, 0), 0);
	assert_int_equal(k.pool.nr_ready[1], 1);
	assert_int_equal(k.pool.nr_released[1], 0);
	do_end(&k.t, 0);
	assert_int_equal(k.pool.nr_ready[1], 1);
	assert_int_equal(k.pool.nr_released[1], 1);
	other_close(&k);
}

/* The last of three uses is refused: the first is released, nothing is pinned, no bracket is open,
 * and the next one opens. */
static void test_kind_refuses(void **unused)
{
	struct kind_test k;

	(void)unused;
	other_open(&k, WEIR_PLANNED);
	k.pool.refused = 2 + 1;
	assert_int_equal(begin_both(&k, WEIR_WRITE), -EXFULL);
	assert_int_equal(k.pool.pins_at_refusal, 0);
	assert_int_equal(k.pool.nr_ready[0], 1);
	assert_int_equal(k.pool.nr_released[0], 1);
	assert_int_equal(k.pool.nr_ready[2] + k.pool.nr_released[2], 0);
	assert_int_equal(k.pool.mapped->pins, 0);
	assert_int_equal(k.pool.range[0]->pins, 0);
	assert_int_equal(k.t.space->nr_open, 0);
	do_check(&k.t);
	assert_int_equal(weir_end(k.t.space, k.t.stream[0]), -WEIR_ECONTRACT);
	k.pool.refused = 0;
	assert_int_equal(begin_both(&k, WEIR_WRITE), 0);
	do_end(&k.t, 0);
	assert_int_equal(k.pool.nr_ready[2], 1);
	assert_int_equal(k.pool.nr_released[2], 1);
	other_close(&k);
}

/* It asks for calls without the lock, and waits for a bracket of another stream. */
static void test_kind_waits(void **unused)
{
	struct weir_use other;
	struct kind_test k;
	uint64_t waits;

	(void)unused;
	other_open(&k, WEIR_PLANNED);
	do_fill(&k.t, 1, k.mapped, BLOCK, 3);
	waits = k.t.space->nr_waits;
	k.pool.nr_waits = 2;
	other = use(k.pool.bytes[1], 1, WEIR_READ);
	assert_int_equal(weir_begin(k.t.space, k.t.stream[0], &other, 1), 0);
	assert_int_equal(k.pool.nr_calls, 1);
	assert_int_equal(k.pool.nr_ready[1], 1);
	assert_true(k.t.space->nr_waits > waits);
	do_end(&k.t, 0);
	/* Each use begins anew. */
	assert_int_equal(begin_both(&k, WEIR_READ), 0);
	assert_int_equal(k.pool.nr_calls, 2);
	do_end(&k.t, 0);
	other_close(&k);
}

/* What release says is told by the next weir_space_sync(); the bracket has ended. */
static void test_kind_release_fails(void **unused)
{
	struct kind_test k;

	(void)unused;
	other_open(&k, WEIR_PLANNED);
	assert_int_equal(begin_both(&k, WEIR_READ), 0);
	k.pool.release_err = -EXFULL;
	assert_int_equal(weir_end(k.t.space, k.t.stream[0]), 0);
	assert_int_equal(weir_space_sync(k.t.space), -EXFULL);
	assert_int_equal(weir_space_sync(k.t.space), 0);
	other_close(&k);
}

/* weir_read() and weir_write() ask the owner; what needs blocks is refused. */
static void test_kind_other_calls(void **unused)
{
	struct weir_space_stats stats;
	struct weir_fence *fence;
	struct kind_test k;
	struct weir_use other;
	uint8_t back[9];
	uint8_t *at;

	(void)unused;
	other_open(&k, WEIR_PLANNED);
	at = k.pool.bytes[1] + 4000;
	other = use(at, 9, WEIR_READ);
	assert_int_equal(weir_write(k.t.space, at, "12345678", 9), 0);
	assert_string_equal((char *)k.pool.bytes[1] + 4000, "12345678");
	assert_int_equal(weir_read(k.t.space, back, at, 9), 0);
	assert_string_equal((char *)back, "12345678");
	assert_int_equal(weir_read(k.t.space, NULL, at, 9), -EINVAL);
	assert_int_equal(weir_read(k.t.space, back, at, OTHER_BYTES), -EINVAL);
	assert_int_equal(weir_host_begin(k.t.space, &other, 1), -ENOTSUP);
	assert_int_equal(weir_advise(k.t.space, at, WEIR_ADVISE_READ_MOSTLY, 0), -ENOTSUP);
	assert_int_equal(weir_prefetch(k.t.space, at, 9, GPU0, &fence), -ENOTSUP);
	assert_int_equal(weir_free(k.t.space, k.pool.bytes[1], NULL), -EINVAL);
	assert_int_equal(weir_space_set_mode(k.t.space, WEIR_FIXED), 0);
	assert_int_equal(weir_space_set_mode(k.t.space, WEIR_PLANNED), 0);
	weir_space_query(k.t.space, &stats);
	assert_int_equal(k.pool.nr_queries, NR_OTHERS);
	k.pool.nr_checks = 0;
	do_check(&k.t);
	assert_int_equal(k.pool.nr_checks, NR_OTHERS);
	k.pool.check_err = -EUCLEAN;
	assert_int_equal(weir_space_check(k.t.space), -EUCLEAN);
	k.pool.check_err = 0;
	other_close(&k);
}

/* Addresses are one range's alone. */
static void test_kind_overlaps(void **unused)
{
	struct kind_test k;
	struct range *range;
	uint8_t *at;

	(void)unused;
	other_open(&k, WEIR_PLANNED);
	at = k.pool.bytes[1];
	space_range_del(k.t.space, k.pool.range[1]);
	assert_int_equal(space_range_add(k.t.space, &k.pool.owner, 1, at - 1, 5, &range), -EINVAL);
	assert_int_equal(space_range_add(k.t.space, &k.pool.owner, 1, at, OTHER_BYTES + 1, &range),
			 -EINVAL);
	assert_int_equal(space_range_add(k.t.space, &k.pool.owner, 1, at - OTHER_BYTES - 4,
					 3 * OTHER_BYTES, &range),
			 -EINVAL);
	assert_int_equal(space_range_add(k.t.space, &k.pool.owner, 1, k.mapped + 5, 1, &range),
			 -EINVAL);
	assert_int_equal(
		space_range_add(k.t.space, &k.pool.owner, 1, at, OTHER_BYTES, &k.pool.range[1]), 0);
	other_close(&k);
}

/* A range that goes while an open bracket names it is not asked for any more, nor found; one that
 * comes to the same addresses is another one. */
static void test_kind_removed_while_named(void **unused)
{
	struct weir_use one;
	struct kind_test k;

	(void)unused;
	other_open(&k, WEIR_PLANNED);
	one = use(k.pool.bytes[0], 8, WEIR_WRITE);
	assert_int_equal(begin_both(&k, WEIR_WRITE), 0);
	space_range_del(k.t.space, k.pool.range[0]);
	assert_int_equal(weir_begin(k.t.space, k.t.stream[1], &one, 1), -EINVAL);
	assert_int_equal(space_range_add(k.t.space, &k.pool.owner, 0, k.pool.bytes[0], OTHER_BYTES,
					 &k.pool.range[0]),
			 0);
	do_check(&k.t);
	do_end(&k.t, 0);
	assert_int_equal(k.pool.nr_released[0], 0);
	assert_int_equal(k.pool.nr_released[2], 1);
	assert_int_equal(weir_begin(k.t.space, k.t.stream[1], &one, 1), 0);
	do_end(&k.t, 1);
	assert_int_equal(k.pool.nr_released[0], 1);
	do_sync(&k.t);
	/* What a bracket that is not done names is kept for the order of others. */
	assert_int_equal(begin_both(&k, WEIR_WRITE), 0);
	do_launch(&k.t, 0, k.mapped, (uint64_t)2 * BLOCK, WEIR_OVERWRITE, 0, 1);
	do_end(&k.t, 0);
	space_range_del(k.t.space, k.pool.range[0]);
	k.pool.range[0] = NULL;
	assert_non_null(k.t.space->removed);
	do_sync(&k.t);
	space_range_del(k.t.space, k.pool.range[1]);
	k.pool.range[1] = NULL;
	assert_null(k.t.space->removed);
	other_close(&k);
}

/* The space goes first: the owner is told, once, and an open bracket is released before. */
static void test_kind_space_goes_first(void **unused)
{
	struct kind_test k;

	(void)unused;
	other_open(&k, WEIR_PLANNED);
	assert_int_equal(begin_both(&k, WEIR_WRITE), 0);
	weir_space_destroy(k.t.space);
	expect_counts(&k, 1, 1);
	assert_int_equal(k.pool.nr_destroyed, 1);
	k.t.space = NULL;
	test_machine_close(&k.t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kind_in_a_bracket),
		cmocka_unit_test(test_kind_discarded_and_all),
		cmocka_unit_test(test_kind_refuses),
		cmocka_unit_test(test_kind_waits),
		cmocka_unit_test(test_kind_release_fails),
		cmocka_unit_test(test_kind_other_calls),
		cmocka_unit_test(test_kind_overlaps),
		cmocka_unit_test(test_kind_removed_while_named),
		cmocka_unit_test(test_kind_space_goes_first),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
