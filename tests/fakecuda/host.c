/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of the host that programs bring along: registered, and seen by devices. */
#include "tests/fakecuda/fake.h"

static cu_result host_register(void *addr, size_t bytes, unsigned int flags)
{
	uint64_t begin = (uintptr_t)addr;
	int context;
	cu_result result = context_current(&context);

	if (result)
		return result;
	if (!addr || !bytes || begin + bytes < begin || flags & ~15u)
		return CU_INVALID_VALUE;
	return mapping_register(begin, bytes, context);
}

cu_result fake_host_register(void *addr, size_t bytes, unsigned int flags)
{
	cu_result result = call_enter(CALL_host_register);

	return call_leave(result ? result : host_register(addr, bytes, flags));
}

static struct mapping *registered_find(const void *addr)
{
	struct mapping *mapping = mapping_find((uintptr_t)addr);

	return mapping && mapping->kind == MAPPING_REGISTERED &&
			       mapping->range.addr == (uintptr_t)addr
		       ? mapping
		       : NULL;
}

/* Waits for all work that could use it, as the frees do. */
static cu_result host_unregister(const void *addr)
{
	cu_result error = CU_SUCCESS, result;
	int context;

	result = context_current_undo(&context, &error);
	if (result)
		return result;
	if (!registered_find(addr))
		return CU_HOST_NOT_REGISTERED;
	streams_wait(-1);
	if (!registered_find(addr))
		return CU_HOST_NOT_REGISTERED;
	mapping_destroy(registered_find(addr));
	return error ? error : fake.context[context].error;
}

cu_result fake_host_unregister(void *addr)
{
	cu_result result = call_enter(CALL_host_unregister);

	return call_leave(result ? result : host_unregister(addr));
}

/* It has one address for all. */
cu_result fake_host_pointer(cu_ptr *addr, void *host, unsigned int flags)
{
	cu_result result = call_enter(CALL_host_pointer);
	const struct mapping *mapping = result ? NULL : mapping_find((uintptr_t)host);

	if (!result && (!addr || flags || !mapping ||
			(mapping->kind != MAPPING_HOST && mapping->kind != MAPPING_REGISTERED)))
		result = CU_INVALID_VALUE;
	if (!result)
		*addr = (uintptr_t)host;
	return call_leave(result);
}
