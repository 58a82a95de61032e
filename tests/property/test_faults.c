/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every backend call of a scripted run fails in turn: once with each of two error codes, together
 * with the call after it, and with a program that gives up what failed instead of trying again.
 * After each call of the program the space's structures are whole; at the end the bytes are right,
 * everything could be torn down and the simulator has nothing left. The script allocates more than
 * the budget, repeats itself until a plan is followed, and walks every entry of the public header
 * that takes a space. A second script goes between three places, a third one between four.
 * Single-threaded; what threads do to each other is not looked at.
 *
 * The first round takes one call in 13, but of the first script one in 31, and one in 37 where it
 * is on two devices or compares what leaves; of the other three rounds each takes one in 83. What
 * repeats in a script has other periods. All take each with WEIR_TEST_LONG.
 *
 * FAULT_AT=n in the environment: only the n-th call fails, to look at one run. An
 * argument is a pattern of the tests to run.
 *
 * Takes some seconds of a processor: hundreds of runs of the scripts.
 *
 * Labels: slow
 * Timeout: 300
 * Long: yes
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "src/backend/machine.h"
#include "src/core/space.h"
#include "tests/property/test_faults_hook.h"
#include "tests/property/test_faults_script.h"
#include "tests/support/amount.h"
#include "tests/unit/test_sim_machine.h"

/* Of so many words. */
#define BYTES(nr) ((uint64_t)(nr) * sizeof(uint32_t))
#define NR_ITERATIONS 7
#define NR_STREAMS 3
#define NEAR_BLOCKS 16u
/* A run may hang only by a bug: nothing in it waits for more than the simulator's virtual time. */
#define RUN_SECONDS 20
#define TRIES 5

/* ------------------------------------------------------------------ one run */

/* undefined: its contents are not known, and not compared. */
struct shadow {
	uint32_t *addr;	 /* in the space; NULL: not allocated */
	uint32_t *words; /* what it should hold */
	bool undefined;
};

/* Steps, those in the middle NR_ITERATIONS times, and the blocks of each budget. */
struct script {
	const struct step *before, *repeated, *after;
	size_t nr_before, nr_repeated, nr_after;
	uint32_t blocks[1 + TEST_GPUS_MAX]; /* by memory */
	uint64_t nr_calls;		    /* of the backend, that it makes at least */
	uint64_t apart; /* from one call that fails in the first round to the next, usually */
	bool both;	/* a space of two devices; the last stream is the second one's */
	bool compares;	/* what leaves is compared first */
};

/* The steps of the first script, and the calls that they make. */
#define PLAN_STEPS                                                                              \
	.before = before, .repeated = repeated, .after = after, .nr_before = ARRAY_LEN(before), \
	.nr_repeated = ARRAY_LEN(repeated), .nr_after = ARRAY_LEN(after), .nr_calls = 500

static const struct script script_plan = {
	PLAN_STEPS,
	.blocks = {[GPU0] = 16, [HOST] = 48},
	.apart = 31,
};

/* The same with a second GPU, which uses what the first one does. */
static const struct script script_devices = {
	PLAN_STEPS,
	.blocks = {[HOST] = 48, [GPU0] = 16, [GPU1] = 8},
	.apart = 37,
	.both = true,
};

/* A space that compares what leaves, and launches that may touch anything. */
static const struct script script_compare = {
	.before = before,
	.repeated = repeated_open,
	.after = after,
	.nr_before = ARRAY_LEN(before),
	.nr_repeated = ARRAY_LEN(repeated_open),
	.nr_after = ARRAY_LEN(after),
	.blocks = {[GPU0] = 16, [HOST] = 48},
	.nr_calls = 500,
	.apart = 37,
	.compares = true,
};

static const struct script script_places = {
	.before = places,
	.nr_before = ARRAY_LEN(places),
	.blocks = {[GPU0] = 12, [GPU1] = 16, [HOST] = 24},
	.nr_calls = 300,
	.apart = 13,
};

static const struct script script_neighbours = {
	.before = neighbours,
	.nr_before = ARRAY_LEN(neighbours),
	.blocks = {[GPU0] = 8, [GPU1] = NEAR_BLOCKS, [GPU2] = 16, [HOST] = 24},
	.nr_calls = 300,
	.apart = 13,
};

static struct run {
	struct backend *flaky;
	struct weir_machine *machine;
	struct weir_space *space;
	struct weir_stream *stream[NR_STREAMS];
	struct shadow range[NR_RANGES];
	struct weir_space_stats stats; /* at the end */
	uint32_t nr_statuses;
	int last_status;
	const struct step *step; /* being run */
	uint32_t nr_steps;
	uint32_t value;			   /* of the next fill */
	uint64_t nr_calls, nr_calls_alive; /* in all; before teardown */
	char sim_error[256];		   /* what the simulator complained of */
} run;

/* ---- what goes wrong is said with what was made to fail */

static void describe(void)
{
	print_error("backend call %llu (%s) and %d more fail with %d, the program %s; "
		    "at step %u: %s %c %c: ",
		    (unsigned long long)hook.faults.at, hook.op ? hook.op : "not reached",
		    (int)hook.faults.nr - 1, hook.faults.err,
		    hook.faults.give_up ? "gives up" : "tries again", run.nr_steps,
		    run.step ? action_name[run.step->action] : "begin or end",
		    run.step ? "ABCDs"[run.step->x] : ' ', run.step ? "ABCDs"[run.step->y] : ' ');
}

#define EXPECT(what, ...)                      \
	do {                                   \
		if (!(what)) {                 \
			describe();            \
			fail_msg(__VA_ARGS__); \
		}                              \
	} while (0)

/* Only what a signal handler may: FAULT_AT with this number shows the rest in a debugger. */
static void on_alarm(int signal_number)
{
	char text[] = "test_faults: the run hangs in which backend call 00000000 fails\n";
	char *digit = strstr(text, "00000000") + 7;

	(void)signal_number;
	for (uint64_t at = hook.faults.at; at && *digit == '0'; at /= 10)
		*digit-- = (char)('0' + at % 10);
	(void)!write(STDERR_FILENO, text, sizeof(text) - 1);
	_exit(1);
}

static void on_log(void *arg, enum weir_log_level level, const char *message)
{
	(void)arg;
	if (level == WEIR_LOG_ERROR && !run.sim_error[0] &&
	    (!strncmp(message, "sim", 3) || !strncmp(message, "kernel", 6)))
		snprintf(run.sim_error, sizeof(run.sim_error), "%s", message);
}

/* After each public call: its status is one that was injected or follows from it, and the space is
 * whole. @return whether it failed. */
static bool called(int err)
{
	if (run.space)
		EXPECT(!weir_space_check(run.space), "the space is broken");
	EXPECT(!run.sim_error[0], "%s", run.sim_error);
	if (!err)
		return false;
	EXPECT(hook.nr_failed, "status %d (%s) and nothing was injected", err, weir_strerror(err));
	/* A space that could not be made planned again, and was given up, holds what is used. */
	EXPECT(err == hook.faults.err || err == -ENOMEM ||
		       (err == -EBUSY && run.space && run.space->mode == WEIR_FIXED),
	       "status %d (%s) is not what was injected", err, weir_strerror(err));
	run.nr_statuses++;
	run.last_status = err;
	return true;
}

/* Call until it works: failures do not last. With give_up, once. @return whether it worked. */
#define ATTEMPT(worked, tries, call)                                                        \
	do {                                                                                \
		int tries_left = (tries);                                                   \
                                                                                            \
		while (!((worked) = !called(call)) && --tries_left > 0)                     \
			;                                                                   \
		EXPECT((worked) || hook.faults.give_up, "it stays at %d", run.last_status); \
	} while (0)

/* For what may be left undone, and for what must not. */
#define TRY(worked, call) ATTEMPT(worked, hook.faults.give_up ? 1 : TRIES, call)
#define MUST(call)                                                      \
	do {                                                            \
		bool must_worked;                                       \
                                                                        \
		ATTEMPT(must_worked, TRIES, call);                      \
		EXPECT(must_worked, "it stays at %d", run.last_status); \
	} while (0)

/* ------------------------------------------------------------------ kernels */

struct kernel_args {
	uint32_t *dst;
	const uint32_t *src;
	uint32_t nr, value;
};

static void fill_cpu(const void *arg)
{
	const struct kernel_args *a = arg;

	for (uint32_t i = 0; i < a->nr; i++)
		a->dst[i] = a->value * 2654435761u + i;
}

static void add_cpu(const void *arg)
{
	const struct kernel_args *a = arg;

	for (uint32_t i = 0; i < a->nr; i++)
		a->dst[i] += 3u * a->src[i] + 1u;
}

static void gather_cpu(const void *arg)
{
	const struct kernel_args *a = arg;

	for (uint32_t i = 0; i < 8; i++)
		a->dst[i] += a->src[i * 997u % a->nr];
}

static const struct weir_kernel fill_kernel = {.name = "fill", .cpu = fill_cpu},
				add_kernel = {.name = "add", .cpu = add_cpu},
				gather_kernel = {.name = "gather", .cpu = gather_cpu};

static const struct weir_kernel *kernel_of(enum action action)
{
	switch (action) {
	case FILL:
	case HOST_FILL:
		return &fill_kernel;
	case GATHER:
		return &gather_kernel;
	default:
		return &add_kernel;
	}
}

/* On the space's bytes, or on what they should be. */
static struct kernel_args args_of(const struct step *step, bool shadow)
{
	const struct shadow *x = &run.range[step->x], *y = &run.range[step->y];
	uint32_t nr = range_words[step->x];

	if (step->action == GATHER)
		nr = range_words[step->y];
	else if (step->action != FILL && step->action != HOST_FILL)
		nr = MIN(nr, range_words[step->y]);
	return (struct kernel_args){.dst = shadow ? x->words : x->addr,
				    .src = shadow ? y->words : y->addr,
				    .nr = nr,
				    .value = run.value};
}

static uint32_t uses_of(const struct step *step, struct weir_use use[2])
{
	struct kernel_args args = args_of(step, false);

	if (step->action == FILL || step->action == HOST_FILL) {
		use[0] = use_of(args.dst, BYTES(args.nr), WEIR_OVERWRITE);
		return 1;
	}
	use[0] = use_of(args.dst, step->action == GATHER ? 32 : BYTES(args.nr), WEIR_WRITE);
	use[1] = use_of((void *)(uintptr_t)args.src, BYTES(args.nr), WEIR_READ);
	if (step->action == GATHER) {
		use[1].pattern = WEIR_RANDOM;
		use[1].granule = 4;
		use[1].read_bytes = 32;
	}
	return 2;
}

/* The step has run: so it should be. */
static void expect_effect(const struct step *step)
{
	struct kernel_args args = args_of(step, true);
	struct shadow *x = &run.range[step->x];

	kernel_of(step->action)->cpu(&args);
	if (args.dst == x->words && kernel_of(step->action) == &fill_kernel)
		x->undefined = false;
	else
		x->undefined |= run.range[step->y].undefined;
	run.value++;
}

/* ------------------------------------------------------------------ steps */

static int launch(const struct step *step)
{
	struct kernel_args args = args_of(step, false);
	struct weir_use use[2];
	struct weir_launch launch = {.kernel = kernel_of(step->action),
				     .args = &args,
				     .args_bytes = sizeof(args),
				     .uses = use,
				     .nr_uses = uses_of(step, use)};

	return weir_stream_launch(run.stream[step->stream], &launch);
}

/* The step's bracket. */
static int begin(const struct step *step, const struct weir_use use[2], uint32_t nr)
{
	struct weir_stream *stream = run.stream[step->stream];

	if (step->action == TWICE)
		return weir_begin(run.space, stream, NULL, 0);
	if (step->action == OPEN_ADD && run.space->nr_devices == 1)
		return weir_begin_open(run.space, stream, &use[1], 1);
	return weir_begin(run.space, stream, use, nr);
}

static void step_bracket(const struct step *step)
{
	struct weir_stream *stream = run.stream[step->stream];
	struct step back = {ADD, step->y, step->x, step->stream};
	bool whole = step->action == TWICE, worked;
	struct weir_use use[2];
	uint32_t nr = uses_of(step, use);

	TRY(worked, begin(step, use, nr));
	if (!worked) {
		/* Its header: what it was to overwrite may be lost. */
		run.range[step->x].undefined |= use[0].kind == WEIR_OVERWRITE;
		return;
	}
	TRY(worked, launch(step));
	if (worked)
		expect_effect(step);
	else if (use[0].kind == WEIR_OVERWRITE)
		run.range[step->x].undefined = true; /* declared, and not done */
	if (whole) {
		TRY(worked, launch(&back));
		if (worked)
			expect_effect(&back);
	}
	MUST(weir_end(run.space, stream));
}

static void step_discard(const struct step *step)
{
	struct weir_use use =
		use_of(run.range[step->x].addr, BYTES(range_words[step->x]), WEIR_DISCARD);
	bool worked;

	TRY(worked, weir_begin(run.space, run.stream[step->stream], &use, 1));
	if (!worked)
		return;
	MUST(weir_end(run.space, run.stream[step->stream]));
	run.range[step->x].undefined = true;
}

static void step_host(const struct step *step)
{
	struct kernel_args args = args_of(step, false);
	struct weir_use use[2];
	uint32_t nr = uses_of(step, use);
	bool worked;

	TRY(worked, weir_host_begin(run.space, use, nr));
	if (!worked) {
		run.range[step->x].undefined |= use[0].kind == WEIR_OVERWRITE;
		return;
	}
	kernel_of(step->action)->cpu(&args);
	expect_effect(step);
	MUST(weir_host_end(run.space, use, nr));
}

static void step_alloc(const struct step *step)
{
	struct shadow *x = &run.range[step->x];
	void *addr = NULL;
	bool worked;

	/* Nothing after it would make sense without. */
	MUST(weir_alloc(run.space, BYTES(range_words[step->x]), run.stream[step->stream], &addr));
	x->addr = addr;
	x->undefined = true;
	(void)worked;
}

static void step_free(const struct step *step)
{
	struct shadow *x = &run.range[step->x];

	EXPECT(!called(weir_free(run.space, x->addr, run.stream[step->stream])),
	       "a range cannot be freed");
	x->addr = NULL;
}

static void step_write(const struct step *step)
{
	struct shadow *x = &run.range[step->x];
	uint32_t first = WORDS / 2, nr = 3 * WORDS;
	uint32_t *data = malloc(nr * sizeof(*data));
	bool worked;

	assert_non_null(data);
	for (uint32_t i = 0; i < nr; i++)
		data[i] = run.value * 40503u + i;
	TRY(worked, weir_write(run.space, x->addr + first, data, nr * sizeof(*data)));
	if (worked)
		memcpy(x->words + first, data, nr * sizeof(*data));
	free(data);
}

static void step_read(const struct step *step)
{
	struct shadow *x = &run.range[step->x];
	uint32_t nr = range_words[step->x];
	uint32_t *data = malloc(nr * sizeof(*data));
	bool worked;

	assert_non_null(data);
	MUST(weir_read(run.space, data, x->addr, nr * sizeof(*data)));
	for (uint32_t i = 0; !x->undefined && i < nr; i++)
		EXPECT(data[i] == x->words[i], "word %u of range %d is %08x and should be %08x", i,
		       step->x, data[i], x->words[i]);
	free(data);
	(void)worked;
}

static void step_prefetch(const struct step *step)
{
	static const uint32_t memory[] = {
		[UP] = GPU0, [DOWN] = HOST, [ASIDE] = GPU1, [BEYOND] = GPU2};
	struct weir_fence *fence;
	bool worked;

	TRY(worked, weir_prefetch(run.space, run.range[step->x].addr, BYTES(range_words[step->x]),
				  memory[step->action], &fence));
	if (!worked)
		return;
	(void)called(MIN(weir_fence_query(fence), 0));
	/* Once: what the prefetch met stays its result. */
	(void)called(weir_fence_wait(fence));
	weir_fence_put(fence);
}

/* A failure leaves the budget as it was, and the rest works with either. */
static void step_budget(const struct step *step)
{
	uint64_t bytes = step->action == LEND ? (uint64_t)NEAR_BLOCKS * BLOCK : 0;
	bool worked;

	TRY(worked, weir_space_set_budget(run.space, GPU1, bytes));
	if (worked && !bytes) {
		struct weir_space_stats stats;

		weir_space_query(run.space, &stats);
		EXPECT(!stats.memory[GPU1].bytes, "something is left at the neighbour");
	}
}

static void step_advise(const struct step *step)
{
	enum weir_advice advice = WEIR_ADVISE_DEFAULT;
	uint32_t where = 0;
	bool worked;

	if (step->action == READ_MOSTLY)
		advice = WEIR_ADVISE_READ_MOSTLY;
	if (step->action == PREFER_HOST || step->action == PREFER_ASIDE) {
		advice = WEIR_ADVISE_PREFER_MEMORY;
		where = step->action == PREFER_HOST ? HOST : GPU1;
	}
	if (step->action == ACCESSED_BY) {
		advice = WEIR_ADVISE_ACCESSED_BY;
		where = 1;
	}
	TRY(worked, weir_advise(run.space, run.range[step->x].addr, advice, where));
}

/* In a space whose mode could not be changed, what is for a fixed one needs its bracket. */
static void step_fixed(const struct step *step)
{
	bool worked;

	if (run.space->mode != WEIR_FIXED) {
		step_bracket(step);
		return;
	}
	TRY(worked, launch(step));
	if (worked)
		expect_effect(step);
	/* What follows is not ordered by brackets. */
	MUST(weir_stream_sync(run.stream[step->stream]));
}

static void step_open(const struct step *step)
{
	struct weir_use use[2];
	struct step add = {ADD, step->x, B, step->stream};
	bool worked;

	(void)uses_of(&add, use);
	TRY(worked, weir_begin(run.space, run.stream[step->stream], use, 2));
	if (worked)
		TRY(worked, launch(&add));
}

static void step_run(const struct step *step)
{
	bool worked;

	run.step = step;
	run.nr_steps++;
	switch (step->action) {
	case ALLOC:
		step_alloc(step);
		break;
	case FREE:
		step_free(step);
		break;
	case FILL:
	case ADD:
	case GATHER:
	case TWICE:
	case OPEN_ADD:
		step_bracket(step);
		break;
	case FIXED_ADD:
		step_fixed(step);
		break;
	case HOST_ADD:
	case HOST_FILL:
		step_host(step);
		break;
	case DISCARD:
		step_discard(step);
		break;
	case WRITE:
		step_write(step);
		break;
	case READ:
		step_read(step);
		break;
	case UP:
	case DOWN:
	case ASIDE:
	case BEYOND:
		step_prefetch(step);
		break;
	case TAKE_BACK:
	case LEND:
		step_budget(step);
		break;
	case PREFER_HOST:
	case PREFER_ASIDE:
	case READ_MOSTLY:
	case ACCESSED_BY:
	case ADVISE_NOTHING:
		step_advise(step);
		break;
	case SET_FIXED:
		TRY(worked, weir_space_set_mode(run.space, WEIR_FIXED));
		break;
	case SET_PLANNED:
		/* It must: the steps behind it use brackets. A fixed space takes them as well. */
		TRY(worked, weir_space_set_mode(run.space, WEIR_PLANNED));
		break;
	case SYNC:
		MUST(weir_stream_sync(run.stream[step->stream]));
		break;
	case SYNC_ALL:
		MUST(weir_space_sync(run.space));
		break;
	case LEAVE_OPEN:
		step_open(step);
		break;
	}
}

/* ------------------------------------------------------------------ the whole of a run */

static void run_create(const struct script *script, const struct faults *faults)
{
	struct weir_space_config config = {.devices = WEIR_MEM_DEVICE(0) |
						      (script->both ? WEIR_MEM_DEVICE(1) : 0),
					   .dirty_max_bytes = {[GPU1] = BLOCK, [GPU2] = BLOCK},
					   .block_bytes = BLOCK,
					   .mode = WEIR_PLANNED};
	struct weir_machine_desc desc;
	struct backend *sim;

	memset(&run, 0, sizeof(run));
	run.value = 1;
	for (uint32_t m = 0; m < ARRAY_LEN(script->blocks); m++)
		config.budget_bytes[m] = (uint64_t)script->blocks[m] * BLOCK;
	test_machine_gpus(&desc, script->blocks[GPU2] ? 3 : 2);
	assert_int_equal(sim_create(&desc, WEIR_DATA_REAL, &sim), 0);
	assert_int_equal(flaky_create(sim, &run.flaky), 0);
	hook_install(run.flaky, faults);
	assert_int_equal(machine_wrap(run.flaky, &run.machine), 0);
	for (uint32_t s = 0; s < NR_STREAMS; s++)
		MUST(weir_stream_create(run.machine, script->both && s == NR_STREAMS - 1,
					&run.stream[s]));
	MUST(weir_space_create(run.machine, &config, &run.space));
	if (script->compares)
		MUST(compare_init(run.space));
	run.space->poison = true;
	for (uint32_t x = 0; x < NR_RANGES; x++) {
		run.range[x].words = calloc(range_words[x], 4);
		assert_non_null(run.range[x].words);
	}
}

static void run_destroy(void)
{
	run.step = NULL;
	run.nr_calls_alive = flaky_nr_calls(run.flaky);
	weir_space_query(run.space, &run.stats);
	weir_space_destroy(run.space);
	run.space = NULL;
	for (uint32_t s = 0; s < NR_STREAMS; s++)
		weir_stream_destroy(run.stream[s]);
	EXPECT(!run.sim_error[0], "%s", run.sim_error);
	EXPECT(!sim_leaks(flaky_inner(run.flaky)), "the simulator has %d things left",
	       sim_leaks(flaky_inner(run.flaky)));
	run.nr_calls = flaky_nr_calls(run.flaky);
	weir_machine_close(run.machine);
	for (uint32_t x = 0; x < NR_RANGES; x++)
		free(run.range[x].words);
}

static void run_steps(const struct step *steps, size_t nr)
{
	for (size_t i = 0; i < nr; i++)
		step_run(&steps[i]);
}

static void run_script(const struct script *script, const struct faults *faults)
{
	alarm(RUN_SECONDS);
	run_create(script, faults);
	run_steps(script->before, script->nr_before);
	for (uint32_t n = 0; n < NR_ITERATIONS; n++)
		run_steps(script->repeated, script->nr_repeated);
	run_steps(script->after, script->nr_after);
	run_destroy();
	alarm(0);
}

/* ------------------------------------------------------------------ tests */

/* Without faults the script does what it is meant to walk. */
static void faults_none(void **state)
{
	static const struct faults none = {0};
	const struct weir_space_stats *stats = &run.stats;

	(void)state;
	run_script(&script_plan, &none);
	print_message("%llu calls of the backend, %llu plans\n", (unsigned long long)run.nr_calls,
		      (unsigned long long)stats->nr_plans);
	assert_true(stats->nr_plans > 0);
	assert_true(stats->nr_moves[WEIR_CAUSE_DEMAND] > 0);
	assert_true(stats->nr_moves[WEIR_CAUSE_PREFETCH] > 0);
	assert_true(stats->nr_moves[WEIR_CAUSE_EVICTION] > 0);
	assert_true(stats->link_bytes[0][BACKEND_TO_DEVICE][WEIR_CAUSE_INPLACE] >
		    0); /* host-gpu0 */
	assert_true(stats->link_bytes[0][BACKEND_TO_HOST][WEIR_CAUSE_INPLACE] > 0);
	assert_true(stats->nr_dead_dropped > 0);
	assert_true(stats->nr_clean_dropped > 0);
	assert_true(stats->nr_overwrites_saved > 0);
}

/*
 * Whether it is right that no call of the program reported the failure: chunks and digests that
 * cannot be had are done without, questions and fences are asked for again, and what destroys has
 * no status.
 */
static bool may_go_unseen(const struct script *script)
{
	static const char *const ops[] = {"chunk_create",  "digest",	      "fence_record",
					  "fence_untimed", "fence_done",      "fence_seen",
					  "fence_wait",	   "fence_wait_awake"};

	if (hook.faults.at > run.nr_calls_alive)
		return true;
	/* What is to leave a lowered budget in the background tries again when it has no memory. */
	if (script == &script_neighbours && hook.faults.err == -ENOMEM && !strcmp(hook.op, "unmap"))
		return true;
	for (size_t i = 0; i < ARRAY_LEN(ops); i++)
		if (!strcmp(hook.op, ops[i]))
			return true;
	return false;
}

static void each_call(const struct script *script, uint32_t round, uint32_t nr, int err,
		      bool give_up)
{
	const uint64_t usually = round == 1 ? script->apart : 83;
	uint64_t apart = test_amount(NULL, (struct test_amount){usually, usually, 1});
	const char *only = getenv("FAULT_AT");
	struct faults faults = {.nr = nr, .err = err, .give_up = give_up};
	uint32_t nr_tried = 0, nr_unseen = 0;

	if (only) {
		faults.at = strtoull(only, NULL, 10);
		run_script(script, &faults);
		print_message("%s, %u statuses\n", hook.op ? hook.op : "not reached",
			      run.nr_statuses);
		return;
	}

	for (faults.at = round % apart + 1;; faults.at += apart) {
		run_script(script, &faults);
		if (!hook.nr_failed)
			break;
		nr_tried++;
		nr_unseen += !run.nr_statuses;
		if (!run.nr_statuses)
			EXPECT(may_go_unseen(script), "no call reports it");
	}
	print_message("%u calls failed in turn, %u of them without a status\n", nr_tried,
		      nr_unseen);
	assert_true(faults.at > script->nr_calls);
}

static void faults_compare_none(void **state)
{
	static const struct faults none = {0};
	const struct weir_space_stats *stats = &run.stats;

	(void)state;
	run_script(&script_compare, &none);
	print_message("%llu calls of the backend, %llu compared, %llu unchanged\n",
		      (unsigned long long)run.nr_calls, (unsigned long long)stats->nr_compared,
		      (unsigned long long)stats->nr_unchanged);
	assert_true(stats->nr_unchanged > 0);
	assert_true(stats->nr_compared > stats->nr_unchanged);
}

/* ------------------------------------------------------------------ three places */

static void faults_places_none(void **state)
{
	static const struct faults none = {0};
	const struct weir_space_stats *stats = &run.stats;

	(void)state;
	run_script(&script_places, &none);
	print_message("%llu calls of the backend\n", (unsigned long long)run.nr_calls);
	for (uint32_t link = 0; link < 3; link++)
		for (int d = 0; d < BACKEND_DIRECTION_NR; d++)
			assert_true(stats->link_bytes[link][d][WEIR_CAUSE_PREFETCH] > 0);
	/* host-gpu0, gpu0-gpu1 */
	assert_true(stats->link_bytes[0][WEIR_A_TO_B][WEIR_CAUSE_DEMAND] > 0);
	assert_true(stats->link_bytes[0][WEIR_B_TO_A][WEIR_CAUSE_EVICTION] > 0);
	assert_true(stats->link_bytes[2][WEIR_B_TO_A][WEIR_CAUSE_DEMAND] > 0);
	assert_true(stats->link_bytes[2][WEIR_A_TO_B][WEIR_CAUSE_EVICTION] > 0);
	assert_true(stats->nr_clean_dropped > 0);
}

/* ------------------------------------------------------------------ four places */

static void faults_neighbours_none(void **state)
{
	static const struct faults none = {0};
	struct weir_machine_desc desc;

	(void)state;
	run_script(&script_neighbours, &none);
	print_message("%llu calls of the backend\n", (unsigned long long)run.nr_calls);
	test_machine_gpus(&desc, 3);
	/* Whatever two memories a link joins, something was copied both ways. */
	for (uint32_t link = 0; link < desc.nr_links; link++)
		for (int d = 0; d < BACKEND_DIRECTION_NR; d++) {
			uint64_t bytes = 0;

			for (int cause = 0; cause < WEIR_CAUSE_NR; cause++)
				if (cause != WEIR_CAUSE_INPLACE)
					bytes += run.stats.link_bytes[link][d][cause];
			if (!bytes)
				fail_msg("nothing was copied over link %u in direction %d", link,
					 d);
		}
}

/* ------------------------------------------------------------------ two devices */

static void faults_devices_none(void **state)
{
	static const struct faults none = {0};
	const struct weir_space_stats *stats = &run.stats;

	(void)state;
	run_script(&script_devices, &none);
	print_message("%llu calls of the backend\n", (unsigned long long)run.nr_calls);
	/* gpu0-gpu1: one uses in place what is the other one's. */
	assert_true(stats->link_bytes[2][WEIR_A_TO_B][WEIR_CAUSE_INPLACE] +
			    stats->link_bytes[2][WEIR_B_TO_A][WEIR_CAUSE_INPLACE] >
		    0);
}

/* ------------------------------------------------------------------ rounds */

struct round {
	const struct script *script;
	uint32_t number, nr;
	int err;
	bool give_up;
};

static void faults_round(void **state)
{
	const struct round *round = *state;

	each_call(round->script, round->number, round->nr, round->err, round->give_up);
}

#define ROUND(name, ...)                                          \
	{                                                         \
		(name), faults_round, NULL, NULL, &(struct round) \
		{                                                 \
			__VA_ARGS__                               \
		}                                                 \
	}
#define ROUNDS(name, script)                                                         \
	ROUND(name "_each_call", &(script), 1, 1, -EIO, false),                      \
		ROUND(name "_each_call_no_memory", &(script), 2, 1, -ENOMEM, false), \
		ROUND(name "_each_call_given_up", &(script), 3, 1, -EIO, true),      \
		ROUND(name "_each_pair", &(script), 4, 2, -EIO, false)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(faults_none),
		ROUNDS("faults", script_plan),
		cmocka_unit_test(faults_compare_none),
		ROUNDS("faults_compare", script_compare),
		cmocka_unit_test(faults_places_none),
		ROUNDS("faults_places", script_places),
		cmocka_unit_test(faults_neighbours_none),
		ROUNDS("faults_neighbours", script_neighbours),
		cmocka_unit_test(faults_devices_none),
		ROUNDS("faults_devices", script_devices),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	signal(SIGALRM, on_alarm);
	weir_log_set(on_log, NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
