/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast a device packs elements of a range by a list of their indexes, and unpacks them: what
 * sending them to another device takes beyond the copy. Lists are in the device's memory already,
 * and ascend; one of each step elements is in them, at random. A description has no constants for
 * that.
 */
#include <math.h>

#include "workloads/probe/internal.h"

#define RANGE_MAX (256 * MIB)

static const uint32_t sizes[] = {4, 16};
static const uint32_t steps[] = {1, 2, 8, 64};

static const struct packet_way {
	const char *name, *elements, *bytes;
	void (*work)(struct probe_work *w, const struct probe_packet *packet);
} ways[] = {
	{"pack", "elements of a list, packed, a second", "the packed bytes of these",
	 probe_work_pack},
	{"unpack", "elements put where a list says, a second", "the packed bytes of these",
	 probe_work_unpack},
};

/* The range, its list, the packet. */
enum { RANGE, LIST, PACKET, BUFFERS };

static int way_measure(struct probe *p, const struct probe_packet *packet,
		       const struct packet_way *way)
{
	struct fit_series per_s = {0}, bytes_per_s = {0};
	struct probe_work work;

	way->work(&work, packet);
	for (uint32_t i = 0; i <= p->repetitions; i++) {
		double ns;
		int err = probe_time_launch(p, &work.launch, 2, &ns, NULL);

		if (err)
			return err;
		if (!i)
			continue;
		fit_add(&per_s, packet->nr / ns * 1e9);
		fit_add(&bytes_per_s, packet->nr / ns * 1e9 * packet->element_bytes);
	}
	(void)probe_keep(p, &per_s, NAN, way->elements, "%s.%u_bytes.1_of_%u_per_s", way->name,
			 packet->element_bytes, packet->step);
	(void)probe_keep(p, &bytes_per_s, NAN, way->bytes, "%s.%u_bytes.1_of_%u_bytes_per_s",
			 way->name, packet->element_bytes, packet->step);
	return 0;
}

static int packet_measure(struct probe *p, const struct probe_buffer buffer[BUFFERS],
			  uint32_t element_bytes, uint32_t step)
{
	const struct probe_packet packet = {
		.range = buffer[RANGE].addr,
		.packet = buffer[PACKET].addr,
		.list = (uint32_t *)(void *)buffer[LIST].addr,
		.nr = (uint32_t)(buffer[RANGE].bytes / element_bytes / step),
		.step = step,
		.element_bytes = element_bytes,
	};
	struct probe_work list;
	int err;

	probe_work_list(&list, &packet);
	err = p->b->ops->launch(p->b, p->stream[BACKEND_COMPUTE], &list.launch);
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]) && !err; i++)
		err = way_measure(p, &packet, &ways[i]);
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
