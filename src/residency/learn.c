/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the record to the plan's input: the events of the period become steps with uses of lives,
 * with link times from the declared bytes and computation times from what was measured.
 */
#include <errno.h>
#include <stdlib.h>

#include "src/base/hash.h"
#include "src/base/log.h"
#include "src/core/tracing.h"
#include "src/cost/cost.h"
#include "src/residency/residency.h"

#define NO_LIFE UINT32_MAX
/* A life of at most so many steps may be a loop's temporary: any such one has the same shape. */
#define SHORT_LIFE 16

/* Kernels whose times are told apart. */
#define KERNEL_RATES 64u
/* A use in place is slow when it takes so many times as long as modelled, and not slower than: */
#define SLOW_MIN 1.5
#define SLOW_MAX 32
/* A bracket tells how many accesses hit if it takes so many times as long when none does; it was
 * not for these that it took its time if that is less than so many times that of everything else;
 * and what is known of them changes by no less than that. */
#define MISSED_MIN 1.1
#define OTHER_MAX 1.05
#define MISSED_STEP 0.1
/* A range is taken to be read only if comparisons found it so more often than changed. */
#define UNCHANGED_TIMES 2u

/* What brackets of a kernel took with everything resident, and by the cost model, in all. */
struct kernel_rate {
	uint64_t key;
	double measured, modelled;
};

/* Everything that learning holds while it works. */
struct learning {
	struct weir_space *space;
	const struct planner *planner;
	const struct record *record;
	uint64_t first; /* event; the period is first .. first + period - 1 */
	uint64_t period;
	uint32_t *born; /* by event of the period: the life it allocates, or NO_LIFE */
	life_t *old; /* hash table of lives allocated before the period and used in it; 0: free */
	uint32_t *old_life; /* the plan's number of each */
	uint64_t old_mask;  /* the table's size less 1 */
	struct plan_step *step;
	struct plan_use *use;
	struct plan_life *life;
	struct range **range;
	uint32_t *step_of_event;
	uint32_t *used, *discarded; /* by life: steps from its birth to its last use, discard */
	uint32_t *unused;	    /* by life born in the period: the same to its first use */
	uint32_t nr_steps, nr_uses, nr_lives, max_lives;
	struct kernel_rate rate[KERNEL_RATES]; /* in the order in which they were met */
	uint32_t nr_rates;
};

static void learning_fini(struct learning *l)
{
	free(l->born);
	free(l->old);
	free(l->old_life);
	free(l->step);
	free(l->use);
	free(l->life);
	free(l->range);
	free(l->step_of_event);
	free(l->used);
	free(l->discarded);
	free(l->unused);
}

static int learning_init(struct learning *l, struct weir_space *space, struct planner *p)
{
	const struct record *record = &p->record;
	uint64_t nr_uses = 0;

	*l = (struct learning){
		.space = space, .planner = p, .record = record, .period = record->period};
	l->first = record->next_event - record->period;
	for (uint64_t k = 0; k < l->period; k++)
		nr_uses += record_event(record, l->first + k)->nr_uses;
	l->max_lives = (uint32_t)(l->period + nr_uses);
	/* A life is entered by an event or a use: half of the table stays free. */
	while (l->old_mask < 2ull * l->max_lives)
		l->old_mask = 2 * l->old_mask + 1;
	l->born = malloc((l->period + 1) * sizeof(*l->born));
	l->old = calloc(l->old_mask + 1, sizeof(*l->old));
	l->old_life = malloc((l->old_mask + 1) * sizeof(*l->old_life));
	l->step = calloc(l->period + 1, sizeof(*l->step));
	l->use = calloc(nr_uses + 1, sizeof(*l->use));
	l->life = calloc(l->max_lives + 1u, sizeof(*l->life));
	l->range = calloc(l->max_lives + 1u, sizeof(struct range *));
	l->step_of_event = calloc(l->period + 1, sizeof(uint32_t));
	l->used = calloc(l->max_lives + 1u, sizeof(*l->used));
	l->discarded = calloc(l->max_lives + 1u, sizeof(*l->discarded));
	l->unused = calloc(l->max_lives + 1u, sizeof(*l->unused));
	if (!l->born || !l->old || !l->old_life || !l->step || !l->use || !l->life || !l->range ||
	    !l->step_of_event || !l->used || !l->discarded || !l->unused) {
		learning_fini(l);
		return -ENOMEM;
	}
	return 0;
}

/*
 * The life born in the period that is there what this one, freed in the period, was before: each
 * was allocated a period after the last, by an event like it. 0: there is none, or the record does
 * not go back so far.
 */
static life_t successor(const struct learning *l, life_t life)
{
	while (life < l->first) {
		if (life < l->record->first_event ||
		    record_event(l->record, life)->shape !=
			    record_event(l->record, life + l->period)->shape)
			return 0;
		life += l->period;
	}
	return l->born[life - l->first] != NO_LIFE ? life : 0;
}

/* Where a life allocated before the period is in the table, or belongs. */
static uint64_t old_place(const struct learning *l, life_t life)
{
	uint64_t at = hash_mix(0, life) & l->old_mask;

	while (l->old[at] && l->old[at] != life)
		at = (at + 1) & l->old_mask;
	return at;
}

static uint32_t find_old(const struct learning *l, life_t life)
{
	uint64_t at = old_place(l, life);

	return l->old[at] ? l->old_life[at] : NO_LIFE;
}

static void add_old(struct learning *l, life_t life, uint32_t index)
{
	uint64_t at = old_place(l, life);

	l->old[at] = life;
	l->old_life[at] = index;
}

/* The plan's number of a life, added at need. */
static uint32_t life_index(struct learning *l, life_t life, uint32_t nr_blocks)
{
	uint32_t index;

	if (life >= l->first && l->born[life - l->first] != NO_LIFE)
		return l->born[life - l->first];
	index = find_old(l, life);
	if (index != NO_LIFE)
		return index;
	index = l->nr_lives++;
	l->life[index] = (struct plan_life){.nr_blocks = nr_blocks, .permanent = true};
	add_old(l, life, index);
	return index;
}

/* First walk: births, deaths, the numbers of steps. */
static void learn_lives(struct learning *l)
{
	for (uint64_t k = 0; k < l->period; k++) {
		const struct event *event = record_event(l->record, l->first + k);

		l->born[k] = NO_LIFE;
		l->step_of_event[k] = l->nr_steps;
		if (event->kind == EVENT_BEGIN) {
			l->nr_steps++;
		} else if (event->kind == EVENT_ALLOC) {
			l->born[k] = l->nr_lives;
			/* Until a free is found: to the end of the period. */
			l->life[l->nr_lives++] = (struct plan_life){.nr_blocks = event->nr_blocks,
								    .birth = l->nr_steps,
								    .death = UINT32_MAX};
		}
	}
	for (uint64_t k = 0; k < l->period; k++) {
		const struct event *event = record_event(l->record, l->first + k);
		struct plan_life *life;
		life_t born;

		if (event->kind != EVENT_FREE || !event->life)
			continue;
		born = successor(l, event->life);
		if (!born)
			continue;
		life = &l->life[l->born[born - l->first]];
		if (born != event->life)
			add_old(l, event->life, l->born[born - l->first]);
		/* One that is there before its predecessor goes outlives the period. */
		if (l->first + k - event->life > l->period)
			life->permanent = true;
		else
			life->death = l->step_of_event[k];
	}
	for (uint32_t i = 0; i < l->nr_lives; i++)
		if (l->life[i].death == UINT32_MAX)
			l->life[i].death = l->nr_steps;
}

static bool is_short(const struct learning *l, const struct plan_life *life)
{
	return !life->permanent &&
	       (life->death + l->nr_steps - life->birth) % l->nr_steps <= SHORT_LIFE;
}

/* Steps from a life's birth to one of the period, and 1 more: a period may begin in the middle of
 * a life. */
static uint32_t age_at(const struct learning *l, uint32_t life, uint32_t step)
{
	return (step + l->nr_steps - l->life[life].birth) % l->nr_steps + 1;
}

/* Find the first uses of the lives that are born in the period. */
static void learn_first_uses(struct learning *l)
{
	for (uint64_t k = 0; k < l->period; k++) {
		const struct event *event = record_event(l->record, l->first + k);
		const struct record_use *uses = record_uses(l->record, event);

		for (uint32_t i = 0; event->kind == EVENT_BEGIN && i < event->nr_uses; i++) {
			uint32_t life = life_index(l, uses[i].life, uses[i].nr_range_blocks);
			uint32_t age = age_at(l, life, l->step_of_event[k]);

			if (uses[i].kind != WEIR_DISCARD && !l->life[life].permanent &&
			    (!l->unused[life] || age < l->unused[life]))
				l->unused[life] = age;
		}
	}
}

static const struct weir_device_desc *device_of(const struct learning *l)
{
	return space_device(l->space, l->planner->own);
}

static void learn_use(struct learning *l, const struct event *event, uint32_t step,
		      const struct record_use *recorded, struct plan_use *out)
{
	struct weir_use use = record_use_declared(recorded);
	struct record_use written = *recorded;

	out->life = life_index(l, recorded->life, recorded->nr_range_blocks);
	out->kind = recorded->kind;
	out->first = recorded->first;
	out->nr = recorded->nr;
	out->whole = recorded->nr == recorded->nr_range_blocks;
	out->fresh =
		l->unused[out->life] == age_at(l, out->life, step) && !l->life[out->life].permanent;
	/* Who guesses says that all is read; but of what has no contents nothing is. */
	if (out->fresh && event->guess) {
		written.write_bytes += written.read_bytes;
		written.read_bytes = 0;
	}
	out->in = written.read_bytes * cost_expansion(&use) / (double)l->space->block_bytes;
	out->out = written.write_bytes * cost_expansion(&use) / (double)l->space->block_bytes;
	out->hbm_ns = cost_hbm_ns(device_of(l), &use);
	learn_place_rates(l->space, l->planner->own, l->planner->missed, &written, out->at);
}

/* The event like that one a period earlier; NULL: it is not in the record, or something else came
 * there, before the repetition was resumed. */
static struct event *period_before(const struct learning *l, uint64_t number)
{
	struct event *event;

	if (number < l->record->first_event + l->period)
		return NULL;
	event = record_event(l->record, number - l->period);
	return event->shape == record_event(l->record, number)->shape ? event : NULL;
}

/* A bracket's event as it was last measured: a period earlier, if this one is not over. */
static struct event *last_measured(const struct learning *l, uint64_t number)
{
	struct event *event = record_event(l->record, number);
	struct event *before = event->ns <= 0 ? period_before(l, number) : NULL;

	return before ? before : event;
}

/* Of what a use names, the share that it touches. */
static double share_of(const struct learning *l, const struct event *event,
		       const struct record_use *use)
{
	return guess_share_planned(l->space->residency->guesses, event->guess, use->guess);
}

/* HBM time of a bracket by the cost model, without a factor. */
static double modelled_ns(const struct learning *l, const struct event *event)
{
	const struct record_use *uses = record_uses(l->record, event);
	double ns = 0;

	for (uint32_t i = 0; i < event->nr_uses; i++) {
		struct weir_use use = record_use_declared(&uses[i]);

		ns += cost_hbm_ns(device_of(l), &use) * share_of(l, event, &uses[i]);
	}
	return ns;
}

/* Where the times of a kernel are summed up that uses its parts as this bracket's does. */
static struct kernel_rate *kernel_rate(struct learning *l, const struct event *event,
				       const char *kernel)
{
	const struct record_use *uses = record_uses(l->record, event);
	uint64_t key = hash_mix(event->nr_uses, (uintptr_t)kernel);

	for (uint32_t i = 0; i < event->nr_uses; i++)
		key = hash_mix(key, uses[i].granule * 64u + uses[i].kind * 2u +
					    (uint64_t)uses[i].pattern);
	for (uint32_t i = 0; i < l->nr_rates; i++)
		if (l->rate[i].key == key)
			return &l->rate[i];
	if (l->nr_rates == KERNEL_RATES)
		return NULL;
	l->rate[l->nr_rates].key = key;
	return &l->rate[l->nr_rates++];
}

/* Sum up what kernels took with everything resident. */
static void learn_rates(struct learning *l)
{
	double launch_ns = (double)device_of(l)->launch_ns;

	for (uint64_t k = 0; k < l->period; k++) {
		const struct event *event = record_event(l->record, l->first + k);
		const struct event *known = last_measured(l, l->first + k);
		struct kernel_rate *rate;

		if (event->kind != EVENT_BEGIN || known->ns <= 0 || known->in_place)
			continue;
		rate = kernel_rate(l, event, known->kernel);
		if (rate) {
			rate->measured += MAX(known->ns - launch_ns, 0);
			rate->modelled += modelled_ns(l, event);
		}
	}
}

/* Computation time of a bracket: as measured with everything resident; else from its bytes, by what
 * other brackets of the kernel took, or by the description. */
static double learn_compute(struct learning *l, uint64_t number)
{
	const struct event *event = record_event(l->record, number);
	const struct event *known = last_measured(l, number);
	const double shortest = guess_shortest_ns(l->space->residency->guesses, event->guess);
	const double resident = guess_resident_ns(l->space->residency->guesses, event->guess);
	const struct kernel_rate *rate;
	double factor, ns;

	if (known->ns > 0 && !known->in_place)
		return known->ns;
	if (resident > 0)
		return resident;
	rate = kernel_rate(l, event, known->kernel);
	factor = rate && rate->modelled > 0
			 ? rate->measured / rate->modelled
			 : cost_kernel_factor(&l->space->backend->desc, known->kernel);
	ns = (double)device_of(l)->launch_ns + factor * modelled_ns(l, event);
	return shortest > 0 ? MIN(ns, shortest) : ns;
}

/*
 * How many random accesses in place hit translation caches. These are said to hold so much of the
 * memory behind a link (inplace_reach_bytes, measured in memory that was new); of memory that a
 * program has had for a while, a chunk here and there, they hold less on H200s, or nothing: gathers
 * of 45 million rows of 1 KiB, a tenth of them on the host, got 36.8 million a second of those,
 * where the model has 45, and 37 if none hits; of 30 million rows 43.6, where it has 50.
 * Taken together over the period's brackets for which that makes a difference, and beside which no
 * copies ran. Where these took no longer than for something else, as much as is known may hit, or
 * more. Without any, what is known stays.
 */
static void learn_missed(struct learning *l, struct planner *p)
{
	double measured = 0, other = 0, reached = 0, missed = 0, share;

	for (uint64_t k = 0; k < l->period; k++) {
		const struct event *event = record_event(l->record, l->first + k);
		const struct event *known = last_measured(l, l->first + k);
		double compute, least;

		if (event->kind != EVENT_BEGIN || event->guess || known->ns <= 0 ||
		    !known->in_place || known->beside)
			continue;
		compute = learn_compute(l, l->first + k);
		least = MAX(compute, known->link.ns);
		if (known->link.missed_ns < MISSED_MIN * least)
			continue;
		measured += known->ns - known->link.serial * MIN(compute, known->link.ns);
		other += least;
		reached += known->link.reached_ns;
		missed += known->link.missed_ns;
	}
	if (!(measured > 0))
		return;
	share = MAX(0, MIN((measured - reached) / (missed - reached), 1));
	if (measured < OTHER_MAX * other)
		share = MIN(share, p->missed);
	if (share < p->missed - MISSED_STEP || share > p->missed + MISSED_STEP)
		p->missed = share;
}

/*
 * How many times as long as modelled a bracket's use in place takes, as measured under this plan or
 * one before: a kernel with few bytes in flight, such as a matrix product, gets little out of a
 * link. Kept in its event. Other things make a kernel slow, too, and none makes it fast: copies
 * beside it may have had half of the link, and what it takes at another time is the most that it
 * can be.
 */
static double learn_slow(const struct learning *l, uint64_t number, double compute_ns)
{
	struct event *event = record_event(l->record, number);
	const struct event *known = last_measured(l, number), *before = period_before(l, number);
	const double link_ns = known->link.ns * (known->beside ? 2 : 1);
	double slow = known->slow, modelled = MAX(compute_ns, link_ns);

	if (event->guess)
		return 1; /* shares have it in them */
	modelled += known->link.serial * MIN(compute_ns, link_ns);
	if (before)
		slow = MAX(slow, before->slow);
	if (known->ns > 0 && known->in_place && known->link.ns > 0) {
		if (slow > 1)
			slow = MIN(slow, known->ns / known->link.ns);
		else if (known->ns > SLOW_MIN * modelled)
			slow = MIN(known->ns / link_ns, SLOW_MAX);
	}
	event->slow = slow;
	return MAX(slow, 1);
}

/* Note where the contents of a life end: its last whole discard, if no use follows it. */
static void learn_end(struct learning *l, const struct plan_use *use, uint32_t step)
{
	uint32_t age = age_at(l, use->life, step);

	if (use->kind != WEIR_DISCARD)
		l->used[use->life] = MAX(l->used[use->life], age);
	else if (use->whole)
		l->discarded[use->life] = MAX(l->discarded[use->life], age);
}

/* Contents that a program discards need no room until it frees the range. */
static void learn_discards(struct learning *l)
{
	for (uint32_t i = 0; i < l->nr_lives; i++) {
		struct plan_life *life = &l->life[i];

		if (!life->permanent && l->discarded[i] > l->used[i])
			life->death =
				(life->birth + l->discarded[i] + l->nr_steps - 2) % l->nr_steps + 1;
	}
}

/* Second walk: steps and their uses. */
static void learn_steps(struct learning *l)
{
	for (uint64_t k = 0; k < l->period; k++) {
		const struct event *event = record_event(l->record, l->first + k);
		const struct record_use *uses = record_uses(l->record, event);
		struct plan_step *step = &l->step[l->step_of_event[k]];
		double compute, slow;

		if (event->kind != EVENT_BEGIN)
			continue;
		compute = learn_compute(l, l->first + k);
		slow = learn_slow(l, l->first + k, compute);
		*step = (struct plan_step){.first_use = l->nr_uses, .compute_ns = compute};
		step->shape = hash_mix(event->nr_uses, event->stream);
		for (uint32_t i = 0; i < event->nr_uses; i++) {
			struct plan_use *use = &l->use[l->nr_uses];
			const struct plan_life *life;
			const double share = share_of(l, event, &uses[i]);

			learn_use(l, event, l->step_of_event[k], &uses[i], use);
			use->in *= share;
			use->out *= share;
			use->hbm_ns *= share;
			for (uint32_t b = 0; b < PLAN_BELOW_MAX; b++) {
				use->at[b].in_ns *= share * slow;
				use->at[b].out_ns *= share * slow;
				use->at[b].serial_ns *= share * slow;
			}
			life = &l->life[use->life];
			learn_end(l, use, l->step_of_event[k]);
			if (use->kind != WEIR_DISCARD) {
				step->nr_uses++;
				l->nr_uses++;
			}
			step->shape = hash_mix(step->shape, uses[i].bytes);
			step->shape =
				hash_mix(step->shape, uses[i].granule * 64u + uses[i].kind * 2u +
							      (uint64_t)uses[i].pattern);
			step->shape =
				hash_mix(step->shape, is_short(l, life) ? life->nr_blocks
									: use->life + (1ull << 40));
		}
	}
}

/* The ranges that the plan's lives are now, and what was advised on these. */
static void learn_ranges(struct learning *l)
{
	struct weir_space *space = l->space;

	for (uint32_t r = 0; r < space->nr_ranges; r++) {
		struct range *range = space->range[r];
		uint32_t index = NO_LIFE;

		if (range->residency->planner != l->planner || !range->life || !range_lives(range))
			continue;
		if (range->life >= l->first)
			index = l->born[range->life - l->first];
		else
			index = find_old(l, range->life);
		if (index == NO_LIFE)
			continue;
		l->range[index] = range;
		l->life[index].below = range->residency->prefer > PLACE_OWN;
		l->life[index].far = range->residency->prefer == space_host(space);
	}
}

/* What comparisons found unchanged most of the time leaves as if it was only read. */
static void learn_unchanged(struct learning *l)
{
	for (uint32_t u = 0; u < l->nr_uses; u++) {
		const struct range *range = l->range[l->use[u].life];

		if (range && range->nr_same > UNCHANGED_TIMES * range->nr_changed &&
		    l->use[u].kind == WEIR_WRITE)
			l->use[u].kind = WEIR_READ;
	}
}

/* Have the plan made. The job has from here on what it is made of, and how it is followed. */
static int make_plan(struct learning *l, struct planner *p, uint32_t haste)
{
	struct plan_input input = {
		.step = l->step,
		.use = l->use,
		.life = l->life,
		.nr_steps = l->nr_steps,
		.nr_uses = l->nr_uses,
		.nr_lives = l->nr_lives,
		.haste = haste,
		.guessed = p->record.guessed,
	};
	struct plan_job *job;

	learn_places(l->space, p->own, &input);
	job = aside_new(p, &input, l->range, l->born, l->step_of_event);
	if (!job)
		return -ENOMEM;
	l->step = NULL;
	l->use = NULL;
	l->life = NULL;
	l->born = l->step_of_event = NULL;
	return aside_make(l->space, p, job);
}

int learn_plan(struct weir_space *space, struct planner *p, uint32_t haste)
{
	struct learning l;
	int err;

	aside_cancel(p);
	err = learning_init(&l, space, p);
	if (err)
		return err;
	learn_lives(&l);
	learn_rates(&l);
	learn_missed(&l, p);
	learn_first_uses(&l);
	learn_steps(&l);
	learn_discards(&l);
	learn_ranges(&l);
	learn_unchanged(&l);
	err = l.nr_steps ? make_plan(&l, p, haste) : -ENOENT;
	learning_fini(&l);
	return err;
}

void learn_forget(struct weir_space *space, struct planner *p)
{
	/* A suspended one is not followed any more as it is. */
	if (p->plan)
		tracing_plan(space, p->own, NULL);
	aside_cancel(p);
	held_release(p);
	tried_forget(p);
}
