/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Generating a graph on a GPU: its memory and ranges; see gpu_gen.h.
 *
 * Edges are counted by bucket, 2^16 of them or one a vertex: so fine that ranges of whole buckets
 * fill the memory well, so few that counting stays in the GPU's caches. The lists of a range go
 * through the staging buffer in pieces: kernels write there over the link, this process from there
 * to the file.
 */
#include <errno.h>
#include <stdlib.h>

#include "src/backend/machine.h"
#include "src/base/util.h"
#include "src/cost/cost.h"
#include "workloads/graph/cuda.h"
#include "workloads/graph/fail.h"
#include "workloads/graph/gpu_gen_internal.h"
#include "workloads/graph/section.h"
#include "workloads/graph/write.h"

#define BUCKET_BITS 16u
#define STAGING_MIN_BYTES (UINT64_C(64) << 10)
#define STAGING_MAX_BYTES (UINT64_C(64) << 20)
#define STAGING_SHARE 16u   /* of the GPU's memory, in small ones */
#define FREE_SHARE 8u	    /* of the GPU's free memory, one part stays so */
#define ALIGN UINT64_C(256) /* of what the GPU's memory is cut into */

/* ------------------------------------------------------------------ ranges */

static int generate_range(struct generator *g, uint64_t first, uint64_t end, uint64_t nr)
{
	const uint64_t *key = g->key;
	int rc = generator_keep(g, first, end, nr);

	if (!rc && nr)
		rc = generator_sort(g, end - first, nr);
	if (!rc && nr && !g->gpu->raw) {
		rc = generator_unique(g, &nr);
		key = g->other;
	}
	if (!rc)
		rc = generator_write_offsets(g, key, nr, first, end);
	if (!rc)
		rc = generator_write_lists(g, key, nr, first);
	g->built.nr_passes++;
	return rc;
}

static int fail_bucket(const struct generator *g, uint64_t bucket)
{
	return graph_fail(g->err, g->err_bytes, -ENOMEM,
			  "%llu edges begin at vertices from %llu on, more than the %llu that the "
			  "GPU has memory for at a time: free some of it, or leave it to the CPU",
			  (unsigned long long)g->count[bucket],
			  (unsigned long long)bucket << g->shift,
			  (unsigned long long)g->nr_keys_max);
}

static int generate_ranges(struct generator *g)
{
	int rc = 0;

	for (uint64_t i = 0; i < g->nr_buckets; i++)
		if (g->count[i] > g->nr_keys_max)
			return fail_bucket(g, i);
	for (uint64_t first = 0, end; !rc && first < g->nr_buckets; first = end) {
		uint64_t nr = 0;

		for (end = first; end < g->nr_buckets && g->count[end] <= g->nr_keys_max - nr;)
			nr += g->count[end++];
		rc = generate_range(g, first << g->shift, end << g->shift, nr);
	}
	return rc;
}

static int finish(struct generator *g)
{
	const uint64_t nr_edges = g->built.nr_edges;
	struct csr_header header;
	int rc = write_settle(g->fd, &g->room, nr_edges, &header);

	if (!rc)
		rc = section_write_all(g->fd, &nr_edges, sizeof(nr_edges),
				       header.offsets_at + g->nr_vertices * sizeof(uint64_t));
	if (!rc)
		rc = section_write_all(g->fd, &header, sizeof(header), 0);
	return rc ? write_fail(g->err, g->err_bytes, rc) : 0;
}

static int generate(struct generator *g)
{
	const uint32_t flags =
		(g->gpu->weights ? CSR_WEIGHTED : 0) | (g->gpu->raw ? 0 : CSR_SYMMETRIC);
	int rc = generator_count(g);

	if (rc)
		return rc;
	rc = csr_layout(g->nr_vertices, g->nr_placed, flags, &g->room);
	if (rc)
		return graph_fail(g->err, g->err_bytes, rc,
				  "%llu vertices and %llu edges are more than a graph file holds",
				  (unsigned long long)g->nr_vertices,
				  (unsigned long long)g->nr_placed);
	rc = generate_ranges(g);
	return rc ? rc : finish(g);
}

/* ------------------------------------------------------------------ memory */

static uint64_t aligned(uint64_t bytes)
{
	return round_up(bytes, ALIGN);
}

/* What so many keys take of the GPU's memory, and all else. */
static uint64_t bytes_for(const struct generator *g, uint64_t nr_keys)
{
	return aligned(g->nr_buckets * sizeof(*g->device_count)) + aligned(sizeof(*g->device_nr)) +
	       2 * aligned(nr_keys * sizeof(*g->key)) + aligned(GRAPH_GEN_TEMP_BYTES(nr_keys));
}

/* How many keys there is room for: as many as there are, if that may be. */
static void plan_memory(struct generator *g, uint64_t room)
{
	const uint64_t all = g->gpu->raw ? g->gpu->nr_edges : 2 * g->gpu->nr_edges;
	uint64_t low = 0, high = all < GRAPH_GEN_KEYS_MAX ? all : GRAPH_GEN_KEYS_MAX;

	while (low < high) {
		uint64_t middle = low + (high - low + 1) / 2;

		if (bytes_for(g, middle) <= room)
			low = middle;
		else
			high = middle - 1;
	}
	g->nr_keys_max = low;
	g->memory_bytes = bytes_for(g, low);
	g->staging_bytes = g->memory_bytes / STAGING_SHARE / ALIGN * ALIGN;
	if (g->staging_bytes < STAGING_MIN_BYTES)
		g->staging_bytes = STAGING_MIN_BYTES;
	if (g->staging_bytes > STAGING_MAX_BYTES)
		g->staging_bytes = STAGING_MAX_BYTES;
}

static int fail_memory(const struct generator *g, uint64_t room)
{
	return graph_fail(g->err, g->err_bytes, -ENOMEM,
			  "%llu bytes of the GPU's memory are too few to generate a graph: free "
			  "some of it, or leave it to the CPU",
			  (unsigned long long)room);
}

/* Cut the allocation up. */
static void cut_memory(struct generator *g)
{
	const uint64_t key_bytes = aligned(g->nr_keys_max * sizeof(*g->key));
	char *at = g->memory;

	g->device_count = (uint64_t *)(void *)at;
	at += aligned(g->nr_buckets * sizeof(*g->device_count));
	g->device_nr = (uint64_t *)(void *)at;
	at += aligned(sizeof(*g->device_nr));
	g->key = (uint64_t *)(void *)at;
	g->other = (uint64_t *)(void *)(at + key_bytes);
	g->temp = at + 2 * key_bytes;
}

static int alloc_memory(struct generator *g)
{
	struct backend *b = g->b;
	const uint32_t memory = b->desc.device[g->gpu->device].memory;
	uint64_t room = 0;
	void *at;
	int rc = backend_budget(b, memory, &room);

	if (rc)
		return generator_fail(g, rc);
	room -= room / FREE_SHARE;
	if (g->gpu->memory_bytes && g->gpu->memory_bytes < room)
		room = g->gpu->memory_bytes;
	plan_memory(g, room);
	if (!g->nr_keys_max)
		return fail_memory(g, room);
	rc = b->ops->device_alloc(b, memory, g->memory_bytes, &at);
	if (rc)
		return generator_fail(g, rc);
	g->memory = at;
	cut_memory(g);
	rc = b->ops->device_alloc(b, cost_host_memory(&b->desc), g->staging_bytes, &at);
	if (rc)
		return generator_fail(g, rc);
	g->staging = at;
	g->count = calloc(g->nr_buckets, sizeof(*g->count));
	return g->count ? 0 : graph_fail(g->err, g->err_bytes, -ENOMEM, "no memory on the host");
}

static void free_memory(struct generator *g)
{
	if (g->staging)
		g->b->ops->device_free(g->b, g->staging);
	if (g->memory)
		g->b->ops->device_free(g->b, g->memory);
	free(g->count);
}

/* ------------------------------------------------------------------ the machine */

/* Whether kernels of a stream are CUDA's. */
static bool is_real(struct backend *b, stream_id_t stream)
{
	return b->ops->stream_native(b, stream) != NULL;
}

bool graph_gpu_real(struct weir_machine *machine, uint32_t device)
{
	struct backend *b = machine_backend(machine);
	stream_id_t stream;
	bool real;

	if (b->ops->stream_create(b, device, BACKEND_COMPUTE, &stream))
		return false;
	real = is_real(b, stream);
	b->ops->stream_destroy(b, stream);
	return real;
}

static int check(const struct generator *g)
{
	if (g->scale > GRAPH_GEN_SCALE_MAX)
		return graph_fail(g->err, g->err_bytes, -ERANGE,
				  "a GPU generates graphs up to scale %u: leave scale %u to the "
				  "CPU",
				  GRAPH_GEN_SCALE_MAX, g->scale);
	if (g->b->data == WEIR_DATA_PHANTOM)
		return graph_fail(g->err, g->err_bytes, -ENOTSUP,
				  "a machine without bytes generates no graph");
	return 0;
}

int graph_gpu_generate(const struct graph_gpu *gpu, int fd, struct csr_built *out, char *err,
		       size_t err_bytes)
{
	const uint32_t scale = gpu->gen->scale;
	struct generator g = {.gpu = gpu,
			      .b = machine_backend(gpu->machine),
			      .fd = fd,
			      .scale = scale,
			      .shift = scale > BUCKET_BITS ? scale - BUCKET_BITS : 0,
			      .nr_vertices = UINT64_C(1) << scale,
			      .err = err,
			      .err_bytes = err_bytes};
	int rc = check(&g);

	if (rc)
		return rc;
	g.nr_buckets = g.nr_vertices >> g.shift;
	rc = g.b->ops->stream_create(g.b, gpu->device, BACKEND_COMPUTE, &g.stream);
	if (rc)
		return generator_fail(&g, rc);
	if (is_real(g.b, g.stream)) {
		rc = graph_cuda_load();
		if (rc)
			generator_fail(&g, rc);
	}
	if (!rc)
		rc = alloc_memory(&g);
	if (!rc)
		rc = generate(&g);
	free_memory(&g);
	g.b->ops->stream_destroy(g.b, g.stream);
	if (!rc && out)
		*out = g.built;
	return rc;
}
