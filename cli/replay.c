/* SPDX-License-Identifier: Apache-2.0 */
/* `weir replay`: a trace under each manager with each budget, as the workloads of `weir bench`. */
#include "cli/replay.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench.h"
#include "cli/bench_near.h"
#include "cli/bench_pass.h"
#include "cli/bench_pass_table.h"
#include "cli/bench_policy.h"
#include "cli/interrupt.h"
#include "cli/kept.h"
#include "cli/replay_bound.h"
#include "cli/replay_oracle.h"
#include "cli/size.h"
#include "src/base/util.h"
#include "workloads/replay.h"

enum replay_option {
	GPU_BUDGET = BENCH_OPTION_NR,
	HOST_BUDGET,
	BLOCK_SIZE,
	WARM_UP,
	NO_THINK,
	NO_ADVICE,
	COLD,
	ORACLE,
	KINDS,
	JSON,
	HELP,
	REPLAY_NR
};

/* Numbered as the readers of options want it; those without help are no options. */
static const struct option_def table[REPLAY_NR] = {
	[BENCH_MACHINE] = {"machine", "M", NULL, NULL,
			   "a simulated machine: its name or description file (default: the one "
			   "of the trace)"},
	[BENCH_MEASURED] = {"measured", NULL, NULL, NULL, NULL},
	[BENCH_MANAGER] = {"manager", "A,B,...", "WEIR_MANAGER", "weir",
			   "ways of holding memory, each run in turn"},
	[BENCH_DEBUG] = {"debug", NULL, NULL, NULL, NULL},
	BENCH_EXPLAIN_OPTION,
	[BENCH_DEVICE] = {"device", "D", NULL, "0", "device that runs the kernels: index or name"},
	[BENCH_NEAR] = {"near", "GPU:S,...", NULL, NULL,
			"other GPUs' memory to use, as gpu1:100GB or gpu1:50%"},
	[BENCH_NEAR_RATE] = {"near-rate", "B/s", NULL, NULL,
			     "the most to read and write in each of them, on average"},
	BENCH_POLICY_OPTION,
	[GPU_BUDGET] =
		{"gpu-budget", "S,...", NULL, NULL,
		 "GPU memory to use, or P% of what the trace has allocated at most (default: "
		 "as it was recorded)"},
	[HOST_BUDGET] = {"host-budget", "S", NULL, NULL,
			 "host memory to use (default: as it was recorded)"},
	[BLOCK_SIZE] = {"block-size", "S", NULL, NULL,
			"of managers that move blocks (default: as it was recorded, rounded up to "
			"what the machine can map)"},
	[WARM_UP] = {"warm-up", "N", NULL, NULL,
		     "epochs (from mark to mark) that do not count (default: 2, or 0 where there "
		     "are no more)"},
	[NO_THINK] = {"no-think", NULL, NULL, NULL,
		      "leave out what the program did between its calls"},
	[NO_ADVICE] = {"no-advice", NULL, NULL, NULL,
		       "leave out advice, prefetches and changes of budgets"},
	[COLD] = {"cold", NULL, NULL, NULL,
		  "begin each epoch with nothing in the GPU's memory, where a manager can"},
	[ORACLE] = {"oracle", NULL, NULL, NULL,
		    "compare copies into GPU memory with the least number there can be"},
	[KINDS] = {"kinds", "K", NULL, "recorded",
		   "what uses are that were guessed: recorded (all write), or observed (those read "
		   "of which comparisons found no change)"},
	[JSON] = {"json", "FILE", NULL, NULL, "write one JSON object a result; - is stdout"},
	[HELP] = {"help", NULL, NULL, NULL, "show this text"},
};

struct replay {
	struct bench_pass_params params;
	struct bench_pass pass;
	const char *name;
	struct trace_file file;
	struct replay_plan plan;
	struct replay_bound bound;
	uint32_t warm_up;
	uint64_t block_bytes;
	bool think, advice, cold, oracle;
	bool observes; /* --kinds observed */
	struct trace_observed observed;
	struct bench_pass_row *rows;
	double *over_min; /* by row: copies over the least number; NaN: not known */
	unsigned int nr_rows;
};

/* One budget under one manager. */
struct work {
	const struct replay *replay;
	struct bench_pass_run *run;
	struct passes_result result;
	struct replay_oracle oracle;
	char said[BENCH_PASS_ERROR_BYTES]; /* what the oracle has to say; "": nothing */
};

/* ------------------------------------------------------------------ one run */

static void fill_config(const struct work *w, struct weir_machine *machine,
			struct manager_config *out)
{
	const struct bench_params *p = &w->replay->params.base;
	struct bench_pass_run *run = w->run;

	*out = (struct manager_config){
		.machine = machine,
		.device = p->device,
		.nr_devices = p->nr_devices,
		.gpu_budget_bytes = run->budget_bytes,
		.host_budget_bytes = p->host_budget_bytes,
		.block_bytes = w->replay->block_bytes,
		.options = "",
	};
	if (!manager_is_near(run->manager))
		return;
	bench_near_bytes(p, run->needs_bytes, run->near_bytes);
	memcpy(out->near_bytes, run->near_bytes, sizeof(out->near_bytes));
	out->near_bytes_per_s = p->near.bytes_per_s;
	out->needs_bytes = run->needs_bytes;
}

/* Whether there is something to compare with. Advice keeps managed memory where it is, which the
 * manager does not tell. */
static bool is_watched(const struct replay *r, const char *manager)
{
	const struct manager_ops *ops = bench_manager_find(manager);

	return r->oracle && ops->tell_where &&
	       !(ops == &manager_uvm && r->advice && r->file.nr_of[TRACE_ADVISE]);
}

static int work_on(struct weir_machine *machine, void *arg, workload_progress_fn progress,
		   void *progress_arg, char *err, size_t err_bytes)
{
	struct work *w = arg;
	const struct replay *r = w->replay;
	const bool watched = is_watched(r, w->run->manager);
	const struct replay_params params = {
		.file = &r->file,
		.plan = &r->plan,
		.think = r->think,
		.advice = r->advice,
		.cold = r->cold,
		.warm_up = r->warm_up,
		.gpu_budget_bytes = w->run->budget_bytes,
		.host_budget_bytes = r->params.base.host_budget_bytes,
		.progress = progress,
		.progress_arg = progress_arg,
		.counting = watched ? replay_oracle_counting : NULL,
		.counting_arg = &w->oracle,
	};
	struct manager_config config;
	struct manager *m;
	int rc;

	fill_config(w, machine, &config);
	rc = passes_result_init(&w->result, r->plan.nr_epochs - r->warm_up);
	if (rc)
		return rc;
	rc = manager_create(w->run->manager, &config, &m);
	if (rc) {
		(void)snprintf(err, err_bytes, "the manager cannot be created: %s",
			       weir_strerror(rc));
		return rc;
	}
	if (watched)
		rc = replay_oracle_begin(&w->oracle, &m);
	if (!rc)
		rc = replay_run(m, &params, w->result.pass_s, err, err_bytes);
	m->ops->stats(m, &w->run->stats);
	if (!rc)
		rc = bench_pass_explain(w->run, m, err, err_bytes);
	m->ops->destroy(m);
	if (!rc && watched)
		rc = replay_oracle_end(&w->oracle, &r->params.base.machine, &config,
				       w->run->manager, r->plan.nr_epochs - r->warm_up, w->said,
				       sizeof(w->said));
	return rc;
}

static void write_parameters(FILE *out, const void *of)
{
	const struct replay *r = of;

	fputs("\"trace\":", out);
	result_write_text(out, r->name);
	fprintf(out,
		",\"epochs\":%" PRIu32 ",\"warm_up\":%" PRIu32
		",\"think\":%s,\"advice\":%s,\"cold\":%s,\"kinds\":\"%s\"",
		r->plan.nr_epochs - r->warm_up, r->warm_up, r->think ? "true" : "false",
		r->advice ? "true" : "false", r->cold ? "true" : "false",
		r->observes ? "observed" : "recorded");
	if (r->observes)
		fprintf(out, ",\"guessed_writes\":%" PRIu64 ",\"observed_reads\":%" PRIu64,
			r->observed.nr_writes, r->observed.nr_reads);
}

static int run_case(struct replay *r, uint64_t budget_bytes, const char *manager)
{
	struct work w = {.replay = r};
	struct bench_pass_run run = {
		.manager = manager,
		.needs_bytes = r->plan.needs_bytes,
		.budget_bytes = budget_bytes,
		.passes = r->plan.nr_epochs,
		.work_on = work_on,
		.arg = &w,
	};
	struct bench_pass_result out;
	int rc = 0;

	w.run = &run;
	bench_pass_run(&r->pass, &run);
	if (!interrupt_pending()) {
		bench_pass_fill(&r->pass, &run, &w.result,
				replay_bound_s(&r->bound, budget_bytes,
					       manager_is_near(manager) ? run.near_bytes : NULL),
				&out);
		out.result.workload = "replay";
		out.result.parameters.block_bytes = r->block_bytes;
		out.pass.parameters = write_parameters;
		out.pass.of = r;
		out.pass.useful_bytes_per_s = NAN;
		if (w.oracle.known)
			out.result.oracle = &w.oracle.min;
		if (w.said[0])
			bench_pass_complain(&r->pass, w.said);
		r->over_min[r->nr_rows] =
			w.oracle.known ? w.oracle.min.copy_ins / w.oracle.min.min_copy_ins : NAN;
		r->rows[r->nr_rows++] = bench_pass_row(&out.result, NAN);
		rc = bench_pass_add(&r->pass, &out.result);
	}
	replay_oracle_fini(&w.oracle);
	bench_pass_run_fini(&run);
	passes_result_free(&w.result);
	return interrupt_pending() ? -1 : rc;
}

static int run_all(void *arg)
{
	struct replay *r = arg;
	const struct bench_pass_params *p = &r->params;
	unsigned int nr = p->nr_budgets * p->base.nr_managers;
	int rc = 0;

	r->rows = calloc(nr, sizeof(*r->rows));
	r->over_min = calloc(nr, sizeof(*r->over_min));
	if (!r->rows || !r->over_min) {
		snprintf(r->pass.err, sizeof(r->pass.err), "not enough memory on this computer");
		return bench_pass_stop(&r->pass, BENCH_EXIT_FAILED);
	}
	r->pass.total = (double)nr * r->plan.nr_epochs;
	for (unsigned int i = 0; i < nr && !rc; i++) {
		const struct bench_budget *budget = &p->budget[i / p->base.nr_managers];

		rc = run_case(r, bench_pass_budget(budget, r->plan.needs_bytes, 1),
			      p->base.manager[i % p->base.nr_managers]);
	}
	return rc;
}

static int print(void *arg, FILE *out)
{
	static const struct table_column columns[] = {
		{"GPU budget", TABLE_RIGHT}, {"manager", TABLE_LEFT},	{"epoch s", TABLE_RIGHT},
		{"bound s", TABLE_RIGHT},    {"distance", TABLE_RIGHT}, {"over MIN", TABLE_RIGHT},
	};
	const struct replay *r = arg;
	struct table *t;
	int err = table_create(columns, ARRAY_LEN(columns) - !r->oracle, &t);

	if (err)
		return err;
	table_set_keys(t, 2);
	for (unsigned int i = 0; i < r->nr_rows; i++) {
		const struct bench_pass_row *row = &r->rows[i];

		(void)table_add_size(t, row->budget_bytes);
		(void)table_add(t, "%s", row->manager);
		if (row->status != RESULT_OK)
			(void)table_add(t, "%s", result_status_name(row->status));
		else
			(void)table_add(t, "%.6f", row->median_s);
		(void)(row->bound_s > 0 ? table_add(t, "%.6f", row->bound_s) : table_add(t, "-"));
		(void)(row->bound_s > 0 && row->status == RESULT_OK
			       ? table_add(t, "%.3f", row->median_s / row->bound_s)
			       : table_add(t, "-"));
		if (r->oracle)
			(void)(!isfinite(r->over_min[i]) ? table_add(t, "-")
							 : table_add(t, "%.3f", r->over_min[i]));
	}
	err = table_print(t, out);
	table_destroy(t);
	if (!err && r->observes &&
	    fprintf(out,
		    "kinds as observed: %" PRIu64 " of %" PRIu64
		    " uses that may write were found to read\n",
		    r->observed.nr_reads, r->observed.nr_writes) < 0)
		err = -EIO;
	return err;
}

/* ------------------------------------------------------------------ options */

static int read_budget(struct bench_reader *reader, unsigned int nr, void *arg)
{
	struct replay *r = arg;

	return bench_read_budget(reader, GPU_BUDGET, nr, r->params.budget);
}

static int read_machine(struct bench_reader *reader, struct replay *r)
{
	struct bench_params *p = &r->params.base;
	int err = 0;

	p->data = WEIR_DATA_PHANTOM;
	p->nr_devices = r->plan.nr_devices;
	if (!reader->values[BENCH_MACHINE].text) {
		p->machine = r->file.machine;
		p->device = r->plan.device;
	} else if (!strcmp(reader->values[BENCH_MACHINE].text, MACHINE_CUDA)) {
		err = bench_refuse(reader, BENCH_MACHINE,
				   "a trace has no kernels that could run; name a simulated "
				   "machine");
	} else {
		err = bench_read_machine(reader, p);
	}
	if (!err && (reader->values[BENCH_MACHINE].text ||
		     reader->values[BENCH_DEVICE].origin != OPTION_PRESET))
		err = bench_read_device(reader, p);
	if (!err && p->nr_devices > p->machine.nr_devices - p->device) {
		snprintf(reader->err, reader->err_bytes,
			 "%s has brackets of %" PRIu32
			 " devices; choose a machine that has as many "
			 "from --device on",
			 r->name, p->nr_devices);
		err = -EINVAL;
	}
	if (!err)
		replay_kernels(&r->file, &p->machine);
	return err;
}

/* Several devices are for managers that have launch_on(). */
static int read_managers(struct bench_reader *reader, struct replay *r)
{
	struct bench_params *p = &r->params.base;
	int err = bench_read_managers(reader, p);
	char what[160];

	for (unsigned int i = 0; !err && i < p->nr_managers && p->nr_devices > 1; i++) {
		if (bench_manager_find(p->manager[i])->launch_on)
			continue;
		snprintf(what, sizeof(what),
			 "runs kernels on one device, and the trace is of %" PRIu32
			 "; choose weir, weir+near or weir+near-copy",
			 p->nr_devices);
		err = bench_refuse(reader, BENCH_MANAGER, what);
	}
	return err;
}

static int read_sizes(struct bench_reader *reader, struct replay *r)
{
	struct bench_params *p = &r->params.base;
	uint64_t host = p->machine.memory[bench_host_memory(p)].bytes;
	uint32_t own = r->file.machine.device[r->plan.device].memory;
	int err = 0;

	r->block_bytes = round_up(r->file.space->block_bytes, p->machine.vmm.granularity_bytes);
	if (reader->values[BLOCK_SIZE].text)
		err = bench_read_bytes(reader, BLOCK_SIZE, &r->block_bytes);
	p->block_bytes = r->block_bytes;
	p->host_budget_bytes =
		replay_budget(&r->file, r->file.space->memory[r->file.space->nr_places - 1]);
	if (p->host_budget_bytes > host)
		p->host_budget_bytes = host;
	if (!err && reader->values[HOST_BUDGET].text)
		err = bench_read_bytes(reader, HOST_BUDGET, &p->host_budget_bytes);
	if (!err && (p->host_budget_bytes > host || !p->host_budget_bytes))
		err = bench_refuse(reader, HOST_BUDGET, "not above 0 and up to the host's memory");
	r->params.nr_budgets = 1;
	r->params.budget[0].bytes = replay_budget(&r->file, own);
	if (!err && reader->values[GPU_BUDGET].text) {
		r->params.nr_budgets = 0;
		err = bench_read_list(reader, GPU_BUDGET, BENCH_LIST_MAX, read_budget, r,
				      &r->params.nr_budgets);
	}
	return err ? err : bench_read_near(reader, p);
}

/* A budget is one of the device's memory; what a manager makes of it shows as it is created. */
static int check_budgets(const struct replay *r, char *err, size_t err_bytes)
{
	const struct bench_params *p = &r->params.base;
	uint64_t all = p->machine.memory[p->machine.device[p->device].memory].bytes;
	char budget_text[SIZE_TEXT_BYTES], all_text[SIZE_TEXT_BYTES];

	for (unsigned int i = 0; i < r->params.nr_budgets; i++) {
		uint64_t bytes = bench_pass_budget(&r->params.budget[i], r->plan.needs_bytes, 1);

		if (bytes && bytes <= all)
			continue;
		snprintf(err, err_bytes,
			 "--gpu-budget: %s of a memory of %s: choose more than nothing, and no "
			 "more than that",
			 size_format(bytes, budget_text, sizeof(budget_text)),
			 size_format(all, all_text, sizeof(all_text)));
		return -EINVAL;
	}
	return 0;
}

static int read_epochs(struct bench_reader *reader, struct replay *r)
{
	uint32_t nr = r->plan.nr_epochs;

	if (!nr) {
		snprintf(reader->err, reader->err_bytes,
			 "%s: fewer than two marks: set one as each epoch begins, and one at the "
			 "end (weir_space_trace_mark())",
			 r->name);
		return -EINVAL;
	}
	r->warm_up = nr > 2 ? 2 : 0;
	if (!reader->values[WARM_UP].text)
		return 0;
	return bench_read_u32(reader, WARM_UP, 0, nr - 1, &r->warm_up);
}

/* Before anything is made of the uses. */
static int read_kinds(struct bench_reader *reader, struct replay *r)
{
	const char *kinds = reader->values[KINDS].text;
	char why[128];
	int err = 0;

	r->observes = !strcmp(kinds, "observed");
	if (!r->observes && strcmp(kinds, "recorded") != 0)
		return bench_refuse(reader, KINDS, "write recorded or observed");
	if (r->observes)
		err = trace_file_observe(&r->file, &r->observed, why, sizeof(why));
	if (err)
		snprintf(reader->err, reader->err_bytes, "--kinds observed: %s: %s", r->name, why);
	return err;
}

static int read_options(struct bench_reader *reader, struct replay *r)
{
	struct bench_params *p = &r->params.base;
	char why[128];
	int err = trace_file_open(r->name, &r->file, reader->err, reader->err_bytes);

	if (err)
		return err;
	kept_add_name(r->name);
	err = replay_check(&r->file, &r->plan, why, sizeof(why));
	if (err) {
		snprintf(reader->err, reader->err_bytes, "%s cannot be replayed: %s", r->name, why);
		return err;
	}
	err = read_kinds(reader, r);
	if (!err)
		err = read_machine(reader, r);
	if (!err)
		err = read_managers(reader, r);
	if (!err)
		err = bench_read_policies(reader, p);
	if (!err)
		err = read_sizes(reader, r);
	if (!err)
		err = read_epochs(reader, r);
	if (!err)
		err = check_budgets(r, reader->err, reader->err_bytes);
	r->think = !reader->values[NO_THINK].text;
	r->advice = !reader->values[NO_ADVICE].text;
	r->cold = reader->values[COLD].text != NULL;
	r->oracle = reader->values[ORACLE].text != NULL;
	if (!err && r->oracle && (r->cold || p->nr_devices > 1)) {
		snprintf(reader->err, reader->err_bytes,
			 "--oracle is for traces of one device, and not with --cold");
		err = -EINVAL;
	}
	p->json = reader->values[JSON].text;
	bench_read_explain(reader, p);
	return err;
}

static const char *const no_part_of_it[] = {"json", NULL};

static int parse(struct replay *r, int argc, char **argv, char *err, size_t err_bytes)
{
	const char **operands = calloc((size_t)argc + 1, sizeof(*operands));
	struct option_value values[REPLAY_NR] = {0};
	struct bench_reader reader = {.defs = table,
				      .values = values,
				      .nr = REPLAY_NR,
				      .err = err,
				      .err_bytes = err_bytes};
	int nr, rc;

	snprintf(err, err_bytes, "not enough memory on this computer");
	if (!operands)
		return -ENOMEM;
	rc = options_parse_operands(table, REPLAY_NR, argc, argv, values, operands, &nr, err,
				    err_bytes);
	if (!rc && nr != 1) {
		snprintf(err, err_bytes, "replay takes one trace, %d are named; weir replay --help",
			 nr);
		rc = -EINVAL;
	}
	if (!rc) {
		r->name = operands[0];
		r->params.base.command = options_command("weir replay", table, REPLAY_NR, values,
							 operands, nr, no_part_of_it);
		snprintf(err, err_bytes, "not enough memory on this computer");
		rc = read_options(&reader, r);
	}
	free(operands);
	return rc;
}

static int print_help(void)
{
	puts("usage: weir replay TRACE [options]\n\n"
	     "Do what a trace says under other ways of holding memory, budgets and machines, on a\n"
	     "simulated machine, and show what an epoch takes. Epochs go from mark to mark.\n");
	options_help(stdout, table, REPLAY_NR);
	bench_help_end(stdout, false);
	fputs("Exit status: 0 done (out of memory is a result), 1 a run failed, 2 bad input or\n"
	      "output, 128 + n stopped by signal n.\n",
	      stdout);
	return fflush(stdout) ? BENCH_EXIT_BAD : 0;
}

int replay_main(int argc, char **argv)
{
	struct replay r = {.pass = {.params = &r.params}};

	if (options_want_help(argc - 1, argv + 1))
		return print_help();
	progress_start(&r.pass.bar, stderr);
	if (parse(&r, argc - 1, argv + 1, r.pass.err, sizeof(r.pass.err))) {
		bench_pass_complain(&r.pass, r.pass.err);
		progress_end(&r.pass.bar);
		r.pass.status = BENCH_EXIT_BAD;
	} else {
		replay_bound_init(&r.bound, &r.file, &r.plan, r.warm_up, &r.params.base);
		bench_pass_main(&r.pass, run_all, print, &r);
	}
	free(r.rows);
	free(r.over_min);
	replay_bound_fini(&r.bound);
	trace_file_close(&r.file);
	bench_params_fini(&r.params.base);
	return r.pass.status;
}
