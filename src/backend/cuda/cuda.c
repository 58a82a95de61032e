/* SPDX-License-Identifier: Apache-2.0 */
/* Opening the machine's GPUs, describing them, and the table of operations. */
#include "src/backend/cuda/cuda.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "src/backend/cuda/cuda_internal.h"
#include "src/base/log.h"

/* HBM that is left to the driver, to libraries and to the display. */
#define HBM_SPARE (UINT64_C(512) << 20)
#define ENTER_TRIES 4
/* A share of a GPU's memory that is worth a word if others hold it. */
#define TAKEN_SHARE 16u
/* What kernels reach of the memory's nominal rate. */
#define HBM_SHARE 0.92
/* That can be resident on one multiprocessor; on some there are fewer. */
#define MULTIPROCESSOR_WARPS 64u

uint64_t cuda_monotonic_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* How deep the thread is in calls of the driver, and the capture mode that it had before. */
static _Thread_local struct {
	unsigned int depth;
	int mode;
} inside;

void cuda_relax(struct cuda *cuda)
{
	int mode = CU_CAPTURE_MODE_RELAXED;

	if (inside.depth++)
		return;
	(void)cuda_error(&cuda->driver, cuda->driver.capture_mode(&mode),
			 "cuThreadExchangeStreamCaptureMode");
	inside.mode = mode;
}

void cuda_unrelax(struct cuda *cuda)
{
	int mode = inside.mode;

	if (--inside.depth)
		return;
	(void)cuda_error(&cuda->driver, cuda->driver.capture_mode(&mode),
			 "cuThreadExchangeStreamCaptureMode");
}

cu_result cuda_push(struct cuda *cuda, uint32_t device)
{
	cu_result result;

	cuda_relax(cuda);
	result = cuda->driver.context_push(cuda->device[device].context);
	if (result)
		cuda_unrelax(cuda);
	return result;
}

int cuda_enter(struct cuda *cuda, uint32_t device)
{
	return cuda_error(&cuda->driver, cuda_push(cuda, device), "cuCtxPushCurrent");
}

int cuda_enter_surely(struct cuda *cuda, uint32_t device)
{
	int err = cuda_enter(cuda, device);

	for (int i = 1; err && i < ENTER_TRIES; i++)
		err = cuda_enter(cuda, device);
	return err;
}

void cuda_leave(struct cuda *cuda)
{
	cu_context context;

	(void)cuda_error(&cuda->driver, cuda->driver.context_pop(&context), "cuCtxPopCurrent");
	cuda_unrelax(cuda);
}

int cuda_thread_start(pthread_t *thread, void *(*fn)(void *arg), void *arg)
{
	static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT};
	sigset_t signals, before;
	int err;

	sigfillset(&signals);
	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		sigdelset(&signals, own[i]);
	pthread_sigmask(SIG_SETMASK, &signals, &before);
	err = pthread_create(thread, NULL, fn, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return err;
}

/* ------------------------------------------------------------------ the description */

static int attribute(const struct cuda *cuda, uint32_t device, int which, int *value)
{
	return cuda_error(&cuda->driver,
			  cuda->driver.device_attribute(value, which, cuda->device[device].device),
			  "cuDeviceGetAttribute");
}

/*
 * What a machine that was not measured is taken for. Links and mapping calls: measured on an H200
 * on PCIe 5 x16, and not far off on other cards of the time.
 */
static const struct weir_link_desc usual_link = {
	.a_to_b_bytes_per_s = 55.4e9,
	.b_to_a_bytes_per_s = 55.3e9,
	.duplex_bytes_per_s = 49.3e9,
	.latency_ns = 2500,
	.copy_ns = 90,
	.inplace_bytes_per_s = 51.3e9,
	.inplace_small_per_s = 700e6,
	.inplace_large_per_s = 37.8e6,
	.inplace_reach_bytes = UINT64_C(781) << 20,
	.inplace_request_bytes = 128,
	.inplace_duplex_bytes_per_s = 26.5e9,
	.inplace_both_bytes_per_s = 42.1e9,
	.inplace_update_large_per_s = 30.5e6,
};

/* The same for two GPUs on NVLink. */
static const struct weir_link_desc usual_peer = {
	.a_to_b_bytes_per_s = 391e9,
	.b_to_a_bytes_per_s = 391e9,
	.duplex_bytes_per_s = 371e9,
	.latency_ns = 2500,
	.copy_ns = 90,
	.inplace_bytes_per_s = 375e9,
	.inplace_small_per_s = 7.6e9,
	.inplace_large_per_s = 2.9e9,
	.inplace_reach_bytes = UINT64_C(1) << 36,
	.inplace_request_bytes = 128,
	.inplace_duplex_bytes_per_s = 150e9,
	.inplace_both_bytes_per_s = 371e9,
	.inplace_update_large_per_s = 2.9e9,
};

static const struct weir_vmm_desc usual_vmm = {
	.map_ns = 600,
	.set_access_ns = 43000,
	.set_access_device_ns = 53667,
	.unmap_ns = 37000,
	.set_access_host_mib_ns = 12000,
	.unmap_host_mib_ns = 9000,
	.set_access_busy_ns = 1000000,
	.create_hbm_ns = 11000,
	.create_host_ns = 375000,
};

/* Say so where others hold a good part of a GPU. */
static void tell_taken(struct cuda *cuda, uint32_t memory, uint64_t free_bytes, uint64_t bytes)
{
	char holders[256];

	if (bytes - free_bytes < bytes / TAKEN_SHARE)
		return;
	cuda_memory_holders(&cuda->base, memory, holders, sizeof(holders));
	log_warning("%s: %.1f of %.1f GB are taken by others%s%s",
		    cuda->base.desc.memory[memory].name, (double)(bytes - free_bytes) / 1e9,
		    (double)bytes / 1e9, holders[0] ? ": " : "", holders);
}

/* Rates of a device from its clocks. */
static int describe_device(struct cuda *cuda, uint32_t d)
{
	struct weir_device_desc *desc = &cuda->base.desc.device[d];
	struct weir_memory_desc *memory = &cuda->base.desc.memory[d + 1];
	int memory_khz, bits, khz, processors, err;
	size_t free_bytes, bytes;

	desc->memory = d + 1;
	err = attribute(cuda, d, CU_ATTRIBUTE_MEMORY_CLOCK_KHZ, &memory_khz);

	if (!err)
		err = attribute(cuda, d, CU_ATTRIBUTE_MEMORY_BUS_BITS, &bits);
	if (!err)
		err = attribute(cuda, d, CU_ATTRIBUTE_CLOCK_KHZ, &khz);
	if (!err)
		err = attribute(cuda, d, CU_ATTRIBUTE_MULTIPROCESSORS, &processors);
	if (!err)
		err = cuda_enter(cuda, d);
	if (err)
		return err;
	err = cuda_error(&cuda->driver, cuda->driver.mem_info(&free_bytes, &bytes), "cuMemGetInfo");
	cuda_leave(cuda);
	if (err)
		return err;
	(void)snprintf(memory->name, sizeof(memory->name), "gpu%u", d);
	memory->kind = WEIR_MEMORY_HBM;
	cuda->device[d].nr_warps = (uint32_t)processors * MULTIPROCESSOR_WARPS;
	tell_taken(cuda, d + 1, free_bytes, bytes);
	/* What others hold is not there for us. */
	memory->bytes = free_bytes > 2 * HBM_SPARE ? free_bytes - HBM_SPARE : free_bytes;
	(void)snprintf(desc->name, sizeof(desc->name), "gpu%u", d);
	/* Two transfers a clock; 128 multiply-adds a clock in each multiprocessor. */
	desc->hbm_bytes_per_s = HBM_SHARE * 2e3 * memory_khz * bits / 8;
	if (desc->hbm_bytes_per_s <= 0)
		desc->hbm_bytes_per_s = 1e12;
	desc->hbm_random_bytes_per_s = 0.7 * desc->hbm_bytes_per_s;
	desc->ops_per_s = 0.8 * 256e3 * khz * processors;
	if (desc->ops_per_s <= 0)
		desc->ops_per_s = 1e13;
	desc->launch_ns = 2000;
	desc->launch_host_ns = 2500;
	desc->malloc_ns = 20000;
	desc->malloc_2mib_ns = 2160;
	return 0;
}

/* Add a link; the table has room for all pairs of 8 devices. */
static void add_link(struct weir_machine_desc *desc, const struct weir_link_desc *usual, uint32_t a,
		     uint32_t b)
{
	struct weir_link_desc *link = &desc->link[desc->nr_links++];

	*link = *usual;
	link->a = a;
	link->b = b;
}

static int describe_links(struct cuda *cuda)
{
	struct weir_machine_desc *desc = &cuda->base.desc;

	for (uint32_t d = 0; d < desc->nr_devices; d++) {
		add_link(desc, &usual_link, 0, d + 1);
		for (uint32_t e = 0; e < d; e++) {
			int can = 0;
			int err = cuda_error(&cuda->driver,
					     cuda->driver.device_peer(&can, cuda->device[e].device,
								      cuda->device[d].device),
					     "cuDeviceCanAccessPeer");

			if (err)
				return err;
			if (can)
				add_link(desc, &usual_peer, e + 1, d + 1);
		}
	}
	return 0;
}

/* The granularity of chunks in every memory: the largest. */
static int describe_vmm(struct cuda *cuda)
{
	struct weir_vmm_desc *vmm = &cuda->base.desc.vmm;

	*vmm = usual_vmm;
	for (uint32_t d = 0; d <= cuda->base.desc.nr_devices; d++) {
		struct cu_allocation_prop prop = {.type = CU_ALLOCATION_PINNED};
		bool host = d == cuda->base.desc.nr_devices;
		size_t bytes = 0;
		int err;

		prop.location.type = host ? CU_LOCATION_HOST_NUMA : CU_LOCATION_DEVICE;
		prop.location.id = host ? cuda->host_node : cuda->device[d].device;
		err = cuda_error(
			&cuda->driver,
			cuda->driver.mem_granularity(&bytes, &prop, CU_GRANULARITY_MINIMUM),
			"cuMemGetAllocationGranularity");
		if (err)
			return err;
		if (bytes > vmm->granularity_bytes)
			vmm->granularity_bytes = bytes;
	}
	return 0;
}

/* Take rates and costs from measurements of this machine, device by device and link by link. */
static void take_measured(struct weir_machine_desc *desc, const struct weir_machine_desc *measured)
{
	uint64_t granularity = desc->vmm.granularity_bytes;

	for (uint32_t d = 0; d < desc->nr_devices && d < measured->nr_devices; d++) {
		uint32_t memory = desc->device[d].memory;

		desc->device[d] = measured->device[d];
		desc->device[d].memory = memory;
	}
	for (uint32_t l = 0; l < desc->nr_links; l++) {
		struct weir_link_desc *link = &desc->link[l];

		for (uint32_t m = 0; m < measured->nr_links; m++)
			if (measured->link[m].a == link->a && measured->link[m].b == link->b)
				*link = measured->link[m];
	}
	desc->vmm = measured->vmm;
	desc->vmm.granularity_bytes = granularity;
	desc->nr_kernels = measured->nr_kernels;
	memcpy(desc->kernel, measured->kernel, sizeof(desc->kernel));
}

static int describe(struct cuda *cuda, const struct weir_machine_desc *measured)
{
	struct weir_machine_desc *desc = &cuda->base.desc;
	char why[128];
	int err = 0;

	(void)snprintf(desc->name, sizeof(desc->name), "cuda");
	desc->nr_memories = desc->nr_devices + 1;
	desc->memory[0] = (struct weir_memory_desc){.name = "host", .kind = WEIR_MEMORY_HOST};
	desc->memory[0].bytes = cuda_host_bytes(cuda);
	for (uint32_t d = 0; d < desc->nr_devices && !err; d++)
		err = describe_device(cuda, d);
	if (!err)
		err = describe_links(cuda);
	if (!err)
		err = describe_vmm(cuda);
	if (err)
		return err;
	if (measured)
		take_measured(desc, measured);
	err = weir_machine_check(desc, why, sizeof(why));
	if (err)
		log_error("cuda: what the driver says of this machine contradicts itself: %s", why);
	return err;
}

static void cuda_device_text(struct backend *b, uint32_t device, char *text, size_t bytes)
{
	struct cuda *cuda = cuda_of(b);
	const struct cuda_driver *driver = &cuda->driver;
	char name[128] = "GPU of unknown name";

	(void)cuda_error(driver,
			 driver->device_name(name, sizeof(name), cuda->device[device].device),
			 "cuDeviceGetName");
	(void)snprintf(text, bytes, "%s, CUDA %d.%d", name, driver->version / 1000,
		       driver->version % 1000 / 10);
}

/* ------------------------------------------------------------------ devices */

/* Whether a GPU can map what chunks are made of. Its place is the next one of the table. */
static int device_maps(const struct cuda *cuda, int ordinal, bool *maps)
{
	uint32_t d = cuda->base.desc.nr_devices;
	int vmm = 0, host_vmm = 0;
	int err = attribute(cuda, d, CU_ATTRIBUTE_VMM_SUPPORTED, &vmm);

	if (!err)
		err = attribute(cuda, d, CU_ATTRIBUTE_HOST_NUMA_VMM_SUPPORTED, &host_vmm);
	*maps = vmm && host_vmm;
	if (!err && !*maps)
		log_warning("cuda: GPU %d is left out: it cannot map %s memory by handles, as a "
			    "newer GPU or driver can",
			    ordinal, vmm ? "host" : "its");
	return err;
}

/* Take a device's primary context, which the program's own CUDA calls use, too. */
static int device_open(struct cuda *cuda, uint32_t d)
{
	struct cuda_driver *driver = &cuda->driver;
	struct cuda_device *dev = &cuda->device[d];
	int node = 0;
	int err = attribute(cuda, d, CU_ATTRIBUTE_HOST_NUMA_ID, &node);

	if (err)
		return err;
	/* A machine without NUMA says -1 and has node 0. */
	if (!d)
		cuda->host_node = node < 0 ? 0 : node;
	err = cuda_error(driver, driver->context_retain(&dev->context, dev->device),
			 "cuDevicePrimaryCtxRetain");
	if (err)
		return err;
	err = cuda_enter(cuda, d);
	if (err)
		return err;
	err = cuda_time_base(cuda, d);
	cuda_leave(cuda);
	return err;
}

/* Open the GPUs that can map. */
static int devices_open(struct cuda *cuda)
{
	struct cuda_driver *driver = &cuda->driver;
	uint32_t *nr_devices = &cuda->base.desc.nr_devices;
	int nr = 0, err = cuda_error(driver, driver->device_count(&nr), "cuDeviceGetCount");

	for (int i = 0; i < nr && !err && *nr_devices < WEIR_DEVICES_MAX; i++) {
		bool maps = false;

		err = cuda_error(driver, driver->device_get(&cuda->device[*nr_devices].device, i),
				 "cuDeviceGet");
		if (!err)
			err = device_maps(cuda, i, &maps);
		if (!err && maps)
			err = device_open(cuda, (*nr_devices)++);
	}
	if (err || *nr_devices)
		return err;
	log_error("cuda: no GPU is left that can map memory by handles");
	return -ENOTSUP;
}

static void devices_close(struct cuda *cuda)
{
	for (uint32_t d = 0; d < cuda->base.desc.nr_devices; d++)
		if (cuda->device[d].context)
			(void)cuda_error(&cuda->driver,
					 cuda->driver.context_release(cuda->device[d].device),
					 "cuDevicePrimaryCtxRelease");
}

/* Whether host memory can be pinned at all: better told now than in the middle of a run. */
static int try_pinning(struct cuda *cuda)
{
	struct cuda_chunk *chunk;
	int err = cuda_chunk_make(cuda, 0, cuda->base.desc.vmm.granularity_bytes, false, &chunk);

	if (!err)
		cuda_chunk_unmake(cuda, chunk);
	else if (err == -ENOMEM)
		log_error("cuda: the system lets no host memory be pinned: is any free on node %d, "
			  "and does a container forbid it?",
			  cuda->host_node);
	return err;
}

/* ------------------------------------------------------------------ the backend */

static uint64_t cuda_now_ns(struct backend *b)
{
	return cuda_monotonic_ns() - cuda_of(b)->start_ns;
}

static void cuda_host_spend(struct backend *b, uint64_t ns)
{
	struct timespec t = {.tv_sec = (time_t)(ns / 1000000000u),
			     .tv_nsec = (long)(ns % 1000000000u)};

	(void)b;
	while (clock_nanosleep(CLOCK_MONOTONIC, 0, &t, &t) == EINTR)
		;
}

static uint32_t cuda_device_warps(struct backend *b, uint32_t device)
{
	return cuda_of(b)->device[device].nr_warps;
}

/* Give everything back. What is left of others' was reported by those who should have. */
static void cuda_free(struct cuda *cuda)
{
	bool left = cuda->plains || cuda->nr_regions;

	cuda_migrator_stop(cuda);
	cuda_pin_stop(cuda);
	cuda_streams_fini(cuda);
	for (uint32_t i = 0; i < cuda->nr_chunks && !left; i++)
		left = cuda->chunk[i] != NULL;
	if (left)
		log_error("cuda: closed with memory or reservations that nobody gave back");
	while (cuda->plains) {
		void *addr = (void *)(uintptr_t)cuda->plains->addr;

		cuda_device_free(&cuda->base, addr);
	}
	free(cuda->region);
	free(cuda->chunk);
	cuda_relax(cuda);
	devices_close(cuda);
	cuda_unrelax(cuda);
	cuda_driver_close(&cuda->driver);
	pthread_cond_destroy(&cuda->wake);
	pthread_cond_destroy(&cuda->idle);
	pthread_cond_destroy(&cuda->expect);
	pthread_cond_destroy(&cuda->given);
	pthread_mutex_destroy(&cuda->lock);
	free(cuda);
}

static void cuda_destroy(struct backend *b)
{
	if (cuda_of(b)->process == getpid()) {
		cuda_free(cuda_of(b));
		return;
	}
	/* The threads are the parent's, and so is all that the driver holds. */
	log_warning("cuda: a process that fork() made cannot close its parent's machine");
}

static const struct backend_ops cuda_ops = {
	.name = "cuda",
	.destroy = cuda_destroy,
	.now_ns = cuda_now_ns,
	.chunk_create = cuda_chunk_create,
	.chunk_destroy = cuda_chunk_destroy,
	.chunk_expect = cuda_chunk_expect,
	.va_reserve = cuda_va_reserve,
	.va_release = cuda_va_release,
	.map = cuda_map,
	.unmap = cuda_unmap,
	.set_access = cuda_set_access,
	.stream_create = cuda_stream_create,
	.stream_destroy = cuda_stream_destroy,
	.stream_native = cuda_stream_native,
	.stream_call = cuda_stream_call,
	.stream_wait_native = cuda_stream_wait_native,
	.launch = cuda_launch,
	.copy = cuda_copy,
	.upload = cuda_upload,
	.download = cuda_download,
	.stream_wait = cuda_stream_wait,
	.fence_record = cuda_fence_record,
	.fence_mark = cuda_fence_mark,
	.fence_done = cuda_fence_done,
	.fence_wait = cuda_fence_wait,
	.fence_time_ns = cuda_fence_time_ns,
	.access_begin = cuda_access_begin,
	.access_end = cuda_access_end,
	.access_guard = cuda_access_guard,
	.device_alloc = cuda_device_alloc,
	.device_free = cuda_device_free,
	.managed_setup = cuda_managed_setup,
	.managed_alloc = cuda_managed_alloc,
	.managed_prefetch = cuda_managed_prefetch,
	.managed_advise = cuda_managed_advise,
	.managed_free = cuda_managed_free,
	.device_text = cuda_device_text,
	.device_warps = cuda_device_warps,
	.memory_used = cuda_memory_used,
	.memory_room = cuda_memory_room,
	.memory_holders = cuda_memory_holders,
	.host_spend = cuda_host_spend,
	.set_progress = cuda_set_progress,
	.inplace_bytes = cuda_inplace_bytes,
};

/* Whether debug mode is asked for: the one place that reads its variable. */
static int debug_wanted(const struct cuda_config *config, bool *debug)
{
	const char *text = getenv(CUDA_DEBUG_VARIABLE);

	*debug = config->debug || (text && !strcmp(text, "1"));
	if (!text || !*text || !strcmp(text, "0") || !strcmp(text, "1"))
		return 0;
	log_error(CUDA_DEBUG_VARIABLE " is '%s': write 1 to switch debug mode on, or 0", text);
	return -EINVAL;
}

static int sync_init(struct cuda *cuda)
{
	if (pthread_mutex_init(&cuda->lock, NULL))
		return -ENOMEM;
	if (pthread_cond_init(&cuda->wake, NULL))
		goto err_mutex;
	if (pthread_cond_init(&cuda->idle, NULL))
		goto err_wake;
	if (pthread_cond_init(&cuda->expect, NULL))
		goto err_idle;
	if (pthread_cond_init(&cuda->given, NULL))
		goto err_expect;
	return 0;

err_expect:
	pthread_cond_destroy(&cuda->expect);
err_idle:
	pthread_cond_destroy(&cuda->idle);
err_wake:
	pthread_cond_destroy(&cuda->wake);
err_mutex:
	pthread_mutex_destroy(&cuda->lock);
	log_error("cuda: no memory for locks");
	return -ENOMEM;
}

static int machine_open(struct cuda *cuda, const struct weir_machine_desc *measured)
{
	int err;

	cuda_relax(cuda);
	err = devices_open(cuda);
	if (!err)
		err = describe(cuda, measured);
	if (err == -ENOMEM)
		log_error("cuda: no memory to open the GPUs with, of theirs or of the host's: do "
			  "others hold it?");
	if (!err)
		err = try_pinning(cuda);
	cuda_unrelax(cuda);
	return err;
}

int cuda_create(const struct cuda_config *config, struct backend **out)
{
	struct cuda *cuda = calloc(1, sizeof(*cuda));
	int err;

	if (!cuda) {
		log_error("cuda: no memory to open a machine with");
		return -ENOMEM;
	}
	err = debug_wanted(config, &cuda->debug);
	if (!err)
		err = cuda_driver_open(&cuda->driver, config->library, config->quiet);
	if (err)
		goto err_free;
	err = sync_init(cuda);
	if (err)
		goto err_driver;
	cuda->ops = cuda_ops;
	backend_ops_complete(&cuda->ops);
	cuda->base.ops = &cuda->ops;
	cuda->base.data = WEIR_DATA_REAL;
	cuda->start_ns = cuda_monotonic_ns();
	cuda->process = getpid();
	cuda->nvml = config->nvml;
	cuda->root = config->root ? config->root : "";
	err = machine_open(cuda, config->measured);
	if (err) {
		cuda_free(cuda);
		return err;
	}
	*out = &cuda->base;
	return 0;

err_driver:
	cuda_driver_close(&cuda->driver);
err_free:
	free(cuda);
	return err;
}
