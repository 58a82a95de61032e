/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The managers there are, in one visible array, and finding one by its name on the command line;
 * and what they need not all implement.
 */
#include "managers/manager.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "src/base/log.h"
#include "src/cost/cost.h"

const struct manager_ops *const manager_list[] = {
	&manager_native,
	&manager_malloc,
	&manager_zerocopy,
	&manager_uvm,
	&manager_weir,
	&manager_weir_paged,
	NULL,
};

int manager_create(const char *name, const struct manager_config *config, struct manager **out)
{
	size_t length = strcspn(name, "+");

	for (unsigned int i = 0; manager_list[i]; i++) {
		const struct manager_ops *ops = manager_list[i];
		struct manager_config own = *config;

		if (strlen(ops->name) != length || memcmp(ops->name, name, length) != 0)
			continue;
		own.options = name[length] ? name + length + 1 : "";
		/* A '+' that nothing follows is a name half written, not one without options. */
		if (name[length] && !own.options[0])
			return -EINVAL;
		if (own.nr_devices > 1 && !ops->launch_on) {
			log_error("%s: its kernels run on one device, not on %u", name,
				  own.nr_devices);
			return -ENOTSUP;
		}
		return ops->create(&own, out);
	}
	return -ENOENT;
}

bool manager_is_near(const char *name)
{
	const char *last = strrchr(name, '+');

	return last && (strcmp(last, "+near") == 0 || strcmp(last, "+near-copy") == 0);
}

int manager_alloc_constant(struct manager *m, uint64_t bytes, const char *name, void **addr)
{
	return m->ops->alloc_constant ? m->ops->alloc_constant(m, bytes, name, addr)
				      : m->ops->alloc(m, bytes, name, addr);
}

void manager_mark_epoch(struct manager *m, uint32_t done, uint32_t total)
{
	char name[32];

	(void)snprintf(name, sizeof(name), "epoch %" PRIu32, done + 1);
	if (m->ops->mark)
		m->ops->mark(m, done < total ? name : "end");
}

int manager_prefer(struct manager *m, void *addr, enum manager_where where)
{
	return m->ops->prefer ? m->ops->prefer(m, addr, where) : 0;
}

int manager_wait(struct manager *m)
{
	return m->ops->wait ? m->ops->wait(m) : m->ops->sync(m);
}

uint64_t *manager_traffic(const struct manager *m, uint32_t memory, enum backend_direction way,
			  enum weir_cause cause, struct manager_stats *stats)
{
	const struct weir_machine_desc *desc = &m->backend->desc;
	const uint32_t own = desc->device[m->device].memory;
	enum weir_direction direction = WEIR_B_TO_A;
	uint32_t link;

	if (memory == cost_host_memory(desc))
		return &stats->bytes[way][cause];
	link = (uint32_t)cost_link_find(desc, memory, own);
	if (desc->link[link].a == (way == BACKEND_TO_DEVICE ? memory : own))
		direction = WEIR_A_TO_B;
	return &stats->near[link][direction][cause];
}
