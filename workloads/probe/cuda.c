/* SPDX-License-Identifier: Apache-2.0 */
/* Where the CUDA kernels that measure come from: libweir-probe-cuda.so. Nothing here calls CUDA. */
#include "workloads/probe/cuda.h"

#include "src/base/util.h"
#include "src/base/variables.h"
#include "workloads/cuda_plugin.h"

/* The library's kernels, by the names of their symbols. */
static struct {
#define MEMBER(name) int (*probe_cuda_##name)(void *stream, const void *args);
	PROBE_CUDA_KERNELS(MEMBER)
#undef MEMBER
} table;

#define SYMBOL(name) CUDA_PLUGIN_SYMBOL(table, probe_cuda_##name),

static const struct cuda_plugin_symbol symbols[] = {PROBE_CUDA_KERNELS(SYMBOL)};

static struct cuda_plugin plugin = {
	.what = "probe",
	.prefix = "probe_cuda",
	.file = "libweir-probe-cuda.so",
	.variable = VARIABLE_PROBE_KERNELS,
	.abi_here = probe_cuda_abi_here,
	.symbols = symbols,
	.nr_symbols = ARRAY_LEN(symbols),
	.table = &table,
};

int probe_cuda_load(void)
{
	return cuda_plugin_load(&plugin);
}

#define FORWARD(name)                                                                             \
	int probe_cuda_run_##name(void *stream, const void *args)                                 \
	{                                                                                         \
		int err = cuda_plugin_ready(&plugin);                                             \
                                                                                                  \
		return err ? err                                                                  \
			   : cuda_plugin_outcome(&plugin, table.probe_cuda_##name(stream, args)); \
	}
PROBE_CUDA_KERNELS(FORWARD)
