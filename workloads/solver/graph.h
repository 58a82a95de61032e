/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The graph of pagerank and sssp: a Kronecker graph (workloads/graph/gen.h), each edge in both
 * directions, and how its vertices are split between devices. Each device has vertices that follow
 * each other, of an equal share of the edges, in whole slices of SOLVER_GRAPH_SLICE.
 *
 * A phantom one has no edges: the numbers of edges, and of the elements that devices read of each
 * other's vertices, are what a random graph has in the mean (docs/solver.md).
 */
#ifndef WEIR_SOLVER_GRAPH_H
#define WEIR_SOLVER_GRAPH_H

#include "workloads/graph/input.h"

#define SOLVER_GRAPH_SLICE 32u /* vertices: 128 bytes of a vector */
#define SOLVER_SCALE_MIN 5u    /* one slice */
#define SOLVER_SCALE_MAX 31u

/* What one device has, and needs of others. */
struct solver_share {
	uint32_t first;	   /* its first slice */
	uint64_t nr_edges; /* that end at its vertices */
	/* Vertices of others that those edges come from: ascending, each once. NULL: phantom, and
	 * not made up yet. */
	uint32_t *listed;
	uint64_t nr_listed;
	uint64_t nr_listed_of[WEIR_DEVICES_MAX]; /* by whose they are */
};

/* Which blocks of the vertices changed in each round of a pass of sssp: for runs whose distances
 * are wrong, to do the same work. */
struct solver_changes {
	uint32_t nr_blocks; /* of all devices, in a round; 0: of no pass yet */
	uint32_t nr_rounds, room;
	bool *changed; /* nr_rounds times nr_blocks; room for more rounds */
};

/* All of them, between so many devices. */
struct solver_split {
	uint32_t nr_devices;
	struct solver_changes changes; /* of the last pass that was right; a run writes it */
	struct solver_share share[WEIR_DEVICES_MAX + 1]; /* the last one's: first alone */
};

struct solver_graph {
	uint32_t scale;
	uint64_t degree, seed;
	uint64_t nr_vertices; /* 2^scale */
	uint64_t nr_edges;    /* each in both directions, and none twice */
	uint64_t nr_isolated; /* vertices without edges */
	uint64_t nr_pieces;   /* of rows that have several (kernels.h); of a phantom one 0 */
	uint32_t source;      /* of sssp: a vertex with edges */
	bool phantom;
	struct graph_input input;			  /* unless it is phantom */
	struct solver_split *split[WEIR_DEVICES_MAX + 1]; /* by the number of devices; or NULL */
};

struct solver_graph_params {
	uint32_t scale;	 /* SOLVER_SCALE_MIN to SOLVER_SCALE_MAX */
	uint64_t degree; /* edges drawn for each vertex; 1 to GRAPH_INPUT_DEGREE_MAX */
	uint64_t seed;
	bool weights;
	bool phantom;
	struct weir_machine *machine; /* of a real GPU, which generates it; or NULL */
	const struct graph_watch *watch;
};

/**
 * Generate a graph, or work out what a phantom one has.
 *
 * @param [out] out  solver_graph_close() it. Written on success only.
 * @return 0, or an error of graph_input_open(), with one line in err unless it is -ECANCELED.
 */
WEIR_MUST_CHECK int solver_graph_open(const struct solver_graph_params *params,
				      struct solver_graph *out, char *err, size_t err_bytes);
void solver_graph_close(struct solver_graph *g);

/*
 * Split it between so many devices, if it is not yet: g->split[nr_devices] is there from then on.
 * 0; -ENOMEM; -EINVAL: there are more devices than slices.
 */
WEIR_MUST_CHECK int solver_graph_split(struct solver_graph *g, uint32_t nr_devices);

static inline uint32_t solver_graph_slices(const struct solver_graph *g)
{
	return (uint32_t)(g->nr_vertices / SOLVER_GRAPH_SLICE);
}

/* Of the vertices that a device's edges come from, those in a range of another one's vertices. */
double solver_graph_listed(const struct solver_graph *g, uint32_t nr_devices, uint32_t device,
			   uint32_t of, uint32_t first_vertex, uint32_t nr);

/* Of a phantom graph: whether a distance changes in a block of a device's, of nr vertices, in the
 * round-th round of sssp, from 0: as often as in a generated one (graph_summary.h). */
bool solver_graph_changes(const struct solver_graph *g, uint32_t round, uint32_t device,
			  uint32_t block, uint32_t nr);

/*
 * Make up the lists of a phantom graph that is split: of each other device's vertices as many as
 * are listed, at random, one in each of as many equal parts. Others have theirs. 0 or -ENOMEM.
 */
WEIR_MUST_CHECK int solver_graph_make_lists(struct solver_graph *g, uint32_t nr_devices);

/* How many rounds it has. */
uint32_t solver_graph_rounds(void);

/* Into how many pieces a row of so many edges is cut, if there are several; else 0. */
uint32_t solver_graph_pieces(uint64_t nr_edges);

/* How many edges end at the vertices of some slices. */
uint64_t solver_graph_edges(const struct solver_graph *g, uint32_t first_slice, uint32_t end_slice);

#endif
