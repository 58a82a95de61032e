/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ground under the steps of a run: its status, its memory, its launches. What goes wrong in
 * the manager is put into words here, once.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "workloads/gcn/internal.h"

/* Launches between two looks at progress: an interrupt is heard within milliseconds. */
#define POLL_LAUNCHES 64u

void gcn_fail(struct gcn *g, int status, const char *format, ...)
{
	va_list ap;

	if (g->status)
		return;
	g->status = status;
	va_start(ap, format);
	vsnprintf(g->err, g->err_bytes, format, ap);
	va_end(ap);
}

void gcn_poll(struct gcn *g)
{
	g->nr_launches = 0;
	if (g->status || !g->p->progress)
		return;
	if (g->p->progress(g->p->progress_arg, g->epoch, g->p->epochs))
		gcn_fail(g, -EINTR, "gcn: interrupted after %u of %u epochs", g->epoch,
			 g->p->epochs);
}

void gcn_alloc(struct gcn *g, struct gcn_tensor *t, const char *name, uint64_t bytes)
{
	int ret;

	*t = (struct gcn_tensor){.bytes = bytes, .name = name};
	if (g->status)
		return;
	if (g->nr_live == GCN_LIVE_MAX) {
		gcn_fail(g, -EOVERFLOW, "gcn: more than %u tensors live: a defect of the workload",
			 GCN_LIVE_MAX);
		return;
	}
	ret = g->m->ops->alloc(g->m, bytes, name, &t->addr);
	if (ret) {
		t->addr = NULL;
		if (ret == -ENOMEM)
			gcn_fail(g, ret,
				 "gcn: no memory for '%s' (%.3f MB): take a larger budget or fewer "
				 "nodes",
				 name, (double)bytes / 1e6);
		else
			gcn_fail(g, ret, "gcn: allocating '%s' (%.3f MB) failed: %s", name,
				 (double)bytes / 1e6, weir_strerror(ret));
		return;
	}
	g->live[g->nr_live++] = t->addr;
}

void gcn_free(struct gcn *g, struct gcn_tensor *t)
{
	uint32_t i = g->nr_live;

	if (!t->addr)
		return;
	while (i > 0 && g->live[i - 1] != t->addr)
		i--;
	if (i > 0) {
		memmove(&g->live[i - 1], &g->live[i], (g->nr_live - i) * sizeof(g->live[0]));
		g->nr_live--;
	}
	g->m->ops->free(g->m, t->addr);
	t->addr = NULL;
}

void gcn_free_all(struct gcn *g)
{
	while (g->nr_live > 0)
		g->m->ops->free(g->m, g->live[--g->nr_live]);
}

void gcn_launch(struct gcn *g, const struct weir_kernel *kernel, const void *args,
		size_t args_bytes, const struct weir_use *uses, uint32_t nr_uses, double ops)
{
	struct weir_launch launch = {
		.kernel = kernel,
		.args = args,
		.args_bytes = args_bytes,
		.uses = uses,
		.nr_uses = nr_uses,
		.ops = ops,
	};
	int ret;

	if (g->status)
		return;
	ret = g->m->ops->launch(g->m, &launch);
	if (ret)
		gcn_fail(g, ret, "gcn: launching '%s' failed: %s", kernel->name,
			 weir_strerror(ret));
	if (++g->nr_launches >= POLL_LAUNCHES)
		gcn_poll(g);
}

void gcn_write(struct gcn *g, const struct gcn_tensor *t, uint64_t offset, const void *data,
	       uint64_t bytes)
{
	int ret;

	if (g->status)
		return;
	ret = g->m->ops->write(g->m, (char *)t->addr + offset, data, bytes);
	if (ret)
		gcn_fail(g, ret, "gcn: writing '%s' failed: %s", t->name, weir_strerror(ret));
}

void gcn_read(struct gcn *g, void *data, const struct gcn_tensor *t, uint64_t bytes)
{
	int ret;

	if (g->status)
		return;
	ret = g->m->ops->read(g->m, g->phantom ? NULL : data, t->addr, bytes);
	if (ret)
		gcn_fail(g, ret, "gcn: reading '%s' failed: %s", t->name, weir_strerror(ret));
}

void gcn_sync(struct gcn *g)
{
	int ret;

	if (g->status)
		return;
	ret = g->m->ops->sync(g->m);
	if (ret)
		gcn_fail(g, ret, "gcn: work of epoch %u failed: %s", g->epoch + 1,
			 weir_strerror(ret));
}
