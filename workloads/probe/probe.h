/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measuring a machine: every rate and cost of a struct weir_machine_desc, found by doing what the
 * constant is about and looking at the clock. It works over the backend interface alone, so that a
 * simulated machine can be measured too, and must then give its own description.
 *
 *   probe.h      the interface
 *   probe.c      the order of things, what is kept of each
 *   burst.c      queues work behind something long, so that the host's pace does not show
 *   buffer.c     memory of one kind, mapped for kernels
 *   work.c       kernels as launches
 *   device.c     a device: its memory, matrix products, launches, allocations
 *   link.c       a link: copies
 *   inplace.c    a link: kernels that use what is beyond it in place
 *   serial.c     a link between devices: kernels whose blocks are here and there
 *   vmm.c        mapping calls, chunks
 *   flow.c       two devices and the host: memory, and flows between them
 *   together.c   flows that run at once, and what each of them reaches
 *   ports.c      what a memory sends and receives over all of its links at once
 *   several.c    what several links carry at once; two devices that wait for each other
 *   pieces.c     copies between two devices, by the size of their pieces
 *   beside.c     mapping calls beside copies and kernels
 *   fit.c        from times to constants
 *   kernels.c    what runs, on the CPU; cuda/ on GPUs, cuda.c finds that
 *
 * What each constant's measurement is: docs/machines.md.
 */
#ifndef WEIR_PROBE_H
#define WEIR_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir/weir.h"

#define PROBE_ALL_DEVICES UINT32_MAX
#define PROBE_PATH_MAX 128 /* room for two names and more */

/* One thing that was measured, or could not be. */
struct probe_record {
	/* The field of the description: "device[0].hbm_bytes_per_s". The last part ends in the
	 * unit, unless it is one number over another. What is no field is told for people alone. */
	char path[PROBE_PATH_MAX];
	const char *how; /* static: what was done; of what is not measured, why not */
	double estimate; /* NAN: there was none */
	uint32_t nr;	 /* repetitions; 0: not measured, the estimate stands */
	double min, median, max;
	/* Another record has the same, under a name for people: "port[3].send_bytes_per_s", of
	 * which one has to look up what it is of. */
	bool is_again;
};

/* probe_result_fini() it. */
struct probe_result {
	struct weir_machine_desc desc; /* passes weir_machine_check() */
	struct probe_record *record;   /* owned; fields that have none were not looked at */
	uint32_t nr_records;
};

struct probe_options {
	uint32_t device; /* its rates and links alone, or PROBE_ALL_DEVICES */
	bool quick;	 /* fewer repetitions, less memory */
	/* Of host memory, at a time. 0: a quarter of what the machine has. */
	uint64_t host_bytes;
	/* What stands where nothing is measured: same devices, same links. NULL: the machine's. */
	const struct weir_machine_desc *estimates;
	/* Called between measurements; label says what comes next. Other than 0: stop. */
	int (*progress)(void *arg, double fraction, const char *label);
	void *progress_arg;
};

/**
 * Measure a machine on which nothing else runs. It takes at most a quarter of each memory, and
 * gives everything back.
 *
 * @param [in]  options  Borrowed for the call.
 * @param [out] out      Written on success only.
 * @param [out] err      On error: what was being done, in a few words; the cause is the value
 *                       returned, or what was logged.
 * @return 0, or
 *   -EINVAL   no such device
 *   -EINTR    progress said so
 *   -ENOMEM   a memory has less room than measuring takes
 *   -ENOENT, -ELIBBAD  no kernels for this computer's GPUs, see cuda_plugin_load()
 *   another error of the machine; logged
 */
int probe_run(struct weir_machine *machine, const struct probe_options *options,
	      struct probe_result *out, char *err, size_t err_bytes) WEIR_MUST_CHECK;

/* What was measured of a constant, by its path in a description; NULL: nothing. */
const struct probe_record *probe_record_find(const struct probe_result *result, const char *path);

void probe_result_fini(struct probe_result *result);

#endif
