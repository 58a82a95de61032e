/* SPDX-License-Identifier: Apache-2.0 */
/*
 * uvm: the driver's managed memory, one allocation per tensor, moved by the driver's own faults.
 * Options: prefetch brings each allocation to the GPU as it is made; max is a policy that brings
 * whole blocks of 2 MiB at each fault, which stock drivers do not have; near has what is drained in
 * another GPU's memory instead of the host's, for faults between GPUs, on real ones alone.
 *
 * The budgets are limits of what managed memory fills; beyond the GPU's it is evicted to the host.
 * On a real GPU there is no such limit to set, and no more than the budget can be had.
 *
 * A policy takes the driver's decisions, on simulated machines alone.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "managers/plain.h"
#include "managers/tensors.h"
#include "src/base/log.h"
#include "src/base/util.h"
#include "src/cost/cost.h"

struct uvm_manager {
	struct plain plain;
	struct tensors tensors;
	uint64_t peak_bytes; /* of tensors.bytes */
	struct backend_managed setup;
	struct backend_managed_stats before;
	bool prefetch;
	uint32_t drained;	/* the memory that it is drained to */
	uint64_t room_bytes;	/* of the device's memory, for managed memory */
	manager_where_fn where; /* NULL: nobody asked */
	void *where_arg;
	uint8_t *own; /* max_own times MANAGER_OWN */
	uint64_t max_own;
};

static struct uvm_manager *uvm_of(struct manager *m)
{
	return (struct uvm_manager *)m;
}

/* Set what options ask for, each at most once. */
static int read_options(const char *options, bool *prefetch, bool *max, bool *near)
{
	for (const char *at = options; *at;) {
		size_t length = strcspn(at, "+");
		bool *flag = NULL;

		if (!strncmp(at, "prefetch", length) && length == strlen("prefetch"))
			flag = prefetch;
		else if (!strncmp(at, "max", length) && length == strlen("max"))
			flag = max;
		else if (!strncmp(at, "near", length) && length == strlen("near"))
			flag = near;
		if (!flag || *flag || (at[length] && !at[length + 1])) {
			log_error("no options '%s'; there are uvm, uvm+prefetch, uvm+max, "
				  "uvm+prefetch+max and uvm+near",
				  options);
			return -EINVAL;
		}
		*flag = true;
		at += length + (at[length] == '+');
	}
	return 0;
}

/* What managed memory can have of the device's: a simulated machine's has the program's context. */
static uint64_t managed_room(const struct manager_config *config, uint64_t budget_bytes)
{
	const struct weir_machine_desc *desc = weir_machine_describe(config->machine);
	uint64_t bytes = desc->memory[desc->device[config->device].memory].bytes;

	return MIN(budget_bytes, bytes - desc->uvm.context_bytes);
}

static int uvm_create(const struct manager_config *config, struct manager **out)
{
	struct uvm_manager *self = calloc(1, sizeof(*self));
	struct backend_managed setup = {.device = config->device,
					.gpu_bytes = config->gpu_budget_bytes,
					.host_bytes = config->host_budget_bytes};
	struct manager_config plain = *config;
	struct backend *b;
	bool near = false;
	int err;

	if (!self)
		return -ENOMEM;
	err = read_options(config->options ? config->options : "", &self->prefetch,
			   &setup.whole_blocks, &near);
	self->drained = cost_host_memory(weir_machine_describe(config->machine));
	if (!err && near)
		err = plain_near_memory(config, &self->drained);
	if (err)
		goto err_free;
	plain.options = "";
	err = plain_init(&self->plain, &manager_uvm, &plain, PLAIN_OWN);
	if (err)
		goto err_free;
	b = self->plain.manager.backend;
	err = b->managed->setup(b, &setup);
	if (err)
		goto err_fini;
	self->setup = setup;
	(void)b->managed->stats(b, config->device, &self->before);
	self->room_bytes = managed_room(config, self->plain.budget_bytes);
	*out = &self->plain.manager;
	return 0;

err_fini:
	plain_fini(&self->plain);
err_free:
	free(self);
	return err;
}

static void uvm_free(struct manager *m, void *addr)
{
	if (tensors_take(&uvm_of(m)->tensors, addr))
		m->backend->managed->free(m->backend, addr);
}

static int uvm_set_policy(struct manager *m, struct weir_policy *policy)
{
	struct uvm_manager *self = uvm_of(m);

	self->setup.policy = policy;
	return m->backend->managed->setup(m->backend, &self->setup);
}

static void uvm_destroy(struct manager *m)
{
	struct uvm_manager *self = uvm_of(m);
	void *addr;

	if (!m)
		return;
	(void)plain_sync(m); /* an error of queued work has nobody left to hear it */
	while ((addr = tensors_any(&self->tensors)) != NULL)
		uvm_free(m, addr);
	if (m->policy)
		(void)uvm_set_policy(m, NULL);
	weir_policy_close(m->policy);
	plain_fini(&self->plain);
	free(self->own);
	free(self);
}

static int uvm_alloc(struct manager *m, uint64_t bytes, const char *name, void **addr)
{
	struct uvm_manager *self = uvm_of(m);
	struct backend *b = m->backend;
	void *got;
	int err;

	(void)name;
	if (!bytes)
		return -EINVAL;
	err = b->managed->alloc(b, bytes, &got);
	if (err)
		return err;
	if (self->prefetch) {
		err = b->managed->prefetch(b, self->plain.stream, got, bytes, self->plain.memory);
		if (err)
			goto err_free;
	}
	err = tensors_add(&self->tensors, got, bytes);
	if (err)
		goto err_free;
	if (self->peak_bytes < self->tensors.bytes)
		self->peak_bytes = self->tensors.bytes;
	*addr = got;
	return 0;

err_free:
	b->managed->free(b, got);
	return err;
}

/* What undoes all that the managers pass on, of the device's own use. */
static int advise_nothing(struct backend *b, void *addr, uint64_t bytes, uint32_t device)
{
	int err = b->managed->advise(b, addr, bytes, BACKEND_ADVICE_UNSET_READ_MOSTLY, 0);

	if (!err)
		err = b->managed->advise(b, addr, bytes, BACKEND_ADVICE_UNSET_PREFERRED, 0);
	if (!err)
		err = b->managed->advise(b, addr, bytes, BACKEND_ADVICE_UNSET_ACCESSED_BY, device);
	return err;
}

/* cudaMemAdvise has its like for each. */
static int uvm_advise(struct manager *m, void *addr, enum weir_advice advice, uint32_t where)
{
	static const enum backend_advice like[] = {
		[WEIR_ADVISE_PREFER_MEMORY] = BACKEND_ADVICE_PREFERRED,
		[WEIR_ADVISE_READ_MOSTLY] = BACKEND_ADVICE_READ_MOSTLY,
		[WEIR_ADVISE_ACCESSED_BY] = BACKEND_ADVICE_ACCESSED_BY,
	};
	const void *begin;
	uint64_t bytes = tensors_find(&uvm_of(m)->tensors, addr, &begin);

	if (!bytes || begin != addr || advice > WEIR_ADVISE_ACCESSED_BY)
		return -EINVAL;
	if (advice == WEIR_ADVISE_DEFAULT)
		return advise_nothing(m->backend, addr, bytes, m->device);
	return m->backend->managed->advise(m->backend, addr, bytes, like[advice], where);
}

static int uvm_prefetch(struct manager *m, void *addr, uint64_t bytes, uint32_t memory)
{
	const struct plain *plain = &uvm_of(m)->plain;

	if (memory != plain->memory && memory != cost_host_memory(&m->backend->desc))
		return -ENOTSUP;
	return m->backend->managed->prefetch(m->backend, plain->stream, addr, bytes, memory);
}

/* ------------------------------------------------------------------ where blocks are */

static int uvm_tell_where(struct manager *m, manager_where_fn fn, void *arg)
{
	struct uvm_manager *self = uvm_of(m);
	struct backend_managed_stats stats;

	/* What a real driver copies nobody knows, so that there is nothing to compare. */
	if (fn && m->backend->managed->stats(m->backend, m->device, &stats))
		return -ENOTSUP;
	self->where = fn;
	self->where_arg = arg;
	return 0;
}

/* All that a launch names is brought to the device, at the latest as it is touched. */
static int tell_use(struct uvm_manager *self, uint32_t u, const struct weir_use *use)
{
	const void *begin = NULL;
	uint64_t first, nr;
	uint8_t *own;

	if (!tensors_find(&self->tensors, use->addr, &begin))
		return -EINVAL;
	first = (uint64_t)((const char *)use->addr - (const char *)begin);
	nr = (first + use->bytes - 1) / BACKEND_MANAGED_BLOCK_BYTES -
	     first / BACKEND_MANAGED_BLOCK_BYTES + 1;
	if (nr > self->max_own) {
		own = realloc(self->own, nr);
		if (!own)
			return -ENOMEM;
		memset(own, MANAGER_OWN, nr);
		self->own = own;
		self->max_own = nr;
	}
	self->where(self->where_arg, u, self->own, (uint32_t)nr);
	return 0;
}

static int uvm_launch(struct manager *m, const struct weir_launch *launch)
{
	struct uvm_manager *self = uvm_of(m);
	int err = 0;

	for (uint32_t u = 0; self->where && u < launch->nr_uses && !err; u++)
		err = tell_use(self, u, &launch->uses[u]);
	return err ? err : plain_launch(m, launch);
}

/* ------------------------------------------------------------------ the rest */

#define PAGE_BYTES 4096u

/* Draining, on its way. */
struct draining {
	struct uvm_manager *self;
	int err; /* the first */
};

static void drain_one(void *arg, void *addr, uint64_t bytes)
{
	struct draining *draining = arg;
	const struct plain *plain = &draining->self->plain;
	struct backend *b = plain->manager.backend;

	if (!draining->err)
		draining->err = b->managed->prefetch(b, plain->stream, addr, bytes,
						     draining->self->drained);
}

/* The CPU has each page mapped, as it has of data that it made. */
static void look_one(void *arg, void *addr, uint64_t bytes)
{
	(void)arg;
	for (uint64_t i = 0; i < bytes; i += PAGE_BYTES)
		(void)*((volatile const char *)addr + i);
}

/* All of it to the host, and as if the CPU had filled it: a real driver has to take pages away from
 * the CPU, and the simulated one always counts that. Or to another GPU, where nobody uses it. */
static int uvm_drain(struct manager *m)
{
	struct draining draining = {.self = uvm_of(m)};
	bool host = draining.self->drained == cost_host_memory(&m->backend->desc);
	int err;

	tensors_each(&draining.self->tensors, drain_one, &draining);
	err = plain_sync(m);
	if (!draining.err && !err && host && plain_stream(m))
		tensors_each(&draining.self->tensors, look_one, NULL);
	return draining.err ? draining.err : err;
}

static void uvm_stats(struct manager *m, struct manager_stats *out)
{
	const struct uvm_manager *self = uvm_of(m);
	struct backend_managed_stats now;

	plain_stats(m, out);
	manager_policy_stats(m, &out->policy);
	out->peak_bytes[self->plain.memory] = self->peak_bytes;
	if (m->backend->managed->stats(m->backend, m->device, &now))
		return;
	out->block_bytes = BACKEND_MANAGED_BLOCK_BYTES;
	out->movable_blocks = self->room_bytes / BACKEND_MANAGED_BLOCK_BYTES;
	out->nr_faults = now.nr_faults - self->before.nr_faults;
	out->nr_first_touches = now.nr_first_touches - self->before.nr_first_touches;
	for (int i = 0; i < BACKEND_DIRECTION_NR; i++)
		for (int cause = 0; cause < WEIR_CAUSE_NR; cause++)
			out->bytes[i][cause] += now.bytes[i][cause] - self->before.bytes[i][cause];
	out->peak_bytes[self->plain.memory] = now.gpu_peak_bytes;
	out->peak_bytes[cost_host_memory(&m->backend->desc)] = now.host_peak_bytes;
}

static int uvm_check(struct manager *m)
{
	return tensors_check(&uvm_of(m)->tensors);
}

const struct manager_ops manager_uvm = {
	.name = "uvm",
	.help = "the driver's managed memory; +prefetch, +max; +near: between GPUs",
	.create = uvm_create,
	.destroy = uvm_destroy,
	.set_policy = uvm_set_policy,
	.alloc = uvm_alloc,
	.free = uvm_free,
	.stream = plain_stream,
	.launch = uvm_launch,
	.tell_where = uvm_tell_where,
	.drain = uvm_drain,
	.write = plain_write,
	.read = plain_read,
	.advise = uvm_advise,
	.prefetch = uvm_prefetch,
	.sync = plain_sync,
	.stats = uvm_stats,
	.check = uvm_check,
};
