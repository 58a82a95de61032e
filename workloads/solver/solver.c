/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run: parameters, the two arrays, passes of iterations, what the field is at the end. The steps
 * of an iteration are in steps.c, the comparison with the CPU in check.c.
 */
#include "workloads/solver/solver.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/util.h"
#include "workloads/solver/cuda.h"
#include "workloads/solver/edges.h"
#include "workloads/solver/internal.h"

static const char *const kind_names[] = {"jacobi", "diffusion", "als", "pagerank", "sssp"};

const char *solver_kind_name(enum solver_kind kind)
{
	return kind_names[kind];
}

void solver_fail(struct solver_job *job, int status, const char *format, ...)
{
	char text[160];
	va_list ap;

	if (job->status)
		return;
	job->status = status;
	va_start(ap, format);
	vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	snprintf(job->err, job->err_bytes, "%s: %s", solver_kind_name(job->p->kind), text);
}

void solver_did(struct solver_job *job, int err, const char *what)
{
	if (err)
		solver_fail(job, err, "%s failed: %s", what, weir_strerror(err));
}

/* What is wrong with a size; NULL: nothing. */
static const char *shape_wrong(const struct solver_params *p)
{
	const struct solver_shape *shape = &p->shape;

	if (solver_on_graph(p) != (p->graph != NULL))
		return "pagerank and sssp need a graph, and nothing else does";
	if (p->graph) {
		const struct solver_shape want = solver_graph_shape(p->graph);

		return memcmp(shape, &want, sizeof(want)) ? "a vector has an element a vertex"
							  : NULL;
	}
	if (p->kind == SOLVER_ALS)
		return shape->slices && shape->rows && shape->columns == SOLVER_WIDTH &&
				       MAX(shape->slices, shape->rows) <= SOLVER_ROWS_MAX
			       ? NULL
			       : "there are 1 to 268435456 users and items, with 64 elements each";
	if (!shape->slices || !shape->rows || !shape->columns ||
	    MAX(MAX(shape->slices, shape->rows), shape->columns) > SOLVER_SIDE_MAX)
		return "each side has 1 to 1048576 elements";
	if (p->kind == SOLVER_JACOBI && shape->rows != 1)
		return "a field of two dimensions has slices of one row";
	if (shape->columns % SOLVER_COLUMNS_UNIT)
		return "columns come in multiples of 4";
	return NULL;
}

int solver_params_check(const struct solver_params *p, char *err, size_t err_bytes)
{
	const char *what = p->kind < SOLVER_KIND_NR ? shape_wrong(p) : "no such workload";
	uint32_t most = p->shape.slices;

	if (p->kind == SOLVER_ALS)
		most = MIN(most, p->shape.rows);
	if (!what && (!p->iterations || p->passes <= p->warm_up))
		what = "no iteration is left after the warm-up";
	else if (!what && (!p->devices || p->devices > MIN(most, WEIR_DEVICES_MAX)))
		what = "each device has a slice at least, and there are up to 16";
	else if (!what && p->graph && !p->graph->split[p->devices])
		what = "the graph is not split between so many devices";
	if (!what)
		return 0;
	snprintf(err, err ? err_bytes : 0, "%s: %s",
		 p->kind < SOLVER_KIND_NR ? solver_kind_name(p->kind) : "solver", what);
	return -EINVAL;
}

/* Each device all of an array, and not slices beside its own. */
static bool reads_all(const struct solver_params *p)
{
	return p->kind == SOLVER_ALS || p->graph;
}

struct solver_layout solver_layout_of(const struct solver_params *p, uint32_t array)
{
	const struct solver_shape shape = solver_array_shape(p, array);
	struct solver_layout layout = {
		.nr_devices = p->devices,
		.halo_bytes =
			reads_all(p) ? solver_array_bytes(p, array) : solver_slice_bytes(&shape),
	};

	for (uint32_t d = 0; d <= p->devices; d++)
		layout.offset[d] = solver_array_first(p, array, d) * solver_slice_bytes(&shape);
	return layout;
}

void solver_config_set(struct solver_config *config, const struct solver_params *p)
{
	config->nr_devices = p->devices;
	for (uint32_t i = 0; i < SOLVER_RUN_ARRAYS; i++)
		config->layout[i] = solver_layout_of(p, i);
	for (uint32_t d = 0; d < p->devices && p->graph; d++) {
		const struct solver_share *share = &p->graph->split[p->devices]->share[d];

		config->list[d] =
			(struct solver_list){share->listed, share->listed ? share->nr_listed : 0};
	}
}

uint64_t solver_named_bytes(const struct solver_params *p, uint32_t device, uint64_t page_bytes)
{
	const uint32_t first = solver_first_slice(p, device);
	const uint32_t end = MIN(solver_first_slice(p, device + 1) + 1, p->shape.slices);
	const uint64_t begin_at = (first ? first - 1 : 0) * solver_slice_bytes(&p->shape);
	const uint64_t end_at = end * solver_slice_bytes(&p->shape);

	if (reads_all(p))
		return round_up(solver_array_bytes(p, 0), page_bytes) +
		       round_up(solver_array_bytes(p, 1), page_bytes);
	return 2 * (round_up(end_at, page_bytes) - begin_at / page_bytes * page_bytes);
}

/* ------------------------------------------------------------------ memory */

static void arrays_alloc(struct solver_job *job)
{
	static const char *const names[][SOLVER_RUN_ARRAYS] = {{"even", "odd"}, {"users", "items"}};

	for (uint32_t i = 0; i < SOLVER_RUN_ARRAYS; i++) {
		int err = job->m->ops->alloc(job->m, names[job->p->kind == SOLVER_ALS][i]);

		if (err)
			solver_fail(job, err, "%s two arrays, %.3f MB in all: %s",
				    err == -ENOMEM ? "no memory for" : "allocating",
				    (double)solver_all_bytes(job->p) / 1e6, weir_strerror(err));
		if (err)
			return;
	}
}

/* ------------------------------------------------------------------ passes */

static void wait(struct solver_job *job)
{
	int err = job->m->ops->sync(job->m);

	solver_did(job, err, "the kernels");
}

/* Whether to go on with a pass. */
static bool goes_on(struct solver_job *job, uint32_t pass)
{
	const struct solver_params *p = job->p;

	if (!job->status && p->progress && p->progress(p->progress_arg, pass, p->passes))
		solver_fail(job, -EINTR, "interrupted after %u of %u passes", pass, p->passes);
	return !job->status;
}

static void iterate(struct solver_job *job)
{
	static void (*const fn[SOLVER_KIND_NR])(struct solver_job * job) = {
		solver_iterate, solver_iterate, als_iterate, solver_pagerank_iterate,
		solver_sssp_iterate};

	fn[job->p->kind](job);
}

static void pass_run(struct solver_job *job, struct passes_result *result, uint32_t pass)
{
	struct backend *b = job->m->backend;
	struct pass_moment begin = {0}, end = {0};

	if (job->p->kind == SOLVER_SSSP)
		solver_sssp_fill(job);
	wait(job);
	/* Who records this pass begins here. */
	if (!goes_on(job, pass))
		return;
	pass_clock(b, &begin);
	for (uint32_t i = 0; i < job->p->iterations && !job->settled && goes_on(job, pass); i++)
		iterate(job);
	wait(job);
	pass_clock(b, &end);
	if (!job->status && pass >= job->p->warm_up)
		pass_note(result, pass - job->p->warm_up, &begin, &end);
}

static void passes_run(struct solver_job *job, struct passes_result *result)
{
	const struct solver_params *p = job->p;

	for (uint32_t pass = 0; pass < p->passes && !job->status; pass++)
		pass_run(job, result, pass);
	(void)goes_on(job, p->passes);
}

void solver_result_free(struct solver_result *r)
{
	passes_result_free(&r->passes);
	free(r->rounds);
	r->rounds = NULL;
}

static void result_init(const struct solver_job *job, struct passes_result *result)
{
	const struct solver_params *p = job->p;

	result->distinct_bytes = solver_all_bytes(p);
	result->read_bytes = result->write_bytes = p->iterations * solver_bytes(p);
	if (p->kind == SOLVER_ALS) {
		result->read_bytes =
			p->iterations * (als_random_bytes(p, RATINGS_USERS, p->shape.slices) +
					 als_random_bytes(p, RATINGS_ITEMS, p->shape.rows));
		result->write_bytes = p->iterations * solver_all_bytes(p);
	}
	if (p->graph)
		result->distinct_bytes += solver_edge_bytes(p);
}

/* What the first iteration reads. */
static void begin(struct solver_job *job)
{
	if (job->p->kind == SOLVER_PAGERANK)
		solver_pagerank_fill(job);
	else if (job->p->kind == SOLVER_SSSP)
		solver_sssp_init(job); /* each pass begins anew */
	else
		solver_fill(job);
}

static void run_steps(struct solver_job *job, struct solver_result *result)
{
	const bool real = !job->phantom && !job->m->ops->limit;

	arrays_alloc(job);
	if (!job->status && job->p->graph)
		solver_edges_init(job);
	if (!job->status)
		begin(job);
	if (!job->status)
		passes_run(job, &result->passes);
	if (!job->status && real)
		solver_hash(job, &result->hash);
	if (!job->status && real && job->p->check)
		solver_check(job, &result->passes);
	if (!job->status && job->p->progress)
		(void)job->p->progress(job->p->progress_arg, job->p->passes, job->p->passes);
}

/* How many there were, and what is read in them. */
static void result_rounds(const struct solver_job *job, struct solver_result *result)
{
	const struct solver_params *p = job->p;

	result->nr_iterations = p->kind == SOLVER_SSSP ? job->search.nr_rounds : p->iterations;
	if (!p->graph)
		return;
	result->passes.read_bytes =
		result->nr_iterations * (solver_edge_bytes(p) + p->graph->nr_edges * sizeof(float));
	result->passes.write_bytes = result->nr_iterations * solver_bytes(p);
}

/* What the kernels need where they are CUDA's. */
static void kernels_load(struct solver_job *job)
{
	struct backend *b = job->m->backend;
	stream_id_t stream;
	int err = b->ops->stream_create(b, 0, BACKEND_COMPUTE, &stream);

	solver_did(job, err, "making a stream");
	if (err)
		return;
	err = b->ops->stream_native(b, stream) ? solver_cuda_load() : 0;
	if (err)
		solver_fail(job, err, "no kernels for the GPU: %s", weir_strerror(err));
	b->ops->stream_destroy(b, stream);
}

int solver_run(struct solver_manager *m, const struct solver_params *p, struct solver_result *out,
	       char *err, size_t err_bytes)
{
	struct solver_job job = {
		.m = m,
		.p = p,
		.phantom = m->backend->data == WEIR_DATA_PHANTOM,
		.err = err,
		.err_bytes = err ? err_bytes : 0,
	};
	struct solver_result result = {.hash = 0};
	int ret = solver_params_check(p, err, err_bytes);

	if (ret)
		return ret;
	ret = passes_result_init(&result.passes, p->passes - p->warm_up);
	if (ret) {
		solver_fail(&job, ret, "this computer has no memory for what a run keeps");
		return ret;
	}
	result_init(&job, &result.passes);
	kernels_load(&job);
	if (!job.status)
		run_steps(&job, &result);
	/* Nothing queued outlives the run. A sync that fails has either waited and reports the
	 * work, or was itself refused: a second one tells these apart. */
	if (job.status && m->ops->sync(m))
		(void)m->ops->sync(m);
	if (p->graph) {
		solver_sssp_fini(&job);
		solver_edges_fini(&job);
	}
	result.rounds = job.rounds;
	result_rounds(&job, &result);
	if (job.status)
		solver_result_free(&result);
	else
		*out = result;
	return job.status;
}
