/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each device's edges: those that end at its vertices, in plain memory of its own, which managers
 * know nothing of. They are written once, before a run, and then read.
 */
#ifndef WEIR_SOLVER_EDGES_H
#define WEIR_SOLVER_EDGES_H

#include "workloads/solver/internal.h"

/* Some slices of a device's rows, and what a launch uses that goes through all of their edges. */
struct solver_rows_part {
	struct solver_rows rows;
	struct weir_use own[SOLVER_OWN_USES_MAX];
	uint32_t nr_own;
};

/* Plain memory of a device; NULL: the job has failed. */
void *solver_device_alloc(struct solver_job *job, uint32_t device, uint64_t bytes,
			  const char *what);

/* Allocate and fill; what fails is the job's status. fini: also of what was not created. */
void solver_edges_init(struct solver_job *job);
void solver_edges_fini(struct solver_job *job);

/* What all devices read of their edges in an iteration. */
uint64_t solver_edge_bytes(const struct solver_params *p);

/* Of slices that are all this device's. */
void solver_edges_part(const struct solver_job *job, uint32_t device, uint32_t first_slice,
		       uint32_t nr_slices, struct solver_rows_part *out);

/* Add memory of the device's own that a launch overwrites. */
void solver_edges_write(struct solver_rows_part *part, void *addr, uint64_t bytes);

/* Add to a step what it reads of a vector, an element for each edge: of the device's part, and of
 * what others have before and behind it. */
void solver_edges_reads(const struct solver_job *job, uint32_t array, uint32_t device,
			const struct solver_rows_part *part, struct solver_step *step);

/* The vector that a device reads, an array of the manager's, in as few parts as there are. */
void solver_edges_vector(const struct solver_job *job, uint32_t array, uint32_t device,
			 struct solver_vector *out);

#endif
