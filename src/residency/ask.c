/* SPDX-License-Identifier: Apache-2.0 */
/* A policy's place in a space's decisions: see src/policy/policy.h. */
#include <errno.h>

#include "src/base/log.h"
#include "src/policy/policy.h"
#include "src/residency/residency.h"

int weir_space_set_policy(struct weir_space *space, struct weir_policy *policy)
{
	int err = 0;

	pthread_mutex_lock(&space->lock);
	if (space->mode == WEIR_FIXED) {
		log_error("space: a fixed one takes no decisions that a policy could take");
		err = -EINVAL;
	} else {
		space->residency->policy = policy;
	}
	pthread_mutex_unlock(&space->lock);
	return err;
}
