/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels that measure, on the CPU of a simulated machine with real bytes: what they read shows
 * in their sums, what they write in memory; pieces at random come each once. The simulator traps
 * what they touch beyond what a measurement declares, so a whole one runs here, too.
 */
#include <stdlib.h>

#include "src/backend/machine.h"
#include "tests/unit/test_sim_machine.h"
#include "workloads/probe/kernels.h"
#include "workloads/probe/probe.h"

#define WORDS 4096u
#define BYTES (WORDS * sizeof(uint64_t))

/* ------------------------------------------------------------------ kernels */

static void test_kernels_stream(void **state)
{
	uint64_t *data = malloc(2 * BYTES), sum = 5, expected = 0;
	struct probe_read_args read = {data, &sum, BYTES, 3};
	struct probe_write_args write = {data, BYTES, 77};
	struct probe_copy_args copy = {data + WORDS, data, BYTES};

	(void)state;
	assert_non_null(data);
	for (uint32_t i = 0; i < 2 * WORDS; i++)
		data[i] = i * UINT64_C(0x9e3779b97f4a7c15);
	for (uint32_t i = 0; i < WORDS; i++)
		expected += data[i];
	probe_kernel_read.cpu(&read);
	assert_int_equal(sum, 5 + 3 * expected);
	probe_kernel_copy.cpu(&copy);
	assert_memory_equal(data, data + WORDS, BYTES);
	probe_kernel_write.cpu(&write);
	for (uint32_t i = 0; i < 2 * WORDS; i++)
		assert_int_equal(data[i], i < WORDS ? 77 : i * UINT64_C(0x9e3779b97f4a7c15));
	free(data);
}

/* What is added is 1 to each float of the pieces, and nothing to the others. */
static void check_added(uint64_t *data, struct probe_pieces pieces)
{
	struct probe_add_args add = {data, pieces};
	uint64_t nr = (uint64_t)pieces.piece / sizeof(float) * pieces.nr_all;
	float *x = (float *)(void *)data;

	for (uint32_t i = 0; i < BYTES / sizeof(float); i++)
		x[i] = 0.5f;
	probe_kernel_add.cpu(&add);
	for (uint32_t i = 0; i < BYTES / sizeof(float); i++)
		assert_true(x[i] == (i < nr ? 1.5f : 0.5f));
}

/* The pieces of a buffer come each once, whatever the salt; half of them half. */
static void check_pieces(uint64_t *data, uint32_t piece, uint32_t nr_all, uint32_t salt)
{
	struct probe_pieces pieces = probe_pieces_of(piece, nr_all, nr_all, salt);
	uint64_t sum = 0, words = (uint64_t)piece / sizeof(*data) * nr_all;
	struct probe_update_args update = {data, pieces};
	struct probe_gather_args gather = {data, &sum, pieces};
	uint32_t nr_changed = 0;

	memset(data, 0, BYTES);
	probe_kernel_update.cpu(&update);
	for (uint32_t i = 0; i < WORDS; i++)
		assert_int_equal(data[i], i < words);
	probe_kernel_gather.cpu(&gather);
	assert_int_equal(sum, words);
	check_added(data, pieces);
	memset(data, 0, BYTES);
	probe_kernel_update.cpu(&update);
	update.pieces.nr /= 2;
	probe_kernel_update.cpu(&update);
	for (uint32_t i = 0; i < WORDS; i++)
		nr_changed += data[i] == 2;
	assert_int_equal(nr_changed, nr_all / 2 * (piece / sizeof(*data)));
}

static void test_kernels_pieces(void **state)
{
	uint64_t *data = malloc(BYTES);

	(void)state;
	assert_non_null(data);
	for (uint32_t piece = 32; piece <= 1024; piece *= 2)
		for (uint32_t salt = 0; salt < 50; salt++) {
			uint32_t nr_all = (uint32_t)(BYTES / piece);

			check_pieces(data, piece, nr_all, salt * UINT32_C(0x9e3779b1));
			check_pieces(data, piece, nr_all * 7 / 8, salt);
			check_pieces(data, piece, nr_all / 2 + 1, salt);
			check_pieces(data, piece, 1, salt);
		}
	free(data);
}

/* Two pieces of one buffer, then three of the other, none twice. */
static void test_kernels_mixed(void **state)
{
	enum { WIDTH = 8, PIECES = WORDS / WIDTH, ROUNDS = 170, OUT = ROUNDS * PROBE_MIXED };
	uint64_t *far = malloc(2 * BYTES), *out = malloc((OUT + 1) * WIDTH * sizeof(*out));
	struct probe_mixed_args mixed = {far, far + WORDS, out,
					 probe_pieces_of(64, PIECES, PROBE_MIXED_FAR * ROUNDS, 3),
					 probe_pieces_of(64, PIECES, PROBE_MIXED_NEAR * ROUNDS, 4)};
	bool seen[2 * PIECES] = {false};

	(void)state;
	assert_non_null(far);
	assert_non_null(out);
	for (uint64_t i = 0; i < 2 * WORDS; i++)
		far[i] = i;
	memset(out, 0xff, (OUT + 1) * WIDTH * sizeof(*out));
	probe_kernel_mixed.cpu(&mixed);
	for (uint32_t i = 0; i < OUT; i++) {
		const uint64_t *word = &out[i * WIDTH];
		uint64_t piece = word[0] / WIDTH;

		for (uint32_t w = 0; w < WIDTH; w++)
			assert_int_equal(word[w], piece * WIDTH + w);
		assert_int_equal(piece < PIECES, i % PROBE_MIXED < PROBE_MIXED_FAR);
		assert_false(seen[piece]);
		seen[piece] = true;
	}
	for (uint32_t w = 0; w < WIDTH; w++)
		assert_int_equal(out[OUT * WIDTH + w], UINT64_MAX);
	free(out);
	free(far);
}

enum { LISTED = 700, STEPS_MAX = 7 };

/* One of each step elements, and nothing behind the list's end. */
static void test_kernels_list(void **state)
{
	(void)state;
	for (uint32_t step = 1; step <= STEPS_MAX; step++) {
		uint32_t at[LISTED + 1] = {[LISTED] = UINT32_MAX}, nr_out = 0;
		struct probe_list_args list = {at, LISTED, step};

		probe_kernel_list.cpu(&list);
		for (uint32_t i = 0; i < LISTED; i++) {
			assert_true(at[i] >= i * step && at[i] < (i + 1) * step);
			nr_out += at[i] != i * step;
		}
		assert_int_equal(at[LISTED], UINT32_MAX);
		assert_true(step == 1 ? !nr_out : nr_out > LISTED / 3);
	}
}

/* Neighbours in order are no neighbours in memory, and another salt is another order. */
static void test_kernels_are_random(void **state)
{
	struct probe_pieces pieces = probe_pieces_of(32, 1u << 20, 1u << 20, 3), other = pieces;
	uint32_t nr_near = 0, nr_same = 0;

	(void)state;
	other.salt = 4;
	for (uint32_t i = 0; i < 100000; i++) {
		uint32_t a = probe_piece_at(&pieces, i), b = probe_piece_at(&pieces, i + 1);

		nr_near += (a > b ? a - b : b - a) < 128;
		nr_same += a == probe_piece_at(&other, i);
	}
	/* 256 in a million would be so by chance. */
	assert_true(nr_near < 200);
	assert_true(nr_same < 10);
}

/* ------------------------------------------------------------------ with real bytes */

static int nr_logged;

static void log_count(void *arg, enum weir_log_level level, const char *message)
{
	(void)arg;
	if (level == WEIR_LOG_ERROR)
		print_message("%s\n", message);
	nr_logged += level == WEIR_LOG_ERROR;
}

static void probe_with_bytes(uint32_t nr_gpus)
{
	const struct probe_options options = {.device = PROBE_ALL_DEVICES, .quick = true};
	struct weir_machine_desc desc;
	struct weir_machine *machine;
	struct probe_result result;
	char err[256] = "";

	test_machine_gpus(&desc, nr_gpus);
	weir_log_set(log_count, NULL);
	assert_int_equal(weir_machine_simulate(&desc, WEIR_DATA_REAL, &machine), 0);
	if (probe_run(machine, &options, &result, err, sizeof(err)))
		fail_msg("%s", err);
	assert_int_equal(sim_leaks(machine_backend(machine)), 0);
	for (uint32_t m = 0; m < desc.nr_memories; m++)
		assert_int_equal(
			machine_backend(machine)->ops->memory_used(machine_backend(machine), m), 0);
	weir_machine_close(machine);
	weir_log_set(NULL, NULL);
	assert_int_equal(nr_logged, 0);
	assert_non_null(probe_record_find(&result, "ports.host.send.2_links_bytes_per_s"));
	probe_result_fini(&result);
}

static void test_probe_with_bytes(void **state)
{
	(void)state;
	probe_with_bytes(2);
}

/* Two that use a third one's memory. */
static void test_probe_of_three_with_bytes(void **state)
{
	(void)state;
	probe_with_bytes(3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kernels_stream),
		cmocka_unit_test(test_kernels_pieces),
		cmocka_unit_test(test_kernels_mixed),
		cmocka_unit_test(test_kernels_are_random),
		cmocka_unit_test(test_kernels_list),
		cmocka_unit_test(test_probe_with_bytes),
		cmocka_unit_test(test_probe_of_three_with_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
