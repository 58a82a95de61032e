/* SPDX-License-Identifier: Apache-2.0 */
/* Made by tools/graph-summary 22; not written by hand. */
#ifndef WEIR_SOLVER_GRAPH_SUMMARY_H
#define WEIR_SOLVER_GRAPH_SUMMARY_H

/* sssp on kron22 degree 16, seed 1: the part of all distances that changes in each round. */
static const double graph_summary_changed[] = {
	4.768e-07, 3.989e-03, 4.080e-01, 5.608e-01, 5.099e-01, 3.455e-01,
	1.208e-01, 2.121e-02, 2.180e-03, 1.330e-04, 5.245e-06, 0.000e+00,
};

#endif
