/* SPDX-License-Identifier: Apache-2.0 */
/* Slabs in plain memory; see slabs.h. */
#include "workloads/solver/slabs.h"

#include <errno.h>
#include <stdlib.h>

#include "src/backend/machine.h"
#include "src/base/util.h"
#include "src/cost/cost.h"

/* Room for a halo is a multiple of it, so that slabs begin as pages and cache lines do. */
#define LEAD_UNIT UINT64_C(4096)
#define PAGE_MIN (UINT64_C(2) << 20)
#define PAGE_MAX (UINT64_C(1) << 30)

static uint64_t slab_bytes(const struct solver_slabs *s, uint32_t device)
{
	return s->layout.offset[device + 1] - s->layout.offset[device];
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
	s->layout = config->layout;
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
	free(s);
}

/* Those who use a device's slab: its kernels, and its neighbours' kernels or copy engines. */
static int slab_map(struct solver_slabs *s, uint32_t device, struct solver_slab *slab)
{
	uint64_t neighbours = 0, own = WEIR_MEM_DEVICE(device);
	void *addr;
	int err;

	for (enum solver_side side = 0; side < SOLVER_SIDE_NR; side++)
		if (solver_slabs_has(s, device, side))
			neighbours |= WEIR_MEM_DEVICE(solver_slabs_neighbour(device, side));
	err = weir_mem_map(slab->mem, s->halos ? own : own | neighbours, s->halos ? neighbours : 0,
			   &addr);
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

static int slab_alloc(struct solver_slabs *s, const char *name, uint32_t device,
		      struct solver_slab *slab)
{
	const uint64_t halo = s->halos ? round_up(s->layout.halo_bytes, LEAD_UNIT) : 0;
	const uint64_t bytes = slab_bytes(s, device) + 2 * halo;
	const struct weir_mem_params params = {
		.bytes = bytes,
		.memory = memory_of(s, device),
		.page_bytes = page_bytes(bytes),
		.owner = name,
	};
	int err = weir_mem_alloc(s->pool, &params, &slab->mem);

	if (err)
		return err;
	slab->lead_bytes = halo;
	return slab_map(s, device, slab);
}

int solver_slabs_alloc(struct solver_manager *m, const char *name)
{
	struct solver_slabs *s = solver_slabs_of(m);
	uint32_t array = s->nr_arrays++;
	int err = 0;

	for (uint32_t d = 0; d < m->nr_devices && !err; d++)
		err = slab_alloc(s, name, d, &s->slab[array][d]);
	return err;
}

/* ------------------------------------------------------------------ addresses */

static uint32_t owner_of(const struct solver_slabs *s, uint64_t offset)
{
	uint32_t d = 0;

	while (offset >= s->layout.offset[d + 1])
		d++;
	return d;
}

void *solver_slabs_at(struct solver_manager *m, uint32_t array, uint32_t device, uint64_t offset)
{
	struct solver_slabs *s = solver_slabs_of(m);
	const uint32_t at = s->halos ? device : owner_of(s, offset);

	return s->slab[array][at].addr + (int64_t)(offset - s->layout.offset[at]);
}

/* A part at one address, as a launch's use; counted if it is another device's. */
static struct weir_use use_of(struct solver_slabs *s, uint32_t device, const struct solver_use *use,
			      uint64_t offset, uint64_t bytes)
{
	const struct weir_machine_desc *desc = &s->base.backend->desc;
	const uint32_t own = memory_of(s, device);
	const uint32_t other = s->halos ? own : memory_of(s, owner_of(s, offset));
	const bool reads = use->kind == WEIR_READ;

	if (other != own) {
		uint32_t link = (uint32_t)cost_link_find(desc, own, other);

		s->stats.near[link][desc->link[link].b == own ? WEIR_A_TO_B : WEIR_B_TO_A]
			     [WEIR_CAUSE_INPLACE] += bytes;
	}
	return (struct weir_use){
		.addr = solver_slabs_at(&s->base, use->array, device, offset),
		.bytes = bytes,
		.kind = use->kind,
		.read_bytes = reads ? bytes : 0,
		.write_bytes = reads ? 0 : bytes,
	};
}

/* ------------------------------------------------------------------ work */

int solver_slabs_launch(struct solver_slabs *s, struct weir_stream *stream,
			const struct solver_step *step)
{
	struct weir_use uses[SOLVER_USES_MAX * 3];
	struct weir_launch launch = {
		.kernel = step->kernel,
		.args = step->args,
		.args_bytes = step->args_bytes,
		.uses = uses,
	};

	for (uint32_t i = 0; i < step->nr_uses; i++) {
		const struct solver_use *use = &step->use[i];
		const uint64_t end = use->offset + use->bytes;
		uint64_t at = use->offset, next;

		/* A part that lies in several slabs is at several addresses. */
		for (; at < end; at = next) {
			next = s->halos ? end : MIN(end, s->layout.offset[owner_of(s, at) + 1]);
			uses[launch.nr_uses++] = use_of(s, step->device, use, at, next - at);
		}
		if (use->kind != WEIR_READ)
			s->written = use->array;
	}
	return weir_stream_launch(stream, &launch);
}

int solver_slabs_step(struct solver_manager *m, const struct solver_step *step)
{
	struct solver_slabs *s = solver_slabs_of(m);

	return solver_slabs_launch(s, s->stream[step->device], step);
}

int solver_slabs_send(struct solver_slabs *s, struct weir_stream *stream, uint32_t array,
		      uint32_t device, enum solver_side side, enum weir_cause cause)
{
	const struct weir_machine_desc *desc = &s->base.backend->desc;
	const uint32_t to = solver_slabs_neighbour(device, side);
	const uint32_t from_memory = memory_of(s, device), to_memory = memory_of(s, to);
	const struct solver_slab *src = &s->slab[array][device], *dst = &s->slab[array][to];
	const uint64_t bytes = s->layout.halo_bytes;
	const uint32_t link = (uint32_t)cost_link_find(desc, from_memory, to_memory);
	uint64_t src_at = src->lead_bytes, dst_at = dst->lead_bytes;

	if (side == SOLVER_BEFORE) {
		dst_at += slab_bytes(s, to);
	} else {
		src_at += slab_bytes(s, device) - bytes;
		dst_at -= bytes;
	}
	s->stats.near[link][desc->link[link].a == from_memory ? WEIR_A_TO_B : WEIR_B_TO_A][cause] +=
		bytes;
	return weir_mem_copy(stream, dst->mem, dst_at, src->mem, src_at, bytes);
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
		const uint32_t d = owner_of(s, offset);
		const struct solver_slab *slab = &s->slab[array][d];
		const uint64_t part = MIN(bytes, s->layout.offset[d + 1] - offset);

		err = weir_mem_read(slab->mem, d, slab->lead_bytes + offset - s->layout.offset[d],
				    to, part);
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
