/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulator as a backend: creation, chunks and plain allocations as the boundary names them,
 * queries, and the end. sim.h says what is modelled.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/backend/sim/sim_internal.h"
#include "src/base/log.h"

#define PLAIN_ALIGN 512u

/* Whose memory it is; WEIR_DEVICES_MAX: the host's, and so everybody's. */
static uint32_t memory_device(const struct sim *sim, uint32_t memory)
{
	for (uint32_t d = 0; d < sim->base.desc.nr_devices; d++)
		if (sim->base.desc.device[d].memory == memory)
			return d;
	return WEIR_DEVICES_MAX;
}

/* Memory of the machine; managed memory makes room for it. */
static int alloc_evicting(struct sim *sim, uint32_t memory, uint64_t bytes, uint64_t align,
			  bool chunk, struct sim_piece **out)
{
	uint32_t device = memory_device(sim, memory);
	uint64_t parts_ns[BACKEND_TIME_NR], ns = 0;
	struct uvm_cost cost = {{0}};
	int err;

	if (device < WEIR_DEVICES_MAX && bytes <= sim->base.desc.memory[memory].bytes) {
		err = uvm_make_room(sim, device, bytes, &cost);
		if (err)
			return err;
		ns = uvm_service_ns(sim, device, &cost, parts_ns);
	}
	err = sim_memory_alloc(sim, memory, bytes, align, chunk, out);
	if (ns)
		sim_spend_allocating(sim, ns);
	return err;
}

/* ------------------------------------------------------------------ chunks */

static int chunk_create_locked(struct sim *sim, uint32_t memory, uint64_t bytes, uint64_t devices,
			       struct backend_chunk *out)
{
	const struct weir_machine_desc *desc = &sim->base.desc;
	struct sim_piece *piece;
	uint64_t more_ns;
	int err;

	if (memory >= desc->nr_memories || !bytes || bytes % desc->vmm.granularity_bytes ||
	    backend_chunk_devices(&sim->base, memory, &devices))
		return -EINVAL;
	err = alloc_evicting(sim, memory, bytes, desc->vmm.granularity_bytes, true, &piece);
	if (err)
		return err;
	piece->devices = devices;
	sim_content_renew(sim, piece);
	*out = (struct backend_chunk){.handle = piece->handle,
				      .alias = sim_memory_alias(sim, piece),
				      .bytes = piece->bytes,
				      .memory = memory};
	more_ns = sim_access_more_ns(sim, piece, (uint32_t)__builtin_popcountll(devices));
	sim_spend_driver(sim, more_ns + (desc->memory[memory].kind == WEIR_MEMORY_HOST
						 ? desc->vmm.create_host_ns
						 : desc->vmm.create_hbm_ns));
	return 0;
}

static int sim_chunk_create(struct backend *b, uint32_t memory, uint64_t bytes, uint64_t devices,
			    struct backend_chunk *out)
{
	struct sim *sim = sim_of(b);
	int err;

	sim_enter(sim);
	err = chunk_create_locked(sim, memory, bytes, devices, out);
	sim_leave(sim);
	return err;
}

static void sim_chunk_destroy(struct backend *b, const struct backend_chunk *chunk)
{
	struct sim *sim = sim_of(b);
	struct sim_piece *piece;

	sim_enter(sim);
	piece = sim_memory_chunk(sim, chunk);
	if (!piece || piece->nr_places || piece->writes.first || piece->reads.first) {
		const char *why = "a copy names";

		if (!piece)
			why = "is none";
		else if (piece->nr_places)
			why = "is mapped";
		log_error("sim: destroying a chunk that %s", why);
	} else {
		sim_poison_forget(sim, piece);
		sim_memory_free(sim, piece);
	}
	sim_leave(sim);
}

/* ------------------------------------------------------------------ plain allocations */

/* Half of what allocating and freeing cost together: malloc_ns and malloc_2mib_ns for an HBM; for
 * the host, whose pages are pinned like those of a chunk, create_host_ns for each 2 MiB. */
static uint64_t plain_half_ns(const struct sim *sim, uint32_t memory, uint64_t bytes)
{
	const struct weir_machine_desc *desc = &sim->base.desc;
	uint64_t large = bytes / SIM_LARGE_PAGE + (bytes % SIM_LARGE_PAGE != 0);

	for (uint32_t d = 0; d < desc->nr_devices; d++)
		if (desc->device[d].memory == memory)
			return (desc->device[d].malloc_ns +
				desc->device[d].malloc_2mib_ns * large) /
			       2;
	return desc->vmm.create_host_ns * large / 2;
}

static int sim_device_alloc(struct backend *b, uint32_t memory, uint64_t bytes, void **addr)
{
	struct sim *sim = sim_of(b);
	struct sim_piece *piece;
	int err;

	if (memory >= b->desc.nr_memories || !bytes)
		return -EINVAL;
	sim_enter(sim);
	err = alloc_evicting(sim, memory, bytes,
			     bytes < SIM_LARGE_PAGE ? PLAIN_ALIGN : SIM_LARGE_PAGE, false, &piece);
	if (!err) {
		*addr = sim_memory_alias(sim, piece);
		sim_spend_allocating(sim, plain_half_ns(sim, memory, bytes));
	}
	sim_leave(sim);
	return err;
}

static struct sim_piece *plain_at(struct sim *sim, void *addr)
{
	struct sim_piece *piece = sim_memory_piece_at(sim, addr);

	return piece && !piece->handle && sim_memory_alias(sim, piece) == addr ? piece : NULL;
}

static void sim_device_free(struct backend *b, void *addr)
{
	struct sim *sim = sim_of(b);
	struct sim_piece *piece;
	uint64_t ns;

	if (!addr)
		return;
	sim_enter(sim);
	piece = plain_at(sim, addr);
	if (piece && !sim->in_progress) {
		sim_engine_drain(sim, memory_device(sim, piece->memory));
		/* Progress functions ran: look again. */
		piece = plain_at(sim, addr);
		if (piece && (piece->writes.first || piece->reads.first))
			sim_engine_drain(sim, WEIR_DEVICES_MAX);
		piece = plain_at(sim, addr);
	}
	if (!piece || piece->writes.first || piece->reads.first) {
		log_error("sim: freeing %p: %s", addr,
			  piece ? "a copy names it" : "not an allocation");
	} else {
		ns = plain_half_ns(sim, piece->memory, piece->asked_bytes);
		sim_memory_free(sim, piece);
		sim_spend_allocating(sim, ns);
	}
	sim_leave(sim);
}

/* ------------------------------------------------------------------ clock, queries, progress */

static uint64_t sim_now_ns(struct backend *b)
{
	struct sim *sim = sim_of(b);
	uint64_t ns;

	sim_enter(sim);
	ns = sim_agent_ns(sim);
	sim_leave(sim);
	return ns;
}

static void sim_host_spend(struct backend *b, uint64_t ns)
{
	struct sim *sim = sim_of(b);

	sim_enter(sim);
	sim_spend(sim, ns);
	sim_leave(sim);
}

static uint64_t sim_memory_used(struct backend *b, uint32_t memory)
{
	struct sim *sim = sim_of(b);
	uint64_t bytes;

	if (memory >= b->desc.nr_memories)
		return 0;
	sim_enter(sim);
	bytes = sim->memory[memory].used_bytes;
	sim_leave(sim);
	return bytes;
}

static void sim_inplace_bytes(struct backend *b, uint32_t device, uint32_t memory,
			      uint64_t bytes[BACKEND_DIRECTION_NR])
{
	struct sim *sim = sim_of(b);

	sim_enter(sim);
	for (int i = 0; i < BACKEND_DIRECTION_NR; i++)
		bytes[i] = device < b->desc.nr_devices && memory < b->desc.nr_memories
				   ? (uint64_t)(sim->device[device].inplace_bytes[memory][i] + 0.5)
				   : 0;
	sim_leave(sim);
}

static int sim_device_times(struct backend *b, uint32_t device, uint64_t ns[BACKEND_TIME_NR])
{
	struct sim *sim = sim_of(b);

	if (device >= b->desc.nr_devices)
		return -EINVAL;
	sim_enter(sim);
	for (int i = 0; i < BACKEND_TIME_NR; i++)
		ns[i] = sim->device[device].time_ns[i];
	sim_leave(sim);
	return 0;
}

static int progress_add(struct sim *sim, struct sim_progress progress)
{
	struct sim_progress *grown =
		realloc(sim->progress, (sim->nr_progress + 1) * sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	grown[sim->nr_progress++] = progress;
	sim->progress = grown;
	return 0;
}

static void progress_del(struct sim *sim, const void *arg)
{
	size_t kept = 0;

	for (size_t i = 0; i < sim->nr_progress; i++)
		if (sim->progress[i].arg != arg)
			sim->progress[kept++] = sim->progress[i];
	sim->nr_progress = kept;
}

/* The caller's own thread does it, at once: the order of what is done is always the same. */
static int sim_aside(struct backend *b, uint64_t (*run)(void *arg), void (*done)(void *arg),
		     void *arg)
{
	struct sim_aside *aside = calloc(1, sizeof(*aside));
	struct sim *sim = sim_of(b);
	uint64_t ns;

	if (!aside)
		return -ENOMEM;
	*aside = (struct sim_aside){.done = done, .arg = arg};
	ns = run(arg);
	sim_enter(sim);
	sim_engine_aside(sim, aside, ns);
	sim_leave(sim);
	return 0;
}

static int sim_set_progress(struct backend *b, void (*fn)(void *arg), void *arg)
{
	struct sim *sim = sim_of(b);
	int err = 0;

	sim_enter(sim);
	if (fn)
		err = progress_add(sim, (struct sim_progress){fn, arg});
	else
		progress_del(sim, arg);
	sim_leave(sim);
	return err;
}

/* ------------------------------------------------------------------ creation and end */

static int leaks_count(struct sim *sim)
{
	uint64_t nr = sim->nr_regions + sim->uvm.nr_ranges;

	for (uint32_t i = 0; i < sim->base.desc.nr_memories; i++)
		nr += sim->memory[i].nr_pieces;
	for (size_t i = 0; i < sim->nr_regions; i++)
		nr += sim->region[i]->nr_mapped;
	for (uint32_t i = 0; i < sim->nr_slots; i++)
		nr += sim->slot[i].stream != NULL;
	for (uint32_t i = 0; i < BACKEND_DIGESTS_MAX; i++)
		nr += sim->digest[i].taken;
	return (int)nr;
}

int sim_leaks(struct backend *b)
{
	struct sim *sim = sim_of(b);
	int nr;

	sim_enter(sim);
	nr = leaks_count(sim);
	sim_leave(sim);
	return nr;
}

void sim_set_stop(struct backend *b, int (*stop)(void))
{
	sim_of(b)->stop = stop;
}

/* What is left over, by kind, before it is freed. */
static void leaks_report(struct sim *sim)
{
	uint32_t nr_streams = 0;

	for (uint32_t i = 0; i < sim->base.desc.nr_memories; i++)
		if (sim->memory[i].nr_pieces)
			log_error("sim: left over in '%s': %zu chunks and allocations, %llu bytes",
				  sim->base.desc.memory[i].name, sim->memory[i].nr_pieces,
				  (unsigned long long)sim->memory[i].used_bytes);
	if (sim->uvm.nr_ranges)
		log_error("sim: left over: %zu allocations of managed memory", sim->uvm.nr_ranges);
	for (size_t i = 0; i < sim->nr_regions; i++)
		log_error("sim: left over: reservation %p of %llu bytes, %llu blocks mapped",
			  (void *)sim->region[i]->base, (unsigned long long)sim->region[i]->bytes,
			  (unsigned long long)sim->region[i]->nr_mapped);
	for (uint32_t i = 0; i < sim->nr_slots; i++)
		nr_streams += sim->slot[i].stream != NULL;
	if (nr_streams)
		log_error("sim: left over: %u streams", nr_streams);
}

static void streams_drop(struct sim *sim)
{
	for (uint32_t i = 0; i < sim->nr_slots; i++) {
		struct sim_stream *stream = sim->slot[i].stream;

		while (stream && stream->head) {
			struct sim_op *op = stream->head;

			stream->head = op->next;
			if (op->kind->is_copy)
				sim_copy_detach((struct sim_copy *)op);
			free(op);
		}
		if (stream)
			sim_stream_free(stream);
	}
}

static void sim_free(struct sim *sim)
{
	sim_engine_asides_end(sim, SIM_NEVER);
	sim_poison_forget(sim, NULL);
	streams_drop(sim);
	uvm_fini(sim);
	for (size_t i = 0; i < sim->nr_regions; i++)
		sim_region_free(sim->region[i]);
	for (uint32_t i = 0; i < WEIR_MEMORIES_MAX; i++)
		sim_memory_fini(sim, i);
	free(sim->region);
	free(sim->slot);
	free(sim->active);
	free(sim->progress);
	pthread_cond_destroy(&sim->idle);
	pthread_mutex_destroy(&sim->lock);
	free(sim);
}

static void sim_destroy(struct backend *b)
{
	leaks_report(sim_of(b));
	sim_free(sim_of(b));
}

static const struct backend_ops sim_ops = {
	.name = "sim",
	.destroy = sim_destroy,
	.now_ns = sim_now_ns,
	.chunk_create = sim_chunk_create,
	.chunk_add_devices = sim_chunk_add_devices,
	.chunk_destroy = sim_chunk_destroy,
	.va_reserve = sim_va_reserve,
	.va_release = sim_va_release,
	.map = sim_map,
	.unmap = sim_unmap,
	.set_access = sim_set_access,
	.stream_create = sim_stream_create,
	.stream_destroy = sim_stream_destroy,
	.launch = sim_launch,
	.copy = sim_copy,
	.copy_beside = sim_copy_beside,
	.packet = sim_packet,
	.digest = sim_digest,
	.digest_take = sim_digest_take,
	.digest_prepare = sim_digest_prepare,
	.upload = sim_upload,
	.download = sim_download,
	.stream_wait = sim_stream_wait,
	.fence_record = sim_fence_record,
	.fence_done = sim_fence_done,
	.fence_wait = sim_fence_wait,
	.access_begin = sim_access_begin,
	.access_end = sim_access_end,
	.access_narrow = sim_access_narrow,
	.access_guard = sim_access_guard,
	.poison = sim_poison,
	.device_alloc = sim_device_alloc,
	.device_free = sim_device_free,
	.memory_used = sim_memory_used,
	.host_spend = sim_host_spend,
	.set_progress = sim_set_progress,
};

static const struct backend_managed_ops sim_managed_ops = {
	.setup = sim_managed_setup,
	.alloc = sim_managed_alloc,
	.prefetch = sim_managed_prefetch,
	.advise = sim_managed_advise,
	.free = sim_managed_free,
	.stats = sim_managed_stats,
};

static const struct backend_observe_ops sim_observe_ops = {
	.fence_mark = sim_fence_mark,
	.fence_time_ns = sim_fence_time_ns,
	.device_times = sim_device_times,
	.inplace_bytes = sim_inplace_bytes,
};

int sim_create(const struct weir_machine_desc *desc, enum weir_data data, struct backend **out)
{
	struct sim *sim = calloc(1, sizeof(*sim));
	int err;

	if (!sim)
		return -ENOMEM;
	sim->ops = sim_ops;
	for (uint32_t d = 0; d < desc->nr_devices; d++)
		if (desc->device[d].plan_work_ns)
			sim->ops.aside = sim_aside;
	backend_ops_complete(&sim->ops);
	sim->base.ops = &sim->ops;
	sim->base.managed = &sim_managed_ops;
	sim->observe = sim_observe_ops;
	backend_observe_complete(&sim->observe);
	sim->base.observe = &sim->observe;
	sim->base.desc = *desc;
	sim->base.data = data;
	sim->base.checks = true;
	sim->wake_ns = SIM_NEVER;
	list_init(&sim->packets);
	digest_key_seed(&sim->digest_key, 1);
	sim->base.digest_key = &sim->digest_key;
	sim_ports_init(sim);
	uvm_init(sim);
	for (uint32_t i = 0; i < WEIR_LINKS_MAX; i++)
		sim->link[i].end_ns = SIM_NEVER;
	for (uint32_t i = 0; i < WEIR_MEMORIES_MAX; i++)
		sim->memory[i].fd = -1;
	pthread_mutex_init(&sim->lock, NULL);
	pthread_cond_init(&sim->idle, NULL);
	for (uint32_t i = 0; i < desc->nr_memories; i++) {
		err = sim_memory_init(sim, i);
		if (err) {
			log_error("sim: no addresses for memory '%s'", desc->memory[i].name);
			goto err_free;
		}
	}
	*out = &sim->base;
	return 0;

err_free:
	sim_free(sim);
	return err;
}
