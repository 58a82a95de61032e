/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The managers there are, in one visible array, and finding one by its name on the command line;
 * and what they need not all implement.
 */
#include "managers/manager.h"

#include <errno.h>
#include <string.h>

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
		return ops->create(&own, out);
	}
	return -ENOENT;
}

bool manager_is_near(const char *name)
{
	return strcmp(name, "weir+near") == 0 || strcmp(name, "weir+near-copy") == 0;
}

int manager_alloc_constant(struct manager *m, uint64_t bytes, const char *name, void **addr)
{
	return m->ops->alloc_constant ? m->ops->alloc_constant(m, bytes, name, addr)
				      : m->ops->alloc(m, bytes, name, addr);
}

int manager_wait(struct manager *m)
{
	return m->ops->wait ? m->ops->wait(m) : m->ops->sync(m);
}
