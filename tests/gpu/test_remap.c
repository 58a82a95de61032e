/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks of a reservation are remapped from the GPU's memory to the host's and back, ten thousand
 * times, while kernels work on other blocks of it. A remap counts when a kernel that was under way
 * before it still is afterwards. Every block that moved is checked, and changed, where it now is;
 * in the end all contents are.
 *
 * WEIR_REMAPS says how many count, instead of 10,000, or 1,000 under a sanitizer.
 *
 * Timeout: 300
 * Links: backend-cases
 */
#include "tests/contract/cases/cases.h"
#include "tests/support/amount.h"
#include "tests/support/driver.h"

#define NR_REMAPS 10000u
#define NR_MOVERS 16u
#define NR_STABLE 16u /* half of them are worked on, half take what is gathered from these */
#define STABLE_SEED 1u
#define ADD UINT64_C(0x123456789abcdef1)
#define BUSY_NS UINT64_C(2000000)
#define ROUNDS_MAX (1u << 16)
#define TRIES 20u /* remaps in all for each one that has to count */

enum { ON_GPU, ON_HOST };

/* A block that moves; it is where its chunk is mapped. */
struct mover {
	uint8_t *addr;
	struct backend_chunk chunk[2];
	int where;
	uint32_t seed; /* of its contents */
	fence_t used;  /* the last kernel on it */
};

struct stage {
	struct contract *c;
	struct backend *b;
	uint64_t unit, words; /* of one half of the stable blocks */
	uint8_t *va;
	struct backend_chunk stable[NR_STABLE];
	struct mover mover[NR_MOVERS];
	stream_id_t checks;
	uint32_t *nr_wrong;
	uint64_t *sum;
	uint32_t rounds;	      /* of a launch, so that it takes a while */
	uint64_t nr_rounds, gathered; /* so far; when the last gather was queued */
	fence_t busy[2];	      /* the last two kernels on the stable blocks */
	uint64_t nr_launches, nr_beside, nr_remaps[2];
};

static const struct fakecuda_config fake = {
	.devices = 1,
	.hbm_bytes = MIB(64),
	.host_bytes = MIB(64),
	.granularity = KIB(64),
};

/* ------------------------------------------------------------------ kernels */

static int launch(struct stage *s, stream_id_t stream, const struct weir_kernel *kernel,
		  const void *args, size_t bytes)
{
	const struct weir_launch launch = {.kernel = kernel, .args = args, .args_bytes = bytes};

	return s->b->ops->launch(s->b, stream, &launch);
}

static uint64_t *stable_half(struct stage *s, uint32_t half)
{
	return (uint64_t *)(void *)s->va + half * s->words;
}

static void launch_churn(struct stage *s)
{
	const struct test_churn_args args = {
		.data = stable_half(s, 0), .nr = s->words, .add = ADD, .rounds = s->rounds};

	assert_int_equal(launch(s, s->c->compute, &test_kernel_churn, &args, sizeof(args)), 0);
	s->nr_rounds += s->rounds;
}

static void launch_gather(struct stage *s)
{
	const struct test_gather_args args = {.in = stable_half(s, 0),
					      .nr_in = s->words,
					      .out = stable_half(s, 1),
					      .nr = s->words,
					      .seed = STABLE_SEED};

	assert_int_equal(launch(s, s->c->compute, &test_kernel_gather, &args, sizeof(args)), 0);
	s->gathered = s->nr_rounds;
}

/* Check a mover's contents where it is mapped now, and put others there. */
static void launch_check(struct stage *s, struct mover *m)
{
	const struct test_cells_args args = {
		.addr = (uint64_t *)(void *)m->addr,
		.words = s->unit / 8,
		.nr_wrong = s->nr_wrong,
		.nr = 1,
		.cell = {{.expect = m->seed, .put = m->seed + NR_MOVERS}},
	};

	assert_int_equal(launch(s, s->checks, &test_kernel_cells, &args, sizeof(args)), 0);
	assert_int_equal(s->b->ops->fence_record(s->b, s->checks, &m->used), 0);
	m->seed += NR_MOVERS;
}

/* ------------------------------------------------------------------ setting the stage */

static void chunk_map(struct stage *s, uint32_t memory, uint8_t *addr, struct backend_chunk *chunk)
{
	assert_int_equal(s->b->ops->chunk_create(s->b, memory, s->unit, 0, chunk), 0);
	if (addr)
		assert_int_equal(s->b->ops->map(s->b, addr, chunk, BACKEND_PROT_WRITE, 1), 0);
}

static void stage_fill(struct stage *s)
{
	const struct test_fill_args fill = {
		.out = stable_half(s, 0), .nr = s->words, .seed = STABLE_SEED};

	assert_int_equal(launch(s, s->c->compute, &test_kernel_fill, &fill, sizeof(fill)), 0);
	for (uint32_t i = 0; i < NR_MOVERS; i++) {
		s->mover[i].seed = 0; /* nothing is expected yet */
		launch_check(s, &s->mover[i]);
		s->mover[i].seed = NR_MOVERS;
	}
}

static uint64_t churn_ns(struct stage *s)
{
	uint64_t begin;

	contract_wait(s->b, s->c->compute);
	begin = s->b->ops->now_ns(s->b);
	launch_churn(s);
	contract_wait(s->b, s->c->compute);
	return s->b->ops->now_ns(s->b) - begin;
}

/* How often must the stable blocks be gone through for a kernel to take a while? Asked twice: it
 * may have been something else that took long. */
static void stage_calibrate(struct stage *s)
{
	s->rounds = 1;
	for (int nr_long = 0; nr_long < 2;) {
		if (churn_ns(s) >= BUSY_NS) {
			nr_long++;
			continue;
		}
		nr_long = 0;
		if (s->rounds == ROUNDS_MAX)
			fail_msg("%u rounds take less than %llu ns", s->rounds,
				 (unsigned long long)BUSY_NS);
		s->rounds *= 2;
	}
}

static void stage_open(struct stage *s, struct contract *c, uint64_t unit)
{
	struct backend *b = c->b;
	void *words;

	*s = (struct stage){.c = c, .b = b, .unit = unit, .words = NR_STABLE / 2 * unit / 8};
	assert_int_equal(
		b->ops->va_reserve(b, (NR_STABLE + NR_MOVERS) * unit, unit, (void **)&s->va), 0);
	assert_int_equal(b->ops->stream_create(b, 0, BACKEND_COMPUTE, &s->checks), 0);
	assert_int_equal(b->ops->device_alloc(b, HOST, 16, &words), 0);
	memset(words, 0, 16);
	s->sum = words;
	s->nr_wrong = (uint32_t *)words + 2;
	for (uint32_t i = 0; i < NR_STABLE; i++)
		chunk_map(s, GPU0, s->va + i * unit, &s->stable[i]);
	for (uint32_t i = 0; i < NR_MOVERS; i++) {
		struct mover *m = &s->mover[i];

		m->addr = s->va + (NR_STABLE + i) * unit;
		chunk_map(s, GPU0, m->addr, &m->chunk[ON_GPU]);
		chunk_map(s, HOST, NULL, &m->chunk[ON_HOST]);
	}
	stage_fill(s);
	stage_calibrate(s);
	launch_gather(s);
}

static void stage_close(struct stage *s)
{
	struct backend *b = s->b;

	b->ops->device_free(b, s->sum);
	b->ops->stream_destroy(b, s->checks);
	for (uint32_t i = 0; i < NR_STABLE + NR_MOVERS; i++)
		assert_int_equal(b->ops->unmap(b, s->va + i * s->unit), 0);
	for (uint32_t i = 0; i < NR_STABLE; i++)
		b->ops->chunk_destroy(b, &s->stable[i]);
	for (uint32_t i = 0; i < NR_MOVERS; i++)
		for (int where = ON_GPU; where <= ON_HOST; where++)
			b->ops->chunk_destroy(b, &s->mover[i].chunk[where]);
	b->ops->va_release(b, s->va, (NR_STABLE + NR_MOVERS) * s->unit);
}

/* ------------------------------------------------------------------ remaps */

static bool is_done(struct stage *s, fence_t fence)
{
	int done = s->b->ops->fence_done(s->b, fence);

	assert_true(done >= 0);
	return done;
}

/* Two kernels are queued on the stable blocks; now and then one that reads all over them. */
static void keep_busy(struct stage *s)
{
	while (is_done(s, s->busy[0])) {
		launch_churn(s);
		if (++s->nr_launches % 4 == 0)
			launch_gather(s);
		s->busy[0] = s->busy[1];
		assert_int_equal(s->b->ops->fence_record(s->b, s->c->compute, &s->busy[1]), 0);
	}
}

/* Move a block to the other side; its contents follow on a copy stream. */
static void remap(struct stage *s, struct mover *m)
{
	struct backend *b = s->b;
	int to = m->where == ON_GPU ? ON_HOST : ON_GPU;
	stream_id_t lane = to == ON_GPU ? s->c->in : s->c->out;
	const struct backend_copy copy = {m->chunk[to].alias, m->chunk[m->where].alias, s->unit};
	fence_t busy, copied;

	assert_int_equal(b->ops->fence_wait(b, m->used), 0);
	keep_busy(s);
	busy = s->busy[1];
	assert_int_equal(b->ops->unmap(b, m->addr), 0);
	assert_int_equal(b->ops->map(b, m->addr, &m->chunk[to], BACKEND_PROT_WRITE, 1), 0);
	s->nr_beside += !is_done(s, busy);
	s->nr_remaps[to]++;
	assert_int_equal(b->ops->copy(b, lane, &copy, 1), 0);
	assert_int_equal(b->ops->fence_record(b, lane, &copied), 0);
	assert_int_equal(b->ops->stream_wait(b, s->checks, copied), 0);
	m->where = to;
	launch_check(s, m);
}

/* ------------------------------------------------------------------ contents */

static void expect_sum(struct stage *s, uint32_t half, uint64_t expected)
{
	const struct test_checksum_args args = {
		.in = stable_half(s, half), .nr = s->words, .sum = s->sum};

	*s->sum = 0;
	assert_int_equal(launch(s, s->c->compute, &test_kernel_checksum, &args, sizeof(args)), 0);
	contract_wait(s->b, s->c->compute);
	assert_true(*s->sum == expected);
}

static void check_contents(struct stage *s)
{
	uint64_t sums[2] = {0, 0};

	contract_wait(s->b, s->checks);
	contract_wait(s->b, s->c->compute);
	for (uint64_t i = 0; i < s->words; i++) {
		uint64_t from = test_word(STABLE_SEED, i) % s->words;

		sums[0] += test_checksum_of(test_word(STABLE_SEED, i) + s->nr_rounds * ADD, i);
		sums[1] += test_checksum_of(test_word(STABLE_SEED, from) + s->gathered * ADD, i);
	}
	expect_sum(s, 0, sums[0]);
	expect_sum(s, 1, sums[1]);
	for (uint32_t i = 0; i < NR_MOVERS; i++)
		launch_check(s, &s->mover[i]);
	contract_wait(s->b, s->checks);
	assert_int_equal(*s->nr_wrong, 0);
}

static void run(struct contract *c, uint64_t unit, uint32_t nr)
{
	struct stage *s = malloc(sizeof(*s));
	uint64_t tries = (uint64_t)nr * TRIES;

	assert_non_null(s);
	stage_open(s, c, unit);
	for (uint64_t i = 0; s->nr_beside < nr; i++) {
		if (i == tries)
			fail_msg("of %llu remaps only %llu were beside a kernel",
				 (unsigned long long)i, (unsigned long long)s->nr_beside);
		remap(s, &s->mover[i % NR_MOVERS]);
	}
	check_contents(s);
	print_message("%llu remaps to the GPU, %llu to the host, %llu beside kernels\n",
		      (unsigned long long)s->nr_remaps[ON_GPU],
		      (unsigned long long)s->nr_remaps[ON_HOST], (unsigned long long)s->nr_beside);
	stage_close(s);
	free(s);
}

/* ------------------------------------------------------------------ */

static uint32_t nr_remaps(void)
{
	const char *text = getenv("WEIR_REMAPS");
	const unsigned long usual = TEST_SANITIZED ? 1000 : NR_REMAPS;
	char *end = NULL;
	unsigned long nr = text ? strtoul(text, &end, 10) : usual;

	if (text && (*end || !nr || nr > UINT32_MAX))
		fail_msg("WEIR_REMAPS is '%s', not a count", text);
	return (uint32_t)nr;
}

static void test_remap_small_blocks(void **state)
{
	struct contract *c = *state;

	run(c, c->b->desc.vmm.granularity_bytes, nr_remaps());
}

/* 8 MiB on today's GPUs, as spaces have them. */
static void test_remap_large_blocks(void **state)
{
	struct contract *c = *state;

	run(c, 4 * c->b->desc.vmm.granularity_bytes, nr_remaps() / 4 + 1);
}

static int open_cuda(struct backend **out)
{
	return test_cuda_open(&fake, out);
}

static void nothing_left(struct contract *c)
{
	(void)c;
	test_cuda_nothing_left(NULL);
}

int main(void)
{
	static const struct contract_target target = {"cuda", open_cuda, NULL, nothing_left,
						      CAN_BYTES | CAN_WAIT};
	const struct CMUnitTest tests[] = {
		CONTRACT_TEST(test_remap_small_blocks, target),
		CONTRACT_TEST(test_remap_large_blocks, target),
	};

	return cmocka_run_group_tests(tests, test_cuda_required, NULL);
}
