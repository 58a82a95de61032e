/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the program is told of an address of ours: what the driver would say of one of its own plain
 * allocations. The driver itself knows only what is mapped there, which may be the host's memory.
 */
#include <stdatomic.h>

#include "shim/hooks.h"
#include "shim/memory.h"
#include "shim/summary.h"

/* CU_POINTER_ATTRIBUTE_* */
enum {
	CONTEXT = 1,
	MEMORY_TYPE = 2,
	DEVICE_POINTER = 3,
	HOST_POINTER = 4,
	P2P_TOKENS = 5,
	SYNC_MEMOPS = 6,
	BUFFER_ID = 7,
	IS_MANAGED = 8,
	DEVICE_ORDINAL = 9,
	IS_LEGACY_IPC = 10,
	RANGE_START = 11,
	RANGE_SIZE = 12,
	MAPPED = 13,
	ALLOWED_HANDLES = 14,
	IS_RDMA = 15,
	ACCESS = 16,
	POOL = 17,
};
#define TYPE_DEVICE 2u /* CU_MEMORYTYPE_DEVICE */

struct ours {
	cu_ptr addr, base;
	uint64_t bytes;
};

static bool find(cu_ptr addr, struct ours *out)
{
	if (!hook_enter())
		return false;
	out->addr = addr;
	if (memory_find(addr, &out->base, &out->bytes))
		return true;
	hook_leave();
	return false;
}

/* The primary context of the managed device, which stays what it is while our space holds it. */
static void *context(void)
{
	const cu_device device = memory_device();
	cu_context primary = NULL;

	if (!real.cuDevicePrimaryCtxRetain(&primary, device))
		(void)real.cuDevicePrimaryCtxRelease_v2(device);
	return primary;
}

/* The driver has written what it knows. What is true or false may take more than a byte there, of
 * which the first is written. @return CU_NOT_SUPPORTED: there is no more to say */
static cu_result attribute_of(const struct ours *ours, int attribute, void *data)
{
	switch (attribute) {
	case CONTEXT:
		*(void **)data = context();
		return CU_SUCCESS;
	case MEMORY_TYPE:
		*(unsigned int *)data = TYPE_DEVICE;
		return CU_SUCCESS;
	case DEVICE_POINTER:
		*(cu_ptr *)data = ours->addr;
		return CU_SUCCESS;
	case HOST_POINTER:
		*(void **)data = NULL;
		return CU_INVALID_VALUE;
	case BUFFER_ID:
		/* Addresses of live allocations differ, and so do these from the driver's, which
		 * count from 1. */
		*(uint64_t *)data = ours->base;
		return CU_SUCCESS;
	case IS_MANAGED:
	case IS_LEGACY_IPC:
	case IS_RDMA:
		*(bool *)data = false;
		return CU_SUCCESS;
	case DEVICE_ORDINAL:
		*(int *)data = memory_device();
		return CU_SUCCESS;
	case RANGE_START:
		*(cu_ptr *)data = ours->base;
		return CU_SUCCESS;
	case RANGE_SIZE:
		*(size_t *)data = ours->bytes;
		return CU_SUCCESS;
	case MAPPED:
		*(bool *)data = true;
		return CU_SUCCESS;
	case ALLOWED_HANDLES:
		*(uint64_t *)data = 0;
		return CU_SUCCESS;
	case ACCESS: /* an enum */
		*(uint32_t *)data = CU_ACCESS_READWRITE;
		return CU_SUCCESS;
	case POOL:
		*(void **)data = NULL;
		return CU_SUCCESS;
	default:
		return CU_NOT_SUPPORTED;
	}
}

cu_result hook_cuPointerGetAttribute(void *data, int attribute, cu_ptr addr)
{
	cu_result said, result;
	struct ours ours;

	if (!data || !find(addr, &ours))
		return real.cuPointerGetAttribute(data, attribute, addr);
	said = real.cuPointerGetAttribute(data, attribute, addr);
	/* By the other call no address is refused because it is not mapped. */
	if (said)
		said = real.cuPointerGetAttributes(1, &attribute, &data, addr);
	result = attribute_of(&ours, attribute, data);
	hook_leave();
	return result == CU_NOT_SUPPORTED ? said : result;
}

cu_result hook_cuPointerGetAttributes(unsigned int nr, int *attributes, void **data, cu_ptr addr)
{
	struct ours ours;
	cu_result result = real.cuPointerGetAttributes(nr, attributes, data, addr);

	/* The driver has looked at the arguments, and written what we do not. */
	if (result || !find(addr, &ours))
		return result;
	for (unsigned int i = 0; i < nr; i++)
		if (data[i])
			(void)attribute_of(&ours, attributes[i], data[i]);
	hook_leave();
	return CU_SUCCESS;
}

cu_result hook_cuMemGetAddressRange_v2(cu_ptr *base, size_t *bytes, cu_ptr addr)
{
	struct ours ours;

	if (!find(addr, &ours))
		return real.cuMemGetAddressRange_v2(base, bytes, addr);
	if (base)
		*base = ours.base;
	if (bytes)
		*bytes = ours.bytes;
	hook_leave();
	return CU_SUCCESS;
}

/* ------------------------------------------------------------------ leaving the process */

/* Whether an address is ours, which other processes cannot have. Says so once. */
static bool is_kept_here(cu_ptr addr, const char *call)
{
	static atomic_bool said;
	struct ours ours;

	if (!find(addr, &ours))
		return false;
	hook_leave();
	if (!atomic_exchange(&said, true))
		summary_say("%s: memory under weir cannot be shared with other processes; the "
			    "program is told that it is not supported",
			    call);
	return true;
}

cu_result hook_cuIpcGetMemHandle(void *handle, cu_ptr addr)
{
	return is_kept_here(addr, "cuIpcGetMemHandle") ? CU_NOT_SUPPORTED
						       : real.cuIpcGetMemHandle(handle, addr);
}

cu_result hook_cuMemGetHandleForAddressRange(void *handle, cu_ptr addr, size_t bytes, int type,
					     unsigned long long flags)
{
	return is_kept_here(addr, "cuMemGetHandleForAddressRange")
		       ? CU_NOT_SUPPORTED
		       : real.cuMemGetHandleForAddressRange(handle, addr, bytes, type, flags);
}

cu_result hook_cuMemRetainAllocationHandle(cu_handle *handle, void *addr)
{
	return is_kept_here((cu_ptr)(uintptr_t)addr, "cuMemRetainAllocationHandle")
		       ? CU_NOT_SUPPORTED
		       : real.cuMemRetainAllocationHandle(handle, addr);
}
