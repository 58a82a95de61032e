/* SPDX-License-Identifier: Apache-2.0 */
/* A run against MIN; see bench_oracle.h and docs/oracle.md. */
#include "cli/bench_oracle.h"

#include <errno.h>

#include "workloads/oracle.h"

/* Bytes that were copied one way while the trace was taken. */
static double copied(const struct bench_record *record, enum backend_direction direction)
{
	uint64_t bytes = 0;

	for (int cause = 0; cause < WEIR_CAUSE_NR; cause++)
		if (cause != WEIR_CAUSE_INPLACE)
			bytes += record->to.bytes[direction][cause] -
				 record->from.bytes[direction][cause];
	return (double)bytes;
}

/* Bytes that were used in place meanwhile, both ways. */
static double in_place(const struct bench_record *record)
{
	uint64_t bytes = 0;

	for (int direction = 0; direction < BACKEND_DIRECTION_NR; direction++)
		bytes += record->to.bytes[direction][WEIR_CAUSE_INPLACE] -
			 record->from.bytes[direction][WEIR_CAUSE_INPLACE];
	return (double)bytes;
}

static const char *why(int err)
{
	switch (err) {
	case -EXDEV:
		return "the epochs do not end with the allocations that they began with";
	case -ENOSPC:
		return "a launch found more blocks in GPU memory than the budget has room for";
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
	struct oracle_result min;
	int rc = oracle_compute(trace, capacity, &min);

	if (rc) {
		snprintf(err, err_bytes, "--oracle, %s: %s", run->manager, why(rc));
		return rc;
	}
	*out = (struct result_oracle){
		.copy_ins = copied(record, BACKEND_TO_DEVICE) / blocks,
		.min_copy_ins = min.copy_ins / nr,
		.write_backs = copied(record, BACKEND_TO_HOST) / blocks,
		.min_write_backs = min.write_backs / nr,
		.in_place_bytes = in_place(record) / nr,
		.block_bytes = trace->block_bytes,
		.capacity_blocks = capacity,
		.largest_set_blocks = min.largest_set,
		.nr_epochs = nr,
		.exact = min.exact,
	};
	return 0;
}
