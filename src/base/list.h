/* SPDX-License-Identifier: Apache-2.0 */
/* Doubly linked lists whose links lie in what they link. */
#ifndef WEIR_BASE_LIST_H
#define WEIR_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

/* Circular, with the list itself as head. In no list: next is NULL. */
struct list_link {
	struct list_link *prev, *next;
};

static inline void list_init(struct list_link *list)
{
	list->prev = list->next = list;
}

static inline bool list_empty(const struct list_link *list)
{
	return list->next == list;
}

static inline void list_del(struct list_link *link)
{
	link->prev->next = link->next;
	link->next->prev = link->prev;
	link->prev = link->next = NULL;
}

/* After at: first in a list, if at is the list. */
static inline void list_add(struct list_link *at, struct list_link *link)
{
	link->prev = at;
	link->next = at->next;
	at->next->prev = link;
	at->next = link;
}

/* Before at: last in a list, if at is the list. */
static inline void list_add_tail(struct list_link *at, struct list_link *link)
{
	list_add(at->prev, link);
}

#endif
