/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events: to record as fences, to sleep on, and the times of those that are reached. Each is used
 * again; lists of free ones belong to the device.
 */
#include <errno.h>
#include <stdlib.h>

#include "src/backend/cuda/cuda_internal.h"
#include "src/base/clock.h"

/* Times are counted anew after so long, since the driver gives them as float. */
#define BASE_MAX_NS UINT64_C(2000000000)

int cuda_event_get(struct cuda *cuda, uint32_t device, bool timed, struct cuda_event **out)
{
	const unsigned int flags = timed ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING;
	struct cuda_event **first = &cuda->device[device].free_events[timed], *event = *first;
	int err;

	if (event) {
		*first = event->next;
		*out = event;
		return 0;
	}
	event = calloc(1, sizeof(*event));
	if (!event)
		return -ENOMEM;
	event->timed = timed;
	event->device = device;
	err = cuda_error(&cuda->driver, cuda->driver.event_create(&event->event, flags),
			 "cuEventCreate");
	if (err)
		free(event);
	else
		*out = event;
	return err;
}

void cuda_event_put(struct cuda *cuda, struct cuda_event *event)
{
	struct cuda_event **first = &cuda->device[event->device].free_events[event->timed];

	event->next = *first;
	*first = event;
}

/* ------------------------------------------------------------------ waiters */

int cuda_waiter_get(struct cuda *cuda, uint32_t device, struct cuda_waiter **out)
{
	const unsigned int flags = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING;
	struct cuda_driver *driver = &cuda->driver;
	struct cuda_waiter *waiter = cuda->device[device].free_waiters;
	int err;

	if (waiter) {
		cuda->device[device].free_waiters = waiter->next;
		*out = waiter;
		return 0;
	}
	waiter = calloc(1, sizeof(*waiter));
	if (!waiter)
		return -ENOMEM;
	err = cuda_error(driver, driver->event_create(&waiter->event, flags), "cuEventCreate");
	if (err)
		goto err_free;
	err = cuda_error(driver, driver->stream_create(&waiter->stream, CU_STREAM_NON_BLOCKING),
			 "cuStreamCreate");
	if (err)
		goto err_event;
	*out = waiter;
	return 0;

err_event:
	(void)cuda_error(driver, driver->event_destroy(waiter->event), "cuEventDestroy");
err_free:
	free(waiter);
	return err;
}

void cuda_waiter_put(struct cuda *cuda, uint32_t device, struct cuda_waiter *waiter)
{
	waiter->next = cuda->device[device].free_waiters;
	cuda->device[device].free_waiters = waiter;
}

int cuda_waiter_aim(struct cuda *cuda, struct cuda_waiter *waiter, const struct cuda_event *event)
{
	struct cuda_driver *driver = &cuda->driver;
	int err = cuda_error(driver, driver->stream_wait(waiter->stream, event->event, 0),
			     "cuStreamWaitEvent");

	return err ? err
		   : cuda_error(driver, driver->event_record(waiter->event, waiter->stream),
				"cuEventRecord");
}

static void waiters_destroy(struct cuda *cuda, struct cuda_waiter *waiter)
{
	struct cuda_driver *driver = &cuda->driver;

	while (waiter) {
		struct cuda_waiter *next = waiter->next;

		(void)cuda_error(driver, driver->stream_destroy(waiter->stream), "cuStreamDestroy");
		(void)cuda_error(driver, driver->event_destroy(waiter->event), "cuEventDestroy");
		free(waiter);
		waiter = next;
	}
}

/* ------------------------------------------------------------------ times */

bool cuda_event_is_far(const struct cuda *cuda, const struct cuda_event *event)
{
	return event->noticed_ns > cuda->device[event->device].base_ns + BASE_MAX_NS;
}

uint64_t cuda_event_time_ns(struct cuda *cuda, struct cuda_event *event)
{
	struct cuda_device *dev = &cuda->device[event->device];
	uint64_t ns = 0;
	bool off;
	float ms;

	if (cuda_error(&cuda->driver,
		       cuda->driver.event_elapsed(&ms, dev->base->event, event->event),
		       "cuEventElapsedTime"))
		goto out;
	ns = dev->base_ns + (uint64_t)(int64_t)((double)ms * 1e6); /* may be before the base */
	off = true;
	if ((int64_t)(ns - event->recorded_ns) < 0)
		ns = event->recorded_ns;
	else if ((int64_t)(event->noticed_ns - ns) < 0)
		ns = event->noticed_ns;
	else
		off = ns > dev->base_ns + BASE_MAX_NS;
	if (off && ns > dev->base_ns) { /* who asks late does not take it back */
		struct cuda_event *old = dev->base;

		dev->base = event;
		dev->base_ns = ns;
		event = old;
	}
out:
	cuda_event_put(cuda, event);
	return ns;
}

int cuda_time_base(struct cuda *cuda, uint32_t device)
{
	struct cuda_device *dev = &cuda->device[device];
	struct cuda_driver *driver = &cuda->driver;
	uint64_t before = clock_now_ns();
	struct cuda_event *event;
	cu_stream stream = NULL;
	int err = cuda_event_get(cuda, device, true, &event);

	if (err)
		return err;
	/* The default stream would spoil what the program captures of streams that wait for it. */
	err = cuda_error(driver, driver->stream_create(&stream, CU_STREAM_NON_BLOCKING),
			 "cuStreamCreate");
	if (!err)
		err = cuda_error(driver, driver->event_record(event->event, stream),
				 "cuEventRecord");
	if (!err)
		err = cuda_error(driver, driver->event_sync(event->event), "cuEventSynchronize");
	if (stream)
		(void)cuda_error(driver, driver->stream_destroy(stream), "cuStreamDestroy");
	if (err) {
		cuda_event_put(cuda, event);
		return err;
	}
	dev->base = event;
	/* Before rather than after: no fence then seems to be reached in the future. */
	dev->base_ns = before - cuda->start_ns;
	return 0;
}

/* ------------------------------------------------------------------ the end */

/* Destroy the events of a list. */
static void events_destroy(struct cuda *cuda, struct cuda_event *event)
{
	while (event) {
		struct cuda_event *next = event->next;

		(void)cuda_error(&cuda->driver, cuda->driver.event_destroy(event->event),
				 "cuEventDestroy");
		free(event);
		event = next;
	}
}

void cuda_events_fini(struct cuda *cuda, uint32_t device)
{
	struct cuda_device *dev = &cuda->device[device];

	if (cuda_enter_surely(cuda, device))
		return;
	if (dev->base) {
		dev->base->next = NULL;
		events_destroy(cuda, dev->base);
	}
	events_destroy(cuda, dev->free_events[false]);
	events_destroy(cuda, dev->free_events[true]);
	waiters_destroy(cuda, dev->free_waiters);
	dev->base = dev->free_events[false] = dev->free_events[true] = NULL;
	dev->free_waiters = NULL;
	cuda_leave(cuda);
}
