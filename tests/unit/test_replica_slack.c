/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Elements of lists are copied with what lies between where that is there before they are read, as
 * the last times of the same brackets say; else as packets. Device 0 writes what device 1 reads
 * elements of, and both compute for a while: before the reader reads, or not.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "src/base/util.h"
#include "tests/support/space.h"
#include "weir/machine_file.h"
#include "weir/replica.h"

#define BYTES MIB(64) /* 169 us by a copy */
#define APART 16u
#define NR_MOST 4u
#define NR_ROUNDS 24u

struct program {
	uint32_t nr;	  /* ranges, written one after the other */
	double before_ns; /* kernels of both devices, before each that writes */
	double after_ns;  /* the same of the reader, behind them all */
	bool syncs;	  /* the host waits for each round; else once */
	bool repeats;	  /* else each round writes a little less */
};

struct fixture {
	struct weir_machine_desc desc;
	struct weir_machine *machine;
	struct weir_space *space;
	struct weir_stream *stream[2];
	char *window[NR_MOST][2], *own[2];
};

static void open_fixture(struct fixture *f)
{
	static uint32_t element[BYTES / sizeof(float) / APART];
	struct weir_space_config config = {.devices = 3, .mode = WEIR_PLANNED};
	char why[256];
	void *addr, *window;

	for (uint32_t i = 0; i < ARRAY_LEN(element); i++)
		element[i] = i * APART;
	assert_int_equal(weir_machine_file_read("h200x2", &f->desc, why, sizeof(why)), 0);
	assert_int_equal(weir_machine_simulate(&f->desc, WEIR_DATA_PHANTOM, &f->machine), 0);
	for (uint32_t d = 0; d < 2; d++)
		assert_int_equal(weir_stream_create(f->machine, d, &f->stream[d]), 0);
	assert_int_equal(weir_space_create(f->machine, &config, &f->space), 0);
	for (uint32_t i = 0; i < NR_MOST; i++) {
		assert_int_equal(weir_alloc(f->space, BYTES, NULL, &addr), 0);
		assert_int_equal(weir_replicate(f->space, addr, NULL), 0);
		for (uint32_t d = 0; d < 2; d++) {
			assert_int_equal(weir_replica(f->space, addr, d, &window), 0);
			f->window[i][d] = window;
		}
		assert_int_equal(
			weir_subscribe_elements(f->space, addr, element, ARRAY_LEN(element), 1), 0);
	}
	for (uint32_t d = 0; d < 2; d++) {
		assert_int_equal(weir_alloc(f->space, MIB(2), NULL, &addr), 0);
		f->own[d] = addr;
	}
}

static void close_fixture(struct fixture *f)
{
	assert_int_equal(weir_space_sync(f->space), 0);
	assert_int_equal(weir_space_check(f->space), 0);
	weir_space_destroy(f->space);
	for (uint32_t d = 0; d < 2; d++)
		weir_stream_destroy(f->stream[d]);
	weir_machine_close(f->machine);
}

static void bracket(struct fixture *f, uint32_t d, void *addr, uint64_t bytes,
		    enum weir_use_kind kind, double ns)
{
	static const struct weir_kernel kernel = {.name = "any"};
	struct weir_use use = {.addr = addr, .bytes = bytes, .kind = kind};
	const struct weir_launch launch = {.kernel = &kernel,
					   .uses = &use,
					   .nr_uses = kind != WEIR_READ_ELEMENTS,
					   .ops = ns * 1e-9 * f->desc.device[d].ops_per_s};

	assert_int_equal(weir_begin(f->space, f->stream[d], &use, 1), 0);
	if (ns > 0)
		assert_int_equal(weir_stream_launch(f->stream[d], &launch), 0);
	assert_int_equal(weir_end(f->space, f->stream[d]), 0);
}

static void compute(struct fixture *f, uint32_t d, double ns)
{
	if (ns > 0)
		bracket(f, d, f->own[d], MIB(2), WEIR_WRITE, ns);
}

static void run_round(struct fixture *f, const struct program *p, uint32_t round)
{
	uint64_t bytes = BYTES - (p->repeats ? 0 : round * KIB(64));

	for (uint32_t i = 0; i < p->nr; i++) {
		compute(f, 0, p->before_ns);
		compute(f, 1, p->before_ns);
		bracket(f, 0, f->window[i][0], bytes, WEIR_OVERWRITE, 1e3);
	}
	compute(f, 1, p->after_ns);
	for (uint32_t i = 0; i < p->nr; i++)
		bracket(f, 1, f->window[i][1], BYTES, WEIR_READ_ELEMENTS, 0);
	if (p->syncs || round == NR_ROUNDS / 2 - 1)
		assert_int_equal(weir_space_sync(f->space), 0);
}

/* How the last half of all rounds' messages are sent. */
static void run(const struct program *p, uint64_t nr_sent[WEIR_REPLICA_MECHANISM_NR])
{
	struct weir_replica_stats before = {0}, after;
	struct fixture f = {0};

	open_fixture(&f);
	for (uint32_t round = 0; round < NR_ROUNDS; round++) {
		if (round == NR_ROUNDS / 2)
			weir_replica_query(f.space, &before);
		run_round(&f, p, round);
	}
	weir_replica_query(f.space, &after);
	assert_int_equal(after.nr_messages[WEIR_FETCHED], 0);
	for (int how = 0; how < WEIR_REPLICA_MECHANISM_NR; how++)
		nr_sent[how] = after.nr_sent[how] - before.nr_sent[how];
	close_fixture(&f);
}

static void expect_all(const struct program *p, enum weir_replica_mechanism expected)
{
	uint64_t nr_sent[WEIR_REPLICA_MECHANISM_NR];

	run(p, nr_sent);
	for (int how = 0; how < WEIR_REPLICA_MECHANISM_NR; how++)
		assert_int_equal(nr_sent[how], how == (int)expected ? p->nr * NR_ROUNDS / 2 : 0);
}

/* The reader computes for 1 ms meanwhile. */
static void test_slack_is_enough(void **state)
{
	(void)state;
	expect_all(&(struct program){.nr = 1, .after_ns = 1e6, .syncs = true, .repeats = true},
		   WEIR_SENT_WHOLE);
	/* The host is ahead of its devices. */
	expect_all(&(struct program){.nr = 1, .after_ns = 1e6, .repeats = true}, WEIR_SENT_WHOLE);
}

/* It waits. Or what it does takes as long as the copy, which would leave no port to others. */
static void test_slack_is_not_enough(void **state)
{
	(void)state;
	expect_all(&(struct program){.nr = 1, .syncs = true, .repeats = true}, WEIR_SENT_PACKETS);
	expect_all(&(struct program){.nr = 1, .after_ns = 200e3, .syncs = true, .repeats = true},
		   WEIR_SENT_PACKETS);
}

/* Nothing is known of a bracket that was never there before. */
static void test_slack_is_unknown(void **state)
{
	(void)state;
	expect_all(&(struct program){.nr = 1, .after_ns = 1e6, .syncs = true}, WEIR_SENT_PACKETS);
}

/* Each of four messages has the time. In the other program only the first three do, and a round is
 * shorter than four copies. */
static void test_slack_and_load(void **state)
{
	struct program p = {
		.nr = 4, .before_ns = 300e3, .after_ns = 600e3, .syncs = true, .repeats = true};

	(void)state;
	expect_all(&p, WEIR_SENT_WHOLE);
	p.before_ns = 100e3;
	p.after_ns = 400e3;
	expect_all(&p, WEIR_SENT_PACKETS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_slack_is_enough),
		cmocka_unit_test(test_slack_is_not_enough),
		cmocka_unit_test(test_slack_is_unknown),
		cmocka_unit_test(test_slack_and_load),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
