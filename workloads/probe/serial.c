/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What kernels lose by going from the device's own memory to a neighbour's and back: a kernel that
 * walks over a range of which one block is there has nearly all its warps in that block for a time,
 * and in the others for the rest, so that its own memory idles, or the link. One that takes rows at
 * random has warps in all of them at a time. A link has a constant for each of the two. Host links
 * are left out: next to such a slow link nothing shows.
 */
#include <math.h>

#include "src/base/util.h"
#include "workloads/probe/internal.h"

/* A block is as large as those of spaces, where there is room. */
#define BLOCK_MAX (64 * MIB)

/* Of the range that is read, and of the one that is written. With more, threads of the kernel on a
 * GPU go round: they are in two places at a time. */
#define HALF_MAX (512 * MIB)

/* Blocks of a half. */
#define BLOCKS_MAX 64u

/* Of a kernel that takes rows at random. */
#define ROW_BYTES 1024u

/* Each copies its first half to its second one. */
struct serial {
	uint32_t link;
	uint32_t nr;		   /* blocks of a half */
	uint32_t home[BLOCKS_MAX]; /* memories of a half's blocks, the one in the middle far away */
	struct probe_buffer own;   /* in the device's memory */
	struct probe_buffer far;   /* one block in each half, and no others, at the neighbour */
	struct probe_buffer blocks; /* nr in each half, one of which is at the neighbour */
};

/* Copy the first half to the second one; or read all rows at random. */
static int kernel_time(struct probe *p, const struct probe_buffer *buffer, bool rows, double *ns)
{
	struct probe_work work;

	if (rows)
		probe_work_gather(p, &work, buffer->addr, buffer->bytes, ROW_BYTES, UINT32_MAX);
	else
		probe_work_copy(&work, buffer->addr, buffer->addr + buffer->bytes / 2,
				buffer->bytes / 2);
	return probe_time_launch(p, &work.launch, 1, ns, NULL);
}

static int serial_once(struct probe *p, const struct serial *s, bool rows, double *share)
{
	double own_ns, far_ns, blocks_ns, home_ns;
	int err = kernel_time(p, &s->own, rows, &own_ns);

	if (!err)
		err = kernel_time(p, &s->far, rows, &far_ns);
	if (!err)
		err = kernel_time(p, &s->blocks, rows, &blocks_ns);
	if (err)
		return err;
	home_ns = own_ns * (s->nr - 1) / s->nr;
	*share = (blocks_ns - fmax(own_ns, far_ns)) / fmin(home_ns, far_ns);
	*share = fmin(fmax(*share, 0), 1);
	return 0;
}

static int serial_rounds(struct probe *p, const struct serial *s)
{
	const struct weir_link_desc *estimate = &p->estimates->link[s->link];
	struct weir_link_desc *link = &p->desc->link[s->link];
	struct fit_series walk = {0}, rows = {0};
	int err = 0;

	for (uint32_t i = 0; i <= p->repetitions && !err; i++) {
		double walk_share, rows_share;

		err = serial_once(p, s, false, &walk_share);
		if (!err)
			err = serial_once(p, s, true, &rows_share);
		if (err || !i)
			continue;
		fit_add(&walk, walk_share);
		fit_add(&rows, rows_share);
	}
	if (err)
		return err;
	link->inplace_serial = probe_keep(
		p, &walk, estimate->inplace_serial,
		"a kernel that copies blocks, of which one is there, beside its work there and "
		"here alone",
		"link[%u].inplace_serial", s->link);
	link->inplace_serial_random =
		probe_keep(p, &rows, estimate->inplace_serial_random,
			   "a kernel that reads rows at random in blocks, of which one is there, "
			   "beside the same",
			   "link[%u].inplace_serial_random", s->link);
	return 0;
}

/* So many blocks that the one takes about as long as the others do: then most can overlap. */
static uint32_t nr_blocks(const struct probe *p, uint32_t link)
{
	double both = p->desc->link[link].inplace_both_bytes_per_s;
	double own = p->desc->device[p->device].hbm_bytes_per_s / 2;

	return 1 + (uint32_t)fmin(fmax(own / both + 0.5, 1), BLOCKS_MAX - 1);
}

int probe_link_serial(struct probe *p, uint32_t link)
{
	const struct weir_link_desc *desc = &p->desc->link[link];
	uint64_t unit = p->b->desc.vmm.granularity_bytes;
	uint64_t half = probe_room(p, desc->b, HALF_MAX, 4);
	struct serial s = {.link = link, .nr = nr_blocks(p, link)};
	const char *why = NULL;
	int err;

	for (uint32_t i = 0; i < s.nr; i++)
		s.home[i] = i == s.nr / 2 ? desc->a : desc->b;
	while (unit * 2 * s.nr <= half && unit < BLOCK_MAX)
		unit *= 2;
	if (p->desc->memory[desc->a].kind == WEIR_MEMORY_HOST)
		why = "measured of memory of other devices alone";
	else if (unit * s.nr > half || probe_room(p, desc->a, 2 * unit, 2) < 2 * unit)
		why = "no room for blocks near and far";
	if (why) {
		probe_assume(p, p->estimates->link[link].inplace_serial, why,
			     "link[%u].inplace_serial", link);
		probe_assume(p, p->estimates->link[link].inplace_serial_random, why,
			     "link[%u].inplace_serial_random", link);
		return 0;
	}
	err = probe_buffer_create_of(p, desc->b, unit, 2 * s.nr, &s.own);
	if (!err)
		err = probe_buffer_create_of(p, desc->a, unit, 2, &s.far);
	if (!err)
		err = probe_buffer_create_turns(p, p->device, (struct probe_turns){s.home, s.nr},
						unit, 2 * s.nr, &s.blocks);
	if (!err)
		err = serial_rounds(p, &s);
	probe_buffer_destroy(p, &s.blocks);
	probe_buffer_destroy(p, &s.far);
	probe_buffer_destroy(p, &s.own);
	return err;
}
