/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels on the relays' GPUs: each reads a part of its GPU's memory, larger than its caches, from
 * end to end. A few are queued at a time, so that there is always one that runs.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bench/relay/relay.h"
#include "bench/shared/say.h"
#include "src/base/util.h"
#include "workloads/probe/cuda.h"
#include "workloads/probe/kernels.h"

#define QUEUED 4u
#define PASSES 4u
#define TIMES_MAX 65536u
#define SUM_BYTES 4096u

struct loaded {
	uint32_t device;
	stream_id_t stream;
	bool has_stream;
	void *data; /* the sum, then what is read; NULL: not there yet */
	fence_t begin[QUEUED], end[QUEUED];
	uint32_t nr_queued, nr_done; /* since load_begin() */
};

struct load {
	uint64_t bytes; /* that a kernel reads PASSES times */
	uint32_t nr;	/* GPUs */
	struct loaded on[WEIR_DEVICES_MAX];
	uint32_t nr_times;
	uint64_t ns[TIMES_MAX];
};

static int loaded_open(struct relay *r, struct loaded *l, uint64_t bytes)
{
	const struct weir_device_desc *desc = &r->b->desc.device[l->device];
	int err = r->b->ops->stream_create(r->b, l->device, BACKEND_COMPUTE, &l->stream);

	if (err)
		return say_error(err, "%s: a stream", desc->name);
	l->has_stream = true;
	err = r->b->ops->device_alloc(r->b, desc->memory, SUM_BYTES + bytes, &l->data);
	if (err)
		return say_error(err, "memory '%s': %llu bytes for kernels",
				 r->b->desc.memory[desc->memory].name,
				 (unsigned long long)(SUM_BYTES + bytes));
	return 0;
}

int load_open(struct relay *r, uint32_t nr_lanes, uint64_t bytes, struct load **out)
{
	struct load *load;
	int err = r->simulated ? 0 : probe_cuda_load();

	if (err)
		return say_error(err, "kernels");
	load = calloc(1, sizeof(*load));
	if (!load)
		return say_error(-ENOMEM, "times of kernels");
	load->bytes = bytes;
	for (uint32_t i = 1; i < nr_lanes && !err; i++) {
		load->on[load->nr].device = r->lane[WAY_IN][i].device;
		err = loaded_open(r, &load->on[load->nr++], bytes);
	}
	if (err) {
		load_close(r, load);
		return err;
	}
	*out = load;
	return 0;
}

void load_close(struct relay *r, struct load *load)
{
	if (!load)
		return;
	for (uint32_t i = 0; i < load->nr; i++) {
		struct loaded *l = &load->on[i];

		if (l->has_stream)
			r->b->ops->stream_destroy(r->b, l->stream);
		if (l->data)
			r->b->ops->device_free(r->b, l->data);
	}
	free(load);
}

void load_begin(struct load *load)
{
	for (uint32_t i = 0; i < load->nr; i++)
		load->on[i].nr_queued = load->on[i].nr_done = 0;
}

static int kernel_queue(struct relay *r, const struct load *load, struct loaded *l)
{
	char *data = (char *)l->data + SUM_BYTES;
	const struct probe_read_args args = {data, l->data, load->bytes, PASSES};
	const struct weir_use uses[] = {
		{.addr = data,
		 .bytes = load->bytes,
		 .kind = WEIR_READ,
		 .read_bytes = PASSES * load->bytes},
		{.addr = l->data,
		 .bytes = sizeof(uint64_t),
		 .kind = WEIR_WRITE,
		 .read_bytes = sizeof(uint64_t),
		 .write_bytes = sizeof(uint64_t)},
	};
	const struct weir_launch launch = {.kernel = &probe_kernel_read,
					   .args = &args,
					   .args_bytes = sizeof(args),
					   .uses = uses,
					   .nr_uses = ARRAY_LEN(uses)};
	const uint32_t at = l->nr_queued % QUEUED;
	int err = r->b->ops->fence_record(r->b, l->stream, &l->begin[at]);

	if (!err)
		err = r->b->ops->launch(r->b, l->stream, &launch);
	if (!err)
		err = r->b->ops->fence_record(r->b, l->stream, &l->end[at]);
	if (err)
		return say_error(err, "%s: a kernel", r->b->desc.device[l->device].name);
	l->nr_queued++;
	return 0;
}

/* The time of the oldest kernel, which is done. The first had to be started. */
static void kernel_note(struct relay *r, struct load *load, struct loaded *l)
{
	const uint32_t at = l->nr_done % QUEUED;
	uint64_t begin = r->b->observe->fence_time_ns(r->b, l->begin[at]);
	uint64_t end = r->b->observe->fence_time_ns(r->b, l->end[at]);

	if (l->nr_done++ && begin && end > begin && load->nr_times < TIMES_MAX)
		load->ns[load->nr_times++] = end - begin;
}

int load_step(struct relay *r, struct load *load)
{
	int err = 0;

	for (uint32_t i = 0; i < load->nr && !err; i++) {
		struct loaded *l = &load->on[i];
		int done = 1;

		while (l->nr_done < l->nr_queued && done > 0) {
			done = r->b->ops->fence_done(r->b, l->end[l->nr_done % QUEUED]);
			if (done < 0)
				return say_error(done, "%s: a kernel",
						 r->b->desc.device[l->device].name);
			if (done)
				kernel_note(r, load, l);
		}
		while (l->nr_queued - l->nr_done < QUEUED && !err)
			err = kernel_queue(r, load, l);
	}
	return err;
}

int load_end(struct relay *r, struct load *load)
{
	for (uint32_t i = 0; i < load->nr; i++) {
		struct loaded *l = &load->on[i];

		for (; l->nr_done < l->nr_queued; l->nr_done++) {
			int err = r->b->ops->fence_wait(r->b, l->end[l->nr_done % QUEUED]);

			if (err)
				return say_error(err, "%s: a kernel",
						 r->b->desc.device[l->device].name);
		}
	}
	return 0;
}

/* Kernels that every GPU is done with. */
static uint32_t least_done(const struct load *load)
{
	uint32_t least = UINT32_MAX;

	for (uint32_t i = 0; i < load->nr; i++)
		least = MIN(least, load->on[i].nr_done);
	return least;
}

int load_alone(struct relay *r, struct load *load, uint32_t nr)
{
	int err = 0;

	load_begin(load);
	while (least_done(load) < nr && !err) {
		err = load_step(r, load);
		relay_look_again(r);
	}
	return err ? err : load_end(r, load);
}

uint64_t *load_times(struct load *load, uint32_t *nr)
{
	*nr = load->nr_times;
	return load->ns;
}

void load_forget(struct load *load)
{
	load->nr_times = 0;
}
