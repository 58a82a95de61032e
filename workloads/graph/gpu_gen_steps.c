/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The steps of generating a graph on a GPU: kernels, and writing what they put into the staging
 * buffer; see gpu_gen_internal.h. Each kernel is waited for: they take milliseconds to seconds, and
 * between them somebody may ask to stop.
 */
#include <errno.h>
#include <stdatomic.h>

#include "src/base/util.h"
#include "workloads/graph/fail.h"
#include "workloads/graph/gpu_gen_internal.h"
#include "workloads/graph/section.h"
#include "workloads/graph/write.h"

/* Drawn by one kernel: as many as there is room for, but within these; the most take tens of
 * milliseconds. */
#define LAUNCH_EDGES_MIN (UINT64_C(1) << 16)
#define LAUNCH_EDGES_MAX (UINT64_C(1) << 28)
#define WRITE_PART (UINT64_C(1) << 20) /* bytes that a thread writes at once */

int generator_fail(const struct generator *g, int error)
{
	return graph_fail(g->err, g->err_bytes, error, "the GPU cannot generate the graph: %s",
			  weir_strerror(error));
}

static bool stopped(const struct generator *g, uint64_t done, uint64_t of, const char *label)
{
	return graph_watch_stop(g->gpu->watch, (double)done / (double)of, label);
}

/* ------------------------------------------------------------------ kernels */

static struct weir_use use_of(const void *addr, uint64_t bytes, enum weir_use_kind kind)
{
	return (struct weir_use){.addr = (void *)(uintptr_t)addr,
				 .bytes = bytes,
				 .kind = kind,
				 .read_bytes = kind == WEIR_OVERWRITE ? 0 : bytes,
				 .write_bytes = kind == WEIR_READ ? 0 : bytes};
}

/* Run a kernel and wait for it. */
static int run(const struct generator *g, const struct weir_kernel *kernel, const void *args,
	       size_t args_bytes, const struct weir_use *uses, uint32_t nr_uses)
{
	const struct weir_launch launch = {.kernel = kernel,
					   .args = args,
					   .args_bytes = args_bytes,
					   .uses = uses,
					   .nr_uses = nr_uses};
	fence_t fence;
	int rc = g->b->ops->launch(g->b, g->stream, &launch);

	if (!rc)
		rc = g->b->ops->fence_record(g->b, g->stream, &fence);
	if (!rc)
		rc = g->b->ops->fence_wait(g->b, fence);
	return rc ? generator_fail(g, rc) : 0;
}

#define RUN(g, kernel, args, uses) run(g, &(kernel), &(args), sizeof(args), uses, ARRAY_LEN(uses))

static int upload(const struct generator *g, void *dst, const void *data, uint64_t bytes)
{
	int rc = g->b->ops->upload(g->b, g->stream, dst, data, bytes);

	return rc ? generator_fail(g, rc) : 0;
}

static int download(const struct generator *g, void *data, const void *src, uint64_t bytes)
{
	int rc = g->b->ops->download(g->b, g->stream, data, src, bytes);

	return rc ? generator_fail(g, rc) : 0;
}

/* The draws from edge first on that one kernel makes. */
static struct graph_gen_draw draw_of(const struct generator *g, uint64_t first)
{
	uint64_t left = g->gpu->nr_edges - first;
	uint64_t most = g->nr_keys_max < LAUNCH_EDGES_MAX ? g->nr_keys_max : LAUNCH_EDGES_MAX;

	if (most < LAUNCH_EDGES_MIN)
		most = LAUNCH_EDGES_MIN;

	return (struct graph_gen_draw){
		.gen = *g->gpu->gen, .first = first, .nr = MIN(left, most), .raw = g->gpu->raw};
}

/* ------------------------------------------------------------------ counting */

int generator_count(struct generator *g)
{
	const uint64_t bytes = g->nr_buckets * sizeof(*g->count);
	int rc = upload(g, g->device_count, g->count, bytes); /* zeros */

	for (uint64_t done = 0; !rc && done < g->gpu->nr_edges;) {
		const struct graph_gen_count_args args = {
			.draw = draw_of(g, done), .shift = g->shift, .count = g->device_count};
		const struct weir_use uses[] = {use_of(g->device_count, bytes, WEIR_WRITE)};

		if (stopped(g, done, g->gpu->nr_edges, "counting edges"))
			return -ECANCELED;
		rc = RUN(g, graph_kernel_gen_count, args, uses);
		done += args.draw.nr;
	}
	if (!rc)
		rc = download(g, g->count, g->device_count, bytes);
	for (uint64_t i = 0; !rc && i < g->nr_buckets; i++)
		g->nr_placed += g->count[i];
	if (!rc && !g->gpu->raw)
		g->built.nr_loops_dropped = g->gpu->nr_edges - g->nr_placed / 2;
	return rc;
}

/* ------------------------------------------------------------------ sorting */

/* Have the keys of vertices first to end - 1, which are nr, in any order. */
int generator_keep(struct generator *g, uint64_t first, uint64_t end, uint64_t nr)
{
	uint64_t found = 0;
	int rc = upload(g, g->device_nr, &found, sizeof(found));

	for (uint64_t done = 0; !rc && done < g->gpu->nr_edges;) {
		const struct graph_gen_keep_args args = {.draw = draw_of(g, done),
							 .first = first,
							 .end = end,
							 .key = g->key,
							 .nr_max = g->nr_keys_max,
							 .nr = g->device_nr};
		const struct weir_use uses[] = {
			use_of(g->device_nr, sizeof(*g->device_nr), WEIR_WRITE),
			use_of(g->key, g->nr_keys_max * sizeof(*g->key), WEIR_WRITE)};

		if (stopped(g, done, g->gpu->nr_edges, "placing edges"))
			return -ECANCELED;
		rc = RUN(g, graph_kernel_gen_keep, args, uses);
		done += args.draw.nr;
	}
	if (!rc)
		rc = download(g, &found, g->device_nr, sizeof(found));
	if (!rc && found != nr)
		rc = graph_fail(g->err, g->err_bytes, -EIO,
				"the GPU drew %llu edges where it had counted %llu: it does not "
				"compute right",
				(unsigned long long)found, (unsigned long long)nr);
	return rc;
}

int generator_sort(struct generator *g, uint64_t nr_vertices, uint64_t nr)
{
	const struct graph_gen_sort_args args = {
		.key = g->key,
		.other = g->other,
		.temp = g->temp,
		.nr = nr,
		.nr_bits = g->scale +
			   (nr_vertices > 1 ? 64 - (uint32_t)__builtin_clzll(nr_vertices - 1) : 1)};
	const struct weir_use uses[] = {use_of(g->key, nr * sizeof(*g->key), WEIR_WRITE),
					use_of(g->other, nr * sizeof(*g->other), WEIR_OVERWRITE),
					use_of(g->temp, GRAPH_GEN_TEMP_BYTES(nr), WEIR_OVERWRITE)};

	if (stopped(g, g->built.nr_edges, g->nr_placed, "sorting edges"))
		return -ECANCELED;
	return RUN(g, graph_kernel_gen_sort, args, uses);
}

/* Keep one of each of the sorted keys, in other; nr becomes how many there are. */
int generator_unique(struct generator *g, uint64_t *nr)
{
	const struct graph_gen_unique_args args = {
		.key = g->key, .out = g->other, .temp = g->temp, .nr = *nr, .nr_out = g->device_nr};
	const struct weir_use uses[] = {
		use_of(g->key, *nr * sizeof(*g->key), WEIR_READ),
		use_of(g->other, *nr * sizeof(*g->other), WEIR_WRITE),
		use_of(g->temp, GRAPH_GEN_TEMP_BYTES(*nr), WEIR_OVERWRITE),
		use_of(g->device_nr, sizeof(*g->device_nr), WEIR_OVERWRITE)};
	uint64_t left;
	int rc = RUN(g, graph_kernel_gen_unique, args, uses);

	if (!rc)
		rc = download(g, &left, g->device_nr, sizeof(left));
	if (rc)
		return rc;
	g->built.nr_duplicates_dropped += *nr - left;
	*nr = left;
	return 0;
}

/* ------------------------------------------------------------------ writing */

struct writing {
	int fd;
	const char *bytes;
	uint64_t nr_bytes, at;
	_Atomic int error; /* the first of any thread */
};

static void write_part(const void *arg, uint64_t part)
{
	struct writing *w = *(struct writing *const *)arg;
	uint64_t done = part * WRITE_PART, left = w->nr_bytes - done;
	int none = 0, rc = section_write_all(w->fd, w->bytes + done,
					     left < WRITE_PART ? left : WRITE_PART, w->at + done);

	if (rc)
		atomic_compare_exchange_strong(&w->error, &none, rc);
}

/* Write part of the staging buffer to a place of the file. */
static int write_bytes(const struct generator *g, const void *bytes, uint64_t nr_bytes, uint64_t at)
{
	struct writing writing = {.fd = g->fd, .bytes = bytes, .nr_bytes = nr_bytes, .at = at};
	struct writing *const w = &writing;
	int rc;

	gcn_pool_run(g->gpu->pool, div_round_up(nr_bytes, WRITE_PART), write_part, &w);
	rc = atomic_load(&writing.error);
	return rc ? write_fail(g->err, g->err_bytes, rc) : 0;
}

/* Write a piece of lists, of nr keys. */
static int write_piece(struct generator *g, const uint64_t *key, uint64_t nr, uint64_t first)
{
	const uint64_t bytes = nr * sizeof(uint32_t), at = g->built.nr_edges * sizeof(uint32_t);
	uint32_t *neighbour = (uint32_t *)(void *)g->staging;
	const struct graph_gen_lists_args args = {.key = key,
						  .nr = nr,
						  .first = first,
						  .scale = g->scale,
						  .weight_key = gen_key(g->gpu->seed, GEN_WEIGHTS),
						  .neighbour = neighbour,
						  .weight =
							  g->gpu->weights ? neighbour + nr : NULL};
	const struct weir_use uses[] = {
		use_of(key, nr * sizeof(*key), WEIR_READ),
		use_of(neighbour, g->gpu->weights ? 2 * bytes : bytes, WEIR_OVERWRITE)};
	int rc = RUN(g, graph_kernel_gen_lists, args, uses);

	if (!rc)
		rc = write_bytes(g, neighbour, bytes, g->room.neighbours_at + at);
	if (!rc && args.weight)
		rc = write_bytes(g, args.weight, bytes, g->room.weights_at + at);
	if (!rc)
		g->built.nr_edges += nr;
	return rc;
}

/* Write where the lists of vertices first to end - 1 begin, of which the edges before are written
 * and nr keys are not. */
int generator_write_offsets(struct generator *g, const uint64_t *key, uint64_t nr, uint64_t first,
			    uint64_t end)
{
	const uint64_t most = g->staging_bytes / sizeof(uint64_t);
	uint64_t *offset = (uint64_t *)(void *)g->staging;
	int rc = 0;

	for (uint64_t v = first; !rc && v < end;) {
		const struct graph_gen_offsets_args args = {.key = key,
							    .nr = nr,
							    .scale = g->scale,
							    .from = v - first,
							    .nr_vertices =
								    end - v < most ? end - v : most,
							    .before = g->built.nr_edges,
							    .offset = offset};
		const uint64_t bytes = args.nr_vertices * sizeof(*offset);
		/* Without edges there is nothing to read, which is no use. */
		const struct weir_use uses[] = {
			use_of(offset, bytes, WEIR_OVERWRITE),
			use_of(key, (nr ? nr : 1) * sizeof(*key), WEIR_READ)};

		rc = RUN(g, graph_kernel_gen_offsets, args, uses);
		if (!rc)
			rc = write_bytes(g, offset, bytes,
					 g->room.offsets_at + v * sizeof(*offset));
		v += args.nr_vertices;
	}
	return rc;
}

int generator_write_lists(struct generator *g, const uint64_t *key, uint64_t nr, uint64_t first)
{
	const uint64_t most = g->staging_bytes / (2 * sizeof(uint32_t));
	int rc = 0;

	for (uint64_t done = 0; !rc && done < nr;) {
		uint64_t piece = nr - done < most ? nr - done : most;

		if (stopped(g, g->built.nr_edges, g->nr_placed, "writing edges"))
			return -ECANCELED;
		rc = write_piece(g, key + done, piece, first);
		done += piece;
	}
	return rc;
}
