/* SPDX-License-Identifier: Apache-2.0 */
/* The command `weir`: finds the sub-command and leaves the rest to it. */
#include <stdio.h>
#include <string.h>

#include "cli/bench.h"
#include "cli/commands.h"
#include "cli/graph.h"
#include "cli/info.h"
#include "cli/options.h"
#include "cli/policy.h"
#include "cli/replay.h"
#include "cli/report.h"
#include "cli/run.h"
#include "cli/trace.h"
#include "src/base/util.h"
#include "src/base/variables.h"
#include "weir/weir.h"

/* Each is given its name as argv[0]. */
static const struct command commands[] = {
	{"bench", "run a workload under weir and under the plain ways of holding memory",
	 bench_main},
	{"graph", "make graph files out of text or at random; show what is in one", graph_main},
	{"info", "show a machine or measure one; show what a process holds", info_main},
	{"policy", "show policies, and try them", policy_main},
	{"replay", "do what a trace says under other managers, budgets and machines", replay_main},
	{"report", "make a page that shows results and what is in them", report_main},
	{"run", "run a CUDA program as it is, with its GPU memory under weir", run_main},
	{"trace", "show what programs did with a space, as they had it recorded", trace_main},
};

#define NR_COMMANDS ARRAY_LEN(commands)

static int usage(void)
{
	fputs("usage: weir COMMAND [options]\n\n"
	      "Unified virtual memory for GPUs, in user space.\n\ncommands:\n",
	      stdout);
	commands_print(commands, NR_COMMANDS);
	fputs("\n  --version  show the version\n"
	      "  --help     show this text; also after a command\n",
	      stdout);
	puts("\nenvironment variables (those of options stand in {} in a command's --help):");
	for (const struct variable *v = variables; v->name; v++) {
		char text[512];

		snprintf(text, sizeof(text), "%s; default: %s; read by %s. %s", v->values,
			 v->preset, v->reader, v->help);
		options_help_line(stdout, v->name, text);
	}
	return fflush(stdout) ? COMMAND_EXIT_BAD : 0;
}

static int unknown(const char *name)
{
	const char *names[NR_COMMANDS + 1] = {0}, *near;

	for (size_t i = 0; i < NR_COMMANDS; i++)
		names[i] = commands[i].name;
	near = options_nearest(name, names);
	if (near)
		return command_complain("no command '%s'; did you mean %s?", name, near);
	return command_complain("no command '%s'; weir --help lists the commands", name);
}

int main(int argc, char **argv)
{
	if (argc < 2) {
		fputs("weir: a command is missing; weir --help lists the commands\n", stderr);
		return COMMAND_EXIT_BAD;
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
		return usage();
	if (strcmp(argv[1], "--version") == 0) {
		printf("weir %s\n", weir_version());
		return fflush(stdout) ? COMMAND_EXIT_BAD : 0;
	}
	for (size_t i = 0; i < NR_COMMANDS; i++)
		if (strcmp(argv[1], commands[i].name) == 0)
			return commands[i].main(argc - 1, argv + 1);
	return unknown(argv[1]);
}
