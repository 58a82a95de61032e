/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The event engine: clocks, streams as queues of ops, and the order in which things happen. An
 * event is the next point of a stream's head, the end of a flow, or the migrator's turn; there are
 * as many candidates as busy streams and links, so the earliest is found by looking. Events at one
 * time happen flows first, then streams in the order in which they became busy, then the migrator.
 * What an op does is told by the functions of its kind (struct sim_op_kind).
 */
#include <stdlib.h>
#include <string.h>

#include "src/backend/sim/sim_internal.h"
#include "src/base/util.h"

static uint64_t ns_add(uint64_t a, uint64_t b)
{
	return b < SIM_NEVER - 1 - a ? a + b : SIM_NEVER - 1;
}

/* Time passes: everything that happens on the way has happened. */
static void clock_set(struct sim *sim, uint64_t now_ns)
{
	sim_times_pass(sim, now_ns);
	sim->now_ns = now_ns;
	sim_engine_asides_end(sim, now_ns);
}

void sim_engine_aside(struct sim *sim, struct sim_aside *aside, uint64_t ns)
{
	uint64_t begin = sim_agent_ns(sim);
	struct sim_aside **last = &sim->aside;

	for (; *last; last = &(*last)->next)
		begin = MAX(begin, (*last)->at_ns);
	aside->at_ns = ns_add(begin, ns);
	*last = aside;
}

void sim_engine_asides_end(struct sim *sim, uint64_t until_ns)
{
	struct sim_aside *first;

	while ((first = sim->aside) && first->at_ns <= until_ns) {
		sim->aside = first->next;
		first->done(first->arg);
		free(first);
	}
}

/* ------------------------------------------------------------------ agents */

void sim_enter(struct sim *sim)
{
	pthread_mutex_lock(&sim->lock);
	while (sim->in_progress && !pthread_equal(sim->progress_thread, pthread_self()))
		pthread_cond_wait(&sim->idle, &sim->lock);
}

void sim_leave(struct sim *sim)
{
	pthread_mutex_unlock(&sim->lock);
}

uint64_t sim_agent_ns(const struct sim *sim)
{
	return sim->in_progress ? sim->migrator_ns : sim->now_ns;
}

void sim_spend(struct sim *sim, uint64_t ns)
{
	uint64_t until = ns_add(sim_agent_ns(sim), ns);

	if (sim->in_progress) {
		sim->migrator_ns = until;
		return;
	}
	while (sim_engine_step(sim, until))
		;
	if (sim->now_ns < until)
		clock_set(sim, until);
}

void sim_spend_allocating(struct sim *sim, uint64_t ns)
{
	bool before = sim->allocating;

	sim->allocating |= !sim->in_progress;
	sim_spend(sim, ns);
	sim->allocating = before;
}

void sim_spend_driver(struct sim *sim, uint64_t ns)
{
	uint64_t now = sim_agent_ns(sim);
	uint64_t begin = MAX(now, sim->driver_ns);

	sim->driver_ns = ns_add(begin, ns);
	sim_spend_allocating(sim, sim->driver_ns - now);
}

/* Give the migrator its turn. The lock is free while its functions run. */
static void progress_run(struct sim *sim)
{
	clock_set(sim, sim->wake_ns);
	sim->migrator_ns = sim->wake_ns;
	sim->wake_ns = SIM_NEVER;
	sim->in_progress = true;
	sim->progress_thread = pthread_self();
	for (size_t i = 0; i < sim->nr_progress; i++) {
		struct sim_progress progress = sim->progress[i];

		pthread_mutex_unlock(&sim->lock);
		progress.fn(progress.arg);
		pthread_mutex_lock(&sim->lock);
	}
	sim->in_progress = false;
	pthread_cond_broadcast(&sim->idle);
}

/* ------------------------------------------------------------------ streams as queues */

static void stream_activate(struct sim *sim, struct sim_stream *stream)
{
	sim->active[sim->nr_active++] = stream;
}

static void stream_deactivate(struct sim *sim, const struct sim_stream *stream)
{
	uint32_t i = 0;

	while (sim->active[i] != stream)
		i++;
	sim->nr_active--;
	memmove(&sim->active[i], &sim->active[i + 1],
		(sim->nr_active - i) * sizeof(struct sim_stream *));
}

void sim_engine_timer(struct sim_op *op, uint64_t at_ns)
{
	op->stream->next_ns = at_ns;
}

void sim_engine_done(struct sim *sim, struct sim_op *op, int err)
{
	struct sim_stream *stream = op->stream;

	if (err && !stream->error) {
		stream->error = err;
		stream->error_fence = stream->nr_done + 1;
	}
	stream->head = op->next;
	stream->next_ns = SIM_NEVER;
	if (!stream->head) {
		stream->tail = NULL;
		stream_deactivate(sim, stream);
	}
	sim->rescan = true;
	free(op);
}

bool sim_engine_ready_always(struct sim *sim, struct sim_op *op)
{
	(void)sim, (void)op;
	return true;
}

void sim_engine_wake(struct sim *sim)
{
	/* A fence that is done as it is recorded is no news. */
	if (sim->stepping && sim->nr_progress && sim->wake_ns == SIM_NEVER)
		sim->wake_ns = MAX(sim->now_ns, sim->migrator_ns);
}

/* Start what can start at the head of a stream. */
static void stream_try(struct sim *sim, struct sim_stream *stream)
{
	struct sim_op *op;

	while ((op = stream->head) && !op->started) {
		if (op->earliest_ns > sim->now_ns) {
			stream->next_ns = op->earliest_ns;
			return;
		}
		stream->next_ns = SIM_NEVER;
		if (!op->kind->ready(sim, op))
			return;
		op->started = true;
		op->kind->start(sim, op);
	}
}

/* What runs on devices hears of the flows that started and ended. */
static void flows_changed(struct sim *sim)
{
	if (!sim->base.desc.nr_ports)
		return;
	sim_flows_settle(sim);
	for (uint32_t d = 0; d < sim->base.desc.nr_devices; d++)
		if (sim->device[d].running) {
			struct sim_op *op = &sim->device[d].running->op;

			op->kind->flows_changed(sim, op);
		}
}

/* Look at each stream once. @return whether something became possible by that. */
static bool streams_try(struct sim *sim)
{
	sim->rescan = false;
	for (uint32_t i = 0; i < sim->nr_active;) {
		struct sim_stream *stream = sim->active[i];

		stream_try(sim, stream);
		if (i < sim->nr_active && sim->active[i] == stream)
			i++;
	}
	return sim->rescan;
}

/* Start everything that can start now. Devices get another kernel to run once all streams have gone
 * on that what has just ended lets go on: the kernel's turn does not depend on which was looked at
 * first. */
static void engine_pump(struct sim *sim)
{
	do {
		sim->holds_kernels = true;
		while (streams_try(sim))
			;
		sim->holds_kernels = false;
	} while (streams_try(sim));
	flows_changed(sim);
}

void sim_engine_queue(struct sim *sim, struct sim_stream *stream, struct sim_op *op,
		      uint64_t delay_ns)
{
	op->next = NULL;
	op->stream = stream;
	op->started = false;
	op->waiting = false;
	op->seq = ++sim->last_seq;
	op->earliest_ns = ns_add(sim_agent_ns(sim), delay_ns);
	if (stream->head) {
		stream->tail->next = op;
	} else {
		stream->head = op;
		stream_activate(sim, stream);
	}
	stream->tail = op;
	/* All other heads were tried after what last happened, and nothing has happened since. */
	if (stream->head != op)
		return;
	stream_try(sim, stream);
	if (sim->rescan)
		engine_pump(sim);
	else
		flows_changed(sim);
}

/* ------------------------------------------------------------------ events */

/* Everything that happens to flows and started ops at now_ns. */
static void engine_happen(struct sim *sim)
{
	for (uint32_t i = 0; i < sim->base.desc.nr_links; i++) {
		struct sim_flow *flow;

		while ((flow = sim_flow_take_ended(sim, i)))
			flow->op->kind->flow_ended(sim, flow->op);
	}
	for (uint32_t i = 0; i < sim->nr_active;) {
		struct sim_stream *stream = sim->active[i];

		if (stream->head->started && stream->next_ns <= sim->now_ns) {
			stream->next_ns = SIM_NEVER;
			stream->head->kind->event(sim, stream->head);
		}
		if (i < sim->nr_active && sim->active[i] == stream)
			i++;
	}
}

static uint64_t engine_next_ns(const struct sim *sim)
{
	uint64_t next = SIM_NEVER;

	for (uint32_t i = 0; i < sim->base.desc.nr_links; i++)
		if (sim->link[i].end_ns < next)
			next = sim->link[i].end_ns;
	for (uint32_t i = 0; i < sim->nr_active; i++)
		if (sim->active[i]->next_ns < next)
			next = sim->active[i]->next_ns;
	return next;
}

bool sim_engine_step(struct sim *sim, uint64_t limit_ns)
{
	uint64_t next = engine_next_ns(sim);

	if (sim->wake_ns < next) {
		if (sim->wake_ns > limit_ns)
			return false;
		progress_run(sim);
		return true;
	}
	if (next == SIM_NEVER || next > limit_ns)
		return false;
	clock_set(sim, next);
	sim->stepping = true;
	engine_happen(sim);
	engine_pump(sim);
	sim->stepping = false;
	return true;
}

void sim_engine_drain(struct sim *sim, uint32_t device)
{
	bool before = sim->allocating, busy;
	uint64_t last = sim->last_seq;

	sim->allocating = true;
	do {
		busy = false;
		for (uint32_t i = 0; i < sim->nr_active; i++)
			busy |= (device == WEIR_DEVICES_MAX || sim->active[i]->device == device) &&
				sim->active[i]->head->seq <= last;
	} while (busy && sim_engine_step(sim, SIM_NEVER));
	sim->allocating = before;
}
