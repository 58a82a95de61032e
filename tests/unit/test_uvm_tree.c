/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a fault brings of a block, against the sequences that the driver's rule gives.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "src/backend/sim/sim_uvm_tree.h"

/* Fault on the first missing page until none is; note how many are there after each fault. */
static uint32_t fill(uint32_t threshold, uint32_t nr_pages, uint32_t counts[UVM_PAGES])
{
	struct uvm_pages resident = {{0}};
	uint32_t nr = 0, page;

	while ((page = uvm_pages_next_missing(&resident, 0)) < nr_pages) {
		struct uvm_pages more = uvm_tree_bring(&resident, page, nr_pages, threshold);
		struct uvm_pages both = uvm_pages_and(&resident, &more);

		assert_true(uvm_pages_has(&more, page));
		assert_int_equal(uvm_pages_count(&both), 0);
		resident = uvm_pages_or(&resident, &more);
		counts[nr++] = uvm_pages_count(&resident);
	}
	assert_int_equal(uvm_pages_count(&resident), nr_pages);
	return nr;
}

static void expect_fill(uint32_t threshold, const uint32_t *want, uint32_t nr)
{
	uint32_t counts[UVM_PAGES] = {0};

	assert_int_equal(fill(threshold, UVM_PAGES, counts), nr);
	for (uint32_t i = 0; i < nr; i++)
		assert_int_equal(counts[i], want[i]);
}

static void test_tree_in_order(void **state)
{
	static const uint32_t stock[] = {16, 32, 64, 128, 256, 512};
	static const uint32_t eager[] = {32, 128, 512};
	static const uint32_t whole[] = {512};
	uint32_t counts[UVM_PAGES] = {0};

	(void)state;
	expect_fill(UVM_THRESHOLD, stock, 6);
	expect_fill(25, eager, 3);
	expect_fill(1, whole, 1);
	expect_fill(UVM_THRESHOLD_WHOLE, whole, 1);
	assert_int_equal(fill(75, UVM_PAGES, counts), 20);
	/* More than all of a subtree is never there: no prefetch at all. */
	assert_int_equal(fill(100, UVM_PAGES, counts), 512);
	assert_int_equal(counts[0], 1);
}

/* The last block of a range is shorter; subtrees end where it does. */
static void test_tree_short_block(void **state)
{
	uint32_t counts[UVM_PAGES] = {0};

	(void)state;
	assert_int_equal(fill(UVM_THRESHOLD, 1, counts), 1);
	assert_int_equal(fill(UVM_THRESHOLD, 16, counts), 1);
	assert_int_equal(fill(UVM_THRESHOLD, 17, counts), 1);
	assert_int_equal(fill(UVM_THRESHOLD, 40, counts), 2);
	assert_int_equal(counts[0], 16);
	assert_int_equal(fill(UVM_THRESHOLD_WHOLE, 300, counts), 1);
}

/* A level that is not dense enough does not stop a larger one. */
static void test_tree_skips_levels(void **state)
{
	struct uvm_pages resident = uvm_pages_range(64, 448), more;

	(void)state;
	more = uvm_tree_bring(&resident, 0, UVM_PAGES, UVM_THRESHOLD);
	assert_int_equal(uvm_pages_count(&more), 64);
	/* Missing are half of the lower half: its subtrees are too empty, the whole is not. */
	resident = uvm_pages_range(128, 384);
	more = uvm_tree_bring(&resident, 5, UVM_PAGES, UVM_THRESHOLD);
	assert_int_equal(uvm_pages_count(&more), 128);
	resident = uvm_pages_range(256, 240);
	more = uvm_tree_bring(&resident, 5, UVM_PAGES, UVM_THRESHOLD);
	assert_int_equal(uvm_pages_count(&more), 16);
}

static void test_tree_at_random(void **state)
{
	struct uvm_pages resident = {{0}}, seen = {{0}};
	uint32_t nr = 0;

	(void)state;
	for (uint32_t k = 0; k < UVM_PAGES; k++) {
		uint32_t page = uvm_random_page(k);
		struct uvm_pages more = uvm_pages_range(page, 1);

		assert_true(page < UVM_PAGES);
		assert_false(uvm_pages_has(&seen, page));
		seen = uvm_pages_or(&seen, &more);
		if (uvm_pages_has(&resident, page))
			continue;
		more = uvm_tree_bring(&resident, page, UVM_PAGES, UVM_THRESHOLD);
		resident = uvm_pages_or(&resident, &more);
		nr++;
	}
	assert_int_equal(uvm_pages_count(&seen), UVM_PAGES);
	/* 13 or 14 faults, of which the first ones bring 64 KiB each. */
	assert_in_range(nr, 13, 14);
}

static void test_pages_sets(void **state)
{
	struct uvm_pages a = uvm_pages_range(60, 10), b = uvm_pages_range(64, 200), set;

	(void)state;
	assert_int_equal(uvm_pages_count(&a), 10);
	assert_int_equal(uvm_pages_count(&b), 200);
	assert_true(uvm_pages_has(&b, 263));
	assert_false(uvm_pages_has(&b, 264));
	set = uvm_pages_and(&a, &b);
	assert_int_equal(uvm_pages_count(&set), 6);
	set = uvm_pages_or(&a, &b);
	assert_int_equal(uvm_pages_count(&set), 204);
	set = uvm_pages_without(&a, &b);
	assert_int_equal(uvm_pages_count(&set), 4);
	assert_int_equal(uvm_pages_next_missing(&a, 60), 70);
	assert_int_equal(uvm_pages_next_missing(&a, 59), 59);
	set = uvm_pages_range(0, UVM_PAGES);
	assert_int_equal(uvm_pages_next_missing(&set, 0), UVM_PAGES);
	assert_int_equal(uvm_pages_count(&set), UVM_PAGES);
	set = uvm_pages_range(7, 0);
	assert_int_equal(uvm_pages_count(&set), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tree_in_order),	  cmocka_unit_test(test_tree_short_block),
		cmocka_unit_test(test_tree_skips_levels), cmocka_unit_test(test_tree_at_random),
		cmocka_unit_test(test_pages_sets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
