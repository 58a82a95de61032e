/* SPDX-License-Identifier: Apache-2.0 */
/* A policy whose hooks are a test's own functions, with an argument. */
#ifndef WEIR_TEST_POLICY_H
#define WEIR_TEST_POLICY_H

#include "src/policy/policy.h"

struct test_policy {
	struct weir_policy base;
	/* Each is called with the policy, or NULL: it lacks the hook. */
	int (*admit)(struct test_policy *p, struct weir_policy_admit *q);
	int (*victim)(struct test_policy *p, struct weir_policy_victim *q);
	int (*fault)(struct test_policy *p, struct weir_policy_fault *q);
	int (*moved)(struct test_policy *p, struct weir_policy_moved *q);
	void *arg;
};

/* Make it one that can be set; the hooks are there. Then test_policy_close(). */
void test_policy_open(struct test_policy *p);
void test_policy_close(struct test_policy *p);

#endif
