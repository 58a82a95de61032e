/* SPDX-License-Identifier: Apache-2.0 */
/* What the copy engines of a link do: large copies each way and both ways, single small ones, a
 * batch of pieces. They run on streams of the device at the link's end b. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "src/base/util.h"
#include "workloads/probe/internal.h"

#define LARGE_MAX (256 * MIB)
#define QUICK_LARGE_MAX (64 * MIB)

#define SINGLES 3u
#define SINGLE_COPIES 64u
#define PIECE (64 * KIB)
#define PIECES_MAX 1024u
/* Driver calls that a batch takes, at most. */
#define BATCH_CALLS 256u

static const uint64_t single_bytes[SINGLES] = {4 * KIB, 64 * KIB, 2 * MIB};
/* Between two devices, whose link is so fast that what a block takes beside its bytes shows. */
static const uint64_t peer_single_bytes[SINGLES] = {64 * KIB, 2 * MIB, 16 * MIB};

/* Sizes of blocks, in MiB, whose rates are shown, and how many follow each other. */
static const uint32_t block_mib[] = {2, 16, 56};
#define BLOCK_COPIES 8u

/* The ends of a link: two chunks on each, so that both ways can be busy. a first, then b. */
struct ends {
	uint32_t link;
	uint64_t bytes; /* of each chunk */
	uint32_t nr;	/* chunks that there are */
	struct backend_chunk chunk[4];
};

static void ends_destroy(struct probe *p, struct ends *ends)
{
	probe_drain(p);
	while (ends->nr)
		p->b->ops->chunk_destroy(p->b, &ends->chunk[--ends->nr]);
}

static int ends_create(struct probe *p, uint32_t link, struct ends *out)
{
	const struct weir_link_desc *desc = &p->desc->link[link];
	uint64_t most = p->options->quick ? QUICK_LARGE_MAX : LARGE_MAX;
	struct ends ends = {.link = link};
	int err = 0;

	ends.bytes = probe_room(p, desc->a, most, 2);
	ends.bytes = probe_room(p, desc->b, ends.bytes, 2);
	while (ends.nr < 4 && !err) {
		err = p->b->ops->chunk_create(p->b, ends.nr < 2 ? desc->a : desc->b, ends.bytes, 0,
					      &ends.chunk[ends.nr]);
		if (!err)
			ends.nr++;
	}
	if (err)
		ends_destroy(p, &ends);
	else
		*out = ends;
	return err;
}

/* ------------------------------------------------------------------ timing */

/* A copy of one piece: from a to b, or back between the other two chunks. */
static struct backend_copy piece_of(const struct ends *ends, bool back, uint64_t bytes)
{
	uint32_t src = back ? 3 : 0, dst = back ? 1 : 2;

	return (struct backend_copy){
		.dst = ends->chunk[dst].alias, .src = ends->chunk[src].alias, .bytes = bytes};
}

static struct probe_burst burst_of(const struct probe_copies *copies, bool back, uint32_t nr_calls)
{
	return (struct probe_burst){.kind = back ? BACKEND_COPY_OUT : BACKEND_COPY_IN,
				    .queue = probe_queue_copies,
				    .arg = copies,
				    .nr_calls = nr_calls};
}

static double burst_ns(const struct probe_burst *burst)
{
	return burst->end_ns - burst->begin_ns;
}

static int single_time(struct probe *p, const struct ends *ends, bool back, uint64_t bytes,
		       uint32_t times, struct fit_point *out)
{
	const struct backend_copy piece = piece_of(ends, back, bytes);
	const struct probe_copies copies = {&piece, 1, times};
	struct probe_burst burst = burst_of(&copies, back, times);
	int err = probe_burst_run(p, &burst, 1);

	*out = (struct fit_point){(double)bytes, burst_ns(&burst) / times};
	return err;
}

/* Both ways at once. */
static int both_time(struct probe *p, const struct ends *ends, uint64_t bytes,
		     struct fit_point out[2])
{
	const struct backend_copy piece[2] = {piece_of(ends, false, bytes),
					      piece_of(ends, true, bytes)};
	const struct probe_copies copies[2] = {{&piece[0], 1, 1}, {&piece[1], 1, 1}};
	struct probe_burst both[2] = {burst_of(&copies[0], false, 1),
				      burst_of(&copies[1], true, 1)};
	int err = probe_burst_run(p, both, 2);

	for (int back = 0; back < 2; back++)
		out[back] = (struct fit_point){(double)bytes, burst_ns(&both[back])};
	return err;
}

/* ------------------------------------------------------------------ large copies */

static int rates_once(struct probe *p, const struct ends *ends, double alone[2], double *duplex)
{
	uint64_t bytes = ends->bytes;
	struct fit_point less[2], more[2];
	int err = 0;

	for (int back = 0; back < 2 && !err; back++) {
		err = single_time(p, ends, back, bytes / 4, 1, &less[back]);
		if (!err)
			err = single_time(p, ends, back, bytes, 1, &more[back]);
		if (!err)
			alone[back] = fit_rate(less[back], more[back]);
	}
	if (!err)
		err = both_time(p, ends, bytes / 4, less);
	if (!err)
		err = both_time(p, ends, bytes, more);
	if (!err)
		*duplex = fit_duplex(less, more, alone);
	return err;
}

static int rates(struct probe *p, const struct ends *ends)
{
	const struct weir_link_desc *estimate = &p->estimates->link[ends->link];
	struct weir_link_desc *link = &p->desc->link[ends->link];
	struct fit_series alone[2] = {0}, duplex = {0};
	int err = 0;

	for (uint32_t i = 0; i <= p->repetitions && !err; i++) {
		double alone_per_s[2], duplex_per_s;

		err = rates_once(p, ends, alone_per_s, &duplex_per_s);
		if (err || !i)
			continue;
		fit_add(&alone[0], alone_per_s[0]);
		fit_add(&alone[1], alone_per_s[1]);
		fit_add(&duplex, duplex_per_s);
	}
	if (err)
		return err;
	link->a_to_b_bytes_per_s =
		probe_keep(p, &alone[0], estimate->a_to_b_bytes_per_s, "large copies from a to b",
			   "link[%u].a_to_b_bytes_per_s", ends->link);
	link->b_to_a_bytes_per_s =
		probe_keep(p, &alone[1], estimate->b_to_a_bytes_per_s, "large copies from b to a",
			   "link[%u].b_to_a_bytes_per_s", ends->link);
	link->duplex_bytes_per_s = probe_keep(p, &duplex, estimate->duplex_bytes_per_s,
					      "large copies both ways at once, each way on average",
					      "link[%u].duplex_bytes_per_s", ends->link);
	return 0;
}

/* ------------------------------------------------------------------ small copies */

/* What copies of whole blocks reach, as far as there is room for them. */
static int blocks(struct probe *p, const struct ends *ends)
{
	int err = 0;

	for (uint32_t k = 0; k < ARRAY_LEN(block_mib) && !err; k++) {
		uint64_t bytes = block_mib[k] * MIB;
		struct fit_series per_s = {0};

		if (bytes > ends->bytes)
			break;
		for (uint32_t i = 0; i <= p->repetitions && !err; i++) {
			struct fit_point copy;

			err = single_time(p, ends, false, bytes, BLOCK_COPIES, &copy);
			if (!err && i)
				fit_add(&per_s, copy.amount / copy.ns * 1e9);
		}
		if (!err)
			(void)probe_keep(p, &per_s, NAN, "copies from a to b of this size, each",
					 "link[%u].copies_of_%u_mib_bytes_per_s", ends->link,
					 block_mib[k]);
	}
	return err;
}

/* The sizes of single copies, and in words: in *how. */
static const uint64_t *singles_of(const struct probe *p, const struct ends *ends, const char **how)
{
	uint32_t a = p->desc->link[ends->link].a;
	bool peer = p->desc->memory[a].kind != WEIR_MEMORY_HOST &&
		    ends->bytes >= peer_single_bytes[SINGLES - 1];

	*how = peer ? "single copies of 64 KiB, 2 MiB and 16 MiB, beyond their bytes"
		    : "single copies of 4 KiB, 64 KiB and 2 MiB, beyond their bytes";
	return peer ? peer_single_bytes : single_bytes;
}

/* Time of one batch of pieces, the last ones first, so that none continues the one before; and of
 * the host to queue them, each. */
static int batch_time(struct probe *p, const struct ends *ends, uint32_t nr, struct fit_point *out,
		      double *host_ns)
{
	struct backend_copy *piece = malloc(nr * sizeof(*piece));
	const struct probe_copies copies = {piece, nr, 1};
	struct probe_burst burst = burst_of(&copies, false, BATCH_CALLS);
	int err;

	if (!piece)
		return -ENOMEM;
	for (uint32_t i = 0; i < nr; i++) {
		piece[i] = piece_of(ends, false, PIECE);
		piece[i].src = (const char *)piece[i].src + i * PIECE;
		piece[i].dst = (char *)piece[i].dst + (nr - 1 - i) * PIECE;
	}
	err = probe_burst_run(p, &burst, 1);
	free(piece);
	*out = (struct fit_point){(double)(nr * PIECE), burst_ns(&burst)};
	*host_ns = burst.host_ns / nr;
	return err;
}

static int overhead(struct probe *p, const struct ends *ends)
{
	const struct weir_link_desc *estimate = &p->estimates->link[ends->link];
	struct weir_link_desc *link = &p->desc->link[ends->link];
	struct fit_series latency = {0}, copy = {0}, host = {0};
	const char *how;
	const uint64_t *sizes = singles_of(p, ends, &how);
	uint64_t bytes = ends->bytes;
	uint32_t pieces = bytes / PIECE < PIECES_MAX ? (uint32_t)(bytes / PIECE) : PIECES_MAX;
	int err = 0;

	if (bytes < single_bytes[SINGLES - 1]) {
		probe_assume(p, (double)estimate->latency_ns, "too little memory",
			     "link[%u].latency_ns", ends->link);
		probe_assume(p, (double)estimate->copy_ns, "too little memory", "link[%u].copy_ns",
			     ends->link);
		probe_assume(p, (double)estimate->copy_host_ns, "too little memory",
			     "link[%u].copy_host_ns", ends->link);
		return 0;
	}
	for (uint32_t i = 0; i <= p->repetitions && !err; i++) {
		struct fit_point single[SINGLES], batch;
		double latency_ns, copy_ns, host_ns;

		for (uint32_t k = 0; k < SINGLES && !err; k++)
			err = single_time(p, ends, false, sizes[k], SINGLE_COPIES, &single[k]);
		if (!err)
			err = batch_time(p, ends, pieces, &batch, &host_ns);
		if (err || !i)
			continue;
		fit_overhead(single, SINGLES, batch, pieces, link->a_to_b_bytes_per_s, &latency_ns,
			     &copy_ns);
		fit_add(&latency, latency_ns);
		fit_add(&copy, copy_ns);
		fit_add(&host, host_ns);
	}
	if (err)
		return err;
	link->latency_ns = probe_round(probe_keep(p, &latency, (double)estimate->latency_ns, how,
						  "link[%u].latency_ns", ends->link));
	link->copy_ns = probe_round(probe_keep(p, &copy, (double)estimate->copy_ns,
					       "a batch of pieces of 64 KiB, beyond their bytes",
					       "link[%u].copy_ns", ends->link));
	link->copy_host_ns = probe_round(probe_keep(p, &host, (double)estimate->copy_host_ns,
						    "queueing that batch, a piece",
						    "link[%u].copy_host_ns", ends->link));
	return 0;
}

int probe_link_copies(struct probe *p, uint32_t link)
{
	const struct weir_link_desc *desc = &p->desc->link[link];
	const char *a = p->desc->memory[desc->a].name, *b = p->desc->memory[desc->b].name;
	struct ends ends;
	int err = probe_step(p, "%s - %s: large copies", a, b);

	if (!err)
		err = ends_create(p, link, &ends);
	if (err)
		return err;
	err = rates(p, &ends);
	if (!err)
		err = probe_step(p, "%s - %s: small copies", a, b);
	if (!err)
		err = overhead(p, &ends);
	if (!err)
		err = blocks(p, &ends);
	ends_destroy(p, &ends);
	return err;
}
