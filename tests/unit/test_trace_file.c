/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Traces: a program's calls are found again in the file, as events and as the steps that bounds
 * take; what becomes of a file that is there, of a full disk, of a killed process and of a fork;
 * and damaged traces are refused.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/trace/part.h"
#include "tests/support/space.h"
#include "weir/trace.h"
#include "workloads/bound.h"
#include "workloads/trace_file.h"

#define BLOCK KIB(16)
#define EPOCHS 60u

static char folder[] = "/tmp/weir-trace-XXXXXX";
static char path[sizeof(folder) + 16], second[sizeof(path) + 4];

static int setup(void **state)
{
	(void)state;
	if (!mkdtemp(folder))
		return -1;
	(void)snprintf(path, sizeof(path), "%s/a.trace", folder);
	(void)snprintf(second, sizeof(second), "%s.2", path);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	(void)unlink(path);
	(void)unlink(second);
	return rmdir(folder);
}

static void start(struct test_space *t)
{
	test_space_open(t, WEIR_DATA_REAL, WEIR_PLANNED, BLOCK, 8, 32);
	assert_int_equal(weir_space_trace(t->space, path), 0);
}

/* Something that repeats itself and does not fit, with marks. */
static void program(struct test_space *t, uint32_t epochs)
{
	uint8_t *a = do_alloc(t, 6 * BLOCK, 0), *small = do_alloc(t, 1000, 0);

	do_write(t, a, 6 * BLOCK, 1);
	do_fill(t, 0, small, 1000, 7);
	for (uint32_t i = 0; i < epochs; i++) {
		char name[32];
		uint8_t *x;

		(void)snprintf(name, sizeof(name), "epoch %u", i + 1);
		weir_space_trace_mark(t->space, name);
		do_expect(t, 0, a, 6 * BLOCK, 1);
		x = do_alloc(t, 6 * BLOCK, 0);
		do_fill(t, 0, x, 6 * BLOCK, 1000 + i);
		do_expect(t, 0, x, 6 * BLOCK, 1000 + i);
		do_free(t, x, 0);
	}
	do_sync(t);
	do_free(t, small, 0);
	do_free(t, a, 0);
}

static void read_back(struct trace_file *file)
{
	char err[512] = "";

	if (trace_file_open(path, file, err, sizeof(err)))
		fail_msg("%s", err);
}

static const void *find(const struct trace_file *file, uint32_t kind, uint32_t nth)
{
	struct trace_cursor cursor = trace_cursor(file);
	const struct trace_event *event;

	while ((event = trace_next(&cursor)))
		if (event->kind == kind && !nth--)
			return event;
	return NULL;
}

static void test_trace_file_has_what_was_done(void **state)
{
	struct weir_space_stats stats;
	const struct trace_alloc *alloc;
	const struct trace_begin *begin;
	const struct trace_mark *mark;
	struct trace_file file;
	struct test_space t;
	uint64_t nr_moves = 0;

	(void)state;
	test_plan_work_ns = 1; /* a part of the description */
	start(&t);
	test_plan_work_ns = 0;
	program(&t, EPOCHS);
	stats = get_stats(&t);
	assert_int_equal(weir_space_trace(t.space, NULL), 0);
	read_back(&file);
	assert_true(file.ended);
	assert_memory_equal(&file.machine, weir_machine_describe(t.machine), sizeof(file.machine));
	assert_int_equal(file.space->block_bytes, BLOCK);
	assert_int_equal(file.nr_lives, EPOCHS + 2);
	assert_int_equal(file.nr_of[TRACE_FREE], EPOCHS + 2);
	assert_int_equal(file.nr_brackets, stats.nr_brackets);
	assert_int_equal(file.nr_of[TRACE_BEGIN], stats.nr_brackets);
	assert_int_equal(file.nr_of[TRACE_MARK], EPOCHS);
	assert_int_equal(file.nr_of[TRACE_PLAN], stats.nr_plans);
	assert_true(file.nr_of[TRACE_PLAN] > 0);
	for (int cause = 0; cause < WEIR_CAUSE_NR; cause++)
		nr_moves += stats.nr_moves[cause];
	assert_true(nr_moves > 0);
	assert_int_equal(file.nr_of[TRACE_MOVE], nr_moves);
	assert_true(file.nr_of[TRACE_TIME] > stats.nr_brackets / 20);
	alloc = find(&file, TRACE_ALLOC, 0);
	assert_int_equal(alloc->bytes, 6 * BLOCK);
	assert_int_equal(alloc->nr_blocks, 6);
	alloc = find(&file, TRACE_ALLOC, 1);
	assert_int_equal(alloc->bytes, 1024);
	assert_int_equal(alloc->nr_blocks, 0);
	begin = find(&file, TRACE_BEGIN, 0);
	assert_int_equal(begin->nr_uses, 1);
	assert_int_equal(begin->use[0].life, 2);
	assert_int_equal(begin->use[0].offset, 0);
	begin = find(&file, TRACE_BEGIN, 1);
	assert_int_equal(begin->use[0].life, 1);
	assert_int_equal(begin->use[0].kind, WEIR_READ);
	mark = find(&file, TRACE_MARK, 4);
	assert_string_equal(mark->text, "epoch 5");
	assert_int_equal(file.nr_names, 1);
	assert_string_equal(file.name[1], "cells");
	trace_file_close(&file);
	test_space_close(&t);
}

/* The kinds beyond the first four are recorded as what they are to the planner. */
static void test_trace_file_kinds_of_uses(void **state)
{
	static const uint8_t recorded[] = {WEIR_READ,	 WEIR_WRITE, WEIR_OVERWRITE,
					   WEIR_DISCARD, WEIR_READ,  WEIR_WRITE};
	struct trace_file file;
	struct test_space t;
	uint8_t *a;

	(void)state;
	start(&t);
	a = do_alloc(&t, BLOCK, 0);
	for (uint32_t kind = 0; kind < ARRAY_LEN(recorded); kind++) {
		do_begin(&t, 0, a, BLOCK, (enum weir_use_kind)kind);
		do_end(&t, 0);
	}
	test_space_close(&t);
	read_back(&file);
	for (uint32_t kind = 0; kind < ARRAY_LEN(recorded); kind++) {
		const struct trace_begin *begin = find(&file, TRACE_BEGIN, kind);

		assert_int_equal(begin->use[0].kind, recorded[kind]);
	}
	trace_file_close(&file);
}

/* The planner takes the same decisions at the same times, whether a trace is written or not. */
static void test_trace_file_changes_nothing(void **state)
{
	uint64_t ns[2];

	(void)state;
	for (int traced = 0; traced < 2; traced++) {
		struct test_space t;

		test_space_open(&t, WEIR_DATA_PHANTOM, WEIR_PLANNED, BLOCK, 8, 32);
		if (traced)
			assert_int_equal(weir_space_trace(t.space, path), 0);
		for (uint32_t i = 0; i < 3; i++)
			program(&t, EPOCHS);
		ns[traced] = weir_machine_now_ns(t.machine);
		test_space_close(&t);
	}
	assert_int_equal(ns[0], ns[1]);
}

static void test_trace_file_gives_steps(void **state)
{
	struct trace_span span;
	struct trace_file file;
	struct trace *trace;
	struct test_space t;
	char err[512];

	(void)state;
	start(&t);
	program(&t, EPOCHS);
	test_space_close(&t);
	read_back(&file);
	assert_int_equal(trace_file_span(&file, "epoch 41", "epoch 43", &span, err, sizeof(err)),
			 0);
	assert_int_equal(trace_file_steps(&file, &span, &trace, err, sizeof(err)), 0);
	assert_int_equal(trace_check(trace), 0);
	assert_int_equal(trace->nr_steps, 6);
	assert_int_equal(trace->nr_lives, 4);
	assert_int_equal(trace->lives[0].birth, TRACE_NEVER);
	assert_int_equal(trace->lives[2].birth, 1);
	assert_int_equal(trace->lives[2].death, 3);
	assert_int_equal(trace->uses[1].kind, WEIR_OVERWRITE);
	assert_true(trace->steps[1].compute_ns > 0);
	assert_string_equal(trace->steps[5].name, "cells");
	trace_destroy(trace);
	span = (struct trace_span){.end = file.nr_events};
	assert_int_equal(trace_file_steps(&file, &span, &trace, err, sizeof(err)), 0);
	assert_int_equal(trace_check(trace), 0);
	assert_null(trace->steps[0].name); /* the program's write */
	assert_int_equal(trace->nr_steps, 2 + 3 * EPOCHS);
	trace_destroy(trace);
	assert_int_equal(trace_file_span(&file, "epoch 9", "epoch 8", &span, err, sizeof(err)),
			 -ENOENT);
	trace_file_close(&file);
}

/* Recording begins while brackets are open, blocks are backed and copies are under way. */
static void test_trace_file_begins_anywhere(void **state)
{
	struct trace_file file;
	struct test_space t;
	uint8_t *a, *b;

	(void)state;
	test_space_open(&t, WEIR_DATA_PHANTOM, WEIR_PLANNED, BLOCK, 8, 32);
	a = do_alloc(&t, 6 * BLOCK, 0);
	b = do_alloc(&t, 6 * BLOCK, 0);
	do_fill(&t, 0, a, 6 * BLOCK, 1);
	do_fill(&t, 0, b, 6 * BLOCK, 1);
	assert_int_equal(weir_prefetch(t.space, a, 6 * BLOCK, t.desc.device[0].memory, NULL), 0);
	do_begin(&t, 0, b, BLOCK, WEIR_READ);
	assert_int_equal(weir_space_trace(t.space, path), 0);
	assert_int_equal(weir_space_trace(t.space, path), -EALREADY);
	do_end(&t, 0);
	program(&t, 4);
	assert_int_equal(weir_space_trace(t.space, NULL), 0);
	read_back(&file);
	assert_true(file.ended);
	assert_int_equal(file.life[1].flags & file.life[2].flags, TRACE_ALLOC_BEFORE);
	trace_file_close(&file);
	/* Once more: lives of the first trace are not those of the second. */
	assert_int_equal(weir_space_trace(t.space, path), 0);
	program(&t, 4);
	assert_int_equal(weir_space_trace(t.space, NULL), 0);
	read_back(&file);
	assert_int_equal(file.nr_lives, 2 + 2 + 4);
	trace_file_close(&file);
	test_space_close(&t);
}

/* A bracket that names the whole space, in which pieces of a block were given back. */
static void test_trace_file_of_the_whole_space(void **state)
{
	const struct trace_begin *begin;
	struct trace_file file;
	struct test_space t;
	uint8_t *a, *b;

	(void)state;
	start(&t);
	a = do_alloc(&t, 1000, 0);
	b = do_alloc(&t, 1000, 0);
	(void)do_alloc(&t, BLOCK, 0);
	do_free(&t, a, 0);
	assert_int_equal(weir_begin(t.space, t.stream[0], NULL, 0), 0);
	do_end(&t, 0);
	do_free(&t, b, 0);
	test_space_close(&t);
	read_back(&file);
	begin = find(&file, TRACE_BEGIN, 0);
	assert_int_equal(begin->nr_uses, 2);
	assert_int_equal(begin->use[1].life, 0);
	assert_int_equal(begin->use[0].life, 3);
	trace_file_close(&file);
}

static void test_trace_file_replaces_traces_alone(void **state)
{
	struct trace_file file;
	struct test_space t;
	FILE *other;

	(void)state;
	start(&t);
	program(&t, 2);
	test_space_close(&t);
	start(&t); /* a trace that is there is replaced */
	test_space_close(&t);
	read_back(&file);
	assert_int_equal(file.nr_brackets, 0);
	trace_file_close(&file);

	other = fopen(path, "w");
	assert_non_null(other);
	assert_true(fputs("my thesis", other) > 0);
	assert_int_equal(fclose(other), 0);
	test_space_open(&t, WEIR_DATA_PHANTOM, WEIR_PLANNED, BLOCK, 8, 32);
	assert_int_equal(weir_space_trace(t.space, path), -EEXIST);
	assert_int_equal(weir_space_trace(t.space, "/dev/null"), -EEXIST);
	assert_int_equal(weir_space_trace(t.space, "/nowhere/a"), -ENOENT);
	assert_int_equal(unlink(path), 0);
	test_space_close(&t);
}

/* WEIR_TRACE: each space of the process gets a file; who can have none goes on without. */
static void test_trace_file_by_environment(void **state)
{
	const struct weir_space_config config = {.block_bytes = BLOCK, .mode = WEIR_PLANNED};
	struct weir_space *other;
	struct trace_file file;
	struct test_space t;
	char err[512];

	(void)state;
	assert_int_equal(setenv("WEIR_TRACE", path, 1), 0);
	test_space_open(&t, WEIR_DATA_PHANTOM, WEIR_PLANNED, BLOCK, 8, 32);
	assert_int_equal(weir_space_create(t.machine, &config, &other), 0);
	assert_int_equal(weir_space_trace(other, path), -EALREADY);
	assert_int_equal(weir_space_trace(other, NULL), 0);
	assert_int_equal(weir_space_trace(other, path), -EBUSY);
	weir_space_destroy(other);
	program(&t, 1);
	test_space_close(&t);
	read_back(&file);
	assert_int_equal(file.nr_brackets, 4);
	trace_file_close(&file);
	assert_int_equal(trace_file_open(second, &file, err, sizeof(err)), 0);
	trace_file_close(&file);
	assert_int_equal(setenv("WEIR_TRACE", "/nowhere/a", 1), 0);
	test_space_open(&t, WEIR_DATA_PHANTOM, WEIR_PLANNED, BLOCK, 8, 32);
	program(&t, 1);
	test_space_close(&t);
	assert_int_equal(unsetenv("WEIR_TRACE"), 0);
}

/* A file that cannot grow: what is there can be read, and the program did not notice. */
static void test_trace_file_on_a_full_disk(void **state)
{
	struct rlimit old, limit;
	struct trace_file file;
	struct test_space t;
	struct stat info;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	limit = old;
	limit.rlim_cur = 1 << 19;
	test_space_open(&t, WEIR_DATA_PHANTOM, WEIR_PLANNED, BLOCK, 8, 32);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	assert_int_equal(weir_space_trace(t.space, path), -EFBIG);
	limit.rlim_cur = 3 << 20;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	assert_int_equal(weir_space_trace(t.space, path), 0);
	for (uint32_t i = 0; i < 40; i++)
		program(&t, 5 * EPOCHS);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	test_space_close(&t);
	read_back(&file);
	assert_false(file.ended);
	assert_true(file.nr_brackets > 1000 && file.nr_brackets < 600 * EPOCHS);
	assert_int_equal(stat(path, &info), 0);
	assert_true(info.st_size > 2 << 20 && info.st_size <= 3 << 20);
	trace_file_close(&file);
}

static void test_trace_file_of_a_killed_process(void **state)
{
	struct trace_file file;
	int status;
	pid_t pid;

	(void)state;
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		struct test_space t;

		start(&t);
		program(&t, 300);
		weir_space_trace_mark(t.space, "the end");
		(void)kill(getpid(), SIGKILL);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	read_back(&file);
	assert_false(file.ended);
	assert_int_equal(file.nr_of[TRACE_MARK], 301);
	assert_int_equal(file.nr_brackets, 1 + 3 * 300);
	trace_file_close(&file);
}

/* A child has a copy of the space, and of the mapping. */
static void test_trace_file_of_a_fork(void **state)
{
	struct trace_file file;
	struct test_space t;
	int status;
	pid_t pid;

	(void)state;
	start(&t);
	weir_space_trace_mark(t.space, "before");
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		weir_space_trace_mark(t.space, "in the child");
		weir_space_destroy(t.space);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	weir_space_trace_mark(t.space, "after");
	test_space_close(&t);
	read_back(&file);
	assert_true(file.ended);
	assert_int_equal(file.nr_of[TRACE_MARK], 2);
	trace_file_close(&file);
}

/* Any byte of a trace that ended as it should, changed; and any shorter one. */
static void test_trace_file_refuses_damage(void **state)
{
	struct trace_file file;
	struct test_space t;
	uint64_t nr_bytes;
	char err[512], *bytes;

	(void)state;
	start(&t);
	program(&t, 3);
	test_space_close(&t);
	read_back(&file);
	nr_bytes = (file.end + 4095) / 4096 * 4096;
	bytes = malloc(nr_bytes);
	assert_non_null(bytes);
	memcpy(bytes, file.bytes, nr_bytes);
	trace_file_close(&file);
	for (uint64_t i = 0; i < nr_bytes; i++) {
		char *copy = malloc(i + 8);

		assert_non_null(copy);
		memcpy(copy, bytes, i);
		if (i % 7 == 0)
			assert_int_equal(trace_file_view("x", copy, i, &file, err, sizeof(err)),
					 -EINVAL);
		free(copy);
		bytes[i] ^= (char)(1 << i % 8);
		assert_int_equal(trace_file_view("x", bytes, nr_bytes, &file, err, sizeof(err)),
				 -EINVAL);
		assert_true(!strncmp(err, "x: ", 3) && !strchr(err, '\n'));
		bytes[i] ^= (char)(1 << i % 8);
	}
	assert_int_equal(trace_file_view("x", bytes, nr_bytes, &file, err, sizeof(err)), 0);
	trace_file_close(&file);
	((struct trace_header *)(void *)bytes)->version = 9;
	((struct trace_header *)(void *)bytes)->crc =
		trace_crc(0, bytes, offsetof(struct trace_header, crc));
	assert_int_equal(trace_file_view("x", bytes, nr_bytes, &file, err, sizeof(err)), -EINVAL);
	assert_string_equal(err, "x: the trace is of version 9; this weir reads versions 1 to 5");
	free(bytes);
}

/* A description's parts are refused where they say what it cannot hold. */
static void test_trace_file_parts(void **state)
{
	struct weir_machine_desc from, to;
	uint64_t word[TRACE_PART_WORDS_MAX];

	(void)state;
	test_machine(&from);
	trace_part_write(&from, TRACE_PART_MACHINE, 0, word);
	assert_true(trace_part_read(&to, TRACE_PART_MACHINE, 0, word));
	assert_false(trace_part_read(&to, TRACE_PART_NR, 0, word));
	assert_false(trace_part_read(&to, TRACE_PART_MEMORY, from.nr_memories, word));
	/* Four words of its name, and then memories, devices, links, kernels, ports. */
	for (uint32_t w = 4; w < 9; w++) {
		const uint64_t is = word[w];

		word[w] = 1000;
		assert_false(trace_part_read(&to, TRACE_PART_MACHINE, 0, word));
		word[w] = is | UINT64_C(1) << 32;
		assert_false(trace_part_read(&to, TRACE_PART_MACHINE, 0, word));
		word[w] = is;
	}
	memset(word, 'x', WEIR_NAME_MAX); /* a name that does not end */
	assert_false(trace_part_read(&to, TRACE_PART_MACHINE, 0, word));
}

/* Values of CRC-32C that are known: RFC 3720, B.4. */
static void test_trace_file_checksum(void **state)
{
	uint64_t words[4] = {0};

	(void)state;
	assert_int_equal(trace_crc(0, words, sizeof(words)), 0x8a9136aa);
	memset(words, 0xff, sizeof(words));
	assert_int_equal(trace_crc(0, words, sizeof(words)), 0x62a8ab43);
	for (uint32_t i = 0; i < sizeof(words); i++)
		((uint8_t *)words)[i] = (uint8_t)i;
	assert_int_equal(trace_crc(0, words, sizeof(words)), 0x46dd794e);
	assert_int_equal(trace_crc(trace_crc(0, words, 12), (char *)words + 12, 20), 0x46dd794e);
}

/* More kernels than names are remembered of, with names that are cut. */
static void test_trace_file_many_names(void **state)
{
	enum { KERNELS = 1200, LENGTH = 300 };
	char(*name)[LENGTH] = calloc(KERNELS, sizeof(*name));
	struct weir_kernel *kernel = calloc(KERNELS, sizeof(*kernel));
	struct trace_file file;
	struct test_space t;
	uint8_t *addr;

	(void)state;
	assert_true(name && kernel);
	test_space_open(&t, WEIR_DATA_PHANTOM, WEIR_PLANNED, BLOCK, 8, 32);
	assert_int_equal(weir_space_trace(t.space, path), 0);
	addr = do_alloc(&t, BLOCK, 0);
	for (uint32_t k = 0; k < KERNELS; k++) {
		const struct weir_use use = use_of(addr, BLOCK, WEIR_OVERWRITE);
		const struct weir_launch launch = {
			.kernel = &kernel[k], .uses = &use, .nr_uses = 1};

		memset(name[k], 'n', LENGTH - 1);
		(void)snprintf(name[k], LENGTH, "%u", k);
		name[k][strlen(name[k])] = 'n';
		kernel[k].name = name[k];
		assert_int_equal(weir_begin(t.space, t.stream[0], &use, 1), 0);
		assert_int_equal(weir_stream_launch(t.stream[0], &launch), 0);
		assert_int_equal(weir_end(t.space, t.stream[0]), 0);
	}
	assert_int_equal(weir_space_trace(t.space, NULL), 0);
	read_back(&file);
	assert_int_equal(file.nr_brackets, KERNELS);
	assert_int_equal(file.nr_names, KERNELS);
	for (uint32_t k = 0; k < KERNELS; k++) {
		assert_int_equal(strlen(file.name[k + 1]), TRACE_TEXT_MAX);
		assert_memory_equal(file.name[k + 1], name[k], TRACE_TEXT_MAX);
	}
	trace_file_close(&file);
	do_free(&t, addr, 0);
	test_space_close(&t);
	free(name);
	free(kernel);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_trace_file_has_what_was_done),
		cmocka_unit_test(test_trace_file_kinds_of_uses),
		cmocka_unit_test(test_trace_file_changes_nothing),
		cmocka_unit_test(test_trace_file_gives_steps),
		cmocka_unit_test(test_trace_file_begins_anywhere),
		cmocka_unit_test(test_trace_file_of_the_whole_space),
		cmocka_unit_test(test_trace_file_replaces_traces_alone),
		cmocka_unit_test(test_trace_file_by_environment),
		cmocka_unit_test(test_trace_file_on_a_full_disk),
		cmocka_unit_test(test_trace_file_of_a_killed_process),
		cmocka_unit_test(test_trace_file_of_a_fork),
		cmocka_unit_test(test_trace_file_refuses_damage),
		cmocka_unit_test(test_trace_file_parts),
		cmocka_unit_test(test_trace_file_checksum),
		cmocka_unit_test(test_trace_file_many_names),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
