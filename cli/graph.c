/* SPDX-License-Identifier: Apache-2.0 */
/* `weir graph`: finds the command below it; what those share is in graph_job.c. */
#include "cli/graph.h"

#include <string.h>

#include "cli/graph_internal.h"
#include "src/base/util.h"

static const struct command {
	const char *name, *help;
	int (*main)(int argc, char **argv);
} commands[] = {
	{"convert", "make a graph file out of text files or of another graph file", graph_convert},
	{"generate", "make a graph file of a random graph", graph_generate},
	{"info", "show what is in a graph file, and check it", graph_info},
};

#define NR_COMMANDS ARRAY_LEN(commands)

static int usage(void)
{
	puts("usage: weir graph COMMAND [options]\n\n"
	     "Graphs in files that are mapped into memory.\n\ncommands:");
	for (size_t i = 0; i < NR_COMMANDS; i++)
		printf("  %-8s %s\n", commands[i].name, commands[i].help);
	puts("\n  --help   show this text; also after a command");
	return graph_flushed(0);
}

int graph_main(int argc, char **argv)
{
	const char *names[NR_COMMANDS + 1] = {0}, *near;

	if (argc < 2)
		return graph_complain("graph needs a command; weir graph --help lists them");
	for (size_t i = 0; i < NR_COMMANDS; i++) {
		if (strcmp(argv[1], commands[i].name) == 0)
			return commands[i].main(argc - 2, argv + 2);
		names[i] = commands[i].name;
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
		return usage();
	near = options_nearest(argv[1], names);
	if (near)
		return graph_complain("graph has no command '%.40s'; did you mean %s?", argv[1],
				      near);
	return graph_complain("graph has no command '%.40s'; weir graph --help lists them",
			      argv[1]);
}
