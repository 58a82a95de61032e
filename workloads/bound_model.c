/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a trace and a machine to the numbers of the relaxation. Every number errs on the side of
 * less time, see docs/bound.md.
 */
#include "workloads/bound_model.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/util.h"
#include "src/cost/cost.h"

#define NS_PER_S 1e9

/* ------------------------------------------------------------------ rates */

/*
 * With i and o bytes to move in and out, d the rate each way while both are busy: the time is at
 * least i / in + o * c for every c <= 1 / d - 1 / in (what a byte out takes from the way in while
 * both are busy) that does not exceed 1 / out (what it takes when it goes alone). Likewise out.
 */
static double duplex_share(double duplex_ns, double own_ns, double other_ns)
{
	return max_double(0, min_double(duplex_ns - own_ns, other_ns));
}

/* What a memory is to the bound. */
enum role { ROLE_NONE, ROLE_OWN = 1, ROLE_NEAR = 2, ROLE_HOST = 4 };

/* Streaming in place over all links to memories of a role together, in ns a byte: each way while a
 * kernel reads and writes, and one way alone. */
struct inplace {
	double both_ns, alone_ns;
};

struct machine {
	const struct weir_machine_desc *desc;
	const struct weir_device_desc *device;
	enum role role[WEIR_MEMORIES_MAX];
	double near_bytes; /* of all that are near */
	struct inplace host, near;
};

/* near_bytes may be NULL. */
static int machine_init(struct machine *m, const struct weir_machine_desc *desc, uint32_t device,
			const uint64_t *near_bytes)
{
	uint32_t own = desc->device[device].memory;

	*m = (struct machine){.desc = desc, .device = &desc->device[device]};
	for (uint32_t i = 0; i < desc->nr_memories; i++) {
		const struct weir_memory_desc *memory = &desc->memory[i];

		if (i == own) {
			m->role[i] = ROLE_OWN;
		} else if (memory->kind == WEIR_MEMORY_HOST) {
			m->role[i] = ROLE_HOST;
		} else if (near_bytes && near_bytes[i]) {
			if (cost_link_find(desc, i, own) < 0)
				return -EINVAL;
			m->role[i] = ROLE_NEAR;
			m->near_bytes += (double)MIN(near_bytes[i], memory->bytes);
		}
	}
	return 0;
}

/* Whether a link joins a memory of one of the roles `upper` to one of those of `lower`, and which
 * its ends are then. */
static bool joins(const struct machine *m, const struct weir_link_desc *link, unsigned int upper,
		  unsigned int lower, uint32_t *up, uint32_t *low)
{
	bool a_is_upper = m->role[link->a] & upper;

	*up = a_is_upper ? link->a : link->b;
	*low = a_is_upper ? link->b : link->a;
	return (m->role[*up] & upper) && (m->role[*low] & lower);
}

/* Links, with what they carry one way, and the memory that is an end of all of them. */
struct bundle {
	uint32_t nr;
	uint32_t memory;     /* WEIR_MEMORIES_MAX: there is none, as with several host memories */
	double sum, fastest; /* bytes a second: all of them; one */
};

static void bundle_add(struct bundle *b, uint32_t memory, double bytes_per_s)
{
	b->memory = b->nr && b->memory != memory ? WEIR_MEMORIES_MAX : memory;
	b->nr++;
	b->sum += bytes_per_s;
	b->fastest = max_double(b->fastest, bytes_per_s);
}

/* What a memory's port lets through while so many of its links are busy, as struct weir_port_desc
 * says. */
static double port_rate(const struct weir_machine_desc *desc, uint32_t memory, uint32_t links,
			bool sends)
{
	return cost_port_bytes_per_s(desc, memory, BOUND_MUTANT == 10 ? UINT32_MAX : links,
				     sends != (BOUND_MUTANT == 9));
}

/* The most that the links carry together through the port of their common memory, however many of
 * them are busy. */
static double bundle_rate(const struct machine *m, const struct bundle *b, bool sends)
{
	double most = 0;

	for (uint32_t links = 1; links <= b->nr; links++)
		most = max_double(most, min_double(links * b->fastest,
						   port_rate(m->desc, b->memory, links, sends)));
	return min_double(b->sum, most);
}

/*
 * All links between memories of the roles `upper` and `lower` together; in is towards `upper`. On
 * each link l, with in_l its rate, time * in_l >= i_l + o_l * c_l * in_l; the sum over the links
 * gives the whole, with the least c_l * in_l. Where a port lets through less than the links carry,
 * time * port >= the sum of i_l, and nothing is claimed about both ways at once.
 */
static void rates_init(struct bound_rates *r, const struct machine *m, unsigned int upper,
		       unsigned int lower)
{
	struct bundle in = {0}, out = {0};
	double of_out = INFINITY, of_in = INFINITY, in_rate, out_rate;

	for (uint32_t i = 0; i < m->desc->nr_links; i++) {
		const struct weir_link_desc *link = &m->desc->link[i];
		double link_in, link_out, duplex_ns = NS_PER_S / link->duplex_bytes_per_s;
		uint32_t up, low, common;

		if (!joins(m, link, upper, lower, &up, &low))
			continue;
		common = lower == ROLE_HOST ? low : up;
		link_in = cost_copy_bytes_per_s(link, low);
		link_out = cost_copy_bytes_per_s(link, up);
		bundle_add(&in, common, link_in);
		bundle_add(&out, common, link_out);
		of_out = min_double(of_out, link_in * duplex_share(duplex_ns, NS_PER_S / link_in,
								   NS_PER_S / link_out));
		of_in = min_double(of_in, link_out * duplex_share(duplex_ns, NS_PER_S / link_out,
								  NS_PER_S / link_in));
	}
	in_rate = bundle_rate(m, &in, lower == ROLE_HOST);
	out_rate = bundle_rate(m, &out, lower != ROLE_HOST);
	r->in_ns = NS_PER_S / in_rate;
	r->out_ns = NS_PER_S / out_rate;
	r->in_of_out_ns = in_rate < in.sum ? 0 : of_out / in.sum;
	r->out_of_in_ns = out_rate < out.sum ? 0 : of_in / out.sum;
}

/* Whether a link joins the device's memory to one of a role. */
static bool joins_own(const struct machine *m, const struct weir_link_desc *link, enum role role)
{
	uint32_t own, other;

	return joins(m, link, ROLE_OWN, role, &own, &other);
}

/*
 * The time that a byte of a use in place takes at least of the links from the device's memory to
 * those of a role together; use NULL: each way, of a kernel that reads and writes in order. Each
 * link l has the part w_l of it, by its rate of streaming in place: of a byte over link l that is
 * w_l / rate_l, and of any byte the least of these. What a port lets through is in rates_init()
 * alone, which has these bytes too: it has time for a fast use's while those of a slow one come.
 */
static double inplace_byte_ns(const struct machine *m, enum role role, const struct weir_use *use,
			      uint64_t footprint)
{
	double sum = 0, least = INFINITY;

	for (uint32_t i = 0; i < m->desc->nr_links; i++) {
		const struct weir_link_desc *link = &m->desc->link[i];
		double rate = use ? cost_inplace_bytes_per_s(link, use, footprint)
				  : link->inplace_both_bytes_per_s;

		if (!joins_own(m, link, role))
			continue;
		sum += link->inplace_bytes_per_s;
		least = min_double(least, link->inplace_bytes_per_s / rate);
	}
	return least / sum * NS_PER_S;
}

static struct inplace inplace_of(const struct machine *m, enum role role)
{
	const struct weir_use stream = {.pattern = WEIR_STREAM};
	double both_ns = inplace_byte_ns(m, role, NULL, 0);

	if ((BOUND_MUTANT == 11 && role == ROLE_HOST) || (BOUND_MUTANT == 12 && role == ROLE_NEAR))
		both_ns *= 1.02;
	return (struct inplace){both_ns, inplace_byte_ns(m, role, &stream, 1)};
}

/* The footprint up to which every link to the host serves at its better rate. How much beyond that
 * is slower follows from it where there is one link. */
static double inplace_reach(const struct machine *m, const struct weir_use *use)
{
	double reach = INFINITY;
	uint32_t nr = 0;

	for (uint32_t i = 0; i < m->desc->nr_links; i++) {
		const struct weir_link_desc *link = &m->desc->link[i];
		uint32_t own, host;

		if (!joins(m, link, ROLE_OWN, ROLE_HOST, &own, &host))
			continue;
		nr++;
		reach = min_double(reach, cost_reach_bytes(link, use));
	}
	/* spread over several links each has its own reach: claim nothing there */
	return nr == 1 ? reach : INFINITY;
}

/* ------------------------------------------------------------------ uses */

/* Lines of the time in place: four of struct bound_event's ns, and its two of near_ns. */
enum { HOST_LINES = 4, NR_LINES = 6 };

/* What a use costs per share of it that is away. */
struct use_cost {
	double hbm_ns; /* wherever it is */
	double in_bytes, out_bytes;
	double ns[NR_LINES], slack_ns[HOST_LINES];
};

/*
 * Time of a use in place on the host as a function of the share y of its part that is away, where
 * beyond is what all of it takes if every access misses the translation cache, within if none
 * does, and y0 the share that this holds: the larger of within * y and beyond * (y - y0), each
 * written slope * y - slack.
 */
static void inplace_lines(double within, double beyond, double y0, double ns[2], double slack_ns[2])
{
	bool slower = y0 < 1 && beyond > within;

	ns[0] = within;
	slack_ns[0] = 0;
	ns[1] = slower ? beyond : within;
	slack_ns[1] = slower ? beyond * y0 : 0;
}

static void use_cost_init(struct use_cost *c, const struct trace_use *use, const struct machine *m)
{
	const struct weir_use as_declared = trace_use_declared(use);
	double reach = inplace_reach(m, &as_declared);
	double x = cost_expansion(&as_declared);
	double within_ns = inplace_byte_ns(m, ROLE_HOST, &as_declared, 1);
	double beyond_ns = inplace_byte_ns(m, ROLE_HOST, &as_declared, UINT64_MAX);
	double y0 = min_double(reach / (double)use->bytes, 1);

	c->hbm_ns = cost_hbm_ns(m->device, &as_declared);
	c->in_bytes = x * (double)as_declared.read_bytes;
	c->out_bytes = x * (double)as_declared.write_bytes;
	inplace_lines(c->in_bytes * within_ns, c->in_bytes * beyond_ns, y0, &c->ns[0],
		      &c->slack_ns[0]);
	inplace_lines(c->out_bytes * within_ns, c->out_bytes * beyond_ns, y0, &c->ns[2],
		      &c->slack_ns[2]);
	if (m->near_bytes > 0) {
		double near_ns = inplace_byte_ns(m, ROLE_NEAR, &as_declared, 1);

		c->ns[HOST_LINES] = c->in_bytes * near_ns;
		c->ns[HOST_LINES + 1] = c->out_bytes * near_ns;
	}
}

/* ------------------------------------------------------------------ pieces and events */

struct build {
	const struct trace *trace;
	struct machine machine;
	struct bound_model *model;
	struct use_cost *cost; /* by use */
	uint32_t *use_step;    /* by use */
	uint32_t *by_life;     /* uses sorted by life, then step */
	uint32_t *life_first;  /* by life, and two more: index in by_life */
	uint64_t *ends;	       /* ends of the parts of one life */
	uint32_t *fill;	       /* by piece of one life: events laid out */
	uint32_t cap_pieces, cap_events;
};

static int cmp_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static int reserve(void **array, uint32_t *cap, uint64_t want, size_t size)
{
	uint64_t next = *cap ? *cap : 256;
	void *p;

	if (want <= *cap)
		return 0;
	if (want > UINT32_MAX / 2)
		return -E2BIG;
	while (next < want)
		next *= 2;
	p = realloc(*array, next * size);
	if (!p)
		return -ENOMEM;
	*array = p;
	*cap = (uint32_t)next;
	return 0;
}

/* Index of an end that is in the array. */
static uint32_t find_end(const uint64_t *ends, uint32_t nr, uint64_t value)
{
	uint32_t at;

	SEARCH_SORTED(at, 0, nr, ends[at] < value);
	return at;
}

/* Collect the sorted distinct ends of the parts that a life's uses name; returns their number. */
static uint32_t life_ends(const struct build *b, const uint32_t *uses, uint32_t nr)
{
	uint32_t n = 0, distinct = 0;

	for (uint32_t i = 0; i < nr; i++) {
		const struct trace_use *use = &b->trace->uses[uses[i]];

		b->ends[n++] = use->offset;
		b->ends[n++] = use->offset + use->bytes;
	}
	qsort(b->ends, n, sizeof(*b->ends), cmp_u64);
	for (uint32_t i = 0; i < n; i++) {
		if (!distinct || b->ends[distinct - 1] != b->ends[i])
			b->ends[distinct++] = b->ends[i];
	}
	return distinct;
}

/* While a piece is built its events' flags hold the kinds seen, one bit each. */
static uint32_t kind_bit(enum weir_use_kind kind)
{
	return 1u << kind;
}

static void event_add(struct bound_event *e, const struct use_cost *c, double share)
{
	e->in_bytes += share * c->in_bytes;
	e->out_bytes += share * c->out_bytes;
	for (int i = 0; i < HOST_LINES; i++)
		e->ns[i] += share * c->ns[i];
	for (int i = 0; i < 2; i++)
		e->near_ns[i] += share * c->ns[HOST_LINES + i];
}

/*
 * Turn the kinds of a piece's events into flags. live: whether its contents are before the first.
 * Of overlapping kinds the strongest that keeps the contents counts. What was never written is
 * dead, however often it is read.
 */
static void piece_close(const struct bound_model *m, const struct bound_piece *piece, bool live)
{
	for (uint32_t i = 0; i < piece->nr_events; i++) {
		struct bound_event *e = &m->events[piece->first_event + i];
		uint32_t kinds = e->flags;

		e->flags = i == 0 ? BOUND_FIRST : 0;
		if (live && (kinds & (kind_bit(WEIR_READ) | kind_bit(WEIR_WRITE))))
			e->flags |= BOUND_LIVE_BEFORE;
		if (kinds & (kind_bit(WEIR_WRITE) | kind_bit(WEIR_OVERWRITE))) {
			e->flags |= BOUND_WRITES;
			live = true;
		}
		if (kinds & kind_bit(WEIR_DISCARD))
			live = false;
	}
}

/* Make the pieces between a life's ends, with room for the events of all uses that cover them. */
static int pieces_reserve(struct build *b, const uint32_t *uses, uint32_t nr, uint32_t nr_ends)
{
	struct bound_model *m = b->model;
	uint64_t events = m->nr_events;
	uint32_t cap = b->cap_pieces;
	void *p = m->pieces;
	int err = reserve(&p, &cap, (uint64_t)m->nr_pieces + nr_ends, sizeof(*m->pieces));

	m->pieces = p;
	b->cap_pieces = cap;
	if (err)
		return err;
	/* fill[i] counts the uses that begin at end i less those that end there */
	memset(b->fill, 0, nr_ends * sizeof(*b->fill));
	for (uint32_t i = 0; i < nr; i++) {
		const struct trace_use *use = &b->trace->uses[uses[i]];

		b->fill[find_end(b->ends, nr_ends, use->offset)]++;
		b->fill[find_end(b->ends, nr_ends, use->offset + use->bytes)]--;
	}
	for (uint32_t i = 0, cover = 0; i + 1 < nr_ends; i++) {
		cover += b->fill[i];
		if (events > UINT32_MAX / 2)
			return -E2BIG;
		m->pieces[m->nr_pieces + i] = (struct bound_piece){
			.first_event = (uint32_t)events,
			.bytes = (double)(b->ends[i + 1] - b->ends[i]),
		};
		events += cover;
	}
	p = m->events;
	cap = b->cap_events;
	err = reserve(&p, &cap, events, sizeof(*m->events));
	m->events = p;
	b->cap_events = cap;
	if (err)
		return err;
	m->nr_events = (uint32_t)events;
	return 0;
}

/* Lay out the events of one use, over the pieces that it covers. */
static void use_build(struct build *b, uint32_t u, struct bound_piece *pieces, uint32_t nr_ends)
{
	const struct trace_use *use = &b->trace->uses[u];
	uint32_t step = b->use_step[u], at = find_end(b->ends, nr_ends, use->offset);

	for (; at + 1 < nr_ends && b->ends[at] < use->offset + use->bytes; at++) {
		struct bound_piece *piece = &pieces[at];
		struct bound_event *e = &b->model->events[piece->first_event + piece->nr_events];

		if (piece->nr_events && e[-1].step == step) {
			e--;
		} else {
			*e = (struct bound_event){.step = step};
			piece->nr_events++;
		}
		e->flags |= kind_bit(use->kind);
		event_add(e, &b->cost[u], piece->bytes / (double)use->bytes);
	}
}

/* Lay out the pieces and events of one life. Uses come in step order; live: its contents are
 * before the first. */
static int life_build(struct build *b, const uint32_t *uses, uint32_t nr, bool live)
{
	struct bound_model *m = b->model;
	uint32_t nr_events = m->nr_events;
	struct bound_piece *pieces;
	uint32_t nr_ends;
	int err;

	if (!nr)
		return 0;
	nr_ends = life_ends(b, uses, nr);
	err = pieces_reserve(b, uses, nr, nr_ends);
	if (err)
		return err;
	pieces = &m->pieces[m->nr_pieces];
	for (uint32_t i = 0; i < nr; i++)
		use_build(b, uses[i], pieces, nr_ends);
	/* close up what uses that share an event, and holes between parts, have left free */
	for (uint32_t i = 0; i + 1 < nr_ends; i++) {
		struct bound_piece piece = pieces[i];

		if (!piece.nr_events)
			continue;
		memmove(&m->events[nr_events], &m->events[piece.first_event],
			piece.nr_events * sizeof(*m->events));
		piece.first_event = nr_events;
		nr_events += piece.nr_events;
		piece_close(m, &piece, live);
		m->pieces[m->nr_pieces++] = piece;
	}
	m->nr_events = nr_events;
	return 0;
}

/* ------------------------------------------------------------------ steps */

/* Time of a use in place, in and out; with near memory the geometric mean of what it takes there
 * and at the host: which of them a step needs is not known yet. */
static double place_ns(const struct machine *m, const struct use_cost *c)
{
	double ns = c->ns[0] + c->ns[2];

	return m->near_bytes > 0 ? sqrt(ns * (c->ns[HOST_LINES] + c->ns[HOST_LINES + 1])) : ns;
}

/*
 * One line of a step's uses in place, ns[] of each from `line` on, whose bytes go in or out: have
 * it take account of the bytes that go the other way.
 */
static void line_both(struct use_cost *costs, uint32_t nr, int line, bool out,
		      const struct inplace *inplace)
{
	double most_ns = 0, share;

	for (uint32_t i = 0; i < nr; i++) {
		const struct use_cost *c = &costs[i];
		double bytes = out ? c->out_bytes : c->in_bytes;

		if (bytes > 0)
			most_ns = max_double(most_ns, BOUND_MUTANT == 13 ? inplace->alone_ns
									 : c->ns[line] / bytes);
	}
	/* of what goes the other way alone its own lines know more */
	if (!(most_ns > 0))
		return;
	share = duplex_share(inplace->both_ns, most_ns, inplace->alone_ns);
	for (uint32_t i = 0; i < nr; i++)
		costs[i].ns[line] += share * (out ? costs[i].in_bytes : costs[i].out_bytes);
}

static void step_both(struct build *b, const struct trace_step *step)
{
	const struct machine *m = &b->machine;
	struct use_cost *costs = &b->cost[step->first_use];

	for (int l = 0; l < HOST_LINES; l++)
		line_both(costs, step->nr_uses, l, l >= 2, &m->host);
	for (int l = HOST_LINES; l < NR_LINES && m->near_bytes > 0; l++)
		line_both(costs, step->nr_uses, l, l > HOST_LINES, &m->near);
}

static void step_build(struct build *b, uint32_t step)
{
	const struct trace_step *from = &b->trace->steps[step];
	const struct machine *m = &b->machine;
	struct bound_step *s = &b->model->steps[step];
	double hbm_ns = 0;

	*s = (struct bound_step){0};
	for (uint32_t i = from->first_use; i < from->first_use + from->nr_uses; i++) {
		struct use_cost *c = &b->cost[i];

		use_cost_init(c, &b->trace->uses[i], m);
		b->use_step[i] = step;
		hbm_ns += c->hbm_ns;
		s->place_ns += place_ns(m, c);
		for (int l = 0; l < HOST_LINES; l++)
			s->slack_ns[l] += c->slack_ns[l];
	}
	step_both(b, from);
	if (from->compute_ns > 0)
		s->alone_ns = from->compute_ns;
	else if (from->name)
		s->alone_ns = cost_resident_ns(m->device, cost_kernel_factor(m->desc, from->name),
					       hbm_ns, from->ops);
	b->model->compute_ns += s->alone_ns;
}

/* Sort the uses by life; within one they stay in step order. */
static void sort_uses(struct build *b)
{
	const struct trace *t = b->trace;
	uint32_t *first = b->life_first;

	/* two places ahead, so that first[l + 1] can count from life l's start to its end below */
	for (uint32_t u = 0; u < t->nr_uses; u++)
		first[t->uses[u].life + 2]++;
	for (uint32_t l = 0; l < t->nr_lives; l++)
		first[l + 2] += first[l + 1];
	for (uint32_t u = 0; u < t->nr_uses; u++)
		b->by_life[first[t->uses[u].life + 1]++] = u;
}

static int build_all(struct build *b)
{
	for (uint32_t s = 0; s < b->trace->nr_steps; s++)
		step_build(b, s);
	sort_uses(b);
	for (uint32_t l = 0; l < b->trace->nr_lives; l++) {
		uint32_t first = b->life_first[l];
		/* the analyzer forgets what b holds across the call; build_fini() frees it */
		// NOLINTNEXTLINE(clang-analyzer-unix.Malloc)
		int err = life_build(b, b->by_life + first, b->life_first[l + 1] - first,
				     b->trace->lives[l].birth == TRACE_NEVER);

		if (err)
			return err;
	}
	return 0;
}

static int build_init(struct build *b, const struct trace *trace)
{
	size_t nr_uses = trace->nr_uses;

	b->trace = trace;
	b->model = calloc(1, sizeof(*b->model));
	b->cost = calloc(nr_uses + 1, sizeof(*b->cost));
	b->use_step = calloc(nr_uses + 1, sizeof(*b->use_step));
	b->by_life = calloc(nr_uses + 1, sizeof(*b->by_life));
	b->life_first = calloc((size_t)trace->nr_lives + 2, sizeof(*b->life_first));
	b->ends = calloc(2 * nr_uses + 1, sizeof(*b->ends));
	b->fill = calloc(2 * nr_uses + 1, sizeof(*b->fill));
	if (!b->model || !b->cost || !b->use_step || !b->by_life || !b->life_first || !b->ends ||
	    !b->fill)
		return -ENOMEM;
	b->model->steps = calloc((size_t)trace->nr_steps + 1, sizeof(*b->model->steps));
	return b->model->steps ? 0 : -ENOMEM;
}

/* All but the model. */
static void build_fini(struct build *b)
{
	free(b->cost);
	free(b->use_step);
	free(b->by_life);
	free(b->life_first);
	free(b->ends);
	free(b->fill);
}

int bound_model_create(const struct trace *trace, const struct weir_machine_desc *desc,
		       uint32_t device, uint64_t budget_bytes, const uint64_t *near_bytes,
		       struct bound_model **out)
{
	struct build b = {0};
	int err = machine_init(&b.machine, desc, device, near_bytes);

	if (err)
		return err;
	err = build_init(&b, trace);
	if (err)
		goto err_build;
	b.model->nr_steps = trace->nr_steps;
	b.model->budget_bytes = (double)budget_bytes;
	b.model->near_bytes = b.machine.near_bytes * (BOUND_MUTANT == 8 ? 0.5 : 1);
	b.machine.host = inplace_of(&b.machine, ROLE_HOST);
	b.machine.near = inplace_of(&b.machine, ROLE_NEAR);
	b.model->nr_resources =
		b.machine.near_bytes > 0 ? BOUND_RESOURCE_NR : BOUND_HOST_RESOURCE_NR;
	rates_init(&b.model->rates, &b.machine, BOUND_MUTANT == 1 ? ROLE_OWN : ROLE_OWN | ROLE_NEAR,
		   ROLE_HOST);
	if (b.machine.near_bytes > 0)
		rates_init(&b.model->near_rates, &b.machine, ROLE_OWN, ROLE_NEAR);
	err = build_all(&b);
	if (err)
		goto err_build;
	build_fini(&b);
	*out = b.model;
	return 0;

err_build:
	build_fini(&b);
	bound_model_destroy(b.model);
	return err;
}

void bound_model_destroy(struct bound_model *model)
{
	if (!model)
		return;
	free(model->steps);
	free(model->pieces);
	free(model->events);
	free(model);
}
