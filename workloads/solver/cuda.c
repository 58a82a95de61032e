/* SPDX-License-Identifier: Apache-2.0 */
/* Where the solvers' CUDA kernels come from: libweir-solver-cuda.so. Nothing here calls CUDA. */
#include "workloads/solver/cuda.h"

#include "src/base/util.h"
#include "src/base/variables.h"
#include "workloads/cuda_plugin.h"

/* The library's kernels, by the names of their symbols. */
static struct {
#define MEMBER(name) int (*solver_cuda_##name)(void *stream, const void *args);
	SOLVER_CUDA_KERNELS(MEMBER)
#undef MEMBER
} table;

#define SYMBOL(name) CUDA_PLUGIN_SYMBOL(table, solver_cuda_##name),

static const struct cuda_plugin_symbol symbols[] = {SOLVER_CUDA_KERNELS(SYMBOL)};

static struct cuda_plugin plugin = {
	.what = "solver",
	.prefix = "solver_cuda",
	.file = "libweir-solver-cuda.so",
	.variable = VARIABLE_SOLVER_KERNELS,
	.abi_here = solver_cuda_abi_here,
	.symbols = symbols,
	.nr_symbols = ARRAY_LEN(symbols),
	.table = &table,
};

int solver_cuda_load(void)
{
	return cuda_plugin_load(&plugin);
}

#define FORWARD(name)                                                                              \
	int solver_cuda_run_##name(void *stream, const void *args)                                 \
	{                                                                                          \
		int err = cuda_plugin_ready(&plugin);                                              \
                                                                                                   \
		return err ? err                                                                   \
			   : cuda_plugin_outcome(&plugin, table.solver_cuda_##name(stream, args)); \
	}
SOLVER_CUDA_KERNELS(FORWARD)
