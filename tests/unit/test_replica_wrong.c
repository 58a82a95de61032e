/* SPDX-License-Identifier: Apache-2.0 */
/* Replicated ranges, used wrongly: a defined error each, and nothing changed. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/space.h"
#include "weir/replica.h"

#define BLOCK KIB(16)
#define BYTES (4 * BLOCK)
#define ONE TEST_OTHER /* a stream of device 1; 0 is one of device 0 */

struct fixture {
	struct test_space t;
	uint8_t *a, *window[2];
};

static int setup(void **state)
{
	static struct fixture f;
	void *window;

	test_space_open_devices(&f.t, BLOCK, 32, 32, 32);
	f.a = do_alloc(&f.t, BYTES, 0);
	do_write(&f.t, f.a, BYTES, 1);
	assert_int_equal(weir_replicate(f.t.space, f.a, NULL), 0);
	for (uint32_t device = 0; device < 2; device++) {
		assert_int_equal(weir_replica(f.t.space, f.a, device, &window), 0);
		f.window[device] = window;
	}
	*state = &f;
	return 0;
}

/* Everything is as it was. */
static int teardown(void **state)
{
	struct fixture *f = *state;

	for (uint32_t device = 0; device < 2; device++) {
		uint32_t stream = device ? ONE : 0;

		do_begin(&f->t, stream, f->window[device], BYTES, WEIR_READ);
		do_launch_as(&f->t, stream, f->window[device], BYTES, WEIR_READ, 1, 0, f->a);
		do_end(&f->t, stream);
	}
	do_read(&f->t, f->a, BYTES, 1);
	do_sync(&f->t);
	test_space_close(&f->t);
	return 0;
}

static int begin(struct fixture *f, uint32_t stream, void *addr, uint64_t bytes)
{
	struct weir_use use = use_of(addr, bytes, WEIR_READ);
	int err = weir_begin(f->t.space, f->t.stream[stream], &use, 1);

	do_check(&f->t);
	return err;
}

static void test_wrong_parts(void **state)
{
	struct fixture *f = *state;
	void *window = f;

	assert_int_equal(begin(f, 0, f->window[0] + BYTES - 8, 16), -EINVAL);
	assert_int_equal(begin(f, 0, f->window[0] + BYTES, 8), -EINVAL);
	assert_int_equal(begin(f, 0, f->window[0], 0), -EINVAL);
	assert_int_equal(weir_replica(f->t.space, f->a + BYTES, 0, &window), -EINVAL);
	assert_int_equal(weir_replica(f->t.space, &window, 0, &window), -EINVAL);
	assert_int_equal(weir_subscribe(f->t.space, f->a + BYTES - 8, 16, 0), -EINVAL);
	assert_int_equal(weir_subscribe(f->t.space, f->a, 0, 0), -EINVAL);
	assert_int_equal(weir_unsubscribe(f->t.space, f->a, UINT64_MAX, 0), -EINVAL);
	assert_int_equal(weir_unsubscribe(f->t.space, f, 8, 0), -EINVAL);
	assert_ptr_equal(window, f);
}

static void test_wrong_devices(void **state)
{
	struct fixture *f = *state;
	struct weir_replica_params params = {.devices = WEIR_MEM_DEVICE(2)};
	void *window = f, *b = do_alloc(&f->t, BLOCK, 0);

	assert_int_equal(weir_replicate(f->t.space, b, &params), -EINVAL);
	params.devices = WEIR_MEM_DEVICE(0) | WEIR_MEM_DEVICE(63);
	assert_int_equal(weir_replicate(f->t.space, b, &params), -EINVAL);
	assert_int_equal(weir_replica(f->t.space, f->a, 2, &window), -EINVAL);
	assert_int_equal(weir_replica(f->t.space, f->a, UINT32_MAX, &window), -EINVAL);
	assert_int_equal(weir_subscribe(f->t.space, f->a, 8, 2), -EINVAL);
	/* Another device's window, and one that a device was not to have. */
	assert_int_equal(begin(f, 0, f->window[1], 8), -EINVAL);
	assert_int_equal(begin(f, ONE, f->window[0], 8), -EINVAL);
	params.devices = WEIR_MEM_DEVICE(1);
	assert_int_equal(weir_replicate(f->t.space, b, &params), 0);
	assert_int_equal(weir_replica(f->t.space, b, 0, &window), -EINVAL);
	assert_ptr_equal(window, f);
	do_free(&f->t, b, 0);
}

static void test_wrong_ranges(void **state)
{
	struct fixture *f = *state;
	uint8_t *b = do_alloc(&f->t, BYTES, 0);
	struct weir_use use = use_of(f->window[0], 8, WEIR_READ);

	assert_int_equal(weir_replicate(f->t.space, f->a, NULL), -EEXIST);
	assert_int_equal(weir_replicate(f->t.space, f->a + BLOCK, NULL), -EINVAL);
	assert_int_equal(weir_replicate(f->t.space, f, NULL), -EINVAL);
	assert_int_not_equal(weir_replicate(f->t.space, f->window[0], NULL), 0);
	assert_int_equal(weir_unreplicate(f->t.space, b), -EINVAL);
	assert_int_equal(weir_unreplicate(f->t.space, f->a + BLOCK), -EINVAL);
	assert_int_equal(weir_unreplicate(f->t.space, f->window[0]), -EINVAL);
	assert_int_equal(weir_unreplicate(f->t.space, f), -EINVAL);
	assert_int_equal(weir_free(f->t.space, f->window[0], NULL), -EINVAL);
	assert_int_equal(weir_host_begin(f->t.space, &use, 1), -ENOTSUP);
	do_check(&f->t);
	do_free(&f->t, b, 0);
	assert_int_equal(weir_replicate(f->t.space, b, NULL), -EINVAL);
}

static void test_wrong_params(void **state)
{
	struct fixture *f = *state;
	struct weir_replica_params params = {.element_bytes = 3};
	uint8_t *b = do_alloc(&f->t, BLOCK, 0);

	assert_int_equal(weir_replicate(f->t.space, b, &params), -EINVAL);
	params.element_bytes = 32;
	assert_int_equal(weir_replicate(f->t.space, b, &params), -EINVAL);
	params.element_bytes = 16;
	params.subscription = (enum weir_subscription)(WEIR_SUBSCRIBE_NONE + 1);
	assert_int_equal(weir_replicate(f->t.space, b, &params), -EINVAL);
	params.subscription = WEIR_SUBSCRIBE_NONE;
	assert_int_equal(weir_replicate(f->t.space, b, &params), 0);
	do_free(&f->t, b, 0);
}

/* While a bracket names it. */
static void test_wrong_moment(void **state)
{
	struct fixture *f = *state;
	uint8_t *b = do_alloc(&f->t, BYTES, 0);

	do_begin(&f->t, 0, b + BLOCK, 8, WEIR_OVERWRITE);
	assert_int_equal(weir_replicate(f->t.space, b, NULL), -EBUSY);
	do_end(&f->t, 0);
	do_begin(&f->t, ONE, f->window[1] + BLOCK, 8, WEIR_READ);
	assert_int_equal(weir_unreplicate(f->t.space, f->a), -EBUSY);
	do_end(&f->t, ONE);
	do_begin(&f->t, 0, f->a, 8, WEIR_READ);
	assert_int_equal(weir_unreplicate(f->t.space, f->a), -EBUSY);
	do_end(&f->t, 0);
	do_free(&f->t, b, 0);
}

/* Only the last copy cannot go. */
static void test_wrong_unsubscribe(void **state)
{
	struct fixture *f = *state;

	do_begin(&f->t, 0, f->window[0], BLOCK, WEIR_WRITE);
	do_launch_as(&f->t, 0, f->window[0], BLOCK, WEIR_WRITE, 1, 1, f->a);
	do_end(&f->t, 0);
	assert_int_equal(weir_unsubscribe(f->t.space, f->a, BYTES, 0), -EBUSY);
	assert_int_equal(weir_unsubscribe(f->t.space, f->a, BYTES, 1), 0);
	do_check(&f->t);
}

/* A fixed space has none; one of a single device may. */
static void test_wrong_spaces(void **state)
{
	struct test_space t;
	uint8_t *a;

	(void)state;
	test_space_open(&t, WEIR_DATA_REAL, WEIR_FIXED, BLOCK, 8, 8);
	a = do_alloc(&t, BLOCK, 0);
	assert_int_equal(weir_replicate(t.space, a, NULL), -ENOTSUP);
	assert_int_equal(weir_unreplicate(t.space, a), -EINVAL);
	test_space_close(&t);
	test_space_open(&t, WEIR_DATA_REAL, WEIR_PLANNED, BLOCK, 8, 8);
	a = do_alloc(&t, BLOCK, 0);
	assert_int_equal(weir_replicate(t.space, a, NULL), 0);
	test_space_close(&t);
}

/* Devices without a link between them are in no space together. */
static void test_wrong_links(void **state)
{
	struct weir_space_config config = {.devices = 7, .mode = WEIR_PLANNED};
	struct weir_machine_desc desc;
	struct weir_machine *machine;
	struct weir_space *space;

	(void)state;
	test_machine_gpus(&desc, 3);
	desc.nr_links -= 2; /* gpu0 and gpu1 have the one that is left */
	assert_int_equal(weir_machine_simulate(&desc, WEIR_DATA_REAL, &machine), 0);
	config.block_bytes = BLOCK;
	for (uint32_t memory = 0; memory < desc.nr_memories; memory++)
		config.budget_bytes[memory] = 8 * BLOCK;
	assert_int_equal(weir_space_create(machine, &config, &space), -ENOTSUP);
	weir_machine_close(machine);
}

static void test_wrong_lists(void **state)
{
	static const uint32_t same[] = {3, 3}, falling[] = {4, 3}, last[] = {BYTES / 4 - 1},
			      beyond[] = {0, BYTES / 4}, most[] = {UINT32_MAX};
	struct fixture *f = *state;
	struct weir_space *space = f->t.space;
	struct weir_use use = use_of(f->window[1], 8, WEIR_READ_ELEMENTS);
	struct touch touch = {.value = 1};
	struct weir_launch launch = {.kernel = &touch_kernel,
				     .args = &touch,
				     .args_bytes = sizeof(touch),
				     .uses = &use,
				     .nr_uses = 1};
	uint8_t *b = do_alloc(&f->t, BLOCK, 0);

	assert_int_equal(weir_subscribe_elements(space, f->a, last, 1, 1), 0);
	assert_int_equal(weir_subscribe_elements(space, f->a, same, 2, 1), -EINVAL);
	assert_int_equal(weir_subscribe_elements(space, f->a, falling, 2, 1), -EINVAL);
	assert_int_equal(weir_subscribe_elements(space, f->a, beyond, 2, 1), -EINVAL);
	assert_int_equal(weir_subscribe_elements(space, f->a, most, 1, 1), -EINVAL);
	assert_int_equal(weir_subscribe_elements(space, f->a, NULL, 1, 1), -EINVAL);
	assert_int_equal(weir_subscribe_elements(space, f->a + 4, last, 1, 1), -EINVAL);
	assert_int_equal(weir_subscribe_elements(space, f->window[0] + BLOCK, NULL, 0, 1), -EINVAL);
	assert_int_equal(weir_subscribe_elements(space, f->a, last, 1, 2), -EINVAL);
	assert_int_equal(weir_subscribe_elements(space, b, last, 1, 1), -EINVAL);
	assert_int_equal(weir_subscribe_elements(space, f, last, 1, 1), -EINVAL);
	do_check(&f->t);
	assert_int_equal(weir_subscribe_elements(space, f->window[0], last, 1, 1), 0);
	assert_int_equal(weir_subscribe_elements(space, f->window[1], NULL, 0, 1), 0);
	/* It is a kind of brackets, not of launches; and the next one is none. */
	do_begin(&f->t, ONE, f->window[1], 8, WEIR_READ_ELEMENTS);
	assert_int_equal(weir_stream_launch(f->t.stream[ONE], &launch), -EINVAL);
	do_end(&f->t, ONE);
	use.kind = (enum weir_use_kind)(WEIR_ATOMIC + 1);
	assert_int_equal(weir_begin(space, f->t.stream[ONE], &use, 1), -EINVAL);
	do_free(&f->t, b, 0);
}

/* The same bytes at the one copy, used in some way, and through a window: in one bracket, and in
 * two. */
static void name_both(struct fixture *f, enum weir_use_kind kind)
{
	struct weir_use uses[2] = {use_of(f->a, 16, kind), use_of(f->window[0] + 8, 8, WEIR_READ)};
	struct weir_use use = use_of(f->window[1], 8, WEIR_WRITE);
	struct touch touch = {.write = f->window[1], .value = 1};
	struct weir_launch launch = {.kernel = &touch_kernel,
				     .args = &touch,
				     .args_bytes = sizeof(touch),
				     .uses = &use,
				     .nr_uses = 1};

	assert_int_equal(weir_begin(f->t.space, f->t.stream[0], uses, 2), -EINVAL);
	do_begin(&f->t, 0, f->a, 8, kind);
	/* It has no order with the first one: its launches are trapped. */
	do_begin(&f->t, ONE, f->window[1], 8, WEIR_WRITE);
	assert_int_equal(weir_stream_launch(f->t.stream[ONE], &launch), 0);
	do_end(&f->t, ONE);
	do_end(&f->t, 0);
	assert_int_equal(weir_space_sync(f->t.space), -WEIR_ETRAP);
	(void)!weir_stream_sync(f->t.stream[ONE]);
	do_check(&f->t);
	do_write(&f->t, f->a, BYTES, 1);
}

static void test_wrong_addresses(void **state)
{
	name_both(*state, WEIR_READ);
	name_both(*state, WEIR_ATOMIC);
}

static int publish(struct fixture *f, uint32_t stream, void *addr, uint64_t bytes)
{
	int err = weir_publish(f->t.space, f->t.stream[stream], addr, bytes);

	do_check(&f->t);
	return err;
}

/* Parts that no open bracket writes through its device's window. */
static void test_wrong_publish(void **state)
{
	struct fixture *f = *state;
	uint8_t *w = f->window[0], *b = do_alloc(&f->t, BLOCK, 0);
	struct weir_use uses[4] = {
		use_of(w, BLOCK, WEIR_WRITE), use_of(w + BLOCK, BLOCK, WEIR_READ),
		use_of(w + 2 * BLOCK, BLOCK, WEIR_WRITE), use_of(b, BLOCK, WEIR_OVERWRITE)};

	assert_int_equal(publish(f, 0, w, 8), -WEIR_ECONTRACT);
	assert_int_equal(weir_begin(f->t.space, f->t.stream[0], uses, 4), 0);
	assert_int_equal(publish(f, ONE, w, 8), -WEIR_ECONTRACT);
	assert_int_equal(publish(f, 0, w, 0), -EINVAL);
	assert_int_equal(publish(f, 0, w, UINT64_MAX), -EINVAL);
	assert_int_equal(publish(f, 0, w + BLOCK, 8), -EINVAL);
	assert_int_equal(publish(f, 0, w + BLOCK - 8, 16), -EINVAL);
	assert_int_equal(publish(f, 0, w, 3 * BLOCK), -EINVAL);
	assert_int_equal(publish(f, 0, w + 3 * BLOCK, 8), -EINVAL);
	assert_int_equal(publish(f, 0, w + BYTES, 8), -EINVAL);
	assert_int_equal(publish(f, 0, f->a, 8), -EINVAL);
	assert_int_equal(publish(f, 0, f->window[1], 8), -EINVAL);
	assert_int_equal(publish(f, 0, b, BLOCK), -EINVAL);
	assert_int_equal(publish(f, 0, f, 8), -EINVAL);
	/* As it was: all of it is still to be written, and published, once. */
	do_launch_as(&f->t, 0, w, BLOCK, WEIR_WRITE, 1, 1, f->a);
	assert_int_equal(publish(f, 0, w, BLOCK), 0);
	assert_int_equal(publish(f, 0, w, BLOCK), -EINVAL);
	assert_int_equal(publish(f, 0, w + BLOCK - 8, 8), -EINVAL);
	do_end(&f->t, 0);
	assert_int_equal(publish(f, 0, w + 2 * BLOCK, 8), -WEIR_ECONTRACT);
	do_free(&f->t, b, 0);
}

/* In a space that has no replicated range, and of one that was freed. */
static void test_wrong_publish_without_replicas(void **state)
{
	struct fixture *f = *state;
	struct test_space t;
	uint8_t *a;

	do_begin(&f->t, 0, f->window[0], BYTES, WEIR_WRITE);
	do_free(&f->t, f->a, 0);
	assert_int_equal(publish(f, 0, f->window[0], 8), -EINVAL);
	do_end(&f->t, 0);
	f->a = do_alloc(&f->t, BYTES, 0);
	test_space_open(&t, WEIR_DATA_REAL, WEIR_PLANNED, BLOCK, 8, 8);
	a = do_alloc(&t, BLOCK, 0);
	do_begin(&t, 0, a, BLOCK, WEIR_WRITE);
	assert_int_equal(weir_publish(t.space, t.stream[0], a, BLOCK), -EINVAL);
	do_end(&t, 0);
	test_space_close(&t);
	do_sync(&f->t);
	test_space_close(&f->t);
}

/* A launch that writes what was published is trapped; what was not can be written. */
static void test_wrong_writes_behind_a_publish(void **state)
{
	struct fixture *f = *state;
	uint8_t *w = f->window[0];

	do_begin(&f->t, 0, w, BYTES, WEIR_WRITE);
	assert_int_equal(publish(f, 0, w + BLOCK, BLOCK), 0);
	do_launch_as(&f->t, 0, w, BLOCK, WEIR_WRITE, 1, 1, f->a);
	do_launch_as(&f->t, 0, w + BLOCK, BLOCK, WEIR_READ, 1, 0, f->a + BLOCK);
	do_launch_as(&f->t, 0, w + 2 * BLOCK, 2 * BLOCK, WEIR_WRITE, 1, 1, f->a + 2 * BLOCK);
	assert_int_equal(weir_stream_sync(f->t.stream[0]), 0);
	do_launch_as(&f->t, 0, w + 2 * BLOCK - 8, 16, WEIR_WRITE, 1, 1, f->a + 2 * BLOCK - 8);
	do_end(&f->t, 0);
	assert_int_equal(weir_space_sync(f->t.space), -WEIR_ETRAP);
	(void)!weir_stream_sync(f->t.stream[0]);
	do_check(&f->t);
	do_write(&f->t, f->a, BYTES, 1);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_wrong_parts),
		CASE(test_wrong_devices),
		CASE(test_wrong_ranges),
		CASE(test_wrong_params),
		CASE(test_wrong_moment),
		CASE(test_wrong_unsubscribe),
		CASE(test_wrong_addresses),
		CASE(test_wrong_publish),
		CASE(test_wrong_writes_behind_a_publish),
		cmocka_unit_test_setup(test_wrong_publish_without_replicas, setup),
		CASE(test_wrong_lists),
		cmocka_unit_test(test_wrong_spaces),
		cmocka_unit_test(test_wrong_links),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
