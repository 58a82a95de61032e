/* SPDX-License-Identifier: Apache-2.0 */
/* What is logged, for tests of what is said. weir_log_set(NULL, NULL) ends it. */
#ifndef WEIR_TESTS_SUPPORT_LOG_WATCH_H
#define WEIR_TESTS_SUPPORT_LOG_WATCH_H

#include <pthread.h>
#include <stdio.h>

#include "weir/weir.h"

/* Messages of one level since log_watch(), any thread's: how many, the first and the last. */
struct log_watch {
	pthread_mutex_t lock;
	enum weir_log_level level;
	char first[512], last[512];
	unsigned int nr;
};

static inline void log_watch_take(void *arg, enum weir_log_level level, const char *message)
{
	struct log_watch *w = arg;

	pthread_mutex_lock(&w->lock);
	if (level == w->level) {
		if (!w->nr++)
			snprintf(w->first, sizeof(w->first), "%s", message);
		snprintf(w->last, sizeof(w->last), "%s", message);
	}
	pthread_mutex_unlock(&w->lock);
}

static inline void log_watch(struct log_watch *w, enum weir_log_level level)
{
	*w = (struct log_watch){.lock = PTHREAD_MUTEX_INITIALIZER, .level = level};
	weir_log_set(log_watch_take, w);
}

#endif
