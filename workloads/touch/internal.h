/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the workloads that touch a table share: a run, and what is right. */
#ifndef WEIR_TOUCH_INTERNAL_H
#define WEIR_TOUCH_INTERNAL_H

#include "workloads/touch/touch.h"

/* One run. A step that fails stores its error, and every step after it does nothing. */
struct touch {
	struct manager *m;	      /* borrowed */
	const struct touch_params *p; /* borrowed */
	bool phantom;
	uint64_t *words; /* of the manager, as sum; NULL: not allocated */
	uint64_t *sum;
	struct touch_order order;
	uint64_t want;	  /* of *sum */
	uint64_t times;	  /* that the table was written, or updates were made */
	uint64_t *buffer; /* of TOUCH_BUFFER_BYTES or the table's, the fewer; NULL if phantom */
	uint64_t buffer_bytes;

	int status; /* the first error */
	char *err;  /* what became of it, in words */
	size_t err_bytes;
};

#define TOUCH_BUFFER_BYTES (UINT64_C(16) << 20)

__attribute__((format(printf, 3, 4))) void touch_fail(struct touch *t, int status,
						      const char *format, ...);

/* ---- right.c: what is in the table, and what it has to be */

/* What a pass that reads, of a table written t->times times, adds to *sum. */
uint64_t touch_sum(const struct touch *t);

/*
 * Read the table back and hold it to what it must be: pagein every word, gups a sum of all words,
 * each times an odd number of its own. false: it differs, or the run has an error; wrong says what.
 */
bool touch_check(struct touch *t, char *wrong, size_t wrong_bytes);

/* Different words that a pass of updates goes to. -ENOMEM. */
int touch_distinct(const struct touch_params *p, uint64_t *out);

#endif
