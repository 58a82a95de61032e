/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists of elements that a device is subscribed to: weir_subscribe_elements(). Elements of a list
 * that follow each other in the range are a run; a list is kept as its runs, so that what a message
 * has of it is found in logarithmic time.
 */
#ifndef WEIR_REPLICA_LISTS_H
#define WEIR_REPLICA_LISTS_H

#include "src/replica/replica.h"

struct run {
	uint32_t first; /* number of its first element in the range */
	uint32_t index; /* of that one in the list */
};

struct list {
	uint64_t nr; /* > 0; these never change */
	uint32_t nr_runs;
	struct run *run; /* ascending */
};

/* Elements of a list that lie in some bytes of the range, be it in part. */
struct list_part {
	uint64_t index, nr;    /* in the list */
	uint32_t run, nr_runs; /* that they are of */
	uint32_t first, last;  /* numbers of the first and the last one */
};

/* Elements before and behind a run in its list: run k has the elements from index on to this. */
static inline uint64_t list_run_end(const struct list *list, uint32_t k)
{
	return k + 1 < list->nr_runs ? list->run[k + 1].index : list->nr;
}

/* @return 0, -EINVAL (numbers do not ascend) or -ENOMEM. */
int list_create(const uint32_t *element, uint64_t nr, struct list **out);
/* NULL: nothing. */
void list_destroy(struct list *list);

/* What a list has in some bytes of its range. @return whether there is any; else out stays. */
bool list_find(const struct list *list, uint32_t element_bytes, uint64_t offset, uint64_t end,
	       struct list_part *out);

/* The bytes that elements of the k-th run of a part lie in. */
void list_part_run(const struct list *list, uint32_t element_bytes, const struct list_part *part,
		   uint32_t k, uint64_t *offset, uint64_t *end);

#endif
