/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs of steps, and kernels and streams that wait for what comes later on another stream. */
#include <string.h>

#include "tests/dropin/random/random.h"

enum { THREAD_LOCAL = 1, RELAXED = 2 }; /* CU_STREAM_CAPTURE_MODE_* */

/* ------------------------------------------------------------------ graphs */

pthread_rwlock_t captures = PTHREAD_RWLOCK_INITIALIZER;

/* One that can be captured, and whose kernel follows no pointers that are yet to be found. */
static bool draw_captured(struct thread *t, struct step *step)
{
	if (t->plan->hidden && chance(t, 30) && array_draw(t, step))
		return step->array->shown;
	/* Copies between contexts the driver of a real GPU does not capture. */
	if (!step_draw(t, step) || step->what == STEP_BATCH || step->what == STEP_WORDS ||
	    step->what == STEP_PEER || step->what == STEP_3D_PEER)
		return false;
	step->sync = false;
	return true;
}

static void graph_capture(struct thread *t, struct graph *graph, unsigned s)
{
	const CUstream stream = t->stream[s].native;
	CUgraph captured;

	pthread_rwlock_rdlock(&captures);
	CU(cuStreamBeginCapture, stream, chance(t, 50) ? THREAD_LOCAL : RELAXED);
	for (unsigned i = 0; i < graph->nr; i++)
		step_issue(t, &graph->step[i], s);
	CU(cuStreamEndCapture, stream, &captured);
	pthread_rwlock_unlock(&captures);
	CU(cuGraphInstantiateWithFlags, &graph->exec, captured, 0);
	CU(cuGraphDestroy, captured);
}

static void graph_make(struct thread *t, struct graph *graph)
{
	const unsigned s = stream_independent(t, STREAMS), wanted = 1 + (unsigned)below(t, STEPS);

	memset(graph, 0, sizeof(*graph));
	for (unsigned i = 0; i < wanted; i++)
		if (draw_captured(t, &graph->step[graph->nr]))
			step_uses(t, &graph->step[graph->nr++]);
	if (!graph->nr)
		return;
	graph->nr_uses = t->nr_uses;
	memcpy(graph->use, t->use, t->nr_uses * sizeof(t->use[0]));
	uses_forget(t);
	for (unsigned u = 0; u < graph->nr_uses; u++)
		graph->use[u].buffer->pins++;
	say("a graph of %u steps, captured on %u", graph->nr, s);
	graph_capture(t, graph, s);
}

void graph_end(struct thread *t, struct graph *graph)
{
	if (!graph->exec)
		return;
	mark_sync(t, graph->last);
	CU(cuGraphExecDestroy, graph->exec);
	for (unsigned u = 0; u < graph->nr_uses; u++)
		graph->use[u].buffer->pins--;
	graph->exec = NULL;
}

static void graph_launch(struct thread *t, struct graph *graph, unsigned s)
{
	say("a graph of %u steps on %u", graph->nr, s);
	for (unsigned u = 0; u < graph->nr_uses; u++)
		use(t, graph->use[u].buffer, graph->use[u].off, graph->use[u].bytes,
		    graph->use[u].write);
	uses_wait(t, s);
	CU(cuGraphLaunch, graph->exec, t->stream[s].native);
	graph->last = uses_end(t, s);
	for (unsigned i = 0; i < graph->nr; i++) {
		const struct step *step = &graph->step[i];

		say("  step %d: buffer %u from %zu, %zu bytes", step->what,
		    step->dst.buffer->number, step->dst.off, step->dst.bytes);
		step_shadow(t, step);
	}
}

void graph_do(struct thread *t)
{
	struct graph *graph = &t->graph[below(t, GRAPHS)];

	if (!graph->exec)
		graph_make(t, graph);
	else if (chance(t, 15))
		graph_end(t, graph);
	if (graph->exec)
		graph_launch(t, graph, stream_any(t));
}

/* ------------------------------------------------------------------ waiting for what is later */

/* A step on a stream while another one's kernel waits: not where that kernel's flag is. */
static void step_between(struct thread *t, unsigned s, const struct buffer *flag)
{
	struct step step;

	if (step_draw(t, &step) && !step.sync && step.dst.buffer != flag &&
	    step.src.buffer != flag && step.more.buffer != flag)
		step_do(t, &step, s);
}

static void wait_for(struct thread *t, CUdeviceptr flag, uint32_t value, unsigned s, unsigned way)
{
	struct stream_op list = {.kind = OP_WAIT32, .addr = flag, .value = value, .flags = WAIT_EQ};

	if (way == 0)
		launch(t, K_WAIT, 0, s, (void *[]){&flag, &value}, 2);
	else if (way == 1)
		CU(cuStreamWaitValue32, t->stream[s].native, flag, value, WAIT_EQ);
	else
		CU(cuStreamBatchMemOp, t->stream[s].native, 1, &list, 0);
}

static void store(struct thread *t, CUdeviceptr flag, uint32_t value, unsigned s, unsigned way)
{
	if (way == 0)
		launch(t, K_STORE, 0, s, (void *[]){&flag, &value}, 2);
	else
		CU(cuStreamWriteValue32, t->stream[s].native, flag, value, 0);
}

/*
 * One stream waits for a word that another one writes after other work. Nothing may wait for the
 * first one meanwhile. Both do so by kernels where the word was allocated in the order of a stream:
 * the driver of a real GPU refuses stream memory operations there.
 */
void spin_do(struct thread *t)
{
	const unsigned first = stream_independent(t, STREAMS);
	const unsigned second = stream_independent(t, first);
	unsigned way = (unsigned)below(t, 3), store_way = (unsigned)below(t, 2);
	struct step set = {.what = STEP_SET, .way = 2, .value = 0};
	struct buffer *flag = buffer_any(t, NULL);
	const uint32_t value = (uint32_t)draw(t) | 1;
	CUdeviceptr addr;

	if (!flag || second == STREAMS)
		return;
	if (flag->ordered)
		way = store_way = 0;
	set.dst = (struct region){flag, below(t, flag->bytes / 4) * 4, 4};
	addr = flag->addr + set.dst.off;
	step_do(t, &set, first);
	use(t, flag, set.dst.off, 4, true);
	uses_wait(t, second);
	uses_forget(t);
	say("stream %u waits for %u, in buffer %u at %zu", first, second, flag->number,
	    set.dst.off);
	wait_for(t, addr, value, first, way);
	for (size_t i = below(t, 3); i; i--)
		step_between(t, second, flag);
	store(t, addr, value, second, store_way);
	use(t, flag, set.dst.off, 4, true);
	(void)uses_end(t, second);
	use(t, flag, set.dst.off, 4, false);
	(void)uses_end(t, first);
	memcpy(flag->shadow + set.dst.off, &value, sizeof(value));
}
