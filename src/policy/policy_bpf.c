/* SPDX-License-Identifier: Apache-2.0 */
/* Policies in eBPF objects. */
#include <errno.h>
#include <stdio.h>

#include "src/policy/policy.h"

int policy_bpf_open(const char *path, const char *tunables, struct weir_policy **out, char *err,
		    size_t err_bytes)
{
	(void)tunables, (void)out;
	snprintf(err, err_bytes, "%s: objects are not built in", path);
	return -ENOSYS;
}
