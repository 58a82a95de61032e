/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts: the devices' primary ones, those that programs create, and the stack of each thread. */
#include "tests/fakecuda/fake.h"

#define STACK_MAX 32

/* The handle of a device's primary context is this and the device's number times 16, those of the
 * others go on behind; a handle only has to be no other valid pointer. */
#define CONTEXT_BASE UINT64_C(0xc700000000)

/* Handles. A stack of an earlier life of the driver counts as empty. */
static _Thread_local struct {
	unsigned generation;
	int nr;
	cu_context context[STACK_MAX];
} stack;

cu_context context_handle(int context)
{
	return (cu_context)fake.context[context].number;
}

/* The number of a context that lives, or -1. */
static int context_find(cu_context handle)
{
	for (int i = 0; i < CONTEXTS_MAX; i++)
		if (fake.context[i].retains && fake.context[i].number == (uintptr_t)handle)
			return i;
	return -1;
}

void context_break(int context, cu_result error)
{
	if (!fake.context[context].error)
		fake.context[context].error = error;
	streams_wake();
}

static void stack_renew(void)
{
	if (stack.generation != fake.generation)
		stack.nr = 0;
	stack.generation = fake.generation;
}

cu_result context_current_undo(int *context, cu_result *error)
{
	int current;

	stack_renew();
	if (!stack.nr)
		return CU_INVALID_CONTEXT;
	current = context_find(stack.context[stack.nr - 1]);
	if (current < 0)
		return CU_CONTEXT_IS_DESTROYED;
	*context = current;
	*error = fake.context[current].error;
	return CU_SUCCESS;
}

cu_result context_current(int *context)
{
	cu_result error = CU_SUCCESS, result = context_current_undo(context, &error);

	return result ? result : error;
}

/* Resets the context: what is queued is dropped, what runs ends first. */
static void context_end(int context)
{
	fake.context[context].generation++;
	for (int i = 0; i < STREAMS_MAX; i++) {
		struct stream *stream = fake.slot[i];

		if (stream && stream->context == context && !stream->closing &&
		    (!stream->number || fake.config.reuse))
			stream_close(stream);
	}
	fake.context[context].zero = NULL;
	streams_wake();
	streams_wait(context);
	modules_end(context);
	fake.context[context].error = CU_SUCCESS;
}

/* ------------------------------------------------------------------ primary contexts */

cu_result fake_context_retain(cu_context *context, cu_device device)
{
	cu_result result = call_enter(CALL_context_retain);

	if (!result)
		result = context ? device_check(device) : CU_INVALID_VALUE;
	if (!result) {
		fake.context[device].number = CONTEXT_BASE + 16 * (uint64_t)device;
		fake.context[device].device = device;
		fake.context[device].retains++;
		*context = context_handle(device);
	}
	return call_leave(result);
}

cu_result fake_context_release(cu_device device)
{
	cu_result result = call_enter(CALL_context_release);

	if (!result)
		result = device_check(device);
	if (!result && !fake.context[device].retains)
		result = CU_INVALID_CONTEXT;
	if (!result && !--fake.context[device].retains)
		context_end(device);
	return call_leave(result);
}

cu_result fake_context_reset(cu_device device)
{
	cu_result result = call_enter(CALL_context_reset);

	if (!result)
		result = device_check(device);
	if (!result)
		context_end(device);
	return call_leave(result);
}

cu_result fake_context_state(cu_device device, unsigned int *flags, int *active)
{
	cu_result result = call_enter(CALL_context_state);

	if (!result)
		result = flags && active ? device_check(device) : CU_INVALID_VALUE;
	if (!result) {
		*flags = 0;
		*active = fake.context[device].retains > 0;
	}
	return call_leave(result);
}

/* ------------------------------------------------------------------ created contexts */

static cu_result stack_push(cu_context context)
{
	stack_renew();
	if (context_find(context) < 0)
		return CU_INVALID_CONTEXT;
	if (stack.nr == STACK_MAX)
		return CU_INVALID_VALUE;
	stack.context[stack.nr++] = context;
	return CU_SUCCESS;
}

/* The new context is the thread's current one. */
static cu_result context_create(cu_context *context, unsigned int flags, cu_device device)
{
	cu_result result = context ? device_check(device) : CU_INVALID_VALUE;
	int i = DEVICES_MAX;

	if (result)
		return result;
	if (flags & ~0xffu)
		return CU_INVALID_VALUE;
	while (i < CONTEXTS_MAX && fake.context[i].retains)
		i++;
	if (i == CONTEXTS_MAX)
		return CU_OUT_OF_MEMORY;
	fake.context[i].number = CONTEXT_BASE + 16 * (uint64_t)(DEVICES_MAX + fake.nr_created);
	fake.context[i].device = device;
	fake.context[i].retains = 1;
	result = stack_push(context_handle(i));
	if (result) {
		fake.context[i].retains = 0;
		return result;
	}
	fake.nr_created++;
	*context = context_handle(i);
	return CU_SUCCESS;
}

cu_result fake_context_create(cu_context *context, unsigned int flags, cu_device device)
{
	cu_result result = call_enter(CALL_context_create);

	return call_leave(result ? result : context_create(context, flags, device));
}

cu_result fake_context_create_v3(cu_context *context, void *parameters, int nr_parameters,
				 unsigned int flags, cu_device device)
{
	cu_result result = call_enter(CALL_context_create_v3);

	if (!result && (parameters || nr_parameters))
		result = CU_NOT_SUPPORTED;
	return call_leave(result ? result : context_create(context, flags, device));
}

cu_result fake_context_create_v4(cu_context *context, void *parameters, unsigned int flags,
				 cu_device device)
{
	cu_result result = call_enter(CALL_context_create_v4);

	if (!result && parameters)
		result = CU_NOT_SUPPORTED;
	return call_leave(result ? result : context_create(context, flags, device));
}

cu_result fake_context_destroy(cu_context handle)
{
	cu_result result = call_enter(CALL_context_destroy);
	int context = result ? -1 : context_find(handle);

	if (result)
		return call_leave(result);
	if (context < DEVICES_MAX)
		return call_leave(CU_INVALID_CONTEXT);
	stack_renew();
	if (stack.nr && stack.context[stack.nr - 1] == handle)
		stack.nr--;
	fake.context[context].retains = 0;
	context_end(context);
	return call_leave(CU_SUCCESS);
}

/* ------------------------------------------------------------------ the current context */

cu_result fake_context_push(cu_context context)
{
	cu_result result = call_enter(CALL_context_push);

	return call_leave(result ? result : stack_push(context));
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
		*context = stack.context[stack.nr];
	return call_leave(CU_SUCCESS);
}

cu_result fake_context_get(cu_context *context)
{
	cu_result result = call_enter(CALL_context_get);

	if (!result && !context)
		result = CU_INVALID_VALUE;
	if (!result) {
		stack_renew();
		*context = stack.nr ? stack.context[stack.nr - 1] : NULL;
	}
	return call_leave(result);
}

/* Replaces the top of the stack; NULL takes it off. */
cu_result fake_context_set(cu_context context)
{
	cu_result result = call_enter(CALL_context_set);

	if (!result && context && context_find(context) < 0)
		result = CU_INVALID_CONTEXT;
	if (result)
		return call_leave(result);
	stack_renew();
	if (stack.nr)
		stack.nr--;
	return call_leave(context ? stack_push(context) : CU_SUCCESS);
}

/* A context that a call names, or with NULL the current one; its error in any case. */
static cu_result context_asked(cu_context handle, int *context, cu_result *error)
{
	if (!handle)
		return context_current_undo(context, error);
	*context = context_find(handle);
	if (*context < 0)
		return CU_INVALID_CONTEXT;
	*error = fake.context[*context].error;
	return CU_SUCCESS;
}

static cu_result context_device(cu_device *device, cu_context handle)
{
	cu_result error = CU_SUCCESS, result;
	int context;

	result = device ? context_asked(handle, &context, &error) : CU_INVALID_VALUE;
	if (!result)
		*device = fake.context[context].device;
	return result;
}

cu_result fake_context_device(cu_device *device)
{
	cu_result result = call_enter(CALL_context_device);

	return call_leave(result ? result : context_device(device, NULL));
}

cu_result fake_context_device_v2(cu_device *device, cu_context context)
{
	cu_result result = call_enter(CALL_context_device_v2);

	return call_leave(result ? result : context_device(device, context));
}

static cu_result context_sync(cu_context handle)
{
	cu_result error = CU_SUCCESS, result;
	int context;

	result = context_asked(handle, &context, &error);
	if (result || error)
		return result ? result : error;
	if (captures_spoil_of(context))
		return CU_CAPTURE_UNSUPPORTED;
	streams_wait(context);
	return fake.context[context].error;
}

cu_result fake_context_sync(void)
{
	cu_result result = call_enter(CALL_context_sync);

	return call_leave(result ? result : context_sync(NULL));
}

cu_result fake_context_sync_v2(cu_context context)
{
	cu_result result = call_enter(CALL_context_sync_v2);

	return call_leave(result ? result : context_sync(context));
}

cu_result fake_stream_priorities(int *least, int *greatest)
{
	cu_result result = call_enter(CALL_stream_priorities);
	int context;

	if (!result)
		result = context_current(&context);
	if (!result && least)
		*least = 0;
	if (!result && greatest)
		*greatest = PRIORITY_GREATEST;
	return call_leave(result);
}

int fakecuda_current_device(void)
{
	int context = 0;
	cu_result result;

	pthread_mutex_lock(&fake.lock);
	result = context_current(&context);
	pthread_mutex_unlock(&fake.lock);
	return result ? -1 : fake.context[context].device;
}
