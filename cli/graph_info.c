/* SPDX-License-Identifier: Apache-2.0 */
/* `weir graph info`: what is in a graph file; with --check, from all of its edges. */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "cli/graph_internal.h"
#include "cli/size.h"
#include "src/base/util.h"
#include "workloads/graph/stats.h"

enum { JSON, CHECK, HELP, NR_OPTIONS };

static const struct option_def info_options[NR_OPTIONS] = {
	[JSON] = {"json", NULL, NULL, NULL, "print JSON"},
	[CHECK] = {"check", NULL, NULL, NULL, "pass over all edges: check them, and tell more"},
	[HELP] = {"help", NULL, NULL, NULL, "print this"},
};

struct info {
	const char *name; /* borrowed */
	bool json, check;
	struct csr graph;
	struct csr_degrees degrees;
	struct csr_stats stats; /* with check */
};

static int print_help(void)
{
	puts("usage: weir graph info FILE [--check] [--json]\n"
	     "\n"
	     "Show how many vertices and edges a graph file has, and what it looks like.\n");
	options_help(stdout, info_options, NR_OPTIONS);
	return command_flushed(0);
}

static int parse(int argc, char **argv, struct info *info, char *err, size_t err_bytes)
{
	const char **operands = calloc((size_t)argc + 1, sizeof(*operands));
	struct option_value values[NR_OPTIONS];
	int nr_operands, rc;

	if (!operands)
		return graph_fail(err, err_bytes, -ENOMEM, "no memory on the host");
	rc = options_parse_operands(info_options, NR_OPTIONS, argc, argv, values, operands,
				    &nr_operands, err, err_bytes);
	if (!rc && nr_operands != 1)
		rc = graph_fail(err, err_bytes, -EINVAL,
				"info shows one file, %d are named: write weir graph info "
				"graph.csr",
				nr_operands);
	if (!rc) {
		info->name = operands[0];
		info->json = values[JSON].text != NULL;
		info->check = values[CHECK].text != NULL;
	}
	free(operands);
	return rc;
}

/* Look at the graph. 0, or a negative errno with a line in err. */
static int look(struct info *info, const struct graph_watch *watch, char *err, size_t err_bytes)
{
	int rc;

	csr_degrees(&info->graph, &info->degrees);
	if (!info->check)
		return 0;
	rc = csr_check(info->name, &info->graph, watch, err, err_bytes);
	if (!rc) {
		rc = csr_stats(&info->graph, watch, &info->stats);
		if (rc == -ENOMEM)
			graph_fail(err, err_bytes, rc, "%s: no memory on the host for --check",
				   info->name);
	}
	if (!rc && (info->graph.flags & CSR_SYMMETRIC) && !info->stats.symmetric)
		rc = graph_fail(err, err_bytes, -EINVAL,
				"%s: the header says that the graph is symmetric, its edges are "
				"not: convert the graph anew",
				info->name);
	return rc;
}

/* ------------------------------------------------------------------ printing */

static void line(const char *name, uint64_t value)
{
	printf("%-20s %llu\n", name, (unsigned long long)value);
}

static void print_text(const struct info *info)
{
	const struct csr *g = &info->graph;
	char size[SIZE_TEXT_BYTES];

	printf("%-20s %s\n", "file", info->name);
	printf("%-20s %s\n", "size", size_format(g->map_bytes, size, sizeof(size)));
	line("vertices", g->nr_vertices);
	line("edges", g->nr_edges);
	line("id bits", g->wide ? 64 : 32);
	printf("%-20s %s\n", "weights", g->weight ? "yes" : "no");
	printf("%-20s %s\n", "original ids", g->id ? "yes" : "no");
	line("degree min", info->degrees.min);
	line("degree median", info->degrees.median);
	line("degree max", info->degrees.max);
	line("without edges out", info->degrees.nr_without);
	if (!info->check) {
		printf("%-20s %s\n", "symmetric",
		       g->flags & CSR_SYMMETRIC ? "yes" : "not known; --check finds out");
		return;
	}
	printf("%-20s %s\n", "symmetric", info->stats.symmetric ? "yes" : "no");
	line("isolated vertices", info->stats.nr_isolated);
	line("self-loops", info->stats.nr_self_loops);
	line("duplicates", info->stats.nr_duplicates);
	line("components", info->stats.nr_components);
	line("largest component", info->stats.largest_component);
	if (g->weight) {
		line("weight min", info->stats.weight_min);
		line("weight max", info->stats.weight_max);
	}
}

static json_t *integer(uint64_t value)
{
	return json_integer((json_int_t)value);
}

/* What --check found, into root. */
static int add_checked(json_t *root, const struct info *info)
{
	const struct csr_stats *stats = &info->stats;
	const struct {
		const char *name;
		uint64_t value;
	} numbers[] = {
		{"isolated_vertices", stats->nr_isolated},
		{"self_loops", stats->nr_self_loops},
		{"duplicates", stats->nr_duplicates},
		{"components", stats->nr_components},
		{"largest_component", stats->largest_component},
		{"weight_min", stats->weight_min},
		{"weight_max", stats->weight_max},
	};
	size_t nr = ARRAY_LEN(numbers) - (info->graph.weight ? 0 : 2);
	int bad = 0;

	for (size_t i = 0; i < nr; i++)
		bad |= json_object_set_new(root, numbers[i].name, integer(numbers[i].value));
	return bad;
}

static int print_json(const struct info *info)
{
	const struct csr *g = &info->graph;
	json_t *root = json_pack(
		"{sssosososososbsbs{sososo}so}", "file", info->name, "bytes", integer(g->map_bytes),
		"vertices", integer(g->nr_vertices), "edges", integer(g->nr_edges), "id_bits",
		integer(g->wide ? 64 : 32), "version", integer(CSR_VERSION), "weights",
		g->weight != NULL, "original_ids", g->id != NULL, "degree", "min",
		integer(info->degrees.min), "median", integer(info->degrees.median), "max",
		integer(info->degrees.max), "without_edges_out", integer(info->degrees.nr_without));
	bool symmetric = info->check ? info->stats.symmetric : g->flags & CSR_SYMMETRIC;
	int bad = root ? 0 : -1;

	/* What nobody has looked for is not known. */
	if (!bad)
		bad = json_object_set_new(root, "symmetric",
					  symmetric || info->check ? json_boolean(symmetric)
								   : json_null());
	if (!bad && info->check)
		bad = add_checked(root, info);
	if (!bad) {
		(void)json_dumpf(root, stdout, JSON_INDENT(2));
		(void)putchar('\n');
	}
	json_decref(root);
	return bad ? -ENOMEM : 0;
}

int graph_info(int argc, char **argv)
{
	struct info info = {0};
	struct graph_job job;
	char err[GRAPH_ERROR_BYTES];
	int rc, status;

	if (options_want_help(argc, argv))
		return print_help();
	if (parse(argc, argv, &info, err, sizeof(err)))
		return command_complain("%s", err);
	rc = graph_job_begin(&job, NULL, false);
	if (!rc)
		rc = csr_open(info.name, &info.graph, job.err, sizeof(job.err));
	if (!rc)
		rc = look(&info, &job.watch, job.err, sizeof(job.err));
	status = graph_job_end(&job, rc);
	if (!status && !info.json)
		print_text(&info);
	if (!status && info.json && print_json(&info))
		status =
			command_complain("no memory on the host, or a file name that is not UTF-8");
	csr_close(&info.graph);
	return command_flushed(status);
}
