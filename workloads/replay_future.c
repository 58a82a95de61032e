/* SPDX-License-Identifier: Apache-2.0 */
/* The uses of each life by step, and which life is at an address: see the header. */
#include "workloads/replay_future.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/util.h"

/* A part of a life is used in a step. */
struct future_use {
	uint64_t step; /* from 1 on */
	uint64_t begin, end;
};

struct live {
	const char *addr;
	uint64_t life;
};

struct replay_future {
	const struct trace_file *file;
	struct policy_future policy;
	uint64_t *first;	/* by life: its first use in use[], up to the next life's */
	uint64_t *next;		/* by life: its first use from the present step on */
	struct future_use *use; /* by life, and by step in each */
	uint64_t step;		/* the present one; 0: none has begun */
	uint64_t last_step;	/* that was queued */
	bool queued;		/* steps begin as begin() and end() say */
	uint64_t *queue;	/* by launch and copy: its step */
	uint64_t nr_queued, nr_begun, max_queued;
	struct live *live; /* by address */
	uint32_t nr_live, max_live;
};

/* ------------------------------------------------------------------ reading the trace */

/* Called for each use, in order of steps. */
typedef void (*use_fn)(struct replay_future *f, uint64_t life, const struct future_use *use);

/* Uses of a bracket, which are all of one step. */
static void walk_bracket(struct replay_future *f, const struct trace_cursor *cursor,
			 const struct trace_begin *begin, uint64_t step, use_fn fn)
{
	struct trace_use_cursor uses = {.cursor = *cursor, .begin = begin};
	const struct trace_file_use *use;

	while ((use = trace_next_use(&uses)))
		if (use->kind != WEIR_DISCARD)
			fn(f, use->life,
			   &(struct future_use){step, use->offset, use->offset + use->bytes});
}

/* An open bracket of a stream. */
struct opened {
	const struct trace_begin *begin;
	struct trace_cursor cursor;
};

static void walk_event(struct replay_future *f, const struct trace_cursor *cursor,
		       const struct trace_event *event, struct opened *opened, uint64_t *step,
		       use_fn fn)
{
	const struct trace_part_of *part = (const void *)event;
	struct opened *one = &opened[event->stream];

	switch (event->kind) {
	case TRACE_BEGIN:
		*one = (struct opened){(const void *)event, *cursor};
		break;
	case TRACE_END:
		if (one->begin)
			walk_bracket(f, &one->cursor, one->begin, ++*step, fn);
		one->begin = NULL;
		break;
	case TRACE_HOST_BEGIN:
		walk_bracket(f, cursor, (const void *)event, ++*step, fn);
		break;
	case TRACE_READ:
	case TRACE_WRITE:
		++*step;
		fn(f, part->life,
		   &(struct future_use){*step, part->offset, part->offset + part->bytes});
		break;
	default:
		break;
	}
}

static int walk(struct replay_future *f, use_fn fn)
{
	struct opened *opened = calloc((size_t)TRACE_STREAMS_MAX + 1, sizeof(*opened));
	struct trace_cursor cursor = trace_cursor(f->file);
	const struct trace_event *event;
	uint64_t step = 0;

	if (!opened)
		return -ENOMEM;
	while ((event = trace_next(&cursor)))
		walk_event(f, &cursor, event, opened, &step, fn);
	free(opened);
	return 0;
}

static void count_use(struct replay_future *f, uint64_t life, const struct future_use *use)
{
	(void)use;
	f->first[life + 1]++;
}

static void put_use(struct replay_future *f, uint64_t life, const struct future_use *use)
{
	f->use[f->next[life]++] = *use;
}

/* ------------------------------------------------------------------ asking */

/* The first allocation above an address. */
static uint32_t live_above(const struct replay_future *f, const void *addr)
{
	uint32_t at;

	SEARCH_SORTED(at, 0, f->nr_live, (uintptr_t)f->live[at].addr <= (uintptr_t)addr);
	return at;
}

static uint64_t next_use(void *arg, const void *addr, uint64_t bytes)
{
	struct replay_future *f = arg;
	uint32_t above = live_above(f, addr);
	const struct live *live;
	uint64_t begin, life;

	if (!above)
		return WEIR_POLICY_NEVER;
	live = &f->live[above - 1];
	begin = (uint64_t)((const char *)addr - live->addr);
	life = live->life;
	if (begin >= f->file->life[life].bytes)
		return WEIR_POLICY_NEVER;
	while (f->next[life] < f->first[life + 1] && f->use[f->next[life]].step < f->step)
		f->next[life]++;
	for (uint64_t u = f->next[life]; u < f->first[life + 1]; u++)
		if (f->use[u].begin < begin + bytes && begin < f->use[u].end)
			return f->use[u].step - f->step;
	return WEIR_POLICY_NEVER;
}

static uint64_t present_step(void *arg)
{
	return ((const struct replay_future *)arg)->step;
}

static void begin(void *arg)
{
	struct replay_future *f = arg;

	if (f->nr_begun == f->nr_queued)
		return;
	/* A step may be several copies, the first of which ended it. */
	f->step = MAX(f->step, f->queue[f->nr_begun]);
	f->nr_begun++;
}

static void end(void *arg)
{
	struct replay_future *f = arg;

	if (f->queued)
		f->step++;
}

const struct policy_future *replay_future_policy(const struct replay_future *future)
{
	return &future->policy;
}

int replay_future_alloc(struct replay_future *f, uint64_t life, const void *addr)
{
	uint32_t at;

	if (!f)
		return 0;
	if (f->nr_live == f->max_live) {
		uint32_t max = MAX(64u, 2 * f->max_live);
		struct live *more = realloc(f->live, max * sizeof(*more));

		if (!more)
			return -ENOMEM;
		f->live = more;
		f->max_live = max;
	}
	at = live_above(f, addr);
	memmove(&f->live[at + 1], &f->live[at], (f->nr_live - at) * sizeof(*f->live));
	f->live[at] = (struct live){addr, life};
	f->nr_live++;
	return 0;
}

void replay_future_free(struct replay_future *f, const void *addr)
{
	uint32_t above = f ? live_above(f, addr) : 0;

	if (!above || f->live[above - 1].addr != addr)
		return;
	memmove(&f->live[above - 1], &f->live[above], (f->nr_live - above) * sizeof(*f->live));
	f->nr_live--;
}

void replay_future_step(struct replay_future *f)
{
	if (!f)
		return;
	f->last_step++;
	if (!f->queued)
		f->step = f->last_step;
}

int replay_future_queue(struct replay_future *f)
{
	if (!f || !f->queued)
		return 0;
	if (f->nr_queued == f->max_queued) {
		uint64_t max = MAX(256u, 2 * f->max_queued);
		uint64_t *more = reallocarray(f->queue, max, sizeof(*more));

		if (!more)
			return -ENOMEM;
		f->queue = more;
		f->max_queued = max;
	}
	f->queue[f->nr_queued++] = f->last_step;
	return 0;
}

/* ------------------------------------------------------------------ all of it */

int replay_future_create(const struct trace_file *file, bool queued, struct replay_future **out)
{
	struct replay_future *f = calloc(1, sizeof(*f));

	if (!f)
		return -ENOMEM;
	f->file = file;
	f->queued = queued;
	f->policy = (struct policy_future){
		.next_use = next_use,
		.now = present_step,
		.begin = begin,
		.end = end,
		.arg = f,
	};
	f->first = calloc(file->nr_lives + 2, sizeof(*f->first));
	f->next = calloc(file->nr_lives + 2, sizeof(*f->next));
	if (!f->first || !f->next || walk(f, count_use))
		goto err_destroy;
	for (uint64_t life = 1; life <= file->nr_lives + 1; life++)
		f->first[life] += f->first[life - 1];
	memcpy(f->next, f->first, (file->nr_lives + 2) * sizeof(*f->next));
	f->use = calloc(f->first[file->nr_lives + 1] + 1, sizeof(*f->use));
	if (!f->use || walk(f, put_use))
		goto err_destroy;
	memcpy(f->next, f->first, (file->nr_lives + 2) * sizeof(*f->next));
	*out = f;
	return 0;

err_destroy:
	replay_future_destroy(f);
	return -ENOMEM;
}

void replay_future_destroy(struct replay_future *f)
{
	if (!f)
		return;
	free(f->first);
	free(f->next);
	free(f->use);
	free(f->live);
	free(f->queue);
	free(f);
}
