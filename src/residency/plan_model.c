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
 * Where parts of a life come or go in a stage (enum plan_flow), that is beside its run: what comes
 * is in the link's time, and has its room from settle on; what goes leaves its room to what is
 * fetched ahead. What only passes through has its room until the stage is over.
 *
 * A block below is mapped from when it is used in place until it is fetched, or the life ends;
 * evicting a block only unmaps it.
 *
 * Blocks come and go in their order, from the first on, and where those are that are not resident
 * goes by their number: near, or the last ones of a life far. Each place below has a link of its
 * own; both carry at the same time.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "src/residency/plan_parts.h"

/* Copies one way, by place. */
static const double none[PLAN_BELOW_MAX];

/* Stages looked ahead. */
#define AHEAD_MAX 32
/* Blocks; less is nothing. */
#define TINY 1e-6

/* What copies add to the time, so that of plans that take equally long the one that copies less is
 * the better one. */
#define COPIED_SHARE 1e-4
/* How many copies each way a block counts for that has no room. */
#define CROWDED 16
/* Sums of the same times in another order differ by less. */
#define ROUNDING 1e-9

/* Sizes of lives that come and go, which are told apart. */
#define POOLS_MAX 32u

#define NO_ACTION UINT32_MAX
#define NO_LIFE UINT32_MAX

/* A life while the model runs. A turn is a stage, counted through all runs. */
struct model_life {
	double resident, dirty;		 /* blocks */
	double in_place[PLAN_BELOW_MAX]; /* blocks there that are mapped */
	double ahead;			 /* blocks resident by the stage looked at */
	uint64_t looked;      /* the turn in which `ahead` is valid; in others it is `resident` */
	uint64_t used;	      /* the last turn whose stage, or one looked at in it, uses the life */
	uint32_t last_action; /* recorded for it */
	bool there;	      /* it has blocks somewhere */
	bool is_new;	      /* since this stage */
	bool kept;	      /* nobody writes it, and it is there always */
	double lifted;	      /* of what is far, blocks that are near as well */
	double least;	      /* blocks resident when fewest are, in this period */
	double coming;	      /* blocks that come during the stage, of parts that flow in */
};

/* Freed ranges of one size: their blocks below that are mapped, for the next life of that size. */
struct model_pool {
	double blocks; /* the size */
	double in_place[PLAN_BELOW_MAX];
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
	const double *level;	 /* by stage_life, of this run */
	double *far;		 /* by life */
	enum plan_flow *flow;	 /* by stage_life */
	struct away *away;	 /* by life, of those that the stage uses */
	double taken;		 /* blocks resident, of all lives */
	double near_taken;	 /* blocks that should be near, of all lives; */
	double near_most;	 /* the most of that in a stage of the last run */
	double near_moved;	 /* blocks to or from the near place, in this period */
	double lifted;		 /* blocks, of all lives */
	uint32_t *kept, nr_kept; /* lives that can be lifted */
	struct model_pool pool[POOLS_MAX];
	uint32_t *pool_of, nr_pools; /* by life: POOLS_MAX: none */
	bool lifts;		     /* something of them is far in this run */
	double time_ns, copied_ns;
	double *rest_ns; /* by stage: the computation of those after it */
	double *end_ns;	 /* by stage: when it ended, in the last run */
	bool *link_busy; /* by stage: its kernels kept the last place's link busy, in that run */
	double limit_ns; /* a run that takes longer may end early */
	/* What is left of the links during the stage, in blocks. */
	double slack_in[PLAN_BELOW_MAX], slack_out[PLAN_BELOW_MAX];
	struct calls calls; /* of mapping, since they were last set */
	double reads_ns;    /* for how long the stage's kernels read on the host */
	double *reached;    /* by stage_life: what is resident there; NULL: not asked */
	uint64_t turn, work;
	struct plan_action *action;
	uint32_t nr_actions, max_actions;
	bool recording;
	int err;
};

/* The lives that can be lifted. */
static int find_kept(struct plan_model *m)
{
	const struct stages *s = m->stages;

	m->kept = malloc((s->nr_tracked + 1u) * sizeof(*m->kept));
	if (!m->kept)
		return -ENOMEM;
	for (uint32_t t = 0; t < s->nr_tracked; t++) {
		bool kept = s->alive[t].nr == s->nr_stages;

		for (uint32_t v = s->first_visit[t]; v < s->first_visit[t + 1]; v++)
			kept &= !s->life[s->visit[v]].written;
		if (kept)
			m->kept[m->nr_kept++] = t;
	}
	return 0;
}

/* The pools of lives that come and go. */
static int find_pools(struct plan_model *m)
{
	const struct stages *s = m->stages;

	m->pool_of = malloc((s->nr_tracked + 1u) * sizeof(*m->pool_of));
	if (!m->pool_of)
		return -ENOMEM;
	for (uint32_t t = 0; t < s->nr_tracked; t++) {
		uint32_t n = 0;

		while (n < m->nr_pools && m->pool[n].blocks != s->blocks[t])
			n++;
		m->pool_of[t] = s->alive[t].nr < s->nr_stages ? n : POOLS_MAX;
		if (m->pool_of[t] == m->nr_pools && n < POOLS_MAX)
			m->pool[m->nr_pools++].blocks = s->blocks[t];
	}
	return 0;
}

/* What a stage computes it takes at least. */
static void find_rest(struct plan_model *m)
{
	const struct stages *s = m->stages;

	for (uint32_t g = s->nr_stages; g-- > 1;) {
		const struct stage *stage = &s->stage[g];

		m->rest_ns[g - 1] = m->rest_ns[g];
		for (uint32_t body = 0; body < stage->nr_body; body++)
			m->rest_ns[g - 1] += s->compute_ns[stage->first_compute + body];
	}
}

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
	m->far = calloc(stages->nr_tracked + 1u, sizeof(*m->far));
	m->away = calloc(stages->nr_tracked + 1u, sizeof(*m->away));
	m->flow = calloc(stages->nr_lives + 1u, sizeof(*m->flow));
	m->rest_ns = calloc(stages->nr_stages + 1u, sizeof(*m->rest_ns));
	m->end_ns = calloc(stages->nr_stages + 1u, sizeof(*m->end_ns));
	m->link_busy = calloc(stages->nr_stages + 1u, sizeof(*m->link_busy));
	err = m->life && m->far && m->away && m->flow && m->rest_ns && m->end_ns && m->link_busy
		      ? victims_create(stages, &m->victims)
		      : -ENOMEM;
	if (!err)
		find_rest(m);
	if (!err && input->nr_below > 1)
		err = far_choose(input, stages, m->far);
	if (!err && input->nr_below > 1)
		err = find_kept(m);
	if (!err)
		err = find_pools(m);
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
	free(m->far);
	free(m->away);
	free(m->flow);
	free(m->rest_ns);
	free(m->end_ns);
	free(m->link_busy);
	free(m->kept);
	free(m->pool_of);
	victims_destroy(m->victims);
	free(m->action);
	free(m);
}

const double *model_end_ns(const struct plan_model *m)
{
	return m->end_ns;
}

const bool *model_link_busy(const struct plan_model *m)
{
	return m->link_busy;
}

enum plan_flow *model_flows(struct plan_model *m)
{
	return m->flow;
}

double *model_far_levels(struct plan_model *m)
{
	return m->far;
}

void model_trim_far(struct plan_model *m)
{
	const struct stages *s = m->stages;

	for (uint32_t t = 0; t < s->nr_tracked; t++)
		if (!m->input->life[s->life_of[t]].far)
			m->far[t] = MIN(m->far[t], s->blocks[t] - m->life[t].least);
}

bool model_near_is_full(const struct plan_model *m)
{
	return m->near_most > m->input->near_blocks - TINY;
}

uint32_t model_far(const struct plan_model *m, uint32_t life)
{
	return (uint32_t)(m->far[life] + 0.5);
}

bool model_is_kept(const struct plan_model *m, uint32_t life)
{
	return m->life[life].kept;
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
static double copy_ns(const struct plan_below *below, double in, double out)
{
	double both = MIN(in, out);

	return both * below->duplex_ns + (in - both) * below->in_ns + (out - both) * below->out_ns;
}

/* The same over all links, which carry at the same time. */
static double copies_ns(struct plan_model *m, const double in[], const double out[])
{
	double longest = 0;

	for (uint32_t k = 0; k < m->input->nr_below; k++) {
		double ns = copy_ns(&m->input->below[k], in[k], out[k]);

		m->copied_ns += ns;
		longest = MAX(longest, ns);
	}
	return longest;
}

/* Note what of these copies makes mapping calls wait, and what the near place has of them. */
static void note_copies(struct plan_model *m, const double in[], const double out[])
{
	const struct plan_input *input = m->input;
	const uint32_t last = input->nr_below > 1;

	if (last) {
		m->calls.near_ns += copy_ns(&input->below[0], in[0], out[0]);
		m->near_moved += in[0] + out[0];
	}
	m->calls.in_ns += in[last] * input->below[last].in_ns;
	m->calls.host_ns += out[last] * input->below[last].out_ns;
}

/* Of the blocks of a life from one on, in its order, how many belong to each place below. */
static void split(const struct plan_model *m, uint32_t life, double from, double blocks,
		  double part[PLAN_BELOW_MAX])
{
	double near = m->stages->blocks[life] - m->far[life] - from;

	part[0] = m->input->nr_below > 1 ? MIN(blocks, MAX(0, near)) : blocks;
	part[1] = blocks - part[0];
}

/* Blocks of a life that are not resident, by place. */
static void split_away(const struct plan_model *m, uint32_t life, double part[PLAN_BELOW_MAX])
{
	double resident = m->life[life].resident;

	split(m, life, resident, m->stages->blocks[life] - resident, part);
}

/* Blocks of a life that come next, by the place that they come from. */
static void split_coming(const struct plan_model *m, uint32_t life, double blocks,
			 double part[PLAN_BELOW_MAX])
{
	double lifted;

	split(m, life, m->life[life].resident, blocks, part);
	lifted = MIN(part[1], m->life[life].lifted);
	part[0] += lifted;
	part[1] -= lifted;
}

static void lift(struct plan_model *m, uint32_t life, double blocks)
{
	m->life[life].lifted += blocks;
	m->lifted += blocks;
	m->near_moved += MAX(blocks, 0); /* what is dropped was moved */
}

/* What is lifted goes where others need the room. */
static void drop_lifted(struct plan_model *m)
{
	double over = m->near_taken + m->lifted - m->input->near_blocks, share;

	if (m->lifted < TINY || over <= 0)
		return;
	share = MIN(1, over / m->lifted);
	for (uint32_t n = 0; n < m->nr_kept; n++)
		lift(m, m->kept[n], -share * m->life[m->kept[n]].lifted);
	m->work += m->nr_kept;
}

/* Of what is far and nobody writes, blocks come near while a stage runs, for the next uses, where
 * there is room: over the neighbours' own links. */
static void lift_ahead(struct plan_model *m, uint32_t g, double run_ns)
{
	const struct stages *s = m->stages;
	double slack = run_ns / m->input->below[1].in_ns;

	for (uint32_t n = 1; m->lifts && n < s->nr_stages && n <= AHEAD_MAX; n++) {
		const struct stage *stage = &s->stage[(g + n) % s->nr_stages];
		double room = MIN(slack, m->input->near_blocks - m->near_taken - m->lifted);

		m->work += stage->nr_lives;
		for (uint32_t i = 0; i < stage->nr_lives && room > TINY; i++) {
			uint32_t l = s->life[stage->first_life + i].life;
			double part[PLAN_BELOW_MAX], blocks;

			if (!m->life[l].kept || m->far[l] < TINY || m->life[l].used == m->turn)
				continue;
			split_away(m, l, part);
			blocks = MIN(room, part[1] - m->life[l].lifted);
			if (blocks < TINY)
				continue;
			lift(m, l, blocks);
			slack -= blocks;
			room -= blocks;
		}
		if (room <= TINY)
			break;
	}
}

/*
 * Take blocks of a life out. Adds to out, by place, those that must be copied: the dirty ones, even
 * where the record says that nobody will read them. The program may do otherwise this time.
 */
static void take_out(struct plan_model *m, uint32_t life, double blocks, double out[PLAN_BELOW_MAX])
{
	struct model_life *l = &m->life[life];
	double share = blocks / l->resident, dirty = l->dirty * share, part[PLAN_BELOW_MAX];

	split(m, life, l->resident - blocks, blocks, part);
	for (uint32_t k = 0; k < PLAN_BELOW_MAX; k++)
		out[k] += part[k] == blocks ? dirty : dirty * part[k] / blocks;
	m->near_taken += part[0];
	l->resident -= blocks;
	l->least = MIN(l->least, l->resident);
	l->dirty -= dirty;
	m->taken -= blocks;
	m->calls.ns += blocks * m->input->unmap_ns;
	m->calls.nr_unmaps += blocks;
	if (l->resident < TINY)
		victims_drop(m->victims, life);
}

/* Bring blocks of a life in: where they were used in place, that mapping goes. fresh: they come
 * with a freed range, most of them mapped. */
static void take_in(struct plan_model *m, uint32_t life, double blocks, bool fresh)
{
	struct model_life *l = &m->life[life];
	double away[PLAN_BELOW_MAX], before[PLAN_BELOW_MAX];

	split(m, life, l->resident, blocks, away);
	lift(m, life, -MIN(away[1], l->lifted));
	split_away(m, life, before);
	l->resident += blocks;
	m->taken += blocks;
	split_away(m, life, away);
	m->near_taken += away[0] - before[0];
	for (uint32_t k = 0; k < PLAN_BELOW_MAX; k++) {
		double unmapped = MAX(0, l->in_place[k] - away[k]);

		l->in_place[k] -= unmapped;
		m->calls.ns += unmapped * m->input->below[k].unmap_ns;
		m->calls.nr_unmaps += unmapped;
	}
	if (fresh)
		return;
	m->calls.ns += blocks * m->input->map_ns;
	m->calls.nr_maps += blocks;
}

/* Blocks of a life that are not resident, by the place where they are used. */
static void split_used(const struct plan_model *m, uint32_t life, double part[PLAN_BELOW_MAX])
{
	double resident = m->life[life].resident;

	split_coming(m, life, m->stages->blocks[life] - resident, part);
}

/* Of blocks, those that a freed range has. */
static double take_pooled(double *pooled, double blocks)
{
	const double taken = MIN(*pooled, blocks);

	*pooled -= taken;
	return taken;
}

/* Map what a stage will use in place: a life that is new gets a freed range. */
static void map_in_place(struct plan_model *m, uint32_t life)
{
	struct model_life *l = &m->life[life];
	double away[PLAN_BELOW_MAX];

	split_used(m, life, away);
	for (uint32_t k = 0; k < PLAN_BELOW_MAX; k++) {
		double mapped = MAX(0, away[k] - l->in_place[k]);

		if (l->is_new && m->pool_of[life] < POOLS_MAX)
			mapped -= take_pooled(&m->pool[m->pool_of[life]].in_place[k], mapped);
		m->calls.ns += mapped * m->input->below[k].map_ns;
		m->calls.nr_maps += mapped;
		l->in_place[k] = l->kept ? away[k] : MAX(away[k], l->in_place[k]);
	}
}

/* A life has its blocks from here on: none is resident yet. */
static void add_life(struct plan_model *m, uint32_t life)
{
	double away[PLAN_BELOW_MAX];

	if (m->life[life].there)
		return;
	m->life[life].there = true;
	split_away(m, life, away);
	m->near_taken += away[0];
}

/* A life dies. */
static void drop_life(struct plan_model *m, uint32_t life)
{
	struct model_life *l = &m->life[life];
	double away[PLAN_BELOW_MAX];

	split_away(m, life, away);
	m->near_taken -= l->there ? away[0] : 0;
	l->there = false;
	m->taken -= l->resident;
	l->resident = l->dirty = 0;
	for (uint32_t k = 0; k < PLAN_BELOW_MAX; k++) {
		if (m->pool_of[life] < POOLS_MAX)
			m->pool[m->pool_of[life]].in_place[k] += l->in_place[k];
		l->in_place[k] = 0;
	}
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
static double settle_evict(struct plan_model *m, uint32_t g, double missing, double out[])
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
		take_out(m, l, blocks, out);
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
		take_out(m, l, blocks, out);
		record_action(m, PLAN_EVICT, l, blocks, g, g);
		missing -= blocks;
	}
	return missing;
}

/* Of lives whose parts are to come and go in stage g, what is resident beyond the room for that
 * leaves: parts are brought in their order, not in the life's. */
static void settle_streams(struct plan_model *m, uint32_t g, double out[])
{
	const struct stage *stage = &m->stages->stage[g];

	for (uint32_t i = stage->first_life; i < stage->first_life + stage->nr_lives; i++) {
		const uint32_t l = m->stages->life[i].life;
		const double blocks = m->life[l].resident - m->level[i];

		if (m->flow[i] != FLOW_THROUGH || blocks < TINY)
			continue;
		take_out(m, l, blocks, out);
		record_action(m, PLAN_EVICT, l, blocks, g, g);
	}
}

/* The parts of a loop that is over have come, or gone: what is left to do of that, if anything. */
static void record_flows(struct plan_model *m, uint32_t g)
{
	const uint32_t last = g ? g - 1 : m->stages->nr_stages - 1;
	const struct stage *stage = &m->stages->stage[last];

	for (uint32_t i = stage->first_life; i < stage->first_life + stage->nr_lives; i++) {
		const uint32_t l = m->stages->life[i].life;

		if (m->life[l].there && (m->flow[i] == FLOW_IN || m->flow[i] == FLOW_OUT))
			record_action(m, m->flow[i] == FLOW_IN ? PLAN_FETCH : PLAN_EVICT, l, 1, g,
				      g);
	}
}

/*
 * Bring blocks of a life for stage g, or note that they come while it runs. Adds to in, by place,
 * those that must be copied before it. @return the time for what has no room: where parts flow in,
 * it sends others away, which come back, so that no levels that want that are to be found good.
 */
static double bring(struct plan_model *m, uint32_t g, uint32_t i, double blocks, double in[])
{
	const struct stage_life *life = &m->stages->life[i];
	const struct plan_below *last = &m->input->below[m->input->nr_below - 1];
	const bool later = m->flow[i] == FLOW_IN;
	struct model_life *l = &m->life[life->life];
	double part[PLAN_BELOW_MAX] = {0};

	l->coming = later ? blocks : 0;
	if (!later) {
		split_coming(m, life->life, blocks, part);
		take_in(m, life->life, blocks, life->overwritten);
		if (m->flow[i] != FLOW_THROUGH)
			map_in_place(m, life->life);
	}
	l->least = MIN(l->least, l->resident);
	if (m->reached)
		m->reached[i] = l->resident + l->coming;
	if (later)
		return MAX(0, life->span - l->resident - blocks) * CROWDED *
		       (last->in_ns + last->out_ns);
	for (uint32_t k = 0; k < m->input->nr_below && !life->overwritten; k++)
		in[k] += part[k];
	if (m->flow[i] != FLOW_THROUGH && !life->overwritten)
		record_action(m, PLAN_FETCH, life->life, blocks, g, g);
	return 0;
}

/* Bring the lives used in stage g up to their levels, at once. @return the stall. */
static double settle(struct plan_model *m, uint32_t g)
{
	const struct plan_input *input = m->input;
	const struct stage *stage = &m->stages->stage[g];
	uint32_t first = stage->first_life, end = first + stage->nr_lives;
	double need = 0, taken, share, missing, copied, crowded = 0;
	double in[PLAN_BELOW_MAX] = {0}, out[PLAN_BELOW_MAX] = {0};

	m->turn++;
	m->work += stage->nr_deaths + 4ull * stage->nr_lives;
	for (uint32_t i = 0; i < stage->nr_deaths; i++)
		drop_life(m, m->stages->death[stage->first_death + i]);
	m->calls = (struct calls){0};
	record_flows(m, g);
	settle_streams(m, g, out);
	for (uint32_t i = first; i < end; i++) {
		struct model_life *l = &m->life[m->stages->life[i].life];

		l->is_new = !l->there;
		add_life(m, m->stages->life[i].life);
		l->used = m->turn;
		need += MAX(0, m->level[i] - l->resident);
	}
	taken = m->taken;
	missing = settle_evict(m, g, need + taken - input->budget_blocks, out);
	share = missing > TINY ? MAX(0, 1 - missing / MAX(need, TINY)) : 1;
	/* The levels are more than there is room for even so: as much of each goes. */
	missing -= need * (1 - share);
	for (uint32_t i = first; i < end && missing > TINY; i++) {
		uint32_t l = m->stages->life[i].life;
		double resident = m->life[l].resident;
		double blocks = MIN(resident, resident / MAX(taken, TINY) * missing);

		if (blocks < TINY)
			continue;
		take_out(m, l, blocks, out);
		record_action(m, PLAN_EVICT, l, blocks, g, g);
	}
	for (uint32_t i = first; i < end; i++)
		crowded += bring(
			m, g, i,
			share * MAX(0, m->level[i] - m->life[m->stages->life[i].life].resident),
			in);
	copied = copies_ns(m, in, out);
	note_copies(m, in, out);
	return copied + calls_and_ns(input, &m->calls, copied) + crowded;
}

/* What a link has left of a stage's time. */
static void find_slack(struct plan_model *m, uint32_t k, const struct traffic *t, double total)
{
	const struct plan_below *below = &m->input->below[k];
	double in, out, beside;

	/*
	 * While one way is busy, the other runs at the rate of both. But what kernels read in place
	 * comes first: of what both ways carry together then, copies out get what is beyond the
	 * rate of reading alone.
	 */
	beside = MAX(0, 2 / below->inplace_duplex_ns - 1 / below->in_ns);
	beside = MIN(beside, 1 / below->duplex_ns);
	in = MIN(t->in * below->in_ns, total);
	out = MIN(t->out * below->out_ns, total);
	m->slack_in[k] = out / below->duplex_ns + (total - out) / below->in_ns - in / below->in_ns;
	m->slack_out[k] = in * beside + (total - in) / below->out_ns - out / below->out_ns;
	m->slack_in[k] = MAX(m->slack_in[k], 0);
	m->slack_out[k] = MAX(m->slack_out[k], 0);
}

/* Whether parts of a life are brought ahead of each use, so that none is used in place. */
static bool brings_parts(const struct plan_model *m, uint32_t i)
{
	return m->flow[i] == FLOW_THROUGH || m->flow[i] == FLOW_IN;
}

/* Where the blocks are that a stage uses in place: what has no room near is on the host, and is
 * taken to be of these lives. */
static void find_away(struct plan_model *m, const struct stage *stage)
{
	const struct stage_life *life = &m->stages->life[stage->first_life];
	double over, near = 0;

	for (uint32_t i = 0; i < stage->nr_lives; i++) {
		m->away[life[i].life] = (struct away){0};
		if (!brings_parts(m, stage->first_life + i))
			split_used(m, life[i].life, m->away[life[i].life].blocks);
		near += m->away[life[i].life].blocks[0];
	}
	if (m->input->nr_below == 1 || near < TINY)
		return;
	over = MIN(1, MAX(0, m->near_taken - m->input->near_blocks) / near);
	for (uint32_t i = 0; i < stage->nr_lives; i++) {
		double *blocks = m->away[life[i].life].blocks;

		blocks[1] += over * blocks[0];
		blocks[0] -= over * blocks[0];
	}
}

/* What comes and goes during the stage, beside what its kernels move: from and to the last place.
 * Of what comes the first parts are there already. @return the link's time for both */
static double add_streams(struct plan_model *m, const struct stage *stage, struct traffic t[])
{
	const uint32_t k = m->input->nr_below - 1;
	bool any = false;

	for (uint32_t i = stage->first_life; i < stage->first_life + stage->nr_lives; i++) {
		const struct stage_life *life = &m->stages->life[i];

		if (!brings_parts(m, i))
			continue;
		t[k].in += MAX(0, life->span - m->life[life->life].resident);
		t[k].out += life->written && m->flow[i] == FLOW_THROUGH ? life->span : 0;
		any = true;
	}
	return any ? copy_ns(&m->input->below[k], t[k].in, t[k].out) : 0;
}

/* The mapping calls for that. Nothing that is left of what comes and goes is to be copied out. */
static void count_streams(struct plan_model *m, const struct stage *stage)
{
	const struct plan_below *last = &m->input->below[m->input->nr_below - 1];

	for (uint32_t i = stage->first_life; i < stage->first_life + stage->nr_lives; i++) {
		const struct stage_life *life = &m->stages->life[i];
		double blocks;

		if (m->flow[i] != FLOW_THROUGH)
			continue;
		blocks = MAX(0, life->span - m->life[life->life].resident);
		m->calls.ns += blocks * (m->input->map_ns + m->input->unmap_ns);
		m->calls.nr_maps += blocks;
		m->calls.nr_unmaps += blocks;
		m->calls.in_ns += blocks * last->in_ns;
		m->copied_ns +=
			blocks * last->in_ns + (life->written ? life->span * last->out_ns : 0);
		m->life[life->life].dirty = 0;
	}
}

/* What flowed in is there. */
static void end_in(struct plan_model *m, uint32_t g, uint32_t i)
{
	const struct stage_life *life = &m->stages->life[i];
	struct model_life *l = &m->life[life->life];
	double part[PLAN_BELOW_MAX];

	split_coming(m, life->life, l->coming, part);
	take_in(m, life->life, l->coming, false);
	note_copies(m, part, none);
	for (uint32_t k = 0; k < PLAN_BELOW_MAX; k++)
		m->copied_ns += part[k] * m->input->below[k].in_ns;
	if (life->written)
		l->dirty = l->resident;
	if (l->resident >= TINY)
		victims_put(m->victims, life->life, g, life->next);
}

/* Take blocks of a life out beside a stage. */
static void take_out_beside(struct plan_model *m, uint32_t life, double blocks)
{
	double copied[PLAN_BELOW_MAX] = {0};

	take_out(m, life, blocks, copied);
	note_copies(m, none, copied);
	for (uint32_t k = 0; k < PLAN_BELOW_MAX; k++) {
		m->slack_out[k] -= copied[k];
		m->copied_ns += copied[k] * m->input->below[k].out_ns;
	}
}

/* What comes for later stages while this one runs has its room beside what flowed in, and in place
 * of what flowed out. */
static void end_flows(struct plan_model *m, uint32_t g)
{
	const struct stage *stage = &m->stages->stage[g];

	for (uint32_t i = stage->first_life; i < stage->first_life + stage->nr_lives; i++) {
		if (m->flow[i] == FLOW_IN)
			end_in(m, g, i);
		else if (m->flow[i] == FLOW_OUT &&
			 m->life[m->stages->life[i].life].resident >= TINY)
			take_out_beside(m, m->stages->life[i].life,
					m->life[m->stages->life[i].life].resident);
	}
}

/* Stages to come find nothing of what comes and goes. @return the blocks that it has until then */
static double streams_left(struct plan_model *m, const struct stage *stage)
{
	double blocks = 0;

	for (uint32_t i = stage->first_life; i < stage->first_life + stage->nr_lives; i++) {
		const uint32_t l = m->stages->life[i].life;

		if (m->flow[i] != FLOW_THROUGH)
			continue;
		blocks += m->life[l].resident;
		ahead_set(m, l, 0);
	}
	return blocks;
}

/* The stage is over: what is left of it goes. */
static void end_streams(struct plan_model *m, const struct stage *stage)
{
	double copied[PLAN_BELOW_MAX] = {0};

	for (uint32_t i = stage->first_life; i < stage->first_life + stage->nr_lives; i++) {
		const uint32_t l = m->stages->life[i].life;

		if (m->flow[i] == FLOW_THROUGH && m->life[l].resident >= TINY)
			take_out(m, l, m->life[l].resident, copied);
	}
}

/* The stage itself. Sets what the links have left. @return its time. */
static double run(struct plan_model *m, uint32_t g)
{
	const struct stage *stage = &m->stages->stage[g];
	struct traffic t[PLAN_BELOW_MAX] = {{0}}, *last = &t[m->input->nr_below - 1];
	double total;

	m->work += (uint64_t)stage->nr_body * stage->nr_uses + stage->nr_lives;
	find_away(m, stage);
	total = traffic_run(m->input, m->stages, stage, m->away, t);
	if (m->input->nr_below > 1)
		m->near_moved += t[0].in + t[0].out;
	total = MAX(total, add_streams(m, stage, t));
	for (uint32_t k = 0; k < m->input->nr_below; k++)
		find_slack(m, k, &t[k], total);
	m->reads_ns = MIN(total, last->in_ns);
	m->link_busy[g] = 2 * MAX(last->in_ns, last->out_ns) > total;
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

/* Of blocks of a life that leave, the last ones first, as many as the links have time for. */
static double slack_out(const struct plan_model *m, uint32_t life, double blocks)
{
	double part[PLAN_BELOW_MAX], far;

	split(m, life, m->life[life].resident - blocks, blocks, part);
	if (m->input->nr_below == 1)
		return MIN(blocks, m->slack_out[0]);
	far = MIN(part[1], m->slack_out[1]);
	return far < part[1] ? far : far + MIN(part[0], m->slack_out[0]);
}

/* The same of blocks that come, the first ones first. */
static double slack_in(const struct plan_model *m, uint32_t life, double blocks)
{
	double part[PLAN_BELOW_MAX], near;

	if (m->input->nr_below == 1 || blocks <= 0)
		return MIN(blocks, m->slack_in[0]);
	split_coming(m, life, blocks, part);
	near = MIN(part[0], m->slack_in[0]);
	return near < part[0] ? near : near + MIN(part[1], m->slack_in[1]);
}

/* Stage j will have `missing` blocks too many: evict now, while stage g runs, what can go; the rest
 * is expected to go later. @return what nothing can be found for. */
static double evict_ahead(struct plan_model *m, uint32_t g, uint32_t j, double missing,
			  struct candidates *candidates)
{
	while (missing > TINY) {
		uint32_t l = pick_victim(m, candidates);
		double blocks;
		bool costs;

		if (l == NO_LIFE)
			break;
		blocks = MIN(missing, ahead_blocks(m, l));
		missing -= blocks;
		ahead_set(m, l, ahead_blocks(m, l) - blocks);
		costs = m->life[l].dirty > TINY;
		blocks = MIN(blocks, m->life[l].resident);
		if (costs)
			blocks = slack_out(m, l, blocks);
		if (blocks < TINY)
			continue;
		take_out_beside(m, l, blocks);
		record_action(m, PLAN_EVICT, l, blocks, g, j);
	}
	return MAX(0, missing);
}

/* Fetch for stage j what there is room for from now on, of the life that it uses as stage_life i.
 * @return the room left. */
static double fetch_ahead(struct plan_model *m, uint32_t g, uint32_t j, uint32_t i, double room)
{
	const struct stage_life *life = &m->stages->life[i];
	uint32_t l = life->life;
	double blocks = MIN(m->level[i] - m->life[l].resident, room);
	double part[PLAN_BELOW_MAX] = {0};

	if (blocks < TINY || m->life[l].used == m->turn || life->overwritten ||
	    m->flow[i] == FLOW_IN || !span_has(&m->stages->alive[l], m->stages->nr_stages, g))
		return room;
	blocks = slack_in(m, l, blocks);
	if (blocks < TINY)
		return room;
	split_coming(m, l, blocks, part);
	take_in(m, l, blocks, false);
	victims_put(m->victims, l, g, i);
	for (uint32_t k = 0; k < m->input->nr_below; k++) {
		m->slack_in[k] -= part[k];
		m->copied_ns += part[k] * m->input->below[k].in_ns;
	}
	note_copies(m, part, none);
	if (m->flow[i] != FLOW_THROUGH)
		record_action(m, PLAN_FETCH, l, blocks, g, j);
	return room - blocks;
}

static bool has_slack(const struct plan_model *m, const double slack[])
{
	return slack[0] >= TINY || (m->input->nr_below > 1 && slack[1] >= TINY);
}

static bool can_fetch(const struct plan_model *m, double room)
{
	return room >= TINY && has_slack(m, m->slack_in);
}

/*
 * Look at stage j: what dies before it, what it wants, and, if fetch, what of that can come now.
 * What it uses is from then on no longer one that can go now. taken: blocks resident by then.
 * @return the room left. Most of a plan's time goes by here, so what does not change is kept in
 * variables, and each life is looked at once.
 */
static double look_at(struct plan_model *m, uint32_t g, uint32_t j, bool fetch, double room,
		      double *taken)
{
	const struct stage *stage = &m->stages->stage[j];
	const uint32_t first = stage->first_life, end = first + stage->nr_lives;
	const struct stage_life *use = m->stages->life;
	const double *level = m->level;
	const uint64_t turn = m->turn;
	double sum = *taken;

	m->work += stage->nr_deaths + 3ull * stage->nr_lives;
	for (uint32_t i = 0; i < stage->nr_deaths; i++) {
		uint32_t l = m->stages->death[stage->first_death + i];

		sum -= ahead_blocks(m, l);
		ahead_set(m, l, 0);
	}
	for (uint32_t i = first; i < end; i++) {
		struct model_life *l = &m->life[use[i].life];
		double ahead = l->looked == turn ? l->ahead : l->resident;
		double wanted = MAX(ahead, level[i]);

		sum += wanted - ahead;
		if (fetch && level[i] > l->resident)
			room = fetch_ahead(m, g, j, i, room);
		l->used = l->looked = turn;
		l->ahead = wanted;
	}
	*taken = sum;
	return room;
}

/* Use what the links have left during stage g for the stages after it. */
static void look_ahead(struct plan_model *m, uint32_t g)
{
	const double budget = m->input->budget_blocks;
	const uint32_t nr_stages = m->stages->nr_stages;
	struct candidates candidates;
	double taken = m->taken, room = MAX(0, budget - taken), over;
	bool fetch = can_fetch(m, room);

	/* What comes while parts come and go has its room beside them. */
	taken -= streams_left(m, &m->stages->stage[g]);
	candidates_start(m, g, &candidates);
	for (uint32_t n = 1, j = g; n < nr_stages && n <= AHEAD_MAX; n++) {
		j = j + 1 < nr_stages ? j + 1 : 0;
		room = look_at(m, g, j, fetch, room, &taken);
		over = taken - budget;
		if (over > TINY)
			taken -= over - evict_ahead(m, g, j, over, &candidates);
		room = MIN(room, MAX(0, budget - taken));
		fetch = can_fetch(m, room);
		if (!fetch &&
		    (!candidates.any || !(has_slack(m, m->slack_in) || has_slack(m, m->slack_out))))
			break;
	}
}

/* What has no room near goes to the host, and comes back from there: levels that want that are no
 * good ones. */
static double overflow_ns(struct plan_model *m)
{
	const struct plan_below *far = &m->input->below[1];

	m->near_most = MAX(m->near_most, m->near_taken);
	if (m->input->nr_below == 1 || m->near_taken <= m->input->near_blocks + TINY)
		return 0;
	return (m->near_taken - m->input->near_blocks) * (far->in_ns + far->out_ns);
}

/* Where the near place is used more than it may be on average, the plan counts as one that waits
 * until it is not: one that has less there, if it takes shorter than that, is better. rest_ns: what
 * comes after what was run. */
static double weighed_ns(const struct plan_model *m, double rest_ns)
{
	return MAX(m->time_ns + rest_ns, m->near_moved * m->input->near_block_ns) +
	       COPIED_SHARE * m->copied_ns;
}

/* One period, or as much of it as shows that it takes longer than the limit. @return all of it */
static bool run_period(struct plan_model *m)
{
	m->time_ns = m->copied_ns = m->taken = m->near_taken = m->near_most = m->near_moved = 0;
	/* Anew each time, or rounding would add up. */
	for (uint32_t t = 0; t < m->stages->nr_tracked; t++) {
		double away[PLAN_BELOW_MAX];

		split_away(m, t, away);
		m->life[t].least = m->stages->blocks[t];
		m->taken += m->life[t].resident;
		m->near_taken += m->life[t].there ? away[0] : 0;
	}
	for (uint32_t g = 0; g < m->stages->nr_stages; g++) {
		double run_ns;

		m->time_ns += settle(m, g);
		drop_lifted(m);
		run_ns = run(m, g);
		m->calls = (struct calls){.host_ns = m->reads_ns};
		count_streams(m, &m->stages->stage[g]);
		end_flows(m, g);
		m->time_ns += overflow_ns(m);
		lift_ahead(m, g, run_ns);
		look_ahead(m, g);
		end_streams(m, &m->stages->stage[g]);
		drop_lifted(m);
		m->time_ns += MAX(run_ns, calls_beside_ns(m->input, &m->calls, run_ns));
		m->end_ns[g] = m->time_ns;
		if (weighed_ns(m, m->rest_ns[g]) > m->limit_ns) {
			m->time_ns += m->rest_ns[g];
			return false;
		}
	}
	return true;
}

static void start(struct plan_model *m, const double *level)
{
	m->level = level;
	m->work += m->stages->nr_tracked;
	victims_clear(m->victims);
	for (uint32_t t = 0; t < m->stages->nr_tracked; t++)
		m->life[t] = (struct model_life){.last_action = NO_ACTION};
	m->lifted = 0;
	for (uint32_t n = 0; n < m->nr_pools; n++)
		m->pool[n] = (struct model_pool){.blocks = m->pool[n].blocks};
	m->lifts = false;
	for (uint32_t n = 0; n < m->nr_kept; n++) {
		m->life[m->kept[n]].kept = true;
		m->lifts |= m->far[m->kept[n]] >= TINY;
	}
	m->limit_ns = INFINITY;
	run_period(m); /* into the steady state */
}

double model_run(struct plan_model *m, const double *level, double limit_ns)
{
	const uint64_t begin = m->work;
	uint64_t second;

	start(m, level);
	second = m->work;
	m->limit_ns = limit_ns * (1 + ROUNDING);
	/* One that ends early counts like the first period: the limit of work is for plans as if
	 * all runs were whole. */
	if (!run_period(m))
		m->work = second + (second - begin);
	return weighed_ns(m, 0);
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
