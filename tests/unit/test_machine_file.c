/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Machine descriptions: the shipped ones are right, every kind of wrong one is refused with one
 * line that says where, and files are found where they should be.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "machine/json_where.h"
#include "machine/machine_file.h"
#include "src/base/variables.h"

#define ERR_BYTES 256

static char machines_dir[512];
static char *laptop; /* text of the description that tests spoil */
static char scratch[] = "/tmp/test_machine_file.XXXXXX";

/* ------------------------------------------------------------------ helpers */

static char *read_text(const char *path)
{
	FILE *file = fopen(path, "r");
	char *text = calloc(1, MACHINE_FILE_BYTES_MAX + 1);

	assert_non_null(file);
	assert_non_null(text);
	assert_true(fread(text, 1, MACHINE_FILE_BYTES_MAX, file) > 0);
	assert_int_equal(fclose(file), 0);
	return text;
}

static void write_text(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

/* The text with the first occurrence of a part replaced. */
static char *edited(const char *text, const char *part, const char *by)
{
	const char *at = strstr(text, part);
	char *out;

	assert_non_null(at);
	assert_true(asprintf(&out, "%.*s%s%s", (int)(at - text), text, by, at + strlen(part)) > 0);
	return out;
}

/* One line, printable, and it begins with the file's name. */
static void check_line(const char *err)
{
	assert_true(*err && strlen(err) < ERR_BYTES);
	for (const char *c = err; *c; c++)
		assert_in_range(*c, ' ', '~');
	assert_memory_equal(err, "m.json", 6);
}

static void check_refused_bytes(const char *text, size_t bytes, const char *expected)
{
	struct machine_file machine;
	char err[ERR_BYTES] = "";

	assert_int_equal(machine_parse(text, bytes, "m.json", &machine, err, sizeof(err)),
			 -WEIR_EMACHINE);
	check_line(err);
	if (!strstr(err, expected))
		fail_msg("'%s' is not in '%s'", expected, err);
}

static void check_refused(const char *text, const char *expected)
{
	check_refused_bytes(text, strlen(text), expected);
}

/* Spoil the laptop's description in one place. */
static void check_edit(const char *part, const char *by, const char *expected)
{
	char *text = edited(laptop, part, by);

	check_refused(text, expected);
	free(text);
}

static int group_setup(void **state)
{
	const char *source = getenv("SOURCE_DIR");
	char path[600];

	(void)state;
	(void)snprintf(machines_dir, sizeof(machines_dir), "%s/machines", source ? source : ".");
	(void)snprintf(path, sizeof(path), "%s/laptop.json", machines_dir);
	laptop = read_text(path);
	return mkdtemp(scratch) ? 0 : -1;
}

static int group_teardown(void **state)
{
	(void)state;
	free(laptop);
	return rmdir(scratch);
}

/* ------------------------------------------------------------------ right ones */

static void check_same(const struct machine_file *a, const struct machine_file *b)
{
	/* Both were zeroed whole before they were filled, so padding is equal too. */
	assert_memory_equal(&a->desc, &b->desc, sizeof(a->desc));
	assert_string_equal(a->about, b->about);
	assert_int_equal(a->nr_constants, b->nr_constants);
	for (size_t i = 0; i < a->nr_constants; i++) {
		assert_string_equal(a->constant[i].path, b->constant[i].path);
		assert_string_equal(a->constant[i].source, b->constant[i].source);
		assert_true(a->constant[i].value == b->constant[i].value);
		assert_int_equal(a->constant[i].origin, b->constant[i].origin);
		assert_int_equal(a->constant[i].unit, b->constant[i].unit);
	}
}

static void test_machine_shipped(void **state)
{
	static const struct {
		const char *name;
		uint32_t nr_memories, nr_devices, nr_links;
		uint32_t nr_uvm; /* constants of managed memory */
		uint32_t nr_ports;
		uint32_t nr_more; /* of kernels, and such as may be left out */
		uint64_t hbm_bytes, granularity;
	} shipped[] = {
		{"gv100x16-pcie3", 17, 16, 136, 0, 16, 120, UINT64_C(16) << 30, 2 << 20},
		{"gv100x16-pcie6", 17, 16, 136, 0, 16, 120, UINT64_C(16) << 30, 2 << 20},
		{"gv100x4-pcie3", 5, 4, 10, 0, 4, 6, UINT64_C(16) << 30, 2 << 20},
		{"gv100x4-pcie6", 5, 4, 10, 0, 4, 6, UINT64_C(16) << 30, 2 << 20},
		{"h200", 2, 1, 1, 7, 0, 1, UINT64_C(139) << 30, 2 << 20},
		{"h200x2", 3, 2, 3, 0, 3, 27, UINT64_C(139) << 30, 2 << 20},
		{"h200x4", 5, 4, 10, 0, 11, 47, UINT64_C(139) << 30, 2 << 20},
		{"h200x8", 9, 8, 36, 0, 29, 141, UINT64_C(139) << 30, 2 << 20},
		{"laptop", 2, 1, 1, 0, 0, 0, UINT64_C(8000000000), 4096},
		{"rtx5090", 2, 1, 1, 7, 0, 0, UINT64_C(33670000000), 2 << 20},
	};
	struct machine_names names;

	(void)state;
	assert_int_equal(setenv(VARIABLE_MACHINE_PATH, machines_dir, 1), 0);
	for (size_t i = 0; i < sizeof(shipped) / sizeof(*shipped); i++) {
		struct machine_file machine, again;
		char err[ERR_BYTES] = "";
		char *text;

		if (machine_file_read(shipped[i].name, &machine, err, sizeof(err)))
			fail_msg("%s", err);
		assert_string_equal(machine.desc.name, shipped[i].name);
		assert_int_equal(machine.desc.nr_memories, shipped[i].nr_memories);
		assert_int_equal(machine.desc.nr_devices, shipped[i].nr_devices);
		assert_int_equal(machine.desc.nr_links, shipped[i].nr_links);
		assert_int_equal(machine.desc.memory[machine.desc.device[0].memory].bytes,
				 shipped[i].hbm_bytes);
		assert_int_equal(machine.desc.vmm.granularity_bytes, shipped[i].granularity);
		assert_int_equal(machine.nr_constants,
				 shipped[i].nr_memories + 7 * shipped[i].nr_devices +
					 13 * shipped[i].nr_links + 10 + shipped[i].nr_uvm +
					 2 * shipped[i].nr_ports + shipped[i].nr_more);
		assert_int_equal(machine.desc.nr_ports, shipped[i].nr_ports);
		assert_int_equal(machine.desc.uvm.batch_faults, shipped[i].nr_uvm ? 256 : 0);
		text = machine_format(&machine);
		assert_non_null(text);
		if (machine_parse(text, strlen(text), "again", &again, err, sizeof(err)))
			fail_msg("%s", err);
		check_same(&machine, &again);
		free(text);
		machine_file_fini(&again);
		machine_file_fini(&machine);
	}
	/* None is there that this test does not know. */
	assert_int_equal(machine_file_list(&names), 0);
	assert_int_equal(names.nr, sizeof(shipped) / sizeof(*shipped));
	for (size_t i = 0; i < names.nr; i++)
		assert_string_equal(names.name[i], shipped[i].name);
	machine_names_fini(&names);
}

static void test_machine_values_and_origins(void **state)
{
	struct weir_machine_desc desc;
	struct machine_file machine;
	const struct weir_link_desc *link;
	char err[ERR_BYTES] = "";

	(void)state;
	assert_int_equal(setenv(VARIABLE_MACHINE_PATH, machines_dir, 1), 0);
	assert_int_equal(machine_file_load("h200", &desc, err, sizeof(err)), 0);
	link = &desc.link[0];
	assert_int_equal(desc.memory[link->a].kind, WEIR_MEMORY_HOST);
	assert_true(link->a_to_b_bytes_per_s == 55.4e9);
	assert_true(link->b_to_a_bytes_per_s == 55.3e9);
	assert_int_equal(link->inplace_reach_bytes, 781 << 20);
	assert_int_equal(link->inplace_request_bytes, 128);
	assert_true(desc.device[0].hbm_bytes_per_s == 4.55e12);
	assert_int_equal(desc.vmm.set_access_ns, 43000);

	assert_int_equal(machine_file_read("h200", &machine, err, sizeof(err)), 0);
	assert_memory_equal(&machine.desc, &desc, sizeof(desc));
	assert_string_equal(machine.constant[2].path, "device[0].hbm_bytes_per_s");
	assert_int_equal(machine.constant[2].unit, MACHINE_BYTES_PER_S);
	assert_string_equal(machine_origin_name(machine.constant[2].origin), "measured");
	machine_file_fini(&machine);
}

/* The laptop with two kernels. */
#define TWO_KERNELS                                                                     \
	"\"kernel\": [\n"                                                               \
	"{\"name\": \"gather\", \"factor\": {\"value\": 1.25, \"origin\": \"fitted\", " \
	"\"source\": \"a run\"}},\n"                                                    \
	"{\"name\": \"relu\", \"factor\": {\"value\": 2, \"origin\": \"assumed\", "     \
	"\"source\": \"a guess\"}}],\n\"memory\": ["

static void parse_kernels(struct machine_file *out)
{
	char *text = edited(laptop, "\"memory\": [", TWO_KERNELS);
	char err[ERR_BYTES] = "";

	if (machine_parse(text, strlen(text), "m.json", out, err, sizeof(err)))
		fail_msg("%s", err);
	free(text);
}

static void test_machine_kernels(void **state)
{
	struct machine_file machine, again;
	char err[ERR_BYTES] = "";
	char *text;

	(void)state;
	parse_kernels(&machine);
	assert_int_equal(machine.desc.nr_kernels, 2);
	assert_string_equal(machine.desc.kernel[0].name, "gather");
	assert_true(machine.desc.kernel[0].factor == 1.25);
	assert_string_equal(machine.desc.kernel[1].name, "relu");
	assert_string_equal(machine.constant[machine.nr_constants - 1].path, "kernel[1].factor");
	text = machine_format(&machine);
	assert_non_null(text);
	assert_int_equal(machine_parse(text, strlen(text), "again", &again, err, sizeof(err)), 0);
	check_same(&machine, &again);
	free(text);
	machine_file_fini(&again);
	machine_file_fini(&machine);
}

#define SERIAL(value)                            \
	"\"inplace_serial\": {\"value\": " value \
	", \"origin\": \"assumed\", \"source\": \"a guess\"}"

/* A constant that may be left out: there it is none of the list, and 0. */
static void test_machine_constant_left_out(void **state)
{
	char *text = edited(laptop, "\"latency_ns\"", SERIAL("0.25") ", \"latency_ns\"");
	struct machine_file with, without, again;
	char err[ERR_BYTES] = "", *formatted;

	(void)state;
	assert_int_equal(machine_parse(laptop, strlen(laptop), "m", &without, err, sizeof(err)), 0);
	assert_int_equal(machine_parse(text, strlen(text), "m", &with, err, sizeof(err)), 0);
	assert_true(without.desc.link[0].inplace_serial == 0);
	assert_true(with.desc.link[0].inplace_serial == 0.25);
	assert_int_equal(with.nr_constants, without.nr_constants + 1);
	formatted = machine_format(&with);
	assert_non_null(formatted);
	assert_non_null(strstr(formatted, "\"inplace_serial\""));
	assert_int_equal(machine_parse(formatted, strlen(formatted), "m", &again, err, sizeof(err)),
			 0);
	check_same(&with, &again);
	free(formatted);
	free(text);
	machine_file_fini(&again);
	machine_file_fini(&with);
	formatted = machine_format(&without);
	assert_non_null(formatted);
	assert_null(strstr(formatted, "\"inplace_serial\""));
	free(formatted);
	machine_file_fini(&without);
	check_edit("\"latency_ns\"", SERIAL("1.25") ", \"latency_ns\"",
		   "link[0].inplace_serial.value: must be from 0 to 1");
	check_edit("\"latency_ns\"", SERIAL("-1e-3") ", \"latency_ns\"",
		   "link[0].inplace_serial.value: must be from 0 to 1");
	check_edit("\"map_ns\"", SERIAL("0") ", \"map_ns\"", "vmm.inplace_serial: unknown key");
}

#define PLAN_WORK(value)                       \
	"\"plan_work_ns\": {\"value\": " value \
	", \"origin\": \"assumed\", \"source\": \"a guess\"}, \"launch_ns\""

/* What a plan takes the host may be left out, too; more than a second is refused. */
static void test_machine_plan_work(void **state)
{
	char *text = edited(laptop, "\"launch_ns\"", PLAN_WORK("3"));
	struct machine_file with, without;
	char err[ERR_BYTES] = "";

	(void)state;
	assert_int_equal(machine_parse(laptop, strlen(laptop), "m", &without, err, sizeof(err)), 0);
	assert_int_equal(machine_parse(text, strlen(text), "m", &with, err, sizeof(err)), 0);
	assert_int_equal(without.desc.device[0].plan_work_ns, 0);
	assert_int_equal(with.desc.device[0].plan_work_ns, 3);
	free(text);
	machine_file_fini(&with);
	machine_file_fini(&without);
	check_edit("\"launch_ns\"", PLAN_WORK("1000000001"),
		   "device[0].plan_work_ns: device 'gpu0': plan_work_ns is beyond a second");
}

#define RANDOM                                                               \
	"\"inplace_serial_random\": {\"value\": 0, \"origin\": \"assumed\"," \
	" \"source\": \"a guess\"}, "

/* A description that does not say what kernels lose that use memory at random means, as it did,
 * that these lose what the others do. */
static void test_machine_serial_random_left_out(void **state)
{
	char *one = edited(laptop, "\"latency_ns\"", SERIAL("0.25") ", \"latency_ns\"");
	char *two = edited(one, "\"inplace_serial\"", RANDOM "\"inplace_serial\""), *formatted;
	struct machine_file machine;
	char err[ERR_BYTES] = "";

	(void)state;
	assert_int_equal(machine_parse(one, strlen(one), "m", &machine, err, sizeof(err)), 0);
	assert_true(machine.desc.link[0].inplace_serial_random == 0.25);
	formatted = machine_format(&machine);
	assert_non_null(formatted);
	assert_null(strstr(formatted, "inplace_serial_random"));
	free(formatted);
	machine_file_fini(&machine);
	assert_int_equal(machine_parse(two, strlen(two), "m", &machine, err, sizeof(err)), 0);
	assert_true(machine.desc.link[0].inplace_serial == 0.25);
	assert_true(machine.desc.link[0].inplace_serial_random == 0);
	formatted = machine_format(&machine);
	assert_non_null(formatted);
	assert_non_null(strstr(formatted, "inplace_serial_random"));
	free(formatted);
	machine_file_fini(&machine);
	free(two);
	free(one);
}

/* Other kernels in place of those that were there, whatever their number. */
static void test_machine_set_kernels(void **state)
{
	struct weir_kernel_rate kernel[WEIR_KERNELS_MAX] = {{"a", 3}, {"b", 0.5}, {"c", 1e-3}};
	struct machine_file machine, again;
	char err[ERR_BYTES] = "";

	(void)state;
	parse_kernels(&machine);
	for (uint32_t i = 3; i < WEIR_KERNELS_MAX; i++) {
		(void)snprintf(kernel[i].name, WEIR_NAME_MAX, "k%u", i);
		kernel[i].factor = i;
	}
	for (uint32_t nr = WEIR_KERNELS_MAX;; nr = nr == 3 ? 0 : 3) {
		char *text;

		assert_int_equal(
			machine_set_kernels(&machine, kernel, nr, WEIR_ORIGIN_MEASURED, "a run"),
			0);
		assert_int_equal(machine.desc.nr_kernels, nr);
		assert_memory_equal(machine.desc.kernel, kernel, nr * sizeof(*kernel));
		text = machine_format(&machine);
		assert_non_null(text);
		if (machine_parse(text, strlen(text), "again", &again, err, sizeof(err)))
			fail_msg("%s", err);
		check_same(&machine, &again);
		assert_true(!strstr(text, "gather") && (nr > 0) == !!strstr(text, "\"kernel\""));
		free(text);
		machine_file_fini(&again);
		if (!nr)
			break;
	}
	machine_file_fini(&machine);
}

static void test_machine_wrong_kernels(void **state)
{
	(void)state;
	check_edit("\"memory\": [", "\"kernel\": {}, \"memory\": [", "kernel: must be an array");
	check_edit("\"memory\": [", "\"kernel\": [{}], \"memory\": [",
		   "kernel[0].name: is missing");
	check_edit("\"memory\": [", "\"kernel\": [{\"name\": \"x\"}], \"memory\": [",
		   "kernel[0].factor: is missing");
	check_edit("\"memory\": [",
		   "\"kernel\": [{\"name\": \"a b\", \"factor\": 1}], \"memory\": [", "is no name");
	check_edit("\"memory\": [",
		   "\n\"kernel\": [{\"name\": \"a\", \"factor\": {\"value\": 0, "
		   "\"origin\": \"fitted\", \"source\": \"x\"}}], \"memory\": [",
		   "m.json:6: kernel[0].factor.value: must be above 0");
	check_edit("\"memory\": [",
		   "\"kernel\": [{\"name\": \"a\", \"factor\": {\"value\": 1, "
		   "\"origin\": \"fitted\", \"source\": \"x\"}}, {\"name\": \"a\", "
		   "\"factor\": {\"value\": 1, \"origin\": \"fitted\", \"source\": \"x\"}}], "
		   "\"memory\": [",
		   "kernel 'a' is there twice");
}

/* Whole numbers may be written as 8e9, whatever the locale. */
static void test_machine_whole_real(void **state)
{
	char *text = edited(laptop, "\"value\": 8000000000,", "\"value\": 8.5e9,");
	struct machine_file machine;
	char err[ERR_BYTES] = "";

	(void)state;
	assert_int_equal(machine_parse(text, strlen(text), "m.json", &machine, err, sizeof(err)),
			 0);
	assert_int_equal(machine.desc.memory[1].bytes, UINT64_C(8500000000));
	machine_file_fini(&machine);
	free(text);
}

/* ------------------------------------------------------------------ wrong ones */

static void test_machine_not_json(void **state)
{
	char deep[5001];
	char binary[256];

	(void)state;
	check_refused("", "m.json");
	check_refused("{", "m.json:1:1: ");
	check_refused("{\n\"schema\": 1,\n]", "m.json:3:1: ");
	check_refused("{} x", "m.json:1:4: ");
	check_refused("\xff\xfe", "m.json");
	check_refused("{\"a\": \"\xc0\x80\"}", "m.json");
	check_refused("{\"a\": \"x\x1b[31m\"}", "control character");
	check_refused("{\"a\\u0000b\": 1}", "m.json");
	check_refused("{\"schema\": 1, \"schema\": 1}", "duplicate");
	check_refused("{\"schema\": 1e999}", "m.json:1:");
	check_refused("{\"schema\": 99999999999999999999}", "m.json:1:");
	memset(deep, '[', sizeof(deep) - 1);
	deep[sizeof(deep) - 1] = '\0';
	check_refused(deep, "depth");
	for (size_t i = 0; i < sizeof(binary); i++)
		binary[i] = (char)(255 - i);
	check_refused_bytes(binary, sizeof(binary), "m.json");
	check_refused_bytes("\0\0\0\0", 4, "m.json");
	/* A NUL behind a whole description is no end of it. */
	check_refused_bytes("{}\0", 3, "m.json");
}

static void test_machine_cut_anywhere(void **state)
{
	size_t end = strlen(laptop);

	(void)state;
	while (laptop[end - 1] == '\n')
		end--;
	for (size_t bytes = 0; bytes < end; bytes++)
		check_refused_bytes(laptop, bytes, "m.json");
}

static void test_machine_wrong_keys(void **state)
{
	(void)state;
	check_refused("[]", "must be an object");
	check_refused("3", "m.json");
	check_refused("{}", "schema: is missing");
	check_edit("\"schema\": 1", "\"schema\": 2", "m.json:2: schema: must be 1");
	check_edit("\"schema\": 1", "\"schema\": \"1\"", "m.json:2: schema: must be 1");
	check_edit("\"schema\": 1", "\"shema\": 1", "m.json:2: shema: unknown key");
	check_edit("\"ops_per_s\"", "\"ops\"", "device[0].ops: unknown key");
	check_edit("\"hbm_bytes_per_s\": {", "\"hbm_bytes_per_s\": [], \"x\": {",
		   "device[0].x: unknown key");
	check_edit("\"kind\": \"hbm\",", "", "m.json:10: memory[1].kind: is missing");
	check_edit("\"origin\": \"assumed\", ", "", "memory[0].bytes.origin: is missing");
	check_edit("\"value\": 16000000000,", "", "memory[0].bytes.value: is missing");
	check_edit("\"source\": \"an invented machine\"", "\"sauce\": \"x\"",
		   "memory[0].bytes.sauce: unknown key");
	check_edit("\"about\"", "\"a\\tb\\u009b\\\"\"", "a?b??\": unknown key");
}

static void test_machine_wrong_types(void **state)
{
	(void)state;
	check_edit("\"name\": \"laptop\"", "\"name\": 7", "m.json:3: name: must be a string");
	check_edit("\"name\": \"laptop\"", "\"name\": \"\"", "m.json:3: name: must have 1 to 31");
	check_edit("\"name\": \"laptop\"", "\"name\": \"../up\"", "name: '../up' is no name");
	check_edit("\"name\": \"laptop\"", "\"name\": \"a b\"", "is no name");
	check_edit("\"name\": \"laptop\"", "\"name\": \"a\\nb\"", "must be printable ASCII");
	check_edit("\"name\": \"laptop\"", "\"name\": \"12345678901234567890123456789012\"",
		   "must have 1 to 31");
	check_edit("\"kind\": \"hbm\"", "\"kind\": \"vram\"",
		   "memory[1].kind: 'vram' is none of host, hbm");
	check_edit("\"origin\": \"assumed\"", "\"origin\": \"guessed\"",
		   "'guessed' is none of measured, published, vendor, fitted, assumed");
	check_edit("\"source\": \"an invented machine\"", "\"source\": \"\"",
		   "memory[0].bytes.source: must have 1 to 1024");
	check_edit("{\"value\": 16000000000, \"origin\": \"assumed\", "
		   "\"source\": \"an invented machine\"}",
		   "16000000000", "memory[0].bytes: must be an object");
	check_edit("\"value\": 16000000000", "\"value\": \"16 GB\"",
		   "memory[0].bytes.value: must be a number");
	check_edit("\"memory\": [", "\"memory\": {}, \"vmm\": [", "duplicate");
	check_edit("\"memory\": \"gpu0\"", "\"memory\": \"gpu1\"",
		   "device[0].memory: no memory is named 'gpu1'");
	check_edit("\"a\": \"host\"", "\"a\": 0", "link[0].a: must be a string");
	check_edit("\"a\": \"host\"", "\"a\": \"hast\"", "link[0].a: no memory is named 'hast'");
}

static void test_machine_wrong_numbers(void **state)
{
	(void)state;
	check_edit("\"value\": 16000000000", "\"value\": -1",
		   "memory[0].bytes.value: must be a whole");
	check_edit("\"value\": 16000000000", "\"value\": 0.5",
		   "memory[0].bytes.value: must be a whole");
	check_edit("\"value\": 16000000000", "\"value\": 9007199254740993",
		   "must be at most 9007199254740992");
	check_edit("\"value\": 16000000000", "\"value\": 1e300", "must be a whole number from 0");
	check_edit("\"value\": 16000000000", "\"value\": 0", "memory[0].bytes: ");
	check_edit("\"value\": 8000000000000,", "\"value\": 0,",
		   "m.json:22: device[0].ops_per_s.value: must be above 0");
	check_edit("\"value\": 8000000000000,", "\"value\": -8e12,", "must be above 0");
	check_edit("\"inplace_request_bytes\": {\"value\": 128",
		   "\"inplace_request_bytes\": {\"value\": 4294967296",
		   "link[0].inplace_request_bytes.value: must be at most 4294967295");
}

static void test_machine_too_many(void **state)
{
	static const char four[] = "{}, {}, {}, {}, ";
	char many[128];

	(void)state;
	(void)snprintf(many, sizeof(many), "\"memory\": [%s%s%s%s", four, four, four, four);
	check_edit("\"memory\": [", many, "memory: has 18 elements, at most 17 are possible");
	check_edit("\"memory\": [", "\"memory\": [3, ", "memory[0]: must be an object");
}

/* Put a copy of an object into an array, with two of its texts changed. */
static void add_copy(json_t *array, json_t *object, const char *key, const char *text,
		     const char *other_key, const char *other_text)
{
	json_t *copy = json_deep_copy(object);

	assert_int_equal(json_object_set_new(copy, key, json_string(text)), 0);
	assert_int_equal(json_object_set_new(copy, other_key, json_string(other_text)), 0);
	assert_int_equal(json_array_append_new(array, copy), 0);
}

/* The laptop with so many GPUs, and a link between any two memories. */
static char *full_machine(uint32_t nr_devices)
{
	json_t *root = json_loads(laptop, 0, NULL), *memories, *devices, *links, *link;
	char name[2][WEIR_NAME_MAX], *text;

	assert_non_null(root);
	memories = json_object_get(root, "memory");
	devices = json_object_get(root, "device");
	links = json_object_get(root, "link");
	link = json_incref(json_array_get(links, 0));
	assert_int_equal(json_array_clear(links), 0);
	for (uint32_t b = 1; b <= nr_devices; b++) {
		(void)snprintf(name[1], sizeof(name[1]), "gpu%u", b - 1);
		if (b > 1) {
			add_copy(memories, json_array_get(memories, 1), "name", name[1], "kind",
				 "hbm");
			add_copy(devices, json_array_get(devices, 0), "name", name[1], "memory",
				 name[1]);
		}
		for (uint32_t a = 0; a < b; a++) {
			(void)snprintf(name[0], sizeof(name[0]), "gpu%u", a - 1);
			add_copy(links, link, "a", a ? name[0] : "host", "b", name[1]);
		}
	}
	text = json_dumps(root, JSON_INDENT(4));
	assert_non_null(text);
	json_decref(link);
	json_decref(root);
	return text;
}

/* As many of all as there can be, from a file. */
static void test_machine_full(void **state)
{
	struct machine_file machine, again;
	char err[ERR_BYTES] = "", path[600], *text = full_machine(WEIR_DEVICES_MAX);

	(void)state;
	(void)snprintf(path, sizeof(path), "%s/full.json", scratch);
	write_text(path, text);
	free(text);
	if (machine_file_read(path, &machine, err, sizeof(err)))
		fail_msg("%s", err);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(machine.desc.nr_devices, 16);
	assert_int_equal(machine.desc.nr_memories, 17);
	assert_int_equal(machine.desc.nr_links, 136);
	text = machine_format(&machine);
	assert_non_null(text);
	if (machine_parse(text, strlen(text), "again", &again, err, sizeof(err)))
		fail_msg("%s", err);
	check_same(&machine, &again);
	free(text);
	machine_file_fini(&again);
	machine_file_fini(&machine);
	text = full_machine(WEIR_DEVICES_MAX + 1);
	check_refused(text, "memory: has 18 elements, at most 17 are possible");
	free(text);
}

/* What weir_machine_check() finds is found in the file too. */
static void test_machine_contradictory(void **state)
{
	char path[600];
	char *four, *text;

	(void)state;
	(void)snprintf(path, sizeof(path), "%s/h200x4.json", machines_dir);
	four = read_text(path);
	text = edited(four, "\"name\": \"gpu1\", \"memory\"", "\"name\": \"gpu0\", \"memory\"");
	check_refused(text, "two devices are called 'gpu0'");
	free(text);
	text = edited(four, "\"a\": \"gpu0\", \"b\": \"gpu2\"", "\"a\": \"gpu0\", \"b\": \"gpu1\"");
	check_refused(text, "link[4]: link 'gpu0-gpu1' is there twice");
	free(text);
	free(four);
	check_edit("\"value\": 4096,", "\"value\": 5000,", "vmm.granularity_bytes: ");
	check_edit("\"kind\": \"host\"", "\"kind\": \"hbm\"", "host");
	check_edit("\"a\": \"host\", \"b\": \"gpu0\"", "\"a\": \"gpu0\", \"b\": \"gpu0\"",
		   "link[0]");
	check_edit("\"a\": \"host\", \"b\": \"gpu0\"", "\"a\": \"gpu0\", \"b\": \"host\"",
		   "m.json");
	check_edit("\"name\": \"gpu0\", \"memory\": \"gpu0\"",
		   "\"name\": \"gpu0\", \"memory\": \"host\"", "m.json:17: device[0].memory: ");
}

/* The section of managed memory is whole or not there. */
static void test_machine_uvm(void **state)
{
	char path[600], *with;

	(void)state;
	(void)snprintf(path, sizeof(path), "%s/rtx5090.json", machines_dir);
	with = read_text(path);
	for (size_t i = 0; i < 5; i++) {
		static const char *const edits[][3] = {
			{"\"page_ns\": {", "\"pages_ns\": {", "uvm.pages_ns: unknown key"},
			{"\"value\": 256,", "\"value\": 0,", "uvm.batch_faults: must be above 0"},
			{"\"value\": 256,", "\"value\": 4097,", "uvm.batch_faults: uvm: batch_"},
			{"\"value\": 256,", "\"value\": 1.5,", "uvm.batch_faults.value: must be"},
			{"\"uvm\": {", "\"uvm\": 3, \"vmm2\": {", "unknown key"},
		};
		char *text = edited(with, edits[i][0], edits[i][1]);

		check_refused(text, edits[i][2]);
		free(text);
	}
	free(with);
	check_edit("\"vmm\": {", "\"uvm\": {}, \"vmm\": {", "uvm.batch_faults: is missing");
	check_edit("\"vmm\": {", "\"uvm\": [], \"vmm\": {", "uvm: must be an object");
}

/* Ports are there or not; kernels may come before them in the text. */
static void test_machine_ports(void **state)
{
	static const char *const edits[][3] = {
		{"\"links\": 2", "\"links\": 0",
		 "port[0].links: must be a whole number from 1 to 16"},
		{"\"links\": 2", "\"links\": 17", "port[0].links: must be a whole number"},
		{"\"links\": 2", "\"links\": 2.5", "port[0].links: must be a whole number"},
		{"\"links\": 2", "\"links\": \"2\"", "port[0].links: must be a whole number"},
		{"\"links\": 3", "\"links\": 2", "port 'host-2' is there twice"},
		{"\"memory\": \"host\", \"links\"", "\"memory\": \"none\", \"links\"",
		 "port[0].memory: no memory is named 'none'"},
		{"\"send_bytes_per_s\"", "\"sent_bytes_per_s\"",
		 "port[0].sent_bytes_per_s: unknown"},
		{"\"value\": 104000000000", "\"value\": 0",
		 "port[0].send_bytes_per_s.value: must be"},
	};
	struct machine_file machine;
	char path[600], err[ERR_BYTES] = "", *with;
	uint32_t at = 0;

	(void)state;
	(void)snprintf(path, sizeof(path), "%s/h200x4.json", machines_dir);
	with = read_text(path);
	for (size_t i = 0; i < sizeof(edits) / sizeof(edits[0]); i++) {
		char *text = edited(with, edits[i][0], edits[i][1]);

		check_refused(text, edits[i][2]);
		free(text);
	}
	if (machine_parse(with, strlen(with), "m.json", &machine, err, sizeof(err)))
		fail_msg("%s", err);
	assert_int_equal(machine.desc.port[2].memory, 0);
	assert_int_equal(machine.desc.port[2].links, 4);
	assert_true(machine.desc.port[2].send_bytes_per_s == 144e9);
	while (at < machine.nr_constants &&
	       strcmp(machine.constant[at].path, "port[10].receive_bytes_per_s"))
		at++;
	assert_true(at < machine.nr_constants);
	machine_file_fini(&machine);
	free(with);
	check_edit("\"vmm\": {", "\"port\": {}, \"vmm\": {", "port: must be an array");
}

static void test_machine_error_buffer(void **state)
{
	struct machine_file machine;
	char err[8];

	(void)state;
	assert_int_equal(machine_parse("{}", 2, "m.json", &machine, NULL, 0), -WEIR_EMACHINE);
	assert_int_equal(machine_parse("{", 1, "m.json", &machine, NULL, 0), -WEIR_EMACHINE);
	assert_int_equal(machine_parse("{}", 2, "m.json", &machine, err, sizeof(err)),
			 -WEIR_EMACHINE);
	assert_string_equal(err, "m.json:");
	assert_int_equal(machine_file_read("/nowhere", &machine, NULL, 0), -ENOENT);
	assert_int_equal(machine_file_read("nowhere", &machine, NULL, 0), -ENOENT);
}

/* ------------------------------------------------------------------ no memory */

static long allocations_left;

static void *failing_malloc(size_t bytes)
{
	return allocations_left-- > 0 ? malloc(bytes) : NULL;
}

static void test_machine_out_of_memory(void **state)
{
	struct machine_file machine;
	char err[ERR_BYTES];
	char *text = NULL;
	int rc = -1;

	(void)state;
	json_set_alloc_funcs(failing_malloc, free);
	for (long nr = 0; rc; nr++) {
		allocations_left = nr;
		err[0] = '\0';
		rc = machine_parse(laptop, strlen(laptop), "m.json", &machine, err, sizeof(err));
		if (!rc)
			break;
		check_line(err);
		assert_in_range(nr, 0, 10000);
	}
	for (long nr = 0; !text; nr++) {
		allocations_left = nr;
		text = machine_format(&machine);
		assert_in_range(nr, 0, 10000);
	}
	/* asprintf() made the text, so free() is right; jansson's own strings went back to it. */
	free(text);
	machine_file_fini(&machine);
	json_set_alloc_funcs(malloc, free);
}

/* ------------------------------------------------------------------ files */

static void check_read_fails(const char *name, int error, const char *expected)
{
	struct machine_file machine;
	char err[ERR_BYTES] = "";

	assert_int_equal(machine_file_read(name, &machine, err, sizeof(err)), error);
	for (const char *c = err; *c; c++)
		assert_in_range(*c, ' ', '~');
	if (!strstr(err, expected))
		fail_msg("'%s' is not in '%s'", expected, err);
}

static void test_machine_file_errors(void **state)
{
	char path[600];

	(void)state;
	assert_int_equal(setenv(VARIABLE_MACHINE_PATH, machines_dir, 1), 0);
	check_read_fails("/nowhere/x.json", -ENOENT, "/nowhere/x.json: No such file");
	check_read_fails("x.json", -ENOENT, "x.json: No such file");
	check_read_fails(scratch, -EISDIR, "Is a directory");
	check_read_fails("/dev/zero", -EFBIG, "larger than 1 MiB");
	check_read_fails("/dev/null", -WEIR_EMACHINE, "/dev/null:1:");
	check_read_fails("nosuch", -ENOENT,
			 "nosuch: no such machine; there are gv100x16-pcie3, gv100x16-pcie6, "
			 "gv100x4-pcie3, gv100x4-pcie6, h200, h200x2, h200x4, h200x8, laptop, "
			 "rtx5090; or");
	check_read_fails("", -ENOENT, "'': no such machine");
	check_read_fails("a\nb", -ENOENT, "a?b: no such machine");
	check_read_fails(".", -ENOENT, "no such machine");

	(void)snprintf(path, sizeof(path), "%s/secret.json", scratch);
	write_text(path, laptop);
	assert_int_equal(chmod(path, 0), 0);
	if (geteuid() != 0)
		check_read_fails(path, -EACCES, "Permission denied");
	assert_int_equal(unlink(path), 0);
}

static void test_machine_file_search(void **state)
{
	char one[600], two[600], path[1300], variable[1300];
	struct machine_names names;
	struct weir_machine_desc desc;
	char err[ERR_BYTES];
	char *other = edited(laptop, "\"value\": 8000000000,", "\"value\": 7000000000,");

	(void)state;
	(void)snprintf(one, sizeof(one), "%s/one", scratch);
	(void)snprintf(two, sizeof(two), "%s/two", scratch);
	assert_int_equal(mkdir(one, 0700), 0);
	assert_int_equal(mkdir(two, 0700), 0);
	(void)snprintf(path, sizeof(path), "%s/laptop.json", two);
	write_text(path, laptop);
	(void)snprintf(path, sizeof(path), "%s/laptop.json", one);
	write_text(path, other);
	(void)snprintf(path, sizeof(path), "%s/alias.json", two);
	write_text(path, laptop);

	/* The first folder wins; empty and missing ones do not matter. */
	(void)snprintf(variable, sizeof(variable), "::/nowhere:%s:%s:", one, two);
	assert_int_equal(setenv(VARIABLE_MACHINE_PATH, variable, 1), 0);
	assert_int_equal(machine_file_load("laptop", &desc, err, sizeof(err)), 0);
	assert_int_equal(desc.memory[1].bytes, UINT64_C(7000000000));
	assert_int_equal(machine_file_load(path, &desc, err, sizeof(err)), 0);
	check_read_fails("alias", -WEIR_EMACHINE, "name: is 'laptop', not that of the file");

	assert_int_equal(machine_file_list(&names), 0);
	assert_true(names.nr >= 2);
	assert_string_equal(names.name[0], "alias");
	for (size_t i = 1; i < names.nr; i++)
		assert_true(strcmp(names.name[i - 1], names.name[i]) < 0);
	machine_names_fini(&names);

	assert_int_equal(unlink(path), 0);
	(void)snprintf(path, sizeof(path), "%s/laptop.json", two);
	assert_int_equal(unlink(path), 0);
	(void)snprintf(path, sizeof(path), "%s/laptop.json", one);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rmdir(one), 0);
	assert_int_equal(rmdir(two), 0);
	free(other);
}

/* ------------------------------------------------------------------ lines */

static void test_json_where(void **state)
{
	static const char text[] = "\n{ \"a\": [1,\n {\"b\\\"]\": \"}]\\\\\",\n\"c\": {}},\n"
				   "[[],\n3]], \"d\"\n: \n4}\n";

	(void)state;
	assert_int_equal(json_where(text, strlen(text), ""), 2);
	assert_int_equal(json_where(text, strlen(text), "a"), 2);
	assert_int_equal(json_where(text, strlen(text), "a[0]"), 2);
	assert_int_equal(json_where(text, strlen(text), "a[1]"), 3);
	assert_int_equal(json_where(text, strlen(text), "a[1].c"), 4);
	assert_int_equal(json_where(text, strlen(text), "a[2]"), 5);
	assert_int_equal(json_where(text, strlen(text), "a[2][1]"), 6);
	assert_int_equal(json_where(text, strlen(text), "d"), 6);
	assert_int_equal(json_where(text, strlen(text), "a[3]"), 0);
	assert_int_equal(json_where(text, strlen(text), "a[2][0][0]"), 0);
	assert_int_equal(json_where(text, strlen(text), "a.c"), 0);
	assert_int_equal(json_where(text, strlen(text), "d[0]"), 0);
	assert_int_equal(json_where(text, strlen(text), "e"), 0);
	assert_int_equal(json_where(text, strlen(text), "a[x]"), 0);
	assert_int_equal(json_where(text, strlen(text), "."), 0);
	for (size_t bytes = 0; bytes < strlen(text); bytes++)
		(void)json_where(text, bytes, "a[2][1]");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_machine_shipped),
		cmocka_unit_test(test_machine_values_and_origins),
		cmocka_unit_test(test_machine_kernels),
		cmocka_unit_test(test_machine_constant_left_out),
		cmocka_unit_test(test_machine_plan_work),
		cmocka_unit_test(test_machine_serial_random_left_out),
		cmocka_unit_test(test_machine_set_kernels),
		cmocka_unit_test(test_machine_wrong_kernels),
		cmocka_unit_test(test_machine_whole_real),
		cmocka_unit_test(test_machine_not_json),
		cmocka_unit_test(test_machine_cut_anywhere),
		cmocka_unit_test(test_machine_wrong_keys),
		cmocka_unit_test(test_machine_wrong_types),
		cmocka_unit_test(test_machine_wrong_numbers),
		cmocka_unit_test(test_machine_too_many),
		cmocka_unit_test(test_machine_full),
		cmocka_unit_test(test_machine_contradictory),
		cmocka_unit_test(test_machine_uvm),
		cmocka_unit_test(test_machine_ports),
		cmocka_unit_test(test_machine_error_buffer),
		cmocka_unit_test(test_machine_out_of_memory),
		cmocka_unit_test(test_machine_file_errors),
		cmocka_unit_test(test_machine_file_search),
		cmocka_unit_test(test_json_where),
	};

	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
