/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mechanism by which elements of lists are sent, against all that there are: on simulated H200s
 * one device writes a range, and one, three or seven others read elements of it, each by a list of
 * its own; or each of them writes a part, and all read the others' parts. Over a grid of bytes, of
 * runs of elements that follow each other, of densities and of sizes of elements, the time from the
 * writer's end until all readers have read is at most 10 % above that of the best mechanism, if all
 * are sent by one.
 *
 * Each publication is repeated, so that devices have the lists, and readers wait for it: there is
 * no slack. Runs beyond those that the library copies one by one are not sent so. A part of the
 * grid is tried: one point in WEIR_ONE_IN, with WEIR_TEST_LONG all of them. With WEIR_POINT=n it is
 * point n alone; the times are shown then.
 *
 * Long: yes
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "src/base/hash.h"
#include "src/replica/parcel.h"
#include "tests/support/amount.h"
#include "weir/machine_file.h"

#define MIB(n) ((uint64_t)(n) << 20)
#define KIB(n) ((uint64_t)(n) << 10)
#define ROUNDS 3u
#define MOST 1.1 /* of the time of the best mechanism */
#define RANGE_MAX MIB(1024)

enum { BY_CHOICE = WEIR_REPLICA_MECHANISM_NR, NR_WAYS };

static const char *const way_name[] = {"whole", "runs", "packets", "chosen"};

struct point {
	const char *machine;
	uint32_t nr_readers;
	uint64_t bytes, run_bytes; /* of elements: all, and those that follow each other */
	uint64_t run_apart;	   /* from where one run begins to where the next one does */
	uint32_t element_bytes;
	bool mutual; /* readers write a part as well, and all read all parts but their own */
};

struct program {
	struct weir_machine_desc desc;
	struct weir_machine *machine;
	struct weir_space *space;
	struct weir_stream *stream[WEIR_DEVICES_MAX];
	char *window[WEIR_DEVICES_MAX];
	uint64_t part; /* of the range, that a device writes */
	uint64_t bytes;
};

static uint64_t nr_points, nr_tried, nr_best[WEIR_REPLICA_MECHANISM_NR], one_in, alone;
static double worst;

/* ------------------------------------------------------------------ one publication */

static uint32_t nr_writers(const struct point *p)
{
	return p->mutual ? p->nr_readers + 1 : 1;
}

static uint32_t first_reader(const struct point *p)
{
	return p->mutual ? 0 : 1;
}

static void give_lists(struct program *prog, const struct point *p, void *addr)
{
	uint64_t nr = nr_writers(p) * p->bytes / p->element_bytes;
	uint64_t of_run = p->run_bytes / p->element_bytes;
	uint32_t *element = malloc(nr * sizeof(*element));

	assert_non_null(element);
	for (uint64_t i = 0; i < nr; i++)
		element[i] =
			(uint32_t)(i / of_run * (p->run_apart / p->element_bytes) + i % of_run);
	for (uint32_t d = first_reader(p); d <= p->nr_readers; d++)
		assert_int_equal(weir_subscribe_elements(prog->space, addr, element, nr, d), 0);
	free(element);
}

static void run_open(struct program *prog, const struct point *p)
{
	const struct weir_replica_params params = {.element_bytes = p->element_bytes};
	struct weir_space_config config = {.mode = WEIR_PLANNED};
	char why[256];
	void *addr;

	prog->part = p->bytes / p->run_bytes * p->run_apart;
	prog->bytes = nr_writers(p) * prog->part;
	config.devices = (UINT64_C(2) << p->nr_readers) - 1;
	assert_int_equal(weir_machine_file_read(p->machine, &prog->desc, why, sizeof(why)), 0);
	assert_int_equal(weir_machine_simulate(&prog->desc, WEIR_DATA_PHANTOM, &prog->machine), 0);
	assert_int_equal(weir_space_create(prog->machine, &config, &prog->space), 0);
	assert_int_equal(weir_alloc(prog->space, prog->bytes, NULL, &addr), 0);
	assert_int_equal(weir_replicate(prog->space, addr, &params), 0);
	for (uint32_t d = 0; d <= p->nr_readers; d++) {
		void *window;

		assert_int_equal(weir_stream_create(prog->machine, d, &prog->stream[d]), 0);
		assert_int_equal(weir_replica(prog->space, addr, d, &window), 0);
		prog->window[d] = window;
	}
	give_lists(prog, p, addr);
}

static void run_close(struct program *prog, const struct point *p)
{
	assert_int_equal(weir_space_check(prog->space), 0);
	weir_space_destroy(prog->space);
	for (uint32_t d = 0; d <= p->nr_readers; d++)
		weir_stream_destroy(prog->stream[d]);
	weir_machine_close(prog->machine);
}

static void begin(struct program *prog, uint32_t device, enum weir_use_kind kind)
{
	bool writes = kind == WEIR_OVERWRITE;
	const struct weir_use use = {
		.addr = prog->window[device] + (writes ? device * prog->part : 0),
		.bytes = writes ? prog->part : prog->bytes,
		.kind = kind,
	};

	assert_int_equal(weir_begin(prog->space, prog->stream[device], &use, 1), 0);
}

/* @return how long it takes until what was written is read. */
static uint64_t publish(struct program *prog, const struct point *p)
{
	static const struct weir_kernel kernel = {.name = "any"};
	const struct weir_launch launch = {.kernel = &kernel};
	uint64_t since;

	for (uint32_t d = 0; d < nr_writers(p); d++)
		begin(prog, d, WEIR_OVERWRITE);
	since = weir_machine_now_ns(prog->machine);
	for (uint32_t d = 0; d < nr_writers(p); d++)
		assert_int_equal(weir_end(prog->space, prog->stream[d]), 0);
	for (uint32_t d = first_reader(p); d <= p->nr_readers; d++) {
		begin(prog, d, WEIR_READ_ELEMENTS);
		assert_int_equal(weir_stream_launch(prog->stream[d], &launch), 0);
		assert_int_equal(weir_end(prog->space, prog->stream[d]), 0);
	}
	for (uint32_t d = 0; d <= p->nr_readers; d++)
		assert_int_equal(weir_stream_sync(prog->stream[d]), 0);
	return weir_machine_now_ns(prog->machine) - since;
}

/* The time of the last of some publications, by a mechanism or the one that is chosen. */
static uint64_t time_way(const struct point *p, int way)
{
	struct weir_replica_stats stats;
	struct program prog = {.bytes = 0};
	uint64_t ns = 0;

	run_open(&prog, p);
	replicas_of(prog.space)->forced = way == BY_CHOICE ? 0 : (uint32_t)way + 1;
	for (uint32_t round = 0; round < ROUNDS; round++) {
		ns = publish(&prog, p);
		assert_int_equal(weir_space_sync(prog.space), 0);
	}
	weir_replica_query(prog.space, &stats);
	assert_int_equal(stats.nr_messages[WEIR_FETCHED], 0);
	for (int how = 0; how < WEIR_REPLICA_MECHANISM_NR; how++)
		if (alone && stats.nr_sent[how])
			printf("%s: %llu by %s, %llu ns\n", way_name[way],
			       (unsigned long long)stats.nr_sent[how], way_name[how],
			       (unsigned long long)ns);
	run_close(&prog, p);
	return ns;
}

/* ------------------------------------------------------------------ the grid */

static void try_point(const struct point *p)
{
	uint64_t ns[NR_WAYS] = {0};
	int best = WEIR_SENT_WHOLE;
	double ratio;

	nr_points++;
	if (alone ? nr_points != alone : hash_mix(nr_points, 1) % one_in)
		return;
	nr_tried++;
	for (int way = 0; way < NR_WAYS; way++)
		if (way != WEIR_SENT_RUNS || p->bytes / p->run_bytes <= PARCEL_RUNS_MAX)
			ns[way] = time_way(p, way);
	for (int way = 0; way < BY_CHOICE; way++)
		if (ns[way] && ns[way] < ns[best])
			best = way;
	nr_best[best]++;
	ratio = (double)ns[BY_CHOICE] / (double)ns[best];
	if (ratio > worst)
		worst = ratio;
	if (ratio <= MOST)
		return;
	print_message(
		"point %llu: %s, %u readers%s, %llu bytes in runs of %llu, %llu apart, elements "
		"of %u: chosen %llu ns, %s %llu ns: %.3f\n",
		(unsigned long long)nr_points, p->machine, p->nr_readers,
		p->mutual ? " that write, too" : "", (unsigned long long)p->bytes,
		(unsigned long long)p->run_bytes, (unsigned long long)p->run_apart,
		p->element_bytes, (unsigned long long)ns[BY_CHOICE], way_name[best],
		(unsigned long long)ns[best], ratio);
}

/* Those of some bytes in some runs: of each density and size of elements. */
static void try_runs(struct point p)
{
	static const double density[] = {1.0 / 64, 1.0 / 8, 1.0 / 2, 7.0 / 8};
	static const uint32_t element_bytes[] = {4, 16};

	for (size_t d = 0; d < ARRAY_LEN(density); d++)
		for (size_t e = 0; e < ARRAY_LEN(element_bytes); e++) {
			p.run_apart = round_up((uint64_t)((double)p.run_bytes / density[d]), 16);
			p.element_bytes = element_bytes[e];
			if (p.run_apart > p.run_bytes &&
			    nr_writers(&p) * (p.bytes / p.run_bytes) * p.run_apart <= RANGE_MAX)
				try_point(&p);
		}
}

static void try_machine(const char *machine, uint32_t nr_readers, bool mutual)
{
	static const uint64_t bytes[] = {KIB(32), KIB(256), MIB(1), MIB(4), MIB(16), MIB(64)};
	static const uint64_t run_bytes[] = {16, 128, KIB(1), KIB(8), KIB(64), MIB(1)};

	for (size_t b = 0; b < ARRAY_LEN(bytes); b++)
		for (size_t r = 0; r < ARRAY_LEN(run_bytes) && run_bytes[r] < bytes[b]; r++)
			try_runs((struct point){.machine = machine,
						.nr_readers = nr_readers,
						.bytes = bytes[b],
						.run_bytes = run_bytes[r],
						.mutual = mutual});
}

static void test_replica_mechanism_is_the_best(void **state)
{
	static const struct test_amount amount = {150, 400, 1}, all = {0, 0, 0};

	(void)state;
	one_in = test_amount("WEIR_ONE_IN", amount);
	alone = test_amount("WEIR_POINT", all);
	for (int mutual = 0; mutual < 2; mutual++) {
		try_machine("h200x2", 1, mutual);
		try_machine("h200x4", 1, mutual);
		try_machine("h200x4", 3, mutual);
		try_machine("h200x8", 1, mutual);
		try_machine("h200x8", 3, mutual);
		try_machine("h200x8", 7, mutual);
	}
	printf("%llu of %llu points, best %llu times whole, %llu runs, %llu packets; at worst "
	       "%.3f of the best\n",
	       (unsigned long long)nr_tried, (unsigned long long)nr_points,
	       (unsigned long long)nr_best[WEIR_SENT_WHOLE],
	       (unsigned long long)nr_best[WEIR_SENT_RUNS],
	       (unsigned long long)nr_best[WEIR_SENT_PACKETS], worst);
	if (!alone)
		assert_true(worst <= MOST);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_replica_mechanism_is_the_best),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
