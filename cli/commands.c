/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/commands.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/options.h"

void command_print_line(const char *text)
{
	(void)fputs("weir: ", stderr);
	for (; *text; text++)
		(void)fputc(iscntrl((unsigned char)*text) ? '?' : *text, stderr);
	(void)fputc('\n', stderr);
}

int command_complain(const char *format, ...)
{
	char *text = NULL;
	va_list args;

	va_start(args, format);
	if (vasprintf(&text, format, args) < 0)
		text = NULL;
	va_end(args);
	(void)fflush(stdout);
	command_print_line(text ? text : "no memory on the host");
	free(text);
	return COMMAND_EXIT_BAD;
}

int command_flushed(int status)
{
	if (fflush(stdout))
		return command_complain("standard output: %s: the text is not complete",
					strerror(errno));
	if (ferror(stdout))
		return command_complain("standard output: a write failed: the text is not "
					"complete");
	return status;
}

void commands_print(const struct command *command, unsigned int nr)
{
	for (unsigned int i = 0; i < nr; i++)
		printf("  %-8s %s\n", command[i].name, command[i].help);
}

static int usage(const struct command_family *family)
{
	printf("usage: weir %s COMMAND [options]\n\n%s\n\ncommands:\n", family->name,
	       family->about);
	commands_print(family->command, family->nr);
	puts("\n  --help   show this text; also after a command");
	return command_flushed(0);
}

static int unknown(const struct command_family *family, const char *name)
{
	const char **names = calloc(family->nr + 1, sizeof(*names)), *near = NULL;

	for (unsigned int i = 0; names && i < family->nr; i++)
		names[i] = family->command[i].name;
	if (names)
		near = options_nearest(name, names);
	free(names);
	if (near)
		return command_complain("%s has no command '%.40s'; did you mean %s?", family->name,
					name, near);
	return command_complain("%s has no command '%.40s'; weir %s --help lists them",
				family->name, name, family->name);
}

int commands_main(const struct command_family *family, int argc, char **argv)
{
	if (argc < 2)
		return command_complain("%s needs a command; weir %s --help lists them",
					family->name, family->name);
	for (unsigned int i = 0; i < family->nr; i++)
		if (strcmp(argv[1], family->command[i].name) == 0)
			return family->command[i].main(argc - 2, argv + 2);
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
		return usage(family);
	return unknown(family, argv[1]);
}
