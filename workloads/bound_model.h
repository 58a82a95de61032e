/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The relaxation behind the lower bound, as arrays of numbers: steps, pieces and what each piece's
 * use at a step costs in HBM and over the link. Internal to workloads/bound*.c; docs/bound.md has
 * the derivation and uses the same names.
 *
 * Glossary
 *   piece   part of a life between two neighbouring ends of parts that uses name
 *   event   all uses of one piece at one step
 *   price   what the dual charges for a resource of a step
 */
#ifndef WEIR_BOUND_MODEL_H
#define WEIR_BOUND_MODEL_H

#include <stdbool.h>

#include "workloads/trace.h"

/* The resources of a step whose use takes time: the step lasts at least as long as each of them
 * is busy. A step's time prices are weights over these that add up to one. */
enum bound_resource {
	BOUND_ALONE,	/* the kernel with everything in HBM: it is never faster */
	BOUND_IN_NEAR,	/* the kernel's reads in place, as if all were within translation reach */
	BOUND_IN_FAR,	/* the same, as if all of which more is away than that missed it */
	BOUND_OUT_NEAR, /* the kernel's writes in place */
	BOUND_OUT_FAR,
	BOUND_LINK_IN,	/* the link, all that goes in, and what duplex costs the other way */
	BOUND_LINK_OUT, /* the link, all that goes out, likewise */
	BOUND_RESOURCE_NR
};

/* Of an event. */
enum {
	BOUND_LIVE_BEFORE = 1, /* contents are needed from the time before */
	BOUND_WRITES = 2,      /* a lower copy is stale afterwards */
	BOUND_FIRST = 4,       /* of its piece */
};

struct bound_event {
	uint32_t step;
	uint32_t flags;
	double in_bytes, out_bytes; /* over the link when away, whole sectors */
	double ns[4];		    /* BOUND_IN_NEAR .. BOUND_OUT_FAR, when away */
};

struct bound_piece {
	uint32_t first_event, nr_events;
	double bytes;
};

struct bound_step {
	double alone_ns;    /* HBM time, arithmetic, launch, or the measured time: the largest */
	double slack_ns[4]; /* BOUND_IN_NEAR .. BOUND_OUT_FAR: what hits takes off, >= 0 */
	double place_ns;    /* near, of all uses in place, in and out */
};

/* Rates of the links between the device's memory and the host, in ns a byte. */
struct bound_rates {
	double in_ns, out_ns;		   /* one way alone */
	double in_of_out_ns, out_of_in_ns; /* a byte out costs LINK_IN, a byte in LINK_OUT */
};

struct bound_model {
	struct bound_step *steps;
	struct bound_piece *pieces;
	struct bound_event *events;
	uint32_t nr_steps, nr_pieces, nr_events;
	struct bound_rates rates;
	double budget_bytes;
	double compute_ns; /* alone_ns of all steps */
};

/*
 * Build the model. The trace and the description were checked. budget_bytes > 0.
 * -ENOMEM; -E2BIG: more events than a 32-bit index holds.
 */
int bound_model_create(const struct trace *trace, const struct weir_machine_desc *desc,
		       uint32_t device, uint64_t budget_bytes, struct bound_model **out);

/* NULL is allowed. */
void bound_model_destroy(struct bound_model *model);

#endif
