/* SPDX-License-Identifier: Apache-2.0 */
/* What there is to replay in a trace: see replay.h. */
#include "workloads/replay.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/util.h"
#include "src/cost/cost.h"

/* ------------------------------------------------------------------ what is in it */

/* A device that has brackets. */
static void note_device(struct replay_plan *plan, uint32_t device)
{
	uint32_t end = plan->device + plan->nr_devices;

	if (!plan->nr_devices) {
		plan->device = device;
		end = device + 1;
	}
	end = MAX(end, device + 1);
	plan->device = MIN(plan->device, device);
	plan->nr_devices = end - plan->device;
}

static int check_alloc(struct replay_plan *plan, const struct trace_alloc *alloc, uint64_t *live,
		       char *err, size_t err_bytes)
{
	if (alloc->flags & (TRACE_ALLOC_PAGED | TRACE_ALLOC_WINDOW)) {
		(void)snprintf(err, err_bytes, "it has paged or replicated ranges");
		return -ENOTSUP;
	}
	*live += alloc->bytes;
	plan->needs_bytes = MAX(plan->needs_bytes, *live);
	return 0;
}

static int check_events(const struct trace_file *file, uint32_t *device, struct replay_plan *plan,
			char *err, size_t err_bytes)
{
	struct trace_cursor cursor = trace_cursor(file);
	const struct trace_event *event;
	bool in_epoch = false;
	uint64_t live = 0;
	int rc = 0;

	while (!rc && (event = trace_next(&cursor))) {
		const void *e = event;

		if (event->kind == TRACE_STREAM) {
			device[event->stream] = ((const struct trace_stream *)e)->device;
		} else if (event->kind == TRACE_BEGIN) {
			note_device(plan, device[event->stream]);
		} else if (event->kind == TRACE_ALLOC) {
			rc = check_alloc(plan, e, &live, err, err_bytes);
		} else if (event->kind == TRACE_FREE) {
			live -= file->life[((const struct trace_free *)e)->life].bytes;
		} else if (event->kind == TRACE_MARK) {
			plan->nr_epochs += in_epoch;
			in_epoch = !trace_is_pause(event);
		}
	}
	return rc;
}

int replay_check(const struct trace_file *file, struct replay_plan *out, char *err,
		 size_t err_bytes)
{
	uint32_t *device = calloc((size_t)file->nr_streams + 1, sizeof(*device));
	int rc = device ? 0 : -ENOMEM;

	*out = (struct replay_plan){0};
	if (rc)
		(void)snprintf(err, err_bytes, "no memory on the host");
	else
		rc = check_events(file, device, out, err, err_bytes);
	free(device);
	if (!rc && !out->needs_bytes) {
		(void)snprintf(err, err_bytes, "nothing is allocated in it");
		rc = -ENOTSUP;
	}
	if (!out->nr_devices)
		note_device(out, (uint32_t)__builtin_ctzll(file->space->devices));
	return rc;
}

void replay_epochs(const struct trace_file *file, struct trace_span *span)
{
	struct trace_cursor cursor = trace_cursor(file);
	const struct trace_event *event;
	bool in_epoch = false;
	uint64_t first = 0;

	for (uint64_t n = 0; (event = trace_next(&cursor)); n++) {
		if (event->kind != TRACE_MARK)
			continue;
		if (in_epoch)
			*span++ = (struct trace_span){first, n};
		in_epoch = !trace_is_pause(event);
		first = n;
	}
}

uint64_t replay_budget(const struct trace_file *file, uint32_t memory)
{
	struct trace_cursor cursor = trace_cursor(file);
	const struct trace_event *event;
	uint64_t bytes = 0;

	while ((event = trace_next(&cursor)) && event->kind != TRACE_MARK) {
		const struct trace_budget *budget = (const void *)event;

		if (event->kind == TRACE_BUDGET && budget->memory == memory)
			bytes = budget->bytes;
	}
	return bytes;
}

/* ------------------------------------------------------------------ kernels */

/* What brackets of one kernel took and were to take. */
struct measured {
	double took_ns, modelled_ns;
};

/* HBM time of a bracket by the description of the machine that recorded, without a factor. */
static double modelled_ns(const struct trace_file *file, const struct trace_cursor *cursor,
			  const struct trace_begin *begin)
{
	uint32_t device = (uint32_t)__builtin_ctzll(file->space->devices);
	struct trace_use_cursor uses = {.cursor = *cursor, .begin = begin};
	const struct trace_file_use *use;
	double ns = 0;

	while ((use = trace_next_use(&uses))) {
		struct weir_use declared = {.bytes = use->bytes,
					    .kind = (enum weir_use_kind)use->kind,
					    .pattern = (enum weir_use_pattern)use->pattern,
					    .read_bytes = use->read_bytes,
					    .write_bytes = use->write_bytes,
					    .granule = use->granule};

		if (use->kind != WEIR_DISCARD)
			ns += cost_hbm_ns(&file->machine.device[device], &declared);
	}
	return ns;
}

/* A bracket that ended. */
struct ended {
	uint64_t bracket;
	double modelled_ns;
	uint32_t kernel;
};

static void measure(const struct trace_file *file, struct ended *ended, double *open_ns,
		    struct measured *kernel)
{
	struct trace_cursor cursor = trace_cursor(file);
	const struct trace_event *event;
	uint64_t nr = 0, at;

	while ((event = trace_next(&cursor))) {
		const struct trace_end *end = (const void *)event;
		const struct trace_time *time = (const void *)event;

		if (event->kind == TRACE_BEGIN) {
			open_ns[event->stream] = modelled_ns(file, &cursor, (const void *)event);
		} else if (event->kind == TRACE_END) {
			ended[nr++] =
				(struct ended){end->bracket, open_ns[event->stream], end->kernel};
		} else if (event->kind == TRACE_TIME && !(time->flags & TRACE_END_IN_PLACE)) {
			SEARCH_SORTED(at, UINT64_C(0), nr, ended[at].bracket < time->bracket);
			if (at == nr || ended[at].bracket != time->bracket)
				continue;
			kernel[ended[at].kernel].took_ns += (double)(time->end_ns - time->begin_ns);
			kernel[ended[at].kernel].modelled_ns += ended[at].modelled_ns;
		}
	}
}

static bool is_listed(const struct weir_machine_desc *machine, const char *name)
{
	for (uint32_t k = 0; k < machine->nr_kernels; k++)
		if (!strcmp(machine->kernel[k].name, name))
			return true;
	return false;
}

static void add_kernel(struct weir_machine_desc *machine, const char *name, double factor)
{
	struct weir_kernel_rate *rate = &machine->kernel[machine->nr_kernels];

	if (machine->nr_kernels == WEIR_KERNELS_MAX || strlen(name) >= WEIR_NAME_MAX ||
	    is_listed(machine, name) || !(factor > 0))
		return;
	(void)snprintf(rate->name, sizeof(rate->name), "%s", name);
	rate->factor = factor;
	machine->nr_kernels++;
	if (weir_machine_check(machine, NULL, 0))
		machine->nr_kernels--; /* a name that no description may have */
}

void replay_kernels(const struct trace_file *file, struct weir_machine_desc *machine)
{
	struct ended *ended = malloc((file->nr_brackets + 1) * sizeof(*ended));
	double *open_ns = calloc((size_t)file->nr_streams + 1, sizeof(*open_ns));
	struct measured *kernel = calloc((size_t)file->nr_names + 1, sizeof(*kernel));

	if (file->space->flags & TRACE_SPACE_SIMULATED) {
		for (uint32_t k = 0; k < file->machine.nr_kernels; k++)
			add_kernel(machine, file->machine.kernel[k].name,
				   file->machine.kernel[k].factor);
	} else if (ended && open_ns && kernel) {
		measure(file, ended, open_ns, kernel);
		for (uint32_t k = 1; k <= file->nr_names; k++)
			if (kernel[k].modelled_ns > 0)
				add_kernel(machine, file->name[k],
					   kernel[k].took_ns / kernel[k].modelled_ns);
	}
	free(ended);
	free(open_ns);
	free(kernel);
}
