/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * What a space planned and what happened, side by side: for whoever asks why a program takes longer
 * than it should. C11 or newer, or C++.
 */
#ifndef WEIR_EXPLAIN_H
#define WEIR_EXPLAIN_H

#include <stdio.h>

#include "weir/weir.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Write, as text for people, what each device's plan says of a period of the program and what was
 * measured under it: docs/explain.md has the columns. A device without a plan has one line that
 * says why. The text is of this version of weir: nothing should read it but people.
 *
 * A plan is measured while plans are compared, for some periods; what was measured then is kept as
 * long as the plan. So it may be called at any time, and says most when the program has repeated
 * itself ten times. Times are those of the devices' clocks. With several devices in a space, moves
 * and mapping calls are those of all of them together.
 *
 * From any thread; calls of other threads for the space wait while the figures are gathered.
 *
 * @param out Is written to, and not flushed.
 * @return 0, -ENOMEM, or -EIO: it could not be written.
 */
WEIR_API WEIR_MUST_CHECK int weir_space_explain(struct weir_space *space, FILE *out);

#ifdef __cplusplus
}
#endif

#endif
