/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Command-line options out of one table: the same table feeds the parser, the environment and the
 * help text. What a value means is not known here.
 *
 * A value comes from the command line ("--name value" or "--name=value"), else from the option's
 * environment variable when that is set and not empty, else from the default.
 */
#ifndef WEIR_CLI_OPTIONS_H
#define WEIR_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct option_def {
	const char *name;    /* without the dashes */
	const char *metavar; /* NULL: a flag, takes no value */
	const char *env;     /* NULL: none */
	const char *preset;  /* default; NULL: none */
	/* One line, no full stop. NULL: there is no such option here, and its value is the default:
	 * for what shares the readers of a table that has it. */
	const char *help;
	bool many; /* may be given several times: each value counts */
};

#define OPTION_MORE_MAX 31u

enum option_origin { OPTION_PRESET, OPTION_ENV, OPTION_GIVEN };

struct option_value {
	const char *text; /* borrowed; NULL: no value; of a flag that is set: "" */
	enum option_origin origin;
	/* What follows text of an option that may be given several times. */
	unsigned int nr_more;
	const char *more[OPTION_MORE_MAX];
};

/*
 * Parse arguments (argv[0] is the first of them, not a program's name).
 *
 * @param [out] values  nr of them, in the order of the table. Undefined on error.
 * @param [out] err     One line that names the culprit and the remedy.
 * @return 0, or -EINVAL: an unknown option, a value missing or not wanted, an argument that is no
 *   option, an option given twice with different values, or too many times.
 */
int options_parse(const struct option_def *defs, unsigned int nr, int argc, char **argv,
		  struct option_value *values, char *err, size_t err_bytes);

/*
 * The same for arguments of which some are no options: these go into operands, in order, which the
 * caller has made for argc of them; argv is put into another order. "-" is an operand.
 */
int options_parse_operands(const struct option_def *defs, unsigned int nr, int argc, char **argv,
			   struct option_value *values, const char **operands, int *nr_operands,
			   char *err, size_t err_bytes);

/*
 * The command line that asks for the same: `command`, operands, and the options whose values are no
 * defaults, wherever they come from, but for those named in but (NULL at the end); quoted as a
 * shell wants it.
 * @return the text, owned by the caller; NULL: no memory.
 */
char *options_command(const char *command, const struct option_def *defs, unsigned int nr,
		      const struct option_value *values, const char *const *operands,
		      int nr_operands, const char *const *but);

/* Whether --help or -h is among the arguments: then nothing else matters. */
bool options_want_help(int argc, char **argv);

/* Print a text, broken at blanks to fit so many columns, and a newline. at: columns that the line
 * has already; further lines begin behind indent blanks. */
void options_wrap(FILE *out, size_t columns, size_t at, size_t indent, const char *text);

/* Two columns of a help text, the second broken to fit 80 columns. */
void options_help_line(FILE *out, const char *left, const char *text);

/* Print the table: option, help, default, environment variable. */
void options_help(FILE *out, const struct option_def *defs, unsigned int nr);

/*
 * Which of the names (NULL at the end) a mistyped one probably meant. NULL: none is near.
 */
const char *options_nearest(const char *typed, const char *const *names);

#endif
