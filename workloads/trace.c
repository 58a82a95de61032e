/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recording of what a workload asks of its manager. Forwarding comes first: what the inner manager
 * refused is not recorded. A failure to record never disturbs the run; it is kept and reported by
 * trace_manager_stop().
 *
 * Live allocations stand in one array sorted by address: workloads hold tens of them, and a launch
 * looks up a handful.
 */
#include "workloads/trace.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/util.h"

/* With no inner manager: where addresses start, and what they are rounded to. */
#define FAKE_BASE UINT64_C(0x100000000000)
#define FAKE_END UINT64_C(0x7f0000000000)
#define FAKE_ALIGN UINT64_C(4096)

struct live {
	uint64_t addr, bytes;
	uint32_t life; /* index in the trace that is being recorded */
};

struct trace_manager {
	struct manager base;
	struct manager *inner; /* owned; NULL: nothing runs */
	struct live *live;     /* sorted by addr, disjoint */
	uint32_t nr_live, cap_live;
	uint64_t next_addr;  /* with no inner manager */
	struct trace *trace; /* NULL: not recording */
	uint32_t cap_steps, cap_uses, cap_lives, cap_where;
	int error;		    /* first error of recording */
	trace_observer_fn observer; /* NULL: none */
	void *observer_arg;
};

static struct trace_manager *from_manager(struct manager *m)
{
	return (struct trace_manager *)m;
}

/* Make room for one more element. */
static int grow(void **array, uint32_t *cap, uint32_t nr, uint32_t more, size_t size)
{
	uint64_t want = (uint64_t)nr + more, next = *cap ? *cap : 64;
	void *p;

	if (want <= *cap)
		return 0;
	if (want >= TRACE_NEVER)
		return -E2BIG;
	while (next < want)
		next *= 2;
	if (next >= TRACE_NEVER)
		next = TRACE_NEVER - 1;
	p = realloc(*array, next * size);
	if (!p)
		return -ENOMEM;
	*array = p;
	*cap = (uint32_t)next;
	return 0;
}

static int grow_lives(struct trace_manager *t)
{
	void *p = t->trace->lives;
	int err = grow(&p, &t->cap_lives, t->trace->nr_lives, 1, sizeof(*t->trace->lives));

	t->trace->lives = p;
	return err;
}

static int grow_steps(struct trace_manager *t, uint32_t nr_uses)
{
	void *p = t->trace->steps;
	int err = grow(&p, &t->cap_steps, t->trace->nr_steps, 1, sizeof(*t->trace->steps));

	t->trace->steps = p;
	if (err)
		return err;
	p = t->trace->uses;
	err = grow(&p, &t->cap_uses, t->trace->nr_uses, nr_uses, sizeof(*t->trace->uses));
	t->trace->uses = p;
	return err;
}

/* Index of the first live allocation beyond addr. */
static uint32_t live_upper(const struct trace_manager *t, uint64_t addr)
{
	uint32_t at;

	SEARCH_SORTED(at, 0, t->nr_live, t->live[at].addr <= addr);
	return at;
}

/* The live allocation that holds all of a part, or NULL. */
static struct live *live_find(const struct trace_manager *t, uint64_t addr, uint64_t bytes)
{
	uint32_t i = live_upper(t, addr);
	struct live *l;

	if (i == 0)
		return NULL;
	l = &t->live[i - 1];
	if (addr - l->addr >= l->bytes || bytes > l->bytes - (addr - l->addr))
		return NULL;
	return l;
}

static int record_life(struct trace_manager *t, struct live *l, uint32_t birth)
{
	int err = grow_lives(t);

	if (err)
		return err;
	l->life = t->trace->nr_lives;
	t->trace->lives[t->trace->nr_lives++] =
		(struct trace_life){.bytes = l->bytes, .birth = birth, .death = TRACE_NEVER};
	return 0;
}

static int record_use(struct trace_manager *t, const struct weir_use *use, struct trace_use *out)
{
	uint64_t addr = (uint64_t)(uintptr_t)use->addr;
	const struct live *l = live_find(t, addr, use->bytes);

	if (!l || use->bytes == 0)
		return -EINVAL;
	*out = (struct trace_use){
		.life = l->life,
		.granule = use->granule,
		.offset = addr - l->addr,
		.bytes = use->bytes,
		.read_bytes = use->read_bytes,
		.write_bytes = use->write_bytes,
		.kind = use->kind,
		.pattern = use->pattern,
	};
	return 0;
}

static int record_step(struct trace_manager *t, const char *name, double ops,
		       const struct weir_use *uses, uint32_t nr)
{
	struct trace *trace = t->trace;
	int err = grow_steps(t, nr);

	if (err)
		return err;
	for (uint32_t i = 0; i < nr; i++) {
		err = record_use(t, &uses[i], &trace->uses[trace->nr_uses + i]);
		if (err)
			return err;
	}
	trace->steps[trace->nr_steps++] = (struct trace_step){
		.name = name, .ops = ops, .first_use = trace->nr_uses, .nr_uses = nr};
	trace->nr_uses += nr;
	return 0;
}

/* Recording goes on only while all of it was recorded. */
static bool recording(const struct trace_manager *t)
{
	return t->trace && !t->error;
}

static int fake_alloc(struct trace_manager *t, uint64_t bytes, void **addr)
{
	uint64_t size;

	if (bytes == 0 || bytes > FAKE_END - FAKE_BASE)
		return -EINVAL;
	size = round_up(bytes, FAKE_ALIGN);
	if (size > FAKE_END - t->next_addr)
		return -ENOMEM;
	*addr = (void *)(uintptr_t)t->next_addr;
	t->next_addr += size;
	return 0;
}

static int trace_alloc(struct manager *m, uint64_t bytes, const char *name, void **addr)
{
	struct trace_manager *t = from_manager(m);
	struct live l = {.bytes = bytes};
	void *p = t->live, *mem;
	uint32_t at;
	int err;

	err = grow(&p, &t->cap_live, t->nr_live, 1, sizeof(*t->live));
	t->live = p;
	if (err)
		return err;
	err = t->inner ? t->inner->ops->alloc(t->inner, bytes, name, &mem)
		       : fake_alloc(t, bytes, &mem);
	if (err)
		return err;
	l.addr = (uint64_t)(uintptr_t)mem;
	if (recording(t))
		t->error = record_life(t, &l, t->trace->nr_steps);
	at = live_upper(t, l.addr);
	memmove(&t->live[at + 1], &t->live[at], (t->nr_live - at) * sizeof(*t->live));
	t->live[at] = l;
	t->nr_live++;
	if (t->observer)
		t->observer(t->observer_arg, mem, bytes, name);
	*addr = mem;
	return 0;
}

static void trace_free(struct manager *m, void *addr)
{
	struct trace_manager *t = from_manager(m);
	struct live *l = live_find(t, (uint64_t)(uintptr_t)addr, 1);

	if (l && l->addr == (uint64_t)(uintptr_t)addr) {
		uint32_t at = (uint32_t)(l - t->live);

		if (recording(t))
			t->trace->lives[l->life].death = t->trace->nr_steps;
		if (t->observer)
			t->observer(t->observer_arg, addr, l->bytes, NULL);
		t->nr_live--;
		memmove(l, l + 1, (t->nr_live - at) * sizeof(*l));
	}
	if (t->inner)
		t->inner->ops->free(t->inner, addr);
}

static void *trace_stream(struct manager *m)
{
	const struct manager *inner = from_manager(m)->inner;

	return inner && inner->ops->stream ? inner->ops->stream(from_manager(m)->inner) : NULL;
}

/* What a launch of the inner manager finds; it is not known yet whether it succeeds. */
static void record_where(void *arg, uint32_t use, const uint8_t *where, uint32_t nr_blocks)
{
	struct trace_manager *t = arg;
	struct trace *trace = t->trace;
	void *p = trace->where;

	(void)use;
	if (!recording(t))
		return;
	t->error = grow(&p, &t->cap_where, trace->nr_where, nr_blocks, sizeof(*where));
	trace->where = p;
	if (t->error)
		return;
	memcpy(&trace->where[trace->nr_where], where, nr_blocks * sizeof(*where));
	trace->nr_where += nr_blocks;
}

static int trace_launch(struct manager *m, const struct weir_launch *launch)
{
	struct trace_manager *t = from_manager(m);
	uint32_t nr_where = t->trace ? t->trace->nr_where : 0;
	int err = t->inner ? t->inner->ops->launch(t->inner, launch) : 0;

	if (err) {
		if (t->trace)
			t->trace->nr_where = nr_where;
		return err;
	}
	if (recording(t))
		t->error = record_step(t, launch->kernel->name, launch->ops, launch->uses,
				       launch->nr_uses);
	return 0;
}

static int trace_write(struct manager *m, void *addr, const void *data, uint64_t bytes)
{
	struct trace_manager *t = from_manager(m);
	struct weir_use use = {.addr = addr, .bytes = bytes, .kind = WEIR_DISCARD};
	int err = t->inner ? t->inner->ops->write(t->inner, addr, data, bytes) : 0;

	if (err || bytes == 0)
		return err;
	if (recording(t))
		t->error = record_step(t, NULL, 0, &use, 1);
	return 0;
}

/* Not recorded: that contents must be where the program reads them only adds to a run's time. */
static int trace_read(struct manager *m, void *data, const void *addr, uint64_t bytes)
{
	struct trace_manager *t = from_manager(m);

	return t->inner ? t->inner->ops->read(t->inner, data, addr, bytes) : 0;
}

static int trace_advise(struct manager *m, void *addr, enum weir_advice advice, uint32_t where)
{
	struct manager *inner = from_manager(m)->inner;

	return inner && inner->ops->advise ? inner->ops->advise(inner, addr, advice, where) : 0;
}

static int trace_prefetch(struct manager *m, void *addr, uint64_t bytes, uint32_t memory)
{
	struct manager *inner = from_manager(m)->inner;

	return inner && inner->ops->prefetch ? inner->ops->prefetch(inner, addr, bytes, memory) : 0;
}

static int trace_set_budget(struct manager *m, uint32_t memory, uint64_t bytes)
{
	struct manager *inner = from_manager(m)->inner;

	return inner && inner->ops->set_budget ? inner->ops->set_budget(inner, memory, bytes) : 0;
}

static int trace_drain(struct manager *m)
{
	struct manager *inner = from_manager(m)->inner;

	return inner && inner->ops->drain ? inner->ops->drain(inner) : 0;
}

static int trace_sync(struct manager *m)
{
	struct trace_manager *t = from_manager(m);

	return t->inner ? t->inner->ops->sync(t->inner) : 0;
}

static void trace_stats(struct manager *m, struct manager_stats *out)
{
	struct trace_manager *t = from_manager(m);

	*out = (struct manager_stats){0};
	if (t->inner)
		t->inner->ops->stats(t->inner, out);
}

static void trace_mark(struct manager *m, const char *name)
{
	struct manager *inner = from_manager(m)->inner;

	if (inner && inner->ops->mark)
		inner->ops->mark(inner, name);
}

static int trace_explain(struct manager *m, struct explain **out)
{
	struct manager *inner = from_manager(m)->inner;

	*out = NULL;
	return inner ? manager_explain(inner, out) : 0;
}

static int trace_manager_check(struct manager *m)
{
	struct trace_manager *t = from_manager(m);

	for (uint32_t i = 0; i + 1 < t->nr_live; i++) {
		if (t->live[i].addr + t->live[i].bytes > t->live[i + 1].addr)
			return -EUCLEAN;
	}
	return t->inner ? t->inner->ops->check(t->inner) : 0;
}

static void trace_manager_destroy(struct manager *m)
{
	struct trace_manager *t = from_manager(m);

	if (t->inner)
		t->inner->ops->destroy(t->inner);
	trace_destroy(t->trace);
	free(t->live);
	free(t);
}

/* It cannot be made by name: it needs a manager to stand before. */
static int trace_create_by_name(const struct manager_config *config, struct manager **out)
{
	(void)config;
	(void)out;
	return -ENOSYS;
}

static const struct manager_ops trace_ops = {
	.name = "trace",
	.help = "records what another manager is asked for",
	.create = trace_create_by_name,
	.destroy = trace_manager_destroy,
	.alloc = trace_alloc,
	.free = trace_free,
	.stream = trace_stream,
	.launch = trace_launch,
	.write = trace_write,
	.read = trace_read,
	.drain = trace_drain,
	.advise = trace_advise,
	.prefetch = trace_prefetch,
	.set_budget = trace_set_budget,
	.sync = trace_sync,
	.stats = trace_stats,
	.mark = trace_mark,
	.explain = trace_explain,
	.check = trace_manager_check,
};

int trace_manager_create(struct manager *inner, struct manager **out)
{
	struct trace_manager *t = calloc(1, sizeof(*t));

	if (!t)
		return -ENOMEM;
	t->base.ops = &trace_ops;
	t->base.backend = inner ? inner->backend : NULL;
	t->base.device = inner ? inner->device : 0;
	t->base.policy = inner ? inner->policy : NULL; /* still the inner one's */
	t->inner = inner;
	t->next_addr = FAKE_BASE;
	*out = &t->base;
	return 0;
}

/* Be told of the inner manager's blocks, if it moves any. */
static int where_start(struct trace_manager *t)
{
	struct manager_stats stats;
	int err;

	if (!t->inner || !t->inner->ops->tell_where)
		return 0;
	err = t->inner->ops->tell_where(t->inner, record_where, t);
	if (err)
		return err == -ENOTSUP ? 0 : err;
	t->inner->ops->stats(t->inner, &stats);
	t->trace->block_bytes = stats.block_bytes;
	return 0;
}

static void where_stop(struct trace_manager *t)
{
	if (t->inner && t->inner->ops->tell_where)
		(void)t->inner->ops->tell_where(t->inner, NULL,
						NULL); /* takes no memory any more */
}

void trace_manager_observe(struct manager *m, trace_observer_fn fn, void *arg)
{
	struct trace_manager *t = from_manager(m);

	t->observer = fn;
	t->observer_arg = arg;
}

int trace_manager_start(struct manager *m)
{
	struct trace_manager *t = from_manager(m);
	int err;

	if (t->trace)
		return -EBUSY;
	t->trace = calloc(1, sizeof(*t->trace));
	if (!t->trace)
		return -ENOMEM;
	t->error = 0;
	t->cap_steps = t->cap_uses = t->cap_lives = t->cap_where = 0;
	for (uint32_t i = 0; i < t->nr_live; i++) {
		err = record_life(t, &t->live[i], TRACE_NEVER);
		if (err)
			goto err_trace;
	}
	err = where_start(t);
	if (err)
		goto err_trace;
	return 0;

err_trace:
	trace_destroy(t->trace);
	t->trace = NULL;
	return err;
}

int trace_manager_stop(struct manager *m, struct trace **out)
{
	struct trace_manager *t = from_manager(m);
	struct trace *trace = t->trace;

	if (!trace)
		return -EINVAL;
	t->trace = NULL;
	where_stop(t);
	if (t->error) {
		trace_destroy(trace);
		return t->error;
	}
	*out = trace;
	return 0;
}

void trace_destroy(struct trace *trace)
{
	if (!trace)
		return;
	free(trace->steps);
	free(trace->uses);
	free(trace->lives);
	free(trace->where);
	free(trace);
}

static bool use_ok(const struct trace *trace, uint32_t step, const struct trace_use *use)
{
	const struct trace_life *life;

	if (use->life >= trace->nr_lives)
		return false;
	life = &trace->lives[use->life];
	if (use->bytes == 0 || use->offset >= life->bytes || use->bytes > life->bytes - use->offset)
		return false;
	if ((unsigned)use->kind > WEIR_DISCARD || (unsigned)use->pattern > WEIR_RANDOM)
		return false;
	return (life->birth == TRACE_NEVER || life->birth <= step) && life->death > step;
}

/* Whether what is known of blocks is known of all that the launches name. */
static bool where_ok(const struct trace *trace)
{
	uint64_t nr = 0;

	if (!trace->block_bytes || !trace->where)
		return !trace->nr_where;
	for (uint32_t s = 0; s < trace->nr_steps; s++) {
		const struct trace_step *step = &trace->steps[s];

		for (uint32_t u = 0; step->name && u < step->nr_uses; u++) {
			const struct trace_use *use = &trace->uses[step->first_use + u];

			nr += trace_part_blocks(trace, use->offset, use->bytes);
		}
	}
	for (uint32_t i = 0; i < trace->nr_where; i++)
		if (trace->where[i] > MANAGER_HOST)
			return false;
	return nr == trace->nr_where;
}

int trace_check(const struct trace *trace)
{
	uint32_t nr_uses = 0;

	if (trace->nr_steps >= TRACE_NEVER || trace->nr_uses >= TRACE_NEVER ||
	    trace->nr_lives >= TRACE_NEVER)
		return -EINVAL;
	for (uint32_t i = 0; i < trace->nr_lives; i++) {
		if (trace->lives[i].bytes == 0)
			return -EINVAL;
	}
	for (uint32_t s = 0; s < trace->nr_steps; s++) {
		const struct trace_step *step = &trace->steps[s];

		if (!isfinite(step->ops) || step->ops < 0 || !isfinite(step->compute_ns) ||
		    step->compute_ns < 0)
			return -EINVAL;
		if (step->first_use != nr_uses || step->nr_uses > trace->nr_uses - nr_uses)
			return -EINVAL;
		nr_uses += step->nr_uses;
		for (uint32_t u = 0; u < step->nr_uses; u++) {
			if (!use_ok(trace, s, &trace->uses[step->first_use + u]))
				return -EINVAL;
		}
	}
	return nr_uses == trace->nr_uses && where_ok(trace) ? 0 : -EINVAL;
}
