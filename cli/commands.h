/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands that have commands below them, such as `weir trace`, each out of one table; and how a
 * command complains, and ends its standard output.
 */
#ifndef WEIR_CLI_COMMANDS_H
#define WEIR_CLI_COMMANDS_H

#define COMMAND_EXIT_BAD 2

struct command {
	const char *name, *help; /* help: one line, no full stop */
	int (*main)(int argc, char **argv);
};

struct command_family {
	const char *name;  /* "trace": the command above */
	const char *about; /* the sentence that its help text begins with */
	const struct command *command;
	unsigned int nr;
};

/**
 * Run the command that argv[1] names, which is given what follows its name; or show the help text.
 *
 * @return the program's exit status: that of the command, 0 after a help text, COMMAND_EXIT_BAD
 *   after one line about a name that is missing or unknown.
 */
int commands_main(const struct command_family *family, int argc, char **argv);

/* Print what each command does, for a help text. */
void commands_print(const struct command *command, unsigned int nr);

/* Print "weir: " and a text to standard error, as one line whatever a name in it has: each control
 * character becomes '?'. */
void command_print_line(const char *text);

/* The same, behind what went to standard output before. Returns COMMAND_EXIT_BAD. */
__attribute__((format(printf, 1, 2))) int command_complain(const char *format, ...);

/* Flush standard output: status, or COMMAND_EXIT_BAD after a line where it cannot be written. */
int command_flushed(int status);

#endif
