/* SPDX-License-Identifier: Apache-2.0 */
/* Option tables: where values come from, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/options.h"

enum { MACHINE, NODES, CHECK, POLICY, NR };

static const struct option_def defs[NR] = {
	[MACHINE] = {"machine", "M", "WEIR_TEST_MACHINE", "laptop", "where to run"},
	[NODES] = {"nodes", "N", NULL, NULL, "how many"},
	[CHECK] = {"check", NULL, NULL, NULL, "compare"},
	[POLICY] = {"policy", "P", NULL, NULL, "who decides", .many = true},
};

static struct option_value values[NR];
static char err[256];

#define PARSE(...) parse((char *[]){__VA_ARGS__, NULL})

static int parse(char **argv)
{
	int argc = 0;

	while (argv[argc])
		argc++;
	err[0] = '\0';
	return options_parse(defs, NR, argc, argv, values, err, sizeof(err));
}

static void assert_refused(int rc, const char *part)
{
	assert_int_equal(rc, -EINVAL);
	assert_non_null(strstr(err, part));
	assert_null(strchr(err, '\n'));
}

static int unset(void **state)
{
	(void)state;
	return unsetenv("WEIR_TEST_MACHINE");
}

/* What has no help has its default, and is known to nobody. */
static void test_options_without_help(void **state)
{
	static const struct option_def hidden[] = {
		{"nodes", "N", NULL, NULL, "how many", false},
		{"machine", "M", "WEIR_TEST_MACHINE", "laptop", NULL, false},
	};
	char *argv[] = {"--machine", "h200"}, text[512] = "";
	FILE *out = fmemopen(text, sizeof(text), "w");

	(void)state;
	assert_int_equal(setenv("WEIR_TEST_MACHINE", "gpu", 1), 0);
	assert_int_equal(options_parse(hidden, 2, 0, NULL, values, err, sizeof(err)), 0);
	assert_string_equal(values[1].text, "laptop");
	assert_refused(options_parse(hidden, 2, 2, argv, values, err, sizeof(err)),
		       "no option --machine; --help");
	assert_non_null(out);
	options_help(out, hidden, 2);
	fclose(out);
	assert_non_null(strstr(text, "--nodes N"));
	assert_null(strstr(text, "machine"));
}

static void test_options_defaults(void **state)
{
	(void)state;
	assert_int_equal(options_parse(defs, NR, 0, NULL, values, err, sizeof(err)), 0);
	assert_string_equal(values[MACHINE].text, "laptop");
	assert_int_equal(values[MACHINE].origin, OPTION_PRESET);
	assert_null(values[NODES].text);
	assert_null(values[CHECK].text);
}

static void test_options_both_forms(void **state)
{
	(void)state;
	assert_int_equal(PARSE("--machine", "h200", "--nodes=5M,8M", "--check"), 0);
	assert_string_equal(values[MACHINE].text, "h200");
	assert_int_equal(values[MACHINE].origin, OPTION_GIVEN);
	assert_string_equal(values[NODES].text, "5M,8M");
	assert_non_null(values[CHECK].text);
	assert_int_equal(PARSE("--nodes", "-"), 0);
	assert_string_equal(values[NODES].text, "-");
}

static void test_options_environment(void **state)
{
	(void)state;
	assert_int_equal(setenv("WEIR_TEST_MACHINE", "h200x4", 1), 0);
	assert_int_equal(PARSE("--check"), 0);
	assert_string_equal(values[MACHINE].text, "h200x4");
	assert_int_equal(values[MACHINE].origin, OPTION_ENV);
	assert_int_equal(PARSE("--machine", "laptop"), 0);
	assert_string_equal(values[MACHINE].text, "laptop");
	assert_int_equal(setenv("WEIR_TEST_MACHINE", "", 1), 0);
	assert_int_equal(PARSE("--check"), 0);
	assert_int_equal(values[MACHINE].origin, OPTION_PRESET);
}

static void test_options_refuses(void **state)
{
	(void)state;
	assert_refused(PARSE("--node", "5"), "did you mean --nodes?");
	assert_refused(PARSE("--frobnicate"), "no option --frobnicate");
	assert_refused(PARSE("--a-very-long-option-name-that-nobody-would-ever-write=1"),
		       "no option");
	assert_refused(PARSE("--=1"), "no option --");
	assert_refused(PARSE("--nodes"), "--nodes lacks its value");
	assert_refused(PARSE("--nodes", "--check"), "--nodes lacks its value");
	assert_refused(PARSE("--nodes="), "empty value");
	assert_refused(PARSE("--nodes", ""), "empty value");
	assert_refused(PARSE("--check=yes"), "takes no value");
	assert_refused(PARSE("5M"), "unexpected argument '5M'");
	assert_refused(PARSE("--"), "unexpected argument '--'");
	assert_refused(PARSE("-x"), "unexpected argument '-x'");
}

static void test_options_given_twice(void **state)
{
	(void)state;
	assert_refused(PARSE("--nodes", "5", "--nodes", "6"), "given twice, as '5' and as '6'");
	assert_int_equal(PARSE("--nodes", "5", "--nodes=5", "--check", "--check"), 0);
}

/* Each value of one that may have several counts, and once. */
static void test_options_many(void **state)
{
	char text[16], *argv[2 * OPTION_MORE_MAX + 5] = {0}, *command;
	static char names[OPTION_MORE_MAX + 2][8];
	unsigned int nr = 0;

	(void)state;
	assert_int_equal(PARSE("--policy", "a", "--policy=b", "--policy", "a", "--policy", "c"), 0);
	assert_string_equal(values[POLICY].text, "a");
	assert_int_equal(values[POLICY].nr_more, 2);
	assert_string_equal(values[POLICY].more[0], "b");
	assert_string_equal(values[POLICY].more[1], "c");
	command = options_command("x", defs, NR, values, NULL, 0, (const char *const[]){NULL});
	assert_string_equal(command, "x --policy a --policy b --policy c");
	free(command);
	for (unsigned int i = 0; i < OPTION_MORE_MAX + 2; i++) {
		(void)snprintf(names[i], sizeof(names[i]), "p%u", i);
		argv[nr++] = "--policy";
		argv[nr++] = names[i];
	}
	(void)snprintf(text, sizeof(text), "than %u times", OPTION_MORE_MAX + 1);
	assert_refused(parse(argv), text);
	argv[nr - 2] = NULL;
	assert_int_equal(parse(argv), 0);
	assert_int_equal(values[POLICY].nr_more, OPTION_MORE_MAX);
}

static void test_options_nearest(void **state)
{
	static const char *const names[] = {"bench", "info", NULL};

	(void)state;
	assert_string_equal(options_nearest("bensh", names), "bench");
	assert_string_equal(options_nearest("ifno", names), "info");
	assert_null(options_nearest("train", names));
	assert_null(options_nearest("", names));
}

static void test_options_help_shows_the_table(void **state)
{
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	(void)state;
	assert_non_null(out);
	options_help(out, defs, NR);
	fclose(out);
	assert_non_null(strstr(text, "--machine M"));
	assert_non_null(strstr(text, "where to run [laptop] {WEIR_TEST_MACHINE}"));
	assert_non_null(strstr(text, "--check "));
	free(text);

	/* Within 80 columns, below each other. */
	out = open_memstream(&text, &bytes);
	assert_non_null(out);
	options_help_line(out, "--name",
			  "words that go on and on until there is no room for one more");
	options_help_line(out, "--a-name-that-is-too-long", "text");
	fclose(out);
	assert_string_equal(
		text,
		"  --name                 words that go on and on until there is no room for one\n"
		"                         more\n"
		"  --a-name-that-is-too-long text\n");
	free(text);
}

/* What was asked for, wherever it comes from, as a shell would take it again. */
static void test_options_command(void **state)
{
	static const char *const but[] = {"check", NULL};
	const char *operands[] = {"a b's"};
	char *argv[] = {"--nodes", "5", "--check", NULL}, *text;

	(void)state;
	assert_int_equal(setenv("WEIR_TEST_MACHINE", "./m.json", 1), 0);
	assert_int_equal(options_parse(defs, NR, 3, argv, values, err, sizeof(err)), 0);
	text = options_command("run", defs, NR, values, operands, 1, but);
	assert_non_null(text);
	assert_string_equal(text, "run 'a b'\\''s' --machine ./m.json --nodes 5");
	free(text);
}

/* What is no option is an operand, wherever it stands; values of options are none. */
static void test_options_operands(void **state)
{
	char *argv[] = {"a", "--nodes", "5", "-", "--check", "b", "--machine=m", "c", NULL};
	const char *operands[8];
	int nr;

	(void)state;
	assert_int_equal(
		options_parse_operands(defs, NR, 8, argv, values, operands, &nr, err, sizeof(err)),
		0);
	assert_int_equal(nr, 4);
	assert_string_equal(operands[0], "a");
	assert_string_equal(operands[1], "-");
	assert_string_equal(operands[2], "b");
	assert_string_equal(operands[3], "c");
	assert_string_equal(values[NODES].text, "5");
	assert_string_equal(values[MACHINE].text, "m");
	assert_non_null(values[CHECK].text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_options_defaults, unset),
		cmocka_unit_test_teardown(test_options_without_help, unset),
		cmocka_unit_test_setup(test_options_both_forms, unset),
		cmocka_unit_test_setup(test_options_environment, unset),
		cmocka_unit_test_setup(test_options_refuses, unset),
		cmocka_unit_test_setup(test_options_given_twice, unset),
		cmocka_unit_test(test_options_many),
		cmocka_unit_test_setup(test_options_command, unset),
		cmocka_unit_test(test_options_operands),
		cmocka_unit_test(test_options_nearest),
		cmocka_unit_test(test_options_help_shows_the_table),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
