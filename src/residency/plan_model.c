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

#include "src/residency/plan.h"

/* Stages looked ahead. */
#define AHEAD_MAX 32
/* Blocks; less is nothing. */
#define TINY 1e-6

/* A life that may be evicted after a stage. Those with the greatest key go first: dead contents,
 * then the farthest next use. */
struct victim {
	double key;
	uint32_t life;
	bool unread;
};

struct plan_model {
	const struct plan_input *input;
	const struct stages *stages;
	struct victim *victim;		  /* [stage * nr_tracked], by falling key, then by life */
	double *resident, *dirty, *ahead; /* by life */
	double *in_place;		  /* by life: blocks of the host that are mapped */
	const double *level;		  /* by stage_life, of this run */
	double *wanted;			  /* by life: level in the stage looked at, or -1 */
	bool *used; /* by life: in the stage that runs, or up to the one looked at */
	double time_ns, copied_ns;
	/* What is left of the link during the stage, in blocks. */
	double slack_in, slack_out;
	double calls_ns; /* of mapping, since it was last set */
	double *reached; /* by stage_life: what is resident there; NULL: not asked */
	struct plan_action *action;
	uint32_t nr_actions, max_actions;
	bool recording;
	int err;
};

uint64_t model_work(const struct stages *stages)
{
	return 2ull * stages->nr_stages *
	       (MIN(stages->nr_stages, AHEAD_MAX) * 8ull + stages->nr_tracked * 4ull);
}

/* Whether nobody is going to read what the life holds after stage g: its next use overwrites it, or
 * none comes. */
static bool is_unread_after(const struct stages *s, uint32_t g, uint32_t life)
{
	uint32_t distance = s->next_use[g * s->nr_tracked + life];
	const struct stage *next;

	if (distance == UINT32_MAX)
		return true;
	next = &s->stage[(g + distance) % s->nr_stages];
	for (uint32_t i = 0; i < next->nr_lives; i++)
		if (s->life[next->first_life + i].life == life)
			return s->life[next->first_life + i].overwritten;
	return false;
}

static int victim_compare(const void *a, const void *b)
{
	const struct victim *x = a, *y = b;

	return x->key != y->key ? (x->key < y->key) - (x->key > y->key)
				: (x->life > y->life) - (x->life < y->life);
}

static void rank_victims(const struct stages *s, uint32_t g, struct victim *victim)
{
	for (uint32_t l = 0; l < s->nr_tracked; l++) {
		uint32_t distance = s->next_use[g * s->nr_tracked + l];
		bool unread = is_unread_after(s, g, l);

		victim[l] = (struct victim){.life = l, .unread = unread};
		victim[l].key = (distance == UINT32_MAX ? 1e9 : distance) + (unread ? 1e6 : 0);
	}
	qsort(victim, s->nr_tracked, sizeof(*victim), victim_compare);
}

int model_create(const struct plan_input *input, const struct stages *stages,
		 struct plan_model **out)
{
	struct plan_model *m = calloc(1, sizeof(*m));
	uint32_t nr_lives = stages->nr_tracked;
	uint64_t nr = nr_lives + 1u;

	if (!m)
		return -ENOMEM;
	m->input = input;
	m->stages = stages;
	m->resident = calloc(nr, sizeof(double));
	m->dirty = calloc(nr, sizeof(double));
	m->ahead = calloc(nr, sizeof(double));
	m->wanted = calloc(nr, sizeof(double));
	m->in_place = calloc(nr, sizeof(double));
	m->used = calloc(nr, sizeof(bool));
	m->victim = malloc(((uint64_t)stages->nr_stages * nr_lives + 1) * sizeof(*m->victim));
	if (!m->resident || !m->dirty || !m->ahead || !m->wanted || !m->in_place || !m->used ||
	    !m->victim) {
		model_destroy(m);
		return -ENOMEM;
	}
	for (uint32_t g = 0; g < stages->nr_stages; g++)
		rank_victims(stages, g, m->victim + (uint64_t)g * nr_lives);
	*out = m;
	return 0;
}

void model_destroy(struct plan_model *m)
{
	if (!m)
		return;
	free(m->resident);
	free(m->dirty);
	free(m->ahead);
	free(m->wanted);
	free(m->in_place);
	free(m->used);
	free(m->victim);
	free(m->action);
	free(m);
}

/* Note that blocks of a life have just moved. */
static void record_action(struct plan_model *m, enum plan_move move, uint32_t life, double blocks,
			  uint32_t from, uint32_t due)
{
	struct plan_action action = {.move = move,
				     .life = m->stages->life_of[life],
				     .nr_blocks = (uint32_t)(m->resident[life] + 0.5),
				     .from = from,
				     .due = due};

	if (!m->recording || blocks < TINY)
		return;
	for (uint32_t i = m->nr_actions; i-- > 0 && m->action[i].from == from;) {
		struct plan_action *a = &m->action[i];

		if (a->life == action.life && a->due == due && a->move == move) {
			a->nr_blocks = action.nr_blocks;
			return;
		}
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
	double share = blocks / m->resident[life], dirty = m->dirty[life] * share;

	m->resident[life] -= blocks;
	m->dirty[life] -= dirty;
	m->calls_ns += blocks * m->input->unmap_ns;
	return dirty;
}

/* Bring blocks of a life in: where they were used in place, that mapping goes. fresh: they come
 * with a freed range, most of them mapped. */
static void take_in(struct plan_model *m, uint32_t life, double blocks, bool fresh)
{
	double away = m->stages->blocks[life] - m->resident[life] - blocks;
	double unmapped = MAX(0, m->in_place[life] - away);

	m->resident[life] += blocks;
	m->in_place[life] -= unmapped;
	m->calls_ns += unmapped * m->input->host_unmap_ns;
	if (!fresh)
		m->calls_ns += blocks * m->input->map_ns;
}

/* Map what a stage will use in place. */
static void map_in_place(struct plan_model *m, uint32_t life)
{
	double away = m->stages->blocks[life] - m->resident[life];

	m->calls_ns += MAX(0, away - m->in_place[life]) * m->input->host_map_ns;
	m->in_place[life] = MAX(away, m->in_place[life]);
}

/* The life to evict from after stage g; of two alike, one that costs no copy. Not one that is used,
 * as m->used says. *first of those ranked cannot go, and stay so; 0 when nothing is known. */
static uint32_t pick_victim(const struct plan_model *m, uint32_t g, const double *resident,
			    uint32_t *first)
{
	uint32_t nr_lives = m->stages->nr_tracked;
	const struct victim *victim = m->victim + (uint64_t)g * nr_lives, *best = NULL;

	for (uint32_t i = *first; i < nr_lives; i++) {
		const struct victim *v = &victim[i];

		if (resident[v->life] < TINY || m->used[v->life]) {
			*first += i == *first;
			continue;
		}
		if (best && v->key < best->key)
			break;
		if (v->unread || m->dirty[v->life] < TINY)
			return v->life;
		if (!best)
			best = v;
	}
	return best ? best->life : UINT32_MAX;
}

/* Bring the lives used in stage g up to their levels, at once. @return the stall. */
static double settle(struct plan_model *m, uint32_t g)
{
	const struct plan_input *input = m->input;
	const struct stage *stage = &m->stages->stage[g];
	uint32_t before = g ? g - 1 : m->stages->nr_stages - 1, first = 0;
	double need = 0, taken = 0, in = 0, out = 0, share, missing;

	for (uint32_t i = 0; i < stage->nr_deaths; i++) {
		uint32_t l = m->stages->death[stage->first_death + i];

		m->resident[l] = m->dirty[l] = m->in_place[l] = 0;
	}
	m->calls_ns = 0;
	for (uint32_t l = 0; l < m->stages->nr_tracked; l++) {
		taken += m->resident[l];
		m->used[l] = false;
	}
	for (uint32_t i = 0; i < stage->nr_lives; i++) {
		uint32_t l = m->stages->life[stage->first_life + i].life;

		m->used[l] = true;
		need += MAX(0, m->level[stage->first_life + i] - m->resident[l]);
	}
	missing = need + taken - input->budget_blocks;
	while (missing > TINY) {
		uint32_t l = pick_victim(m, before, m->resident, &first);
		double blocks;

		if (l == UINT32_MAX)
			break;
		blocks = MIN(missing, m->resident[l]);
		out += take_out(m, l, blocks);
		record_action(m, PLAN_EVICT, l, blocks, g, g);
		missing -= blocks;
	}
	/* What is above its level in this stage goes last: it is about to be used. */
	for (uint32_t i = 0; i < stage->nr_lives && missing > TINY; i++) {
		uint32_t l = m->stages->life[stage->first_life + i].life;
		double blocks = MIN(missing, m->resident[l] - m->level[stage->first_life + i]);

		if (blocks < TINY)
			continue;
		out += take_out(m, l, blocks);
		record_action(m, PLAN_EVICT, l, blocks, g, g);
		missing -= blocks;
	}
	share = missing > TINY ? MAX(0, 1 - missing / MAX(need, TINY)) : 1;
	/* The levels are more than there is room for even so: as much of each goes. */
	missing -= need * (1 - share);
	for (uint32_t i = 0; i < stage->nr_lives && missing > TINY; i++) {
		uint32_t l = m->stages->life[stage->first_life + i].life;
		double blocks = MIN(m->resident[l], m->resident[l] / MAX(taken, TINY) * missing);

		if (blocks < TINY)
			continue;
		out += take_out(m, l, blocks);
		record_action(m, PLAN_EVICT, l, blocks, g, g);
	}
	for (uint32_t i = 0; i < stage->nr_lives; i++) {
		const struct stage_life *life = &m->stages->life[stage->first_life + i];
		double blocks =
			MAX(0, m->level[stage->first_life + i] - m->resident[life->life]) * share;

		take_in(m, life->life, blocks, life->overwritten);
		map_in_place(m, life->life);
		if (m->reached)
			m->reached[stage->first_life + i] = m->resident[life->life];
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
		blocks = m->stages->blocks[use->life] - m->resident[use->life];
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

		if (life->written)
			m->dirty[life->life] = m->resident[life->life];
	}
	return total;
}

/* Stage j will have `missing` blocks too many: evict now, while stage g runs, what can go; the rest
 * is expected to go later. first: as for pick_victim(). @return what nothing can be found for. */
static double evict_ahead(struct plan_model *m, uint32_t g, uint32_t j, double missing,
			  uint32_t *first)
{
	while (missing > TINY) {
		uint32_t l = pick_victim(m, g, m->ahead, first);
		double blocks, copied;
		bool costs;

		if (l == UINT32_MAX)
			break;
		blocks = MIN(missing, m->ahead[l]);
		missing -= blocks;
		m->ahead[l] -= blocks;
		costs = m->dirty[l] > TINY;
		blocks = MIN(blocks, m->resident[l]);
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
	const struct stage *stage = &m->stages->stage[j];

	for (uint32_t i = 0; i < stage->nr_lives; i++) {
		const struct stage_life *life = &m->stages->life[stage->first_life + i];
		uint32_t l = life->life;
		double blocks = m->level[stage->first_life + i] - m->resident[l];

		if (m->used[l] || life->overwritten ||
		    !m->stages->alive[g * m->stages->nr_tracked + l])
			continue;
		blocks = MIN(MIN(blocks, room), m->slack_in);
		if (blocks < TINY)
			continue;
		take_in(m, l, blocks, false);
		m->ahead[l] += blocks;
		m->slack_in -= blocks;
		m->copied_ns += blocks * m->input->in_ns;
		room -= blocks;
		record_action(m, PLAN_FETCH, l, blocks, g, j);
	}
	return room;
}

/* Use what the link has left during stage g for the stages after it. */
static void look_ahead(struct plan_model *m, uint32_t g)
{
	const struct plan_input *input = m->input;
	uint32_t nr_lives = m->stages->nr_tracked, nr_stages = m->stages->nr_stages, first = 0;
	bool can_fetch, can_evict;
	double room, taken = 0;

	for (uint32_t l = 0; l < nr_lives; l++) {
		m->ahead[l] = m->resident[l];
		taken += m->resident[l];
	}
	room = input->budget_blocks - taken;
	for (uint32_t n = 1; n < nr_stages && n <= AHEAD_MAX; n++) {
		uint32_t j = (g + n) % nr_stages;
		const struct stage *stage = &m->stages->stage[j];
		double evicted;

		for (uint32_t i = 0; i < stage->nr_deaths; i++) {
			uint32_t l = m->stages->death[stage->first_death + i];

			taken -= m->ahead[l];
			m->ahead[l] = 0;
		}
		for (uint32_t i = 0; i < stage->nr_lives; i++) {
			uint32_t l = m->stages->life[stage->first_life + i].life;

			m->wanted[l] = MAX(m->ahead[l], m->level[stage->first_life + i]);
			taken += m->wanted[l] - m->ahead[l];
		}
		room = fetch_ahead(m, g, j, MAX(0, room));
		for (uint32_t i = 0; i < stage->nr_lives; i++) {
			uint32_t l = m->stages->life[stage->first_life + i].life;

			/* Used from here on: no longer one that can go now. */
			m->used[l] = true;
			m->ahead[l] = m->wanted[l];
			m->wanted[l] = -1;
		}
		evicted = MAX(0, taken - input->budget_blocks);
		if (evicted > TINY)
			taken -= evicted - evict_ahead(m, g, j, evicted, &first);
		room = MIN(room, MAX(0, input->budget_blocks - taken));
		can_fetch = room >= TINY && m->slack_in >= TINY;
		can_evict = first < nr_lives && (m->slack_in >= TINY || m->slack_out >= TINY);
		if (!can_fetch && !can_evict)
			break;
	}
}

static void run_period(struct plan_model *m)
{
	m->time_ns = m->copied_ns = 0;
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
	for (uint32_t l = 0; l < m->stages->nr_tracked; l++) {
		m->resident[l] = m->dirty[l] = m->in_place[l] = 0;
		m->wanted[l] = -1;
	}
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
