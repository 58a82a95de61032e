/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The relaxation behind the lower bound, as arrays of numbers: steps, pieces and what each piece's
 * use at a step costs in HBM and over the link. Internal to workloads/bound*.c; docs/bound.md has
 * the derivation and uses the same names.
 *
 * Glossary
 *   own     the device's memory
 *   near    memories of other GPUs that may hold contents, all together
 *   piece   part of a life between two neighbouring ends of parts that uses name
 *   event   all uses of one piece at one step
 *   price   what the dual charges for a resource of a step
 */
#ifndef WEIR_BOUND_MODEL_H
#define WEIR_BOUND_MODEL_H

#include <stdbool.h>

#include "workloads/trace.h"

/*
 * Deliberate faults for the test that must notice them. 1: the host is reached over the device's
 * own link alone. 2: the price of both memories is spread over near memory alone. 3: near memory
 * cannot take over from own memory. 4: what is in near memory is used in place at the host's price.
 * 5: all is on the host alone at first. 6: near memory is not filled from the host. 7: what comes
 * from near memory takes its links twice as long. 8: near memory has half its bytes. 9: what ports
 * send and receive is exchanged. 10: a port limits fewer links than it is for. 11: use in place
 * of the host both ways is slower by 2 %. 12: the same of near memory. 13: how much it takes does
 * not depend on how slow uses are.
 */
#ifndef BOUND_MUTANT
#define BOUND_MUTANT 0
#endif

/* The resources of a step whose use takes time: the step lasts at least as long as each of them
 * is busy. A step's time prices are weights over these that add up to one. */
enum bound_resource {
	BOUND_ALONE,	  /* the kernel with everything in HBM: it is never faster */
	BOUND_IN_WITHIN,  /* the kernel's reads in place, as if all were within translation reach */
	BOUND_IN_BEYOND,  /* the same, as if all of which more is away than that missed it */
	BOUND_OUT_WITHIN, /* the kernel's writes in place */
	BOUND_OUT_BEYOND,
	BOUND_LINK_IN, /* the host's links, all that goes in, and what duplex costs the other way */
	BOUND_LINK_OUT, /* the host's links, all that goes out, likewise */
	BOUND_HOST_RESOURCE_NR,
	/* only where there is near memory: */
	BOUND_NEAR_IN = BOUND_HOST_RESOURCE_NR, /* the kernel's reads in place at near memory */
	BOUND_NEAR_OUT,				/* the kernel's writes in place there */
	BOUND_NEAR_LINK_IN,			/* as BOUND_LINK_IN, the links between own and */
	BOUND_NEAR_LINK_OUT,			/* near memory; in is towards own memory */
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
	double in_bytes, out_bytes; /* over a link when used in place, whole sectors */
	double ns[4];		    /* BOUND_IN_WITHIN .. BOUND_OUT_BEYOND, when the host has it */
	double near_ns[2];	    /* BOUND_NEAR_IN, BOUND_NEAR_OUT, when near memory has it */
};

struct bound_piece {
	uint32_t first_event, nr_events;
	double bytes;
};

struct bound_step {
	double alone_ns;    /* HBM time, arithmetic, launch, or the measured time: the largest */
	double slack_ns[4]; /* BOUND_IN_WITHIN .. BOUND_OUT_BEYOND: what hits takes off, >= 0 */
	double place_ns;    /* about, of all uses in place within reach, in and out */
};

/* Rates of all links between two kinds of memory together, in ns a byte. */
struct bound_rates {
	double in_ns, out_ns;		   /* one way alone */
	double in_of_out_ns, out_of_in_ns; /* a byte out costs LINK_IN, a byte in LINK_OUT */
};

struct bound_model {
	struct bound_step *steps;
	struct bound_piece *pieces;
	struct bound_event *events;
	uint32_t nr_steps, nr_pieces, nr_events;
	int nr_resources;	       /* BOUND_RESOURCE_NR, or without near memory fewer */
	struct bound_rates rates;      /* from the host to own and near memory */
	struct bound_rates near_rates; /* from near to own memory, where there is some */
	double budget_bytes;	       /* of own memory */
	double near_bytes;	       /* 0: there is no near memory */
	double compute_ns;	       /* alone_ns of all steps */
};

/*
 * Build the model. The trace and the description were checked. budget_bytes > 0; near_bytes: as
 * bound_compute() has it.
 * -EINVAL: no link to a memory of near_bytes; -ENOMEM; -E2BIG: more events than a 32-bit index
 * holds.
 */
int bound_model_create(const struct trace *trace, const struct weir_machine_desc *desc,
		       uint32_t device, uint64_t budget_bytes, const uint64_t *near_bytes,
		       struct bound_model **out);

/* NULL is allowed. */
void bound_model_destroy(struct bound_model *model);

#endif
