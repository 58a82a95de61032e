/* SPDX-License-Identifier: Apache-2.0 */
/*
 * On a simulated machine, kernels page on the CPU, and what that moves is known when they are done.
 * So a launch there runs the kernel's function at once, behind what was queued before, and then
 * launches one without a function that is charged with what was moved, as a kernel of these uses.
 */
#include <errno.h>
#include <stdlib.h>

#include "managers/weir_paged.h"
#include "src/paging/view.h"

/* What a kernel counts in one range. */
struct moved {
	uint64_t nr[WEIR_PAGED_EVENT_NR];
};

/* A kernel of the program, what it says, and what the counts were before and after it: of all
 * ranges. */
struct run {
	const struct weir_launch *launch;
	const struct weir_paged_view *view;
	const struct paged_said *said;
	struct moved *before, *after;
};

static void moved_sum(const struct run *run, struct moved *moved)
{
	for (uint32_t i = 0; i < WEIR_PAGED_RANGES_MAX; i++)
		if (run->said[i].granule)
			view_counts_sum(run->view->counts, i, moved[i].nr);
}

static void nothing_cpu(const void *args)
{
	(void)args;
}

static const struct weir_kernel charge_kernel = {.name = "paged_traffic", .cpu = nothing_cpu};

#define RANGE_CHARGES 4u /* of one range, at most */

struct charge {
	struct weir_use *use;
	uint32_t nr;
};

/* granule 0: in order. */
static void charge_add(struct charge *c, void *addr, uint64_t bytes, uint32_t granule,
		       uint64_t read_bytes, uint64_t write_bytes)
{
	if (!read_bytes && !write_bytes)
		return;
	c->use[c->nr++] = (struct weir_use){
		.addr = addr,
		.bytes = bytes,
		.kind = write_bytes ? WEIR_WRITE : WEIR_READ,
		.pattern = granule ? WEIR_RANDOM : WEIR_STREAM,
		.read_bytes = read_bytes,
		.write_bytes = write_bytes,
		.granule = granule,
	};
}

/*
 * Pages in and out, and whole pages in place, go over the link in order; smaller pieces in place do
 * if the launch goes through the range in order, else one by one. Pages in and out take HBM time as
 * well, since that is where they go; and so do accesses to frames, all that are not in place.
 */
static void charge_range(struct paged_manager *m, uint32_t number, const struct run *run,
			 struct charge *c)
{
	struct paged_manager_range *r = &m->range[number];
	const struct paged_said *said = &run->said[number];
	const struct weir_paged_view *v = &m->view;
	uint64_t nr[WEIR_PAGED_EVENT_NR], page_bytes = view_page_bytes(v);
	const bool pieces = said->random && said->granule < page_bytes;
	const uint32_t granule = pieces ? (uint32_t)said->granule : 0;
	bool reads = said->read_bytes, writes = said->write_bytes;
	uint64_t in_place;

	for (int i = 0; i < WEIR_PAGED_EVENT_NR; i++)
		nr[i] = run->after[number].nr[i] - run->before[number].nr[i];
	in_place = nr[WEIR_PAGED_IN_PLACE] * said->granule;
	r->nr_in_place += nr[WEIR_PAGED_IN_PLACE];
	r->in_place_bytes[BACKEND_TO_DEVICE] += reads ? in_place : 0;
	r->in_place_bytes[BACKEND_TO_HOST] += writes ? in_place : 0;
	charge_add(c, r->host, r->bytes, 0, nr[WEIR_PAGED_IN] * page_bytes, 0);
	charge_add(c, r->host, r->bytes, 0, 0, nr[WEIR_PAGED_OUT] * page_bytes);
	charge_add(c, r->host, r->bytes, granule, reads ? in_place : 0, writes ? in_place : 0);
	charge_add(c, v->frames, v->table.nr_frames * page_bytes,
		   said->random ? (uint32_t)said->granule : 0,
		   paged_less(said->read_bytes, in_place), paged_less(said->write_bytes, in_place));
}

/* Queue what takes the time of a kernel that has run. */
static int launch_traffic(struct paged_manager *m, const struct run *run)
{
	const struct weir_launch *launch = run->launch;
	struct weir_launch traffic = {.kernel = &charge_kernel, .ops = launch->ops};
	uint32_t most = WEIR_PAGED_RANGES_MAX * RANGE_CHARGES + launch->nr_uses;
	struct charge charge = {.use = calloc(most, sizeof(*charge.use))};
	int err;

	if (!charge.use)
		return -ENOMEM;
	for (uint32_t i = 0; i < WEIR_PAGED_RANGES_MAX; i++)
		if (run->said[i].granule)
			charge_range(m, i, run, &charge);
	for (uint32_t i = 0; i < launch->nr_uses; i++)
		if (paged_use_range(m, &launch->uses[i]) == WEIR_PAGED_RANGES_MAX)
			charge.use[charge.nr++] = launch->uses[i];
	traffic.uses = charge.use;
	traffic.nr_uses = charge.nr;
	err = weir_stream_launch(m->stream, &traffic);
	free(charge.use);
	return err;
}

int paged_sim_launch(struct paged_manager *m, const struct weir_launch *launch,
		     const struct paged_said *said)
{
	struct moved before[WEIR_PAGED_RANGES_MAX] = {0}, after[WEIR_PAGED_RANGES_MAX] = {0};
	const struct run run = {launch, &m->view, said, before, after};
	int err = weir_stream_sync(m->stream);

	if (err)
		return err;
	moved_sum(&run, before);
	launch->kernel->cpu(launch->args);
	moved_sum(&run, after);
	return launch_traffic(m, &run);
}
