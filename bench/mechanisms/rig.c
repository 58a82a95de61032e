/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The machine and what all cases use on it. Device 0 writes; who reads is on another GPU, so that
 * all that is sent leaves through one port. Where a case has more readers than there are other
 * GPUs, the GPUs are taken for several devices each (struct cuda_config), and simulated ones for as
 * many: readers on one GPU then share its memory's rate and its port, which the library takes for
 * several.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/mechanisms/mechanisms.h"
#include "bench/shared/say.h"
#include "machine/machine_file.h"
#include "src/backend/cuda/cuda.h"
#include "src/backend/machine.h"
#include "src/base/hash.h"
#include "src/cost/cost.h"
#include "workloads/probe/cuda.h"

/* ------------------------------------------------------------------ parts of GPUs */

/* Devices that are needed so that so many are on other GPUs than the first, dealt in turn. */
static uint32_t nr_parts(uint32_t nr_gpus, uint32_t nr_readers)
{
	uint32_t nr = 1;

	while (nr_readers > 0 && nr < WEIR_DEVICES_MAX)
		nr_readers -= nr++ % nr_gpus != 0;
	return nr;
}

/* The link of a GPU's memory to another one's; between parts of one GPU, where nothing is sent,
 * that to a neighbour. -1: there is none. */
static int part_link(const struct weir_machine_desc *whole, uint32_t a, uint32_t b)
{
	int link = -1;

	if (a != b)
		return cost_link_find(whole, a, b);
	for (uint32_t d = 0; d < whole->nr_devices && link < 0; d++)
		if (whole->device[d].memory != a)
			link = cost_link_find(whole, a, whole->device[d].memory);
	return link;
}

static void add_link(struct weir_machine_desc *out, const struct weir_link_desc *as, uint32_t a,
		     uint32_t b, bool turned)
{
	struct weir_link_desc *link = &out->link[out->nr_links++];

	*link = *as;
	link->a = a;
	link->b = b;
	if (turned) {
		link->a_to_b_bytes_per_s = as->b_to_a_bytes_per_s;
		link->b_to_a_bytes_per_s = as->a_to_b_bytes_per_s;
	}
}

/* What a GPU's memory sends and receives, as it is described; where it is not, what one link
 * carries, since the parts of a neighbour are all behind that. */
static void add_ports(struct weir_machine_desc *out, const struct weir_machine_desc *whole,
		      uint32_t memory, uint32_t part)
{
	uint32_t nr = out->nr_ports;
	int link;

	for (uint32_t i = 0; i < whole->nr_ports; i++)
		if (whole->port[i].memory == memory && out->nr_ports < WEIR_PORTS_MAX) {
			out->port[out->nr_ports] = whole->port[i];
			out->port[out->nr_ports++].memory = part;
		}
	link = part_link(whole, memory, memory);
	if (out->nr_ports == nr && link >= 0)
		out->port[out->nr_ports++] = (struct weir_port_desc){
			.memory = part,
			.links = 1,
			.send_bytes_per_s = whole->link[link].a_to_b_bytes_per_s,
			.receive_bytes_per_s = whole->link[link].b_to_a_bytes_per_s,
		};
}

/* A machine whose GPUs are taken in turn for so many devices. As the backend describes them: the
 * host's memory is the first, each device's follows in the order of the devices. */
static void take_apart(const struct weir_machine_desc *whole, uint32_t nr,
		       struct weir_machine_desc *out)
{
	uint32_t nr_gpus = whole->nr_devices, each = (nr + nr_gpus - 1) / nr_gpus;

	*out = *whole;
	out->nr_devices = nr;
	out->nr_memories = nr + 1;
	out->nr_links = out->nr_ports = 0;
	out->memory[0] = whole->memory[cost_host_memory(whole)];
	add_ports(out, whole, cost_host_memory(whole), 0);
	for (uint32_t d = 0; d < nr; d++) {
		const struct weir_device_desc *of = &whole->device[d % nr_gpus];

		out->device[d] = *of;
		out->device[d].memory = d + 1;
		out->memory[d + 1] = whole->memory[of->memory];
		out->memory[d + 1].bytes /= each;
		(void)snprintf(out->device[d].name, sizeof(out->device[d].name), "gpu%u", d);
		(void)snprintf(out->memory[d + 1].name, sizeof(out->memory[d + 1].name), "gpu%u",
			       d);
		add_ports(out, whole, of->memory, d + 1);
		for (uint32_t m = 0; m <= d; m++) {
			uint32_t a = m ? whole->device[(m - 1) % nr_gpus].memory
				       : cost_host_memory(whole);
			int l = part_link(whole, a, of->memory);

			if (l >= 0)
				add_link(out, &whole->link[l], m, d + 1, whole->link[l].a != a);
		}
	}
}

/* ------------------------------------------------------------------ the machine */

static int read_description(const char *name, struct weir_machine_desc *out)
{
	char why[512];
	int err = weir_machine_file_read(name, out, why, sizeof(why));

	if (err)
		fprintf(stderr, "bench_mechanisms: %s\n", why);
	return err ? -EINVAL : 0;
}

static int open_cuda(const struct weir_machine_desc *measured, uint32_t parts,
		     struct weir_machine **out)
{
	const struct cuda_config config = {.measured = measured, .nr_parts = parts};
	struct backend *b;
	int err = cuda_create(&config, &b);

	if (!err)
		err = machine_wrap(b, out);
	return err ? say_error(err, "machine 'cuda'") : 0;
}

static int open_simulated(const struct weir_machine_desc *desc, bool bytes,
			  struct weir_machine **out)
{
	int err = weir_machine_simulate(desc, bytes ? WEIR_DATA_REAL : WEIR_DATA_PHANTOM, out);

	return err ? say_error(err, "machine '%s'", desc->name) : 0;
}

static int refuse_one(const char *name)
{
	fprintf(stderr, "bench_mechanisms: %s has one GPU: it takes two at the least\n", name);
	return -EINVAL;
}

/* The machine as it is, or else with its GPUs taken apart. */
static int open_machine(struct rig *rig, const struct mechanisms_options *asked)
{
	static struct weir_machine_desc desc, whole, parts;
	const char *from = rig->simulated ? asked->machine : asked->measured;
	uint32_t nr;
	int err = from ? read_description(from, &desc) : 0;

	if (!err && !rig->simulated)
		err = probe_cuda_load();
	if (!err && !rig->simulated)
		err = open_cuda(from ? &desc : NULL, 1, &rig->machine);
	if (err)
		return err;
	whole = rig->simulated ? desc : *weir_machine_describe(rig->machine);
	rig->nr_gpus = whole.nr_devices;
	if (rig->nr_gpus < 2)
		return refuse_one(asked->machine);
	nr = nr_parts(rig->nr_gpus, asked->nr_readers);
	if (nr <= rig->nr_gpus)
		return rig->simulated ? open_simulated(&whole, rig->has_bytes, &rig->machine) : 0;
	take_apart(&whole, nr, &parts);
	if (rig->simulated)
		return open_simulated(&parts, rig->has_bytes, &rig->machine);
	weir_machine_close(rig->machine);
	rig->machine = NULL;
	return open_cuda(&parts, nr, &rig->machine);
}

/* ------------------------------------------------------------------ what is on it */

static int open_space(struct rig *rig, const struct mechanisms_options *asked)
{
	struct weir_space_config config = {.mode = WEIR_PLANNED, .devices = 1};
	const struct weir_machine_desc *desc = weir_machine_describe(rig->machine);
	int err = weir_stream_create(rig->machine, 0, &rig->stream[0]);

	for (uint32_t d = 1; d < desc->nr_devices && rig->nr_readers < asked->nr_readers; d++) {
		if (d % rig->nr_gpus == 0 ||
		    cost_link_find(desc, desc->device[0].memory, desc->device[d].memory) < 0)
			continue;
		if (!err)
			err = weir_stream_create(rig->machine, d, &rig->stream[d]);
		rig->reader[rig->nr_readers++] = d;
		config.devices |= UINT64_C(1) << d;
	}
	if (!err && !rig->nr_readers)
		err = -ENODEV;
	if (err)
		return say_error(err, "streams of GPUs that reach the first one's memory");
	err = weir_space_create(rig->machine, &config, &rig->space);
	return err ? say_error(err, "a space") : 0;
}

static int open_range(struct rig *rig, uint32_t size)
{
	const struct weir_replica_params params = {.element_bytes = element_size[size],
						   .subscription = WEIR_SUBSCRIBE_MANUAL};
	int err = weir_alloc(rig->space, rig->range_bytes, NULL, &rig->range[size]);

	if (!err)
		err = weir_replicate(rig->space, rig->range[size], &params);
	for (uint32_t d = 0; d < WEIR_DEVICES_MAX && !err; d++) {
		void *window = NULL;

		if (rig->stream[d])
			err = weir_replica(rig->space, rig->range[size], d, &window);
		rig->window[size][d] = window;
	}
	return err ? say_error(err, "a replicated range of %llu bytes",
			       (unsigned long long)rig->range_bytes)
		   : 0;
}

static int open_pattern(struct rig *rig)
{
	uint64_t bytes = rig->range_bytes + (uint64_t)PATTERN_STEP * PATTERN_SHIFTS;
	void *addr = NULL;
	int err = weir_alloc(rig->space, bytes, NULL, &addr);

	rig->pattern = addr;
	for (uint32_t i = 0; i < rig->nr_readers && !err && rig->has_bytes; i++) {
		err = weir_alloc(rig->space, rig->range_bytes, NULL, &addr);
		rig->copied[rig->reader[i]] = addr;
	}
	if (!err && rig->has_bytes) {
		rig->wanted = malloc(bytes);
		rig->found = malloc(rig->range_bytes);
		err = rig->wanted && rig->found ? 0 : -ENOMEM;
	}
	for (uint64_t i = 0; !err && rig->has_bytes && i < bytes / sizeof(i); i++) {
		uint64_t word = hash_mix(i, 1);

		memcpy(rig->wanted + i * sizeof(word), &word, sizeof(word));
	}
	if (!err)
		err = weir_write(rig->space, rig->pattern, rig->wanted, bytes);
	return err ? say_error(err, "what is written, %llu bytes", (unsigned long long)bytes) : 0;
}

int rig_open(struct rig *rig, const struct mechanisms_options *asked, uint64_t range_bytes)
{
	int err;

	memset(rig, 0, sizeof(*rig));
	rig->simulated = asked->simulated;
	rig->has_bytes = asked->check;
	rig->range_bytes = range_bytes;
	err = open_machine(rig, asked);
	if (!err)
		err = open_space(rig, asked);
	for (uint32_t size = 0; size < NR_SIZES && !err; size++)
		err = open_range(rig, size);
	if (!err)
		err = open_pattern(rig);
	if (err)
		rig_close(rig);
	return err;
}

void rig_close(struct rig *rig)
{
	if (rig->space)
		weir_space_destroy(rig->space);
	for (uint32_t d = 0; d < WEIR_DEVICES_MAX; d++)
		if (rig->stream[d])
			weir_stream_destroy(rig->stream[d]);
	if (rig->machine)
		weir_machine_close(rig->machine);
	free(rig->wanted);
	free(rig->found);
	memset(rig, 0, sizeof(*rig));
}
