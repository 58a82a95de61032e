/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random programs of loops over slices of several ranges, which are no whole blocks, with the seed
 * of every cell of a block as their shadow. The same iteration is repeated; some of them stop in
 * the middle of a loop, go through other slices, or do something else: budgets of any memory
 * change, also while a bracket of another stream is open, ranges are replaced, used by other
 * streams, discarded, read on the CPU, prefetched, or the space is fixed for a while. Budgets are
 * two blocks and more, of one device or two, or of a neighbour's memory, too. Plans are made to
 * look bad, so that those before are followed again. Uses are declared, or guessed.
 *
 * Takes 4 s of a processor, most of it to make plans.
 *
 * Timeout: 300
 * Long: yes
 */
#include <errno.h>

#include "src/residency/residency.h"
#include "tests/support/seeds.h"
#include "tests/support/space.h"

#define BLOCK KIB(16)
#define CELL KIB(2)
#define CELLS ((uint32_t)(BLOCK / CELL)) /* of a block */
enum { RANGES = 4, BLOCKS_MAX = 24, LOOPS = 3, ITERATIONS = 16, HOST_BLOCKS = 200, MANY = 12 };

struct slices {
	uint8_t *addr; /* NULL: freed */
	uint32_t nr;   /* cells */
	uint32_t seed[BLOCKS_MAX * BLOCK / CELL];
};

/* A loop goes through slices of one or two ranges, and may use all of a third one. */
struct loop {
	uint32_t nr_sliced, range[2], step[2], whole, nr_max, stream;
	enum weir_use_kind kind[2];
	bool uses_whole, temporary;
	uint32_t times; /* that slices are read */
};

struct program {
	struct test_space t;
	struct test_random random;
	struct slices range[RANGES];
	struct loop loop[LOOPS];
	uint32_t nr_loops, next_seed, gpu_blocks, nr_memories;
	bool two_devices, guesses, syncs;
	uint32_t held; /* range that an open bracket of another stream reads; RANGES: none */
	uint32_t held_from, held_nr;
};

static bool tracing;
static uint64_t nr_plans, nr_streamed, nr_preferred, nr_resumed;

#define trace(...)                                    \
	do {                                          \
		if (tracing)                          \
			fprintf(stderr, __VA_ARGS__); \
	} while (0)

static uint32_t below(struct program *p, uint32_t n)
{
	return random_below(&p->random, n);
}

static bool chance(struct program *p, uint32_t percent)
{
	return below(p, 100) < percent;
}

/* ------------------------------------------------------------------ brackets */

static void launch_cells(struct program *p, uint32_t stream, struct slices *s, uint32_t first,
			 uint32_t nr, enum weir_use_kind kind)
{
	struct test_cell cell[TEST_CELLS_MAX];

	while (nr) {
		const uint32_t n = MIN(nr, TEST_CELLS_MAX);

		for (uint32_t i = 0; i < n; i++) {
			cell[i].expect = kind == WEIR_OVERWRITE ? 0 : s->seed[first + i];
			cell[i].put = kind == WEIR_READ ? 0 : p->next_seed++;
			if (cell[i].put)
				s->seed[first + i] = cell[i].put;
		}
		assert_int_equal(do_launch_cells_try(&p->t, stream, s->addr + first * CELL, CELL,
						     cell, n, kind),
				 0);
		first += n;
		nr -= n;
	}
}

/* A slice that is used, by a bracket of its own or with others. */
struct used {
	struct slices *s;
	uint32_t first, nr, times;
	enum weir_use_kind kind;
};

/* What an open bracket reads is not written: it would have no order with that. */
static bool is_held(const struct program *p, const struct used *u)
{
	return p->held < RANGES && u->s == &p->range[p->held] && u->kind != WEIR_READ &&
	       u->first < p->held_from + p->held_nr && p->held_from < u->first + u->nr;
}

static int begin(struct program *p, uint32_t stream, const struct weir_use *uses, uint32_t nr,
		 uint32_t what)
{
	struct weir_use named[3];
	struct bracket_asked asked = {.uses = named, .nr = nr, .nr_likely = nr, .launched = what};

	if (!p->guesses)
		return weir_begin(p->t.space, p->t.stream[stream], uses, nr);
	for (uint32_t u = 0; u < nr; u++) {
		named[u] = uses[u];
		named[u].kind = uses[u].kind == WEIR_READ ? WEIR_READ : WEIR_WRITE;
	}
	return bracket_begin_guessed(p->t.space, p->t.stream[stream], &asked);
}

static void use(struct program *p, uint32_t stream, struct used *used, uint32_t nr, uint32_t what)
{
	struct weir_use uses[3];
	int err;

	for (uint32_t u = 0; u < nr; u++) {
		if (is_held(p, &used[u]))
			used[u].kind = WEIR_READ;
		uses[u] = use_of(used[u].s->addr + used[u].first * CELL, used[u].nr * CELL,
				 used[u].kind);
		uses[u].read_bytes *= used[u].times;
	}
	err = begin(p, stream, uses, nr, what);
	assert_int_equal(err, 0);
	for (uint32_t u = 0; u < nr; u++)
		launch_cells(p, stream, used[u].s, used[u].first, used[u].nr, used[u].kind);
	assert_int_equal(weir_end(p->t.space, p->t.stream[stream]), 0);
}

static void alloc(struct program *p, struct slices *s, uint32_t nr_blocks)
{
	s->nr = nr_blocks * CELLS - below(p, CELLS);
	s->addr = do_alloc(&p->t, s->nr * CELL, 0);
	memset(s->seed, 0, sizeof(s->seed));
	use(p, 0, &(struct used){s, 0, s->nr, 1, WEIR_OVERWRITE}, 1, 77);
}

/* ------------------------------------------------------------------ iterations */

static void disturb(struct program *p);

static void run_loop(struct program *p, uint32_t n, bool odd)
{
	const struct loop *loop = &p->loop[n];
	const uint32_t shift = odd && chance(p, 10) ? 1 + below(p, CELLS) : 0;
	struct slices temporary = {0};

	for (uint32_t i = 0; i < loop->nr_max; i++) {
		struct used used[3];
		uint32_t nr = 0;
		bool ends = true;

		for (uint32_t k = 0; k < loop->nr_sliced; k++) {
			struct slices *s = &p->range[loop->range[k]];
			const uint32_t first = i * loop->step[k] + shift;

			if (!s->addr || first >= s->nr)
				continue;
			ends = false;
			used[nr++] = (struct used){s, first, MIN(loop->step[k], s->nr - first),
						   loop->times, loop->kind[k]};
		}
		if (ends)
			break;
		if (loop->uses_whole && p->range[loop->whole].addr)
			used[nr++] = (struct used){&p->range[loop->whole], 0,
						   p->range[loop->whole].nr, 1, WEIR_READ};
		if (loop->temporary)
			alloc(p, &temporary, 1 + n % 2);
		use(p, loop->stream, used, nr, n + 1);
		if (loop->temporary) {
			use(p, loop->stream,
			    &(struct used){&temporary, 0, temporary.nr, 1, WEIR_READ}, 1, n + 10);
			do_free(&p->t, temporary.addr, 0);
		}
		if (odd && chance(p, 6))
			disturb(p);
		if (odd && chance(p, 3))
			break;
	}
}

static void release(struct program *p)
{
	if (p->held < RANGES)
		do_end(&p->t, 2);
	p->held = RANGES;
}

static void hold(struct program *p)
{
	const uint32_t r = below(p, RANGES);
	struct slices *s = &p->range[r];
	struct weir_use part;

	if (p->held < RANGES || !s->addr)
		return;
	p->held_from = below(p, s->nr);
	p->held_nr = 1 + below(p, MIN(s->nr - p->held_from, CELLS));
	part = use_of(s->addr + p->held_from * CELL, p->held_nr * CELL, WEIR_READ);
	assert_int_equal(weir_begin(p->t.space, p->t.stream[2], &part, 1), 0);
	launch_cells(p, 2, s, p->held_from, p->held_nr, WEIR_READ);
	p->held = r;
}

static void change_budget(struct program *p)
{
	const uint32_t memory = below(p, p->nr_memories);
	const uint32_t least = memory == HOST ? HOST_BLOCKS / 2 : 2;
	const uint32_t most = memory == HOST ? HOST_BLOCKS : 2 * p->gpu_blocks;
	const uint64_t bytes = (least + below(p, most - least)) * BLOCK;
	int err = weir_space_set_budget(p->t.space, memory, bytes);

	trace("budget of %u: %u blocks: %d\n", memory, (uint32_t)(bytes / BLOCK), err);
	assert_true(!err || err == -EBUSY || err == -ENOMEM);
	do_check(&p->t);
}

static void read_all(struct program *p, const struct slices *s)
{
	static uint8_t buffer[BLOCKS_MAX * BLOCK];

	assert_int_equal(weir_read(p->t.space, buffer, s->addr, s->nr * CELL), 0);
	for (uint32_t c = 0; c < s->nr; c++)
		if (s->seed[c])
			assert_int_equal(pattern_wrong(buffer + c * CELL, s->addr + c * CELL, CELL,
						       s->seed[c]),
					 0);
}

static void on_host(struct program *p, struct slices *s, uint32_t first, uint32_t nr)
{
	struct weir_use part = use_of(s->addr + first * CELL, nr * CELL, WEIR_WRITE);
	int err = weir_host_begin(p->t.space, &part, 1);

	trace("host: %d\n", err);
	if (err) {
		assert_true((err == -EBUSY && p->held < RANGES) || err == -ENOMEM);
		return;
	}
	for (uint32_t c = first; c < first + nr; c++) {
		if (s->seed[c])
			assert_int_equal(pattern_wrong(s->addr + c * CELL, s->addr + c * CELL, CELL,
						       s->seed[c]),
					 0);
		s->seed[c] = p->next_seed++;
		pattern_put(s->addr + c * CELL, s->addr + c * CELL, CELL, s->seed[c]);
	}
	assert_int_equal(weir_host_end(p->t.space, &part, 1), 0);
}

/* Something that the iterations before did not do. */
static void disturb(struct program *p)
{
	struct slices *s = &p->range[below(p, RANGES)];
	uint32_t first, nr;
	struct weir_use part;
	int err;

	if (!s->addr) {
		alloc(p, s, 1 + below(p, BLOCKS_MAX));
		return;
	}
	first = below(p, s->nr);
	nr = 1 + below(p, s->nr - first);
	switch (below(p, 12)) {
	case 0:
		if (s == &p->range[p->held % RANGES])
			release(p);
		do_free(&p->t, s->addr, 0);
		s->addr = NULL;
		if (chance(p, 70))
			alloc(p, s,
			      chance(p, 50) ? (s->nr + CELLS - 1) / CELLS
					    : 1 + below(p, BLOCKS_MAX));
		break;
	case 1:
		use(p, 0, &(struct used){s, 0, s->nr, 1, chance(p, 50) ? WEIR_WRITE : WEIR_READ}, 1,
		    99);
		break;
	case 2:
	case 3:
		change_budget(p);
		break;
	case 4:
		err = weir_prefetch(p->t.space, s->addr + first * CELL, nr * CELL,
				    chance(p, 50) ? GPU0 : HOST, NULL);
		assert_true(!err || err == -ENOMEM);
		break;
	case 5:
		if (s == &p->range[p->held % RANGES])
			release(p);
		read_all(p, s);
		break;
	case 6:
		on_host(p, s, first, nr);
		break;
	case 7: /* another stream, or another device */
		use(p, p->two_devices && chance(p, 50) ? TEST_OTHER : 1,
		    &(struct used){s, first, nr, 1, (enum weir_use_kind)below(p, 3)}, 1, 98);
		break;
	case 8:
		if (p->guesses || is_held(p, &(struct used){s, first, nr, 1, WEIR_WRITE}))
			break;
		part = use_of(s->addr + first * CELL, nr * CELL, WEIR_DISCARD);
		assert_int_equal(weir_begin(p->t.space, p->t.stream[0], &part, 1), 0);
		do_end(&p->t, 0);
		memset(&s->seed[first], 0, nr * sizeof(s->seed[0]));
		break;
	case 9:
		if (p->held < RANGES)
			release(p);
		else
			hold(p);
		break;
	case 10:
		do_sync(&p->t);
		break;
	default:
		if (p->held < RANGES)
			break;
		err = weir_space_set_mode(p->t.space, WEIR_FIXED);
		assert_true(!err || err == -ENOMEM);
		assert_int_equal(weir_space_set_mode(p->t.space, WEIR_PLANNED), 0);
	}
	do_check(&p->t);
}

/* The first plan looks good, now and then: it is followed again. */
static void prefer_first(struct program *p)
{
	for (uint32_t d = 0; d < p->t.space->nr_devices; d++) {
		struct planner *planner = &p->t.space->residency->planner[d];

		nr_streamed += planner->plan && planner->nr_flowing > 0;
		if (planner->nr_plans_made != 1 || !planner->plan || !chance(p, 60))
			continue;
		planner->timed = (struct timed){.ns = 1, .nr = 2};
		nr_preferred++;
	}
}

static void iterate(struct program *p, bool odd)
{
	for (uint32_t n = 0; n < p->nr_loops; n++) {
		if (odd && chance(p, 5))
			continue;
		run_loop(p, n, odd);
		prefer_first(p);
	}
	/* So that this, and not a part of it, is what repeats. */
	do_free(&p->t, do_alloc(&p->t, BLOCK, 0), 0);
	if (odd && chance(p, 30))
		disturb(p);
	if (p->syncs)
		do_sync(&p->t);
	do_check(&p->t);
}

/* ------------------------------------------------------------------ programs */

static void open_space(struct program *p)
{
	const uint32_t what = below(p, 4);

	p->gpu_blocks = 2 + below(p, 10);
	p->nr_memories = 2;
	if (what == 2) {
		p->two_devices = true;
		p->nr_memories = 3;
		test_space_open_devices(&p->t, BLOCK, p->gpu_blocks, 2 + below(p, 8), HOST_BLOCKS);
	} else if (what == 3) {
		p->nr_memories = 3;
		test_space_open_places(&p->t, BLOCK, p->gpu_blocks, 2 + below(p, 20), HOST_BLOCKS);
	} else {
		test_space_open(&p->t, WEIR_DATA_REAL, WEIR_PLANNED, BLOCK, p->gpu_blocks,
				HOST_BLOCKS);
		p->guesses = what == 1;
		p->t.space->guessed = p->guesses;
	}
}

static void draw_loop(struct program *p, struct loop *loop)
{
	*loop = (struct loop){
		.nr_sliced = 1 + below(p, 2),
		.range = {below(p, RANGES)},
		.whole = below(p, RANGES),
		.nr_max = 5 + below(p, 12),
		.uses_whole = chance(p, 50),
		.temporary = chance(p, 25),
		.times = chance(p, 50) ? 32 : 1,
		.stream = chance(p, 20) ? (p->two_devices ? TEST_OTHER : 1) : 0,
	};
	loop->range[1] = (loop->range[0] + 1 + below(p, RANGES - 1)) % RANGES;
	if (loop->whole == loop->range[0] || loop->whole == loop->range[1])
		loop->uses_whole = false;
	for (uint32_t k = 0; k < 2; k++) {
		loop->step[k] = 1 + below(p, 3 * CELLS);
		loop->kind[k] = (enum weir_use_kind)below(p, 3);
	}
}

static void run_sequence(uint64_t seed)
{
	static struct program p;
	struct weir_space_stats stats;

	memset(&p, 0, sizeof(p));
	p.random.state = seed * 0x9e3779b97f4a7c15u;
	p.next_seed = 1;
	p.held = RANGES;
	open_space(&p);
	for (uint32_t r = 0; r < RANGES; r++)
		alloc(&p, &p.range[r], 2 + below(&p, BLOCKS_MAX - 2));
	p.nr_loops = 1 + below(&p, LOOPS);
	for (uint32_t n = 0; n < p.nr_loops; n++)
		draw_loop(&p, &p.loop[n]);
	p.syncs = chance(&p, 40);
	for (test_step = 0; test_step < ITERATIONS; test_step++)
		iterate(&p, test_step > 3 && chance(&p, 35));
	release(&p);
	do_sync(&p.t);
	for (uint32_t r = 0; r < RANGES; r++)
		if (p.range[r].addr)
			read_all(&p, &p.range[r]);
	stats = get_stats(&p.t);
	nr_plans += stats.nr_plans;
	nr_resumed += stats.nr_resumed;
	test_space_close(&p.t);
}

static void test_loops_random_sequences(void **state)
{
	static const struct test_amount sequences = {12, 2, 1000};
	uint32_t nr = test_seeds_run(sequences, &tracing, run_sequence);

	(void)state;
	if (!nr)
		return;
	printf("%llu plans, %llu loops with parts that come and go, %llu first plans preferred, "
	       "%llu resumed\n",
	       (unsigned long long)nr_plans, (unsigned long long)nr_streamed,
	       (unsigned long long)nr_preferred, (unsigned long long)nr_resumed);
	if (nr < MANY)
		return;
	assert_true(nr_plans > nr);
	assert_true(nr_streamed > 0);
	assert_true(nr_preferred > 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_loops_random_sequences, test_seeds_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
