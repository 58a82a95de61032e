/* SPDX-License-Identifier: Apache-2.0 */
/* What mapping calls and the creation of chunks cost the host, at the granularity, on a device. */
#include <math.h>

#include "workloads/probe/internal.h"

/* Calls are short and the host has other things to do: many, of which the median counts. */
#define CALLS 32u
#define QUICK_CALLS 12u

struct vmm_times {
	struct fit_series create[2]; /* of a host chunk; of one in the device's own memory */
	struct fit_series map, set_access, set_access_more, unmap;
};

/* The memories and devices that it is done with. */
struct vmm_case {
	uint32_t own, host;
	uint32_t devices;    /* all that reach the device's memory */
	uint32_t nr_devices; /* of them */
	void *addr;	     /* a reservation of one granule */
};

static double since(struct probe *p, uint64_t begin_ns)
{
	return (double)(p->b->ops->now_ns(p->b) - begin_ns);
}

/* Map, give access to one and to all, unmap; each alone. The chunk is left unmapped. */
static int map_once(struct probe *p, const struct vmm_case *c, const struct backend_chunk *chunk,
		    double ns[4])
{
	const struct backend_ops *ops = p->b->ops;
	uint64_t begin = ops->now_ns(p->b);
	int err = ops->map(p->b, c->addr, chunk, BACKEND_PROT_WRITE, 0), unmapped;

	if (err)
		return err;
	ns[0] = since(p, begin);
	begin = ops->now_ns(p->b);
	err = ops->set_access(p->b, c->addr, BACKEND_PROT_WRITE, 1u << p->device);
	ns[1] = since(p, begin);
	if (!err && c->nr_devices > 1) {
		begin = ops->now_ns(p->b);
		err = ops->set_access(p->b, c->addr, BACKEND_PROT_WRITE, c->devices);
		ns[2] = fmax(since(p, begin) - ns[1], 0) / (c->nr_devices - 1);
	}
	begin = ops->now_ns(p->b);
	unmapped = ops->unmap(p->b, c->addr);
	ns[3] = since(p, begin);
	/* Once more, since the chunk could not be destroyed. */
	if (unmapped)
		(void)ops->unmap(p->b, c->addr);
	return err ? err : unmapped;
}

static int chunk_once(struct probe *p, const struct vmm_case *c, bool own, double *create_ns,
		      double map_ns[4])
{
	const struct backend_ops *ops = p->b->ops;
	uint64_t begin = ops->now_ns(p->b);
	struct backend_chunk chunk;
	int err = ops->chunk_create(p->b, own ? c->own : c->host, p->b->desc.vmm.granularity_bytes,
				    &chunk);

	if (err)
		return err;
	*create_ns = since(p, begin);
	if (own)
		err = map_once(p, c, &chunk, map_ns);
	ops->chunk_destroy(p->b, &chunk);
	return err;
}

static int vmm_measure(struct probe *p, const struct vmm_case *c, struct vmm_times *times)
{
	uint32_t calls = p->options->quick ? QUICK_CALLS : CALLS;
	int err = 0;

	for (uint32_t i = 0; i <= calls && !err; i++) {
		double create_ns[2], ns[4] = {0};

		err = chunk_once(p, c, false, &create_ns[0], ns);
		if (!err)
			err = chunk_once(p, c, true, &create_ns[1], ns);
		if (err || !i)
			continue;
		fit_add(&times->create[0], create_ns[0]);
		fit_add(&times->create[1], create_ns[1]);
		fit_add(&times->map, ns[0]);
		fit_add(&times->set_access, ns[1]);
		if (c->nr_devices > 1)
			fit_add(&times->set_access_more, ns[2]);
		fit_add(&times->unmap, ns[3]);
	}
	return err;
}

static void vmm_keep(struct probe *p, const struct vmm_times *times)
{
	const struct weir_vmm_desc *estimate = &p->estimates->vmm;
	struct weir_vmm_desc *vmm = &p->desc->vmm;

	vmm->map_ns = probe_round(probe_keep(p, &times->map, (double)estimate->map_ns,
					     "mapping a granule, without access", "vmm.map_ns"));
	vmm->set_access_ns =
		probe_round(probe_keep(p, &times->set_access, (double)estimate->set_access_ns,
				       "giving one device access", "vmm.set_access_ns"));
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
					       "unmapping a granule", "vmm.unmap_ns"));
	vmm->create_hbm_ns = probe_round(probe_keep(
		p, &times->create[1], (double)estimate->create_hbm_ns,
		"creating a chunk of one granule, mapped at its alias", "vmm.create_hbm_ns"));
	vmm->create_host_ns = probe_round(probe_keep(
		p, &times->create[0], (double)estimate->create_host_ns,
		"creating a chunk of one granule, mapped at its alias", "vmm.create_host_ns"));
}

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

int probe_vmm(struct probe *p)
{
	uint64_t granularity = p->b->desc.vmm.granularity_bytes;
	struct vmm_case c = {.own = p->desc->device[p->device].memory};
	struct vmm_times times = {0};
	int err = probe_step(p, "mapping calls");

	while (p->desc->memory[c.host].kind != WEIR_MEMORY_HOST)
		c.host++;
	for (uint32_t d = 0; d < p->desc->nr_devices; d++)
		if (reaches(p->desc, d, c.own)) {
			c.devices |= 1u << d;
			c.nr_devices++;
		}
	if (!err)
		err = p->b->ops->va_reserve(p->b, granularity, granularity, &c.addr);
	if (err)
		return err;
	err = vmm_measure(p, &c, &times);
	p->b->ops->va_release(p->b, c.addr, granularity);
	if (!err)
		vmm_keep(p, &times);
	return err;
}
