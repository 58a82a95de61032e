/* SPDX-License-Identifier: Apache-2.0 */
/* Devices, their attributes, primary contexts, and the stack of contexts of each thread. */
#include <stdarg.h>
#include <string.h>

#include "tests/fakecuda/fake.h"

#define STACK_MAX 32

/* A context is its device; the handle only has to be no other valid pointer. */
#define CONTEXT_BASE UINT64_C(0xc700000000)

/* A stack of an earlier life of the driver counts as empty. */
static _Thread_local struct {
	unsigned generation;
	int nr;
	int device[STACK_MAX];
} stack;

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

	for (size_t i = 0; !result && i < sizeof(errors) / sizeof(errors[0]); i++)
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

	for (size_t i = 0; !result && i < sizeof(errors) / sizeof(errors[0]); i++)
		if (errors[i].result == error) {
			*text = errors[i].text;
			return call_leave(CU_SUCCESS);
		}
	*text = NULL;
	return call_leave(result ? result : CU_INVALID_VALUE);
}

static cu_result init(unsigned int flags)
{
	cu_result result;

	if (flags)
		return CU_INVALID_VALUE;
	if (fake.initialised)
		return CU_SUCCESS;
	if (fake.config.devices <= 0)
		return CU_NO_DEVICE;
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

static cu_result attribute_value(int *value, int attribute, cu_device device)
{
	switch (attribute) {
	case CU_ATTRIBUTE_MULTIPROCESSORS:
		*value = 132;
		return CU_SUCCESS;
	case CU_ATTRIBUTE_CLOCK_KHZ:
		*value = 1980000;
		return CU_SUCCESS;
	case CU_ATTRIBUTE_MEMORY_CLOCK_KHZ:
		*value = 3201000;
		return CU_SUCCESS;
	case CU_ATTRIBUTE_MEMORY_BUS_BITS:
		*value = 6144;
		return CU_SUCCESS;
	case CU_ATTRIBUTE_UNIFIED_ADDRESSING:
	case CU_ATTRIBUTE_MANAGED_MEMORY:
		*value = 1;
		return CU_SUCCESS;
	case CU_ATTRIBUTE_VMM_SUPPORTED:
		*value = !(fake.config.no_vmm & 1u << device);
		return CU_SUCCESS;
	case CU_ATTRIBUTE_HOST_NUMA_VMM_SUPPORTED:
		*value = !(fake.config.no_host_vmm & 1u << device);
		return CU_SUCCESS;
	case CU_ATTRIBUTE_HOST_NUMA_ID:
		*value = 0;
		return CU_SUCCESS;
	default:
		return CU_INVALID_VALUE;
	}
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

/* ------------------------------------------------------------------ contexts */

cu_context context_handle(int device)
{
	return (cu_context)(CONTEXT_BASE + 16 * (uint64_t)device);
}

/* The device whose context a handle is, or a number that is none. */
static int context_device(cu_context context)
{
	uint64_t offset = (uint64_t)(uintptr_t)context - CONTEXT_BASE;

	if (offset % 16 || offset / 16 >= (uint64_t)fake.config.devices ||
	    !fake.context[offset / 16].retains)
		return -1;
	return (int)(offset / 16);
}

void context_break(int device, cu_result error)
{
	if (!fake.context[device].error)
		fake.context[device].error = error;
	streams_wake();
}

static void stack_renew(void)
{
	if (stack.generation != fake.generation)
		stack.nr = 0;
	stack.generation = fake.generation;
}

cu_result context_current_undo(int *device, cu_result *error)
{
	int current;

	stack_renew();
	if (!stack.nr)
		return CU_INVALID_CONTEXT;
	current = stack.device[stack.nr - 1];
	if (!fake.context[current].retains)
		return CU_CONTEXT_IS_DESTROYED;
	*device = current;
	*error = fake.context[current].error;
	return CU_SUCCESS;
}

cu_result context_current(int *device)
{
	cu_result error = CU_SUCCESS, result = context_current_undo(device, &error);

	return result ? result : error;
}

cu_result fake_context_retain(cu_context *context, cu_device device)
{
	cu_result result = call_enter(CALL_context_retain);

	if (!result)
		result = context ? device_check(device) : CU_INVALID_VALUE;
	if (!result) {
		fake.context[device].retains++;
		*context = context_handle(device);
	}
	return call_leave(result);
}

/* The last release resets the context: what is queued is dropped, what runs ends first. */
static void context_reset(int device)
{
	fake.context[device].generation++;
	if (fake.context[device].zero)
		stream_close(fake.context[device].zero);
	fake.context[device].zero = NULL;
	streams_wake();
	streams_wait(device);
	fake.context[device].error = CU_SUCCESS;
}

cu_result fake_context_release(cu_device device)
{
	cu_result result = call_enter(CALL_context_release);

	if (!result)
		result = device_check(device);
	if (!result && !fake.context[device].retains)
		result = CU_INVALID_CONTEXT;
	if (!result && !--fake.context[device].retains)
		context_reset(device);
	return call_leave(result);
}

cu_result fake_context_push(cu_context context)
{
	cu_result result = call_enter(CALL_context_push);
	int device;

	if (result)
		return call_leave(result);
	stack_renew();
	device = context_device(context);
	if (device < 0)
		return call_leave(CU_INVALID_CONTEXT);
	if (stack.nr == STACK_MAX)
		return call_leave(CU_INVALID_VALUE);
	stack.device[stack.nr++] = device;
	return call_leave(CU_SUCCESS);
}

cu_result fake_context_pop(cu_context *context)
{
	cu_result result = call_enter(CALL_context_pop);

	if (result)
		return call_leave(result);
	stack_renew();
	if (!stack.nr)
		return call_leave(CU_INVALID_CONTEXT);
	stack.nr--;
	if (context)
		*context = context_handle(stack.device[stack.nr]);
	return call_leave(CU_SUCCESS);
}

int fakecuda_current_device(void)
{
	int device = -1;

	pthread_mutex_lock(&fake.lock);
	if (context_current(&device))
		device = -1;
	pthread_mutex_unlock(&fake.lock);
	return device;
}

cu_result fake_context_sync(void)
{
	cu_result result = call_enter(CALL_context_sync);
	int device;

	if (!result)
		result = context_current(&device);
	if (!result) {
		streams_wait(device);
		result = fake.context[device].error;
	}
	return call_leave(result);
}
