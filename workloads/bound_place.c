/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Coordinates of prices and steps along slopes; bound_place.h says which.
 */
#include "workloads/bound_place.h"

#include <math.h>

#define MOMENTUM 0.9f
#define SQUARE_MEMORY 0.97f
#define IN_PLACE_SCALE 0.2 /* weight of the time in place in the unit of capacity prices */

double bound_fall(double first, double last, double share)
{
	return first * pow(last / first, share);
}

void bound_pace_next(struct bound_pace *p, double step)
{
	p->mean_share = 1 - (1 - p->mean_share) * (double)MOMENTUM;
	p->square_share = 1 - (1 - p->square_share) * (double)SQUARE_MEMORY;
	p->step = (float)step;
	p->mean = (float)(1 / p->mean_share);
	p->square = (float)(1 / p->square_share);
}

void bound_coordinate_move(struct bound_coordinate *c, double slope, const struct bound_pace *p)
{
	float s = (float)slope;

	c->mean = MOMENTUM * c->mean + (1 - MOMENTUM) * s;
	c->square = SQUARE_MEMORY * c->square + (1 - SQUARE_MEMORY) * s * s;
	c->x += p->step * c->mean * p->mean / (sqrtf(c->square * p->square) + 1e-12f);
}

void bound_place_move(struct bound_place *p, const double *time, const double *busy, double beyond,
		      const struct bound_pace *pace)
{
	double mean = 0;

	for (int r = 0; r < BOUND_RESOURCE_NR; r++)
		mean += time[r] * busy[r];
	for (int r = 0; r < BOUND_RESOURCE_NR; r++)
		bound_coordinate_move(&p->time[r], (busy[r] - mean) / p->scale_ns, pace);
	bound_coordinate_move(&p->capacity, beyond, pace);
	if (p->capacity.x < 0)
		p->capacity.x = 0;
}

void bound_place_get(struct bound_place *p, double *time, double *capacity)
{
	float most = p->time[0].x;
	double sum = 0;

	for (int r = 1; r < BOUND_RESOURCE_NR; r++)
		most = p->time[r].x > most ? p->time[r].x : most;
	for (int r = 0; r < BOUND_RESOURCE_NR; r++) {
		float x = p->time[r].x - most;

		p->time[r].x = x > BOUND_LOG_LEAST ? x : BOUND_LOG_LEAST;
		time[r] = (double)expf(p->time[r].x);
		sum += time[r];
	}
	for (int r = 0; r < BOUND_RESOURCE_NR; r++)
		time[r] /= sum;
	*capacity = (double)p->capacity.x * p->scale_ns;
}

void bound_place_set(struct bound_place *p, const struct bound_step *s, const double *time,
		     double capacity)
{
	*p = (struct bound_place){.scale_ns = 1 + s->alone_ns + IN_PLACE_SCALE * s->place_ns};
	for (int r = 0; r < BOUND_RESOURCE_NR; r++)
		p->time[r].x = time[r] > 0 ? logf((float)time[r]) : BOUND_LOG_LEAST;
	p->capacity.x = (float)(capacity / p->scale_ns);
}
