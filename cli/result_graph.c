/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/result_graph.h"

#include <inttypes.h>
#include <math.h>

static const char *truth(bool value)
{
	return value ? "true" : "false";
}

static void put_count(FILE *out, const char *name, const uint64_t *count)
{
	fprintf(out, ",\"%s\":", name);
	if (count)
		fprintf(out, "%" PRIu64, *count);
	else
		fputs("null", out);
}

static void put_algorithm(FILE *out, const struct result_graph *graph)
{
	const struct graph_params *p = graph->params;

	if (p->nr_sources) {
		fprintf(out, ",\"sources\":%" PRIu32, p->nr_sources);
		put_count(out, "source", graph->source);
	}
	if (p->algorithm == GRAPH_SSSP)
		put_count(out, "delta", p->delta ? &p->delta : NULL);
	if (p->algorithm != GRAPH_PAGERANK)
		return;
	fprintf(out, ",\"iterations\":%" PRIu32 ",\"damping\":", p->iterations);
	result_write_double(out, p->damping);
}

void result_graph_parameters(FILE *out, const void *of)
{
	const struct result_graph *graph = of;
	const struct graph_params *p = graph->params;

	fputs("\"graph\":", out);
	result_write_text(out, graph->graph);
	fprintf(out, ",\"nr_vertices\":%" PRIu64 ",\"nr_edges\":%" PRIu64 ",\"symmetric\":%s",
		p->graph->nr_vertices, p->graph->nr_edges, truth(graph->symmetric));
	put_algorithm(out, graph);
	fprintf(out, ",\"page_bytes\":%" PRIu32, graph->page_bytes);
	fprintf(out, ",\"warm\":%s,\"epochs\":%" PRIu32 ",\"warm_up\":%" PRIu32, truth(p->warm),
		p->passes - p->warm_up, p->warm_up);
	fprintf(out, ",\"blocks\":%" PRIu32 ",\"threads\":%" PRIu32 ",\"agents\":%" PRIu32,
		p->blocks, p->threads, p->agents);
	fprintf(out, ",\"seed\":%" PRIu64, graph->seed);
}

void result_graph_members(FILE *out, const void *of)
{
	const struct result_graph *graph = of;
	const struct graph_result *r = graph->run;
	bool ranks = graph->params->algorithm == GRAPH_PAGERANK;

	fputs(",\"teps_per_s\":", out);
	result_write_double(out, graph->teps_per_s);
	put_count(out, "nr_rounds", r ? &r->work.nr_rounds : NULL);
	put_count(out, "edges_expanded", r ? &r->work.nr_edges : NULL);
	put_count(out, "line_bytes", r ? &r->work.line_bytes : NULL);
	put_count(out, "first_bytes", r ? &r->work.first_bytes : NULL);
	put_count(out, "edge_bytes", &graph->edge_bytes);
	put_count(out, "reached", r && !ranks ? &r->nr_reached : NULL);
	fputs(",\"rank_error\":", out);
	result_write_double(out, r && ranks && r->passes.checked ? r->error : NAN);
}
