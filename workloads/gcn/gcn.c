/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A whole run: parameters, graph, data, epochs, accuracy, and everything given back. What an epoch
 * does is in train.c.
 */
#include "workloads/gcn/gcn.h"

#include <cblas.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "workloads/gcn/cuda.h"
#include "workloads/gcn/internal.h"

/* Random ends are drawn from 32 bits; a phantom graph has no ends. */
#define REAL_NODES_MAX (UINT64_C(1) << 32)

/* A moment between two epochs. */
struct moment {
	uint64_t now_ns;
	double cpu_s; /* of the process, user and system */
	uint64_t time_ns[BACKEND_TIME_NR];
};

static void moment_take(struct gcn *g, const struct workload_result *r, struct moment *out)
{
	struct backend *b = g->m->backend;
	struct timespec cpu;

	memset(out, 0, sizeof(*out));
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
	out->cpu_s = (double)cpu.tv_sec + (double)cpu.tv_nsec * 1e-9;
	out->now_ns = b->ops->now_ns(b);
	/* Whether the machine knows was asked as the result was made. */
	if (r->time_s)
		(void)b->observe->device_times(b, g->m->device, out->time_ns);
}

static void epoch_note(struct workload_result *r, uint32_t epoch, const struct moment *begin,
		       const struct moment *end)
{
	r->epoch_s[epoch] = (double)(end->now_ns - begin->now_ns) * 1e-9;
	r->epoch_begin_ns[epoch] = begin->now_ns;
	r->epoch_cpu_s[epoch] = end->cpu_s - begin->cpu_s;
	for (int i = 0; r->time_s && i < BACKEND_TIME_NR; i++)
		r->time_s[epoch][i] = (double)(end->time_ns[i] - begin->time_ns[i]) * 1e-9;
}

static void train(struct gcn *g, struct workload_result *r)
{
	while (g->epoch < g->p->epochs && !g->status) {
		struct moment begin, end;
		double loss = NAN;

		gcn_sync(g);
		moment_take(g, r, &begin);
		gcn_epoch(g);
		gcn_sync(g);
		moment_take(g, r, &end);
		manager_mark_pause(g->m);
		epoch_note(r, g->epoch, &begin, &end);
		gcn_read(g, &loss, &g->loss, sizeof(loss));
		r->loss[g->epoch] = loss;
		if (g->status)
			return;
		g->epoch++;
		gcn_poll(g);
	}
}

/*
 * Nothing queued may outlive the pool, which its arguments name. A sync that fails has either
 * waited and reports the work, or was itself refused: a second one tells these apart.
 */
static void drain(struct gcn *g)
{
	int ret = g->m->ops->sync(g->m);

	if (!ret)
		return;
	gcn_fail(g, ret, "gcn: waiting for the end of the run failed: %s", weir_strerror(ret));
	(void)g->m->ops->sync(g->m);
}

static int result_alloc(struct workload_result *r, struct manager *m, uint32_t nr_epochs)
{
	uint64_t probe[BACKEND_TIME_NR];
	bool timed = !m->backend->observe->device_times(m->backend, m->device, probe);

	*r = (struct workload_result){.nr_epochs = nr_epochs, .test_accuracy = NAN};
	r->epoch_s = calloc(nr_epochs, sizeof(*r->epoch_s));
	r->epoch_begin_ns = calloc(nr_epochs, sizeof(*r->epoch_begin_ns));
	r->epoch_cpu_s = calloc(nr_epochs, sizeof(*r->epoch_cpu_s));
	r->loss = calloc(nr_epochs, sizeof(*r->loss));
	if (timed)
		r->time_s = calloc(nr_epochs, sizeof(*r->time_s));
	if (!r->epoch_s || !r->epoch_begin_ns || !r->epoch_cpu_s || !r->loss ||
	    (timed && !r->time_s)) {
		gcn_result_free(r);
		return -ENOMEM;
	}
	return 0;
}

void gcn_result_free(struct workload_result *r)
{
	if (!r)
		return;
	free(r->epoch_s);
	free(r->epoch_begin_ns);
	free(r->epoch_cpu_s);
	free(r->loss);
	free(r->time_s);
	*r = (struct workload_result){0};
}

static void host_init(struct gcn *g)
{
	int ret;

	if (g->phantom || g->status)
		return;
	if (g->s.nodes > REAL_NODES_MAX) {
		gcn_fail(g, -EINVAL,
			 "gcn: %llu nodes are too many for real data: take at most %llu",
			 (unsigned long long)g->s.nodes, (unsigned long long)REAL_NODES_MAX);
		return;
	}
	openblas_set_num_threads(1);
	ret = gcn_pool_create(g->p->threads, &g->pool);
	if (ret)
		gcn_fail(g, ret, "gcn: starting %u threads failed: %s: ask for fewer",
			 g->p->threads, weir_strerror(ret));
}

/* The stream's device is whichever the manager uses, and not the thread's: hence stream_call. */
static int device_call(struct gcn *g, void *stream, int (*fn)(void *stream))
{
	struct backend *b = g->m->backend;

	return b->ops->stream_call(b, stream, fn);
}

static int forget(void *stream)
{
	gcn_cuda_forget(stream);
	return 0;
}

/* What the kernels need on a real GPU. @return the stream they run on, or NULL. */
static void *device_init(struct gcn *g)
{
	void *stream = g->m->ops->stream ? g->m->ops->stream(g->m) : NULL;
	int ret;

	if (!stream || g->status)
		return NULL;
	ret = gcn_cuda_load();
	if (!ret)
		ret = device_call(g, stream, gcn_cuda_prepare);
	if (ret)
		gcn_fail(g, ret, "gcn: preparing the GPU for its kernels failed: %s",
			 weir_strerror(ret));
	return ret ? NULL : stream;
}

/* The run itself, with a graph or without. */
static void run(struct gcn *g, const struct graph *graph, struct workload_result *r)
{
	void *stream;

	host_init(g);
	stream = device_init(g);
	if (g->status) {
		gcn_pool_destroy(g->pool);
		return;
	}
	gcn_data_create(g, graph);
	train(g, r);
	if (g->s.test && !g->status)
		gcn_evaluate(g, graph, &r->test_accuracy);
	drain(g);
	if (stream && device_call(g, stream, forget))
		gcn_fail(g, -EIO, "gcn: what kernels had on the GPU cannot be given back");
	gcn_free_all(g);
	gcn_pool_destroy(g->pool);
}

int gcn_run(struct manager *m, const struct gcn_params *p, struct workload_result *out, char *err,
	    size_t err_bytes)
{
	struct gcn g = {
		.m = m,
		.p = p,
		.phantom = m->backend->data == WEIR_DATA_PHANTOM,
		.err = err,
		.err_bytes = err ? err_bytes : 0,
	};
	struct workload_result result;
	struct graph graph;
	int ret;

	if (p->graph_dir) {
		ret = graph_load(p->graph_dir, &graph, g.err, g.err_bytes);
		if (ret)
			return ret;
	}
	ret = gcn_shape_init(&g.s, p, p->graph_dir ? &graph : NULL, g.err, g.err_bytes);
	if (ret)
		goto err_graph;
	ret = result_alloc(&result, m, p->epochs);
	if (ret) {
		snprintf(g.err, g.err_bytes, "gcn: no memory for the results of %u epochs",
			 p->epochs);
		goto err_graph;
	}
	run(&g, p->graph_dir ? &graph : NULL, &result);
	ret = g.status;
	if (ret)
		gcn_result_free(&result);
	else
		*out = result;
err_graph:
	if (p->graph_dir)
		graph_fini(&graph);
	return ret;
}
