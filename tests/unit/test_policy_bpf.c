/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Policies in objects: what goes back of a context, budgets, faults, tunables, and what is refused
 * when one is opened. Objects are made of instructions here, or are those of policies/, without
 * which these tests are skipped.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "src/base/util.h"
#include "src/policy/policy.h"
#include "tests/support/bpf_file.h"

#define EXIT 0x95
#define MOVE_IMM(dst, imm)             \
	{                              \
		0xb7, dst, 0, 0, (imm) \
	}
/* Store a number of 4 or 8 bytes into the context, which register 1 has the address of. */
#define PUT_4(at, imm)                                  \
	{                                               \
		BPF_ST | BPF_MEM | BPF_W, 1, 0, at, imm \
	}
#define PUT_8(at, imm)                                   \
	{                                                \
		BPF_ST | BPF_MEM | BPF_DW, 1, 0, at, imm \
	}
#define ANSWER(what)             \
	MOVE_IMM(0, what),       \
	{                        \
		EXIT, 0, 0, 0, 0 \
	}

static char err[512];

/* The file of a policy with one hook, made of instructions. Its name: until the next one. */
static const char *make(const char *hook, const struct bpf_insn *insn, uint32_t nr,
			uint32_t version)
{
	static char path[64];
	const struct bpf_file file = {.function = hook,
				      .insn = insn,
				      .nr_insns = nr,
				      .variable = "weir_policy_version",
				      .data = &version,
				      .data_bytes = sizeof(version)};
	size_t bytes;
	void *image = bpf_file_make(&file, &bytes);
	int fd;
	FILE *out;

	strcpy(path, "/tmp/weir_policy_XXXXXX");
	fd = mkstemp(path);
	out = fd < 0 ? NULL : fdopen(fd, "wb");
	assert_non_null(out);
	assert_int_equal(fwrite(image, 1, bytes, out), bytes);
	assert_int_equal(fclose(out), 0);
	free(image);
	return path;
}

/* Open what make() makes, untried. */
static struct weir_policy *open_made(const char *hook, const struct bpf_insn *insn, uint32_t nr)
{
	const char *path = make(hook, insn, nr, WEIR_POLICY_VERSION);
	struct weir_policy *policy;
	char spec[128];

	snprintf(spec, sizeof(spec), "%s:trial=0", path);
	/* A '/' makes it a file. */
	if (weir_policy_open(spec, &policy, err, sizeof(err)))
		fail_msg("%s", err);
	assert_string_equal(weir_policy_name(policy), path);
	unlink(path);
	return policy;
}

#define OPEN_MADE(hook, insn) open_made(hook, insn, ARRAY_LEN(insn))

/* Opening what make() makes fails, with this in the message. */
static void refuse_made(const char *hook, const struct bpf_insn *insn, uint32_t nr,
			uint32_t version, const char *why)
{
	const char *path = make(hook, insn, nr, version);
	struct weir_policy *policy;

	err[0] = 0;
	assert_int_equal(weir_policy_open(path, &policy, err, sizeof(err)), -EINVAL);
	unlink(path);
	if (!strstr(err, why) || !strstr(err, path) || strchr(err, '\n'))
		fail_msg("'%s', not '%s'", err, why);
}

static struct weir_policy_stats stats_of(struct weir_policy *policy)
{
	struct weir_policy_stats stats;

	weir_policy_query(policy, &stats);
	return stats;
}

/* The object of a policy of policies/, with tunables; NULL: there are none. */
static const char *built(const char *name, const char *tunables)
{
	static char spec[512];
	const char *folder = getenv("BUILD_DIR");

	snprintf(spec, sizeof(spec), "%s/policies/%s.o", folder ? folder : "build", name);
	if (access(spec, R_OK))
		return NULL;
	strcat(spec, tunables);
	return spec;
}

/* ------------------------------------------------------------------ contexts */

#define VICTIM(member) offsetof(struct weir_policy_victim, member)

static bool no_window(void *arg, struct weir_policy_victim *q)
{
	(void)arg, (void)q;
	return false;
}

static void test_policy_bpf_answer_and_words_go_back_and_no_more(void **state)
{
	const struct bpf_insn insn[] = {
		PUT_4(VICTIM(chosen), 2),
		PUT_4(VICTIM(nr), 30),
		PUT_8(VICTIM(now), 77),
		PUT_8(VICTIM(candidate[2].range_word[1]), 5),
		PUT_8(VICTIM(candidate[1].block_word[0]), 6),
		PUT_8(VICTIM(candidate[2].used_age), 7),
		PUT_8(VICTIM(candidate[3].range_word[0]), 8), /* it is not in the window */
		PUT_8(VICTIM(far[0].range_word[0]), 9),
		ANSWER(WEIR_POLICY_ANSWER),
	};
	struct weir_policy *policy = OPEN_MADE("weir_victim", insn);
	struct weir_policy_victim q = {.now = 1, .nr = 3, .nr_far = 1}, as_it_was = q;

	(void)state;
	assert_true(policy_victim(policy, &q, no_window, NULL));
	assert_int_equal(q.chosen, 2);
	assert_int_equal(q.candidate[2].range_word[1], 5);
	assert_int_equal(q.candidate[1].block_word[0], 6);
	assert_int_equal(q.far[0].range_word[0], 9);
	q.chosen = 0;
	q.candidate[2].range_word[1] = q.candidate[1].block_word[0] = q.far[0].range_word[0] = 0;
	assert_memory_equal(&q, &as_it_was, sizeof(q));
	assert_int_equal(stats_of(policy).max_instructions, ARRAY_LEN(insn));
	weir_policy_close(policy);
}

/* An object can't make its answer right by changing what it is compared with. */
static void test_policy_bpf_answer_is_compared_with_what_was_shown(void **state)
{
	const struct bpf_insn insn[] = {PUT_4(VICTIM(chosen), 3), PUT_4(VICTIM(nr), 4),
					ANSWER(WEIR_POLICY_ANSWER)};
	struct weir_policy *policy = OPEN_MADE("weir_victim", insn);

	(void)state;
	for (uint32_t n = 0; n < POLICY_WRONG_MAX; n++) {
		struct weir_policy_victim q = {.nr = 3};

		assert_true(policy_has(policy, POLICY_VICTIM));
		assert_false(policy_victim(policy, &q, no_window, NULL));
	}
	assert_false(policy_has(policy, POLICY_VICTIM));
	assert_int_equal(stats_of(policy).nr_wrong, POLICY_WRONG_MAX);
	weir_policy_close(policy);
}

static void test_policy_bpf_result_that_is_none_is_wrong(void **state)
{
	const struct bpf_insn insn[] = {ANSWER(-1)};
	struct weir_policy *policy = OPEN_MADE("weir_admit", insn);
	struct weir_policy_admit q = {.range.nr_blocks = 4};

	(void)state;
	assert_false(policy_admit(policy, &q));
	assert_int_equal(stats_of(policy).nr_wrong, 1);
	assert_false(stats_of(policy).detached);
	weir_policy_close(policy);
}

/* A hook returns an int: the upper half of the register says nothing. */
static void test_policy_bpf_counts_decisions(void **state)
{
	const struct bpf_insn insn[] = {MOVE_IMM(0, 1),
					{0x67, 0, 0, 0, 32}, /* r0 <<= 32 */
					{0x47, 0, 0, 0, 1},  /* r0 |= 1 */
					{EXIT, 0, 0, 0, 0}};
	struct weir_policy *policy = OPEN_MADE("weir_admit", insn);
	struct weir_policy_admit q = {.range.nr_blocks = 4};

	(void)state;
	assert_true(policy_admit(policy, &q));
	q.evict = 2;
	assert_false(policy_admit(policy, &q));
	assert_int_equal(stats_of(policy).asked[POLICY_ADMIT], 2);
	assert_int_equal(stats_of(policy).answered[POLICY_ADMIT], 1);
	assert_int_equal(stats_of(policy).nr_wrong, 1);
	assert_int_equal(stats_of(policy).max_instructions, ARRAY_LEN(insn));
	assert_int_equal(stats_of(policy).nr_instructions, 2 * ARRAY_LEN(insn));
	weir_policy_close(policy);
}

/* What an answer may be, at its ends. */
static void test_policy_bpf_more_has_two_ends(void **state)
{
	(void)state;
	for (int32_t more = -9; more <= 9; more++) {
		const struct bpf_insn insn[] = {
			PUT_4(offsetof(struct weir_policy_fault, more), more),
			ANSWER(WEIR_POLICY_ANSWER)};
		struct weir_policy *policy = OPEN_MADE("weir_fault", insn);
		struct weir_policy_fault q = {.nr_pages = 1};

		assert_int_equal(policy_fault(policy, &q), more >= -8 && more <= 8);
		weir_policy_close(policy);
	}
}

/* The farthest first, of equals whoever came first, and no more than there is room for. */
static void test_policy_bpf_far(void **state)
{
	static const uint64_t next_use[] = {5, 9, 5, 1, 7, 3, 9, 2, 5, 1, 8};
	static const uint32_t at[] = {0, 0, 2, 3, 1, 4, 1, 6, 5, WEIR_POLICY_FAR, 2};
	struct weir_policy_victim q = {.nr_far = 0};

	(void)state;
	for (uint32_t n = 0; n < ARRAY_LEN(next_use); n++)
		assert_int_equal(policy_put_far(&q, next_use[n]), at[n]);
	assert_int_equal(q.nr_far, WEIR_POLICY_FAR);
	for (uint32_t n = 1; n < q.nr_far; n++)
		assert_true(q.far[n - 1].next_use >= q.far[n].next_use);
}

/* ------------------------------------------------------------------ faults, budgets */

static void test_policy_bpf_fault_detaches_and_changes_nothing(void **state)
{
	const struct bpf_insn insn[] = {PUT_8(offsetof(struct weir_policy_moved, range_word), 5),
					PUT_8(sizeof(struct weir_policy_moved) - 4, 1), ANSWER(0)};
	struct weir_policy *policy = OPEN_MADE("weir_moved", insn);
	struct weir_policy_moved q = {.now = 3}, as_it_was = q;

	(void)state;
	policy_moved(policy, &q);
	assert_memory_equal(&q, &as_it_was, sizeof(q));
	assert_false(policy_has(policy, POLICY_MOVED));
	assert_true(stats_of(policy).detached);
	/* Who asks it all the same, since it was attached as he looked, does not call it. */
	assert_int_equal(stats_of(policy).nr_instructions, 2);
	policy_moved(policy, &q);
	assert_int_equal(stats_of(policy).nr_instructions, 2);
	weir_policy_close(policy);
}

static bool same_window(void *arg, struct weir_policy_victim *q)
{
	(*(uint32_t *)arg)++;
	q->window++;
	return true;
}

/* The budget is a decision's: a hook that asks for all windows has a part of it for each. */
static void test_policy_bpf_budget_is_over_all_windows(void **state)
{
	/* 3 instructions of each window, and 2 * turns. */
	const uint32_t windows = 10, turns = (WEIR_POLICY_BUDGET / windows - 3) / 2;
	const struct bpf_insn insn[] = {MOVE_IMM(2, (int32_t)turns),
					{0x17, 2, 0, 0, 1},  /* r2 -= 1 */
					{0x55, 2, 0, -2, 0}, /* if r2 != 0: again */
					ANSWER(WEIR_POLICY_NEXT)};
	struct weir_policy *policy = OPEN_MADE("weir_victim", insn);
	struct weir_policy_victim q = {.nr = 1};
	uint32_t shown = 1;

	(void)state;
	assert_false(policy_victim(policy, &q, same_window, &shown));
	assert_int_equal(shown, windows + 1);
	assert_true(stats_of(policy).detached);
	assert_int_equal(stats_of(policy).max_instructions, WEIR_POLICY_BUDGET);
	weir_policy_close(policy);
}

/* So many windows, and no more. */
static void test_policy_bpf_windows_end(void **state)
{
	const struct bpf_insn insn[] = {ANSWER(WEIR_POLICY_NEXT)};
	struct weir_policy *policy = OPEN_MADE("weir_victim", insn);
	struct weir_policy_victim q = {.nr = 1};
	uint32_t shown = 1;

	(void)state;
	assert_false(policy_victim(policy, &q, same_window, &shown));
	assert_int_equal(shown, WEIR_POLICY_WINDOWS);
	assert_int_equal(stats_of(policy).nr_wrong, 0);
	weir_policy_close(policy);
}

/* ------------------------------------------------------------------ numbers */

static void test_policy_bpf_numbers(void **state)
{
	static const struct {
		const char *text;
		uint32_t bytes;
		bool is_signed, ok;
		uint64_t value;
	} numbers[] = {
		{"255", 1, false, true, 255},
		{"256", 1, false, false, 0},
		{"-1", 1, false, false, 0},
		{"127", 1, true, true, 127},
		{"128", 1, true, false, 0},
		{"-128", 1, true, true, (uint64_t)-128},
		{"-129", 1, true, false, 0},
		{"-32768", 2, true, true, (uint64_t)-32768},
		{"65535", 2, false, true, 65535},
		{"-2147483648", 4, true, true, (uint64_t)INT32_MIN},
		{"2147483648", 4, true, false, 0},
		{"18446744073709551615", 8, false, true, UINT64_MAX},
		{"18446744073709551616", 8, false, false, 0},
		{"-9223372036854775808", 8, true, true, (uint64_t)INT64_MIN},
		{"9223372036854775808", 8, true, false, 0},
		{"0xff", 4, false, true, 255},
		{"0x", 4, false, false, 0},
		{"-0x10", 4, true, true, (uint64_t)-16},
		{"010", 4, false, true, 10},
		{"+1", 4, false, false, 0},
		{" 1", 4, false, false, 0},
		{"1 ", 4, false, false, 0},
		{"--1", 4, true, false, 0},
		{"", 4, false, false, 0},
	};

	(void)state;
	for (uint32_t n = 0; n < ARRAY_LEN(numbers); n++) {
		uint64_t value = 0;
		int ret = policy_number_set(numbers[n].text, numbers[n].bytes, numbers[n].is_signed,
					    &value, err, sizeof(err));

		assert_int_equal(ret, numbers[n].ok ? 0 : -EINVAL);
		if (numbers[n].ok)
			assert_true(policy_number_get(&value, numbers[n].bytes,
						      numbers[n].is_signed) == numbers[n].value);
	}
}

/* Each opening has tunables of its own, also where another one was before. */
static void test_policy_bpf_built_in_twice(void **state)
{
	struct weir_policy_global global;
	struct weir_policy *a, *b;

	(void)state;
	for (int n = 0; n < 3; n++) {
		assert_int_equal(weir_policy_open("more:k=3", &a, err, sizeof(err)), 0);
		assert_true(weir_policy_global_nth(a, 0, &global));
		assert_int_equal(global.value, 3);
		assert_int_equal(weir_policy_open("more:k=4", &b, err, sizeof(err)), 0);
		assert_true(weir_policy_global_nth(b, 0, &global));
		assert_int_equal(global.value, 4);
		assert_true(weir_policy_global_nth(a, 0, &global));
		assert_int_equal(global.value, 3);
		weir_policy_close(a);
		assert_int_equal(weir_policy_open("more:k=5", &a, err, sizeof(err)), 0);
		assert_true(weir_policy_global_nth(a, 0, &global));
		assert_int_equal(global.value, 5);
		weir_policy_close(b);
		weir_policy_close(a);
	}
	assert_int_equal(weir_policy_open("more:k=1,k=2", &a, err, sizeof(err)), -EINVAL);
	assert_string_equal(err, "tunable k is given twice");
	assert_int_equal(weir_policy_open("more\n", &a, err, sizeof(err)), -EINVAL);
	assert_null(strchr(err, '\n'));
}

/* ------------------------------------------------------------------ opening */

static void test_policy_bpf_refuses_what_is_no_policy(void **state)
{
	const struct bpf_insn insn[] = {ANSWER(0)};
	struct weir_policy *policy;

	(void)state;
	refuse_made("weir_victim", insn, ARRAY_LEN(insn), WEIR_POLICY_VERSION + 1,
		    "compiled with version 2");
	refuse_made("weir_evict", insn, ARRAY_LEN(insn), WEIR_POLICY_VERSION,
		    "none of the hooks weir_admit");
	assert_int_equal(weir_policy_open("none/such.o", &policy, err, sizeof(err)), -ENOENT);
	assert_non_null(strstr(err, "none/such.o: No such file"));
	assert_int_equal(weir_policy_open("/dev/null", &policy, err, sizeof(err)), -EINVAL);
}

static void test_policy_bpf_trial_refuses(void **state)
{
	const struct bpf_insn outside[] = {PUT_8(sizeof(struct weir_policy_victim), 1), ANSWER(0)};
	const struct bpf_insn loop[] = {{0x05, 0, 0, -1, 0}};
	/* Only of a window with fewer than 32 candidates is this out of range. */
	const struct bpf_insn last[] = {PUT_4(VICTIM(chosen), 31), ANSWER(WEIR_POLICY_ANSWER)};
	const struct bpf_insn level[] = {PUT_4(offsetof(struct weir_policy_admit, level), 1 << 20),
					 ANSWER(WEIR_POLICY_ANSWER)};
	const struct bpf_insn more[] = {PUT_4(offsetof(struct weir_policy_fault, more), -9),
					ANSWER(WEIR_POLICY_ANSWER)};
	const struct bpf_insn evict[] = {PUT_4(offsetof(struct weir_policy_admit, evict), 2),
					 ANSWER(WEIR_POLICY_ANSWER)};
	const struct bpf_insn next[] = {ANSWER(WEIR_POLICY_NEXT)};

	(void)state;
	refuse_made("weir_admit", evict, ARRAY_LEN(evict), WEIR_POLICY_VERSION, "evict is 2");
	refuse_made("weir_victim", outside, ARRAY_LEN(outside), WEIR_POLICY_VERSION,
		    "weir_victim, instruction 0: store of 8 bytes at offset 3552 of a region of "
		    "3552 that is writable (context 0 of its trial, seed 1)");
	refuse_made("weir_moved", loop, 1, WEIR_POLICY_VERSION, "its budget of instructions");
	refuse_made("weir_victim", last, ARRAY_LEN(last), WEIR_POLICY_VERSION,
		    "weir_victim: chosen is 31 of ");
	refuse_made("weir_admit", level, ARRAY_LEN(level), WEIR_POLICY_VERSION,
		    "weir_admit: level is 1048576 of ");
	refuse_made("weir_fault", more, ARRAY_LEN(more), WEIR_POLICY_VERSION,
		    "weir_fault: more is -9");
	refuse_made("weir_admit", next, ARRAY_LEN(next), WEIR_POLICY_VERSION,
		    "weir_admit: it returned");
}

static void test_policy_bpf_objects_are_opened_as_what_they_are(void **state)
{
	static const char *const wrong[] = {
		":threshold=-1",
		":threshold=4294967296",
		":threshold=",
		":threshold=x",
		":weir_policy_version=2",
		":weir_policy_help_threshold=1",
		":least=1",
		":threshold",
	};
	const char *spec = built("tree", ":threshold=0x20,trial=1");
	struct weir_policy_global global;
	struct weir_policy *policy;

	(void)state;
	assert_int_equal(weir_policy_open("tree:least=1", &policy, err, sizeof(err)), -EINVAL);
	if (!spec)
		skip();
	if (weir_policy_open(spec, &policy, err, sizeof(err)))
		fail_msg("%s", err);
	assert_true(policy_has(policy, POLICY_FAULT) && !policy_has(policy, POLICY_VICTIM));
	assert_non_null(strstr(policy->help, "the driver's tree"));
	assert_int_equal(stats_of(policy).asked[POLICY_FAULT], 0); /* but in the trial */
	assert_true(weir_policy_global_nth(policy, 0, &global));
	assert_string_equal(global.name, "threshold");
	assert_non_null(strstr(global.help, "percent of a subtree"));
	assert_int_equal(global.value, 0x20);
	assert_true(global.tunable && !global.is_signed);
	assert_false(weir_policy_global_nth(policy, 1, &global));
	weir_policy_close(policy);
	for (uint32_t n = 0; n < ARRAY_LEN(wrong); n++)
		assert_int_equal(
			weir_policy_open(built("tree", wrong[n]), &policy, err, sizeof(err)),
			-EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_policy_bpf_answer_and_words_go_back_and_no_more),
		cmocka_unit_test(test_policy_bpf_answer_is_compared_with_what_was_shown),
		cmocka_unit_test(test_policy_bpf_result_that_is_none_is_wrong),
		cmocka_unit_test(test_policy_bpf_counts_decisions),
		cmocka_unit_test(test_policy_bpf_more_has_two_ends),
		cmocka_unit_test(test_policy_bpf_far),
		cmocka_unit_test(test_policy_bpf_windows_end),
		cmocka_unit_test(test_policy_bpf_numbers),
		cmocka_unit_test(test_policy_bpf_built_in_twice),
		cmocka_unit_test(test_policy_bpf_fault_detaches_and_changes_nothing),
		cmocka_unit_test(test_policy_bpf_budget_is_over_all_windows),
		cmocka_unit_test(test_policy_bpf_refuses_what_is_no_policy),
		cmocka_unit_test(test_policy_bpf_trial_refuses),
		cmocka_unit_test(test_policy_bpf_objects_are_opened_as_what_they_are),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
