/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packets of lists that meet what is still under way: chunks, and lists in a device's memory, are
 * used again only when that is done.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "src/replica/parcel.h"
#include "tests/unit/test_space_late.h"

#define ELEMENT 8
#define RUN_WORDS 512u
#define RUN_BYTES ((uint64_t)RUN_WORDS * ELEMENT)
#define NR_RUNS 8u
#define BYTES (NR_RUNS * 2 * RUN_BYTES) /* every other run is in the list */
#define NR (NR_RUNS * RUN_WORDS)

struct fixture {
	struct test_space t; /* stream n is of device n */
	uint8_t *a, *window[3];
};

/* Three devices, and a range that the last one is subscribed to every other run of. packet_bytes:
 * of a packet, and of a part of the list, at most; 0: as usual. */
static void open_fixture(struct fixture *f, uint64_t packet_bytes)
{
	static const uint32_t devices[TEST_STREAMS] = {0, 1, 2, 0};
	const struct weir_replica_params params = {.element_bytes = ELEMENT};
	struct weir_space_config config = {
		.devices = 7, .block_bytes = BLOCK, .mode = WEIR_PLANNED};
	static uint32_t element[NR];
	void *window;

	for (uint32_t i = 0; i < NR; i++)
		element[i] = i / RUN_WORDS * 2 * RUN_WORDS + i % RUN_WORDS;
	test_machine_open_gpus(&f->t, WEIR_DATA_REAL, 3, devices);
	for (uint32_t memory = 0; memory < f->t.desc.nr_memories; memory++)
		config.budget_bytes[memory] = 32 * BLOCK;
	assert_int_equal(test_space_create_config(&f->t, &config), 0);
	f->a = do_alloc(&f->t, BYTES, 0);
	do_write(&f->t, f->a, BYTES, 1);
	assert_int_equal(weir_replicate(f->t.space, f->a, &params), 0);
	replicas_of(f->t.space)->forced = WEIR_SENT_PACKETS + 1;
	if (packet_bytes)
		replicas_of(f->t.space)->packet_bytes = packet_bytes;
	for (uint32_t device = 0; device < 3; device++) {
		assert_int_equal(weir_replica(f->t.space, f->a, device, &window), 0);
		f->window[device] = window;
	}
	assert_int_equal(weir_subscribe_elements(f->t.space, f->a, element, NR, 2), 0);
}

static void close_fixture(struct fixture *f)
{
	struct weir_replica_stats stats;

	do_sync(&f->t);
	weir_replica_query(f->t.space, &stats);
	assert_int_equal(stats.nr_sent[WEIR_SENT_RUNS] + stats.nr_sent[WEIR_SENT_WHOLE], 0);
	test_space_close(&f->t);
}

static void overwrite(struct fixture *f, uint32_t device, uint64_t offset, uint64_t bytes,
		      uint32_t seed, uint64_t spin_ns)
{
	do_begin(&f->t, device, f->window[device] + offset, bytes, WEIR_OVERWRITE);
	if (spin_ns)
		do_spin(&f->t, device, spin_ns);
	do_launch_as(&f->t, device, f->window[device] + offset, bytes, WEIR_OVERWRITE, 0, seed,
		     f->a + offset);
	do_end(&f->t, device);
}

/* Device 2 reads the elements of a part, long after its bracket has ended for the program. */
static void gather_late(struct fixture *f, uint64_t bytes, uint32_t seed)
{
	do_begin(&f->t, 2, f->window[2], bytes, WEIR_READ_ELEMENTS);
	do_spin(&f->t, 2, SPIN_NS);
	for (uint64_t at = 0; at < bytes; at += 2 * RUN_BYTES)
		do_launch_as(&f->t, 2, f->window[2] + at, RUN_BYTES, WEIR_READ, seed, 0, f->a + at);
	do_end(&f->t, 2);
}

/* Several packets of one message: none takes the place of one that is not unpacked. */
static void test_late_packets_of_a_message(void **state)
{
	struct fixture f;

	(void)state;
	open_fixture(&f, RUN_BYTES);
	for (uint32_t seed = 2; seed < 5; seed++) {
		overwrite(&f, 0, 0, BYTES, seed, 0);
		gather_late(&f, BYTES, seed);
	}
	close_fixture(&f);
}

/* Packets that begin anywhere in the list end where its part does that a device has. */
static void test_late_parts_of_a_list(void **state)
{
	const uint64_t at = 2 * RUN_BYTES + 100 * ELEMENT; /* a packet from there on is too long */
	struct fixture f;

	(void)state;
	open_fixture(&f, RUN_BYTES);
	for (uint32_t seed = 2; seed < 5; seed++) {
		overwrite(&f, 0, at, BYTES - at, seed, 0);
		overwrite(&f, 0, 0, at, seed, 0);
		gather_late(&f, BYTES, seed);
	}
	close_fixture(&f);
}

/* A message that is larger than the one before it, which has not been unpacked. */
static void test_late_packets_grow(void **state)
{
	struct fixture f;

	(void)state;
	open_fixture(&f, 0);
	overwrite(&f, 0, 0, BYTES, 2, SPIN_NS);
	do_sync(&f.t);
	pthread_mutex_lock(&f.t.space->lock);
	while (packets_evict(f.t.space, 0) || packets_evict(f.t.space, 2))
		;
	pthread_mutex_unlock(&f.t.space->lock);
	gather_late(&f, BYTES, 2);
	for (uint32_t seed = 3; seed < 6; seed++) {
		overwrite(&f, 0, 0, 2 * RUN_BYTES, seed, 0);
		overwrite(&f, 0, 2 * RUN_BYTES, BYTES - 2 * RUN_BYTES, seed, 0);
		gather_late(&f, BYTES, seed);
	}
	close_fixture(&f);
}

/* Two devices send by a list that the receiver is sent itself by the first message, which waits. */
static void test_late_list(void **state)
{
	struct fixture f;

	(void)state;
	open_fixture(&f, 0);
	overwrite(&f, 0, 0, BYTES / 2, 2, SPIN_NS);
	overwrite(&f, 1, BYTES / 2, BYTES / 2, 2, 0);
	gather_late(&f, BYTES, 2);
	close_fixture(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_late_packets_of_a_message),
		cmocka_unit_test(test_late_parts_of_a_list),
		cmocka_unit_test(test_late_packets_grow),
		cmocka_unit_test(test_late_list),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
