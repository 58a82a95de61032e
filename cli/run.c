/* SPDX-License-Identifier: Apache-2.0 */
/* `weir run`: settings, environment, and the start of the program. */
#include "cli/run.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/run_internal.h"
#include "cli/size.h"
#include "shim/settings.h"

enum {
	GPU_BUDGET,
	HOST_BUDGET,
	GPU,
	MODE,
	WHEN,
	BLOCK,
	HOLD,
	LEARN,
	LEARN_LAUNCHES,
	KERNELS,
	TRACE,
	MARK,
	STATS,
	EXPLAIN,
	QUIET,
	HELP,
	NR_OPTIONS
};

static const struct option_def table[NR_OPTIONS] = {
	[GPU_BUDGET] = {"gpu-budget", "S", NULL, NULL,
			"GPU memory for the program's allocations (default: what is free, but "
			"512 MiB, or a 16th, for the driver)"},
	[HOST_BUDGET] = {"host-budget", "S", NULL, NULL,
			 "host memory for what does not fit there (default: what is free)"},
	[GPU] = {"gpu", "N", NULL, NULL,
		 "the GPU whose memory is managed (default: the first that the program allocates "
		 "on)"},
	[MODE] = {"mode", "off|fixed|safe|fast", NULL, NULL,
		  "safe: what launches name moves to the GPU between them; fast: also while others "
		  "run, if kernels use nothing but what their launches name; fixed: an allocation "
		  "stays where it was made; off: the program is started without weir (default: "
		  "safe)"},
	[WHEN] =
		{"when", "always|oom", NULL, NULL,
		 "in modes safe and fast, since when launches are looked at and memory moves: oom: "
		 "from the first allocation on that the GPU's budget has no room for; always: from "
		 "the begin (default: oom; with --trace always)"},
	[BLOCK] = {"block", "S", NULL, NULL,
		   "what is mapped, and moves, at a time: a multiple of the GPU's granularity "
		   "(2 MiB), below 4 GiB (default: by mode and budget, 2 to 32 MiB)"},
	[HOLD] = {"hold", "MS", NULL, NULL,
		  "how long a launch waits for those before it when memory is to move, in "
		  "milliseconds, before it uses in place what it needs (default: 10); with "
		  "--learn, how long it may take (default: 60000)"},
	[LEARN] = {"learn", "FILE", NULL, NULL,
		   "find out which kernels use nothing but what their launches name: start the "
		   "program again until each that uses more is known, and keep that in FILE"},
	[LEARN_LAUNCHES] = {"learn-launches", "N", NULL, NULL,
			    "end that after N launches, and let the program go on (default: when "
			    "it ends)"},
	[KERNELS] = {"kernels", "FILE", NULL, NULL,
		     "as --mode fast for kernels that FILE has as using nothing but what their "
		     "launches name, and as --mode safe for others"},
	[TRACE] = {"trace", "FILE", NULL, NULL,
		   "record what the program allocates and what its kernels name there, for weir "
		   "replay"},
	[MARK] = {"mark", "KERNEL[:N]", NULL, NULL,
		  "in the trace, an epoch is from one launch of a kernel whose name has this to "
		  "the next, or the N-th (default: all of the run is one)"},
	[STATS] = {"stats", "FILE", NULL, NULL,
		   "write what became of the program's memory there, a line of JSON for each of "
		   "its processes as it ends"},
	[EXPLAIN] = {"explain", NULL, NULL, NULL, "say what weir does, and why"},
	[QUIET] = {"quiet", NULL, NULL, NULL, "say nothing but errors"},
	[HELP] = {"help", NULL, NULL, NULL, "show this text"},
};

static int help(void)
{
	puts("usage: weir run [options] -- PROGRAM [ARGUMENTS]\n\n"
	     "Run a CUDA program as it is, with its GPU memory under weir: what the GPU's budget "
	     "has no\nroom for lies in the host's memory, and comes to the GPU when it is used. "
	     "The program's\nname, arguments, input, output and exit status are its own.\n\n"
	     "options:");
	options_help(stdout, table, NR_OPTIONS);
	return command_flushed(0);
}

static int set_number(uint64_t number, const char *variable)
{
	char text[32];

	(void)snprintf(text, sizeof(text), "%" PRIu64, number);
	return setenv(variable, text, 1);
}

/* A size for the program. */
static int set_size(const struct option_value *value, const char *option, const char *variable)
{
	uint64_t bytes;

	if (!value->text)
		return unsetenv(variable);
	if (size_parse(value->text, &bytes) || !bytes)
		return command_complain("run: --%s %s: write a size above zero, such as 20GB",
					option, value->text);
	return set_number(bytes, variable);
}

static int set_gpu(const char *text)
{
	uint64_t number;

	if (!text)
		return unsetenv(SETTINGS_GPU);
	if (count_parse(text, &number) || number > 1023)
		return command_complain("run: --gpu %s: write the number of a GPU, from 0 on",
					text);
	return setenv(SETTINGS_GPU, text, 1);
}

static bool is_mode(const struct option_value *value, const char *name)
{
	return value[MODE].text && !strcmp(value[MODE].text, name);
}

static int set_hold(const struct option_value *value)
{
	const char *text = value[HOLD].text;
	uint64_t ms;

	if (!text)
		return unsetenv(SETTINGS_HOLD);
	if (is_mode(value, settings_mode_name(SETTINGS_FIXED)))
		return command_complain("run: --hold is for --mode safe and fast: in mode fixed "
					"nothing moves, and no launch waits");
	if (count_parse(text, &ms) || !ms || ms > 60000)
		return command_complain("run: --hold %s: write milliseconds from 1 to 60000", text);
	return set_number(ms * 1000000, SETTINGS_HOLD);
}

/* A mode that the user names. */
static int find_mode(const char *text, uint64_t *mode)
{
	for (*mode = 0; *mode <= SETTINGS_FAST; ++*mode)
		if (!strcmp(text, settings_mode_name(*mode)))
			return 0;
	return command_complain("run: --mode %s: write off, fixed, safe or fast", text);
}

/* --learn and --kernels are modes of their own, the second of fast's kind. */
static int set_mode(const struct option_value *value)
{
	const char *learn = value[LEARN].text, *kernels = value[KERNELS].text;
	static const int without[] = {KERNELS, MODE, TRACE, WHEN};
	uint64_t mode = SETTINGS_SAFE;

	if (value[MODE].text && find_mode(value[MODE].text, &mode))
		return COMMAND_EXIT_BAD;
	for (size_t i = 0; learn && i < sizeof(without) / sizeof(without[0]); i++)
		if (value[without[i]].text)
			return command_complain("run: --learn moves memory in a way of its own: "
						"leave out --%s",
						table[without[i]].name);
	if (kernels && value[MODE].text && mode != SETTINGS_FAST)
		return command_complain("run: --kernels is for --mode fast, which it implies");
	if (learn || kernels)
		mode = learn ? SETTINGS_LEARN : SETTINGS_LISTED;
	return set_number(mode, SETTINGS_MODE);
}

static int set_learn_launches(const struct option_value *value)
{
	const char *text = value[LEARN_LAUNCHES].text;
	uint64_t nr;

	if (!text)
		return unsetenv(SETTINGS_LEARN_LAUNCHES);
	if (!value[LEARN].text)
		return command_complain("run: --learn-launches is for --learn: give that, too");
	if (count_parse(text, &nr) || !nr)
		return command_complain("run: --learn-launches %s: write a number above zero",
					text);
	return set_number(nr, SETTINGS_LEARN_LAUNCHES);
}

static int set_when(const struct option_value *value)
{
	const bool moves = !is_mode(value, settings_mode_name(SETTINGS_FIXED));
	const char *text = value[WHEN].text;

	if (!text && moves && !value[LEARN].text && !value[TRACE].text)
		return setenv(SETTINGS_WHEN, "1", 1);
	if (!text)
		return unsetenv(SETTINGS_WHEN);
	if (strcmp(text, "always") != 0 && strcmp(text, "oom") != 0)
		return command_complain("run: --when %s: write always or oom", text);
	if (!moves)
		return command_complain("run: --when is for --mode safe and fast: in mode fixed "
					"nothing moves");
	if (!strcmp(text, "always"))
		return unsetenv(SETTINGS_WHEN);
	if (value[TRACE].text)
		return command_complain(
			"run: --trace records all launches, and with --when oom the "
			"first ones are not looked at: leave one of the two out");
	return setenv(SETTINGS_WHEN, "1", 1);
}

/* A part of a kernel's name, and how many launches of such kernels an epoch has. */
static int set_mark(const struct option_value *value)
{
	const char *text = value[MARK].text, *colon = text ? strrchr(text, ':') : NULL;
	const size_t nr = colon ? (size_t)(colon - text) : text ? strlen(text) : 0;
	uint64_t every = 1;
	char *name;
	int rc;

	if (!text)
		return unsetenv(SETTINGS_MARK);
	if (!value[TRACE].text)
		return command_complain("run: --mark is for --trace: give that, too");
	if (!nr || (colon && (count_parse(colon + 1, &every) || !every)))
		return command_complain("run: --mark %s: write a part of a kernel's name, and "
					"behind a colon how many launches an epoch has",
					text);
	name = strndup(text, nr);
	if (!name)
		return command_complain("run: no memory on the host");
	rc = setenv(SETTINGS_MARK, name, 1);
	free(name);
	return rc ? rc : set_number(every, SETTINGS_MARK_EVERY);
}

static int check_explain(const struct option_value *value)
{
	if (value[EXPLAIN].text && value[QUIET].text)
		return command_complain("run: --explain says much, --quiet nothing: leave one of "
					"the two out");
	return 0;
}

static int set_flag(const struct option_value *value, const char *variable)
{
	return value->text ? setenv(variable, "1", 1) : unsetenv(variable);
}

/* A file that the program writes, which may be in another folder by then. */
static int set_file(const char *text, const char *variable)
{
	char here[PATH_MAX], path[2 * PATH_MAX];

	if (!text)
		return unsetenv(variable);
	if (*text == '/')
		return setenv(variable, text, 1);
	if (!getcwd(here, sizeof(here)))
		return command_complain("run: the working folder: %s", strerror(errno));
	(void)snprintf(path, sizeof(path), "%s/%s", here, text);
	return setenv(variable, path, 1);
}

/* Find out whether a file can be written, before the program takes its time. It is not made. */
static int check_file(const char *option, const char *name)
{
	char folder[PATH_MAX];
	struct stat status;
	const char *slash = name ? strrchr(name, '/') : NULL;
	bool is_there;
	int err = 0;

	if (!name)
		return 0;
	(void)snprintf(folder, sizeof(folder), "%.*s", slash ? (int)(slash + 1 - name) : 1,
		       slash ? name : ".");
	is_there = !stat(name, &status);
	if (is_there && S_ISDIR(status.st_mode))
		err = EISDIR;
	else if (!is_there && errno != ENOENT)
		err = errno;
	else if (faccessat(AT_FDCWD, is_there ? name : folder, W_OK, AT_EACCESS))
		err = errno;
	return err ? command_complain("run: --%s %s: %s", option, name, strerror(err)) : 0;
}

/* Each file has one purpose, and those that are written at the end can be. */
static int check_files(const struct option_value *value)
{
	static const int file[] = {STATS, TRACE, LEARN, KERNELS};

	for (int a = 0; a < 4; a++)
		for (int b = 0; b < a; b++)
			if (value[file[a]].text && value[file[b]].text &&
			    !strcmp(value[file[a]].text, value[file[b]].text))
				return command_complain("run: --%s and --%s are one file: name two",
							table[file[b]].name, table[file[a]].name);
	return check_file("stats", value[STATS].text) || check_file("trace", value[TRACE].text);
}

int run_empty_stats(void)
{
	const char *path = getenv(SETTINGS_STATS);
	struct stat status;

	if (!path || stat(path, &status) || !S_ISREG(status.st_mode) || !truncate(path, 0))
		return 0;
	return command_complain("run: --stats %s: %s", path, strerror(errno));
}

/* Put a text before what a variable has. */
static int set_before(const char *variable, const char *text)
{
	const char *rest = getenv(variable);
	char *both = NULL;
	int rc;

	if (asprintf(&both, "%s%s%s", text, rest && *rest ? ":" : "", rest ? rest : "") < 0)
		return command_complain("run: no memory on the host");
	rc = setenv(variable, both, 1);
	free(both);
	return rc;
}

static int set_files(const struct run_files *files)
{
	char stub[PATH_MAX + 16];

	if (strpbrk(files->folder, ": "))
		return command_complain("run: %s: LD_PRELOAD takes no names with blanks or colons: "
					"set XDG_CACHE_HOME to a folder without",
					files->folder);
	(void)snprintf(stub, sizeof(stub), "%s/libcuda.so.1", files->folder);
	if (set_before("LD_PRELOAD", stub) || set_before("LD_LIBRARY_PATH", files->folder))
		return COMMAND_EXIT_BAD;
	return setenv(SETTINGS_DRIVER, files->driver, 1);
}

/* The file of kernels, or NULL. */
static const char *find_kernels(const struct option_value *value)
{
	return value[LEARN].text ? value[LEARN].text : value[KERNELS].text;
}

static int set_environment(const struct option_value *value, const struct run_files *files)
{
	static const char *const pytorch[] = {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"};
	const char *kernels = find_kernels(value);

	if (set_size(&value[GPU_BUDGET], "gpu-budget", SETTINGS_GPU_BUDGET) ||
	    set_size(&value[HOST_BUDGET], "host-budget", SETTINGS_HOST_BUDGET) ||
	    set_size(&value[BLOCK], "block", SETTINGS_BLOCK) || set_gpu(value[GPU].text) ||
	    set_mode(value) || set_when(value) || set_hold(value) || set_learn_launches(value) ||
	    check_files(value) || set_file(kernels, SETTINGS_KERNELS) ||
	    set_file(value[STATS].text, SETTINGS_STATS) ||
	    set_file(value[TRACE].text, SETTINGS_TRACE) || set_mark(value) ||
	    check_explain(value) || set_flag(&value[EXPLAIN], SETTINGS_EXPLAIN) ||
	    set_flag(&value[QUIET], SETTINGS_QUIET) || set_files(files))
		return COMMAND_EXIT_BAD;
	/* PyTorch, unless the user says otherwise: an allocation for each tensor instead of
	 * segments that many share. */
	for (int i = 0; i < 2; i++)
		if (getenv(pytorch[i]))
			return 0;
	for (int i = 0; i < 2; i++)
		if (setenv(pytorch[i], "backend:cudaMallocAsync", 1))
			return command_complain("run: no memory on the host");
	return 0;
}

/* What the program is told of goes to nobody where it is started without weir. --quiet asks for no
 * more than what is so. */
static int check_off(const struct option_value *value)
{
	if (getenv(SETTINGS_DRIVER))
		return command_complain("run: this runs under weir run already, and so would the "
					"program with --mode off");
	for (int o = 0; o < NR_OPTIONS; o++)
		if (value[o].text && o != MODE && o != QUIET)
			return command_complain("run: --%s has no effect with --mode off, which "
						"starts the program without weir: leave it out",
						table[o].name);
	return 0;
}

/* Options end at "--". @return the number of arguments before it */
static int find_command(int argc, char **argv)
{
	int n = 0;

	while (n < argc && strcmp(argv[n], "--") != 0)
		n++;
	return n;
}

int run_main(int argc, char **argv)
{
	struct option_value value[NR_OPTIONS];
	const int nr = find_command(--argc, ++argv);
	char err[512], path[PATH_MAX];
	struct run_files files;
	int rc;

	if (options_want_help(nr, argv))
		return help();
	if (options_parse(table, NR_OPTIONS, nr, argv, value, err, sizeof(err)))
		return command_complain("run: %s", err);
	if (nr + 1 >= argc)
		return command_complain("run: a program is missing: weir run [options] -- PROGRAM "
					"[ARGUMENTS]");
	if (is_mode(value, "off"))
		rc = check_off(value) || run_find_file(argv[nr + 1], path);
	else
		rc = run_find_program(argv[nr + 1], path) || run_prepare(&files) ||
		     set_environment(value, &files) ||
		     run_check_kernels(find_kernels(value), value[LEARN].text != NULL);
	if (rc)
		return COMMAND_EXIT_BAD;
	if (value[LEARN].text)
		return run_learn(path, argv + nr + 1, value[LEARN].text, value[QUIET].text != NULL);
	if (run_empty_stats())
		return COMMAND_EXIT_BAD;
	(void)execv(path, argv + nr + 1);
	return command_complain("run: %s: %s", path, strerror(errno));
}
