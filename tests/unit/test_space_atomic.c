/* SPDX-License-Identifier: Apache-2.0 */
/*
 * WEIR_ATOMIC: brackets of several devices that use the same bytes at the same time, by atomics of
 * system scope, in ordinary ranges and at the one copy of replicated ones. Also run on GPUs.
 */
#include <errno.h>
#include <stdlib.h>

#include "tests/support/driver.h"
#include "tests/unit/test_space_late.h"
#include "weir/replica.h"

#define ONE TEST_OTHER /* a stream of device 1; 0 to 2 are of device 0 */
#define NR 512u	       /* counters */
#define BYTES (NR * sizeof(uint64_t))

/* A real GPU's, or the smallest. */
static uint64_t block_bytes(void)
{
	return test_machine_kind() == TEST_GPU ? MIB(2) : KIB(8);
}

static bool is_simulated(void)
{
	return test_machine_kind() == TEST_SIMULATED;
}

static void launch(struct test_space *t, uint32_t stream, const struct weir_kernel *kernel,
		   const void *args, size_t args_bytes, struct weir_use use)
{
	const struct weir_launch launch = {.kernel = kernel,
					   .args = args,
					   .args_bytes = args_bytes,
					   .uses = &use,
					   .nr_uses = 1};

	assert_int_equal(weir_stream_launch(t->stream[stream], &launch), 0);
}

static void count(struct test_space *t, uint32_t stream, uint64_t *at, uint64_t nr, uint64_t add)
{
	const struct test_count_args args = {at, nr, add};

	launch(t, stream, &test_kernel_count, &args, sizeof(args),
	       use_of(at, nr * sizeof(*at), WEIR_ATOMIC));
}

static void begin(struct test_space *t, uint32_t stream, uint64_t *at, uint64_t nr)
{
	do_begin(t, stream, at, nr * sizeof(*at), WEIR_ATOMIC);
}

static uint64_t *alloc_counters(struct test_space *t)
{
	static const uint64_t zero[NR];
	uint64_t *a = do_alloc(t, BYTES, 0);

	assert_int_equal(weir_write(t->space, a, zero, BYTES), 0);
	return a;
}

static void expect(struct test_space *t, const uint64_t *a, uint64_t value)
{
	uint64_t found[NR];

	assert_int_equal(weir_read(t->space, found, a, BYTES), 0);
	for (uint32_t i = 0; i < NR; i++)
		assert_int_equal(found[i], value);
}

/* Three brackets are open together, of two devices, and their launches mix. */
static void count_together(struct test_space *t, uint64_t *a)
{
	static const uint32_t streams[] = {0, ONE, 1};

	for (uint32_t round = 0; round < 3; round++) {
		for (uint32_t s = 0; s < 3; s++)
			begin(t, streams[s], a, NR);
		for (uint32_t n = 0; n < 12; n++)
			count(t, streams[n % 3], a, NR, 1);
		for (uint32_t s = 0; s < 3; s++)
			do_end(t, streams[s]);
	}
	do_sync(t);
	expect(t, a, 36);
}

static void test_atomic_counters(void **state)
{
	struct test_space t;
	uint64_t *a;

	(void)state;
	test_space_open_devices(&t, block_bytes(), 16, 16, 16);
	a = alloc_counters(&t);
	count_together(&t, a);
	test_space_close(&t);
}

static void test_atomic_counters_at_the_one_copy(void **state)
{
	struct test_space t;
	struct weir_use use;
	void *window[2];
	uint64_t *a;

	(void)state;
	test_space_open_devices(&t, block_bytes(), 16, 16, 16);
	a = alloc_counters(&t);
	assert_int_equal(weir_replicate(t.space, a, NULL), 0);
	count_together(&t, a);
	/* What was counted is seen through windows, and what these write is counted on. */
	for (uint32_t d = 0; d < 2; d++) {
		const struct test_churn_args args = {.nr = NR, .add = 100, .rounds = 1};
		struct test_churn_args add = args;

		assert_int_equal(weir_replica(t.space, a, d, &window[d]), 0);
		add.data = window[d];
		use = use_of(window[d], BYTES, WEIR_WRITE);
		do_begin(&t, d ? ONE : 0, window[d], BYTES, WEIR_WRITE);
		launch(&t, d ? ONE : 0, &test_kernel_churn, &add, sizeof(add), use);
		do_end(&t, d ? ONE : 0);
	}
	for (uint32_t d = 0; d < 2; d++)
		begin(&t, d ? ONE : 0, a, NR);
	for (uint32_t d = 0; d < 2; d++)
		count(&t, d ? ONE : 0, a, NR, 1);
	for (uint32_t d = 0; d < 2; d++)
		do_end(&t, d ? ONE : 0);
	do_sync(&t);
	expect(&t, a, 36 + 200 + 2);
	/* Atomics of several copies would be none. */
	use = use_of(window[0], 8, WEIR_ATOMIC);
	assert_int_equal(weir_begin(t.space, t.stream[0], &use, 1), -EINVAL);
	test_space_close(&t);
}

/* Whether one launch is done before the next one begins. */
static bool is_serial(void)
{
	return is_simulated() || getenv("WEIR_CUDA_DEBUG");
}

/* Two kernels on two devices that wait for each other, turn by turn. */
static void rally(struct test_space *t, uint64_t *a)
{
	const uint32_t turns = 500;
	uint32_t ball[2];

	for (uint32_t player = 0; player < 2; player++)
		begin(t, player ? ONE : 0, a, 1);
	for (uint32_t player = 0; player < 2 && !is_serial(); player++) {
		const struct test_rally_args args = {
			.ball = (uint32_t *)a,
			.player = player,
			.turns = turns,
			.most_ns = 5000000000u,
		};

		launch(t, player ? ONE : 0, &test_kernel_rally, &args, sizeof(args),
		       use_of(a, 8, WEIR_ATOMIC));
	}
	for (uint32_t player = 0; player < 2; player++)
		do_end(t, player ? ONE : 0);
	do_sync(t);
	assert_int_equal(weir_read(t->space, ball, a, 8), 0);
	assert_int_equal(ball[0], is_serial() ? 0 : 2 * turns);
	assert_int_equal(ball[1], 0);
}

static void test_atomic_flags(void **state)
{
	struct test_space t;
	uint64_t *a;

	(void)state;
	test_space_open_devices(&t, block_bytes(), 16, 16, 16);
	a = alloc_counters(&t);
	rally(&t, a);
	do_free(&t, a, 0);
	a = alloc_counters(&t);
	assert_int_equal(weir_replicate(t.space, a, NULL), 0);
	rally(&t, a);
	test_space_close(&t);
}

/* ------------------------------------------------------------------ order, simulated */

/* Time until a stream is done, while another one has long to go. */
static uint64_t done_ns(struct test_space *t, uint32_t stream)
{
	uint64_t start = weir_machine_now_ns(t->machine);

	assert_int_equal(weir_stream_sync(t->stream[stream]), 0);
	return weir_machine_now_ns(t->machine) - start;
}

static void order(struct test_space *t, uint64_t *a)
{
	begin(t, 0, a, NR);
	do_spin(t, 0, SPIN_NS);
	count(t, 0, a, NR, 1);
	do_end(t, 0);
	/* Nobody waits for it who counts. */
	begin(t, ONE, a, NR);
	count(t, ONE, a, NR, 1);
	do_end(t, ONE);
	assert_true(done_ns(t, ONE) < SPIN_NS / 2);
	/* Who writes comes after both, and counters after that. */
	do_begin(t, 1, a, BYTES, WEIR_OVERWRITE);
	do_spin(t, 1, SPIN_NS);
	launch(t, 1, &test_kernel_fill, &(struct test_fill_args){a, NR, 7},
	       sizeof(struct test_fill_args), use_of(a, BYTES, WEIR_OVERWRITE));
	do_end(t, 1);
	begin(t, ONE, a, NR);
	count(t, ONE, a, NR, 1);
	do_end(t, ONE);
	assert_true(done_ns(t, ONE) > SPIN_NS);
	do_sync(t);
	for (uint32_t i = 0; i < NR; i++) {
		uint64_t found;

		assert_int_equal(weir_read(t->space, &found, &a[i], 8), 0);
		assert_true(found == test_word(7, i) + 1);
	}
}

static void test_atomic_order(void **state)
{
	struct test_space t;
	uint64_t *a;

	(void)state;
	if (!is_simulated())
		return;
	test_space_open_devices(&t, block_bytes(), 16, 16, 16);
	a = alloc_counters(&t);
	order(&t, a);
	assert_int_equal(weir_replicate(t.space, a, NULL), 0);
	order(&t, a);
	test_space_close(&t);
}

/* Uses of a range come after those of what was at its address before, atomic ones as well. */
static void order_of_lives(struct test_space *t, uint64_t bytes)
{
	static const uint32_t streams[] = {0, ONE};
	uint64_t *a = do_alloc(t, bytes, 0), *again;

	/* Used by both devices from its start, and so is its next life: it stays where it is. */
	for (uint32_t s = 0; s < 2; s++) {
		begin(t, streams[s], a, NR);
		count(t, streams[s], a, NR, 1);
		do_end(t, streams[s]);
		do_sync(t);
	}
	begin(t, 0, a, NR);
	do_spin(t, 0, SPIN_NS);
	count(t, 0, a, NR, 1);
	do_end(t, 0);
	do_free(t, a, 0);
	again = do_alloc(t, bytes, 0);
	assert_ptr_equal(again, a);
	begin(t, ONE, again, NR);
	count(t, ONE, again, NR, 1);
	do_end(t, ONE);
	assert_true(done_ns(t, ONE) > SPIN_NS / 2);
	/* In this life nobody waits. */
	begin(t, 0, again, NR);
	do_spin(t, 0, SPIN_NS);
	do_end(t, 0);
	begin(t, ONE, again, NR);
	count(t, ONE, again, NR, 1);
	do_end(t, ONE);
	assert_true(done_ns(t, ONE) < SPIN_NS / 2);
	do_free(t, again, 0);
	do_sync(t);
}

static void test_atomic_order_of_lives(void **state)
{
	struct test_space t;
	void *kept;

	(void)state;
	if (!is_simulated())
		return;
	test_space_open_devices(&t, block_bytes(), 16, 16, 16);
	order_of_lives(&t, block_bytes());
	kept = do_alloc(&t, 256, 0); /* the arena stays */
	order_of_lives(&t, BYTES);
	do_free(&t, kept, 0);
	test_space_close(&t);
}

/* ------------------------------------------------------------------ wrong use, simulated */

/* Whether launches of a bracket beside an open one, or of uses it does not declare, are trapped. */
static void expect_traps(struct test_space *t, enum weir_use_kind first, enum weir_use_kind second,
			 enum weir_use_kind used, bool trapped)
{
	uint64_t *a = do_alloc(t, block_bytes(), 0); /* arenas are not guarded */
	const struct test_checksum_args args = {a, 0, NULL};

	do_begin(t, 0, a, BYTES, first);
	launch(t, 0, &test_kernel_checksum, &args, sizeof(args), use_of(a, BYTES, first));
	do_begin(t, ONE, a + NR / 2, BYTES / 4, second);
	launch(t, ONE, &test_kernel_checksum, &args, sizeof(args), use_of(a + NR / 2, 8, used));
	assert_int_equal(weir_stream_sync(t->stream[ONE]), trapped ? -WEIR_ETRAP : 0);
	do_end(t, ONE);
	do_end(t, 0);
	(void)!weir_space_sync(t->space);
	do_free(t, a, 0);
	do_check(t);
}

static void test_atomic_wrong_use(void **state)
{
	struct test_space t;
	struct weir_use use;
	uint64_t *a;

	(void)state;
	if (!is_simulated())
		return;
	test_space_open_devices(&t, block_bytes(), 16, 16, 16);
	expect_traps(&t, WEIR_ATOMIC, WEIR_ATOMIC, WEIR_ATOMIC, false);
	expect_traps(&t, WEIR_ATOMIC, WEIR_ATOMIC, WEIR_WRITE, true);
	expect_traps(&t, WEIR_ATOMIC, WEIR_ATOMIC, WEIR_READ, true);
	expect_traps(&t, WEIR_ATOMIC, WEIR_READ, WEIR_READ, true);
	expect_traps(&t, WEIR_ATOMIC, WEIR_WRITE, WEIR_WRITE, true);
	expect_traps(&t, WEIR_ATOMIC, WEIR_WRITE, WEIR_ATOMIC, true);
	expect_traps(&t, WEIR_READ, WEIR_ATOMIC, WEIR_ATOMIC, true);
	expect_traps(&t, WEIR_WRITE, WEIR_ATOMIC, WEIR_ATOMIC, true);
	expect_traps(&t, WEIR_READ, WEIR_READ, WEIR_READ, false);
	/* A bracket that writes may use atomics; the CPU is ordered with every device. */
	a = alloc_counters(&t);
	do_begin(&t, 0, a, BYTES, WEIR_WRITE);
	count(&t, 0, a, NR, 1);
	do_end(&t, 0);
	begin(&t, 0, a, NR);
	use = use_of(a, BYTES, WEIR_ATOMIC);
	assert_int_equal(weir_host_begin(t.space, &use, 1), -EBUSY);
	do_end(&t, 0);
	assert_int_equal(weir_host_begin(t.space, &use, 1), 0);
	a[0]++;
	assert_int_equal(weir_begin(t.space, t.stream[0], &use, 1), -EBUSY);
	assert_int_equal(weir_host_end(t.space, &use, 1), 0);
	use.kind = (enum weir_use_kind)(WEIR_ATOMIC + 1);
	assert_int_equal(weir_begin(t.space, t.stream[0], &use, 1), -EINVAL);
	do_sync(&t);
	test_space_close(&t);
}

/* ------------------------------------------------------------------ random programs */

#define DEVICES 3u
#define STREAMS 4u
#define WORDS (6 * block_bytes() / 8)
#define RANGES 2u

struct part {
	uint32_t range;
	uint64_t first, nr;
	enum weir_use_kind kind;
	bool open;
};

struct program {
	struct test_space t;
	struct test_random random;
	uint64_t *range[RANGES], *shadow[RANGES];
	bool replicated[RANGES];
	struct part part[STREAMS]; /* of the stream's open bracket */
};

static uint32_t below(struct program *p, uint64_t n)
{
	return random_below(&p->random, (uint32_t)n);
}

static bool contradicts(const struct program *p, const struct part *part)
{
	for (uint32_t s = 0; s < STREAMS; s++) {
		const struct part *o = &p->part[s];

		if (o->open && o->range == part->range && o->first < part->first + part->nr &&
		    part->first < o->first + o->nr &&
		    (o->kind != WEIR_ATOMIC || part->kind != WEIR_ATOMIC))
			return true;
	}
	return false;
}

/* Count by atomics, add without, or fill, in the stream's open bracket. */
static void work(struct program *p, uint32_t s, uint64_t *at)
{
	const struct part *part = &p->part[s];
	uint64_t *shadow = p->shadow[part->range] + part->first, add = 1 + below(p, 1000);
	struct test_churn_args churn = {at, part->nr, add, 1};
	struct test_fill_args fill = {at, part->nr, (uint32_t)add};

	if (is_simulated())
		do_spin(&p->t, s, below(p, 20000));
	if (part->kind == WEIR_ATOMIC)
		count(&p->t, s, at, part->nr, add);
	else if (part->kind == WEIR_WRITE)
		launch(&p->t, s, &test_kernel_churn, &churn, sizeof(churn),
		       use_of(at, part->nr * 8, WEIR_WRITE));
	else
		launch(&p->t, s, &test_kernel_fill, &fill, sizeof(fill),
		       use_of(at, part->nr * 8, WEIR_OVERWRITE));
	for (uint64_t i = 0; i < part->nr; i++)
		shadow[i] = part->kind == WEIR_OVERWRITE ? test_word((uint32_t)add, i)
							 : shadow[i] + add;
}

/* A bracket of a stream, which may stay open if it counts. */
static void bracket(struct program *p, uint32_t s)
{
	struct part *part = &p->part[s];
	void *at;

	if (part->open) {
		work(p, s, p->range[part->range] + part->first);
		do_end(&p->t, s);
		part->open = false;
		return;
	}
	part->range = below(p, RANGES);
	part->first = below(p, WORDS);
	part->nr = 1 + below(p, WORDS - part->first);
	part->kind = below(p, 3) ? WEIR_ATOMIC : below(p, 2) ? WEIR_WRITE : WEIR_OVERWRITE;
	if (contradicts(p, part))
		return;
	at = p->range[part->range] + part->first;
	if (p->replicated[part->range] && part->kind != WEIR_ATOMIC && below(p, 4))
		assert_int_equal(weir_replica(p->t.space, at, stream_device(p->t.stream[s]), &at),
				 0);
	do_begin(&p->t, s, at, part->nr * 8, part->kind);
	part->open = true;
	work(p, s, at);
	if (part->kind == WEIR_ATOMIC && below(p, 2))
		return;
	do_end(&p->t, s);
	part->open = false;
}

/* No bracket is open: all words are right. */
static void check_words(struct program *p, uint64_t *buffer)
{
	for (uint32_t s = 0; s < STREAMS; s++)
		if (p->part[s].open)
			bracket(p, s);
	for (uint32_t r = 0; r < RANGES; r++) {
		assert_int_equal(weir_read(p->t.space, buffer, p->range[r], WORDS * 8), 0);
		for (uint64_t i = 0; i < WORDS; i++)
			if (buffer[i] != p->shadow[r][i])
				fail_msg("word %llu of range %u: %llu, not %llu",
					 (unsigned long long)i, r, (unsigned long long)buffer[i],
					 (unsigned long long)p->shadow[r][i]);
	}
}

static void toggle(struct program *p, uint32_t r)
{
	int err = p->replicated[r] ? weir_unreplicate(p->t.space, p->range[r])
				   : weir_replicate(p->t.space, p->range[r], NULL);

	assert_true(!err || err == -EBUSY || err == -ENOMEM);
	p->replicated[r] ^= !err;
}

static void run_program(uint32_t seed)
{
	static const uint32_t devices[TEST_STREAMS] = {0, 1, 2, 0};
	struct weir_space_config config = {.mode = WEIR_PLANNED};
	struct program p = {.random.state = seed};
	uint64_t *buffer = calloc(WORDS, 8);

	test_machine_open_gpus(&p.t, WEIR_DATA_REAL, DEVICES, devices);
	config.devices = (1u << MIN(p.t.desc.nr_devices, DEVICES)) - 1;
	config.block_bytes = block_bytes();
	for (uint32_t memory = 0; memory <= MIN(p.t.desc.nr_devices, DEVICES); memory++)
		config.budget_bytes[memory] =
			(memory == HOST ? 40 : 4 + below(&p, 16)) * block_bytes();
	assert_int_equal(test_space_create_config(&p.t, &config), 0);
	for (uint32_t r = 0; r < RANGES; r++) {
		p.range[r] = do_alloc(&p.t, WORDS * 8, 0);
		p.shadow[r] = calloc(WORDS, 8);
		assert_non_null(p.shadow[r]);
		assert_int_equal(weir_write(p.t.space, p.range[r], p.shadow[r], WORDS * 8), 0);
	}
	for (uint32_t step = 0; step < 200; step++)
		if (below(&p, 20))
			bracket(&p, below(&p, STREAMS));
		else if (below(&p, 2))
			toggle(&p, below(&p, RANGES));
		else
			check_words(&p, buffer);
	check_words(&p, buffer);
	do_sync(&p.t);
	for (uint32_t r = 0; r < RANGES; r++)
		free(p.shadow[r]);
	free(buffer);
	test_space_close(&p.t);
}

static void test_atomic_random_programs(void **state)
{
	(void)state;
	for (uint32_t seed = 1; seed <= (is_simulated() ? 40u : 4u); seed++)
		run_program(seed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_atomic_counters),
		cmocka_unit_test(test_atomic_counters_at_the_one_copy),
		cmocka_unit_test(test_atomic_flags),
		cmocka_unit_test(test_atomic_order),
		cmocka_unit_test(test_atomic_order_of_lives),
		cmocka_unit_test(test_atomic_wrong_use),
		cmocka_unit_test(test_atomic_random_programs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
