/* SPDX-License-Identifier: Apache-2.0 */
#include "src/base/variables.h"

#include <errno.h>
#include <string.h>

#include "src/base/log.h"

#define BESIDE " beside the program, or in ../lib from there"

const struct variable variables[] = {
	{VARIABLE_MACHINE_PATH, "folders, separated by colons", "none",
	 "libweir-machine and the commands",
	 "Machine descriptions are looked for there before weir's own folders."},
	{VARIABLE_MEMORY_FILE, "0 or 1", "0", "libweir",
	 "1 has each pool of plain memory keep a file that says what is in it, for weir info "
	 "--memory."},
	{VARIABLE_TRACE, "a file", "none", "libweir",
	 "Each space writes a trace of what the program does with it, for weir trace: the first of "
	 "a process to the file, the next ones to FILE.2, FILE.3 and so on."},
	{VARIABLE_PLANS, "0 or 1", "1", "libweir",
	 "0 has no space plan what the program repeats, to find out what plans bring."},
	{VARIABLE_PLANS_ASIDE, "0 or 1", "1", "libweir",
	 "0 has plans made while the program waits, where a thread makes them else: on real GPUs, "
	 "and on simulated machines whose description has plan_work_ns."},
	{VARIABLE_CUDA_DEBUG, "0 or 1", "0", "libweir",
	 "1 switches the debug mode of real GPUs on, as --debug of weir bench does."},
	{VARIABLE_GCN_KERNELS, "a file", "libweir-gcn-cuda.so" BESIDE, "weir bench and weir info",
	 "The CUDA kernels of gcn; measuring a machine runs their products of matrices."},
	{VARIABLE_GRAPH_KERNELS, "a file", "libweir-graph-cuda.so" BESIDE,
	 "weir bench and weir graph",
	 "The CUDA kernels of bfs, sssp, cc and pagerank, and those that generate graphs."},
	{VARIABLE_MATRIX_KERNELS, "a file", "libweir-matrix-cuda.so" BESIDE, "weir bench",
	 "The CUDA kernels of mvt, atax and bicg."},
	{VARIABLE_PROBE_KERNELS, "a file", "libweir-probe-cuda.so" BESIDE, "weir info",
	 "The CUDA kernels that measure a machine."},
	{VARIABLE_SOLVER_KERNELS, "a file", "libweir-solver-cuda.so" BESIDE, "weir bench",
	 "The CUDA kernels of jacobi, diffusion and als."},
	{VARIABLE_TOUCH_KERNELS, "a file", "libweir-touch-cuda.so" BESIDE, "weir bench",
	 "The CUDA kernels of pagein, gups and layers."},
	{NULL, NULL, NULL, NULL, NULL},
};

int variable_bool(const char *name, bool *out)
{
	const char *text = variable_text(name);

	if (!text)
		return 0;
	*out = !strcmp(text, "1");
	if (*out || !strcmp(text, "0"))
		return 0;
	log_error("%s is '%s': write 0 or 1", name, text);
	return -EINVAL;
}
