/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A kernel that writes where nothing is mapped: the error is told once, nothing waits for ever, and
 * closing works. In a process of its own, since a GPU's context does not come back from it.
 *
 * Links: backend-cases
 */
#include "tests/contract/cases/cases.h"
#include "tests/support/driver.h"

static int open_cuda(struct backend **out)
{
	return test_cuda_open(&test_fake_config, out);
}

/* What a broken context holds goes when the process ends: only the fake driver can tell. */
static void nothing_left(struct contract *c)
{
	if (test_machine_kind() == TEST_FAKE)
		test_cuda_nothing_left(c->trapped ? "must not write" : NULL);
}

int main(void)
{
	static const struct contract_target target = {"cuda", open_cuda, NULL, nothing_left,
						      CAN_BYTES | CAN_WAIT | CAN_TRAP};
	const struct CMUnitTest tests[] = {CONTRACT_TEST(contract_trap_is_told_once, target)};

	return cmocka_run_group_tests(tests, test_cuda_required, NULL);
}
