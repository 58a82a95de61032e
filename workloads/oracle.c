/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a trace of launches to MIN's sets of blocks; see oracle.h. What contents a block has follows
 * from the declared uses alone: nothing is taken from the manager but where blocks were.
 */
#include "workloads/oracle.h"

#include <errno.h>
#include <stdlib.h>

#include "src/base/util.h"
#include "workloads/min.h"

/* A trace on its way into sets. */
struct blocks {
	const struct trace *trace;
	uint32_t *first_block; /* by life; one that does not move has no blocks */
	struct min_trace min;
	uint64_t *first; /* min.first */
	struct min_access *access;
	uint64_t nr_accesses, next_where;
	uint64_t *at; /* by block: where its newest access is */
	bool *dead;   /* by block: it has no contents that anybody needs */
};

static bool life_moves(const struct blocks *b, uint32_t life)
{
	return b->trace->lives[life].bytes >= b->trace->block_bytes;
}

/* ------------------------------------------------------------------ one use */

/* Whether a use covers all that the life has of its block i. */
static bool covers(const struct trace *trace, const struct trace_use *use, uint64_t i)
{
	uint64_t begin = i * trace->block_bytes, left = trace->lives[use->life].bytes - begin;
	uint64_t bytes = MIN(left, trace->block_bytes);

	return use->offset <= begin && use->offset + use->bytes >= begin + bytes;
}

/* Whether the step, which is being added, has an access of the block. */
static bool has_access(const struct blocks *b, uint32_t step, uint32_t block)
{
	uint64_t at = b->at[block];

	return at >= b->first[step] && at < b->nr_accesses && b->access[at].block == block;
}

/* The step's access of the block; added at its first use, as one that needs nothing. */
static struct min_access *access_of(struct blocks *b, uint32_t step, uint32_t block)
{
	if (!has_access(b, step, block)) {
		b->at[block] = b->nr_accesses++;
		b->access[b->at[block]] = (struct min_access){
			.block = block & (MIN_BLOCKS_MAX - 1), .in_place = true, .birth = true};
	}
	return &b->access[b->at[block]];
}

/* A use of one block by a kernel, or (write) by the program. */
static void use_block(struct blocks *b, uint32_t step, const struct trace_use *use, uint64_t i,
		      enum manager_where where, bool write)
{
	uint32_t block = b->first_block[use->life] + (uint32_t)i;
	bool overwritten = (write || use->kind == WEIR_OVERWRITE) && covers(b->trace, use, i);
	struct min_access *access = access_of(b, step, block);

	access->in_place &= where != MANAGER_OWN;
	access->near = access->in_place && (access->near || where == MANAGER_NEAR);
	access->birth &= overwritten || b->dead[block];
	access->write |= write || use->kind != WEIR_READ;
}

/* What a kernel discards dies, unless it uses it, too. */
static void discard(struct blocks *b, uint32_t step, const struct trace_use *use)
{
	uint64_t i = use->offset / b->trace->block_bytes;

	for (uint64_t n = trace_part_blocks(b->trace, use->offset, use->bytes); n; n--, i++) {
		uint32_t block = b->first_block[use->life] + (uint32_t)i;
		uint64_t at = b->at[block];
		bool used =
			at >= b->first[step] && at < b->nr_accesses && b->access[at].block == block;

		if (!used && covers(b->trace, use, i))
			b->dead[block] = true;
	}
}

static void add_use(struct blocks *b, uint32_t step, const struct trace_use *use)
{
	bool kernel = b->trace->steps[step].name != NULL;
	uint64_t nr = trace_part_blocks(b->trace, use->offset, use->bytes);
	const uint8_t *where = &b->trace->where[b->next_where];

	if (kernel)
		b->next_where += nr;
	if (!life_moves(b, use->life) || (kernel && use->kind == WEIR_DISCARD))
		return;
	for (uint64_t n = 0; n < nr; n++)
		use_block(b, step, use, use->offset / b->trace->block_bytes + n,
			  kernel ? (enum manager_where)where[n] : MANAGER_HOST, !kernel);
}

/* ------------------------------------------------------------------ the whole trace */

static void add_step(struct blocks *b, uint32_t s)
{
	const struct trace_step *step = &b->trace->steps[s];
	const struct trace_use *use = &b->trace->uses[step->first_use];

	for (uint32_t u = 0; u < step->nr_uses; u++)
		add_use(b, s, &use[u]);
	for (uint32_t u = 0; step->name && u < step->nr_uses; u++)
		if (use[u].kind == WEIR_DISCARD && life_moves(b, use[u].life))
			discard(b, s, &use[u]);
	for (uint64_t a = b->first[s]; a < b->nr_accesses; a++)
		b->dead[b->access[a].block] &= !b->access[a].write;
	b->first[s + 1] = b->nr_accesses;
}

/* Number the blocks of lives. What is born in the trace has no contents at first. */
static int number_blocks(struct blocks *b)
{
	const struct trace *trace = b->trace;
	uint64_t nr = 0;

	for (uint32_t l = 0; l < trace->nr_lives; l++) {
		const struct trace_life *life = &trace->lives[l];

		b->first_block[l] = (uint32_t)nr;
		if (!life_moves(b, l))
			continue;
		if ((life->birth == TRACE_NEVER) != (life->death == TRACE_NEVER))
			return -EXDEV;
		nr += (life->bytes - 1) / trace->block_bytes + 1;
		if (nr > MIN_BLOCKS_MAX)
			return -E2BIG;
	}
	b->min.nr_blocks = (uint32_t)nr;
	b->at = calloc(nr + 1, sizeof(*b->at));
	b->dead = calloc(nr + 1, sizeof(*b->dead));
	if (!b->at || !b->dead)
		return -ENOMEM;
	for (uint32_t l = 0; l < trace->nr_lives; l++) {
		uint32_t end = l + 1 < trace->nr_lives ? b->first_block[l + 1] : b->min.nr_blocks;

		for (uint32_t i = b->first_block[l]; i < end; i++)
			b->dead[i] = trace->lives[l].birth != TRACE_NEVER;
	}
	return 0;
}

/* Blocks that all uses name, those of the program's own writes included. */
static uint64_t named_blocks(const struct trace *trace)
{
	uint64_t nr = 0;

	for (uint32_t u = 0; u < trace->nr_uses; u++)
		nr += trace_part_blocks(trace, trace->uses[u].offset, trace->uses[u].bytes);
	return nr;
}

static void blocks_fini(struct blocks *b)
{
	free(b->first_block);
	free(b->first);
	free(b->access);
	free(b->at);
	free(b->dead);
}

static int blocks_init(struct blocks *b, const struct trace *trace)
{
	int err;

	*b = (struct blocks){.trace = trace, .min.nr_steps = trace->nr_steps};
	b->first_block = calloc(trace->nr_lives + 1u, sizeof(*b->first_block));
	b->first = calloc(trace->nr_steps + 1u, sizeof(*b->first));
	b->access = calloc(named_blocks(trace) + 1, sizeof(*b->access));
	err = b->first_block && b->first && b->access ? number_blocks(b) : -ENOMEM;
	if (err) {
		blocks_fini(b);
		return err;
	}
	for (uint32_t s = 0; s < trace->nr_steps; s++)
		add_step(b, s);
	b->min.first = b->first;
	b->min.access = b->access;
	return 0;
}

/* ------------------------------------------------------------------ the result */

static void count_accesses(const struct blocks *b, struct oracle_result *out)
{
	for (uint64_t a = 0; a < b->nr_accesses; a++) {
		out->nr_in_place += b->access[a].in_place;
		out->nr_near += b->access[a].near;
		out->nr_resident += !b->access[a].in_place;
		out->nr_births += b->access[a].birth;
	}
}

static uint32_t blocks_u32(uint64_t blocks)
{
	return blocks < UINT32_MAX ? (uint32_t)blocks : UINT32_MAX;
}

/* Both levels of MIN. Without neighbours they are the same. */
static int solve(const struct blocks *b, uint64_t capacity, uint64_t near_capacity,
		 struct oracle_result *out)
{
	struct oracle_result counts = {0};
	struct min_steady own, both;
	uint32_t step;
	int err = min_steady(&b->min, blocks_u32(capacity), MIN_OWN, &own);

	if (err)
		return err;
	both = own;
	count_accesses(b, &counts);
	if (near_capacity || counts.nr_near) {
		uint64_t room = blocks_u32(capacity) + (uint64_t)blocks_u32(near_capacity);

		err = min_steady(&b->min, blocks_u32(room), MIN_BOTH, &both);
		if (err)
			return err;
	}
	*out = counts;
	out->copy_ins = own.copy_ins;
	out->write_backs = own.write_backs;
	out->host_copy_ins = both.copy_ins;
	out->host_write_backs = both.write_backs;
	out->nr_periods = own.nr_periods;
	out->exact = own.exact && both.exact;
	out->nr_blocks = b->min.nr_blocks;
	out->largest_set = min_largest_set(&b->min, MIN_OWN, &step);
	return 0;
}

int oracle_compute(const struct trace *trace, uint64_t capacity, uint64_t near_capacity,
		   struct oracle_result *out)
{
	struct blocks b;
	int err = trace_check(trace);

	if (err)
		return err;
	if (!trace->block_bytes || !trace->where)
		return -ENODATA;
	err = blocks_init(&b, trace);
	if (err)
		return err;
	err = solve(&b, capacity, near_capacity, out);
	blocks_fini(&b);
	return err;
}
