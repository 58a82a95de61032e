/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The failing backend; backend.h declares how it is made and armed. Calls that are counted: every
 * op that returns an error code, but for the removal of a progress function, which is part of
 * destroying and cannot fail. Everything else is passed on untouched.
 */
#ifndef WEIR_BACKEND_FLAKY_H
#define WEIR_BACKEND_FLAKY_H

#include "src/backend/backend.h"

/* The wrapped backend, still owned by the wrapper. */
struct backend *flaky_inner(const struct backend *flaky);

#endif
