/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The blocks of managed memory that are used again latest, as a policy is shown them: the same, in
 * the same order, as a search through all candidates finds, in random runs under random futures.
 */
#include "src/base/hash.h"
#include "src/base/util.h"
#include "tests/support/policy.h"
#include "tests/unit/test_sim_uvm.h"

#define RANGES 16u
#define RANGE_BLOCKS 12u
#define FIT_BLOCKS 70u /* three windows of candidates */
#define STEPS 1000u

struct run {
	struct test_policy policy;
	struct fixture *f;
	uint64_t seed, random, step;
	char *range[RANGES]; /* NULL: not allocated, or not known to the future yet */
	struct weir_policy_candidate all[2 * FIT_BLOCKS];
	uint32_t nr_all, nr_checked, nr_never;
};

static uint64_t below(struct run *run, uint64_t end)
{
	run->random = hash_mix(run->random, 1);
	return run->random % end;
}

/* Blocks are used in some steps, each second one of a range in the same as its neighbour; some are
 * not used again after half of all steps. */
static bool is_used(const struct run *run, uint64_t range, uint64_t block, uint64_t step)
{
	uint64_t key = hash_mix(run->seed, range * RANGE_BLOCKS + block / 2);

	return hash_mix(key, step) % (4 + key % 60) == 0 && (key % 4 || step < STEPS / 2);
}

static uint64_t next_use(void *arg, const void *addr, uint64_t bytes)
{
	const struct run *run = arg;
	const char *at = addr;

	assert_int_equal(bytes, BLOCK);
	for (uint32_t r = 0; r < RANGES; r++) {
		if (!run->range[r] || at < run->range[r] ||
		    at >= run->range[r] + RANGE_BLOCKS * BLOCK)
			continue;
		for (uint64_t s = run->step; s < STEPS; s++)
			if (is_used(run, r, (uint64_t)(at - run->range[r]) / BLOCK, s))
				return s - run->step;
	}
	return WEIR_POLICY_NEVER;
}

static uint64_t present_step(void *arg)
{
	return ((const struct run *)arg)->step;
}

static void nothing(void *arg)
{
	(void)arg; /* steps are the test's own */
}

/* Hold what is shown against all candidates: those that came first are first among equals. */
static void check(struct run *run, const struct weir_policy_victim *q)
{
	assert_int_equal(q->nr_far, MIN(run->nr_all, WEIR_POLICY_FAR));
	for (uint32_t n = 0; n < q->nr_far; n++) {
		uint32_t best = 0;

		for (uint32_t i = 1; i < run->nr_all; i++)
			if (run->all[i].next_use > run->all[best].next_use)
				best = i;
		assert_true(q->far[n].next_use == run->all[best].next_use);
		assert_int_equal(q->far[n].range, run->all[best].range);
		assert_int_equal(q->far[n].block, run->all[best].block);
		run->nr_never += q->far[n].next_use == WEIR_POLICY_NEVER;
		memmove(&run->all[best], &run->all[best + 1],
			(--run->nr_all - best) * sizeof(run->all[0]));
	}
	run->nr_checked++;
}

/* Asks for all windows, then chooses one of what is shown in the last one. */
static int victim(struct test_policy *p, struct weir_policy_victim *q)
{
	struct run *run = p->arg;
	uint32_t choice = (uint32_t)below(run, q->nr + q->nr_far);

	if (!q->window)
		run->nr_all = 0;
	memcpy(&run->all[run->nr_all], q->candidate, q->nr * sizeof(run->all[0]));
	run->nr_all += q->nr;
	if (q->nr == WEIR_POLICY_CANDIDATES)
		return WEIR_POLICY_NEXT;
	check(run, q);
	q->chosen = choice < q->nr ? choice : WEIR_POLICY_CANDIDATES + choice - q->nr;
	return WEIR_POLICY_ANSWER;
}

/* The block of a fault is held while others come with it: it is no candidate. */
static int fault(struct test_policy *p, struct weir_policy_fault *q)
{
	memset(q->bring, 0xff, sizeof(q->bring));
	q->more = (int32_t)below(p->arg, 3);
	return WEIR_POLICY_ANSWER;
}

/* Often brought before the future knows of it. */
static void make_range(struct run *run, uint32_t r)
{
	char *range = managed(run->f, RANGE_BLOCKS * BLOCK);

	if (below(run, 2)) {
		assert_int_equal(run->f->b->managed->prefetch(run->f->b, run->f->stream, range,
							      RANGE_BLOCKS * BLOCK, GPU0),
				 0);
		assert_int_equal(wait_idle(run->f, run->f->stream), 0);
	}
	run->range[r] = range;
}

static void free_range(struct run *run, uint32_t r)
{
	char *range = run->range[r];

	run->range[r] = NULL;
	run->f->b->managed->free(run->f->b, range);
}

/* Uses what the future says, or something else, or nothing. */
static void step(struct run *run)
{
	uint32_t r = (uint32_t)below(run, RANGES);

	run->step += 1 + below(run, 2);
	if (!run->range[r])
		make_range(run, r);
	else if (below(run, 4) == 0)
		free_range(run, r);
	for (r = 0; r < RANGES; r++)
		for (uint64_t block = 0; run->range[r] && block < RANGE_BLOCKS; block++)
			if (is_used(run, r, block, run->step) == (below(run, 20) != 0))
				assert_int_equal(touch_on(run->f, run->f->stream,
							  run->range[r] + block * BLOCK, KIB(4),
							  below(run, 2) ? WEIR_READ : WEIR_WRITE),
						 0);
}

static int setup_blocks(void **state)
{
	struct weir_machine_desc desc;
	static struct fixture f;

	memset(&f, 0, sizeof(f));
	test_machine(&desc);
	desc.uvm = (struct weir_uvm_desc){256,		BATCH_NS,     PAGE_NS, POPULATE_NS,
					  CPU_UNMAP_NS, HOST_PAGE_NS, 0};
	desc.memory[GPU0].bytes = 2 * FIT_BLOCKS * BLOCK;
	desc.memory[HOST].bytes = 2 * (uint64_t)RANGES * RANGE_BLOCKS * BLOCK;
	assert_int_equal(sim_create(&desc, WEIR_DATA_PHANTOM, &f.sim), 0);
	f.b = f.sim;
	assert_int_equal(f.b->ops->stream_create(f.b, 0, BACKEND_COMPUTE, &f.stream), 0);
	assert_int_equal(f.b->ops->stream_create(f.b, 1, BACKEND_COMPUTE, &f.other), 0);
	*state = &f;
	return 0;
}

static void run_one(struct fixture *f, uint64_t seed)
{
	struct run run = {.f = f, .seed = seed, .random = hash_mix(2, seed)};
	const struct policy_future future = {next_use, present_step, nothing, nothing, &run};

	run.policy.victim = victim;
	run.policy.fault = fault;
	run.policy.arg = &run;
	test_policy_open(&run.policy);
	run.policy.base.future = &future;
	configure(f, (struct backend_managed){.gpu_bytes = FIT_BLOCKS * BLOCK,
					      .policy = &run.policy.base});
	for (uint32_t r = 0; r < RANGES; r++)
		make_range(&run, r);
	while (run.step < STEPS)
		step(&run);
	assert_int_equal(run.policy.base.stats.nr_wrong, 0);
	assert_true(run.nr_checked > 1000);
	assert_true(run.nr_never > 0);
	for (uint32_t r = 0; r < RANGES; r++)
		if (run.range[r])
			free_range(&run, r);
	test_policy_close(&run.policy);
}

static void test_far_as_a_search(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 4; seed++) {
		void *fixture;

		assert_int_equal(setup_blocks(&fixture), 0);
		run_one(fixture, seed);
		assert_int_equal(teardown(&fixture), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_far_as_a_search),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
