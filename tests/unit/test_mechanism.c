/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which mechanism a message is sent by, and the times that are modelled for both, against values
 * worked out by hand: 10 bytes a ns one way and 5 the other, 100 through the sender's memory and 50
 * through the subscriber's.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "src/base/util.h"
#include "src/replica/mechanism.h"

#define COPIES MECHANISM_COPIES
#define PACKETS MECHANISM_PACKETS

static const struct weir_link_desc link = {.a_to_b_bytes_per_s = 10e9,
					   .b_to_a_bytes_per_s = 5e9,
					   .latency_ns = 1000,
					   .copy_ns = 100,
					   .event_ns = 500};

/* The same, where the host takes 10 times as long to queue a piece as the engine to begin it. */
static const struct weir_link_desc slow_host = {.a_to_b_bytes_per_s = 10e9,
						.b_to_a_bytes_per_s = 5e9,
						.latency_ns = 1000,
						.copy_ns = 100,
						.event_ns = 500,
						.copy_host_ns = 1000};

/* What all cases have, and what most have. */
#define ONCE .nr_senders = 1, .nr_batches = 1, .nr_packets = 1
#define KERNELS .pack_bytes_per_s = 100e9, .unpack_bytes_per_s = 50e9, .launch_ns = 2000
#define ALL .link = &link, KERNELS
#define TO_ONE .nr_subscribers = 1, .a_to_b = true
#define MANY_TIMES ALL, TO_ONE, .lists_known = true
#define USUAL MANY_TIMES, ONCE
#define EACH_TO_FOUR ALL, .nr_subscribers = 4, .a_to_b = true, .lists_known = true
#define TO_FOUR EACH_TO_FOUR, ONCE
#define SLOW_HOST .link = &slow_host, KERNELS, .lists_known = true, .nr_senders = 1
#define TO_EACH_OTHER EACH_TO_FOUR, .nr_senders = 5, .nr_batches = 1, .nr_packets = 1

/* 100,000 elements of 4 bytes, each alone in its sector. */
#define SCATTERED .bytes = 400000, .nr_pieces = 100000, .element_bytes = 4, .density = 1.0 / 64

/* 10,000 elements of 4 bytes, some of which follow each other. */
#define SPARSE .bytes = 40000, .element_bytes = 4, .density = 1.0 / 64

/* A million bytes in a row. */
#define DENSE .bytes = 1000000, .nr_pieces = 1, .element_bytes = 4, .density = 1

static const struct mechanism_case {
	const char *what;
	struct mechanism_message message;
	struct mechanism_choice choice;
} cases[] = {
	{"one piece", {USUAL, DENSE}, {COPIES, 1600 + 100000, 30000 + 1600 + 100000 + 60000}},
	{"scattered elements",
	 {USUAL, SCATTERED},
	 {PACKETS, 1500 + 1e7 + 40000, 40000 + 1600 + 40000 + 144000}},
	{"the list is sent as well",
	 {ALL, TO_ONE, ONCE, SCATTERED},
	 {PACKETS, 1500 + 1e7 + 40000, 40000 + 1700 + 80000 + 144000}},
	{"copies are in time",
	 {USUAL, SCATTERED, .slack_ns = 2.1e7},
	 {COPIES, 1500 + 1e7 + 40000, 40000 + 1600 + 40000 + 144000}},
	{"copies are in time, but leave less than half of it to others",
	 {USUAL, SCATTERED, .slack_ns = 2e7},
	 {PACKETS, 1500 + 1e7 + 40000, 40000 + 1600 + 40000 + 144000}},
	{"copies are not in time behind what ports have to carry",
	 {USUAL, SCATTERED, .slack_ns = 2.1e7, .load_ns = 1e6},
	 {PACKETS, 1e6 + 1500 + 1e7 + 40000, 1e6 + 40000 + 1600 + 40000 + 144000}},
	{"the host takes as long to launch kernels as packets save",
	 {USUAL, SCATTERED, .call_ns = 5e6},
	 {COPIES, 1500 + 1e7 + 40000, 2 * 5e6 + 144000}},
	{"one kernel is launched while the packet is on its way",
	 {USUAL, SCATTERED, .call_ns = 50000},
	 {PACKETS, 1500 + 1e7 + 40000, 50000 + 40000 + 1600 + 40000 + 144000}},
	{"copies in ten batches",
	 {MANY_TIMES, SCATTERED, .nr_senders = 1, .nr_batches = 10, .nr_packets = 1},
	 {PACKETS, 10500 + 1e7 + 40000, 40000 + 1600 + 40000 + 144000}},
	{"four packets, copied when the one before is unpacked",
	 {MANY_TIMES, SCATTERED, .nr_senders = 1, .nr_batches = 1, .nr_packets = 4},
	 {PACKETS, 1500 + 1e7 + 40000, 10000 + 4 * (1600 + 10000 + 36000)}},
	{"packets alone are in time",
	 {USUAL, SCATTERED, .slack_ns = 1e6},
	 {PACKETS, 1500 + 1e7 + 40000, 40000 + 1600 + 40000 + 144000}},
	{"neither is in time",
	 {USUAL, SCATTERED, .slack_ns = 1000},
	 {PACKETS, 1500 + 1e7 + 40000, 40000 + 1600 + 40000 + 144000}},
	{"few: kernels take as long as they take at least",
	 {USUAL, .bytes = 40, .nr_pieces = 10, .element_bytes = 4, .density = 1.0 / 64},
	 {COPIES, 1500 + 1000 + 4, 2000 + 1600 + 4 + 2000}},
	{"one of two elements: neighbours share no sector beyond all that there are",
	 {USUAL, .bytes = 160000, .nr_pieces = 10000, .element_bytes = 16, .density = 0.5},
	 {PACKETS, 1500 + 1e6 + 16000, 5200 + 1600 + 16000 + 16800}},
	{"one of two elements of 4 bytes",
	 {USUAL, .bytes = 40000, .nr_pieces = 10000, .element_bytes = 4, .density = 0.5},
	 {PACKETS, 1500 + 1e6 + 4000, 2000 + 1600 + 4000 + 4800}},
	{"rows of 1 KiB",
	 {USUAL, .bytes = 1024000, .nr_pieces = 1000, .element_bytes = 4, .density = 0.125},
	 {PACKETS, 1500 + 1e5 + 102400, 31000 + 1600 + 102400 + 63120}},
	{"rows of 4 KiB",
	 {USUAL, .bytes = 4096000, .nr_pieces = 1000, .element_bytes = 4, .density = 0.125},
	 {COPIES, 1500 + 1e5 + 409600, 123160 + 1600 + 409600 + 247440}},
	{"the other way, at half the rate",
	 {ALL, ONCE, DENSE, .nr_subscribers = 1, .lists_known = true},
	 {COPIES, 1600 + 200000, 30000 + 1600 + 200000 + 60000}},
	{"the sender's port is shared by four subscribers",
	 {TO_FOUR, DENSE, .send_bytes_per_s = 20e9},
	 {COPIES, 1600 + 200000, 30000 + 1600 + 200000 + 60000}},
	{"without ports there is nothing to share but the sender's kernels",
	 {TO_FOUR, DENSE},
	 {COPIES, 1600 + 100000, 4 * 30000 + 1600 + 100000 + 60000}},
	{"the host launches kernels for four subscribers",
	 {TO_FOUR, SCATTERED, .call_ns = 50000},
	 {PACKETS, 1500 + 1e7 + 40000, 7 * 50000 + 40000 + 1600 + 40000 + 144000}},
	{"five devices send to each other, and pack and unpack for four",
	 {TO_EACH_OTHER, SCATTERED},
	 {PACKETS, 1500 + 1e7 + 40000, 4 * 40000 + 3 * 144000 + 40000 + 1600 + 144000}},
	{"the host launches kernels for all of them, those of the last one at the end",
	 {TO_EACH_OTHER, SCATTERED, .call_ns = 50000},
	 {PACKETS, 1500 + 1e7 + 40000, 39 * 50000 + 40000 + 1600 + 40000 + 144000}},
	{"others' copies are in the load",
	 {TO_FOUR, SCATTERED, .send_bytes_per_s = 20e9, .load_ns = 60000, .slack_ns = 20203000},
	 {COPIES, 60000 + 1500 + 1e7 + 80000, 60000 + 4 * 40000 + 1600 + 40000 + 144000}},
	{"the load has others' copies, and more",
	 {TO_FOUR, SCATTERED, .send_bytes_per_s = 20e9, .load_ns = 60000, .slack_ns = 20202000},
	 {PACKETS, 60000 + 1500 + 1e7 + 80000, 60000 + 4 * 40000 + 1600 + 40000 + 144000}},
	{"others' copies are not in the load yet",
	 {TO_FOUR, SCATTERED, .send_bytes_per_s = 20e9, .slack_ns = 20162000},
	 {PACKETS, 1500 + 1e7 + 80000, 4 * 40000 + 1600 + 40000 + 144000}},
	{"a subscriber's port has less left",
	 {TO_FOUR, DENSE, .send_bytes_per_s = 20e9, .receive_bytes_per_s = 2e9},
	 {COPIES, 1600 + 500000, 4 * 30000 + 1600 + 500000 + 60000}},
	{"the host queues pieces, and then the engine copies them",
	 {SLOW_HOST, TO_ONE, SPARSE, .nr_pieces = 64, .nr_batches = 1, .nr_packets = 1},
	 {PACKETS, 500 + 64000 + 1000 + 6400 + 4000, 2000 + 1600 + 4000 + 2507.52}},
	{"the host queues a batch while the one before is copied",
	 {SLOW_HOST, TO_ONE, SPARSE, .nr_pieces = 256, .nr_batches = 4, .nr_packets = 1},
	 {PACKETS, 500 + 256000 + 1000 + 6400 + 1000, 2000 + 1600 + 4000 + 2830.08}},
	{"the host queues pieces faster than the engine copies them",
	 {SLOW_HOST, TO_ONE, .bytes = 40960000, .nr_pieces = 256, .element_bytes = 4, .density = 1,
	  .nr_batches = 4, .nr_packets = 1, .slack_ns = 2e7},
	 {COPIES, 500 + 64000 + 4000 + 25600 + 4096000, 1228800 + 1600 + 4096000 + 2457600}},
	{"the host queues pieces for four subscribers",
	 {SLOW_HOST, .nr_subscribers = 4, .a_to_b = true, SPARSE, .nr_pieces = 64, .nr_batches = 1,
	  .nr_packets = 1},
	 {PACKETS, 500 + 4 * 64000 + 1000 + 6400 + 4000, 4 * 2000 + 1600 + 4000 + 2507.52}},
	{"the host launches the readers' kernels behind all packets, and beside copies",
	 {TO_FOUR, SCATTERED, .call_ns = 50000, .read_ns = 300000},
	 {PACKETS, 1500 + 1e7 + 40000, 8 * 50000 + 300000}},
	{"the host launches the readers' kernels for longer than engines copy",
	 {USUAL, DENSE, .call_ns = 1000, .read_ns = 150000},
	 {COPIES, 150000, 30000 + 1000 + 1600 + 100000 + 60000}},
	{"ports that have more left than the link carries",
	 {USUAL, DENSE, .send_bytes_per_s = 11e9, .receive_bytes_per_s = 12e9},
	 {COPIES, 1600 + 100000, 30000 + 1600 + 100000 + 60000}},
};

static void expect_ns(const char *what, const char *which, double ns, double expected)
{
	if (!(fabs(ns - expected) <= 1e-9 * expected))
		fail_msg("%s: %s take %.3f ns instead of %.3f", what, which, ns, expected);
}

static void test_mechanism_table(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const struct mechanism_case *c = &cases[i];
		struct mechanism_choice choice = mechanism_choose(&c->message);

		expect_ns(c->what, "copies", choice.copies_ns, c->choice.copies_ns);
		expect_ns(c->what, "packets", choice.packets_ns, c->choice.packets_ns);
		if (choice.mechanism != c->choice.mechanism)
			fail_msg("%s: the other mechanism", c->what);
	}
}

/* With both alike, copies: packing at the rate that makes it so. */
static void test_mechanism_alike(void **state)
{
	struct mechanism_message m = {USUAL, .bytes = 1024000, .nr_pieces = 2, .element_bytes = 4,
				      .density = 1};
	struct mechanism_choice choice;

	(void)state;
	m.pack_bytes_per_s = m.unpack_bytes_per_s = 1e30;
	m.launch_ns = 50;
	choice = mechanism_choose(&m);
	assert_true(choice.copies_ns == choice.packets_ns);
	assert_int_equal(choice.mechanism, MECHANISM_COPIES);
	m.nr_pieces = 3;
	assert_int_equal(mechanism_choose(&m).mechanism, MECHANISM_PACKETS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_mechanism_table),
		cmocka_unit_test(test_mechanism_alike),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
