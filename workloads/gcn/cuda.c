/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the CUDA kernels come from: libweir-gcn-cuda.so, through the loader that all such libraries
 * share. Nothing here calls CUDA.
 */
#include "workloads/gcn/cuda.h"

#include "src/base/util.h"
#include "src/base/variables.h"
#include "workloads/cuda_plugin.h"

/* Everything that the library gives, beside its version and its error: functions by the names of
 * their symbols. */
static struct {
	int (*gcn_cuda_stream_add)(void *stream);
	void (*gcn_cuda_stream_del)(void *stream);
#define MEMBER(name) int (*gcn_cuda_##name)(void *stream, const void *args);
	GCN_CUDA_KERNELS(MEMBER)
#undef MEMBER
} table;

#define SYMBOL(name) CUDA_PLUGIN_SYMBOL(table, gcn_cuda_##name),

static const struct cuda_plugin_symbol symbols[] = {SYMBOL(stream_add) SYMBOL(stream_del)
							    GCN_CUDA_KERNELS(SYMBOL)};

static struct cuda_plugin plugin = {
	.what = "gcn",
	.prefix = "gcn_cuda",
	.file = "libweir-gcn-cuda.so",
	.variable = VARIABLE_GCN_KERNELS,
	.abi_here = gcn_cuda_abi_here,
	.symbols = symbols,
	.nr_symbols = ARRAY_LEN(symbols),
	.table = &table,
};

int gcn_cuda_load(void)
{
	return cuda_plugin_load(&plugin);
}

int gcn_cuda_prepare(void *stream)
{
	int err = cuda_plugin_ready(&plugin);

	return err ? err : cuda_plugin_outcome(&plugin, table.gcn_cuda_stream_add(stream));
}

void gcn_cuda_forget(void *stream)
{
	if (cuda_plugin_loaded(&plugin))
		table.gcn_cuda_stream_del(stream);
}

#define FORWARD(name)                                                                           \
	int gcn_cuda_run_##name(void *stream, const void *args)                                 \
	{                                                                                       \
		int err = cuda_plugin_ready(&plugin);                                           \
                                                                                                \
		return err ? err                                                                \
			   : cuda_plugin_outcome(&plugin, table.gcn_cuda_##name(stream, args)); \
	}
GCN_CUDA_KERNELS(FORWARD)
