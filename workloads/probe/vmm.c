/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What mapping calls and the creation of chunks cost the host, at the granularity, on a device; and
 * what more mapping calls cost for each MiB of host memory. A driver's calls take longer the more
 * is mapped, and a space maps thousands of blocks: so all is measured beside a crowd of mappings.
 */
#include <math.h>

#include "src/cost/cost.h"
#include "workloads/probe/internal.h"

/* Calls are short and the host has other things to do: many, of which the median counts. */
#define CALLS 32u
#define QUICK_CALLS 12u

/* Mappings in the crowd, at most. */
#define CROWD 2000u
#define QUICK_CROWD 500u

/* From one of the crowd to the next that is mapped anew: a prime, so that all come in turn. */
#define ROUND_STEP 1237u

/* How long copies run meanwhile, and the size of one. */
#define BUSY_NS 30e6
#define BUSY_PIECE_MAX (8 * MIB)
#define BUSY_COPIES_MAX 1024u

/* Of the larger of the two sizes of host memory, at most. */
#define HOST_GRANULES 16u

struct vmm_times {
	struct fit_series create[2]; /* of a host chunk; of one in the device's own memory */
	struct fit_series map, set_access, set_access_more, unmap;
	struct fit_series set_access_host_mib, unmap_host_mib; /* empty: no room for two sizes */
	struct fit_series set_access_busy,
		set_access_busy_in; /* beside copies to the host, from it */
};

/* The memories and devices that it is done with. */
struct vmm_case {
	uint32_t own, host;
	uint64_t devices;    /* all that reach the device's memory */
	uint32_t nr_devices; /* of them */
};

/* A block that changes tiers: an address, and a chunk in each. */
struct vmm_block {
	void *addr; /* NULL: there is none */
	uint64_t bytes;
	struct backend_chunk chunk[2]; /* in the device's own memory; on the host */
	uint32_t nr;		       /* of them that are created */
};

static double since(struct probe *p, uint64_t begin_ns)
{
	return (double)(p->b->ops->now_ns(p->b) - begin_ns);
}

uint32_t probe_nr_calls(const struct probe *p)
{
	return p->options->quick ? QUICK_CALLS : CALLS;
}

/* Map, give access to the device and to all of some that it is among, each alone. */
static int map_timed(struct probe *p, void *addr, const struct backend_chunk *chunk,
		     uint64_t devices, struct probe_calls *out)
{
	const struct backend_ops *ops = p->b->ops;
	uint32_t nr_devices = (uint32_t)__builtin_popcountll(devices);
	uint64_t begin = ops->now_ns(p->b);
	int err = ops->map(p->b, addr, chunk, BACKEND_PROT_WRITE, 0);

	if (err)
		return err;
	out->map = since(p, begin);
	begin = ops->now_ns(p->b);
	err = ops->set_access(p->b, addr, BACKEND_PROT_WRITE, BACKEND_DEVICE_BIT(p->device));
	out->set_access = since(p, begin);
	if (!err && nr_devices > 1) {
		begin = ops->now_ns(p->b);
		err = ops->set_access(p->b, addr, BACKEND_PROT_WRITE, devices);
		out->set_access_more =
			fmax(since(p, begin) - out->set_access, 0) / (nr_devices - 1);
	}
	return err;
}

static int unmap_timed(struct probe *p, void *addr, struct probe_calls *out)
{
	const struct backend_ops *ops = p->b->ops;
	uint64_t begin = ops->now_ns(p->b);
	int err = ops->unmap(p->b, addr);

	out->unmap = since(p, begin);
	return err;
}

/* ------------------------------------------------------------------ a granule */

static int create_once(struct probe *p, uint32_t memory, double *ns)
{
	const struct backend_ops *ops = p->b->ops;
	uint64_t begin = ops->now_ns(p->b);
	struct backend_chunk chunk;
	int err = ops->chunk_create(p->b, memory, p->b->desc.vmm.granularity_bytes,
				    BACKEND_DEVICE_BIT(p->device), &chunk);

	if (err)
		return err;
	*ns = since(p, begin);
	ops->chunk_destroy(p->b, &chunk);
	return 0;
}

int probe_remap(struct probe *p, const struct probe_buffer *crowd, uint64_t devices, uint32_t round,
		struct probe_calls *out)
{
	uint32_t i = (uint32_t)((uint64_t)round * ROUND_STEP % crowd->nr);
	void *addr = crowd->addr + i * crowd->unit;
	int err = unmap_timed(p, addr, out);

	return err ? err : map_timed(p, addr, &crowd->chunk[i], devices, out);
}

static int granule_measure(struct probe *p, const struct vmm_case *c,
			   const struct probe_buffer *crowd, struct vmm_times *times)
{
	int err = 0;

	for (uint32_t i = 0; i <= probe_nr_calls(p) && !err; i++) {
		struct probe_calls calls = {0};
		double create_ns[2];

		err = create_once(p, c->host, &create_ns[0]);
		if (!err)
			err = create_once(p, c->own, &create_ns[1]);
		if (!err)
			err = probe_remap(p, crowd, c->devices, i, &calls);
		if (err || !i)
			continue;
		fit_add(&times->create[0], create_ns[0]);
		fit_add(&times->create[1], create_ns[1]);
		fit_add(&times->map, calls.map);
		fit_add(&times->set_access, calls.set_access);
		if (c->nr_devices > 1)
			fit_add(&times->set_access_more, calls.set_access_more);
		fit_add(&times->unmap, calls.unmap);
	}
	return err;
}

/* ------------------------------------------------------------------ host memory by the MiB */

static void block_destroy(struct probe *p, struct vmm_block *block)
{
	while (block->nr)
		p->b->ops->chunk_destroy(p->b, &block->chunk[--block->nr]);
	if (block->addr)
		p->b->ops->va_release(p->b, block->addr, block->bytes);
}

static int block_create(struct probe *p, const struct vmm_case *c, uint64_t bytes,
			struct vmm_block *out)
{
	const uint32_t memory[2] = {c->own, c->host};
	struct vmm_block block = {.bytes = bytes};
	int err = p->b->ops->va_reserve(p->b, bytes, bytes, &block.addr);

	if (err)
		return err;
	while (block.nr < 2 && !err) {
		err = p->b->ops->chunk_create(p->b, memory[block.nr], bytes, 0,
					      &block.chunk[block.nr]);
		if (!err)
			block.nr++;
	}
	if (err)
		block_destroy(p, &block);
	else
		*out = block;
	return err;
}

/* Where host memory comes after the device's, the driver changes page tables, as in a space. Where
 * host memory was before, it need not. */
static int block_once(struct probe *p, const struct vmm_block *block, struct probe_calls *out)
{
	int err = 0;

	for (uint32_t i = 0; i < 2 && !err; i++) {
		int unmapped;

		err = map_timed(p, block->addr, &block->chunk[i], BACKEND_DEVICE_BIT(p->device),
				out);
		unmapped = unmap_timed(p, block->addr, out);
		/* Once more, since the chunk could not be destroyed. */
		if (unmapped)
			(void)p->b->ops->unmap(p->b, block->addr);
		err = err ? err : unmapped;
	}
	return err;
}

static int host_rounds(struct probe *p, const struct vmm_block block[2], struct vmm_times *times)
{
	double mib = (double)(block[1].bytes - block[0].bytes) / MIB;
	int err = 0;

	for (uint32_t i = 0; i <= probe_nr_calls(p) && !err; i++) {
		struct probe_calls less, more;

		err = block_once(p, &block[0], &less);
		if (!err)
			err = block_once(p, &block[1], &more);
		if (err || !i)
			continue;
		fit_add(&times->set_access_host_mib,
			fmax(more.set_access - less.set_access, 0) / mib);
		fit_add(&times->unmap_host_mib, fmax(more.unmap - less.unmap, 0) / mib);
	}
	return err;
}

static int host_measure(struct probe *p, const struct vmm_case *c, struct vmm_times *times)
{
	uint64_t granularity = p->b->desc.vmm.granularity_bytes;
	uint64_t most = probe_room(p, c->own, HOST_GRANULES * granularity, 2);
	uint64_t bytes = probe_room(p, c->host, most, 2);
	struct vmm_block block[2] = {{0}};
	int err = probe_step(p, "mapping calls of host memory");

	if (err || bytes == granularity)
		return err;
	err = block_create(p, c, granularity, &block[0]);
	if (!err)
		err = block_create(p, c, bytes, &block[1]);
	if (!err)
		err = host_rounds(p, block, times);
	block_destroy(p, &block[1]);
	block_destroy(p, &block[0]);
	return err;
}

/* ------------------------------------------------------------------ beside copies with the host */

/* Copies of the device with the host, and what giving access takes more beside them. */
struct busy {
	enum backend_stream_kind kind;
	struct probe_copies copies;
	struct fit_series *more;
};

/* One call while copies run, if they still do when it is over. */
static int busy_once(struct probe *p, const struct vmm_case *c, const struct probe_buffer *crowd,
		     uint32_t round, fence_t copied, double alone_ns, struct fit_series *more)
{
	struct probe_calls calls = {0};
	int err = probe_remap(p, crowd, c->devices, round, &calls), done;

	if (err)
		return err;
	done = p->b->ops->fence_done(p->b, copied);
	if (!done)
		fit_add(more, fmax(calls.set_access - alone_ns, 0));
	return done;
}

/* Copies that take BUSY_NS, and calls until they are done. */
static int busy_round(struct probe *p, const struct vmm_case *c, const struct probe_buffer *crowd,
		      const struct busy *busy, double alone_ns)
{
	const struct backend_ops *ops = p->b->ops;
	fence_t copied;
	int done = probe_queue_copies(p, p->stream[busy->kind], &busy->copies);

	if (!done)
		done = ops->fence_record(p->b, p->stream[busy->kind], &copied);
	for (uint32_t i = 0; i < probe_nr_calls(p) && !done; i++)
		done = busy_once(p, c, crowd, i, copied, alone_ns, busy->more);
	probe_drain(p);
	return done < 0 ? done : 0;
}

static int busy_measure(struct probe *p, const struct vmm_case *c, const struct probe_buffer *crowd,
			struct vmm_times *times)
{
	uint64_t bytes = probe_room(p, c->host, BUSY_PIECE_MAX, 2);
	int link = cost_link_find(p->desc, c->host, c->own);
	struct vmm_block block = {0};
	int err = link < 0 ? 0 : block_create(p, c, bytes, &block);

	if (link < 0 || err)
		return err;
	for (uint32_t in = 0; in < 2 && !err; in++) {
		double rate = cost_copy_bytes_per_s(&p->desc->link[link], in ? c->host : c->own);
		double nr = fmin(BUSY_NS * rate / 1e9 / (double)bytes + 1, BUSY_COPIES_MAX);
		struct backend_copy piece = {.dst = block.chunk[!in].alias,
					     .src = block.chunk[in].alias,
					     .bytes = bytes};
		struct busy busy = {.kind = in ? BACKEND_COPY_IN : BACKEND_COPY_OUT,
				    .copies = {&piece, 1, (uint32_t)nr},
				    .more = in ? &times->set_access_busy_in
					       : &times->set_access_busy};

		err = busy_round(p, c, crowd, &busy, fit_median(&times->set_access));
	}
	block_destroy(p, &block);
	return err;
}

/* ------------------------------------------------------------------ what is kept */

static void calls_keep(struct probe *p, const struct vmm_times *times)
{
	const struct weir_vmm_desc *estimate = &p->estimates->vmm;
	struct weir_vmm_desc *vmm = &p->desc->vmm;

	vmm->map_ns = probe_round(probe_keep(p, &times->map, (double)estimate->map_ns,
					     "mapping one granule of many, without access",
					     "vmm.map_ns"));
	vmm->set_access_ns = probe_round(
		probe_keep(p, &times->set_access, (double)estimate->set_access_ns,
			   "giving one device access to one granule of many", "vmm.set_access_ns"));
	if (times->set_access_more.nr)
		vmm->set_access_device_ns = probe_round(probe_keep(
			p, &times->set_access_more, (double)estimate->set_access_device_ns,
			"giving all devices access, beyond one, for each",
			"vmm.set_access_device_ns"));
	else
		probe_assume(p, (double)estimate->set_access_device_ns,
			     "no other device reaches this one's memory",
			     "vmm.set_access_device_ns");
	vmm->unmap_ns = probe_round(probe_keep(p, &times->unmap, (double)estimate->unmap_ns,
					       "unmapping one granule of many", "vmm.unmap_ns"));
}

/* What a call takes more for each MiB of host memory; path: of the constant. */
static void host_keep(struct probe *p, const struct fit_series *series, uint64_t estimate,
		      const char *how, const char *path, uint64_t *out)
{
	if (series->nr)
		*out = probe_round(probe_keep(p, series, (double)estimate, how, "%s", path));
	else
		probe_assume(p, (double)estimate, "no room for host chunks of two sizes", "%s",
			     path);
}

/* What giving access takes more beside copies. */
static void busy_keep(struct probe *p, const struct fit_series *series, uint64_t estimate,
		      const char *how, const char *path, uint64_t *out)
{
	if (series->nr)
		*out = probe_round(probe_keep(p, series, (double)estimate, how, "%s", path));
	else
		probe_assume(p, (double)estimate, "no call was over before the copies were", "%s",
			     path);
}

static void vmm_keep(struct probe *p, const struct vmm_times *times)
{
	const struct weir_vmm_desc *estimate = &p->estimates->vmm;
	struct weir_vmm_desc *vmm = &p->desc->vmm;

	calls_keep(p, times);
	host_keep(p, &times->set_access_host_mib, estimate->set_access_host_mib_ns,
		  "giving one device access to host chunks of two sizes",
		  "vmm.set_access_host_mib_ns", &vmm->set_access_host_mib_ns);
	host_keep(p, &times->unmap_host_mib, estimate->unmap_host_mib_ns,
		  "unmapping host chunks of two sizes", "vmm.unmap_host_mib_ns",
		  &vmm->unmap_host_mib_ns);
	busy_keep(p, &times->set_access_busy, estimate->set_access_busy_ns,
		  "giving one device access beside copies to the host, beyond that",
		  "vmm.set_access_busy_ns", &vmm->set_access_busy_ns);
	busy_keep(p, &times->set_access_busy_in, estimate->set_access_busy_in_ns,
		  "giving one device access beside copies from the host, beyond that",
		  "vmm.set_access_busy_in_ns", &vmm->set_access_busy_in_ns);
	vmm->create_hbm_ns = probe_round(probe_keep(
		p, &times->create[1], (double)estimate->create_hbm_ns,
		"creating a chunk of one granule, mapped at its alias", "vmm.create_hbm_ns"));
	vmm->create_host_ns = probe_round(probe_keep(
		p, &times->create[0], (double)estimate->create_host_ns,
		"creating a chunk of one granule, mapped at its alias", "vmm.create_host_ns"));
}

/* ------------------------------------------------------------------ the whole */

/* Whether a device may be given access to another's memory. */
static bool reaches(const struct weir_machine_desc *desc, uint32_t device, uint32_t memory)
{
	uint32_t own = desc->device[device].memory;

	for (uint32_t l = 0; l < desc->nr_links; l++)
		if ((desc->link[l].a == own && desc->link[l].b == memory) ||
		    (desc->link[l].b == own && desc->link[l].a == memory))
			return true;
	return own == memory;
}

static struct vmm_case case_of(const struct probe *p)
{
	struct vmm_case c = {.own = p->desc->device[p->device].memory};

	while (p->desc->memory[c.host].kind != WEIR_MEMORY_HOST)
		c.host++;
	for (uint32_t d = 0; d < p->desc->nr_devices; d++)
		if (reaches(p->desc, d, c.own)) {
			c.devices |= BACKEND_DEVICE_BIT(d);
			c.nr_devices++;
		}
	return c;
}

int probe_crowd_create(struct probe *p, uint32_t memory, struct probe_buffer *out)
{
	uint64_t granularity = p->b->desc.vmm.granularity_bytes;
	uint64_t room = probe_room(p, memory, UINT64_MAX, 2) / granularity;
	uint32_t most = p->options->quick ? QUICK_CROWD : CROWD;

	return probe_buffer_create_of(p, memory, granularity, room < most ? (uint32_t)room : most,
				      out);
}

int probe_vmm(struct probe *p)
{
	const struct vmm_case c = case_of(p);
	struct probe_buffer crowd;
	struct vmm_times times = {0};
	int err = probe_step(p, "mapping calls");

	if (!err)
		err = probe_crowd_create(p, c.own, &crowd);
	if (err)
		return err;
	err = granule_measure(p, &c, &crowd, &times);
	if (!err)
		err = busy_measure(p, &c, &crowd, &times);
	if (!err)
		err = host_measure(p, &c, &times);
	probe_buffer_destroy(p, &crowd);
	if (!err)
		vmm_keep(p, &times);
	return err;
}
