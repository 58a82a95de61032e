/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast a device packs elements of a range by a list of their indexes, and unpacks them, by the
 * machine's own kernels: what sending them to another device takes beyond the copy. Lists are in
 * the device's memory already, and ascend; one of each step elements is in them, at random. A
 * description has no constants for that.
 */
#include <math.h>

#include "src/base/util.h"
#include "workloads/probe/internal.h"

#define RANGE_MAX (256 * MIB)

static const uint32_t sizes[] = {4, 16};
static const uint32_t steps[] = {1, 2, 8, 64};

static const struct packet_way {
	const char *name, *elements, *bytes;
} ways[] = {
	{"pack", "elements of a list, packed, a second", "the packed bytes of these"},
	{"unpack", "elements put where a list says, a second", "the packed bytes of these"},
};

#define NR_TIMES 2u
#define SECTOR 32u

/* The range, its list, the packet. */
enum { RANGE, LIST, PACKET, BUFFERS };

static int queue_packets(struct probe *p, stream_id_t stream, const void *packet)
{
	int err = 0;

	for (uint32_t i = 0; i < NR_TIMES && !err; i++)
		err = p->b->ops->packet(p->b, stream, packet);
	return err;
}

/* One way: the packet says which. step: one of so many elements is in the list. */
static int way_measure(struct probe *p, const struct backend_packet *packet, uint32_t step)
{
	const struct packet_way *way = &ways[packet->unpack];
	struct fit_series per_s = {0}, bytes_per_s = {0};
	struct probe_burst burst = {.kind = BACKEND_COMPUTE,
				    .queue = queue_packets,
				    .arg = packet,
				    .nr_calls = NR_TIMES};

	for (uint32_t i = 0; i <= p->repetitions; i++) {
		double ns;
		int err = probe_burst_run(p, &burst, 1);

		if (err)
			return err;
		if (!i)
			continue;
		ns = (burst.end_ns - burst.begin_ns) / NR_TIMES;
		fit_add(&per_s, (double)packet->nr / ns * 1e9);
		fit_add(&bytes_per_s, (double)packet->nr / ns * 1e9 * packet->element_bytes);
	}
	(void)probe_keep(p, &per_s, NAN, way->elements, "%s.%u_bytes.1_of_%u_per_s", way->name,
			 packet->element_bytes, step);
	(void)probe_keep(p, &bytes_per_s, NAN, way->bytes, "%s.%u_bytes.1_of_%u_bytes_per_s",
			 way->name, packet->element_bytes, step);
	return 0;
}

static int packet_measure(struct probe *p, const struct probe_buffer buffer[BUFFERS],
			  uint32_t element_bytes, uint32_t step)
{
	uint32_t nr = (uint32_t)(buffer[RANGE].bytes / element_bytes / step);
	uint32_t *list = (uint32_t *)(void *)buffer[LIST].addr;
	struct backend_packet packet = {
		.elements = buffer[RANGE].addr,
		.packet = buffer[PACKET].addr,
		.index = list,
		.nr = nr,
		.element_bytes = element_bytes,
		.first = probe_list_at(0, step),
		.last = probe_list_at(nr - 1, step),
		.sector_bytes = MIN((uint64_t)nr * step * element_bytes, (uint64_t)nr * SECTOR),
	};
	struct probe_work work;
	int err;

	probe_work_list(&work, list, nr, step);
	err = p->b->ops->launch(p->b, p->stream[BACKEND_COMPUTE], &work.launch);
	for (int unpack = 0; unpack < 2 && !err; unpack++) {
		packet.unpack = unpack;
		err = way_measure(p, &packet, step);
	}
	return err;
}

int probe_packets(struct probe *p)
{
	const struct weir_device_desc *device = &p->desc->device[p->device];
	uint64_t bytes = probe_room(p, device->memory, RANGE_MAX, BUFFERS);
	struct probe_buffer buffer[BUFFERS] = {{0}};
	int err = probe_step(p, "%s: packing and unpacking", device->name);

	for (uint32_t i = 0; i < BUFFERS && !err; i++)
		err = probe_buffer_create(p, device->memory, bytes, &buffer[i]);
	for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]) && !err; s++)
		for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]) && !err; i++)
			err = packet_measure(p, buffer, sizes[s], steps[i]);
	for (uint32_t i = 0; i < BUFFERS; i++)
		probe_buffer_destroy(p, &buffer[i]);
	return err;
}
