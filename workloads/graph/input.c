/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Getting a graph; see input.h. Whatever cannot be mapped as it is becomes a source of edges, which
 * is built into a graph file without a name; the turned graph is built out of the graph. A GPU has
 * its file in memory: where it generates in seconds, a disk would take longer.
 */
#include "workloads/graph/input.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "src/base/util.h"
#include "workloads/graph/build.h"
#include "workloads/graph/fail.h"
#include "workloads/graph/gen_kernels.h"
#include "workloads/graph/gpu_gen.h"
#include "workloads/graph/scratch.h"
#include "workloads/graph/text.h"

struct opening {
	const struct graph_input_params *params;
	const char *name; /* for messages */
	struct graph_input input;
	char *err;
	size_t err_bytes;
};

static int check_params(const struct opening *o)
{
	const struct graph_input_params *p = o->params;

	if (p->file)
		return 0;
	if (p->scale > GEN_SCALE_MAX)
		return graph_fail(o->err, o->err_bytes, -EINVAL,
				  "scale %u is beyond %u, the most of a generated graph", p->scale,
				  GEN_SCALE_MAX);
	if (!p->degree || p->degree > GRAPH_INPUT_DEGREE_MAX)
		return graph_fail(o->err, o->err_bytes, -EINVAL,
				  "degree %llu of a generated graph is not 1 to %u",
				  (unsigned long long)p->degree, GRAPH_INPUT_DEGREE_MAX);
	return 0;
}

/* ------------------------------------------------------------------ building */

static int open_scratch(const struct opening *o)
{
	const char *named = getenv("TMPDIR"), *folder = named && *named ? named : "/tmp";
	int fd = scratch_open(folder, (int)strlen(folder));

	return fd < 0 ? graph_fail(o->err, o->err_bytes, fd,
				   "%s: no scratch file can be made in %s: %s; name another folder "
				   "in TMPDIR",
				   o->name, folder, strerror(-fd))
		      : fd;
}

/* What writing a scratch file says: one that is full can be elsewhere. Others' lines stay. */
static int written(const struct opening *o, int rc)
{
	if (rc == -ENOSPC || rc == -EDQUOT || rc == -EFBIG)
		graph_fail(o->err, o->err_bytes, rc,
			   "%s: no room for the graph in a scratch file: %s; name a folder with "
			   "more in TMPDIR",
			   o->name, strerror(-rc));
	return rc;
}

/* What all that is built has from the parameters. */
static struct csr_build build_of(const struct opening *o, const struct edge_source *source)
{
	const struct graph_input_params *p = o->params;
	struct csr_build build = {.source = source,
				  .seed = p->seed,
				  .memory_bytes = p->memory_bytes,
				  .pool = p->pool,
				  .watch = p->watch};

	if (p->weights)
		build.weights = source->weighted ? CSR_WEIGHTS_KEEP : CSR_WEIGHTS_GEN;
	return build;
}

/* Map what was written to a file, or pass on why it was not. The file is closed. */
static int map_written(const struct opening *o, int fd, int rc, struct csr *out)
{
	if (!rc)
		rc = csr_map(o->name, fd, out, o->err, o->err_bytes);
	close(fd);
	return rc;
}

static int build_graph(const struct opening *o, const struct csr_build *build, struct csr *out)
{
	int fd = open_scratch(o), rc;

	if (fd < 0)
		return fd;
	rc = written(o, csr_build(build, fd, NULL, o->err, o->err_bytes));
	return map_written(o, fd, rc, out);
}

/* Build the graph itself. symmetric: each edge of the source stands for both directions. */
static int build_input(struct opening *o, const struct edge_source *source, bool symmetric)
{
	struct csr_build build = build_of(o, source);

	build.symmetrize = symmetric || o->params->symmetrize;
	build.dedupe = build.no_self_loops = o->params->symmetrize && !source->symmetric;
	return build_graph(o, &build, &o->input.graph);
}

/* ------------------------------------------------------------------ where graphs come from */

static int generate_on_gpu(struct opening *o, const struct gen *gen)
{
	const struct graph_input_params *p = o->params;
	const struct graph_gpu gpu = {.machine = p->machine,
				      .device = p->device,
				      .gen = gen,
				      .nr_edges = p->degree << p->scale,
				      .raw = !p->symmetrize,
				      .weights = p->weights,
				      .seed = p->seed,
				      .pool = p->pool,
				      .watch = p->watch};
	int fd = memfd_create("weir-graph", MFD_CLOEXEC), rc;

	if (fd < 0)
		return graph_fail(o->err, o->err_bytes, -errno, "%s: no memory for it: %s", o->name,
				  strerror(errno));
	rc = graph_gpu_generate(&gpu, fd, NULL, o->err, o->err_bytes);
	return map_written(o, fd, rc, &o->input.graph);
}

static int generate(struct opening *o)
{
	const struct graph_input_params *p = o->params;
	const struct gen gen = gen_init(p->kind, p->scale, p->seed);
	const struct edge_source source = edge_source_gen(&gen, p->degree << p->scale);

	if (p->scale <= GRAPH_GEN_SCALE_MAX && p->machine && graph_gpu_real(p->machine, p->device))
		return generate_on_gpu(o, &gen);
	return build_input(o, &source, false);
}

/* Read text into a spool on a file of its own, and build while both are there. */
static int read_spool(struct opening *o, struct lines *lines, struct spool *spool)
{
	struct edge_source source;
	bool symmetric;
	int rc = text_read(lines, o->params->weights, false, spool, &symmetric);

	if (rc)
		return written(o, rc);
	rc = spool_close(spool, &source);
	if (rc) {
		graph_fail(o->err, o->err_bytes, rc, "%s: %s", o->name, strerror(-rc));
		return written(o, rc);
	}
	return build_input(o, &source, symmetric);
}

static int read_lines(struct opening *o, struct lines *lines)
{
	struct spool spool;
	int fd = open_scratch(o), rc;

	if (fd < 0)
		return fd;
	spool_init(&spool, fd, o->params->memory_bytes);
	rc = read_spool(o, lines, &spool);
	spool_fini(&spool);
	close(fd);
	return rc;
}

static int read_text(struct opening *o)
{
	int fd = open(o->name, O_RDONLY | O_CLOEXEC), rc;
	struct lines lines;

	if (fd < 0)
		return graph_fail(o->err, o->err_bytes, -errno, "%s: %s", o->name, strerror(errno));
	rc = lines_open(&lines, o->name, fd, o->params->watch, o->err, o->err_bytes);
	if (!rc) {
		rc = read_lines(o, &lines);
		lines_close(&lines);
	}
	close(fd);
	return rc;
}

/* Whether a checked file is not yet what is wanted. */
static bool needs_change(const struct graph_input_params *p, const struct csr *g)
{
	return (p->symmetrize && !(g->flags & CSR_SYMMETRIC)) || (p->weights && !g->weight);
}

static int map_file(struct opening *o)
{
	const struct graph_input_params *p = o->params;
	struct edge_source source;
	struct csr file;
	int rc = csr_open(o->name, &file, o->err, o->err_bytes);

	if (rc)
		return rc;
	rc = csr_check(o->name, &file, p->watch, o->err, o->err_bytes);
	if (!rc && !needs_change(p, &file)) {
		o->input.graph = file;
		return 0;
	}
	source = edge_source_csr(&file);
	if (!rc)
		rc = build_input(o, &source, false);
	csr_close(&file);
	return rc;
}

/* ------------------------------------------------------------------ opening and closing */

/* The edges that end at each vertex. */
static int turn(struct opening *o)
{
	const struct csr *g = &o->input.graph;
	const struct edge_source source = edge_source_csr(g);
	struct csr_build build = build_of(o, &source);

	if (g->flags & CSR_SYMMETRIC) {
		o->input.in = *g;
		o->input.in.map = NULL; /* it is unmapped once */
		o->input.in.map_bytes = 0;
		return 0;
	}
	build.transpose = true;
	return build_graph(o, &build, &o->input.in);
}

int graph_input_open(const struct graph_input_params *params, struct graph_input *out, char *err,
		     size_t err_bytes)
{
	struct opening o = {.params = params,
			    .name = params->file ? params->file : "the generated graph",
			    .err = err,
			    .err_bytes = err_bytes};
	int rc = check_params(&o);

	if (rc)
		return rc;
	if (!params->file)
		rc = generate(&o);
	else
		rc = csr_is_file(params->file) ? map_file(&o) : read_text(&o);
	if (!rc && !params->weights) {
		o.input.graph.weight = NULL;
		o.input.graph.flags &= ~(uint32_t)CSR_WEIGHTED;
	}
	if (!rc && params->transpose)
		rc = turn(&o);
	if (rc)
		graph_input_close(&o.input);
	else
		*out = o.input;
	return rc;
}

void graph_input_close(struct graph_input *input)
{
	csr_close(&input->graph);
	csr_close(&input->in);
}

int graph_vertex_of(const struct csr *g, uint64_t id, uint64_t *vertex)
{
	uint64_t at;

	if (!g->id && id >= g->nr_vertices)
		return -ENOENT;
	if (!g->id) {
		*vertex = id;
		return 0;
	}
	SEARCH_SORTED(at, 0, g->nr_vertices, g->id[at] < id);
	if (at == g->nr_vertices || g->id[at] != id)
		return -ENOENT;
	*vertex = at;
	return 0;
}
