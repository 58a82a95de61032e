/* SPDX-License-Identifier: Apache-2.0 */
/* Errors, devices and their attributes. */
#include <string.h>

#include "src/base/util.h"
#include "tests/fakecuda/fake.h"

static const struct {
	cu_result result;
	const char *name, *text;
} errors[] = {
	{CU_SUCCESS, "CUDA_SUCCESS", "no error"},
	{CU_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
	{CU_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
	{CU_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
	{CU_DEINITIALIZED, "CUDA_ERROR_DEINITIALIZED", "driver shutting down"},
	{CU_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
	{CU_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
	{CU_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
	{CU_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
	{CU_INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
	{CU_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
	{CU_HOST_ALREADY_REGISTERED, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
	 "part or all of the requested memory range is already mapped"},
	{CU_HOST_NOT_REGISTERED, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
	 "pointer does not correspond to a registered memory region"},
	{CU_NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
	{CU_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS",
	 "an illegal memory access was encountered"},
	{CU_CONTEXT_IS_DESTROYED, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed"},
	{CU_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
	{CU_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
	{CU_SYSTEM_DRIVER_MISMATCH, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
	 "system has unsupported display driver / cuda driver combination"},
};

cu_result fake_error_name(cu_result error, const char **name)
{
	cu_result result = call_enter(CALL_error_name);

	for (size_t i = 0; !result && i < ARRAY_LEN(errors); i++)
		if (errors[i].result == error) {
			*name = errors[i].name;
			return call_leave(CU_SUCCESS);
		}
	*name = NULL;
	return call_leave(result ? result : CU_INVALID_VALUE);
}

cu_result fake_error_string(cu_result error, const char **text)
{
	cu_result result = call_enter(CALL_error_string);

	for (size_t i = 0; !result && i < ARRAY_LEN(errors); i++)
		if (errors[i].result == error) {
			*text = errors[i].text;
			return call_leave(CU_SUCCESS);
		}
	*text = NULL;
	return call_leave(result ? result : CU_INVALID_VALUE);
}

/* As with the real driver: what a child has of its parent's GPU is of no use to it. */
static void fork_begins(void)
{
	pthread_mutex_lock(&fake.lock);
}

static void fork_ends(void)
{
	pthread_mutex_unlock(&fake.lock);
}

static void fork_made_us(void)
{
	fake.forked = fake.initialised;
	pthread_mutex_unlock(&fake.lock);
}

static void look_for_forks(void)
{
	(void)pthread_atfork(fork_begins, fork_ends, fork_made_us);
}

static cu_result init(unsigned int flags)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	cu_result result;

	if (flags)
		return CU_INVALID_VALUE;
	if (fake.initialised)
		return CU_SUCCESS;
	if (fake.config.devices <= 0)
		return CU_NO_DEVICE;
	(void)pthread_once(&once, look_for_forks);
	result = memories_init();
	fake.initialised = !result;
	return result;
}

cu_result fake_init(unsigned int flags)
{
	cu_result result = call_enter(CALL_init);

	return call_leave(result ? result : init(flags));
}

cu_result fake_driver_version(int *version)
{
	cu_result result = call_enter(CALL_driver_version);

	if (!result && !version)
		result = CU_INVALID_VALUE;
	if (!result)
		*version = fake.config.version;
	return call_leave(result);
}

/* ------------------------------------------------------------------ devices */

cu_result device_check(int device)
{
	return device >= 0 && device < fake.config.devices ? CU_SUCCESS : CU_INVALID_DEVICE;
}

cu_result fake_device_count(int *nr)
{
	cu_result result = call_enter(CALL_device_count);

	if (!result && !nr)
		result = CU_INVALID_VALUE;
	if (!result)
		*nr = fake.config.devices;
	return call_leave(result);
}

cu_result fake_device_get(cu_device *device, int ordinal)
{
	cu_result result = call_enter(CALL_device_get);

	if (!result)
		result = device ? device_check(ordinal) : CU_INVALID_VALUE;
	if (!result)
		*device = ordinal;
	return call_leave(result);
}

cu_result fake_device_name(char *name, int bytes, cu_device device)
{
	cu_result result = call_enter(CALL_device_name);

	if (!result)
		result = name && bytes > 0 ? device_check(device) : CU_INVALID_VALUE;
	if (!result)
		snprintf(name, (size_t)bytes, "Fake H200");
	return call_leave(result);
}

cu_result fake_device_bytes(size_t *bytes, cu_device device)
{
	cu_result result = call_enter(CALL_device_bytes);

	if (!result)
		result = bytes ? device_check(device) : CU_INVALID_VALUE;
	if (!result)
		*bytes = fake.config.hbm_bytes;
	return call_leave(result);
}

cu_result fake_device_pci(char *id, int bytes, cu_device device)
{
	cu_result result = call_enter(CALL_device_pci);

	if (!result)
		result = id && bytes >= 13 ? device_check(device) : CU_INVALID_VALUE;
	if (!result)
		snprintf(id, (size_t)bytes, "0000:%02x:00.0", 0x19 + 0x10 * device);
	return call_leave(result);
}

/* Attributes that no setting changes. */
static const struct {
	int attribute, value;
} attributes[] = {
	{1, 1024},	  /* MAX_THREADS_PER_BLOCK */
	{2, 1024},	  /* MAX_BLOCK_DIM_X */
	{3, 1024},	  /* MAX_BLOCK_DIM_Y */
	{4, 64},	  /* MAX_BLOCK_DIM_Z */
	{5, 0x7fffffff},  /* MAX_GRID_DIM_X */
	{6, 65535},	  /* MAX_GRID_DIM_Y */
	{7, 65535},	  /* MAX_GRID_DIM_Z */
	{8, 49152},	  /* MAX_SHARED_MEMORY_PER_BLOCK */
	{9, 65536},	  /* TOTAL_CONSTANT_MEMORY */
	{10, 32},	  /* WARP_SIZE */
	{11, 0x7fffffff}, /* MAX_PITCH */
	{12, 65536},	  /* MAX_REGISTERS_PER_BLOCK */
	{CU_ATTRIBUTE_CLOCK_KHZ, 1980000},
	{14, PITCH_ALIGN}, /* TEXTURE_ALIGNMENT */
	{15, 1},	   /* GPU_OVERLAP */
	{CU_ATTRIBUTE_MULTIPROCESSORS, 132},
	{17, 0}, /* KERNEL_EXEC_TIMEOUT */
	{18, 0}, /* INTEGRATED */
	{19, 1}, /* CAN_MAP_HOST_MEMORY */
	{20, 0}, /* COMPUTE_MODE */
	{31, 1}, /* CONCURRENT_KERNELS */
	{CU_ATTRIBUTE_MEMORY_CLOCK_KHZ, 3201000},
	{CU_ATTRIBUTE_MEMORY_BUS_BITS, 6144},
	{38, 50 << 20}, /* L2_CACHE_SIZE */
	{39, 2048},	/* MAX_THREADS_PER_MULTIPROCESSOR */
	{40, 3},	/* ASYNC_ENGINE_COUNT */
	{CU_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
	{75, 9}, /* COMPUTE_CAPABILITY_MAJOR */
	{76, 0}, /* COMPUTE_CAPABILITY_MINOR */
	{78, 1}, /* STREAM_PRIORITIES_SUPPORTED */
	{CU_ATTRIBUTE_MANAGED_MEMORY, 1},
	{88, 0},      /* PAGEABLE_MEMORY_ACCESS */
	{89, 1},      /* CONCURRENT_MANAGED_ACCESS */
	{91, 1},      /* CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM */
	{95, 1},      /* COOPERATIVE_LAUNCH */
	{97, 232448}, /* MAX_SHARED_MEMORY_PER_BLOCK_OPTIN */
	{99, 1},      /* HOST_REGISTER_SUPPORTED */
	{115, 1},     /* MEMORY_POOLS_SUPPORTED */
	{CU_ATTRIBUTE_HOST_NUMA_ID, 0},
};

static cu_result attribute_value(int *value, int attribute, cu_device device)
{
	switch (attribute) {
	case CU_ATTRIBUTE_VMM_SUPPORTED:
		*value = !(fake.config.no_vmm & 1u << device);
		return CU_SUCCESS;
	case CU_ATTRIBUTE_HOST_NUMA_VMM_SUPPORTED:
		*value = !(fake.config.no_host_vmm & 1u << device);
		return CU_SUCCESS;
	default:
		break;
	}
	for (size_t i = 0; i < ARRAY_LEN(attributes); i++)
		if (attributes[i].attribute == attribute) {
			*value = attributes[i].value;
			return CU_SUCCESS;
		}
	return CU_INVALID_VALUE;
}

cu_result fake_device_attribute(int *value, int attribute, cu_device device)
{
	cu_result result = call_enter(CALL_device_attribute);

	if (!result)
		result = value ? device_check(device) : CU_INVALID_VALUE;
	if (!result)
		result = attribute_value(value, attribute, device);
	return call_leave(result);
}

cu_result fake_device_peer(int *can, cu_device from, cu_device to)
{
	cu_result result = call_enter(CALL_device_peer);

	if (!result && !can)
		result = CU_INVALID_VALUE;
	if (!result)
		result = device_check(from) ? CU_INVALID_DEVICE : device_check(to);
	if (!result)
		*can = from != to && !fake.config.no_peers;
	return call_leave(result);
}

static void uuid_of(struct cu_uuid *uuid, cu_device device)
{
	memset(uuid, 0, sizeof(*uuid));
	snprintf((char *)uuid->bytes, sizeof(uuid->bytes), "GPU %d", device);
}

cu_result fake_device_uuid(struct cu_uuid *uuid, cu_device device)
{
	cu_result result = call_enter(CALL_device_uuid);

	if (!result)
		result = uuid ? device_check(device) : CU_INVALID_VALUE;
	if (!result)
		uuid_of(uuid, device);
	return call_leave(result);
}

cu_result fake_device_uuid_v2(struct cu_uuid *uuid, cu_device device)
{
	cu_result result = call_enter(CALL_device_uuid_v2);

	if (!result)
		result = uuid ? device_check(device) : CU_INVALID_VALUE;
	if (!result)
		uuid_of(uuid, device);
	return call_leave(result);
}
