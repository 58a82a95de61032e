/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels: what a launch may name, when it runs and what it costs. What traps it is sim_trap.c's.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "src/backend/sim/sim_internal.h"
#include "src/base/log.h"
#include "src/base/util.h"

/* ------------------------------------------------------------------ running */

/* Whether a kernel that is ready runs before another one: those of urgent streams first, then in
 * the order in which they became ready. */
static bool goes_before(const struct sim_op *op, const struct sim_op *other)
{
	const bool urgent = op->stream->kind == BACKEND_URGENT;

	if (urgent != (other->stream->kind == BACKEND_URGENT))
		return urgent;
	return op->ready_ns != other->ready_ns ? op->ready_ns < other->ready_ns
					       : op->seq < other->seq;
}

/* Whether it is this kernel's turn. */
static bool kernel_ready(struct sim *sim, struct sim_op *op)
{
	uint32_t device = op->stream->device;

	if (!op->waiting) {
		op->waiting = true;
		op->ready_ns = sim->now_ns;
		sim_kernel_check_packets(sim, (struct sim_kernel *)op);
	}
	if (sim->device[device].running || sim->holds_kernels)
		return false;
	for (uint32_t i = 0; i < sim->nr_active; i++) {
		const struct sim_op *other = sim->active[i]->head;

		if (sim->active[i]->device != device || !other->waiting || other == op)
			continue;
		if (goes_before(other, op))
			return false;
	}
	op->waiting = false;
	return true;
}

/* Run the kernel's function, and say where it went astray. */
static void kernel_execute(struct sim *sim, struct sim_kernel *kernel)
{
	struct sim_fault fault = {NULL, false};
	bool named = false;

	if (sim_exec_run(sim, kernel, &fault)) {
		log_error("kernel '%s': the host refused to open its memory", kernel->kernel->name);
		kernel->err = -EIO;
		return;
	}
	if (!fault.addr)
		return;
	for (uint32_t i = 0; i < kernel->nr_uses; i++)
		named |= sim_use_meets(&kernel->uses[i], fault.addr, 1);
	if (named)
		sim_kernel_trap(sim, kernel, fault.addr,
				fault.write ? "it is read-only, and the kernel writes it"
					    : "the kernel was denied what its use names");
	else
		sim_kernel_trap(sim, kernel, fault.addr,
				fault.write ? "an undeclared write" : "an undeclared read");
}

static void kernel_count_inplace(const struct sim *sim, struct sim_device *device,
				 const struct cost_kernel *cost)
{
	for (uint32_t m = 0; m < sim->base.desc.nr_memories; m++) {
		device->inplace_bytes[m][BACKEND_TO_DEVICE] += cost->read_bytes[m];
		device->inplace_bytes[m][BACKEND_TO_HOST] += cost->written_bytes[m];
	}
}

/* Have what a kernel, or a prefetch, needs of managed memory come. @return how long that takes. */
static uint64_t kernel_service(struct sim *sim, struct sim_kernel *kernel)
{
	uint32_t device = kernel->op.stream->device;
	struct uvm_cost cost = {{0}};
	int err;

	if (kernel->prefetch)
		err = uvm_prefetch(sim, device, kernel->uses, kernel->prefetch_memory, &cost);
	else
		err = uvm_touch(sim, device, kernel->uses, kernel->nr_uses, &cost);
	if (err)
		kernel->err = err;
	return uvm_service_ns(sim, device, &cost, kernel->parts.ns);
}

/* How long a kernel takes beside its flows. */
static uint64_t kernel_alone_ns(const struct sim *sim, const struct sim_kernel *kernel,
				const struct cost_kernel *cost)
{
	double ns = fmax(cost->hbm_ns, cost->ops_ns);

	if (kernel->prefetch)
		return 0;
	return sim_ns_ceil(
		fmax(ns, (double)sim->base.desc.device[kernel->op.stream->device].launch_ns));
}

/* ------------------------------------------------------------------ sharing the HBM */

/* What others move through the device's memory leaves a kernel at least so much of its rate. */
#define HBM_LEAST 0.1

static bool shares_hbm(const struct sim *sim, uint32_t device)
{
	const struct weir_machine_desc *desc = &sim->base.desc;

	for (uint32_t i = 0; i < desc->nr_ports; i++)
		if (desc->port[i].memory == desc->device[device].memory)
			return true;
	return false;
}

static void hbm_begin(const struct sim *sim, struct sim_kernel *kernel,
		      const struct cost_kernel *cost, uint64_t begin_ns)
{
	if (kernel->prefetch || !shares_hbm(sim, kernel->op.stream->device))
		return;
	kernel->hbm_left_ns = cost->hbm_ns;
	kernel->hbm_pace = 1;
	kernel->hbm_since_ns = kernel->begin_ns = begin_ns;
	kernel->least_end_ns = begin_ns + sim_ns_ceil(fmax(cost->ops_ns, cost->launch_ns));
}

/* What others move through the HBM goes first, and the kernel has the rest of its rate. */
static void kernel_flows_changed(struct sim *sim, struct sim_op *op)
{
	struct sim_kernel *kernel = (struct sim_kernel *)op;
	const struct weir_device_desc *desc = &sim->base.desc.device[op->stream->device];
	double others = sim->through[desc->memory] * 1e9 / desc->hbm_bytes_per_s;
	uint64_t end_ns;

	if (kernel->timed_out || !(kernel->hbm_pace > 0))
		return;
	if (sim->now_ns > kernel->hbm_since_ns) {
		double ns = (double)(sim->now_ns - kernel->hbm_since_ns);

		kernel->hbm_left_ns = fmax(kernel->hbm_left_ns - ns * kernel->hbm_pace, 0);
		kernel->hbm_since_ns = sim->now_ns;
	}
	kernel->hbm_pace = fmax(1 - others, HBM_LEAST);
	end_ns = kernel->hbm_since_ns + sim_ns_ceil(kernel->hbm_left_ns / kernel->hbm_pace);
	end_ns = MAX(end_ns, kernel->least_end_ns);
	kernel->parts.ns[BACKEND_TIME_COMPUTE] = end_ns - kernel->begin_ns;
	sim_engine_timer(op, end_ns);
}

static void kernel_start(struct sim *sim, struct sim_op *op)
{
	struct sim_kernel *kernel = (struct sim_kernel *)op;
	struct sim_device *device = &sim->device[op->stream->device];
	const struct weir_machine_desc *desc = &sim->base.desc;
	struct cost_kernel cost = {.nr_flows = 0};
	uint64_t service_ns = 0, alone_ns;

	device->running = kernel;
	if (!kernel->err)
		sim_kernel_survey(sim, kernel);
	if (!kernel->err && cost_kernel(desc, kernel->op.stream->device, kernel->kernel->name,
					kernel->costs, kernel->nr_uses, kernel->ops, &cost)) {
		cost.nr_flows = 0;
		sim_kernel_trap(sim, kernel, kernel->uses[0].addr,
				"the device has no link to the memory that a use lies in");
	}
	if (!kernel->err && sim->uvm.nr_ranges)
		service_ns = kernel_service(sim, kernel);
	if (!kernel->err)
		sim_content_kernel(sim, kernel);
	if (!kernel->err && kernel->kernel->cpu && sim->base.data == WEIR_DATA_REAL)
		kernel_execute(sim, kernel);
	kernel_count_inplace(sim, device, &cost);
	alone_ns = kernel_alone_ns(sim, kernel, &cost);
	kernel->started_ns = sim->now_ns;
	kernel->serial_ns = sim_ns_ceil(cost.serial_ns);
	kernel->parts.ns[BACKEND_TIME_COMPUTE] = alone_ns;
	hbm_begin(sim, kernel, &cost, sim->now_ns + service_ns);
	sim_engine_timer(&kernel->op, sim->now_ns + service_ns + alone_ns);
	kernel->nr_flows = cost.nr_flows;
	for (uint32_t i = 0; i < cost.nr_flows; i++) {
		kernel->flow[i] = (struct sim_flow){
			.op = &kernel->op,
			.link = cost.flow[i].link,
			.back = !cost.flow[i].a_to_b,
			.kind = cost.flow[i].reads ? SIM_FLOW_READ : SIM_FLOW_WRITE,
			.remaining = cost.flow[i].bytes,
			.cap = cost.flow[i].bytes_per_s / 1e9,
		};
		sim_flow_start(sim, &kernel->flow[i]);
	}
}

static void kernel_finish(struct sim *sim, struct sim_kernel *kernel)
{
	uint64_t serial_ns = kernel->serial_ns;

	if (kernel->nr_flows || !kernel->timed_out)
		return;
	if (serial_ns) {
		kernel->serial_ns = 0;
		sim_engine_timer(&kernel->op, sim->now_ns + serial_ns);
		return;
	}
	if (kernel->finish)
		kernel->finish(sim, kernel);
	sim_times_kernel_ended(sim, kernel);
	sim->device[kernel->op.stream->device].running = NULL;
	sim_engine_done(sim, &kernel->op, kernel->err);
}

static void kernel_event(struct sim *sim, struct sim_op *op)
{
	struct sim_kernel *kernel = (struct sim_kernel *)op;

	kernel->timed_out = true;
	kernel_finish(sim, kernel);
}

static void kernel_flow_ended(struct sim *sim, struct sim_op *op)
{
	struct sim_kernel *kernel = (struct sim_kernel *)op;

	kernel->nr_flows--;
	kernel_finish(sim, kernel);
}

static const struct sim_op_kind kernel_kind = {
	.is_kernel = true,
	.ready = kernel_ready,
	.start = kernel_start,
	.event = kernel_event,
	.flow_ended = kernel_flow_ended,
	.flows_changed = kernel_flows_changed,
};

/* ------------------------------------------------------------------ queueing */

bool sim_use_valid(struct sim *sim, uint32_t device, const struct weir_use *use)
{
	const struct sim_region *region = sim_region_at(sim, use->addr);
	const struct sim_piece *piece;
	uint64_t offset;

	if (!use->bytes || use->kind > WEIR_ATOMIC || use->kind == WEIR_READ_ELEMENTS ||
	    use->pattern > WEIR_RANDOM)
		return false;
	if (region)
		return use->bytes <=
		       region->bytes - ((uintptr_t)use->addr - (uintptr_t)region->base);
	if (uvm_range_at(sim, use->addr))
		return uvm_holds(sim, use->addr, use->bytes);
	piece = sim_memory_piece_at(sim, use->addr);
	if (!piece || piece->handle)
		return false;
	offset = (uint64_t)((const char *)use->addr - sim_memory_alias(sim, piece));
	return offset < piece->asked_bytes && use->bytes <= piece->asked_bytes - offset &&
	       (piece->memory == sim->base.desc.device[device].memory ||
		cost_link_find(&sim->base.desc, piece->memory,
			       sim->base.desc.device[device].memory) >= 0);
}

static bool launch_valid(struct sim *sim, uint32_t device, const struct weir_launch *launch)
{
	if (!launch || !launch->kernel || !launch->kernel->name ||
	    (!launch->args && launch->args_bytes) || (!launch->uses && launch->nr_uses) ||
	    !(launch->ops >= 0) || !isfinite(launch->ops))
		return false;
	for (uint32_t i = 0; i < launch->nr_uses; i++)
		if (!sim_use_valid(sim, device, &launch->uses[i]))
			return false;
	return true;
}

/* One block of memory: the op, its flows, costs, uses and arguments, in falling alignment. */
struct sim_kernel *sim_kernel_create(const struct sim *sim, const struct weir_launch *launch)
{
	size_t flows = 2 * (size_t)sim->base.desc.nr_memories * sizeof(struct sim_flow);
	size_t costs = launch->nr_uses * sizeof(struct cost_use);
	size_t uses = launch->nr_uses * sizeof(struct weir_use);
	size_t before = (sizeof(struct sim_kernel) + flows + costs + uses + 15) / 16 * 16;
	struct sim_kernel *kernel;
	char *at;

	if (launch->args_bytes > SIZE_MAX - before)
		return NULL;
	kernel = calloc(1, before + launch->args_bytes);
	if (!kernel)
		return NULL;
	at = (char *)kernel;
	kernel->costs = (struct cost_use *)(void *)(at + sizeof(*kernel) + flows);
	kernel->uses = (struct weir_use *)(void *)(at + sizeof(*kernel) + flows + costs);
	kernel->args = at + before;
	kernel->op.kind = &kernel_kind;
	kernel->kernel = launch->kernel;
	kernel->nr_uses = launch->nr_uses;
	kernel->ops = launch->ops;
	if (uses)
		memcpy(kernel->uses, launch->uses, uses);
	if (launch->args_bytes)
		memcpy(kernel->args, launch->args, launch->args_bytes);
	for (uint32_t i = 0; i < kernel->nr_uses; i++)
		kernel->costs[i].use = &kernel->uses[i];
	return kernel;
}

void sim_kernel_queue(struct sim *sim, struct sim_stream *stream, struct sim_kernel *kernel,
		      uint32_t nr_launches)
{
	uint64_t host_ns = nr_launches * sim->base.desc.device[stream->device].launch_host_ns;

	sim_engine_queue(sim, stream, &kernel->op, host_ns);
	sim_spend(sim, host_ns);
}

static int launch_locked(struct sim *sim, stream_id_t id, const struct weir_launch *launch)
{
	struct sim_stream *stream = sim_stream_find(sim, id);
	struct sim_kernel *kernel;

	if (!stream || !launch_valid(sim, stream->device, launch))
		return -EINVAL;
	if (sim->base.data == WEIR_DATA_REAL && !launch->kernel->cpu) {
		log_error("sim: there is no CPU version of kernel %s", launch->kernel->name);
		return -ENOSYS;
	}
	kernel = sim_kernel_create(sim, launch);
	if (!kernel)
		return -ENOMEM;
	kernel->op.stream = stream;
	kernel->span = stream->bracket ? stream->span : 0;
	sim_kernel_check_bracket(sim, stream, kernel);
	sim_kernel_check_order(sim, stream, kernel);
	sim_kernel_queue(sim, stream, kernel, 1);
	return 0;
}

int sim_launch(struct backend *b, stream_id_t id, const struct weir_launch *launch)
{
	struct sim *sim = sim_of(b);
	int err;

	sim_enter(sim);
	err = launch_locked(sim, id, launch);
	sim_leave(sim);
	return err;
}

static int prefetch_locked(struct sim *sim, stream_id_t id, void *addr, uint64_t bytes,
			   uint32_t memory)
{
	static const struct weir_kernel prefetch = {.name = "prefetch"};
	const struct weir_use use = {.addr = addr, .bytes = bytes, .kind = WEIR_WRITE};
	const struct weir_launch launch = {.kernel = &prefetch, .uses = &use, .nr_uses = 1};
	const struct weir_machine_desc *desc = &sim->base.desc;
	struct sim_stream *stream = sim_stream_find(sim, id);
	struct sim_kernel *kernel;

	if (!stream || !bytes || !uvm_holds(sim, addr, bytes) ||
	    (memory != desc->device[stream->device].memory && memory != cost_host_memory(desc)))
		return -EINVAL;
	kernel = sim_kernel_create(sim, &launch);
	if (!kernel)
		return -ENOMEM;
	kernel->prefetch = true;
	kernel->prefetch_memory = memory;
	sim_kernel_queue(sim, stream, kernel, 1);
	return 0;
}

int sim_managed_prefetch(struct backend *b, stream_id_t id, void *addr, uint64_t bytes,
			 uint32_t memory)
{
	struct sim *sim = sim_of(b);
	int err;

	if (!b->desc.uvm.batch_faults)
		return -ENOSYS;
	sim_enter(sim);
	err = prefetch_locked(sim, id, addr, bytes, memory);
	sim_leave(sim);
	return err;
}
