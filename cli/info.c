/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `weir info`: which machines are described, and what a description says. With --measure, a new
 * description, see measure.h; with --memory, what a process holds, see info_memory.h.
 */
#include "cli/info.h"

#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/info_memory.h"
#include "machine/machine_file.h"
#include "cli/measure.h"
#include "cli/options.h"
#include "cli/size.h"
#include "cli/table.h"
#include "src/base/util.h"
#include "src/base/variables.h"
#include "workloads/probe/probe.h"

/* Where a constant's explanation, and its origin, stand. */
#define HELP_INDENT 39
#define ORIGIN_INDENT 50

enum info_option {
	INFO_MACHINE,
	INFO_JSON,
	INFO_ORIGINS,
	INFO_MEMORY,
	INFO_MEASURE,
	INFO_DEVICE,
	INFO_QUICK,
	INFO_OUTPUT,
	INFO_HELP,
	INFO_NR
};

static const struct option_def info_options[INFO_NR] = {
	[INFO_MACHINE] = {"machine", "M", NULL, NULL, "show this one: a name or a file's path"},
	[INFO_JSON] = {"json", NULL, NULL, NULL, "print JSON"},
	[INFO_ORIGINS] = {"origins", NULL, NULL, NULL, "show where each constant comes from"},
	[INFO_MEMORY] = {"memory", "PID", NULL, NULL,
			 "show what is in the memory pools of a running process"},
	[INFO_MEASURE] = {"measure", NULL, NULL, NULL,
			  "measure this computer's GPUs (or M's simulation): a new description"},
	[INFO_DEVICE] = {"device", "N", NULL, NULL, "measure this device and its links alone"},
	[INFO_QUICK] = {"quick", NULL, NULL, NULL, "measure with fewer repetitions, less memory"},
	[INFO_OUTPUT] = {"output", "FILE", NULL, NULL,
			 "where the new description goes; -o too; - is stdout"},
	[INFO_HELP] = {"help", NULL, NULL, NULL, "print this"},
};

static void print_help(void)
{
	puts("usage: weir info [--machine M [--origins]] [--json]\n"
	     "       weir info --measure [--machine M] [--device N] [--quick] [-o FILE]\n"
	     "       weir info --memory PID [--json]\n"
	     "\n"
	     "List the machines that are described, or show one description, or measure a machine\n"
	     "and write its description. Or show a process's memory.\n");
	options_help(stdout, info_options, INFO_NR);
	puts("\n"
	     "Descriptions are NAME.json in the folders of $" VARIABLE_MACHINE_PATH
	     " and in weir's own;\n"
	     "weir-machine(5) says how to write one.");
}

/* ------------------------------------------------------------------ the list */

static void list_as_text(const struct machine_names *names)
{
	printf("machines (" MACHINE_DEFAULT " is the default where there is no GPU):\n");
	for (size_t i = 0; i < names->nr; i++) {
		struct machine_file machine;
		char err[512];

		if (machine_file_read(names->name[i], &machine, err, sizeof(err))) {
			printf("  %-14s unusable: %s\n", names->name[i], err);
			continue;
		}
		printf("  %-14s %s\n", names->name[i], machine.about);
		machine_file_fini(&machine);
	}
}

static int list_as_json(const struct machine_names *names)
{
	json_t *list = json_array();
	json_t *root = json_pack("{ssso}", "default", MACHINE_DEFAULT, "machines", list);
	int bad = root ? 0 : -1;

	for (size_t i = 0; i < names->nr && !bad; i++) {
		struct machine_file machine;
		char err[512];
		bool usable = !machine_file_read(names->name[i], &machine, err, sizeof(err));

		bad = json_array_append_new(list, json_pack("{ssss}", "name", names->name[i],
							    usable ? "about" : "error",
							    usable ? machine.about : err));
		if (usable)
			machine_file_fini(&machine);
	}
	if (!bad) {
		/* Output errors show when the stream is closed. */
		(void)json_dumpf(root, stdout, JSON_INDENT(2));
		(void)putchar('\n');
	}
	json_decref(root);
	return bad ? -ENOMEM : 0;
}

static int list_machines(bool json)
{
	struct machine_names names;
	int err;

	err = machine_file_list(&names);
	if (err)
		return command_complain("%s", strerror(-err));
	if (!names.nr) {
		machine_names_fini(&names);
		return command_complain("no machine descriptions found: set " VARIABLE_MACHINE_PATH
					" to the folder that has them");
	}
	if (json)
		err = list_as_json(&names);
	else
		list_as_text(&names);
	machine_names_fini(&names);
	return err ? command_complain("%s", strerror(-err)) : 0;
}

/* ------------------------------------------------------------------ one machine */

static void format_value(const struct machine_constant *constant, char *buf, size_t bytes)
{
	switch (constant->unit) {
	case MACHINE_BYTES:
		(void)size_format((uint64_t)constant->value, buf, bytes);
		break;
	case MACHINE_NS:
		(void)duration_format((uint64_t)constant->value, buf, bytes);
		break;
	case MACHINE_BYTES_PER_S:
		(void)rate_format(constant->value, "B/s", buf, bytes);
		break;
	case MACHINE_PER_S:
		(void)rate_format(constant->value, "/s", buf, bytes);
		break;
	case MACHINE_TIMES:
		(void)snprintf(buf, bytes, "%.4g", constant->value);
		break;
	case MACHINE_COUNT:
		(void)snprintf(buf, bytes, "%.0f", constant->value);
		break;
	}
}

/* "memory host (host)", "link host - gpu0", ...: path is that of a constant in it. */
static void print_heading(const struct weir_machine_desc *desc, const char *path)
{
	const char *bracket = strchr(path, '[');
	unsigned long i = bracket ? strtoul(bracket + 1, NULL, 10) : 0;

	switch (path[0]) {
	case 'm':
		printf("\nmemory %s (%s)\n", desc->memory[i].name,
		       desc->memory[i].kind == WEIR_MEMORY_HOST ? "host" : "hbm");
		break;
	case 'd':
		printf("\ndevice %s (its memory: %s)\n", desc->device[i].name,
		       desc->memory[desc->device[i].memory].name);
		break;
	case 'l':
		printf("\nlink %s (a) - %s (b)\n", desc->memory[desc->link[i].a].name,
		       desc->memory[desc->link[i].b].name);
		break;
	case 'p':
		printf("\nport of %s, %u links busy\n", desc->memory[desc->port[i].memory].name,
		       desc->port[i].links);
		break;
	case 'k':
		printf("\nkernel %s\n", desc->kernel[i].name);
		break;
	case 'u':
		printf("\nmanaged memory\n");
		break;
	default:
		printf("\nmapping calls\n");
		break;
	}
}

static void show_as_text(const struct machine_file *machine, bool origins)
{
	size_t shown = 0; /* length of the section's path that has its heading */
	const char *section = "";

	printf("%s: %s\n", machine->desc.name, machine->about);
	for (size_t i = 0; i < machine->nr_constants; i++) {
		const struct machine_constant *constant = &machine->constant[i];
		const char *key = strrchr(constant->path, '.') + 1;
		size_t bytes = (size_t)(key - constant->path);
		char value[SIZE_TEXT_BYTES];
		int at;

		if (bytes != shown || strncmp(section, constant->path, bytes) != 0) {
			print_heading(&machine->desc, constant->path);
			section = constant->path;
			shown = bytes;
		}
		format_value(constant, value, sizeof(value));
		at = printf("  %-22s %12s  ", key, value);
		if (origins)
			at += printf("%-9s  ", machine_origin_name(constant->origin));
		options_wrap(stdout, table_columns(stdout), at > 0 ? (size_t)at : 0,
			     origins ? ORIGIN_INDENT : HELP_INDENT,
			     origins ? constant->source : constant->help);
	}
}

static int show_machine(const char *name, bool json, bool origins)
{
	struct machine_file machine;
	char why[512];
	char *text;
	int status = 0;

	if (machine_file_read(name, &machine, why, sizeof(why)))
		return command_complain("%s", why);
	if (json) {
		text = machine_format(&machine);
		if (text)
			(void)fputs(text, stdout);
		else
			status = command_complain("out of memory");
		free(text);
	} else {
		show_as_text(&machine, origins);
	}
	machine_file_fini(&machine);
	return status;
}

/* ------------------------------------------------------------------ measuring */

/* Options that make no sense together. NULL: there are none. */
static const char *conflict(const struct option_value *values)
{
	static const enum info_option of_measuring[] = {INFO_DEVICE, INFO_QUICK, INFO_OUTPUT};

	if (values[INFO_MEMORY].text && (values[INFO_MACHINE].text || values[INFO_MEASURE].text))
		return "--memory is of a process, not of a machine: leave --machine, --measure out";
	if (values[INFO_MEASURE].text)
		return values[INFO_JSON].text || values[INFO_ORIGINS].text
			       ? "--measure writes JSON with origins: leave --json, --origins out"
			       : NULL;
	for (size_t i = 0; i < ARRAY_LEN(of_measuring); i++)
		if (values[of_measuring[i]].text)
			return "--device, --quick and --output are for measuring: write --measure "
			       "too";
	if (values[INFO_ORIGINS].text && !values[INFO_MACHINE].text)
		return "--origins needs a machine: write --machine M too";
	return NULL;
}

static int measure(const struct option_value *values)
{
	const char *machine = values[INFO_MACHINE].text, *output = values[INFO_OUTPUT].text;
	struct measure_params params = {.machine = machine ? machine : MACHINE_CUDA,
					.output = output ? output : "-",
					.device = PROBE_ALL_DEVICES,
					.quick = values[INFO_QUICK].text != NULL};
	uint64_t device;

	if (values[INFO_DEVICE].text) {
		if (count_parse(values[INFO_DEVICE].text, &device) || device >= WEIR_DEVICES_MAX)
			return command_complain(
				"--device: '%s' is no device: they are counted from 0",
				values[INFO_DEVICE].text);
		params.device = (uint32_t)device;
	}
	return measure_run(&params);
}

/* The one option with a short form is written out. */
static void expand_output(int argc, char **argv)
{
	static char output[] = "--output";

	for (int i = 0; i < argc; i++)
		if (strcmp(argv[i], "-o") == 0)
			argv[i] = output;
}

int info_main(int argc, char **argv)
{
	struct option_value values[INFO_NR];
	char why[512];
	int status;

	if (argc > 0) {
		argc--;
		argv++;
	}
	expand_output(argc, argv);
	if (options_want_help(argc, argv)) {
		print_help();
		status = 0;
		goto out;
	}
	if (options_parse(info_options, INFO_NR, argc, argv, values, why, sizeof(why)))
		return command_complain("%s", why);
	if (conflict(values))
		return command_complain("%s", conflict(values));
	if (values[INFO_MEASURE].text)
		status = measure(values);
	else if (values[INFO_MEMORY].text)
		status = info_memory(values[INFO_MEMORY].text, values[INFO_JSON].text != NULL, why,
				     sizeof(why))
				 ? command_complain("%s", why)
				 : 0;
	else if (values[INFO_MACHINE].text)
		status = show_machine(values[INFO_MACHINE].text, values[INFO_JSON].text != NULL,
				      values[INFO_ORIGINS].text != NULL);
	else
		status = list_machines(values[INFO_JSON].text != NULL);
out:
	return command_flushed(status); /* a full disk shows here at the latest */
}
