/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA backend's own threads, on the driver without a GPU: that none takes the program's
 * signals, that a progress function is gone when its space is, that what is done aside is done in
 * order and to the end, and what they say when the process ends; the default streams of threads;
 * and two threads of the program that change a budget.
 *
 * Labels: threads
 * Links: cuda-fake backend-cases
 */
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "src/backend/machine.h"
#include "tests/contract/test_cuda.h"

/* ------------------------------------------------------------------ signals */

/* What a thread of the backend's has blocked. */
struct mask {
	atomic_uint nr_calls,
		nr_open; /* calls from other threads; signals that one of them takes */
	pthread_t program;
};

static void mask_note(void *arg)
{
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGALRM, SIGCHLD, SIGUSR1, SIGPROF};
	struct mask *m = arg;
	sigset_t blocked;

	if (pthread_equal(pthread_self(), m->program))
		return;
	pthread_sigmask(SIG_SETMASK, NULL, &blocked);
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		atomic_fetch_add(&m->nr_open, !sigismember(&blocked, signals[i]));
	/* A fault of its own is told whoever handles such. */
	atomic_fetch_add(&m->nr_open, sigismember(&blocked, SIGSEGV) == 1);
	atomic_fetch_add(&m->nr_calls, 1);
}

static void mask_note_log(void *arg, enum weir_log_level level, const char *message)
{
	(void)level;
	(void)message;
	mask_note(arg);
}

static void wait_for_calls(struct backend *b, const struct mask *m)
{
	for (int i = 0; i < 5000 && !atomic_load(&m->nr_calls); i++)
		b->ops->host_spend(b, 1000000);
	assert_true(atomic_load(&m->nr_calls) > 0);
	assert_int_equal(atomic_load(&m->nr_open), 0);
}

static void test_migrator_takes_no_signals(void **state)
{
	struct mask m = {.program = pthread_self()};
	struct backend *b = ((struct contract *)*state)->b;
	sigset_t before, after;
	fence_t fence;

	pthread_sigmask(SIG_SETMASK, NULL, &before);
	assert_int_equal(b->ops->set_progress(b, mask_note, &m), 0);
	pthread_sigmask(SIG_SETMASK, NULL, &after);
	assert_int_equal(sigismember(&after, SIGTERM), sigismember(&before, SIGTERM));
	assert_int_equal(b->ops->fence_record(b, ((struct contract *)*state)->compute, &fence), 0);
	wait_for_calls(b, &m);
	assert_int_equal(b->ops->set_progress(b, NULL, &m), 0);
}

/* It says how much it has pinned. */
static void test_pinner_takes_no_signals(void **state)
{
	struct mask m = {.program = pthread_self()};
	struct backend *b = ((struct contract *)*state)->b;

	weir_log_set(mask_note_log, &m);
	b->ops->chunk_expect(b, HOST, UNIT, 0, 2);
	wait_for_calls(b, &m);
	weir_log_set(NULL, NULL);
}

static uint64_t run_nothing(void *arg)
{
	(void)arg;
	return 0;
}

static void test_caller_takes_no_signals(void **state)
{
	struct mask m = {.program = pthread_self()};
	struct backend *b = ((struct contract *)*state)->b;

	assert_int_equal(b->ops->aside(b, run_nothing, mask_note, &m), 0);
	wait_for_calls(b, &m);
}

/* ------------------------------------------------------------------ beside the program */

struct called {
	struct backend *b;
	pthread_t program;
	atomic_uint nr, nr_done, nr_wrong;
	struct one {
		struct called *all;
		uint32_t number;
	} one[20];
};

static uint64_t call_one(void *arg)
{
	const struct one *one = arg;
	struct called *all = one->all;

	if (pthread_equal(pthread_self(), all->program) || atomic_load(&all->nr) != one->number)
		atomic_fetch_add(&all->nr_wrong, 1);
	all->b->ops->host_spend(all->b, 1000000);
	atomic_fetch_add(&all->nr, 1);
	return 1000000;
}

static void call_done(void *arg)
{
	const struct one *one = arg;
	struct called *all = one->all;

	if (pthread_equal(pthread_self(), all->program) || atomic_load(&all->nr) != one->number + 1)
		atomic_fetch_add(&all->nr_wrong, 1);
	atomic_fetch_add(&all->nr_done, 1);
}

/* Functions are called one after the other, in order, by another thread; and the end waits for
 * those that are left. */
static void test_aside_calls_all_in_order(void **state)
{
	struct called c = {.program = pthread_self()};
	const uint32_t nr = sizeof(c.one) / sizeof(c.one[0]);

	(void)state;
	assert_int_equal(cuda_create(&(struct cuda_config){.library = FAKECUDA_PATH}, &c.b), 0);
	for (uint32_t i = 0; i < nr; i++) {
		c.one[i] = (struct one){&c, i};
		assert_int_equal(c.b->ops->aside(c.b, call_one, call_done, &c.one[i]), 0);
	}
	assert_true(atomic_load(&c.nr) < nr);
	c.b->ops->destroy(c.b);
	assert_int_equal(atomic_load(&c.nr), nr);
	assert_int_equal(atomic_load(&c.nr_done), nr);
	assert_int_equal(atomic_load(&c.nr_wrong), 0);
}

/* ------------------------------------------------------------------ progress functions */

/* Each call queues what the next one is called for. */
struct busy {
	struct backend *b;
	stream_id_t stream;
	atomic_uint nr;
};

static void keep_busy(void *arg)
{
	struct busy *busy = arg;
	fence_t fence;

	(void)busy->b->ops->fence_record(busy->b, busy->stream, &fence);
	atomic_fetch_add(&busy->nr, 1);
	do
		busy->b->ops->host_spend(busy->b, 200000);
	while (fakecuda_nr_pending(NULL));
}

static void nothing(void *arg)
{
	atomic_fetch_add(&((struct busy *)arg)->nr, 1);
}

/* However busy the migrator is with others: who removes a function does not wait for long. Here the
 * others never leave it a pause. */
static void test_progress_removed_from_a_busy_thread(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	struct busy busy[3] = {{b, c->compute, 0}, {b, c->in, 0}, {b, c->in, 0}};
	fence_t fence;

	alarm(20);
	assert_int_equal(b->ops->set_progress(b, nothing, &busy[1]), 0);
	assert_int_equal(b->ops->set_progress(b, keep_busy, &busy[0]), 0);
	assert_int_equal(b->ops->fence_record(b, c->compute, &fence), 0);
	while (atomic_load(&busy[0].nr) < 3)
		b->ops->host_spend(b, 1000000);
	for (int i = 0; i < 10; i++) {
		unsigned int nr;

		assert_int_equal(b->ops->set_progress(b, NULL, &busy[1]), 0);
		nr = atomic_load(&busy[1].nr);
		b->ops->host_spend(b, 2000000);
		assert_int_equal(atomic_load(&busy[1].nr), nr);
		assert_int_equal(b->ops->set_progress(b, nothing, &busy[1]), 0);
	}
	/* Nobody is left out. */
	assert_int_equal(b->ops->set_progress(b, nothing, &busy[2]), 0);
	while (!atomic_load(&busy[2].nr))
		b->ops->host_spend(b, 1000000);
	/* The busy one itself: it is not being called any more when this returns. */
	assert_int_equal(b->ops->set_progress(b, NULL, &busy[0]), 0);
	busy[0].b = NULL;
	assert_int_equal(b->ops->set_progress(b, NULL, &busy[1]), 0);
	assert_int_equal(b->ops->set_progress(b, NULL, &busy[2]), 0);
	alarm(0);
}

/* What a thread of the program has waited for is told, too: it may be the end of a bracket. */
static void test_progress_after_waits(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	struct busy told = {.b = b};
	fence_t fence;

	assert_int_equal(b->ops->set_progress(b, nothing, &told), 0);
	for (int i = 0; i < 50; i++) {
		atomic_store(&told.nr, 0);
		assert_int_equal(b->ops->fence_record(b, c->compute, &fence), 0);
		assert_int_equal(b->ops->fence_wait(b, fence), 0);
		for (int n = 0; n < 5000 && !atomic_load(&told.nr); n++)
			b->ops->host_spend(b, 1000000);
		assert_true(atomic_load(&told.nr) > 0);
		b->ops->host_spend(b, 200000);
	}
	assert_int_equal(b->ops->set_progress(b, NULL, &told), 0);
}

/* ------------------------------------------------------------------ the end */

/* At exit() the driver goes before the threads do. That is no lost context. */
static void test_driver_gone_at_exit(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	struct busy busy = {.b = b};
	struct log_watch log;
	fence_t fence;

	log_watch(&log, WEIR_LOG_ERROR);
	fakecuda_gate(fakecuda_stream(0), true);
	assert_int_equal(b->ops->set_progress(b, nothing, &busy), 0);
	fakecuda_fail_symbol("cuEventQuery", 0, CU_DEINITIALIZED);
	assert_int_equal(b->ops->fence_record(b, c->compute, &fence), 0);
	while (!atomic_load(&busy.nr))
		b->ops->host_spend(b, 1000000);
	assert_int_equal(b->ops->fence_wait(b, fence), -EIO);
	assert_int_equal(log.nr, 0);
	fakecuda_fail_symbol("cuEventQuery", 0, 0);
	fakecuda_gate(fakecuda_stream(0), false);
	assert_int_equal(b->ops->set_progress(b, NULL, &busy), 0);
	weir_log_set(NULL, NULL);
}

/* ------------------------------------------------------------------ default streams of threads */

struct other_thread {
	struct backend *b;
	stream_id_t stream;
	bool waits; /* for its fence, instead of asking */
	fence_t fence;
};

static void *other_thread_run(void *arg)
{
	struct other_thread *t = arg;

	assert_int_equal(t->b->ops->fence_record(t->b, t->stream, &t->fence), 0);
	if (t->waits)
		assert_int_equal(t->b->ops->fence_wait(t->b, t->fence), 0);
	for (int i = 0; i < 10; i++) {
		(void)t->b->ops->fence_done(t->b, t->fence);
		t->b->ops->host_spend(t->b, 1000000);
	}
	return NULL;
}

/* They have one name. What another thread's has done says nothing of this one's: who waits for its
 * fence waits for its work. */
static void test_default_streams_of_threads(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	struct other_thread other = {.b = b};
	fence_t fence, behind;
	pthread_t thread;

	alarm(20);
	assert_int_equal(b->ops->stream_adopt(b, 0, CU_STREAM_PER_THREAD, &other.stream), 0);
	for (int i = 0; i < 2; i++) {
		/* One that is done, and one that is not. */
		assert_int_equal(b->ops->fence_record(b, other.stream, &fence), 0);
		fakecuda_gate(fakecuda_stream(0), true);
		assert_int_equal(b->ops->fence_record(b, c->compute, &fence), 0);
		assert_int_equal(b->ops->stream_wait(b, other.stream, fence), 0);
		assert_int_equal(b->ops->fence_record(b, other.stream, &fence), 0);
		other.waits = i > 0;
		assert_int_equal(pthread_create(&thread, NULL, other_thread_run, &other), 0);
		assert_int_equal(pthread_join(thread, NULL), 0);
		assert_int_equal(b->ops->fence_done(b, fence), 0);
		assert_int_equal(b->ops->stream_wait(b, c->in, fence), 0);
		assert_int_equal(b->ops->fence_record(b, c->in, &behind), 0);
		b->ops->host_spend(b, 5000000);
		assert_int_equal(b->ops->fence_done(b, behind), 0);
		fakecuda_gate(fakecuda_stream(0), false);
		assert_int_equal(b->ops->fence_wait(b, behind), 0);
		assert_int_equal(b->ops->fence_done(b, fence), 1);
		assert_int_equal(b->ops->fence_done(b, other.fence), 1);
	}
	b->ops->stream_destroy(b, other.stream);
	alarm(0);
}

/* ------------------------------------------------------------------ budgets */

struct setter {
	pthread_t thread;
	struct weir_space *space;
	uint64_t bytes, held_bytes; /* held: when the call is back */
	int err;
	atomic_bool done;
};

static void *setter_run(void *arg)
{
	struct weir_space_stats stats;
	struct setter *s = arg;

	s->err = weir_space_set_budget(s->space, GPU1, s->bytes);
	weir_space_query(s->space, &stats);
	s->held_bytes = stats.memory[GPU1].bytes;
	atomic_store(&s->done, true);
	return NULL;
}

/* A thread takes back a neighbour's memory, and waits for copies; another one that lends it again
 * meanwhile comes after it. */
static void test_budgets_one_after_the_other(void **state)
{
	static const uint8_t zero[10 * UNIT];
	const struct weir_space_config config = {
		.budget_bytes = {[GPU0] = 4 * UNIT, [GPU1] = 8 * UNIT, [HOST] = 32 * UNIT},
		.block_bytes = UNIT,
		.mode = WEIR_PLANNED};
	struct setter take = {.bytes = 0}, lend = {.bytes = 8 * UNIT};
	struct weir_machine *machine;
	struct backend *b;
	void *addr;

	(void)state;
	fakecuda_reset(&fake);
	assert_int_equal(open_backend(&b), 0);
	assert_int_equal(machine_wrap(b, &machine), 0);
	assert_int_equal(weir_space_create(machine, &config, &take.space), 0);
	assert_int_equal(weir_alloc(take.space, sizeof(zero), NULL, &addr), 0);
	assert_int_equal(weir_write(take.space, addr, zero, sizeof(zero)), 0);
	assert_true(b->ops->memory_used(b, GPU1) >= 4 * UNIT);
	lend.space = take.space;
	fakecuda_delay(NULL, 100000000);
	assert_int_equal(pthread_create(&take.thread, NULL, setter_run, &take), 0);
	while (!fakecuda_nr_pending(NULL) && !atomic_load(&take.done))
		b->ops->host_spend(b, 100000);
	assert_int_equal(pthread_create(&lend.thread, NULL, setter_run, &lend), 0);
	assert_int_equal(pthread_join(take.thread, NULL), 0);
	assert_int_equal(pthread_join(lend.thread, NULL), 0);
	fakecuda_delay(NULL, 0);
	assert_int_equal(take.err, 0);
	assert_int_equal(lend.err, 0);
	assert_int_equal(take.held_bytes, 0);
	assert_int_equal(lend.held_bytes, 0);
	weir_space_destroy(take.space);
	weir_machine_close(machine);
	assert_int_equal(fakecuda_leaks(stderr), 0);
}

/* ------------------------------------------------------------------ */

#define CASE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_migrator_takes_no_signals),
		CASE(test_pinner_takes_no_signals),
		CASE(test_caller_takes_no_signals),
		cmocka_unit_test(test_aside_calls_all_in_order),
		CASE(test_progress_removed_from_a_busy_thread),
		CASE(test_progress_after_waits),
		CASE(test_driver_gone_at_exit),
		CASE(test_default_streams_of_threads),
		cmocka_unit_test(test_budgets_one_after_the_other),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
