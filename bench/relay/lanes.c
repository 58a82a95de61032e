/* SPDX-License-Identifier: Apache-2.0 */
/* The machine, and what is created on it: memory at both ends, and each lane's streams and buffers.
 * Which GPUs are relays is found here. */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/relay/relay.h"
#include "bench/shared/samples.h"
#include "bench/shared/say.h"
#include "machine/machine_file.h"
#include "src/backend/cuda/cuda.h"
#include "src/backend/sim/sim.h"
#include "src/base/util.h"
#include "src/cost/cost.h"

/* How long a simulated machine runs before the host looks again. */
#define LOOK_NS 5000u

/* ------------------------------------------------------------------ copies, time, numbers */

int relay_copy(struct relay *r, stream_id_t stream, void *to, const void *from, uint64_t bytes)
{
	const struct backend_copy copy = {to, from, bytes};

	return r->b->ops->copy(r->b, stream, &copy, 1);
}

int relay_copy_span(struct relay *r, stream_id_t stream, const struct span *to,
		    const struct span *from)
{
	fence_t fence;
	int err = 0;

	for (uint32_t i = 0; i < from->nr && !err; i++)
		err = relay_copy(r, stream, to->chunk[i].alias, from->chunk[i].alias,
				 from->chunk_bytes);
	if (!err)
		err = r->b->ops->fence_record(r->b, stream, &fence);
	if (!err)
		err = r->b->ops->fence_wait(r->b, fence);
	return err ? say_error(err, "copies for --check") : 0;
}

/* A real machine runs meanwhile, and a sleep would be longer than what is waited for. */
void relay_look_again(struct relay *r)
{
	if (r->simulated)
		r->b->ops->host_spend(r->b, LOOK_NS);
	else
		(void)sched_yield();
}

struct quantiles relay_quantiles(uint64_t *values, uint32_t nr)
{
	samples_sort(values, nr);
	return (struct quantiles){values[0], values[nr / 2], values[nr - 1 - nr / 100]};
}

/* ------------------------------------------------------------------ memory */

static int span_create(struct relay *r, uint32_t memory, uint64_t chunk_bytes, uint64_t devices,
		       struct span *span)
{
	const uint32_t nr = (uint32_t)(r->bytes / chunk_bytes);

	span->chunk = calloc(nr, sizeof(*span->chunk));
	span->chunk_bytes = chunk_bytes;
	if (!span->chunk)
		return say_error(-ENOMEM, "a list of %u chunks", nr);
	while (span->nr < nr) {
		int err = r->b->ops->chunk_create(r->b, memory, chunk_bytes, devices,
						  &span->chunk[span->nr]);

		if (err)
			return say_error(err, "memory '%s': chunk %u of %u, %llu bytes each",
					 r->b->desc.memory[memory].name, span->nr + 1, nr,
					 (unsigned long long)chunk_bytes);
		span->nr++;
	}
	return 0;
}

static void span_destroy(struct relay *r, struct span *span)
{
	while (span->nr)
		r->b->ops->chunk_destroy(r->b, &span->chunk[--span->nr]);
	free(span->chunk);
	span->chunk = NULL;
}

/* ------------------------------------------------------------------ lanes */

/* A lane of a GPU with so many buffers in its memory: the target's own has none. */
static int lane_create(struct relay *r, uint32_t device, uint32_t nr_buffers, uint64_t bytes,
		       struct lane *lane)
{
	const struct weir_device_desc *desc = &r->b->desc.device[device];
	int err;

	lane->device = device;
	err = r->b->ops->stream_create(r->b, device, BACKEND_COPY_IN, &lane->into);
	if (err)
		return say_error(err, "%s: a stream", desc->name);
	lane->nr_streams = 1;
	err = r->b->ops->stream_create(r->b, device, BACKEND_COPY_OUT, &lane->from);
	if (err)
		return say_error(err, "%s: a stream", desc->name);
	lane->nr_streams = 2;
	while (lane->nr_buffers < nr_buffers) {
		err = r->b->ops->chunk_create(r->b, desc->memory, bytes, BACKEND_DEVICE_BIT(device),
					      &lane->buffer[lane->nr_buffers]);
		if (err)
			return say_error(err, "memory '%s': a buffer of %llu bytes",
					 r->b->desc.memory[desc->memory].name,
					 (unsigned long long)bytes);
		lane->nr_buffers++;
	}
	return 0;
}

/* What is queued on a stream that waits for another one is done when both are. */
static void lanes_destroy(struct relay *r)
{
	for (int way = 0; way < WAY_NR; way++) {
		for (uint32_t i = 0; i < r->nr_lanes; i++) {
			struct lane *lane = &r->lane[way][i];

			if (lane->nr_streams > 0)
				r->b->ops->stream_destroy(r->b, lane->into);
			if (lane->nr_streams > 1)
				r->b->ops->stream_destroy(r->b, lane->from);
			lane->nr_streams = 0;
		}
	}
	for (int way = 0; way < WAY_NR; way++)
		for (uint32_t i = 0; i < r->nr_lanes; i++)
			while (r->lane[way][i].nr_buffers)
				r->b->ops->chunk_destroy(
					r->b,
					&r->lane[way][i].buffer[--r->lane[way][i].nr_buffers]);
}

/* Devices that reach both memories: the target, then its relays. */
static int devices_find(struct relay *r, uint32_t device[WEIR_DEVICES_MAX], uint64_t *mask)
{
	uint64_t of[2] = {0, 0};
	int err = backend_chunk_devices(r->b, r->target, &of[0]);

	if (!err)
		err = backend_chunk_devices(r->b, r->host, &of[1]);
	*mask = of[0] & of[1];
	if (!err && !(*mask & BACKEND_DEVICE_BIT(0)))
		err = -ENODEV;
	if (err)
		return say_error(err, "%s: its first GPU does not reach the host's memory",
				 r->b->desc.name);
	for (uint32_t d = 0; d < r->b->desc.nr_devices; d++)
		if (*mask & BACKEND_DEVICE_BIT(d))
			device[r->nr_lanes++] = d;
	return 0;
}

static int lanes_create(struct relay *r, const struct relay_options *asked)
{
	const uint64_t bytes = RELAY_PIECE_SPREAD * asked->piece_bytes;
	uint32_t device[WEIR_DEVICES_MAX] = {0};
	uint64_t mask;
	int err = devices_find(r, device, &mask);

	for (int way = 0; way < WAY_NR && !err; way++) {
		err = span_create(r, r->target, bytes, mask, &r->near[way]);
		if (!err)
			err = span_create(r, r->host, bytes, mask, &r->far[way]);
		for (uint32_t i = 0; i < r->nr_lanes && !err; i++)
			err = lane_create(r, device[i], i ? asked->nr_buffers : 0, bytes,
					  &r->lane[way][i]);
	}
	return err;
}

/* ------------------------------------------------------------------ the machine */

static int machine_open(struct relay *r, const struct relay_options *asked)
{
	const struct cuda_config config = {.quiet = false};
	struct weir_machine_desc desc;
	char why[512];
	int err;

	if (!asked->simulated) {
		err = cuda_create(&config, &r->b);
	} else {
		err = weir_machine_file_read(asked->machine, &desc, why, sizeof(why));
		if (err) {
			fprintf(stderr, "bench_relay: %s\n", why);
			return err;
		}
		err = sim_create(&desc, asked->check ? WEIR_DATA_REAL : WEIR_DATA_PHANTOM, &r->b);
	}
	return err ? say_error(err, "machine '%s'", asked->machine) : 0;
}

int relay_open(struct relay *r, const struct relay_options *asked)
{
	const struct weir_machine_desc *desc;
	int err;

	*r = (struct relay){.simulated = asked->simulated, .bytes = asked->bytes};
	err = machine_open(r, asked);
	if (err)
		return err;
	desc = &r->b->desc;
	r->target = desc->device[0].memory;
	r->host = cost_host_memory(desc);
	if (RELAY_PIECE_SPREAD * asked->piece_bytes % desc->vmm.granularity_bytes)
		err = say_error(-EINVAL,
				"--piece: %u of them are no multiple of %llu bytes, which memory "
				"of '%s' is created in",
				RELAY_PIECE_SPREAD, (unsigned long long)desc->vmm.granularity_bytes,
				desc->name);
	if (!err)
		err = lanes_create(r, asked);
	if (err)
		relay_close(r);
	return err;
}

void relay_close(struct relay *r)
{
	lanes_destroy(r);
	for (int way = 0; way < WAY_NR; way++) {
		span_destroy(r, &r->near[way]);
		span_destroy(r, &r->far[way]);
	}
	r->b->ops->destroy(r->b);
}
