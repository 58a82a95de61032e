/* SPDX-License-Identifier: Apache-2.0 */
/* Threads as agents; see agents.h. */
#include "workloads/agents.h"

#include <pthread.h>

struct share {
	struct paging *pool;
	agents_fn fn;
	void *arg;
	uint32_t first, nr;
	int err;
};

static void *share_run(void *arg)
{
	struct share *s = arg;
	struct paging_agent *agent;

	s->err = paging_enter(s->pool, &agent);
	if (s->err)
		return NULL;
	s->err = s->fn(agent, s->first, s->nr, s->arg);
	if (s->err)
		paging_abandon(agent);
	else
		s->err = paging_leave(agent);
	return NULL;
}

/* A thread that does not start has its share done here. */
int agents_run(const struct weir_paged_view *view, uint32_t quiesce_every, uint32_t nr,
	       agents_fn fn, void *arg)
{
	struct share share[AGENTS_MAX];
	pthread_t thread[AGENTS_MAX];
	bool started[AGENTS_MAX] = {false};
	struct paging *pool;
	int err = paging_over(view, quiesce_every, &pool);

	if (err)
		return err;
	for (uint32_t i = 0; i < nr; i++) {
		share[i] = (struct share){pool, fn, arg, i, nr, 0};
		started[i] = i && !pthread_create(&thread[i], NULL, share_run, &share[i]);
	}
	for (uint32_t i = 0; i < nr; i++)
		if (!started[i])
			share_run(&share[i]);
	for (uint32_t i = 0; i < nr; i++) {
		if (started[i])
			pthread_join(thread[i], NULL);
		err = err ? err : share[i].err;
	}
	paging_destroy(pool);
	return err;
}
