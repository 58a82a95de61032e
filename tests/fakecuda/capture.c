/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captures of streams into graphs, and what an ongoing one forbids. A graph is what one stream was
 * given, in that order, and its launch queues all of it again. Of what a test has captured by
 * fakecuda_capture() there is no graph: events are captured, and other work is done as ever.
 */
#include <stdlib.h>

#include "tests/fakecuda/fake.h"

/* A graph, or one that can be launched. */
struct graph {
	bool exec;
	struct op *first, *last;
};

static _Thread_local int capture_mode; /* CU_STREAM_CAPTURE_MODE_GLOBAL */

/* A capture that is not relaxed forbids its own thread, and a global one all of that mode. */
static bool stream_forbids(const struct stream *stream)
{
	if (!stream->capturing || stream->capture_mode == CU_CAPTURE_MODE_RELAXED)
		return false;
	return pthread_equal(stream->capturer, pthread_self()) ||
	       (!stream->capture_mode && !capture_mode);
}

bool capture_forbids(void)
{
	bool forbids = false;

	for (int i = 0; i < STREAMS_MAX && capture_mode != CU_CAPTURE_MODE_RELAXED; i++)
		forbids |= fake.slot[i] && stream_forbids(fake.slot[i]);
	return forbids;
}

bool captures_spoil_of(int context)
{
	bool any = false;

	for (int i = 0; i < STREAMS_MAX; i++) {
		struct stream *stream = fake.slot[i];

		if (stream && stream->capturing && !stream->closing && stream->context == context)
			any = stream->spoiled = true;
	}
	return any;
}

void captures_spoil(void)
{
	for (int i = 0; i < STREAMS_MAX; i++)
		if (fake.slot[i])
			fake.slot[i]->spoiled = fake.slot[i]->capturing;
}

static cu_result capture_set(cu_stream handle, bool capturing, int mode)
{
	cu_result result = CU_SUCCESS;
	struct stream *stream = stream_find(handle, -1, &result);

	if (!stream)
		return result;
	if (!capturing && stream->spoiled)
		result = CU_CAPTURE_INVALIDATED;
	stream->capturing = capturing;
	stream->spoiled = false;
	stream->capture_mode = mode;
	stream->capturer = pthread_self();
	return result;
}

cu_result fake_capture_mode(int *mode)
{
	cu_result result = call_enter(CALL_capture_mode);

	if (!result && (!mode || *mode < 0 || *mode > CU_CAPTURE_MODE_RELAXED))
		result = CU_INVALID_VALUE;
	if (!result) {
		int before = capture_mode;

		capture_mode = *mode;
		*mode = before;
	}
	return call_leave(result);
}

int fakecuda_capture(void *handle, bool capturing)
{
	pthread_mutex_lock(&fake.lock);
	return call_leave(capture_set(handle, capturing, 0));
}

int fakecuda_capture_mode(void)
{
	return capture_mode;
}

/* ------------------------------------------------------------------ graphs */

void graph_free(struct graph *graph)
{
	while (graph && graph->first) {
		struct op *op = graph->first;

		graph->first = op->next;
		op_free(op);
	}
	free(graph);
}

void graph_add(struct graph *graph, struct op *op)
{
	if (graph->last)
		graph->last->next = op;
	else
		graph->first = op;
	graph->last = op;
}

/* Whether all that an operation touches is mapped. */
static bool op_is_mapped(const struct op *op)
{
	for (size_t t = 0; t < op->nr_touches; t++) {
		const uint64_t end = op->touch[t].addr + op->touch[t].bytes;

		for (uint64_t at = op->touch[t].addr; at < end;) {
			const struct mapping *mapping = mapping_find(at);

			if (!mapping && !addr_is_program(at))
				return false;
			at = mapping ? mapping->range.addr + mapping->range.bytes : end;
		}
	}
	return true;
}

bool graph_takes(const struct op *op)
{
	return op->kind != OP_COPY || op_is_mapped(op);
}

/* As measured on driver 580.159: fills are looked at later than copies. */
static bool graph_is_mapped(const struct graph *graph)
{
	for (const struct op *op = graph->first; op; op = op->next)
		if ((op->kind == OP_COPY || op->kind == OP_FILL) && !op_is_mapped(op))
			return false;
	return true;
}

/* NULL: no memory. */
static struct graph *graph_copy(const struct graph *graph)
{
	struct graph *copy = calloc(1, sizeof(*copy));

	for (const struct op *op = graph->first; copy && op; op = op->next) {
		struct op *again = op_copy(op);

		if (!again) {
			graph_free(copy);
			return NULL;
		}
		graph_add(copy, again);
	}
	return copy;
}

/* By its handle, or NULL with the result to return. */
static struct graph *graph_find(const void *handle, bool exec, cu_result *result)
{
	void **at = table_at(&fake.graphs, GRAPH_BASE, (uintptr_t)handle);
	struct graph *graph = at ? *at : NULL;

	*result = graph && graph->exec == exec ? CU_SUCCESS : CU_INVALID_VALUE;
	return *result ? NULL : graph;
}

static cu_result graph_publish(struct graph *graph, void **handle)
{
	const uint64_t number = table_add(&fake.graphs, GRAPH_BASE, graph);

	if (!number) {
		graph_free(graph);
		return CU_OUT_OF_MEMORY;
	}
	*handle = pointer(number);
	return CU_SUCCESS;
}

void graphs_fini(void)
{
	for (size_t i = 0; i < fake.graphs.nr; i++)
		if (fake.graphs.at[i]) {
			graph_free(fake.graphs.at[i]);
			fake.graphs.at[i] = NULL;
		}
}

static cu_result capture_begin(cu_stream handle, int mode)
{
	struct stream *stream;
	int context;
	cu_result result = stream_for(handle, &stream, &context);

	if (result)
		return result;
	if (stream->capturing || !stream->number)
		return CU_CAPTURE_UNSUPPORTED;
	if (mode < 0 || mode > CU_CAPTURE_MODE_RELAXED)
		return CU_INVALID_VALUE;
	stream->graph = calloc(1, sizeof(*stream->graph));
	return stream->graph ? capture_set(handle, true, mode) : CU_OUT_OF_MEMORY;
}

cu_result fake_capture_begin(cu_stream stream, int mode)
{
	cu_result result = call_enter(CALL_capture_begin);

	return call_leave(result ? result : capture_begin(stream, mode));
}

static cu_result capture_end(cu_stream handle, cu_graph *out)
{
	struct stream *stream;
	struct graph *graph;
	int context;
	cu_result result = stream_for(handle, &stream, &context);

	if (result)
		return result;
	graph = stream->graph;
	if (!graph || !out)
		return out ? CU_CAPTURE_UNMATCHED : CU_INVALID_VALUE;
	stream->graph = NULL;
	*out = NULL;
	result = capture_set(handle, false, 0);
	if (result) {
		graph_free(graph);
		return result;
	}
	return graph_publish(graph, (void **)out);
}

cu_result fake_capture_end(cu_stream stream, cu_graph *graph)
{
	cu_result result = call_enter(CALL_capture_end);

	return call_leave(result ? result : capture_end(stream, graph));
}

static cu_result graph_instantiate(cu_graph_exec *exec, cu_graph handle, unsigned long long flags)
{
	cu_result result = CU_INVALID_VALUE;
	struct graph *graph = exec && !flags ? graph_find(handle, false, &result) : NULL;

	if (!graph)
		return result;
	if (!graph_is_mapped(graph))
		return CU_INVALID_VALUE;
	graph = graph_copy(graph);
	if (!graph)
		return CU_OUT_OF_MEMORY;
	graph->exec = true;
	return graph_publish(graph, (void **)exec);
}

cu_result fake_graph_instantiate(cu_graph_exec *exec, cu_graph graph, unsigned long long flags)
{
	cu_result result = call_enter(CALL_graph_instantiate);

	return call_leave(result ? result : graph_instantiate(exec, graph, flags));
}

static cu_result graph_launch(cu_graph_exec exec, cu_stream handle)
{
	struct graph *graph, *again;
	struct stream *stream;
	int context;
	cu_result result = stream_for(handle, &stream, &context);

	if (result)
		return result;
	graph = graph_find(exec, true, &result);
	if (!graph)
		return result;
	/* While the stream's queue is full the graph may be destroyed. */
	again = graph_copy(graph);
	if (!again)
		return CU_OUT_OF_MEMORY;
	for (struct op *op = again->first, *next; op; op = next) {
		next = op->next;
		op->next = NULL;
		stream_add(stream, op);
	}
	free(again);
	return CU_SUCCESS;
}

cu_result fake_graph_launch(cu_graph_exec exec, cu_stream stream)
{
	cu_result result = call_enter(CALL_graph_launch);

	return call_leave(result ? result : graph_launch(exec, stream));
}

static cu_result graph_destroy(const void *handle, bool exec)
{
	cu_result result;
	struct graph *graph = graph_find(handle, exec, &result);

	if (graph) {
		*table_at(&fake.graphs, GRAPH_BASE, (uintptr_t)handle) = NULL;
		graph_free(graph);
	}
	return result;
}

cu_result fake_graph_destroy(cu_graph graph)
{
	cu_result result = call_enter(CALL_graph_destroy);

	return call_leave(result ? result : graph_destroy(graph, false));
}

cu_result fake_graph_exec_destroy(cu_graph_exec exec)
{
	cu_result result = call_enter(CALL_graph_exec_destroy);

	return call_leave(result ? result : graph_destroy(exec, true));
}
