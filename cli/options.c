/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parsing and printing of option tables; see options.h. Written out rather than on getopt_long():
 * that prints its own errors, takes abbreviations, and knows nothing of the environment.
 */
#include "cli/options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/util.h"
#include "src/base/variables.h"

#define NAME_MAX_LENGTH 32
#define OPTIONS_MAX 64
#define HELP_COLUMNS 80
#define HELP_INDENT 25 /* of what is said */
#define HELP_BYTES 512

/* Levenshtein distance; names that are too long count as far. */
static unsigned int distance(const char *a, const char *b)
{
	unsigned int row[NAME_MAX_LENGTH + 1];
	size_t la = strlen(a), lb = strlen(b);

	if (la > NAME_MAX_LENGTH || lb > NAME_MAX_LENGTH)
		return NAME_MAX_LENGTH;
	for (size_t j = 0; j <= lb; j++)
		row[j] = (unsigned int)j;
	for (size_t i = 1; i <= la; i++) {
		unsigned int diagonal = row[0];

		row[0] = (unsigned int)i;
		for (size_t j = 1; j <= lb; j++) {
			unsigned int above = row[j];

			row[j] = MIN(MIN(above, row[j - 1]) + 1, diagonal + (a[i - 1] != b[j - 1]));
			diagonal = above;
		}
	}
	return row[lb];
}

const char *options_nearest(const char *typed, const char *const *names)
{
	const char *best = NULL;
	unsigned int best_distance = 3; /* two slips at most */

	for (; *names; names++) {
		unsigned int d = distance(typed, *names);

		if (d < best_distance && d < strlen(*names)) {
			best = *names;
			best_distance = d;
		}
	}
	return best;
}

bool options_want_help(int argc, char **argv)
{
	for (int i = 0; i < argc; i++)
		if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
			return true;
	return false;
}

static int unknown(const struct option_def *defs, unsigned int nr, const char *arg, size_t length,
		   char *err, size_t err_bytes)
{
	const char *names[OPTIONS_MAX + 1] = {0};
	char typed[NAME_MAX_LENGTH + 1] = "";
	const char *near;

	for (unsigned int i = 0, n = 0; i < nr && i < OPTIONS_MAX; i++)
		if (defs[i].help)
			names[n++] = defs[i].name;
	if (length <= NAME_MAX_LENGTH)
		memcpy(typed, arg, length);
	near = options_nearest(typed, names);
	if (near)
		snprintf(err, err_bytes, "no option --%.*s; did you mean --%s?", (int)length, arg,
			 near);
	else
		snprintf(err, err_bytes, "no option --%.*s; --help lists the options", (int)length,
			 arg);
	return -EINVAL;
}

/* One more value of an option that may have several; one that it has already is none. */
static int add_value(const struct option_def *def, struct option_value *value, const char *text,
		     char *err, size_t err_bytes)
{
	bool has = strcmp(value->text, text) == 0;

	for (unsigned int i = 0; i < value->nr_more; i++)
		has |= strcmp(value->more[i], text) == 0;
	if (has)
		return 0;
	if (value->nr_more == OPTION_MORE_MAX) {
		snprintf(err, err_bytes, "--%s is given more than %u times: split the run",
			 def->name, OPTION_MORE_MAX + 1);
		return -EINVAL;
	}
	value->more[value->nr_more++] = text;
	return 0;
}

/* Set one option from the argument at *i, and step over its value. */
static int parse_one(const struct option_def *defs, unsigned int nr, int argc, char **argv, int *i,
		     struct option_value *values, char *err, size_t err_bytes)
{
	const char *arg = argv[*i] + 2, *text;
	size_t length = strcspn(arg, "=");
	struct option_value *value;
	unsigned int k;

	for (k = 0; k < nr; k++)
		if (defs[k].help && strlen(defs[k].name) == length &&
		    memcmp(defs[k].name, arg, length) == 0)
			break;
	if (k == nr)
		return unknown(defs, nr, arg, length, err, err_bytes);
	value = &values[k];
	if (!defs[k].metavar) {
		if (arg[length]) {
			snprintf(err, err_bytes, "--%s takes no value: write it alone",
				 defs[k].name);
			return -EINVAL;
		}
		text = "";
	} else if (arg[length]) {
		text = arg + length + 1;
	} else {
		/* No value begins with two dashes, so a forgotten one does not eat an option. */
		if (*i + 1 >= argc || strncmp(argv[*i + 1], "--", 2) == 0) {
			snprintf(err, err_bytes, "--%s lacks its value: write --%s %s",
				 defs[k].name, defs[k].name, defs[k].metavar);
			return -EINVAL;
		}
		text = argv[++*i];
	}
	if (defs[k].metavar && !text[0]) {
		snprintf(err, err_bytes, "--%s has an empty value: write --%s %s", defs[k].name,
			 defs[k].name, defs[k].metavar);
		return -EINVAL;
	}
	if (value->origin == OPTION_GIVEN && defs[k].many)
		return add_value(&defs[k], value, text, err, err_bytes);
	if (value->origin == OPTION_GIVEN && strcmp(value->text, text) != 0) {
		snprintf(err, err_bytes, "--%s is given twice, as '%s' and as '%s': keep one",
			 defs[k].name, value->text, text);
		return -EINVAL;
	}
	*value = (struct option_value){.text = text, .origin = OPTION_GIVEN};
	return 0;
}

int options_parse(const struct option_def *defs, unsigned int nr, int argc, char **argv,
		  struct option_value *values, char *err, size_t err_bytes)
{
	int rc;

	for (unsigned int k = 0; k < nr; k++) {
		const char *env = defs[k].help && defs[k].env ? variable_text(defs[k].env) : NULL;

		values[k] = (struct option_value){.text = defs[k].preset, .origin = OPTION_PRESET};
		if (env)
			values[k] = (struct option_value){.text = env, .origin = OPTION_ENV};
	}
	for (int i = 0; i < argc; i++) {
		if (strncmp(argv[i], "--", 2) != 0 || !argv[i][2]) {
			snprintf(err, err_bytes,
				 "unexpected argument '%s': options begin with --; see --help",
				 argv[i]);
			return -EINVAL;
		}
		rc = parse_one(defs, nr, argc, argv, &i, values, err, err_bytes);
		if (rc)
			return rc;
	}
	return 0;
}

static bool takes_value(const struct option_def *defs, unsigned int nr, const char *name)
{
	for (unsigned int i = 0; i < nr; i++)
		if (defs[i].help && strcmp(defs[i].name, name) == 0)
			return defs[i].metavar != NULL;
	return false;
}

int options_parse_operands(const struct option_def *defs, unsigned int nr, int argc, char **argv,
			   struct option_value *values, const char **operands, int *nr_operands,
			   char *err, size_t err_bytes)
{
	int nr_options = 0;

	/* Options move to the front, in order. */
	*nr_operands = 0;
	for (int i = 0; i < argc; i++) {
		char *arg = argv[i];

		if (arg[0] != '-' || !arg[1]) {
			operands[(*nr_operands)++] = arg;
			continue;
		}
		argv[nr_options++] = arg;
		if (strncmp(arg, "--", 2) == 0 && takes_value(defs, nr, arg + 2) && i + 1 < argc)
			argv[nr_options++] = argv[++i];
	}
	return options_parse(defs, nr, nr_options, argv, values, err, err_bytes);
}

/* Words that a shell leaves alone stay as they are. */
static void put_word(FILE *out, const char *word)
{
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
				    "_./:,%+=@-";

	if (*word && strspn(word, plain) == strlen(word)) {
		fprintf(out, " %s", word);
		return;
	}
	fputs(" '", out);
	for (; *word; word++) {
		if (*word == '\'')
			fputs("'\\'", out);
		fputc(*word, out);
	}
	fputc('\'', out);
}

static bool is_among(const char *name, const char *const *names)
{
	while (*names && strcmp(*names, name) != 0)
		names++;
	return *names != NULL;
}

char *options_command(const char *command, const struct option_def *defs, unsigned int nr,
		      const struct option_value *values, const char *const *operands,
		      int nr_operands, const char *const *but)
{
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	if (!out)
		return NULL;
	fputs(command, out);
	for (int i = 0; i < nr_operands; i++)
		put_word(out, operands[i]);
	for (unsigned int k = 0; k < nr; k++) {
		if (values[k].origin == OPTION_PRESET || is_among(defs[k].name, but))
			continue;
		fprintf(out, " --%s", defs[k].name);
		if (defs[k].metavar)
			put_word(out, values[k].text);
		for (unsigned int i = 0; i < values[k].nr_more; i++) {
			fprintf(out, " --%s", defs[k].name);
			put_word(out, values[k].more[i]);
		}
	}
	if (!fclose(out))
		return text;
	free(text);
	return NULL;
}

void options_wrap(FILE *out, size_t columns, size_t at, size_t indent, const char *text)
{
	bool blank = false;

	while (*text) {
		size_t word = strcspn(text, " ");

		if (blank && at + 1 + word > columns) {
			fprintf(out, "\n%*s", (int)indent, "");
			at = indent;
			blank = false;
		}
		at += (size_t)fprintf(out, "%s%.*s", blank ? " " : "", (int)word, text);
		blank = true;
		text += word + strspn(text + word, " ");
	}
	fputc('\n', out);
}

void options_help_line(FILE *out, const char *left, const char *text)
{
	const int at = fprintf(out, "  %-22s ", left);

	options_wrap(out, HELP_COLUMNS, at > 0 ? (size_t)at : 0, HELP_INDENT, text);
}

void options_help(FILE *out, const struct option_def *defs, unsigned int nr)
{
	for (unsigned int i = 0; i < nr; i++) {
		const struct option_def *def = &defs[i];
		char left[64], text[HELP_BYTES];

		if (!def->help)
			continue;
		snprintf(left, sizeof(left), "--%s%s%s", def->name, def->metavar ? " " : "",
			 def->metavar ? def->metavar : "");
		snprintf(text, sizeof(text), "%s%s%s%s%s%s%s", def->help, def->preset ? " [" : "",
			 def->preset ? def->preset : "", def->preset ? "]" : "",
			 def->env ? " {" : "", def->env ? def->env : "", def->env ? "}" : "");
		options_help_line(out, left, text);
	}
}
