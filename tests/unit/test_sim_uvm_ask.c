/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Policies of managed memory on a simulated machine: what they are asked and see, what their
 * answers cost, and that answers that repeat the driver's rules change nothing at all.
 */
#include <unistd.h>

#include "src/base/hash.h"
#include "src/policy/policy.h"
#include "tests/unit/test_sim_uvm.h"

#define CHUNKS 80u

/* A policy whose hooks are the test's. */
static struct {
	struct weir_policy base;
	int (*admit)(struct weir_policy_admit *q);
	int (*victim)(struct weir_policy_victim *q);
	int (*fault)(struct weir_policy_fault *q);
	void (*moved)(struct weir_policy_moved *q);
} mine;

static int call_mine(struct weir_policy *policy, enum policy_hook hook, void *context,
		     uint64_t *budget, char *why, size_t why_bytes)
{
	(void)policy, (void)budget, (void)why, (void)why_bytes;
	if (hook == POLICY_ADMIT)
		return mine.admit(context);
	if (hook == POLICY_VICTIM)
		return mine.victim(context);
	if (hook == POLICY_FAULT)
		return mine.fault(context);
	mine.moved(context);
	return 0;
}

static void destroy_mine(struct weir_policy *policy)
{
	policy_fini(policy);
}

static const struct policy_form form_mine = {.call = call_mine, .destroy = destroy_mine};

static struct weir_policy *policy_of(int (*fault)(struct weir_policy_fault *q),
				     int (*victim)(struct weir_policy_victim *q))
{
	memset(&mine, 0, sizeof(mine));
	assert_int_equal(policy_init(&mine.base, &form_mine, "mine"), 0);
	mine.fault = fault;
	mine.victim = victim;
	mine.base.has[POLICY_FAULT] = fault;
	mine.base.has[POLICY_VICTIM] = victim;
	return &mine.base;
}

static struct weir_policy *builtin(const char *spec)
{
	struct weir_policy *policy;
	char err[256];

	assert_int_equal(weir_policy_open(spec, &policy, err, sizeof(err)), 0);
	return policy;
}

static struct weir_policy_stats counts(void)
{
	struct weir_policy_stats stats;

	weir_policy_query(&mine.base, &stats);
	return stats;
}

/* A machine of CHUNKS blocks, so that there are several windows of candidates. */
static int setup_large(void **state)
{
	static struct fixture f;
	struct weir_machine_desc desc;

	memset(&f, 0, sizeof(f));
	test_machine(&desc);
	desc.uvm = (struct weir_uvm_desc){256,		BATCH_NS,     PAGE_NS, POPULATE_NS,
					  CPU_UNMAP_NS, HOST_PAGE_NS, 0};
	desc.memory[GPU0].bytes = CHUNKS * BLOCK;
	desc.memory[HOST].bytes = 4 * CHUNKS * BLOCK;
	assert_int_equal(sim_create(&desc, WEIR_DATA_PHANTOM, &f.sim), 0);
	f.b = f.sim;
	assert_int_equal(f.b->ops->stream_create(f.b, 0, BACKEND_COMPUTE, &f.stream), 0);
	assert_int_equal(f.b->ops->stream_create(f.b, 1, BACKEND_COMPUTE, &f.other), 0);
	*state = &f;
	return 0;
}

/* ------------------------------------------------------------------ the same as without */

/* What a run left: the clock, where time went, what moved. */
struct outcome {
	uint64_t now_ns, times[BACKEND_TIME_NR];
	struct backend_managed_stats stats;
};

static uint64_t below(uint64_t *random, uint64_t end)
{
	*random = hash_mix(*random, 1);
	return *random % end;
}

/* Launches at random over three ranges, where 12 blocks fit of 24. */
static struct outcome wander(uint64_t seed, bool whole_blocks, struct weir_policy *policy)
{
	struct outcome out;
	struct fixture *f;
	void *state;
	uint64_t random = hash_mix(0, seed);
	char *range[3];

	assert_int_equal(setup_large(&state), 0);
	f = state;
	configure(f, (struct backend_managed){.gpu_bytes = 12 * BLOCK,
					      .whole_blocks = whole_blocks,
					      .policy = policy});
	for (int i = 0; i < 3; i++)
		range[i] = managed(f, 8 * BLOCK - (uint64_t)i * KIB(100));
	for (int i = 0; i < 60; i++) {
		uint64_t offset = below(&random, 7 * BLOCK), bytes = 1 + below(&random, BLOCK);
		enum weir_use_kind kind = below(&random, 2) ? WEIR_READ : WEIR_WRITE;
		struct weir_use use = use_of(range[below(&random, 3)] + offset, bytes, kind);

		use.pattern = below(&random, 2) ? WEIR_RANDOM : WEIR_STREAM;
		if (below(&random, 8) == 0)
			assert_int_equal(f->b->managed->prefetch(f->b, f->stream, use.addr, bytes,
								 below(&random, 2) ? GPU0 : HOST),
					 0);
		assert_int_equal(launch_touch(f->b, f->stream, (struct touch){0}, &use, 1), 0);
	}
	assert_int_equal(wait_idle(f, f->stream), 0);
	out.now_ns = f->b->ops->now_ns(f->b);
	assert_int_equal(f->b->observe->device_times(f->b, 0, out.times), 0);
	out.stats = stats_of(f, 0);
	for (int i = 0; i < 3; i++)
		f->b->managed->free(f->b, range[i]);
	assert_int_equal(teardown(&state), 0);
	return out;
}

static int no_answer(struct weir_policy_fault *q)
{
	memset(q->bring, 0x55, sizeof(q->bring));
	q->more = 3;
	return WEIR_POLICY_DEFAULT;
}

static int no_victim(struct weir_policy_victim *q)
{
	q->chosen = q->nr - 1;
	return q->window ? WEIR_POLICY_DEFAULT : WEIR_POLICY_NEXT;
}

static int oldest(struct weir_policy_victim *q)
{
	assert_int_equal(q->by_default, 0);
	q->chosen = 0;
	return WEIR_POLICY_ANSWER;
}

static void expect_same(const struct outcome *a, const struct outcome *b)
{
	assert_memory_equal(a, b, sizeof(*a));
}

static void test_ask_same_as_without(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 8; seed++) {
		const struct outcome plain = wander(seed, false, NULL);
		const struct outcome whole = wander(seed, true, NULL);
		struct outcome got;
		struct weir_policy *policy;

		assert_true(plain.stats.bytes[BACKEND_TO_HOST][WEIR_CAUSE_EVICTION] > 0);
		assert_true(plain.now_ns != whole.now_ns);
		policy = builtin("tree");
		got = wander(seed, false, policy);
		expect_same(&got, &plain);
		weir_policy_close(policy);
		policy = builtin("tree:threshold=0");
		got = wander(seed, false, policy);
		expect_same(&got, &whole);
		weir_policy_close(policy);
		policy = builtin("whole");
		got = wander(seed, false, policy);
		expect_same(&got, &whole);
		weir_policy_close(policy);
		policy = policy_of(no_answer, no_victim);
		got = wander(seed, true, policy);
		expect_same(&got, &whole);
		assert_int_equal(counts().answered[POLICY_FAULT], 0);
		assert_int_equal(counts().nr_wrong, 0);
		weir_policy_close(policy);
		policy = policy_of(NULL, oldest);
		got = wander(seed, false, policy);
		expect_same(&got, &plain);
		assert_true(counts().answered[POLICY_VICTIM] > 0);
		weir_policy_close(policy);
	}
}

static uint64_t answers; /* at random */

static int any_fault(struct weir_policy_fault *q)
{
	for (uint32_t i = 0; i < WEIR_POLICY_PAGES / 64; i++)
		q->bring[i] = below(&answers, 3) ? below(&answers, UINT64_MAX) : 0;
	q->more = (int32_t)below(&answers, 17) - 8;
	memset(q->range_word, 1, sizeof(q->range_word));
	q->nr_pages = q->nr_blocks = UINT32_MAX;
	return (int)below(&answers, 2);
}

static int any_victim(struct weir_policy_victim *q)
{
	q->chosen = (uint32_t)below(&answers, q->nr);
	q->nr = (uint32_t)below(&answers, 100);
	q->window = 7;
	return (int)below(&answers, 3);
}

/* Whatever is answered, launches end, and what they move stays within memory. */
static void test_ask_any_answer(void **state)
{
	(void)state;
	alarm(60);
	for (uint64_t seed = 1; seed <= 20; seed++) {
		struct weir_policy *policy = policy_of(any_fault, any_victim);
		struct outcome got;

		answers = hash_mix(1, seed);
		got = wander(seed, false, policy);
		assert_true(got.stats.gpu_peak_bytes <= 12 * BLOCK);
		assert_true(counts().answered[POLICY_VICTIM] > 0);
		assert_int_equal(counts().nr_wrong, 0);
		weir_policy_close(policy);
	}
	alarm(0);
}

/* ------------------------------------------------------------------ faults */

static struct weir_policy_fault seen; /* the last one */
static int32_t more;

static int page_alone(struct weir_policy_fault *q)
{
	seen = *q;
	return WEIR_POLICY_ANSWER;
}

static int whole_and_more(struct weir_policy_fault *q)
{
	memset(q->bring, 0xff, sizeof(q->bring));
	q->more = more;
	return WEIR_POLICY_ANSWER;
}

/* Pages alone, each of which is a batch. */
static void test_ask_fault_sees(void **state)
{
	struct fixture *f = *state;
	char *a, *b;

	configure(f, (struct backend_managed){.gpu_bytes = 3 * BLOCK,
					      .policy = policy_of(page_alone, NULL)});
	a = managed(f, 2 * BLOCK);
	b = managed(f, 3 * KIB(4));
	assert_int_equal(touch_on(f, f->stream, b, 2 * KIB(4), WEIR_READ), 0);
	expect_costs(f, 2 * (BATCH_NS + PAGE_NS) + POPULATE_NS, 0, 0);
	assert_int_equal(seen.range, 1);
	assert_int_equal(seen.nr_blocks, 1);
	assert_int_equal(seen.nr_pages, 3);
	assert_int_equal(seen.page, 1);
	assert_int_equal(seen.last_block, 0);
	assert_int_equal(seen.last_page, 0);
	assert_int_equal(seen.level[0], 1);
	assert_int_equal(seen.level[9], 3);
	assert_int_equal(seen.now, 1);
	assert_int_equal(seen.write, 0);
	assert_int_equal(seen.free_blocks, 2);
	assert_int_equal(seen.threshold, 51);
	assert_int_equal(touch_on(f, f->stream, a + BLOCK + KIB(400), KIB(4), WEIR_WRITE), 0);
	assert_int_equal(seen.range, 0);
	assert_int_equal(seen.block, 1);
	assert_int_equal(seen.page, 100);
	assert_int_equal(seen.last_block, WEIR_POLICY_UNKNOWN);
	assert_int_equal(seen.level[9], 16);
	assert_int_equal(seen.write, 1);
	assert_int_equal(touch_on(f, f->stream, a + BLOCK + KIB(404), KIB(4), WEIR_WRITE), 0);
	assert_int_equal(seen.resident[1], UINT64_C(1) << (100 - 64));
	assert_int_equal(seen.last_block, 1);
	assert_int_equal(seen.last_page, 100);
	f->b->managed->free(f->b, a);
	f->b->managed->free(f->b, b);
	weir_policy_close(&mine.base);
}

/* Blocks beside that of the fault: in its batch, at a fault's price. */
static void test_ask_more(void **state)
{
	struct fixture *f = *state;
	char *a;

	configure(f, (struct backend_managed){.policy = policy_of(whole_and_more, NULL)});
	a = managed(f, 6 * BLOCK);
	more = 2;
	assert_int_equal(touch_on(f, f->stream, a, KIB(4), WEIR_WRITE), 0);
	expect_costs(f, BATCH_NS + 2 * BLOCK_NS + 3 * (PAGES_NS + POPULATE_NS), 0, 0);
	assert_int_equal(f->b->ops->memory_used(f->b, GPU0), 3 * BLOCK);
	assert_int_equal(stats_of(f, 0).nr_faults, 1);
	/* The last block: there is none behind it. */
	assert_int_equal(touch_on(f, f->stream, a + 5 * BLOCK, KIB(4), WEIR_WRITE), 0);
	expect_costs(f, BATCH_NS + PAGES_NS + POPULATE_NS, 0, 0);
	/* Before it: one is there, and begins the range. */
	assert_int_equal(f->b->managed->prefetch(f->b, f->stream, a, 6 * BLOCK, HOST), 0);
	assert_int_equal(touch_on(f, f->stream, a, KIB(4), WEIR_WRITE), 0);
	(void)f->b->observe->device_times(f->b, 0, f->seen);
	assert_int_equal(stats_of(f, 0).bytes[BACKEND_TO_DEVICE][WEIR_CAUSE_PREFETCH], 2 * BLOCK);
	more = -8;
	assert_int_equal(touch_on(f, f->stream, a + 4 * BLOCK, KIB(4), WEIR_WRITE), 0);
	expect_costs(f, 0,
		     BATCH_NS + BLOCK_NS + LATENCY_NS +
			     2 * (PAGES * (PAGE_NS + CPU_UNMAP_NS) + POPULATE_NS + COPY_NS + IN_NS),
		     0);
	assert_int_equal(stats_of(f, 0).bytes[BACKEND_TO_DEVICE][WEIR_CAUSE_PREFETCH], 3 * BLOCK);
	f->b->managed->free(f->b, a);
	weir_policy_close(&mine.base);
}

static int newest(struct weir_policy_victim *q)
{
	q->chosen = q->nr - 1;
	return WEIR_POLICY_ANSWER;
}

/* What comes beside a block never pushes it out, however little fits. */
static void test_ask_more_little_room(void **state)
{
	struct fixture *f = *state;
	char *a;

	alarm(20);
	for (uint64_t room = 1; room <= 3; room++) {
		for (int last = 0; last < 2; last++) {
			configure(f, (struct backend_managed){
					     .gpu_bytes = room * BLOCK,
					     .policy = policy_of(whole_and_more,
								 last ? newest : NULL)});
			a = managed(f, 6 * BLOCK);
			more = 4;
			assert_int_equal(touch_on(f, f->stream, a, 6 * BLOCK, WEIR_WRITE), 0);
			more = -4;
			assert_int_equal(touch_on(f, f->stream, a, 6 * BLOCK, WEIR_WRITE), 0);
			assert_int_equal(f->b->ops->memory_used(f->b, GPU0), room * BLOCK);
			assert_int_equal(counts().nr_wrong, 0);
			f->b->managed->free(f->b, a);
			weir_policy_close(&mine.base);
		}
	}
	alarm(0);
}

/* What is beyond a short block is left out. */
static void test_ask_short_block(void **state)
{
	struct fixture *f = *state;
	char *a;

	configure(f, (struct backend_managed){.policy = policy_of(whole_and_more, NULL)});
	more = 0;
	a = managed(f, 3 * KIB(4));
	assert_int_equal(touch_on(f, f->stream, a, KIB(4), WEIR_WRITE), 0);
	expect_costs(f, BATCH_NS + 3 * PAGE_NS + POPULATE_NS, 0, 0);
	f->b->managed->free(f->b, a);
	weir_policy_close(&mine.base);
}

/* Room is what the limit leaves, and what other allocations do. */
static void test_ask_free_blocks(void **state)
{
	struct fixture *f = *state;
	void *plain = NULL;
	char *a;

	configure(f, (struct backend_managed){.policy = policy_of(page_alone, NULL)});
	a = managed(f, 2 * BLOCK);
	assert_int_equal(f->b->ops->device_alloc(f->b, GPU0, 5 * BLOCK, &plain), 0);
	assert_int_equal(touch_on(f, f->stream, a, KIB(4), WEIR_WRITE), 0);
	assert_int_equal(touch_on(f, f->stream, a + KIB(4), KIB(4), WEIR_WRITE), 0);
	assert_int_equal(seen.free_blocks, 2);
	f->b->ops->device_free(f->b, plain);
	f->b->managed->free(f->b, a);
	weir_policy_close(&mine.base);
}

/* The lowest number that is free is an allocation's. */
static void test_ask_numbers(void **state)
{
	struct fixture *f = *state;
	char *a[5];

	configure(f, (struct backend_managed){.policy = policy_of(page_alone, NULL)});
	for (int i = 0; i < 3; i++)
		a[i] = managed(f, KIB(4));
	f->b->managed->free(f->b, a[0]);
	a[3] = managed(f, KIB(4));
	a[4] = managed(f, KIB(4));
	assert_int_equal(touch_on(f, f->stream, a[3], KIB(4), WEIR_WRITE), 0);
	assert_int_equal(seen.range, 0);
	assert_int_equal(touch_on(f, f->stream, a[4], KIB(4), WEIR_WRITE), 0);
	assert_int_equal(seen.range, 3);
	for (int i = 1; i < 5; i++)
		f->b->managed->free(f->b, a[i]);
	weir_policy_close(&mine.base);
}

/* ------------------------------------------------------------------ victims */

static struct weir_policy_victim window[2]; /* the last ones */

static int second_window(struct weir_policy_victim *q)
{
	if (q->window < 2)
		window[q->window] = *q;
	if (q->window == 0)
		return WEIR_POLICY_NEXT;
	q->chosen = 3;
	return WEIR_POLICY_ANSWER;
}

/* Candidates come in windows of 32, in order of arrival. */
static void test_ask_windows(void **state)
{
	struct fixture *f = *state;
	char *a;

	configure(f, (struct backend_managed){.gpu_bytes = 40 * BLOCK,
					      .whole_blocks = true,
					      .policy = policy_of(NULL, second_window)});
	a = managed(f, 60 * BLOCK);
	assert_int_equal(touch_on(f, f->stream, a, 40 * BLOCK, WEIR_WRITE), 0);
	assert_int_equal(touch_on(f, f->stream, a, BLOCK, WEIR_READ), 0);
	assert_int_equal(touch_on(f, f->stream, a + 50 * BLOCK, BLOCK, WEIR_WRITE), 0);
	assert_int_equal(window[0].nr, 32);
	assert_int_equal(window[0].by_default, 0);
	assert_int_equal(window[0].nr_far, 0);
	assert_int_equal(window[0].now, 3);
	assert_int_equal(window[0].candidate[0].block, 0);
	assert_int_equal(window[0].candidate[0].uses, 2);
	assert_int_equal(window[0].candidate[0].used_age, 1);
	assert_int_equal(window[0].candidate[1].uses, 1);
	assert_int_equal(window[0].candidate[1].used_age, 2);
	assert_int_equal(window[0].candidate[1].arrived_age, 2);
	assert_int_equal(window[0].candidate[1].nr_faults, 1);
	assert_int_equal(window[0].candidate[1].nr_resident, 512);
	assert_int_equal(window[0].candidate[1].nr_dirty, 512);
	assert_int_equal(window[1].nr, 8);
	assert_int_equal(window[1].by_default, WEIR_POLICY_UNKNOWN);
	assert_int_equal(window[1].candidate[0].block, 32);
	/* The fourth of them went: it alone has to come back. */
	(void)f->b->observe->device_times(f->b, 0, f->seen);
	assert_int_equal(touch_on(f, f->stream, a, 35 * BLOCK, WEIR_READ), 0);
	expect_costs(f, 0, 0, 0);
	assert_int_equal(touch_on(f, f->stream, a + 35 * BLOCK, BLOCK, WEIR_READ), 0);
	assert_int_equal(counts().asked[POLICY_VICTIM], 2);
	assert_int_equal(counts().answered[POLICY_VICTIM], 2);
	f->b->managed->free(f->b, a);
	weir_policy_close(&mine.base);
}

static int first_window(struct weir_policy_victim *q)
{
	window[0] = *q;
	return WEIR_POLICY_DEFAULT;
}

/* A block that comes again has had no faults yet but the one that brings it. */
static void test_ask_comes_again(void **state)
{
	struct fixture *f = *state;
	char *a;

	configure(f, (struct backend_managed){.gpu_bytes = 2 * BLOCK,
					      .whole_blocks = true,
					      .policy = policy_of(NULL, first_window)});
	a = managed(f, 3 * BLOCK);
	for (uint32_t i = 0; i < 6; i++)
		assert_int_equal(touch_on(f, f->stream, a + i % 3 * BLOCK, BLOCK, WEIR_WRITE), 0);
	assert_int_equal(counts().asked[POLICY_VICTIM], 4);
	assert_int_equal(window[0].nr, 2);
	assert_int_equal(window[0].candidate[0].block, 0);
	assert_int_equal(window[0].candidate[0].uses, 1);
	assert_int_equal(window[0].candidate[0].nr_faults, 1);
	f->b->managed->free(f->b, a);
	weir_policy_close(&mine.base);
}

/* A step is one use of a block, however often it touches it; what came for none had none. */
static void test_ask_uses(void **state)
{
	struct fixture *f = *state;
	struct weir_use use[2];
	char *a;

	configure(f, (struct backend_managed){.gpu_bytes = 2 * BLOCK,
					      .policy = policy_of(page_alone, first_window)});
	a = managed(f, 4 * BLOCK);
	assert_int_equal(f->b->managed->prefetch(f->b, f->stream, a, BLOCK, GPU0), 0);
	use[0] = use_of(a + BLOCK, KIB(4), WEIR_WRITE);
	use[1] = use_of(a + BLOCK + KIB(256), KIB(4), WEIR_WRITE);
	assert_int_equal(launch_touch(f->b, f->stream, (struct touch){0}, use, 2), 0);
	assert_int_equal(touch_on(f, f->stream, a, KIB(4), WEIR_READ), 0);
	/* More of it comes. */
	use[1] = use_of(a + BLOCK + KIB(512), KIB(4), WEIR_WRITE);
	assert_int_equal(launch_touch(f->b, f->stream, (struct touch){0}, use, 2), 0);
	assert_int_equal(touch_on(f, f->stream, a + 2 * BLOCK, KIB(4), WEIR_WRITE), 0);
	assert_int_equal(window[0].nr, 2);
	for (int i = 0; i < 2; i++) {
		const struct weir_policy_candidate *c = &window[0].candidate[i];

		assert_int_equal(c->uses, c->block == 0 ? 1 : 2);
		assert_int_equal(c->used_age, c->block == 0 ? 2 : 1);
		assert_int_equal(c->nr_resident, c->block == 0 ? 512 : 3);
		if (c->block == 1)
			assert_int_equal(c->arrived_age, 1);
	}
	f->b->managed->free(f->b, a);
	weir_policy_close(&mine.base);
}

/* What is on the host, too, need not be copied out; of what prefers a memory nothing is asked. */
static void test_ask_advised(void **state)
{
	struct fixture *f = *state;
	char *a;

	configure(f, (struct backend_managed){.gpu_bytes = 2 * BLOCK,
					      .whole_blocks = true,
					      .policy = policy_of(page_alone, first_window)});
	a = managed(f, 4 * BLOCK);
	assert_int_equal(touch_on(f, f->stream, a, KIB(8), WEIR_WRITE), 0);
	assert_int_equal(f->b->managed->prefetch(f->b, f->stream, a, BLOCK, HOST), 0);
	assert_int_equal(wait_idle(f, f->stream), 0);
	assert_int_equal(f->b->managed->advise(f->b, a, BLOCK, BACKEND_ADVICE_READ_MOSTLY, 0), 0);
	assert_int_equal(touch_on(f, f->stream, a, KIB(4), WEIR_READ), 0);
	assert_int_equal(touch_on(f, f->stream, a + BLOCK, KIB(4), WEIR_WRITE), 0);
	assert_int_equal(touch_on(f, f->stream, a + 2 * BLOCK, KIB(4), WEIR_WRITE), 0);
	assert_int_equal(window[0].candidate[0].block, 0);
	assert_int_equal(window[0].candidate[0].nr_resident, 1);
	assert_int_equal(window[0].candidate[0].nr_dirty, 0);
	assert_int_equal(window[0].candidate[1].nr_resident, 1);
	assert_int_equal(window[0].candidate[1].nr_dirty, 1);
	mine.base.stats.asked[POLICY_FAULT] = 0;
	assert_int_equal(
		f->b->managed->advise(f->b, a + 3 * BLOCK, BLOCK, BACKEND_ADVICE_PREFERRED, GPU0),
		0);
	assert_int_equal(touch_on(f, f->stream, a + 3 * BLOCK, KIB(4), WEIR_WRITE), 0);
	assert_int_equal(counts().asked[POLICY_FAULT], 0);
	f->b->managed->free(f->b, a);
	weir_policy_close(&mine.base);
}

/* A future in which blocks are used one after another, and the last one is short. */
static char *future_base;
static uint32_t future_short;

static uint64_t in_order(void *arg, const void *addr, uint64_t bytes)
{
	uint64_t index = (uint64_t)((const char *)addr - future_base) / BLOCK;

	(void)arg;
	assert_int_equal(bytes, index == future_short ? 3 * KIB(4) : BLOCK);
	return 100 + index;
}

/* All of it is one step, whatever is launched. */
static uint64_t first_step(void *arg)
{
	(void)arg;
	return 0;
}

static void no_step(void *arg)
{
	(void)arg;
}

static int some_far(struct weir_policy_victim *q)
{
	window[0] = *q;
	q->chosen = WEIR_POLICY_CANDIDATES + (q->nr_far > 3 ? 3 : 0);
	return WEIR_POLICY_ANSWER;
}

static void test_ask_future(void **state)
{
	const struct policy_future future = {
		.next_use = in_order, .now = first_step, .begin = no_step, .end = no_step};
	struct fixture *f = *state;
	char *a;

	configure(f, (struct backend_managed){.gpu_bytes = 12 * BLOCK,
					      .whole_blocks = true,
					      .policy = policy_of(NULL, some_far)});
	mine.base.future = &future;
	future_base = a = managed(f, 20 * BLOCK + 3 * KIB(4));
	future_short = 20;
	assert_int_equal(touch_on(f, f->stream, a, 11 * BLOCK, WEIR_WRITE), 0);
	assert_int_equal(touch_on(f, f->stream, a + 20 * BLOCK, KIB(4), WEIR_WRITE), 0);
	assert_int_equal(touch_on(f, f->stream, a + 12 * BLOCK, BLOCK, WEIR_WRITE), 0);
	assert_int_equal(window[0].nr_far, WEIR_POLICY_FAR);
	assert_int_equal(window[0].far[0].block, 20);
	assert_int_equal(window[0].far[0].next_use, 120);
	for (uint32_t i = 1; i < WEIR_POLICY_FAR; i++)
		assert_int_equal(window[0].far[i].block, 11 - i);
	assert_int_equal(window[0].candidate[2].next_use, 102);
	/* The fourth went, and no other. */
	(void)f->b->observe->device_times(f->b, 0, f->seen);
	assert_int_equal(touch_on(f, f->stream, a, 8 * BLOCK, WEIR_READ), 0);
	assert_int_equal(touch_on(f, f->stream, a + 9 * BLOCK, 2 * BLOCK, WEIR_READ), 0);
	expect_costs(f, 0, 0, 0);
	assert_int_equal(counts().asked[POLICY_VICTIM], 1);
	f->b->managed->free(f->b, a);
	weir_policy_close(&mine.base);
}

/* The block of a fault is none of the farthest, either. */
static void test_ask_future_little_room(void **state)
{
	const struct policy_future future = {
		.next_use = in_order, .now = first_step, .begin = no_step, .end = no_step};
	struct fixture *f = *state;
	char *a;

	configure(f, (struct backend_managed){.gpu_bytes = 2 * BLOCK,
					      .policy = policy_of(whole_and_more, some_far)});
	mine.base.future = &future;
	future_base = a = managed(f, 6 * BLOCK);
	future_short = 6;
	for (more = -4; more <= 4; more += 8)
		assert_int_equal(touch_on(f, f->stream, a, 6 * BLOCK, WEIR_WRITE), 0);
	assert_int_equal(f->b->ops->memory_used(f->b, GPU0), 2 * BLOCK);
	assert_int_equal(counts().nr_wrong, 0);
	f->b->managed->free(f->b, a);
	weir_policy_close(&mine.base);
}

/* Other allocations get what the policy gives away, too. */
static void test_ask_make_room(void **state)
{
	struct fixture *f = *state;
	void *plain = NULL;
	char *a;

	configure(f, (struct backend_managed){.policy = policy_of(NULL, newest)});
	a = managed(f, MIB(16));
	assert_int_equal(touch_on(f, f->stream, a, MIB(16), WEIR_WRITE), 0);
	assert_int_equal(f->b->ops->device_alloc(f->b, GPU0, 2 * BLOCK, &plain), 0);
	(void)f->b->observe->device_times(f->b, 0, f->seen);
	assert_int_equal(touch_on(f, f->stream, a, MIB(16) - 2 * BLOCK, WEIR_READ), 0);
	expect_costs(f, 0, 0, 0);
	f->b->ops->device_free(f->b, plain);
	f->b->managed->free(f->b, a);
	weir_policy_close(&mine.base);
}

/* ------------------------------------------------------------------ words */

static struct weir_policy_moved last_moved;
static uint32_t nr_came, nr_left;

static void count_moves(struct weir_policy_moved *q)
{
	*(q->came ? &nr_came : &nr_left) += 1;
	last_moved = *q;
	q->range_word[0]++;
	q->block_word[1]++;
}

static int mark_candidates(struct weir_policy_victim *q)
{
	/* A range is shown once a block; one of them changes its word. */
	q->candidate[1].range_word[1] += 100;
	for (uint32_t i = 0; i < q->nr; i++)
		q->candidate[i].block_word[0] += i + 1;
	window[0] = *q;
	q->chosen = 0;
	return WEIR_POLICY_ANSWER;
}

static int mark_fault(struct weir_policy_fault *q)
{
	seen = *q;
	q->range_word[0] += 1000;
	return WEIR_POLICY_DEFAULT;
}

static void test_ask_words(void **state)
{
	struct fixture *f = *state;
	struct weir_policy *policy = policy_of(mark_fault, mark_candidates);
	char *a;

	mine.moved = count_moves;
	policy->has[POLICY_MOVED] = true;
	nr_came = nr_left = 0;
	configure(f, (struct backend_managed){
			     .gpu_bytes = 3 * BLOCK, .whole_blocks = true, .policy = policy});
	a = managed(f, 5 * BLOCK);
	assert_int_equal(touch_on(f, f->stream, a, 3 * BLOCK, WEIR_WRITE), 0);
	assert_int_equal(nr_came, 3);
	assert_int_equal(last_moved.nr_resident, 3);
	assert_int_equal(last_moved.cause, WEIR_CAUSE_DEMAND);
	assert_int_equal(touch_on(f, f->stream, a, 4 * BLOCK, WEIR_WRITE), 0);
	assert_int_equal(nr_came, 4);
	assert_int_equal(nr_left, 1);
	assert_int_equal(last_moved.nr_resident, 3);
	assert_int_equal(last_moved.uses, 0);
	/* Block 3 is there, block 0 left after it had been used twice. */
	assert_int_equal(seen.range_word[0], 3 * 1001 + 2);
	assert_int_equal(seen.range_word[1], 100);
	assert_int_equal(seen.block_word[1], 1);
	/* Back it comes with its words, and pushes out block 1. */
	assert_int_equal(touch_on(f, f->stream, a, BLOCK, WEIR_READ), 0);
	assert_int_equal(seen.block_word[0], 1);
	assert_int_equal(seen.block_word[1], 3);
	assert_int_equal(window[0].candidate[0].block, 1);
	assert_int_equal(window[0].candidate[0].block_word[0], 2 + 1);
	assert_int_equal(last_moved.came, 1);
	f->b->managed->free(f->b, a);
	/* Another allocation starts with none, under the same number. */
	a = managed(f, BLOCK);
	assert_int_equal(touch_on(f, f->stream, a, BLOCK, WEIR_READ), 0);
	assert_int_equal(seen.range, 0);
	assert_int_equal(seen.range_word[0], 1);
	assert_int_equal(seen.range_word[1], 0);
	f->b->managed->free(f->b, a);
	weir_policy_close(policy);
}

/* ------------------------------------------------------------------ wrong answers */

static int too_many(struct weir_policy_fault *q)
{
	q->more = 9;
	return WEIR_POLICY_ANSWER;
}

/* Not a candidate, whatever else it says of the window. */
static int nobody(struct weir_policy_victim *q)
{
	q->nr = q->nr_far = 1000;
	q->chosen = 500;
	return WEIR_POLICY_ANSWER;
}

static void count_detached(void *arg, enum weir_log_level level, const char *message)
{
	if (level == WEIR_LOG_WARNING && strstr(message, "policy mine is detached"))
		++*(int *)arg;
}

static void test_ask_wrong(void **state)
{
	struct fixture *f = *state;
	int nr_logged = 0;
	char *a;

	weir_log_set(count_detached, &nr_logged);
	configure(f, (struct backend_managed){.gpu_bytes = 2 * BLOCK,
					      .policy = policy_of(too_many, NULL)});
	a = managed(f, 4 * BLOCK);
	/* Six faults a block, each of which is as without a policy. */
	assert_int_equal(touch_on(f, f->stream, a, 4 * BLOCK, WEIR_WRITE), 0);
	expect_costs(f, 4 * FIRST_NS, 0, 2 * (EVICT_NS + PAGES * HOST_PAGE_NS));
	assert_int_equal(counts().nr_wrong, 16);
	assert_int_equal(counts().asked[POLICY_FAULT], 16);
	assert_true(counts().detached);
	assert_int_equal(nr_logged, 1);
	f->b->managed->free(f->b, a);
	weir_policy_close(&mine.base);

	configure(f, (struct backend_managed){.gpu_bytes = 2 * BLOCK,
					      .whole_blocks = true,
					      .policy = policy_of(NULL, nobody)});
	a = managed(f, 20 * BLOCK);
	assert_int_equal(touch_on(f, f->stream, a, 20 * BLOCK, WEIR_WRITE), 0);
	assert_int_equal(counts().nr_wrong, 16);
	assert_true(counts().detached);
	assert_int_equal(nr_logged, 2);
	weir_log_set(NULL, NULL);
	f->b->managed->free(f->b, a);
	weir_policy_close(&mine.base);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ask_same_as_without),
		cmocka_unit_test(test_ask_any_answer),
		cmocka_unit_test_setup_teardown(test_ask_fault_sees, setup, teardown),
		cmocka_unit_test_setup_teardown(test_ask_more, setup, teardown),
		cmocka_unit_test_setup_teardown(test_ask_more_little_room, setup, teardown),
		cmocka_unit_test_setup_teardown(test_ask_windows, setup_large, teardown),
		cmocka_unit_test_setup_teardown(test_ask_comes_again, setup_large, teardown),
		cmocka_unit_test_setup_teardown(test_ask_short_block, setup, teardown),
		cmocka_unit_test_setup_teardown(test_ask_free_blocks, setup, teardown),
		cmocka_unit_test_setup_teardown(test_ask_numbers, setup, teardown),
		cmocka_unit_test_setup_teardown(test_ask_uses, setup, teardown),
		cmocka_unit_test_setup_teardown(test_ask_advised, setup, teardown),
		cmocka_unit_test_setup_teardown(test_ask_future, setup_large, teardown),
		cmocka_unit_test_setup_teardown(test_ask_future_little_room, setup, teardown),
		cmocka_unit_test_setup_teardown(test_ask_make_room, setup, teardown),
		cmocka_unit_test_setup_teardown(test_ask_words, setup, teardown),
		cmocka_unit_test_setup_teardown(test_ask_wrong, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
