/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the options of all workloads of `weir bench` share: the machine, its device, the managers,
 * and how single values are read. A function that fails returns a negative errno and leaves one
 * line, culprit and remedy.
 */
#ifndef WEIR_CLI_BENCH_READER_H
#define WEIR_CLI_BENCH_READER_H

#include "cli/bench_options.h"
#include "cli/options.h"

#define BENCH_WHY_BYTES 256

/* Every workload's table of options begins with the first five, and that of those with managers of
 * managers/ with all of them. */
enum bench_option {
	BENCH_MACHINE,
	BENCH_MEASURED,
	BENCH_MANAGER,
	BENCH_DEBUG,
	BENCH_EXPLAIN,
	BENCH_SHARED_OPTION_NR,
	BENCH_DEVICE = BENCH_SHARED_OPTION_NR,
	BENCH_NEAR,
	BENCH_NEAR_RATE,
	BENCH_POLICY,
	BENCH_OPTION_NR
};

#define BENCH_SHARED_OPTIONS(managers)                                                          \
	[BENCH_MACHINE] =                                                                       \
		{"machine", "M", "WEIR_MACHINE", NULL,                                          \
		 "cuda: this computer's GPUs; or a simulated machine: its name or description " \
		 "file (default: cuda where there is a GPU, else " MACHINE_DEFAULT ")"},        \
	[BENCH_MEASURED] = {"measured", "FILE", "WEIR_MEASURED", NULL,                          \
			    "with --machine cuda: description with this computer's measured "   \
			    "rates"},                                                           \
	[BENCH_MANAGER] = {"manager", "A,B,...", "WEIR_MANAGER", managers,                      \
			   "ways of holding memory, each run in turn"},                         \
	[BENCH_DEBUG] = {"debug", NULL, NULL, NULL,                                             \
			 "on this computer's GPUs: check remaps and launches; slow"},           \
	BENCH_EXPLAIN_OPTION

#define BENCH_EXPLAIN_OPTION                            \
	[BENCH_EXPLAIN] = {"explain", NULL, NULL, NULL, \
			   "show, stage by stage, what weir planned and what happened"}

#define BENCH_OPTIONS(device_help, managers)                                                    \
	BENCH_SHARED_OPTIONS(managers),                                                         \
		[BENCH_DEVICE] = {"device", "D", "WEIR_DEVICE", "0", device_help},              \
		[BENCH_NEAR] = {"near", "GPU:S,...", NULL, NULL,                                \
				"other GPUs' memory to use, as gpu1:100GB or gpu1:50%"},        \
		[BENCH_NEAR_RATE] = {"near-rate", "B/s", NULL, NULL,                            \
				     "the most to read and write in each of them, on average"}, \
		BENCH_POLICY_OPTION

#define BENCH_POLICY_OPTION                                                                       \
	[BENCH_POLICY] = {"policy",                                                               \
			  "NAME[:T=V,...]",                                                       \
			  NULL,                                                                   \
			  NULL,                                                                   \
			  "let a policy decide, of uvm (simulated) and weir: a built-in one, or " \
			  "the FILE.o of one, its tunables behind it; each of several in turn",   \
			  .many = true}

/* What the readers share: where values come from and where an error goes. */
struct bench_reader {
	const struct option_def *defs;
	struct option_value *values;
	unsigned int nr;	   /* of both */
	int (*load_kernels)(void); /* of the workload, for real GPUs */
	bool pages;		   /* the workload's kernels can page for themselves */
	/* What was logged of real GPUs' memories that others hold, in the order of the memories. */
	char taken[WEIR_DEVICES_MAX][BENCH_WHY_BYTES];
	unsigned int nr_taken;
	char *err;
	size_t err_bytes;
};

/* Fail over one option's value: "--nodes '0': " and what is wrong, with the remedy. */
int bench_refuse(const struct bench_reader *r, unsigned int id, const char *what);

/* Who holds how much of a memory, in words; empty: that is not known, or not worth a word. */
const char *bench_taken(const struct bench_reader *r, const char *memory);

/* Single values, of options that have one. read_count: within limits. */
int bench_read_count(const struct bench_reader *r, unsigned int id, uint64_t least, uint64_t most,
		     uint64_t *out);
int bench_read_u32(const struct bench_reader *r, unsigned int id, uint32_t least, uint32_t most,
		   uint32_t *out);
int bench_read_bytes(const struct bench_reader *r, unsigned int id, uint64_t *out);
int bench_read_seed(const struct bench_reader *r, unsigned int id, uint64_t *out);

/* "40%" as a fraction; above 0% and up to most%. */
int bench_read_percent(const struct bench_reader *r, unsigned int id, double most, double *out);

/* Step through a comma-separated list, in place: the next item, never empty; NULL: a bad list. */
char *bench_next_item(char **rest);

/* Read one item of a list, which is the option's text meanwhile, into place nr of wherever it
 * goes. */
typedef int (*bench_item_fn)(struct bench_reader *r, unsigned int nr, void *arg);

/* A comma-separated list of up to `most` items. *nr: how many were read; 0 before. */
int bench_read_list(struct bench_reader *r, unsigned int id, unsigned int most, bench_item_fn read,
		    void *arg, unsigned int *nr);

/* An item that is a size, and none of the nr before it. */
int bench_add_bytes(const struct bench_reader *r, unsigned int id, unsigned int nr,
		    uint64_t *sizes);

/* p->machine, file, real_gpu and note; the device of the machine; manager_text and manager. */
int bench_read_machine(struct bench_reader *r, struct bench_params *p);
int bench_read_device(const struct bench_reader *r, struct bench_params *p);
int bench_read_managers(const struct bench_reader *r, struct bench_params *p);

/* p->timeline and timeline_all, of two options. */
int bench_read_timeline(const struct bench_reader *r, unsigned int id, unsigned int all,
			struct bench_params *p);

/* p->explain. */
void bench_read_explain(const struct bench_reader *r, struct bench_params *p);

/* p->command, of the options that change results. -ENOMEM. */
int bench_set_command(const struct bench_reader *r, const char *workload,
		      const char *const *operands, int nr_operands, struct bench_params *p);

/* By its name, options behind it left aside. NULL: none. */
static inline const struct manager_ops *bench_manager_find(const char *name)
{
	return manager_find(name);
}

/* What stands under a table of options: managers, units, exit status. */
void bench_help_end(FILE *out, bool pages);

/* The same, but for managers. */
void bench_help_units(FILE *out);

#endif
