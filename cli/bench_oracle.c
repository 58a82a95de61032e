/* SPDX-License-Identifier: Apache-2.0 */
/* A run against MIN; see bench_oracle.h and docs/oracle.md. */
#include "cli/bench_oracle.h"

#include <errno.h>
#include <math.h>

#include "cli/result.h"
#include "workloads/oracle.h"

/* Bytes of some causes that crossed a link one way while the trace was taken. */
static uint64_t crossed(const struct bench_run *run, uint32_t link, enum weir_direction direction,
			bool in_place)
{
	const struct manager_stats *from = &run->record->from, *to = &run->record->to;
	bool host = link == result_host_link(run->machine, run->config.device);
	const uint64_t *before = host ? from->bytes[direction] : from->near[link][direction];
	const uint64_t *after = host ? to->bytes[direction] : to->near[link][direction];
	uint64_t bytes = 0;

	for (int cause = 0; cause < WEIR_CAUSE_NR; cause++)
		if ((cause == WEIR_CAUSE_INPLACE) == in_place)
			bytes += after[cause] - before[cause];
	return bytes;
}

/* The same over all links of a memory, to it or from it. */
static double moved(const struct bench_run *run, uint32_t memory, bool to, bool in_place)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < run->machine->nr_links; i++) {
		const struct weir_link_desc *link = &run->machine->link[i];

		if (link->a == memory || link->b == memory)
			bytes += crossed(run, i,
					 (link->b == memory) == to ? WEIR_A_TO_B : WEIR_B_TO_A,
					 in_place);
	}
	return (double)bytes;
}

/* Whole blocks that other GPUs' memories have room for. */
static uint64_t near_blocks(const struct bench_run *run, uint64_t block_bytes)
{
	uint64_t nr = 0;

	for (uint32_t m = 0; m < run->machine->nr_memories; m++)
		nr += run->config.near_bytes[m] / block_bytes;
	return nr;
}

static const char *why(int err)
{
	switch (err) {
	case -EXDEV:
		return "the epochs do not end with the allocations that they began with";
	case -ENOSPC:
		return "a launch needs more blocks than the GPU's memory has room for at once, so "
		       "that no way has them all there: there is no least number of copies";
	case -ENODATA:
		return "nothing in the epochs is moved in blocks";
	case -E2BIG:
		return "too many blocks; choose a larger --block-size";
	default:
		return weir_strerror(err);
	}
}

int bench_oracle(const struct bench_run *run, struct result_oracle *out, char *err,
		 size_t err_bytes)
{
	const struct bench_record *record = run->record;
	const struct trace *trace = record->trace;
	const uint32_t nr = run->epochs - record->first_epoch;
	const double blocks = (double)trace->block_bytes * nr;
	const uint64_t capacity = record->to.movable_blocks;
	const uint32_t own = run->machine->device[run->config.device].memory;
	const uint32_t host = result_host_memory(run->machine, run->config.device);
	const uint64_t near = near_blocks(run, trace->block_bytes);
	struct oracle_result min;
	int rc = oracle_compute(trace, capacity, near, &min);

	if (rc) {
		snprintf(err, err_bytes, "--oracle, %s: %s", run->manager, why(rc));
		return rc;
	}
	*out = (struct result_oracle){
		.copy_ins = moved(run, own, true, false) / blocks,
		.min_copy_ins = min.copy_ins / nr,
		.write_backs = moved(run, own, false, false) / blocks,
		.min_write_backs = min.write_backs / nr,
		.in_place_bytes = (moved(run, own, true, true) + moved(run, own, false, true)) / nr,
		.host_copy_ins = near ? moved(run, host, false, false) / blocks : NAN,
		.min_host_copy_ins = near ? min.host_copy_ins / nr : NAN,
		.block_bytes = trace->block_bytes,
		.capacity_blocks = capacity,
		.largest_set_blocks = min.largest_set,
		.nr_epochs = nr,
		.exact = min.exact,
	};
	return 0;
}
