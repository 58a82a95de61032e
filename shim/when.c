/* SPDX-License-Identifier: Apache-2.0 */
/* See when.h. */
#include "shim/when.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>

#include "shim/captures.h"
#include "shim/memory.h"
#include "shim/settings.h"
#include "shim/summary.h"
#include "src/base/clock.h"
#include "src/base/util.h"
#include "weir/weir.h"

#define SHARDS 256u
#define CONTEXTS_MAX 64u
#define PAUSE_NS 50000	   /* between two looks at what passes */
#define CAPTURE_NS 1000000 /* and at whether streams are captured */

/* The steps of when.h, which follow each other; and what is in their place at first, and without
 * --when oom. */
enum step { UNKNOWN, NEVER, BEFORE, WAITS, MOVES };

/* Operations that passed: those that the threads of one shard began, and those of them that are in
 * the driver no more. The first threads have one each, others share the last. */
struct shard {
	_Alignas(64) _Atomic(uint64_t) nr_in;
	_Atomic(uint64_t) nr_out;
};

static struct shard shards[SHARDS];

static struct {
	_Atomic(int) step;
	_Atomic(uint32_t) nr_threads;

	pthread_mutex_t lock; /* guards what follows */
	/* Contexts in which operations passed, and the number of those that were destroyed, since
	 * which the marks of threads are void. */
	cu_context context[CONTEXTS_MAX];
	uint32_t nr_contexts;
	_Atomic(uint64_t) nr_gone;
	bool unknown; /* there were too many to note, or one cannot be waited for */
	bool has_thread;
	atomic_bool ends; /* the thread is to give up */
	uint64_t begin_ns, switched_ns, moved_ns;
	uint64_t allocation, bytes;
} when = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The calling thread's shard, and the contexts that it noted last: of its own, and a stream's. */
static _Thread_local struct {
	struct shard *shard;
	bool shares;
	cu_context context[2];
	uint64_t nr_gone;
} mine;

static void pause_for(long ns)
{
	const struct timespec pause = {.tv_nsec = ns};

	(void)nanosleep(&pause, NULL);
}

/* What the user asked for. */
static int first_step(void)
{
	int step = UNKNOWN;

	atomic_compare_exchange_strong(&when.step, &step, settings_get()->late ? BEFORE : NEVER);
	return atomic_load(&when.step);
}

bool when_is_before(void)
{
	const int step = atomic_load(&when.step);

	return (step == UNKNOWN ? first_step() : step) == BEFORE;
}

/* ------------------------------------------------------------------ what passes */

static void add_context(cu_context context)
{
	uint32_t c = 0;

	pthread_mutex_lock(&when.lock);
	while (c < when.nr_contexts && when.context[c] != context)
		c++;
	if (c == CONTEXTS_MAX)
		when.unknown = true;
	else if (c == when.nr_contexts)
		when.context[when.nr_contexts++] = context;
	pthread_mutex_unlock(&when.lock);
}

static void note_context(cu_context context, int which)
{
	if (!context || context == mine.context[which])
		return;
	add_context(context);
	mine.context[which] = context;
}

void when_begin(cu_context primary)
{
	add_context(primary);
	pthread_mutex_lock(&when.lock);
	when.begin_ns = when.begin_ns ? when.begin_ns : clock_now_ns();
	pthread_mutex_unlock(&when.lock);
}

/* The stream's context, which need not be the current one, and that one. */
static void note_contexts(cu_stream stream)
{
	const uint64_t nr_gone = atomic_load(&when.nr_gone);
	cu_context context = NULL;

	if (mine.nr_gone != nr_gone) {
		mine.context[0] = mine.context[1] = NULL;
		mine.nr_gone = nr_gone;
	}
	if (!real.cuCtxGetCurrent(&context))
		note_context(context, 0);
	if (stream != CU_STREAM_LEGACY && stream != CU_STREAM_PER_THREAD &&
	    !real.cuStreamGetCtx(stream, &context))
		note_context(context, 1);
}

static struct shard *take_shard(void)
{
	const uint32_t number = atomic_fetch_add(&when.nr_threads, 1);

	mine.shard = &shards[MIN(number, SHARDS - 1)];
	mine.shares = number >= SHARDS - 1;
	return mine.shard;
}

/* Who has a shard alone need not lock the bus. */
static void leave(struct shard *shard)
{
	if (mine.shares)
		atomic_fetch_add(&shard->nr_out, 1);
	else
		atomic_store_explicit(&shard->nr_out,
				      atomic_load_explicit(&shard->nr_out, memory_order_relaxed) +
					      1,
				      memory_order_release); /* pairs with the load in sum() */
}

bool when_pass(cu_stream stream)
{
	struct shard *shard;

	if (!when_is_before())
		return false;
	shard = mine.shard ? mine.shard : take_shard();
	/* Either the switch is seen here, or this is seen by who waits for what passes: both write
	 * first, and then read what the other one wrote, in one order for all. */
	atomic_fetch_add(&shard->nr_in, 1);
	if (when_is_before()) {
		note_contexts(stream);
		return true;
	}
	leave(shard);
	return false;
}

void when_passed(void)
{
	leave(mine.shard);
}

static uint64_t sum(bool out)
{
	uint64_t nr = 0;

	for (uint32_t s = 0; s < SHARDS; s++)
		nr += atomic_load(out ? &shards[s].nr_out : &shards[s].nr_in);
	return nr;
}

/* Whether any operation is in the driver. What left is counted first: so one that enters and leaves
 * meanwhile counts as one that is there. */
static bool is_passing(void)
{
	const uint64_t nr_out = sum(true);

	return nr_out != sum(false);
}

/* ------------------------------------------------------------------ waiting for it */

/* Whether a result means that the context is gone, and its work, too. */
static bool is_gone(cu_result result)
{
	return result == CU_INVALID_CONTEXT || result == CU_CONTEXT_IS_DESTROYED;
}

static cu_result sync_context(cu_context context)
{
	cu_context popped;
	cu_result result = real.cuCtxPushCurrent_v2(context);

	if (result)
		return is_gone(result) ? CU_SUCCESS : result;
	while ((result = captures_sync()) >= CU_CAPTURE_UNSUPPORTED &&
	       result <= CU_CAPTURE_WRONG_THREAD && !atomic_load(&when.ends))
		pause_for(CAPTURE_NS);
	(void)real.cuCtxPopCurrent_v2(&popped);
	return is_gone(result) ? CU_SUCCESS : result;
}

/* @return false: there is none any more */
static bool take_context(cu_context *context)
{
	bool taken;

	pthread_mutex_lock(&when.lock);
	taken = when.nr_contexts > 0;
	if (taken)
		*context = when.context[--when.nr_contexts];
	pthread_mutex_unlock(&when.lock);
	return taken;
}

/* Until all work that has no bracket is done. @return whether it is */
static bool wait_for_passed(void)
{
	cu_context context;
	cu_result result = CU_SUCCESS;

	while (is_passing() && !atomic_load(&when.ends))
		pause_for(PAUSE_NS);
	while (!result && !atomic_load(&when.ends) && take_context(&context))
		result = sync_context(context);
	return !result && !when.unknown && !atomic_load(&when.ends);
}

static void explain(bool moves)
{
	if (!settings_get()->explain)
		return;
	if (moves)
		summary_say("all that was queued without brackets is done, after %.1f ms: memory "
			    "moves",
			    (double)(when.moved_ns - when.switched_ns) / 1e6);
	else
		summary_say("it is not known whether all that was queued without brackets is done: "
			    "memory stays where it is");
}

static void *switch_thread(void *arg)
{
	int mode = CU_CAPTURE_MODE_RELAXED;
	bool moves;

	/* What other threads capture is theirs. */
	(void)real.cuThreadExchangeStreamCaptureMode(&mode);
	moves = wait_for_passed() && !memory_set_moving();
	(void)real.cuThreadExchangeStreamCaptureMode(&mode);
	pthread_mutex_lock(&when.lock);
	when.moved_ns = moves ? clock_now_ns() : 0;
	if (moves)
		atomic_store(&when.step, MOVES);
	if (!atomic_load(&when.ends))
		explain(moves);
	when.has_thread = false;
	pthread_mutex_unlock(&when.lock);
	return arg;
}

/* The program's signals go to its own threads: this one takes none but those of its own faults. */
static bool start_thread(void)
{
	static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT};
	sigset_t signals, before;
	pthread_t thread;
	int err;

	sigfillset(&signals);
	for (size_t i = 0; i < ARRAY_LEN(own); i++)
		sigdelset(&signals, own[i]);
	pthread_sigmask(SIG_SETMASK, &signals, &before);
	err = pthread_create(&thread, NULL, switch_thread, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!err)
		pthread_detach(thread);
	return !err;
}

/* ------------------------------------------------------------------ the switch */

/* Take the first step. @return false: it was made */
static bool begin_switch(uint64_t bytes)
{
	struct memory_account account;
	bool begins;

	memory_account(&account);
	pthread_mutex_lock(&when.lock);
	begins = when_is_before();
	if (begins) {
		when.allocation = account.nr_allocs + 1;
		when.bytes = bytes;
		when.switched_ns = clock_now_ns();
		when.has_thread = true;
		/* Others that find no room wait for the lock, and then have some. */
		memory_let_spill();
		atomic_store(&when.step, WAITS);
	}
	pthread_mutex_unlock(&when.lock);
	return begins;
}

static bool has_thread(void)
{
	bool has;

	pthread_mutex_lock(&when.lock);
	has = when.has_thread;
	pthread_mutex_unlock(&when.lock);
	return has;
}

void when_switch(uint64_t bytes)
{
	const uint64_t hold_ns = settings_get()->hold_ns;

	note_contexts(CU_STREAM_LEGACY);
	if (!begin_switch(bytes))
		return;
	summary_note_switched(bytes);
	if (!start_thread())
		(void)switch_thread(NULL);
	while (has_thread() && clock_now_ns() - when.switched_ns < hold_ns)
		pause_for(PAUSE_NS);
}

void when_context_ends(cu_context context)
{
	uint32_t c = 0;

	pthread_mutex_lock(&when.lock);
	while (c < when.nr_contexts && when.context[c] != context)
		c++;
	if (c < when.nr_contexts)
		when.context[c] = when.context[--when.nr_contexts];
	atomic_fetch_add(&when.nr_gone, 1);
	pthread_mutex_unlock(&when.lock);
}

void when_end(void)
{
	atomic_store(&when.ends, true);
	while (has_thread())
		pause_for(PAUSE_NS);
	atomic_store(&when.ends, false);
	/* Of the next space nothing is in use. */
	if (atomic_load(&when.step) == WAITS)
		atomic_store(&when.step, MOVES);
}

void when_account(struct when_account *out)
{
	const int step = atomic_load(&when.step);

	pthread_mutex_lock(&when.lock);
	*out = (struct when_account){
		.late = settings_get()->late,
		.switched = step >= WAITS,
		.moves = when.moved_ns != 0,
		.nr_passed = sum(false),
		.allocation = when.allocation,
		.bytes = when.bytes,
		.switched_ns = step < WAITS ? 0 : when.switched_ns - when.begin_ns,
		.waited_ns = when.moved_ns ? when.moved_ns - when.switched_ns : 0,
	};
	pthread_mutex_unlock(&when.lock);
}
