/* SPDX-License-Identifier: Apache-2.0 */
/* Results in order, and what is said of them: sets, cases, and sentences to the letter. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report_text.h"

#define GB 1e9
#define MAX 200

/* What a test is made of. */
static struct report_results results;
static struct report_sets sets;
static struct report_result storage[MAX];

/* Append a result; time 0: out of memory. */
static struct report_result *add(const char *machine, double nodes, double budget,
				 const char *manager, double epoch_s)
{
	struct report_result *r = &storage[results.nr++];

	results.result = storage;
	*r = (struct report_result){
		.workload = "gcn",
		.machine = machine,
		.manager = manager,
		.version = "1",
		.status = epoch_s > 0 ? RESULT_OK : RESULT_OUT_OF_MEMORY,
		.nodes = nodes,
		.slice = NAN,
		.hidden = NAN,
		.epochs = 2,
		.warm_up = 2,
		.host_budget_bytes = NAN,
		.block_bytes = NAN,
		.epoch_s = epoch_s > 0 ? epoch_s : NAN,
		.parts_s = NAN,
		.peak_bytes = NAN,
		.budget_bytes = budget,
		.bound_s = NAN,
		.needs_bytes = NAN,
		.in_memory_s = NAN,
		.copied_bytes = NAN,
		.least_bytes = NAN,
		.faults = NAN,
		.first_touches = NAN,
		.passed = -1,
	};
	return r;
}

static int setup(void **state)
{
	(void)state;
	results = (struct report_results){0};
	return 0;
}

static void make(void)
{
	char err[256];

	assert_int_equal(report_sets_make(&results, &sets, err, sizeof(err)), 0);
}

static int teardown(void **state)
{
	(void)state;
	report_sets_fini(&sets);
	return 0;
}

/* ------------------------------------------------------------------ sets */

/* Another amount of other GPUs' memory is another set; what uses none is in the first one. A case's
 * bound is that of results with two memories, others have their own. */
static void test_sets_by_other_gpus_memory(void **state)
{
	struct report_result *r;

	(void)state;
	r = add("a", 1e6, 10 * GB, "weir", 4);
	r->bound_s = 2;
	for (int i = 0; i < 3; i++) {
		r = add("a", 1e6, 10 * GB, "weir+near", 3 - i % 2);
		r->near_bytes = i == 2 ? 20 * GB : 30 * GB;
		r->bound_s = 1;
	}
	add("a", 1e6, 10 * GB, "zerocopy", 9)->bound_s = 2;
	make();
	assert_int_equal(sets.nr, 2);
	assert_int_equal(sets.set[0].nr_results, 4);
	assert_int_equal(sets.set[1].nr_results, 1);
	assert_non_null(strstr(sets.set[0].title, " of GPU memory, 30 GB of other GPUs' memory"));
	assert_non_null(strstr(sets.set[1].title, ", 20 GB of other GPUs' memory"));
	assert_true(sets.set[0].cases[0].bound_s == 2);
	assert_true(isnan(sets.set[1].cases[0].bound_s));
	assert_true(report_bound_s(&sets.set[0].cases[0], &storage[0]) == 2);
	assert_true(report_bound_s(&sets.set[0].cases[0], &storage[1]) == 1);
	storage[1].bound_s = NAN;
	assert_true(isnan(report_bound_s(&sets.set[0].cases[0], &storage[1])));
}

static void test_sets_by_machine_and_budget(void **state)
{
	(void)state;
	add("a", 1e6, 10 * GB, "weir", 1);
	add("a", 2e6, 10 * GB, "weir", 2);
	add("a", 2e6, 20 * GB, "weir", 2);
	add("b", 2e6, 20 * GB, "weir", 2);
	make();
	assert_int_equal(sets.nr, 3);
	assert_int_equal(sets.set[0].nr_cases, 2);
	assert_string_equal(sets.set[0].title, "gcn on a simulated a, 10 GB of GPU memory");
	assert_string_equal(sets.set[2].title, "gcn on a simulated b, 20 GB of GPU memory");
}

static void test_sets_one_size_many_budgets(void **state)
{
	(void)state;
	add("a", 2e6, 10 * GB, "weir", 3)->needs_bytes = 20 * GB;
	add("a", 2e6, 20 * GB, "weir", 2);
	make();
	assert_int_equal(sets.nr, 1);
	/* From the most room to the least. */
	assert_true(sets.set[0].cases[0].budget_bytes == 20 * GB);
	assert_true(sets.set[0].cases[1].over == 2);
	assert_false(sets.set[0].by_nodes);
}

static void test_sets_budgets_of_what_is_needed(void **state)
{
	(void)state;
	for (int size = 1; size <= 3; size++) {
		add("a", size * 1e6, size * 5 * GB, "weir", size)->needs_bytes = size * 10 * GB;
		add("a", size * 1e6, size * 2 * GB, "weir", size)->needs_bytes = size * 10 * GB;
	}
	make();
	assert_int_equal(sets.nr, 2);
	assert_int_equal(sets.set[0].nr_cases, 3);
	assert_true(sets.set[0].by_nodes);
	assert_string_equal(sets.set[1].title,
			    "gcn on a simulated a, GPU memory of 20 % of what it needs");
}

static void test_sets_meet_in_the_same_work(void **state)
{
	(void)state;
	add("a", 1e6, 10 * GB, "weir", 1);
	add("b", 1e6, 10 * GB, "weir", 2);
	add("a", 1e6, 10 * GB, "weir", 1)->hidden = 128;
	add("c", 1e6, 10 * GB, "malloc", 1);
	make();
	assert_int_equal(sets.nr, 4);
	assert_true(report_sets_meet(&sets, &sets.set[0], &sets.set[1]));
	assert_false(report_sets_meet(&sets, &sets.set[0], &sets.set[2]));
	assert_false(report_sets_meet(&sets, &sets.set[0], &sets.set[3]));
}

static void test_sets_too_many(void **state)
{
	char err[256] = "";

	(void)state;
	for (int i = 0; i <= REPORT_SETS_MAX; i++)
		add("a", 1e6, 1 * GB, "weir", 1)->slice = i;
	assert_int_equal(report_sets_make(&results, &sets, err, sizeof(err)), -E2BIG);
	assert_non_null(strstr(err, "give fewer files"));
}

static void test_sets_managers_keep_their_slots(void **state)
{
	(void)state;
	add("a", 1e6, 1 * GB, "zz", 1);
	add("a", 1e6, 1 * GB, "weir", 1);
	add("a", 1e6, 1 * GB, "malloc", 1);
	make();
	assert_string_equal(sets.manager[0], "malloc");
	assert_string_equal(sets.manager[1], "weir");
	assert_string_equal(sets.manager[2], "zz");
	assert_int_equal(sets.slot[0], 1);
	assert_int_equal(sets.slot[1], 7);
	assert_int_equal(sets.slot[2], 8);
}

/* Known exactly from a manager that keeps one copy; else the least sum of peaks. */
static void test_cases_what_is_needed(void **state)
{
	(void)state;
	add("a", 1e6, 1 * GB, "weir", 1)->peak_bytes = 3 * GB;
	add("a", 1e6, 1 * GB, "zerocopy", 9)->peak_bytes = 2 * GB;
	add("a", 2e6, 1 * GB, "weir", 1)->peak_bytes = 7 * GB;
	add("a", 2e6, 1 * GB, "uvm", 1)->peak_bytes = 6 * GB;
	add("a", 3e6, 1 * GB, "weir", 0)->peak_bytes = 1 * GB;
	make();
	assert_true(sets.set[0].cases[0].needs_bytes == 2 * GB);
	assert_true(sets.set[0].cases[1].needs_bytes == 6 * GB);
	assert_true(isnan(sets.set[0].cases[2].needs_bytes));
	assert_true(sets.set[0].by_nodes);
}

static void test_cases_repeated_runs_take_the_middle(void **state)
{
	(void)state;
	add("a", 1e6, 1 * GB, "weir", 5);
	add("a", 1e6, 1 * GB, "weir", 1);
	add("a", 1e6, 1 * GB, "weir", 0);
	add("a", 1e6, 1 * GB, "weir", 3);
	make();
	assert_int_equal(sets.set[0].nr_cases, 1);
	assert_true(report_epoch_s(&sets.set[0].cases[0], 0) == 3);
	assert_int_equal(sets.set[0].nr_results, 4);
}

static void test_cases_pick_has_ends_and_telling(void **state)
{
	const double over[] = {0.2, 0.4, 0.6, 0.8, 1, 1.2, 1.4, 1.8, 2.5, 4};
	size_t index[5];

	(void)state;
	for (int i = 0; i < 10; i++)
		add("a", (i + 1) * 1e6, 10 * GB, "weir", 1)->needs_bytes = over[i] * 10 * GB;
	make();
	assert_ptr_equal(report_telling_case(&sets, &sets.set[0]), &sets.set[0].cases[6]);
	assert_int_equal(report_cases_pick(&sets, &sets.set[0], index, 5), 5);
	assert_int_equal(index[0], 0);
	assert_int_equal(index[4], 9);
	assert_true(index[1] == 6 || index[2] == 6 || index[3] == 6);
	for (int i = 1; i < 5; i++)
		assert_true(index[i] > index[i - 1]);
}

/* ------------------------------------------------------------------ sentences */

/* What a writer writes is exactly this. */
static void said(void (*writer)(FILE *, const struct report_sets *, const struct report_set *),
		 const char *expected)
{
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	assert_non_null(out);
	writer(out, &sets, &sets.set[0]);
	assert_int_equal(fclose(out), 0);
	assert_string_equal(text, expected);
	free(text);
}

/* 5M fits, 12M does not, 20M only under weir. */
static void add_three_sizes(void)
{
	const double nodes[] = {5e6, 12e6, 20e6}, needs[] = {20, 48, 80}, bound[] = {1, 2, 8};
	const double native[] = {1, 0, 0}, zerocopy[] = {20, 40, 0}, weir[] = {1, 2.5, 8.2};

	for (int i = 0; i < 3; i++) {
		struct report_result *r[] = {
			add("a", nodes[i], 30 * GB, "native", native[i]),
			add("a", nodes[i], 30 * GB, "zerocopy", zerocopy[i]),
			add("a", nodes[i], 30 * GB, "weir", weir[i]),
		};

		for (int k = 0; k < 3; k++) {
			r[k]->needs_bytes = needs[i] * GB;
			r[k]->bound_s = bound[i];
			r[k]->in_memory_s = bound[i];
		}
	}
}

static void test_text_epochs(void **state)
{
	(void)state;
	add_three_sizes();
	make();
	said(text_epochs,
	     "native gets through up to 5M nodes (0.67 times the GPU\xe2\x80\x99s memory) and runs "
	     "out of memory at the next size tried, 12M nodes (1.60 times the GPU\xe2\x80\x99s "
	     "memory). zerocopy gets through up to 12M nodes (1.60 times the GPU\xe2\x80\x99s "
	     "memory) and runs out of memory at the next size tried, 20M nodes (2.67 times the "
	     "GPU\xe2\x80\x99s memory). \n"
	     "- 5M nodes (0.67 times the GPU\xe2\x80\x99s memory): native and weir take 1.00 s, "
	     "which is the lower bound; zerocopy, the next, takes 20.0 s, 20.0 times as long. \n"
	     "- 12M nodes (1.60 times the GPU\xe2\x80\x99s memory): weir takes 2.50 s, 1.25 times "
	     "the lower bound and 1.25 times as long as in memory; zerocopy, the next, takes 40.0 "
	     "s, 16.0 times as long. Out of memory: native. \n"
	     "- 20M nodes (2.67 times the GPU\xe2\x80\x99s memory): weir takes 8.20 s, 1.02 times "
	     "the lower bound and 1.02 times as long as in memory. Out of memory: native and "
	     "zerocopy. \n"
	     "weir is never more than 1.25 times the lower bound, farthest at 12M nodes (1.60 "
	     "times the GPU\xe2\x80\x99s memory). \n");
}

/* What was not tried is not said to have failed, and a failure has its reason. */
static void test_text_what_was_not_run(void **state)
{
	const struct report_set *set = &sets.set[0];

	(void)state;
	add("a", 1e6, 1 * GB, "native", 1);
	add("a", 2e6, 1 * GB, "native", 0);
	add("a", 9e6, 1 * GB, "native", 0);
	add("a", 1e6, 1 * GB, "malloc", 1);
	add("a", 2e6, 1 * GB, "malloc", 0)->status = RESULT_FAILED;
	add("a", 1e6, 1 * GB, "uvm", 3);
	add("a", 2e6, 1 * GB, "uvm", 5);
	add("a", 5e6, 1 * GB, "zerocopy", 0)->status = RESULT_REFUSED;
	add("a", 1e6, 1 * GB, "weir", 1);
	add("a", 2e6, 1 * GB, "weir", 1);
	add("a", 9e6, 1 * GB, "weir", 7);
	make();
	said(text_epochs,
	     "native gets through up to 1M nodes and runs out of memory at the next size tried, 2M "
	     "nodes. malloc gets through up to 1M nodes and fails at the next size tried, 2M "
	     "nodes. zerocopy is refused at the first size tried, 5M nodes. uvm gets through up to "
	     "2M nodes, the last size at which it was run. \n"
	     "- 9M nodes: weir takes 7.00 s. Out of memory: native. Not run at this size: malloc, "
	     "zerocopy and uvm. \n"
	     "\n");
	assert_ptr_equal(report_first_failure(set, 0), &set->cases[1]);
	assert_ptr_equal(report_first_failure(set, 3), NULL);
}

static void test_text_without_anything_known(void **state)
{
	(void)state;
	add("a", 5e6, NAN, "x", 2);
	make();
	said(text_epochs, "\n- 5M nodes: x takes 2.00 s. \n\n");
	said(text_in_short, "At 5M nodes, x takes 2.00 s. ");
	said(text_parts,
	     "These results do not say what the time goes into, so each bar is whole. \n");
}

static void test_text_nothing_got_through(void **state)
{
	(void)state;
	add("a", 5e6, 1 * GB, "native", 0);
	make();
	said(text_in_short, "");
	said(text_epochs, "native runs out of memory at the first size tried, 5M nodes. \n\n");
}

static void test_text_below_the_bound(void **state)
{
	struct report_result *r[] = {add("cuda", 5e6, 1 * GB, "weir", 0.5),
				     add("cuda", 6e6, 1 * GB, "weir", 3)};

	(void)state;
	r[0]->bound_s = 1;
	r[1]->bound_s = 2;
	r[0]->measured = r[1]->measured = true;
	make();
	assert_true(sets.set[0].measured);
	assert_string_equal(sets.set[0].title, "gcn on a real GPU, 1 GB of GPU memory");
	said(text_epochs,
	     "\n- 6M nodes: weir takes 3.00 s, 1.50 times the lower bound. \n"
	     "weir is never more than 1.50 times the lower bound, farthest at 6M nodes. At 5M "
	     "nodes it is below the bound, so this machine is faster than the rates from which the "
	     "bound is computed. \n");
}

static void test_text_how_much_memory_is_enough(void **state)
{
	static const double budget[] = {40, 30, 20, 10}, weir_s[] = {1, 1.04, 1.2, 1.03};

	(void)state;
	for (int i = 0; i < 4; i++) {
		struct report_result *r[] = {add("a", 0, budget[i] * GB, "native", i ? 0 : 1),
					     add("a", 0, budget[i] * GB, "zerocopy", 9),
					     add("a", 0, budget[i] * GB, "weir", weir_s[i])};

		for (int k = 0; k < 3; k++) {
			r[k]->trace = "x.trace";
			r[k]->needs_bytes = 30 * GB;
		}
	}
	make();
	assert_int_equal(sets.nr, 1);
	assert_int_equal(sets.set[0].nr_cases, 4);
	assert_string_equal(sets.set[0].title, "gcn on a simulated a, x.trace");
	said(text_epochs,
	     "native gets through up to 40.0 GB of GPU memory (the work needs 0.75 times that) and "
	     "runs out of memory at the next budget tried, 30.0 GB of GPU memory (the work needs "
	     "1.00 times that). \n"
	     "- 30.0 GB of GPU memory (the work needs 1.00 times that): weir takes 1.04 s; "
	     "zerocopy, the next, takes 9.00 s, 8.65 times as long. Out of memory: native. \n"
	     "- 20.0 GB of GPU memory (the work needs 1.50 times that): weir takes 1.20 s, 1.20 "
	     "times as long as in memory; zerocopy, the next, takes 9.00 s, 7.50 times as long. "
	     "Out of memory: native. \n"
	     "- 10.0 GB of GPU memory (the work needs 3.00 times that): weir takes 1.03 s, 1.03 "
	     "times as long as in memory; zerocopy, the next, takes 9.00 s, 8.74 times as long. "
	     "Out of memory: native. \n"
	     "- Enough for zerocopy: 10.0 GB, the least that was tried.\n"
	     "- Enough for weir: 30.0 GB. With less it takes more than 1.05 times as long as at "
	     "best, or has no time.\n\n");
}

static void test_text_copies(void **state)
{
	static const double copied[] = {0, 6, 12, 30}, least[] = {0, 5, 11, 28};

	(void)state;
	for (int i = 0; i < 4; i++) {
		struct report_result *r = add("a", 0, (40 - 10 * i) * GB, "weir", 1 + i);

		r->trace = "x.trace";
		r->copied_bytes = copied[i] * GB;
		r->least_bytes = least[i] * GB;
	}
	add("a", 0, 20 * GB, "uvm", 3)->trace = "x.trace";
	make();
	said(text_copies,
	     "- weir: at 30.0 GB of GPU memory an epoch copies 6.00 GB to the GPU, 1.20 times the "
	     "least; nowhere is it more.\n"
	     "The least is what Belady\xe2\x80\x99s MIN copies, which knows what comes, so that "
	     "each launch finds in the GPU\xe2\x80\x99s memory what it found there in the run. "
	     "Where a launch needs more at once than there is room for, there is none. \n");
}

static void test_text_parts(void **state)
{
	struct report_result *r;

	(void)state;
	r = add("a", 5e6, 10 * GB, "uvm", 4);
	r->parts_s = 4;
	r->time_s[REPORT_COMPUTE] = 1;
	r->time_s[REPORT_FIRST_TOUCH] = 3;
	r->faults = 1234567;
	r->first_touches = 200;
	r = add("a", 5e6, 10 * GB, "weir", 1);
	r->parts_s = 1;
	r->time_s[REPORT_COMPUTE] = 0.97;
	r->time_s[REPORT_IN_PLACE] = 0.03;
	make();
	said(text_parts, "At 5M nodes an epoch goes into\n"
			 "- uvm: 75 % of 4.00 s on first touches and 25 % on computing.\n"
			 "- weir: 97 % of 1.00 s on computing.\n"
			 "Page faults of the whole run there: uvm 1.235M (first touches: 200).\n"
			 "Each case has a scale of seconds of its own, and each bar is there once "
			 "more as shares of its own time. \n");
}

static void test_text_traffic(void **state)
{
	struct report_result *r;

	(void)state;
	add("a", 5e6, 10 * GB, "native", 1);
	r = add("a", 5e6, 10 * GB, "zerocopy", 4);
	r->nr_flows = 1;
	r->flow[0].name = "host->gpu0";
	r->flow[0].bytes[WEIR_CAUSE_INPLACE] = 400 * GB;
	r = add("a", 5e6, 10 * GB, "weir", 1);
	r->nr_flows = 2;
	r->flow[0].name = "host->gpu0";
	r->flow[1].name = "gpu0->host";
	r->flow[0].bytes[WEIR_CAUSE_DEMAND] = 2 * GB;
	r->flow[0].bytes[WEIR_CAUSE_PREFETCH] = 6 * GB;
	r->flow[1].bytes[WEIR_CAUSE_EVICTION] = 8 * GB;
	make();
	/* Four epochs in all. */
	said(text_traffic,
	     "At 5M nodes an epoch moves\n"
	     "- zerocopy: 100 GB used in place.\n"
	     "- weir: 2.00 GB copied to the GPU and 2.00 GB back.\n"
	     "zerocopy moves 25.0 times as many bytes as weir. native moves nothing. Bytes are "
	     "those of the whole run divided by its epochs, warm-up included. Each manager has a "
	     "scale of its own, which stands above its bars: bars of one manager can be compared, "
	     "those of two by their figures. \n");
}

#define test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		test(test_sets_by_other_gpus_memory),
		test(test_sets_by_machine_and_budget),
		test(test_sets_one_size_many_budgets),
		test(test_sets_budgets_of_what_is_needed),
		test(test_sets_meet_in_the_same_work),
		test(test_sets_too_many),
		test(test_sets_managers_keep_their_slots),
		test(test_cases_what_is_needed),
		test(test_cases_repeated_runs_take_the_middle),
		test(test_cases_pick_has_ends_and_telling),
		test(test_text_epochs),
		test(test_text_what_was_not_run),
		test(test_text_without_anything_known),
		test(test_text_nothing_got_through),
		test(test_text_below_the_bound),
		test(test_text_how_much_memory_is_enough),
		test(test_text_copies),
		test(test_text_parts),
		test(test_text_traffic),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
