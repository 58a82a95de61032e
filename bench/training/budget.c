/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The GiB is taken at a point of an epoch at which the workload reports its progress, between two
 * brackets, by the thread that queues the launches, and given again a few points later. An epoch's
 * points are divided among its samples; in its part each is taken at the first point from a random
 * one on, by the seed, at which the memory is full, or as late as it can be.
 *
 * With --each a sample is taken only where the memory has the GiB, so that none is short, and at
 * points at which those of the classes that are missing come: their share at each point, as seen so
 * far, weighed by how many are missing, is at least half of what it is at the best one. A point
 * where nothing was taken yet counts as a good one. In each epoch the first is one of these, by
 * the seed, and the next one is taken once the memory has the GiB again. It is given again at
 * once: each change has a plan made, which takes longer than the call, and so there is one a
 * sample.
 *
 * A sample is of one class, the first of these that it meets:
 *
 *   short   fewer chunks left than a GiB has: the memory was not full
 *   in use  a block was unmapped of that memory that a launch names which was queued before the
 *           call and was not done as it began (by its mark, see taken.h)
 *   dirty   evictions or write-backs from that memory to the host were queued during the call, by
 *           the statistics of the link
 *   waited  the host waited for work that was queued before, which is copies: of none of them it is
 *           known how much there was left
 *   clean   a block was unmapped, and none of that
 *   free    chunks left that held nothing, and those alone
 *
 * A call that takes longer than the bare ones may be nothing but the same calls, which take longer
 * beside copies: a sample says how long they took then ("calls_ns").
 *
 * Which part of what a launch names it really touches is not known, nor what it has already
 * touched; "in use" is what the library has to assume, too.
 */
#include "bench/training/budget.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "bench/shared/calls.h"
#include "src/base/clock.h"
#include "src/base/util.h"
#include "src/cost/cost.h"
#include "workloads/gcn/gcn.h"
#include "workloads/gcn/rng.h"

/* The GiB is given again at most so many points later. */
#define GAP_MAX 4u
/* With --each: a point is good enough with this share of the best one's samples that count. */
#define GOOD_SHARE 0.5

const char *const budget_class_name[BUDGET_CLASS_NR] = {
	[BUDGET_FREE] = "free",	  [BUDGET_CLEAN] = "clean", [BUDGET_WAITED] = "waited",
	[BUDGET_DIRTY] = "dirty", [BUDGET_USED] = "in use", [BUDGET_SHORT] = "short",
};

static struct {
	const struct training_options *asked;
	struct weir_machine *machine;
	struct manager *manager;
	uint64_t budget_bytes;
	uint32_t nr_points; /* of an epoch */
	uint64_t key;	    /* of the points */
	struct budget_samples samples;

	uint32_t epoch, nr_epochs_on; /* this one; with samples, this one among them */
	bool on;
	uint32_t point; /* the next one of this epoch */
	uint32_t end;	/* the sample after this epoch's last one */
	uint32_t open;	/* the first sample whose launches may not be done */
	bool taken;	/* the last sample's GiB is not given again yet */

	/* With --each: */
	uint32_t (*at)[BUDGET_CLASS_NR]; /* owned: samples so far, by point and class */
	uint32_t nr_of[BUDGET_CLASS_NR];
	uint32_t first;	 /* point of this epoch at which one may be taken */
	uint64_t end_ns; /* of this computer's clock; 0: warm-up is not over */
} budget;

static uint32_t nr_epochs_on(const struct training_options *asked)
{
	return asked->pairs * asked->epochs_each;
}

/* ------------------------------------------------------------------ before the training */

struct count {
	uint32_t nr; /* calls between the first and the second epoch's end */
};

static int count_call(void *arg, uint32_t done, uint32_t total)
{
	struct count *count = arg;

	(void)total;
	count->nr += done == 1;
	return 0;
}

/* How often the workload reports progress within an epoch, by a run of two that has room. */
static int count_points(const struct training_options *asked, char *why, size_t why_bytes)
{
	const struct bench_params *p = &asked->params;
	struct count count = {0};
	const struct gcn_params gcn = {.nodes = p->nodes[0],
				       .slice = p->slice,
				       .epochs = 2,
				       .seed = p->seed,
				       .hidden = p->hidden,
				       .threads = 1,
				       .progress = count_call,
				       .progress_arg = &count};
	struct weir_machine_desc desc = p->machine;
	struct manager_config config = {.device = p->device, .options = ""};
	struct workload_result result = {0};
	struct manager *manager;
	int err;

	desc.memory[desc.device[p->device].memory].bytes = UINT64_C(1) << 44;
	err = weir_machine_simulate(&desc, WEIR_DATA_PHANTOM, &config.machine);
	if (err) {
		snprintf(why, why_bytes, "machine '%s': %s", desc.name, weir_strerror(err));
		return err;
	}
	err = manager_create("native", &config, &manager);
	if (err) {
		snprintf(why, why_bytes, "manager 'native': %s", weir_strerror(err));
	} else {
		err = gcn_run(manager, &gcn, &result, why, why_bytes);
		manager->ops->destroy(manager);
	}
	weir_machine_close(config.machine);
	gcn_result_free(&result);
	if (!err)
		budget.nr_points = count.nr - 1; /* the first call is between the two */
	return err;
}

/* Each sample has two points of an epoch to itself at the least. */
static int check_points(const struct training_options *asked, char *why, size_t why_bytes)
{
	const uint32_t nr_on = nr_epochs_on(asked);
	const uint64_t most = (uint64_t)(budget.nr_points / 2) * nr_on;

	/* Samples are divided evenly, up to one. */
	if (div_round_up(asked->samples, nr_on) <= budget.nr_points / 2)
		return 0;
	snprintf(why, why_bytes,
		 "--samples '%" PRIu32 "': an epoch has %" PRIu32 " points for them, two each, and "
		 "%" PRIu32 " epochs have room for %" PRIu64 "; choose fewer, more --pairs, or a "
		 "smaller --slice",
		 asked->samples, budget.nr_points, nr_on, most);
	return -EINVAL;
}

/* What is left has to be a budget, too. block_bytes: of the training's space. */
static int check_budget(const struct training_options *asked, uint64_t block_bytes, char *why,
			size_t why_bytes)
{
	const uint64_t least = TRAINING_BUDGET_STEP + 2 * block_bytes;
	const struct bench_params *p = &asked->params;

	if (p->near.bytes[asked->memory] >= least)
		return 0;
	snprintf(why, why_bytes,
		 "--near '%s': 1 GiB and two blocks are taken and left; choose at least %" PRIu64
		 " bytes",
		 p->machine.memory[asked->memory].name, least);
	return -EINVAL;
}

int budget_prepare(const struct training_options *asked, char *why, size_t why_bytes)
{
	int err = check_budget(asked, asked->params.machine.vmm.granularity_bytes, why, why_bytes);

	if (!err)
		err = count_points(asked, why, why_bytes);
	if (!err && !asked->each)
		err = check_points(asked, why, why_bytes);
	budget.asked = asked;
	budget.key = gcn_rng_mix(asked->params.seed + 1);
	budget.budget_bytes = asked->params.near.bytes[asked->memory];
	return err;
}

/* ------------------------------------------------------------------ around the training */

/* The bare calls, a few times. */
static int measure_calls(uint64_t *ns, uint32_t nr, char *why, size_t why_bytes)
{
	const struct calls calls = {.device = budget.asked->params.device,
				    .memory = budget.asked->memory,
				    .block_bytes = budget.samples.block_bytes,
				    .nr_chunks = budget.samples.nr_chunks};

	for (uint32_t i = 0; i < nr; i++) {
		int err = calls_measure(budget.machine, &calls, &ns[i]);

		if (err) {
			snprintf(why, why_bytes, "mapping calls alone, of 1 GiB: %s",
				 weir_strerror(err));
			return err;
		}
	}
	return 0;
}

void budget_watch(struct weir_machine *machine)
{
	budget.machine = machine;
	taken_watch(machine);
}

int budget_start(struct manager *manager, char *why, size_t why_bytes)
{
	struct budget_samples *samples = &budget.samples;
	struct manager_stats stats;
	int err;

	budget.manager = manager;
	manager->ops->stats(manager, &stats);
	samples->block_bytes = stats.block_bytes;
	samples->nr_chunks = (uint32_t)(TRAINING_BUDGET_STEP / stats.block_bytes);
	err = check_budget(budget.asked, stats.block_bytes, why, why_bytes);
	if (err)
		return err;
	samples->sample = calloc(budget.asked->samples, sizeof(*samples->sample));
	if (budget.asked->each)
		budget.at = calloc(budget.nr_points, sizeof(*budget.at));
	if (!samples->sample || (budget.asked->each && !budget.at)) {
		snprintf(why, why_bytes, "not enough memory on this computer");
		return -ENOMEM;
	}
	return measure_calls(samples->before_ns, BUDGET_CALLS, why, why_bytes);
}

int budget_stop(char *why, size_t why_bytes)
{
	return measure_calls(budget.samples.after_ns, BUDGET_CALLS, why, why_bytes);
}

const struct budget_samples *budget_samples(void)
{
	return &budget.samples;
}

void budget_fini(void)
{
	taken_fini();
	free(budget.samples.sample);
	free(budget.at);
	budget.at = NULL;
	budget.samples.sample = NULL;
}

/* ------------------------------------------------------------------ a sample */

/* What has crossed the links from the memory so far, but for what kernels used in place. */
struct crossed {
	uint64_t evicted_bytes, written_back_bytes; /* to the host */
	uint64_t elsewhere_bytes;
};

static void crossed_query(struct crossed *out)
{
	const struct bench_params *p = &budget.asked->params;
	const uint32_t memory = budget.asked->memory, host = bench_host_memory(p);
	struct manager_stats stats;

	*out = (struct crossed){0};
	budget.manager->ops->stats(budget.manager, &stats);
	for (uint32_t l = 0; l < p->machine.nr_links; l++) {
		const struct weir_link_desc *link = &p->machine.link[l];
		const uint64_t *bytes =
			stats.near[l][link->a == memory ? WEIR_A_TO_B : WEIR_B_TO_A];

		if (link->a != memory && link->b != memory)
			continue;
		if (link->a == host || link->b == host) {
			out->evicted_bytes += bytes[WEIR_CAUSE_EVICTION];
			out->written_back_bytes += bytes[WEIR_CAUSE_WRITEBACK];
			continue;
		}
		for (int cause = 0; cause < WEIR_CAUSE_NR; cause++)
			if (cause != WEIR_CAUSE_INPLACE)
				out->elsewhere_bytes += bytes[cause];
	}
}

static int set_budget(uint64_t bytes, uint64_t *ns)
{
	struct manager *m = budget.manager;
	const uint64_t start = weir_machine_now_ns(budget.machine);
	int err = m->ops->set_budget(m, budget.asked->memory, bytes);

	*ns = weir_machine_now_ns(budget.machine) - start;
	return err;
}

static int complain(int err, const char *what, char *why, size_t why_bytes)
{
	if (err)
		snprintf(why, why_bytes, "%s 1 GiB of %s in epoch %" PRIu32 ": %s", what,
			 budget.asked->memory_name, budget.epoch + 1, weir_strerror(err));
	return err;
}

static int take(struct budget_sample *s, char *why, size_t why_bytes)
{
	struct crossed before, after;
	int err, err_taken;

	crossed_query(&before);
	taken_begin(budget.asked->memory);
	s->start_ns = weir_machine_now_ns(budget.machine);
	err = set_budget(budget.budget_bytes - TRAINING_BUDGET_STEP, &s->shrink_ns);
	err_taken = taken_end(&s->taken);
	crossed_query(&after);
	s->busy = err == -EBUSY;
	s->evicted_bytes = after.evicted_bytes - before.evicted_bytes;
	s->written_back_bytes = after.written_back_bytes - before.written_back_bytes;
	s->elsewhere_bytes = after.elsewhere_bytes - before.elsewhere_bytes;
	budget.taken = !err || s->busy;
	return complain(s->busy || err ? (s->busy ? 0 : err) : err_taken, "taking back", why,
			why_bytes);
}

/* The bare calls beside the last sample's launches, in the room that it left. */
static int give(struct budget_sample *s, char *why, size_t why_bytes)
{
	struct budget_samples *samples = &budget.samples;
	int err = 0;

	budget.taken = false;
	if (samples->nr == budget.asked->samples && !s->busy)
		err = measure_calls(&samples->training_ns, 1, why, why_bytes);
	if (!err)
		err = complain(set_budget(budget.budget_bytes, &s->grow_ns), "giving again", why,
			       why_bytes);
	return err;
}

/* From the start until a fence was reached; the fence becomes 0 once that is known. */
static void note_reached(uint64_t start_ns, fence_t *fence, uint64_t *ns)
{
	const uint64_t at_ns = *fence ? taken_reached(*fence) : 0;

	if (!at_ns)
		return;
	*fence = 0;
	*ns = at_ns > start_ns ? at_ns - start_ns : 0;
}

/* Before the times of marks are forgotten. */
static void note_done(void)
{
	for (uint32_t i = budget.open; i < budget.samples.nr; i++) {
		struct budget_sample *s = &budget.samples.sample[i];

		note_reached(s->start_ns, &s->taken.queued, &s->queued_ns);
		note_reached(s->start_ns, &s->taken.used, &s->used_ns);
		if (i == budget.open && !s->taken.queued && !s->taken.used)
			budget.open++;
	}
}

/* ------------------------------------------------------------------ where in the training */

/* Samples that are taken before the so-manieth epoch with samples. */
static uint32_t nr_before(uint32_t on)
{
	const struct training_options *asked = budget.asked;

	return (uint32_t)((uint64_t)asked->samples * on / nr_epochs_on(asked));
}

/* From where on the next sample is taken, and when it is given again. */
static void choose_points(void)
{
	struct budget_sample *s = &budget.samples.sample[budget.samples.nr];
	const uint32_t first = nr_before(budget.nr_epochs_on), i = budget.samples.nr;
	const uint32_t width = budget.nr_points / (budget.end - first);
	const uint32_t part = (i - first) * width;

	s->epoch = budget.epoch;
	s->gap = 1 + (uint32_t)gcn_rng_below(budget.key, 2ULL * i, MIN(GAP_MAX, width - 1));
	s->point = part + (uint32_t)gcn_rng_below(budget.key, 2ULL * i + 1, width - s->gap);
	s->latest = part + width - s->gap - 1;
}

static bool is_full(void)
{
	const uint64_t block_bytes = budget.samples.block_bytes;

	return taken_held(budget.asked->memory) >= budget.budget_bytes / block_bytes * block_bytes;
}

/* Whether it is now: the memory is as full as it can be, or there is no time left. */
static bool is_due(const struct budget_sample *s, uint32_t point)
{
	return point >= s->latest || (point >= s->point && is_full());
}

/* ------------------------------------------------------------------ with --each */

static uint32_t nr_missing(int class)
{
	const uint32_t each = budget.asked->classes >> class & 1 ? budget.asked->each : 0;

	return each - MIN(budget.nr_of[class], each);
}

/* The share of a point's samples that are of classes that are missing: of one that more are missing
 * of, each counts more. */
static double share_at(uint32_t point)
{
	uint32_t nr = 1, most = 1;
	double nr_asked = 1;

	for (int class = 0; class < BUDGET_CLASS_NR; class ++)
		most = MAX(most, nr_missing(class));
	for (int class = 0; class < BUDGET_CLASS_NR; class ++) {
		nr += budget.at[point][class];
		nr_asked += (double)budget.at[point][class] * nr_missing(class) / most;
	}
	return nr_asked / nr;
}

static bool is_good(uint32_t point)
{
	double best = 0;

	for (uint32_t p = 0; p < budget.nr_points; p++)
		best = MAX(best, share_at(p));
	return point < budget.nr_points && share_at(point) >= GOOD_SHARE * best;
}

/* One of the good points, each as likely. */
static uint32_t choose_first(uint32_t epoch)
{
	uint32_t nr = 0, n, p = 0;

	for (uint32_t i = 0; i < budget.nr_points; i++)
		nr += is_good(i);
	n = (uint32_t)gcn_rng_below(budget.key, epoch, MAX(nr, 1));
	while (p < budget.nr_points && (!is_good(p) || n-- > 0))
		p++;
	return p;
}

/* ------------------------------------------------------------------ epochs and points */

int budget_epoch(uint32_t epoch, bool on, char *why, size_t why_bytes)
{
	const struct training_options *asked = budget.asked;
	int err = 0;

	note_done();
	if (budget.taken)
		err = give(&budget.samples.sample[budget.samples.nr - 1], why, why_bytes);
	budget.nr_epochs_on += budget.on;
	budget.epoch = epoch;
	budget.on = on;
	budget.point = 0;
	/* Epochs without samples pay for the marks, too. */
	taken_launches(epoch + 1 >= asked->warm_up);
	if (asked->each) {
		budget.first = choose_first(epoch);
		if (on && !budget.end_ns)
			budget.end_ns = clock_now_ns() + asked->limit_s * UINT64_C(1000000000);
		return err;
	}
	budget.end = nr_before(budget.nr_epochs_on + on);
	if (budget.samples.nr < budget.end)
		choose_points();
	return err;
}

/* A point's part of an epoch with --pairs. */
static int point_of_pairs(uint32_t point, char *why, size_t why_bytes)
{
	struct budget_samples *samples = &budget.samples;
	struct budget_sample *s = samples->sample + samples->nr;
	int err = 0;

	if (budget.taken && point >= s[-1].point + s[-1].gap) {
		err = give(s - 1, why, why_bytes);
		if (!err && samples->nr < budget.end)
			choose_points();
	} else if (!budget.taken && samples->nr < budget.end && is_due(s, point)) {
		samples->nr++;
		s->point = point;
		err = take(s, why, why_bytes);
	}
	return err;
}

/* Whether the memory has the GiB: as budget_class_of() counts it, a sample is not short. */
static bool has_step(void)
{
	const uint64_t block_bytes = budget.samples.block_bytes;
	const uint64_t left = (budget.budget_bytes - TRAINING_BUDGET_STEP) / block_bytes;

	return taken_held(budget.asked->memory) >=
	       (left + TRAINING_BUDGET_STEP / block_bytes) * block_bytes;
}

static int take_of_each(uint32_t point, char *why, size_t why_bytes)
{
	struct budget_samples *samples = &budget.samples;
	struct budget_sample *s = &samples->sample[samples->nr];
	enum budget_class class;
	int err;

	s->epoch = budget.epoch;
	s->point = point;
	samples->nr++;
	err = take(s, why, why_bytes);
	if (!err)
		err = give(s, why, why_bytes);
	class = budget_class_of(s);
	budget.at[point][class]++;
	budget.nr_of[class]++;
	return err;
}

static int point_of_each(uint32_t point, char *why, size_t why_bytes)
{
	if (budget.samples.nr < budget.asked->samples && point >= budget.first &&
	    !budget_has_each() && has_step() && is_good(point))
		return take_of_each(point, why, why_bytes);
	return 0;
}

bool budget_has_each(void)
{
	for (int class = 0; class < BUDGET_CLASS_NR; class ++)
		if (nr_missing(class))
			return false;
	return true;
}

/* What used the last one is done, too, unless its time is not known any more. */
bool budget_is_complete(void)
{
	const struct budget_samples *samples = &budget.samples;
	bool enough = budget_has_each() || samples->nr == budget.asked->samples;

	if (budget.end_ns && clock_now_ns() >= budget.end_ns)
		return true;
	return enough && (budget.open == samples->nr ||
			  budget.epoch > samples->sample[samples->nr - 1].epoch + 1);
}

double budget_progress(void)
{
	uint32_t nr = 0, nr_asked = 0;

	for (int class = 0; class < BUDGET_CLASS_NR; class ++)
		if (budget.asked->classes >> class & 1) {
			nr_asked += budget.asked->each;
			nr += budget.asked->each - nr_missing(class);
		}
	return (double)nr / nr_asked;
}

int budget_point(char *why, size_t why_bytes)
{
	const uint32_t point = budget.point++;

	note_done();
	taken_forget();
	if (!budget.on)
		return 0;
	return budget.asked->each ? point_of_each(point, why, why_bytes)
				  : point_of_pairs(point, why, why_bytes);
}

enum budget_class budget_class_of(const struct budget_sample *s)
{
	const uint64_t full =
		TRAINING_BUDGET_STEP / budget.samples.block_bytes * budget.samples.block_bytes;

	if (s->taken.freed_bytes < full && !s->busy)
		return BUDGET_SHORT;
	if (s->taken.nr_used)
		return BUDGET_USED;
	if (s->evicted_bytes || s->written_back_bytes)
		return BUDGET_DIRTY;
	if (s->taken.nr_waits)
		return BUDGET_WAITED;
	return s->taken.nr_blocks ? BUDGET_CLEAN : BUDGET_FREE;
}
