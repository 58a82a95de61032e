/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Taking 1 GiB of a neighbour's memory back while a training runs, at random points within its
 * epochs, and giving it again: what bench_training --what budget measures. A function that fails
 * returns a negative errno and leaves one line in why.
 */
#ifndef WEIR_BENCH_TRAINING_BUDGET_H
#define WEIR_BENCH_TRAINING_BUDGET_H

#include "bench/training/options.h"
#include "bench/training/taken.h"

extern const char *const budget_class_name[BUDGET_CLASS_NR];

/* One call that takes the GiB back. Times in ns by the machine's clock. */
struct budget_sample {
	uint32_t epoch, point; /* where in the training */
	uint32_t latest;       /* the point at which it is taken whatever the memory holds */
	uint32_t gap;	       /* points later it is given again */
	bool busy;	       /* -EBUSY: open brackets held some of it */
	uint64_t start_ns;
	uint64_t shrink_ns, grow_ns;
	uint64_t evicted_bytes, written_back_bytes; /* copied to the host meanwhile, by cause */
	uint64_t elsewhere_bytes;		    /* copied to other GPUs' memories */
	struct taken taken;
	/* From the call until launches that were under way at it were done: all of them; those that
	 * use what was taken. 0: there were none. */
	uint64_t queued_ns, used_ns;
};

#define BUDGET_CALLS 9u /* times that the bare calls are measured, before and after */

struct budget_samples {
	struct budget_sample *sample;
	uint32_t nr;
	uint64_t block_bytes;
	uint32_t nr_chunks; /* whose calls are measured */
	uint64_t before_ns[BUDGET_CALLS], after_ns[BUDGET_CALLS];
	uint64_t training_ns; /* the same beside launches that run, once; 0: it was not measured */
};

/* Before the training's machine is opened: check what only a trial shows, and count the points of
 * an epoch. -EINVAL: options. */
int budget_prepare(const struct training_options *asked, char *why, size_t why_bytes);

/* The machine was opened; the manager was created. */
void budget_watch(struct weir_machine *machine);
int budget_start(struct manager *manager, char *why, size_t why_bytes);

/* Between two epochs: whether samples are taken in the next one, and which that is. */
int budget_epoch(uint32_t epoch, bool on, char *why, size_t why_bytes);

/* At each point within epochs. */
int budget_point(char *why, size_t why_bytes);

/* With --each: whether it ends here, since there is enough of each class or the time is over;
 * whether it is the former; and how far it is, from 0 to 1. */
bool budget_is_complete(void);
bool budget_has_each(void);
double budget_progress(void);

/* The manager was destroyed; the machine was closed. */
int budget_stop(char *why, size_t why_bytes);
const struct budget_samples *budget_samples(void);
void budget_fini(void);

enum budget_class budget_class_of(const struct budget_sample *sample);

/* Print a line for each sample, one of the bare calls, and one for each class. begin: prints the
 * first members. -ENOMEM. */
int budget_print(const struct training_options *asked, void (*begin)(void));

#endif
