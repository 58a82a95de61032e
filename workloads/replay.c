/* SPDX-License-Identifier: Apache-2.0 */
/* Replaying a trace: see replay.h. */
#include "workloads/replay.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/util.h"
#include "src/cost/cost.h"

/* ------------------------------------------------------------------ what is in it */

int replay_check(const struct trace_file *file, struct replay_plan *out, char *err,
		 size_t err_bytes)
{
	struct trace_cursor cursor = trace_cursor(file);
	const struct trace_event *event;
	uint64_t live = 0;
	int device = -1;

	*out = (struct replay_plan){0};
	while ((event = trace_next(&cursor))) {
		const struct trace_stream *stream = (const void *)event;
		const struct trace_alloc *alloc = (const void *)event;

		if (event->kind == TRACE_STREAM) {
			if (device >= 0 && device != (int)stream->device) {
				(void)snprintf(err, err_bytes, "it is of several devices");
				return -ENOTSUP;
			}
			device = (int)stream->device;
		} else if (event->kind == TRACE_ALLOC) {
			if (alloc->flags & (TRACE_ALLOC_PAGED | TRACE_ALLOC_WINDOW)) {
				(void)snprintf(err, err_bytes, "it has paged or replicated ranges");
				return -ENOTSUP;
			}
			live += alloc->bytes;
			out->needs_bytes = MAX(out->needs_bytes, live);
		} else if (event->kind == TRACE_FREE) {
			live -= file->life[((const struct trace_free *)(const void *)event)->life]
					.bytes;
		}
	}
	if (!out->needs_bytes) {
		(void)snprintf(err, err_bytes, "nothing is allocated in it");
		return -ENOTSUP;
	}
	out->nr_epochs = file->nr_of[TRACE_MARK] ? (uint32_t)file->nr_of[TRACE_MARK] - 1 : 0;
	return 0;
}

/* What brackets of one kernel took and were to take. */
struct measured {
	double took_ns, modelled_ns;
};

/* HBM time of a bracket by the description of the machine that recorded, without a factor. */
static double modelled_ns(const struct trace_file *file, const struct trace_cursor *cursor,
			  const struct trace_begin *begin)
{
	uint32_t device = (uint32_t)__builtin_ctzll(file->space->devices);
	struct trace_use_cursor uses = {.cursor = *cursor, .begin = begin};
	const struct trace_file_use *use;
	double ns = 0;

	while ((use = trace_next_use(&uses))) {
		struct weir_use declared = {.bytes = use->bytes,
					    .kind = (enum weir_use_kind)use->kind,
					    .pattern = (enum weir_use_pattern)use->pattern,
					    .read_bytes = use->read_bytes,
					    .write_bytes = use->write_bytes,
					    .granule = use->granule};

		if (use->kind != WEIR_DISCARD)
			ns += cost_hbm_ns(&file->machine.device[device], &declared);
	}
	return ns;
}

/* A bracket that ended. */
struct ended {
	uint64_t bracket;
	double modelled_ns;
	uint32_t kernel;
};

static void measure(const struct trace_file *file, struct ended *ended, double *open_ns,
		    struct measured *kernel)
{
	struct trace_cursor cursor = trace_cursor(file);
	const struct trace_event *event;
	uint64_t nr = 0, at;

	while ((event = trace_next(&cursor))) {
		const struct trace_end *end = (const void *)event;
		const struct trace_time *time = (const void *)event;

		if (event->kind == TRACE_BEGIN) {
			open_ns[event->stream] = modelled_ns(file, &cursor, (const void *)event);
		} else if (event->kind == TRACE_END) {
			ended[nr++] =
				(struct ended){end->bracket, open_ns[event->stream], end->kernel};
		} else if (event->kind == TRACE_TIME && !(time->flags & TRACE_END_IN_PLACE)) {
			SEARCH_SORTED(at, UINT64_C(0), nr, ended[at].bracket < time->bracket);
			if (at == nr || ended[at].bracket != time->bracket)
				continue;
			kernel[ended[at].kernel].took_ns += (double)(time->end_ns - time->begin_ns);
			kernel[ended[at].kernel].modelled_ns += ended[at].modelled_ns;
		}
	}
}

static bool is_listed(const struct weir_machine_desc *machine, const char *name)
{
	for (uint32_t k = 0; k < machine->nr_kernels; k++)
		if (!strcmp(machine->kernel[k].name, name))
			return true;
	return false;
}

static void add_kernel(struct weir_machine_desc *machine, const char *name, double factor)
{
	struct weir_kernel_rate *rate = &machine->kernel[machine->nr_kernels];

	if (machine->nr_kernels == WEIR_KERNELS_MAX || strlen(name) >= WEIR_NAME_MAX ||
	    is_listed(machine, name) || !(factor > 0))
		return;
	(void)snprintf(rate->name, sizeof(rate->name), "%s", name);
	rate->factor = factor;
	machine->nr_kernels++;
	if (weir_machine_check(machine, NULL, 0))
		machine->nr_kernels--; /* a name that no description may have */
}

void replay_kernels(const struct trace_file *file, struct weir_machine_desc *machine)
{
	struct ended *ended = malloc((file->nr_brackets + 1) * sizeof(*ended));
	double *open_ns = calloc((size_t)file->nr_streams + 1, sizeof(*open_ns));
	struct measured *kernel = calloc((size_t)file->nr_names + 1, sizeof(*kernel));

	if (file->space->flags & TRACE_SPACE_SIMULATED) {
		for (uint32_t k = 0; k < file->machine.nr_kernels; k++)
			add_kernel(machine, file->machine.kernel[k].name,
				   file->machine.kernel[k].factor);
	} else if (ended && open_ns && kernel) {
		measure(file, ended, open_ns, kernel);
		for (uint32_t k = 1; k <= file->nr_names; k++)
			if (kernel[k].modelled_ns > 0)
				add_kernel(machine, file->name[k],
					   kernel[k].took_ns / kernel[k].modelled_ns);
	}
	free(ended);
	free(open_ns);
	free(kernel);
}

/* ------------------------------------------------------------------ replaying */

struct replay {
	const struct replay_params *p;
	struct manager *m;
	void **addr; /* by life; NULL: not allocated */
	struct {
		const struct trace_begin *begin; /* NULL: none is open */
		struct trace_cursor cursor;
	} * stream;		    /* by number */
	struct weir_kernel *kernel; /* by name's number; 0: not known */
	struct weir_use *use;
	uint32_t max_uses;
	uint64_t last_ns;   /* when the call before returned, as it was recorded */
	uint64_t mark_ns;   /* of the mark before, as it is replayed */
	uint32_t nr_marks;  /* so far */
	uint64_t launch_ns; /* what a launch took the host, where it was recorded */
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
	return err ? fail(r, err, "no memory for an allocation") : 0;
}

static void replay_free(struct replay *r, const struct trace_free *e)
{
	think(r, e->event.ns, e->took_ns, 0);
	r->m->ops->free(r->m, r->addr[e->life]);
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
	think(r, e->event.ns, e->took_ns, launched ? r->launch_ns : 0);
	nr = fill_uses(r, &r->stream[e->event.stream].cursor, begin);
	if (nr <= 0)
		return nr ? fail(r, nr, "no memory on the host") : 0;
	launch.uses = r->use;
	launch.nr_uses = (uint32_t)nr;
	err = r->m->ops->launch(r->m, &launch);
	return err ? fail(r, err, "a launch") : 0;
}

static int copy_use(struct replay *r, uint64_t life, uint64_t offset, uint64_t bytes, bool write)
{
	char *addr = r->addr[life] ? (char *)r->addr[life] + offset : NULL;
	int err;

	if (!addr)
		return 0;
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

	think(r, begin->event.ns, begin->took_ns, 0);
	while (!err && (use = trace_next_use(&uses))) {
		if (use->kind == WEIR_READ || use->kind == WEIR_WRITE)
			err = copy_use(r, use->life, use->offset, use->bytes, false);
		if (!err && (use->kind == WEIR_WRITE || use->kind == WEIR_OVERWRITE))
			err = copy_use(r, use->life, use->offset, use->bytes, true);
	}
	return err;
}

static int replay_mark(struct replay *r, const struct trace_event *e)
{
	uint64_t now_ns;

	think(r, e->ns, 0, 0);
	now_ns = r->m->backend->ops->now_ns(r->m->backend);
	if (r->nr_marks > r->p->warm_up)
		r->epoch_s[r->nr_marks - 1 - r->p->warm_up] = (double)(now_ns - r->mark_ns) * 1e-9;
	r->mark_ns = now_ns;
	r->nr_marks++;
	if (r->p->progress && r->p->progress(r->p->progress_arg, r->nr_marks - 1,
					     (uint32_t)r->p->file->nr_of[TRACE_MARK]))
		return -EINTR;
	return 0;
}

static int replay_sync(struct replay *r, const struct trace_sync *e)
{
	int err;

	think(r, e->event.ns, e->took_ns, 0);
	err = r->m->ops->sync(r->m);
	return err ? fail(r, err, "waiting") : 0;
}

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
	case TRACE_PREFETCH:
		think(r, event->ns, part->took_ns, 0);
		return 0;
	case TRACE_BUDGET:
	case TRACE_MODE: /* what they took is not known, and not the program's own */
		r->last_ns = event->ns;
		return 0;
	default:
		return 0;
	}
}

static int replay_init(struct replay *r)
{
	const struct trace_file *file = r->p->file;
	uint32_t device = (uint32_t)__builtin_ctzll(file->space->devices);

	r->addr = calloc(file->nr_lives + 1, sizeof(void *));
	r->stream = calloc((size_t)file->nr_streams + 1, sizeof(*r->stream));
	r->kernel = calloc((size_t)file->nr_names + 1, sizeof(*r->kernel));
	if (!r->addr || !r->stream || !r->kernel)
		return fail(r, -EAGAIN, "no memory on the host");
	r->kernel[0].name = "unknown";
	for (uint32_t k = 1; k <= file->nr_names; k++)
		r->kernel[k].name = file->name[k][0] ? file->name[k] : "unnamed";
	r->launch_ns = file->machine.device[device].launch_host_ns;
	r->last_ns = file->begin_ns;
	return 0;
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
	free(r.addr);
	free(r.stream);
	free(r.kernel);
	free(r.use);
	return rc;
}
