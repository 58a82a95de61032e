/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread for what takes long and nobody waits for: it calls functions one after the other. It is
 * started with the first of them, and sleeps while there is none.
 */
#include <errno.h>
#include <stdlib.h>

#include "src/backend/cuda/cuda_internal.h"

struct cuda_aside {
	struct cuda_aside *next;
	uint64_t (*run)(void *arg);
	void (*done)(void *arg);
	void *arg;
};

/* The first of them; NULL: the thread is to end. Lock held, dropped while there is none. */
static struct cuda_aside *take_first(struct cuda *cuda)
{
	struct cuda_aside *first;

	while (!cuda->aside && !cuda->stop)
		pthread_cond_wait(&cuda->given_aside, &cuda->lock);
	first = cuda->aside;
	if (first)
		cuda->aside = first->next;
	return first;
}

static void *call_asides(void *arg)
{
	struct cuda *cuda = arg;
	struct cuda_aside *aside;

	pthread_mutex_lock(&cuda->lock);
	while ((aside = take_first(cuda))) {
		pthread_mutex_unlock(&cuda->lock);
		(void)aside->run(aside->arg);
		aside->done(aside->arg);
		free(aside);
		pthread_mutex_lock(&cuda->lock);
	}
	pthread_mutex_unlock(&cuda->lock);
	return NULL;
}

/* Lock held. */
static int start(struct cuda *cuda)
{
	int err = cuda->has_caller ? 0 : cuda_thread_start(&cuda->caller, call_asides, cuda);

	cuda->has_caller = !err;
	return -err;
}

int cuda_aside(struct backend *b, uint64_t (*run)(void *arg), void (*done)(void *arg), void *arg)
{
	struct cuda_aside *aside = malloc(sizeof(*aside)), **last;
	struct cuda *cuda = cuda_of(b);
	int err;

	if (!aside)
		return -ENOMEM;
	*aside = (struct cuda_aside){.run = run, .done = done, .arg = arg};
	pthread_mutex_lock(&cuda->lock);
	err = start(cuda);
	for (last = &cuda->aside; *last; last = &(*last)->next)
		;
	if (!err) {
		*last = aside;
		pthread_cond_signal(&cuda->given_aside);
	}
	pthread_mutex_unlock(&cuda->lock);
	if (err)
		free(aside);
	return err;
}

void cuda_aside_stop(struct cuda *cuda)
{
	pthread_mutex_lock(&cuda->lock);
	cuda->stop = true;
	pthread_cond_signal(&cuda->given_aside);
	pthread_mutex_unlock(&cuda->lock);
	if (cuda->has_caller)
		pthread_join(cuda->caller, NULL);
}
