/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which memory an object goes to: the one that gives the least time for all that is going to be
 * done with it, by the cost model of kernels (src/cost/cost.h):
 *
 *   cost(m) = the sum over devices d of what d takes to go through it once, with it in m
 *             + what one copy that fills it from the host takes, divided by `times`, if m is a
 *               GPU's and `times` is not 0
 *
 * Size counts three times: a small copy costs its latency more than its bytes, random pieces over a
 * link get slower beyond the link's translation reach, and what has no room is not a candidate.
 * Memories that some user does not reach are none either; the CPU reaches the host's alone. Between
 * equals, a GPU's memory leaves the host's to others.
 */
#include <errno.h>
#include <math.h>

#include "src/cost/cost.h"
#include "src/mem/mem.h"

const char *weir_choice_text(enum weir_choice choice)
{
	switch (choice) {
	case WEIR_CHOICE_ASKED:
		return "asked for";
	case WEIR_CHOICE_CPU:
		return "the CPU uses it";
	case WEIR_CHOICE_OWN:
		return "one device uses it";
	case WEIR_CHOICE_SHARED:
		return "fastest for all that share it";
	case WEIR_CHOICE_SELDOM:
		return "used too seldom to copy";
	case WEIR_CHOICE_PRESSURE:
		return "a better memory is full";
	case WEIR_CHOICE_NR:
		break;
	}
	return "unknown";
}

bool mem_reaches(const struct weir_machine_desc *desc, uint32_t device, uint32_t memory)
{
	uint32_t own = desc->device[device].memory;

	return own == memory || cost_link_find(desc, own, memory) >= 0;
}

/* What a device takes to go through it once, with it in a memory that it reaches. */
static double pass_ns(const struct weir_machine_desc *desc, uint32_t device, uint32_t memory,
		      uint64_t bytes, const struct weir_mem_use *use)
{
	const struct weir_use pass = {.bytes = bytes,
				      .kind = WEIR_READ,
				      .pattern = use->pattern,
				      .read_bytes = bytes,
				      .granule = use->granule};
	uint32_t own = desc->device[device].memory;
	double rate;

	if (own == memory)
		return cost_hbm_ns(&desc->device[device], &pass);
	rate = cost_inplace_bytes_per_s(&desc->link[cost_link_find(desc, own, memory)], &pass,
					bytes);
	return (double)bytes * cost_expansion(&pass) / rate * 1e9;
}

/* Infinite: not all of its users reach it there. */
static double memory_cost(const struct weir_machine_desc *desc, uint32_t memory, uint64_t bytes,
			  const struct weir_mem_use *use)
{
	uint32_t host = cost_host_memory(desc);
	double ns = 0, fill_ns;
	int link;

	for (uint32_t d = 0; d < desc->nr_devices; d++) {
		if (!(use->devices & WEIR_MEM_DEVICE(d)))
			continue;
		if (!mem_reaches(desc, d, memory))
			return INFINITY;
		ns += pass_ns(desc, d, memory, bytes, use);
	}
	if (memory == host || !use->times)
		return ns;
	link = cost_link_find(desc, host, memory);
	if (link < 0)
		return INFINITY;
	fill_ns = (double)(desc->link[link].latency_ns + desc->link[link].copy_ns) +
		  (double)bytes / cost_copy_bytes_per_s(&desc->link[link], host) * 1e9;
	return ns + fill_ns / use->times;
}

static int use_check(const struct weir_machine_desc *desc, uint64_t bytes,
		     const struct weir_mem_use *use)
{
	bool pattern = use->pattern == WEIR_STREAM || use->pattern == WEIR_RANDOM;

	return bytes && pattern && !(use->devices >> desc->nr_devices) ? 0 : -EINVAL;
}

/* Why the best of all memories is the best. */
static enum weir_choice reason(const struct weir_machine_desc *desc, uint32_t memory,
			       const struct weir_mem_use *use)
{
	if (__builtin_popcountll(use->devices) > 1 &&
	    !(desc->memory[memory].kind == WEIR_MEMORY_HOST && use->times))
		return WEIR_CHOICE_SHARED;
	return desc->memory[memory].kind == WEIR_MEMORY_HOST ? WEIR_CHOICE_SELDOM : WEIR_CHOICE_OWN;
}

int weir_memory_choose(const struct weir_machine_desc *desc, const uint64_t room[WEIR_MEMORIES_MAX],
		       uint64_t bytes, const struct weir_mem_use *use, uint32_t *memory,
		       enum weir_choice *choice)
{
	uint32_t host = cost_host_memory(desc), best = UINT32_MAX, ideal = host;
	double best_ns = INFINITY, ideal_ns = INFINITY;
	int err = use_check(desc, bytes, use);

	if (err)
		return err;
	if (use->cpu || !use->devices) {
		if (room[host] < bytes)
			return -ENOMEM;
		*memory = host;
		*choice = WEIR_CHOICE_CPU;
		return 0;
	}
	for (uint32_t i = desc->nr_memories; i--;) {
		double ns = memory_cost(desc, i, bytes, use);
		bool gpu = desc->memory[i].kind != WEIR_MEMORY_HOST;

		if (ns < ideal_ns || (ns <= ideal_ns && gpu)) {
			ideal = i;
			ideal_ns = ns;
		}
		if (room[i] >= bytes && (ns < best_ns || (ns <= best_ns && gpu && ns < INFINITY))) {
			best = i;
			best_ns = ns;
		}
	}
	if (best == UINT32_MAX)
		return -ENOMEM;
	*memory = best;
	*choice = best != ideal && best_ns > ideal_ns ? WEIR_CHOICE_PRESSURE
						      : reason(desc, best, use);
	return 0;
}
