/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/policy.h"

#include <string.h>

static int call(struct weir_policy *policy, enum policy_hook hook, void *context, uint64_t *budget,
		char *why, size_t why_bytes)
{
	struct test_policy *p = (struct test_policy *)policy;

	(void)budget, (void)why, (void)why_bytes;
	switch (hook) {
	case POLICY_ADMIT:
		return p->admit(p, context);
	case POLICY_VICTIM:
		return p->victim(p, context);
	case POLICY_FAULT:
		return p->fault(p, context);
	default:
		return p->moved(p, context);
	}
}

static bool global_nth(struct weir_policy *policy, uint32_t n, struct weir_policy_global *out)
{
	(void)policy, (void)n, (void)out;
	return false;
}

static const struct policy_form form = {.call = call, .global_nth = global_nth};

void test_policy_open(struct test_policy *p)
{
	memset(&p->base, 0, sizeof(p->base));
	if (policy_init(&p->base, &form, "test"))
		return;
	p->base.has[POLICY_ADMIT] = p->admit;
	p->base.has[POLICY_VICTIM] = p->victim;
	p->base.has[POLICY_FAULT] = p->fault;
	p->base.has[POLICY_MOVED] = p->moved;
}

void test_policy_close(struct test_policy *p)
{
	policy_fini(&p->base);
}
