/* SPDX-License-Identifier: Apache-2.0 */
/* Opening a policy of either form, by its name. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/policy/policy.h"

int weir_policy_open(const char *spec, struct weir_policy **out, char *err, size_t err_bytes)
{
	/* A directory's name may have a colon; a tunable's name and value have no '/'. */
	const char *slash = strrchr(spec, '/');
	const char *colon = strchr(slash ? slash : spec, ':');
	size_t nr = colon ? (size_t)(colon - spec) : strlen(spec);
	const char *tunables = colon ? colon + 1 : NULL;
	char *name = strndup(spec, nr);
	bool is_file;
	int ret;

	if (!name) {
		snprintf(err, err_bytes, "out of memory");
		return -ENOMEM;
	}
	for (const char *c = spec; *c; c++)
		if (iscntrl((unsigned char)*c)) {
			snprintf(err, err_bytes, "a policy's name has a control character in it");
			free(name);
			return -EINVAL;
		}
	is_file = slash || (nr > 2 && !strcmp(name + nr - 2, ".o"));
	ret = is_file ? policy_bpf_open(name, tunables, out, err, err_bytes)
		      : policy_c_open(name, tunables, out, err, err_bytes);
	free(name);
	return ret;
}

void weir_policy_close(struct weir_policy *policy)
{
	if (policy)
		policy->form->destroy(policy);
}
