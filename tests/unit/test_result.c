/* SPDX-License-Identifier: Apache-2.0 */
/* Results as JSON: read back with an independent reader. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/result.h"
#include "src/residency/explain.h"

static const double epochs[] = {0.1, 1.0 / 3, 1e-9};
static const double losses[] = {2.3025850929940459, NAN};

static struct weir_machine_desc machine(void)
{
	struct weir_machine_desc desc = {
		.name = "small",
		.nr_memories = 2,
		.nr_devices = 1,
		.nr_links = 1,
		.memory = {{.name = "host"}, {.name = "gpu0", .kind = WEIR_MEMORY_HBM}},
		.device = {{.name = "gpu0", .memory = 1}},
		.link = {{.a = 0, .b = 1}},
	};

	return desc;
}

static struct result sample(const struct weir_machine_desc *desc)
{
	struct result result = {
		.command = "weir bench gcn --graph 'a b'",
		.workload = "gcn",
		.parameters = {.nodes = 15000000,
			       .slice = 2000000,
			       .seed = UINT64_C(9007199254740991),
			       .epochs = 3,
			       .warm_up = 2,
			       .hidden = 256,
			       .data = "phantom"},
		.machine = desc,
		.manager = "weir",
		.policy = "default",
		.epoch_s = epochs,
		.nr_epochs = 3,
		.epoch_median_s = 0.1,
		.gpu_budget_bytes = UINT64_C(33670000000),
		.loss = losses,
		.nr_losses = 2,
		.test_accuracy = NAN,
		.check = RESULT_PASSED,
		.bound_s = 2.5,
		.live_peak_bytes = 12,
		.needs_bytes = 13,
		.in_memory_s = 0.5,
	};

	result.stats.bytes[BACKEND_TO_DEVICE][WEIR_CAUSE_PREFETCH] = 7;
	result.stats.bytes[BACKEND_TO_HOST][WEIR_CAUSE_INPLACE] = 9;
	result.stats.peak_bytes[1] = 11;
	return result;
}

/* One line of JSON, parsed. */
static json_t *written(const struct result *result)
{
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);
	json_t *json;

	assert_non_null(out);
	result_write(out, result);
	fclose(out);
	assert_ptr_equal(strchr(text, '\n'), text + bytes - 1);
	json = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
	assert_non_null(json);
	free(text);
	return json;
}

static json_int_t integer(json_t *json, const char *a, const char *b, const char *c)
{
	json_t *at = json_object_get(json, a);

	at = b ? json_object_get(at, b) : at;
	at = c ? json_object_get(at, c) : at;
	assert_true(json_is_integer(at));
	return json_integer_value(at);
}

/* Where a device's time went is there exactly when it is known. */
static void test_result_times(void **state)
{
	static const double time_s[BACKEND_TIME_NR] = {
		[BACKEND_TIME_COMPUTE] = 0.25, [BACKEND_TIME_OTHER] = 0.125};
	struct weir_machine_desc desc = machine();
	struct result result = sample(&desc);
	json_t *json = written(&result), *times;

	(void)state;
	assert_null(json_object_get(json, "time_s"));
	json_decref(json);
	result.time_s = time_s;
	json = written(&result);
	times = json_object_get(json, "time_s");
	assert_int_equal(json_object_size(times), BACKEND_TIME_NR);
	for (int i = 0; i < BACKEND_TIME_NR; i++)
		assert_true(json_number_value(json_object_get(
				    times, result_time_name((enum backend_time)i))) == time_s[i]);
	json_decref(json);
}

/* Links and budgets of other GPUs' memories: a machine of three GPUs whose first may use the second
 * one's. What crossed a link that is not the first one's has a member, and no other such link. */
static void test_result_of_other_gpus_memory(void **state)
{
	struct weir_machine_desc desc = machine();
	struct result result = sample(&desc);
	json_t *json = written(&result), *bytes;

	(void)state;
	assert_null(json_object_get(json, "near_budget_bytes"));
	json_decref(json);
	desc.nr_memories = 4;
	desc.nr_links = 5;
	for (uint32_t m = 2; m < 4; m++) {
		desc.memory[m].kind = WEIR_MEMORY_HBM;
		desc.link[m - 1] = (struct weir_link_desc){.a = 0, .b = m};
		desc.link[m + 1] = (struct weir_link_desc){.a = m, .b = 1};
	}
	strcpy(desc.memory[2].name, "gpu1");
	strcpy(desc.memory[3].name, "gpu2");
	result.near_bytes[2] = UINT64_C(1) << 40;
	result.stats.near[3][WEIR_A_TO_B][WEIR_CAUSE_DEMAND] = 5;
	result.stats.near[3][WEIR_B_TO_A][WEIR_CAUSE_EVICTION] = 6;
	json = written(&result);
	bytes = json_object_get(json, "bytes");
	assert_int_equal(json_object_size(bytes), 4);
	assert_int_equal(integer(bytes, "host->gpu0", "prefetch", NULL), 7);
	assert_int_equal(integer(bytes, "gpu1->gpu0", "demand", NULL), 5);
	assert_int_equal(integer(bytes, "gpu0->gpu1", "eviction", NULL), 6);
	assert_int_equal(json_object_size(json_object_get(json, "near_budget_bytes")), 1);
	assert_int_equal(integer(json, "near_budget_bytes", "gpu1", NULL), 1LL << 40);
	assert_true(json_is_null(json_object_get(json, "near_bytes_per_s")));
	json_decref(json);
	result.near_bytes_per_s = 1.5e11;
	result.stats.near[1][WEIR_B_TO_A][WEIR_CAUSE_WRITEBACK] = 8;
	json = written(&result);
	bytes = json_object_get(json, "bytes");
	assert_int_equal(json_object_size(bytes), 6);
	assert_int_equal(integer(bytes, "gpu1->host", "write-back", NULL), 8);
	assert_int_equal(integer(bytes, "host->gpu1", "write-back", NULL), 0);
	assert_true(json_number_value(json_object_get(json, "near_bytes_per_s")) == 1.5e11);
	json_decref(json);
}

/* Of a real GPU there is more, and only there. */
static void test_result_of_a_real_gpu(void **state)
{
	const struct result_real_gpu gpu = {
		.in_memory_measured = true,
		.epoch_cpu_s = epochs,
		.peak_rss_bytes = 1234,
		.bookkeeping_bytes = UINT64_C(1) << 40,
	};
	struct weir_machine_desc desc = machine();
	struct result result = sample(&desc);
	json_t *json = written(&result), *member;

	(void)state;
	assert_null(json_object_get(json, "real_gpu"));
	json_decref(json);
	result.real_gpu = &gpu;
	json = written(&result);
	member = json_object_get(json, "real_gpu");
	assert_string_equal(json_string_value(json_object_get(member, "in_memory")), "measured");
	assert_string_equal(json_string_value(json_object_get(member, "bound")), "modelled");
	assert_int_equal(json_array_size(json_object_get(member, "epoch_cpu_s")), 3);
	assert_int_equal(integer(json, "real_gpu", "peak_rss_bytes", NULL), 1234);
	assert_int_equal(integer(json, "real_gpu", "bookkeeping_bytes", NULL), 1LL << 40);
	json_decref(json);
}

static void test_result_has_every_member(void **state)
{
	static const char *const members[] = {
		"schema",	"command", "workload",	    "parameters", "machine",
		"manager",	"policy",  "status",	    "epoch_s",	  "epoch_median_s",
		"bytes",	"faults",  "first_touches", "peak_bytes", "live_peak_bytes",
		"budget_bytes", "check",   "bound_s",	    "oracle",	  "needs_bytes",
		"in_memory_s",	"version"};
	const size_t nr = sizeof(members) / sizeof(*members);
	struct weir_machine_desc desc = machine();
	struct result result = sample(&desc);
	json_t *json = written(&result);

	(void)state;
	for (size_t i = 0; i < nr; i++)
		assert_non_null(json_object_get(json, members[i]));
	assert_int_equal(json_object_size(json), nr);
	assert_string_equal(json_string_value(json_object_get(json, "command")),
			    "weir bench gcn --graph 'a b'");
	assert_string_equal(json_string_value(json_object_get(json, "status")), "ok");
	assert_string_equal(json_string_value(json_object_get(json, "machine")), "small");
	assert_int_equal(integer(json, "parameters", "nodes", NULL), 15000000);
	assert_int_equal(integer(json, "parameters", "seed", NULL), 9007199254740991);
	assert_int_equal(integer(json, "budget_bytes", NULL, NULL), 33670000000);
	assert_int_equal(integer(json, "bytes", "host->gpu0", "prefetch"), 7);
	assert_int_equal(integer(json, "bytes", "gpu0->host", "in-place"), 9);
	assert_int_equal(integer(json, "bytes", "gpu0->host", "write-back"), 0);
	assert_int_equal(integer(json, "peak_bytes", "gpu0", NULL), 11);
	assert_int_equal(integer(json, "live_peak_bytes", NULL, NULL), 12);
	assert_int_equal(integer(json, "needs_bytes", NULL, NULL), 13);
	assert_true(json_real_value(json_object_get(json, "in_memory_s")) == 0.5);
	json_decref(json);
}

static void test_result_oracle(void **state)
{
	const struct result_oracle oracle = {.copy_ins = 1475.5,
					     .min_copy_ins = 1449.5,
					     .write_backs = 3,
					     .min_write_backs = 0.25,
					     .in_place_bytes = 1e9,
					     .host_copy_ins = 7.5,
					     .min_host_copy_ins = NAN,
					     .block_bytes = 8 << 20,
					     .capacity_blocks = 4012,
					     .largest_set_blocks = 4003,
					     .nr_epochs = 2,
					     .exact = true};
	static const char *const members[] = {"copy_ins",	 "min_copy_ins",   "write_backs",
					      "min_write_backs", "in_place_bytes", "host_copy_ins"};
	const double values[] = {1475.5, 1449.5, 3, 0.25, 1e9, 7.5};
	struct weir_machine_desc desc = machine();
	struct result result = sample(&desc);
	json_t *json = written(&result), *object;

	(void)state;
	assert_true(json_is_null(json_object_get(json, "oracle")));
	json_decref(json);
	result.oracle = &oracle;
	json = written(&result);
	object = json_object_get(json, "oracle");
	assert_int_equal(json_object_size(object), 12);
	assert_true(json_is_null(json_object_get(object, "min_host_copy_ins")));
	for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++)
		assert_true(json_number_value(json_object_get(object, members[i])) == values[i]);
	assert_int_equal(integer(json, "oracle", "block_bytes", NULL), 8 << 20);
	assert_int_equal(integer(json, "oracle", "capacity_blocks", NULL), 4012);
	assert_int_equal(integer(json, "oracle", "largest_set_blocks", NULL), 4003);
	assert_int_equal(integer(json, "oracle", "epochs", NULL), 2);
	assert_true(json_is_true(json_object_get(object, "exact")));
	json_decref(json);
}

static void expect_number(const json_t *object, const char *member, double value)
{
	assert_true(fabs(json_number_value(json_object_get(object, member)) - value) < 1e-12);
}

/* Of test_result_explain(), the first one. */
static void expect_stage(const json_t *stage)
{
	const json_t *room = json_object_get(stage, "room");

	assert_int_equal(json_object_size(stage), 13);
	assert_int_equal(json_object_size(room), EXPLAIN_ROOM_NR + 1);
	expect_number(room, "live", 3);
	expect_number(room, "arenas", 1);
	expect_number(room, "spare", 0);
	expect_number(room, "filled", 0.75);
	assert_string_equal(json_string_value(json_object_get(stage, "name")), "gat\"her");
	expect_number(stage, "brackets", 3);
	expect_number(stage, "planned_s", 1);
	expect_number(stage, "measured_s", 2);
	expect_number(stage, "kernels_s", 0.5);
	expect_number(stage, "waited_s", 1.5);
	expect_number(stage, "brought", 1);
	expect_number(stage, "ahead", 2.5);
	expect_number(stage, "late", 0.5);
	expect_number(stage, "out", 4);
	expect_number(stage, "calls", 5);
	expect_number(stage, "calls_s", 0.006);
}

/* What was planned is there where it is asked for, if only to say that there was nothing. */
static void test_result_explain(void **state)
{
	struct explain_stage stages[] = {
		{.name = "gat\"her",
		 .nr_brackets = 3,
		 .planned_ns = 1e9,
		 .measured_ns = 2e9,
		 .kernels_ns = 5e8,
		 .brought = 1,
		 .ahead = 2.5,
		 .late = 0.5,
		 .out = 4,
		 .calls = 5,
		 .calls_ns = 6e6,
		 .room = {[EXPLAIN_LIVE] = 3, [EXPLAIN_ARENAS] = 1},
		 .filled = 0.75},
		{.nr_brackets = 1},
	};
	struct explain *explain = calloc(1, sizeof(*explain) + 2 * sizeof(explain->device[0]));
	struct weir_machine_desc desc = machine();
	struct result result = sample(&desc);
	json_t *json = written(&result), *device, *stage;

	(void)state;
	assert_non_null(explain);
	assert_null(json_object_get(json, "explain"));
	json_decref(json);
	result.explains = true;
	json = written(&result);
	assert_true(json_is_null(json_object_get(json, "explain")));
	json_decref(json);

	explain->nr_devices = 2;
	explain->device[0] = (struct explain_device){.name = "gpu0",
						     .suspended = true,
						     .nr_moves = 7,
						     .chunk_bytes = 4096,
						     .modelled_ns = 3e9,
						     .compute_ns = 1e9,
						     .nr_stages = 2,
						     .stage = stages};
	explain->device[1] = (struct explain_device){.name = "gpu1", .why = "no plan: none"};
	result.explain = explain;
	json = written(&result);
	assert_int_equal(json_array_size(json_object_get(json, "explain")), 2);
	device = json_array_get(json_object_get(json, "explain"), 0);
	assert_string_equal(json_string_value(json_object_get(device, "device")), "gpu0");
	assert_true(json_is_null(json_object_get(device, "why")));
	assert_true(json_is_true(json_object_get(device, "suspended")));
	expect_number(device, "moves", 7);
	expect_number(device, "chunk_bytes", 4096);
	expect_number(device, "modelled_s", 3);
	expect_number(device, "compute_s", 1);
	stage = json_array_get(json_object_get(device, "stages"), 0);
	expect_stage(stage);
	stage = json_array_get(json_object_get(device, "stages"), 1);
	assert_true(json_is_null(json_object_get(stage, "name")));
	assert_true(json_is_null(json_object_get(stage, "room")));
	device = json_array_get(json_object_get(json, "explain"), 1);
	assert_string_equal(json_string_value(json_object_get(device, "why")), "no plan: none");
	assert_int_equal(json_array_size(json_object_get(device, "stages")), 0);
	json_decref(json);
	free(explain);
}

static void test_result_numbers_read_back_the_same(void **state)
{
	struct weir_machine_desc desc = machine();
	struct result result = sample(&desc);
	json_t *json = written(&result);
	json_t *epoch_s = json_object_get(json, "epoch_s");
	json_t *check = json_object_get(json, "check");
	json_t *loss = json_object_get(check, "loss");

	(void)state;
	assert_int_equal(json_array_size(epoch_s), 3);
	for (size_t i = 0; i < 3; i++)
		assert_true(json_real_value(json_array_get(epoch_s, i)) == epochs[i]);
	assert_true(json_real_value(json_array_get(loss, 0)) == losses[0]);
	assert_true(json_is_null(json_array_get(loss, 1)));
	assert_true(json_is_null(json_object_get(check, "test_accuracy")));
	assert_true(json_is_true(json_object_get(check, "passed")));
	json_decref(json);
}

static void test_result_of_a_failed_run(void **state)
{
	struct weir_machine_desc desc = machine();
	struct result result = sample(&desc);
	json_t *json;

	(void)state;
	result.status = RESULT_FAILED;
	result.error = "kernel \"x\"\ttrapped";
	result.policy = NULL;
	result.nr_epochs = result.nr_losses = 0;
	result.epoch_median_s = NAN;
	result.check = RESULT_UNCHECKED;
	json = written(&result);
	assert_string_equal(json_string_value(json_object_get(json, "status")), "failed");
	assert_string_equal(json_string_value(json_object_get(json, "error")), result.error);
	assert_true(json_is_null(json_object_get(json, "policy")));
	assert_true(json_is_null(json_object_get(json, "epoch_median_s")));
	assert_int_equal(json_array_size(json_object_get(json, "epoch_s")), 0);
	json_decref(json);
}

static void assert_text(const char *text, const char *expected)
{
	char *out = NULL;
	size_t bytes;
	FILE *stream = open_memstream(&out, &bytes);

	assert_non_null(stream);
	result_write_text(stream, text);
	fclose(stream);
	assert_string_equal(out, expected);
	free(out);
}

static void test_result_text_is_always_valid(void **state)
{
	(void)state;
	assert_text("a\"b\\c\n\x7f", "\"a\\\"b\\\\c\\u000a\\u007f\"");
	assert_text("\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80",
		    "\"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80\"");
	assert_text("\xff\xc3", "\"\\ufffd\\ufffd\"");
	assert_text("\xc0\xaf", "\"\\ufffd\\ufffd\"");		  /* overlong */
	assert_text("\xed\xa0\x80", "\"\\ufffd\\ufffd\\ufffd\""); /* a surrogate */
	assert_text("\xe2\x82", "\"\\ufffd\\ufffd\"");		  /* cut short */
}

static void assert_double(double value, const char *expected)
{
	char *out = NULL;
	size_t bytes;
	FILE *stream = open_memstream(&out, &bytes);

	assert_non_null(stream);
	result_write_double(stream, value);
	fclose(stream);
	assert_string_equal(out, expected);
	free(out);
}

static void test_result_double_is_short(void **state)
{
	(void)state;
	assert_double(0.1, "0.1");
	assert_double(0, "0");
	assert_double(2.798, "2.798");
	assert_double(1.0 / 3, "0.3333333333333333");
	assert_double(NAN, "null");
	assert_double(-INFINITY, "null");
}

static void test_result_median(void **state)
{
	static const double values[] = {3, 1, 2, 10};

	(void)state;
	assert_true(result_median(values, 3) == 2);
	assert_true(result_median(values, 4) == 2.5);
	assert_true(isnan(result_median(values, 0)));
	assert_true(values[0] == 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_result_has_every_member),
		cmocka_unit_test(test_result_times),
		cmocka_unit_test(test_result_oracle),
		cmocka_unit_test(test_result_explain),
		cmocka_unit_test(test_result_of_other_gpus_memory),
		cmocka_unit_test(test_result_of_a_real_gpu),
		cmocka_unit_test(test_result_numbers_read_back_the_same),
		cmocka_unit_test(test_result_of_a_failed_run),
		cmocka_unit_test(test_result_text_is_always_valid),
		cmocka_unit_test(test_result_double_is_short),
		cmocka_unit_test(test_result_median),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
