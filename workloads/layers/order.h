/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In which order launches use ranges. All of it is a pure function of the parameters and the seed.
 */
#ifndef WEIR_LAYERS_ORDER_H
#define WEIR_LAYERS_ORDER_H

#include <stdint.h>

enum layers_order {
	LAYERS_CYCLIC,	 /* 0, 1, 2, ..., again and again */
	LAYERS_PERMUTED, /* each once a pass, in another order each pass */
	LAYERS_RANDOM,	 /* any, with replacement */
	LAYERS_SKEWED,	 /* 80 % of the launches use 20 % of the ranges, at random in either part */
	LAYERS_MOVING,	 /* two fifths of them are walked over LAYERS_WALKS times, then the next */
	LAYERS_ORDER_NR
};

#define LAYERS_WALKS 5u
#define LAYERS_RANGES_MAX 4096u

/* "cyclic", ... Static. */
const char *layers_order_name(enum layers_order order);

struct layers_walk {
	enum layers_order order;
	uint32_t nr;   /* ranges */
	uint64_t seed; /* any */
	uint64_t next; /* launches so far */
	/* Ranges by popularity: the first fifth are those that most launches of LAYERS_SKEWED use.
	 * Advice that splits ranges prefers them in this order. */
	uint32_t rank[LAYERS_RANGES_MAX];
	uint32_t permuted[LAYERS_RANGES_MAX]; /* of the present pass */
};

/* nr: 1 to LAYERS_RANGES_MAX. */
void layers_walk_init(struct layers_walk *walk, enum layers_order order, uint32_t nr,
		      uint64_t seed);

/* The range of the next launch. */
uint32_t layers_walk_next(struct layers_walk *walk);

#endif
