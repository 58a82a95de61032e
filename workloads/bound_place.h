/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a search is: the prices of one step in coordinates that may take any value, and a step
 * along a slope, with momentum, each coordinate scaled by its recent slopes (as Adam does).
 * Internal to workloads/bound*.c.
 *
 * Time prices are positive and add up to one because they are written as exp(x_r) over the sum of
 * all exp(x_r); capacity prices are cut off at 0.
 */
#ifndef WEIR_BOUND_PLACE_H
#define WEIR_BOUND_PLACE_H

#include "workloads/bound_model.h"

#define BOUND_LOG_LEAST (-14.0f) /* of a time price, relative to the largest of its step */

/* With running means of its slopes and of the slopes' squares. */
struct bound_coordinate {
	float x, mean, square;
};

/* The prices of a step: logarithms of time prices but for a constant, and the capacity price in
 * units of scale_ns. */
struct bound_place {
	struct bound_coordinate time[BOUND_RESOURCE_NR], capacity;
	double scale_ns; /* about how long the step lasts */
};

/* How far to go. All zero before the first step. */
struct bound_pace {
	float step;
	float mean, square;		 /* corrections for the running means' start from 0 */
	double mean_share, square_share; /* of the means that is not of that start */
};

/* From first to last, geometrically. */
double bound_fall(double first, double last, double share);

/* Set the pace of the next step. */
void bound_pace_next(struct bound_pace *p, double step);

/* Go along a slope. */
void bound_coordinate_move(struct bound_coordinate *c, double slope, const struct bound_pace *p);

/* The same for all of a place. time: its prices; busy, beyond: the slope by time prices, and by
 * the capacity price in budgets. */
void bound_place_move(struct bound_place *p, const double *time, const double *busy, double beyond,
		      const struct bound_pace *pace);

/* Turn a place into prices, and back, as a place where no slope is known. */
void bound_place_get(struct bound_place *p, double *time, double *capacity);
void bound_place_set(struct bound_place *p, const struct bound_step *s, const double *time,
		     double capacity);

#endif
