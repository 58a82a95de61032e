/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The machine that the examples simulate: one small GPU behind a PCIe 4 link, so that a few
 * megabytes are already too much for it. A program for a real purpose reads such numbers from a
 * file, as machine_file.c does (docs/machines.md says how they are measured).
 */
#ifndef WEIR_EXAMPLES_MACHINE_H
#define WEIR_EXAMPLES_MACHINE_H

#include <stdio.h>
#include <stdlib.h>

#include <weir/weir.h>

static const struct weir_machine_desc example_machine = {
	.name = "example",
	.nr_memories = 2,
	.nr_devices = 1,
	.nr_links = 1,
	.memory = {{"host", WEIR_MEMORY_HOST, 256u << 20}, {"gpu0", WEIR_MEMORY_HBM, 64u << 20}},
	.device = {{.name = "gpu0",
		    .memory = 1,
		    .hbm_bytes_per_s = 400e9,
		    .hbm_random_bytes_per_s = 300e9,
		    .ops_per_s = 10e12,
		    .launch_ns = 2000,
		    .launch_host_ns = 2500,
		    .malloc_ns = 20000,
		    .malloc_2mib_ns = 4000}},
	.link = {{.a = 0,
		  .b = 1,
		  .a_to_b_bytes_per_s = 25e9,
		  .b_to_a_bytes_per_s = 25e9,
		  .duplex_bytes_per_s = 22e9,
		  .latency_ns = 2500,
		  .copy_ns = 90,
		  .inplace_bytes_per_s = 23e9,
		  .inplace_small_per_s = 350e6,
		  .inplace_large_per_s = 20e6,
		  .inplace_reach_bytes = 1u << 30,
		  .inplace_request_bytes = 128,
		  .inplace_duplex_bytes_per_s = 25e9,
		  .inplace_both_bytes_per_s = 20e9,
		  .inplace_update_large_per_s = 16e6}},
	.vmm = {.granularity_bytes = 64u << 10,
		.map_ns = 600,
		.set_access_ns = 1000,
		.set_access_device_ns = 1000,
		.unmap_ns = 1000,
		.set_access_host_mib_ns = 1000,
		.unmap_host_mib_ns = 1000,
		.create_hbm_ns = 11000,
		.create_host_ns = 20000},
};

/* End the program when a call failed: an example has nothing better to do. */
static inline void must(int err, const char *what)
{
	if (!err)
		return;
	fprintf(stderr, "%s: %s\n", what, weir_strerror(err));
	exit(1);
}

/* weir is silent unless it is told where to say things. */
static inline void print_message(void *arg, enum weir_log_level level, const char *message)
{
	static const char *const names[] = {"error", "warning", "info", "debug"};

	(void)arg;
	if (level <= WEIR_LOG_WARNING)
		printf("  weir says, %s: %s\n", names[level], message);
}

#endif
