/* SPDX-License-Identifier: Apache-2.0 */
/* Two devices and the host: memory at each of the three, and flows between them, each the same copy
 * or launch again and again on a stream of its own. */
#include "src/cost/cost.h"
#include "workloads/probe/internal.h"

uint64_t probe_pair_room(const struct probe *p, const struct probe_pair *pair, uint64_t most,
			 uint32_t parts)
{
	for (uint32_t end = 0; end < PAIR_ENDS; end++)
		most = probe_room(p, pair->memory[end], most, parts);
	return most;
}

void probe_pair_free(struct probe *p, struct probe_pair *pair)
{
	for (uint32_t end = 0; end < PAIR_ENDS; end++)
		while (pair->nr_chunks[end])
			p->b->ops->chunk_destroy(p->b, &pair->chunk[end][--pair->nr_chunks[end]]);
}

int probe_pair_alloc(struct probe *p, struct probe_pair *pair, uint64_t bytes, uint32_t nr)
{
	int err = 0;

	for (uint32_t i = 0; i < PAIR_ENDS * nr && !err; i++) {
		uint32_t end = i % PAIR_ENDS, *have = &pair->nr_chunks[end];

		err = p->b->ops->chunk_create(p->b, pair->memory[end], bytes, 0,
					      &pair->chunk[end][*have]);
		if (!err)
			++*have;
	}
	if (err)
		probe_pair_free(p, pair);
	return err;
}

bool probe_way_exists(const struct probe_pair *pair, struct probe_way way)
{
	return pair->linked || way.from == PAIR_HOST || way.to == PAIR_HOST;
}

uint32_t probe_flow_times(double ns, double bytes_per_s, uint64_t bytes, uint32_t most)
{
	double nr = ns / 1e9 * bytes_per_s / (double)bytes + 1;

	return nr < most ? (uint32_t)nr : most;
}

struct probe_flow probe_flow_of(const struct probe *p, const struct probe_pair *pair,
				struct probe_way way, const uint32_t chunk[2], double ns,
				uint32_t most)
{
	const struct backend_chunk *src = &pair->chunk[way.from][chunk[0]];
	const struct backend_chunk *dst = &pair->chunk[way.to][chunk[1]];
	int link = cost_link_find(p->desc, pair->memory[way.from], pair->memory[way.to]);
	double rate = cost_copy_bytes_per_s(&p->desc->link[link], pair->memory[way.from]);
	/* Between the devices the first one's engines copy, as those of a space's own device. */
	enum pair_end runs = way.from == PAIR_HOST ? way.to
			     : way.to == PAIR_HOST ? way.from
						   : PAIR_ONE;

	return (struct probe_flow){
		.device = pair->device[runs],
		.kind = runs == way.to ? BACKEND_COPY_IN : BACKEND_COPY_OUT,
		.piece = {.dst = dst->alias, .src = src->alias, .bytes = src->bytes},
		.bytes = src->bytes,
		.nr = probe_flow_times(ns, rate, src->bytes, most),
	};
}

int probe_flow_open(struct probe *p, struct probe_flow *flow)
{
	int err = p->b->ops->stream_create(p->b, flow->device, flow->kind, &flow->stream);

	flow->is_open = !err;
	return err;
}

void probe_flow_close(struct probe *p, struct probe_flow *flow)
{
	if (flow->is_open) {
		probe_stream_drain(p, flow->stream);
		p->b->ops->stream_destroy(p->b, flow->stream);
	}
	flow->is_open = false;
}

int probe_flow_queue(struct probe *p, const struct probe_flow *flow)
{
	const struct backend_ops *ops = p->b->ops;

	return flow->launch ? ops->launch(p->b, flow->stream, flow->launch)
			    : ops->copy(p->b, flow->stream, &flow->piece, 1);
}
