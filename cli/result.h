/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One run's result, and its JSON form: one object a line, numbers in base units (bytes, seconds),
 * members in a fixed order, nothing in it that depends on when or where it ran. docs/man/
 * weir-bench.1.scd describes each member.
 */
#ifndef WEIR_CLI_RESULT_H
#define WEIR_CLI_RESULT_H

#include <stdbool.h>
#include <stdio.h>

#include "managers/manager.h"

#define RESULT_SCHEMA "weir-result-1"

/* RESULT_REFUSED: the machine does not let the manager have so much, whatever there is. */
enum result_status { RESULT_OK, RESULT_OUT_OF_MEMORY, RESULT_REFUSED, RESULT_FAILED };

enum result_check { RESULT_UNCHECKED, RESULT_PASSED, RESULT_DIFFERS };

/* What was asked for. Texts are borrowed. */
struct result_parameters {
	uint64_t nodes, slice, seed;
	uint64_t host_budget_bytes; /* as used: never 0 */
	uint64_t block_bytes;	    /* 0: the manager's default */
	uint32_t epochs, warm_up, hidden;
	const char *data;  /* "real", "phantom" */
	const char *graph; /* NULL: the random graph */
};

/* What the run moved against what it had to, in blocks an epoch but for the last four. */
struct result_oracle {
	double copy_ins, min_copy_ins, write_backs, min_write_backs;
	double in_place_bytes; /* an epoch, both ways */
	/* From the host to any GPU; NaN: no other GPU's memory is used. */
	double host_copy_ins, min_host_copy_ins;
	uint64_t block_bytes, capacity_blocks, largest_set_blocks;
	uint32_t nr_epochs; /* that all this is the mean of */
	bool exact;	    /* min_*: else estimates */
};

/* What only a run on a real GPU has. */
struct result_real_gpu {
	bool in_memory_measured; /* in_memory_s is, on this GPU; else by the description's model */
	bool bound_measured;	 /* from measured times of kernels; else from modelled ones */
	const double *epoch_cpu_s;
	uint64_t peak_rss_bytes, bookkeeping_bytes; /* 0: not known */
};

/* What workloads have that make passes over memory: all but the GCN. Doubles that are NaN are not
 * known. */
struct result_pass {
	double in, out, in_place, waits; /* pages, of one measured pass on average */
	double useful_bytes_per_s;	 /* asked for by the kernels, read and written */
	const char *wrong;		 /* what was found wrong; NULL or empty: nothing */
	/* Write what only this workload has: the members of "parameters", and others, each behind a
	 * comma, NULL: none. of: theirs. */
	void (*parameters)(FILE *out, const void *of);
	void (*members)(FILE *out, const void *of);
	const void *of;
};

struct explain; /* src/residency/explain.h */

/* Everything is borrowed. Doubles that are NaN are not known, and null in JSON. */
struct result {
	const char *command; /* the command line that asks for it; NULL: not known */
	const char *date;    /* of a real GPU: when; NULL: nothing depends on it */
	const char *workload;
	const struct result_pass *pass;	     /* NULL: the GCN */
	struct result_parameters parameters; /* with pass: host_budget_bytes and data */
	const struct weir_machine_desc *machine;
	uint32_t device;
	uint32_t nr_devices; /* from `device` on, that ran the kernels; 0: 1 */
	const char *manager;
	const char *policy; /* "default", or as it was asked for; NULL: the manager has none */
	double run_s;	    /* of the computer's time, for the share of decisions; 0: not known */
	enum result_status status;
	const char *error;     /* RESULT_REFUSED, RESULT_FAILED: one line */
	const double *epoch_s; /* the measured ones */
	uint32_t nr_epochs;
	double epoch_median_s;
	/* What the device's time went into, mean of the measured epochs; NULL: not known. */
	const double *time_s;
	struct manager_stats stats;
	uint64_t gpu_budget_bytes; /* as used: never 0 */
	/* Of other GPUs' memories, by memory; all 0: the manager uses none. */
	uint64_t near_bytes[WEIR_MEMORIES_MAX];
	double near_bytes_per_s; /* 0: no limit */
	const double *loss;	 /* warm-up included */
	uint32_t nr_losses;
	double test_accuracy;
	enum result_check check;
	double bound_s;
	const struct result_oracle *oracle;	/* NULL: not asked for, or none for this manager */
	uint64_t live_peak_bytes;		/* what the workload has allocated at its peak */
	uint64_t needs_bytes;			/* the least GPU budget that native runs under */
	double in_memory_s;			/* an epoch of it */
	bool explains;				/* what was planned is asked for, */
	const struct explain *explain;		/* and this is it; NULL: nothing was */
	const struct result_real_gpu *real_gpu; /* NULL: simulated */
};

/* The policy of a manager's name: result->policy. */
const char *result_policy_of(const char *manager);

/* "ok", "out-of-memory", "refused", "failed". Static. */
const char *result_status_name(enum result_status status);

/* Of a run that returned err. */
enum result_status result_status_of(int err);

/* "paged", "in place". Static. */
const char *result_pick_name(const struct manager_pick *pick);

/* "demand", ..., "in-place". Static. */
const char *result_cause_name(enum weir_cause cause);

/* "compute", ..., "other". Static. */
const char *result_time_name(enum backend_time time);

/* The host memory that a device is linked to; the memory of the device itself when none is. */
uint32_t result_host_memory(const struct weir_machine_desc *machine, uint32_t device);

/* Whether it uses other GPUs' memories. */
bool result_is_near(const struct result *result);

/* Whether blocks of the run may have crossed a link: both of its memories are used. The device's
 * link to the host is one, whatever the manager. */
bool result_uses_link(const struct result *result, uint32_t link);

/* The device's link to its host memory. */
uint32_t result_host_link(const struct weir_machine_desc *machine, uint32_t device);

/* What crossed a link, by cause. */
const uint64_t *result_link_bytes(const struct result *result, uint32_t link,
				  enum weir_direction direction);

/* "host->gpu0". */
#define RESULT_WAY_BYTES (2 * WEIR_NAME_MAX + 3)
void result_way_name(const struct weir_machine_desc *machine, uint32_t link,
		     enum weir_direction direction, char name[RESULT_WAY_BYTES]);

/* Middle of nr values, mean of the two middle ones; NaN: none, or no memory to sort a copy. */
double result_median(const double *values, uint32_t nr);

/* Write one line. Errors stay in the stream: ferror(). */
void result_write(FILE *out, const struct result *result);

/* Write a text or a number as JSON. Bytes that are no UTF-8 become U+FFFD; a double is written with
 * the fewest digits that read back the same, NaN and infinities as null. */
void result_write_text(FILE *out, const char *text);
void result_write_double(FILE *out, double value);

#endif
