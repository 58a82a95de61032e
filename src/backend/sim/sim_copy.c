/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies: batches between aliases, transfers from and to buffers of the program. A batch runs in
 * segments of moves between the same two memories: overhead first, then all of its bytes
 * as one flow, then the bytes are there. A transfer to block addresses finds the chunks behind
 * them as it starts.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/backend/sim/sim_internal.h"
#include "src/base/log.h"
#include "src/base/util.h"

/* ------------------------------------------------------------------ moves and their pieces */

static struct sim_move_link *link_of(struct sim_move *move, bool written)
{
	return written ? &move->write : &move->read;
}

/* Into a list of a piece's, at its end or, of a move that starts, first. */
static void link_add(struct sim_piece *piece, struct sim_move *move, bool written, bool starts)
{
	struct sim_moves *moves = written ? &piece->writes : &piece->reads;
	struct sim_move_link *link = link_of(move, written);

	link->at = starts || !moves->first ? &moves->first : moves->end;
	link->next = *link->at;
	if (link->next)
		link_of(link->next, written)->at = &link->next;
	else
		moves->end = &link->next;
	*link->at = move;
}

static void link_del(struct sim_piece *piece, struct sim_move *move, bool written)
{
	struct sim_moves *moves = written ? &piece->writes : &piece->reads;
	const struct sim_move_link *link = link_of(move, written);

	*link->at = link->next;
	if (link->next)
		link_of(link->next, written)->at = link->at;
	else
		moves->end = link->at;
}

static void move_attach(struct sim_move *move, bool starts)
{
	for (int written = 0; written < 2; written++) {
		struct sim_piece *piece = written ? move->dst_piece : move->src_piece;

		if (!piece)
			continue;
		sim_region_piece_count(piece, -1);
		link_add(piece, move, written, starts);
		sim_region_piece_count(piece, 1);
	}
}

static void move_detach(struct sim_move *move)
{
	for (int written = 0; written < 2; written++) {
		struct sim_piece *piece = written ? move->dst_piece : move->src_piece;

		if (!piece)
			continue;
		sim_region_piece_count(piece, -1);
		link_del(piece, move, written);
		sim_region_piece_count(piece, 1);
	}
}

/* What was queued starts. */
static void move_start(struct sim_move *move)
{
	for (int written = 0; written < 2; written++) {
		struct sim_piece *piece = written ? move->dst_piece : move->src_piece;

		if (!piece)
			continue;
		link_del(piece, move, written);
		link_add(piece, move, written, true);
	}
}

void sim_copy_detach(struct sim_copy *copy)
{
	if (copy->kind != SIM_COPY_BATCH && !copy->op.started)
		return;
	for (; copy->next < copy->nr; copy->next++)
		move_detach(&copy->move[copy->next]);
}

struct sim_piece *sim_piece_of(struct sim *sim, const void *addr, uint64_t bytes)
{
	struct sim_piece *piece = sim_memory_piece_at(sim, addr);

	if (!piece)
		return NULL;
	return bytes <= piece->bytes - (uint64_t)((const char *)addr - sim_memory_alias(sim, piece))
		       ? piece
		       : NULL;
}

/* Whether a device's copy engine may use a piece. */
static bool engine_may(const struct sim *sim, uint32_t device, const struct sim_piece *piece)
{
	const struct weir_machine_desc *desc = &sim->base.desc;

	if (piece->devices & BACKEND_DEVICE_BIT(device))
		return true;
	log_error("sim: a copy on a stream of %s uses a chunk of '%s' that has no alias for it",
		  desc->device[device].name, desc->memory[piece->memory].name);
	return false;
}

static bool memories_joined(const struct sim *sim, uint32_t a, uint32_t b)
{
	return a == b || cost_link_find(&sim->base.desc, a, b) >= 0;
}

/* ------------------------------------------------------------------ running a batch */

/* Whose overhead a move has: its link's, or within a memory the device's host link's. */
static uint32_t overhead_link(const struct sim *sim, uint32_t device, const struct sim_move *move)
{
	const struct weir_machine_desc *desc = &sim->base.desc;
	uint32_t own = desc->device[device].memory;

	if (move->dst_memory != move->src_memory)
		return (uint32_t)cost_link_find(desc, move->src_memory, move->dst_memory);
	return (uint32_t)cost_link_find(desc, cost_host_memory(desc), own);
}

/* Time of bytes within one memory. */
static uint64_t inside_ns(const struct sim *sim, uint32_t memory, uint32_t link, double bytes)
{
	const struct weir_machine_desc *desc = &sim->base.desc;
	double rate = desc->link[link].duplex_bytes_per_s;

	for (uint32_t d = 0; d < desc->nr_devices; d++)
		if (desc->device[d].memory == memory)
			rate = desc->device[d].hbm_bytes_per_s / 2;
	return sim_ns_ceil(bytes / rate * 1e9);
}

/* Note that a device's copies from its memory, or to it, are one more or one fewer. */
static void segment_count(struct sim *sim, const struct sim_copy *copy, uint32_t by)
{
	const struct sim_move *move = &copy->move[copy->next];
	uint32_t d = copy->op.stream->device, own = sim->base.desc.device[d].memory;

	if (move->src_memory == own)
		sim->device[d].nr_copies[0] += by;
	if (move->dst_memory == own)
		sim->device[d].nr_copies[1] += by;
}

static void segment_begin(struct sim *sim, struct sim_copy *copy)
{
	const struct sim_move *first = &copy->move[copy->next];
	uint32_t link = overhead_link(sim, copy->op.stream->device, first);
	const struct weir_link_desc *desc = &sim->base.desc.link[link];
	uint64_t ns = copy->service_ns + (copy->next ? 0 : desc->latency_ns);
	double bytes = 0;

	segment_count(sim, copy, 1);
	copy->service_ns = 0;
	copy->segment = copy->next;
	while (copy->segment < copy->nr &&
	       copy->move[copy->segment].dst_memory == first->dst_memory &&
	       copy->move[copy->segment].src_memory == first->src_memory)
		bytes += (double)copy->move[copy->segment++].bytes;
	ns += (copy->segment - copy->next) * desc->copy_ns;
	copy->over_link = first->dst_memory != first->src_memory;
	copy->setting_up = copy->over_link;
	if (copy->over_link)
		copy->flow = (struct sim_flow){
			.op = &copy->op,
			.link = link,
			.back = first->src_memory == desc->b,
			.remaining = bytes,
			.cap = cost_copy_bytes_per_s(desc, first->src_memory) / 1e9,
		};
	else
		ns += inside_ns(sim, first->dst_memory, link, bytes);
	sim_engine_timer(&copy->op, sim->now_ns + ns);
}

static void copy_finish(struct sim *sim, struct sim_copy *copy, int err)
{
	if (copy->outcome)
		*copy->outcome = (struct sim_outcome){true, err};
	/* A transfer's error is its caller's, who waits for it; the stream has none. */
	sim_engine_done(sim, &copy->op, copy->outcome ? 0 : err);
}

static void segment_end(struct sim *sim, struct sim_copy *copy)
{
	segment_count(sim, copy, -1u);
	for (; copy->next < copy->segment; copy->next++) {
		struct sim_move *move = &copy->move[copy->next];

		if (sim->base.data == WEIR_DATA_REAL)
			memmove(move->dst, move->src, move->bytes);
		sim_content_move(sim, move);
		move_detach(move);
	}
	if (copy->next < copy->nr)
		segment_begin(sim, copy);
	else
		copy_finish(sim, copy, copy->err);
}

/* Find the chunk behind the machine's side of a transfer's move. */
static bool move_resolve(struct sim *sim, struct sim_copy *copy, struct sim_move *move)
{
	bool upload = copy->kind == SIM_COPY_UPLOAD;
	const char *addr = upload ? move->dst : move->src;
	struct sim_piece *piece = sim_piece_of(sim, addr, move->bytes);
	uint32_t host = cost_host_memory(&sim->base.desc);
	const struct sim_region *region;
	char *alias = (char *)(uintptr_t)addr;

	if (uvm_range_at(sim, addr)) {
		uint32_t own = sim->base.desc.device[copy->op.stream->device].memory;

		move->dst_memory = upload ? own : host;
		move->src_memory = upload ? host : own;
		move->dst_piece = move->src_piece = NULL;
		return uvm_holds(sim, addr, move->bytes);
	}
	if (!piece) {
		uint64_t offset;

		region = sim_region_at(sim, addr);
		if (!region)
			return false;
		offset = (uint64_t)(addr - region->base);
		piece = region->mapping[offset / region->unit].piece;
		if (!piece || move->bytes > region->unit - offset % region->unit)
			return false;
		alias = sim_memory_alias(sim, piece) + offset % region->unit;
	}
	if (!memories_joined(sim, piece->memory, host) ||
	    (piece->memory != host && !engine_may(sim, copy->op.stream->device, piece)))
		return false;
	move->dst_memory = upload ? piece->memory : host;
	move->src_memory = upload ? host : piece->memory;
	move->dst_piece = upload ? piece : NULL;
	move->src_piece = upload ? NULL : piece;
	if (upload)
		move->dst = alias;
	else
		move->src = alias;
	return true;
}

static int transfer_resolve(struct sim *sim, struct sim_copy *copy)
{
	for (uint32_t i = 0; i < copy->nr; i++)
		if (!move_resolve(sim, copy, &copy->move[i])) {
			log_error("sim: transfer at %p: nothing is mapped there",
				  copy->kind == SIM_COPY_UPLOAD ? (const void *)copy->move[i].dst
								: (const void *)copy->move[i].src);
			return -WEIR_ETRAP;
		}
	for (uint32_t i = 0; i < copy->nr; i++)
		move_attach(&copy->move[i], true);
	return 0;
}

/* The copy engine touches managed memory as a kernel of the stream's device would. */
static int transfer_service(struct sim *sim, struct sim_copy *copy)
{
	const struct sim_move *move = &copy->move[0];
	uint32_t device = copy->op.stream->device;
	uint64_t parts_ns[BACKEND_TIME_NR];
	struct uvm_cost cost = {{0}};
	const struct weir_use use = {
		.addr = copy->kind == SIM_COPY_UPLOAD ? move->dst : (char *)(uintptr_t)move->src,
		.bytes = move->bytes,
		.kind = copy->kind == SIM_COPY_UPLOAD ? WEIR_WRITE : WEIR_READ,
	};
	int err;

	if (!uvm_range_at(sim, use.addr))
		return 0;
	err = uvm_touch(sim, device, &use, 1, &cost);
	copy->service_ns = uvm_service_ns(sim, device, &cost, parts_ns);
	return err;
}

static void copy_start(struct sim *sim, struct sim_op *op)
{
	struct sim_copy *copy = (struct sim_copy *)op;

	if (copy->kind != SIM_COPY_BATCH) {
		copy->err = transfer_resolve(sim, copy);
		if (!copy->err)
			copy->err = transfer_service(sim, copy);
	}
	if (copy->err) {
		copy->nr = 0;
		sim_engine_timer(&copy->op, sim->now_ns);
		return;
	}
	for (uint32_t i = 0; copy->kind == SIM_COPY_BATCH && i < copy->nr; i++)
		move_start(&copy->move[i]);
	copy->err = sim_copy_check_order(sim, copy);
	sim_kernels_check_copy(sim, copy);
	segment_begin(sim, copy);
}

static void copy_event(struct sim *sim, struct sim_op *op)
{
	struct sim_copy *copy = (struct sim_copy *)op;

	if (!copy->nr) {
		copy_finish(sim, copy, copy->err);
	} else if (copy->setting_up) {
		copy->setting_up = false;
		sim_flow_start(sim, &copy->flow);
	} else {
		segment_end(sim, copy);
	}
}

static void copy_flow_ended(struct sim *sim, struct sim_op *op)
{
	struct sim_copy *copy = (struct sim_copy *)op;

	segment_end(sim, copy);
}

/* When a copy will be done that has the link to itself, but for what shares it already. */
static uint64_t copy_end_ns(const struct sim *sim, const struct sim_copy *copy, uint64_t start_ns)
{
	const struct sim_move *first = &copy->move[copy->next];
	uint32_t link = overhead_link(sim, copy->op.stream->device, first);
	const struct weir_link_desc *desc = &sim->base.desc.link[link];
	double bytes = 0;

	if (copy->op.started && copy->over_link && !copy->setting_up)
		return copy->flow.end_ns;
	for (uint32_t i = copy->next; i < copy->nr; i++)
		bytes += (double)copy->move[i].bytes;
	return start_ns + desc->latency_ns + (copy->nr - copy->next) * desc->copy_ns +
	       sim_ns_ceil(bytes / cost_copy_bytes_per_s(desc, first->src_memory) * 1e9);
}

static bool copy_goes(const struct sim_copy *copy, uint32_t from, uint32_t to)
{
	return copy->move[copy->next].src_memory == from && copy->move[copy->next].dst_memory == to;
}

/* Looks at what is queued on a stream up to the caller's clock, which is ahead of the events while
 * the migrator has its turn. */
static bool stream_copies(const struct sim *sim, const struct sim_stream *stream, uint32_t from,
			  uint32_t to)
{
	uint64_t now = sim_agent_ns(sim), free_ns = sim->now_ns;

	for (const struct sim_op *op = stream->head; op; op = op->next) {
		const struct sim_copy *copy = (const struct sim_copy *)op;

		if (!op->started && (op->earliest_ns > now || free_ns > now ||
				     op->kind->ready != sim_engine_ready_always))
			return false;
		if (!op->kind->is_copy || copy->next >= copy->nr ||
		    (copy->kind != SIM_COPY_BATCH && !op->started))
			continue;
		free_ns = copy_end_ns(sim, copy, MAX(op->earliest_ns, free_ns));
		if (free_ns > now && copy_goes(copy, from, to))
			return true;
	}
	return false;
}

bool sim_copy_runs(const struct sim *sim, uint32_t from, uint32_t to)
{
	for (uint32_t i = 0; i < sim->nr_active; i++)
		if (stream_copies(sim, sim->active[i], from, to))
			return true;
	return false;
}

static const struct sim_op_kind copy_kind = {
	.is_copy = true,
	.ready = sim_engine_ready_always,
	.start = copy_start,
	.event = copy_event,
	.flow_ended = copy_flow_ended,
};

/* ------------------------------------------------------------------ queueing */

static struct sim_copy *copy_alloc(uint64_t nr, uint32_t max_spans)
{
	struct sim_copy *copy;

	if (!nr || nr > UINT32_MAX)
		return NULL;
	copy = calloc(1, sizeof(*copy) + nr * sizeof(copy->move[0]) +
				 max_spans * sizeof(copy->span[0]));
	if (!copy)
		return NULL;
	copy->span = (uint64_t *)&copy->move[nr];
	copy->op.kind = &copy_kind;
	copy->nr = (uint32_t)nr;
	for (uint32_t i = 0; i < nr; i++)
		copy->move[i].op = &copy->op;
	return copy;
}

static int move_fill(struct sim *sim, uint32_t device, struct sim_move *move,
		     const struct backend_copy *from)
{
	uintptr_t dst = (uintptr_t)from->dst, src = (uintptr_t)from->src;

	if (!from->bytes)
		return -EINVAL;
	move->dst_piece = sim_piece_of(sim, from->dst, from->bytes);
	move->src_piece = sim_piece_of(sim, from->src, from->bytes);
	if (!move->dst_piece || !move->src_piece ||
	    (dst < src + from->bytes && src < dst + from->bytes) ||
	    !memories_joined(sim, move->dst_piece->memory, move->src_piece->memory))
		return -EINVAL;
	if (!engine_may(sim, device, move->dst_piece) || !engine_may(sim, device, move->src_piece))
		return -EACCES;
	move->dst = from->dst;
	move->src = from->src;
	move->bytes = from->bytes;
	move->dst_memory = move->dst_piece->memory;
	move->src_memory = move->src_piece->memory;
	return 0;
}

uint32_t sim_spans_note(const struct sim *sim, uint64_t *span)
{
	uint32_t nr = 0;

	for (uint32_t i = 0; i < sim->nr_slots; i++)
		if (sim->slot[i].stream && sim->slot[i].stream->bracket)
			span[nr++] = sim->slot[i].stream->span;
	return nr;
}

/* The caller's time to queue the pieces of a device's copy. */
static uint64_t queue_ns(const struct sim *sim, uint32_t device, const struct sim_copy *copy)
{
	uint64_t ns = 0;

	for (uint32_t i = 0; i < copy->nr; i++) {
		uint32_t link = overhead_link(sim, device, &copy->move[i]);

		ns += sim->base.desc.link[link].copy_host_ns;
	}
	return ns;
}

static int copy_locked(struct sim *sim, stream_id_t id, const struct backend_copy *copies,
		       uint32_t nr, bool beside)
{
	struct sim_stream *stream = sim_stream_find(sim, id);
	struct sim_copy *copy;
	uint64_t ns;
	int err;

	if (!stream || !copies || !nr)
		return -EINVAL;
	copy = copy_alloc(nr, beside ? sim->nr_slots : 0);
	if (!copy)
		return -ENOMEM;
	copy->beside = beside;
	if (beside)
		copy->nr_spans = sim_spans_note(sim, copy->span);
	for (uint32_t i = 0; i < nr; i++) {
		err = move_fill(sim, stream->device, &copy->move[i], &copies[i]);
		if (err)
			goto err_free;
	}
	for (uint32_t i = 0; i < nr; i++)
		move_attach(&copy->move[i], false);
	ns = queue_ns(sim, stream->device, copy);
	sim_engine_queue(sim, stream, &copy->op, ns);
	sim_spend(sim, ns);
	return 0;

err_free:
	free(copy);
	return err;
}

int sim_copy(struct backend *b, stream_id_t id, const struct backend_copy *copies, uint32_t nr)
{
	struct sim *sim = sim_of(b);
	int err;

	sim_enter(sim);
	err = copy_locked(sim, id, copies, nr, false);
	sim_leave(sim);
	return err;
}

int sim_copy_beside(struct backend *b, stream_id_t id, const struct backend_copy *copies,
		    uint32_t nr)
{
	struct sim *sim = sim_of(b);
	int err;

	sim_enter(sim);
	err = copy_locked(sim, id, copies, nr, true);
	sim_leave(sim);
	return err;
}

/* Cut a transfer where blocks end. 0, or -EINVAL: not all of it is mapped. */
static int transfer_fill(struct sim *sim, struct sim_copy *copy, char *addr, char *buffer,
			 uint64_t bytes, uint64_t unit, uint64_t offset)
{
	for (uint32_t i = 0; i < copy->nr; i++) {
		struct sim_move *move = &copy->move[i], probe;
		uint64_t part = unit - offset % unit;

		part = MIN(part, bytes);
		*move = (struct sim_move){.bytes = part, .op = &copy->op};
		move->dst = copy->kind == SIM_COPY_UPLOAD ? addr : buffer;
		move->src = copy->kind == SIM_COPY_UPLOAD ? buffer : addr;
		probe = *move;
		if (!move_resolve(sim, copy, &probe))
			return -EINVAL;
		addr += part;
		offset += part;
		bytes -= part;
		buffer = buffer ? buffer + part : NULL;
	}
	return 0;
}

static int transfer_locked(struct sim *sim, stream_id_t id, bool upload, char *addr, char *buffer,
			   uint64_t bytes)
{
	struct sim_stream *stream = sim_stream_find(sim, id);
	const struct sim_region *region = sim_region_at(sim, addr);
	struct sim_outcome outcome = {false, 0};
	uint64_t unit = UINT64_MAX, offset = 0;
	struct sim_copy *copy;
	int err;

	if (!stream || !bytes || (!buffer && sim->base.data == WEIR_DATA_REAL))
		return -EINVAL;
	if (sim->in_progress)
		return -EDEADLK;
	if (region) {
		unit = region->unit;
		offset = (uint64_t)(addr - region->base);
		if (bytes > region->bytes - offset)
			return -EINVAL;
	}
	copy = copy_alloc(region ? (offset + bytes - 1) / unit - offset / unit + 1 : 1, 0);
	if (!copy)
		return -ENOMEM;
	copy->kind = upload ? SIM_COPY_UPLOAD : SIM_COPY_DOWNLOAD;
	copy->op.stream = stream;
	copy->outcome = &outcome;
	err = transfer_fill(sim, copy, addr, buffer, bytes, unit, offset);
	if (err) {
		free(copy);
		return err;
	}
	sim_engine_queue(sim, stream, &copy->op, 0);
	while (!outcome.done && sim_engine_step(sim, SIM_NEVER))
		;
	if (outcome.done)
		return outcome.err;
	copy->outcome = NULL;
	log_error("sim: a transfer waits for what never happens");
	return -EDEADLK;
}

int sim_upload(struct backend *b, stream_id_t id, void *dst, const void *data, uint64_t bytes)
{
	struct sim *sim = sim_of(b);
	int err;

	sim_enter(sim);
	err = transfer_locked(sim, id, true, dst, (char *)(uintptr_t)data, bytes);
	sim_leave(sim);
	return err;
}

int sim_download(struct backend *b, stream_id_t id, void *data, const void *src, uint64_t bytes)
{
	struct sim *sim = sim_of(b);
	int err;

	sim_enter(sim);
	err = transfer_locked(sim, id, false, (char *)(uintptr_t)src, data, bytes);
	sim_leave(sim);
	return err;
}
