/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What lies between the public header and a backend: stubs for ops that a backend leaves out, the
 * machine and stream handles, and the check of machine descriptions. Knows no
 * implementation but those that weir_machine_simulate() and weir_machine_cuda() ask for.
 */
#include "src/backend/backend.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/backend/cuda/cuda.h"
#include "src/base/log.h"

struct weir_machine {
	struct backend *backend; /* owned */
	atomic_uint nr_streams;	 /* live handles, for the leak report */
	atomic_uint nr_pools;	 /* the same */
};

struct weir_stream {
	struct weir_machine *machine;
	stream_id_t id;
	uint32_t device;
	_Atomic(const char *) kernel; /* see stream_kernel_take() */
};

/* ------------------------------------------------------------------ ops that may be left out */

static void stub_chunk_expect(struct backend *b, uint32_t memory, uint64_t bytes, int64_t nr)
{
	(void)b, (void)memory, (void)bytes, (void)nr;
}

static int stub_access_begin(struct backend *b, stream_id_t stream, const void *owner,
			     const struct weir_use *uses, uint32_t nr)
{
	(void)b, (void)stream, (void)owner, (void)uses, (void)nr;
	return 0;
}

static void stub_access_end(struct backend *b, stream_id_t stream, const void *owner)
{
	(void)b, (void)stream, (void)owner;
}

static int stub_access_guard(struct backend *b, void *reservation, bool guarded)
{
	(void)b, (void)reservation, (void)guarded;
	return 0;
}

static int stub_fence_mark(struct backend *b, stream_id_t stream, fence_t *out)
{
	return b->ops->fence_record(b, stream, out);
}

static void *stub_stream_native(struct backend *b, stream_id_t stream)
{
	(void)b, (void)stream;
	return NULL;
}

static void stub_device_text(struct backend *b, uint32_t device, char *text, size_t bytes)
{
	snprintf(text, bytes, "%s", b->desc.device[device].name);
}

static uint32_t stub_device_warps(struct backend *b, uint32_t device)
{
	(void)b, (void)device;
	return 64;
}

static int stub_stream_wait_native(struct backend *b, stream_id_t stream, void *native)
{
	(void)b, (void)stream, (void)native;
	return -ENOSYS;
}

static int stub_stream_call(struct backend *b, void *native, int (*fn)(void *native))
{
	(void)b, (void)native, (void)fn;
	return -ENOSYS;
}

static void stub_poison(struct backend *b, const struct backend_chunk *chunk, fence_t after)
{
	(void)b, (void)chunk, (void)after;
}

static uint64_t stub_memory_room(struct backend *b, uint32_t memory)
{
	(void)b, (void)memory;
	return UINT64_MAX;
}

static void stub_memory_holders(struct backend *b, uint32_t memory, char *text, size_t bytes)
{
	(void)b, (void)memory, (void)bytes;
	text[0] = '\0';
}

static int stub_managed_setup(struct backend *b, const struct backend_managed *setup)
{
	(void)b, (void)setup;
	return -ENOSYS;
}

static int stub_managed_stats(struct backend *b, uint32_t device, struct backend_managed_stats *out)
{
	(void)b, (void)device, (void)out;
	return -ENOSYS;
}

static int stub_managed_alloc(struct backend *b, uint64_t bytes, void **addr)
{
	(void)b, (void)bytes, (void)addr;
	return -ENOSYS;
}

static int stub_managed_prefetch(struct backend *b, stream_id_t stream, void *addr, uint64_t bytes,
				 uint32_t memory)
{
	(void)b, (void)stream, (void)addr, (void)bytes, (void)memory;
	return -ENOSYS;
}

static int stub_managed_advise(struct backend *b, void *addr, uint64_t bytes,
			       enum backend_advice advice, uint32_t to)
{
	(void)b, (void)addr, (void)bytes, (void)advice, (void)to;
	return -ENOSYS;
}

static void stub_managed_free(struct backend *b, void *addr)
{
	(void)b, (void)addr;
}

static int stub_device_times(struct backend *b, uint32_t device, uint64_t ns[BACKEND_TIME_NR])
{
	(void)b, (void)device, (void)ns;
	return -ENOSYS;
}

void backend_ops_complete(struct backend_ops *ops)
{
	if (!ops->chunk_expect)
		ops->chunk_expect = stub_chunk_expect;
	/* A backend that cannot check access has nothing to check: that is no failure. */
	if (!ops->access_begin)
		ops->access_begin = stub_access_begin;
	if (!ops->access_end)
		ops->access_end = stub_access_end;
	if (!ops->access_guard)
		ops->access_guard = stub_access_guard;
	if (!ops->fence_mark)
		ops->fence_mark = stub_fence_mark;
	if (!ops->stream_native)
		ops->stream_native = stub_stream_native;
	if (!ops->device_text)
		ops->device_text = stub_device_text;
	if (!ops->device_warps)
		ops->device_warps = stub_device_warps;
	if (!ops->stream_wait_native)
		ops->stream_wait_native = stub_stream_wait_native;
	if (!ops->stream_call)
		ops->stream_call = stub_stream_call;
	if (!ops->poison)
		ops->poison = stub_poison;
	if (!ops->memory_room)
		ops->memory_room = stub_memory_room;
	if (!ops->memory_holders)
		ops->memory_holders = stub_memory_holders;
	if (!ops->managed_setup)
		ops->managed_setup = stub_managed_setup;
	if (!ops->managed_stats)
		ops->managed_stats = stub_managed_stats;
	if (!ops->managed_alloc)
		ops->managed_alloc = stub_managed_alloc;
	if (!ops->managed_prefetch)
		ops->managed_prefetch = stub_managed_prefetch;
	if (!ops->managed_advise)
		ops->managed_advise = stub_managed_advise;
	if (!ops->managed_free)
		ops->managed_free = stub_managed_free;
	if (!ops->device_times)
		ops->device_times = stub_device_times;
}

int backend_advice_check(const struct backend *b, enum backend_advice advice, uint32_t to,
			 uint64_t offset, uint64_t bytes, uint64_t whole)
{
	const struct weir_machine_desc *desc = &b->desc;

	if (!bytes || offset > whole || bytes > whole - offset)
		return -EINVAL;
	if (offset % BACKEND_MANAGED_BLOCK_BYTES ||
	    (bytes % BACKEND_MANAGED_BLOCK_BYTES && bytes != whole - offset))
		return -EINVAL;
	switch (advice) {
	case BACKEND_ADVICE_READ_MOSTLY:
	case BACKEND_ADVICE_UNSET_READ_MOSTLY:
	case BACKEND_ADVICE_UNSET_PREFERRED:
		return 0;
	case BACKEND_ADVICE_PREFERRED:
		return to < desc->nr_memories ? 0 : -EINVAL;
	case BACKEND_ADVICE_ACCESSED_BY:
	case BACKEND_ADVICE_UNSET_ACCESSED_BY:
		return to < desc->nr_devices ? 0 : -EINVAL;
	case BACKEND_ADVICE_NR:
		break;
	}
	return -EINVAL;
}

int backend_budget(struct backend *b, uint32_t memory, uint64_t *bytes)
{
	const struct weir_memory_desc *desc = &b->desc.memory[memory];
	uint64_t room = b->ops->memory_room(b, memory);
	char holders[256];

	if (!*bytes) {
		*bytes = room < desc->bytes ? room : desc->bytes;
		return 0;
	}
	if (*bytes > desc->bytes) {
		log_error("a budget of %.1f MB is beyond memory '%s', which has %.1f MB: ask for "
			  "less",
			  (double)*bytes / 1e6, desc->name, (double)desc->bytes / 1e6);
		return -EINVAL;
	}
	if (*bytes <= room)
		return 0;
	b->ops->memory_holders(b, memory, holders, sizeof(holders));
	log_error("a budget of %.1f MB is beyond the %.1f MB that are free in memory '%s' now: ask "
		  "for less, or see who holds the rest: %s",
		  (double)*bytes / 1e6, (double)room / 1e6, desc->name,
		  holders[0] ? holders : "processes that the system does not name");
	return -ENOMEM;
}

/* ------------------------------------------------------------------ machine */

int machine_wrap(struct backend *b, struct weir_machine **out)
{
	struct weir_machine *machine = malloc(sizeof(*machine));

	if (!machine) {
		log_error("no memory to open a machine with");
		return -ENOMEM;
	}
	machine->backend = b;
	atomic_init(&machine->nr_streams, 0);
	atomic_init(&machine->nr_pools, 0);
	*out = machine;
	return 0;
}

struct backend *machine_backend(const struct weir_machine *machine)
{
	return machine->backend;
}

void machine_set_backend(struct weir_machine *machine, struct backend *wrapper)
{
	machine->backend = wrapper;
}

void machine_pool_count(struct weir_machine *machine, bool more)
{
	if (more)
		atomic_fetch_add(&machine->nr_pools, 1);
	else
		atomic_fetch_sub(&machine->nr_pools, 1);
}

/* The handle of a backend that was just created, or not. */
static int wrap_new(int err, struct backend *const *b, struct weir_machine **out)
{
	if (err)
		return err;
	err = machine_wrap(*b, out);
	if (err)
		(*b)->ops->destroy(*b);
	return err;
}

int weir_machine_simulate(const struct weir_machine_desc *desc, enum weir_data data,
			  struct weir_machine **out)
{
	struct backend *b;
	char why[128];
	int err;

	if (data != WEIR_DATA_REAL && data != WEIR_DATA_PHANTOM) {
		log_error("simulated machine: %d is not a way of holding data", (int)data);
		return -EINVAL;
	}
	err = weir_machine_check(desc, why, sizeof(why));
	if (err) {
		log_error("machine description: %s", why);
		return err;
	}
	return wrap_new(sim_create(desc, data, &b), &b, out);
}

int weir_machine_cuda(const struct weir_machine_desc *measured, struct weir_machine **out)
{
	const struct cuda_config config = {.measured = measured};
	struct backend *b;

	return wrap_new(cuda_create(&config, &b), &b, out);
}

void weir_machine_close(struct weir_machine *machine)
{
	unsigned int left;

	if (!machine)
		return;
	left = atomic_load(&machine->nr_streams);
	if (left)
		log_error("machine '%s' closed with %u streams left", machine->backend->desc.name,
			  left);
	left = atomic_load(&machine->nr_pools);
	if (left)
		log_error("machine '%s' closed with %u pools left: their memory goes",
			  machine->backend->desc.name, left);
	machine->backend->ops->destroy(machine->backend);
	free(machine);
}

const struct weir_machine_desc *weir_machine_describe(const struct weir_machine *machine)
{
	return &machine->backend->desc;
}

int weir_memory_find(const struct weir_machine *machine, const char *name)
{
	const struct weir_machine_desc *desc = &machine->backend->desc;

	if (!name)
		return -ENOENT;
	for (uint32_t i = 0; i < desc->nr_memories; i++)
		if (!strcmp(desc->memory[i].name, name))
			return (int)i;
	return -ENOENT;
}

uint64_t weir_machine_now_ns(const struct weir_machine *machine)
{
	return machine->backend->ops->now_ns(machine->backend);
}

/* ------------------------------------------------------------------ streams, kernels */

int weir_stream_create(struct weir_machine *machine, uint32_t device, struct weir_stream **out)
{
	struct backend *b = machine->backend;
	struct weir_stream *stream;
	int err;

	if (device >= b->desc.nr_devices)
		return -EINVAL;
	stream = malloc(sizeof(*stream));
	if (!stream)
		return -ENOMEM;
	err = b->ops->stream_create(b, device, BACKEND_COMPUTE, &stream->id);
	if (err)
		goto err_free;
	stream->machine = machine;
	stream->device = device;
	atomic_init(&stream->kernel, NULL);
	atomic_fetch_add(&machine->nr_streams, 1);
	*out = stream;
	return 0;

err_free:
	free(stream);
	return err;
}

int weir_stream_sync(struct weir_stream *stream)
{
	struct backend *b = stream->machine->backend;
	fence_t fence;
	int err;

	err = b->ops->fence_record(b, stream->id, &fence);
	return err ? err : b->ops->fence_wait(b, fence);
}

int weir_stream_wait(struct weir_stream *stream, struct weir_stream *other)
{
	struct backend *b = stream->machine->backend;
	fence_t fence;
	int err;

	if (other->machine != stream->machine)
		return -EINVAL;
	err = b->ops->fence_record(b, other->id, &fence);
	return err ? err : b->ops->stream_wait(b, stream->id, fence);
}

int weir_stream_wait_native(struct weir_stream *stream, void *native)
{
	struct backend *b = stream->machine->backend;

	return b->ops->stream_wait_native(b, stream->id, native);
}

void weir_stream_destroy(struct weir_stream *stream)
{
	struct backend *b;

	if (!stream)
		return;
	b = stream->machine->backend;
	/* An error is either that of the work, which nobody asks for any more, or that of a call
	 * which may work when tried again. */
	for (int tries = 0; tries < 4 && weir_stream_sync(stream); tries++)
		;
	b->ops->stream_destroy(b, stream->id);
	atomic_fetch_sub(&stream->machine->nr_streams, 1);
	free(stream);
}

stream_id_t stream_id(const struct weir_stream *stream)
{
	return stream->id;
}

void *weir_stream_native(const struct weir_stream *stream)
{
	struct backend *b = stream->machine->backend;

	return b->ops->stream_native(b, stream->id);
}

uint32_t stream_device(const struct weir_stream *stream)
{
	return stream->device;
}

struct weir_machine *stream_machine(const struct weir_stream *stream)
{
	return stream->machine;
}

int weir_stream_launch(struct weir_stream *stream, const struct weir_launch *launch)
{
	struct backend *b = stream->machine->backend;
	int err = b->ops->launch(b, stream->id, launch);
	const char *before = NULL;

	if (!err && launch->kernel->name &&
	    !atomic_compare_exchange_strong(&stream->kernel, &before, launch->kernel->name) &&
	    strcmp(before, launch->kernel->name) != 0)
		atomic_store(&stream->kernel, "");
	return err;
}

const char *stream_kernel_take(struct weir_stream *stream)
{
	return atomic_exchange(&stream->kernel, NULL);
}

/* ------------------------------------------------------------------ check of a description */

/* Where a check writes its finding. */
struct finding {
	char *text;
	size_t bytes;
};

static int contradiction(const struct finding *why, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static int contradiction(const struct finding *why, const char *format, ...)
{
	va_list args;

	if (why->text && why->bytes) {
		va_start(args, format);
		vsnprintf(why->text, why->bytes, format, args);
		va_end(args);
	}
	return -WEIR_EMACHINE;
}

static bool name_valid(const char name[WEIR_NAME_MAX])
{
	return name[0] && memchr(name, 0, WEIR_NAME_MAX);
}

static bool rate_valid(double rate)
{
	return isfinite(rate) && rate > 0;
}

/* One rate that must be finite and above zero. */
struct rate {
	const char *name;
	double value;
};

static int check_rates(const struct finding *why, const char *what, const char *name,
		       const struct rate *rates, size_t nr)
{
	for (size_t i = 0; i < nr; i++)
		if (!rate_valid(rates[i].value))
			return contradiction(why, "%s '%s': %s is not above zero", what, name,
					     rates[i].name);
	return 0;
}

static int check_memories(const struct weir_machine_desc *desc, const struct finding *why)
{
	bool host = false;

	for (uint32_t i = 0; i < desc->nr_memories; i++) {
		const struct weir_memory_desc *memory = &desc->memory[i];

		if (!name_valid(memory->name))
			return contradiction(why, "memory %u: no name, or one that is too long", i);
		for (uint32_t j = 0; j < i; j++)
			if (!strcmp(memory->name, desc->memory[j].name))
				return contradiction(why, "two memories are called '%s'",
						     memory->name);
		if (memory->kind != WEIR_MEMORY_HOST && memory->kind != WEIR_MEMORY_HBM)
			return contradiction(why, "memory '%s': unknown kind", memory->name);
		if (!memory->bytes)
			return contradiction(why, "memory '%s': bytes is zero", memory->name);
		/* Beyond this, addresses for all of it are not to be had. */
		if (memory->bytes > UINT64_C(1) << 46)
			return contradiction(why, "memory '%s': beyond 64 TiB", memory->name);
		host |= memory->kind == WEIR_MEMORY_HOST;
	}
	return host ? 0 : contradiction(why, "no memory of kind host");
}

static int check_device(const struct weir_machine_desc *desc, uint32_t i, const struct finding *why)
{
	const struct weir_device_desc *device = &desc->device[i];
	const struct rate rates[] = {
		{"hbm_bytes_per_s", device->hbm_bytes_per_s},
		{"hbm_random_bytes_per_s", device->hbm_random_bytes_per_s},
		{"ops_per_s", device->ops_per_s},
	};

	if (!name_valid(device->name))
		return contradiction(why, "device %u: no name, or one that is too long", i);
	if (device->memory >= desc->nr_memories ||
	    desc->memory[device->memory].kind != WEIR_MEMORY_HBM)
		return contradiction(why, "device '%s': memory %u is not an HBM", device->name,
				     device->memory);
	for (uint32_t j = 0; j < i; j++) {
		if (!strcmp(device->name, desc->device[j].name))
			return contradiction(why, "two devices are called '%s'", device->name);
		if (device->memory == desc->device[j].memory)
			return contradiction(why, "devices '%s' and '%s' have one HBM",
					     desc->device[j].name, device->name);
	}
	return check_rates(why, "device", device->name, rates, sizeof(rates) / sizeof(rates[0]));
}

static int check_link(const struct weir_machine_desc *desc, uint32_t i, const struct finding *why)
{
	const struct weir_link_desc *link = &desc->link[i];
	const struct rate rates[] = {
		{"a_to_b_bytes_per_s", link->a_to_b_bytes_per_s},
		{"b_to_a_bytes_per_s", link->b_to_a_bytes_per_s},
		{"duplex_bytes_per_s", link->duplex_bytes_per_s},
		{"inplace_bytes_per_s", link->inplace_bytes_per_s},
		{"inplace_small_per_s", link->inplace_small_per_s},
		{"inplace_large_per_s", link->inplace_large_per_s},
		{"inplace_reach_bytes", (double)link->inplace_reach_bytes},
		{"inplace_request_bytes", (double)link->inplace_request_bytes},
		{"inplace_duplex_bytes_per_s", link->inplace_duplex_bytes_per_s},
		{"inplace_both_bytes_per_s", link->inplace_both_bytes_per_s},
		{"inplace_update_large_per_s", link->inplace_update_large_per_s},
	};
	char name[2 * WEIR_NAME_MAX + 4];

	if (link->a >= desc->nr_memories || link->b >= desc->nr_memories)
		return contradiction(why, "link %u: no such memory", i);
	snprintf(name, sizeof(name), "%s-%s", desc->memory[link->a].name,
		 desc->memory[link->b].name);
	if (link->a == link->b)
		return contradiction(why, "link '%s': both ends are one memory", name);
	if (desc->memory[link->b].kind == WEIR_MEMORY_HOST &&
	    desc->memory[link->a].kind != WEIR_MEMORY_HOST)
		return contradiction(why, "link '%s': the host must be its end a", name);
	for (uint32_t j = 0; j < i; j++) {
		const struct weir_link_desc *other = &desc->link[j];

		if ((link->a == other->a && link->b == other->b) ||
		    (link->a == other->b && link->b == other->a))
			return contradiction(why, "link '%s' is there twice", name);
	}
	if (link->duplex_bytes_per_s > link->a_to_b_bytes_per_s &&
	    link->duplex_bytes_per_s > link->b_to_a_bytes_per_s)
		return contradiction(why, "link '%s': faster each way in duplex than alone", name);
	return check_rates(why, "link", name, rates, sizeof(rates) / sizeof(rates[0]));
}

/* Between a device and the first host memory: what kernels use in place, and copies, go there. */
static bool host_link_exists(const struct weir_machine_desc *desc, uint32_t memory)
{
	uint32_t host = 0;

	while (desc->memory[host].kind != WEIR_MEMORY_HOST)
		host++;
	for (uint32_t i = 0; i < desc->nr_links; i++)
		if (desc->link[i].a == host && desc->link[i].b == memory)
			return true;
	return false;
}

static int check_hbms_owned(const struct weir_machine_desc *desc, const struct finding *why)
{
	for (uint32_t i = 0; i < desc->nr_memories; i++) {
		bool owned = desc->memory[i].kind != WEIR_MEMORY_HBM;

		for (uint32_t j = 0; j < desc->nr_devices; j++)
			owned |= desc->device[j].memory == i;
		if (!owned)
			return contradiction(why, "memory '%s' is the HBM of no device",
					     desc->memory[i].name);
	}
	return 0;
}

static int check_kernels(const struct weir_machine_desc *desc, const struct finding *why)
{
	for (uint32_t i = 0; i < desc->nr_kernels; i++) {
		const struct weir_kernel_rate *kernel = &desc->kernel[i];

		if (!name_valid(kernel->name))
			return contradiction(why, "kernel %u: no name, or one that is too long", i);
		for (uint32_t j = 0; j < i; j++)
			if (!strcmp(kernel->name, desc->kernel[j].name))
				return contradiction(why, "kernel '%s' is there twice",
						     kernel->name);
		if (!rate_valid(kernel->factor))
			return contradiction(why, "kernel '%s': factor is not above zero",
					     kernel->name);
	}
	return 0;
}

static int check_granularity(const struct weir_machine_desc *desc, const struct finding *why)
{
	uint64_t granularity = desc->vmm.granularity_bytes;

	if (granularity < 4096 || granularity & (granularity - 1))
		return contradiction(why,
				     "granularity_bytes is not a power of two of 4096 or more");
	for (uint32_t i = 0; i < desc->nr_memories; i++)
		if (desc->memory[i].bytes < granularity)
			return contradiction(why, "memory '%s' is smaller than granularity_bytes",
					     desc->memory[i].name);
	return 0;
}

/* Beyond a second, a cost of managed memory is a mistake, and sums of it are no times any more. */
#define UVM_NS_MAX UINT64_C(1000000000)

static int check_uvm(const struct weir_machine_desc *desc, const struct finding *why)
{
	const struct weir_uvm_desc *uvm = &desc->uvm;
	const struct {
		const char *name;
		uint64_t ns;
	} costs[] = {
		{"batch_ns", uvm->batch_ns},	     {"page_ns", uvm->page_ns},
		{"populate_ns", uvm->populate_ns},   {"cpu_unmap_ns", uvm->cpu_unmap_ns},
		{"host_page_ns", uvm->host_page_ns},
	};

	if (uvm->batch_faults > BACKEND_UVM_BATCH_MAX)
		return contradiction(why, "uvm: batch_faults is beyond %u", BACKEND_UVM_BATCH_MAX);
	for (size_t i = 0; i < sizeof(costs) / sizeof(costs[0]); i++) {
		if (costs[i].ns && !uvm->batch_faults)
			return contradiction(why, "uvm: batch_faults is zero, and %s is not",
					     costs[i].name);
		if (costs[i].ns > UVM_NS_MAX)
			return contradiction(why, "uvm: %s is beyond a second", costs[i].name);
	}
	return 0;
}

int weir_machine_check(const struct weir_machine_desc *desc, char *why, size_t bytes)
{
	const struct finding finding = {why, bytes};
	int err;

	if (!desc)
		return contradiction(&finding, "no description");
	if (!name_valid(desc->name))
		return contradiction(&finding, "the machine has no name, or one that is too long");
	if (!desc->nr_memories || desc->nr_memories > WEIR_MEMORIES_MAX)
		return contradiction(&finding, "%u memories; 1 to %d can be", desc->nr_memories,
				     WEIR_MEMORIES_MAX);
	if (!desc->nr_devices || desc->nr_devices > WEIR_DEVICES_MAX)
		return contradiction(&finding, "%u devices; 1 to %d can be", desc->nr_devices,
				     WEIR_DEVICES_MAX);
	if (desc->nr_links > WEIR_LINKS_MAX)
		return contradiction(&finding, "%u links; up to %d can be", desc->nr_links,
				     WEIR_LINKS_MAX);
	if (desc->nr_kernels > WEIR_KERNELS_MAX)
		return contradiction(&finding, "%u kernels; up to %d can be", desc->nr_kernels,
				     WEIR_KERNELS_MAX);
	err = check_memories(desc, &finding);
	for (uint32_t i = 0; !err && i < desc->nr_devices; i++)
		err = check_device(desc, i, &finding);
	for (uint32_t i = 0; !err && i < desc->nr_links; i++)
		err = check_link(desc, i, &finding);
	if (!err)
		err = check_hbms_owned(desc, &finding);
	if (!err)
		err = check_granularity(desc, &finding);
	if (!err)
		err = check_kernels(desc, &finding);
	if (!err)
		err = check_uvm(desc, &finding);
	for (uint32_t i = 0; !err && i < desc->nr_devices; i++)
		if (!host_link_exists(desc, desc->device[i].memory))
			err = contradiction(&finding, "device '%s' has no link to the host",
					    desc->device[i].name);
	return err;
}
