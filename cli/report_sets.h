/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Results in the order in which they are told: sets of runs that can be compared directly, in each
 * the cases (a size with a budget), in each case one result a manager. It computes and prints
 * nothing.
 *
 * A set is one machine, workload, version and configuration. Where sizes and budgets both vary,
 * each budget is a set of its own, or, where each size has its own budget, each part of what is
 * needed.
 */
#ifndef WEIR_CLI_REPORT_SETS_H
#define WEIR_CLI_REPORT_SETS_H

#include "cli/report_read.h"

#define REPORT_SETS_MAX 16
#define REPORT_MANAGERS_MAX 40 /* in all sets together */
#define REPORT_SLOTS_MAX 16    /* of colours and marks */

/* A size with a budget. */
struct report_case {
	double nodes, budget_bytes;
	double needs_bytes;	     /* of the work, when all of it is live */
	double bound_s, in_memory_s; /* NaN: not known */
	double over;		     /* needs over budget; NaN: not known */
	const struct report_result *cell[REPORT_MANAGERS_MAX]; /* by manager; NULL: none */
};

struct report_set {
	char *title;			     /* what it is, and what tells it from the other sets */
	bool measured;			     /* on a real GPU */
	const struct report_result **result; /* sorted by case and manager */
	size_t nr_results;
	struct report_case *cases; /* from the most room to the least */
	size_t nr_cases;
	bool by_nodes; /* cases do not differ in how much is over, or that is not known */
};

struct report_sets {
	const char *manager[REPORT_MANAGERS_MAX]; /* those that weir has first, in its order */
	const struct report_results *results;	  /* that they are of; borrowed; NULL: none */
	size_t slot[REPORT_MANAGERS_MAX]; /* of colours and marks, the same in every report */
	size_t nr_managers;
	struct report_set set[REPORT_SETS_MAX];
	size_t nr;
};

/**
 * Put results in order.
 *
 * @param [in]  results  One at least. Borrowed for as long as the sets live.
 * @param [out] sets     report_sets_fini() it, also on error.
 * @return 0, -E2BIG: more sets or managers than a page holds, err has one line; or -ENOMEM.
 */
int report_sets_make(const struct report_results *results, struct report_sets *sets, char *err,
		     size_t err_bytes);

void report_sets_fini(struct report_sets *sets);

/* The slot of a manager by its name, the same in every report; the first that is left for those
 * that have none. */
size_t report_manager_slot(const char *name);

/* The time of a manager in a case; NaN: it has none. */
double report_epoch_s(const struct report_case *c, size_t manager);

/* The bound that a result of a case is held against: of those that use other GPUs' memory their
 * own, since the case's is of two memories. NaN: there is none. */
double report_bound_s(const struct report_case *c, const struct report_result *result);

/* Whether a set is of a trace that was replayed: it has no sizes, and is shown by its budgets. */
bool report_is_replay(const struct report_set *set);

/* Whether the budgets vary and the size does not, or there is none. */
bool report_one_size(const struct report_set *set);

/* What is shown instead of a time. */
const char *report_status_word(enum result_status status);

/* The fastest manager but for `but` (or SIZE_MAX); SIZE_MAX: none has a time. */
size_t report_fastest(const struct report_sets *sets, const struct report_case *c, size_t but);

/* In how many cases a manager has a time. */
size_t report_nr_times(const struct report_set *set, size_t manager);

/* The last case that a manager got through; NULL: none. */
const struct report_case *report_last_case(const struct report_set *set, size_t manager);

/* The first case after that one, or of all, in which a manager was run and has no time; NULL: none,
 * which does not say that it was run in others. */
const struct report_case *report_first_failure(const struct report_set *set, size_t manager);

/* Whether a set has any result of a manager. */
bool report_was_run(const struct report_set *set, size_t manager);

/* The number of managers that a set has a result of. */
size_t report_nr_run(const struct report_sets *sets, const struct report_set *set);

/* Within a thousandth, or both not known. */
bool report_same_budget(double a, double b);

/* Whether two results are of the same work, but for its size. */
bool report_same_work(const struct report_result *a, const struct report_result *b);

/* Whether two sets have a result of the same work, manager, size and budget. */
bool report_sets_meet(const struct report_sets *sets, const struct report_set *a,
		      const struct report_set *b);

/* The case of a set with the same size and budget; NULL: none. */
const struct report_case *report_case_like(const struct report_set *set,
					   const struct report_case *like);

/* The case that says most about not fitting, the nearest to half as much again as fits, in which a
 * run got through; NULL: none did. */
const struct report_case *report_telling_case(const struct report_sets *sets,
					      const struct report_set *set);

/* At most nr of a set's cases, evenly spread, the first, the last and the telling one among them:
 * their indexes, in order. nr: 3 at least. */
size_t report_cases_pick(const struct report_sets *sets, const struct report_set *set,
			 size_t *index, size_t nr);

/* Bytes of one cause an epoch: those of the run over its epochs, warm-up included. NaN: not
 * known. */
double report_flow_bytes(const struct report_result *result, const struct report_flow *flow,
			 enum weir_cause cause);

#endif
