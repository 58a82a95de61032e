/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one thread of the backend: it looks out for fences and calls the progress functions when some
 * are reached. It sleeps while no fence is left, and between two looks, since the driver can only
 * be waited for one event at a time. What the functions queue is not done sooner than after a nap,
 * and a stream of short launches would keep the thread from ever napping, and the program's threads
 * from the locks.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "src/backend/cuda/cuda_internal.h"
#include "src/base/log.h"

static void nap(void)
{
	struct timespec t = {.tv_nsec = (long)CUDA_LOOK_NS};

	(void)clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
}

/* Call every progress function. Lock held on entry and exit, not while they run. */
static void call_progress(struct cuda *cuda)
{
	cuda->next_progress = 0;
	while (cuda->next_progress < cuda->nr_progress) {
		struct cuda_progress progress = cuda->progress[cuda->next_progress++];

		cuda->called = progress.arg;
		cuda->calling = true;
		pthread_mutex_unlock(&cuda->lock);
		progress.fn(progress.arg);
		pthread_mutex_lock(&cuda->lock);
		cuda->calling = false;
		pthread_cond_broadcast(&cuda->idle);
	}
}

static void *migrator(void *arg)
{
	struct cuda *cuda = arg;
	bool again = false;

	pthread_mutex_lock(&cuda->lock);
	while (!cuda->stop) {
		bool any, waits, call;

		cuda_streams_retire(cuda, &any, &waits);
		/* Once more after the last: where a function found a lock taken, who had that may
		 * have asked before. */
		call = any || again;
		again = any;
		if (call)
			call_progress(cuda);
		if (call || waits) {
			pthread_mutex_unlock(&cuda->lock);
			nap();
			pthread_mutex_lock(&cuda->lock);
		} else if (!cuda->stop) { /* it may have been set during the look */
			pthread_cond_wait(&cuda->wake, &cuda->lock);
		}
	}
	pthread_mutex_unlock(&cuda->lock);
	return NULL;
}

/* Remove the entry of arg, so that it is not called again, however busy the migrator is; then wait
 * for the call that is under way. Lock held. */
static void progress_del(struct cuda *cuda, void *arg)
{
	uint32_t i = 0;

	while (i < cuda->nr_progress && cuda->progress[i].arg != arg)
		i++;
	if (i == cuda->nr_progress)
		return;
	cuda->nr_progress--;
	cuda->next_progress -= i < cuda->next_progress;
	memmove(&cuda->progress[i], &cuda->progress[i + 1],
		(cuda->nr_progress - i) * sizeof(*cuda->progress));
	while (cuda->calling && cuda->called == arg &&
	       !pthread_equal(pthread_self(), cuda->migrator))
		pthread_cond_wait(&cuda->idle, &cuda->lock);
}

static int progress_add(struct cuda *cuda, void (*fn)(void *arg), void *arg)
{
	if (cuda->nr_progress == cuda->max_progress) {
		uint32_t max = cuda->max_progress ? cuda->max_progress * 2 : 4;
		struct cuda_progress *table = realloc(cuda->progress, max * sizeof(*table));

		if (!table)
			return -ENOMEM;
		cuda->progress = table;
		cuda->max_progress = max;
	}
	if (!cuda->running) {
		int err = cuda_thread_start(&cuda->migrator, migrator, cuda);

		if (err) {
			log_error("cuda: no thread for the migrator: %s", weir_strerror(-err));
			return -err;
		}
		cuda->running = true;
	}
	cuda->progress[cuda->nr_progress++] = (struct cuda_progress){fn, arg};
	return 0;
}

int cuda_set_progress(struct backend *b, void (*fn)(void *arg), void *arg)
{
	struct cuda *cuda = cuda_of(b);
	int err = 0;

	pthread_mutex_lock(&cuda->lock);
	progress_del(cuda, arg);
	if (fn)
		err = progress_add(cuda, fn, arg);
	pthread_mutex_unlock(&cuda->lock);
	return err;
}

void cuda_migrator_stop(struct cuda *cuda)
{
	bool running;

	pthread_mutex_lock(&cuda->lock);
	running = cuda->running;
	cuda->stop = true;
	pthread_cond_signal(&cuda->wake);
	pthread_mutex_unlock(&cuda->lock);
	if (running)
		pthread_join(cuda->migrator, NULL);
	free(cuda->progress);
}
