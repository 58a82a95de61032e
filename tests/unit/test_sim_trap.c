/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the simulator traps, with real bytes: every kind once, that the log names kernel and block,
 * that the kernel finishes, that the bytes it must not have are as before, and that the next
 * kernel runs. And what it must not trap.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "tests/support/log_watch.h"
#include "tests/unit/test_sim_machine.h"

#define UNIT KIB(64)
#define NR 4u

struct fixture {
	struct backend *b;
	stream_id_t compute, in, out;
	struct backend_chunk chunk[NR]; /* mapped at va in order; the last one on the host */
	struct backend_chunk spare;	/* on the host */
	uint8_t *va;
	struct log_watch errors;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct weir_machine_desc desc;

	assert_non_null(f);
	test_machine(&desc);
	assert_int_equal(sim_create(&desc, WEIR_DATA_REAL, &f->b), 0);
	assert_int_equal(f->b->ops->stream_create(f->b, 0, BACKEND_COMPUTE, &f->compute), 0);
	assert_int_equal(f->b->ops->stream_create(f->b, 0, BACKEND_COPY_IN, &f->in), 0);
	assert_int_equal(f->b->ops->stream_create(f->b, 0, BACKEND_COPY_OUT, &f->out), 0);
	assert_int_equal(f->b->ops->va_reserve(f->b, NR * UNIT, UNIT, (void **)&f->va), 0);
	assert_int_equal(f->b->ops->chunk_create(f->b, HOST, UNIT, 0, &f->spare), 0);
	for (uint32_t i = 0; i < NR; i++) {
		assert_int_equal(f->b->ops->chunk_create(f->b, i == NR - 1 ? HOST : GPU0, UNIT, 0,
							 &f->chunk[i]),
				 0);
		memset(f->chunk[i].alias, (int)(10 + i), UNIT);
		assert_int_equal(
			f->b->ops->map(f->b, f->va + i * UNIT, &f->chunk[i], BACKEND_PROT_WRITE, 1),
			0);
	}
	assert_int_equal(f->b->ops->access_guard(f->b, f->va, true), 0);
	log_watch(&f->errors, WEIR_LOG_ERROR);
	*state = f;
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
	b->ops->chunk_destroy(b, &f->spare);
	b->ops->va_release(b, f->va, NR * UNIT);
	b->ops->stream_destroy(b, f->compute);
	b->ops->stream_destroy(b, f->in);
	b->ops->stream_destroy(b, f->out);
	assert_int_equal(sim_leaks(b), 0);
	b->ops->destroy(b);
	weir_log_set(NULL, NULL);
	free(f);
	return 0;
}

static int sync_stream(struct fixture *f)
{
	fence_t fence;

	assert_int_equal(f->b->ops->fence_record(f->b, f->compute, &fence), 0);
	return f->b->ops->fence_wait(f->b, fence);
}

/* One launch in a bracket that declares what the launch does. */
static int run(struct fixture *f, struct touch touch, struct weir_use use)
{
	assert_int_equal(f->b->ops->access_begin(f->b, f->compute, NULL, &use, 1), 0);
	assert_int_equal(launch_touch(f->b, f->compute, touch, &use, 1), 0);
	f->b->ops->access_end(f->b, f->compute, NULL);
	return sync_stream(f);
}

static void expect_trap(struct fixture *f, int err, const char *part, uint32_t block)
{
	char name[32];

	snprintf(name, sizeof(name), "block %u of", block);
	assert_int_equal(err, -WEIR_ETRAP);
	assert_int_equal(f->errors.nr, 1);
	if (!strstr(f->errors.last, part) || !strstr(f->errors.last, name) ||
	    !strstr(f->errors.last, "'touch'"))
		fail_msg("\"%s\" does not say \"%s\", block %u and the kernel", f->errors.last,
			 part, block);
	f->errors.nr = 0;
}

/* What is right still runs. */
static void expect_sound(struct fixture *f)
{
	uint32_t sum = 0;

	for (uint32_t i = 0; i < NR; i++)
		assert_int_equal(run(f,
				     (struct touch){.read = f->va + i * UNIT + 5,
						    .write = f->va + i * UNIT + 5,
						    .value = (uint8_t)(10 + i),
						    .sum = &sum},
				     use_of(f->va + i * UNIT, UNIT, WEIR_WRITE)),
				 0);
	assert_int_equal(sum, 10 + 11 + 12 + 13);
	assert_int_equal(f->errors.nr, 0);
}

/* ------------------------------------------------------------------ touches */

static void test_undeclared_read(void **state)
{
	struct fixture *f = *state;
	uint32_t sum = 0;

	expect_trap(f,
		    run(f, (struct touch){.read = f->va + 2 * UNIT, .sum = &sum},
			use_of(f->va, UNIT, WEIR_WRITE)),
		    "undeclared read", 2);
	assert_int_equal(sum, 0); /* not the bytes it asked for */
	expect_sound(f);
}

static void test_undeclared_write(void **state)
{
	struct fixture *f = *state;

	/* One page beyond the use, in its own block. */
	expect_trap(f,
		    run(f, (struct touch){.write = f->va + UNIT + KIB(8), .value = 99},
			use_of(f->va + UNIT, KIB(8), WEIR_WRITE)),
		    "undeclared write", 1);
	assert_int_equal(((uint8_t *)f->chunk[1].alias)[KIB(8)], 11);
	expect_sound(f);
}

static void test_write_to_a_read_use(void **state)
{
	struct fixture *f = *state;

	expect_trap(f,
		    run(f, (struct touch){.write = f->va + 100, .value = 99},
			use_of(f->va, UNIT, WEIR_READ)),
		    "read-only", 0);
	assert_int_equal(((uint8_t *)f->chunk[0].alias)[100], 10);
	expect_sound(f);
}

static void test_touch_of_an_unmapped_block(void **state)
{
	struct fixture *f = *state;
	uint32_t sum = 0;

	assert_int_equal(f->b->ops->unmap(f->b, f->va + UNIT), 0);
	expect_trap(f,
		    run(f, (struct touch){.read = f->va + UNIT, .sum = &sum},
			use_of(f->va, UNIT, WEIR_READ)),
		    "undeclared read", 1);
	assert_int_equal(f->b->ops->map(f->b, f->va + UNIT, &f->chunk[1], BACKEND_PROT_WRITE, 1),
			 0);
	expect_sound(f);
}

static void sweep_cpu(const void *args)
{
	struct fixture *f = *(struct fixture *const *)args;

	/* More pages than the handler takes one by one. */
	for (uint64_t i = 0; i < NR * UNIT; i += 128)
		f->va[i] = 99;
}

static void *sweep_thread(void *arg)
{
	sweep_cpu(&arg);
	return NULL;
}

static void threads_cpu(const void *args)
{
	pthread_t thread[4];

	for (int i = 0; i < 4; i++)
		assert_int_equal(
			pthread_create(&thread[i], NULL, sweep_thread, *(void *const *)args), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
}

static void test_touch_of_everything(void **state)
{
	struct fixture *f = *state;
	const struct weir_kernel kernels[] = {{.name = "touch", .cpu = sweep_cpu},
					      {.name = "'touch' threads", .cpu = threads_cpu}};

	for (int k = 0; k < 2; k++) {
		struct weir_use use = use_of(f->va + UNIT, UNIT, WEIR_WRITE);
		struct weir_launch launch = {.kernel = &kernels[k],
					     .args = &f,
					     .args_bytes = sizeof(f),
					     .uses = &use,
					     .nr_uses = 1};

		assert_int_equal(f->b->ops->access_begin(f->b, f->compute, NULL, &use, 1), 0);
		assert_int_equal(f->b->ops->launch(f->b, f->compute, &launch), 0);
		f->b->ops->access_end(f->b, f->compute, NULL);
		assert_int_equal(sync_stream(f), -WEIR_ETRAP);
		assert_int_equal(f->errors.nr, 1);
		f->errors.nr = 0;
		for (uint32_t i = 0; i < NR; i++)
			if (i != 1)
				assert_int_equal(((uint8_t *)f->chunk[i].alias)[0], 10 + i);
		memset(f->chunk[1].alias, 11, UNIT);
		expect_sound(f);
	}
}

/* ------------------------------------------------------------------ declarations */

static void test_bracket_does_not_declare(void **state)
{
	struct fixture *f = *state;
	struct weir_use uses[2] = {use_of(f->va, UNIT, WEIR_READ),
				   use_of(f->va + UNIT, UNIT, WEIR_OVERWRITE)};
	struct weir_use both = use_of(f->va, 2 * UNIT, WEIR_READ);
	struct weir_use first = use_of(f->va + KIB(4), KIB(4), WEIR_WRITE);
	uint32_t sum = 0;

	assert_int_equal(f->b->ops->access_begin(f->b, f->compute, NULL, uses, 2), 0);
	/* Over both, and read what the bracket overwrites. */
	assert_int_equal(launch_touch(f->b, f->compute,
				      (struct touch){.read = f->va + UNIT, .sum = &sum}, &both, 1),
			 0);
	assert_int_equal(sync_stream(f), 0);
	assert_int_equal(sum, 11);
	assert_int_equal(
		launch_touch(f->b, f->compute, (struct touch){.write = f->va + KIB(4)}, &first, 1),
		0);
	expect_trap(f, sync_stream(f), "does not declare that it is written", 0);
	assert_int_equal(((uint8_t *)f->chunk[0].alias)[KIB(4)], 10);
	f->b->ops->access_end(f->b, f->compute, NULL);
	assert_int_equal(launch_touch(f->b, f->compute, (struct touch){.sum = &sum}, &both, 1), 0);
	expect_trap(f, sync_stream(f), "does not declare that it is read", 0);
	expect_sound(f);
}

/* What a bracket does not write any more it may read, and beside that write as before. */
static void test_bracket_is_narrowed(void **state)
{
	struct fixture *f = *state;
	struct backend *b = f->b;
	struct weir_use all = use_of(f->va, 2 * UNIT, WEIR_WRITE);
	struct weir_use read = use_of(f->va, 2 * UNIT, WEIR_READ);
	struct weir_use front = use_of(f->va, UNIT - KIB(4), WEIR_WRITE);
	struct weir_use rear = use_of(f->va + UNIT + KIB(4), UNIT - KIB(4), WEIR_WRITE);
	struct weir_use border = use_of(f->va + UNIT + KIB(4) - 1, 8, WEIR_WRITE);
	uint32_t sum = 0;

	assert_int_equal(b->ops->access_begin(b, f->compute, b, &all, 1), 0);
	assert_int_equal(b->ops->access_narrow(b, 99, b, f->va, 1), -EINVAL);
	assert_int_equal(b->ops->access_narrow(b, f->compute, f, f->va, 1), -EINVAL);
	assert_int_equal(b->ops->access_narrow(b, f->compute, b, f->va + UNIT - KIB(4), KIB(8)), 0);
	assert_int_equal(launch_touch(b, f->compute,
				      (struct touch){.read = f->va + UNIT, .sum = &sum}, &read, 1),
			 0);
	assert_int_equal(launch_touch(b, f->compute, (struct touch){.sum = &sum}, &front, 1), 0);
	assert_int_equal(launch_touch(b, f->compute, (struct touch){.sum = &sum}, &rear, 1), 0);
	assert_int_equal(sync_stream(f), 0);
	assert_int_equal(launch_touch(b, f->compute, (struct touch){.sum = &sum}, &border, 1), 0);
	expect_trap(f, sync_stream(f), "does not declare that it is written", 1);
	b->ops->access_end(b, f->compute, b);
	expect_sound(f);
}

/* Brackets of two owners on one stream end in the order that they began in. */
static void test_brackets_of_two_owners(void **state)
{
	struct fixture *f = *state;
	struct backend *b = f->b;
	struct weir_use first = use_of(f->va, UNIT, WEIR_READ);
	struct weir_use second = use_of(f->va + UNIT, UNIT, WEIR_READ);
	int owner[2] = {0};
	uint32_t sum = 0;

	assert_int_equal(b->ops->access_begin(b, f->compute, &owner[0], &first, 1), 0);
	assert_int_equal(b->ops->access_begin(b, f->compute, &owner[1], &second, 1), 0);
	b->ops->access_end(b, f->compute, &owner[0]);
	assert_int_equal(launch_touch(b, f->compute,
				      (struct touch){.read = f->va + UNIT, .sum = &sum}, &second,
				      1),
			 0);
	assert_int_equal(sync_stream(f), 0);
	assert_int_equal(
		launch_touch(b, f->compute, (struct touch){.read = f->va, .sum = &sum}, &first, 1),
		0);
	expect_trap(f, sync_stream(f), "does not declare that it is read", 0);
	b->ops->access_end(b, f->compute, &owner[0]); /* has none: nothing */
	b->ops->access_end(b, f->compute, &owner[1]);
	expect_sound(f);
}

static void test_use_of_an_unmapped_block(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(f->b->ops->unmap(f->b, f->va + 2 * UNIT), 0);
	expect_trap(f, run(f, (struct touch){0}, use_of(f->va, NR * UNIT, WEIR_READ)), "not mapped",
		    2);
	assert_int_equal(
		f->b->ops->map(f->b, f->va + 2 * UNIT, &f->chunk[2], BACKEND_PROT_WRITE, 2), 0);
	expect_trap(f, run(f, (struct touch){0}, use_of(f->va, NR * UNIT, WEIR_READ)),
		    "not mapped for this device", 2);
	assert_int_equal(f->b->ops->set_access(f->b, f->va + 2 * UNIT, BACKEND_PROT_READ, 1), 0);
	expect_trap(f, run(f, (struct touch){0}, use_of(f->va, NR * UNIT, WEIR_WRITE)), "read-only",
		    2);
	assert_int_equal(run(f, (struct touch){0}, use_of(f->va, NR * UNIT, WEIR_READ)), 0);
	assert_int_equal(f->b->ops->set_access(f->b, f->va + 2 * UNIT, BACKEND_PROT_WRITE, 1), 0);
	expect_sound(f);
}

/* ------------------------------------------------------------------ what moves */

static int copy_one(struct fixture *f, stream_id_t stream, const struct backend_chunk *dst,
		    const struct backend_chunk *src)
{
	return f->b->ops->copy(f->b, stream, &(struct backend_copy){dst->alias, src->alias, UNIT},
			       1);
}

static void test_copy_not_waited_for(void **state)
{
	struct fixture *f = *state;

	/* A copy to a block, and a kernel that does not wait for it. */
	assert_int_equal(copy_one(f, f->in, &f->chunk[0], &f->spare), 0);
	expect_trap(f, run(f, (struct touch){0}, use_of(f->va, UNIT, WEIR_READ)),
		    "copy that is not done writes it", 0);
	memset(f->chunk[0].alias, 10, UNIT);
	/* The same in the middle of a use of everything. */
	f->b->ops->host_spend(f->b, 1000000);
	assert_int_equal(copy_one(f, f->in, &f->chunk[2], &f->spare), 0);
	expect_trap(f, run(f, (struct touch){0}, use_of(f->va, NR * UNIT, WEIR_READ)),
		    "copy that is not done writes it", 2);
	f->b->ops->host_spend(f->b, 1000000);
	memset(f->chunk[2].alias, 12, UNIT);
	/* A copy from a block that the kernel writes. Reading it beside the copy is fine. */
	f->b->ops->host_spend(f->b, 1000000);
	memset(f->chunk[0].alias, 10, UNIT);
	assert_int_equal(copy_one(f, f->out, &f->spare, &f->chunk[1]), 0);
	assert_int_equal(run(f, (struct touch){0}, use_of(f->va + UNIT, UNIT, WEIR_READ)), 0);
	expect_trap(f, run(f, (struct touch){0}, use_of(f->va + UNIT, UNIT, WEIR_WRITE)),
		    "reads what the kernel writes", 1);
	f->b->ops->host_spend(f->b, 1000000);
	expect_sound(f);
}

static void test_copy_waited_for(void **state)
{
	struct fixture *f = *state;
	struct weir_use use = use_of(f->va, UNIT, WEIR_WRITE);
	fence_t copied, used;
	uint32_t sum = 0;

	memset(f->spare.alias, 77, UNIT);
	assert_int_equal(copy_one(f, f->in, &f->chunk[0], &f->spare), 0);
	assert_int_equal(f->b->ops->fence_record(f->b, f->in, &copied), 0);
	assert_int_equal(f->b->ops->stream_wait(f->b, f->compute, copied), 0);
	assert_int_equal(f->b->ops->access_begin(f->b, f->compute, NULL, &use, 1), 0);
	assert_int_equal(launch_touch(f->b, f->compute,
				      (struct touch){.read = f->va + 9, .sum = &sum}, &use, 1),
			 0);
	f->b->ops->access_end(f->b, f->compute, NULL);
	assert_int_equal(f->b->ops->fence_record(f->b, f->compute, &used), 0);
	/* A copy ordered behind the kernel is no conflict, though queued before it starts. */
	memset(f->chunk[3].alias, 13, UNIT);
	assert_int_equal(f->b->ops->stream_wait(f->b, f->in, used), 0);
	assert_int_equal(copy_one(f, f->in, &f->chunk[0], &f->chunk[3]), 0);
	assert_int_equal(sync_stream(f), 0);
	assert_int_equal(sum, 77);
	f->b->ops->host_spend(f->b, 1000000);
	assert_int_equal(((uint8_t *)f->chunk[0].alias)[9], 13);
	memset(f->chunk[0].alias, 10, UNIT);
	expect_sound(f);
}

/* A kernel that runs for a while. */
static void launch_long(struct fixture *f, struct weir_use use)
{
	const struct weir_launch launch = {.kernel = &touch_kernel,
					   .args = &(struct touch){0},
					   .args_bytes = sizeof(struct touch),
					   .uses = &use,
					   .nr_uses = 1,
					   .ops = 1e9};

	assert_int_equal(f->b->ops->access_begin(f->b, f->compute, NULL, &use, 1), 0);
	assert_int_equal(f->b->ops->launch(f->b, f->compute, &launch), 0);
	f->b->ops->access_end(f->b, f->compute, NULL);
}

/* One that began before the kernel, but was queued after it and after another one that waits. */
static void test_copy_that_overtook(void **state)
{
	struct fixture *f = *state;
	fence_t first, last;

	launch_long(f, use_of(f->va + 3 * UNIT, UNIT, WEIR_READ));
	assert_int_equal(f->b->ops->fence_record(f->b, f->compute, &first), 0);
	for (uint32_t i = 0; i < 2; i++) {
		const struct weir_use use = use_of(f->va + (i ? 0 : 3 * UNIT), UNIT, WEIR_READ);

		assert_int_equal(f->b->ops->access_begin(f->b, f->compute, NULL, &use, 1), 0);
		assert_int_equal(launch_touch(f->b, f->compute, (struct touch){0}, &use, 1), 0);
		f->b->ops->access_end(f->b, f->compute, NULL);
	}
	assert_int_equal(f->b->ops->fence_record(f->b, f->compute, &last), 0);
	assert_int_equal(f->b->ops->stream_wait(f->b, f->out, last), 0);
	assert_int_equal(copy_one(f, f->out, &f->chunk[0], &f->spare), 0);
	assert_int_equal(f->b->ops->stream_wait(f->b, f->in, first), 0);
	assert_int_equal(copy_one(f, f->in, &f->chunk[0], &f->spare), 0);
	expect_trap(f, sync_stream(f), "copy that is not done writes it", 0);
	f->b->ops->host_spend(f->b, 1000000);
	memset(f->chunk[0].alias, 10, UNIT);
	expect_sound(f);
}

static void test_changes_under_a_running_kernel(void **state)
{
	struct fixture *f = *state;

	launch_long(f, use_of(f->va + UNIT, UNIT, WEIR_READ));
	assert_int_equal(f->b->ops->unmap(f->b, f->va), 0); /* another block */
	assert_int_equal(sync_stream(f), 0);
	launch_long(f, use_of(f->va + UNIT, UNIT, WEIR_READ));
	assert_int_equal(f->b->ops->unmap(f->b, f->va + UNIT), 0);
	expect_trap(f, sync_stream(f), "under the running kernel", 1);
	for (uint32_t i = 0; i < 2; i++)
		assert_int_equal(
			f->b->ops->map(f->b, f->va + i * UNIT, &f->chunk[i], BACKEND_PROT_WRITE, 1),
			0);
	launch_long(f, use_of(f->va + UNIT, UNIT, WEIR_READ));
	assert_int_equal(f->b->ops->set_access(f->b, f->va + UNIT, BACKEND_PROT_READ, 1), 0);
	assert_int_equal(sync_stream(f), 0); /* reads still */
	assert_int_equal(f->b->ops->set_access(f->b, f->va + UNIT, BACKEND_PROT_WRITE, 1), 0);
	launch_long(f, use_of(f->va + UNIT, UNIT, WEIR_READ));
	assert_int_equal(copy_one(f, f->in, &f->chunk[1], &f->spare), 0);
	expect_trap(f, sync_stream(f), "began to write it", 1);
	memset(f->chunk[1].alias, 11, UNIT);
	launch_long(f, use_of(f->va + UNIT, UNIT, WEIR_WRITE));
	assert_int_equal(copy_one(f, f->out, &f->spare, &f->chunk[1]), 0);
	expect_trap(f, sync_stream(f), "began to read", 1);
	expect_sound(f);
}

/* One of two streams has a message, then the other one, which waits for the first or does not. */
static int copy_two(struct fixture *f, struct backend_copy first, struct backend_copy second,
		    bool waits)
{
	const struct backend_ops *ops = f->b->ops;
	fence_t fence, last;

	assert_int_equal(ops->copy_beside(f->b, f->in, &first, 1), 0);
	assert_int_equal(ops->fence_record(f->b, f->in, &fence), 0);
	if (waits)
		assert_int_equal(ops->stream_wait(f->b, f->out, fence), 0);
	assert_int_equal(ops->copy_beside(f->b, f->out, &second, 1), 0);
	assert_int_equal(ops->fence_record(f->b, f->out, &last), 0);
	assert_int_equal(ops->fence_wait(f->b, fence), 0);
	return ops->fence_wait(f->b, last);
}

static void expect_copy_trap(struct fixture *f, int err)
{
	assert_int_equal(err, -WEIR_ETRAP);
	assert_int_equal(f->errors.nr, 1);
	assert_non_null(strstr(f->errors.last, "they have no order"));
	f->errors.nr = 0;
}

/* Two copies of which one writes what the other one reads or writes. */
static void test_copy_beside_a_copy(void **state)
{
	struct fixture *f = *state;
	uint8_t *a = f->chunk[0].alias, *b = f->chunk[1].alias, *host = f->spare.alias;
	uint8_t *other = f->chunk[3].alias;
	const uint64_t half = UNIT / 2;
	struct backend_copy into = {a, host, half};

	expect_copy_trap(f, copy_two(f, into, (struct backend_copy){b, a, half}, false));
	expect_copy_trap(f, copy_two(f, (struct backend_copy){b, a, half}, into, false));
	expect_copy_trap(
		f, copy_two(f, into, (struct backend_copy){a + half - 1, other, half}, false));
	/* One after the other; of other bytes; and of what both read. */
	assert_int_equal(copy_two(f, into, (struct backend_copy){b, a, half}, true), 0);
	assert_int_equal(copy_two(f, (struct backend_copy){b, a, half}, into, true), 0);
	assert_int_equal(copy_two(f, into, (struct backend_copy){a + half, other, half}, false), 0);
	assert_int_equal(copy_two(f, (struct backend_copy){b, host, half}, into, false), 0);
	memset(a, 10, UNIT);
	memset(b, 11, UNIT);
	expect_sound(f);
}

/* Nor does it have any with one that was queued before it on another stream and waits there. */
static void test_copy_before_its_turn(void **state)
{
	struct fixture *f = *state;
	const struct backend_copy into = {f->chunk[0].alias, f->spare.alias, UNIT};
	const struct backend_copy from = {f->chunk[3].alias, f->chunk[0].alias, UNIT};
	fence_t used, last;

	launch_long(f, use_of(f->va + 2 * UNIT, UNIT, WEIR_READ));
	assert_int_equal(f->b->ops->fence_record(f->b, f->compute, &used), 0);
	assert_int_equal(f->b->ops->stream_wait(f->b, f->in, used), 0);
	assert_int_equal(f->b->ops->copy_beside(f->b, f->in, &into, 1), 0);
	assert_int_equal(f->b->ops->copy_beside(f->b, f->out, &from, 1), 0);
	assert_int_equal(f->b->ops->fence_record(f->b, f->out, &last), 0);
	expect_copy_trap(f, f->b->ops->fence_wait(f->b, last));
	f->b->ops->host_spend(f->b, 10000000);
	memset(f->chunk[0].alias, 10, UNIT);
	memset(f->chunk[3].alias, 13, UNIT);
	expect_sound(f);
}

/* ------------------------------------------------------------------ the CPU outside kernels */

static sigjmp_buf faulted;

static void on_fault(int sig)
{
	siglongjmp(faulted, sig);
}

static bool cpu_can(volatile uint8_t *addr, bool write)
{
	struct sigaction action = {.sa_handler = on_fault}, before;
	volatile bool can = false;

	sigaction(SIGSEGV, &action, &before);
	if (!sigsetjmp(faulted, 1)) {
		if (write)
			(*addr)++, (*addr)--;
		else
			(void)*addr;
		can = true;
	}
	sigaction(SIGSEGV, &before, NULL);
	return can;
}

static void test_cpu_outside_kernels(void **state)
{
	struct fixture *f = *state;
	uint8_t *host = f->va + (NR - 1) * UNIT;

	expect_sound(f);
	for (uint32_t i = 0; i < NR; i++)
		assert_false(cpu_can(f->va + i * UNIT + 5, false));
	assert_int_equal(
		f->b->ops->set_access(f->b, host, BACKEND_PROT_WRITE, 1 | BACKEND_HOST_BIT), 0);
	assert_true(cpu_can(host, true));
	/* A kernel that reads it leaves it as it was. */
	assert_int_equal(run(f, (struct touch){0}, use_of(f->va, NR * UNIT, WEIR_READ)), 0);
	assert_true(cpu_can(host, true));
	assert_false(cpu_can(host - 1, false));
	assert_int_equal(f->b->ops->set_access(f->b, host, BACKEND_PROT_READ, BACKEND_HOST_BIT), 0);
	assert_true(cpu_can(host, false));
	assert_false(cpu_can(host, true));
	assert_int_equal(f->b->ops->set_access(f->b, host, BACKEND_PROT_WRITE, 1), 0);
	assert_false(cpu_can(host, false));
	/* Not guarded: open to every kernel, and so to the CPU that stands in for the device. */
	assert_int_equal(f->b->ops->access_guard(f->b, f->va, false), 0);
	assert_true(cpu_can(f->va, true));
	assert_int_equal(f->b->ops->access_guard(f->b, f->va, true), 0);
	assert_false(cpu_can(f->va, true));
	expect_sound(f);
}

static uint8_t foreign_cpu_reached;

static void foreign_cpu(const void *args)
{
	(void)args;
	foreign_cpu_reached = !cpu_can((uint8_t *)16, false);
}

static volatile sig_atomic_t nr_foreign;
static void *foreign_page;

static void on_foreign(int sig, siginfo_t *info, void *context)
{
	(void)sig, (void)context;
	nr_foreign++;
	if (info->si_addr != foreign_page || mprotect(foreign_page, 4096, PROT_READ))
		abort();
}

static void foreign_touch_cpu(const void *args)
{
	(void)args;
	(void)*(volatile uint8_t *)foreign_page;
}

/* Faults that are not the simulator's go to the handler that was there before. */
static void test_foreign_faults_are_passed_on(void **state)
{
	struct fixture *f = *state;
	struct sigaction action = {.sa_sigaction = on_foreign, .sa_flags = SA_SIGINFO}, before;
	const struct weir_kernel own = {.name = "own", .cpu = foreign_cpu},
				 touch = {.name = "touch", .cpu = foreign_touch_cpu};
	struct weir_launch launch = {.kernel = &own};

	foreign_page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(foreign_page != MAP_FAILED);
	assert_int_equal(f->b->ops->launch(f->b, f->compute, &launch), 0);
	assert_int_equal(sync_stream(f), 0);
	assert_int_equal(foreign_cpu_reached, 1);
	sigaction(SIGSEGV, &action, &before);
	launch.kernel = &touch;
	assert_int_equal(f->b->ops->launch(f->b, f->compute, &launch), 0);
	assert_int_equal(sync_stream(f), 0);
	assert_int_equal(nr_foreign, 1);
	sigaction(SIGSEGV, &before, NULL);
	munmap(foreign_page, 4096);
	expect_sound(f);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_undeclared_read),
		CASE(test_undeclared_write),
		CASE(test_write_to_a_read_use),
		CASE(test_touch_of_an_unmapped_block),
		CASE(test_touch_of_everything),
		CASE(test_bracket_does_not_declare),
		CASE(test_bracket_is_narrowed),
		CASE(test_brackets_of_two_owners),
		CASE(test_use_of_an_unmapped_block),
		CASE(test_copy_not_waited_for),
		CASE(test_copy_waited_for),
		CASE(test_copy_that_overtook),
		CASE(test_changes_under_a_running_kernel),
		CASE(test_copy_beside_a_copy),
		CASE(test_copy_before_its_turn),
		CASE(test_cpu_outside_kernels),
		CASE(test_foreign_faults_are_passed_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
