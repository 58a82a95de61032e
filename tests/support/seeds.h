/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random sequences that are known by their seeds: which one failed is said on standard error,
 * whatever happened to it, a signal or a minute without an end among others.
 */
#ifndef WEIR_TEST_SEEDS_H
#define WEIR_TEST_SEEDS_H

#include <stdbool.h>

#include "tests/support/amount.h"

/* How far the present sequence is: set by it, and said with its seed. */
extern uint32_t test_step;

/*
 * Run the sequences of seeds 1 and up: so many as WEIR_SEQUENCES says, or the amount; with
 * WEIR_SEED=n that one alone, with *tracing set. @return how many ran; 0: one alone.
 */
uint32_t test_seeds_run(struct test_amount sequences, bool *tracing, void (*run)(uint64_t seed));

/* The teardown of the test that called it. */
int test_seeds_teardown(void **state);

#endif
