/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a digest of a block takes (docs/backend.md, "Is a block unchanged?"), on a simulated machine
 * without bytes or on a GPU (--machine cuda): by itself; beside copies within the GPU's memory,
 * which fill the GPU; and what these lose by that. Beside it the block's copy to the host, which an
 * equal digest saves. Each is the mean of a run of equal ones on a stream, by the device's clock.
 *
 * One JSON object a line; times are nanoseconds.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "machine/machine_file.h"
#include "src/backend/cuda/cuda.h"
#include "src/backend/sim/sim.h"
#include "src/base/util.h"

#define MACHINE "h200"
#define MIB (UINT64_C(1) << 20)
#define RUN 32u	 /* digests in a run */
#define FILL 16u /* copies within the GPU's memory for each of them, at most */
#define FILL_BYTES (64u * MIB)

struct bench {
	struct backend *b;
	stream_id_t digests, fill, out;
	struct backend_chunk block, host, from, to;
};

static void must(int err, const char *what)
{
	if (!err)
		return;
	fprintf(stderr, "bench_digest: %s: %s\n", what, weir_strerror(err));
	exit(1);
}

static fence_t mark(struct bench *m, stream_id_t stream)
{
	fence_t fence = 0;

	must(m->b->ops->fence_record(m->b, stream, &fence), "a fence");
	return fence;
}

/* Device time from one fence to the other, which is waited for. */
static double between(struct bench *m, fence_t begin, fence_t end)
{
	must(m->b->ops->fence_wait(m->b, end), "a wait");
	return (double)(m->b->observe->fence_time_ns(m->b, end) -
			m->b->observe->fence_time_ns(m->b, begin));
}

static void queue_digests(struct bench *m, uint64_t bytes, uint32_t *ticket)
{
	for (uint32_t i = 0; i < RUN; i++)
		must(m->b->ops->digest(m->b, m->digests, &m->block, bytes, &ticket[i]), "a digest");
}

static void take_digests(struct bench *m, const uint32_t *ticket)
{
	for (uint32_t i = 0; i < RUN; i++)
		must(m->b->ops->digest_take(m->b, ticket[i], NULL), "a digest");
}

static void queue_fill(struct bench *m, uint32_t nr)
{
	const struct backend_copy copy = {m->to.alias, m->from.alias, FILL_BYTES};

	for (uint32_t i = 0; i < nr; i++)
		must(m->b->ops->copy(m->b, m->fill, &copy, 1), "a copy");
}

static double time_alone(struct bench *m, uint64_t bytes)
{
	uint32_t ticket[RUN];
	fence_t begin = mark(m, m->digests);
	double ns;

	queue_digests(m, bytes, ticket);
	ns = between(m, begin, mark(m, m->digests));
	take_digests(m, ticket);
	return ns / RUN;
}

static double time_out(struct bench *m, uint64_t bytes)
{
	const struct backend_copy copy = {m->host.alias, m->block.alias, bytes};
	fence_t begin = mark(m, m->out);

	for (uint32_t i = 0; i < RUN; i++)
		must(m->b->ops->copy(m->b, m->out, &copy, 1), "a copy");
	return between(m, begin, mark(m, m->out)) / RUN;
}

static double time_fill(struct bench *m, uint32_t nr)
{
	fence_t begin = mark(m, m->fill);

	queue_fill(m, nr);
	return between(m, begin, mark(m, m->fill)) / nr;
}

/* Digests that begin behind the first of the copies, of which there are enough. *fill: what one of
 * the copies takes meanwhile. */
static double time_beside(struct bench *m, uint64_t bytes, uint32_t nr, double *fill)
{
	uint32_t ticket[RUN];
	fence_t first, begin, end, last;
	double ns;

	queue_fill(m, 1);
	first = mark(m, m->fill);
	must(m->b->ops->stream_wait(m->b, m->digests, first), "a wait");
	queue_fill(m, nr);
	last = mark(m, m->fill);
	begin = mark(m, m->digests);
	queue_digests(m, bytes, ticket);
	end = mark(m, m->digests);
	ns = between(m, begin, end) / RUN;
	*fill = between(m, first, last) / nr;
	take_digests(m, ticket);
	return ns;
}

static void bench_size(struct bench *m, uint64_t bytes)
{
	double alone, out, fill, beside, slowed;
	uint32_t nr;

	(void)time_alone(m, bytes);
	(void)time_out(m, bytes);
	(void)time_fill(m, FILL);
	alone = time_alone(m, bytes);
	out = time_out(m, bytes);
	fill = time_fill(m, FILL);
	/* As long as the digests take. */
	nr = (uint32_t)MIN(RUN * alone / fill + 1, 512.0);
	beside = time_beside(m, bytes, nr, &slowed);
	printf("{\"bytes\": %llu, \"digest_ns\": %.0f, \"bytes_per_ns\": %.1f, \"copy_out_ns\": "
	       "%.0f, \"beside_ns\": %.0f, \"copy_within_ns\": %.0f, \"copy_within_beside_ns\": "
	       "%.0f}\n",
	       (unsigned long long)bytes, alone, (double)bytes / alone, out, beside, fill, slowed);
	fflush(stdout);
}

static void make(struct bench *m, uint64_t bytes)
{
	struct backend *b = m->b;
	uint32_t gpu = b->desc.device[0].memory, host = 0;

	while (b->desc.memory[host].kind != WEIR_MEMORY_HOST)
		host++;
	must(b->ops->digest_prepare(b, 0), "the digests' kernel");
	must(b->ops->stream_create(b, 0, BACKEND_URGENT, &m->digests), "a stream");
	must(b->ops->stream_create(b, 0, BACKEND_COMPUTE, &m->fill), "a stream");
	must(b->ops->stream_create(b, 0, BACKEND_COPY_OUT, &m->out), "a stream");
	must(b->ops->chunk_create(b, gpu, bytes, 0, &m->block), "a chunk");
	must(b->ops->chunk_create(b, host, bytes, 0, &m->host), "a chunk");
	must(b->ops->chunk_create(b, gpu, FILL_BYTES, 0, &m->from), "a chunk");
	must(b->ops->chunk_create(b, gpu, FILL_BYTES, 0, &m->to), "a chunk");
}

static void unmake(struct bench *m)
{
	struct backend *b = m->b;

	b->ops->chunk_destroy(b, &m->block);
	b->ops->chunk_destroy(b, &m->host);
	b->ops->chunk_destroy(b, &m->from);
	b->ops->chunk_destroy(b, &m->to);
	b->ops->stream_destroy(b, m->digests);
	b->ops->stream_destroy(b, m->fill);
	b->ops->stream_destroy(b, m->out);
	b->ops->destroy(b);
}

static void usage(FILE *to)
{
	fputs("usage: bench_digest [--machine NAME]\n"
	      "What a digest of a block takes, on a simulated machine (" MACHINE ") or on the GPU\n"
	      "(--machine cuda). One JSON object a line; times are nanoseconds.\n",
	      to);
}

int main(int argc, char **argv)
{
	static const uint64_t sizes[] = {2 * MIB, 8 * MIB, 16 * MIB, 32 * MIB, 56 * MIB};
	static const struct option options[] = {
		{"machine", required_argument, NULL, 'm'}, {"help", no_argument, NULL, 'h'}, {0}};
	const struct cuda_config config = {0};
	const char *machine = MACHINE;
	struct weir_machine_desc desc;
	struct bench m = {0};
	char err[512];
	int c;

	while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		if (c != 'm') {
			usage(c == 'h' ? stdout : stderr);
			return c == 'h' ? 0 : 2;
		}
		machine = optarg;
	}
	if (optind < argc) {
		usage(stderr);
		return 2;
	}
	if (!strcmp(machine, "cuda")) {
		must(cuda_create(&config, &m.b), "cuda");
	} else {
		if (weir_machine_file_read(machine, &desc, err, sizeof(err))) {
			fprintf(stderr, "bench_digest: %s\n", err);
			return 2;
		}
		must(sim_create(&desc, WEIR_DATA_PHANTOM, &m.b), machine);
	}
	make(&m, 56 * MIB);
	for (uint32_t i = 0; i < ARRAY_LEN(sizes); i++)
		bench_size(&m, sizes[i]);
	unmake(&m);
	return 0;
}
