/* SPDX-License-Identifier: Apache-2.0 */
/* Results and timelines, read back: what must be there, what may be missing, what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <string.h>

#include "cli/report_explain.h"
#include "cli/report_read.h"
#include "cli/report_timeline.h"

#define NEEDED                                                                 \
	"\"schema\":\"weir-result-1\",\"workload\":\"gcn\",\"machine\":\"m\"," \
	"\"manager\":\"weir\",\"status\":\"ok\",\"parameters\":{\"nodes\":5000000"
#define MINIMAL "{" NEEDED "}}"

static char err[256];

static int read_text(const char *text, struct report_results *results)
{
	*results = (struct report_results){0};
	err[0] = '\0';
	return report_read(text, strlen(text), "f", results, err, sizeof(err));
}

/* The text is refused with exactly this line. */
static void refused(const char *text, const char *line)
{
	struct report_results results;

	assert_int_equal(read_text(text, &results), -EINVAL);
	assert_string_equal(err, line);
	report_results_fini(&results);
}

static void test_report_read_minimal(void **state)
{
	struct report_results results;
	const struct report_result *r;

	(void)state;
	assert_int_equal(read_text("\n  \n" MINIMAL "\r\n" MINIMAL, &results), 0);
	assert_int_equal(results.nr, 2);
	r = &results.result[0];
	assert_int_equal(r->line, 3);
	assert_string_equal(r->manager, "weir");
	assert_true(r->nodes == 5e6);
	assert_null(r->version);
	assert_true(isnan(r->epoch_s) && isnan(r->bound_s) && isnan(r->parts_s) &&
		    isnan(r->peak_bytes) && isnan(r->faults));
	assert_int_equal(r->nr_flows, 0);
	assert_int_equal(r->passed, -1);
	report_results_fini(&results);
}

static void test_report_read_everything(void **state)
{
	struct report_results results;
	const struct report_result *r;

	(void)state;
	assert_int_equal(
		read_text("{" NEEDED ",\"seed\":18446744073709551615,\"epochs\":2,\"warm_up\":2},"
			  "\"epoch_s\":[4,1,3,2],\"epoch_median_s\":null,\"bound_s\":2,"
			  "\"time_s\":{\"compute\":1,\"eviction\":0.5,\"new\":0.25,\"other\":0.25,"
			  "\"demand\":null},\"peak_bytes\":{\"host\":3,\"gpu0\":4},"
			  "\"bytes\":{\"host->gpu0\":{\"demand\":8,\"in-place\":null},\"x\":null},"
			  "\"check\":{\"loss\":[],\"passed\":false},\"later\":{\"x\":[1]}}\n",
			  &results),
		0);
	r = &results.result[0];
	assert_true(r->epoch_s == 2.5);
	assert_true(r->parts_s == 2 && r->time_s[REPORT_OTHER] == 0.5);
	assert_true(r->peak_bytes == 7);
	assert_int_equal(r->nr_flows, 2);
	assert_string_equal(r->flow[0].name, "host->gpu0");
	assert_true(r->flow[0].bytes[WEIR_CAUSE_DEMAND] == 8);
	assert_true(isnan(r->flow[0].bytes[WEIR_CAUSE_INPLACE]));
	assert_int_equal(r->passed, 0);
	report_results_fini(&results);
}

#define STAGE                                                                          \
	"\"brackets\":2,\"planned_s\":1,\"kernels_s\":2,\"waited_s\":1,\"brought\":0," \
	"\"ahead\":5,\"late\":4,\"out\":0,\"calls\":6,\"calls_s\":0.5"
#define EXPLAIN(of) "{" NEEDED "},\"explain\":" of "}"
#define STAGES(of) EXPLAIN("[{\"device\":\"gpu0\",\"stages\":" of "}]")

static void test_report_read_explain(void **state)
{
	struct report_results results;
	const struct report_explained *e;

	(void)state;
	assert_int_equal(read_text(EXPLAIN("null"), &results), 0);
	assert_int_equal(results.result[0].nr_explained, 0);
	report_results_fini(&results);
	assert_int_equal(
		read_text(EXPLAIN("[{\"device\":\"gpu0\",\"why\":null,\"suspended\":true,"
				  "\"stages\":[{\"name\":\"k\",\"measured_s\":3," STAGE
				  "},{\"name\":null,\"measured_s\":3," STAGE
				  "}]},{\"device\":\"gpu1\",\"why\":\"no plan\",\"stages\":[]}]"),
			  &results),
		0);
	assert_int_equal(results.result[0].nr_explained, 2);
	e = results.result[0].explained;
	assert_string_equal(e[0].device, "gpu0");
	assert_null(e[0].why);
	assert_true(e[0].suspended && !e[1].suspended);
	assert_int_equal(e[0].nr_stages, 2);
	assert_string_equal(e[0].stage[0].name, "k");
	assert_null(e[0].stage[1].name);
	assert_true(e[0].stage[0].planned_s == 1 && e[0].stage[0].measured_s == 3);
	assert_true(e[0].stage[0].kernels_s == 2 && e[0].stage[0].waited_s == 1);
	assert_true(e[0].stage[1].ahead == 5 && e[0].stage[1].late == 4);
	assert_true(e[0].stage[0].room[EXPLAIN_LIVE] == 0);
	assert_true(e[0].stage[1].calls == 6 && e[0].stage[1].calls_s == 0.5);
	assert_string_equal(e[1].why, "no plan");
	assert_int_equal(e[1].nr_stages, 0);
	report_results_fini(&results);
}

static void test_report_read_explain_refuses(void **state)
{
	static const struct {
		const char *text, *line;
	} wrong[] = {
		{EXPLAIN("{}"), "is no array of up to 16 devices"},
		{EXPLAIN("[7]"), "has a device that is no object"},
		{EXPLAIN("[{\"stages\":[]}]"), "has a device without \"device\""},
		{EXPLAIN("[{\"device\":1,\"stages\":[]}]"), "\"device\" is no text"},
		{EXPLAIN("[{\"device\":\"gpu0\",\"why\":1,\"stages\":[]}]"), "\"why\" is no text"},
		{EXPLAIN("[{\"device\":\"gpu0\"}]"), "\"stages\" is no array of up to 100000"},
		{STAGES("[null]"), "stage 0 is no object"},
		{STAGES("[{\"name\":\"k\"}]"),
		 "\"brackets\" of stage 0 is no number from 0 to 1e20"},
		{STAGES("[{\"name\":\"k\"," STAGE "}]"), "\"measured_s\" of stage 0 is no number"},
		{STAGES("[{\"measured_s\":-1," STAGE "}]"),
		 "\"measured_s\" of stage 0 is no number"},
		{STAGES("[{\"name\":{},\"measured_s\":3," STAGE "}]"), "\"name\" is no text"},
		{STAGES("[{\"measured_s\":3,\"room\":3," STAGE "}]"),
		 "\"room\" of stage 0 is no object"},
		{STAGES("[{\"measured_s\":3,\"room\":{\"filled\":0}," STAGE "}]"),
		 "\"live\" of stage 0 is no number"},
		{STAGES("[{\"measured_s\":3," STAGE "},{\"measured_s\":4," STAGE "}]"),
		 "\"waited_s\" of stage 1 do not add up to \"measured_s\""},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct report_results results;

		assert_int_equal(read_text(wrong[i].text, &results), -EINVAL);
		if (strncmp(err, "f:1: \"explain\"", 14) != 0 || !strstr(err, wrong[i].line))
			fail_msg("not '%s' in: %s", wrong[i].line, err);
		report_results_fini(&results);
	}
}

static void test_report_read_no_time_without_success(void **state)
{
	struct report_results results;

	(void)state;
	assert_int_equal(
		read_text("{\"schema\":\"weir-result-1\",\"workload\":\"gcn\",\"machine\":\"m\","
			  "\"manager\":\"weir\",\"status\":\"failed\",\"epoch_median_s\":3,"
			  "\"time_s\":{\"compute\":3},\"parameters\":{\"nodes\":1}}",
			  &results),
		0);
	assert_true(isnan(results.result[0].epoch_s) && isnan(results.result[0].parts_s));
	report_results_fini(&results);
}

static void test_report_read_of_a_real_gpu(void **state)
{
	struct report_results results;

	(void)state;
	assert_int_equal(read_text(MINIMAL "\n{" NEEDED "},\"real_gpu\":{\"in_memory_s\":3,"
					   "\"bound\":\"measured\"}}\n{" NEEDED "},\"real_gpu\":{"
					   "\"bound\":\"modelled\"},\"in_memory_s\":2}",
				   &results),
			 0);
	assert_false(results.result[0].measured);
	assert_true(results.result[1].measured && results.result[1].bound_measured);
	assert_true(results.result[1].in_memory_s == 3);
	assert_true(results.result[2].measured && !results.result[2].bound_measured);
	assert_true(results.result[2].in_memory_s == 2);
	report_results_fini(&results);
}

static void test_report_read_refuses(void **state)
{
	(void)state;
	refused(MINIMAL "\n[]\n", "f:2: no JSON object: give a file of `weir bench --json`");
	refused("{\"schema\":\"x\"}", "f:1: unknown schema 'x': this version reads weir-result-1");
	refused("{}", "f:1: \"schema\" is missing: give a file of `weir bench --json`");
	refused("{" NEEDED "},\"bound_s\":-1}",
		"f:1: \"bound_s\" is no number from 0 to 1e20: write such a number or null");
	refused("{" NEEDED "},\"bound_s\":1e21}",
		"f:1: \"bound_s\" is no number from 0 to 1e20: write such a number or null");
	refused("{" NEEDED "},\"version\":1}", "f:1: \"version\" is no text: write a text or null");
	refused("{" NEEDED "},\"bytes\":[]}",
		"f:1: \"bytes\" is no object: write an object or null");
	refused("{" NEEDED "},\"bytes\":{\"a\":{\"demand\":\"\xc3\xa9\"}}}",
		"f:1: \"demand\" is no number from 0 to 1e20: write such a number or null");
	refused("{" NEEDED "},\"epoch_s\":[1,\"2\"]}",
		"f:1: \"epoch_s\" has an epoch that is no time: write seconds");
	refused("{" NEEDED "},\"decisions\":{\"fault\":7}}",
		"f:1: \"fault\" is no object: write an object or null");
	refused("{" NEEDED "},\"decisions\":{\"globals\":{\"k\":\"1\"}}}",
		"f:1: the global \"k\" is no number");
	refused("{" NEEDED "},\"check\":{\"passed\":1}}",
		"f:1: \"passed\" is no truth: write true, false or null");
	refused("{" NEEDED ",\"nodes\":2}}",
		"f:1: no JSON object (duplicate object key near '\"nodes\"'): give a file of `weir "
		"bench --json`");
}

/* ------------------------------------------------------------------ timelines */

static int read_timeline(const char *text, struct report_timeline *timeline)
{
	err[0] = '\0';
	return report_timeline_read(text, strlen(text), "t", timeline, err, sizeof(err));
}

#define COUNTER(pid, ts, args) \
	"{\"ph\":\"C\",\"name\":\"resident\",\"pid\":" #pid ",\"ts\":" #ts ",\"args\":{" args "}}"

static void test_report_timeline_runs(void **state)
{
	/* clang-format off */
	static const char text[] =
		"[" COUNTER(7, 3e6, "\"hbm\":30,\"host\":1,\"idle\":0") ","
		COUNTER(7, 1e6, "\"hbm\":10") ","
		COUNTER(8, 1e6, "\"hbm\":5") ","
		"{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":7,\"args\":{\"name\":\"weir\"}},"
		"{\"ph\":\"X\"},17]";
	/* clang-format on */
	struct report_timeline timeline;
	const struct report_run *run;

	(void)state;
	assert_int_equal(read_timeline(text, &timeline), 0);
	/* Run 8 has no extent, and is left out. */
	assert_int_equal(timeline.nr_runs, 1);
	run = &timeline.run[0];
	assert_string_equal(run->name, "weir");
	assert_int_equal(run->nr_residencies, 2);
	assert_true(run->start_s == 1 && run->end_s == 3);
	assert_true(run->residency[0].sample[0].bytes == 10);
	assert_true(run->residency[0].sample[1].bytes == 30);
	report_timeline_fini(&timeline);
}

static void test_report_timeline_refuses(void **state)
{
	static const struct {
		const char *text, *line;
	} cases[] = {
		{"{",
		 "t: line 1: no JSON (string or '}' expected near end of file): give a file of "
		 "`weir bench --timeline`"},
		{"{}", "t: no array \"traceEvents\": give a file of `weir bench --timeline`"},
		{"[]", "t: nothing is \"resident\" over time in it: give a file of `weir bench "
		       "--timeline`"},
		{"[" COUNTER(1, 0, "\"hbm\":-1") "]",
		 "t: event 0 has no bytes of 'hbm': write a number from 0"},
		{"[" COUNTER(1, "0", "\"hbm\":1") "]",
		 "t: event 0 has no time: write \"ts\" in microseconds"},
	};
	struct report_timeline timeline;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		assert_int_equal(read_timeline(cases[i].text, &timeline), -EINVAL);
		assert_string_equal(err, cases[i].line);
		report_timeline_fini(&timeline);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_report_read_minimal),
		cmocka_unit_test(test_report_read_everything),
		cmocka_unit_test(test_report_read_explain),
		cmocka_unit_test(test_report_read_explain_refuses),
		cmocka_unit_test(test_report_read_no_time_without_success),
		cmocka_unit_test(test_report_read_of_a_real_gpu),
		cmocka_unit_test(test_report_read_refuses),
		cmocka_unit_test(test_report_timeline_runs),
		cmocka_unit_test(test_report_timeline_refuses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
