/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of progress, of many threads, and of calls and kernels that fail. */
#include <pthread.h>
#include <stdatomic.h>

#include "src/backend/flaky/flaky.h"
#include "src/base/util.h"
#include "tests/contract/cases/cases.h"

#define NR_THREADS 3
#define NR_ROUNDS 100
#define NAP_NS 5000000u
#define NAPS_MAX 1000

/* ------------------------------------------------------------------ progress */

struct progress {
	struct backend *b;
	atomic_uint_fast64_t nr;
};

static void count(void *arg)
{
	struct progress *p = arg;

	atomic_fetch_add(&p->nr, 1);
	/* It may call what does not block. */
	(void)p->b->ops->now_ns(p->b);
	(void)p->b->ops->memory_used(p->b, GPU0);
}

/* Until it has been called more often than that. */
static void wait_until_called(struct progress *p, uint64_t more_than)
{
	for (int i = 0; i < NAPS_MAX && atomic_load(&p->nr) <= more_than; i++)
		p->b->ops->host_spend(p->b, NAP_NS);
	assert_true(atomic_load(&p->nr) > more_than);
}

void contract_progress(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	struct progress p = {.b = b};
	fence_t fence;
	uint64_t nr;

	assert_int_equal(b->ops->set_progress(b, count, &p), 0);
	contract_gate_close(c, c->compute);
	assert_int_equal(contract_spin(b, c->compute), 0);
	assert_int_equal(b->ops->fence_record(b, c->compute, &fence), 0);
	if (can(c, CAN_WAIT))
		b->ops->host_spend(b, NAP_NS);
	assert_int_equal(atomic_load(&p.nr), 0);
	contract_gate_open(c);
	wait_until_called(&p, 0);
	assert_int_equal(b->ops->fence_done(b, fence), 1);
	/* Idle again, and woken again. */
	nr = atomic_load(&p.nr);
	assert_int_equal(contract_spin(b, c->compute), 0);
	assert_int_equal(b->ops->fence_record(b, c->compute, &fence), 0);
	wait_until_called(&p, nr);
	assert_int_equal(b->ops->set_progress(b, NULL, &p), 0);
	nr = atomic_load(&p.nr);
	assert_int_equal(contract_spin(b, c->compute), 0);
	contract_wait(b, c->compute);
	b->ops->host_spend(b, NAP_NS);
	assert_int_equal(atomic_load(&p.nr), nr);
}

/* Done aside, one after the other. */
struct aside {
	atomic_uint nr_run, nr_done, nr_wrong;
	struct one_aside {
		struct aside *all;
		uint32_t number;
	} one[3];
};

static uint64_t aside_run(void *arg)
{
	const struct one_aside *one = arg;

	if (atomic_fetch_add(&one->all->nr_run, 1) != one->number)
		atomic_fetch_add(&one->all->nr_wrong, 1);
	return NAP_NS;
}

static void aside_done(void *arg)
{
	const struct one_aside *one = arg;

	if (atomic_load(&one->all->nr_run) <= one->number ||
	    atomic_fetch_add(&one->all->nr_done, 1) != one->number)
		atomic_fetch_add(&one->all->nr_wrong, 1);
}

/* Each is run once and then done once, in the order in which they were given, without a call that
 * waits for them. */
void contract_aside(void **state)
{
	struct backend *b = ((struct contract *)*state)->b;
	struct aside aside = {0};

	for (uint32_t i = 0; i < ARRAY_LEN(aside.one); i++) {
		aside.one[i] = (struct one_aside){&aside, i};
		assert_int_equal(b->ops->aside(b, aside_run, aside_done, &aside.one[i]), 0);
	}
	for (int i = 0; i < NAPS_MAX && atomic_load(&aside.nr_done) < ARRAY_LEN(aside.one); i++)
		b->ops->host_spend(b, NAP_NS);
	b->ops->host_spend(b, NAP_NS);
	assert_int_equal(atomic_load(&aside.nr_run), ARRAY_LEN(aside.one));
	assert_int_equal(atomic_load(&aside.nr_done), ARRAY_LEN(aside.one));
	assert_int_equal(atomic_load(&aside.nr_wrong), 0);
}

/* When a fence was reached, asked as one does who only wants times. */
static uint64_t time_of(struct backend *b, fence_t fence)
{
	uint64_t ns = 0;

	for (int i = 0; i < NAPS_MAX && !ns; i++) {
		ns = b->observe->fence_time_ns(b, fence);
		if (!ns)
			b->ops->host_spend(b, NAP_NS);
	}
	assert_true(ns > 0);
	return ns;
}

/* A mark calls nobody; a fence does, also when somebody who asked for its time noticed it first. */
void contract_marks(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	struct progress p = {.b = b};
	fence_t before, after, fence;

	b->ops->host_spend(b, 1000); /* the time 0 means that none is known */
	assert_int_equal(b->ops->set_progress(b, count, &p), 0);
	contract_gate_close(c, c->compute);
	assert_int_equal(b->observe->fence_mark(b, c->compute, &before), 0);
	assert_int_equal(contract_spin(b, c->compute), 0);
	assert_int_equal(b->observe->fence_mark(b, c->compute, &after), 0);
	assert_int_equal(b->observe->fence_time_ns(b, after), 0);
	contract_gate_open(c);
	assert_true(time_of(b, after) > time_of(b, before));
	assert_true(b->ops->now_ns(b) >= time_of(b, after));
	b->ops->host_spend(b, NAP_NS);
	assert_int_equal(atomic_load(&p.nr), 0);
	for (uint64_t i = 0; i < 20; i++) {
		assert_int_equal(contract_spin(b, c->compute), 0);
		assert_int_equal(b->ops->fence_record(b, c->compute, &fence), 0);
		(void)time_of(b, fence);
		wait_until_called(&p, i);
	}
	assert_int_equal(b->observe->fence_mark(b, 99, &before), -EINVAL);
	assert_int_equal(b->ops->set_progress(b, NULL, &p), 0);
}

void contract_time_is_monotone(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	struct backend_chunk chunk;
	uint64_t last = b->ops->now_ns(b);

	for (int i = 0; i < 100; i++) {
		assert_int_equal(b->ops->chunk_create(b, GPU0, c->unit, 0, &chunk), 0);
		assert_int_equal(contract_spin(b, c->compute), 0);
		if (i % 7 == 0)
			contract_wait(b, c->compute);
		b->ops->chunk_destroy(b, &chunk);
		assert_true(b->ops->now_ns(b) > last);
		last = b->ops->now_ns(b);
	}
	contract_wait(b, c->compute);
}

/* ------------------------------------------------------------------ threads */

/* A block's whole life, beside others'. @return calls that did not do what they should */
static int live(struct contract *c, uint8_t add)
{
	struct backend *b = c->b;
	struct backend_chunk chunk;
	uint8_t byte = 1, back = 0, *va;
	fence_t fence;
	int failures = 0;

	failures += b->ops->va_reserve(b, c->unit, c->unit, (void **)&va) != 0;
	failures += b->ops->chunk_create(b, GPU0, c->unit, 0, &chunk) != 0;
	failures += b->ops->map(b, va, &chunk, BACKEND_PROT_WRITE, 1) != 0;
	failures += b->ops->upload(b, c->in, va, data_of(c, &byte), 1) != 0;
	failures += contract_add(b, c->compute, va, va, 1, add) != 0;
	failures += b->ops->fence_record(b, c->compute, &fence) != 0;
	failures += b->ops->stream_wait(b, c->out, fence) != 0;
	failures += b->ops->download(b, c->out, data_of(c, &back), va, 1) != 0;
	failures += can(c, CAN_BYTES) && back != (uint8_t)(add + 1);
	failures += b->ops->fence_wait(b, fence) != 0;
	failures += b->ops->unmap(b, va) != 0;
	b->ops->chunk_destroy(b, &chunk);
	b->ops->va_release(b, va, c->unit);
	return failures;
}

static void *hammer(void *arg)
{
	intptr_t failures = 0;

	for (int i = 0; i < NR_ROUNDS; i++)
		failures += live(arg, (uint8_t)i);
	return (void *)failures;
}

void contract_threads(void **state)
{
	struct contract *c = *state;
	struct progress p = {.b = c->b};
	pthread_t thread[NR_THREADS];

	assert_int_equal(c->b->ops->set_progress(c->b, count, &p), 0);
	for (int i = 0; i < NR_THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, hammer, c), 0);
	for (int i = 0; i < NR_THREADS; i++) {
		void *failures;

		assert_int_equal(pthread_join(thread[i], &failures), 0);
		assert_null(failures);
	}
	assert_true(atomic_load(&p.nr) > 0);
	assert_int_equal(c->b->ops->set_progress(c->b, NULL, &p), 0);
}

/* ------------------------------------------------------------------ failures */

/* Each call in turn fails, and nothing is left of what was made before it. */
void contract_each_call_fails(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	uint64_t used[2], before, nr;

	used[HOST] = b->ops->memory_used(b, HOST);
	used[GPU0] = b->ops->memory_used(b, GPU0);
	before = flaky_nr_calls(b);
	assert_int_equal(contract_script(b, c->unit), 0);
	nr = flaky_nr_calls(b) - before;
	assert_true(nr >= 20);
	for (uint64_t i = 1; i <= nr; i++) {
		flaky_arm(b, flaky_nr_calls(b) + i, -EIO);
		assert_int_equal(contract_script(b, c->unit), -EIO);
		for (uint32_t m = HOST; m <= GPU0; m++)
			assert_int_equal(b->ops->memory_used(b, m), used[m]);
	}
	flaky_arm(b, 0, 0);
	assert_int_equal(contract_script(b, c->unit), 0);
}

/* A kernel writes where nothing is mapped. */
void contract_trap_is_told_once(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	fence_t before, after;
	uint8_t *va;
	struct weir_launch launch = {.kernel = &test_kernel_poke, .nr_uses = 1};
	struct test_poke_args args;
	struct weir_use use;

	assert_int_equal(b->ops->va_reserve(b, c->unit, c->unit, (void **)&va), 0);
	assert_int_equal(b->ops->fence_record(b, c->compute, &before), 0);
	assert_int_equal(b->ops->fence_wait(b, before), 0);
	args = (struct test_poke_args){.addr = va + 3, .value = 1};
	use = use_of(va, c->unit, WEIR_WRITE);
	launch.args = &args;
	launch.args_bytes = sizeof(args);
	launch.uses = &use;
	c->trapped = true;
	contract_gate_close(c, c->compute);
	assert_int_equal(b->ops->launch(b, c->compute, &launch), 0);
	assert_int_equal(b->ops->fence_record(b, c->compute, &after), 0);
	contract_gate_open(c);
	assert_int_equal(b->ops->fence_wait(b, after), -WEIR_ETRAP);
	/* Once; after that nothing that was queued is waited for. */
	assert_int_equal(b->ops->fence_wait(b, after), 0);
	assert_int_equal(b->ops->fence_done(b, after), 1);
	b->ops->va_release(b, va, c->unit);
}
