/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packets: kernels without a function, which take the device as all do. Their bytes move as they
 * end, through aliases, element by element: what a list names has to be mapped then, and to be what
 * the call said of it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/backend/sim/sim_internal.h"
#include "src/base/log.h"

/* The uses of backend_packet_launch(). */
enum { ELEMENTS, INDEX, PACKET };

/* ------------------------------------------------------------------ moving the bytes */

/* What follows an address without a gap: [begin, end) lies at an alias. */
struct view {
	const struct weir_use *use; /* that allows it */
	const char *begin, *end;
	char *at;
};

/* Look at what lies at an address. False: it traps. */
static bool view_move(struct sim *sim, struct sim_kernel *kernel, struct view *view,
		      const char *addr)
{
	struct sim_region *region = sim_region_at(sim, addr);
	const struct sim_mapping *mapping;
	const char *denied;
	uint64_t unit;

	if (!region) {
		*view = (struct view){view->use, addr, (char *)view->use->addr + view->use->bytes,
				      (char *)(uintptr_t)addr};
		return true;
	}
	unit = (uint64_t)(addr - region->base) / region->unit;
	mapping = &region->mapping[unit];
	denied = sim_mapping_denied(mapping, kernel->op.stream->device, use_writes(view->use));
	if (denied) {
		sim_kernel_trap(sim, kernel, addr, denied);
		return false;
	}
	view->begin = region->base + unit * region->unit;
	view->end = view->begin + region->unit;
	view->at = sim_memory_alias(sim, mapping->piece);
	return true;
}

/* Where a kernel's address lies; NULL: it traps. */
static char *view_at(struct sim *sim, struct sim_kernel *kernel, struct view *view,
		     const char *addr)
{
	if ((addr < view->begin || addr >= view->end) && !view_move(sim, kernel, view, addr))
		return NULL;
	return view->at + (addr - view->begin);
}

/* The n-th number of the list. False: it traps. */
static bool index_read(struct sim *sim, struct sim_kernel *kernel, struct view *view, uint64_t n,
		       uint32_t *index)
{
	const struct backend_packet *args = &kernel->packet->args;
	const char *at = view_at(sim, kernel, view, (const char *)&args->index[n]);
	uint32_t before = *index;

	if (!at)
		return false;
	memcpy(index, at, sizeof(*index));
	if (*index >= args->first && *index <= args->last && (!n || *index > before) &&
	    (n || *index == args->first) && (n < args->nr - 1 || *index == args->last))
		return true;
	sim_kernel_trap(sim, kernel, (const char *)&args->index[n],
			"its list does not ascend, or not from the first element to the last");
	return false;
}

static void packet_move(struct sim *sim, struct sim_kernel *kernel)
{
	const struct backend_packet *args = &kernel->packet->args;
	const struct weir_use *uses = kernel->uses;
	struct view elements = {.use = &uses[ELEMENTS]}, index = {.use = &uses[INDEX]};
	struct view packet = {.use = &uses[PACKET]};
	uint32_t bytes = args->element_bytes, i = 0;

	for (uint64_t n = 0; n < args->nr; n++) {
		char *element, *packed;

		if (!index_read(sim, kernel, &index, n, &i))
			return;
		element = view_at(sim, kernel, &elements,
				  (char *)args->elements + (uint64_t)i * bytes);
		packed = view_at(sim, kernel, &packet, (char *)args->packet + n * bytes);
		if (!element || !packed)
			return;
		memcpy(args->unpack ? element : packed, args->unpack ? packed : element, bytes);
	}
}

static void packet_finish(struct sim *sim, struct sim_kernel *kernel)
{
	list_del(&kernel->packet->link);
	if (!kernel->err && sim->base.data == WEIR_DATA_REAL)
		packet_move(sim, kernel);
}

/* ------------------------------------------------------------------ queueing */

/* Whether a device may use memory: also a chunk by its alias, but none that is managed. */
static int use_check(struct sim *sim, uint32_t device, const struct weir_use *use)
{
	const struct sim_piece *piece = sim_memory_piece_at(sim, use->addr);
	const struct weir_machine_desc *desc = &sim->base.desc;

	if (!piece || !piece->handle)
		return sim_use_valid(sim, device, use) && !uvm_range_at(sim, use->addr) ? 0
											: -EINVAL;
	if (!sim_piece_of(sim, use->addr, use->bytes))
		return -EINVAL;
	if (piece->devices & BACKEND_DEVICE_BIT(device))
		return 0;
	log_error("sim: a packet on a stream of %s uses a chunk of '%s' that has no alias for it",
		  desc->device[device].name, desc->memory[piece->memory].name);
	return -EACCES;
}

/* By the link to the host: all of a description have copy_host_ns, or none. */
static uint32_t host_launches(const struct sim *sim, uint32_t device)
{
	const struct weir_machine_desc *desc = &sim->base.desc;
	int link = cost_link_find(desc, cost_host_memory(desc), desc->device[device].memory);

	return backend_packet_host_launches(&desc->link[link]);
}

static int packet_locked(struct sim *sim, stream_id_t id, const struct backend_packet *packet)
{
	struct weir_use uses[BACKEND_PACKET_USES];
	struct weir_launch launch = backend_packet_launch(packet, uses);
	struct sim_stream *stream = sim_stream_find(sim, id);
	struct sim_kernel *kernel;
	struct sim_packet *args;
	int err = stream ? 0 : -EINVAL;

	for (uint32_t i = 0; i < launch.nr_uses && !err; i++)
		err = use_check(sim, stream->device, &uses[i]);
	if (err)
		return err;
	launch.args_bytes = sizeof(*args) + sim->nr_slots * sizeof(args->span[0]);
	args = calloc(1, launch.args_bytes);
	if (!args)
		return -ENOMEM;
	args->args = *packet;
	args->nr_spans = sim_spans_note(sim, args->span);
	launch.args = args;
	kernel = sim_kernel_create(sim, &launch);
	free(args);
	if (!kernel)
		return -ENOMEM;
	kernel->packet = kernel->args;
	kernel->packet->kernel = kernel;
	kernel->finish = packet_finish;
	list_add_tail(&sim->packets, &kernel->packet->link);
	sim_kernel_queue(sim, stream, kernel, host_launches(sim, stream->device));
	return 0;
}

int sim_packet(struct backend *b, stream_id_t id, const struct backend_packet *packet)
{
	struct sim *sim = sim_of(b);
	int err = backend_packet_check(packet);

	if (err)
		return err;
	sim_enter(sim);
	err = packet_locked(sim, id, packet);
	sim_leave(sim);
	return err;
}
