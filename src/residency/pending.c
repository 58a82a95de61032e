/* SPDX-License-Identifier: Apache-2.0 */
/* Actions of a plan that are under way: follow.c carries them out, it and resume.c add some. */
#include <stdlib.h>

#include "src/residency/residency.h"

bool pending_add(struct planner *p, const struct pending_action *action)
{
	if (p->nr_pending == p->max_pending) {
		uint32_t max = MAX(64u, p->max_pending * 2);
		struct pending_action *pending = realloc(p->pending, max * sizeof(*pending));

		if (!pending)
			return false;
		p->pending = pending;
		p->max_pending = max;
	}
	p->pending[p->nr_pending++] = *action;
	return true;
}
