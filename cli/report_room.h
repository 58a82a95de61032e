/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The account of a device's memory over a period, as a picture: from left to right the stages, as
 * wide as they take; upwards what the chunks of the budget are for as each begins.
 */
#ifndef WEIR_CLI_REPORT_ROOM_H
#define WEIR_CLI_REPORT_ROOM_H

#include "cli/report_explain.h"

/* Nothing where it is not known. number: of the picture in the page. Errors stay in the stream. */
void report_room_put(FILE *out, const struct report_explained *e, size_t number);

#endif
