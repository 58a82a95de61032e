/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The model of one period under given levels: which blocks move in which stage, and the time.
 *
 * Blocks of a life are alike here, so its state is how many are resident and how many of those are
 * dirty, as real numbers. For each stage, in order:
 *
 *   settle      what must be resident and is not comes in first, what must make room for it goes
 *               out first: the stage waits for both (a stall), and for the mapping calls
 *   run         each step takes the larger of computation and link time of what is in place
 *   look ahead  what the link has left during the stage serves the stages to come, the nearest
 *               first: evict what some stage will have no room for, farthest next use first; fetch
 *               what it will use, where there is room from now until then; the mapping calls take
 *               place during the stage
 *
 * A block of host memory is mapped from when it is used in place until it is fetched, or the life
 * ends; evicting a block only unmaps it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/residency/plan_parts.h"

/* Stages looked ahead. */
#define AHEAD_MAX 32
/* Blocks; less is nothing. */
#define TINY 1e-6

#define NO_ACTION UINT32_MAX
#define NO_LIFE UINT32_MAX

/* A life while the model runs. A turn is a stage, counted through all runs. */
struct model_life {
	double resident, dirty; /* blocks */
	double in_place;	/* blocks of the host that are mapped */
	double ahead;		/* blocks resident by the stage looked at */
	double wanted;		/* level in the stage looked at */
	uint64_t looked;	/* the turn in which `ahead` is valid; in others it is `resident` */
	uint64_t used;	      /* the last turn whose stage, or one looked at in it, uses the life */
	uint32_t last_action; /* recorded for it */
};

/* A walk over the lives that may be evicted after a stage. Those before a victim are of no use any
 * more. Of lives alike, the clean ones go first: they are looked for once. */
struct candidates {
	struct victim victim, clean;
	bool any, any_clean; /* there is a victim; a clean one of its group */
	bool looked;	     /* for clean ones, in the group: */
	uint32_t group;
};

struct plan_model {
	const struct plan_input *input;
	const struct stages *stages;
	struct victims *victims; /* lives with something resident */
	struct model_life *life;
	const double *level; /* by stage_life, of this run */
	double taken;	     /* blocks resident, of all lives */
	double time_ns, copied_ns;
	/* What is left of the link during the stage, in blocks. */
	double slack_in, slack_out;
	double calls_ns; /* of mapping, since it was last set */
	double *reached; /* by stage_life: what is resident there; NULL: not asked */
	uint64_t turn, work;
	struct plan_action *action;
	uint32_t nr_actions, max_actions;
	bool recording;
	int err;
};

int model_create(const struct plan_input *input, const struct stages *stages,
		 struct plan_model **out)
{
	struct plan_model *m = calloc(1, sizeof(*m));
	int err;

	if (!m)
		return -ENOMEM;
	m->input = input;
	m->stages = stages;
	m->life = calloc(stages->nr_tracked + 1u, sizeof(*m->life));
	err = m->life ? victims_create(stages, &m->victims) : -ENOMEM;
	if (err) {
		model_destroy(m);
		return err;
	}
	*out = m;
	return 0;
}

void model_destroy(struct plan_model *m)
{
	if (!m)
		return;
	free(m->life);
	victims_destroy(m->victims);
	free(m->action);
	free(m);
}

uint64_t model_work(const struct plan_model *m)
{
	return m->work;
}

/* Note that blocks of a life have just moved. */
static void record_action(struct plan_model *m, enum plan_move move, uint32_t life, double blocks,
			  uint32_t from, uint32_t due)
{
	struct plan_action action = {.move = move,
				     .life = m->stages->life_of[life],
				     .nr_blocks = (uint32_t)(m->life[life].resident + 0.5 + TINY),
				     .from = from,
				     .due = due};
	uint32_t *last = &m->life[life].last_action;

	if (!m->recording || blocks < TINY)
		return;
	if (*last != NO_ACTION && m->action[*last].from == from && m->action[*last].due == due &&
	    m->action[*last].move == move) {
		m->action[*last].nr_blocks = action.nr_blocks;
		return;
	}
	if (m->nr_actions == m->max_actions) {
		uint32_t max = MAX(64u, m->max_actions * 2);
		struct plan_action *grown = realloc(m->action, max * sizeof(*grown));

		if (!grown) {
			m->err = -ENOMEM;
			return;
		}
		m->action = grown;
		m->max_actions = max;
	}
	*last = m->nr_actions;
	m->action[m->nr_actions++] = action;
}

/* Link time of copies both ways, where both overlap. */
static double copy_ns(const struct plan_input *input, double in, double out)
{
	double both = MIN(in, out);

	return both * input->duplex_ns + (in - both) * input->in_ns + (out - both) * input->out_ns;
}

/*
 * Take blocks of a life out. @return blocks that must be copied: the dirty ones, even where the
 * record says that nobody will read them. The program may do otherwise this time.
 */
static double take_out(struct plan_model *m, uint32_t life, double blocks)
{
	struct model_life *l = &m->life[life];
	double share = blocks / l->resident, dirty = l->dirty * share;

	l->resident -= blocks;
	l->dirty -= dirty;
	m->taken -= blocks;
	m->calls_ns += blocks * m->input->unmap_ns;
	if (l->resident < TINY)
		victims_drop(m->victims, life);
	return dirty;
}

/* Bring blocks of a life in: where they were used in place, that mapping goes. fresh: they come
 * with a freed range, most of them mapped. */
static void take_in(struct plan_model *m, uint32_t life, double blocks, bool fresh)
{
	struct model_life *l = &m->life[life];
	double away = m->stages->blocks[life] - l->resident - blocks;
	double unmapped = MAX(0, l->in_place - away);

	l->resident += blocks;
	l->in_place -= unmapped;
	m->taken += blocks;
	m->calls_ns += unmapped * m->input->host_unmap_ns;
	if (!fresh)
		m->calls_ns += blocks * m->input->map_ns;
}

/* Map what a stage will use in place. */
static void map_in_place(struct plan_model *m, uint32_t life)
{
	struct model_life *l = &m->life[life];
	double away = m->stages->blocks[life] - l->resident;

	m->calls_ns += MAX(0, away - l->in_place) * m->input->host_map_ns;
	l->in_place = MAX(away, l->in_place);
}

/* A life dies. */
static void drop_life(struct plan_model *m, uint32_t life)
{
	struct model_life *l = &m->life[life];

	m->taken -= l->resident;
	l->resident = l->dirty = l->in_place = 0;
	victims_drop(m->victims, life);
}

/* Blocks of a life that are there when the stage looked at comes; outside of that: now. */
static double ahead_blocks(const struct plan_model *m, uint32_t life)
{
	const struct model_life *l = &m->life[life];

	return l->looked == m->turn ? l->ahead : l->resident;
}

static void ahead_set(struct plan_model *m, uint32_t life, double blocks)
{
	m->life[life].looked = m->turn;
	m->life[life].ahead = blocks;
}

static void candidates_start(const struct plan_model *m, uint32_t g, struct candidates *c)
{
	*c = (struct candidates){0};
	c->any = victims_first(m->victims, g, &c->victim);
}

/* Whether something of a life can be evicted; if not, this will not change for the walk. */
static bool can_go(struct plan_model *m, uint32_t life)
{
	m->work++;
	return ahead_blocks(m, life) >= TINY && m->life[life].used != m->turn;
}

/* The life to evict from; of two alike, one that costs no copy. */
static uint32_t pick_victim(struct plan_model *m, struct candidates *c)
{
	while (c->any && !can_go(m, c->victim.life))
		c->any = victims_next(m->victims, &c->victim);
	if (!c->any)
		return NO_LIFE;
	if (c->victim.unread)
		return c->victim.life;
	if (!c->looked || c->group != c->victim.group) {
		c->looked = c->any_clean = true;
		c->group = c->victim.group;
		c->clean = c->victim;
	}
	while (c->any_clean && (m->life[c->clean.life].dirty >= TINY || !can_go(m, c->clean.life)))
		c->any_clean = victims_next(m->victims, &c->clean) && c->clean.group == c->group;
	return c->any_clean ? c->clean.life : c->victim.life;
}

/* Make room for a stage: so many blocks are missing. @return what of them still are. */
static double settle_evict(struct plan_model *m, uint32_t g, double missing, double *out)
{
	const struct stage *stage = &m->stages->stage[g];
	struct candidates candidates;

	candidates_start(m, g ? g - 1 : m->stages->nr_stages - 1, &candidates);
	while (missing > TINY) {
		uint32_t l = pick_victim(m, &candidates);
		double blocks;

		if (l == NO_LIFE)
			break;
		blocks = MIN(missing, m->life[l].resident);
		*out += take_out(m, l, blocks);
		record_action(m, PLAN_EVICT, l, blocks, g, g);
		missing -= blocks;
	}
	/* What is above its level in this stage goes last: it is about to be used. */
	for (uint32_t i = stage->first_life; i < stage->first_life + stage->nr_lives; i++) {
		uint32_t l = m->stages->life[i].life;
		double blocks = MIN(missing, m->life[l].resident - m->level[i]);

		if (missing <= TINY)
			break;
		if (blocks < TINY)
			continue;
		*out += take_out(m, l, blocks);
		record_action(m, PLAN_EVICT, l, blocks, g, g);
		missing -= blocks;
	}
	return missing;
}

/* Bring the lives used in stage g up to their levels, at once. @return the stall. */
static double settle(struct plan_model *m, uint32_t g)
{
	const struct plan_input *input = m->input;
	const struct stage *stage = &m->stages->stage[g];
	uint32_t first = stage->first_life, end = first + stage->nr_lives;
	double need = 0, taken, in = 0, out = 0, share, missing;

	m->turn++;
	m->work += stage->nr_deaths + 4ull * stage->nr_lives;
	for (uint32_t i = 0; i < stage->nr_deaths; i++)
		drop_life(m, m->stages->death[stage->first_death + i]);
	m->calls_ns = 0;
	for (uint32_t i = first; i < end; i++) {
		struct model_life *l = &m->life[m->stages->life[i].life];

		l->used = m->turn;
		need += MAX(0, m->level[i] - l->resident);
	}
	taken = m->taken;
	missing = settle_evict(m, g, need + taken - input->budget_blocks, &out);
	share = missing > TINY ? MAX(0, 1 - missing / MAX(need, TINY)) : 1;
	/* The levels are more than there is room for even so: as much of each goes. */
	missing -= need * (1 - share);
	for (uint32_t i = first; i < end && missing > TINY; i++) {
		uint32_t l = m->stages->life[i].life;
		double resident = m->life[l].resident;
		double blocks = MIN(resident, resident / MAX(taken, TINY) * missing);

		if (blocks < TINY)
			continue;
		out += take_out(m, l, blocks);
		record_action(m, PLAN_EVICT, l, blocks, g, g);
	}
	for (uint32_t i = first; i < end; i++) {
		const struct stage_life *life = &m->stages->life[i];
		double blocks = MAX(0, m->level[i] - m->life[life->life].resident) * share;

		take_in(m, life->life, blocks, life->overwritten);
		map_in_place(m, life->life);
		if (m->reached)
			m->reached[i] = m->life[life->life].resident;
		if (life->overwritten)
			continue;
		in += blocks;
		record_action(m, PLAN_FETCH, life->life, blocks, g, g);
	}
	m->copied_ns += copy_ns(input, in, out);
	return copy_ns(input, in, out) + m->calls_ns;
}

/* In-place traffic: blocks, and the time that moving them takes kernels. */
struct traffic {
	double in, out, in_ns, out_ns;
};

static void traffic_add(struct traffic *t, const struct stage_use *use, double share, double slow)
{
	t->in += use->in * share;
	t->out += use->out * share;
	t->in_ns += use->in_ns * share * slow;
	t->out_ns += use->out_ns * share * slow;
}

/*
 * Computation, and beside it what kernels can move each way, and both ways at once: at the rate of
 * both for as long as both last, then at the kernel's own.
 */
static double traffic_ns(const struct plan_input *input, const struct traffic *t, double compute)
{
	double both = MIN(t->in, t->out), link = both * input->inplace_both_ns;

	if (t->in > both)
		link += (t->in - both) * t->in_ns / t->in;
	if (t->out > both)
		link += (t->out - both) * t->out_ns / t->out;
	return MAX(MAX(compute, link), MAX(t->in_ns, t->out_ns));
}

/* One step of a stage's body, over all iterations. Adds its traffic to the total. */
static double run_step(const struct plan_model *m, const struct stage *stage, uint32_t body,
		       struct traffic *total)
{
	double compute = m->stages->compute_ns[stage->first_compute + body];
	struct traffic base = {0}, with_windows = {0}, windows = {0}, windows_away = {0};
	double away, all;

	for (uint32_t i = 0; i < stage->nr_uses; i++) {
		const struct stage_use *use = &m->stages->use[stage->first_use + i];
		double slow = use->near, blocks;

		if (use->step != body)
			continue;
		blocks = m->stages->blocks[use->life] - m->life[use->life].resident;
		away = blocks / m->stages->blocks[use->life];
		if (blocks > use->reach_blocks)
			slow = MAX(slow, 1 - use->reach_blocks / blocks);
		traffic_add(total, use, away, slow);
		traffic_add(&with_windows, use, use->window ? 1 : away, slow);
		if (use->window) {
			traffic_add(&windows, use, 1, 1);
			traffic_add(&windows_away, use, away, 1);
		} else {
			traffic_add(&base, use, away, slow);
		}
	}
	/* The iterations whose windows are in place, and the others. */
	all = windows.in + windows.out;
	away = all > 0 ? (windows_away.in + windows_away.out) / all : 0;
	return away * traffic_ns(m->input, &with_windows, compute) +
	       (1 - away) * traffic_ns(m->input, &base, compute);
}

/* The stage itself. Sets what the link has left. @return its time. */
static double run(struct plan_model *m, uint32_t g)
{
	const struct plan_input *input = m->input;
	const struct stage *stage = &m->stages->stage[g];
	struct traffic t = {0};
	double total = 0, in, out, beside;

	m->work += (uint64_t)stage->nr_body * stage->nr_uses + stage->nr_lives;
	for (uint32_t body = 0; body < stage->nr_body; body++)
		total += run_step(m, stage, body, &t);
	/*
	 * While one way is busy, the other runs at the rate of both. But what kernels read in place
	 * comes first: of what both ways carry together then, copies out get what is beyond the
	 * rate of reading alone.
	 */
	beside = MAX(0, 2 / input->inplace_duplex_ns - 1 / input->in_ns);
	beside = MIN(beside, 1 / input->duplex_ns);
	in = MIN(t.in * input->in_ns, total);
	out = MIN(t.out * input->out_ns, total);
	m->slack_in = out / input->duplex_ns + (total - out) / input->in_ns - in / input->in_ns;
	m->slack_out = in * beside + (total - in) / input->out_ns - out / input->out_ns;
	m->slack_in = MAX(m->slack_in, 0);
	m->slack_out = MAX(m->slack_out, 0);
	for (uint32_t i = 0; i < stage->nr_lives; i++) {
		const struct stage_life *life = &m->stages->life[stage->first_life + i];
		struct model_life *l = &m->life[life->life];

		if (life->written)
			l->dirty = l->resident;
		if (l->resident >= TINY)
			victims_put(m->victims, life->life, g, life->next);
	}
	return total;
}

/* Stage j will have `missing` blocks too many: evict now, while stage g runs, what can go; the rest
 * is expected to go later. @return what nothing can be found for. */
static double evict_ahead(struct plan_model *m, uint32_t g, uint32_t j, double missing,
			  struct candidates *candidates)
{
	while (missing > TINY) {
		uint32_t l = pick_victim(m, candidates);
		double blocks, copied;
		bool costs;

		if (l == NO_LIFE)
			break;
		blocks = MIN(missing, ahead_blocks(m, l));
		missing -= blocks;
		ahead_set(m, l, ahead_blocks(m, l) - blocks);
		costs = m->life[l].dirty > TINY;
		blocks = MIN(blocks, m->life[l].resident);
		if (costs)
			blocks = MIN(blocks, m->slack_out);
		if (blocks < TINY)
			continue;
		copied = take_out(m, l, blocks);
		m->slack_out -= copied;
		m->copied_ns += copied * m->input->out_ns;
		record_action(m, PLAN_EVICT, l, blocks, g, j);
	}
	return MAX(0, missing);
}

/* Fetch for stage j what there is room for from now on. @return the room left. */
static double fetch_ahead(struct plan_model *m, uint32_t g, uint32_t j, double room)
{
	const struct stages *s = m->stages;
	const struct stage *stage = &s->stage[j];

	for (uint32_t i = stage->first_life; i < stage->first_life + stage->nr_lives; i++) {
		const struct stage_life *life = &s->life[i];
		uint32_t l = life->life;
		double blocks = m->level[i] - m->life[l].resident;

		if (m->life[l].used == m->turn || life->overwritten ||
		    !span_has(&s->alive[l], s->nr_stages, g))
			continue;
		blocks = MIN(MIN(blocks, room), m->slack_in);
		if (blocks < TINY)
			continue;
		ahead_set(m, l, ahead_blocks(m, l) + blocks);
		take_in(m, l, blocks, false);
		victims_put(m->victims, l, g, i);
		m->slack_in -= blocks;
		m->copied_ns += blocks * m->input->in_ns;
		room -= blocks;
		record_action(m, PLAN_FETCH, l, blocks, g, j);
	}
	return room;
}

/* Look at stage j: what dies before it, and what it wants. taken: blocks resident by then. */
static void look_at(struct plan_model *m, uint32_t j, double *taken)
{
	const struct stage *stage = &m->stages->stage[j];

	m->work += stage->nr_deaths + 3ull * stage->nr_lives;
	for (uint32_t i = 0; i < stage->nr_deaths; i++) {
		uint32_t l = m->stages->death[stage->first_death + i];

		*taken -= ahead_blocks(m, l);
		ahead_set(m, l, 0);
	}
	for (uint32_t i = stage->first_life; i < stage->first_life + stage->nr_lives; i++) {
		uint32_t l = m->stages->life[i].life;
		double ahead = ahead_blocks(m, l);

		m->life[l].wanted = MAX(ahead, m->level[i]);
		*taken += m->life[l].wanted - ahead;
	}
}

/* Use what the link has left during stage g for the stages after it. */
static void look_ahead(struct plan_model *m, uint32_t g)
{
	const struct plan_input *input = m->input;
	uint32_t nr_stages = m->stages->nr_stages;
	struct candidates candidates;
	bool can_fetch, can_evict;
	double taken = m->taken, room = input->budget_blocks - taken;

	candidates_start(m, g, &candidates);
	for (uint32_t n = 1; n < nr_stages && n <= AHEAD_MAX; n++) {
		uint32_t j = (g + n) % nr_stages;
		const struct stage *stage = &m->stages->stage[j];
		double evicted;

		look_at(m, j, &taken);
		room = fetch_ahead(m, g, j, MAX(0, room));
		for (uint32_t i = 0; i < stage->nr_lives; i++) {
			struct model_life *l;

			/* Used from here on: no longer one that can go now. */
			l = &m->life[m->stages->life[stage->first_life + i].life];
			l->used = l->looked = m->turn;
			l->ahead = l->wanted;
		}
		evicted = MAX(0, taken - input->budget_blocks);
		if (evicted > TINY)
			taken -= evicted - evict_ahead(m, g, j, evicted, &candidates);
		room = MIN(room, MAX(0, input->budget_blocks - taken));
		can_fetch = room >= TINY && m->slack_in >= TINY;
		can_evict = candidates.any && (m->slack_in >= TINY || m->slack_out >= TINY);
		if (!can_fetch && !can_evict)
			break;
	}
}

static void run_period(struct plan_model *m)
{
	m->time_ns = m->copied_ns = m->taken = 0;
	/* Anew each time, or rounding would add up. */
	for (uint32_t t = 0; t < m->stages->nr_tracked; t++)
		m->taken += m->life[t].resident;
	for (uint32_t g = 0; g < m->stages->nr_stages; g++) {
		double run_ns;

		m->time_ns += settle(m, g);
		run_ns = run(m, g);
		m->calls_ns = 0;
		look_ahead(m, g);
		m->time_ns += MAX(run_ns, m->calls_ns);
	}
}

static void start(struct plan_model *m, const double *level)
{
	m->level = level;
	m->work += m->stages->nr_tracked;
	victims_clear(m->victims);
	for (uint32_t t = 0; t < m->stages->nr_tracked; t++)
		m->life[t] = (struct model_life){.last_action = NO_ACTION};
	run_period(m); /* into the steady state */
}

double model_run(struct plan_model *m, const double *level)
{
	start(m, level);
	run_period(m);
	/* Between plans that take equally long, the one that copies less. */
	return m->time_ns + 1e-4 * m->copied_ns;
}

int model_actions(struct plan_model *m, const double *level, double *reached,
		  struct plan_action **out, uint32_t *nr)
{
	m->nr_actions = 0;
	m->err = 0;
	start(m, level);
	m->recording = true;
	m->reached = reached;
	run_period(m);
	m->reached = NULL;
	m->recording = false;
	if (m->err)
		return m->err;
	*out = m->action;
	*nr = m->nr_actions;
	m->action = NULL;
	m->max_actions = 0;
	return 0;
}
