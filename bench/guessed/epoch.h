/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An epoch of a recorded training, to be done again, with what its kernels truly use. A trace says
 * which ranges a launch names, not what the kernel does to them. That is known here for one
 * training, PyTorch's GCN of 5M nodes (bench/pytorch/gcn.py), whose aggregations go through the
 * edges in slices: of PyTorch 2.11's kernels those that gather, add and scatter rows of features,
 * and scale them by the edges' weights, use a slice of the lists of edges, and rows at random.
 */
#ifndef WEIR_BENCH_GUESSED_EPOCH_H
#define WEIR_BENCH_GUESSED_EPOCH_H

#include "weir/weir.h"
#include "workloads/trace_file.h"

#define EPOCH_USES_MAX 32u

/* A class of kernels; see classes[] in uses.c. */
struct kernel_class {
	const char *part, *other_part; /* of the kernel's name, both */
	bool fills;		       /* writes all that it names */
	bool waits;		       /* the program waits for it: a copy to the host */
	/* What goes through a slice of the edges; the others have a slice_s of 0. */
	uint32_t nr_uses;    /* ranges that it names at least */
	uint32_t messages;   /* the number of the use with a row for each edge of the slice, */
	uint32_t rows;	     /* and of the one whose rows it takes at random; or USE_NONE */
	bool adds;	     /* to these rows, which it else reads */
	uint32_t edge_bytes; /* in the list of edges that it goes through */
	double slice_s[2];   /* computation for a whole slice of short rows, and of long ones */
};
#define USE_NONE UINT32_MAX

/* A range that a launch names, or a part of one. */
struct epoch_use {
	uint64_t life, offset, bytes;
	bool fresh; /* nothing used it before since it was allocated */
	bool own;   /* each part of an operation names a range of its own here */
};

enum epoch_what { EPOCH_ALLOC, EPOCH_FREE, EPOCH_LAUNCH };

struct epoch_step {
	enum epoch_what what;
	uint64_t life; /* of an allocation or a free */
	/* Of a launch: */
	const struct kernel_class *class;
	uint32_t kernel;	 /* the number of its name in the trace; 0: none */
	uint64_t launched;	 /* a hash of its name; 0: no kernel, but a copy or a fill */
	uint32_t part, nr_parts; /* one of launches in a row that share their large ranges */
	uint32_t slice;		 /* of the edges */
	uint32_t nr_uses;
	struct epoch_use use[EPOCH_USES_MAX];
};

struct epoch_life {
	uint64_t bytes;
	bool on_stream; /* allocated in the order of a stream */
	bool live;	/* at the place that was read last */
	bool used;
};

struct epoch {
	struct epoch_step *step;
	uint32_t nr_steps, max_steps;
	struct epoch_life *life; /* by number, from 1 */
	uint64_t nr_lives;
	/* Lives at the epoch's beginning and at its end, in order: what is end[i] at an end is
	 * start[i] in the next epoch. */
	uint64_t *start, *end;
	uint64_t nr_start, nr_end;
};

/*
 * Take an epoch out of a trace: what lies between two marks, of the last two such the first.
 *
 * @param [in]  file  Stays open for as long as the epoch is used.
 * @param [out] out   epoch_free() it, also after errors.
 * @param [out] why   Written on error: one line.
 * @return 0, -EINVAL (there is none, or it cannot be done again and again), -ENOMEM
 */
int epoch_load(const struct trace_file *file, struct epoch *out, char *why, size_t why_bytes);
void epoch_free(struct epoch *epoch);

/* ---- uses.c */

const struct kernel_class *kernel_class_find(const char *name);

/* Refuse what a launch names, if its class is known to name other things. @return whether it was */
bool kernel_is_strange(const struct epoch_step *step, const char *name, char *why,
		       size_t why_bytes);

/* The launch of a step goes on with the slices of a loop, or begins another one. *slice, *life:
 * where the loop is, and whose rows it takes; zeros at first. */
void kernel_find_slice(struct epoch_step *step, uint32_t *slice, uint64_t *life);

/* Launches in a row of one kernel that share their large ranges use a part of them each, as
 * PyTorch has it for tensors of more than 2^31 elements or bytes. */
void kernels_find_parts(struct epoch *epoch);

/* What a launch truly uses of what it names as number u; addr: where that range lies. */
struct weir_use kernel_true_use(const struct epoch_step *step, uint32_t u, void *addr);

/* How long the launch computes, beside the time that its memory takes. */
double kernel_seconds(const struct epoch_step *step);

#endif
