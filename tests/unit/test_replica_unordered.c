/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two open brackets of two devices on one replicated range, each through its window. That both
 * write one element is no order that anything could keep: the log names both parts as the second
 * one begins, and each of its launches is trapped by the simulator, and refused in debug mode on
 * CUDA. What they write beside each other, be it in one line of a cache, is there in the end.
 *
 * Also run on the CUDA backend with the driver without a GPU, which outside debug mode says no more
 * than the log.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/driver.h"
#include "tests/support/log_watch.h"
#include "tests/support/space.h"
#include "weir/replica.h"

#define BLOCK block_bytes()
#define ELEMENT 8u
#define LINE 16u       /* elements of a line of 128 bytes */
#define ONE TEST_OTHER /* a stream of device 1; 0 and 1 are of device 0 */

/* Of the brackets' parts. */
#define NR 256u

static uint64_t block_bytes(void)
{
	return test_machine_kind() == TEST_GPU ? MIB(2) : KIB(16);
}

/* ------------------------------------------------------------------ the log */

static struct log_watch errors;

static void assert_names(const void *addr)
{
	char text[32];

	snprintf(text, sizeof(text), "%p", addr);
	if (!strstr(errors.last, text))
		fail_msg("no '%s' in '%s'", text, errors.last);
}

/* ------------------------------------------------------------------ brackets */

struct part {
	uint32_t first, nr; /* elements */
	enum weir_use_kind kind;
};

/* Of the first and the second bracket. */
struct two {
	struct part first, second;
};

struct fixture {
	struct test_space t;
	uint8_t *a, *window[2];
	bool traps; /* launches that have no order are trapped, or refused */
};

static void open_fixture(struct fixture *f)
{
	const struct weir_replica_params params = {.element_bytes = ELEMENT};
	void *window;

	test_space_open_devices(&f->t, BLOCK, 32, 32, 32);
	f->traps = test_machine_kind() == TEST_SIMULATED || getenv("WEIR_CUDA_DEBUG");
	f->a = do_alloc(&f->t, BLOCK, 0);
	do_write(&f->t, f->a, BLOCK, 1);
	assert_int_equal(weir_replicate(f->t.space, f->a, &params), 0);
	for (uint32_t device = 0; device < 2; device++) {
		assert_int_equal(weir_replica(f->t.space, f->a, device, &window), 0);
		f->window[device] = window;
	}
	/* Both have all of it: no message meets what is written, which has no order with it. */
	for (uint32_t device = 0; device < 2; device++) {
		uint32_t stream = device ? ONE : 0;

		do_begin(&f->t, stream, f->window[device], BLOCK, WEIR_READ);
		do_launch_as(&f->t, stream, f->window[device], BLOCK, WEIR_READ, 1, 0, f->a);
		do_end(&f->t, stream);
	}
	log_watch(&errors, WEIR_LOG_ERROR);
}

static void close_fixture(struct fixture *f)
{
	test_log_begin();
	do_sync(&f->t);
	test_space_close(&f->t);
}

static void *addr_of(const struct fixture *f, uint32_t device, const struct part *part)
{
	return f->window[device] + part->first * ELEMENT;
}

static void begin(struct fixture *f, uint32_t stream, uint32_t device, const struct part *part)
{
	do_begin(&f->t, stream, addr_of(f, device, part), part->nr * ELEMENT, part->kind);
}

/* All of a part has the pattern of `put` then. @return what the launch returns. */
static int launch(struct fixture *f, uint32_t stream, uint32_t device, const struct part *part,
		  uint32_t put)
{
	void *addr = addr_of(f, device, part);
	const struct test_cells_args args = {
		.addr = addr,
		.as = (const uint64_t *)(f->a + part->first * ELEMENT),
		.words = part->nr,
		.nr_wrong = f->t.nr_wrong_cuda ? f->t.nr_wrong_cuda : &f->t.nr_wrong,
		.nr = 1,
		.cell = {{.put = put}},
	};
	const struct weir_use use = use_of(addr, part->nr * ELEMENT, part->kind);
	const struct weir_launch what = {.kernel = &test_kernel_cells,
					 .args = &args,
					 .args_bytes = sizeof(args),
					 .uses = &use,
					 .nr_uses = 1};

	return weir_stream_launch(f->t.stream[stream], &what);
}

/* A launch that has no order with the other bracket's. */
static void launch_trapped(struct fixture *f, uint32_t stream, uint32_t device,
			   const struct part *part)
{
	int err;

	if (!f->traps)
		return;
	errors.nr = 0;
	err = launch(f, stream, device, part, 9);
	if (test_machine_kind() != TEST_SIMULATED) {
		assert_int_equal(err, -WEIR_ECONTRACT);
		assert_int_equal(errors.nr, 1);
		return;
	}
	assert_int_equal(err, 0);
	assert_int_equal(weir_stream_sync(f->t.stream[stream]), -WEIR_ETRAP);
	assert_true(errors.nr > 0);
}

/* What was trapped on the simulator is reported once. */
static void end_both(struct fixture *f, uint32_t one, uint32_t other)
{
	do_end(&f->t, one);
	do_end(&f->t, other);
	do_check(&f->t);
	assert_int_equal(weir_space_sync(f->t.space), 0);
}

/* ------------------------------------------------------------------ both are written */

static void test_unordered_writes(void **state)
{
	static const struct two cases[] = {
		{{5, 1, WEIR_WRITE}, {5, 1, WEIR_WRITE}},
		{{5, 1, WEIR_WRITE}, {5, 1, WEIR_OVERWRITE}},
		{{5, 1, WEIR_OVERWRITE}, {5, 1, WEIR_WRITE}},
		{{0, NR, WEIR_OVERWRITE}, {0, NR, WEIR_OVERWRITE}},
		{{0, NR, WEIR_WRITE}, {NR - 1, NR, WEIR_WRITE}},	/* the last one of one */
		{{NR - 1, NR, WEIR_WRITE}, {0, NR, WEIR_WRITE}},	/* the first one */
		{{0, NR, WEIR_WRITE}, {NR / 2, 1, WEIR_OVERWRITE}},	/* one inside */
		{{NR / 2, 1, WEIR_OVERWRITE}, {0, 2 * NR, WEIR_WRITE}}, /* the other way */
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const struct part *first = &cases[i].first, *second = &cases[i].second;
		struct fixture f;

		open_fixture(&f);
		begin(&f, 0, 0, first);
		assert_int_equal(launch(&f, 0, 0, first, 2), 0);
		assert_int_equal(errors.nr, 0);
		begin(&f, ONE, 1, second);
		assert_int_equal(errors.nr, 1);
		assert_names(addr_of(&f, 0, first));
		assert_names(addr_of(&f, 1, second));
		assert_non_null(strstr(errors.last, "both are written"));
		/* Each of its launches, and none of the other one's. */
		launch_trapped(&f, ONE, 1, second);
		launch_trapped(&f, ONE, 1, second);
		assert_int_equal(launch(&f, 0, 0, first, 3), 0);
		assert_int_equal(weir_stream_sync(f.t.stream[0]), 0);
		end_both(&f, ONE, 0);
		/* With an order between them nothing is wrong. */
		do_write(&f.t, f.a, BLOCK, 1);
		errors.nr = 0;
		begin(&f, 0, 0, first);
		assert_int_equal(launch(&f, 0, 0, first, 4), 0);
		do_end(&f.t, 0);
		begin(&f, ONE, 1, second);
		assert_int_equal(launch(&f, ONE, 1, second, 5), 0);
		do_end(&f.t, ONE);
		assert_int_equal(errors.nr, 0);
		do_read(&f.t, f.a + second->first * ELEMENT, second->nr * ELEMENT, 5);
		close_fixture(&f);
	}
}

/* Several copies have no atomics in common. */
static void test_unordered_atomics(void **state)
{
	const struct part first = {5, 1, WEIR_WRITE};
	struct weir_use use;
	struct fixture f;

	(void)state;
	open_fixture(&f);
	begin(&f, 0, 0, &first);
	use = use_of(addr_of(&f, 1, &first), ELEMENT, WEIR_ATOMIC);
	assert_int_equal(weir_begin(f.t.space, f.t.stream[ONE], &use, 1), -EINVAL);
	do_end(&f.t, 0);
	close_fixture(&f);
}

/* Of one device's window, by two of its streams, the backend knows; but it has to be launched. */
static void test_unordered_streams(void **state)
{
	const struct part first = {0, NR, WEIR_WRITE}, second = {NR - 1, 1, WEIR_WRITE};
	struct fixture f;

	(void)state;
	open_fixture(&f);
	begin(&f, 0, 0, &first);
	assert_int_equal(launch(&f, 0, 0, &first, 2), 0);
	begin(&f, 1, 0, &second);
	assert_int_equal(errors.nr, 0);
	launch_trapped(&f, 1, 0, &second);
	if (f.traps)
		assert_non_null(strstr(errors.last, "they have no order"));
	end_both(&f, 1, 0);
	close_fixture(&f);
}

/* ------------------------------------------------------------------ what is allowed */

/* Other elements, of one line. Both devices and the host have all that was written. */
static void test_unordered_neighbours(void **state)
{
	static const struct two cases[] = {
		{{0, 1, WEIR_WRITE}, {1, 1, WEIR_WRITE}},
		{{1, 1, WEIR_OVERWRITE}, {0, 1, WEIR_WRITE}},
		{{3, 4, WEIR_OVERWRITE}, {7, 9, WEIR_OVERWRITE}},
		{{LINE - 1, 1, WEIR_WRITE}, {LINE, 1, WEIR_WRITE}},
		{{0, NR, WEIR_WRITE}, {NR, NR, WEIR_OVERWRITE}},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const struct part *part[2] = {&cases[i].first, &cases[i].second};
		struct fixture f;

		open_fixture(&f);
		begin(&f, 0, 0, part[0]);
		begin(&f, ONE, 1, part[1]);
		for (uint32_t round = 0; round < 2; round++)
			for (uint32_t d = 0; d < 2; d++)
				assert_int_equal(
					launch(&f, d ? ONE : 0, d, part[d], 2 + 2 * round + d), 0);
		end_both(&f, i % 2 ? 0 : ONE, i % 2 ? ONE : 0);
		for (uint32_t d = 0; d < 2; d++)
			for (uint32_t p = 0; p < 2; p++) {
				void *addr = addr_of(&f, d, part[p]);
				uint64_t bytes = part[p]->nr * ELEMENT;

				do_begin(&f.t, d ? ONE : 0, addr, bytes, WEIR_READ);
				do_launch_as(&f.t, d ? ONE : 0, addr, bytes, WEIR_READ, 4 + p, 0,
					     f.a + part[p]->first * ELEMENT);
				do_end(&f.t, d ? ONE : 0);
			}
		for (uint32_t p = 0; p < 2; p++)
			do_read(&f.t, f.a + part[p]->first * ELEMENT, part[p]->nr * ELEMENT, 4 + p);
		do_read(&f.t, f.a + 2ull * NR * ELEMENT, BLOCK - 2ull * NR * ELEMENT, 1);
		assert_int_equal(errors.nr, 0);
		close_fixture(&f);
	}
}

/* One reads what the other one writes, or gives it up: it has what it had as it began. */
static void test_unordered_reads(void **state)
{
	static const struct two cases[] = {
		{{0, NR, WEIR_READ}, {0, NR, WEIR_WRITE}},
		{{0, NR, WEIR_READ}, {NR / 2, NR, WEIR_OVERWRITE}},
		{{0, NR, WEIR_DISCARD}, {0, NR, WEIR_WRITE}},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const struct part *first = &cases[i].first, *second = &cases[i].second;
		struct fixture f;

		open_fixture(&f);
		begin(&f, 0, 0, first);
		begin(&f, ONE, 1, second);
		assert_int_equal(launch(&f, ONE, 1, second, 2), 0);
		if (first->kind == WEIR_READ)
			do_launch_as(&f.t, 0, f.window[0], NR * ELEMENT, WEIR_READ, 1, 0, f.a);
		do_end(&f.t, 0);
		do_end(&f.t, ONE);
		do_read(&f.t, f.a + second->first * ELEMENT, second->nr * ELEMENT, 2);
		assert_int_equal(errors.nr, 0);
		close_fixture(&f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_unordered_writes),
		cmocka_unit_test(test_unordered_atomics),
		cmocka_unit_test(test_unordered_streams),
		cmocka_unit_test(test_unordered_neighbours),
		cmocka_unit_test(test_unordered_reads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
