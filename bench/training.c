/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What something costs the training of the GCN under the manager "weir", within one process: it is
 * switched on and off from epoch to epoch, so that what differs between processes, or drifts with
 * time, is in both states. --help says what can be switched. A pair is K epochs without it and K
 * with it, in this order and in the other one in turn. A switch is made between two epochs, outside
 * of the time of either; the first epoch behind one counts as the others do.
 *
 * With --what budget the manager is "weir+near", and the other way round it is measured, too: what
 * weir_space_set_budget() takes to give 1 GiB of a neighbour's memory back while launches run, at
 * random points of the epochs with it (bench/training/budget.c says how, and in which classes).
 * With --each there are no pairs: all epochs have samples, until there are enough of each class.
 *
 * One JSON object a line: a line for each pair, then the medians. Times are the machine's, which
 * are virtual on a simulated one; a pair's "ratio" is its mean epoch with over its mean epoch
 * without. CPU seconds are the whole process's: with --what busy they count the busy threads, too.
 * With --what budget lines of the samples and their classes come first.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "bench/training/budget.h"
#include "bench/training/busy.h"
#include "bench/training/options.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "cli/result.h"
#include "src/base/util.h"
#include "workloads/gcn/gcn.h"

#define WHY_BYTES 512
#define EACH_EPOCHS 100000u

static struct training_options asked;
static char why[WHY_BYTES]; /* what is wrong, in one line */
static struct progress bar;

/* All of them once, before anything that takes long. */
static int priorities_try(void)
{
	int err = 0;

	for (uint32_t i = 0; i < asked.nr_priorities && !err; i++) {
		err = priority_set(&asked.priority[i], why, sizeof(why));
		if (!err)
			err = priority_unset(&asked.priority[i], why, sizeof(why));
	}
	return err;
}

/* ------------------------------------------------------------------ between epochs */

/* Which state is due when. The first epochs are warm-up: off, as usual. */
struct state {
	uint32_t priority; /* nr_priorities: as usual */
	bool on;
};

static struct {
	struct manager *manager;
	uint32_t next_epoch; /* whose state is not set yet */
	struct state is;
	uint64_t trace_bytes; /* of the last one that was written */
	int err;
	bool complete; /* with --each: it ends, and that is no error */
} training;

static uint32_t pair_epoch(uint32_t priority, uint32_t pair, bool on)
{
	const bool second = on != (pair % 2 == 1);

	return asked.warm_up + ((priority * asked.pairs + pair) * 2 + second) * asked.epochs_each;
}

/* With --each, more than there will be. */
static uint32_t nr_epochs(void)
{
	if (asked.each)
		return EACH_EPOCHS;
	return pair_epoch(asked.nr_priorities, 0, false);
}

static struct state state_due(uint32_t epoch)
{
	const uint32_t half = (MAX(epoch, asked.warm_up) - asked.warm_up) / asked.epochs_each;
	const uint32_t pair = half / 2 % asked.pairs;

	if (asked.each)
		return (struct state){.priority = asked.nr_priorities,
				      .on = epoch >= asked.warm_up};
	if (epoch < asked.warm_up || epoch >= nr_epochs())
		return (struct state){.priority = asked.nr_priorities};
	return (struct state){.priority = half / 2 / asked.pairs, .on = (half + pair) % 2};
}

static int trace_switch(bool on)
{
	int err = training.manager->ops->trace(training.manager, on ? asked.trace : NULL);
	struct stat file;

	if (err)
		snprintf(why, sizeof(why), "trace '%s': %s", asked.trace, weir_strerror(err));
	else if (!on && !stat(asked.trace, &file))
		training.trace_bytes = (uint64_t)file.st_size;
	return err;
}

static int switch_to(struct state due)
{
	struct state *is = &training.is;
	int err = 0;

	if (due.on != is->on) {
		if (asked.trace)
			err = trace_switch(due.on);
		else if (asked.busy)
			busy_switch(due.on);
		is->on = due.on;
	}
	if (!err && due.priority != is->priority && is->priority < asked.nr_priorities)
		err = priority_unset(&asked.priority[is->priority], why, sizeof(why));
	if (!err && due.priority != is->priority && due.priority < asked.nr_priorities)
		err = priority_set(&asked.priority[due.priority], why, sizeof(why));
	is->priority = due.priority;
	return err;
}

static void show_progress(uint32_t done, uint32_t total)
{
	char label[PROGRESS_LABEL_BYTES];
	int at = snprintf(label, sizeof(label), "epoch %" PRIu32, done + 1);

	if (!asked.each)
		at += snprintf(label + at, sizeof(label) - (size_t)at, " of %" PRIu32, total);

	if (asked.memory_name)
		(void)snprintf(label + at, sizeof(label) - (size_t)at,
			       ", %" PRIu32 " samples taken", budget_samples()->nr);
	progress_set(&bar, asked.each ? budget_progress() : (double)done / total, label);
}

/* gcn_run() calls it between two epochs, and within them: the first call counts that says that so
 * many are done. */
static int listen(void *arg, uint32_t done, uint32_t total)
{
	(void)arg;
	if (training.err)
		return training.err;
	if (done < training.next_epoch) {
		if (asked.memory_name)
			training.err = budget_point(why, sizeof(why));
		if (!training.err && asked.each && budget_is_complete()) {
			training.complete = true;
			training.err = -ECANCELED;
		}
		return training.err;
	}
	show_progress(done, total);
	training.next_epoch = done + 1;
	training.err = switch_to(state_due(done));
	if (!training.err && asked.memory_name)
		training.err = budget_epoch(done, training.is.on, why, sizeof(why));
	manager_mark_epoch(training.manager, done, total);
	return training.err;
}

/* ------------------------------------------------------------------ training */

static int open_machine(struct weir_machine **out)
{
	const struct bench_params *p = &asked.params;
	int err = p->real_gpu ? weir_machine_cuda(bench_measured(p), out)
			      : weir_machine_simulate(&p->machine, p->data, out);

	if (err)
		snprintf(why, sizeof(why), "machine '%s': %s", p->machine.name, weir_strerror(err));
	return err;
}

/* All that a real memory had when the program began: what it has now may be less. */
static uint64_t budget_of(uint32_t memory, uint64_t bytes)
{
	const struct bench_params *p = &asked.params;

	return p->real_gpu && bytes == p->machine.memory[memory].bytes ? 0 : bytes;
}

static int create_manager(struct weir_machine *machine)
{
	const struct bench_params *p = &asked.params;
	struct manager_config config = {
		.machine = machine,
		.device = p->device,
		.gpu_budget_bytes =
			budget_of(p->machine.device[p->device].memory, p->gpu_budget_bytes),
		.host_budget_bytes = budget_of(bench_host_memory(p), p->host_budget_bytes),
		.block_bytes = p->block_bytes,
		.near_bytes_per_s = p->near.bytes_per_s,
		.options = "",
	};
	int err;

	memcpy(config.near_bytes, p->near.bytes, sizeof(config.near_bytes));
	err = manager_create(p->manager[0], &config, &training.manager);
	if (err)
		snprintf(why, sizeof(why), "manager '%s': %s", p->manager[0], weir_strerror(err));
	return err;
}

static int run_epochs(struct workload_result *out)
{
	const struct bench_params *p = &asked.params;
	const struct gcn_params gcn = {
		.nodes = p->nodes[0],
		.slice = p->slice,
		.epochs = nr_epochs(),
		.seed = p->seed,
		.hidden = p->hidden,
		.threads = p->threads,
		.progress = listen,
	};
	char text[WHY_BYTES] = "";
	int err;

	err = gcn_run(training.manager, &gcn, out, text, sizeof(text));
	if (training.complete)
		return 0;
	if (err && !training.err)
		snprintf(why, sizeof(why), "%s", text[0] ? text : weir_strerror(err));
	return err;
}

static int train(struct workload_result *out)
{
	struct weir_machine *machine;
	int err = open_machine(&machine);

	if (err)
		return err;
	if (asked.memory_name)
		budget_watch(machine);
	err = create_manager(machine);
	if (err)
		goto out_close;
	training.is.priority = asked.nr_priorities;
	/* A file that cannot be written is noticed before what takes long. */
	if (asked.trace) {
		err = trace_switch(true);
		if (!err)
			err = trace_switch(false);
	}
	if (asked.memory_name)
		err = budget_start(training.manager, why, sizeof(why));
	if (!err)
		err = run_epochs(out);
	training.manager->ops->destroy(training.manager);
	if (!err && asked.memory_name)
		err = budget_stop(why, sizeof(why));
out_close:
	weir_machine_close(machine);
	return err;
}

/* ------------------------------------------------------------------ what is printed */

static double mean(const double *values, uint32_t nr)
{
	double sum = 0;

	for (uint32_t i = 0; i < nr; i++)
		sum += values[i];
	return sum / nr;
}

static void print_begin(uint32_t priority)
{
	printf("{\"schema\":\"weir-bench-training-1\",\"version\":\"%s\",\"machine\":\"%s\"",
	       weir_version(), asked.params.machine.name);
	if (asked.trace)
		printf(",\"what\":\"trace\"");
	else if (asked.memory_name)
		printf(",\"what\":\"budget\",\"memory\":\"%s\"", asked.memory_name);
	else
		printf(",\"what\":\"busy\",\"busy\":%" PRIu32 ",\"priority\":\"%s\"", asked.busy,
		       asked.priority[priority].name);
}

static void print_values(const char *name, const double *values)
{
	printf(",\"%s\":[", name);
	for (uint32_t i = 0; i < asked.epochs_each; i++)
		printf("%s%.9f", i ? "," : "", values[i]);
	printf("]");
}

/* Means of the pairs, by state. */
struct pairs {
	double s[2][TRAINING_PAIRS_MAX], cpu_s[2][TRAINING_PAIRS_MAX], ratio[TRAINING_PAIRS_MAX];
};

static void print_pair(const struct workload_result *r, uint32_t priority, uint32_t pair,
		       struct pairs *out)
{
	static const char *const name[2][2] = {{"off_s", "off_cpu_s"}, {"on_s", "on_cpu_s"}};

	print_begin(priority);
	printf(",\"pair\":%" PRIu32 ",\"first\":\"%s\"", pair + 1, pair % 2 ? "on" : "off");
	for (int on = 0; on < 2; on++) {
		const uint32_t epoch = pair_epoch(priority, pair, on);

		print_values(name[on][0], r->epoch_s + epoch);
		print_values(name[on][1], r->epoch_cpu_s + epoch);
		out->s[on][pair] = mean(r->epoch_s + epoch, asked.epochs_each);
		out->cpu_s[on][pair] = mean(r->epoch_cpu_s + epoch, asked.epochs_each);
	}
	out->ratio[pair] = out->s[1][pair] / out->s[0][pair];
	printf(",\"ratio\":%.6f}\n", out->ratio[pair]);
}

static void print_sizes(void)
{
	const struct bench_params *p = &asked.params;

	printf(",\"nodes\":%" PRIu64 ",\"gpu_budget_bytes\":%" PRIu64 ",\"slice\":%" PRIu64
	       ",\"hidden\":%" PRIu32 ",\"seed\":%" PRIu64 ",\"data\":\"%s\"",
	       p->nodes[0], p->gpu_budget_bytes, p->slice, p->hidden, p->seed,
	       p->data == WEIR_DATA_REAL ? "real" : "phantom");
}

static void print_end(uint32_t priority, const struct pairs *pairs)
{
	const struct bench_params *p = &asked.params;
	const uint32_t nr = asked.pairs;
	double worst = pairs->ratio[0];

	for (uint32_t i = 1; i < nr; i++)
		worst = max_double(worst, pairs->ratio[i]);
	print_begin(priority);
	print_sizes();
	if (asked.trace)
		printf(",\"trace_bytes\":%" PRIu64, training.trace_bytes);
	else if (asked.memory_name)
		printf(",\"near_bytes\":%" PRIu64 ",\"samples\":%" PRIu32,
		       p->near.bytes[asked.memory], budget_samples()->nr);
	else
		printf(",\"processors\":%" PRIu32 ",\"busy_threads\":%" PRIu32,
		       priority_processors(), asked.busy * priority_processors());
	printf(",\"pairs\":%" PRIu32 ",\"epochs_each\":%" PRIu32 ",\"warm_up\":%" PRIu32, nr,
	       asked.epochs_each, asked.warm_up);
	printf(",\"median_off_s\":%.9f,\"median_on_s\":%.9f,\"median_ratio\":%.6f,"
	       "\"worst_ratio\":%.6f,\"median_off_cpu_s\":%.9f,\"median_on_cpu_s\":%.9f}\n",
	       result_median(pairs->s[0], nr), result_median(pairs->s[1], nr),
	       result_median(pairs->ratio, nr), worst, result_median(pairs->cpu_s[0], nr),
	       result_median(pairs->cpu_s[1], nr));
}

/* With --each. */
static void print_each_end(void)
{
	print_begin(0);
	print_sizes();
	printf(",\"near_bytes\":%" PRIu64 ",\"samples\":%" PRIu32 ",\"each\":%" PRIu32
	       ",\"warm_up\":%" PRIu32 ",\"epochs\":%" PRIu32 ",\"limit_s\":%" PRIu32
	       ",\"complete\":%s}\n",
	       asked.params.near.bytes[asked.memory], budget_samples()->nr, asked.each,
	       asked.warm_up, training.next_epoch, asked.limit_s,
	       budget_has_each() ? "true" : "false");
}

static void print_budget_begin(void)
{
	print_begin(0);
}

static int print_all(const struct workload_result *r)
{
	static struct pairs pairs;

	if (asked.memory_name && budget_print(&asked, print_budget_begin)) {
		snprintf(why, sizeof(why), "not enough memory on this computer");
		return -ENOMEM;
	}
	if (asked.each) {
		print_each_end();
		return 0;
	}
	for (uint32_t i = 0; i < asked.nr_priorities; i++) {
		for (uint32_t pair = 0; pair < asked.pairs; pair++)
			print_pair(r, i, pair, &pairs);
		print_end(i, &pairs);
	}
	return 0;
}

static void complain(void *arg, enum weir_log_level level, const char *message)
{
	(void)arg;
	if (level > WEIR_LOG_WARNING)
		return;
	progress_clear(&bar);
	fprintf(stderr, "bench_training: weir: %s\n", message);
}

static int fail(int status)
{
	fprintf(stderr, "bench_training: %s\n", why);
	return status;
}

int main(int argc, char **argv)
{
	struct workload_result result = {0};
	int err;

	if (options_want_help(argc - 1, argv + 1)) {
		training_help();
		return 0;
	}
	if (priority_init(why, sizeof(why)))
		return fail(1);
	if (training_options_parse(argc - 1, argv + 1, &asked, why, sizeof(why)))
		return fail(2);
	if (asked.params.note[0])
		fprintf(stderr, "bench_training: %s\n", asked.params.note);
	if (asked.memory_name) {
		err = budget_prepare(&asked, why, sizeof(why));
		if (err)
			return fail(err == -EINVAL ? 2 : 1);
	}
	weir_log_set(complain, NULL);
	err = asked.busy ? busy_start(asked.busy * priority_processors(), why, sizeof(why)) : 0;
	if (!err)
		err = priorities_try();
	progress_start(&bar, stderr);
	if (!err)
		err = train(&result);
	progress_end(&bar);
	busy_stop();
	weir_log_set(NULL, NULL);
	if (!err)
		err = print_all(&result);
	gcn_result_free(&result);
	budget_fini();
	bench_params_fini(&asked.params);
	if (!err && fflush(stdout)) {
		snprintf(why, sizeof(why), "writing the results: %s", strerror(errno));
		err = -EIO;
	}
	return err ? fail(1) : 0;
}
