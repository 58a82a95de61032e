/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `weir graph convert`: graph files out of text files, which are read into a scratch file beside
 * the output first, or out of another graph file. The scratch file has no name, so nothing is left
 * of it however the program ends.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/graph_internal.h"
#include "cli/kept.h"
#include "workloads/graph/scratch.h"
#include "workloads/graph/text.h"

enum {
	SYMMETRIZE,
	TRANSPOSE,
	DEDUPE,
	NO_SELF_LOOPS,
	WEIGHTS,
	SEED,
	MEMORY,
	THREADS,
	FORCE,
	HELP,
	NR_OPTIONS,
};

static const struct option_def convert_options[NR_OPTIONS] = {
	[SYMMETRIZE] = {"symmetrize", NULL, NULL, NULL, "add the reverse of each edge"},
	[TRANSPOSE] = {"transpose", NULL, NULL, NULL, "turn each edge around"},
	[DEDUPE] = {"dedupe", NULL, NULL, NULL, "keep one edge of several, of the least weight"},
	[NO_SELF_LOOPS] = {"no-self-loops", NULL, NULL, NULL,
			   "leave out edges from a vertex to itself"},
	[WEIGHTS] = {"weights", "HOW", NULL, "keep",
		     "keep: the input's, if any; gen: 1 to 255; "
		     "none"},
	[SEED] = {"seed", "S", NULL, "1", "of generated weights"},
	[MEMORY] = {"memory", "SIZE", NULL, "1GiB", "for edges that are being sorted"},
	[THREADS] = {"threads", "N", NULL, "0", "0: one a processor"},
	[FORCE] = {"force", NULL, NULL, NULL, "replace a file that is no graph file, too"},
	[HELP] = {"help", NULL, NULL, NULL, "print this"},
};

struct convert {
	const char **inputs; /* owned, its texts borrowed */
	int nr_inputs;
	const char *output; /* borrowed */
	struct csr_build build;
	uint32_t nr_threads;
	bool force; /* whatever is there */
	struct graph_job job;
	struct spool spool;
	struct csr graph; /* open where the input is a graph file */
	int scratch;	  /* -1: none */
};

static int print_help(void)
{
	puts("usage: weir graph convert [options] INPUT... OUTPUT\n"
	     "\n"
	     "Make a graph file out of lists of edges (several are read as one), a matrix of the\n"
	     "Matrix Market, or another graph file. INPUT is told by what it begins with; - is\n"
	     "standard input.\n");
	options_help(stdout, convert_options, NR_OPTIONS);
	return command_flushed(0);
}

/* ------------------------------------------------------------------ arguments */

static int parse_values(const struct option_value *values, struct convert *c, char *err,
			size_t err_bytes)
{
	struct csr_build *build = &c->build;
	int rc = graph_parse_weights(values[WEIGHTS].text, true, &build->weights, err, err_bytes);

	build->symmetrize = values[SYMMETRIZE].text != NULL;
	build->transpose = values[TRANSPOSE].text != NULL;
	build->dedupe = values[DEDUPE].text != NULL;
	build->no_self_loops = values[NO_SELF_LOOPS].text != NULL;
	c->force = values[FORCE].text != NULL;
	if (!rc)
		rc = graph_parse_number("seed", values[SEED].text, UINT64_MAX, &build->seed, err,
					err_bytes);
	if (!rc)
		rc = graph_parse_memory(values[MEMORY].text, &build->memory_bytes, err, err_bytes);
	if (!rc)
		rc = graph_parse_threads(values[THREADS].text, &c->nr_threads, err, err_bytes);
	return rc;
}

static int parse(int argc, char **argv, struct convert *c, char *err, size_t err_bytes)
{
	struct option_value values[NR_OPTIONS];
	int nr_stdin = 0, rc;

	c->inputs = calloc((size_t)argc + 1, sizeof(*c->inputs));
	if (!c->inputs)
		return graph_fail(err, err_bytes, -ENOMEM, "no memory on the host");
	rc = options_parse_operands(convert_options, NR_OPTIONS, argc, argv, values, c->inputs,
				    &c->nr_inputs, err, err_bytes);
	if (!rc)
		rc = parse_values(values, c, err, err_bytes);
	if (!rc && c->nr_inputs < 2)
		rc = graph_fail(err, err_bytes, -EINVAL,
				"convert needs an input and an output: write weir graph convert "
				"edges.txt graph.csr");
	if (rc)
		return rc;
	c->output = c->inputs[--c->nr_inputs];
	for (int i = 0; i < c->nr_inputs; i++) {
		nr_stdin += strcmp(c->inputs[i], "-") == 0;
		kept_add_name(c->inputs[i]);
	}
	if (nr_stdin > 1)
		return graph_fail(err, err_bytes, -EINVAL,
				  "standard input is named %d times: it can be read once",
				  nr_stdin);
	return 0;
}

/* ------------------------------------------------------------------ reading */

static int fail(struct convert *c, int error, const char *name, const char *what)
{
	return graph_fail(c->job.err, sizeof(c->job.err), error, "%s: %s", name, what);
}

/* A file without a name in the output's folder. */
static int open_scratch(struct convert *c)
{
	const char *target = c->job.output.target ? c->job.output.target : c->output;
	const char *slash = strrchr(target, '/');

	c->scratch = scratch_open(slash ? target : ".", slash ? (int)(slash - target) : 1);
	return c->scratch < 0 ? fail(c, c->scratch, c->output,
				     "no scratch file can be made beside it: name another place")
			      : 0;
}

static int read_text(struct convert *c, const char *name, int fd)
{
	bool symmetric = false;
	struct lines lines;
	int rc = lines_open(&lines, name, fd, &c->job.watch, c->job.err, sizeof(c->job.err));

	if (rc)
		return rc;
	rc = text_read(&lines, c->build.weights == CSR_WEIGHTS_KEEP, c->nr_inputs > 1, &c->spool,
		       &symmetric);
	lines_close(&lines);
	c->build.symmetrize |= symmetric;
	return rc;
}

static int read_input(struct convert *c, const char *name)
{
	const bool standard = strcmp(name, "-") == 0;
	int fd = standard ? STDIN_FILENO : open(name, O_RDONLY | O_CLOEXEC), rc;

	if (fd < 0)
		return fail(c, -errno, name, strerror(errno));
	rc = read_text(c, standard ? "standard input" : name, fd);
	if (!standard)
		close(fd);
	return rc;
}

static int read_inputs(struct convert *c, struct edge_source *source)
{
	int rc;

	if (c->nr_inputs == 1 && csr_is_file(c->inputs[0])) {
		rc = csr_open(c->inputs[0], &c->graph, c->job.err, sizeof(c->job.err));
		if (!rc)
			*source = edge_source_csr(&c->graph);
		return rc;
	}
	rc = open_scratch(c);
	if (rc)
		return rc;
	spool_init(&c->spool, c->scratch, c->build.memory_bytes);
	for (int i = 0; !rc && i < c->nr_inputs; i++)
		rc = read_input(c, c->inputs[i]);
	if (rc)
		return rc;
	rc = spool_close(&c->spool, source);
	return rc ? fail(c, rc, c->output, strerror(-rc)) : 0;
}

/* ------------------------------------------------------------------ the command */

static int convert(struct convert *c)
{
	struct csr_built built;
	struct edge_source source;
	int rc = graph_job_begin(&c->job, c->output, c->force), status;

	c->build.watch = &c->job.watch;
	c->build.source = &source;
	if (!rc) {
		rc = gcn_pool_create(c->nr_threads, &c->build.pool);
		if (rc)
			fail(c, rc, "cannot start threads", strerror(-rc));
	}
	if (!rc)
		rc = read_inputs(c, &source);
	if (!rc)
		rc = graph_job_build(&c->job, &c->build, &built);
	gcn_pool_destroy(c->build.pool);
	status = graph_job_end(&c->job, rc);
	if (!status)
		graph_print_built(c->output, source.nr_vertices, &built);
	return command_flushed(status);
}

int graph_convert(int argc, char **argv)
{
	struct convert c = {.scratch = -1};
	char err[GRAPH_ERROR_BYTES];
	int status;

	if (options_want_help(argc, argv))
		return print_help();
	if (parse(argc, argv, &c, err, sizeof(err)))
		status = command_complain("%s", err);
	else
		status = convert(&c);
	spool_fini(&c.spool);
	csr_close(&c.graph);
	if (c.scratch >= 0)
		close(c.scratch);
	free(c.inputs);
	return status;
}
