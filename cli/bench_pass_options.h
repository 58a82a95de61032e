/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What options share of those workloads that make passes over memory which their kernels may page:
 * all but the GCN. As in bench_reader.h, a function that fails leaves one line.
 */
#ifndef WEIR_CLI_BENCH_PASS_OPTIONS_H
#define WEIR_CLI_BENCH_PASS_OPTIONS_H

#include "cli/bench_reader.h"

#define BENCH_BLOCKS_MAX (1u << 16)
#define BENCH_BLOCK_THREADS_MAX 1024u

/* Their tables of options begin with these. */
enum bench_pass_option {
	BENCH_PAGE_SIZE = BENCH_OPTION_NR,
	BENCH_GPU_BUDGET,
	BENCH_HOST_BUDGET,
	BENCH_EPOCHS,
	BENCH_WARM,
	BENCH_BLOCKS,
	BENCH_THREADS,
	BENCH_AGENTS,
	BENCH_SEED,
	BENCH_DATA,
	BENCH_CHECK,
	BENCH_JSON,
	BENCH_HELP,
	BENCH_PASS_OPTION_NR
};

/* memory: what is managed ("the table"). */
#define BENCH_PASS_OPTIONS(managers, memory, page_size, blocks, threads, seed, seed_help,        \
			   check_help)                                                           \
	BENCH_OPTIONS("device that runs the kernels: index or name", managers),                  \
		[BENCH_PAGE_SIZE] = {"page-size", "S,...", "WEIR_PAGE_SIZE", page_size,          \
				     "4KiB, 8KiB, 16KiB or 64KiB"},                              \
		[BENCH_GPU_BUDGET] = {"gpu-budget", "S,...", "WEIR_GPU_BUDGET", "100%",          \
				      "GPU memory for " memory ", or P% of it"},                 \
		[BENCH_HOST_BUDGET] = {"host-budget", "S", "WEIR_HOST_BUDGET", NULL,             \
				       "host memory to use (default: all)"},                     \
		[BENCH_EPOCHS] = {"epochs", "E", "WEIR_EPOCHS", "5",                             \
				  "measured passes, after one of warm-up"},                      \
		[BENCH_WARM] = {"warm", NULL, NULL, NULL,                                        \
				"keep what a pass brought to the GPU for the next"},             \
		[BENCH_BLOCKS] = {"blocks", "N", "WEIR_BLOCKS", blocks,                          \
				  "blocks of a launch; 0: as many as are resident"},             \
		[BENCH_THREADS] = {"threads", "N", "WEIR_BLOCK_THREADS", threads, "of a block"}, \
		[BENCH_AGENTS] = {"agents", "N", "WEIR_AGENTS", "1",                             \
				  "simulated: host threads that page (weir-paged)"},             \
		[BENCH_SEED] = {"seed", "N", "WEIR_SEED", seed, seed_help},                      \
		[BENCH_DATA] = {"data", "KIND", "WEIR_DATA", "real", "real or phantom"},         \
		[BENCH_CHECK] = {"check", NULL, NULL, NULL, check_help},                         \
		[BENCH_JSON] = {"json", "FILE", NULL, NULL,                                      \
				"write one JSON object a result; - is stdout"},                  \
		[BENCH_HELP] = {"help", NULL, NULL, NULL, "show this text"}

/* A part of the GPU's memory. */
struct bench_budget {
	uint64_t bytes;
	double fraction; /* of what is managed; 0: bytes are given */
};

/* Each page size and budget is run under each manager. */
struct bench_pass_params {
	/* Machine, device, data, managers, host budget, seed, epochs (measured passes), warm-up,
	 * json and check. */
	struct bench_params base;
	uint64_t page_bytes[BENCH_LIST_MAX];
	struct bench_budget budget[BENCH_LIST_MAX];
	unsigned int nr_page_bytes, nr_budgets;
	bool warm;
	uint32_t blocks, threads, agents;
};

/* Read one item of an option's list of budgets, a size or a percentage, behind the nr that are
 * there. */
int bench_read_budget(const struct bench_reader *r, unsigned int id, unsigned int nr,
		      struct bench_budget *budgets);

/* Read the options above. bench_params_fini(&out->base) it, whatever is returned. */
int bench_pass_read(struct bench_reader *r, struct bench_pass_params *out);

/* The frames for so many managed bytes under a budget, in whole pages. */
uint64_t bench_pass_budget(const struct bench_budget *budget, uint64_t bytes, uint64_t page_bytes);

/* What a manager whose memory kernels do not page gets of the GPU's memory: the budget, and what
 * sums and a pool's granularity take beside it; 0: all there is. */
uint64_t bench_pass_room(const struct bench_params *p, uint64_t budget_bytes);

/* Whether each budget of so many managed bytes ("a table") is one. *least: the least of them, if it
 * is less than what is there. */
int bench_pass_check_budgets(const struct bench_pass_params *p, const char *what, uint64_t bytes,
			     uint64_t page_bytes, uint64_t *least, char *err, size_t err_bytes);

/* That uvm need not be simulated fault by fault, each evicting a block, which takes minutes and
 * more: as it would be where what is managed is not used in order, and its room is smaller. */
int bench_pass_check_order(const struct bench_pass_params *p, const char *what, uint64_t bytes,
			   uint64_t budget_bytes, char *err, size_t err_bytes);

/* Each manager can be created, with the least budget of any case. */
int bench_pass_check_managers(const struct bench_pass_params *p, uint64_t least, char *err,
			      size_t err_bytes);

#endif
