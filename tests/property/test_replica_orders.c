/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All sequences of up to five operations on a replicated range of two parts, of three devices: each
 * reads, writes or overwrites a part through its window, or writes it and publishes half of it,
 * which another device reads before the end, or writes it at the one copy, or reads the elements of
 * its list in it; the host writes it, a device gives its copies up, or gets another list. Each part
 * has a granule of its own, and they share one. What is read is what was written last; at the end
 * each device reads everything, and the host does.
 *
 * Sequences that differ by the names of devices and parts alone are one: both are named in the
 * order in which they come. Those that end with a read are shorter ones. What is not an operation
 * is drawn for each sequence: one of four ways to subscribe, one of as many to send lists, which
 * device has none at first, which one is subscribed, and who reads what is published.
 *
 * Nothing waits in between, so that everything is under way at once. Of sequences of four and five
 * a part is run, and under a sanitizer of those of three as well; with WEIR_TEST_LONG all are, in
 * several tests of which each has a part. WEIR_SEQUENCE=n runs sequence n alone and shows it.
 *
 * Timeout: 300
 * Long: yes
 * Long parts: 4
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
#define PART KIB(6)    /* a granule and a half */
#define BYTES (PARTS * PART)
#define BLOCK_GRANULES 4

enum op_kind {
	OP_READ,
	OP_GATHER,
	OP_WRITE,
	OP_OVERWRITE,
	OP_PUBLISH,
	OP_ONE,
	OP_HOST,
	OP_EVICT,
	OP_LIST,
	OP_KINDS
};

struct op {
	uint8_t kind, device, part;
};

/* What is drawn for a sequence. */
struct drawn {
	struct weir_replica_params params;
	uint32_t mechanism;  /* struct replicas has it: forced */
	uint32_t listless;   /* device; DEVICES: all have lists */
	uint32_t subscribed; /* device, where subscriptions are manual */
	uint32_t reader;     /* of what is published: so many devices on */
};

static struct test_space t;
static uint8_t *range;
static uint32_t seed[PARTS], last_seed;
static uint32_t list_first[DEVICES]; /* where each device's list begins, or is going to */
static bool has_list[DEVICES];
static struct drawn drawn;
static uint64_t nr_sequences, nr_run, one_in, one_in_full;
static uint64_t nr_parts, this_part; /* of all sequences */
static uint64_t alone;		     /* number of the one that is run; 0: all are */

static uint8_t *part_addr(const void *base, uint32_t part)
{
	return (uint8_t *)(uintptr_t)base + part * PART;
}

/* ------------------------------------------------------------------ operations */

static void use(uint32_t device, uint32_t part, enum weir_use_kind kind, bool one, uint32_t put)
{
	void *addr = part_addr(range, part);
	struct weir_use what;

	if (!one)
		assert_int_equal(weir_replica(t.space, addr, device, &addr), 0);
	what = use_of(addr, PART, kind);
	assert_int_equal(weir_begin(t.space, t.stream[device], &what, 1), 0);
	do_launch_as(&t, device, addr, PART, kind, kind == WEIR_OVERWRITE ? 0 : seed[part], put,
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

/* Half of a part is read by another device while the bracket that wrote it is open. */
static void publish_half(uint32_t device, uint32_t part, uint32_t put)
{
	uint64_t bytes = PART, half = bytes / 2;
	uint8_t *addr = part_addr(range, part), *window = window_of(device, addr);
	uint32_t next = (device + drawn.reader) % DEVICES;
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

static void give_list(uint32_t device, uint32_t first)
{
	uint32_t element[BYTES / 8], nr = 0;

	for (uint32_t w = first; w < BYTES / 8; w++)
		if ((w - first) % APART < RUN)
			element[nr++] = w;
	assert_int_equal(weir_subscribe_elements(t.space, range, element, nr, device), 0);
	list_first[device] = first;
	has_list[device] = true;
}

/* The elements of its list that a device has whole in a part; without one it is brought all. */
static void gather(uint32_t device, uint32_t part)
{
	uint8_t *addr = part_addr(range, part);
	uint8_t *window = window_of(device, range);
	struct weir_use what = use_of(part_addr(window, part), PART, WEIR_READ_ELEMENTS);

	assert_int_equal(weir_begin(t.space, t.stream[device], &what, 1), 0);
	for (uint32_t w = list_first[device]; w < BYTES / 8; w += APART) {
		uint8_t *at = range + 8ull * w;

		if (at >= addr && at + 8 * RUN <= addr + PART)
			do_launch_as(&t, device, window + 8ull * w, 8 * RUN, WEIR_READ, seed[part],
				     0, at);
	}
	assert_int_equal(weir_end(t.space, t.stream[device]), 0);
}

static void run_op(const struct op *op)
{
	static uint8_t buffer[PART];
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
		pattern_put(buffer, addr, PART, ++last_seed);
		assert_int_equal(weir_write(t.space, addr, buffer, PART), 0);
		seed[op->part] = last_seed;
		break;
	case OP_LIST:
		give_list(op->device, list_first[op->device] + 20);
		break;
	default:
		err = weir_unsubscribe(t.space, range, BYTES, op->device);
		assert_true(!err || err == -EBUSY);
	}
	do_check(&t);
}

/* ------------------------------------------------------------------ sequences */

static void draw(uint64_t number)
{
	uint64_t bits = hash_mix(number, LENGTH_MAX);

	drawn = (struct drawn){
		.params = {.subscription = (enum weir_subscription)(bits % 4), .element_bytes = 8},
		.mechanism = (uint32_t)(bits / 4 % (WEIR_REPLICA_MECHANISM_NR + 1)),
		.listless = (uint32_t)(bits / 16 % (DEVICES + 1)),
		.subscribed = (uint32_t)(bits / 64 % DEVICES),
		.reader = (uint32_t)(1 + bits / 256 % 2),
	};
}

/* A range that is written, with what was drawn. */
static void range_make(void)
{
	void *addr;

	assert_int_equal(weir_alloc(t.space, BYTES, NULL, &addr), 0);
	range = addr;
	do_write(&t, range, BYTES, ++last_seed);
	seed[0] = seed[1] = last_seed;
	assert_int_equal(weir_replicate(t.space, range, &drawn.params), 0);
	replicas_of(t.space)->forced = drawn.mechanism;
	replicas_of(t.space)->packet_bytes = replicas_of(t.space)->granule_bytes;
	for (uint32_t device = 0; device < DEVICES; device++) {
		has_list[device] = false;
		list_first[device] = device;
		if (device != drawn.listless)
			give_list(device, device);
	}
	if (drawn.params.subscription == WEIR_SUBSCRIBE_MANUAL)
		assert_int_equal(weir_subscribe(t.space, range, BYTES, drawn.subscribed), 0);
}

static void read_everything(void)
{
	const struct test_cell cells[PARTS] = {{.expect = seed[0]}, {.expect = seed[1]}};

	for (uint32_t device = 0; device < DEVICES; device++) {
		uint8_t *window = window_of(device, range);

		do_begin(&t, device, window, BYTES, WEIR_READ);
		do_launch_cells_as(&t, device, window, PART, cells, PARTS, WEIR_READ, range);
		do_end(&t, device);
	}
	for (uint32_t part = 0; part < PARTS; part++)
		do_read(&t, part_addr(range, part), PART, seed[part]);
}

static void show_sequence(const struct op *ops, uint32_t nr)
{
	print_message("sequence %llu: subscription %d, mechanism %u, no list %u, subscribed %u, "
		      "reader %u on\n",
		      (unsigned long long)nr_sequences, (int)drawn.params.subscription,
		      drawn.mechanism, drawn.listless, drawn.subscribed, drawn.reader);
	for (uint32_t i = 0; i < nr; i++)
		print_message("%u: kind %u, device %u, part %u\n", i, ops[i].kind, ops[i].device,
			      ops[i].part);
}

static void run_sequence(const struct op *ops, uint32_t nr)
{
	nr_run++;
	draw(nr_sequences);
	if (alone)
		show_sequence(ops, nr);
	range_make();
	for (uint32_t i = 0; i < nr; i++)
		run_op(&ops[i]);
	read_everything();
	assert_int_equal(weir_free(t.space, range, NULL), 0);
	assert_int_equal(weir_space_sync(t.space), 0);
	for (uint32_t device = 0; device < DEVICES; device++)
		assert_int_equal(weir_stream_sync(t.stream[device]), 0);
	if (!get_nr_wrong(&t))
		return;
	show_sequence(ops, nr);
	fail_msg("words are wrong");
}

static bool is_to_run(uint32_t nr)
{
	if (alone)
		return nr_sequences == alone;
	if (nr_sequences % nr_parts != this_part)
		return false;
	return nr < FULL_LENGTH ||
	       hash_mix(nr, nr_sequences) % (nr == FULL_LENGTH ? one_in_full : one_in) == 0;
}

/* All that go on as ops[0..nr) begin. Devices and parts are named in the order in which they
 * come. */
static void go_on(struct op *ops, uint32_t nr, uint32_t nr_devices, uint32_t nr_named)
{
	if (nr && ops[nr - 1].kind != OP_READ) {
		nr_sequences++;
		if (is_to_run(nr))
			run_sequence(ops, nr);
	}
	if (nr == LENGTH_MAX)
		return;
	for (uint32_t kind = 0; kind < OP_KINDS; kind++) {
		bool of_device = kind != OP_HOST, of_part = kind != OP_EVICT && kind != OP_LIST;
		uint32_t d_end = of_device ? MIN(nr_devices + 1, DEVICES) : 1;
		uint32_t p_end = of_part ? MIN(nr_named + 1, PARTS) : 1;

		for (uint32_t d = 0; d < d_end; d++)
			for (uint32_t part = 0; part < p_end; part++) {
				ops[nr] = (struct op){(uint8_t)kind, (uint8_t)d, (uint8_t)part};
				go_on(ops, nr + 1, nr_devices + (of_device && d == nr_devices),
				      nr_named + (of_part && part == nr_named));
			}
	}
}

static void test_replica_orders_are_kept(void **state)
{
	static const struct test_amount full = {1, 4, 1}, some = {30000, 100000, 1};
	static const struct test_amount all = {1, 1, 1}, first = {0, 0, 0};
	static const uint32_t devices[TEST_STREAMS] = {0, 1, 2};
	struct weir_space_config config = {.devices = 7, .mode = WEIR_PLANNED};
	struct op ops[LENGTH_MAX];

	(void)state;
	one_in_full = test_amount("WEIR_ONE_IN_FULL", full);
	one_in = test_amount("WEIR_ONE_IN", some);
	nr_parts = test_amount("WEIR_TEST_PARTS", all);
	this_part = test_amount("WEIR_TEST_PART", first);
	alone = test_amount("WEIR_SEQUENCE", first);
	test_machine_open_gpus(&t, WEIR_DATA_REAL, DEVICES, devices);
	config.block_bytes = BLOCK_GRANULES * t.desc.vmm.granularity_bytes;
	for (uint32_t memory = 0; memory <= DEVICES; memory++)
		config.budget_bytes[memory] = 32 * config.block_bytes;
	assert_int_equal(test_space_create_config(&t, &config), 0);
	t.space->residency->recording = false; /* plans of the one copy: they take the time */
	go_on(ops, 0, 0, 0);
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
