/* SPDX-License-Identifier: Apache-2.0 */
/* Where the CUDA kernels of graphs come from: libweir-graph-cuda.so. Nothing here calls CUDA. */
#include "workloads/graph/cuda.h"

#include "src/base/util.h"
#include "src/base/variables.h"
#include "workloads/cuda_plugin.h"

/* The library's kernels, by the names of their symbols. */
static struct {
	int (*graph_cuda_home)(void *stream, const struct weir_paged_view *view, int evict);
	int (*graph_cuda_settle)(void *stream, const struct weir_paged_view *view,
				 struct weir_paged_left *left);
#define MEMBER(name) int (*graph_cuda_##name)(void *stream, const void *args);
	GRAPH_CUDA_KERNELS(MEMBER)
#undef MEMBER
} table;

#define SYMBOL(name) CUDA_PLUGIN_SYMBOL(table, graph_cuda_##name),

static const struct cuda_plugin_symbol symbols[] = {SYMBOL(home) SYMBOL(settle)
							    GRAPH_CUDA_KERNELS(SYMBOL)};

static struct cuda_plugin plugin = {
	.what = "graph",
	.prefix = "graph_cuda",
	.file = "libweir-graph-cuda.so",
	.variable = VARIABLE_GRAPH_KERNELS,
	.abi_here = graph_cuda_abi_here,
	.symbols = symbols,
	.nr_symbols = ARRAY_LEN(symbols),
	.table = &table,
};

int graph_cuda_load(void)
{
	return cuda_plugin_load(&plugin);
}

static int home(void *stream, const struct weir_paged_view *view, int evict)
{
	int err = cuda_plugin_ready(&plugin);

	return err ? err : cuda_plugin_outcome(&plugin, table.graph_cuda_home(stream, view, evict));
}

static int settle(void *stream, const struct weir_paged_view *view, struct weir_paged_left *left)
{
	int err = cuda_plugin_ready(&plugin);

	return err ? err
		   : cuda_plugin_outcome(&plugin, table.graph_cuda_settle(stream, view, left));
}

const struct weir_paged_kernels graph_cuda_kernels = {.home = home, .settle = settle};

#define FORWARD(name)                                                                             \
	int graph_cuda_run_##name(void *stream, const void *args)                                 \
	{                                                                                         \
		int err = cuda_plugin_ready(&plugin);                                             \
                                                                                                  \
		return err ? err                                                                  \
			   : cuda_plugin_outcome(&plugin, table.graph_cuda_##name(stream, args)); \
	}
GRAPH_CUDA_KERNELS(FORWARD)
