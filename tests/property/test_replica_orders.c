/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All sequences of up to five operations on a replicated range of two parts, of three devices: each
 * reads, writes or overwrites a part through its window, or writes it and publishes half of it,
 * which the next device reads before the end, or writes it at the one copy, or reads the elements
 * of its list in it; the host writes it, a device gives its copies up, or gets another list. The
 * parts share a granule. What is read is what was written last; at the end each device reads
 * everything, and the host does. Sequences that differ by the names of devices alone are one, and
 * those that end with a read are shorter ones.
 *
 * Nothing waits in between, so that everything is under way at once. Ranges are subscribed to in
 * one of four ways, and lists are sent in one of as many. Of sequences of four and five a part is
 * run, more of them with WEIR_TEST_LONG; of those of three every second one, under a sanitizer
 * one in ten, and all with WEIR_TEST_LONG.
 *
 * Timeout: 300
 * Long: yes
 */
#include <errno.h>
#include <stdlib.h>

#include "src/base/hash.h"
#include "src/residency/residency.h"
#include "tests/support/amount.h"
#include "tests/support/space.h"
#include "src/replica/replica.h"

#define DEVICES 3u
#define PARTS 2u
#define LENGTH_MAX 5u
#define FULL_LENGTH 3u /* of it one in one_in_full is run; of the longer ones one in one_in */
#define BYTES KIB(8)   /* two granules */
#define BORDER KIB(6)  /* of the parts */

enum op_kind {
	OP_READ,
	OP_GATHER,
	OP_WRITE,
	OP_OVERWRITE,
	OP_PUBLISH,
	OP_ONE,
	OP_HOST,
	OP_OTHER,
	OP_KINDS
};

/* What OP_OTHER does, by its part. */
enum { OTHER_EVICT, OTHER_LIST };

struct op {
	uint8_t kind, device, part;
};

static struct test_space t;
static uint8_t *range;
static uint32_t seed[PARTS], last_seed;
static uint32_t list_first[DEVICES]; /* where each device's list begins */
static uint64_t nr_sequences, nr_run, one_in, one_in_full;

static uint8_t *part_addr(const void *base, uint32_t part)
{
	return (uint8_t *)(uintptr_t)base + part * BORDER;
}

static uint64_t part_bytes(uint32_t part)
{
	return part ? BYTES - BORDER : BORDER;
}

/* ------------------------------------------------------------------ operations */

static void use(uint32_t device, uint32_t part, enum weir_use_kind kind, bool one, uint32_t put)
{
	uint64_t bytes = part_bytes(part);
	void *addr = part_addr(range, part);
	struct weir_use what;

	if (!one)
		assert_int_equal(weir_replica(t.space, addr, device, &addr), 0);
	what = use_of(addr, bytes, kind);
	assert_int_equal(weir_begin(t.space, t.stream[device], &what, 1), 0);
	do_launch_as(&t, device, addr, bytes, kind, kind == WEIR_OVERWRITE ? 0 : seed[part], put,
		     part_addr(range, part));
	assert_int_equal(weir_end(t.space, t.stream[device]), 0);
	seed[part] = put ? put : seed[part];
}

static uint8_t *window_of(uint32_t device, uint8_t *addr)
{
	void *window;

	assert_int_equal(weir_replica(t.space, addr, device, &window), 0);
	return window;
}

/* Half of a part is read by the next device while the bracket that wrote it is open. */
static void publish_half(uint32_t device, uint32_t part, uint32_t put)
{
	uint64_t bytes = part_bytes(part), half = bytes / 2;
	uint8_t *addr = part_addr(range, part), *window = window_of(device, addr);
	uint32_t next = (device + 1) % DEVICES;
	uint8_t *other = window_of(next, addr);

	do_begin(&t, device, window, bytes, WEIR_WRITE);
	do_launch_as(&t, device, window, bytes, WEIR_WRITE, seed[part], put, addr);
	assert_int_equal(weir_publish(t.space, t.stream[device], window, half), 0);
	do_check(&t);
	do_begin(&t, next, other, half, WEIR_READ);
	do_launch_as(&t, next, other, half, WEIR_READ, put, 0, addr);
	do_end(&t, next);
	do_launch_as(&t, device, window + half, bytes - half, WEIR_WRITE, put, put, addr + half);
	do_end(&t, device);
	seed[part] = put;
}

#define APART 256u /* words from where one run of a list begins to where the next one does */
#define RUN 40u	   /* words of it */

/* The second device reads all that it reads. */
static bool has_list(uint32_t device)
{
	return device != 1;
}

static void give_list(uint32_t device, uint32_t first)
{
	uint32_t element[BYTES / 8], nr = 0;

	for (uint32_t w = first; w < BYTES / 8; w++)
		if ((w - first) % APART < RUN)
			element[nr++] = w;
	assert_int_equal(weir_subscribe_elements(t.space, range, element, nr, device), 0);
	list_first[device] = first;
}

/* The elements of its list that a device has whole in a part. */
static void gather(uint32_t device, uint32_t part)
{
	uint64_t bytes = part_bytes(part);
	uint8_t *addr = part_addr(range, part);
	uint8_t *window = window_of(device, range);
	struct weir_use what = use_of(part_addr(window, part), bytes, WEIR_READ_ELEMENTS);

	assert_int_equal(weir_begin(t.space, t.stream[device], &what, 1), 0);
	for (uint32_t w = list_first[device]; w < BYTES / 8; w += APART) {
		uint8_t *at = range + 8ull * w;

		if (at >= addr && at + 8 * RUN <= addr + bytes)
			do_launch_as(&t, device, window + 8ull * w, 8 * RUN, WEIR_READ, seed[part],
				     0, at);
	}
	assert_int_equal(weir_end(t.space, t.stream[device]), 0);
}

static void run_op(const struct op *op)
{
	static uint8_t buffer[BYTES];
	uint8_t *addr = part_addr(range, op->part);
	int err;

	switch ((enum op_kind)op->kind) {
	case OP_READ:
		use(op->device, op->part, WEIR_READ, false, 0);
		break;
	case OP_GATHER:
		gather(op->device, op->part);
		break;
	case OP_WRITE:
		use(op->device, op->part, WEIR_WRITE, false, ++last_seed);
		break;
	case OP_OVERWRITE:
		use(op->device, op->part, WEIR_OVERWRITE, false, ++last_seed);
		break;
	case OP_PUBLISH:
		publish_half(op->device, op->part, ++last_seed);
		break;
	case OP_ONE:
		use(op->device, op->part, WEIR_WRITE, true, ++last_seed);
		break;
	case OP_HOST:
		pattern_put(buffer, addr, part_bytes(op->part), ++last_seed);
		assert_int_equal(weir_write(t.space, addr, buffer, part_bytes(op->part)), 0);
		seed[op->part] = last_seed;
		break;
	default:
		if (op->part == OTHER_LIST) {
			give_list(op->device, list_first[op->device] + 20);
			break;
		}
		err = weir_unsubscribe(t.space, range, BYTES, op->device);
		assert_true(!err || err == -EBUSY);
	}
	do_check(&t);
}

/* ------------------------------------------------------------------ sequences */

static void run_sequence(const struct op *ops, uint32_t nr)
{
	const struct weir_replica_params params = {
		.subscription = (enum weir_subscription)(nr_sequences % 4), .element_bytes = 8};
	void *addr;

	nr_run++;
	assert_int_equal(weir_alloc(t.space, BYTES, NULL, &addr), 0);
	range = addr;
	do_write(&t, range, BYTES, ++last_seed);
	seed[0] = seed[1] = last_seed;
	assert_int_equal(weir_replicate(t.space, range, &params), 0);
	replicas_of(t.space)->forced =
		(uint32_t)(nr_sequences / 4 % (WEIR_REPLICA_MECHANISM_NR + 1));
	replicas_of(t.space)->packet_bytes = replicas_of(t.space)->granule_bytes;
	for (uint32_t device = 0; device < DEVICES; device++)
		if (has_list(device))
			give_list(device, device);
	if (params.subscription == WEIR_SUBSCRIBE_MANUAL)
		assert_int_equal(weir_subscribe(t.space, range, BYTES, DEVICES - 1), 0);
	for (uint32_t i = 0; i < nr; i++)
		run_op(&ops[i]);
	for (uint32_t device = 0; device < DEVICES; device++)
		for (uint32_t part = 0; part < PARTS; part++)
			use(device, part, WEIR_READ, false, 0);
	for (uint32_t part = 0; part < PARTS; part++)
		do_read(&t, part_addr(range, part), part_bytes(part), seed[part]);
	assert_int_equal(weir_free(t.space, range, NULL), 0);
	assert_int_equal(weir_space_sync(t.space), 0);
	for (uint32_t device = 0; device < DEVICES; device++)
		assert_int_equal(weir_stream_sync(t.stream[device]), 0);
	if (!get_nr_wrong(&t))
		return;
	for (uint32_t i = 0; i < nr; i++)
		print_message("%u: kind %u, device %u, part %u\n", i, ops[i].kind, ops[i].device,
			      ops[i].part);
	fail_msg("subscription %d, mechanism %u: words are wrong", (int)params.subscription,
		 replicas_of(t.space)->forced);
}

/* All that go on as ops[0..nr) begin. Devices are named in the order in which they come, but for
 * the last one, which may be the subscribed one. */
static void go_on(struct op *ops, uint32_t nr, uint32_t length, uint32_t nr_named)
{
	if (nr && ops[nr - 1].kind != OP_READ) {
		nr_sequences++;
		if (nr < FULL_LENGTH ||
		    hash_mix(nr, nr_sequences) % (nr == FULL_LENGTH ? one_in_full : one_in) == 0)
			run_sequence(ops, nr);
	}
	if (nr == length)
		return;
	for (uint32_t kind = 0; kind < OP_KINDS; kind++)
		for (uint32_t d = 0; d < (kind == OP_HOST ? 1 : DEVICES); d++)
			for (uint32_t part = 0; part < PARTS; part++) {
				/* Of 0 and 1 the first that comes is 0. */
				bool named = d == 2 || kind == OP_HOST || d < nr_named;

				if (!named && d != nr_named)
					continue;
				if (!has_list(d) &&
				    (kind == OP_GATHER || (kind == OP_OTHER && part == OTHER_LIST)))
					continue;
				ops[nr] = (struct op){(uint8_t)kind, (uint8_t)d, (uint8_t)part};
				go_on(ops, nr + 1, length, nr_named + !named);
			}
}

static void test_replica_orders_are_kept(void **state)
{
	static const struct test_amount full = {2, 10, 1}, some = {20000, 80000, 4};
	static const uint32_t devices[TEST_STREAMS] = {0, 1, 2};
	struct weir_space_config config = {.devices = 7, .mode = WEIR_PLANNED};
	struct op ops[LENGTH_MAX];

	(void)state;
	one_in_full = test_amount("WEIR_ONE_IN_FULL", full);
	one_in = test_amount("WEIR_ONE_IN", some);
	test_machine_open_gpus(&t, WEIR_DATA_REAL, DEVICES, devices);
	config.block_bytes = 2 * t.desc.vmm.granularity_bytes;
	for (uint32_t memory = 0; memory <= DEVICES; memory++)
		config.budget_bytes[memory] = 64 * config.block_bytes;
	assert_int_equal(test_space_create_config(&t, &config), 0);
	t.space->residency->recording = false; /* plans of the one copy: they take the time */
	go_on(ops, 0, LENGTH_MAX, 0);
	printf("%llu of %llu sequences\n", (unsigned long long)nr_run,
	       (unsigned long long)nr_sequences);
	test_space_close(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_replica_orders_are_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
