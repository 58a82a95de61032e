/* SPDX-License-Identifier: Apache-2.0 */
/* What a search for levels remembers of trials: what they took, until another takes their place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "src/residency/plan_parts.h"

/* A place goes by the upper bits of a hash. */
#define SAME_PLACE(hash) ((hash) + 1)
#define OTHER_PLACE(hash) ((hash) ^ UINT64_C(1) << 63)

static void test_plan_rejected_until_replaced(void **state)
{
	const uint64_t hash = UINT64_C(0x123456789abcdef0);
	struct rejected *rejected = rejected_create();
	uint64_t work = 0;

	(void)state;
	assert_non_null(rejected);
	assert_false(rejected_find(rejected, hash, 0, &work));
	rejected_add(rejected, hash, 10, 7);
	assert_true(rejected_find(rejected, hash, 10, &work));
	assert_int_equal(work, 7);
	/* Whether it takes longer than it is known to is not known. */
	assert_false(rejected_find(rejected, hash, 11, &work));
	assert_false(rejected_find(rejected, SAME_PLACE(hash), 10, &work));

	rejected_add(rejected, OTHER_PLACE(hash), 20, 8);
	assert_true(rejected_find(rejected, hash, 10, &work));
	rejected_add(rejected, SAME_PLACE(hash), 30, 9);
	assert_false(rejected_find(rejected, hash, 10, &work));
	assert_true(rejected_find(rejected, SAME_PLACE(hash), 30, &work));
	assert_int_equal(work, 9);
	assert_true(rejected_find(rejected, OTHER_PLACE(hash), 15, &work));
	assert_int_equal(work, 8);
	rejected_destroy(rejected);
}

/* Hash 0, too, is found only once it was added. */
static void test_plan_rejected_zero(void **state)
{
	struct rejected *rejected = rejected_create();
	uint64_t work;

	(void)state;
	assert_non_null(rejected);
	assert_false(rejected_find(rejected, 0, 0, &work));
	rejected_add(rejected, 0, 1, 1);
	assert_true(rejected_find(rejected, 0, 1, &work));
	rejected_destroy(rejected);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plan_rejected_until_replaced),
		cmocka_unit_test(test_plan_rejected_zero),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
