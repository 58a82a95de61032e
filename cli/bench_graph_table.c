/* SPDX-License-Identifier: Apache-2.0 */
/* See bench_graph_table.h. */
#include "cli/bench_graph_table.h"

#include "src/base/util.h"

struct bench_graph_row bench_graph_row(const struct result *result)
{
	const struct result_graph *graph = result->pass->of;
	const enum graph_algorithm algorithm = graph->params->algorithm;
	bool teps = algorithm == GRAPH_BFS || algorithm == GRAPH_PAGERANK;

	return (struct bench_graph_row){
		.edge_bytes = graph->edge_bytes,
		.page_bytes = graph->page_bytes,
		.teps = teps,
		.pass = bench_pass_row(result, teps ? graph->teps_per_s / 1e6
						    : result->pass->useful_bytes_per_s / 1e9),
	};
}

int bench_graph_table_print(FILE *out, const struct bench_graph_row *rows, unsigned int nr)
{
	static const struct table_column edges[] = {
		{"edges", TABLE_RIGHT},
		{"GPU budget", TABLE_RIGHT},
		{"page", TABLE_RIGHT},
		BENCH_PASS_COLUMNS("M edges/s"),
	};
	static const struct table_column bytes[] = {
		{"edges", TABLE_RIGHT},
		{"GPU budget", TABLE_RIGHT},
		{"page", TABLE_RIGHT},
		BENCH_PASS_COLUMNS("GB/s"),
	};
	struct table *table;
	int err;

	err = table_create(nr && rows[0].teps ? edges : bytes, ARRAY_LEN(edges), &table);
	if (err)
		return err;
	table_set_keys(table, 4);
	for (unsigned int i = 0; i < nr; i++) {
		(void)table_add_size(table, rows[i].edge_bytes);
		(void)table_add_size(table, rows[i].pass.budget_bytes);
		(void)table_add_size(table, rows[i].page_bytes);
		bench_pass_row_add(table, &rows[i].pass);
	}
	return bench_pass_table_end(table, out);
}
