/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What copies between two devices reach by the size of their pieces: one call a piece, pieces in
 * batches, and batches both ways at once. The first device's engines make them. A description has
 * a latency and a time a piece, which were fitted to few sizes; this shows how far they hold.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "src/base/util.h"
#include "workloads/probe/internal.h"

#define CHUNK_MAX (64 * MIB)

/* Copies of one call each: how many follow each other, and how many bytes they have at most. */
#define SINGLES_MIN 4u
#define SINGLES_MAX 64u
#define SINGLES_BYTES (64 * MIB)

#define BATCH_MAX 1024u
/* Driver calls that a batch takes, at most. */
#define BATCH_CALLS 256u

static const struct piece_size {
	const char *name;
	uint64_t bytes;
} sizes[] = {
	{"4_kib", 4 * KIB}, {"16_kib", 16 * KIB}, {"64_kib", 64 * KIB}, {"256_kib", 256 * KIB},
	{"1_mib", MIB},	    {"4_mib", 4 * MIB},	  {"16_mib", 16 * MIB}, {"64_mib", 64 * MIB},
};

/* The first chunks are for one way, the second ones for the other. */
static struct backend_copy piece_of(const struct probe_pair *pair, bool back, uint64_t bytes)
{
	const struct backend_chunk *one = &pair->chunk[PAIR_ONE][back];
	const struct backend_chunk *other = &pair->chunk[PAIR_OTHER][back];

	return (struct backend_copy){.dst = back ? one->alias : other->alias,
				     .src = back ? other->alias : one->alias,
				     .bytes = bytes};
}

static struct probe_burst burst_of(const struct probe_copies *copies, bool back, uint32_t nr_calls)
{
	return (struct probe_burst){.kind = back ? BACKEND_COPY_IN : BACKEND_COPY_OUT,
				    .queue = probe_queue_copies,
				    .arg = copies,
				    .nr_calls = nr_calls};
}

static int singles_time(struct probe *p, const struct probe_pair *pair, uint64_t bytes,
			struct fit_series *per_s)
{
	const struct backend_copy piece = piece_of(pair, false, bytes);
	uint64_t nr = MAX(MIN(SINGLES_BYTES / bytes, SINGLES_MAX), SINGLES_MIN);
	const struct probe_copies copies = {&piece, 1, (uint32_t)nr};
	struct probe_burst burst = burst_of(&copies, false, (uint32_t)nr);
	int err = probe_burst_run(p, &burst, 1);

	if (!err)
		fit_add(per_s, (double)(nr * bytes) / (burst.end_ns - burst.begin_ns) * 1e9);
	return err;
}

/* One batch each way, or only there. per_s: of one way, on average. */
static int batches_time(struct probe *p, struct backend_copy *const piece[2], uint32_t nr,
			uint32_t nr_ways, struct fit_series *per_s)
{
	const struct probe_copies copies[2] = {{piece[0], nr, 1}, {piece[1], nr, 1}};
	struct probe_burst burst[2] = {burst_of(&copies[0], false, BATCH_CALLS),
				       burst_of(&copies[1], true, BATCH_CALLS)};
	double begin_ns = INFINITY, end_ns = 0;
	int err = probe_burst_run(p, burst, nr_ways);

	if (err)
		return err;
	for (uint32_t i = 0; i < nr_ways; i++) {
		begin_ns = fmin(begin_ns, burst[i].begin_ns);
		end_ns = fmax(end_ns, burst[i].end_ns);
	}
	fit_add(per_s, (double)nr * (double)piece[0]->bytes / (end_ns - begin_ns) * 1e9);
	return 0;
}

/* The pieces of a batch each way, the last ones first at one end, so that none continues the one
 * before. Owned. */
static int batches_create(const struct probe_pair *pair, uint64_t bytes,
			  struct backend_copy *piece[2], uint32_t *nr)
{
	*nr = (uint32_t)MIN(pair->chunk[PAIR_ONE][0].bytes / bytes, BATCH_MAX);
	for (int back = 0; back < 2; back++) {
		piece[back] = malloc(*nr * sizeof(**piece));
		for (uint32_t i = 0; i < *nr && piece[back]; i++) {
			piece[back][i] = piece_of(pair, back, bytes);
			piece[back][i].src = (const char *)piece[back][i].src + i * bytes;
			piece[back][i].dst = (char *)piece[back][i].dst + (*nr - 1 - i) * bytes;
		}
	}
	return piece[0] && piece[1] ? 0 : -ENOMEM;
}

static int size_measure(struct probe *p, const struct probe_pair *pair,
			const struct piece_size *size)
{
	const char *one = p->desc->memory[pair->memory[PAIR_ONE]].name;
	const char *other = p->desc->memory[pair->memory[PAIR_OTHER]].name;
	struct fit_series single = {0}, batch = {0}, both = {0};
	struct backend_copy *piece[2] = {NULL, NULL};
	uint32_t nr;
	int err = batches_create(pair, size->bytes, piece, &nr);

	for (uint32_t i = 0; i <= p->repetitions && !err; i++) {
		struct fit_series first = {0};

		err = singles_time(p, pair, size->bytes, i ? &single : &first);
		if (!err)
			err = batches_time(p, piece, nr, 1, i ? &batch : &first);
		if (!err)
			err = batches_time(p, piece, nr, 2, i ? &both : &first);
	}
	free(piece[0]);
	free(piece[1]);
	if (err)
		return err;
	(void)probe_keep(p, &single, NAN, "copies of this size between the two GPUs, a call each",
			 "pieces.%s_to_%s.%s_bytes_per_s", one, other, size->name);
	(void)probe_keep(p, &batch, NAN, "a batch of such pieces",
			 "pieces.%s_to_%s.%s_in_batches_bytes_per_s", one, other, size->name);
	(void)probe_keep(p, &both, NAN, "batches both ways at once, each way",
			 "pieces.both_ways.%s_in_batches_bytes_per_s", size->name);
	return 0;
}

int probe_pieces(struct probe *p, struct probe_pair *pair)
{
	int err = probe_step(p, "copies between two GPUs, by their size");

	if (err)
		return err;
	if (!pair->linked) {
		probe_assume(p, NAN, "no link between the two GPUs",
			     "pieces.both_ways.%s_in_batches_bytes_per_s", sizes[0].name);
		return 0;
	}
	err = probe_pair_alloc(p, pair, probe_pair_room(p, pair, CHUNK_MAX, 2), 2);
	if (err)
		return err;
	for (uint32_t i = 0; i < ARRAY_LEN(sizes) && !err; i++)
		if (sizes[i].bytes <= pair->chunk[PAIR_ONE][0].bytes)
			err = size_measure(p, pair, &sizes[i]);
	probe_drain(p);
	probe_pair_free(p, pair);
	return err;
}
