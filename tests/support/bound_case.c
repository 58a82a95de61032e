/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/bound_case.h"

#include <math.h>
#include <string.h>

struct random {
	uint64_t state;
};

static uint64_t random_u64(struct random *r)
{
	uint64_t z = (r->state += UINT64_C(0x9e3779b97f4a7c15));

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

static uint32_t random_below(struct random *r, uint32_t n)
{
	return (uint32_t)(random_u64(r) % n);
}

static double random_between(struct random *r, double lo, double hi)
{
	return lo + (hi - lo) * (double)(random_u64(r) >> 11) * 0x1p-53;
}

/* ------------------------------------------------------------------ what is known of a case */

bool bound_case_covers(const struct bound_case *c, const struct trace_use *use, uint32_t block)
{
	uint32_t from = c->first_block[use->life] + (uint32_t)(use->offset / BOUND_BLOCK);

	return block >= from && block < from + use->bytes / BOUND_BLOCK;
}

static void find_touches(struct bound_case *c)
{
	for (uint32_t s = 0; s < c->trace.nr_steps; s++) {
		for (uint32_t u = 0; u < c->steps[s].nr_uses; u++) {
			const struct trace_use *use = &c->uses[c->steps[s].first_use + u];

			for (uint32_t i = 0; i < c->nr_blocks; i++) {
				struct bound_touch *t = &c->touch[s][i];

				if (!bound_case_covers(c, use, i))
					continue;
				t->used = true;
				t->keeps |= use->kind == WEIR_READ || use->kind == WEIR_WRITE;
				t->writes |= use->kind == WEIR_WRITE || use->kind == WEIR_OVERWRITE;
				t->discards |= use->kind == WEIR_DISCARD;
			}
		}
	}
}

/* Contents are needed before a step when they exist and the next launch that uses the block keeps
 * them. */
static void find_needs(struct bound_case *c)
{
	for (uint32_t l = 0; l < c->trace.nr_lives; l++) {
		uint32_t nr = (uint32_t)(c->lives[l].bytes / BOUND_BLOCK);

		for (uint32_t i = c->first_block[l]; i < c->first_block[l] + nr; i++) {
			bool exists = c->lives[l].birth == TRACE_NEVER;

			for (uint32_t s = 0; s < c->trace.nr_steps; s++) {
				uint32_t t = s;

				while (t < c->trace.nr_steps && !c->touch[t][i].used)
					t++;
				c->needed[s][i] =
					exists && t < c->trace.nr_steps && c->touch[t][i].keeps;
				exists |= c->touch[s][i].writes;
				exists &= !c->touch[s][i].discards;
			}
		}
	}
}

double bound_case_link_s(const struct weir_link_desc *link, double in, double out)
{
	double in_alone = in / link->a_to_b_bytes_per_s, out_alone = out / link->b_to_a_bytes_per_s;
	double both = fmin(in, out);
	double rest =
		(in - both) / link->a_to_b_bytes_per_s + (out - both) / link->b_to_a_bytes_per_s;

	return fmin(both / link->duplex_bytes_per_s + rest, in_alone + out_alone);
}

double bound_case_in_place_s(const struct weir_link_desc *link, const struct bound_in_place *in,
			     const struct bound_in_place *out)
{
	double most = link->inplace_both_bytes_per_s, in_rate, out_rate, shared;

	if (!(in->bytes > 0) || !(out->bytes > 0))
		return fmax(in->seconds, out->seconds);
	in_rate = in->bytes / in->seconds;
	out_rate = out->bytes / out->seconds;
	/* one of them is done after so long, and the other has the link for what is left */
	shared = fmin(in->bytes / fmin(in_rate, most), out->bytes / fmin(out_rate, most));
	return shared + fmax((in->bytes - shared * fmin(in_rate, most)) / in_rate,
			     (out->bytes - shared * fmin(out_rate, most)) / out_rate);
}

double bound_case_place_rate(const struct weir_link_desc *link, const struct trace_use *use,
			     double away_bytes, double *swell)
{
	double granule = use->granule ? use->granule : 4, moved, rate;
	double reach = (double)link->inplace_reach_bytes, misses_per_s = link->inplace_large_per_s;

	*swell = 1;
	if (use->pattern == WEIR_STREAM)
		return link->inplace_bytes_per_s;
	/* granules are powers of two here: below a sector they move as many bytes as they have, or
	 * up to a sector more when they lie across two */
	moved = granule < 32 ? granule + 32 - granule : granule;
	*swell = moved / granule;
	rate = fmin(link->inplace_bytes_per_s, link->inplace_small_per_s * fmin(moved, 128));
	if (use->read_bytes && use->write_bytes) {
		reach /= 2;
		misses_per_s = link->inplace_update_large_per_s;
	}
	if (away_bytes > reach)
		rate = fmin(rate, misses_per_s * moved * away_bytes / (away_bytes - reach));
	return rate;
}

/* ------------------------------------------------------------------ random cases */

static void random_machine(struct random *r, bool reach, struct weir_machine_desc *d)
{
	struct weir_device_desc *dev = &d->device[0];
	struct weir_link_desc *link = &d->link[0];
	/* apart, so that a seed gives the same case in all else as before there was this rate */
	struct random both = {.state = ~r->state};
	double alone;

	*d = (struct weir_machine_desc){
		.name = "tiny", .nr_memories = 2, .nr_devices = 1, .nr_links = 1};
	d->memory[0] = (struct weir_memory_desc){"host", WEIR_MEMORY_HOST, UINT64_C(1) << 30};
	d->memory[1] = (struct weir_memory_desc){"gpu0", WEIR_MEMORY_HBM, UINT64_C(1) << 30};
	*dev = (struct weir_device_desc){.name = "gpu0", .memory = 1};
	dev->hbm_bytes_per_s = random_between(r, reach ? 200e9 : 20e9, 2000e9);
	dev->hbm_random_bytes_per_s = random_between(r, 0.3, 1) * dev->hbm_bytes_per_s;
	dev->ops_per_s = 1e12;
	dev->launch_ns = 100 + random_below(r, reach ? 200 : 2000);
	dev->launch_host_ns = dev->malloc_ns = dev->malloc_2mib_ns = 1000;
	*link = (struct weir_link_desc){.a = 0, .b = 1, .latency_ns = 1000, .copy_ns = 100};
	alone = random_between(r, 10e9, 60e9);
	link->a_to_b_bytes_per_s = alone;
	link->b_to_a_bytes_per_s = random_between(r, 0.7, 1.4) * alone;
	alone = fmin(alone, link->b_to_a_bytes_per_s);
	link->duplex_bytes_per_s = random_between(r, 0.6, 1) * alone;
	link->inplace_bytes_per_s = random_between(r, 0.5, 1) * alone;
	link->inplace_duplex_bytes_per_s = link->duplex_bytes_per_s;
	link->inplace_both_bytes_per_s = random_between(&both, 0.4, 1) *
					 fmin(link->inplace_bytes_per_s, link->duplex_bytes_per_s);
	link->inplace_small_per_s = random_between(r, 100e6, 800e6);
	link->inplace_large_per_s =
		random_between(r, reach ? 0.02 : 0.1, reach ? 0.4 : 1) * link->inplace_small_per_s;
	link->inplace_update_large_per_s = random_between(r, 0.5, 1) * link->inplace_large_per_s;
	link->inplace_reach_bytes =
		BOUND_BLOCK * (1 + random_below(r, reach ? 2 : 3)) - BOUND_BLOCK / 2;
	link->inplace_request_bytes = 128;
	d->vmm = (struct weir_vmm_desc){
		.granularity_bytes = 4096,
		.map_ns = 1,
		.set_access_ns = 1,
		.set_access_device_ns = 1,
		.unmap_ns = 1,
		.create_hbm_ns = 1,
		.create_host_ns = 1,
	};
}

static void random_use(struct random *r, bool reach, const struct bound_case *c,
		       struct trace_use *use)
{
	static const uint32_t granules[] = {0, 8, 32, 128, 1024};
	uint32_t life = random_below(r, c->trace.nr_lives);
	uint32_t blocks = (uint32_t)(c->lives[life].bytes / BOUND_BLOCK);
	uint32_t first = random_below(r, blocks), nr = 1 + random_below(r, blocks - first);

	*use = (struct trace_use){
		.life = life,
		.offset = first * BOUND_BLOCK,
		.bytes = nr * BOUND_BLOCK,
		.kind = (enum weir_use_kind)(random_below(r, 8) % 4),
		.pattern = random_below(r, 6) < (reach ? 5 : 2) ? WEIR_RANDOM : WEIR_STREAM,
		.granule = granules[random_below(r, 5)],
	};
	if (random_below(r, 12) == 0)
		use->kind = WEIR_DISCARD;
	else if (use->kind == WEIR_DISCARD)
		use->kind = WEIR_READ;
	if (use->kind == WEIR_READ || use->kind == WEIR_WRITE)
		use->read_bytes = (uint64_t)(random_between(r, 0, 2) * (double)use->bytes);
	if (use->kind == WEIR_WRITE || use->kind == WEIR_OVERWRITE)
		use->write_bytes = (uint64_t)(random_between(r, 0, 2) * (double)use->bytes);
}

static void random_case(struct random *r, uint32_t max_blocks, struct bound_case *c)
{
	bool reach = random_below(r, 3);
	uint32_t lives = 1 + random_below(r, BOUND_LIVES);

	memset(c, 0, sizeof(*c));
	random_machine(r, reach, &c->desc);
	for (uint32_t i = 0; i < lives && c->nr_blocks < max_blocks; i++) {
		uint32_t nr = 1 + random_below(r, 3);

		if (nr > max_blocks - c->nr_blocks)
			nr = max_blocks - c->nr_blocks;
		c->first_block[i] = c->nr_blocks;
		c->nr_blocks += nr;
		c->lives[i] = (struct trace_life){
			.bytes = nr * BOUND_BLOCK,
			.birth = random_below(r, 2) ? TRACE_NEVER : 0,
			.death = TRACE_NEVER,
		};
		c->trace.nr_lives++;
	}
	c->budget_blocks =
		1 + random_below(r, reach && c->nr_blocks > 1 ? c->nr_blocks - 1 : max_blocks);
	c->trace.nr_steps = 3 + random_below(r, BOUND_STEPS - 2);
	for (uint32_t s = 0; s < c->trace.nr_steps; s++) {
		struct trace_step *step = &c->steps[s];

		*step = (struct trace_step){.name = "kernel", .first_use = c->trace.nr_uses};
		step->ops = random_below(r, 3) ? 0 : random_between(r, 0, 1e8);
		step->nr_uses = 1 + random_below(r, BOUND_USES);
		for (uint32_t u = 0; u < step->nr_uses; u++)
			random_use(r, reach, c, &c->uses[c->trace.nr_uses++]);
	}
	c->trace.steps = c->steps;
	c->trace.uses = c->uses;
	c->trace.lives = c->lives;
	find_touches(c);
	find_needs(c);
}

void bound_case_random(uint64_t seed, uint32_t max_blocks, struct bound_case *c)
{
	struct random r = {.state = seed};

	random_case(&r, max_blocks, c);
}

/* Between GPUs a link is from about as fast as the host's to ten times that. */
static void random_near_link(struct random *r, struct weir_link_desc *link)
{
	double times = random_below(r, 4) ? random_between(r, 2, 10) : random_between(r, 0.5, 2);

	link->a = 1;
	link->b = 2;
	link->a_to_b_bytes_per_s *= times;
	link->b_to_a_bytes_per_s *= times;
	link->duplex_bytes_per_s *= times;
	link->inplace_bytes_per_s *= times;
	link->inplace_duplex_bytes_per_s *= times;
	link->inplace_both_bytes_per_s *= times;
	link->inplace_small_per_s *= times;
	link->inplace_large_per_s *= times;
	link->inplace_update_large_per_s *= times;
}

/* A port of a memory with so many links busy; rate: about what these carry one way. */
static void random_port(struct random *r, struct weir_machine_desc *d, uint32_t memory,
			uint32_t links, double rate)
{
	d->port[d->nr_ports++] = (struct weir_port_desc){
		.memory = memory,
		.links = links,
		.send_bytes_per_s = random_between(r, 0.3, 1.2) * rate,
		.receive_bytes_per_s = random_between(r, 0.3, 1.2) * rate,
	};
}

/* Of the host and of the device's memory, in two of three cases of each. Some are of more links
 * than there are: these limit nothing. */
static void random_ports(struct random *r, struct weir_machine_desc *d)
{
	const double host = d->link[0].a_to_b_bytes_per_s, own = d->link[2].a_to_b_bytes_per_s;

	if (random_below(r, 2))
		random_port(r, d, 0, 1, host);
	if (random_below(r, 3))
		random_port(r, d, 0, 2, 2 * host);
	if (random_below(r, 3))
		random_port(r, d, 0, 3, host / 4);
	if (random_below(r, 3))
		random_port(r, d, 1, 1, own);
	if (random_below(r, 3))
		random_port(r, d, 1, 2, own / 4);
}

/* The host is hardly of use in place, and own memory is fast: what limits a launch is what lies at
 * the neighbour. */
static void slow_in_place(struct weir_machine_desc *d)
{
	struct weir_link_desc *link = &d->link[0];
	const double times = 0.01;

	d->device[0].hbm_bytes_per_s *= 10;
	d->device[0].hbm_random_bytes_per_s *= 10;
	link->inplace_bytes_per_s *= times;
	link->inplace_both_bytes_per_s *= times;
	link->inplace_small_per_s *= times;
	link->inplace_large_per_s *= times;
	link->inplace_update_large_per_s *= times;
}

void bound_case_random_near(uint64_t seed, uint32_t max_blocks, struct bound_case *c)
{
	struct random r = {.state = seed}, apart = {.state = ~seed};
	struct weir_machine_desc *d = &c->desc;

	random_case(&r, max_blocks, c);
	c->near_blocks = random_below(&r, 4) ? 1 + random_below(&r, max_blocks - 1) : 0;
	d->nr_memories = 3;
	d->nr_devices = 2;
	d->nr_links = 3;
	d->memory[2] = (struct weir_memory_desc){"gpu1", WEIR_MEMORY_HBM, UINT64_C(1) << 30};
	d->device[1] = d->device[0];
	memcpy(d->device[1].name, "gpu1", sizeof("gpu1"));
	d->device[1].memory = 2;
	d->link[1] = d->link[2] = d->link[0];
	d->link[1].b = 2;
	d->link[1].a_to_b_bytes_per_s *= random_between(&r, 1, 1.3);
	d->link[1].b_to_a_bytes_per_s *= random_between(&r, 1, 1.3);
	random_near_link(&r, &d->link[2]);
	if (random_below(&r, 2))
		random_ports(&r, d);
	if (!random_below(&apart, 4))
		slow_in_place(d);
}
