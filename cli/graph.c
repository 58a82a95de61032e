/* SPDX-License-Identifier: Apache-2.0 */
/* `weir graph`: the commands below it; what those share is in graph_job.c. */
#include "cli/graph.h"

#include "cli/graph_internal.h"
#include "src/base/util.h"

int graph_main(int argc, char **argv)
{
	static const struct command commands[] = {
		{"convert", "make a graph file out of text files or of another graph file",
		 graph_convert},
		{"generate", "make a graph file of a random graph", graph_generate},
		{"info", "show what is in a graph file, and check it", graph_info},
	};
	static const struct command_family family = {"graph",
						     "Graphs in files that are mapped into memory.",
						     commands, ARRAY_LEN(commands)};

	return commands_main(&family, argc, argv);
}
