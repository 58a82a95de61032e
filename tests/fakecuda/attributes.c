/* SPDX-License-Identifier: Apache-2.0 */
/* What calls tell of an address. */
#include <string.h>

#include "src/base/util.h"
#include "tests/fakecuda/fake.h"

static bool mapping_is_host(const struct mapping *mapping)
{
	return mapping->kind == MAPPING_HOST || mapping->kind == MAPPING_REGISTERED ||
	       (mapping->kind == MAPPING_VMM && mapping->piece->location != CU_LOCATION_DEVICE);
}

static int mapping_device(const struct mapping *mapping)
{
	if (mapping->piece->memory < MEMORY_HOST)
		return (int)mapping->piece->memory;
	return mapping->context < 0 ? 0 : fake.context[mapping->context].device;
}

/* How many bytes an attribute takes; 0: there is none. */
static size_t attribute_bytes(int attribute)
{
	static const uint8_t bytes[] = {
		[CU_POINTER_CONTEXT] = 8,	 [CU_POINTER_MEMORY_TYPE] = 4,
		[CU_POINTER_DEVICE_POINTER] = 8, [CU_POINTER_HOST_POINTER] = 8,
		[CU_POINTER_SYNC_MEMOPS] = 4,	 [CU_POINTER_BUFFER_ID] = 8,
		[CU_POINTER_IS_MANAGED] = 4,	 [CU_POINTER_DEVICE] = 4,
		[CU_POINTER_IPC_CAPABLE] = 4,	 [CU_POINTER_RANGE_START] = 8,
		[CU_POINTER_RANGE_BYTES] = 8,	 [CU_POINTER_MAPPED] = 4,
		[CU_POINTER_HANDLE_TYPES] = 8,	 [CU_POINTER_ACCESS] = 4,
		[CU_POINTER_POOL] = 8,		 [CU_POINTER_MAPPING_BYTES] = 8,
		[CU_POINTER_MAPPING_START] = 8,
	};

	return attribute >= 0 && attribute < (int)ARRAY_LEN(bytes) ? bytes[attribute] : 0;
}

static cu_result access_value(const struct mapping *mapping, uint64_t *value)
{
	int context;
	cu_result result = context_current(&context);

	if (!result)
		*value = mapping->device[fake.context[context].device];
	return result;
}

static cu_result attribute_value(const struct mapping *mapping, int attribute, cu_ptr addr,
				 uint64_t *value)
{
	bool reached = mapping_is_host(mapping) || mapping->kind == MAPPING_MANAGED;
	cu_pool pool = NULL;

	*value = 0;
	switch (attribute) {
	case CU_POINTER_CONTEXT:
		if (mapping->context >= 0)
			*value = (uintptr_t)context_handle(mapping->context);
		return CU_SUCCESS;
	case CU_POINTER_MEMORY_TYPE:
		*value = mapping_is_host(mapping) ? CU_MEMORY_HOST : CU_MEMORY_DEVICE;
		return CU_SUCCESS;
	case CU_POINTER_HOST_POINTER:
		*value = reached ? addr : 0;
		return reached ? CU_SUCCESS : CU_INVALID_VALUE;
	case CU_POINTER_DEVICE_POINTER:
		*value = addr;
		return CU_SUCCESS;
	case CU_POINTER_BUFFER_ID:
		*value = mapping->id;
		return CU_SUCCESS;
	case CU_POINTER_IS_MANAGED:
		*value = mapping->kind == MAPPING_MANAGED;
		return CU_SUCCESS;
	case CU_POINTER_DEVICE:
		*value = (uint64_t)mapping_device(mapping);
		return CU_SUCCESS;
	case CU_POINTER_IPC_CAPABLE:
		*value = mapping->kind == MAPPING_PLAIN;
		return CU_SUCCESS;
	case CU_POINTER_RANGE_START:
	case CU_POINTER_MAPPING_START:
		*value = mapping->range.addr;
		return CU_SUCCESS;
	case CU_POINTER_RANGE_BYTES:
		*value = mapping->range.bytes;
		return CU_SUCCESS;
	case CU_POINTER_MAPPED:
		*value = 1;
		return CU_SUCCESS;
	case CU_POINTER_ACCESS:
		return access_value(mapping, value);
	case CU_POINTER_POOL:
		if (mapping->kind == MAPPING_POOL)
			pool = pool_handle((int)mapping->piece->memory);
		*value = (uintptr_t)pool;
		return CU_SUCCESS;
	case CU_POINTER_MAPPING_BYTES:
		*value = mapping->piece->bytes;
		return CU_SUCCESS;
	default: /* what is always 0 here */
		return CU_SUCCESS;
	}
}

static cu_result attribute_get(void *data, int attribute, cu_ptr addr)
{
	const struct mapping *mapping = mapping_find(addr);
	size_t bytes = attribute_bytes(attribute);
	uint64_t value;
	cu_result result;

	if (!data || !bytes || !mapping)
		return CU_INVALID_VALUE;
	result = attribute_value(mapping, attribute, addr, &value);
	if (!result)
		memcpy(data, &value, bytes);
	return result;
}

cu_result fake_pointer_attribute(void *data, int attribute, cu_ptr addr)
{
	cu_result result = call_enter(CALL_pointer_attribute);

	return call_leave(result ? result : attribute_get(data, attribute, addr));
}

/* What an address does not have is 0, and no error. */
static cu_result attributes_get(unsigned int nr, const int *attributes, void **data, cu_ptr addr)
{
	if (!nr || !attributes || !data)
		return CU_INVALID_VALUE;
	for (unsigned int i = 0; i < nr; i++) {
		if (!data[i] || !attribute_bytes(attributes[i]))
			return CU_INVALID_VALUE;
		if (attribute_get(data[i], attributes[i], addr))
			memset(data[i], 0, attribute_bytes(attributes[i]));
	}
	return CU_SUCCESS;
}

cu_result fake_pointer_attributes(unsigned int nr, int *attributes, void **data, cu_ptr addr)
{
	cu_result result = call_enter(CALL_pointer_attributes);

	return call_leave(result ? result : attributes_get(nr, attributes, data, addr));
}

cu_result fake_mem_range(cu_ptr *base, size_t *bytes, cu_ptr addr)
{
	cu_result result = call_enter(CALL_mem_range);
	const struct mapping *mapping;

	if (result)
		return call_leave(result);
	mapping = mapping_find(addr);
	if (!mapping)
		return call_leave(CU_NOT_FOUND);
	if (base)
		*base = mapping->range.addr;
	if (bytes)
		*bytes = mapping->range.bytes;
	return call_leave(CU_SUCCESS);
}

/* Nothing opens what this gives. */
cu_result fake_ipc_handle(struct cu_ipc_handle *handle, cu_ptr addr)
{
	cu_result result = call_enter(CALL_ipc_handle);
	const struct mapping *mapping = result ? NULL : mapping_find(addr);

	if (!result && (!handle || !mapping || mapping->kind != MAPPING_PLAIN))
		result = CU_INVALID_VALUE;
	if (!result) {
		memset(handle, 0, sizeof(*handle));
		memcpy(handle->reserved, &mapping->id, sizeof(mapping->id));
	}
	return call_leave(result);
}
