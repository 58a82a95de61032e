/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libweir-graph-fake.so: the CUDA kernels of graphs (workloads/graph/cuda/plugin.h) for the fake
 * driver. Each is the CPU's, queued as a kernel that touches what its arguments name; those that
 * page run agents over the pool's words. WEIR_GRAPH_KERNELS names it.
 */
#include "tests/fakecuda/paged.h"
#include "tests/fakecuda/plugin.h"
#include "workloads/graph/cuda/plugin.h"

const char *graph_cuda_error(void)
{
	return error_text;
}

uint64_t graph_cuda_abi(void)
{
	return graph_cuda_abi_here();
}

/* ------------------------------------------------------------------ touches */

/* Arrays that an algorithm does not have are NULL, and touched by nobody. @return how many are */
static unsigned present(struct fakecuda_touch *touch, unsigned nr)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < nr; i++)
		if (touch[i].addr)
			touch[kept++] = touch[i];
	return kept;
}

/* Queue the CPU's kernel with these touches. */
#define QUEUE(name, stream, a, ...)                                                          \
	do {                                                                                 \
		struct fakecuda_touch touch[] = {__VA_ARGS__};                               \
                                                                                             \
		return queue(stream, #name, graph_kernel_##name.cpu, a, sizeof(*(a)), touch, \
			     present(touch, sizeof(touch) / sizeof(touch[0])));              \
	} while (0)

/* Words of a bit each. */
static uint64_t words(uint64_t nr)
{
	return (nr + 31) / 32;
}

static uint64_t nr_line_words(const struct graph_args *g)
{
	return words(g->nr_edges / GRAPH_LINE_EDGES + 1);
}

/* There is room for more, how much depends on the lists: but never for fewer. */
static uint64_t nr_items(const struct graph_args *g)
{
	return g->nr_edges / GRAPH_PIECE + 1;
}

/* What tells a vertex's share: where pagerank was given no degrees, those of the lists. */
#define DEGREES(g)                            \
	READS((g)->degree, (g)->nr_vertices), \
		READS((g)->share && !(g)->degree ? (g)->offset : NULL, (g)->nr_vertices + 1)

/* What expanding touches beside the edges. */
#define ENDS(g)                                                                                \
	WRITES((g)->control, 1), READS((g)->item, nr_items(g)), READS((g)->from, nr_items(g)), \
		WRITES((g)->changed, words((g)->nr_vertices)),                                 \
		WRITES((g)->distance, (g)->nr_vertices), WRITES((g)->label, (g)->nr_vertices), \
		READS((g)->share, (g)->nr_vertices), WRITES((g)->sum, (g)->nr_vertices)

/* ------------------------------------------------------------------ kernels */

int graph_cuda_round(void *stream, const void *args)
{
	const struct graph_args *g = args;

	QUEUE(round, stream, g, WRITES(g->control, 1));
}

int graph_cuda_begin(void *stream, const void *args)
{
	const struct graph_args *g = args;
	const uint64_t nr = g->nr_vertices;

	QUEUE(begin, stream, g, WRITES(g->control, 1), WRITES(g->seen, words(nr)),
	      WRITES(g->changed, words(nr)), WRITES(g->level, nr), WRITES(g->distance, nr),
	      WRITES(g->label, nr), WRITES(g->rank, nr), WRITES(g->sum, nr), WRITES(g->share, nr),
	      DEGREES(g));
}

int graph_cuda_items(void *stream, const void *args)
{
	const struct graph_args *g = args;
	const uint64_t nr = g->nr_vertices;

	QUEUE(items, stream, g, WRITES(g->control, 1), READS(g->offset, nr + 1),
	      WRITES(g->item, nr_items(g)), WRITES(g->from, nr_items(g)),
	      WRITES(g->seen, words(nr)),
	      {g->changed, words(nr) * sizeof(*g->changed), g->algorithm == GRAPH_SSSP},
	      WRITES(g->level, nr), READS(g->distance, nr), READS(g->skips ? g->label : NULL, nr));
}

int graph_cuda_expand(void *stream, const void *args)
{
	const struct graph_args *g = args;

	QUEUE(expand, stream, g, READS(g->neighbour, g->nr_edges), READS(g->weight, g->nr_edges),
	      ENDS(g));
}

int graph_cuda_expand_paged(void *stream, const void *args)
{
	const struct graph_paged_args *p = args;
	const struct graph_args *g = &p->args;
	struct fakecuda_touch touch[] = {ENDS(g)};

	return fake_view_queue_also(stream, graph_kernel_expand_paged.cpu, p, sizeof(*p), &p->view,
				    touch, present(touch, sizeof(touch) / sizeof(touch[0])));
}

int graph_cuda_finish(void *stream, const void *args)
{
	const struct graph_args *g = args;
	const uint64_t nr = g->nr_vertices;

	QUEUE(finish, stream, g, WRITES(g->control, 1), WRITES(g->label, nr), WRITES(g->rank, nr),
	      WRITES(g->sum, nr), WRITES(g->share, nr), DEGREES(g));
}

int graph_cuda_sample(void *stream, const void *args)
{
	const struct graph_args *g = args;

	QUEUE(sample, stream, g, READS(g->label, g->nr_vertices), WRITES(g->sample, GRAPH_SAMPLES));
}

int graph_cuda_lines(void *stream, const void *args)
{
	const struct graph_args *g = args;

	QUEUE(lines, stream, g, WRITES(g->control, 1), READS(g->item, nr_items(g)),
	      WRITES(g->met, nr_line_words(g)), WRITES(g->ever, nr_line_words(g)));
}

/* ------------------------------------------------------------------ generating */

int graph_cuda_gen_count(void *stream, const void *args)
{
	const struct graph_gen_count_args *a = args;

	QUEUE(gen_count, stream, a,
	      WRITES(a->count, (UINT64_C(1) << a->draw.gen.scale) >> a->shift));
}

int graph_cuda_gen_keep(void *stream, const void *args)
{
	const struct graph_gen_keep_args *a = args;

	QUEUE(gen_keep, stream, a, WRITES(a->key, a->nr_max), WRITES(a->nr, 1));
}

int graph_cuda_gen_sort(void *stream, const void *args)
{
	const struct graph_gen_sort_args *a = args;

	QUEUE(gen_sort, stream, a, WRITES(a->key, a->nr), WRITES(a->other, a->nr),
	      WRITES((char *)a->temp, GRAPH_GEN_TEMP_BYTES(a->nr)));
}

int graph_cuda_gen_unique(void *stream, const void *args)
{
	const struct graph_gen_unique_args *a = args;

	QUEUE(gen_unique, stream, a, READS(a->key, a->nr), WRITES(a->out, a->nr),
	      WRITES((char *)a->temp, GRAPH_GEN_TEMP_BYTES(a->nr)), WRITES(a->nr_out, 1));
}

int graph_cuda_gen_lists(void *stream, const void *args)
{
	const struct graph_gen_lists_args *a = args;

	QUEUE(gen_lists, stream, a, READS(a->key, a->nr), WRITES(a->neighbour, a->nr),
	      WRITES(a->weight, a->nr));
}

int graph_cuda_gen_offsets(void *stream, const void *args)
{
	const struct graph_gen_offsets_args *a = args;

	QUEUE(gen_offsets, stream, a, READS(a->nr ? a->key : NULL, a->nr),
	      WRITES(a->offset, a->nr_vertices));
}

/* ------------------------------------------------------------------ of the library */

int graph_cuda_home(void *stream, const struct weir_paged_view *view, int evict)
{
	return fake_home(stream, view, evict);
}

int graph_cuda_settle(void *stream, const struct weir_paged_view *view,
		      struct weir_paged_left *left)
{
	return fake_settle(stream, view, left);
}
