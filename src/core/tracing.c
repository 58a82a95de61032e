/* SPDX-License-Identifier: Apache-2.0 */
/* What happens in a space, as events of a trace: see tracing.h. */
#include "src/core/tracing_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/backend/machine.h"
#include "src/base/log.h"
#include "src/core/kind.h"
#include "src/trace/part.h"

/* ------------------------------------------------------------------ brackets */

static void write_uses(struct trace_file_use *out, const struct space_use *uses, uint32_t nr)
{
	for (uint32_t u = 0; u < nr; u++) {
		const struct space_use *use = &uses[u];
		uint64_t begin = 0, *life = tracing_life_at(use->range, use->offset, &begin);

		/* A bracket that names the whole space names arenas, and no piece of them. */
		if (use->range->arena && use->bytes == use->range->bytes)
			life = NULL;
		out[u] = (struct trace_file_use){
			.life = life ? *life : 0,
			.kind = (uint8_t)use->kind,
			.pattern = (uint8_t)use->pattern,
			.granule = use->granule,
			.offset = use->offset - begin,
			.bytes = use->bytes,
			.read_bytes = (uint64_t)use->read_bytes,
			.write_bytes = (uint64_t)use->write_bytes,
		};
	}
}

/* The uses of a bracket that have no room in its event. */
static void write_more_uses(const struct weir_space *space, uint32_t stream,
			    const struct space_use *uses, uint32_t nr, uint64_t ns)
{
	for (uint32_t first = TRACE_USES_MAX; first < nr; first += TRACE_USES_MAX) {
		uint32_t part = MIN(nr - first, TRACE_USES_MAX);
		struct trace_uses *e = tracing_event_at(space, TRACE_USES, stream, ns,
							sizeof(*e) + part * sizeof(e->use[0]));

		if (!e)
			return;
		write_uses(e->use, uses + first, part);
		tracing_commit(space);
	}
}

static void write_begin(const struct weir_space *space, enum trace_kind kind, uint32_t stream,
			uint32_t number, const struct space_use *uses, uint32_t nr,
			uint64_t since_ns)
{
	uint32_t here = MIN(nr, TRACE_USES_MAX);
	struct trace_begin *e =
		tracing_event(space, kind, stream, sizeof(*e) + here * sizeof(e->use[0]));
	uint64_t ns;

	if (!e)
		return;
	ns = e->event.ns;
	e->took_ns = ns - since_ns;
	e->number = number;
	e->nr_uses = nr;
	write_uses(e->use, uses, here);
	tracing_commit(space);
	if (nr > here)
		write_more_uses(space, stream, uses, nr, ns);
}

void tracing_begin(struct weir_space *space, const struct stream_slot *slot, uint64_t since_ns)
{
	if (is_traced(space))
		write_begin(space, TRACE_BEGIN, slot->number, 0, slot->uses.use,
			    slot->uses.nr_named, since_ns);
}

static void write_time(const struct weir_space *space, const struct trace_time *time)
{
	struct trace_time *e = tracing_event(space, TRACE_TIME, time->event.stream, sizeof(*e));

	if (!e)
		return;
	memcpy(&e->event + 1, &time->event + 1, sizeof(*e) - sizeof(e->event));
	tracing_commit(space);
}

void tracing_end(struct weir_space *space, const struct stream_slot *slot, const char *kernel,
		 double ops, bool in_place, uint64_t since_ns)
{
	bool several = kernel && !*kernel;
	struct trace_end *e;
	uint32_t name;

	if (!is_traced(space))
		return;
	name = several ? 0 : trace_writer_name(space->tracing->writer, kernel, tracing_now(space));
	e = tracing_event(space, TRACE_END, slot->number, sizeof(*e));
	if (!e)
		return;
	e->took_ns = e->event.ns - since_ns;
	e->bracket = space->tracing->last_ended = space->last_seq;
	e->ops = ops;
	e->kernel = name;
	e->flags = in_place ? TRACE_END_IN_PLACE : 0;
	e->several = several;
	tracing_commit(space);
	if (space->tracing->early.bracket)
		write_time(space, &space->tracing->early);
	space->tracing->early.bracket = 0;
}

void tracing_time(struct weir_space *space, const struct ended_bracket *bracket, bracket_seq_t seq,
		  uint64_t begin_ns, uint64_t end_ns)
{
	const struct trace_time time = {
		.event.stream = (uint16_t)bracket->slot->number,
		.bracket = seq,
		.begin_ns = begin_ns,
		.end_ns = end_ns,
		.flags = bracket->in_place ? TRACE_END_IN_PLACE : 0,
	};

	if (!is_traced(space) || seq < space->tracing->first_bracket)
		return;
	/* One that is done as it ends: weir_end() holds the lock, and names it later. */
	if (seq > space->tracing->last_ended)
		space->tracing->early = time;
	else
		write_time(space, &time);
}

bool tracing_samples(struct weir_space *space)
{
	return is_traced(space) && space->tracing->nr_begun++ % TRACING_SAMPLE == 0;
}

uint32_t tracing_host_begin(struct weir_space *space, const struct space_use *uses, uint32_t nr,
			    uint64_t since_ns)
{
	if (!is_traced(space))
		return 0;
	write_begin(space, TRACE_HOST_BEGIN, TRACE_NO_STREAM, ++space->nr_traced_hosts, uses, nr,
		    since_ns);
	return space->nr_traced_hosts;
}

void tracing_host_end(struct weir_space *space, uint32_t number, uint64_t since_ns)
{
	struct trace_host_end *e;

	if (!is_traced(space) || number <= space->tracing->first_host)
		return;
	e = tracing_event(space, TRACE_HOST_END, TRACE_NO_STREAM, sizeof(*e));
	if (!e)
		return;
	e->took_ns = e->event.ns - since_ns;
	e->number = number;
	tracing_commit(space);
}

/* ------------------------------------------------------------------ other calls */

void tracing_part(struct weir_space *space, enum trace_kind kind, const struct space_use *part,
		  uint32_t memory, uint64_t since_ns)
{
	struct trace_part_of *e = tracing_event(space, kind, TRACE_NO_STREAM, sizeof(*e));
	uint64_t begin = 0, *life;

	if (!e)
		return;
	life = tracing_life_at(part->range, part->offset, &begin);
	e->took_ns = e->event.ns - since_ns;
	e->life = life ? *life : 0;
	e->offset = part->offset - begin;
	e->bytes = part->bytes;
	e->memory = memory;
	tracing_commit(space);
}

void tracing_advise(struct weir_space *space, const struct space_use *part, enum weir_advice advice,
		    uint32_t where, uint64_t since_ns)
{
	struct trace_advise *e = tracing_event(space, TRACE_ADVISE, TRACE_NO_STREAM, sizeof(*e));
	uint64_t begin, *life;

	if (!e)
		return;
	life = tracing_life_at(part->range, part->offset, &begin);
	e->life = life ? *life : 0;
	e->advice = (uint32_t)advice;
	e->where = where;
	e->took_ns = e->event.ns - since_ns;
	tracing_commit(space);
}

void tracing_sync(struct weir_space *space, uint64_t since_ns)
{
	struct trace_sync *e = tracing_event(space, TRACE_SYNC, TRACE_NO_STREAM, sizeof(*e));

	if (!e)
		return;
	e->took_ns = e->event.ns - since_ns;
	tracing_commit(space);
}

void tracing_budget(struct weir_space *space, place_t place, uint64_t since_ns)
{
	const struct pmm *pmm = &space->pmm[place];
	struct trace_budget *e = tracing_event(space, TRACE_BUDGET, TRACE_NO_STREAM, sizeof(*e));

	if (!e)
		return;
	e->memory = pmm->memory;
	e->bytes = (pmm->max_chunks + pmm->nr_lent) * pmm->chunk_bytes;
	e->took_ns = e->event.ns - since_ns;
	tracing_commit(space);
}

void tracing_mode(struct weir_space *space)
{
	struct trace_mode *e = tracing_event(space, TRACE_MODE, TRACE_NO_STREAM, sizeof(*e));

	if (!e)
		return;
	e->mode = (uint32_t)space->mode;
	tracing_commit(space);
}

void tracing_stream(struct weir_space *space, const struct stream_slot *slot)
{
	struct trace_stream *e = tracing_event(space, TRACE_STREAM, slot->number, sizeof(*e));

	if (!e)
		return;
	e->device = stream_device(slot->stream);
	tracing_commit(space);
}

void tracing_mark(struct weir_space *space, const char *name)
{
	struct trace_writer *w = is_traced(space) ? space->tracing->writer : NULL;

	if (w)
		tracing_wait(space);
	if (w &&
	    trace_writer_text(w, TRACE_MARK, tracing_now(space), sizeof(struct trace_mark), name))
		tracing_commit(space);
}

void tracing_plan(struct weir_space *space, place_t own, const struct trace_plan *plan)
{
	struct trace_plan *e =
		tracing_event(space, plan ? TRACE_PLAN : TRACE_UNPLAN, TRACE_NO_STREAM, sizeof(*e));

	if (!e)
		return;
	if (plan)
		memcpy(&e->event + 1, &plan->event + 1, sizeof(*e) - sizeof(e->event));
	e->device = space->device[own];
	tracing_commit(space);
}

/* ------------------------------------------------------------------ moves */

void tracing_move(struct weir_space *space, const struct range *range, uint32_t block,
		  const struct path *path, enum weir_cause cause)
{
	struct trace_move *e = tracing_event(space, TRACE_MOVE, TRACE_NO_STREAM, sizeof(*e));

	if (!e)
		return;
	e->life = range->arena ? 0 : range->traced_life;
	e->block = block;
	e->from = path->from;
	e->to = path->to;
	e->cause = (uint8_t)cause;
	tracing_commit(space);
}

void tracing_compared(struct weir_space *space, const struct range *range, uint32_t block,
		      enum trace_compared_result result)
{
	struct trace_compared *e =
		tracing_event(space, TRACE_COMPARED, TRACE_NO_STREAM, sizeof(*e));

	if (!e)
		return;
	e->life = range->arena ? 0 : range->traced_life;
	e->block = block;
	e->result = (uint32_t)result;
	tracing_commit(space);
}

void tracing_moved(struct weir_space *space, const struct path *path, uint32_t nr, bool undone)
{
	struct trace_moved *e = nr ? tracing_event(space, undone ? TRACE_UNDONE : TRACE_MOVED,
						   TRACE_NO_STREAM, sizeof(*e))
				   : NULL;

	if (!e)
		return;
	e->from = path->from;
	e->to = path->to;
	e->nr = nr;
	tracing_commit(space);
}

/* ------------------------------------------------------------------ beginning and end */

static void write_space(struct weir_space *space)
{
	struct trace_space *e = tracing_event(space, TRACE_SPACE, TRACE_NO_STREAM, sizeof(*e));
	struct timespec wall;

	if (!e)
		return;
	clock_gettime(CLOCK_REALTIME, &wall);
	e->block_bytes = space->block_bytes;
	e->devices = space->devices;
	e->wall_ns = (uint64_t)wall.tv_sec * 1000000000u + (uint64_t)wall.tv_nsec;
	e->flags = machine_is_simulated(space->machine) ? TRACE_SPACE_SIMULATED : 0;
	e->flags |= space->guessed ? TRACE_SPACE_GUESSED : 0;
	e->nr_places = space->nr_places;
	for (uint32_t place = 0; place < space->nr_places; place++)
		e->memory[place] = space->pmm[place].memory;
	strncpy(e->weir, weir_version(), sizeof(e->weir) - 1);
	tracing_commit(space);
}

static void write_machine(struct weir_space *space)
{
	const struct weir_machine_desc *desc = &space->backend->desc;

	for (int part = 0; part < TRACE_PART_NR; part++)
		for (uint32_t i = 0; i < trace_part_count(desc, (enum trace_part)part); i++) {
			size_t bytes = trace_part_words((enum trace_part)part) * sizeof(uint64_t);
			struct trace_machine *e = tracing_event(
				space, TRACE_MACHINE, TRACE_NO_STREAM, sizeof(*e) + bytes);

			if (!e)
				return;
			e->part = (uint32_t)part;
			e->index = i;
			trace_part_write(desc, (enum trace_part)part, i, e->word);
			tracing_commit(space);
		}
}

/* What is open, or under way, as if it had begun now. */
static void write_open(struct weir_space *space)
{
	for (uint32_t i = 0; i < space->nr_slots; i++)
		if (space->slot[i]->open)
			tracing_begin(space, space->slot[i], tracing_now(space));
	for (uint32_t p = 0; p < space->nr_paths; p++) {
		const struct path *path = &space->path[p];

		for (uint32_t n = 0; n < path_nr_moves(path); n++) {
			const struct move *move = path_move(path, n);

			tracing_move(space, move->range, move->block, path, WEIR_CAUSE_NR);
		}
	}
}

int tracing_start(struct weir_space *space, const char *path, bool numbered)
{
	struct tracing *tracing = calloc(1, sizeof(*tracing));
	int err;

	if (!tracing)
		return -ENOMEM;
	err = trace_writer_open(path, numbered, &tracing->writer);
	if (err) {
		free(tracing);
		return err;
	}
	tracing->first_bracket = space->last_seq + 1;
	tracing->first_host = space->nr_traced_hosts;
	space->tracing = tracing;
	machine_waits_count(space->machine, true);
	tracing->waited_ns = machine_waited_ns(space->machine);
	write_space(space);
	write_machine(space);
	for (uint32_t place = 0; place < space->nr_places; place++)
		tracing_budget(space, (place_t)place, tracing_now(space));
	tracing_mode(space);
	for (uint32_t i = 0; i < space->nr_slots; i++)
		tracing_stream(space, space->slot[i]);
	tracing_lives(space);
	write_open(space);
	return 0;
}

void tracing_stop(struct weir_space *space)
{
	struct trace_event *e;

	if (!is_traced(space))
		return;
	e = tracing_event(space, TRACE_STOP, TRACE_NO_STREAM, sizeof(*e));
	if (e)
		tracing_commit(space);
	machine_waits_count(space->machine, false);
	trace_writer_close(space->tracing->writer);
	free(space->tracing);
	space->tracing = NULL;
}
