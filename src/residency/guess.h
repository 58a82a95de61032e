/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much of what its uses name a launch touches, where uses are guesses: all of the allocations
 * whose addresses a kernel is given, say. Nobody tells; but the time that a launch takes does. What
 * it touches cannot be more than the link carries in that time, of what was used in place, or the
 * device's memory, of what was resident; and where the launch took much longer than it does with
 * less in place, it is the link that it waited for, and what it touches is not less, either.
 *
 * So each use of a kind of launch has a *share*, touched bytes over named ones, at first 1; each
 * measured launch is an equation over the shares of its uses: the sum of share times cost is the
 * time, or no more than it. Which blocks are in place changes from launch to launch, and tells the
 * uses apart: so some launches are kept that had different ones there, and their equations are
 * solved together, one after the other and again, by the multiplicative algebraic reconstruction
 * technique (R. Gordon, R. Bender, G. T. Herman, Journal of Theoretical Biology 29, 1970): a share
 * is multiplied by what is missing, to the power of its part in the sum. The last one is what was
 * seen last, where they contradict.
 *
 * A launch is known by a key: of its kernel and the sizes of what it names.
 *
 * Pure but for memory; threads: the caller's lock.
 */
#ifndef WEIR_RESIDENCY_GUESS_H
#define WEIR_RESIDENCY_GUESS_H

#include <stdbool.h>
#include <stdint.h>

/* Less makes no difference to a plan. */
#define GUESS_SHARE_MIN 0.001
/* Kernels may visit bytes several times, or link and kernel not suit each other. */
#define GUESS_SHARE_MAX 256.0
/* Uses of a launch beyond it have share 1. */
#define GUESS_USES_MAX 16u

struct guesses;

/* NULL: no memory. */
struct guesses *guesses_create(void);
void guesses_destroy(struct guesses *guesses); /* NULL is allowed */

/* A launch that was measured. */
struct guess_seen {
	uint64_t key; /* the launch's; not 0 */
	uint32_t nr_uses;
	const double *cost_ns; /* by use: what it would take at share 1, of the link, or of the
				* device's memory if nothing was in place; 0: nothing of it was */
	double ns;	       /* what the launch took */
	bool in_place;
};

/* Take the launch into account. Uses beyond GUESS_USES_MAX are left out, and a launch of which
 * nothing has a cost. */
void guess_note(struct guesses *guesses, const struct guess_seen *seen);

/* Of the n-th use of launches of that key, from GUESS_SHARE_MIN to GUESS_SHARE_MAX; 1: not known,
 * which it is, too, for NULL and for key 0. */
double guess_share(const struct guesses *guesses, uint64_t key, uint32_t n);

/* The same for a plan: what was never used in place, so that no time tells of it, may be used less
 * than that. Half of it is what a plan is to reckon with: it then tries to leave it in place, if
 * that gives room to others of which more is known, and learns what it is. */
double guess_share_planned(const struct guesses *guesses, uint64_t key, uint32_t n);

/* The time that a launch of the key took last with everything resident, or the shortest of all; 0:
 * not known. */
double guess_resident_ns(const struct guesses *guesses, uint64_t key);
double guess_shortest_ns(const struct guesses *guesses, uint64_t key);

#endif
