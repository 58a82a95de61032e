/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Results as weir-bench(1) describes them, read back. What identifies a run must be there: schema,
 * workload, parameters.nodes (of tables and matrices bytes and page_bytes, of graphs graph,
 * of solvers rows and columns),
 * machine, manager, status.
 * Everything else may be missing or null, which is "not known" (NaN, NULL), but not of the wrong
 * kind. Members that are not known here are passed over, so that later versions can say more.
 */
#ifndef WEIR_CLI_REPORT_READ_H
#define WEIR_CLI_REPORT_READ_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "cli/result.h"

#define REPORT_FILE_BYTES_MAX ((size_t)64 << 20)
#define REPORT_RESULTS_MAX 2000
#define REPORT_FLOWS_MAX 80

/* What an epoch's time goes into. */
enum report_part {
	REPORT_COMPUTE,
	REPORT_IN_PLACE,
	REPORT_ALLOCATION,
	REPORT_FIRST_TOUCH,
	REPORT_DEMAND,
	REPORT_EVICTION,
	REPORT_OTHER,
	REPORT_PART_NR
};

/* Bytes over a link, one way, of the whole run. */
struct report_flow {
	const char *name; /* "host->gpu0" */
	double bytes[WEIR_CAUSE_NR];
};

/* What a policy was asked (hooks: admit, victim, fault, moved) and answered. */
struct report_decisions {
	bool known; /* else there was no policy */
	double asked[4], answered[4], wrong;
	double instructions;   /* of a decision on average; NaN: not counted */
	const json_t *globals; /* numbers by name; NULL: none */
};

struct report_explained; /* cli/report_explain.h */

/* Texts belong to json. Doubles that are NaN are not known. */
struct report_result {
	json_t *json;	  /* owned */
	const char *file; /* borrowed */
	unsigned int line;
	enum result_status status;
	const char *workload, *machine, *manager;
	const char *policy, *version, *error, *data, *graph, *device; /* or NULL */
	const char *command, *date;		  /* that it was run by; or NULL */
	const char *trace;			  /* of replays alone, which have 0 nodes */
	bool no_think, no_advice, cold, observed; /* how it was replayed */
	double nodes, slice, hidden, epochs, warm_up, seed, host_budget_bytes, block_bytes;
	double epoch_s;				/* the median; NaN unless status is RESULT_OK */
	double time_s[REPORT_PART_NR], parts_s; /* their sum; NaN: not told apart */
	struct report_flow flow[REPORT_FLOWS_MAX];
	size_t nr_flows;
	double faults, first_touches;
	double peak_bytes; /* of all memories together */
	double near_bytes; /* of other GPUs' memories, that may be used; 0: none */
	double budget_bytes, bound_s, needs_bytes, in_memory_s;
	double copied_bytes, least_bytes; /* into GPU memory an epoch, and by MIN; NaN: not known */
	int passed;			  /* 1, 0; -1: not compared */
	struct report_decisions decisions;
	struct report_explained *explained; /* by device; owned */
	size_t nr_explained;
	bool measured, bound_measured; /* on a real GPU; of kernels measured there */
	/* Of workloads that make passes: */
	bool warm;
	bool elements; /* of pagein and gups */
	const json_t *parameters;
	double page_bytes, useful_bytes_per_s, pages_in, pages_out, pages_in_place;
	/* Of pagein and gups, and of mvt, atax and bicg, alone: */
	const char *pattern, *access; /* or NULL */
	double bytes, touched_pages, updates_per_s;
	double rows, columns; /* of a matrix */
	double ranges, split; /* of layers; split: of these, advised to stay; NaN: none */
	double devices;	      /* that its rows are split between; NaN: 1 */
	/* Of graphs alone: */
	double teps_per_s, edge_bytes;
	/* Of jacobi and diffusion alone, with rows, columns and devices: */
	double planes, iteration_s;
};

struct report_list {
	struct report_result *result;
	size_t nr;
};

/* Workloads that make passes, which have no nodes, are kept apart: touch: pagein and gups, mvt,
 * atax and bicg; graph: bfs, sssp, cc and pagerank; solver: jacobi and diffusion. */
struct report_results {
	struct report_result *result;
	size_t nr;
	struct report_list touch, graph, solver;
};

/* All of them; NULL: none. */
static inline size_t report_results_nr(const struct report_results *results)
{
	return !results ? 0
			: results->nr + results->touch.nr + results->graph.nr + results->solver.nr;
}

/**
 * Read JSON lines and append what they say. Blank lines are passed over.
 *
 * @param [in]  file  What the text is called in errors. Borrowed for as long as the results live.
 * @param [out] err   One printable line that begins with the file and the line. Written on error.
 * @return 0, -EINVAL or -ENOMEM; then what was there before and some of the new is there.
 */
int report_read(const char *text, size_t bytes, const char *file, struct report_results *results,
		char *err, size_t err_bytes);

void report_results_fini(struct report_results *results);

/* What is being read, and where to say what is wrong with it. */
struct report_source {
	const char *file;  /* borrowed */
	unsigned int line; /* 0: the file as a whole */
	char *err;
	size_t err_bytes;
};

/* Put one printable line into err: "FILE:LINE: ...". Always -EINVAL. */
__attribute__((format(printf, 2, 3))) int report_refuse(struct report_source *source,
							const char *format, ...);

/* Make a text one line of printable ASCII, whatever a file name or a file put into it. */
void report_printable(char *text);

#endif
