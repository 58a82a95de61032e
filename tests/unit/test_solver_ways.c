/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The solvers over replicas, on a simulated machine with real bytes: what they have at the end is
 * bit by bit what one device has, in each way in which a message can be sent, driven by one thread
 * or by a thread a device, with as much memory as kernels name and with less.
 *
 * manager_weir.c has one thread and lets the library choose, and for fields and als there is
 * nothing to choose, as they have no lists. So the manager here is a test's own, on the public API:
 * it forces a way, and gives each device a list of all that others wrote and it reads.
 *
 * Labels: threads
 * Long: yes
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "src/backend/machine.h"
#include "src/base/util.h"
#include "src/replica/replica.h"
#include "tests/support/amount.h"
#include "tests/unit/test_sim_machine.h"
#include "workloads/solver/solver.h"

#define SEED 20264u
#define JOBS_MAX 32u
#define ARGS_MAX 1024u
#define STEPS_MAX 2u /* of a bracket */
/* A step's reads are its own part, and what is before and behind that. */
#define BRACKET_USES_MAX (STEPS_MAX * (3 * SOLVER_USES_MAX + SOLVER_OWN_USES_MAX))

static const struct way {
	const char *name;
	enum weir_subscription subscription;
	bool publishes;	 /* by weir_publish(), before brackets end */
	bool lists;	 /* devices are subscribed to elements, and brackets read these */
	uint32_t forced; /* struct replicas has it */
} ways[] = {
	{"learned", WEIR_SUBSCRIBE_LEARNED, false, false, 0},
	{"manual", WEIR_SUBSCRIBE_MANUAL, false, false, 0},
	{"all", WEIR_SUBSCRIBE_ALL, false, false, 0},
	{"none", WEIR_SUBSCRIBE_NONE, false, false, 0},
	{"published", WEIR_SUBSCRIBE_LEARNED, true, false, 0},
	{"lists", WEIR_SUBSCRIBE_LEARNED, false, true, 0},
	{"whole", WEIR_SUBSCRIBE_LEARNED, false, true, WEIR_SENT_WHOLE + 1},
	{"runs", WEIR_SUBSCRIBE_LEARNED, false, true, WEIR_SENT_RUNS + 1},
	{"packets", WEIR_SUBSCRIBE_LEARNED, false, true, WEIR_SENT_PACKETS + 1},
	{"published packets", WEIR_SUBSCRIBE_LEARNED, true, true, WEIR_SENT_PACKETS + 1},
	{"fetched packets", WEIR_SUBSCRIBE_NONE, false, true, WEIR_SENT_PACKETS + 1},
};

/* ------------------------------------------------------------------ a manager */

/* A step that is queued, with copies of what it borrows. */
struct job {
	struct solver_step step;
	unsigned char args[ARGS_MAX];
	struct weir_use own[SOLVER_OWN_USES_MAX];
};

struct ways_manager;

/* What queues the steps of a device. */
struct worker {
	struct ways_manager *m;
	pthread_t thread;
	pthread_mutex_t lock;	     /* of all below but held */
	pthread_cond_t changed;	     /* any of it */
	struct job job[JOBS_MAX];    /* a ring */
	uint32_t nr_queued, nr_done; /* since it began */
	bool ends;
	int err; /* the first; 0: none */

	struct job held; /* a boundary that waits for its interior */
	bool holds;
};

struct ways_manager {
	struct solver_manager base;
	const struct way *way;
	bool threaded;	/* a thread a device queues its steps; else the caller does */
	bool is_field;	/* steps are a boundary and an interior */
	bool has_lists; /* steps say what is listed */
	struct weir_space *space;
	struct weir_stream *stream[WEIR_DEVICES_MAX], *boundary[WEIR_DEVICES_MAX];
	struct solver_layout layout[SOLVER_RUN_ARRAYS];
	struct solver_list list[WEIR_DEVICES_MAX]; /* of what has_lists */
	uint32_t nr_arrays;
	uint8_t *array[SOLVER_RUN_ARRAYS];
	uint8_t *window[SOLVER_RUN_ARRAYS][WEIR_DEVICES_MAX];
	struct worker worker[WEIR_DEVICES_MAX];
};

/* What a device reads of others' slabs, before its own and behind it. */
static void halos_of(const struct solver_layout *layout, uint32_t device, uint64_t at[4])
{
	const uint64_t end = layout->offset[layout->nr_devices];

	at[1] = layout->offset[device];
	at[2] = layout->offset[device + 1];
	at[0] = at[1] - MIN(at[1], layout->halo_bytes);
	at[3] = at[2] + MIN(end - at[2], layout->halo_bytes);
}

/* ---- brackets */

/* The uses of a bracket, and of its launches, whose kinds of reads are the kernel's. */
struct uses {
	struct weir_use begin[BRACKET_USES_MAX], launch[BRACKET_USES_MAX];
	uint32_t nr;
};

static void add_use(const struct ways_manager *m, uint32_t device, const struct solver_use *use,
		    uint64_t begin, uint64_t end, bool listed, struct uses *out)
{
	struct weir_use at;

	if (begin >= end)
		return;
	at = solver_use_at(use, m->window[use->array][device] + begin, end - begin);
	out->launch[out->nr] = at;
	if (listed)
		at.kind = WEIR_READ_ELEMENTS;
	out->begin[out->nr++] = at;
}

static void add_uses(const struct ways_manager *m, const struct solver_step *step, struct uses *out)
{
	for (uint32_t i = 0; i < step->nr_uses; i++) {
		const struct solver_use *use = &step->use[i];
		const uint64_t *slab = &m->layout[use->array].offset[step->device];
		const uint64_t begin = use->offset, end = begin + use->bytes;

		if (use->kind != WEIR_READ || !m->way->lists || m->has_lists) {
			add_use(m, step->device, use, begin, end, use->listed && m->way->lists,
				out);
			continue;
		}
		add_use(m, step->device, use, begin, MIN(end, slab[0]), true, out);
		add_use(m, step->device, use, MAX(begin, slab[0]), MIN(end, slab[1]), false, out);
		add_use(m, step->device, use, MAX(begin, slab[1]), end, true, out);
	}
}

/* Queue a step in its bracket; publish: what it writes. */
static int launch_step(struct ways_manager *m, struct weir_stream *stream,
		       const struct solver_step *step, bool publish)
{
	struct uses uses = {.nr = 0};
	struct weir_launch launch = {
		.kernel = step->kernel,
		.args = step->args,
		.args_bytes = step->args_bytes,
		.uses = uses.launch,
	};
	int err;

	add_uses(m, step, &uses);
	for (uint32_t i = 0; i < step->nr_own; i++)
		uses.launch[uses.nr++] = step->own[i];
	launch.nr_uses = uses.nr;
	err = solver_step_launch(&m->base, stream, step, &launch);
	for (uint32_t i = 0; i < step->nr_uses && publish && !err; i++) {
		const struct solver_use *use = &step->use[i];

		if (use->kind == WEIR_OVERWRITE)
			err = weir_publish(m->space, stream,
					   m->window[use->array][step->device] + use->offset,
					   use->bytes);
	}
	return err;
}

/* A boundary alone has a stream of its own, as under manager_weir.c. */
static int bracket(struct ways_manager *m, const struct solver_step *const *steps, uint32_t nr)
{
	const struct solver_step *first = steps[0];
	const bool aside =
		nr > 1 || first->part != SOLVER_BOUNDARY || solver_slice_is_aside(first->slice);
	struct weir_stream *stream = aside ? m->stream[first->device] : m->boundary[first->device];
	struct uses uses = {.nr = 0};
	int err, end;

	for (uint32_t i = 0; i < nr; i++)
		add_uses(m, steps[i], &uses);
	err = weir_begin(m->space, stream, uses.begin, uses.nr);
	if (err)
		return err;
	for (uint32_t i = 0; i < nr && !err; i++)
		err = launch_step(m, stream, steps[i], m->way->publishes && (!i || nr == 1));
	end = weir_end(m->space, stream);
	return err ? err : end;
}

/* ---- one after the other */

static void job_copy(struct job *to, const struct solver_step *step)
{
	to->step = *step;
	memcpy(to->args, step->args, step->args_bytes);
	if (step->nr_own)
		memcpy(to->own, step->own, step->nr_own * sizeof(*step->own));
	to->step.args = to->args;
	to->step.own = to->own;
}

/* Queue what is held: no interior comes. */
static int held_flush(struct worker *w)
{
	const struct solver_step *const steps[] = {&w->held.step};

	if (!w->holds)
		return 0;
	w->holds = false;
	return bracket(w->m, steps, 1);
}

/* Where a bracket publishes, a boundary and its interior are one. */
static int work_step(struct worker *w, const struct solver_step *step)
{
	const struct solver_step *const both[] = {&w->held.step, step}, *const one[] = {step};
	int err;

	if (w->holds && step->part == SOLVER_INTERIOR) {
		w->holds = false;
		return bracket(w->m, both, 2);
	}
	err = held_flush(w);
	if (err || step->part != SOLVER_BOUNDARY || !w->m->is_field || !w->m->way->publishes)
		return err ? err : bracket(w->m, one, 1);
	job_copy(&w->held, step);
	w->holds = true;
	return 0;
}

/* ---- threads */

static void *work(void *arg)
{
	struct worker *w = arg;

	pthread_mutex_lock(&w->lock);
	for (;;) {
		int err;

		while (w->nr_queued == w->nr_done && !w->ends)
			pthread_cond_wait(&w->changed, &w->lock);
		if (w->nr_queued == w->nr_done)
			break;
		pthread_mutex_unlock(&w->lock);
		err = work_step(w, &w->job[w->nr_done % JOBS_MAX].step);
		pthread_mutex_lock(&w->lock);
		w->err = w->err ? w->err : err;
		w->nr_done++;
		pthread_cond_broadcast(&w->changed);
	}
	pthread_mutex_unlock(&w->lock);
	return NULL;
}

/* Until so few steps are left. */
static int work_wait(struct worker *w, uint32_t most)
{
	int err;

	pthread_mutex_lock(&w->lock);
	while (w->nr_queued - w->nr_done > most)
		pthread_cond_wait(&w->changed, &w->lock);
	err = w->err;
	pthread_mutex_unlock(&w->lock);
	return err;
}

/* Everything that was asked for is queued. */
static int drain(struct ways_manager *m)
{
	int first = 0;

	for (uint32_t d = 0; d < m->base.nr_devices; d++) {
		struct worker *w = &m->worker[d];
		int err = m->threaded ? work_wait(w, 0) : 0;

		err = err ? err : held_flush(w);
		first = first ? first : err;
	}
	return first;
}

/* A step whose fence is asked for is waited for, since the fence is there when this returns. */
static int ways_step(struct solver_manager *base, const struct solver_step *step)
{
	struct ways_manager *m = (struct ways_manager *)base;
	struct worker *w = &m->worker[step->device];
	int err;

	assert_true(step->args_bytes <= ARGS_MAX);
	if (!m->threaded)
		return work_step(w, step);
	err = work_wait(w, JOBS_MAX - 1);
	if (err)
		return err;
	job_copy(&w->job[w->nr_queued % JOBS_MAX], step);
	pthread_mutex_lock(&w->lock);
	w->nr_queued++;
	pthread_cond_broadcast(&w->changed);
	pthread_mutex_unlock(&w->lock);
	return step->done ? work_wait(w, 0) : 0;
}

/* ---- the rest */

static void subscribe(struct ways_manager *m, uint32_t array, uint32_t device)
{
	uint32_t element[1 << 14], nr = 0;
	struct solver_list list = m->list[device];
	uint64_t at[4];

	halos_of(&m->layout[array], device, at);
	for (uint32_t i = 0; i < 4; i += 2) {
		if (m->way->subscription == WEIR_SUBSCRIBE_MANUAL && at[i] < at[i + 1])
			assert_int_equal(weir_subscribe(m->space, m->array[array] + at[i],
							at[i + 1] - at[i], device),
					 0);
		assert_true(nr + (at[i + 1] - at[i]) / sizeof(float) <= ARRAY_LEN(element));
		for (uint64_t byte = at[i]; byte < at[i + 1]; byte += sizeof(float))
			element[nr++] = (uint32_t)(byte / sizeof(float));
	}
	if (!m->has_lists)
		list = (struct solver_list){element, nr};
	if (m->way->lists)
		assert_int_equal(weir_subscribe_elements(m->space, m->array[array], list.element,
							 list.nr, device),
				 0);
}

static int ways_alloc(struct solver_manager *base, const char *name)
{
	struct ways_manager *m = (struct ways_manager *)base;
	const struct weir_replica_params params = {.subscription = m->way->subscription};
	const uint32_t n = m->nr_arrays++;
	void *addr;

	(void)name;
	assert_int_equal(weir_alloc(m->space, m->layout[n].offset[base->nr_devices], NULL, &addr),
			 0);
	m->array[n] = addr;
	assert_int_equal(weir_replicate(m->space, addr, &params), 0);
	replicas_of(m->space)->forced = m->way->forced;
	for (uint32_t d = 0; d < base->nr_devices; d++) {
		assert_int_equal(weir_replica(m->space, m->array[n], d, &addr), 0);
		m->window[n][d] = addr;
		subscribe(m, n, d);
	}
	return 0;
}

static void *ways_at(struct solver_manager *base, uint32_t array, uint32_t device, uint64_t offset)
{
	return ((struct ways_manager *)base)->window[array][device] + offset;
}

static int ways_iteration_end(struct solver_manager *base)
{
	return drain((struct ways_manager *)base);
}

static int ways_sync(struct solver_manager *base)
{
	struct ways_manager *m = (struct ways_manager *)base;
	int err = drain(m);

	err = err ? err : weir_space_sync(m->space);
	for (uint32_t d = 0; d < base->nr_devices && !err; d++) {
		err = weir_stream_sync(m->stream[d]);
		err = err ? err : weir_stream_sync(m->boundary[d]);
	}
	return err;
}

static int ways_read(struct solver_manager *base, uint32_t array, uint64_t offset, void *data,
		     uint64_t bytes)
{
	struct ways_manager *m = (struct ways_manager *)base;

	return weir_read(m->space, data, m->array[array] + offset, bytes);
}

static const struct solver_manager_ops ways_ops = {
	.name = "ways",
	.split = true,
	.spills = true,
	.lists = true,
	.alloc = ways_alloc,
	.at = ways_at,
	.step = ways_step,
	.iteration_end = ways_iteration_end,
	.sync = ways_sync,
	.read = ways_read,
};

static void open_manager(struct ways_manager *m, const struct solver_config *config)
{
	struct weir_space_config space = {.mode = WEIR_PLANNED,
					  .devices = (UINT64_C(1) << config->nr_devices) - 1};

	m->base = (struct solver_manager){.ops = &ways_ops,
					  .backend = machine_backend(config->machine),
					  .nr_devices = config->nr_devices};
	memcpy(m->layout, config->layout, sizeof(m->layout));
	memcpy(m->list, config->list, sizeof(m->list));
	for (uint32_t d = 0; d < config->nr_devices; d++)
		space.budget_bytes[GPU0 + d] = config->budget_bytes[d];
	assert_int_equal(weir_space_create(config->machine, &space, &m->space), 0);
	for (uint32_t d = 0; d < config->nr_devices; d++) {
		struct worker *w = &m->worker[d];

		assert_int_equal(weir_stream_create(config->machine, d, &m->stream[d]), 0);
		assert_int_equal(weir_stream_create(config->machine, d, &m->boundary[d]), 0);
		w->m = m;
		if (!m->threaded)
			continue;
		assert_int_equal(pthread_mutex_init(&w->lock, NULL), 0);
		assert_int_equal(pthread_cond_init(&w->changed, NULL), 0);
		assert_int_equal(pthread_create(&w->thread, NULL, work, w), 0);
	}
}

static void close_manager(struct ways_manager *m)
{
	for (uint32_t d = 0; d < m->base.nr_devices && m->threaded; d++) {
		struct worker *w = &m->worker[d];

		pthread_mutex_lock(&w->lock);
		w->ends = true;
		pthread_cond_broadcast(&w->changed);
		pthread_mutex_unlock(&w->lock);
		pthread_join(w->thread, NULL);
		pthread_cond_destroy(&w->changed);
		pthread_mutex_destroy(&w->lock);
	}
	weir_space_destroy(m->space);
	for (uint32_t d = 0; d < m->base.nr_devices; d++) {
		weir_stream_destroy(m->stream[d]);
		weir_stream_destroy(m->boundary[d]);
	}
}

/* ------------------------------------------------------------------ runs */

/* How a run is done; by numbers in the tables. */
struct how {
	uint32_t way, percent, devices;
	bool threaded;
};

static const uint32_t percents[] = {0, 100, 60, 30}; /* of what a device's kernels name; 0: all */
static const uint32_t devices[] = {2, 3, 4, 8, 16};

#define NR_HOW (ARRAY_LEN(ways) * ARRAY_LEN(percents) * ARRAY_LEN(devices) * 2)

static struct how how_of(uint64_t n)
{
	struct how how = {.threaded = n % 2};

	n /= 2;
	how.devices = devices[n % ARRAY_LEN(devices)];
	n /= ARRAY_LEN(devices);
	how.percent = percents[n % ARRAY_LEN(percents)];
	how.way = (uint32_t)(n / ARRAY_LEN(percents));
	return how;
}

/* What was sent. */
static uint64_t nr_sent[ARRAY_LEN(ways)][WEIR_REPLICA_MECHANISM_NR];
static uint64_t nr_messages[ARRAY_LEN(ways)][WEIR_MESSAGE_KIND_NR];

static void sent_note(const struct ways_manager *m, const struct how *how)
{
	struct weir_replica_stats stats;

	weir_replica_query(m->space, &stats);
	for (int i = 0; i < WEIR_REPLICA_MECHANISM_NR; i++)
		nr_sent[how->way][i] += stats.nr_sent[i];
	for (int i = 0; i < WEIR_MESSAGE_KIND_NR; i++)
		nr_messages[how->way][i] += stats.nr_messages[i];
}

static void set_params(struct solver_params *p, enum solver_kind kind, struct solver_graph *graph,
		       uint32_t nr_devices)
{
	static const struct solver_shape shapes[] = {
		[SOLVER_JACOBI] = {48, 1, 1024},
		[SOLVER_DIFFUSION] = {48, 16, 64},
		[SOLVER_ALS] = {150, 40, SOLVER_WIDTH},
	};

	*p = (struct solver_params){
		.kind = kind,
		.iterations = kind == SOLVER_SSSP ? 100 : 6,
		.passes = 2,
		.warm_up = 1,
		.devices = nr_devices,
		.check = true,
	};
	if (kind < SOLVER_PAGERANK) {
		p->shape = shapes[kind];
		return;
	}
	assert_int_equal(solver_graph_split(graph, nr_devices), 0);
	assert_int_equal(solver_graph_make_lists(graph, nr_devices), 0);
	p->graph = graph;
	p->shape = solver_graph_shape(graph);
}

/* No two devices that are next to each other take the same time. */
static struct weir_machine *open_machine(uint32_t nr_devices)
{
	struct weir_machine_desc desc;
	struct weir_machine *machine;

	test_machine_gpus(&desc, nr_devices);
	for (uint32_t d = 0; d < nr_devices; d++)
		desc.device[d].launch_ns *= 1 + d * 7 % 5 * 4;
	assert_int_equal(weir_machine_simulate(&desc, WEIR_DATA_REAL, &machine), 0);
	return machine;
}

/* The number that stands for the result; how: NULL: on one device. */
static uint64_t run(const struct solver_params *p, const struct how *how)
{
	struct ways_manager ways_manager = {.is_field = p->kind < SOLVER_FIELDS_NR,
					    .has_lists = p->graph != NULL};
	struct solver_config config = {.machine = open_machine(p->devices), .options = ""};
	struct solver_manager *m = &ways_manager.base;
	struct solver_result result;
	char err[256] = "";
	uint64_t hash;

	solver_config_set(&config, p);
	if (how) {
		ways_manager.way = &ways[how->way];
		ways_manager.threaded = how->threaded;
		for (uint32_t d = 0; d < p->devices; d++)
			config.budget_bytes[d] =
				solver_named_bytes(p, d, 4096) * how->percent / 100;
		open_manager(&ways_manager, &config);
	} else {
		assert_int_equal(solver_manager_single.create(&config, &m), 0);
	}
	if (solver_run(m, p, &result, err, sizeof(err)) || !result.passes.passed)
		fail_msg("%s, %s on %u, %u %%, %s: %s %s", solver_kind_name(p->kind),
			 how ? ways[how->way].name : "single", p->devices, how ? how->percent : 0,
			 how && how->threaded ? "a thread a device" : "one thread", err,
			 result.passes.wrong);
	hash = result.hash;
	solver_result_free(&result);
	if (how) {
		assert_int_equal(weir_space_check(ways_manager.space), 0);
		sent_note(&ways_manager, how);
		close_manager(&ways_manager);
	} else {
		m->ops->destroy(m);
	}
	weir_machine_close(config.machine);
	return hash;
}

/* Usually one in so many of all ways to run each, other ones for each workload; and fields alone on
 * the most devices, with which the others take ten times as long as they do. */
static void same(enum solver_kind kind, struct solver_graph *graph)
{
	static const struct test_amount fields = {31, 167, 1}, others = {89, 331, 1};
	const bool is_field = kind < SOLVER_FIELDS_NR;
	const uint64_t stride = test_amount(NULL, is_field ? fields : others);
	struct solver_params p;
	uint64_t want;

	set_params(&p, kind, graph, 1);
	want = run(&p, NULL);
	for (uint64_t n = stride > 1 ? (uint64_t)kind : 0; n < NR_HOW; n += stride) {
		const struct how how = how_of(n);

		if (stride > 1 && !is_field && how.devices > 8)
			continue;
		set_params(&p, kind, graph, how.devices);
		if (run(&p, &how) != want)
			fail_msg("%s, %s on %u, %u %%: another result", solver_kind_name(kind),
				 ways[how.way].name, how.devices, how.percent);
	}
}

static void test_solver_ways_same(void **state)
{
	const struct solver_graph_params params = {
		.scale = 12, .degree = 4, .seed = SEED, .weights = true};
	struct solver_graph graph;

	(void)state;
	assert_int_equal(solver_graph_open(&params, &graph, NULL, 0), 0);
	for (int kind = 0; kind < SOLVER_KIND_NR; kind++)
		same((enum solver_kind)kind, &graph);
	solver_graph_close(&graph);
	for (size_t i = 0; i < ARRAY_LEN(ways) && !TEST_SANITIZED; i++) {
		print_message("%s: %llu fetched, %llu published\n", ways[i].name,
			      (unsigned long long)nr_messages[i][WEIR_FETCHED],
			      (unsigned long long)nr_messages[i][WEIR_PUBLISHED]);
		assert_true(!ways[i].forced || nr_sent[i][ways[i].forced - 1]);
		assert_true((nr_messages[i][WEIR_PUBLISHED] > 0) ==
			    (ways[i].subscription != WEIR_SUBSCRIBE_NONE));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_solver_ways_same),
	};

	return cmocka_run_group_tests_name("solver_ways", tests, NULL, NULL);
}
