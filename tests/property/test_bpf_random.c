/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whatever an eBPF object has in it, it is refused in one line, or runs to an end within its budget
 * and touches what it was given alone. Two kinds of objects: random instructions, most of which are
 * well formed and go for addresses at the edges of regions; and real ones with bytes changed. What
 * is given ends where a page begins that nobody may touch, or is on one that nobody may write.
 *
 * BPF_PROGRAMS is the number of each kind.
 *
 * Long: yes
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "src/base/util.h"
#include "src/policy/bpf.h"
#include "tests/support/amount.h"
#include "tests/support/bpf_file.h"

#define PAGE 4096u
#define BUDGET 2000u
#define INSNS_MAX 48u
#define GIVEN_BYTES 72u
#define CANARY 0xa5

static const struct test_amount programs = {100000, 20000, 2000000};

static uint64_t state = 2026;

static uint32_t below(uint32_t nr)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (uint32_t)((state >> 32) * nr >> 32);
}

/* ------------------------------------------------------------------ what is given */

/* Two pages, the second of which is a guard. */
static uint8_t *guarded(void)
{
	uint8_t *page = mmap(NULL, 2 * (size_t)PAGE, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(page != MAP_FAILED);
	assert_int_equal(mprotect(page + PAGE, PAGE, PROT_NONE), 0);
	memset(page, CANARY, PAGE);
	return page;
}

static struct {
	uint8_t *writable, *read_only;
} page;

static void make_pages(void)
{
	page.writable = guarded();
	page.read_only = guarded();
	assert_int_equal(mprotect(page.read_only, PAGE, PROT_READ), 0);
}

/* Run a function. How much it was given, and that it left the rest alone. */
static int run(struct bpf_object *object, uint32_t function, uint32_t bytes)
{
	struct bpf_run run = {
		.given = {{page.writable + PAGE - bytes, bytes, true},
			  {page.read_only + PAGE - GIVEN_BYTES, GIVEN_BYTES, false}},
		.nr_given = 2,
		.arg = {BPF_GIVEN_ADDRESS(0), BPF_GIVEN_ADDRESS(1), below(100), below(100),
			(uint64_t)below(UINT32_MAX) << below(33)},
		.budget = BUDGET,
		.answer = 1,
	};
	struct bpf_fault fault = {.text = ""};
	int ret = bpf_function_run(object, function, &run, &fault);

	assert_true(run.budget < BUDGET);
	for (uint32_t n = 0; n < PAGE - bytes; n++)
		if (page.writable[n] != CANARY)
			fail_msg("byte %u before the region is written", PAGE - bytes - n);
	assert_true(ret == 0 || ret == -EFAULT || ret == -ETIME || ret == -ELOOP);
	assert_true(ret != -ETIME || run.budget == 0);
	if (ret && (!fault.text[0] || strchr(fault.text, '\n')))
		fail_msg("a fault without a line: '%s'", fault.text);
	return ret;
}

/* ------------------------------------------------------------------ random instructions */

/* A number at which things change. */
static int32_t edge(void)
{
	static const int32_t edges[] = {0,  1,	-1, 7,	       8,	  31,	   32, 63,
					64, 71, 72, INT32_MAX, INT32_MIN, 1 << 16, 513};

	return below(4) ? (int32_t)below(80) - 8 : edges[below(ARRAY_LEN(edges))];
}

static struct bpf_insn arithmetic(void)
{
	struct bpf_insn insn = {.code = (uint8_t)(below(14) << 4 | below(2) << 3)};

	insn.code |= below(2) ? BPF_ALU64 : BPF_ALU;
	insn.dst_reg = below(10) & 15;
	if (BPF_OP(insn.code) == BPF_END) {
		insn.imm = 16 << below(3);
		insn.code = (uint8_t)(insn.code & ~(BPF_CLASS(insn.code) == BPF_ALU64 ? 8 : 0));
	} else if (BPF_OP(insn.code) == BPF_NEG) {
		insn.code &= (uint8_t)~8;
	} else if (BPF_SRC(insn.code) == BPF_X) {
		insn.src_reg = below(11) & 15;
	} else {
		insn.imm = edge();
	}
	return insn;
}

static struct bpf_insn memory(void)
{
	static const uint8_t base[] = {1, 2, 10, 1, 2, 10, 6};
	static const uint8_t sizes[] = {BPF_B, BPF_H, BPF_W, BPF_DW};
	static const int32_t atomics[] = {BPF_ADD, BPF_OR | BPF_FETCH, BPF_XCHG, BPF_CMPXCHG};
	struct bpf_insn insn = {.off = (int16_t)edge()};
	const uint32_t at = base[below(ARRAY_LEN(base))];
	const uint32_t other = below(10);
	const uint8_t size = sizes[below(4)];

	insn.dst_reg = at & 15;
	switch (below(4)) {
	case 0:
		insn.code = BPF_LDX | BPF_MEM | size;
		insn.dst_reg = other & 15;
		insn.src_reg = at & 15;
		break;
	case 1:
		insn.code = BPF_STX | BPF_MEM | size;
		insn.src_reg = other & 15;
		break;
	case 2:
		insn.code = BPF_ST | BPF_MEM | size;
		insn.imm = edge();
		break;
	default:
		insn.code = BPF_STX | BPF_ATOMIC | (below(2) ? BPF_W : BPF_DW);
		insn.src_reg = other & 15;
		insn.imm = atomics[below(ARRAY_LEN(atomics))];
		break;
	}
	return insn;
}

/* To some instruction of the function, which has instructions first to end. */
static struct bpf_insn jump(uint32_t at, uint32_t first, uint32_t end)
{
	struct bpf_insn insn = {
		.off = (int16_t)((int32_t)(first + below(end - first)) - (int32_t)at - 1)};

	do
		insn.code = (uint8_t)(below(14) << 4);
	while (insn.code == BPF_CALL || insn.code == BPF_EXIT);
	if (insn.code == BPF_JA) {
		insn.code |= BPF_JMP;
		return insn;
	}
	insn.code |= (uint8_t)(below(2) ? BPF_JMP : BPF_JMP32);
	insn.dst_reg = below(11) & 15;
	insn.imm = edge();
	if (below(2)) {
		insn.code |= BPF_X;
		insn.src_reg = below(11) & 15;
		insn.imm = 0;
	}
	return insn;
}

/* An address of a region that may be there, in two instructions. */
static void put_address(struct bpf_insn *insn)
{
	insn[0] = (struct bpf_insn){.code = BPF_LD | BPF_IMM | BPF_DW, .imm = edge()};
	insn[0].dst_reg = below(3) & 15;
	insn[1] = (struct bpf_insn){.imm = below(8) ? (int32_t)below(12) : edge()};
}

static void put_call(struct bpf_file *file, struct bpf_insn *insn, uint32_t at)
{
	static const char *const helpers[] = {"memcpy", "memmove", "memset", "weir_policy_log"};

	insn->code = BPF_JMP | BPF_CALL;
	insn->src_reg = BPF_PSEUDO_CALL;
	insn->imm = (int32_t)(below(2) ? file->other : 0) - (int32_t)at - 1;
	if (below(2) && file->nr_relocations < ARRAY_LEN(file->relocation))
		file->relocation[file->nr_relocations++] =
			(struct bpf_file_relocation){at, helpers[below(ARRAY_LEN(helpers))]};
}

/* Two functions, of which the second may be reached by calls alone. */
static struct bpf_object *random_object(void)
{
	struct bpf_insn insn[INSNS_MAX + 2] = {{0}};
	const uint32_t nr = 4 + below(INSNS_MAX - 4), other = 2 + below(nr - 3);
	struct bpf_file file = {
		.insn = insn, .nr_insns = nr, .other = other, .data = "abcdefgh", .data_bytes = 8};
	struct bpf_object *object = NULL;
	char err[512] = "";
	size_t bytes;
	void *image;

	for (uint32_t n = 0; n < nr; n++) {
		const uint32_t first = n < other ? 0 : other, end = n < other ? other : nr;

		switch (n + 1 == end ? 9 : below(10)) {
		case 0:
		case 1:
		case 2:
			insn[n] = memory();
			break;
		case 3:
		case 4:
			insn[n] = jump(n, first, end);
			break;
		case 5:
			if (n + 2 < end)
				put_address(&insn[n++]);
			else
				insn[n] = arithmetic();
			break;
		case 6:
			put_call(&file, &insn[n], n);
			break;
		case 9:
			insn[n].code = BPF_JMP | (n + 1 == end || !below(4) ? BPF_EXIT : BPF_JA);
			break;
		default:
			insn[n] = arithmetic();
			break;
		}
	}
	image = bpf_file_make(&file, &bytes);
	if (bpf_object_load("random.o", image, bytes, &object, err, sizeof(err)))
		assert_true(err[0] && !strchr(err, '\n'));
	free(image);
	return object;
}

static void test_bpf_random_programs_stay_inside(void **unused)
{
	const uint64_t nr = test_amount("BPF_PROGRAMS", programs);
	uint64_t nr_run = 0, nr_ended = 0, nr_outside = 0;

	(void)unused;
	for (uint64_t n = 0; n < nr; n++) {
		struct bpf_object *object = random_object();
		int ret;

		if (!object)
			continue;
		ret = run(object, 0, 1 + below(GIVEN_BYTES));
		nr_run++;
		nr_ended += ret == 0;
		nr_outside += ret == -EFAULT;
		bpf_object_destroy(object);
		memset(page.writable + PAGE - GIVEN_BYTES, CANARY, GIVEN_BYTES);
	}
	/* So that it is not all refused, or all the same. */
	printf("%llu of %llu ran: %llu to the end, %llu ended by an access\n",
	       (unsigned long long)nr_run, (unsigned long long)nr, (unsigned long long)nr_ended,
	       (unsigned long long)nr_outside);
	assert_true(nr_run > nr / 3 && nr_ended > nr / 20 && nr_outside > nr / 20);
}

/* ------------------------------------------------------------------ changed bytes */

static uint8_t *read_policy(const char *name, size_t *bytes)
{
	const char *folder = getenv("BUILD_DIR");
	uint8_t *image = malloc(1 << 16);
	char path[512];
	FILE *file;

	assert_non_null(image);
	snprintf(path, sizeof(path), "%s/policies/%s.o", folder ? folder : "build", name);
	file = fopen(path, "rb");
	if (!file) {
		free(image);
		return NULL;
	}
	*bytes = fread(image, 1, 1 << 16, file);
	assert_int_equal(fclose(file), 0);
	return image;
}

/* A copy of its own size, so that a sanitizer sees what is read behind it. */
static uint8_t *changed(const uint8_t *image, size_t *bytes)
{
	uint8_t *copy;

	if (!below(16))
		*bytes = below((uint32_t)*bytes);
	copy = malloc(*bytes + !*bytes);
	assert_non_null(copy);
	memcpy(copy, image, *bytes);
	for (uint32_t n = below(8); *bytes && n > 0; n--) {
		uint8_t *at = &copy[below((uint32_t)*bytes)];

		*at = below(2) ? (uint8_t)(*at ^ 1u << below(8)) : (uint8_t)below(256);
	}
	return copy;
}

static void test_bpf_objects_with_bytes_changed_stay_inside(void **unused)
{
	static const char *const names[] = {"lru", "tree", "whole"};
	static const char *const hooks[] = {"weir_victim", "weir_fault", "weir_fault"};
	const uint64_t nr = test_amount("BPF_PROGRAMS", programs);
	uint64_t nr_run = 0;

	(void)unused;
	for (uint32_t p = 0; p < ARRAY_LEN(names); p++) {
		size_t bytes = 0;
		uint8_t *image = read_policy(names[p], &bytes);

		if (!image)
			skip();
		for (uint64_t n = 0; n < nr / ARRAY_LEN(names); n++) {
			size_t part = bytes;
			uint8_t *copy = changed(image, &part);
			struct bpf_object *object;
			char err[512] = "";
			int function;

			if (bpf_object_load("changed.o", copy, part, &object, err, sizeof(err))) {
				assert_true(err[0] && !strchr(err, '\n'));
			} else {
				function = bpf_function_find(object, hooks[p]);
				if (function >= 0)
					(void)run(object, (uint32_t)function, 3552);
				nr_run += function >= 0;
				bpf_object_destroy(object);
			}
			free(copy);
		}
		free(image);
	}
	assert_true(nr_run > nr / 10);
}

static int set_up(void **unused)
{
	(void)unused;
	make_pages();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bpf_random_programs_stay_inside),
		cmocka_unit_test(test_bpf_objects_with_bytes_changed_stay_inside),
	};

	return cmocka_run_group_tests(tests, set_up, NULL);
}
