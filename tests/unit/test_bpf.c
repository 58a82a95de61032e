/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The eBPF interpreter: each instruction against a table, what it refuses to load, and what ends a
 * run: accesses outside of regions, budgets, frames.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "src/base/util.h"
#include "src/policy/bpf.h"
#include "tests/support/bpf_file.h"
#include "tests/unit/bpf_arithmetic.h"

#define INSN(code, dst, src, off, imm)             \
	(struct bpf_insn)                          \
	{                                          \
		(code), (dst), (src), (off), (imm) \
	}
#define EXIT INSN(0x95, 0, 0, 0, 0)
#define MOVE_IMM(dst, imm) INSN(0xb7, dst, 0, 0, imm)
#define MOVE(dst, src) INSN(0xbf, dst, src, 0, 0)
#define CALL(insn) INSN(0x85, 0, BPF_PSEUDO_CALL, 0, insn)
#define LOAD(size, dst, src, off) INSN(BPF_LDX | BPF_MEM | (size), dst, src, off, 0)
#define LOAD_SIGNED(size, dst, src, off) INSN(BPF_LDX | 0x80 | (size), dst, src, off, 0)
#define STORE(size, dst, src, off) INSN(BPF_STX | BPF_MEM | (size), dst, src, off, 0)
#define STORE_IMM(size, dst, off, imm) INSN(BPF_ST | BPF_MEM | (size), dst, 0, off, imm)
#define ATOMIC(size, dst, src, off, op) INSN(BPF_STX | 0xc0 | (size), dst, src, off, op)

/* A number in a register: two instructions. */
#define WIDE(dst, number)                                   \
	INSN(0x18, dst, 0, 0, (int32_t)(uint32_t)(number)), \
		INSN(0, 0, 0, 0, (int32_t)(uint32_t)((uint64_t)(number) >> 32))

static char err[512];
static struct bpf_fault fault;

static int load_file(const struct bpf_file *file, struct bpf_object **out)
{
	size_t bytes;
	void *image = bpf_file_make(file, &bytes);
	int rc = bpf_object_load("test.o", image, bytes, out, err, sizeof(err));

	free(image);
	return rc;
}

/* Load instructions as a function and run it. @return what the run does. */
static int run_insns(const struct bpf_insn *insn, uint32_t nr, struct bpf_run *run)
{
	const struct bpf_file file = {.insn = insn, .nr_insns = nr};
	struct bpf_object *object;
	int rc = load_file(&file, &object);

	if (rc)
		fail_msg("%s", err);
	if (!run->budget)
		run->budget = 1000;
	rc = bpf_function_run(object, 0, run, &fault);
	bpf_object_destroy(object);
	return rc;
}

/* ------------------------------------------------------------------ instructions */

static void test_bpf_arithmetic_is_that_of_the_table(void **state)
{
	(void)state;
	for (uint32_t n = 0; n < ARRAY_LEN(bpf_arithmetic); n++) {
		const struct bpf_arithmetic *a = &bpf_arithmetic[n];
		const bool reg = BPF_SRC(a->code) == BPF_X && BPF_OP(a->code) != BPF_END;
		const struct bpf_insn insn[] = {WIDE(1, a->a), WIDE(2, a->b),
						INSN(a->code, 1, reg ? 2 : 0, a->off, a->imm),
						MOVE(0, 1), EXIT};
		struct bpf_run run = {0};

		assert_int_equal(run_insns(insn, ARRAY_LEN(insn), &run), 0);
		if (run.answer != a->result)
			fail_msg("%s (%u), %u: 0x%llx, not 0x%llx", a->name, a->code, n,
				 (unsigned long long)run.answer, (unsigned long long)a->result);
	}
}

static void test_bpf_jumps_are_those_of_the_table(void **state)
{
	(void)state;
	for (uint32_t n = 0; n < ARRAY_LEN(bpf_jump); n++) {
		const struct bpf_jump *j = &bpf_jump[n];
		const bool reg = BPF_SRC(j->code) == BPF_X;
		const struct bpf_insn insn[] = {WIDE(1, j->a),
						WIDE(2, j->b),
						INSN(j->code, 1, reg ? 2 : 0, 2, j->imm),
						MOVE_IMM(0, 0),
						EXIT,
						MOVE_IMM(0, 1),
						EXIT};
		struct bpf_run run = {0};

		assert_int_equal(run_insns(insn, ARRAY_LEN(insn), &run), 0);
		if (run.answer != j->taken)
			fail_msg("%s (0x%02x), %u: %staken", j->name, j->code, n,
				 run.answer ? "" : "not ");
	}
}

static void test_bpf_far_jump_goes_by_its_immediate(void **state)
{
	const struct bpf_insn insn[] = {INSN(BPF_JMP32 | BPF_JA, 0, 0, 0, 1), EXIT, MOVE_IMM(0, 7),
					EXIT};
	struct bpf_run run = {0};

	(void)state;
	assert_int_equal(run_insns(insn, ARRAY_LEN(insn), &run), 0);
	assert_int_equal(run.answer, 7);
}

static void test_bpf_loads_and_stores_have_their_sizes(void **state)
{
	static const struct {
		uint8_t size;
		uint64_t loaded, extended;
	} cases[] = {
		{BPF_B, 0xf8, 0xfffffffffffffff8},
		{BPF_H, 0xf7f8, 0xfffffffffffff7f8},
		{BPF_W, 0xf5f6f7f8, 0xfffffffff5f6f7f8},
		{BPF_DW, 0xf1f2f3f4f5f6f7f8, 0},
	};

	(void)state;
	for (uint32_t n = 0; n < ARRAY_LEN(cases); n++) {
		uint64_t bytes[3] = {0xf1f2f3f4f5f6f7f8};
		const struct bpf_insn insn[] = {LOAD(cases[n].size, 0, 1, 0),
						STORE(cases[n].size, 1, 0, 8),
						STORE_IMM(cases[n].size, 1, 16, -2),
						n < 3 ? LOAD_SIGNED(cases[n].size, 2, 1, 0)
						      : MOVE_IMM(2, 0),
						MOVE(0, 2),
						EXIT};
		struct bpf_run run = {.given = {{bytes, sizeof(bytes), true}},
				      .nr_given = 1,
				      .arg = {BPF_GIVEN_ADDRESS(0)}};

		assert_int_equal(run_insns(insn, ARRAY_LEN(insn), &run), 0);
		assert_true(run.answer == cases[n].extended);
		assert_true(bytes[1] == cases[n].loaded);
		assert_true(bytes[2] == (n == 3 ? (uint64_t)-2 : (UINT64_C(1) << (8 << n)) - 2));
	}
}

static void test_bpf_atomics_change_memory_and_fetch(void **state)
{
	static const struct {
		int32_t op;
		uint64_t after, source, answer; /* memory, register 2, register 0 */
	} cases[] = {
		{BPF_ADD, 13, 3, 10},	   {BPF_ADD | BPF_FETCH, 13, 10, 10},
		{BPF_OR, 11, 3, 10},	   {BPF_OR | BPF_FETCH, 11, 10, 10},
		{BPF_AND, 2, 3, 10},	   {BPF_AND | BPF_FETCH, 2, 10, 10},
		{BPF_XOR, 9, 3, 10},	   {BPF_XOR | BPF_FETCH, 9, 10, 10},
		{BPF_XCHG, 3, 10, 10},	   {BPF_CMPXCHG, 3, 3, 10},
		{-BPF_CMPXCHG, 10, 3, 10}, /* register 0 is another value */
	};

	(void)state;
	for (uint32_t n = 0; n < 2 * ARRAY_LEN(cases); n++) {
		const uint8_t size = n % 2 ? BPF_W : BPF_DW;
		const int32_t op = cases[n / 2].op;
		const uint64_t upper = n % 2 ? UINT64_C(0x5500000000) : 0;
		uint64_t bytes[3] = {10 + upper, 0, 0};
		const struct bpf_insn insn[] = {MOVE_IMM(0, op < 0 ? 11 : 10),
						MOVE_IMM(2, 3),
						ATOMIC(size, 1, 2, 0, op < 0 ? -op : op),
						STORE(BPF_DW, 1, 2, 8),
						STORE(BPF_DW, 1, 0, 16),
						EXIT};
		struct bpf_run run = {.given = {{bytes, sizeof(bytes), true}},
				      .nr_given = 1,
				      .arg = {BPF_GIVEN_ADDRESS(0)}};

		assert_int_equal(run_insns(insn, ARRAY_LEN(insn), &run), 0);
		assert_true(bytes[0] == cases[n / 2].after + upper);
		assert_true(bytes[1] == cases[n / 2].source);
		assert_true(bytes[2] == (op < 0 ? 10 : cases[n / 2].answer));
	}
}

/* ------------------------------------------------------------------ functions */

static void test_bpf_calls_keep_registers_and_have_frames(void **state)
{
	const struct bpf_insn insn[] = {
		MOVE_IMM(6, 5),
		STORE_IMM(BPF_DW, 10, -8, 100),
		MOVE(1, 10),
		CALL(4), /* other() */
		LOAD(BPF_DW, 1, 10, -8),
		INSN(0x0f, 0, 1, 0, 0),
		INSN(0x0f, 0, 6, 0, 0),
		EXIT,
		MOVE_IMM(6, 77), /* other(): its frame is another one, and it reaches main()'s */
		STORE_IMM(BPF_DW, 10, -8, 7),
		LOAD(BPF_DW, 0, 1, -8),
		STORE_IMM(BPF_DW, 1, -8, 1000),
		EXIT,
	};
	const struct bpf_file file = {.insn = insn, .nr_insns = ARRAY_LEN(insn), .other = 8};
	struct bpf_run run = {.budget = 13};
	struct bpf_object *object;

	(void)state;
	assert_int_equal(load_file(&file, &object), 0);
	assert_int_equal(bpf_function_find(object, "other"), 1);
	assert_int_equal(bpf_function_find(object, "third"), -1);
	assert_int_equal(bpf_function_run(object, 0, &run, &fault), 0);
	assert_int_equal(run.answer, 100 + 1000 + 5);
	assert_int_equal(run.budget, 0);
	run.budget = 12;
	assert_int_equal(bpf_function_run(object, 0, &run, &fault), -ETIME);
	assert_non_null(strstr(fault.text, "main, instruction 7: its budget"));
	bpf_object_destroy(object);
}

static void test_bpf_calls_end_at_the_last_frame(void **state)
{
	const struct bpf_insn insn[] = {MOVE_IMM(1, 1), CALL(-2), EXIT};
	struct bpf_run run = {0};

	(void)state;
	assert_int_equal(run_insns(insn, ARRAY_LEN(insn), &run), -ELOOP);
	assert_int_equal(fault.instruction, 1);
}

static char logged[64];
static uint64_t logged_number;

static void take_log(void *arg, const char *text, uint64_t number)
{
	(void)arg;
	strncpy(logged, text, sizeof(logged) - 1);
	logged_number = number;
}

static void test_bpf_helpers_are_called_by_name(void **state)
{
	const struct bpf_insn insn[] = {
		WIDE(1, 4), /* of the data: + 4 */
		WIDE(2, 0),
		MOVE_IMM(3, 4),
		INSN(0x85, 0, BPF_PSEUDO_CALL, 0, -1), /* memmove: "abcdabcd" */
		WIDE(1, 6),
		MOVE_IMM(2, 'x'),
		MOVE_IMM(3, 1),
		INSN(0x85, 0, BPF_PSEUDO_CALL, 0, -1), /* memset: "abcdabxd" */
		WIDE(1, 0),
		MOVE_IMM(2, 9),
		INSN(0x85, 0, BPF_PSEUDO_CALL, 0, -1),
		EXIT};
	const struct bpf_file file = {
		.insn = insn,
		.nr_insns = ARRAY_LEN(insn),
		.data = "abcdefgh",
		.data_bytes = 9,
		.relocation = {{0, NULL},
			       {2, NULL},
			       {5, "memmove"},
			       {6, NULL},
			       {10, "memset"},
			       {11, NULL},
			       {14, "weir_policy_log"}},
		.nr_relocations = 7,
	};
	struct bpf_run run = {.budget = 100, .log = take_log};
	struct bpf_object *object;
	struct bpf_global global;

	(void)state;
	if (load_file(&file, &object))
		fail_msg("%s", err);
	assert_int_equal(bpf_function_run(object, 0, &run, &fault), 0);
	assert_string_equal(logged, "abcdabxd");
	assert_int_equal(logged_number, 9);
	assert_true(bpf_global_nth(object, 0, &global));
	assert_string_equal(global.name, "data");
	assert_memory_equal(global.bytes, "abcdabxd", 9);
	assert_false(bpf_global_nth(object, 1, &global));
	assert_false(global.constant);
	assert_true(bpf_global_find(object, "data", &global));
	assert_false(bpf_global_find(object, "date", &global));
	bpf_object_destroy(object);
}

/* ------------------------------------------------------------------ faults */

static void test_bpf_accesses_stay_in_their_regions(void **state)
{
	static const struct {
		uint64_t address;
		uint32_t size;
		bool store;
		int rc;
	} cases[] = {
		{BPF_GIVEN_ADDRESS(0), 8, true, 0},
		{BPF_GIVEN_ADDRESS(0) + 8, 8, true, 0},
		{BPF_GIVEN_ADDRESS(0) + 9, 8, false, -EFAULT},
		{BPF_GIVEN_ADDRESS(0) + 15, 1, false, 0},
		{BPF_GIVEN_ADDRESS(0) + 16, 1, false, -EFAULT},
		{BPF_GIVEN_ADDRESS(0) - 1, 1, false, -EFAULT},
		{BPF_GIVEN_ADDRESS(0) + UINT32_MAX, 8, false, -EFAULT},
		{BPF_GIVEN_ADDRESS(1), 8, false, 0}, /* it is read-only */
		{BPF_GIVEN_ADDRESS(1), 8, true, -EFAULT},
		{BPF_GIVEN_ADDRESS(2), 1, false, -EFAULT}, /* is not given */
		{BPF_GIVEN_ADDRESS(5), 1, false, -EFAULT},
		{BPF_GIVEN_ADDRESS(6), 1, false, -EFAULT}, /* data, which it has none of */
		{BPF_GIVEN_ADDRESS(7), 1, false, -EFAULT},
		{0, 1, false, -EFAULT},
		{UINT64_MAX, 1, false, -EFAULT},
		{UINT64_MAX, 8, true, -EFAULT},
		{UINT64_C(1) << 32, 8, true, 0}, /* the stack */
		{(UINT64_C(1) << 32) + 512 * 8 - 8, 8, true, 0},
		{(UINT64_C(1) << 32) + 512 * 8 - 7, 8, true, -EFAULT},
	};

	(void)state;
	for (uint32_t n = 0; n < ARRAY_LEN(cases); n++) {
		uint64_t first[2] = {1, 2}, second = 3;
		const uint8_t size = cases[n].size == 8 ? BPF_DW : BPF_B;
		const struct bpf_insn insn[] = {cases[n].store ? STORE(size, 1, 2, 0)
							       : LOAD(size, 0, 1, 0),
						MOVE_IMM(0, 0), EXIT};
		struct bpf_run run = {
			.given = {{first, sizeof(first), true}, {&second, sizeof(second), false}},
			.nr_given = 2,
			.arg = {cases[n].address}};

		assert_int_equal(run_insns(insn, ARRAY_LEN(insn), &run), cases[n].rc);
		assert_true(second == 3);
	}
}

static void test_bpf_copies_stay_in_their_regions(void **state)
{
	const struct bpf_insn insn[] = {INSN(0x85, 0, BPF_PSEUDO_CALL, 0, -1), EXIT};
	static const char *const names[] = {"memcpy", "memset"};
	static const uint64_t sizes[] = {0, 16, 17, UINT32_MAX, UINT64_MAX};

	(void)state;
	for (uint32_t n = 0; n < ARRAY_LEN(names) * ARRAY_LEN(sizes); n++) {
		const struct bpf_file file = {.insn = insn,
					      .nr_insns = ARRAY_LEN(insn),
					      .relocation = {{0, names[n % 2]}},
					      .nr_relocations = 1};
		char to[16] = "", from[32] = "";
		struct bpf_run run = {
			.given = {{to, sizeof(to), true}, {from, sizeof(from), false}},
			.nr_given = 2,
			.arg = {BPF_GIVEN_ADDRESS(0), BPF_GIVEN_ADDRESS(1), sizes[n / 2]},
			.budget = UINT64_MAX};
		struct bpf_object *object;

		assert_int_equal(load_file(&file, &object), 0);
		assert_int_equal(bpf_function_run(object, 0, &run, &fault),
				 sizes[n / 2] <= sizeof(to) ? 0 : -EFAULT);
		bpf_object_destroy(object);
	}
}

/* ------------------------------------------------------------------ what is refused */

static void test_bpf_refuses_code_that_is_not_well_formed(void **state)
{
	static const struct {
		const char *what;
		struct bpf_insn insn[3];
		uint32_t nr;
	} cases[] = {
		{"runs on", {{0xb7, 0, 0, 0, 0}}, 1},
		{"runs on", {{0x05, 0, 0, 0, 0}, {0x15, 1, 0, -1, 0}}, 2},
		{"no instruction", {{0x00, 0, 0, 0, 0}, EXIT}, 2},
		{"no instruction", {{0x8f, 0, 0, 0, 0}, EXIT}, 2},
		{"no instruction", {{0xb7, 0, 1, 0, 0}, EXIT}, 2},
		{"no instruction", {{0xbf, 0, 1, 7, 0}, EXIT}, 2},
		{"no instruction", {{0xbc, 0, 1, 32, 0}, EXIT}, 2},
		{"no instruction", {{0x37, 0, 0, 2, 1}, EXIT}, 2},
		{"no instruction", {{0xdc, 0, 0, 0, 8}, EXIT}, 2},
		{"no instruction", {{0xe5, 0, 0, 0, 0}, EXIT}, 2},
		{"no instruction", {{0x86, 0, 0, 0, 1}, EXIT}, 2}, /* a call of 32 bits */
		{"no instruction", {{0x99, 0, 1, 0, 0}, EXIT}, 2}, /* signed, of 8 bytes */
		{"no instruction", {{0xd3, 0, 1, 0, 0}, EXIT}, 2}, /* atomic, of 1 byte */
		{"no instruction", {{0xdb, 0, 1, 0, 0x20}, EXIT}, 2},
		{"no instruction", {{0x30, 0, 0, 0, 0}, EXIT}, 2},	/* of packets */
		{"no instruction", {{0x18, 0, 1, 0, 0}, {0}, EXIT}, 3}, /* of maps */
		{"register 11", {{0xbf, 0, 11, 0, 0}, EXIT}, 2},
		{"register 15", {{0xbf, 15, 1, 0, 0}, EXIT}, 2},
		{"register 10", {{0xb7, 10, 0, 0, 0}, EXIT}, 2},
		{"register 10", {{0xdb, 1, 10, 0, 0x01}, EXIT}, 2},
		{"two parts", {{0x18, 0, 0, 0, 0}}, 1},
		{"two parts", {{0x18, 0, 0, 0, 0}, {0xb7, 0, 0, 0, 0}, EXIT}, 3},
		{"middle", {{0x05, 0, 0, 1, 0}, {0x18, 0, 0, 0, 0}, {0}}, 3},
		{"out of", {{0x05, 0, 0, -2, 0}, EXIT}, 2},
		{"out of", {{0x05, 0, 0, 1, 0}, EXIT}, 2},
		{"out of", {{0x06, 0, 0, 0, INT32_MAX}, EXIT}, 2},
		{"no function", {{0x85, 0, 1, 0, 0}, EXIT}, 2},
		{"no function", {{0x85, 0, 1, 0, INT32_MIN}, EXIT}, 2},
		{"helper number 14", {{0x85, 0, 0, 0, 14}, EXIT}, 2},
		{"through a register", {{0x85, 0, 2, 0, 1}, EXIT}, 2},
	};

	(void)state;
	for (uint32_t n = 0; n < ARRAY_LEN(cases); n++) {
		const struct bpf_file file = {.insn = cases[n].insn, .nr_insns = cases[n].nr};
		struct bpf_object *object = NULL;

		err[0] = 0;
		assert_int_equal(load_file(&file, &object), -EINVAL);
		if (!strstr(err, cases[n].what) || strchr(err, '\n'))
			fail_msg("%u: '%s', not '%s'", n, err, cases[n].what);
	}
}

static void test_bpf_names_what_is_called_and_not_there(void **state)
{
	const struct bpf_insn insn[] = {INSN(0x85, 0, BPF_PSEUDO_CALL, 0, -1), EXIT};
	struct bpf_file file = {.insn = insn,
				.nr_insns = 2,
				.relocation = {{0, "bpf_ktime_get_ns"}},
				.nr_relocations = 1};
	struct bpf_object *object;

	(void)state;
	assert_int_equal(load_file(&file, &object), -EINVAL);
	assert_non_null(strstr(err, "test.o: main, instruction 0: it calls bpf_ktime_get_ns"));
	file.relocation[0].call = "two\nlines\177";
	assert_int_equal(load_file(&file, &object), -EINVAL);
	assert_non_null(strstr(err, "it calls two?lines?, which"));
}

/* Cut anywhere and with any byte changed a file is refused or loaded, and what is loaded runs to
 * an end. */
static void test_bpf_damaged_files_do_no_harm(void **state)
{
	const struct bpf_insn insn[] = {WIDE(1, 0), MOVE_IMM(2, 1), LOAD(BPF_DW, 0, 1, 0),
					CALL(1),    EXIT,	    MOVE_IMM(0, 3),
					EXIT};
	const struct bpf_file file = {.insn = insn,
				      .nr_insns = ARRAY_LEN(insn),
				      .other = 6,
				      .data = "abcdefgh",
				      .data_bytes = 8,
				      .relocation = {{0, NULL}},
				      .nr_relocations = 1};
	size_t bytes, nr_loaded = 0;
	uint8_t *image = bpf_file_make(&file, &bytes);

	(void)state;
	for (size_t n = 0; n < bytes * 5; n++) {
		static const uint8_t flip[] = {1, 0x80, 0xff, 0x10};
		const size_t at = n / 5, cut = n % 5 == 4 ? at : bytes;
		/* Of its own size, so that what is read beyond it is noticed. */
		uint8_t *copy = malloc(cut ? cut : 1);
		struct bpf_run run = {.budget = 1000};
		struct bpf_object *object;

		assert_non_null(copy);
		memcpy(copy, image, cut);
		if (n % 5 < 4)
			copy[at] ^= flip[n % 5];
		if (!bpf_object_load("test.o", copy, cut, &object, err, sizeof(err))) {
			nr_loaded++;
			(void)bpf_function_run(object, 0, &run, &fault);
			bpf_object_destroy(object);
		}
		free(copy);
	}
	assert_true(nr_loaded > bytes / 4 && nr_loaded < bytes * 4);
	free(image);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bpf_arithmetic_is_that_of_the_table),
		cmocka_unit_test(test_bpf_jumps_are_those_of_the_table),
		cmocka_unit_test(test_bpf_far_jump_goes_by_its_immediate),
		cmocka_unit_test(test_bpf_loads_and_stores_have_their_sizes),
		cmocka_unit_test(test_bpf_atomics_change_memory_and_fetch),
		cmocka_unit_test(test_bpf_calls_keep_registers_and_have_frames),
		cmocka_unit_test(test_bpf_calls_end_at_the_last_frame),
		cmocka_unit_test(test_bpf_helpers_are_called_by_name),
		cmocka_unit_test(test_bpf_accesses_stay_in_their_regions),
		cmocka_unit_test(test_bpf_copies_stay_in_their_regions),
		cmocka_unit_test(test_bpf_refuses_code_that_is_not_well_formed),
		cmocka_unit_test(test_bpf_names_what_is_called_and_not_there),
		cmocka_unit_test(test_bpf_damaged_files_do_no_harm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
