/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The failing backend. Calls that are counted: every
 * op that returns an error code, but for the removal of a progress function, which is part of
 * destroying and cannot fail. Everything else is passed on untouched.
 */
#ifndef WEIR_BACKEND_FLAKY_H
#define WEIR_BACKEND_FLAKY_H

#include "src/backend/backend.h"

/*
 * Wrap a backend (owned by the wrapper from then on): the fail_at-th call, counted from 1 over all
 * ops that can fail, returns err without being passed on; 0 never. Queries (fence_done,
 * fence_wait) are counted too, and report err without the work having failed.
 */
int flaky_create(struct backend *inner, struct backend **out);
void flaky_arm(struct backend *flaky, uint64_t fail_at, int err);
uint64_t flaky_nr_calls(const struct backend *flaky);

/* The wrapped backend, still owned by the wrapper. */
struct backend *flaky_inner(const struct backend *flaky);

#endif
