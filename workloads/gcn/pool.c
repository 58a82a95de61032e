/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small thread pool. A run is a generation: the caller posts it under the lock, all threads take
 * part numbers from one atomic counter, and the caller leaves when every helper has. No queue and
 * no futures: kernels run one after another, and only the parts of one run at the same time.
 */
#include "workloads/gcn/pool.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#define POOL_THREADS_MAX 256u

struct gcn_pool {
	pthread_mutex_t lock; /* fn .. stop; nothing is called while it is held */
	pthread_cond_t posted, left;
	gcn_pool_fn fn;
	const void *arg;
	uint64_t nr_parts;
	uint64_t generation;
	uint32_t nr_busy; /* helpers that have not finished this generation */
	bool stop;

	_Atomic uint64_t next; /* part to be taken; orders nothing, the lock does */

	uint32_t nr_helpers; /* constant once created */
	pthread_t helper[];
};

static void pool_take_parts(struct gcn_pool *pool, gcn_pool_fn fn, const void *arg, uint64_t nr)
{
	uint64_t part;

	while ((part = atomic_fetch_add_explicit(&pool->next, 1, memory_order_relaxed)) < nr)
		fn(arg, part);
}

static void *pool_helper(void *p)
{
	struct gcn_pool *pool = p;
	uint64_t seen = 0;

	pthread_mutex_lock(&pool->lock);
	for (;;) {
		while (pool->generation == seen && !pool->stop)
			pthread_cond_wait(&pool->posted, &pool->lock);
		if (pool->stop)
			break;
		seen = pool->generation;
		gcn_pool_fn fn = pool->fn;
		const void *arg = pool->arg;
		uint64_t nr = pool->nr_parts;

		pthread_mutex_unlock(&pool->lock);
		pool_take_parts(pool, fn, arg, nr);
		pthread_mutex_lock(&pool->lock);
		if (--pool->nr_busy == 0)
			pthread_cond_signal(&pool->left);
	}
	pthread_mutex_unlock(&pool->lock);
	return NULL;
}

/* Helpers leave the program's signals to its own threads, except those a fault of theirs raises. */
static void pool_block_signals(sigset_t *old)
{
	sigset_t set;

	sigfillset(&set);
	sigdelset(&set, SIGSEGV);
	sigdelset(&set, SIGBUS);
	sigdelset(&set, SIGFPE);
	sigdelset(&set, SIGILL);
	pthread_sigmask(SIG_SETMASK, &set, old);
}

static uint32_t pool_nr_threads(uint32_t asked)
{
	if (!asked) {
		long nr = sysconf(_SC_NPROCESSORS_ONLN);

		asked = nr > 0 ? (uint32_t)nr : 1;
	}
	return asked < POOL_THREADS_MAX ? asked : POOL_THREADS_MAX;
}

int gcn_pool_create(uint32_t nr_threads, struct gcn_pool **out)
{
	uint32_t nr_helpers = pool_nr_threads(nr_threads) - 1;
	struct gcn_pool *pool = calloc(1, sizeof(*pool) + nr_helpers * sizeof(pool->helper[0]));
	sigset_t old;
	int err = 0;

	if (!pool)
		return -ENOMEM;
	pthread_mutex_init(&pool->lock, NULL);
	pthread_cond_init(&pool->posted, NULL);
	pthread_cond_init(&pool->left, NULL);
	pool_block_signals(&old);
	while (pool->nr_helpers < nr_helpers && !err) {
		err = pthread_create(&pool->helper[pool->nr_helpers], NULL, pool_helper, pool);
		if (!err)
			pool->nr_helpers++;
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (err) {
		gcn_pool_destroy(pool);
		return -err;
	}
	*out = pool;
	return 0;
}

void gcn_pool_destroy(struct gcn_pool *pool)
{
	if (!pool)
		return;
	pthread_mutex_lock(&pool->lock);
	pool->stop = true;
	pthread_cond_broadcast(&pool->posted);
	pthread_mutex_unlock(&pool->lock);
	for (uint32_t i = 0; i < pool->nr_helpers; i++)
		pthread_join(pool->helper[i], NULL);
	pthread_cond_destroy(&pool->left);
	pthread_cond_destroy(&pool->posted);
	pthread_mutex_destroy(&pool->lock);
	free(pool);
}

uint32_t gcn_pool_threads(const struct gcn_pool *pool)
{
	return pool ? pool->nr_helpers + 1 : 1;
}

void gcn_pool_run(struct gcn_pool *pool, uint64_t nr_parts, gcn_pool_fn fn, const void *arg)
{
	if (!pool || !pool->nr_helpers || nr_parts < 2) {
		for (uint64_t part = 0; part < nr_parts; part++)
			fn(arg, part);
		return;
	}
	pthread_mutex_lock(&pool->lock);
	pool->fn = fn;
	pool->arg = arg;
	pool->nr_parts = nr_parts;
	pool->nr_busy = pool->nr_helpers;
	pool->generation++;
	atomic_store_explicit(&pool->next, 0, memory_order_relaxed);
	pthread_cond_broadcast(&pool->posted);
	pthread_mutex_unlock(&pool->lock);

	pool_take_parts(pool, fn, arg, nr_parts);

	pthread_mutex_lock(&pool->lock);
	while (pool->nr_busy)
		pthread_cond_wait(&pool->left, &pool->lock);
	pthread_mutex_unlock(&pool->lock);
}
