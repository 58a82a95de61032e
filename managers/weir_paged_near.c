/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Other GPUs' memory under weir-paged: how much of each allocation is there, and what crossed
 * which link. The budgets are for all that the workload allocates, and each allocation gets of them
 * in proportion to its size; one that is less than a chunk gets none.
 *
 * Counts are those of a range. They are divided among its memories in proportion to the bytes that
 * each has of it, since these lie evenly over it.
 */
#include <errno.h>

#include "managers/weir_paged.h"
#include "src/base/log.h"
#include "src/base/util.h"

int paged_share_init(struct paged_manager *m, const struct manager_config *config)
{
	double sum = 0;

	for (uint32_t i = 0; i < WEIR_MEMORIES_MAX; i++) {
		const double needs = (double)config->needs_bytes;

		m->near_left_bytes[i] = config->near_bytes[i];
		m->near_share[i] = needs > 0 ? (double)config->near_bytes[i] / needs : 1;
		sum += config->near_bytes[i] ? m->near_share[i] : 0;
	}
	for (uint32_t i = 0; i < WEIR_MEMORIES_MAX && sum > 1; i++)
		m->near_share[i] /= sum;
	if (sum > 0)
		return 0;
	log_error("weir-paged+near: no other GPU's memory has a budget");
	return -EINVAL;
}

uint64_t paged_share_get(struct paged_manager *m, uint64_t bytes, uint64_t near[WEIR_MEMORIES_MAX])
{
	const uint64_t chunk = m->base.backend->desc.vmm.granularity_bytes;
	uint64_t sum = 0;

	for (uint32_t i = 0; i < WEIR_MEMORIES_MAX; i++) {
		uint64_t part =
			MIN((uint64_t)((double)bytes * m->near_share[i] + 0.5), bytes - sum);

		/* What is cut off is the host's; all of a range ends where it ends. */
		if (part < bytes || bytes < chunk)
			part -= part % chunk;
		near[i] = MIN(part, m->near_left_bytes[i]);
		m->near_left_bytes[i] -= near[i];
		sum += near[i];
	}
	return sum;
}

void paged_share_put(struct paged_manager *m, const uint64_t near[WEIR_MEMORIES_MAX])
{
	for (uint32_t i = 0; i < WEIR_MEMORIES_MAX; i++)
		m->near_left_bytes[i] += near[i];
}

void paged_split(const struct weir_paged_range_stats *s, uint64_t bytes,
		 uint64_t by_memory[WEIR_MEMORIES_MAX])
{
	uint64_t of = 0;

	for (uint32_t i = 0; i < WEIR_MEMORIES_MAX; i++)
		of += s->home_bytes[i];
	/* The last one has what is left, so that all of it is somewhere. */
	for (uint32_t i = 0; i < WEIR_MEMORIES_MAX; i++) {
		uint64_t home = s->home_bytes[i], part = bytes;

		if (!home)
			continue;
		if (home < of)
			part = (uint64_t)((double)bytes * (double)home / (double)of);
		by_memory[i] += part;
		bytes -= part;
		of -= home;
	}
}
