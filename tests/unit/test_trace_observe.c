/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What comparisons of blocks make of guessed uses: by hand, event after event, and in a trace of a
 * space that compares; and traces that say nothing of it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/trace/part.h"
#include "src/trace/writer.h"
#include "tests/unit/test_space_late.h"
#include "weir/trace.h"
#include "workloads/trace_file.h"

enum { MANY = TRACE_USES_MAX + 1 };

static char path[32];
static struct trace_writer *writer;

static int setup(void **state)
{
	int fd;

	(void)state;
	(void)snprintf(path, sizeof(path), "/tmp/weir-observe-XXXXXX");
	fd = mkstemp(path);
	return fd < 0 ? -1 : close(fd);
}

static int teardown(void **state)
{
	(void)state;
	return unlink(path);
}

/* ------------------------------------------------------------------ traces by hand */

static void *put(enum trace_kind kind, uint32_t stream, size_t bytes)
{
	void *event = trace_writer_event(writer, kind, stream, 1, bytes);

	assert_non_null(event);
	return event;
}

static void put_alloc(uint64_t life, uint32_t nr_blocks)
{
	struct trace_alloc *e = put(TRACE_ALLOC, TRACE_NO_STREAM, sizeof(*e));

	e->life = life;
	e->nr_blocks = nr_blocks;
	e->bytes = nr_blocks * BLOCK - 100; /* the last one is not full */
	trace_writer_commit(writer);
}

/* A machine, a stream, and lives of four and of two blocks. */
static void put_begin(uint32_t flags)
{
	struct trace_stream *stream;
	struct weir_machine_desc desc;
	struct trace_space *e;

	assert_int_equal(trace_writer_open(path, false, &writer), 0);
	e = put(TRACE_SPACE, TRACE_NO_STREAM, sizeof(*e));
	e->block_bytes = BLOCK;
	e->devices = 1;
	e->nr_places = 2;
	e->flags = flags;
	trace_writer_commit(writer);
	test_machine(&desc);
	for (int part = 0; part < TRACE_PART_NR; part++)
		for (uint32_t i = 0; i < trace_part_count(&desc, (enum trace_part)part); i++) {
			size_t bytes = trace_part_words((enum trace_part)part) * sizeof(uint64_t);
			struct trace_machine *m =
				put(TRACE_MACHINE, TRACE_NO_STREAM, sizeof(*m) + bytes);

			m->part = (uint32_t)part;
			m->index = i;
			trace_part_write(&desc, (enum trace_part)part, i, m->word);
			trace_writer_commit(writer);
		}
	stream = put(TRACE_STREAM, 0, sizeof(*stream));
	stream->device = 0;
	trace_writer_commit(writer);
	put_alloc(1, 4);
	put_alloc(2, 2);
}

static struct trace_file_use use_blocks(uint64_t life, uint32_t first, uint32_t nr,
					enum weir_use_kind kind)
{
	uint64_t bytes = nr * BLOCK - 100;

	return (struct trace_file_use){.life = life,
				       .kind = (uint8_t)kind,
				       .offset = first * BLOCK,
				       .bytes = bytes,
				       .read_bytes = bytes};
}

/* A bracket of a stream, or of the CPU, with the same use so many times. */
static void put_bracket(bool host, uint32_t nr, struct trace_file_use use)
{
	static uint32_t number;
	uint32_t here = MIN(nr, TRACE_USES_MAX);
	struct trace_begin *e =
		put(host ? TRACE_HOST_BEGIN : TRACE_BEGIN, host ? TRACE_NO_STREAM : 0,
		    sizeof(*e) + here * sizeof(e->use[0]));

	number++;
	e->number = host ? number : 0;
	e->nr_uses = nr;
	for (uint32_t u = 0; u < here; u++)
		e->use[u] = use;
	trace_writer_commit(writer);
	if (nr > here) {
		struct trace_uses *more = put(TRACE_USES, host ? TRACE_NO_STREAM : 0,
					      sizeof(*more) + (nr - here) * sizeof(use));

		for (uint32_t u = here; u < nr; u++)
			more->use[u - here] = use;
		trace_writer_commit(writer);
	}
	if (host) {
		struct trace_host_end *end = put(TRACE_HOST_END, TRACE_NO_STREAM, sizeof(*end));

		end->number = number;
	} else {
		struct trace_end *end = put(TRACE_END, 0, sizeof(*end));

		end->bracket = number;
	}
	trace_writer_commit(writer);
}

static void put_write(uint64_t life, uint32_t first, uint32_t nr)
{
	put_bracket(false, 1, use_blocks(life, first, nr, WEIR_WRITE));
}

static void put_compared(uint64_t life, uint32_t block, enum trace_compared_result result)
{
	struct trace_compared *e = put(TRACE_COMPARED, TRACE_NO_STREAM, sizeof(*e));

	e->life = life;
	e->block = block;
	e->result = (uint32_t)result;
	trace_writer_commit(writer);
}

static void read_back(struct trace_file *file)
{
	char err[512] = "";

	trace_writer_close(writer);
	writer = NULL;
	if (trace_file_open(path, file, err, sizeof(err)))
		fail_msg("%s", err);
}

/* All uses in order, of the CPU's brackets as well: "r" read, "w" write, "o" overwrite; of those
 * that repeat themselves in a bracket one, with a "+". */
static const char *kinds_of(const struct trace_file *file)
{
	static const char names[] = "rwod";
	static char text[64];
	struct trace_cursor cursor = trace_cursor(file);
	const struct trace_event *event;
	size_t nr = 0;

	while ((event = trace_next(&cursor))) {
		struct trace_use_cursor uses = {.cursor = cursor, .begin = (const void *)event};
		const struct trace_file_use *use;
		char last = 0;

		if (event->kind != TRACE_BEGIN && event->kind != TRACE_HOST_BEGIN)
			continue;
		while ((use = trace_next_use(&uses))) {
			assert_true(nr + 3 < sizeof(text));
			if (names[use->kind] != last)
				text[nr++] = last = names[use->kind];
			else if (text[nr - 1] != '+')
				text[nr++] = '+';
		}
	}
	text[nr] = '\0';
	return text;
}

/* ------------------------------------------------------------------ by hand */

static void test_trace_observe_intervals(void **state)
{
	struct trace_observed observed;
	struct trace_file file;
	char err[128];

	(void)state;
	put_begin(TRACE_SPACE_GUESSED);
	put_write(1, 0, 1); /* before the first digest: not known */
	put_compared(1, 0, TRACE_COMPARED_FIRST);
	put_write(1, 0, 4); /* one block unchanged, the others not known: a read */
	put_write(1, 0, 1);
	put_write(1, 2, 1);					    /* not known */
	put_bracket(true, 1, use_blocks(1, 0, 1, WEIR_WRITE));	    /* the CPU's is declared */
	put_bracket(false, 1, use_blocks(1, 0, 1, WEIR_OVERWRITE)); /* and so is this */
	put_bracket(false, MANY, use_blocks(1, 0, 1, WEIR_WRITE));
	put_compared(1, 0, TRACE_COMPARED_SAME);
	put_write(1, 0, 1);
	put_write(1, 0, 4);
	put_write(1, 1, 3); /* the next comparison of its blocks finds one unchanged */
	put_compared(1, 0, TRACE_COMPARED_CHANGED);
	put_write(1, 0, 4);
	put_compared(1, 1, TRACE_COMPARED_SAME);
	put_write(1, 0, 4); /* nothing is compared any more */
	put_write(2, 0, 2); /* of two blocks one was changed */
	put_write(2, 0, 1);
	put_write(2, 1, 1);
	put_compared(2, 0, TRACE_COMPARED_SAME);
	put_compared(2, 1, TRACE_COMPARED_CHANGED);
	put_compared(0, 7, TRACE_COMPARED_SAME); /* of freed memory */
	put_bracket(false, 1, use_blocks(0, 0, 1, WEIR_WRITE));
	read_back(&file);
	assert_string_equal(kinds_of(&file), "wwwwwow+wwwwwwwww");
	assert_int_equal(trace_file_observe(&file, &observed, err, sizeof(err)), 0);
	assert_string_equal(kinds_of(&file), "wrrwwor+wwrrwwrww");
	assert_int_equal(observed.nr_writes, 13 + MANY);
	assert_int_equal(observed.nr_reads, 5 + MANY);
	/* Once more there is nothing left to find. */
	assert_int_equal(trace_file_observe(&file, &observed, err, sizeof(err)), 0);
	assert_int_equal(observed.nr_reads, 0);
	trace_file_close(&file);
}

/* Of a trace from before there were comparisons, and of one with declared uses. */
static void test_trace_observe_nothing(void **state)
{
	static const char *const why[] = {"it holds no comparisons of blocks",
					  "it holds no comparisons of blocks",
					  "its uses are declared, and no guesses"};

	(void)state;
	for (int i = 0; i < 3; i++) {
		struct trace_observed observed;
		struct trace_file file;
		char err[128];

		put_begin(i == 1 ? TRACE_SPACE_GUESSED : 0);
		put_write(1, 0, 4);
		if (i == 2)
			put_compared(1, 0, TRACE_COMPARED_SAME);
		read_back(&file);
		assert_int_equal(trace_file_observe(&file, &observed, err, sizeof(err)), -ENODATA);
		assert_string_equal(err, why[i]);
		assert_string_equal(kinds_of(&file), "w");
		assert_int_equal(observed.nr_reads, 0);
		trace_file_close(&file);
	}
}

static void test_trace_observe_refuses(void **state)
{
	static const struct {
		uint64_t life;
		uint32_t block, result;
	} bad[] = {{1, 4, 1}, {3, 0, 1}, {2, 1, 3}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct trace_file file;
		char err[512];

		put_begin(TRACE_SPACE_GUESSED);
		put_compared(bad[i].life, bad[i].block, (enum trace_compared_result)bad[i].result);
		trace_writer_close(writer);
		assert_int_equal(trace_file_open(path, &file, err, sizeof(err)), -EINVAL);
		assert_non_null(strstr(err, "a comparison that cannot be"));
	}
}

/* ------------------------------------------------------------------ of a space */

static void name(struct test_space *t, uint8_t *addr, uint32_t expect, uint32_t to_put)
{
	struct weir_use use = use_of(addr, X_BYTES, WEIR_WRITE);

	use.read_bytes *= MUCH;
	do_begin_uses(t, 0, &use, 1);
	do_launch(t, 0, addr, X_BYTES, to_put ? WEIR_WRITE : WEIR_READ, expect, to_put);
	do_end(t, 0);
	do_sync(t);
}

/* x is only read in its brackets, and y is written in each of them. */
static void test_trace_observe_space(void **state)
{
	struct weir_space_stats stats;
	struct trace_observed observed;
	struct trace_file file;
	struct test_space t;
	uint32_t seed = 2;
	char err[512];
	uint8_t *x, *y;

	(void)state;
	test_space_open(&t, WEIR_DATA_REAL, WEIR_PLANNED, BLOCK, HBM_BLOCKS, 8 * HBM_BLOCKS);
	assert_int_equal(compare_init(t.space), 0);
	t.space->guessed = true;
	assert_int_equal(weir_space_trace(t.space, path), 0);
	x = do_alloc(&t, X_BYTES, 0);
	y = do_alloc(&t, X_BYTES, 0);
	do_fill(&t, 0, x, X_BYTES, 1);
	do_fill(&t, 0, y, X_BYTES, 2);
	do_sync(&t);
	for (int i = 0; i < 4; i++, seed++) {
		name(&t, x, 1, 0);
		name(&t, y, seed, seed + 1);
	}
	stats = get_stats(&t);
	test_space_close(&t);
	assert_int_equal(trace_file_open(path, &file, err, sizeof(err)), 0);
	/* As it came up, and as it left. */
	assert_true(file.nr_of[TRACE_COMPARED] >= 2 * stats.nr_compared);
	assert_string_equal(kinds_of(&file), "oowwwwwwww");
	assert_int_equal(trace_file_observe(&file, &observed, err, sizeof(err)), 0);
	/* x left for the first time while y was filled. */
	assert_string_equal(kinds_of(&file), "oorwrwrwrw");
	trace_file_close(&file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_trace_observe_intervals),
		cmocka_unit_test(test_trace_observe_nothing),
		cmocka_unit_test(test_trace_observe_refuses),
		cmocka_unit_test(test_trace_observe_space),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
