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

/* Elements whose numbers are aligned for packets. */
#define LIST_ALIGN 4u

/* A part of a list in a device's memory; made when it is first used there. */
struct slice {
	struct replica_chunk chunk; /* handle 0: there is none */
	stream_id_t stream;	    /* that it was copied there on */
	bool fenced, done;	    /* behind that: whether there is a fence, and it was reached */
	fence_t ready;
};

struct list {
	uint64_t nr; /* > 0; these never change */
	uint32_t nr_runs;
	struct run *run; /* ascending */

	/* The numbers in memory of the machine. Guarded by the space's lock, as all of these. */
	struct list *next;	   /* of all lists; NULL also: it is not in use yet */
	struct replica_chunk home; /* in the host's memory: all of them; handle 0: there are none */
	uint32_t nr_slice;	   /* elements of a slice: a multiple of LIST_ALIGN */
	uint32_t nr_slices;
	/* By device's place; then slice n * LIST_ALIGN + a has the elements from n * nr_slice + a
	 * on, so that wherever a packet begins the numbers are aligned for it. */
	struct slice *slice[WEIR_DEVICES_MAX];
	uint32_t nr_users; /* messages under way that use them, and who fills them */
	bool ended;	   /* nobody's any more: goes with the last of these */
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

/* What a list has in some bytes of its range. @return whether there is any; else out stays. */
bool list_find(const struct list *list, uint32_t element_bytes, uint64_t offset, uint64_t end,
	       struct list_part *out);

/* Numbers of the first and the last of some elements of a list. @return the number of runs. */
uint32_t list_span(const struct list *list, uint64_t index, uint64_t nr, uint32_t *first,
		   uint32_t *last);

/* Where a device's memory has the numbers of elements, from an index on, for what is queued on a
 * stream of it. *nr: how many; fewer if no more lie there. -ENOMEM: there is no room for them. */
int list_index(struct weir_space *space, struct list *list, uint8_t own, stream_id_t stream,
	       uint64_t index, uint64_t *nr, const uint32_t **out);

/* @return 0, -EINVAL (there are none, or numbers do not ascend; logged) or -ENOMEM. */
int list_create(const uint32_t *element, uint64_t nr, struct list **out);

/* See that devices can pack, so that no bracket waits until its own can. Without the lock. */
int list_prepare(struct weir_space *space);

/* What a call names: a replicated range, by its first byte or a window's, and a device. */
struct list_place {
	struct replica *replica;
	uint8_t own; /* the device, by its place */
};

/* @return 0, or -EINVAL, logged for the call. */
int list_place_find(struct weir_space *space, void *addr, uint32_t device, const char *call,
		    struct list_place *out);

/* Give a device a list (NULL: none) in place of the one before; waits. On an error it stays the
 * caller's. */
int list_subscribe(struct weir_space *space, const struct list_place *place, struct list *list,
		   const uint32_t *element);

/* A list is no device's any more. NULL: nothing. */
void list_end(struct weir_space *space, struct list *list);
/* A message that used it is done, or it is filled. */
void list_unuse(struct weir_space *space, struct list *list);

/* Give back some of what they have in a memory. @return whether there was any. */
bool lists_evict(struct weir_space *space, uint8_t copy);
void lists_fini(struct weir_space *space);

/* The bytes that elements of the k-th run of a part lie in. */
void list_part_run(const struct list *list, uint32_t element_bytes, const struct list_part *part,
		   uint32_t k, uint64_t *offset, uint64_t *end);

#endif
