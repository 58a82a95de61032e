/* SPDX-License-Identifier: Apache-2.0 */
/* Where the CUDA kernels that touch a table come from: libweir-touch-cuda.so. Nothing here calls
 * CUDA. */
#include "workloads/touch/cuda.h"

#include "src/base/util.h"
#include "src/base/variables.h"
#include "workloads/cuda_plugin.h"

/* The library's kernels, by the names of their symbols. */
static struct {
	int (*touch_cuda_home)(void *stream, const struct weir_paged_view *view, int evict);
	int (*touch_cuda_settle)(void *stream, const struct weir_paged_view *view,
				 struct weir_paged_left *left);
#define MEMBER(name) int (*touch_cuda_##name)(void *stream, const void *args);
	TOUCH_CUDA_KERNELS(MEMBER)
#undef MEMBER
} table;

#define SYMBOL(name) CUDA_PLUGIN_SYMBOL(table, touch_cuda_##name),

static const struct cuda_plugin_symbol symbols[] = {SYMBOL(home) SYMBOL(settle)
							    TOUCH_CUDA_KERNELS(SYMBOL)};

static struct cuda_plugin plugin = {
	.what = "touch",
	.prefix = "touch_cuda",
	.file = "libweir-touch-cuda.so",
	.variable = VARIABLE_TOUCH_KERNELS,
	.abi_here = touch_cuda_abi_here,
	.symbols = symbols,
	.nr_symbols = ARRAY_LEN(symbols),
	.table = &table,
};

int touch_cuda_load(void)
{
	return cuda_plugin_load(&plugin);
}

static int home(void *stream, const struct weir_paged_view *view, int evict)
{
	int err = cuda_plugin_ready(&plugin);

	return err ? err : cuda_plugin_outcome(&plugin, table.touch_cuda_home(stream, view, evict));
}

static int settle(void *stream, const struct weir_paged_view *view, struct weir_paged_left *left)
{
	int err = cuda_plugin_ready(&plugin);

	return err ? err
		   : cuda_plugin_outcome(&plugin, table.touch_cuda_settle(stream, view, left));
}

const struct weir_paged_kernels touch_cuda_kernels = {.home = home, .settle = settle};

#define FORWARD(name)                                                                             \
	int touch_cuda_run_##name(void *stream, const void *args)                                 \
	{                                                                                         \
		int err = cuda_plugin_ready(&plugin);                                             \
                                                                                                  \
		return err ? err                                                                  \
			   : cuda_plugin_outcome(&plugin, table.touch_cuda_##name(stream, args)); \
	}
TOUCH_CUDA_KERNELS(FORWARD)
