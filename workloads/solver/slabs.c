/* SPDX-License-Identifier: Apache-2.0 */
/* Slabs in plain memory; see slabs.h. */
#include "workloads/solver/slabs.h"
#include "workloads/solver/slabs_lists.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/backend/machine.h"
#include "src/base/util.h"
#include "src/cost/cost.h"
#include "src/replica/replica.h"

/* Room for a halo is a multiple of it, so that slabs begin as pages and cache lines do. */
#define LEAD_UNIT UINT64_C(4096)
#define PAGE_MIN (UINT64_C(2) << 20)
#define PAGE_MAX (UINT64_C(1) << 30)

/* A device's halos: bytes before its slab, and behind it. */
struct halo {
	uint64_t before, behind;
};

static struct halo halo_of(const struct solver_slabs *s, uint32_t array, uint32_t device)
{
	const struct solver_layout *layout = &s->layout[array];
	const uint64_t end = layout->offset[device + 1], all = layout->offset[layout->nr_devices];

	return (struct halo){MIN(layout->halo_bytes, layout->offset[device]),
			     MIN(layout->halo_bytes, all - end)};
}

static uint64_t slab_bytes(const struct solver_slabs *s, uint32_t array, uint32_t device)
{
	return s->layout[array].offset[device + 1] - s->layout[array].offset[device];
}

/* What of a part of an array a device has in its halos. */
static struct solver_use halo_part(const struct solver_slabs *s, const struct solver_use *part,
				   uint32_t device)
{
	const struct solver_layout *layout = &s->layout[part->array];
	const struct halo halo = halo_of(s, part->array, device);
	const uint64_t begin = MAX(part->offset, layout->offset[device] - halo.before);
	const uint64_t end =
		MIN(part->offset + part->bytes, layout->offset[device + 1] + halo.behind);

	return (struct solver_use){
		.array = part->array, .offset = begin, .bytes = begin < end ? end - begin : 0};
}

static struct solver_use slab_whole(const struct solver_slabs *s, uint32_t array, uint32_t device)
{
	return (struct solver_use){.array = array,
				   .offset = s->layout[array].offset[device],
				   .bytes = slab_bytes(s, array, device),
				   .kind = WEIR_OVERWRITE};
}

bool solver_slabs_share(const struct solver_slabs *s, uint32_t a, uint32_t b)
{
	bool any = false;

	for (uint32_t i = 0; i < SOLVER_ARRAYS_MAX && a != b; i++) {
		const struct solver_use whole = slab_whole(s, i, b);

		any |= halo_part(s, &whole, a).bytes > 0;
	}
	return any;
}

static uint32_t memory_of(const struct solver_slabs *s, uint32_t device)
{
	return s->base.backend->desc.device[device].memory;
}

/* ------------------------------------------------------------------ creating */

static int streams_create(struct solver_slabs *s)
{
	int err = 0;

	for (uint32_t d = 0; d < s->base.nr_devices && !err; d++)
		err = weir_stream_create(s->machine, d, &s->stream[d]);
	return err;
}

int solver_slabs_create(const struct solver_config *config, const struct solver_manager_ops *ops,
			size_t bytes, bool halos, struct solver_slabs **out)
{
	const struct weir_pool_config pool = {.name = "solver", .guard = WEIR_GUARD_OFF};
	struct solver_slabs *s = calloc(1, bytes);
	int err;

	if (!s)
		return -EAGAIN;
	s->base = (struct solver_manager){
		.ops = ops,
		.backend = machine_backend(config->machine),
		.nr_devices = config->nr_devices,
	};
	s->machine = config->machine;
	memcpy(s->layout, config->layout, sizeof(s->layout));
	s->halos = halos;
	err = weir_pool_create(config->machine, &pool, &s->pool);
	if (!err)
		err = streams_create(s);
	if (err)
		solver_slabs_destroy(&s->base);
	else
		*out = s;
	return err;
}

void solver_slabs_destroy(struct solver_manager *m)
{
	struct solver_slabs *s = solver_slabs_of(m);

	for (uint32_t d = 0; d < m->nr_devices; d++)
		weir_stream_destroy(s->stream[d]);
	for (uint32_t i = 0; i < s->nr_arrays; i++)
		for (uint32_t d = 0; d < m->nr_devices; d++)
			weir_mem_free(s->slab[i][d].mem, NULL);
	weir_pool_destroy(s->pool);
	solver_lists_destroy(s);
	free(s->written);
	free(s);
}

/* Those who use a device's slab: its kernels, and the kernels or copy engines of those that read
 * it or send to it. */
static int slab_map(struct solver_slabs *s, uint32_t device, struct solver_slab *slab)
{
	uint64_t others = 0, own = WEIR_MEM_DEVICE(device);
	void *addr;
	int err;

	for (uint32_t d = 0; d < s->base.nr_devices; d++)
		if (solver_slabs_share(s, device, d))
			others |= WEIR_MEM_DEVICE(d);
	err = weir_mem_map(slab->mem, s->halos ? own : own | others, s->halos ? others : 0, &addr);
	if (!err)
		slab->addr = (char *)addr + slab->lead_bytes;
	return err;
}

/* Few pieces, so that a halo is rarely in two of them, and a 32nd of the bytes wasted at most. 0:
 * as the library has them. */
static uint64_t page_bytes(uint64_t bytes)
{
	uint64_t page = PAGE_MIN;

	if (bytes < 32 * PAGE_MIN)
		return 0;
	while (page < PAGE_MAX && bytes >= 64 * page)
		page *= 2;
	return page;
}

static int slab_alloc(struct solver_slabs *s, const char *name, uint32_t array, uint32_t device)
{
	struct solver_slab *slab = &s->slab[array][device];
	const struct halo halo = halo_of(s, array, device);
	const uint64_t lead = s->halos ? round_up(halo.before, LEAD_UNIT) : 0;
	const uint64_t bytes = lead + slab_bytes(s, array, device) + (s->halos ? halo.behind : 0);
	const struct weir_mem_params params = {
		.bytes = bytes,
		.memory = memory_of(s, device),
		.page_bytes = page_bytes(bytes),
		.owner = name,
	};
	int err = weir_mem_alloc(s->pool, &params, &slab->mem);

	if (err)
		return err;
	slab->lead_bytes = lead;
	return slab_map(s, device, slab);
}

int solver_slabs_alloc(struct solver_manager *m, const char *name)
{
	struct solver_slabs *s = solver_slabs_of(m);
	uint32_t array = s->nr_arrays++;
	int err = 0;

	for (uint32_t d = 0; d < m->nr_devices && !err; d++)
		err = slab_alloc(s, name, array, d);
	return err;
}

/* ------------------------------------------------------------------ addresses */

static uint32_t owner_of(const struct solver_slabs *s, uint32_t array, uint64_t offset)
{
	uint32_t d = 0;

	while (offset >= s->layout[array].offset[d + 1])
		d++;
	return d;
}

void *solver_slabs_at(struct solver_manager *m, uint32_t array, uint32_t device, uint64_t offset)
{
	struct solver_slabs *s = solver_slabs_of(m);
	const uint32_t at = s->halos ? device : owner_of(s, array, offset);

	return s->slab[array][at].addr + (int64_t)(offset - s->layout[array].offset[at]);
}

/* A part at one address, as a launch's use; counted if it is another device's. */
static struct weir_use use_of(struct solver_slabs *s, uint32_t device, const struct solver_use *use,
			      uint64_t offset, uint64_t bytes)
{
	const struct weir_machine_desc *desc = &s->base.backend->desc;
	const uint32_t own = memory_of(s, device);
	const uint32_t other = s->halos ? own : memory_of(s, owner_of(s, use->array, offset));
	const struct weir_use part =
		solver_use_at(use, solver_slabs_at(&s->base, use->array, device, offset), bytes);

	if (other != own) {
		uint32_t link = (uint32_t)cost_link_find(desc, own, other);

		s->stats.near[link][desc->link[link].b == own ? WEIR_A_TO_B : WEIR_B_TO_A]
			     [WEIR_CAUSE_INPLACE] += part.read_bytes + part.write_bytes;
	}
	return part;
}

/* ------------------------------------------------------------------ work */

/* For those who send it at the end of an iteration. */
static int written_note(struct solver_slabs *s, uint32_t device, const struct solver_use *use)
{
	if (s->nr_written == s->room_written) {
		const uint32_t room = MAX(2 * s->room_written, 64);
		struct solver_written *more = realloc(s->written, room * sizeof(*more));

		if (!more)
			return -EAGAIN;
		s->written = more;
		s->room_written = room;
	}
	s->written[s->nr_written++] = (struct solver_written){device, *use};
	return 0;
}

int solver_slabs_launch(struct solver_slabs *s, struct weir_stream *stream,
			const struct solver_step *step)
{
	struct weir_use uses[SOLVER_USES_MAX * WEIR_DEVICES_MAX + SOLVER_OWN_USES_MAX];
	struct weir_launch launch = {
		.kernel = step->kernel,
		.args = step->args,
		.args_bytes = step->args_bytes,
		.uses = uses,
	};

	int err = 0;

	for (uint32_t i = 0; i < step->nr_uses; i++) {
		const struct solver_use *use = &step->use[i];
		const uint64_t end = use->offset + use->bytes;
		uint64_t at = use->offset, next;

		/* A part that lies in several slabs is at several addresses. */
		for (; at < end; at = next) {
			const uint32_t owner = owner_of(s, use->array, at);

			next = s->halos ? end : MIN(end, s->layout[use->array].offset[owner + 1]);
			uses[launch.nr_uses++] = use_of(s, step->device, use, at, next - at);
		}
		if (use->kind != WEIR_READ && !err)
			err = written_note(s, step->device, use);
	}
	for (uint32_t i = 0; i < step->nr_own; i++)
		uses[launch.nr_uses++] = step->own[i];
	return err ? err : solver_step_launch(&s->base, stream, step, &launch);
}

int solver_slabs_step(struct solver_manager *m, const struct solver_step *step)
{
	struct solver_slabs *s = solver_slabs_of(m);

	return solver_slabs_launch(s, s->stream[step->device], step);
}

/* Where a device's memory of an array has the byte at this offset. */
static uint64_t place_of(const struct solver_slabs *s, uint32_t array, uint32_t device,
			 uint64_t offset)
{
	return s->slab[array][device].lead_bytes + offset - s->layout[array].offset[device];
}

void solver_slabs_begin(struct solver_slabs *s, uint32_t from, uint32_t to,
			const struct solver_use *part, uint64_t bytes,
			enum weir_replica_mechanism how, enum weir_cause cause)
{
	struct backend *b = s->base.backend;
	const struct weir_machine_desc *desc = &b->desc;
	const uint32_t memory = memory_of(s, from);
	const struct backend_message message = {
		.range = part->array,
		.offset = part->offset,
		.end = part->offset + part->bytes,
		.bytes = bytes,
		.from = (uint16_t)memory,
		.to = (uint16_t)memory_of(s, to),
		.mechanism = replica_mechanism_name(how),
		.reason = cause == WEIR_CAUSE_PREFETCH ? "published" : "fetched",
	};
	const uint32_t link = (uint32_t)cost_link_find(desc, memory, memory_of(s, to));

	s->stats.near[link][desc->link[link].a == memory ? WEIR_A_TO_B : WEIR_B_TO_A][cause] +=
		bytes;
	s->stats.nr_sent[how]++;
	s->stats.sent_bytes[how] += bytes;
	b->observe->message_begin(b, &message);
}

int solver_slabs_send(struct solver_slabs *s, struct weir_stream *stream,
		      const struct solver_use *written, uint32_t from, uint32_t to,
		      enum weir_cause cause)
{
	const struct solver_use part = halo_part(s, written, to);
	struct backend *b = s->base.backend;
	const uint32_t array = part.array;
	int err;

	if (!part.bytes)
		return 0;
	solver_slabs_begin(s, from, to, &part, part.bytes, WEIR_SENT_WHOLE, cause);
	err = weir_mem_copy(stream, s->slab[array][to].mem, place_of(s, array, to, part.offset),
			    s->slab[array][from].mem, place_of(s, array, from, part.offset),
			    part.bytes);
	b->observe->message_end(b, !err);
	return err;
}

int solver_slabs_sync(struct solver_manager *m)
{
	struct solver_slabs *s = solver_slabs_of(m);
	int first = 0;

	for (uint32_t d = 0; d < m->nr_devices; d++) {
		int err = weir_stream_sync(s->stream[d]);

		first = first ? first : err;
	}
	return first;
}

int solver_slabs_read(struct solver_manager *m, uint32_t array, uint64_t offset, void *data,
		      uint64_t bytes)
{
	struct solver_slabs *s = solver_slabs_of(m);
	char *to = data;
	int err = 0;

	while (bytes && !err) {
		const uint32_t d = owner_of(s, array, offset);
		const uint64_t part = MIN(bytes, s->layout[array].offset[d + 1] - offset);

		err = weir_mem_read(s->slab[array][d].mem, d, place_of(s, array, d, offset), to,
				    part);
		offset += part;
		bytes -= part;
		to = to ? to + part : NULL;
	}
	return err;
}

void solver_slabs_stats(struct solver_manager *m, struct manager_stats *out)
{
	struct solver_slabs *s = solver_slabs_of(m);
	struct weir_pool_stats pool;

	*out = s->stats;
	weir_pool_query(s->pool, &pool);
	for (uint32_t i = 0; i < m->backend->desc.nr_memories; i++)
		out->peak_bytes[i] = pool.held_bytes[i]; /* nothing is freed before the end */
}

int solver_slabs_check(struct solver_manager *m)
{
	return weir_pool_check(solver_slabs_of(m)->pool);
}
