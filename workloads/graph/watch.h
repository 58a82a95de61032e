/* SPDX-License-Identifier: Apache-2.0 */
/* Who looks on while a graph is read, made or checked, and may end it. */
#ifndef WEIR_GRAPH_WATCH_H
#define WEIR_GRAPH_WATCH_H

#include <stdbool.h>
#include <stddef.h>

struct graph_watch {
	/* fraction: 0 to 1 of the step that label names. True: stop, with -ECANCELED. */
	bool (*stop)(void *arg, double fraction, const char *label);
	void *arg;
};

/* watch may be NULL. Called some times a second, from the thread that the work was asked on. */
static inline bool graph_watch_stop(const struct graph_watch *watch, double fraction,
				    const char *label)
{
	return watch && watch->stop && watch->stop(watch->arg, fraction, label);
}

#endif
