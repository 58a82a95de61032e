/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What kernels make of memory at the other end of a link: streaming, and pieces at random with
 * growing footprints, until the device's address translation no longer reaches. The kernels run on
 * the device at the link's end b, the memory is that at a.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "src/base/util.h"
#include "workloads/probe/internal.h"

#define BUFFER_MAX (8 * GIB)
#define QUICK_BUFFER_MAX (4 * GIB)
#define STREAM_MAX GIB
#define QUICK_STREAM_MAX (256 * MIB)

#define FOOTPRINT_MIN (64 * MIB)
#define FOOTPRINTS_MAX 16u

/* Pieces that a launch reads, at most. */
#define ACCESSES_MAX (UINT32_C(1) << 22)
#define QUICK_ACCESSES_MAX (UINT32_C(1) << 20)

/* Beyond reach: the device's own memory, and pieces in place that a launch reads, at most. */
#define NEAR_MAX (16 * GIB)
#define QUICK_NEAR_MAX (4 * GIB)
#define OUT_MAX (4 * GIB)
#define MIXED_MAX (UINT32_C(1) << 20)
#define QUICK_MIXED_MAX (UINT32_C(1) << 19)

static const uint32_t piece_bytes[] = {32, 128, 1024};
#define PIECES ARRAY_LEN(piece_bytes)

struct inplace {
	uint32_t link;
	struct probe_buffer buffer;    /* at the far end */
	struct probe_buffer near, out; /* of the device, beyond reach alone */
	uint64_t footprint[FOOTPRINTS_MAX];
	uint32_t nr_footprints;
};

static struct weir_link_desc *result(struct probe *p, const struct inplace *in)
{
	return &p->desc->link[in->link];
}

static const struct weir_link_desc *estimate(const struct probe *p, const struct inplace *in)
{
	return &p->estimates->link[in->link];
}

/* ------------------------------------------------------------------ streaming */

static int streaming(struct probe *p, const struct inplace *in)
{
	uint64_t most = p->options->quick ? QUICK_STREAM_MAX : STREAM_MAX;
	uint64_t bytes = MIN(in->buffer.bytes, most), half = bytes / 2;
	struct fit_series reads = {0}, writes = {0}, both = {0};
	int err = 0;

	for (uint32_t i = 0; i <= p->repetitions && !err; i++) {
		struct probe_work work;
		double read_ns, write_ns, both_ns;

		probe_work_read(p, &work, in->buffer.addr, bytes, 1);
		err = probe_time_launch(p, &work.launch, 1, &read_ns, NULL);
		if (err)
			break;
		probe_work_write(&work, in->buffer.addr, bytes, 0);
		err = probe_time_launch(p, &work.launch, 1, &write_ns, NULL);
		if (err)
			break;
		probe_work_copy(&work, in->buffer.addr, (char *)in->buffer.addr + half, half);
		err = probe_time_launch(p, &work.launch, 1, &both_ns, NULL);
		if (err || !i)
			continue;
		fit_add(&reads, (double)bytes / read_ns * 1e9);
		fit_add(&writes, (double)bytes / write_ns * 1e9);
		fit_add(&both, (double)half / both_ns * 1e9);
	}
	if (err)
		return err;
	result(p, in)->inplace_bytes_per_s = probe_keep(
		p, &reads, estimate(p, in)->inplace_bytes_per_s, "a kernel that reads in place",
		"link[%u].inplace_bytes_per_s", in->link);
	(void)probe_keep(p, &writes, NAN, "a kernel that writes in place",
			 "link[%u].inplace_write_bytes_per_s", in->link);
	result(p, in)->inplace_both_bytes_per_s =
		probe_keep(p, &both, estimate(p, in)->inplace_both_bytes_per_s,
			   "a kernel that copies from there to there, each way",
			   "link[%u].inplace_both_bytes_per_s", in->link);
	return 0;
}

/* ------------------------------------------------------------------ streaming beside copies */

/* What one of two that begin together does while both last, of a rate that it has alone. */
static double shared_per_s(double bytes, double ns, double other_ns, double alone_per_s)
{
	double alone = ns > other_ns ? (ns - other_ns) * alone_per_s / 1e9 : 0;

	return fmax(bytes - alone, 0) / fmin(ns, other_ns) * 1e9;
}

static int beside_rounds(struct probe *p, const struct inplace *in, const struct weir_launch *read,
			 const struct backend_copy *piece, uint32_t nr)
{
	const struct probe_launches launches = {read, 1};
	const struct probe_copies batch = {piece, nr, 1};
	double bytes = (double)nr * (double)in->buffer.unit;
	struct fit_series reads = {0}, copies = {0}, each = {0};
	int err = 0;

	for (uint32_t i = 0; i <= p->repetitions && !err; i++) {
		struct probe_burst both[2] = {{.kind = BACKEND_COMPUTE,
					       .queue = probe_queue_launches,
					       .arg = &launches,
					       .nr_calls = 1},
					      {.kind = BACKEND_COPY_OUT,
					       .queue = probe_queue_copies,
					       .arg = &batch,
					       .nr_calls = nr}};
		double ns[2], moved, copied;

		err = probe_burst_run(p, both, 2);
		if (err || !i)
			continue;
		for (int k = 0; k < 2; k++)
			ns[k] = both[k].end_ns - both[k].begin_ns;
		moved = shared_per_s(bytes, ns[0], ns[1], result(p, in)->inplace_bytes_per_s);
		copied = shared_per_s(bytes, ns[1], ns[0], result(p, in)->b_to_a_bytes_per_s);
		fit_add(&reads, moved);
		fit_add(&copies, copied);
		fit_add(&each, (moved + copied) / 2);
	}
	if (err)
		return err;
	(void)probe_keep(p, &reads, NAN, "a kernel that reads in place, beside copies from b to a",
			 "link[%u].inplace_beside_copies_bytes_per_s", in->link);
	(void)probe_keep(p, &copies, NAN, "copies from b to a, beside that kernel",
			 "link[%u].copies_beside_inplace_bytes_per_s", in->link);
	/* A kernel with much in flight holds up copies, one with little is held up: half each. */
	result(p, in)->inplace_duplex_bytes_per_s = probe_keep(
		p, &each, estimate(p, in)->inplace_duplex_bytes_per_s,
		"half of what both do together", "link[%u].inplace_duplex_bytes_per_s", in->link);
	return 0;
}

/* The kernel reads the first half of the far buffer, the copies go to the second. */
static int streaming_beside_copies(struct probe *p, const struct inplace *in)
{
	const struct backend_ops *ops = p->b->ops;
	uint64_t unit = in->buffer.unit;
	uint64_t most = (p->options->quick ? QUICK_STREAM_MAX : STREAM_MAX) / unit;
	uint32_t nr = in->buffer.nr / 2 < most ? in->buffer.nr / 2 : (uint32_t)most;
	struct backend_copy *piece;
	struct backend_chunk own;
	struct probe_work read;
	int err;

	if (!nr) {
		probe_assume(p, estimate(p, in)->inplace_duplex_bytes_per_s,
			     "no room to copy beside a kernel that reads",
			     "link[%u].inplace_duplex_bytes_per_s", in->link);
		return 0;
	}
	piece = calloc(nr, sizeof(*piece));
	if (!piece)
		return -ENOMEM;
	err = ops->chunk_create(p->b, p->desc->link[in->link].b, unit, 0, &own);
	if (err)
		goto out_free;
	for (uint32_t i = 0; i < nr; i++)
		piece[i] = (struct backend_copy){
			.dst = in->buffer.chunk[nr + i].alias, .src = own.alias, .bytes = unit};
	probe_work_read(p, &read, in->buffer.addr, nr * unit, 1);
	err = beside_rounds(p, in, &read.launch, piece, nr);
	probe_drain(p);
	ops->chunk_destroy(p->b, &own);
out_free:
	free(piece);
	return err;
}

/* ------------------------------------------------------------------ at random */

/* Rates of pieces with a footprint. */
static int pieces_rate(struct probe *p, const struct inplace *in, uint32_t piece,
		       uint64_t footprint, struct fit_series *per_s)
{
	uint32_t most = p->options->quick ? QUICK_ACCESSES_MAX : ACCESSES_MAX;
	int err = 0;

	*per_s = (struct fit_series){0};
	for (uint32_t i = 0; i <= p->repetitions && !err; i++) {
		struct probe_work work;
		double ns;

		probe_work_gather(p, &work, in->buffer.addr, footprint, piece, most);
		err = probe_time_launch(p, &work.launch, 1, &ns, NULL);
		if (!err && i)
			fit_add(per_s, work.args.gather.pieces.nr / ns * 1e9);
	}
	return err;
}

/* Rates of pieces of all sizes with the smallest footprint, and what follows from them: with the
 * shortest the rate of accesses, which no rate of bytes holds back, and what the longest bring. */
static int within_reach(struct probe *p, const struct inplace *in)
{
	struct weir_link_desc *link = result(p, in);
	struct fit_series near[PIECES], request;

	for (uint32_t k = 0; k < PIECES; k++) {
		int err = pieces_rate(p, in, piece_bytes[k], in->footprint[0], &near[k]);

		if (err)
			return err;
		(void)probe_keep(p, &near[k], NAN, "pieces at random, smallest footprint",
				 "link[%u].near_pieces_of_%u_per_s", in->link, piece_bytes[k]);
	}
	link->inplace_small_per_s = probe_keep(p, &near[0], estimate(p, in)->inplace_small_per_s,
					       "pieces of 32 bytes at random, smallest footprint",
					       "link[%u].inplace_small_per_s", in->link);
	fit_request(&near[PIECES - 1], piece_bytes[PIECES - 1], link->inplace_small_per_s,
		    link->inplace_bytes_per_s, &request);
	if (request.nr)
		link->inplace_request_bytes = (uint32_t)probe_round(
			probe_keep(p, &request, estimate(p, in)->inplace_request_bytes,
				   "what pieces of 1 KiB bring, by the rate of accesses",
				   "link[%u].inplace_request_bytes", in->link));
	else
		probe_assume(p, estimate(p, in)->inplace_request_bytes,
			     "long pieces reach the streaming rate",
			     "link[%u].inplace_request_bytes", in->link);
	return 0;
}

/* ------------------------------------------------------------------ read and written */

/* A kernel must be so much slower than the link and its requests allow for translation to be what
 * holds it back. */
#define UPDATE_SLOWER 0.93

/* Rates of pieces that are read and written, with a footprint. */
static int updates_rate(struct probe *p, const struct inplace *in, uint32_t piece,
			uint64_t footprint, struct fit_series *per_s)
{
	uint32_t most = p->options->quick ? QUICK_MIXED_MAX : MIXED_MAX;
	int err = 0;

	*per_s = (struct fit_series){0};
	for (uint32_t i = 0; i <= p->repetitions && !err; i++) {
		struct probe_work work;
		double ns;

		probe_work_update(p, &work, in->buffer.addr, footprint, piece, most);
		err = probe_time_launch(p, &work.launch, 1, &ns, NULL);
		if (!err && i)
			fit_add(per_s, work.args.update.pieces.nr / ns * 1e9);
	}
	return err;
}

/* Pieces of one size, when reach is known. found: whether translation holds them back with the
 * largest footprint, which says most of what misses. */
static int updates_beyond_reach(struct probe *p, const struct inplace *in, uint32_t piece,
				bool *found)
{
	struct weir_link_desc *link = result(p, in);
	uint64_t most = in->footprint[in->nr_footprints - 1];
	double held = (double)link->inplace_reach_bytes / 2 / (double)most;
	double link_per_s = link->inplace_both_bytes_per_s / piece;
	double requests_per_s =
		link->inplace_small_per_s * fmin(link->inplace_request_bytes, piece) / piece;
	struct fit_series far, missing = {0};
	int err = updates_rate(p, in, piece, most, &far);

	if (err)
		return err;
	(void)probe_keep(p, &far, NAN, "pieces read and written at random",
			 "link[%u].updates_of_%u_within_%llu_mib_per_s", in->link, piece,
			 (unsigned long long)(most / MIB));
	*found = fit_median(&far) < UPDATE_SLOWER * fmin(link_per_s, requests_per_s);
	if (!*found)
		return 0;
	for (uint32_t i = 0; i < far.nr; i++)
		fit_add(&missing, far.value[i] * (1 - held));
	link->inplace_update_large_per_s = probe_keep(
		p, &missing, estimate(p, in)->inplace_update_large_per_s,
		"pieces read and written at random, largest footprint, and half the reach",
		"link[%u].inplace_update_large_per_s", in->link);
	return 0;
}

static int updates(struct probe *p, const struct inplace *in)
{
	bool found = false;
	int err = 0;

	if (in->footprint[in->nr_footprints - 1] > result(p, in)->inplace_reach_bytes)
		for (uint32_t k = PIECES; k-- && !found && !err;)
			err = updates_beyond_reach(p, in, piece_bytes[k], &found);
	if (!err && !found)
		probe_assume(p, estimate(p, in)->inplace_update_large_per_s,
			     "no footprint that was tried is beyond reach",
			     "link[%u].inplace_update_large_per_s", in->link);
	return err;
}

/* Rows of the whole buffer at random, read and added to as a layer of a network does: what bounds
 * them is one of the above. */
static int rows(struct probe *p, const struct inplace *in)
{
	uint32_t most = p->options->quick ? QUICK_MIXED_MAX : MIXED_MAX;
	uint32_t row = piece_bytes[PIECES - 1];
	struct fit_series reads = {0}, adds = {0};
	int err = 0;

	for (uint32_t i = 0; i <= p->repetitions && !err; i++) {
		struct probe_work read, add;
		double read_ns, add_ns;

		probe_work_gather(p, &read, in->buffer.addr, in->buffer.bytes, row, most);
		err = probe_time_launch(p, &read.launch, 1, &read_ns, NULL);
		if (err)
			break;
		probe_work_add(p, &add, in->buffer.addr, in->buffer.bytes, row, most);
		err = probe_time_launch(p, &add.launch, 1, &add_ns, NULL);
		if (err || !i)
			continue;
		fit_add(&reads, (double)read.use[0].read_bytes / read_ns * 1e9);
		fit_add(&adds, (double)add.use[0].write_bytes / add_ns * 1e9);
	}
	if (err)
		return err;
	(void)probe_keep(p, &reads, NAN, "rows of 1 KiB at random, read",
			 "link[%u].rows_read_bytes_per_s", in->link);
	(void)probe_keep(p, &adds, NAN, "rows of 1 KiB at random, added to by atomics",
			 "link[%u].rows_added_to_bytes_per_s", in->link);
	return 0;
}

/* ------------------------------------------------------------------ beyond reach */

/* Rates of pieces with a footprint, of a kernel that reads more pieces in its own memory and writes
 * all of them there: what streams through the device's caches leaves less of them for translation,
 * which a kernel that only reads in place would not show. */
static int mixed_rate(struct probe *p, const struct inplace *in, uint32_t piece, uint64_t footprint,
		      struct fit_series *per_s)
{
	uint32_t most = p->options->quick ? QUICK_MIXED_MAX : MIXED_MAX;
	int err = 0;

	*per_s = (struct fit_series){0};
	for (uint32_t i = 0; i <= p->repetitions && !err; i++) {
		struct probe_work work;
		uint32_t nr = probe_work_mixed(p, &work, in->buffer.addr, footprint, &in->near,
					       &in->out, piece, most);
		double ns;

		if (!nr)
			return 0;
		err = probe_time_launch(p, &work.launch, 1, &ns, NULL);
		if (!err && i)
			fit_add(per_s, nr / ns * 1e9);
	}
	return err;
}

/* The fit of each repetition, where translation holds pieces back from the first-th footprint on.
 * @return whether there is one. */
static bool misses_fit(struct probe *p, const struct inplace *in, uint32_t first,
		       const struct fit_series *rate)
{
	struct weir_link_desc *link = result(p, in);
	struct fit_series large = {0}, reach = {0};

	for (uint32_t i = 0; i < p->repetitions; i++) {
		double per_s[FOOTPRINTS_MAX], misses_per_s, reach_bytes;

		for (uint32_t f = first; f < in->nr_footprints; f++)
			per_s[f] = rate[f].value[i];
		if (!fit_misses(&in->footprint[first], &per_s[first], in->nr_footprints - first,
				&misses_per_s, &reach_bytes))
			continue;
		fit_add(&large, misses_per_s);
		fit_add(&reach, reach_bytes);
	}
	if (!large.nr || fit_median(&reach) < MIB)
		return false;
	link->inplace_large_per_s =
		probe_keep(p, &large, estimate(p, in)->inplace_large_per_s,
			   "gathers of pieces near and far, by footprint: a line's beginning",
			   "link[%u].inplace_large_per_s", in->link);
	(void)probe_keep(p, &reach, (double)estimate(p, in)->inplace_reach_bytes,
			 "gathers of pieces near and far, by footprint: a line's slope",
			 "link[%u].inplace_reach_bytes", in->link);
	link->inplace_reach_bytes = probe_round(fit_median(&reach) / MIB) * MIB;
	return true;
}

/* Pieces of one size. found: whether translation holds them back with two footprints or more. */
static int beyond_reach(struct probe *p, const struct inplace *in, uint32_t piece, bool *found)
{
	struct fit_series rate[FOOTPRINTS_MAX];
	double per_s[FOOTPRINTS_MAX];
	uint32_t first;

	*found = false;
	for (uint32_t f = 0; f < in->nr_footprints; f++) {
		int err = mixed_rate(p, in, piece, in->footprint[f], &rate[f]);

		if (err)
			return err;
		if (!rate[f].nr)
			return 0;
		per_s[f] = probe_keep(p, &rate[f], NAN, "gathers of pieces near and far",
				      "link[%u].pieces_of_%u_within_%llu_mib_per_s", in->link,
				      piece, (unsigned long long)(in->footprint[f] / MIB));
	}
	first = fit_first_miss(per_s, in->nr_footprints);
	if (first + 1 < in->nr_footprints)
		*found = misses_fit(p, in, first, rate);
	return 0;
}

/* What was seen bounds what is assumed. */
static void misses_assume(struct probe *p, const struct inplace *in)
{
	static const char why[] = "no two footprints that were tried are beyond reach";
	struct weir_link_desc *link = result(p, in);
	uint64_t most = in->footprint[in->nr_footprints - 1];

	if (link->inplace_reach_bytes < most)
		link->inplace_reach_bytes = most;
	if (link->inplace_large_per_s > link->inplace_small_per_s)
		link->inplace_large_per_s = link->inplace_small_per_s;
	probe_assume(p, (double)estimate(p, in)->inplace_reach_bytes, why,
		     "link[%u].inplace_reach_bytes", in->link);
	probe_assume(p, estimate(p, in)->inplace_large_per_s, why, "link[%u].inplace_large_per_s",
		     in->link);
}

/* With the largest pieces that translation, and not the link, holds back. */
static int misses(struct probe *p, struct inplace *in)
{
	uint32_t own = p->desc->link[in->link].b;
	uint64_t near = probe_room(p, own, p->options->quick ? QUICK_NEAR_MAX : NEAR_MAX, 2);
	uint64_t out = near < OUT_MAX ? near : OUT_MAX;
	bool found = false;
	int err = probe_buffer_create(p, own, near, &in->near);

	if (!err)
		err = probe_buffer_create(p, own, out, &in->out);
	for (uint32_t k = PIECES; k-- && !found && !err;)
		err = beyond_reach(p, in, piece_bytes[k], &found);
	if (!err && !found)
		misses_assume(p, in);
	probe_buffer_destroy(p, &in->out);
	probe_buffer_destroy(p, &in->near);
	return err;
}

/* Doubling up to all of the buffer, with two more before that: where memory is short, else only one
 * may be beyond reach. */
static void footprints_init(struct inplace *in)
{
	uint64_t most = in->buffer.bytes;

	for (uint64_t f = most < FOOTPRINT_MIN ? most : FOOTPRINT_MIN; f < most; f *= 2)
		in->footprint[in->nr_footprints++] = f;
	for (uint64_t eighths = 6; eighths < 8 && most > FOOTPRINT_MIN; eighths++)
		in->footprint[in->nr_footprints++] = most / 8 * eighths;
	in->footprint[in->nr_footprints++] = most;
}

int probe_link_inplace(struct probe *p, uint32_t link)
{
	const struct weir_link_desc *desc = &p->desc->link[link];
	uint64_t bytes =
		probe_room(p, desc->a, p->options->quick ? QUICK_BUFFER_MAX : BUFFER_MAX, 1);
	struct inplace in = {.link = link};
	int err = probe_step(p, "%s - %s: use in place", p->desc->memory[desc->a].name,
			     p->desc->memory[desc->b].name);

	if (!err)
		err = probe_buffer_create(p, desc->a, bytes, &in.buffer);
	/* A machine may have less than it says, of memory that can be pinned above all. */
	while (err == -ENOMEM && bytes > FOOTPRINT_MIN) {
		bytes /= 2;
		err = probe_buffer_create(p, desc->a, bytes, &in.buffer);
	}
	if (err)
		return err;
	footprints_init(&in);
	err = streaming(p, &in);
	if (!err)
		err = streaming_beside_copies(p, &in);
	if (!err)
		err = within_reach(p, &in);
	if (!err)
		err = misses(p, &in);
	if (!err)
		err = updates(p, &in);
	if (!err)
		err = rows(p, &in);
	probe_buffer_destroy(p, &in.buffer);
	return err;
}
