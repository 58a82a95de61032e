/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every call of the driver needs: the thread's capture mode and context, places as the driver
 * names them, threads.
 */
#include <assert.h>
#include <pthread.h>
#include <signal.h>

#include "src/backend/cuda/cuda_internal.h"
#include "src/base/util.h"

#define ENTER_TRIES 4
#define CONTEXTS_MAX 8u

/*
 * How deep the thread is in calls of the driver, the capture mode that it had before, and the
 * contexts that it entered. One that is entered again is the thread's already: nothing is asked of
 * the driver for it.
 */
static _Thread_local struct {
	unsigned int depth, nr_contexts;
	int mode;
	cu_context context[CONTEXTS_MAX];
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
	const cu_context context = cuda->device[device].context;
	cu_result result = CU_SUCCESS;

	assert(inside.nr_contexts < CONTEXTS_MAX);
	cuda_relax(cuda);
	if (!inside.nr_contexts || inside.context[inside.nr_contexts - 1] != context)
		result = cuda->driver.context_push(context);
	if (result)
		cuda_unrelax(cuda);
	else
		inside.context[inside.nr_contexts++] = context;
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
	const uint32_t left = --inside.nr_contexts;
	cu_context context;

	if (!left || inside.context[left - 1] != inside.context[left])
		(void)cuda_error(&cuda->driver, cuda->driver.context_pop(&context),
				 "cuCtxPopCurrent");
	cuda_unrelax(cuda);
}

int cuda_thread_start(pthread_t *thread, void *(*fn)(void *arg), void *arg)
{
	static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT};
	sigset_t signals, before;
	int err;

	sigfillset(&signals);
	for (size_t i = 0; i < ARRAY_LEN(own); i++)
		sigdelset(&signals, own[i]);
	pthread_sigmask(SIG_SETMASK, &signals, &before);
	err = pthread_create(thread, NULL, fn, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return err;
}

/* ------------------------------------------------------------------ places */

bool cuda_is_host(const struct cuda *cuda, uint32_t memory)
{
	return cuda->base.desc.memory[memory].kind == WEIR_MEMORY_HOST;
}

uint32_t cuda_device_of(const struct cuda *cuda, uint32_t memory)
{
	uint32_t d = 0;

	while (cuda->base.desc.device[d].memory != memory)
		d++;
	return d;
}

struct cu_location cuda_location(const struct cuda *cuda, uint32_t memory)
{
	if (cuda_is_host(cuda, memory))
		return (struct cu_location){CU_LOCATION_HOST_NUMA, cuda->host_node};
	return (struct cu_location){CU_LOCATION_DEVICE,
				    cuda->device[cuda_device_of(cuda, memory)].device};
}

uint64_t cuda_gpus_of(const struct cuda *cuda, uint64_t devices)
{
	uint64_t gpus = devices & BACKEND_HOST_BIT;

	if (cuda->nr_parts == 1)
		return devices;
	for (uint32_t d = 0; d < cuda->base.desc.nr_devices; d++)
		if (devices & BACKEND_DEVICE_BIT(d))
			gpus |= BACKEND_DEVICE_BIT(d % cuda->nr_gpus);
	return gpus;
}

size_t cuda_access_add(const struct cuda *cuda, enum backend_prot prot, uint64_t devices,
		       struct cu_access list[WEIR_DEVICES_MAX + 1], size_t nr)
{
	int flags = prot == BACKEND_PROT_NONE	? CU_ACCESS_NONE
		    : prot == BACKEND_PROT_READ ? CU_ACCESS_READ
						: CU_ACCESS_READWRITE;

	devices = cuda_gpus_of(cuda, devices);
	for (uint32_t d = 0; d < cuda->base.desc.nr_devices; d++)
		if (devices & BACKEND_DEVICE_BIT(d))
			list[nr++] = (struct cu_access){
				.location = {CU_LOCATION_DEVICE, cuda->device[d].device},
				.flags = flags,
			};
	if (devices & BACKEND_HOST_BIT)
		list[nr++] = (struct cu_access){
			.location = {CU_LOCATION_HOST_NUMA, cuda->host_node},
			.flags = flags,
		};
	return nr;
}

cu_result cuda_access_call(struct cuda *cuda, cu_ptr addr, uint64_t bytes,
			   const struct cu_access *list, size_t nr)
{
	/* With several GPUs two threads in this call are too many for the driver (580.159): one is
	 * told now and then that its memory is mapped already (208). It is the process's driver. */
	static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;
	cu_result result;

	pthread_mutex_lock(&one);
	result = cuda->driver.mem_access(addr, bytes, list, nr);
	pthread_mutex_unlock(&one);
	return result;
}

int cuda_access_set(struct cuda *cuda, cu_ptr addr, uint64_t bytes, const struct cu_access *list,
		    size_t nr)
{
	int err;

	cuda_relax(cuda);
	err = cuda_error(&cuda->driver, cuda_access_call(cuda, addr, bytes, list, nr),
			 "cuMemSetAccess");
	cuda_unrelax(cuda);
	return err;
}
