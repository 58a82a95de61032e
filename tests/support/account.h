/* SPDX-License-Identifier: Apache-2.0 */
/* An account of a memory with one client, which is not asked, for tests of what takes memory
 * through it. Functions assert. */
#ifndef WEIR_TEST_ACCOUNT_H
#define WEIR_TEST_ACCOUNT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "src/phys/phys.h"

struct test_account {
	struct phys_memory memory;
	struct phys_client client;
};

static inline void test_account_open(struct test_account *account, struct backend *b,
				     uint32_t memory, uint64_t budget_bytes)
{
	assert_int_equal(phys_memory_init(&account->memory, b, memory), 0);
	phys_client_add(&account->client, &account->memory, "the test", budget_bytes);
}

/* Nothing is held. */
static inline void test_account_close(struct test_account *account)
{
	assert_int_equal(phys_check(&account->memory), 0);
	assert_int_equal(account->memory.held_bytes, 0);
	phys_client_del(&account->client);
	phys_memory_fini(&account->memory);
}

#endif
