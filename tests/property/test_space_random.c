/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random sequences of calls on a space with real bytes and tiny budgets, against a model that holds
 * what every live range must contain. A range is divided into cells; the model keeps each cell's
 * seed, kernels and the CPU check and write patterns. Brackets on several streams conflict as it
 * comes, and are in the order of the calls. What is launched outside brackets the model orders, as
 * a program would have to: it knows which streams have work under way on a range.
 *
 * Part of the sequences have a third place, the second GPU's memory, between the device's own and
 * the host's; in part of all, what comes in, what goes and where to is drawn at random.
 *
 * Each sequence has a seed, and its own machine: WEIR_SEED=n runs sequence n alone and says what it
 * does. Part of the sequences repeat a short script, so that plans are made, followed and dropped.
 *
 * On a real GPU (see tests/support/driver.h) blocks are 2 to 14 MiB, and part of the sequences have
 * ranges and budgets of gigabytes; WEIR_SEQUENCES says how many run.
 *
 * Takes 7 s of a processor: each sequence has a machine of its own.
 *
 * Timeout: 300
 * Long: yes
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "src/residency/residency.h"
#include "tests/support/amount.h"
#include "tests/support/driver.h"
#include "tests/support/space.h"

#define NR_RANGES 8u
#define NR_FENCES 4u
#define CELLS_PER_BLOCK 8u
#define BLOCKS_MAX 6u
#define CELLS_MAX (CELLS_PER_BLOCK * BLOCKS_MAX)
#define SMALL_CELL 256u
#define PARTS_MAX 4u
#define NR_STREAMS 3u /* the last one on another device, if there is one */
#define LARGE 8u      /* times as large are ranges and budgets of some sequences, */
#define LARGE_GPU (UINT64_C(16) << 30) /* on GPUs of that and more */
#define MANY 100u		       /* sequences, to say what goes on in them */

struct model_range {
	bool live;
	uint8_t *addr;
	uint64_t cell_bytes;
	uint32_t nr_cells;
	uint32_t seed[CELLS_MAX];  /* 0: undefined */
	uint32_t readers, writers; /* streams with work that may not be done */
};

struct part {
	struct model_range *range;
	uint32_t first, nr; /* cells */
	enum weir_use_kind kind;
};

struct model {
	struct test_space t;
	struct test_random random;
	enum weir_space_mode mode;
	bool quiet;	      /* repeating itself: nothing else happens */
	uint64_t nr_blocks;   /* all budgets now, */
	uint64_t most_blocks; /* and the most there were */
	uint64_t budget[3];   /* by memory, blocks */
	bool middle;	      /* GPU1 is a place, too */
	uint64_t cell_bytes;
	uint8_t *buffer; /* the largest range */
	uint32_t last_seed;
	struct model_range range[NR_RANGES];
	struct weir_fence *fence[NR_FENCES];
	uint32_t open;		       /* mask of streams with an open bracket */
	struct part pinned[PARTS_MAX]; /* by the outer one of them */
	uint32_t nr_pinned;
};

/* What went on in all sequences, to see that they reach what they are for. */
static struct weir_space_stats total;
static uint64_t total_bytes[BACKEND_DIRECTION_NR][WEIR_CAUSE_NR]; /* over the host link */
static uint64_t total_middle_bytes, nr_budgets[2];		  /* raised, lowered */
static uint64_t current_seed;
static uint32_t current_step;
static bool tracing;

#define trace(...)                                    \
	do {                                          \
		if (tracing)                          \
			fprintf(stderr, __VA_ARGS__); \
	} while (0)

static const char *const kind_name[] = {"read", "write", "overwrite", "discard"};

static uint32_t below(struct model *m, uint32_t n)
{
	return random_below(&m->random, n);
}

static bool one_in(struct model *m, uint32_t n)
{
	return below(m, n) == 0;
}

static uint32_t fresh_seed(struct model *m)
{
	return ++m->last_seed;
}

/* ------------------------------------------------------------------ parts and their order */

static struct model_range *pick_live(struct model *m)
{
	uint32_t at = below(m, NR_RANGES);

	for (uint32_t i = 0; i < NR_RANGES; i++)
		if (m->range[(at + i) % NR_RANGES].live)
			return &m->range[(at + i) % NR_RANGES];
	return NULL;
}

static struct part pick_part_of(struct model *m, struct model_range *range)
{
	struct part part = {.range = range, .nr = range->nr_cells};

	part.kind = (enum weir_use_kind)below(m, 4);
	if (part.kind == WEIR_DISCARD && !one_in(m, 3))
		part.kind = WEIR_READ;
	if (one_in(m, 2))
		return part;
	part.first = below(m, range->nr_cells);
	part.nr = 1 + below(m, range->nr_cells - part.first);
	return part;
}

static void *part_addr(const struct part *part)
{
	return part->range->addr + part->first * part->range->cell_bytes;
}

static uint64_t part_bytes(const struct part *part)
{
	return part->nr * part->range->cell_bytes;
}

static struct weir_use part_use(struct model *m, const struct part *part)
{
	struct weir_use use = use_of(part_addr(part), part_bytes(part), part->kind);

	/* Hints may be anything. */
	if (!m->quiet && one_in(m, 8)) {
		use.pattern = WEIR_RANDOM;
		use.granule = 64;
		use.read_bytes = below(m, 2) ? 64 : 1u << 20;
		use.write_bytes = 0;
	}
	return use;
}

static bool is_pinned(const struct model *m, const struct model_range *range)
{
	for (uint32_t i = 0; i < m->nr_pinned; i++)
		if (m->pinned[i].range == range)
			return true;
	return false;
}

static void sync_stream(struct model *m, uint32_t stream)
{
	assert_int_equal(weir_stream_sync(m->t.stream[stream]), 0);
	assert_int_equal(get_nr_wrong(&m->t), 0);
	for (uint32_t i = 0; i < NR_RANGES; i++) {
		m->range[i].readers &= ~(1u << stream);
		m->range[i].writers &= ~(1u << stream);
	}
}

/* As a program must where no bracket does: wait for what other streams do with the part's range. */
static void order_part(struct model *m, uint32_t stream, const struct part *part)
{
	for (uint32_t s = 0; s < NR_STREAMS; s++) {
		uint32_t busy = part->range->writers;

		if (part->kind != WEIR_READ)
			busy |= part->range->readers;
		if (s != stream && busy & 1u << s)
			sync_stream(m, s);
	}
}

/* What a kernel or the CPU does with the part; the model then says what it has done. */
static void plan_cells(struct model *m, const struct part *part, struct test_cell *cells)
{
	for (uint32_t i = 0; i < part->nr; i++) {
		uint32_t *seed = &part->range->seed[part->first + i];
		bool put =
			part->kind == WEIR_OVERWRITE || (part->kind == WEIR_WRITE && below(m, 2));

		cells[i].expect = part->kind == WEIR_OVERWRITE ? 0 : *seed;
		cells[i].put = put ? fresh_seed(m) : 0;
		if (put)
			*seed = cells[i].put;
	}
}

static void forget_cells(const struct part *part)
{
	memset(&part->range->seed[part->first], 0, part->nr * sizeof(uint32_t));
}

static void launch_part(struct model *m, uint32_t stream, const struct part *part)
{
	struct test_cell cells[CELLS_MAX];

	if (part->kind == WEIR_DISCARD)
		return;
	plan_cells(m, part, cells);
	assert_int_equal(do_launch_cells_try(&m->t, stream, part_addr(part),
					     part->range->cell_bytes, cells, part->nr, part->kind),
			 0);
}

/* ------------------------------------------------------------------ allocation */

static uint64_t nr_live_blocks(struct model *m)
{
	return get_stats(&m->t).live_bytes / m->t.block_bytes;
}

/* bytes as nr cells. stream: NR_STREAMS for any. NULL: no room. */
static struct model_range *alloc_range(struct model *m, uint64_t cell_bytes, uint32_t nr_cells,
				       uint32_t stream)
{
	uint64_t bytes = cell_bytes * nr_cells, blocks = (bytes - 1) / m->t.block_bytes + 1;
	struct model_range *range = NULL;
	void *addr;
	int err;

	for (uint32_t i = 0; i < NR_RANGES && !range; i++)
		if (!m->range[i].live && !is_pinned(m, &m->range[i]))
			range = &m->range[i];
	if (!range)
		return NULL;
	err = weir_alloc(m->t.space, bytes, stream < NR_STREAMS ? m->t.stream[stream] : NULL,
			 &addr);
	trace("alloc %llu stream %u: %d\n", (unsigned long long)bytes, stream, err);
	do_check(&m->t);
	if (err) {
		assert_int_equal(err, -ENOMEM);
		assert_true(nr_live_blocks(m) + blocks + 2 > m->nr_blocks);
		return NULL;
	}
	memset(range, 0, sizeof(*range));
	range->live = true;
	range->addr = addr;
	range->cell_bytes = cell_bytes;
	range->nr_cells = nr_cells;
	/* Used first on that stream, or behind it. */
	range->writers = stream < NR_STREAMS ? 1u << stream : 0;
	return range;
}

static struct model_range *op_alloc(struct model *m)
{
	static const uint32_t nr_blocks[] = {1, 1, 2, 2, 3, BLOCKS_MAX};
	uint32_t stream = below(m, NR_STREAMS + 1), nr;

	if (one_in(m, 4))
		return alloc_range(m, SMALL_CELL, 1 + below(m, 12), stream);
	nr = nr_blocks[below(m, ARRAY_LEN(nr_blocks))] * CELLS_PER_BLOCK;
	return alloc_range(m, m->cell_bytes, nr - one_in(m, 4), stream);
}

static void free_range(struct model *m, struct model_range *range)
{
	uint32_t busy = range->readers | range->writers, stream = below(m, NR_STREAMS + 1);

	if (m->mode == WEIR_FIXED && busy & (busy - 1))
		stream = NR_STREAMS;
	else if (m->mode == WEIR_FIXED && busy && stream < NR_STREAMS)
		stream = (uint32_t)__builtin_ctz(busy);
	trace("free %p stream %u\n", (void *)range->addr, stream);
	assert_int_equal(weir_free(m->t.space, range->addr,
				   stream < NR_STREAMS ? m->t.stream[stream] : NULL),
			 0);
	do_check(&m->t);
	range->live = false;
}

/* ------------------------------------------------------------------ brackets */

static void some_op(struct model *m);

static void begin_parts(struct model *m, uint32_t stream, const struct part *parts, uint32_t nr)
{
	struct weir_use uses[PARTS_MAX];

	for (uint32_t i = 0; i < nr; i++) {
		uses[i] = part_use(m, &parts[i]);
		trace("begin stream %u: %s %u+%u of %u cells at %p\n", stream,
		      kind_name[parts[i].kind], parts[i].first, parts[i].nr,
		      parts[i].range->nr_cells, (void *)parts[i].range->addr);
	}
	assert_int_equal(weir_begin(m->t.space, m->t.stream[stream], uses, nr), 0);
	m->open |= 1u << stream;
	do_check(&m->t);
}

static void end_parts(struct model *m, uint32_t stream, const struct part *parts, uint32_t nr)
{
	trace("end stream %u\n", stream);
	assert_int_equal(weir_end(m->t.space, m->t.stream[stream]), 0);
	m->open &= ~(1u << stream);
	do_check(&m->t);
	for (uint32_t i = 0; i < nr; i++) {
		if (parts[i].kind == WEIR_DISCARD)
			forget_cells(&parts[i]);
		if (parts[i].kind == WEIR_READ)
			parts[i].range->readers |= 1u << stream;
		else
			parts[i].range->writers |= 1u << stream;
	}
}

/* Calls that an open bracket forbids. */
static void forbidden(struct model *m, uint32_t stream, const struct part *part)
{
	struct weir_use use = use_of(part_addr(part), part_bytes(part), WEIR_READ);
	uint8_t byte[1];

	/* What is discarded only may move. */
	switch (part->kind == WEIR_DISCARD ? 2 + below(m, 3) : below(m, 5)) {
	case 0:
		assert_int_equal(weir_host_begin(m->t.space, &use, 1), -EBUSY);
		break;
	case 1:
		assert_int_equal(weir_read(m->t.space, byte, part_addr(part), 1), -EBUSY);
		break;
	case 2:
		assert_int_equal(weir_space_set_mode(m->t.space, WEIR_FIXED), -WEIR_ECONTRACT);
		break;
	case 3:
		assert_int_equal(weir_begin(m->t.space, m->t.stream[stream], &use, 1),
				 -WEIR_ECONTRACT);
		break;
	default:
		assert_int_equal(weir_host_end(m->t.space, &use, 1), -WEIR_ECONTRACT);
	}
	do_check(&m->t);
}

/* Whether a part conflicts with the open bracket. */
static bool meets_pinned(const struct model *m, const struct part *part)
{
	for (uint32_t i = 0; i < m->nr_pinned; i++) {
		const struct part *p = &m->pinned[i];

		if (p->range == part->range && p->first < part->first + part->nr &&
		    part->first < p->first + p->nr &&
		    (p->kind != WEIR_READ || part->kind != WEIR_READ))
			return true;
	}
	return false;
}

/* A bracket inside the open one, on another stream, on what does not conflict. */
static void nested_bracket(struct model *m, uint32_t stream)
{
	struct part part;
	struct model_range *range = pick_live(m);

	if (!range)
		return;
	part = pick_part_of(m, range);
	if (meets_pinned(m, &part))
		return;
	begin_parts(m, stream, &part, 1);
	launch_part(m, stream, &part);
	end_parts(m, stream, &part, 1);
}

static void run_bracket(struct model *m, uint32_t stream, const struct part *parts, uint32_t nr)
{
	begin_parts(m, stream, parts, nr);
	memcpy(m->pinned, parts, nr * sizeof(*parts));
	m->nr_pinned = nr;
	if (!m->quiet && one_in(m, 4))
		forbidden(m, stream, &parts[below(m, nr)]);
	for (uint32_t i = 0; i < nr; i++)
		launch_part(m, stream, &parts[i]);
	/* Until the end counts it, for whoever asks in between. */
	for (uint32_t i = 0; i < nr; i++)
		parts[i].range->writers |= 1u << stream;
	if (!m->quiet && one_in(m, 6))
		nested_bracket(m, (stream + 1) % NR_STREAMS);
	if (!m->quiet && one_in(m, 8))
		some_op(m);
	if (!m->quiet && one_in(m, 16) && nr && parts[0].range->live)
		free_range(m, parts[0].range);
	end_parts(m, stream, parts, nr);
	m->nr_pinned = 0;
}

static void op_bracket(struct model *m)
{
	struct part parts[PARTS_MAX];
	uint32_t nr = 1 + below(m, PARTS_MAX), stream = below(m, NR_STREAMS);

	for (uint32_t i = 0; i < nr; i++) {
		struct model_range *range = pick_live(m);

		if (!range)
			return;
		parts[i] = pick_part_of(m, range);
	}
	run_bracket(m, stream, parts, nr);
}

static void op_whole_space(struct model *m)
{
	uint32_t stream = below(m, NR_STREAMS);
	struct part part;

	trace("begin stream %u: whole space\n", stream);
	assert_int_equal(weir_begin(m->t.space, m->t.stream[stream], NULL, 0), 0);
	do_check(&m->t);
	for (uint32_t i = 0; i < NR_RANGES; i++) {
		if (!m->range[i].live)
			continue;
		part = (struct part){&m->range[i], 0, m->range[i].nr_cells, WEIR_WRITE};
		launch_part(m, stream, &part);
		m->range[i].writers |= 1u << stream;
	}
	assert_int_equal(weir_end(m->t.space, m->t.stream[stream]), 0);
	do_check(&m->t);
}

/* In a fixed space kernels run without brackets; weir knows nothing of them, so they are waited
 * for before anything else is asked of it. */
static void op_launch_alone(struct model *m)
{
	struct model_range *range = pick_live(m);
	uint32_t stream = below(m, NR_STREAMS - 1); /* of the space's own device */
	struct part part;

	if (!range || m->mode != WEIR_FIXED)
		return;
	part = pick_part_of(m, range);
	order_part(m, stream, &part);
	trace("launch stream %u alone: %s %u+%u at %p\n", stream, kind_name[part.kind], part.first,
	      part.nr, (void *)range->addr);
	launch_part(m, stream, &part);
	sync_stream(m, stream);
}

/* ------------------------------------------------------------------ the CPU's side */

static void cpu_part(struct model *m, const struct part *part)
{
	struct test_cell cells[CELLS_MAX];

	plan_cells(m, part, cells);
	for (uint32_t i = 0; i < part->nr; i++) {
		uint64_t bytes = part->range->cell_bytes;
		uint8_t *at = (uint8_t *)part_addr(part) + i * bytes;

		if (cells[i].expect)
			assert_int_equal(pattern_wrong(at, at, bytes, cells[i].expect), 0);
		if (cells[i].put)
			pattern_put(at, at, bytes, cells[i].put);
	}
}

static void op_host(struct model *m)
{
	uint32_t nr = 1 + below(m, 2);
	struct weir_use uses[2];
	struct part parts[2];
	int err;

	if (m->mode == WEIR_FIXED)
		return;
	for (uint32_t i = 0; i < nr; i++) {
		struct model_range *range = pick_live(m);

		if (!range || m->open)
			return;
		parts[i] = pick_part_of(m, range);
		if (parts[i].kind == WEIR_DISCARD)
			parts[i].kind = WEIR_READ;
		uses[i] = use_of(part_addr(&parts[i]), part_bytes(&parts[i]), parts[i].kind);
		trace("host %s %u+%u at %p\n", kind_name[parts[i].kind], parts[i].first,
		      parts[i].nr, (void *)range->addr);
	}
	err = weir_host_begin(m->t.space, uses, nr);
	do_check(&m->t);
	if (err) {
		trace("host: %d\n", err);
		assert_int_equal(err, -ENOMEM);
		return;
	}
	for (uint32_t i = 0; i < nr; i++)
		cpu_part(m, &parts[i]);
	if (one_in(m, 4)) {
		/* Beside it a stream may not write. */
		struct weir_use use = uses[below(m, nr)];

		use.kind = one_in(m, 2) ? WEIR_WRITE : WEIR_OVERWRITE;
		assert_int_equal(weir_begin(m->t.space, m->t.stream[below(m, NR_STREAMS)], &use, 1),
				 -EBUSY);
		do_check(&m->t);
	}
	assert_int_equal(weir_host_end(m->t.space, uses, nr), 0);
	do_check(&m->t);
}

static void op_copy(struct model *m)
{
	struct model_range *range = pick_live(m);
	uint8_t *buffer = m->buffer;
	struct test_cell cells[CELLS_MAX];
	struct part part;

	if (!range || m->open)
		return;
	part = pick_part_of(m, range);
	part.kind = one_in(m, 2) ? WEIR_OVERWRITE : WEIR_READ;
	trace("%s %u+%u of %u cells at %p\n", part.kind == WEIR_READ ? "read" : "write", part.first,
	      part.nr, range->nr_cells, (void *)range->addr);
	plan_cells(m, &part, cells);
	for (uint32_t i = 0; i < part.nr && part.kind == WEIR_OVERWRITE; i++)
		pattern_put(buffer + i * range->cell_bytes,
			    (uint8_t *)part_addr(&part) + i * range->cell_bytes, range->cell_bytes,
			    cells[i].put);
	if (part.kind == WEIR_OVERWRITE)
		assert_int_equal(
			weir_write(m->t.space, part_addr(&part), buffer, part_bytes(&part)), 0);
	else
		assert_int_equal(weir_read(m->t.space, buffer, part_addr(&part), part_bytes(&part)),
				 0);
	do_check(&m->t);
	for (uint32_t i = 0; i < part.nr; i++)
		if (cells[i].expect)
			assert_int_equal(
				pattern_wrong(buffer + i * range->cell_bytes,
					      (uint8_t *)part_addr(&part) + i * range->cell_bytes,
					      range->cell_bytes, cells[i].expect),
				0);
}

/* ------------------------------------------------------------------ decisions at random */

static struct test_random decide_state;

static struct brought_in random_bring_in(const struct bring_in *q)
{
	return (struct brought_in){
		.level = random_below(&decide_state, q->nr_blocks + 1),
		.evict_for_fresh = random_below(&decide_state, 2) != 0,
		.evict_for_moved = random_below(&decide_state, 2) != 0,
	};
}

static uint64_t random_give_up(const struct give_up *q)
{
	(void)q;
	return random_below(&decide_state, 4);
}

static place_t random_evict_to(const struct evict_to *q)
{
	return (place_t)(q->from + 1 + random_below(&decide_state, q->nr_places - q->from - 1));
}

static const struct decisions decide_random = {
	.name = "random",
	.bring_in = random_bring_in,
	.give_up = random_give_up,
	.evict_to = random_evict_to,
};

/* ------------------------------------------------------------------ hints, modes */

/* A memory that the space uses. */
static uint32_t pick_memory(struct model *m)
{
	if (m->middle && one_in(m, 3))
		return GPU1;
	return one_in(m, 3) ? HOST : GPU0;
}

static void op_prefetch(struct model *m)
{
	struct weir_fence **fence = &m->fence[below(m, NR_FENCES)];
	struct model_range *range = pick_live(m);
	struct part part;
	int err;

	if (*fence) {
		trace("fence\n");
		err = one_in(m, 2) ? weir_fence_wait(*fence) : weir_fence_query(*fence);
		assert_true(err >= 0 || err == -ENOMEM);
		weir_fence_put(*fence);
		*fence = NULL;
	}
	if (!range)
		return;
	part = pick_part_of(m, range);
	err = weir_prefetch(m->t.space, part_addr(&part), part_bytes(&part), pick_memory(m),
			    one_in(m, 3) ? NULL : fence);
	trace("prefetch %u+%u at %p: %d\n", part.first, part.nr, (void *)range->addr, err);
	assert_true(!err || err == -ENOMEM);
}

static void op_advise(struct model *m)
{
	struct model_range *range = pick_live(m);
	enum weir_advice advice = (enum weir_advice)below(m, 4);
	uint32_t where;

	if (!range)
		return;
	where = pick_memory(m);
	if (advice == WEIR_ADVISE_ACCESSED_BY)
		where = below(m, m->t.desc.nr_devices);
	trace("advise %d %p\n", (int)advice, (void *)range->addr);
	assert_int_equal(weir_advise(m->t.space, range->addr, advice, where), 0);
}

/* A budget of one of the memories changes. */
static void op_budget(struct model *m)
{
	uint32_t memory = pick_memory(m);
	uint64_t block = m->t.block_bytes, scale = m->cell_bytes * CELLS_PER_BLOCK / block;
	uint64_t nr = (2 + below(m, memory == HOST ? 20 : 8)) * scale;
	uint64_t *old = &m->budget[memory];
	int err;

	if (memory == GPU1 && one_in(m, 4))
		nr = 0;
	err = weir_space_set_budget(m->t.space, memory, nr * block);
	trace("budget of memory %u: %llu of %llu blocks: %d\n", memory, (unsigned long long)nr,
	      (unsigned long long)*old, err);
	/* Arenas; nowhere else to be; an open bracket, or a fixed space. */
	assert_true(!err || err == -EINVAL || err == -ENOMEM || err == -EBUSY);
	assert_true(err != -EBUSY || m->open || m->mode == WEIR_FIXED);
	if (err == -EINVAL || err == -ENOMEM)
		return;
	if (!err)
		assert_true(get_stats(&m->t).memory[memory].bytes <= nr * block);
	nr_budgets[nr < *old]++;
	m->nr_blocks += nr - *old;
	m->most_blocks = m->nr_blocks > m->most_blocks ? m->nr_blocks : m->most_blocks;
	*old = nr;
}

static void op_mode(struct model *m)
{
	enum weir_space_mode mode = m->mode == WEIR_FIXED ? WEIR_PLANNED : WEIR_FIXED;
	int err = weir_space_set_mode(m->t.space, mode);

	trace("mode %d: %d\n", (int)mode, err);
	if (m->open) {
		assert_int_equal(err, -WEIR_ECONTRACT);
		return;
	}
	assert_int_equal(err, 0);
	m->mode = mode;
}

static void op_sync(struct model *m)
{
	trace("sync\n");
	if (one_in(m, 2)) {
		sync_stream(m, below(m, NR_STREAMS));
		return;
	}
	assert_int_equal(weir_space_sync(m->t.space), 0);
}

/* Anything that may happen at any time. */
static void some_op(struct model *m)
{
	struct model_range *range;

	switch (below(m, 16)) {
	case 0:
	case 1:
	case 2:
		(void)op_alloc(m);
		break;
	case 3:
	case 4:
		range = pick_live(m);
		if (range && !is_pinned(m, range))
			free_range(m, range);
		break;
	case 5:
	case 6:
		op_host(m);
		break;
	case 7:
	case 8:
		op_copy(m);
		break;
	case 9:
	case 10:
		op_prefetch(m);
		break;
	case 11:
		op_advise(m);
		break;
	case 12:
		if (one_in(m, 4))
			op_mode(m);
		else
			op_budget(m);
		break;
	default:
		op_sync(m);
	}
	do_check(&m->t);
}

/* ------------------------------------------------------------------ repetition */

#define SCRIPT_MAX 8u
#define SLOTS_MAX 4u

enum script_kind { SCRIPT_BRACKET, SCRIPT_ALLOC, SCRIPT_FREE, SCRIPT_HOST };

struct script_part {
	uint32_t slot, first, nr;
	enum weir_use_kind kind;
};

struct script_op {
	enum script_kind kind;
	uint32_t stream, nr_parts, slot;
	struct script_part part[PARTS_MAX];
};

struct script {
	struct model_range *slot[SLOTS_MAX];
	uint32_t nr_cells[SLOTS_MAX]; /* of temporaries; others are there already */
	uint32_t nr_slots, nr_temporaries, nr_ops;
	struct script_op op[SCRIPT_MAX + SLOTS_MAX];
};

static void script_bracket(struct model *m, const struct script *s, const bool *live,
			   struct script_op *op)
{
	op->kind = one_in(m, 12) ? SCRIPT_HOST : SCRIPT_BRACKET;
	op->stream = one_in(m, 5);
	op->nr_parts = 0;
	for (uint32_t i = 0; i < 3; i++) {
		uint32_t slot = below(m, s->nr_slots);
		struct model_range shape = {.nr_cells = s->nr_cells[slot]};
		struct part part;

		if (!live[slot])
			continue;
		part = pick_part_of(m, &shape);
		op->part[op->nr_parts++] =
			(struct script_part){slot, part.first, part.nr, part.kind};
	}
}

static void script_make(struct model *m, struct script *s)
{
	bool live[SLOTS_MAX] = {false};
	uint32_t nr = 2 + below(m, SCRIPT_MAX - 1);

	memset(s, 0, sizeof(*s));
	while (s->nr_slots < 1 + below(m, SLOTS_MAX - 1)) {
		struct model_range *range = pick_live(m);
		bool temporary = !range || s->nr_slots == SLOTS_MAX - 1 || one_in(m, 3);

		live[s->nr_slots] = !temporary;
		s->slot[s->nr_slots] = temporary ? NULL : range;
		s->nr_cells[s->nr_slots++] =
			temporary ? CELLS_PER_BLOCK * (1 + below(m, 3)) : range->nr_cells;
	}
	while (s->nr_ops < nr) {
		struct script_op *op = &s->op[s->nr_ops++];
		uint32_t slot = below(m, s->nr_slots);

		if (!s->slot[slot] && !one_in(m, 3)) {
			*op = (struct script_op){.kind = live[slot] ? SCRIPT_FREE : SCRIPT_ALLOC,
						 .slot = slot};
			live[slot] = !live[slot];
		} else {
			script_bracket(m, s, live, op);
		}
	}
	for (uint32_t i = 0; i < s->nr_slots; i++)
		if (!s->slot[i] && live[i])
			s->op[s->nr_ops++] = (struct script_op){.kind = SCRIPT_FREE, .slot = i};
}

static void script_host(struct model *m, const struct part *part)
{
	struct weir_use use = use_of(part_addr(part), part_bytes(part), part->kind);
	int err = weir_host_begin(m->t.space, &use, 1);

	trace("host %s %u+%u at %p: %d\n", kind_name[part->kind], part->first, part->nr,
	      (void *)part->range->addr, err);
	do_check(&m->t);
	if (err) {
		assert_int_equal(err, -ENOMEM);
		return;
	}
	cpu_part(m, part);
	assert_int_equal(weir_host_end(m->t.space, &use, 1), 0);
	do_check(&m->t);
}

static void script_step(struct model *m, struct script *s, const struct script_op *op)
{
	struct part parts[PARTS_MAX];
	uint32_t nr = 0;

	switch (op->kind) {
	case SCRIPT_ALLOC:
		s->slot[op->slot] = alloc_range(m, m->cell_bytes, s->nr_cells[op->slot], 0);
		break;
	case SCRIPT_FREE:
		if (s->slot[op->slot] && s->slot[op->slot]->live)
			free_range(m, s->slot[op->slot]);
		s->slot[op->slot] = NULL;
		break;
	case SCRIPT_BRACKET:
	case SCRIPT_HOST:
		for (uint32_t i = 0; i < op->nr_parts; i++) {
			const struct script_part *part = &op->part[i];
			struct model_range *range = s->slot[part->slot];

			/* Freed, and perhaps something else by now. */
			if (!range || !range->live || range->nr_cells != s->nr_cells[part->slot])
				continue;
			parts[nr++] = (struct part){range, part->first, part->nr, part->kind};
		}
		if (!nr)
			break;
		if (op->kind == SCRIPT_HOST && m->mode == WEIR_PLANNED &&
		    parts[0].kind != WEIR_DISCARD)
			script_host(m, &parts[0]);
		else
			run_bracket(m, op->stream, parts, nr);
	}
}

static void op_phase(struct model *m)
{
	/* Seldom, rarely or not at all something else happens in between. */
	uint32_t odds = one_in(m, 3) ? 0 : one_in(m, 2) ? 20 : 200, nr_iterations;
	struct script s;

	script_make(m, &s);
	nr_iterations = 5 + 60 / (s.nr_ops ? s.nr_ops : 1);
	trace("phase of %u operations, %u times\n", s.nr_ops, nr_iterations);
	for (uint32_t i = 0; i < nr_iterations; i++)
		for (uint32_t n = 0; n < s.nr_ops; n++) {
			m->quiet = true;
			script_step(m, &s, &s.op[n]);
			m->quiet = false;
			if (odds && one_in(m, odds))
				some_op(m);
		}
}

/* ------------------------------------------------------------------ sequences */

static void open_space(struct model *m)
{
	static const uint32_t granules[] = {1, 2, 4, 3, 7}; /* in a block */
	uint64_t block;
	uint32_t gpu, middle, host, scale;

	test_machine_open(&m->t, WEIR_DATA_REAL);
	block = m->t.desc.vmm.granularity_bytes * granules[below(m, ARRAY_LEN(granules))];
	gpu = 2 + below(m, one_in(m, 2) ? 3 : 15);
	host = 4 + below(m, 20);
	m->mode = one_in(m, 8) ? WEIR_FIXED : WEIR_PLANNED;
	scale = m->t.desc.memory[GPU0].bytes >= LARGE_GPU && current_seed % 32 == 0 ? LARGE : 1;
	m->nr_blocks = (gpu + host) * scale;
	m->cell_bytes = block * scale / CELLS_PER_BLOCK;
	m->buffer = malloc(CELLS_MAX * m->cell_bytes);
	assert_non_null(m->buffer);
	m->middle = m->t.desc.nr_devices > 1 && one_in(m, 3);
	middle = m->middle ? 2 + below(m, 4) : 0;
	m->nr_blocks += middle * scale;
	m->most_blocks = m->nr_blocks;
	m->budget[GPU0] = gpu * scale;
	m->budget[GPU1] = middle * scale;
	m->budget[HOST] = host * scale;
	trace("block %llu gpu %u middle %u host %u times %u mode %d\n", (unsigned long long)block,
	      gpu, middle, host, scale, (int)m->mode);
	assert_int_equal(test_space_create_places(&m->t, m->mode, block, gpu * scale * block,
						  middle * scale * block, host * scale * block),
			 0);
	if (m->middle) /* copies on the host of what is there */
		m->t.space->residency->dirty_max[1] = below(m, 4);
	if (one_in(m, 4)) {
		decide_state.state = current_seed;
		m->t.space->residency->decide = &decide_random;
		trace("decisions at random\n");
	}
}

static void close_space(struct model *m)
{
	struct weir_space_stats stats;

	for (uint32_t i = 0; i < NR_FENCES; i++)
		weir_fence_put(m->fence[i]);
	for (uint32_t i = 0; i < NR_RANGES; i++) {
		struct part part = {&m->range[i], 0, m->range[i].nr_cells, WEIR_READ};

		if (!m->range[i].live || m->mode == WEIR_FIXED)
			continue;
		begin_parts(m, 0, &part, 1);
		launch_part(m, 0, &part);
		end_parts(m, 0, &part, 1);
	}
	if (below(m, 2))
		do_sync(&m->t);
	stats = get_stats(&m->t);
	assert_true(stats.memory[GPU0].peak_bytes + stats.memory[GPU1].peak_bytes +
			    stats.memory[HOST].peak_bytes <=
		    3 * m->most_blocks * stats.block_bytes);
	total_middle_bytes += stats.memory[GPU1].peak_bytes;
	for (int d = 0; d < BACKEND_DIRECTION_NR; d++)
		for (int c = 0; c < WEIR_CAUSE_NR; c++)
			total_bytes[d][c] += get_bytes(&m->t, &stats, (enum backend_direction)d,
						       (enum weir_cause)c);
	total.nr_plans += stats.nr_plans;
	total.nr_divergences += stats.nr_divergences;
	total.nr_brackets += stats.nr_brackets;
	total.nr_waits += stats.nr_waits;
	total.nr_pool_hits += stats.nr_pool_hits;
	total.nr_dead_dropped += stats.nr_dead_dropped;
	total.nr_clean_dropped += stats.nr_clean_dropped;
	total.nr_overwrites_saved += stats.nr_overwrites_saved;
	test_space_close(&m->t);
	free(m->buffer);
}

static void run_sequence(uint64_t seed)
{
	static struct model m;
	uint32_t nr_steps;

	memset(&m, 0, sizeof(m));
	m.random.state = seed * 0x9e3779b97f4a7c15u;
	current_seed = seed;
	alarm(60);
	open_space(&m);
	nr_steps = 8 + below(&m, 24);
	for (current_step = 0; current_step < nr_steps; current_step++) {
		uint32_t what = below(&m, 16);

		if (what < 3)
			(void)op_alloc(&m);
		else if (what < 10)
			op_bracket(&m);
		else if (what == 10)
			op_launch_alone(&m);
		else if (what == 11 && one_in(&m, 4))
			op_whole_space(&m);
		else
			some_op(&m);
	}
	if (one_in(&m, 2))
		op_phase(&m);
	close_space(&m);
}

/* Say which sequence it was, whatever happened to it. */
static void say_seed(void)
{
	char text[128];
	int length = snprintf(text, sizeof(text), "failed: WEIR_SEED=%llu (step %u)\n",
			      (unsigned long long)current_seed, current_step);

	(void)!write(STDERR_FILENO, text, (size_t)length);
}

static void on_signal(int sig)
{
	say_seed();
	signal(sig, SIG_DFL);
	raise(sig);
}

static bool finished;

static int teardown(void **state)
{
	(void)state;
	alarm(0);
	if (!finished)
		say_seed();
	return 0;
}

static void test_space_random_sequences(void **state)
{
	static const struct test_amount sequences = {4000, 1000, 10000};
	const char *only = getenv("WEIR_SEED");
	uint32_t nr = (uint32_t)test_amount("WEIR_SEQUENCES", sequences);
	enum test_machine kind = test_machine_kind();

	(void)state;
	signal(SIGABRT, on_signal);
	signal(SIGALRM, on_signal);
	if (only) {
		tracing = true;
		run_sequence(strtoull(only, NULL, 10));
		finished = true;
		return;
	}
	printf("seeds 1 to %u\n", nr);
	for (uint64_t seed = 1; seed <= nr; seed++)
		run_sequence(seed);
	finished = true;
	printf("%llu brackets, %llu waits, %llu plans, %llu divergences\n",
	       (unsigned long long)total.nr_brackets, (unsigned long long)total.nr_waits,
	       (unsigned long long)total.nr_plans, (unsigned long long)total.nr_divergences);
	if (nr < MANY)
		return;
	/* Each of them was met often. */
	assert_true(total.nr_plans > nr / 20);
	assert_true(total.nr_divergences > nr / 50);
	assert_true(total.nr_waits > nr / 10);
	assert_true(total.nr_pool_hits > nr / 10);
	assert_true(total.nr_dead_dropped > nr / 10);
	assert_true(total.nr_clean_dropped > nr / 10);
	assert_true(total.nr_overwrites_saved > (kind == TEST_GPU ? 0 : nr / 40));
	for (int d = 0; d < BACKEND_DIRECTION_NR; d++) {
		assert_true(total_bytes[d][WEIR_CAUSE_DEMAND] > nr * KIB(1));
		assert_true(total_bytes[d][WEIR_CAUSE_PREFETCH] > nr * 256);
		assert_true(total_bytes[d][WEIR_CAUSE_INPLACE] > nr * KIB(1));
	}
	assert_true(total_bytes[BACKEND_TO_HOST][WEIR_CAUSE_EVICTION] > nr * KIB(1));
	assert_true(kind == TEST_GPU || total_middle_bytes > nr * KIB(1));
	assert_true(nr_budgets[0] > nr / 10 && nr_budgets[1] > nr / 10);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_space_random_sequences, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
