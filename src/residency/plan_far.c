/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which blocks are far when the search begins: where what is alive at a time is more than the
 * device's own memory and neighbours' hold together, the rest of it is on the host. The lives that
 * lose least by that go first; a life's last blocks in its order, and the same ones in all stages,
 * so that nothing that is written moves between a neighbour and the host while the plan is
 * followed. At most PEAKS_MAX walks, each linear in lives and stages.
 */
#include <errno.h>
#include <stdlib.h>

#include "src/residency/plan_parts.h"

/* Peaks that are looked at; what is too much even then finds no room near, and goes to the host. */
#define PEAKS_MAX 64

/* A life, and what one of its blocks loses in a period by being far, ns. */
struct loss {
	double ns;
	uint32_t life;
};

struct far {
	const struct plan_input *input;
	const struct stages *stages;
	struct loss *loss; /* by life; the least first */
	double *live;	   /* by stage: blocks alive, less those that are far */
	double *change;	   /* of that, from the stage before */
	double *far;
};

static int loss_compare(const void *a, const void *b)
{
	const struct loss *x = a, *y = b;

	return x->ns != y->ns ? (x->ns > y->ns) - (x->ns < y->ns)
			      : (x->life > y->life) - (x->life < y->life);
}

/* What is used in place loses the difference of the rates; what moves, that of two copies. */
static void rank(struct far *f)
{
	const struct stages *s = f->stages;
	const struct plan_below *below = f->input->below;
	double copies = below[1].in_ns + below[1].out_ns - below[0].in_ns - below[0].out_ns;

	for (uint32_t t = 0; t < s->nr_tracked; t++)
		f->loss[t].life = t;
	for (uint32_t u = 0; u < s->nr_uses; u++) {
		const struct stage_use *use = &s->use[u];
		double near = MAX(use->at[0].in_ns, use->at[0].out_ns);
		double far = MAX(use->at[1].in_ns, use->at[1].out_ns);

		f->loss[use->life].ns += far - near;
	}
	for (uint32_t t = 0; t < s->nr_tracked; t++) {
		uint32_t nr_visits = s->first_visit[t + 1] - s->first_visit[t];
		double *ns = &f->loss[t].ns;

		*ns = MIN(*ns / s->blocks[t], copies * nr_visits);
	}
	qsort(f->loss, s->nr_tracked, sizeof(*f->loss), loss_compare);
}

/* Sum up what is alive in each stage; temporaries of a loop are, in theirs. */
static void sum_up(struct far *f)
{
	const struct stages *s = f->stages;
	uint32_t nr = s->nr_stages;
	double sum = 0;

	for (uint32_t g = 0; g <= nr; g++)
		f->change[g] = 0;
	for (uint32_t t = 0; t < s->nr_tracked; t++) {
		struct plan_span span = s->alive[t];
		double blocks = s->blocks[t] - f->far[t];

		if (!span.nr)
			span = (struct plan_span){s->life[s->visit[s->first_visit[t]]].stage, 1};
		f->change[span.first] += blocks;
		f->change[MIN(span.first + span.nr, nr)] -= blocks;
		if (span.first + span.nr > nr) {
			f->change[0] += blocks;
			f->change[span.first + span.nr - nr] -= blocks;
		}
	}
	for (uint32_t g = 0; g < nr; g++) {
		sum += f->change[g];
		f->live[g] = sum;
	}
}

static bool is_alive(const struct stages *s, uint32_t t, uint32_t g)
{
	return s->alive[t].nr ? span_has(&s->alive[t], s->nr_stages, g)
			      : s->life[s->visit[s->first_visit[t]]].stage == g;
}

/* Of what is alive in a stage so many blocks more become far. */
static void lower(struct far *f, uint32_t g, double excess)
{
	for (uint32_t n = 0; n < f->stages->nr_tracked && excess > 0; n++) {
		uint32_t t = f->loss[n].life;
		double blocks = MIN(excess, f->stages->blocks[t] - f->far[t]);

		if (!is_alive(f->stages, t, g))
			continue;
		f->far[t] += blocks;
		excess -= blocks;
	}
}

static void choose(struct far *f)
{
	const struct stages *s = f->stages;
	double room = (double)f->input->budget_blocks + f->input->near_blocks;

	for (uint32_t t = 0; t < s->nr_tracked; t++)
		f->far[t] = f->input->life[s->life_of[t]].far ? s->blocks[t] : 0;
	rank(f);
	for (uint32_t i = 0; i < PEAKS_MAX; i++) {
		uint32_t peak = 0;

		sum_up(f);
		for (uint32_t g = 1; g < s->nr_stages; g++)
			if (f->live[g] > f->live[peak])
				peak = g;
		if (f->live[peak] <= room)
			break;
		lower(f, peak, f->live[peak] - room);
	}
}

int far_choose(const struct plan_input *input, const struct stages *stages, double *far)
{
	struct far f = {
		.input = input,
		.stages = stages,
		.loss = calloc(stages->nr_tracked + 1u, sizeof(*f.loss)),
		.live = calloc(stages->nr_stages + 1u, sizeof(*f.live)),
		.change = calloc(stages->nr_stages + 1u, sizeof(*f.change)),
		.far = far,
	};
	int err = f.loss && f.live && f.change ? 0 : -ENOMEM;

	if (!err)
		choose(&f);
	free(f.loss);
	free(f.live);
	free(f.change);
	return err;
}
