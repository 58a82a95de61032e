/* SPDX-License-Identifier: Apache-2.0 */
/* The order in which a machine is measured, and what is kept of each measurement. */
#include "workloads/probe/probe.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/backend/machine.h"
#include "src/base/log.h"
#include "src/cost/cost.h"
#include "workloads/probe/cuda.h"
#include "workloads/probe/internal.h"

#define REPETITIONS 7u
#define QUICK_REPETITIONS 3u

/* ------------------------------------------------------------------ records */

/* A record to fill, with its path. Without memory for it, one that is lost: then p->no_memory. */
static struct probe_record *record_add(struct probe *p, const char *path, va_list args)
{
	struct probe_result *out = p->out;
	struct probe_record *record = &p->lost;

	if (out->nr_records == p->max_records) {
		uint32_t max = p->max_records ? 2 * p->max_records : 64;
		struct probe_record *grown = realloc(out->record, max * sizeof(*grown));

		if (grown) {
			out->record = grown;
			p->max_records = max;
		} else {
			p->no_memory = true;
		}
	}
	if (out->nr_records < p->max_records)
		record = &out->record[out->nr_records++];
	*record = (struct probe_record){0};
	(void)vsnprintf(record->path, sizeof(record->path), path, args);
	return record;
}

static double record_fill(struct probe_record *record, const struct fit_series *series,
			  double estimate, const char *how)
{
	record->how = how;
	record->estimate = estimate;
	record->nr = series->nr;
	record->min = fit_min(series);
	record->median = fit_median(series);
	record->max = fit_max(series);
	return fit_digits(record->median);
}

double probe_keep(struct probe *p, const struct fit_series *series, double estimate,
		  const char *how, const char *path, ...)
{
	struct probe_record *record;
	va_list args;

	va_start(args, path);
	record = record_add(p, path, args);
	va_end(args);
	return record_fill(record, series, estimate, how);
}

double probe_keep_again(struct probe *p, const struct fit_series *series, double estimate,
			const char *how, const char *path, ...)
{
	struct probe_record *record;
	va_list args;

	va_start(args, path);
	record = record_add(p, path, args);
	va_end(args);
	record->is_again = true;
	return record_fill(record, series, estimate, how);
}

void probe_assume(struct probe *p, double estimate, const char *why, const char *path, ...)
{
	struct probe_record *record;
	va_list args;

	va_start(args, path);
	record = record_add(p, path, args);
	va_end(args);
	record->how = why;
	record->estimate = estimate;
}

/* ------------------------------------------------------------------ progress */

int probe_continue(struct probe *p)
{
	const struct probe_options *o = p->options;
	double fraction = (double)p->step / p->nr_steps;

	return o->progress && o->progress(o->progress_arg, fraction, p->label) ? -EINTR : 0;
}

int probe_step(struct probe *p, const char *label, ...)
{
	va_list args;

	va_start(args, label);
	(void)vsnprintf(p->label, sizeof(p->label), label, args);
	va_end(args);
	p->step++;
	return probe_continue(p);
}

/* ------------------------------------------------------------------ a device and its links */

static void device_close(struct probe *p)
{
	probe_buffer_destroy(p, &p->plug);
	while (p->nr_streams)
		p->b->ops->stream_destroy(p->b, p->stream[--p->nr_streams]);
}

static int device_open(struct probe *p, uint32_t device)
{
	static const enum backend_stream_kind kinds[] = {BACKEND_COMPUTE, BACKEND_COPY_IN,
							 BACKEND_COPY_OUT};
	const struct backend_ops *ops = p->b->ops;
	int err = 0;

	p->device = device;
	(void)snprintf(p->label, sizeof(p->label), "%s", p->desc->device[device].name);
	while (p->nr_streams < 3 && !err) {
		err = ops->stream_create(p->b, device, kinds[p->nr_streams],
					 &p->stream[p->nr_streams]);
		if (!err)
			p->nr_streams++;
	}
	/* Where there are real streams, kernels come from a library. */
	if (!err && ops->stream_native(p->b, p->stream[BACKEND_COMPUTE]))
		err = probe_cuda_load();
	if (!err)
		err = probe_buffer_create(p, p->desc->device[device].memory,
					  p->b->desc.vmm.granularity_bytes, &p->plug);
	if (!err)
		err = probe_plug_calibrate(p);
	if (err)
		device_close(p);
	return err;
}

static bool is_link_of(const struct probe *p, uint32_t link, uint32_t device)
{
	return p->desc->link[link].b == p->desc->device[device].memory;
}

/* first: mapping calls too, which are the machine's, and packets, which have no constants. */
static int device_measure(struct probe *p, uint32_t device, bool first)
{
	int err = device_open(p, device);

	if (err)
		return err;
	err = probe_device(p);
	if (!err && first)
		err = probe_vmm(p);
	if (!err && first)
		err = probe_packets(p);
	for (uint32_t l = 0; l < p->desc->nr_links && !err; l++) {
		if (!is_link_of(p, l, device))
			continue;
		err = probe_link_copies(p, l);
		if (!err)
			err = probe_link_inplace(p, l);
		if (!err)
			err = probe_link_serial(p, l);
		if (!err)
			err = probe_link_events(p, l);
	}
	device_close(p);
	return err;
}

/* ------------------------------------------------------------------ several devices */

static bool is_linked(const struct probe *p, uint32_t device, uint32_t other)
{
	return cost_link_find(p->desc, p->desc->device[device].memory,
			      p->desc->device[other].memory) >= 0;
}

/* What the first two devices do together, and what memories do over all of their links. */
static int pair_measure(struct probe *p)
{
	struct probe_pair pair = {
		.memory = {[PAIR_HOST] = cost_host_memory(p->desc),
			   [PAIR_ONE] = p->desc->device[0].memory,
			   [PAIR_OTHER] = p->desc->device[1].memory},
		.device = {[PAIR_ONE] = 0, [PAIR_OTHER] = 1},
		.linked = is_linked(p, 0, 1),
	};
	int err = device_open(p, 0);

	if (err)
		return err;
	err = probe_several(p, &pair);
	if (!err)
		err = probe_pieces(p, &pair);
	if (!err)
		err = probe_events(p, &pair);
	if (!err)
		err = probe_beside(p, &pair);
	if (!err)
		err = probe_ports(p);
	device_close(p);
	return err;
}

/* A line for each two devices that cannot reach each other's memory. */
static void unlinked_note(struct probe *p)
{
	for (uint32_t d = 0; d < p->desc->nr_devices; d++)
		for (uint32_t e = d + 1; e < p->desc->nr_devices; e++)
			if (!is_linked(p, d, e))
				probe_assume(p, NAN,
					     "neither of the two GPUs reaches the other's memory",
					     "link.%s_to_%s_bytes_per_s", p->desc->device[d].name,
					     p->desc->device[e].name);
}

/* ------------------------------------------------------------------ the whole */

static bool is_asked_for(const struct probe *p, uint32_t device)
{
	return p->options->device == PROBE_ALL_DEVICES || p->options->device == device;
}

/* Rates start as estimates; sizes and what is connected are the machine's own. */
static void desc_init(struct probe *p)
{
	struct weir_machine_desc *desc = p->desc;

	*desc = p->b->desc;
	for (uint32_t d = 0; d < desc->nr_devices; d++) {
		uint32_t memory = desc->device[d].memory;

		desc->device[d] = p->estimates->device[d];
		desc->device[d].memory = memory;
	}
	for (uint32_t l = 0; l < desc->nr_links; l++) {
		uint32_t a = desc->link[l].a, b = desc->link[l].b;

		desc->link[l] = p->estimates->link[l];
		desc->link[l].a = a;
		desc->link[l].b = b;
	}
	desc->vmm = p->estimates->vmm;
	desc->vmm.granularity_bytes = p->b->desc.vmm.granularity_bytes;
}

static bool measures_pair(const struct probe *p)
{
	return p->options->device == PROBE_ALL_DEVICES && p->desc->nr_devices > 1;
}

static void steps_count(struct probe *p)
{
	p->nr_steps = PROBE_VMM_STEPS + PROBE_PACKETS_STEPS;
	for (uint32_t d = 0; d < p->desc->nr_devices; d++) {
		if (!is_asked_for(p, d))
			continue;
		p->nr_steps += PROBE_DEVICE_STEPS;
		for (uint32_t l = 0; l < p->desc->nr_links; l++)
			p->nr_steps += is_link_of(p, l, d) ? PROBE_LINK_STEPS : 0;
	}
	p->nr_steps += measures_pair(p) ? PROBE_PAIR_STEPS + PROBE_PORTS_STEPS : 0;
}

/* Noise may leave a link faster each way with both busy than with one. */
static void desc_settle(struct weir_machine_desc *desc)
{
	for (uint32_t l = 0; l < desc->nr_links; l++) {
		struct weir_link_desc *link = &desc->link[l];
		double faster = link->a_to_b_bytes_per_s > link->b_to_a_bytes_per_s
					? link->a_to_b_bytes_per_s
					: link->b_to_a_bytes_per_s;

		if (link->duplex_bytes_per_s > faster)
			link->duplex_bytes_per_s = faster;
	}
}

static int measure(struct probe *p)
{
	char why[128];
	bool first = true;
	int err = 0;

	desc_init(p);
	steps_count(p);
	for (uint32_t d = 0; d < p->desc->nr_devices && !err; d++) {
		if (!is_asked_for(p, d))
			continue;
		err = device_measure(p, d, first);
		first = false;
	}
	if (!err && measures_pair(p)) {
		unlinked_note(p);
		err = pair_measure(p);
	} else if (!err) {
		probe_assume(p, (double)p->estimates->vmm.unmap_busy_peer_ns,
			     "one device is measured, and that takes two",
			     "vmm.unmap_busy_peer_ns");
	}
	if (err)
		return err;
	if (p->no_memory)
		return -ENOMEM;
	desc_settle(p->desc);
	err = weir_machine_check(p->desc, why, sizeof(why));
	if (err)
		log_error("probe: what was measured is no machine: %s", why);
	return err;
}

int probe_run(struct weir_machine *machine, const struct probe_options *options,
	      struct probe_result *out, char *err, size_t err_bytes)
{
	struct backend *b = machine_backend(machine);
	struct probe_result result = {.nr_records = 0};
	struct probe p = {
		.b = b,
		.options = options,
		.estimates = options->estimates ? options->estimates : &b->desc,
		.desc = &result.desc,
		.out = &result,
		.repetitions = options->quick ? QUICK_REPETITIONS : REPETITIONS,
		.host_bytes = options->host_bytes ? options->host_bytes : UINT64_MAX,
	};
	int ret;

	if (options->device != PROBE_ALL_DEVICES && options->device >= b->desc.nr_devices) {
		(void)snprintf(err, err_bytes, "there is no device %u", options->device);
		return -EINVAL;
	}
	ret = measure(&p);
	if (ret) {
		(void)snprintf(err, err_bytes, "measuring %s", p.label);
		probe_result_fini(&result);
		return ret;
	}
	*out = result;
	return 0;
}

const struct probe_record *probe_record_find(const struct probe_result *result, const char *path)
{
	for (uint32_t i = 0; i < result->nr_records; i++)
		if (strcmp(result->record[i].path, path) == 0)
			return &result->record[i];
	return NULL;
}

void probe_result_fini(struct probe_result *result)
{
	free(result->record);
	*result = (struct probe_result){.nr_records = 0};
}
