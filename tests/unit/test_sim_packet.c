/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packets on the simulator: what they take, alone and beside kernels, with bytes and without; what
 * traps them, and what they must not be trapped by.
 */
#include <errno.h>
#include <stdlib.h>

#include "tests/support/log_watch.h"
#include "tests/unit/test_sim_machine.h"

#define UNIT KIB(64)
#define NR 3u
#define ELEMENT 4u
#define STEP 8u /* a sector */
#define LISTED (uint32_t)(UNIT / ELEMENT / STEP)

struct fixture {
	struct backend *b;
	stream_id_t compute, lane, other;
	struct backend_chunk chunk[NR]; /* of the first GPU, mapped there at va in order */
	struct backend_chunk packet, index;
	uint8_t *va;
	struct log_watch errors;
};

static struct fixture *fixture_create(enum weir_data data)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct weir_machine_desc desc;

	assert_non_null(f);
	test_machine(&desc);
	assert_int_equal(sim_create(&desc, data, &f->b), 0);
	assert_int_equal(f->b->ops->stream_create(f->b, 0, BACKEND_COMPUTE, &f->compute), 0);
	assert_int_equal(f->b->ops->stream_create(f->b, 0, BACKEND_COPY_OUT, &f->lane), 0);
	assert_int_equal(f->b->ops->stream_create(f->b, 0, BACKEND_COMPUTE, &f->other), 0);
	assert_int_equal(f->b->ops->va_reserve(f->b, NR * UNIT, UNIT, (void **)&f->va), 0);
	assert_int_equal(f->b->ops->chunk_create(f->b, GPU0, UNIT, 1, &f->packet), 0);
	assert_int_equal(f->b->ops->chunk_create(f->b, GPU0, UNIT, 1, &f->index), 0);
	for (uint32_t i = 0; i < NR; i++) {
		assert_int_equal(f->b->ops->chunk_create(f->b, GPU0, UNIT, 0, &f->chunk[i]), 0);
		assert_int_equal(
			f->b->ops->map(f->b, f->va + i * UNIT, &f->chunk[i], BACKEND_PROT_WRITE, 1),
			0);
	}
	assert_int_equal(f->b->ops->access_guard(f->b, f->va, true), 0);
	for (uint32_t i = 0; i < LISTED && data == WEIR_DATA_REAL; i++)
		((uint32_t *)f->index.alias)[i] = i * STEP;
	log_watch(&f->errors, WEIR_LOG_ERROR);
	return f;
}

static int setup(void **state)
{
	*state = fixture_create(WEIR_DATA_REAL);
	return 0;
}

static int setup_phantom(void **state)
{
	*state = fixture_create(WEIR_DATA_PHANTOM);
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;
	struct backend *b = f->b;

	for (uint32_t i = 0; i < NR; i++) {
		(void)!b->ops->unmap(b, f->va + i * UNIT);
		b->ops->chunk_destroy(b, &f->chunk[i]);
	}
	b->ops->chunk_destroy(b, &f->packet);
	b->ops->chunk_destroy(b, &f->index);
	b->ops->va_release(b, f->va, NR * UNIT);
	b->ops->stream_destroy(b, f->compute);
	b->ops->stream_destroy(b, f->lane);
	b->ops->stream_destroy(b, f->other);
	assert_int_equal(sim_leaks(b), 0);
	b->ops->destroy(b);
	weir_log_set(NULL, NULL);
	assert_int_equal(f->errors.nr, 0);
	free(f);
	return 0;
}

/* One of each STEP elements of a block. */
static struct backend_packet packet_of_block(const struct fixture *f, uint32_t block, bool unpack)
{
	return (struct backend_packet){.elements = f->va + block * UNIT,
				       .packet = f->packet.alias,
				       .index = f->index.alias,
				       .nr = LISTED,
				       .element_bytes = ELEMENT,
				       .last = (LISTED - 1) * STEP,
				       .sector_bytes = (uint64_t)LISTED * 32,
				       .unpack = unpack};
}

static void queue(struct fixture *f, stream_id_t stream, struct backend_packet packet)
{
	assert_int_equal(f->b->ops->packet(f->b, stream, &packet), 0);
}

static fence_t record(struct fixture *f, stream_id_t stream)
{
	fence_t fence;

	assert_int_equal(f->b->ops->fence_record(f->b, stream, &fence), 0);
	return fence;
}

static int sync_stream(struct fixture *f, stream_id_t stream)
{
	return f->b->ops->fence_wait(f->b, record(f, stream));
}

static void expect_trap(struct fixture *f, stream_id_t stream, const char *part)
{
	assert_int_equal(sync_stream(f, stream), -WEIR_ETRAP);
	assert_int_equal(f->errors.nr, 1);
	if (!strstr(f->errors.last, part))
		fail_msg("\"%s\" does not say \"%s\"", f->errors.last, part);
	f->errors.nr = 0;
}

/* ------------------------------------------------------------------ time */

/* Nanoseconds that a packet has the device, between two marks of its stream. */
static uint64_t time_of(struct fixture *f, struct backend_packet packet)
{
	uint64_t before[BACKEND_TIME_NR], after[BACKEND_TIME_NR], in_place = BACKEND_TIME_IN_PLACE;

	assert_int_equal(f->b->observe->device_times(f->b, 0, before), 0);
	queue(f, f->lane, packet);
	assert_int_equal(sync_stream(f, f->lane), 0);
	assert_int_equal(f->b->observe->device_times(f->b, 0, after), 0);
	assert_int_equal(after[in_place], before[in_place]);
	return after[BACKEND_TIME_COMPUTE] - before[BACKEND_TIME_COMPUTE];
}

/* List, packet and sectors, twice where they are written in part, through 100 bytes a nanosecond;
 * launch_ns at least. */
static void test_time(void **state)
{
	struct fixture *f = *state;
	struct backend_packet packet = packet_of_block(f, 0, false), few = packet;

	assert_int_equal(time_of(f, packet), (LISTED * (4 + 4 + 32) + 99) / 100);
	packet.unpack = true;
	assert_int_equal(time_of(f, packet), (LISTED * (4 + 4 + 64) + 99) / 100);
	/* Whole sectors are not read. */
	packet.element_bytes = 16;
	packet.sector_bytes = (uint64_t)LISTED * 16;
	packet.last = LISTED - 1;
	for (uint32_t i = 0; i < LISTED && f->b->data == WEIR_DATA_REAL; i++)
		((uint32_t *)f->index.alias)[i] = i;
	assert_int_equal(time_of(f, packet), (LISTED * (4 + 16 + 16) + 99) / 100);
	few.nr = 1;
	few.sector_bytes = 32;
	few.index += 4;
	few.first = few.last = 4;
	assert_int_equal(time_of(f, few), 500);
}

/* It has the device to itself as a kernel has. */
static void test_takes_turns_with_kernels(void **state)
{
	struct fixture *f = *state;
	const struct weir_use use = use_of(f->va + UNIT, UNIT, WEIR_READ);
	fence_t kernel, packet;

	queue(f, f->lane, packet_of_block(f, 0, false));
	assert_int_equal(f->b->ops->access_begin(f->b, f->compute, f, &use, 1), 0);
	assert_int_equal(launch_touch(f->b, f->compute, (struct touch){0}, &use, 1), 0);
	f->b->ops->access_end(f->b, f->compute, f);
	packet = record(f, f->lane);
	kernel = record(f, f->compute);
	assert_int_equal(f->b->ops->fence_wait(f->b, kernel), 0);
	assert_int_equal(f->b->ops->fence_wait(f->b, packet), 0);
	assert_int_equal(f->b->observe->fence_time_ns(f->b, kernel) -
				 f->b->observe->fence_time_ns(f->b, packet),
			 (UNIT + 99) / 100);
}

/* Elements in the host's memory cross the link, however much of the span is unmapped. */
static void test_in_place(void **state)
{
	struct fixture *f = *state;
	struct backend_packet packet = packet_of_block(f, 0, false);
	uint64_t bytes[BACKEND_DIRECTION_NR];
	struct backend_chunk far[NR];

	for (uint32_t i = 0; i < NR; i++) {
		assert_int_equal(f->b->ops->unmap(f->b, f->va + i * UNIT), 0);
		assert_int_equal(f->b->ops->chunk_create(f->b, HOST, UNIT, 0, &far[i]), 0);
		if (i != 1)
			assert_int_equal(f->b->ops->map(f->b, f->va + i * UNIT, &far[i],
							BACKEND_PROT_READ, 1),
					 0);
	}
	queue(f, f->lane, packet);
	packet.nr = 2;
	packet.last = 2 * UNIT / ELEMENT;
	packet.sector_bytes = 64;
	assert_int_equal(sync_stream(f, f->lane), 0);
	if (f->b->data == WEIR_DATA_REAL)
		((uint32_t *)f->index.alias)[1] = packet.last;
	queue(f, f->lane, packet);
	assert_int_equal(sync_stream(f, f->lane), 0);
	f->b->observe->inplace_bytes(f->b, 0, HOST, bytes);
	assert_int_equal(bytes[BACKEND_TO_DEVICE], LISTED * 32 + 64);
	assert_int_equal(bytes[BACKEND_TO_HOST], 0);
	for (uint32_t i = 0; i < NR; i++) {
		if (i != 1)
			assert_int_equal(f->b->ops->unmap(f->b, f->va + i * UNIT), 0);
		f->b->ops->chunk_destroy(f->b, &far[i]);
		assert_int_equal(
			f->b->ops->map(f->b, f->va + i * UNIT, &f->chunk[i], BACKEND_PROT_WRITE, 1),
			0);
	}
}

/* ------------------------------------------------------------------ what it may not touch */

static void test_list_is_wrong(void **state)
{
	struct fixture *f = *state;
	uint32_t *index = f->index.alias;
	static const struct {
		uint32_t at, value;
	} wrong[] = {{0, 1},
		     {5, 4 * STEP},
		     {7, LISTED * STEP},
		     {LISTED - 1, LISTED * STEP},
		     {LISTED - 1, (LISTED - 1) * STEP - 1}};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		uint32_t right = index[wrong[i].at];

		index[wrong[i].at] = wrong[i].value;
		queue(f, f->lane, packet_of_block(f, 0, i % 2));
		expect_trap(f, f->lane, "its list does not ascend");
		index[wrong[i].at] = right;
		queue(f, f->lane, packet_of_block(f, 0, i % 2));
		assert_int_equal(sync_stream(f, f->lane), 0);
	}
}

/* What a list names is mapped, for the device, and to be written. */
static void test_elements_not_there(void **state)
{
	struct fixture *f = *state;
	struct backend_packet packet = packet_of_block(f, 0, false), one = packet;
	uint32_t *index = f->index.alias;

	/* Two elements, a block apart; between them lies what it may not touch. */
	index[0] = 0;
	index[1] = 2 * UNIT / ELEMENT;
	packet.nr = 2;
	packet.last = index[1];
	assert_int_equal(f->b->ops->unmap(f->b, f->va + UNIT), 0);
	queue(f, f->lane, packet);
	assert_int_equal(sync_stream(f, f->lane), 0);
	assert_int_equal(f->b->ops->set_access(f->b, f->va + 2 * UNIT, BACKEND_PROT_READ, 1), 0);
	queue(f, f->lane, packet);
	assert_int_equal(sync_stream(f, f->lane), 0);
	packet.unpack = true;
	queue(f, f->lane, packet);
	expect_trap(f, f->lane, "read-only");
	packet.unpack = false;
	assert_int_equal(f->b->ops->set_access(f->b, f->va + 2 * UNIT, BACKEND_PROT_WRITE, 2), 0);
	queue(f, f->lane, packet);
	expect_trap(f, f->lane, "not mapped for this device");
	one.elements = f->va + UNIT;
	one.nr = 1;
	one.last = 0;
	queue(f, f->lane, one);
	expect_trap(f, f->lane, "not mapped for this device");
	assert_int_equal(f->b->ops->map(f->b, f->va + UNIT, &f->chunk[1], BACKEND_PROT_WRITE, 1),
			 0);
}

/* Aliases that the device does not have, and what ends before the packet does. */
static void test_memory_refused(void **state)
{
	struct fixture *f = *state;
	struct backend_packet packet = packet_of_block(f, 0, false);
	struct backend_chunk other;
	static uint32_t mine[4];

	assert_int_equal(f->b->ops->chunk_create(f->b, GPU0, UNIT, 2, &other), 0);
	packet.packet = other.alias;
	assert_int_equal(f->b->ops->packet(f->b, f->lane, &packet), -EACCES);
	assert_int_equal(f->errors.nr, 1);
	f->errors.nr = 0;
	f->b->ops->chunk_destroy(f->b, &other);
	packet.packet = (char *)f->packet.alias + UNIT - 16;
	assert_int_equal(f->b->ops->packet(f->b, f->lane, &packet), -EINVAL);
	packet = packet_of_block(f, NR - 1, false);
	packet.last = UNIT / ELEMENT;
	assert_int_equal(f->b->ops->packet(f->b, f->lane, &packet), -EINVAL);
	packet = packet_of_block(f, 0, false);
	packet.nr = 1;
	packet.last = 0;
	packet.index = (uint32_t *)(((uintptr_t)mine + 15) / 16 * 16);
	assert_int_equal(f->b->ops->packet(f->b, f->lane, &packet), -EINVAL);
}

/* ------------------------------------------------------------------ order */

/* A launch that lasts, in a bracket of its stream that ends, or stays open. */
static void launch_long(struct fixture *f, struct weir_use use, bool ends)
{
	use.read_bytes = MIB(64);
	assert_int_equal(f->b->ops->access_begin(f->b, f->compute, f, &use, 1), 0);
	assert_int_equal(launch_touch(f->b, f->compute, (struct touch){0}, &use, 1), 0);
	if (ends)
		f->b->ops->access_end(f->b, f->compute, f);
}

/* With a launch of a bracket that has ended: either may come first. */
static void test_beside_an_ended_bracket(void **state)
{
	struct fixture *f = *state;
	const struct weir_use writes = use_of(f->va, UNIT, WEIR_WRITE);

	launch_long(f, writes, true);
	queue(f, f->lane, packet_of_block(f, 0, false));
	expect_trap(f, f->lane, "kernel 'pack'");
	assert_int_equal(sync_stream(f, f->compute), 0);
	launch_long(f, use_of(f->va, UNIT, WEIR_READ), true);
	queue(f, f->lane, packet_of_block(f, 0, true));
	expect_trap(f, f->lane, "a kernel that is not done uses it");
	/* Both read; another block; and one that waits. */
	launch_long(f, use_of(f->va, UNIT, WEIR_READ), true);
	queue(f, f->lane, packet_of_block(f, 0, false));
	queue(f, f->lane, packet_of_block(f, 1, true));
	assert_int_equal(sync_stream(f, f->lane), 0);
	launch_long(f, writes, true);
	assert_int_equal(f->b->ops->stream_wait(f->b, f->lane, record(f, f->compute)), 0);
	queue(f, f->lane, packet_of_block(f, 0, false));
	assert_int_equal(sync_stream(f, f->lane), 0);
	/* And a launch that waits for one, which waits itself. */
	launch_long(f, use_of(f->va + UNIT, UNIT, WEIR_READ), true);
	assert_int_equal(f->b->ops->stream_wait(f->b, f->lane, record(f, f->compute)), 0);
	queue(f, f->lane, packet_of_block(f, 0, false));
	assert_int_equal(f->b->ops->stream_wait(f->b, f->other, record(f, f->lane)), 0);
	assert_int_equal(f->b->ops->access_begin(f->b, f->other, f, &writes, 1), 0);
	assert_int_equal(launch_touch(f->b, f->other, (struct touch){0}, &writes, 1), 0);
	f->b->ops->access_end(f->b, f->other, f);
	assert_int_equal(sync_stream(f, f->other), 0);
	assert_int_equal(sync_stream(f, f->lane), 0);
	/* The launch is the one that comes too early. */
	launch_long(f, use_of(f->va + UNIT, UNIT, WEIR_READ), true);
	queue(f, f->lane, packet_of_block(f, 0, false));
	assert_int_equal(f->b->ops->access_begin(f->b, f->other, f, &writes, 1), 0);
	assert_int_equal(launch_touch(f->b, f->other, (struct touch){0}, &writes, 1), 0);
	f->b->ops->access_end(f->b, f->other, f);
	expect_trap(f, f->other, "a packet that is not done uses it");
	assert_int_equal(sync_stream(f, f->lane), 0);
	assert_int_equal(sync_stream(f, f->compute), 0);
}

/* With those of one that is open it has no order, and both run. */
static void test_beside_an_open_bracket(void **state)
{
	struct fixture *f = *state;
	const struct weir_use writes = use_of(f->va, UNIT, WEIR_WRITE);

	launch_long(f, writes, false);
	queue(f, f->lane, packet_of_block(f, 0, true));
	assert_int_equal(launch_touch(f->b, f->compute, (struct touch){0}, &writes, 1), 0);
	assert_int_equal(sync_stream(f, f->lane), 0);
	f->b->ops->access_end(f->b, f->compute, f);
	assert_int_equal(sync_stream(f, f->compute), 0);
}

/* With copies, by whichever name each knows the memory, and with other packets. */
static void test_beside_messages(void **state)
{
	struct fixture *f = *state;
	struct backend_packet by_alias = packet_of_block(f, 0, true);
	const struct backend_copy into = {f->chunk[0].alias, f->chunk[2].alias, UNIT};
	const struct backend_copy out = {f->chunk[2].alias, f->packet.alias, UNIT};

	by_alias.elements = f->chunk[0].alias;
	assert_int_equal(f->b->ops->copy_beside(f->b, f->other, &into, 1), 0);
	queue(f, f->lane, packet_of_block(f, 0, true));
	expect_trap(f, f->lane, "a copy that is not done writes it");
	assert_int_equal(f->b->ops->copy_beside(f->b, f->other, &into, 1), 0);
	queue(f, f->lane, by_alias);
	expect_trap(f, f->lane, "a copy that is not done writes it");
	assert_int_equal(sync_stream(f, f->other), 0);
	/* A packet that waits for the device, and a copy out of what it packs into. */
	launch_long(f, use_of(f->va + UNIT, UNIT, WEIR_READ), true);
	queue(f, f->lane, packet_of_block(f, 0, false));
	assert_int_equal(f->b->ops->copy_beside(f->b, f->other, &out, 1), 0);
	expect_trap(f, f->other, "it begins while a packet on stream");
	assert_int_equal(sync_stream(f, f->lane), 0);
	/* Another packet out of the same block into the same packet. */
	launch_long(f, use_of(f->va + UNIT, UNIT, WEIR_READ), true);
	queue(f, f->lane, packet_of_block(f, 0, false));
	queue(f, f->other, packet_of_block(f, 0, false));
	expect_trap(f, f->other, "a packet that is not done uses it");
	assert_int_equal(sync_stream(f, f->lane), 0);
	/* In order all is well. */
	queue(f, f->lane, packet_of_block(f, 0, false));
	assert_int_equal(f->b->ops->stream_wait(f->b, f->other, record(f, f->lane)), 0);
	assert_int_equal(f->b->ops->copy_beside(f->b, f->other, &out, 1), 0);
	assert_int_equal(f->b->ops->stream_wait(f->b, f->lane, record(f, f->other)), 0);
	queue(f, f->lane, by_alias);
	assert_int_equal(sync_stream(f, f->lane), 0);
}

/* Its elements' mapping is taken away while it runs. */
static void test_unmapped_under_it(void **state)
{
	struct fixture *f = *state;

	queue(f, f->lane, packet_of_block(f, 0, false));
	assert_int_equal(f->b->ops->unmap(f->b, f->va), 0);
	expect_trap(f, f->lane, "under the running kernel");
	assert_int_equal(f->b->ops->map(f->b, f->va, &f->chunk[0], BACKEND_PROT_WRITE, 1), 0);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
#define PHANTOM(test)                                                   \
	{                                                               \
#test " (phantom)", test, setup_phantom, teardown, NULL \
	}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_time),
		PHANTOM(test_time),
		CASE(test_takes_turns_with_kernels),
		CASE(test_in_place),
		PHANTOM(test_in_place),
		CASE(test_list_is_wrong),
		CASE(test_elements_not_there),
		CASE(test_memory_refused),
		CASE(test_beside_an_ended_bracket),
		PHANTOM(test_beside_an_ended_bracket),
		CASE(test_beside_an_open_bracket),
		CASE(test_beside_messages),
		PHANTOM(test_beside_messages),
		CASE(test_unmapped_under_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
