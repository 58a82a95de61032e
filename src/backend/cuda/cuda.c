/* SPDX-License-Identifier: Apache-2.0 */
/* Opening the machine's GPUs, the table of operations, and the end. */
#include "src/backend/cuda/cuda.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "src/backend/cuda/cuda_internal.h"
#include "src/base/clock.h"
#include "src/base/log.h"
#include "src/base/mutex.h"
#include "src/base/util.h"
#include "src/base/variables.h"

/* ------------------------------------------------------------------ devices */

/* Whether a GPU can map what chunks are made of. Its place is the next one of the table. */
static int device_maps(const struct cuda *cuda, int ordinal, bool *maps)
{
	uint32_t d = cuda->base.desc.nr_devices;
	int vmm = 0, host_vmm = 0;
	int err = cuda_attribute(cuda, d, CU_ATTRIBUTE_VMM_SUPPORTED, &vmm);

	if (!err)
		err = cuda_attribute(cuda, d, CU_ATTRIBUTE_HOST_NUMA_VMM_SUPPORTED, &host_vmm);
	*maps = vmm && host_vmm;
	if (!err && !*maps)
		log_warning("cuda: GPU %d is left out: it cannot map %s memory by handles, as a "
			    "newer GPU or driver can",
			    ordinal, vmm ? "host" : "its");
	return err;
}

/* Take the GPUs in turn for more devices, where tests want that. */
static void parts_make(struct cuda *cuda)
{
	cuda->nr_gpus = cuda->base.desc.nr_devices;
	cuda->nr_each = 1;
	if (cuda->nr_parts == 1)
		return;
	cuda->nr_gpus = MIN(cuda->nr_gpus, cuda->nr_parts);
	cuda->nr_each = (cuda->nr_parts + cuda->nr_gpus - 1) / cuda->nr_gpus;
	for (uint32_t d = cuda->nr_gpus; d < cuda->nr_parts; d++)
		cuda->device[d].device = cuda->device[d % cuda->nr_gpus].device;
	cuda->base.desc.nr_devices = cuda->nr_parts;
}

/* Open the GPUs that can map. */
static int devices_open(struct cuda *cuda)
{
	struct cuda_driver *driver = &cuda->driver;
	uint32_t *nr_devices = &cuda->base.desc.nr_devices;
	int nr = 0, err = cuda_error(driver, driver->device_count(&nr), "cuDeviceGetCount");
	int node = 0;

	for (int i = 0; i < nr && !err && *nr_devices < WEIR_DEVICES_MAX; i++) {
		bool maps = false;

		err = cuda_error(driver, driver->device_get(&cuda->device[*nr_devices].device, i),
				 "cuDeviceGet");
		if (!err)
			err = device_maps(cuda, i, &maps);
		*nr_devices += !err && maps;
	}
	/* A machine without NUMA says -1 and has node 0. */
	if (!err && *nr_devices)
		err = cuda_attribute(cuda, 0, CU_ATTRIBUTE_HOST_NUMA_ID, &node);
	cuda->host_node = node < 0 ? 0 : node;
	if (!err && *nr_devices)
		parts_make(cuda);
	if (err || *nr_devices)
		return err;
	log_error("cuda: no GPU is left that can map memory by handles");
	return -ENOTSUP;
}

/* Have no context of any device. */
static void devices_stop(struct cuda *cuda)
{
	for (uint32_t d = 0; d < cuda->base.desc.nr_devices; d++)
		cuda_device_stop(cuda, d);
}

/* Whether host memory can be pinned at all: better told now than in the middle of a run. */
static int try_pinning(struct cuda *cuda)
{
	struct cuda_chunk *chunk;
	int err = cuda_chunk_make(cuda, 0, cuda->base.desc.vmm.granularity_bytes,
				  BACKEND_DEVICE_BIT(0), false, &chunk);

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
	return clock_now_ns() - cuda_of(b)->start_ns;
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
	cuda_aside_stop(cuda);
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
	devices_stop(cuda);
	cuda_driver_close(&cuda->driver);
	pthread_cond_destroy(&cuda->wake);
	pthread_cond_destroy(&cuda->idle);
	pthread_cond_destroy(&cuda->expect);
	pthread_cond_destroy(&cuda->given);
	pthread_cond_destroy(&cuda->given_aside);
	pthread_mutex_destroy(&cuda->starting);
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
	.chunk_add_devices = cuda_chunk_add_devices,
	.chunk_destroy = cuda_chunk_destroy,
	.chunk_expect = cuda_chunk_expect,
	.va_reserve = cuda_va_reserve,
	.va_release = cuda_va_release,
	.map = cuda_map,
	.unmap = cuda_unmap,
	.set_access = cuda_set_access,
	.stream_create = cuda_stream_create,
	.stream_destroy = cuda_stream_destroy,
	.stream_adopt = cuda_stream_adopt,
	.stream_native = cuda_stream_native,
	.stream_call = cuda_stream_call,
	.stream_wait_native = cuda_stream_wait_native,
	.launch = cuda_launch,
	.copy = cuda_copy,
	.packet = cuda_packet,
	.packet_prepare = cuda_packet_prepare,
	.digest = cuda_digest,
	.digest_take = cuda_digest_take,
	.digest_prepare = cuda_digest_prepare,
	.upload = cuda_upload,
	.download = cuda_download,
	.calls_begin = cuda_calls_begin,
	.calls_end = cuda_calls_end,
	.stream_wait = cuda_stream_wait,
	.fence_record = cuda_fence_record,
	.fence_untimed = cuda_fence_untimed,
	.fence_done = cuda_fence_done,
	.fence_seen = cuda_fence_seen,
	.fence_wait = cuda_fence_wait,
	.fence_wait_awake = cuda_fence_wait_awake,
	.access_begin = cuda_access_begin,
	.access_end = cuda_access_end,
	.access_narrow = cuda_access_narrow,
	.access_guard = cuda_access_guard,
	.device_alloc = cuda_device_alloc,
	.device_free = cuda_device_free,
	.device_warps = cuda_device_warps,
	.memory_used = cuda_memory_used,
	.memory_room = cuda_memory_room,
	.host_spend = cuda_host_spend,
	.set_progress = cuda_set_progress,
	.aside = cuda_aside,
};

static const struct backend_managed_ops cuda_managed_ops = {
	.setup = cuda_managed_setup,
	.alloc = cuda_managed_alloc,
	.prefetch = cuda_managed_prefetch,
	.advise = cuda_managed_advise,
	.free = cuda_managed_free,
};

static const struct backend_observe_ops cuda_observe_ops = {
	.fence_mark = cuda_fence_mark,
	.fence_time_ns = cuda_fence_time_ns,
	.inplace_bytes = cuda_inplace_bytes,
	.device_text = cuda_device_text,
	.memory_holders = cuda_memory_holders,
};

static int sync_init(struct cuda *cuda)
{
	if (mutex_init_brief(&cuda->lock))
		return -ENOMEM;
	if (pthread_mutex_init(&cuda->starting, NULL))
		goto err_mutex;
	if (pthread_cond_init(&cuda->wake, NULL))
		goto err_starting;
	if (pthread_cond_init(&cuda->idle, NULL))
		goto err_wake;
	if (pthread_cond_init(&cuda->expect, NULL))
		goto err_idle;
	if (pthread_cond_init(&cuda->given, NULL))
		goto err_expect;
	if (pthread_cond_init(&cuda->given_aside, NULL))
		goto err_given;
	return 0;

err_given:
	pthread_cond_destroy(&cuda->given);
err_expect:
	pthread_cond_destroy(&cuda->expect);
err_idle:
	pthread_cond_destroy(&cuda->idle);
err_wake:
	pthread_cond_destroy(&cuda->wake);
err_starting:
	pthread_mutex_destroy(&cuda->starting);
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
		err = cuda_describe(cuda, measured);
	/* They were for the free memory. An only device's is going to be used. */
	if (cuda->base.desc.nr_devices > 1)
		devices_stop(cuda);
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
	cuda->nr_parts = MAX(config->nr_parts, 1);
	err = variable_bool(VARIABLE_CUDA_DEBUG, &cuda->debug);
	cuda->debug |= config->debug;
	if (!err && cuda->nr_parts > WEIR_DEVICES_MAX) {
		log_error("cuda: %u parts of a GPU; up to %d can be", cuda->nr_parts,
			  WEIR_DEVICES_MAX);
		err = -EINVAL;
	}
	if (!err)
		err = digest_key_random(&cuda->digest_key);
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
	cuda->managed = cuda_managed_ops;
	backend_managed_complete(&cuda->managed);
	cuda->base.managed = &cuda->managed;
	cuda->observe = cuda_observe_ops;
	backend_observe_complete(&cuda->observe);
	cuda->base.observe = &cuda->observe;
	cuda->base.data = WEIR_DATA_REAL;
	cuda->base.checks = cuda->debug;
	cuda->base.digest_key = &cuda->digest_key;
	cuda->start_ns = clock_now_ns();
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
