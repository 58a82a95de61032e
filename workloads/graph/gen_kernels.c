/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels on the CPU, for simulated machines with real bytes; see gen_kernels.h. */
#include "workloads/graph/gen_kernels.h"

#include "workloads/graph/cuda.h"
#include "workloads/graph/sort.h"

/* Call use() for each edge that edge i stands for. */
static void draw_each(const struct graph_gen_draw *draw,
		      void (*use)(const void *args, uint64_t u, uint64_t v), const void *args)
{
	for (uint64_t i = 0; i < draw->nr; i++) {
		struct gen_pair edge = gen_edge(&draw->gen, draw->first + i);

		if (!draw->raw && edge.u == edge.v)
			continue;
		use(args, edge.u, edge.v);
		if (!draw->raw)
			use(args, edge.v, edge.u);
	}
}

static void count_edge(const void *args, uint64_t u, uint64_t v)
{
	const struct graph_gen_count_args *a = args;

	(void)v;
	a->count[u >> a->shift]++;
}

static void gen_count_cpu(const void *args)
{
	const struct graph_gen_count_args *a = args;

	draw_each(&a->draw, count_edge, a);
}

static void keep_edge(const void *args, uint64_t u, uint64_t v)
{
	const struct graph_gen_keep_args *a = args;
	uint64_t at;

	if (u < a->first || u >= a->end)
		return;
	at = (*a->nr)++;
	if (at < a->nr_max)
		a->key[at] = (u - a->first) << a->draw.gen.scale | v;
}

static void gen_keep_cpu(const void *args)
{
	const struct graph_gen_keep_args *a = args;

	draw_each(&a->draw, keep_edge, a);
}

static void gen_sort_cpu(const void *args)
{
	const struct graph_gen_sort_args *a = args;

	sort_words(a->key, a->nr);
}

static void gen_unique_cpu(const void *args)
{
	const struct graph_gen_unique_args *a = args;
	uint64_t nr = 0;

	for (uint64_t i = 0; i < a->nr; i++)
		if (!i || a->key[i] != a->key[i - 1])
			a->out[nr++] = a->key[i];
	*a->nr_out = nr;
}

static void gen_lists_cpu(const void *args)
{
	const struct graph_gen_lists_args *a = args;
	const uint64_t mask = (UINT64_C(1) << a->scale) - 1;

	for (uint64_t i = 0; i < a->nr; i++) {
		uint64_t u = a->first + (a->key[i] >> a->scale), v = a->key[i] & mask;

		a->neighbour[i] = (uint32_t)v;
		if (a->weight)
			a->weight[i] = gen_weight(a->weight_key, u, v);
	}
}

static void gen_offsets_cpu(const void *args)
{
	const struct graph_gen_offsets_args *a = args;

	for (uint64_t i = 0; i < a->nr_vertices; i++)
		a->offset[i] =
			a->before + graph_gen_bound(a->key, a->nr, (a->from + i) << a->scale);
}

#define KERNEL(kernel)                                     \
	const struct weir_kernel graph_kernel_##kernel = { \
		.name = #kernel,                           \
		.cpu = kernel##_cpu,                       \
		.cuda = graph_cuda_run_##kernel,           \
	}

KERNEL(gen_count);
KERNEL(gen_keep);
KERNEL(gen_sort);
KERNEL(gen_unique);
KERNEL(gen_lists);
KERNEL(gen_offsets);
