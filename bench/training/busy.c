/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that do nothing but run, and what prefers another thread to them; see busy.h. */
#include "bench/training/busy.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* ------------------------------------------------------------------ busy threads */

/* Created once; they run while `on` is set. */
static struct {
	pthread_t *thread;
	uint32_t nr, nr_running; /* nr_running and quit: under the lock */
	atomic_bool on;		 /* set under the lock, looked at by each turn of a loop */
	bool quit;
	pthread_mutex_t lock;
	pthread_cond_t wake, changed;
} busy = {.lock = PTHREAD_MUTEX_INITIALIZER,
	  .wake = PTHREAD_COND_INITIALIZER,
	  .changed = PTHREAD_COND_INITIALIZER};

static void *be_busy(void *arg)
{
	pthread_mutex_lock(&busy.lock);
	while (!busy.quit) {
		if (!atomic_load(&busy.on)) {
			pthread_cond_wait(&busy.wake, &busy.lock);
			continue;
		}
		busy.nr_running++;
		pthread_cond_signal(&busy.changed);
		pthread_mutex_unlock(&busy.lock);
		while (atomic_load_explicit(&busy.on, memory_order_relaxed))
			;
		pthread_mutex_lock(&busy.lock);
		busy.nr_running--;
		pthread_cond_signal(&busy.changed);
	}
	pthread_mutex_unlock(&busy.lock);
	return arg;
}

void busy_switch(bool on)
{
	pthread_mutex_lock(&busy.lock);
	atomic_store(&busy.on, on);
	pthread_cond_broadcast(&busy.wake);
	while (busy.nr_running != (on ? busy.nr : 0))
		pthread_cond_wait(&busy.changed, &busy.lock);
	pthread_mutex_unlock(&busy.lock);
}

void busy_stop(void)
{
	pthread_mutex_lock(&busy.lock);
	busy.quit = true;
	atomic_store(&busy.on, false);
	pthread_cond_broadcast(&busy.wake);
	pthread_mutex_unlock(&busy.lock);
	while (busy.nr)
		pthread_join(busy.thread[--busy.nr], NULL);
	free(busy.thread);
}

int busy_start(uint32_t nr, char *why, size_t why_bytes)
{
	int err = 0;

	busy.thread = calloc(nr, sizeof(*busy.thread));
	if (!busy.thread)
		err = ENOMEM;
	while (!err && busy.nr < nr) {
		err = pthread_create(&busy.thread[busy.nr], NULL, be_busy, NULL);
		busy.nr += !err;
	}
	if (err)
		snprintf(why, why_bytes, "starting %" PRIu32 " busy threads: %s; ask for fewer", nr,
			 strerror(err));
	return -err;
}

/* ------------------------------------------------------------------ priorities */

/* The training's thread as the program was started. */
static struct {
	cpu_set_t processors;
	int nice, policy;
	struct sched_param param;
} usual;

int priority_init(char *why, size_t why_bytes)
{
	if (sched_getaffinity(0, sizeof(usual.processors), &usual.processors)) {
		snprintf(why, why_bytes, "asking for the processors of this process: %s",
			 strerror(errno));
		return -EINVAL;
	}
	usual.nice = getpriority(PRIO_PROCESS, (id_t)gettid());
	(void)pthread_getschedparam(pthread_self(), &usual.policy, &usual.param);
	return 0;
}

/* Keep this thread on one processor and the busy ones off it; or let all run where they did. */
static int set_pinned(bool pinned)
{
	cpu_set_t own = usual.processors, others = usual.processors;
	size_t first = 0;
	int err;

	while (pinned && !CPU_ISSET(first, &own))
		first++;
	if (pinned) {
		CPU_ZERO(&own);
		CPU_SET(first, &own);
		CPU_CLR(first, &others);
	}
	err = pthread_setaffinity_np(pthread_self(), sizeof(own), &own);
	for (uint32_t i = 0; i < busy.nr && !err; i++)
		err = pthread_setaffinity_np(busy.thread[i], sizeof(others), &others);
	return err;
}

uint32_t priority_processors(void)
{
	return (uint32_t)CPU_COUNT(&usual.processors);
}

static int set_nice(int nice)
{
	return setpriority(PRIO_PROCESS, (id_t)gettid(), nice) ? errno : 0;
}

int priority_set(const struct priority *priority, char *why, size_t why_bytes)
{
	const struct sched_param lowest = {.sched_priority = 1};
	int err = 0;

	switch (priority->kind) {
	case PRIORITY_NONE:
		break;
	case PRIORITY_NICE:
		err = set_nice(priority->nice);
		break;
	case PRIORITY_FIFO:
		err = pthread_setschedparam(pthread_self(), SCHED_FIFO, &lowest);
		break;
	case PRIORITY_PIN:
		err = set_pinned(true);
		break;
	}
	if (err)
		snprintf(why, why_bytes, "--priority '%s': this process may not set it: %s%s",
			 priority->name, strerror(err),
			 err == EPERM || err == EACCES ? "; it takes CAP_SYS_NICE, or limits "
							 "(ulimit -e, ulimit -r) that allow it"
						       : "");
	return -err;
}

int priority_unset(const struct priority *priority, char *why, size_t why_bytes)
{
	int err = 0;

	if (priority->kind == PRIORITY_NICE)
		err = set_nice(usual.nice);
	if (priority->kind == PRIORITY_FIFO)
		err = pthread_setschedparam(pthread_self(), usual.policy, &usual.param);
	if (priority->kind == PRIORITY_PIN)
		err = set_pinned(false);
	if (err)
		snprintf(why, why_bytes, "--priority '%s': taking it back: %s", priority->name,
			 strerror(err));
	return -err;
}
