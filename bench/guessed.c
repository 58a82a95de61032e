/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast an unmodified program is whose data do not fit, without a GPU: an epoch of a recorded
 * training (tests/data/gcn-5m.trace.gz, unpacked) is done again and again on a simulated machine.
 * The space is asked as `weir run` asks it: a bracket for each launch, of guesses alone, with the
 * windows that shim/windows.c finds. What the simulated kernels do is another matter: they use what
 * the training's kernels truly used (bench/guessed/epoch.h), so that guesses cost what they cost
 * there: what is moved for nothing, and what is used in place for want of room.
 *
 * It is no replay of any trace: true uses are known of PyTorch's GCN of 5M nodes alone, and a trace
 * without its kernels is refused. Nor is it the training: the host takes 10 us for a call, what it
 * does to memory by itself is left out, and of a kernel's ranges that are no edges and no rows the
 * new ones and small ones count as written, large ones that were used before as read. Figures of
 * GPUs are in docs/results.md, "Unmodified programs".
 *
 * --help lists the options. One JSON object for each epoch, then one with "settled_s", the mean of
 * the last four. Times are virtual: they are the same on every computer. "in" is to the GPU; what
 * kernels used in place is not among what was moved. "plans" are those made so far.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/guessed/epoch.h"
#include "bench/guessed/options.h"
#include "bench/shared/say.h"
#include "cli/options.h"
#include "shim/windows.h"
#include "src/backend/backend.h"
#include "src/base/util.h"
#include "src/core/space.h"
#include "src/residency/residency.h"

#define PROGRAM "bench_guessed"
#define STEADY GUESSED_EPOCHS_MIN
#define BLOCK_BYTES (32u << 20)	      /* as `weir run` has them where they move */
#define THINK_NS 10000u		      /* the program's own time before each call */
#define ODD_BYTES UINT64_C(500000000) /* what an odd launch names has so many at least */

static struct guessed_options asked;

/* A life in the space. */
struct placed {
	void *addr;	 /* NULL: not allocated now */
	uint64_t serial; /* of its allocation */
};

static struct {
	struct trace_file file;
	struct epoch epoch;
	struct weir_machine *machine;
	struct weir_space *space;
	struct weir_stream *stream;
	/* Arrays by a life's number and by that of a kernel's name. */
	struct placed *placed;
	struct windows **windows;
	struct weir_kernel *kernel;
	uint64_t nr_allocated, nr_odd;
	unsigned short random[3];
} run;

/* What an epoch did. */
struct report {
	double s;
	uint64_t moved_bytes[WEIR_DIRECTION_NR], in_place_bytes[WEIR_DIRECTION_NR];
	uint64_t nr_remaps, nr_odd;
};

/* ------------------------------------------------------------------ what is asked */

static struct weir_use guess(const struct epoch_use *named, uint64_t at, uint64_t bytes)
{
	return (struct weir_use){.addr = (char *)run.placed[named->life].addr + at,
				 .bytes = bytes,
				 .kind = asked.safe ? WEIR_ATOMIC : WEIR_WRITE,
				 .read_bytes = bytes};
}

/* Of what a launch names as number u, the bytes that it is taken to use from at on; 0: all. What
 * it names twice has no windows. */
static int find_window(const struct epoch_step *s, uint32_t u, uint64_t at, uint64_t *bytes)
{
	const uint64_t life = s->use[u].life, all = run.epoch.life[life].bytes;
	struct windows **windows = &run.windows[s->kernel];

	*bytes = 0;
	if (!asked.windows || !s->launched || all < WINDOWS_RANGE_MIN)
		return 0;
	for (uint32_t v = 0; v < s->nr_uses; v++)
		if (v != u && s->use[v].life == life)
			return 0;
	if (!*windows)
		*windows = windows_create();
	if (!*windows)
		return say_error(-ENOMEM, "windows of a kernel");
	*bytes = windows_note(*windows, u, run.placed[life].serial, at, all);
	return 0;
}

/* A large range that a launch does not name, as a value in its parameters may happen to point to;
 * 0: there is none, or this launch is like the others. */
static uint64_t find_odd(const struct epoch_step *s)
{
	uint64_t nr = 0, found = 0;

	if (!s->launched || !(asked.odd > 0) || erand48(run.random) >= asked.odd)
		return 0;
	for (uint64_t n = 1; n <= run.epoch.nr_lives; n++) {
		bool other = run.placed[n].addr && run.epoch.life[n].bytes >= ODD_BYTES;

		for (uint32_t u = 0; other && u < s->nr_uses; u++)
			other = s->use[u].life != n;
		/* Each of those so far with the same chance. */
		if (other && erand48(run.random) * (double)++nr < 1)
			found = n;
	}
	run.nr_odd += found != 0;
	return found;
}

/* As in the shim's launches: first what is likely used, of it windows where they are known, and
 * then the whole of those. */
static int ask(const struct epoch_step *s, const struct weir_use *true_use, struct weir_use *use,
	       struct bracket_asked *out)
{
	struct weir_use whole[EPOCH_USES_MAX];
	uint32_t nr = 0, nr_whole = 0;
	uint64_t odd;

	for (uint32_t u = 0; u < s->nr_uses; u++) {
		const struct epoch_use *named = &s->use[u];
		const char *start = run.placed[named->life].addr;
		const uint64_t at = (uint64_t)((const char *)true_use[u].addr - start);
		uint64_t window;
		int err = find_window(s, u, at, &window);

		if (err)
			return err;
		use[nr] = guess(named, named->offset, named->bytes);
		if (window) {
			whole[nr_whole++] = use[nr];
			use[nr] = guess(named, at, window);
		}
		nr++;
	}
	odd = find_odd(s);
	if (odd)
		use[nr++] = guess(&(struct epoch_use){.life = odd}, 0, run.epoch.life[odd].bytes);
	for (uint32_t n = 0; n < nr_whole; n++)
		use[nr + n] = whole[n];
	*out = (struct bracket_asked){.uses = use,
				      .nr = nr + nr_whole,
				      .nr_likely = nr,
				      .open = asked.safe || !nr,
				      .launched = s->launched,
				      .barrier = true,
				      .groups = true};
	return 0;
}

/* ------------------------------------------------------------------ steps */

static int launch(const struct epoch_step *s)
{
	struct weir_use use[2 * EPOCH_USES_MAX + 1], true_use[EPOCH_USES_MAX];
	const struct weir_launch what = {.kernel = &run.kernel[s->kernel],
					 .uses = true_use,
					 .nr_uses = s->nr_uses,
					 .ops = kernel_seconds(s) *
						asked.machine.device[0].ops_per_s};
	struct bracket_asked guessed;
	int err;

	for (uint32_t u = 0; u < s->nr_uses; u++)
		true_use[u] = kernel_true_use(s, u, run.placed[s->use[u].life].addr);
	err = ask(s, true_use, use, &guessed);
	if (err)
		return err;
	err = bracket_begin_guessed(run.space, run.stream, &guessed);
	if (!err)
		err = weir_stream_launch(run.stream, &what);
	if (!err)
		err = weir_end(run.space, run.stream);
	if (!err && s->class->waits)
		err = weir_stream_sync(run.stream);
	return err ? say_error(err, "kernel '%.100s'", what.kernel->name) : 0;
}

static int allocate(uint64_t life)
{
	const struct epoch_life *l = &run.epoch.life[life];
	struct placed *placed = &run.placed[life];
	int err = weir_alloc(run.space, l->bytes, l->on_stream ? run.stream : NULL, &placed->addr);

	if (err)
		return say_error(err, "allocating life %" PRIu64 ", %" PRIu64 " bytes", life,
				 l->bytes);
	placed->serial = ++run.nr_allocated;
	return 0;
}

static int release(uint64_t life)
{
	int err = weir_free(run.space, run.placed[life].addr, run.stream);

	run.placed[life].addr = NULL;
	return err ? say_error(err, "freeing life %" PRIu64, life) : 0;
}

static int do_step(const struct epoch_step *s)
{
	if (s->what == EPOCH_ALLOC)
		return allocate(s->life);
	if (s->what == EPOCH_FREE)
		return release(s->life);
	run.space->backend->ops->host_spend(run.space->backend, THINK_NS);
	return launch(s);
}

/* What is there when the epoch begins, written once. */
static int allocate_first(void)
{
	int err = 0;

	for (uint64_t i = 0; i < run.epoch.nr_start && !err; i++) {
		const uint64_t life = run.epoch.start[i];
		const struct epoch_step fill = {
			.what = EPOCH_LAUNCH,
			.class = kernel_class_find("FillFunctor"),
			.nr_parts = 1,
			.nr_uses = 1,
			.use[0] = {.life = life, .bytes = run.epoch.life[life].bytes}};

		err = allocate(life);
		if (!err)
			err = launch(&fill);
	}
	if (err)
		return err;
	err = weir_space_sync(run.space);
	return err ? say_error(err, "waiting for what the epochs begin with") : 0;
}

/* What is there at the end of an epoch is what the next one begins with. Numbers of lives grow, so
 * that none is overwritten that is still to be read. */
static void carry_over(void)
{
	for (uint64_t i = 0; i < run.epoch.nr_start; i++) {
		const uint64_t start = run.epoch.start[i], end = run.epoch.end[i];
		const struct placed placed = run.placed[end];

		run.placed[end].addr = NULL;
		run.placed[start] = placed;
	}
}

/* ------------------------------------------------------------------ epochs */

static void compare(const struct weir_space_stats *before, const struct weir_space_stats *after,
		    struct report *out)
{
	/* The one GPU's link is the one with bytes: from the host, a, to the GPU. */
	for (uint32_t l = 0; l < WEIR_LINKS_MAX; l++)
		for (uint32_t way = 0; way < WEIR_DIRECTION_NR; way++)
			for (uint32_t cause = 0; cause < WEIR_CAUSE_NR; cause++)
				*(cause == WEIR_CAUSE_INPLACE ? &out->in_place_bytes[way]
							      : &out->moved_bytes[way]) +=
					after->link_bytes[l][way][cause] -
					before->link_bytes[l][way][cause];
	out->nr_remaps = after->nr_remaps - before->nr_remaps;
}

static int do_epoch(struct weir_space_stats *stats, struct report *out)
{
	const uint64_t begin_ns = weir_machine_now_ns(run.machine), nr_odd = run.nr_odd;
	const struct weir_space_stats before = *stats;
	int err = 0;

	*out = (struct report){0};
	for (uint32_t i = 0; i < run.epoch.nr_steps && !err; i++)
		err = do_step(&run.epoch.step[i]);
	if (err)
		return err;
	err = weir_space_sync(run.space);
	if (err)
		return say_error(err, "waiting for an epoch");
	carry_over();
	weir_space_query(run.space, stats);
	compare(&before, stats, out);
	out->s = (double)(weir_machine_now_ns(run.machine) - begin_ns) / 1e9;
	out->nr_odd = run.nr_odd - nr_odd;
	return 0;
}

static void print_epoch(uint32_t n, const struct report *r, uint64_t nr_plans)
{
	printf("{\"epoch\":%" PRIu32 ",\"epoch_s\":%.4f,\"plans\":%" PRIu64
	       ",\"moved_in_bytes\":%" PRIu64 ",\"moved_out_bytes\":%" PRIu64
	       ",\"in_place_in_bytes\":%" PRIu64 ",\"in_place_out_bytes\":%" PRIu64
	       ",\"remaps\":%" PRIu64 ",\"odd\":%" PRIu64 ",\"settled\":%s}\n",
	       n, r->s, nr_plans, r->moved_bytes[WEIR_A_TO_B], r->moved_bytes[WEIR_B_TO_A],
	       r->in_place_bytes[WEIR_A_TO_B], r->in_place_bytes[WEIR_B_TO_A], r->nr_remaps,
	       r->nr_odd, run.space->residency->planner[0].settled ? "true" : "false");
	(void)fflush(stdout);
}

/* first_planned_s: of the first epoch that began with a plan; 0: there was none. */
static void print_end(double settled_s, double first_planned_s, uint64_t host_peak_bytes)
{
	printf("{\"schema\":\"weir-bench-guessed-1\",\"version\":\"%s\",\"machine\":\"%s\","
	       "\"gpu_budget_bytes\":%" PRIu64 ",\"mode\":\"%s\",\"windows\":%s,\"odd_share\":%g,"
	       "\"seed\":%" PRIu64 ",\"epochs\":%" PRIu32 ",\"settled_s\":%.4f,"
	       "\"first_planned_s\":",
	       weir_version(), asked.machine.name, asked.gpu_budget, asked.safe ? "safe" : "fast",
	       asked.windows ? "true" : "false", asked.odd, asked.seed, asked.nr_epochs, settled_s);
	if (first_planned_s > 0)
		printf("%.4f", first_planned_s);
	else
		printf("null");
	printf(",\"host_peak_bytes\":%" PRIu64 "}\n", host_peak_bytes);
}

static int do_epochs(uint32_t host)
{
	double settled_s = 0, first_planned_s = 0;
	struct weir_space_stats stats;
	int err;

	for (int i = 0; i < 3; i++)
		run.random[i] = (unsigned short)(asked.seed >> 16 * i);
	for (int i = 0; i < 8; i++) /* neighbouring seeds begin alike */
		(void)erand48(run.random);
	err = allocate_first();
	weir_space_query(run.space, &stats);
	for (uint32_t n = 0; n < asked.nr_epochs && !err; n++) {
		const bool planned = stats.nr_plans > 0;
		struct report report;

		err = do_epoch(&stats, &report);
		if (err)
			break;
		print_epoch(n, &report, stats.nr_plans);
		if (planned && !(first_planned_s > 0))
			first_planned_s = report.s;
		if (n + STEADY >= asked.nr_epochs)
			settled_s += report.s / STEADY;
	}
	if (err)
		return err;
	print_end(settled_s, first_planned_s, stats.memory[host].peak_bytes);
	return ferror(stdout) || fflush(stdout) ? say_error(-EIO, "writing the results") : 0;
}

/* ------------------------------------------------------------------ opening and closing */

static int make_arrays(void)
{
	const uint32_t nr_names = run.file.nr_names + 1;

	run.placed = calloc(run.epoch.nr_lives + 1, sizeof(*run.placed));
	run.windows = calloc(nr_names, sizeof(*run.windows));
	run.kernel = calloc(nr_names, sizeof(*run.kernel));
	if (!run.placed || !run.windows || !run.kernel)
		return say_error(-ENOMEM, "tables of lives and kernels");
	for (uint32_t n = 0; n < nr_names; n++)
		run.kernel[n].name = n ? run.file.name[n] : "kernel";
	return 0;
}

static void free_arrays(void)
{
	for (uint32_t n = 0; run.windows && n <= run.file.nr_names; n++)
		if (run.windows[n])
			windows_destroy(run.windows[n]);
	free(run.placed);
	free(run.windows);
	free(run.kernel);
}

static int bench(void)
{
	struct weir_space_config config = {
		.devices = 1, .mode = WEIR_PLANNED, .block_bytes = BLOCK_BYTES};
	int host, err = make_arrays();

	config.budget_bytes[asked.machine.device[0].memory] = asked.gpu_budget;
	if (err)
		return err;
	err = weir_machine_simulate(&asked.machine, WEIR_DATA_PHANTOM, &run.machine);
	if (err)
		return say_error(err, "machine '%s'", asked.machine.name);
	host = weir_memory_find(run.machine, "host");
	err = host < 0 ? host : weir_space_create(run.machine, &config, &run.space);
	if (err) {
		(void)say_error(err, "a space of %" PRIu64 " bytes", asked.gpu_budget);
		goto out_machine;
	}
	run.space->guessed = true; /* as `weir run` has it, and digests of blocks */
	err = compare_init(run.space);
	if (!err)
		err = weir_stream_create(run.machine, 0, &run.stream);
	if (err)
		(void)say_error(err, "the space's digests, and a stream");
	else
		err = do_epochs((uint32_t)host);
	weir_space_destroy(run.space);
	if (run.stream)
		weir_stream_destroy(run.stream);
out_machine:
	weir_machine_close(run.machine);
	return err;
}

static int load(char *why, size_t why_bytes)
{
	char text[256];
	int err = trace_file_open(asked.trace, &run.file, why, why_bytes);

	if (err)
		return err;
	err = epoch_load(&run.file, &run.epoch, text, sizeof(text));
	if (err)
		(void)snprintf(why, why_bytes, "%s: %s", asked.trace, text);
	return err;
}

int main(int argc, char **argv)
{
	char why[512];
	int err, status;

	if (options_want_help(argc - 1, argv + 1)) {
		guessed_help();
		return 0;
	}
	err = guessed_options_parse(argc - 1, argv + 1, &asked, why, sizeof(why));
	if (!err)
		err = load(why, sizeof(why));
	if (err) {
		fprintf(stderr, PROGRAM ": %s\n", why);
		status = err == -ENOMEM ? 1 : 2;
	} else {
		say_begin(PROGRAM);
		status = bench() ? 1 : 0;
		free_arrays();
	}
	epoch_free(&run.epoch);
	trace_file_close(&run.file);
	weir_log_set(NULL, NULL);
	return status;
}
