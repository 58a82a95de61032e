/* SPDX-License-Identifier: Apache-2.0 */
/* Replaying a trace: see replay.h. What is in it is in replay_plan.c. */
#include "workloads/replay.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/util.h"
#include "src/cost/cost.h"
#include "workloads/replay_future.h"

/* ------------------------------------------------------------------ replaying */

struct replay {
	const struct replay_params *p;
	struct manager *m;
	void **addr; /* by life; NULL: not allocated */
	struct {
		const struct trace_begin *begin; /* NULL: none is open */
		struct trace_cursor cursor;
		uint32_t index;	      /* of its device, from the plan's first one on */
	} * stream;		      /* by number */
	struct replay_future *future; /* for the manager's policy; NULL: it has none */
	struct weir_kernel *kernel;   /* by name's number; 0: not known */
	struct weir_use *use;
	uint32_t max_uses;
	uint64_t last_ns;  /* when the call before returned, as it was recorded */
	uint64_t begin_ns; /* of the epoch, as it is replayed */
	bool in_epoch;
	uint32_t nr_epochs; /* that have ended */
	uint64_t launch_ns; /* what a launch took the host, where it was recorded */
	uint64_t recorded_bytes[WEIR_MEMORIES_MAX]; /* budgets as replay_budget() says */
	uint64_t budget_bytes[WEIR_MEMORIES_MAX];   /* the manager's now, by recorded memory */
	double *epoch_s;
	char *err;
	size_t err_bytes;
};

static int fail(const struct replay *r, int err, const char *what)
{
	(void)snprintf(r->err, r->err_bytes, "%s: %s", what, weir_strerror(err));
	return err;
}

/* What the program did between two calls: it ends with this one. less_ns: what of it the calls that
 * follow spend again. */
static void think(struct replay *r, uint64_t ns, uint64_t took_ns, uint64_t less_ns)
{
	uint64_t begin_ns = ns - MIN(took_ns, ns);
	uint64_t think_ns = begin_ns > r->last_ns ? begin_ns - r->last_ns : 0;

	if (r->p->think && think_ns > less_ns)
		r->m->backend->ops->host_spend(r->m->backend, think_ns - less_ns);
	r->last_ns = ns;
}

static int replay_alloc(struct replay *r, const struct trace_alloc *e)
{
	int err;

	think(r, e->event.ns, e->took_ns, 0);
	err = r->m->ops->alloc(r->m, e->bytes, "replayed", &r->addr[e->life]);
	if (!err)
		err = replay_future_alloc(r->future, e->life, r->addr[e->life]);
	return err ? fail(r, err, "no memory for an allocation") : 0;
}

static void replay_free(struct replay *r, const struct trace_free *e)
{
	think(r, e->event.ns, e->took_ns, 0);
	/* What is queued still uses it, and may be waited for. */
	r->m->ops->free(r->m, r->addr[e->life]);
	replay_future_free(r->future, r->addr[e->life]);
	r->addr[e->life] = NULL;
}

/* The uses of a bracket, of what is allocated. A negative errno, or how many there are. */
static int fill_uses(struct replay *r, const struct trace_cursor *cursor,
		     const struct trace_begin *begin)
{
	struct trace_use_cursor uses = {.cursor = *cursor, .begin = begin};
	const struct trace_file_use *use;
	uint32_t nr = 0;

	if (begin->nr_uses > r->max_uses) {
		struct weir_use *more = realloc(r->use, begin->nr_uses * sizeof(*more));

		if (!more)
			return -ENOMEM;
		r->use = more;
		r->max_uses = begin->nr_uses;
	}
	while ((use = trace_next_use(&uses)))
		if (r->addr[use->life]) /* else it was freed before recording began */
			r->use[nr++] =
				(struct weir_use){.addr = (char *)r->addr[use->life] + use->offset,
						  .bytes = use->bytes,
						  .kind = (enum weir_use_kind)use->kind,
						  .pattern = (enum weir_use_pattern)use->pattern,
						  .read_bytes = use->read_bytes,
						  .write_bytes = use->write_bytes,
						  .granule = use->granule};
	return (int)nr;
}

/* The launch is made as the bracket ends: what it was is known there. */
static int replay_end(struct replay *r, const struct trace_end *e)
{
	const struct trace_begin *begin = r->stream[e->event.stream].begin;
	struct weir_launch launch = {.kernel = &r->kernel[e->kernel], .ops = e->ops};
	bool launched = e->kernel || e->several;
	int nr, err;

	r->stream[e->event.stream].begin = NULL;
	if (!begin)
		return 0;
	replay_future_step(r->future);
	think(r, e->event.ns, e->took_ns, launched ? r->launch_ns : 0);
	nr = fill_uses(r, &r->stream[e->event.stream].cursor, begin);
	if (nr <= 0)
		return nr ? fail(r, nr, "no memory on the host") : 0;
	launch.uses = r->use;
	launch.nr_uses = (uint32_t)nr;
	err = replay_future_queue(r->future);
	if (err)
		return fail(r, err, "no memory on the host");
	err = r->p->plan->nr_devices > 1
		      ? r->m->ops->launch_on(r->m, r->stream[e->event.stream].index, &launch)
		      : r->m->ops->launch(r->m, &launch);
	return err ? fail(r, err, "a launch") : 0;
}

static int copy_use(struct replay *r, uint64_t life, uint64_t offset, uint64_t bytes, bool write)
{
	char *addr = r->addr[life] ? (char *)r->addr[life] + offset : NULL;
	int err;

	if (!addr)
		return 0;
	err = replay_future_queue(r->future);
	if (!err)
		err = write ? r->m->ops->write(r->m, addr, NULL, bytes)
			    : r->m->ops->read(r->m, NULL, addr, bytes);
	return err ? fail(r, err, "a copy") : 0;
}

/* What the CPU reads and writes in a bracket of its own is copied for it. */
static int replay_host(struct replay *r, const struct trace_cursor *cursor,
		       const struct trace_begin *begin)
{
	struct trace_use_cursor uses = {.cursor = *cursor, .begin = begin};
	const struct trace_file_use *use;
	int err = 0;

	replay_future_step(r->future);
	think(r, begin->event.ns, begin->took_ns, 0);
	while (!err && (use = trace_next_use(&uses))) {
		if (use->kind == WEIR_READ || use->kind == WEIR_WRITE)
			err = copy_use(r, use->life, use->offset, use->bytes, false);
		if (!err && (use->kind == WEIR_WRITE || use->kind == WEIR_OVERWRITE))
			err = copy_use(r, use->life, use->offset, use->bytes, true);
	}
	return err;
}

static int count(const struct replay *r, bool begin)
{
	int err = r->p->counting ? r->p->counting(r->p->counting_arg, begin) : 0;

	return err ? fail(r, err, "watching the epochs that count") : 0;
}

/* Once the device has done what was queued: a program that does not wait for it, or does so by
 * calls that are not recorded, is at its mark long before. */
static int epoch_end(struct replay *r)
{
	const struct backend *b = r->m->backend;
	uint32_t nr = r->nr_epochs++, warm_up = r->p->warm_up;
	int err = r->m->ops->sync(r->m);

	if (err)
		return fail(r, err, "waiting for the end of an epoch");
	r->in_epoch = false;
	if (nr >= warm_up)
		r->epoch_s[nr - warm_up] =
			(double)(b->ops->now_ns(r->m->backend) - r->begin_ns) * 1e-9;
	return r->nr_epochs == r->p->plan->nr_epochs ? count(r, false) : 0;
}

static int epoch_begin(struct replay *r)
{
	int err = 0;

	if (r->p->cold && r->m->ops->drain)
		err = r->m->ops->drain(r->m);
	if (!err && r->p->cold)
		err = r->m->ops->sync(r->m);
	if (err)
		return fail(r, err, "emptying the device's memory");
	r->in_epoch = true;
	err = r->nr_epochs == r->p->warm_up ? count(r, true) : 0;
	r->begin_ns = r->m->backend->ops->now_ns(r->m->backend);
	return err;
}

static int replay_mark(struct replay *r, const struct trace_event *e)
{
	const uint32_t total = r->p->plan->nr_epochs;
	int err = 0;

	think(r, e->ns, 0, 0);
	if (r->in_epoch)
		err = epoch_end(r);
	if (!err && r->nr_epochs < total && !trace_is_pause(e))
		err = epoch_begin(r);
	if (!err && r->p->progress && r->p->progress(r->p->progress_arg, r->nr_epochs, total))
		return -EINTR;
	return err;
}

static int replay_sync(struct replay *r, const struct trace_sync *e)
{
	int err;

	think(r, e->event.ns, e->took_ns, 0);
	err = r->m->ops->sync(r->m);
	return err ? fail(r, err, "waiting") : 0;
}

/* ------------------------------------------------------------------ advice, budgets */

/* A memory of the machine that recorded, as one of the manager's: devices' own and the host's go by
 * what they are, others by name. False: it has none like it. */
static bool find_memory(const struct replay *r, uint32_t recorded, uint32_t *out)
{
	const struct weir_machine_desc *from = &r->p->file->machine, *to = &r->m->backend->desc;
	const struct replay_plan *plan = r->p->plan;

	if (recorded >= from->nr_memories)
		return false;
	*out = cost_host_memory(to);
	if (from->memory[recorded].kind == WEIR_MEMORY_HOST)
		return true;
	for (uint32_t i = 0; i < plan->nr_devices; i++) {
		*out = to->device[r->m->device + i].memory;
		if (from->device[plan->device + i].memory == recorded)
			return true;
	}
	for (*out = 0; *out < to->nr_memories; ++*out)
		if (!strcmp(from->memory[recorded].name, to->memory[*out].name))
			return true;
	return false;
}

/* The manager is asked for what it need not do: that it cannot is no failure. */
static int hint_done(const struct replay *r, int err, const char *what)
{
	if (err == -ENOTSUP || err == -EINVAL || err == -ENOMEM || err == -EBUSY)
		return 0;
	return err ? fail(r, err, what) : 0;
}

static int replay_advise(struct replay *r, const struct trace_advise *e)
{
	const struct replay_plan *plan = r->p->plan;
	uint32_t where = e->where;

	think(r, e->event.ns, e->event.bytes < sizeof(*e) ? 0 : e->took_ns, 0);
	if (!r->p->advice || !r->m->ops->advise || !r->addr[e->life])
		return 0;
	if (e->advice == WEIR_ADVISE_PREFER_MEMORY && !find_memory(r, e->where, &where))
		return 0;
	if (e->advice == WEIR_ADVISE_ACCESSED_BY) {
		if (e->where < plan->device || e->where - plan->device >= plan->nr_devices)
			return 0;
		where = r->m->device + (e->where - plan->device);
	}
	return hint_done(
		r, r->m->ops->advise(r->m, r->addr[e->life], (enum weir_advice)e->advice, where),
		"advice");
}

static int replay_prefetch(struct replay *r, const struct trace_part_of *e)
{
	uint32_t memory;

	think(r, e->event.ns, e->took_ns, 0);
	if (!r->p->advice || !r->m->ops->prefetch || !r->addr[e->life] ||
	    !find_memory(r, e->memory, &memory))
		return 0;
	return hint_done(
		r,
		r->m->ops->prefetch(r->m, (char *)r->addr[e->life] + e->offset, e->bytes, memory),
		"a prefetch");
}

/* In proportion to what the manager was given. */
static int replay_set_budget(struct replay *r, const struct trace_budget *e)
{
	const struct weir_machine_desc *from = &r->p->file->machine;
	uint64_t own = from->memory[e->memory].kind == WEIR_MEMORY_HOST ? r->p->host_budget_bytes
									: r->p->gpu_budget_bytes;
	uint64_t recorded = r->recorded_bytes[e->memory], bytes;
	uint32_t memory;

	think(r, e->event.ns, e->event.bytes < sizeof(*e) ? 0 : e->took_ns, 0);
	if (!r->p->advice || !r->m->ops->set_budget || !recorded || !own)
		return 0;
	bytes = (uint64_t)((long double)own * (long double)e->bytes / (long double)recorded + 0.5L);
	if (bytes == r->budget_bytes[e->memory] || !find_memory(r, e->memory, &memory))
		return 0;
	r->budget_bytes[e->memory] = bytes;
	return hint_done(r, r->m->ops->set_budget(r->m, memory, bytes), "a budget");
}

/* ------------------------------------------------------------------ all of it */

static int replay_event(struct replay *r, const struct trace_cursor *cursor,
			const struct trace_event *event)
{
	const void *e = event;
	const struct trace_part_of *part = e;
	const struct trace_begin *begin = e;

	switch (event->kind) {
	case TRACE_ALLOC:
		return replay_alloc(r, e);
	case TRACE_FREE:
		replay_free(r, e);
		return 0;
	case TRACE_BEGIN:
		think(r, event->ns, begin->took_ns, 0);
		r->stream[event->stream].begin = begin;
		r->stream[event->stream].cursor = *cursor;
		return 0;
	case TRACE_END:
		return replay_end(r, e);
	case TRACE_HOST_BEGIN:
		return replay_host(r, cursor, begin);
	case TRACE_WRITE:
	case TRACE_READ:
		think(r, event->ns, part->took_ns, 0);
		replay_future_step(r->future);
		return copy_use(r, part->life, part->offset, part->bytes,
				event->kind == TRACE_WRITE);
	case TRACE_SYNC:
	case TRACE_WAIT:
		return replay_sync(r, e);
	case TRACE_MARK:
		return replay_mark(r, event);
	case TRACE_HOST_END:
		think(r, event->ns, ((const struct trace_host_end *)e)->took_ns, 0);
		return 0;
	case TRACE_STREAM:
		r->stream[event->stream].index =
			((const struct trace_stream *)e)->device - r->p->plan->device;
		return 0;
	case TRACE_ADVISE:
		return replay_advise(r, e);
	case TRACE_PREFETCH:
		return replay_prefetch(r, e);
	case TRACE_BUDGET:
		return replay_set_budget(r, e);
	case TRACE_MODE: /* what it took is not known, and not the program's own */
		r->last_ns = event->ns;
		return 0;
	default:
		return 0;
	}
}

/* A policy may choose by what the trace uses next. */
static int tell_future(struct replay *r)
{
	int err = 0;

	if (r->m->policy)
		err = replay_future_create(r->p->file, r->m->ops == &manager_uvm, &r->future);
	if (r->future)
		r->m->policy->future = replay_future_policy(r->future);
	return err ? fail(r, -EAGAIN, "no memory on the host") : 0;
}

static int replay_init(struct replay *r)
{
	const struct trace_file *file = r->p->file;

	r->addr = calloc(file->nr_lives + 1, sizeof(void *));
	r->stream = calloc((size_t)file->nr_streams + 1, sizeof(*r->stream));
	r->kernel = calloc((size_t)file->nr_names + 1, sizeof(*r->kernel));
	if (!r->addr || !r->stream || !r->kernel)
		return fail(r, -EAGAIN, "no memory on the host");
	r->kernel[0].name = "unknown";
	for (uint32_t k = 1; k <= file->nr_names; k++)
		r->kernel[k].name = file->name[k][0] ? file->name[k] : "unnamed";
	r->launch_ns = file->machine.device[r->p->plan->device].launch_host_ns;
	for (uint32_t i = 0; i < file->machine.nr_memories; i++) {
		r->recorded_bytes[i] = replay_budget(file, i);
		r->budget_bytes[i] = file->machine.memory[i].kind == WEIR_MEMORY_HOST
					     ? r->p->host_budget_bytes
					     : r->p->gpu_budget_bytes;
	}
	r->last_ns = file->begin_ns;
	return tell_future(r);
}

int replay_run(struct manager *m, const struct replay_params *p, double *epoch_s, char *err,
	       size_t err_bytes)
{
	struct replay r = {.p = p, .m = m, .epoch_s = epoch_s, .err = err, .err_bytes = err_bytes};
	struct trace_cursor cursor = trace_cursor(p->file);
	const struct trace_event *event;
	int rc = replay_init(&r), rc_sync;

	while (!rc && (event = trace_next(&cursor)))
		rc = replay_event(&r, &cursor, event);
	rc_sync = m->ops->sync(m);
	if (!rc && rc_sync)
		rc = fail(&r, rc_sync, "waiting for the end");
	for (uint64_t life = 1; r.addr && life <= p->file->nr_lives; life++)
		if (r.addr[life])
			m->ops->free(m, r.addr[life]);
	if (r.future)
		m->policy->future = NULL;
	replay_future_destroy(r.future);
	free(r.addr);
	free(r.stream);
	free(r.kernel);
	free(r.use);
	return rc;
}
