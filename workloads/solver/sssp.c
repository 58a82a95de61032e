/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sssp in rounds, as Bellman and Ford have it, by pulling: in each a device computes the distances
 * of its own vertices out of all of one vector, into memory of its own, and blocks of them in which
 * something changed are then written to the other vector. The two vectors change places in each
 * round, so a block is also written if it changed in the round before.
 *
 * The host reads what changed: it has to, to know when to end, and it must know what a step writes
 * before it queues it. It reads a launch's blocks while the device has another launch to do. What
 * is written can thus be on its way while the rest is computed. With one vector it could not be: it
 * would overwrite what other devices still read in this round.
 *
 * A run that sends nothing (the limit) finds wrong distances, and would end too soon: what changes,
 * and so what is written and for how many rounds, it takes from the last run on as many devices
 * that was right, if that had the same slices.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/util.h"
#include "workloads/solver/edges.h"
#include "workloads/solver/graph.h"
#include "workloads/solver/internal.h"

#define BLOCKS_LOG2 10u /* of a vector, or blocks of a slice if that is fewer */
#define SLICE_LOG2 5u
#define LAUNCHES_AHEAD 2u /* of a device, beside the one whose blocks are read */

_Static_assert(1u << SLICE_LOG2 == SOLVER_GRAPH_SLICE, "blocks are of whole slices");

/* A launch's part of a device's vertices. */
struct part {
	uint32_t index;
	struct solver_part_slices slices;
	uint32_t first_block, nr_blocks; /* of the device's */
};

static struct part part_at(const struct solver_job *job, uint32_t device, uint32_t index)
{
	const struct solver_part_slices slices = solver_part_at(job, 0, device, index);
	const uint32_t before = slices.first - solver_array_first(job->p, 0, device);
	const uint32_t log2 = job->search.block_log2 - SLICE_LOG2;

	return (struct part){
		.index = index,
		.slices = slices,
		.first_block = (before >> log2) + index, /* room for one that is cut short */
		.nr_blocks = (uint32_t)div_round_up(slices.end - slices.first, 1u << log2),
	};
}

static uint32_t first_vertex(const struct solver_job *job, uint32_t device)
{
	return solver_array_first(job->p, 0, device) * SOLVER_GRAPH_SLICE;
}

/* Rounds have numbers of their own over all passes; 0 and 1 are no round's. */
static uint32_t round_of(const struct solver_job *job)
{
	return (uint32_t)job->nr_done + 2;
}

/* ------------------------------------------------------------------ memory */

static void device_init(struct solver_job *job, uint32_t d)
{
	struct solver_search *s = &job->search;
	struct backend *b = job->m->backend;
	const uint64_t nr = first_vertex(job, d + 1) - first_vertex(job, d);
	const uint64_t flags = s->nr_blocks * sizeof(**s->changed);

	s->next[d] = solver_device_alloc(job, d, nr * sizeof(float), "distances");
	s->changed[d] = solver_device_alloc(job, d, flags, "what changed");
	s->last_changed[d] = calloc(s->nr_blocks, sizeof(*s->last_changed[d]));
	if (!s->last_changed[d])
		solver_fail(job, -EAGAIN, "this computer has no memory for what a run keeps");
	if (!job->status)
		solver_did(job, b->ops->stream_create(b, d, BACKEND_COPY_OUT, &s->stream[d]),
			   "making a stream");
	if (!job->status)
		solver_did(
			job,
			b->ops->upload(b, s->stream[d], s->changed[d], s->last_changed[d], flags),
			"clearing what changed");
}

void solver_sssp_init(struct solver_job *job)
{
	struct solver_search *s = &job->search;
	uint32_t most = 0;

	s->block_log2 = MAX(job->p->graph->scale, BLOCKS_LOG2 + SLICE_LOG2) - BLOCKS_LOG2;
	for (uint32_t d = 0; d < job->p->devices; d++)
		most = MAX(most, first_vertex(job, d + 1) - first_vertex(job, d));
	s->nr_blocks = (most >> s->block_log2) + solver_launches(job, 0) + 1;
	s->got = calloc(s->nr_blocks, sizeof(*s->got));
	if (!s->got)
		solver_fail(job, -EAGAIN, "this computer has no memory for what a run keeps");
	for (uint32_t d = 0; d < job->p->devices && !job->status; d++)
		device_init(job, d);
}

void solver_sssp_fini(struct solver_job *job)
{
	struct solver_search *s = &job->search;
	struct backend *b = job->m->backend;

	for (uint32_t d = 0; d < job->p->devices; d++) {
		if (s->stream[d])
			b->ops->stream_destroy(b, s->stream[d]);
		b->ops->device_free(b, s->next[d]);
		b->ops->device_free(b, s->changed[d]);
		free(s->last_changed[d]);
	}
	free(s->got);
}

/* ------------------------------------------------------------------ writing a vector */

/* Ranges that one launch copies. */
struct commit {
	struct solver_commit_args args;
	struct solver_step step;
	struct weir_use own[SOLVER_OWN_USES_MAX];
};

_Static_assert(SOLVER_RANGES_MAX == SOLVER_USES_MAX, "a launch has a use for each range");
_Static_assert(SOLVER_RANGES_MAX == SOLVER_OWN_USES_MAX, "and one for where it comes from");

static void commit_begin(const struct solver_job *job, uint32_t device, uint32_t slice,
			 struct commit *c)
{
	*c = (struct commit){.args.source = job->p->graph->source};
	c->step = (struct solver_step){
		.device = device,
		.part = job->m->ops->split && job->p->devices > 1 ? SOLVER_BOUNDARY : SOLVER_WHOLE,
		.slice = slice,
		.kernel = &solver_kernel_commit,
		.args_bytes = sizeof(c->args),
	};
}

/* Queue what was added; nothing: nothing. */
static int commit_flush(struct solver_job *job, struct commit *c)
{
	int err;

	if (!c->args.nr_ranges)
		return 0;
	c->step.args = &c->args;
	c->step.own = c->own;
	err = job->m->ops->step(job->m, &c->step);
	commit_begin(job, c->step.device, c->step.slice, c);
	return err;
}

/* own: where the distances are; NULL: of a beginning. */
static int commit_add(struct solver_job *job, struct commit *c, uint32_t array, const float *own,
		      uint32_t first, uint32_t nr)
{
	const uint64_t offset = first * sizeof(float), bytes = nr * sizeof(float);

	c->args.range[c->args.nr_ranges++] = (struct solver_commit_range){
		.from = own,
		.to = job->m->ops->at(job->m, array, c->step.device, offset),
		.first = first,
		.nr = nr,
	};
	c->step.use[c->step.nr_uses++] = (struct solver_use){
		.array = array, .offset = offset, .bytes = bytes, .kind = WEIR_OVERWRITE};
	if (own)
		c->own[c->step.nr_own++] = (struct weir_use){.addr = (void *)(uintptr_t)own,
							     .bytes = bytes,
							     .kind = WEIR_READ,
							     .read_bytes = bytes};
	return c->args.nr_ranges == SOLVER_RANGES_MAX ? commit_flush(job, c) : 0;
}

/* Before each pass. What changed before it does not matter any more. */
void solver_sssp_fill(struct solver_job *job)
{
	struct solver_search *s = &job->search;

	for (uint32_t array = 0; array < SOLVER_RUN_ARRAYS && !job->status; array++) {
		int err = 0;

		for (uint32_t d = 0; d < job->p->devices && !err; d++) {
			const uint32_t first = first_vertex(job, d);
			struct commit c;

			commit_begin(job, d, 0, &c);
			err = commit_add(job, &c, array, NULL, first,
					 first_vertex(job, d + 1) - first);
			err = err ? err : commit_flush(job, &c);
		}
		err = err ? err : job->m->ops->iteration_end(job->m);
		solver_did(job, err, "filling the vectors");
	}
	for (uint32_t d = 0; d < job->p->devices && !job->status; d++)
		memset(s->last_changed[d], 0, s->nr_blocks * sizeof(*s->last_changed[d]));
	s->nr_rounds = 0;
	job->settled = false;
}

/* ------------------------------------------------------------------ a round */

/* Queue the computation of a part; done: receives its fence. */
static int relax(struct solver_job *job, uint32_t device, const struct part *part, fence_t *done)
{
	const struct solver_search *s = &job->search;
	const uint32_t in = job->nr_done % 2, nr = part->slices.end - part->slices.first;
	struct solver_rows_part rows;
	struct solver_relax_args args = {.block_log2 = s->block_log2, .round = round_of(job)};
	struct solver_step step = {
		.device = device,
		.part = job->m->ops->split && job->p->devices > 1 ? SOLVER_BOUNDARY : SOLVER_WHOLE,
		.slice = part->index,
		.kernel = &solver_kernel_relax,
		.args = &args,
		.args_bytes = sizeof(args),
		.done = done,
	};

	solver_edges_part(job, device, part->slices.first, nr, &rows);
	solver_edges_vector(job, in, device, &args.in);
	args.rows = rows.rows;
	args.next = s->next[device] + (args.rows.first - first_vertex(job, device));
	args.changed = s->changed[device] + part->first_block;
	solver_edges_write(&rows, args.next, args.rows.nr * sizeof(*args.next));
	solver_edges_write(&rows, args.changed, part->nr_blocks * sizeof(*args.changed));
	step.own = rows.own;
	step.nr_own = rows.nr_own;
	solver_edges_reads(job, in, device, &rows, &step);
	return job->m->ops->step(job->m, &step);
}

/* ---- what changed, from a run that was right to one that is not */

static struct solver_changes *changes_of(const struct solver_job *job)
{
	return &job->p->graph->split[job->p->devices]->changes;
}

/* Whether this run's distances are wrong, and one that had the same blocks was right. */
static bool is_replaying(const struct solver_job *job)
{
	return job->m->ops->limit &&
	       changes_of(job)->nr_blocks == job->p->devices * job->search.nr_blocks;
}

static bool is_kept(const struct solver_job *job)
{
	return !job->m->ops->limit && !job->phantom && job->m->ops->split;
}

/* Room for what changes in a round. */
static int changes_grow(struct solver_job *job)
{
	const uint32_t nr_blocks = job->p->devices * job->search.nr_blocks;
	const uint32_t round = job->search.nr_rounds;
	struct solver_changes *c = changes_of(job);
	bool *more;

	if (!is_kept(job))
		return 0;
	if (c->nr_blocks != nr_blocks) {
		free(c->changed);
		c->changed = NULL;
		c->nr_blocks = nr_blocks;
		c->nr_rounds = c->room = 0;
	}
	if (round >= c->room) {
		const uint32_t room = MAX(16, 2 * round);

		more = realloc(c->changed, (size_t)room * nr_blocks * sizeof(*more) + 1);
		if (!more)
			return -EAGAIN;
		c->changed = more;
		c->room = room;
	}
	c->nr_rounds = round + 1;
	memset(c->changed + (size_t)round * nr_blocks, 0, nr_blocks * sizeof(*c->changed));
	return 0;
}

/* In this round; NULL: of a round that there was not. */
static bool *changes_at(const struct solver_job *job, uint32_t device, uint32_t block)
{
	const struct solver_changes *c = changes_of(job);
	const size_t at = (size_t)device * job->search.nr_blocks + block;
	const uint32_t round = job->search.nr_rounds;

	return round < c->nr_rounds ? &c->changed[(size_t)round * c->nr_blocks + at] : NULL;
}

static bool has_changed(const struct solver_job *job, uint32_t device, uint32_t block, uint32_t got)
{
	const bool real = got == round_of(job);
	const bool *kept;

	if (job->phantom)
		return solver_graph_changes(job->p->graph, job->search.nr_rounds, device, block,
					    1u << job->search.block_log2);
	if (is_replaying(job)) {
		kept = changes_at(job, device, block);
		return kept && *kept;
	}
	if (is_kept(job))
		*changes_at(job, device, block) = real;
	return real;
}

/* Which blocks of a part changed, once its launch is done. */
static int changed_read(struct solver_job *job, uint32_t device, const struct part *part,
			fence_t done)
{
	struct solver_search *s = &job->search;
	struct backend *b = job->m->backend;
	int err = b->ops->fence_wait_awake(b, done);

	err = err ? err
		  : b->ops->download(b, s->stream[device], job->phantom ? NULL : s->got,
				     s->changed[device] + part->first_block,
				     part->nr_blocks * sizeof(*s->got));
	for (uint32_t i = 0; i < part->nr_blocks && !err; i++) {
		const bool changed = has_changed(job, device, part->first_block + i, s->got[i]);

		if (changed)
			s->last_changed[device][part->first_block + i] = round_of(job);
		job->settled &= !changed;
	}
	return err;
}

/* Count what other devices read of a range that is written. */
static void range_count(struct solver_job *job, uint32_t device, uint32_t first, uint32_t nr)
{
	double *listed = job->rounds[job->search.nr_rounds].listed[device];

	for (uint32_t to = 0; to < job->p->devices; to++)
		if (to != device)
			listed[to] += solver_graph_listed(job->p->graph, job->p->devices, to,
							  device, first, nr);
}

/* Write the blocks of a part that the other vector lacks, runs of them as one. */
static int part_commit(struct solver_job *job, uint32_t device, const struct part *part)
{
	const struct solver_search *s = &job->search;
	const uint32_t *last = s->last_changed[device] + part->first_block;
	const uint32_t begin = part->slices.first * SOLVER_GRAPH_SLICE;
	const uint32_t end = part->slices.end * SOLVER_GRAPH_SLICE, out = !(job->nr_done % 2);
	struct commit c;
	int err = 0;

	commit_begin(job, device, part->index, &c);
	for (uint32_t i = 0, next; i < part->nr_blocks && !err; i = next) {
		const uint32_t first = begin + (i << s->block_log2);
		uint32_t nr;

		for (next = i; next < part->nr_blocks && last[next] + 1 >= round_of(job);)
			next++;
		nr = MIN(begin + (next << s->block_log2), end) - first;
		if (next == i) {
			next++;
			continue;
		}
		range_count(job, device, first, nr);
		err = commit_add(job, &c, out,
				 s->next[device] + (first - first_vertex(job, device)), first, nr);
	}
	return err ? err : commit_flush(job, &c);
}

static int rounds_grow(struct solver_job *job)
{
	const uint32_t nr = job->search.nr_rounds;
	struct solver_round *more = realloc(job->rounds, (nr + 1) * sizeof(*more));

	if (!more)
		return -EAGAIN;
	memset(&more[nr], 0, sizeof(*more));
	job->rounds = more;
	return 0;
}

/* Launches ahead are queued before the blocks of one are read: devices do not wait for the host. */
static int round_run(struct solver_job *job)
{
	const uint32_t nr_launches = solver_launches(job, 0);
	fence_t done[SOLVER_LAUNCHES][WEIR_DEVICES_MAX];
	int err = rounds_grow(job);

	err = err ? err : changes_grow(job);
	for (uint32_t i = 0; i < nr_launches + LAUNCHES_AHEAD; i++)
		for (uint32_t d = 0; d < job->p->devices && !err; d++) {
			struct part part;

			if (i >= LAUNCHES_AHEAD) {
				part = part_at(job, d, i - LAUNCHES_AHEAD);
				if (part.nr_blocks)
					err = changed_read(job, d, &part,
							   done[i - LAUNCHES_AHEAD][d]);
				err = err ? err : part_commit(job, d, &part);
			}
			if (i >= nr_launches || err)
				continue;
			part = part_at(job, d, i);
			if (part.nr_blocks)
				err = relax(job, d, &part, &done[i][d]);
		}
	return err ? err : job->m->ops->iteration_end(job->m);
}

void solver_sssp_iterate(struct solver_job *job)
{
	job->settled = true;
	solver_did(job, round_run(job), "a round");
	job->nr_done++;
	job->search.nr_rounds++;
	if (job->phantom)
		job->settled = job->search.nr_rounds >= solver_graph_rounds();
}
