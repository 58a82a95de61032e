/* SPDX-License-Identifier: Apache-2.0 */
/* Rounds: which kernels an algorithm launches, until when, and what they are said to use. */
#include <errno.h>
#include <string.h>

#include "src/cost/cost.h"
#include "workloads/graph/ops.h"
#include "workloads/graph/run_internal.h"

#define USES_MAX 4u
#define ROUNDS_AHEAD 4u
#define LINE_BYTES (GRAPH_LINE_EDGES * (uint32_t)sizeof(uint32_t))
#define SECTOR_BYTES (GRAPH_SECTOR_EDGES * (uint32_t)sizeof(uint32_t))

/* ------------------------------------------------------------------ uses */

struct uses {
	struct weir_use use[USES_MAX];
	uint32_t nr;
};

/* All of an array, which an algorithm may not have. granule 0: in order. */
static void use_add(struct uses *u, const void *addr, uint64_t bytes, enum weir_use_kind kind,
		    uint32_t granule, uint64_t use_bytes)
{
	if (!addr || !bytes)
		return;
	u->use[u->nr++] = (struct weir_use){
		.addr = (void *)(uintptr_t)addr,
		.bytes = bytes,
		.kind = kind,
		.pattern = granule ? WEIR_RANDOM : WEIR_STREAM,
		.granule = granule,
		.read_bytes = kind == WEIR_OVERWRITE ? 0 : use_bytes,
		.write_bytes = kind == WEIR_READ ? 0 : use_bytes,
	};
}

/* What has an entry a vertex and is looked up for each edge. */
static void use_targets(const struct graph_job *j, struct uses *u)
{
	const struct graph_args *g = &j->args;
	const uint64_t n = g->nr_vertices, nr_edges = j->control.nr_edges;

	switch (g->algorithm) {
	case GRAPH_BFS:
		use_add(u, g->changed, (n + 31) / 32 * 4, WEIR_WRITE, 4, nr_edges * 4);
		break;
	case GRAPH_SSSP:
		use_add(u, g->distance, n * 8, WEIR_WRITE, 8, nr_edges * 8);
		break;
	case GRAPH_CC:
		use_add(u, g->label, n * 4, WEIR_WRITE, 4, nr_edges * 4);
		break;
	default:
		use_add(u, g->share, n * 4, WEIR_READ, 4, nr_edges * 4);
	}
}

/* Bytes of edges that an access takes, a run: whole sectors, on average over the round. On a GPU,
 * where runs are not counted, a piece or about an item, by what is expanded. */
static uint32_t run_bytes(const struct graph_job *j, bool all)
{
	const struct graph_control *c = &j->control;

	if (c->nr_runs)
		return (uint32_t)((c->nr_sectors + c->nr_runs / 2) / c->nr_runs) * SECTOR_BYTES;
	return all ? GRAPH_PIECE * sizeof(uint32_t) : j->item_bytes;
}

/* Edges: in order where all lists are gone through, else run by run. */
static struct uses expand_uses(const struct graph_job *j)
{
	const struct graph_args *g = &j->args;
	const uint64_t bytes = g->nr_edges * sizeof(uint32_t);
	const bool all = g->algorithm == GRAPH_PAGERANK;
	const uint32_t granule = run_bytes(j, all);
	const uint64_t used = j->control.nr_runs ? j->control.nr_runs * granule
						 : j->control.nr_edges * sizeof(uint32_t);
	struct uses u = {.nr = 0};

	use_add(&u, g->neighbour, bytes, WEIR_READ, granule, used);
	use_add(&u, g->weight, bytes, WEIR_READ, granule, used);
	for (uint32_t i = 0; i < u.nr && all; i++)
		u.use[i].pattern = WEIR_STREAM;
	use_targets(j, &u);
	return u;
}

/* A pass over an array with an entry a vertex, of 8 bytes or so, and over the offsets. */
static struct uses vertices_uses(const struct graph_job *j)
{
	const struct graph_args *g = &j->args;
	const void *array = g->level	  ? (const void *)g->level
			    : g->distance ? (const void *)g->distance
			    : g->label	  ? (const void *)g->label
					  : (const void *)g->rank;
	uint64_t bytes = g->nr_vertices * (g->level || g->label ? 4 : 8);
	struct uses u = {.nr = 0};

	use_add(&u, g->offset, (g->nr_vertices + 1) * 8, WEIR_READ, 0, (g->nr_vertices + 1) * 8);
	use_add(&u, array, bytes, WEIR_WRITE, 0, bytes);
	return u;
}

/* ------------------------------------------------------------------ launches */

static void launch(struct graph_job *j, const struct weir_kernel *kernel, const void *args,
		   size_t bytes, const struct uses *uses)
{
	struct weir_launch l = {
		.kernel = kernel,
		.args = args,
		.args_bytes = bytes,
		.uses = uses->use,
		.nr_uses = uses->nr,
	};

	if (!j->status)
		graph_job_step(j, j->m->ops->launch(j->m, &l), kernel->name);
}

/* A kernel that passes over the vertices. */
static void launch_vertices(struct graph_job *j, const struct weir_kernel *kernel)
{
	struct uses uses = vertices_uses(j);

	launch(j, kernel, &j->args, sizeof(j->args), &uses);
}

static void launch_small(struct graph_job *j, const struct weir_kernel *kernel)
{
	struct uses uses = {.nr = 0};

	use_add(&uses, j->args.control, sizeof(*j->args.control), WEIR_WRITE, 0,
		sizeof(*j->args.control));
	launch(j, kernel, &j->args, sizeof(j->args), &uses);
}

static void expand_paged(struct graph_job *j, const struct uses *uses)
{
	const struct manager_ops *ops = j->m->ops;
	struct graph_paged_args paged = {.args = j->args};
	int err = j->status ? j->status : ops->paged_begin(j->m, &paged.view);

	graph_job_step(j, err, "coming online");
	if (err)
		return;
	err = ops->paged_range(j->m, j->args.neighbour, &paged.neighbour);
	if (!err && j->args.weight)
		err = ops->paged_range(j->m, j->args.weight, &paged.weight);
	graph_job_step(j, err, "finding the edges");
	launch(j, &graph_kernel_expand_paged, &paged, sizeof(paged), uses);
	graph_job_step(j, ops->paged_end(j->m), "going offline");
}

static void expand(struct graph_job *j)
{
	struct uses uses = expand_uses(j);

	if (!j->control.nr_items)
		return;
	if (j->m->ops->paged_begin)
		expand_paged(j, &uses);
	else
		launch(j, &graph_kernel_expand, &j->args, sizeof(j->args), &uses);
}

static void control_get(struct graph_job *j)
{
	graph_job_get(j, &j->control, j->args.control, sizeof(j->control), "reading counts");
	if (j->status)
		memset(&j->control, 0, sizeof(j->control));
}

/* Lines of the items made, which are expanded `times`. */
static void count(struct graph_job *j, uint32_t times)
{
	const uint64_t line_bytes = (uint64_t)LINE_BYTES * (j->args.weight ? 2 : 1);

	if (!j->counts || !j->control.nr_items)
		return;
	launch_small(j, &graph_kernel_lines);
	control_get(j);
	j->work.nr_rounds += times;
	j->work.nr_edges += times * j->control.nr_edges;
	j->work.line_bytes += times * j->control.nr_lines * line_bytes;
	j->work.first_bytes += j->control.nr_first * line_bytes;
}

/* Make the items of a round. known: wait, and see how many there are; else there may be any. */
static void items(struct graph_job *j, bool known)
{
	launch_small(j, &graph_kernel_round);
	launch_vertices(j, &graph_kernel_items);
	if (known) {
		control_get(j);
	} else {
		j->control.nr_items = j->args.nr_edges != 0;
		j->control.nr_edges = j->args.nr_edges;
	}
}

static void round_run(struct graph_job *j, bool known)
{
	items(j, known);
	count(j, 1);
	expand(j);
}

/* ------------------------------------------------------------------ algorithms */

/*
 * A search: rounds until one is empty. On a simulated machine, and when they are counted, each is
 * known before it is launched; a real one is given ROUNDS_AHEAD at a time, since the way to the
 * host and back takes as long as a small round, and rounds after the last one are empty.
 *
 * sssp is delta-stepping (Meyer, Sanders, "Delta-stepping: a parallelizable shortest path
 * algorithm", 2003) without a distinction of light and heavy edges: vertices nearer than the limit
 * are expanded until there are none, then the limit goes to the end of the next bucket that has
 * any.
 */
static void search(struct graph_job *j)
{
	const bool known = j->counts || !j->m->ops->stream || !j->m->ops->stream(j->m);

	while (!graph_job_stopped(j)) {
		for (uint32_t i = 0; i < (known ? 1 : ROUNDS_AHEAD); i++)
			round_run(j, known);
		if (!known)
			control_get(j);
		if (!j->control.nr_items && !j->control.nr_left)
			return;
	}
}

/* The label that most samples have. */
static uint32_t label_frequent(struct graph_job *j)
{
	uint32_t sample[GRAPH_SAMPLES] = {0}, best = 0, best_nr = 0;

	graph_job_get(j, sample, j->args.sample, sizeof(sample), "reading labels");
	for (uint32_t i = 0; i < GRAPH_SAMPLES; i++) {
		uint32_t nr = 0;

		for (uint32_t k = 0; k < GRAPH_SAMPLES; k++)
			nr += sample[k] == sample[i];
		if (nr <= best_nr)
			continue;
		best = sample[i];
		best_nr = nr;
	}
	return best;
}

/*
 * Afforest (see ops.h): link each vertex with a few neighbours, then only those lists that do not
 * belong to the component that most vertices are then in. That needs each edge in both directions;
 * otherwise all lists are gone through.
 */
static void cc(struct graph_job *j)
{
	if (j->p->graph->flags & CSR_SYMMETRIC) {
		j->args.near = true;
		round_run(j, true);
		j->args.near = false;
		launch_vertices(j, &graph_kernel_finish);
		launch_small(j, &graph_kernel_sample);
		j->args.skip = label_frequent(j);
		j->args.skips = true;
	}
	round_run(j, true);
	launch_vertices(j, &graph_kernel_finish);
	j->args.skips = false;
}

/* All lists in each iteration: so their items are made once. */
static void pagerank(struct graph_job *j)
{
	items(j, true);
	count(j, j->p->iterations);
	for (uint32_t i = 0; i < j->p->iterations && !graph_job_stopped(j); i++) {
		expand(j);
		launch_vertices(j, &graph_kernel_finish);
		j->args.round++;
	}
}

void graph_job_rounds(struct graph_job *j, uint64_t source)
{
	static void (*const rounds[GRAPH_ALGORITHM_NR])(struct graph_job * j) = {
		[GRAPH_BFS] = search,
		[GRAPH_SSSP] = search,
		[GRAPH_CC] = cc,
		[GRAPH_PAGERANK] = pagerank,
	};
	const struct graph_control first = {.limit = j->args.delta};

	j->args.source = source;
	j->args.round = 0;
	graph_job_put(j, j->args.control, &first, sizeof(first), "clearing counts");
	launch_vertices(j, &graph_kernel_begin);
	rounds[j->p->algorithm](j);
}
