/* SPDX-License-Identifier: Apache-2.0 */
/* The options of `weir bench bfs`, sssp, cc and pagerank; see bench_graph_options.h. */
#include "cli/bench_graph_options.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/kept.h"
#include "workloads/graph/cuda.h"
#include "workloads/graph/input.h"

#define SCALE_MAX 31u /* of less than 2^32 vertices */
#define ITERATIONS_MAX 100000u
#define SOURCES "16" /* as Graph 500 and GAP have some dozens; all of them are one pass */

enum graph_option { KRON = BENCH_PASS_OPTION_NR, UNIFORM, DEGREE, SYMMETRIZE, OUTPUT, CC_NR };
enum search_option { SOURCE = CC_NR, NR_SOURCES, BFS_NR };
enum sssp_option { DELTA = BFS_NR, SSSP_NR };
enum pagerank_option { ITERATIONS = CC_NR, DAMPING, PAGERANK_NR };

_Static_assert((int)PAGERANK_NR <= (int)SSSP_NR, "values of any fit");

#define GRAPH_OPTIONS                                                                             \
	BENCH_PASS_OPTIONS("native,zerocopy,weir-paged", "edges and weights", "4KiB", "0", "512", \
			   "1", "of generated graphs and weights, and of sources",                \
			   "compare with a plain algorithm on the CPU"),                          \
		[KRON] = {"kron", "SCALE", NULL, NULL, "a Kronecker graph of 2^SCALE vertices"},  \
		[UNIFORM] = {"uniform", "SCALE", NULL, NULL,                                      \
			     "a uniform graph of 2^SCALE vertices"},                              \
		[DEGREE] = {"degree", "D", NULL, "16", "edges drawn for each of them"},           \
		[SYMMETRIZE] = {"symmetrize", NULL, NULL, NULL,                                   \
				"add the reverse of each edge of FILE"},                          \
		[OUTPUT] = {"output", "FILE", NULL, NULL,                                         \
			    "write a line a vertex: what it is called, and its value"}

#define SEARCH_OPTIONS                                                                         \
	[SOURCE] = {"source", "ID", NULL, NULL, "the vertex to begin from, as FILE calls it"}, \
	[NR_SOURCES] = {"sources", "N", NULL, SOURCES,                                         \
			"begin from each of so many vertices with edges, at random"}

static const struct option_def bfs_table[BFS_NR] = {GRAPH_OPTIONS, SEARCH_OPTIONS};

static const struct option_def sssp_table[SSSP_NR] = {
	GRAPH_OPTIONS,
	SEARCH_OPTIONS,
	[DELTA] = {"delta", "N", NULL, NULL,
		   "how much further each step goes (default: the mean weight)"},
};

static const struct option_def cc_table[CC_NR] = {GRAPH_OPTIONS};

static const struct option_def pagerank_table[PAGERANK_NR] = {
	GRAPH_OPTIONS,
	[ITERATIONS] = {"iterations", "N", NULL, "20", "in a pass"},
	[DAMPING] = {"damping", "D", NULL, "0.85", "the part of a rank that edges pass on"},
};

static const struct command {
	const struct option_def *table;
	unsigned int nr;
	const char *about;
} commands[GRAPH_ALGORITHM_NR] = {
	[GRAPH_BFS] = {bfs_table, BFS_NR,
		       "Find how many edges each vertex is away from a source, breadth first,"},
	[GRAPH_SSSP] = {sssp_table, SSSP_NR,
			"Find how far each vertex is from a source, along weighted edges,"},
	[GRAPH_CC] = {cc_table, CC_NR, "Find the components of a graph, edges in both directions,"},
	[GRAPH_PAGERANK] = {pagerank_table, PAGERANK_NR, "Find the PageRank of each vertex,"},
};

/* ------------------------------------------------------------------ the graph */

static int bad(const struct bench_reader *r, const char *what)
{
	snprintf(r->err, r->err_bytes, "%s", what);
	return -EINVAL;
}

static int read_graph(const struct bench_reader *r, const char *const *operands, int nr_operands,
		      struct bench_graph_params *p)
{
	const bool kron = r->values[KRON].text, uniform = r->values[UNIFORM].text;
	int err = 0;

	p->symmetrize = r->values[SYMMETRIZE].text || !nr_operands;
	if (nr_operands + kron + uniform != 1)
		return bad(r, "one graph is needed: write a file, --kron SCALE or --uniform SCALE");
	if (nr_operands) {
		p->file = operands[0];
		kept_add_name(p->file);
		return r->values[DEGREE].origin == OPTION_GIVEN
			       ? bad(r, "--degree is for --kron and --uniform; drop it")
			       : 0;
	}
	if (r->values[SYMMETRIZE].text)
		return bad(r, "--symmetrize is for files, generated graphs are symmetric; drop it");
	p->kind = kron ? GEN_KRONECKER : GEN_UNIFORM;
	err = bench_read_u32(r, kron ? KRON : UNIFORM, 0, SCALE_MAX, &p->scale);
	if (!err)
		err = bench_read_count(r, DEGREE, 1, GRAPH_INPUT_DEGREE_MAX, &p->degree);
	return err;
}

/* ------------------------------------------------------------------ the algorithm */

static int read_sources(const struct bench_reader *r, struct bench_graph_params *p)
{
	const char *text = r->values[SOURCE].text;
	char *end;

	p->one_source = text != NULL;
	if (!text)
		return bench_read_u32(r, NR_SOURCES, 1, GRAPH_SOURCES_MAX, &p->nr_sources);
	if (r->values[NR_SOURCES].origin == OPTION_GIVEN)
		return bad(r, "--source and --sources contradict each other; drop one");
	p->nr_sources = 1;
	errno = 0;
	p->source = strtoull(text, &end, 10);
	if (text[0] < '0' || text[0] > '9' || *end || errno)
		return bench_refuse(r, SOURCE,
				    "not what a vertex is called: write a whole number "
				    "below 2^64");
	return 0;
}

static int read_damping(const struct bench_reader *r, double *damping)
{
	const char *text = r->values[DAMPING].text;
	char *end;

	*damping = strtod(text, &end);
	if (strspn(text, "0123456789.") != strlen(text) || *end || !(*damping <= 1))
		return bench_refuse(r, DAMPING, "not a part: write a number from 0 to 1");
	return 0;
}

static int read_algorithm(const struct bench_reader *r, struct bench_graph_params *p)
{
	int err = 0;

	if (p->algorithm == GRAPH_BFS || p->algorithm == GRAPH_SSSP)
		err = read_sources(r, p);
	if (!err && p->algorithm == GRAPH_SSSP && r->values[DELTA].text)
		err = bench_read_count(r, DELTA, 1, UINT64_MAX, &p->delta);
	if (!err && p->algorithm == GRAPH_PAGERANK)
		err = bench_read_u32(r, ITERATIONS, 1, ITERATIONS_MAX, &p->iterations);
	if (!err && p->algorithm == GRAPH_PAGERANK)
		err = read_damping(r, &p->damping);
	return err;
}

/* ------------------------------------------------------------------ all of it */

/* Not the standard output, which has the table. */
static int read_output(const struct bench_reader *r, struct bench_graph_params *p)
{
	p->output = r->values[OUTPUT].text;
	if (!p->output)
		return 0;
	if (strcmp(p->output, "-") == 0)
		return bench_refuse(r, OUTPUT, "not the standard output; name a file");
	return 0;
}

static int read_all(struct bench_reader *r, const char *const *operands, int nr_operands,
		    struct bench_graph_params *p)
{
	int err = read_graph(r, operands, nr_operands, p);

	if (!err)
		err = read_algorithm(r, p);
	if (!err && strcmp(r->values[BENCH_DATA].text, "phantom") == 0)
		err = bench_refuse(r, BENCH_DATA, "what is done depends on the edges; choose real");
	if (!err)
		err = bench_pass_read(r, &p->pass);
	if (!err)
		err = read_output(r, p);
	return err;
}

int bench_graph_parse(enum graph_algorithm algorithm, int argc, char **argv,
		      struct bench_graph_params *out, char *err, size_t err_bytes)
{
	const struct command *command = &commands[algorithm];
	const char **operands = calloc((size_t)argc + 1, sizeof(*operands));
	struct option_value values[SSSP_NR]; /* others have fewer */
	struct bench_reader reader = {.defs = command->table,
				      .values = values,
				      .nr = command->nr,
				      .load_kernels = graph_cuda_load,
				      .pages = true,
				      .err = err,
				      .err_bytes = err_bytes};
	int nr_operands, rc;

	memset(out, 0, sizeof(*out));
	out->algorithm = algorithm;
	snprintf(err, err_bytes, "not enough memory on this computer");
	if (!operands)
		return -ENOMEM;
	rc = options_parse_operands(command->table, command->nr, argc, argv, values, operands,
				    &nr_operands, err, err_bytes);
	if (!rc)
		rc = bench_set_command(&reader, graph_algorithm_name(algorithm), operands,
				       nr_operands, &out->pass.base);
	if (!rc)
		rc = read_all(&reader, operands, nr_operands, out);
	free(operands);
	if (rc)
		bench_graph_params_fini(out);
	return rc;
}

void bench_graph_params_fini(struct bench_graph_params *params)
{
	bench_params_fini(&params->pass.base);
}

void bench_graph_help(enum graph_algorithm algorithm, FILE *out)
{
	const struct command *command = &commands[algorithm];

	fprintf(out,
		"usage: weir bench %s (FILE | --kron SCALE | --uniform SCALE) [options]\n\n"
		"%s\n"
		"on this computer's GPU or a simulated machine, with the edges held in several\n"
		"ways. FILE is a graph file, a list of edges or a matrix: see weir graph.\n%s\n",
		graph_algorithm_name(algorithm), command->about,
		algorithm == GRAPH_PAGERANK || algorithm == GRAPH_SSSP
			? "With --devices N,... it runs on several GPUs, and has other options: "
			  "see\n--devices 2 --help.\n"
			: "");
	options_help(out, command->table, command->nr);
	bench_help_end(out, true);
	fputs("Exit status: 0 done (out of memory is a result), 1 a run failed or its answer is\n"
	      "wrong, 2 bad input or output, 128 + n stopped by signal n.\n",
	      out);
}
