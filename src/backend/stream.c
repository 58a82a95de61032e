/* SPDX-License-Identifier: Apache-2.0 */
/* The stream's handle: a stream of the machine's backend, and what was launched on it by name. */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "src/backend/machine.h"

struct weir_stream {
	struct weir_machine *machine;
	uint64_t number; /* among all that were ever made: see stream_number() */
	stream_id_t id;
	uint32_t device;
	/* See stream_kernel_take(). They need not agree: threads that launch on one stream while
	 * its bracket ends are not ordered. */
	_Atomic(const char *) kernel;
	_Atomic(double) ops;
};

/* A stream of the backend's own making, or with native the program's. */
static int stream_open(struct weir_machine *machine, uint32_t device, void *native,
		       struct weir_stream **out)
{
	static atomic_uint_fast64_t nr_made;
	struct backend *b = machine_backend(machine);
	struct weir_stream *stream;
	int err;

	if (device >= b->desc.nr_devices)
		return -EINVAL;
	stream = malloc(sizeof(*stream));
	if (!stream)
		return -ENOMEM;
	err = native ? b->ops->stream_adopt(b, device, native, &stream->id)
		     : b->ops->stream_create(b, device, BACKEND_COMPUTE, &stream->id);
	if (err)
		goto err_free;
	stream->machine = machine;
	stream->device = device;
	stream->number = ++nr_made;
	atomic_init(&stream->kernel, NULL);
	atomic_init(&stream->ops, 0);
	machine_stream_count(machine, true);
	*out = stream;
	return 0;

err_free:
	free(stream);
	return err;
}

int weir_stream_create(struct weir_machine *machine, uint32_t device, struct weir_stream **out)
{
	return stream_open(machine, device, NULL, out);
}

int weir_stream_adopt(struct weir_machine *machine, uint32_t device, void *native,
		      struct weir_stream **out)
{
	return native ? stream_open(machine, device, native, out) : -EINVAL;
}

int weir_stream_sync(struct weir_stream *stream)
{
	struct backend *b = machine_backend(stream->machine);
	uint64_t since_ns = machine_wait_begin(stream->machine);
	fence_t fence;
	int err;

	err = b->ops->fence_record(b, stream->id, &fence);
	if (!err)
		err = b->ops->fence_wait_awake(b, fence);
	machine_wait_end(stream->machine, since_ns);
	return err;
}

int weir_stream_wait(struct weir_stream *stream, struct weir_stream *other)
{
	struct backend *b = machine_backend(stream->machine);
	fence_t fence;
	int err;

	if (other->machine != stream->machine)
		return -EINVAL;
	err = b->ops->fence_record(b, other->id, &fence);
	return err ? err : b->ops->stream_wait(b, stream->id, fence);
}

int weir_stream_wait_native(struct weir_stream *stream, void *native)
{
	struct backend *b = machine_backend(stream->machine);

	return b->ops->stream_wait_native(b, stream->id, native);
}

void weir_stream_destroy(struct weir_stream *stream)
{
	struct backend *b;

	if (!stream)
		return;
	b = machine_backend(stream->machine);
	/* An error is either that of the work, which nobody asks for any more, or that of a call
	 * which may work when tried again. */
	for (int tries = 0; tries < 4 && weir_stream_sync(stream); tries++)
		;
	b->ops->stream_destroy(b, stream->id);
	machine_stream_count(stream->machine, false);
	free(stream);
}

stream_id_t stream_id(const struct weir_stream *stream)
{
	return stream->id;
}

void *weir_stream_native(const struct weir_stream *stream)
{
	struct backend *b = machine_backend(stream->machine);

	return b->ops->stream_native(b, stream->id);
}

uint64_t stream_number(const struct weir_stream *stream)
{
	return stream->number;
}

uint32_t stream_device(const struct weir_stream *stream)
{
	return stream->device;
}

struct weir_machine *stream_machine(const struct weir_stream *stream)
{
	return stream->machine;
}

static void ops_add(struct weir_stream *stream, double ops)
{
	double before = atomic_load(&stream->ops);

	while (!atomic_compare_exchange_weak(&stream->ops, &before, before + ops))
		;
}

void stream_kernel_note(struct weir_stream *stream, const char *name)
{
	const char *before = NULL;

	if (!atomic_compare_exchange_strong(&stream->kernel, &before, name) &&
	    strcmp(before, name) != 0)
		atomic_store(&stream->kernel, "");
}

int weir_stream_launch(struct weir_stream *stream, const struct weir_launch *launch)
{
	struct backend *b = machine_backend(stream->machine);
	int err = b->ops->launch(b, stream->id, launch);

	if (!err && launch->kernel->name)
		stream_kernel_note(stream, launch->kernel->name);
	if (!err && launch->ops != 0)
		ops_add(stream, launch->ops);
	return err;
}

const char *stream_kernel_take(struct weir_stream *stream, double *ops)
{
	double sum = atomic_load(&stream->ops);

	if (sum != 0)
		atomic_store(&stream->ops, 0);
	if (ops)
		*ops = sum;
	/* Mostly there was none, and reading is cheaper than exchanging. */
	return atomic_load(&stream->kernel) ? atomic_exchange(&stream->kernel, NULL) : NULL;
}
