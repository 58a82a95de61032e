/* SPDX-License-Identifier: Apache-2.0 */
/*
 * weir's mapped mode: a planned space; each launch is one bracket that names the launch's uses.
 * Without options its places are the device's own memory and the host's. With "near" they are other
 * devices' memories besides; with "near-copy" these are for copies, and not used in place.
 *
 * With several devices the space has all of them, each with a stream and the same budget.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "managers/manager.h"
#include "src/backend/machine.h"
#include "src/base/log.h"
#include "src/cost/cost.h"
#include "src/residency/explain.h"
#include "src/residency/residency.h"
#include "weir/trace.h"

#define USES_MAX 64u /* of one launch, of what the space has */

struct weir_manager {
	struct manager base;
	struct weir_space *space;
	struct weir_stream *stream[WEIR_DEVICES_MAX];
	uint32_t nr_devices;
	manager_where_fn where; /* NULL: nobody asked */
	void *where_arg;
	place_t *place; /* of max_blocks blocks, which no range exceeds; NULL: not asked yet */
	uint32_t max_blocks;
};

/* near: whether other devices' memories are used. */
static int read_options(const struct manager_config *config, bool *near, bool *copy_only)
{
	bool any = false;

	*copy_only = strcmp(config->options, "near-copy") == 0;
	*near = *copy_only || strcmp(config->options, "near") == 0;
	if (config->options[0] && !*near) {
		log_error("no options '%s'; there are weir, weir+near and weir+near-copy",
			  config->options);
		return -EINVAL;
	}
	for (uint32_t i = 0; i < WEIR_MEMORIES_MAX; i++)
		any |= config->near_bytes[i] != 0;
	if (*near && !any) {
		log_error("weir+%s: no other GPU's memory has a budget", config->options);
		return -EINVAL;
	}
	return 0;
}

/* The devices of a space, and what it may use of each memory. */
static void fill_config(const struct manager_config *config, uint32_t nr_devices, bool near,
			struct weir_space_config *out)
{
	const struct weir_machine_desc *desc = weir_machine_describe(config->machine);

	*out = (struct weir_space_config){.block_bytes = config->block_bytes, .mode = WEIR_PLANNED};
	if (near)
		memcpy(out->budget_bytes, config->near_bytes, sizeof(out->budget_bytes));
	for (uint32_t i = 0; i < nr_devices; i++) {
		out->devices |= WEIR_MEM_DEVICE(config->device + i);
		out->budget_bytes[desc->device[config->device + i].memory] =
			config->gpu_budget_bytes;
	}
	out->budget_bytes[cost_host_memory(desc)] = config->host_budget_bytes;
}

/* On error some of them are there. */
static int streams_create(struct weir_manager *m, struct weir_machine *machine)
{
	int err = 0;

	for (uint32_t i = 0; i < m->nr_devices && !err; i++)
		err = weir_stream_create(machine, m->base.device + i, &m->stream[i]);
	return err;
}

static void streams_destroy(struct weir_manager *m)
{
	for (uint32_t i = 0; i < m->nr_devices; i++)
		weir_stream_destroy(m->stream[i]);
}

static int weir_create(const struct manager_config *config, struct manager **out)
{
	const struct weir_machine_desc *desc = weir_machine_describe(config->machine);
	const uint32_t nr_devices = config->nr_devices ? config->nr_devices : 1;
	struct weir_space_config space;
	struct weir_manager *m;
	bool near, copy_only;
	int err = read_options(config, &near, &copy_only);

	if (err)
		return err;
	if (config->device >= desc->nr_devices || nr_devices > desc->nr_devices - config->device)
		return -EINVAL;
	m = calloc(1, sizeof(*m));
	if (!m)
		return -ENOMEM;
	m->base.ops = &manager_weir;
	m->base.backend = machine_backend(config->machine);
	m->base.device = config->device;
	m->nr_devices = nr_devices;
	fill_config(config, nr_devices, near, &space);
	err = streams_create(m, config->machine);
	if (!err)
		err = weir_space_create(config->machine, &space, &m->space);
	if (err) {
		streams_destroy(m);
		free(m);
		return err;
	}
	space_set_plan_maker(m->space, config->plans);
	if (copy_only)
		space_near_copy_only(m->space);
	if (near)
		space_near_rate(m->space, config->near_bytes_per_s);
	*out = &m->base;
	return 0;
}

static void weir_destroy(struct manager *base)
{
	struct weir_manager *m = (struct weir_manager *)base;

	if (!m)
		return;
	weir_space_destroy(m->space);
	weir_policy_close(base->policy);
	streams_destroy(m);
	free(m->place);
	free(m);
}

static int manager_set_policy(struct manager *base, struct weir_policy *policy)
{
	return weir_space_set_policy(((struct weir_manager *)base)->space, policy);
}

/* The stream of what is used first there; of several devices nobody knows that. */
static struct weir_stream *only_stream(const struct weir_manager *m)
{
	return m->nr_devices == 1 ? m->stream[0] : NULL;
}

static int manager_alloc(struct manager *base, uint64_t bytes, const char *name, void **addr)
{
	struct weir_manager *m = (struct weir_manager *)base;

	(void)name;
	return weir_alloc(m->space, bytes, only_stream(m), addr);
}

static void manager_free(struct manager *base, void *addr)
{
	struct weir_manager *m = (struct weir_manager *)base;

	(void)weir_free(m->space, addr, only_stream(m));
}

static int prefer(struct manager *base, void *addr, enum manager_where where)
{
	const struct weir_machine_desc *desc = &base->backend->desc;

	return weir_advise(((struct weir_manager *)base)->space, addr, WEIR_ADVISE_PREFER_MEMORY,
			   where == MANAGER_OWN ? desc->device[base->device].memory
						: cost_host_memory(desc));
}

static void *manager_stream(struct manager *base)
{
	return weir_stream_native(((struct weir_manager *)base)->stream[0]);
}

static int manager_tell_where(struct manager *base, manager_where_fn fn, void *arg)
{
	struct weir_manager *m = (struct weir_manager *)base;
	const struct weir_memory_desc *memory = base->backend->desc.memory;
	struct weir_space_stats stats;
	uint64_t bytes = memory[0].bytes;

	if (m->nr_devices > 1)
		return -ENOTSUP;
	if (!m->place) {
		weir_space_query(m->space, &stats);
		for (uint32_t i = 1; i < base->backend->desc.nr_memories; i++)
			bytes += memory[i].bytes;
		m->max_blocks = (uint32_t)(bytes / stats.block_bytes);
		m->place = malloc(m->max_blocks * sizeof(*m->place));
		if (!m->place)
			return -ENOMEM;
	}
	m->where = fn;
	m->where_arg = arg;
	return 0;
}

/* Inside a bracket: what it names stays where it is. */
static void tell_uses(struct weir_manager *m, const struct weir_launch *launch)
{
	for (uint32_t u = 0; u < launch->nr_uses; u++) {
		const struct weir_use *use = &launch->uses[u];
		uint32_t nr = space_where(m->space, use->addr, use->bytes, m->place, m->max_blocks);

		for (uint32_t i = 0; i < nr; i++)
			m->place[i] = m->place[i] == PLACE_OWN		   ? MANAGER_OWN
				      : m->place[i] < space_host(m->space) ? MANAGER_NEAR
									   : MANAGER_HOST;
		m->where(m->where_arg, u, m->place, nr);
	}
}

/* Brackets are about what the space has; a launch may also use memory that is the device's own. */
static int manager_launch_on(struct manager *base, uint32_t index, const struct weir_launch *launch)
{
	struct weir_manager *m = (struct weir_manager *)base;
	struct weir_stream *stream;
	struct weir_use uses[USES_MAX];
	uint32_t nr = 0;
	int err, err_end;

	if (index >= m->nr_devices)
		return -EINVAL;
	stream = m->stream[index];
	for (uint32_t i = 0; i < launch->nr_uses; i++) {
		if (!space_has(m->space, launch->uses[i].addr))
			continue;
		if (nr == USES_MAX)
			return -EINVAL;
		uses[nr++] = launch->uses[i];
	}
	if (!nr)
		return weir_stream_launch(stream, launch);
	err = weir_begin(m->space, stream, uses, nr);
	if (err)
		return err;
	if (m->where)
		tell_uses(m, launch);
	err = weir_stream_launch(stream, launch);
	err_end = weir_end(m->space, stream);
	return err ? err : err_end;
}

static int manager_launch(struct manager *base, const struct weir_launch *launch)
{
	return manager_launch_on(base, 0, launch);
}

static int manager_write(struct manager *base, void *addr, const void *data, uint64_t bytes)
{
	return weir_write(((struct weir_manager *)base)->space, addr, data, bytes);
}

static int manager_read(struct manager *base, void *data, const void *addr, uint64_t bytes)
{
	return weir_read(((struct weir_manager *)base)->space, data, addr, bytes);
}

static int manager_advise(struct manager *base, void *addr, enum weir_advice advice, uint32_t where)
{
	return weir_advise(((struct weir_manager *)base)->space, addr, advice, where);
}

static int manager_prefetch(struct manager *base, void *addr, uint64_t bytes, uint32_t memory)
{
	return weir_prefetch(((struct weir_manager *)base)->space, addr, bytes, memory, NULL);
}

static int manager_set_budget(struct manager *base, uint32_t memory, uint64_t bytes)
{
	return weir_space_set_budget(((struct weir_manager *)base)->space, memory, bytes);
}

static int manager_sync(struct manager *base)
{
	struct weir_manager *m = (struct weir_manager *)base;
	int err = 0, err_space;

	for (uint32_t i = 0; i < m->nr_devices; i++) {
		int err_stream = weir_stream_sync(m->stream[i]);

		err = err ? err : err_stream;
	}
	err_space = weir_space_sync(m->space);
	return err ? err : err_space;
}

static void manager_stats(struct manager *base, struct manager_stats *out)
{
	struct weir_manager *m = (struct weir_manager *)base;
	const struct weir_machine_desc *desc = &base->backend->desc;
	struct weir_space_stats stats;
	uint32_t host_link;

	weir_space_query(m->space, &stats);
	*out = (struct manager_stats){.block_bytes = stats.block_bytes,
				      .movable_blocks = space_movable_chunks(m->space)};
	manager_policy_stats(base, &out->policy);
	for (uint32_t i = 0; i < desc->nr_memories; i++)
		out->peak_bytes[i] = stats.memory[i].peak_bytes;
	host_link = cost_host_link(desc, base->device);
	memcpy(out->bytes, stats.link_bytes[host_link], sizeof(out->bytes));
	memcpy(out->near, stats.link_bytes, sizeof(out->near));
	memset(out->near[host_link], 0, sizeof(out->near[host_link]));
}

static void manager_mark(struct manager *base, const char *name)
{
	weir_space_trace_mark(((struct weir_manager *)base)->space, name);
}

static int manager_trace(struct manager *base, const char *path)
{
	return weir_space_trace(((struct weir_manager *)base)->space, path);
}

static int get_explain(struct manager *base, struct explain **out)
{
	return explain_get(((struct weir_manager *)base)->space, out);
}

static int manager_check(struct manager *base)
{
	return weir_space_check(((struct weir_manager *)base)->space);
}

const struct manager_ops manager_weir = {
	.name = "weir",
	.help = "planned residency: blocks move ahead of use, the rest is used in place; +near, "
		"+near-copy: in other GPUs' memory, too",
	.create = weir_create,
	.destroy = weir_destroy,
	.set_policy = manager_set_policy,
	.alloc = manager_alloc,
	.prefer = prefer,
	.free = manager_free,
	.stream = manager_stream,
	.launch = manager_launch,
	.launch_on = manager_launch_on,
	.tell_where = manager_tell_where,
	.write = manager_write,
	.read = manager_read,
	.advise = manager_advise,
	.prefetch = manager_prefetch,
	.set_budget = manager_set_budget,
	.sync = manager_sync,
	.stats = manager_stats,
	.mark = manager_mark,
	.trace = manager_trace,
	.explain = get_explain,
	.check = manager_check,
};
