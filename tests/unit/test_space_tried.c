/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans of one repetition are compared by what a period takes under them, and the best is followed.
 */
#include <math.h>
#include <stdlib.h>

#include "src/base/variables.h"
#include "src/residency/residency.h"
#include "tests/support/amount.h"
#include "tests/support/space.h"
#include "weir/machine_file.h"

#define BLOCK KIB(16)
#define NR 4
/* Brackets of a period, and of what a longer one has beside them. */
enum { PERIOD = 30, MORE = 8 };

static struct planner *planner(const struct test_space *t)
{
	return &t->space->residency->planner[0];
}

/* A walk over layers of a model on an H200 with 33.67 GB, over and over. */
struct walk {
	uint32_t nr_layers;
	uint64_t layer_bytes, temporary_bytes;
	double compute_s; /* at each */
	bool writes;
};

struct walker {
	const struct walk *walk;
	struct weir_machine *machine;
	struct weir_space *space;
	struct weir_stream *stream;
	void *layer[60];
};

/* A layer's weights, which a step fills at first, then reads or changes, and what it writes on the
 * way. */
static void walk_step(struct walker *w, void *weights, bool fills)
{
	static const struct weir_kernel kernel = {.name = "layer"};
	const struct walk *walk = w->walk;
	const bool writes = fills || walk->writes;
	struct weir_use use[] = {{.addr = weights,
				  .bytes = walk->layer_bytes,
				  .kind = writes ? WEIR_WRITE : WEIR_READ,
				  .read_bytes = walk->layer_bytes,
				  .write_bytes = writes ? walk->layer_bytes : 0},
				 {.bytes = walk->temporary_bytes,
				  .kind = WEIR_OVERWRITE,
				  .write_bytes = walk->temporary_bytes}};
	const struct weir_launch launch = {
		.kernel = &kernel,
		.uses = use,
		.nr_uses = 2,
		.ops = (fills ? 0 : walk->compute_s) *
		       weir_machine_describe(w->machine)->device[0].ops_per_s};

	assert_int_equal(weir_alloc(w->space, use[1].bytes, w->stream, &use[1].addr), 0);
	assert_int_equal(weir_begin(w->space, w->stream, use, 2), 0);
	assert_int_equal(weir_stream_launch(w->stream, &launch), 0);
	assert_int_equal(weir_end(w->space, w->stream), 0);
	weir_free(w->space, use[1].addr, w->stream);
}

static void walker_open(struct walker *w, const struct walk *walk, bool plans)
{
	struct weir_space_config config = {.devices = 1, .mode = WEIR_PLANNED};
	struct weir_machine_desc desc;
	char error[256];

	*w = (struct walker){.walk = walk};
	assert_int_equal(setenv(VARIABLE_PLANS, plans ? "1" : "0", 1), 0);
	assert_int_equal(weir_machine_file_read("h200", &desc, error, sizeof(error)), 0);
	assert_int_equal(weir_machine_simulate(&desc, WEIR_DATA_PHANTOM, &w->machine), 0);
	config.budget_bytes[0] = 110000000000;
	config.budget_bytes[1] = 33670000000;
	assert_int_equal(weir_space_create(w->machine, &config, &w->space), 0);
	assert_int_equal(unsetenv(VARIABLE_PLANS), 0);
	assert_int_equal(weir_stream_create(w->machine, 0, &w->stream), 0);
	for (uint32_t i = 0; i < walk->nr_layers; i++) {
		assert_int_equal(weir_alloc(w->space, walk->layer_bytes, w->stream, &w->layer[i]),
				 0);
		walk_step(w, w->layer[i], true);
	}
}

static void walker_close(struct walker *w)
{
	weir_space_destroy(w->space);
	weir_stream_destroy(w->stream);
	weir_machine_close(w->machine);
}

/* @return what it takes, ns. */
static double walk_pass(struct walker *w)
{
	const uint64_t begin = weir_machine_now_ns(w->machine);

	for (uint32_t i = 0; i < w->walk->nr_layers; i++)
		walk_step(w, w->layer[i], false);
	assert_int_equal(weir_space_sync(w->space), 0);
	return (double)(weir_machine_now_ns(w->machine) - begin);
}

/*
 * A walk of which half fits, with 2 ms of computation at each layer: the second plan is the worse
 * one of two, and was followed for good when plans were not compared.
 */
static void test_space_tried_keeps_the_best(void **state)
{
	static const struct walk walk = {60, MIB(1024), MIB(64), 2e-3, true};
	double took = 0, least = INFINITY;
	struct walker w;

	(void)state;
	walker_open(&w, &walk, true);
	for (uint32_t pass = 0; pass < 12; pass++) {
		took = walk_pass(&w);
		least = fmin(least, took);
	}
	assert_true(w.space->residency->planner[0].settled);
	assert_true(took <= 1.03 * least);
	walker_close(&w);
}

/* The last of some passes. */
static double last_pass(const struct walk *walk, bool plans)
{
	struct walker w;
	double took = 0;

	walker_open(&w, walk, plans);
	for (uint32_t pass = 0; pass < 8; pass++)
		took = walk_pass(&w);
	walker_close(&w);
	return took;
}

/*
 * What is used in place takes the link for as long as the computation, and what comes for later
 * layers has time while others that are resident compute. When it came as soon as the program asked
 * for it, both shared the link, and the plan took 1.17 times as long as none.
 */
static void test_space_tried_plans_share_no_link(void **state)
{
	static const struct walk walk = {46, 1660451975, 220610611, 29.5e-3, false};

	(void)state;
	assert_true(last_pass(&walk, true) < 1.02 * last_pass(&walk, false));
}

/* A walk that computes next to nothing does best without a plan: that is found out, and planned
 * anew many periods later. */
static void test_space_tried_none_is_best(void **state)
{
	static const struct walk walk = {5, 16161600000, MIB(64), 1e-3, false};
	double planned = 0, bare = 0;
	const struct planner *p;
	uint32_t pass = 0;
	struct walker w;

	(void)state;
	walker_open(&w, &walk, true);
	p = &w.space->residency->planner[0];
	for (; pass < 40 && !(p->settled && p->bare); pass++) {
		const double took = walk_pass(&w);

		if (p->settled && p->plan)
			planned = took;
	}
	assert_true(p->settled && p->bare && !p->plan && !p->tried);
	assert_true(pass > 16);
	for (uint32_t i = 0; i < 4; i++)
		bare = walk_pass(&w);
	assert_true(bare < planned);
	for (pass = 0; pass < 70 && p->bare; pass++)
		(void)walk_pass(&w);
	assert_true(pass > 50);
	assert_non_null(p->plan);
	walker_close(&w);
}

/* Ranges that stay and one that does not fit beside them all; temporaries; and some ranges that
 * outlive an iteration. */
struct program {
	struct test_space t;
	uint8_t *range[NR];
	uint32_t seed[NR];
	uint8_t *late[2];
	uint32_t late_seed[2], next;
	bool settled; /* the best plan was chosen in an iteration before this one */
};

/* The plan that was chosen knows ranges that were allocated after it was made. */
static void expect_tied(struct program *p)
{
	for (uint32_t i = 0; i < 2 && p->late[i]; i++)
		assert_true(range_find(p->t.space, p->late[i])->residency->plan_life >= 0);
	p->settled = true;
}

static void do_iteration(struct program *p)
{
	for (uint32_t i = 0; i < 3 * NR; i++) {
		const uint32_t r = i % NR;
		const uint64_t bytes = 2 * BLOCK - 64 * i;
		uint8_t *temporary = do_alloc(&p->t, bytes, 0);

		if (planner(&p->t)->settled && !p->settled)
			expect_tied(p);
		do_fill(&p->t, 0, temporary, bytes, p->next + 1);
		do_change(&p->t, 0, p->range[r], 4 * BLOCK, p->seed[r], p->next);
		p->seed[r] = p->next;
		do_expect(&p->t, 0, temporary, bytes, p->next + 1);
		do_free(&p->t, temporary, 0);
		p->next += 2;
	}
	/* Freed in the next iteration, and allocated anew. */
	for (uint32_t i = 0; i < 2; i++) {
		if (p->late[i]) {
			do_expect(&p->t, 0, p->late[i], 3 * BLOCK, p->late_seed[i]);
			do_free(&p->t, p->late[i], 0);
		}
		p->late[i] = do_alloc(&p->t, 3 * BLOCK, 0);
		p->late_seed[i] = p->next++;
		do_fill(&p->t, 0, p->late[i], 3 * BLOCK, p->late_seed[i]);
	}
}

static void open_program(struct program *p)
{
	*p = (struct program){.next = 10};
	test_space_open(&p->t, WEIR_DATA_REAL, WEIR_PLANNED, BLOCK, 9, 40);
	for (uint32_t r = 0; r < NR; r++) {
		p->seed[r] = 1 + r;
		p->range[r] = do_alloc(&p->t, 4 * BLOCK, 0);
		do_fill(&p->t, 0, p->range[r], 4 * BLOCK, p->seed[r]);
	}
}

static void close_program(struct program *p)
{
	for (uint32_t r = 0; r < NR; r++)
		do_read(&p->t, p->range[r], 4 * BLOCK, p->seed[r]);
	for (uint32_t i = 0; i < 2; i++)
		do_read(&p->t, p->late[i], 3 * BLOCK, p->late_seed[i]);
	do_check(&p->t);
	test_space_close(&p->t);
}

/* The first plan is made to look good: it is followed again, in the middle of an iteration or at
 * its end, and is a plan like any other. That the others' first periods look better still counts
 * for nothing: in these data move to where they want them. */
static void take_up(bool replace, bool at_once)
{
	const struct plan *first = NULL;
	struct program p;

	open_program(&p);
	for (uint32_t i = 0; i < 16; i++) {
		struct planner *planned = planner(&p.t);

		do_iteration(&p);
		if (!at_once)
			do_sync(&p.t);
		if (planned->nr_plans_made == 1 && planned->plan) {
			first = planned->plan;
			planned->timed = (struct timed){.ns = 2, .nr = 2};
		}
		if (planned->nr_plans_made > 1 && !planned->settled) {
			assert_non_null(planned->tried);
			if (planned->timed.nr == 1)
				planned->timed.ns = 1;
			/* What both plans know may be gone by then. */
			if (replace) {
				do_free(&p.t, p.range[NR - 1], 0);
				p.range[NR - 1] = do_alloc(&p.t, 4 * BLOCK, 0);
				p.seed[NR - 1] = p.next++;
				do_fill(&p.t, 0, p.range[NR - 1], 4 * BLOCK, p.seed[NR - 1]);
			}
		}
		do_check(&p.t);
	}
	assert_non_null(first);
	if (!replace) {
		assert_true(planner(&p.t)->settled);
		assert_null(planner(&p.t)->tried);
		assert_ptr_equal(planner(&p.t)->plan, first);
		assert_true(planner(&p.t)->nr_plans_made > 1);
	}
	close_program(&p);
}

static void test_space_tried_takes_one_up(void **state)
{
	(void)state;
	take_up(false, false);
	if (!TEST_SANITIZED)
		take_up(false, true);
}

static void test_space_tried_of_other_ranges(void **state)
{
	(void)state;
	if (!TEST_SANITIZED)
		take_up(true, false);
	take_up(true, true);
}

/* How many plans are made if the model of each says that a period takes so long. */
static uint32_t nr_plans_if(double modelled_ns)
{
	struct program p;
	uint32_t nr;

	open_program(&p);
	for (uint32_t i = 0; i < 16 && !planner(&p.t)->settled; i++) {
		if (planner(&p.t)->plan)
			planner(&p.t)->plan->modelled_ns = modelled_ns;
		do_iteration(&p);
		do_sync(&p.t);
	}
	assert_true(planner(&p.t)->settled);
	nr = planner(&p.t)->nr_plans_made;
	close_program(&p);
	return nr;
}

/* Another plan is made where the model missed, but not for ever. */
static void test_space_tried_missed(void **state)
{
	(void)state;
	assert_int_equal(nr_plans_if(1e18), 2);
	assert_int_equal(nr_plans_if(1), 4);
}

/* The space goes, and a repetition ends, while plans are set aside: nothing leaks. */
static void test_space_tried_forgotten(void **state)
{
	(void)state;
	for (int diverges = 0; diverges < 2; diverges++) {
		struct program p;

		open_program(&p);
		for (uint32_t i = 0; i < 14 && !planner(&p.t)->tried; i++)
			do_iteration(&p);
		assert_non_null(planner(&p.t)->tried);
		if (diverges) {
			assert_int_equal(weir_space_set_budget(p.t.space, GPU0, 8 * BLOCK), 0);
			assert_null(planner(&p.t)->tried);
			assert_int_equal(planner(&p.t)->nr_plans_made, 0);
			do_iteration(&p);
		}
		close_program(&p);
	}
}

/* A bracket of guessed uses: a launch of that number, of all of a range. */
static void do_guess(struct program *p, uint64_t launched, uint32_t r)
{
	const struct weir_use use = use_of(p->range[r], 4 * BLOCK, WEIR_WRITE);
	const struct bracket_asked asked = {
		.uses = &use, .nr = 1, .nr_likely = 1, .launched = launched};

	assert_int_equal(bracket_begin_guessed(p->t.space, p->t.stream[0], &asked), 0);
	do_launch(&p->t, 0, p->range[r], 4 * BLOCK, WEIR_WRITE, p->seed[r], p->next);
	p->seed[r] = p->next++;
	do_end(&p->t, 0);
}

/*
 * Of guesses a longer repetition is recognised while a shorter one is followed: plans of that are
 * none of the new one's, though its periods took less time.
 */
static void test_space_tried_of_another_period(void **state)
{
	struct program p;

	(void)state;
	open_program(&p);
	p.t.space->guessed = true;
	for (uint32_t i = 0; i < 12; i++) {
		for (uint32_t n = 0; n < PERIOD; n++)
			do_guess(&p, 1 + n, n % NR);
		for (uint32_t n = 0; n < MORE && i >= 4; n++)
			do_guess(&p, 1 + PERIOD + n, n % NR);
		do_sync(&p.t);
		if (i == 3)
			assert_non_null(planner(&p.t)->tried);
	}
	assert_int_equal(planner(&p.t)->record.period, PERIOD + MORE);
	assert_true(planner(&p.t)->settled);
	for (uint32_t r = 0; r < NR; r++)
		do_read(&p.t, p.range[r], 4 * BLOCK, p.seed[r]);
	test_space_close(&p.t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_space_tried_keeps_the_best),
		cmocka_unit_test(test_space_tried_plans_share_no_link),
		cmocka_unit_test(test_space_tried_none_is_best),
		cmocka_unit_test(test_space_tried_takes_one_up),
		cmocka_unit_test(test_space_tried_of_other_ranges),
		cmocka_unit_test(test_space_tried_missed),
		cmocka_unit_test(test_space_tried_forgotten),
		cmocka_unit_test(test_space_tried_of_another_period),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
