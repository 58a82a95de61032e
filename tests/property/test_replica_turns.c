/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random programs as solvers are: each step, every device writes its part of a vector in slices, on
 * streams that take turns, and reads what others wrote of another vector, or the elements of it
 * that are in its list. Nothing waits on the host, so that a hundred messages are under way. Now
 * and then a vector is freed and another one replicated, or turned back, or read on the CPU; lists,
 * given or made of what is seen to be read, and subscriptions come and go, streams are waited for,
 * budgets change, and the space may go while all that is under way. 2 to 16 devices, with room for
 * all copies or less. What is read is what was written last.
 *
 * Timeout: 300
 * Long: yes
 */
#include <errno.h>

#include "src/replica/replica.h"
#include "tests/support/seeds.h"
#include "tests/support/space.h"
#include "tests/support/tracked.h"

#define BLOCK KIB(16)
#define CELL 256u
#define ELEMENT 8u
enum { VECTORS = 3, CELLS_MAX = 512, TURNS = 3, MANY = 20 };

struct vector {
	uint8_t *addr; /* NULL: there is none */
	bool replicated;
	uint32_t nr, part; /* cells; of them a device's */
	uint8_t *window[WEIR_DEVICES_MAX];
	bool has_list[WEIR_DEVICES_MAX], listed[WEIR_DEVICES_MAX][CELLS_MAX];
	/* Whether reads of a device are noted, where, and the cells that were read since. */
	bool tracking[WEIR_DEVICES_MAX], noted[WEIR_DEVICES_MAX][CELLS_MAX];
	struct weir_tracked tracked[WEIR_DEVICES_MAX];
	uint32_t seed[CELLS_MAX]; /* 0: not known */
};

struct program {
	struct test_space t;
	struct test_random random;
	uint32_t nr_devices, nr_turns, next_seed, turn, budget;
	struct weir_stream *stream[WEIR_DEVICES_MAX][TURNS];
	struct vector vector[VECTORS];
	uint32_t slices[WEIR_DEVICES_MAX]; /* of a part, as it is written */
};

static bool tracing;
static uint64_t nr_messages, nr_published, nr_packets, nr_refused, nr_most, nr_tracked;

#define trace(...)                                    \
	do {                                          \
		if (tracing)                          \
			fprintf(stderr, __VA_ARGS__); \
	} while (0)

static uint32_t below(struct program *p, uint32_t n)
{
	return random_below(&p->random, n);
}

static bool chance(struct program *p, uint32_t percent)
{
	return below(p, 100) < percent;
}

static uint8_t *base_of(const struct vector *v, uint32_t device)
{
	return v->replicated ? v->window[device] : v->addr;
}

/* ------------------------------------------------------------------ vectors */

static void replicate(struct program *p, struct vector *v)
{
	const struct weir_replica_params params = {
		.element_bytes = ELEMENT,
		.subscription = chance(p, 60) ? WEIR_SUBSCRIBE_LEARNED
					      : (enum weir_subscription)below(p, 4),
	};
	void *window;

	assert_int_equal(weir_replicate(p->t.space, v->addr, &params), 0);
	replicas_of(p->t.space)->arrange_soon = p->nr_turns % 2;
	v->replicated = true;
	memset(v->has_list, 0, sizeof(v->has_list));
	memset(v->tracking, 0, sizeof(v->tracking));
	for (uint32_t d = 0; d < p->nr_devices; d++) {
		assert_int_equal(weir_replica(p->t.space, v->addr, d, &window), 0);
		v->window[d] = window;
	}
}

static void vector_alloc(struct program *p, struct vector *v)
{
	void *addr;
	int err;

	memset(v, 0, sizeof(*v));
	v->part = 1 + below(p, CELLS_MAX / p->nr_devices);
	v->nr = v->part * p->nr_devices;
	err = weir_alloc(p->t.space, v->nr * CELL, NULL, &addr);
	if (err) {
		assert_int_equal(err, -ENOMEM);
		return;
	}
	v->addr = addr;
	if (chance(p, 90))
		replicate(p, v);
}

static void give_list(struct program *p, struct vector *v, uint32_t device)
{
	static uint32_t element[CELLS_MAX * CELL / ELEMENT];
	const uint32_t odds = 1 + below(p, 6);
	uint32_t nr = 0;
	int err;

	for (uint32_t c = 0; c < v->nr; c++) {
		v->listed[device][c] = !below(p, odds);
		for (uint32_t e = 0; v->listed[device][c] && e < CELL / ELEMENT; e++)
			element[nr++] = c * (CELL / ELEMENT) + e;
	}
	err = weir_subscribe_elements(p->t.space, v->addr, element, nr, device);
	trace("list of %u elements: %d\n", nr, err);
	assert_true(!err || err == -ENOMEM);
	v->has_list[device] = err ? false : nr > 0;
	if (err)
		assert_int_equal(weir_subscribe_elements(p->t.space, v->addr, element, 0, device),
				 0);
}

/* Begin to note what a device reads, or make that the list of one whose reads are noted. */
static void track(struct program *p, struct vector *v, uint32_t device)
{
	bool starts;
	int err;

	for (uint32_t n = 1; n < p->nr_devices && !v->tracking[device]; n++)
		device = (device + 1) % p->nr_devices;
	starts = !v->tracking[device];
	err = starts ? weir_tracking_start(p->t.space, v->addr, device, &v->tracked[device])
		     : weir_tracking_stop(p->t.space, v->addr, device);

	trace("tracking %s: %d\n", starts ? "begins" : "ends", err);
	assert_true(!err || err == -ENOMEM);
	if (err)
		return;
	v->tracking[device] = starts;
	if (starts) {
		memset(v->noted[device], 0, sizeof(v->noted[device]));
		return;
	}
	v->has_list[device] = false;
	for (uint32_t c = 0; c < v->nr; c++)
		v->has_list[device] |= v->listed[device][c] = v->noted[device][c];
	nr_tracked += v->has_list[device];
}

/* ------------------------------------------------------------------ brackets */

/* Some cells, of which a kernel looks at those that are listed; NULL: at all. */
static void launch_cells(struct program *p, struct weir_stream *stream, struct vector *v,
			 uint32_t device, uint32_t first, uint32_t nr, enum weir_use_kind kind,
			 const bool *listed)
{
	uint8_t *addr = base_of(v, device) + first * CELL;
	struct weir_use use = use_of(addr, nr * CELL, kind);
	struct test_tracked_args args = {
		.cells = {.addr = (uint64_t *)addr,
			  .as = (const uint64_t *)(v->addr + first * CELL),
			  .words = CELL / 8,
			  .nr_wrong = p->t.nr_wrong_cuda ? p->t.nr_wrong_cuda : &p->t.nr_wrong,
			  .nr = nr},
		.tracked = v->tracked[device],
	};
	bool notes = kind == WEIR_READ && v->replicated && v->tracking[device];
	struct weir_launch l = {.kernel = notes ? &test_kernel_tracked : &test_kernel_cells,
				.args = notes ? (const void *)&args : &args.cells,
				.args_bytes = notes ? sizeof(args) : sizeof(args.cells),
				.uses = &use,
				.nr_uses = 1};

	for (uint32_t i = 0; i < nr; i++) {
		if (kind != WEIR_OVERWRITE && (!listed || listed[first + i])) {
			args.cells.cell[i].expect = v->seed[first + i];
			args.noted[i] = true;
			v->noted[device][first + i] |= notes;
		}
		if (kind != WEIR_READ) {
			args.cells.cell[i].put = p->next_seed++;
			v->seed[first + i] = args.cells.cell[i].put;
		}
	}
	assert_int_equal(weir_stream_launch(stream, &l), 0);
}

static void launch(struct program *p, struct weir_stream *stream, struct vector *v, uint32_t device,
		   uint32_t first, uint32_t nr, enum weir_use_kind kind, const bool *listed)
{
	while (nr) {
		const uint32_t n = MIN(nr, TEST_CELLS_MAX);

		launch_cells(p, stream, v, device, first, n, kind, listed);
		first += n;
		nr -= n;
	}
}

/* A part that a bracket uses. */
struct part {
	struct vector *v;
	uint32_t first, nr;
	enum weir_use_kind kind;
	bool elements;
};

static void bracket(struct program *p, uint32_t device, struct weir_stream *stream,
		    const struct part *parts, uint32_t nr)
{
	struct weir_use uses[3];
	int err;

	for (uint32_t i = 0; i < nr; i++)
		uses[i] = use_of(base_of(parts[i].v, device) + parts[i].first * CELL,
				 parts[i].nr * CELL,
				 parts[i].elements ? WEIR_READ_ELEMENTS : parts[i].kind);
	err = weir_begin(p->t.space, stream, uses, nr);
	if (err) {
		assert_int_equal(err, -ENOMEM);
		nr_refused++;
		for (uint32_t i = 0; i < nr; i++)
			if (parts[i].kind == WEIR_OVERWRITE)
				memset(&parts[i].v->seed[parts[i].first], 0,
				       parts[i].nr * sizeof(uint32_t));
		return;
	}
	for (uint32_t i = 0; i < nr; i++)
		launch(p, stream, parts[i].v, device, parts[i].first, parts[i].nr, parts[i].kind,
		       parts[i].elements && parts[i].v->replicated && parts[i].v->has_list[device]
			       ? parts[i].v->listed[device]
			       : NULL);
	assert_int_equal(weir_end(p->t.space, stream), 0);
	if (p->t.space->shared)
		nr_most = MAX(nr_most, replicas_of(p->t.space)->nr_messages);
}

/* A device's part of a step: its slices, each with what it reads of the other vector. */
static void write_part(struct program *p, uint32_t device, struct vector *in, struct vector *out)
{
	const uint32_t nr = p->slices[device], first = device * out->part;

	for (uint32_t s = 0; s < nr; s++) {
		const uint32_t from = first + s * out->part / nr;
		const uint32_t end = first + (s + 1) * out->part / nr;
		struct weir_stream *stream = p->stream[device][p->turn++ % p->nr_turns];
		struct part parts[2];
		uint32_t n = 0;

		if (from == end)
			continue;
		parts[n++] = (struct part){out, from, end - from,
					   chance(p, 70) ? WEIR_OVERWRITE : WEIR_WRITE, false};
		if (in->addr && in != out) {
			const uint32_t other = (device + 1 + s) % p->nr_devices * in->part;

			parts[n] = (struct part){in, other, in->part, WEIR_READ, false};
			if (device % 2 && in->has_list[device])
				parts[n] = (struct part){in, 0, in->nr, WEIR_READ, true};
			n++;
		}
		bracket(p, device, stream, parts, n);
	}
}

/* ------------------------------------------------------------------ what else happens */

static void read_all(struct program *p, const struct vector *v)
{
	static uint8_t buffer[CELLS_MAX * CELL];
	int err = weir_read(p->t.space, buffer, v->addr, v->nr * CELL);

	if (err) {
		assert_int_equal(err, -ENOMEM);
		nr_refused++;
		return;
	}
	for (uint32_t c = 0; c < v->nr; c++)
		if (v->seed[c])
			assert_int_equal(pattern_wrong(buffer + c * CELL, v->addr + c * CELL, CELL,
						       v->seed[c]),
					 0);
}

static void change_budget(struct program *p)
{
	const uint32_t memory = below(p, 1 + p->nr_devices);
	const uint64_t nr = memory == HOST ? 30 + below(p, 270) : 2 + below(p, 2 * p->budget);
	int err = weir_space_set_budget(p->t.space, memory, nr * BLOCK);

	trace("budget of %u: %u blocks: %d\n", memory, (uint32_t)nr, err);
	assert_true(!err || err == -EBUSY || err == -ENOMEM || err == -EINVAL);
}

/* Who is sent what: the n-th way to say it. */
static void hint(struct program *p, struct vector *v, uint32_t device, uint32_t n)
{
	const uint32_t first = below(p, v->nr), nr = 1 + below(p, v->nr - first);
	int err;

	switch (n) {
	case 0:
	case 1:
		if (v->replicated)
			give_list(p, v, device);
		break;
	case 2:
	case 3:
		if (v->replicated)
			track(p, v, device);
		break;
	case 4:
		err = weir_subscribe(p->t.space, v->addr + first * CELL, nr * CELL, device);
		assert_true(v->replicated ? !err || err == -ENOMEM : err == -EINVAL);
		break;
	default:
		err = weir_unsubscribe(p->t.space, v->addr + first * CELL, nr * CELL, device);
		assert_true(v->replicated ? !err || err == -EBUSY : err == -EINVAL);
	}
}

static void turn(struct program *p, struct vector *v)
{
	int err;

	if (!v->replicated) {
		replicate(p, v);
		return;
	}
	err = weir_unreplicate(p->t.space, v->addr);
	assert_true(!err || err == -ENOMEM);
	if (err)
		return;
	v->replicated = false;
	memset(v->has_list, 0, sizeof(v->has_list));
	memset(v->tracking, 0, sizeof(v->tracking));
}

/* A bracket that names some of a vector at its one copy; or a wait for everything. */
static void use_one_copy(struct program *p, struct vector *v, uint32_t device)
{
	const uint32_t first = below(p, v->nr), nr = 1 + below(p, v->nr - first);

	if (chance(p, 50) || !v->replicated) {
		assert_int_equal(weir_space_sync(p->t.space), 0);
		return;
	}
	v->replicated = false;
	bracket(p, device, p->stream[device][0],
		&(struct part){v, first, nr, chance(p, 50) ? WEIR_WRITE : WEIR_READ, false}, 1);
	v->replicated = true;
}

static void disturb(struct program *p)
{
	struct vector *v = &p->vector[below(p, VECTORS)];
	const uint32_t device = below(p, p->nr_devices);
	const uint32_t what = below(p, 12);

	trace("disturb %u\n", what);
	if (!v->addr) {
		vector_alloc(p, v);
		return;
	}
	switch (what) {
	case 0:
		assert_int_equal(weir_free(p->t.space, v->addr, NULL), 0);
		vector_alloc(p, v);
		break;
	case 1:
		turn(p, v);
		break;
	case 2:
		read_all(p, v);
		break;
	case 3:
		change_budget(p);
		break;
	case 4:
		assert_int_equal(weir_stream_sync(p->stream[device][below(p, p->nr_turns)]), 0);
		break;
	case 5:
		use_one_copy(p, v, device);
		break;
	default:
		hint(p, v, device, what - 6);
	}
	assert_int_equal(weir_space_check(p->t.space), 0);
}

/* ------------------------------------------------------------------ programs */

static void open_space(struct program *p)
{
	static const uint32_t devices[TEST_STREAMS], nr_devices[] = {2, 2, 3, 4, 5, 8, 16};
	struct weir_space_config config = {.mode = WEIR_PLANNED, .block_bytes = BLOCK};

	p->nr_devices = nr_devices[below(p, ARRAY_LEN(nr_devices))];
	test_machine_open_gpus(&p->t, WEIR_DATA_REAL, p->nr_devices, devices);
	p->nr_devices = MIN(p->nr_devices, p->t.desc.nr_devices);
	p->nr_turns = 1 + below(p, TURNS);
	for (uint32_t d = 0; d < p->nr_devices; d++) {
		p->slices[d] = 1 + below(p, 5);
		for (uint32_t s = 0; s < p->nr_turns; s++)
			assert_int_equal(weir_stream_create(p->t.machine, d, &p->stream[d][s]), 0);
	}
	config.devices = (UINT64_C(1) << p->nr_devices) - 1;
	p->budget = chance(p, 50) ? 60 : 3 + below(p, 20);
	config.budget_bytes[HOST] = (chance(p, 70) ? 300 : 30 + below(p, 60)) * BLOCK;
	for (uint32_t d = 0; d < p->nr_devices; d++)
		config.budget_bytes[1 + d] = p->budget * BLOCK;
	assert_int_equal(test_space_create_config(&p->t, &config), 0);
}

static void close_space(struct program *p)
{
	struct weir_replica_stats stats;

	weir_replica_query(p->t.space, &stats);
	nr_messages += stats.nr_messages[WEIR_FETCHED];
	nr_published += stats.nr_messages[WEIR_PUBLISHED];
	nr_packets += stats.nr_sent[WEIR_SENT_PACKETS];
	if (chance(p, 70)) {
		assert_int_equal(weir_space_sync(p->t.space), 0);
		assert_int_equal(weir_space_check(p->t.space), 0);
		for (uint32_t i = 0; i < VECTORS; i++)
			if (p->vector[i].addr)
				read_all(p, &p->vector[i]);
	}
	weir_space_destroy(p->t.space);
	for (uint32_t d = 0; d < p->nr_devices; d++)
		for (uint32_t s = 0; s < p->nr_turns; s++) {
			assert_int_equal(weir_stream_sync(p->stream[d][s]), 0);
			weir_stream_destroy(p->stream[d][s]);
		}
	test_machine_close(&p->t);
}

static void run_sequence(uint64_t seed)
{
	static struct program p;
	uint32_t nr_steps, percent;

	memset(&p, 0, sizeof(p));
	p.random.state = seed * 0x9e3779b97f4a7c15u;
	p.next_seed = 1;
	open_space(&p);
	for (uint32_t i = 0; i < VECTORS; i++)
		vector_alloc(&p, &p.vector[i]);
	if (p.t.space->shared)
		replicas_of(p.t.space)->forced = below(&p, WEIR_REPLICA_MECHANISM_NR + 1);
	nr_steps = 10 + below(&p, 60);
	percent = chance(&p, 30) ? 0 : below(&p, 30);
	for (uint32_t i = 0; i < VECTORS; i++)
		for (uint32_t d = 0; d < p.nr_devices; d++)
			if (p.vector[i].replicated && chance(&p, 30))
				give_list(&p, &p.vector[i], d);
	for (test_step = 0; test_step < nr_steps; test_step++)
		for (uint32_t d = 0; d < p.nr_devices; d++) {
			struct vector *out = &p.vector[test_step % 2];

			if (out->addr)
				write_part(&p, d, &p.vector[chance(&p, 90) ? !(test_step % 2) : 2],
					   out);
			if (chance(&p, percent))
				disturb(&p);
		}
	close_space(&p);
}

static void test_replica_turns_sequences(void **state)
{
	static const struct test_amount sequences = {20, 4, 3000};
	uint32_t nr = test_seeds_run(sequences, &tracing, run_sequence);

	(void)state;
	if (!nr)
		return;
	printf("%llu messages, %llu published, %llu packets, %llu at most under way, "
	       "%llu refused, %llu lists of what was read\n",
	       (unsigned long long)nr_messages, (unsigned long long)nr_published,
	       (unsigned long long)nr_packets, (unsigned long long)nr_most,
	       (unsigned long long)nr_refused, (unsigned long long)nr_tracked);
	if (nr < MANY)
		return;
	assert_true(nr_published > nr);
	assert_true(nr_packets > nr);
	assert_true(nr_tracked > nr / 10);
	assert_true(nr_most > 100);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_replica_turns_sequences, test_seeds_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
