/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What kernels cost: the arithmetic that the simulator, the planner and the lower bound share. Pure
 * functions of a machine description; no state, no clock, no contention between kernels and copies.
 *
 * Terms, for a use with declared bytes R read and W written, of a part that lies partly in the
 * device's own HBM and partly in other memories m (f_m: the share of the part's bytes in m):
 *
 *   granule     g = use->granule, or one word (4 bytes) when it is 0
 *   sectors     a piece of g bytes that starts at a multiple of a (the largest power of two that
 *               divides g, 32 at most) covers (g + 32 - a) / 32 sectors of 32 bytes on average
 *   expansion   x = 1 for a streaming use, 32 * sectors / g for a random one
 *   factor      k of the kernel's name in the description's list, 1 when it is not there
 *   HBM time    k * x * (R + W) / (hbm_bytes_per_s or hbm_random_bytes_per_s); sums over uses. It
 *               counts bytes in place too: a kernel gets no faster when some of its data is
 *               elsewhere (measured on an H200: gather and scatter-add with 2 % of the rows in host
 *               memory)
 *   operations  k * ops / ops_per_s
 *   link bytes  f_m * x * R from m, f_m * x * W to m
 *   link rate   streaming: inplace_bytes_per_s. Random, with e = 32 * sectors bytes moved a piece:
 *                 the least of inplace_bytes_per_s,
 *                             inplace_small_per_s * min(e, inplace_request_bytes),
 *                 and, when the part's bytes in m, F, are more than inplace_reach_bytes,
 *                             inplace_large_per_s / (1 - inplace_reach_bytes / F) * e
 *                 since a piece then misses the translation cache with the probability in
 *                 brackets, and so many misses a second are served (an H200: within 3 % from 1 to
 *                 16 GiB). A piece that is read and written is translated twice, the second time
 *                 when it leaves the device's cache: inplace_update_large_per_s, and half the
 *                 reach (an H200: within 5 % from 2 to 16 GiB)
 *   flow        for a kernel, a memory and a direction: the uses' link bytes and link times add
 *               up; the flow's rate is the quotient. While it has flows both ways neither is
 *               faster than inplace_both_bytes_per_s
 *   kernel      the largest of what it takes with everything in HBM (HBM time, operations), of its
 *               flows' time, and launch_ns (an H200, gather and scatter-add with flows of 0.6 to
 *               2.6 times their work in HBM: at most 5 % more)
 *   serial      and after that, for each link, s times the shorter of its flows' time and of the
 *               kernel's work at home: what it takes with everything in HBM, times the share of its
 *               HBM time that is not of bytes in place. Where a link is nearly as fast as HBM, a
 *               kernel that walks over a range has all its warps in blocks of one memory at a time,
 *               so that the other one idles; one that takes pieces at random has warps in both.
 *               s is inplace_serial where what crosses the link is of streaming uses,
 *               inplace_serial_random where it is of random ones, and else their mean, each by the
 *               link time of its uses, both ways together
 *   digest      of a chunk, by a few blocks: launch_ns and its bytes at an eleventh of the HBM's
 *               rate (an H200: 500 to 700 of 4,550 GB/s expected of eight multiprocessors, see
 *               docs/backend.md; not measured yet)
 */
#ifndef WEIR_COST_H
#define WEIR_COST_H

#include <stdbool.h>

#include "weir/weir.h"

/* Two directions to each other memory. */
#define COST_FLOWS_MAX (2 * (WEIR_MEMORIES_MAX - 1))

/* A use and where its part lies. */
struct cost_use {
	const struct weir_use *use;
	uint64_t bytes[WEIR_MEMORIES_MAX]; /* of the part, by memory; they add up to use->bytes */
};

/* What a kernel moves over one link, one way. */
struct cost_flow {
	uint32_t memory;    /* the far end */
	uint32_t link;	    /* index in the description */
	bool a_to_b;	    /* direction in the link's terms */
	bool reads;	    /* towards the device */
	double bytes;	    /* expanded; > 0 */
	double bytes_per_s; /* the most the kernel can move, with the link to itself */
	double random;	    /* of the time at that rate, the share of random uses */
};

/* A kernel's cost in its components. */
struct cost_kernel {
	double hbm_ns, ops_ns, launch_ns;
	double serial_ns; /* after all of these and the flows */
	uint32_t nr_flows;
	struct cost_flow flow[COST_FLOWS_MAX];
	double read_bytes[WEIR_MEMORIES_MAX];	 /* declared, in place, by memory */
	double written_bytes[WEIR_MEMORIES_MAX]; /* same */
};

/* The link between two memories, or -ENOENT. */
int cost_link_find(const struct weir_machine_desc *desc, uint32_t a, uint32_t b);

/* The most that the port of a memory sends, or receives, while so many of its links are busy that
 * way, as struct weir_port_desc says; INFINITY: it limits nothing. */
double cost_port_bytes_per_s(const struct weir_machine_desc *desc, uint32_t memory, uint32_t links,
			     bool sends);

/* The first memory of kind WEIR_MEMORY_HOST; a checked description has one. Else 0. */
uint32_t cost_host_memory(const struct weir_machine_desc *desc);

/* The link of a device to the host's memory, which every device has: its end a is the host. */
static inline uint32_t cost_host_link(const struct weir_machine_desc *desc, uint32_t device)
{
	return (uint32_t)cost_link_find(desc, cost_host_memory(desc), desc->device[device].memory);
}

/* One way rate of a copy over a link that is idle otherwise; from: one of its memories. */
double cost_copy_bytes_per_s(const struct weir_link_desc *link, uint32_t from);

/* Bytes of 32-byte sectors that one random piece of granule bytes (0: 4) covers, on average. */
double cost_sector_bytes(uint32_t granule);

/* Bytes moved for one declared byte of a use: 1, or more for small random pieces. */
double cost_expansion(const struct weir_use *use);

/* The factor of a kernel by its name. NULL: 1. */
double cost_kernel_factor(const struct weir_machine_desc *desc, const char *kernel);

/* HBM time of a use, without a kernel's factor. */
double cost_hbm_ns(const struct weir_device_desc *device, const struct weir_use *use);

/* A kernel's time with everything in HBM, of the HBM times of its uses (without factor), its
 * operations and its factor. */
double cost_resident_ns(const struct weir_device_desc *device, double factor, double hbm_ns,
			double ops);

/* Of a use in place, or beside other work: what does not overlap, as a share of the shorter
 * time. */
double cost_serial(const struct weir_link_desc *link, enum weir_use_pattern pattern);

/* What translation holds of the footprint of a use in place. */
double cost_reach_bytes(const struct weir_link_desc *link, const struct weir_use *use);

/* The rate at which expanded bytes of a use in place cross an idle link, each way. footprint: bytes
 * of the part that are there. */
double cost_inplace_bytes_per_s(const struct weir_link_desc *link, const struct weir_use *use,
				uint64_t footprint);

/*
 * The components of a kernel's cost on a device. kernel: its name; NULL: one without a factor.
 * @return 0, or -EINVAL: a use lies in a memory that the device has no link to.
 */
int cost_kernel(const struct weir_machine_desc *desc, uint32_t device, const char *kernel,
		const struct cost_use *uses, uint32_t nr_uses, double ops, struct cost_kernel *out);

/* The time of its flows alone. */
double cost_kernel_link_ns(const struct weir_machine_desc *desc, const struct cost_kernel *cost);

/* Its time on a machine that does nothing else. */
double cost_kernel_alone_ns(const struct weir_machine_desc *desc, const struct cost_kernel *cost);

/* The time of the digest of so many bytes of a device's memory. */
double cost_digest_ns(const struct weir_machine_desc *desc, uint32_t device, uint64_t bytes);

#endif
