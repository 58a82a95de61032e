/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of program.c. */
#include "tests/dropin/options.h"

#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct options options = {.arrays = 8, .passes = 12, .streams = 2, .threads = 1, .bytes = 64 << 10};

static const char *const reaches[REACH_NR] = {"linked", "dlsym", "proc", "proc-first",
					      "per-thread"};

void die(const char *format, ...)
{
	va_list list;

	va_start(list, format);
	fprintf(stderr, "program: ");
	vfprintf(stderr, format, list);
	fprintf(stderr, "\n");
	va_end(list);
	exit(1);
}

static void usage(bool asked) __attribute__((noreturn));

static void usage(bool asked)
{
	fprintf(asked ? stdout : stderr,
		"program [--arrays N] [--bytes N] [--passes N] [--streams N] [--threads N]\n"
		"        [--async] [--ask] [--copied] [--spin] [--plant]\n"
		"        [--reach linked|dlsym|proc|proc-first|per-thread]\n"
		"\n"
		"  --arrays, --bytes   of each thread, and of each array, a multiple of 4\n"
		"  --streams           of each thread; 0: only stream 0\n"
		"  --async             allocate and free in the order of streams\n"
		"  --ask               ask the driver about each allocation, and check that\n"
		"  --copied            copy arrays of addresses to kernels, which else make them\n"
		"  --spin              with a kernel that waits for one on another stream\n"
		"  --plant             write a wrong word, which must be found\n"
		"  --reach             how the driver's functions are found\n");
	exit(!asked);
}

static unsigned long number(const char *text, unsigned long least, unsigned long most)
{
	char *end;
	unsigned long value = strtoul(text, &end, 0);

	if (!*text || *end || value < least || value > most)
		die("%s is not a number from %lu to %lu", text, least, most);
	return value;
}

static enum reach reach_named(const char *name)
{
	for (int i = 0; i < REACH_NR; i++)
		if (!strcmp(name, reaches[i]))
			return (enum reach)i;
	die("--reach: not %s", name);
}

void options_read(int argc, char **argv)
{
	static const struct option known[] = {
		{"arrays", 1, NULL, 'a'},  {"bytes", 1, NULL, 'b'},   {"passes", 1, NULL, 'p'},
		{"streams", 1, NULL, 's'}, {"threads", 1, NULL, 't'}, {"async", 0, NULL, 'y'},
		{"ask", 0, NULL, 'q'},	   {"reach", 1, NULL, 'r'},   {"spin", 0, NULL, 'z'},
		{"plant", 0, NULL, 'x'},   {"copied", 0, NULL, 'c'},  {"help", 0, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	int option;

	while ((option = getopt_long(argc, argv, "", known, NULL)) >= 0) {
		if (option == 'a')
			options.arrays = (unsigned)number(optarg, 2, 1 << 20);
		else if (option == 'b')
			options.bytes = number(optarg, 4, 1ul << 40) / 4 * 4;
		else if (option == 'p')
			options.passes = (unsigned)number(optarg, 0, 1 << 20);
		else if (option == 's')
			options.streams = (unsigned)number(optarg, 0, STREAMS_MAX);
		else if (option == 't')
			options.threads = (unsigned)number(optarg, 1, 64);
		else if (option == 'r')
			options.reach = reach_named(optarg);
		else if (option == 'y' || option == 'q')
			*(option == 'y' ? &options.async : &options.ask) = true;
		else if (option == 'c')
			options.copied = true;
		else if (option == 'z')
			options.spin = true;
		else if (option == 'x')
			options.plant = true;
		else
			usage(option == 'h');
	}
	if (optind < argc)
		die("what is %s?", argv[optind]);
	if (options.spin && options.streams < 2)
		die("--spin: two streams at least");
}
