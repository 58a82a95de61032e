/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Simulated machines that are measured, for the tests of measuring: how one is described and
 * measured, and what is to be found of its ports.
 */
#ifndef WEIR_TEST_PROBE_MACHINE_H
#define WEIR_TEST_PROBE_MACHINE_H

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "machine/machine_file.h"
#include "src/backend/machine.h"
#include "src/backend/sim/sim.h"
#include "workloads/probe/probe.h"

#define TOLERANCE 0.02
/* Of what links carry together; and where they are not alike: one's latency is another's time. */
#define PORT_TOLERANCE 0.01
#define UNLIKE_TOLERANCE 0.04

static uint64_t current_seed; /* of the machine that is measured; 0: none */

static inline void load(const char *name, struct weir_machine_desc *out)
{
	char err[512] = "";

	if (machine_file_load(name, out, err, sizeof(err)))
		fail_msg("%s", err);
	/* Of a workload's kernels, one of which is run to find ops_per_s. */
	out->nr_kernels = 0;
}

/* Measure a simulation, in most_s of its own time at most; probe_result_fini() it. */
static inline void measure(const struct weir_machine_desc *truth,
			   const struct probe_options *options, double most_s,
			   struct probe_result *out)
{
	struct weir_machine *machine;
	struct backend *b;
	char err[256] = "";

	assert_int_equal(weir_machine_simulate(truth, WEIR_DATA_PHANTOM, &machine), 0);
	b = machine_backend(machine);
	if (probe_run(machine, options, out, err, sizeof(err)))
		fail_msg("%s", err);
	assert_int_equal(sim_leaks(b), 0);
	if ((double)b->ops->now_ns(b) > most_s * 1e9)
		fail_msg("it took %.1f s of the machine's time", (double)b->ops->now_ns(b) / 1e9);
	weir_machine_close(machine);
}

/* What is no constant. NULL: there is no record of that name. */
static inline const struct probe_record *shown(const struct probe_result *r, const char *name)
{
	const struct probe_record *record = probe_record_find(r, name);

	if (record && record->nr)
		assert_true(record->min <= record->median && record->median <= record->max);
	return record;
}

/* ------------------------------------------------------------------ ports */

/* What a memory's port carries one way with so many links busy. */
static inline double port_rate(const struct weir_machine_desc *desc, uint32_t memory,
			       uint32_t links, bool receives)
{
	double rate = INFINITY;
	uint32_t most = 0;

	for (uint32_t i = 0; i < desc->nr_ports; i++) {
		const struct weir_port_desc *port = &desc->port[i];

		if (port->memory != memory || port->links > links || port->links <= most)
			continue;
		most = port->links;
		rate = receives ? port->receive_bytes_per_s : port->send_bytes_per_s;
	}
	return rate;
}

/* What the first so many links of a memory to devices carry together, one way. *nr: there may be
 * fewer of them. */
static inline double links_rate(const struct weir_machine_desc *desc, uint32_t memory, uint32_t *nr,
				bool receives)
{
	bool host = desc->memory[memory].kind == WEIR_MEMORY_HOST;
	uint32_t nr_found = 0;
	double all = 0;

	for (uint32_t d = 0; d < desc->nr_devices && nr_found < *nr; d++)
		for (uint32_t l = 0; l < desc->nr_links; l++) {
			const struct weir_link_desc *link = &desc->link[l];
			uint32_t far = desc->device[d].memory;
			bool from_a = (link->a == memory) != receives;
			double rate = from_a ? link->a_to_b_bytes_per_s : link->b_to_a_bytes_per_s;

			if ((link->a != memory || link->b != far) &&
			    (link->b != memory || link->a != far))
				continue;
			all += host ? rate : fmin(rate, port_rate(desc, far, 1, !receives));
			nr_found++;
		}
	*nr = nr_found;
	return fmin(all, port_rate(desc, memory, nr_found, receives));
}

static inline const struct weir_port_desc *port_find(const struct weir_machine_desc *desc,
						     uint32_t memory, uint32_t links)
{
	for (uint32_t i = 0; i < desc->nr_ports; i++)
		if (desc->port[i].memory == memory && desc->port[i].links == links)
			return &desc->port[i];
	return NULL;
}

/* A port was measured, both ways, and not only kept; its line has the name of a memory. */
static inline void expect_port_records(const struct probe_result *r, uint32_t index)
{
	static const char *const ways[] = {"send", "receive"};
	char path[PROBE_PATH_MAX];

	for (int way = 0; way < 2; way++) {
		const struct probe_record *record;

		snprintf(path, sizeof(path), "port[%u].%s_bytes_per_s", index, ways[way]);
		record = shown(r, path);
		assert_non_null(record);
		assert_true(record->nr > 0 && record->is_again);
	}
}

/* The port of a memory with so many links carries what the first GPU's, or the host's, does. */
static inline void expect_port(const struct probe_result *r, const struct weir_machine_desc *truth,
			       uint32_t memory, uint32_t hub, uint32_t links)
{
	const struct weir_port_desc *port = port_find(&r->desc, memory, links);
	double tolerance = current_seed ? UNLIKE_TOLERANCE : PORT_TOLERANCE;

	assert_non_null(port);
	expect_port_records(r, (uint32_t)(port - r->desc.port));
	for (int receives = 0; receives < 2; receives++) {
		double got = receives ? port->receive_bytes_per_s : port->send_bytes_per_s;
		double is = links_rate(truth, hub, &links, receives);

		if (got < (1 - tolerance) * is || (got > (1 + tolerance) * is && links > 1))
			fail_msg("port %s-%u: %.6g, not %.6g (seed %llu)",
				 truth->memory[memory].name, links, got, is,
				 (unsigned long long)current_seed);
		/* One link is not held back. */
		for (uint32_t l = 0; l < r->desc.nr_links && links == 1; l++) {
			const struct weir_link_desc *link = &r->desc.link[l];

			if (link->a == memory)
				assert_true(got >= (receives ? link->b_to_a_bytes_per_s
							     : link->a_to_b_bytes_per_s));
		}
	}
}

/* Of the host with two links and more, of each GPU with one and more; and no others. */
static inline void expect_ports(const struct probe_result *r, const struct weir_machine_desc *truth)
{
	uint32_t nr_gpus = truth->nr_devices, nr = 0;

	for (uint32_t m = 0; m < truth->nr_memories; m++) {
		bool host = truth->memory[m].kind == WEIR_MEMORY_HOST;
		uint32_t all = host ? nr_gpus : nr_gpus - 1, hub = host ? m : 1;

		for (uint32_t n = host ? 2 : 1; n < all; n = n < 4 ? n + 1 : n * 2, nr++)
			expect_port(r, truth, m, hub, n);
		expect_port(r, truth, m, hub, all);
		nr++;
	}
	assert_int_equal(r->desc.nr_ports, nr);
}

/* A line of the table, within 2 %. */
static inline void expect_rate(const struct probe_result *r, const char *name, double truth)
{
	const struct probe_record *record;
	char path[PROBE_PATH_MAX];

	snprintf(path, sizeof(path), "ports.%s_bytes_per_s", name);
	record = shown(r, path);
	if (!record || !record->nr || fabs(record->median - truth) > TOLERANCE * truth)
		fail_msg("%s: %.6g, not %.6g", path, record ? record->median : NAN, truth);
}

/* A line that says why there is none. */
static inline void expect_no_rate(const struct probe_result *r, const char *name, const char *why)
{
	const struct probe_record *record;
	char path[PROBE_PATH_MAX];

	snprintf(path, sizeof(path), "ports.%s_bytes_per_s", name);
	record = shown(r, path);
	assert_non_null(record);
	assert_int_equal(record->nr, 0);
	assert_non_null(strstr(record->how, why));
}

#endif
