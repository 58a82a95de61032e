/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The managers there are, in one visible array, and finding one by its name on the command line;
 * and what they need not all implement.
 */
#include "managers/manager.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/log.h"
#include "src/cost/cost.h"
#include "src/trace/format.h"

const struct manager_ops *const manager_list[] = {
	&manager_native,
	&manager_malloc,
	&manager_zerocopy,
	&manager_uvm,
	&manager_weir,
	&manager_weir_paged,
	NULL,
};

/* ------------------------------------------------------------------ names */

#define POLICY " policy="

/* Bytes of a name without its policy. */
static size_t name_length(const char *name)
{
	const char *policy = strstr(name, POLICY);

	return policy ? (size_t)(policy - name) : strlen(name);
}

const char *manager_policy(const char *name)
{
	const char *policy = name + name_length(name);

	return *policy ? policy + strlen(POLICY) : NULL;
}

const struct manager_ops *manager_find(const char *name)
{
	size_t length = strcspn(name, "+ ");

	for (unsigned int i = 0; manager_list[i]; i++)
		if (strlen(manager_list[i]->name) == length &&
		    memcmp(manager_list[i]->name, name, length) == 0)
			return manager_list[i];
	return NULL;
}

static bool ends_with(const char *text, size_t length, const char *end)
{
	size_t bytes = strlen(end);

	return length >= bytes && memcmp(text + length - bytes, end, bytes) == 0;
}

bool manager_is_near(const char *name)
{
	size_t length = name_length(name);

	return ends_with(name, length, "+near") || ends_with(name, length, "+near-copy");
}

/* ------------------------------------------------------------------ policies */

static int open_policy(struct manager *m, const char *spec)
{
	struct weir_policy *policy;
	char why[256];
	int err = weir_policy_open(spec, &policy, why, sizeof(why));

	if (err) {
		log_error("policy '%s': %s", spec, why);
		return err;
	}
	err = m->ops->set_policy(m, policy);
	if (err)
		weir_policy_close(policy);
	else
		m->policy = policy;
	return err;
}

void manager_policy_stats(const struct manager *m, struct manager_policy_stats *out)
{
	struct weir_policy_global global;

	*out = (struct manager_policy_stats){.set = m->policy != NULL};
	if (!m->policy)
		return;
	weir_policy_query(m->policy, &out->counts);
	while (out->nr_globals < MANAGER_GLOBALS_MAX &&
	       weir_policy_global_nth(m->policy, out->nr_globals, &global)) {
		(void)snprintf(out->global[out->nr_globals].name, sizeof(out->global[0].name), "%s",
			       global.name);
		global.name = NULL;
		out->global[out->nr_globals++].is = global;
	}
}

/* ------------------------------------------------------------------ managers */

/* Create one whose name is taken apart. */
static int create(const char *name, const struct manager_ops *ops,
		  const struct manager_config *config, struct manager **out)
{
	const char *policy = manager_policy(name);
	struct manager *m;
	int err;

	if (config->nr_devices > 1 && !ops->launch_on) {
		log_error("%s: its kernels run on one device, not on %u", name, config->nr_devices);
		return -ENOTSUP;
	}
	if (policy && !ops->set_policy) {
		log_error("%s takes no decisions that a policy could take", ops->name);
		return -ENOTSUP;
	}
	err = ops->create(config, &m);
	if (!err && policy) {
		err = open_policy(m, policy);
		if (err)
			ops->destroy(m);
	}
	if (!err)
		*out = m;
	return err;
}

int manager_create(const char *name, const struct manager_config *config, struct manager **out)
{
	const struct manager_ops *ops = manager_find(name);
	struct manager_config own = *config;
	size_t length = name_length(name), base = strcspn(name, "+ ");
	char *options;
	int err;

	if (!ops)
		return -ENOENT;
	/* A '+' that nothing follows is a name half written, not one without options. */
	if (base < length && (name[base] != '+' || base + 1 == length))
		return -EINVAL;
	options = base < length ? strndup(name + base + 1, length - base - 1) : strdup("");
	if (!options)
		return -ENOMEM;
	own.options = options;
	err = create(name, ops, &own, out);
	free(options);
	return err;
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

void manager_mark_pause(struct manager *m)
{
	if (m->ops->mark)
		m->ops->mark(m, TRACE_PAUSE);
}

int manager_explain(struct manager *m, struct explain **out)
{
	*out = NULL;
	return m->ops->explain ? m->ops->explain(m, out) : 0;
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
