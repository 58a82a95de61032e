/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is queued on streams: copies between aliases, copies from and to the program's buffers,
 * kernels, packets.
 */
#include <errno.h>
#include <string.h>

#include "src/backend/cuda/cuda_internal.h"
#include "src/base/log.h"

/* Pieces of a copy handed to the driver in one call. */
#define BATCH 64u

/* ------------------------------------------------------------------ copies */

/* Queue pieces whose addresses are the driver's. The context is current. */
static int copy_pieces(struct cuda *cuda, cu_stream stream, cu_ptr *dst, cu_ptr *src, size_t *bytes,
		       size_t nr)
{
	struct cuda_driver *driver = &cuda->driver;
	struct cu_copy_attributes attributes = {.source_order = CU_SOURCE_ORDER_STREAM};
	size_t first = 0;
	int err = 0;

	if (driver->copy_batch && nr > 1)
		return cuda_error(
			driver,
			driver->copy_batch(dst, src, bytes, nr, &attributes, &first, 1, stream),
			"cuMemcpyBatchAsync");
	for (size_t i = 0; i < nr && !err; i++)
		err = cuda_error(driver, driver->copy(dst[i], src[i], bytes[i], stream),
				 "cuMemcpyAsync");
	return err;
}

int cuda_copy(struct backend *b, stream_id_t id, const struct backend_copy *copies, uint32_t nr)
{
	struct cuda *cuda = cuda_of(b);
	cu_ptr dst[BATCH], src[BATCH];
	size_t bytes[BATCH];
	cu_stream stream;
	uint32_t device;
	int err = cuda_stream_get(cuda, id, &stream, &device);

	if (!err)
		err = cuda_enter(cuda, device);
	if (err)
		return err;
	for (uint32_t at = 0; at < nr && !err;) {
		uint32_t n = 0;

		for (; n < BATCH && at < nr; n++, at++) {
			dst[n] = (cu_ptr)(uintptr_t)copies[at].dst;
			src[n] = (cu_ptr)(uintptr_t)copies[at].src;
			bytes[n] = copies[at].bytes;
		}
		err = copy_pieces(cuda, stream, dst, src, bytes, n);
	}
	/* The driver does not say how far it got: a failed call leaves nothing queued. */
	if (err)
		(void)cuda->driver.stream_sync(stream);
	cuda_leave(cuda);
	return err;
}

/* Whether all of it can be copied to or from. */
static int check_range(struct cuda *cuda, cu_ptr addr, uint64_t bytes)
{
	int err = 0;

	pthread_mutex_lock(&cuda->lock);
	while (bytes && !err) {
		struct cuda_place place = {0};

		err = cuda_resolve(cuda, addr, bytes, &place);
		addr += place.bytes;
		bytes -= place.bytes;
	}
	pthread_mutex_unlock(&cuda->lock);
	return err;
}

/*
 * One piece of what follows. The driver stages the program's buffer, if it is pageable, and may
 * wait. Whether it takes two buffers of the host, and in which order then, it does not say: those
 * are the CPU's, after what was queued before.
 */
static int transfer_piece(struct cuda *cuda, cu_stream stream, const struct cuda_place *place,
			  cu_ptr buffer, bool in)
{
	struct cuda_driver *driver = &cuda->driver;
	cu_ptr dst = in ? place->at : buffer, src = in ? buffer : place->at;
	int err;

	if (!place->host)
		return cuda_error(driver, driver->copy(dst, src, place->bytes, stream),
				  "cuMemcpyAsync");
	err = cuda_error(driver, driver->stream_sync(stream), "cuStreamSynchronize");
	if (!err)
		memcpy((void *)(uintptr_t)dst, (const void *)(uintptr_t)src, place->bytes);
	return err;
}

/* Copy between the program's buffer and the machine's memory, piece by piece, since what lies
 * together for a kernel is many chunks; then wait. */
static int transfer(struct cuda *cuda, stream_id_t id, cu_ptr machine, cu_ptr buffer,
		    uint64_t bytes, bool in)
{
	struct cuda_driver *driver = &cuda->driver;
	cu_stream stream;
	uint32_t device;
	int err = cuda_stream_get(cuda, id, &stream, &device), synced;

	if (err || !buffer || !bytes || check_range(cuda, machine, bytes))
		return -EINVAL;
	err = cuda_enter(cuda, device);
	if (err)
		return err;
	while (bytes && !err) {
		struct cuda_place place;

		pthread_mutex_lock(&cuda->lock);
		err = cuda_resolve(cuda, machine, bytes, &place);
		pthread_mutex_unlock(&cuda->lock);
		if (err)
			break;
		err = transfer_piece(cuda, stream, &place, buffer, in);
		machine += place.bytes;
		buffer += place.bytes;
		bytes -= place.bytes;
	}
	synced = cuda_error(driver, driver->stream_sync(stream), "cuStreamSynchronize");
	if (synced) /* the buffer is the caller's again: nothing may be under way to or from it */
		(void)driver->stream_sync(stream);
	cuda_leave(cuda);
	return err ? err : synced;
}

int cuda_upload(struct backend *b, stream_id_t stream, void *dst, const void *data, uint64_t bytes)
{
	return transfer(cuda_of(b), stream, (cu_ptr)(uintptr_t)dst, (cu_ptr)(uintptr_t)data, bytes,
			true);
}

int cuda_download(struct backend *b, stream_id_t stream, void *data, const void *src,
		  uint64_t bytes)
{
	return transfer(cuda_of(b), stream, (cu_ptr)(uintptr_t)src, (cu_ptr)(uintptr_t)data, bytes,
			false);
}

/* ------------------------------------------------------------------ launches */

/* Count what a launch is going to move over links in place. Lock held. */
static int count_inplace(struct cuda *cuda, uint32_t device, const struct weir_launch *launch)
{
	const struct weir_machine_desc *desc = &cuda->base.desc;
	double in[WEIR_MEMORIES_MAX] = {0}, out[WEIR_MEMORIES_MAX] = {0};

	for (uint32_t i = 0; i < launch->nr_uses; i++) {
		const struct weir_use *use = &launch->uses[i];
		uint64_t bytes[WEIR_MEMORIES_MAX];
		int err;

		if (use->kind == WEIR_DISCARD)
			continue;
		err = cuda_use_away(cuda, use, desc->device[device].memory, bytes);
		if (err)
			return err;
		for (uint32_t m = 0; m < desc->nr_memories; m++) {
			double share = bytes[m] ? (double)bytes[m] / (double)use->bytes : 0;

			in[m] += share * (double)use->read_bytes;
			out[m] += share * (double)use->write_bytes;
		}
	}
	for (uint32_t m = 0; m < desc->nr_memories; m++) {
		cuda->inplace_bytes[device][m][BACKEND_TO_DEVICE] += (uint64_t)in[m];
		cuda->inplace_bytes[device][m][BACKEND_TO_HOST] += (uint64_t)out[m];
	}
	return 0;
}

int cuda_launch(struct backend *b, stream_id_t id, const struct weir_launch *launch)
{
	struct cuda *cuda = cuda_of(b);
	cu_stream stream;
	uint32_t device;
	int err = cuda_stream_get(cuda, id, &stream, &device);

	if (err || !launch || !launch->kernel || !launch->kernel->name ||
	    (launch->args_bytes && !launch->args) || (launch->nr_uses && !launch->uses))
		return -EINVAL;
	if (!launch->kernel->cuda) {
		log_error("cuda: there is no CUDA version of kernel %s", launch->kernel->name);
		return -ENOSYS;
	}
	pthread_mutex_lock(&cuda->lock);
	err = count_inplace(cuda, device, launch);
	pthread_mutex_unlock(&cuda->lock);
	if (!err)
		err = cuda_debug_launch_begin(cuda, id, launch);
	if (!err)
		err = cuda_enter(cuda, device);
	if (err)
		return err;
	err = launch->kernel->cuda(stream, launch->args);
	cuda_leave(cuda);
	return err ? err : cuda_debug_launch_end(cuda, stream, device, launch);
}

/* ------------------------------------------------------------------ packets */

int cuda_packet_prepare(struct backend *b, uint32_t device)
{
	struct cuda *cuda = cuda_of(b);
	int err = device < b->desc.nr_devices ? cuda_device_enter(cuda, device) : -EINVAL;

	if (err)
		return err;
	err = cuda_kernels_load(cuda, device);
	cuda_leave(cuda);
	return err;
}

/* In debug mode the elements may be in a guarded reservation, which the kernel gets into in a
 * bracket of its own. */
static int packet_debugged(struct backend *b, stream_id_t id, cu_stream stream, uint32_t device,
			   const struct backend_packet *packet, const struct weir_launch *launch)
{
	struct cuda *cuda = cuda_of(b);
	int err = cuda_access_begin(b, id, launch, launch->uses, launch->nr_uses);

	if (err)
		return err;
	err = cuda_packet_queue(cuda, device, stream, packet);
	if (!err)
		err = cuda_debug_launch_end(cuda, stream, device, launch);
	cuda_access_end(b, id, launch);
	return err;
}

int cuda_packet(struct backend *b, stream_id_t id, const struct backend_packet *packet)
{
	struct cuda *cuda = cuda_of(b);
	struct weir_use uses[BACKEND_PACKET_USES];
	struct weir_launch launch, elements;
	cu_stream stream;
	uint32_t device;
	int err = backend_packet_check(packet);

	if (!err)
		err = cuda_stream_get(cuda, id, &stream, &device);
	if (!err)
		err = cuda_enter(cuda, device);
	if (err)
		return err;
	launch = backend_packet_launch(packet, uses);
	elements = launch;
	elements.nr_uses = 1;
	/* Of those alone: packets and lists are where a copy brought them. Named by an alias, they
	 * do not count either. */
	pthread_mutex_lock(&cuda->lock);
	(void)count_inplace(cuda, device, &elements);
	pthread_mutex_unlock(&cuda->lock);
	err = cuda->debug ? packet_debugged(b, id, stream, device, packet, &launch)
			  : cuda_packet_queue(cuda, device, stream, packet);
	cuda_leave(cuda);
	return err;
}

int cuda_stream_call(struct backend *b, void *native, int (*fn)(void *native))
{
	struct cuda *cuda = cuda_of(b);
	uint32_t device = 0;
	bool found = false;
	int err = -EINVAL;

	pthread_mutex_lock(&cuda->lock);
	for (uint32_t i = 0; i < cuda->nr_streams && native && !found; i++) {
		found = cuda->stream[i]->stream == native;
		device = cuda->stream[i]->device;
	}
	pthread_mutex_unlock(&cuda->lock);
	if (found)
		err = cuda_enter(cuda, device);
	if (err)
		return err;
	err = fn(native);
	cuda_leave(cuda);
	return err;
}

void cuda_inplace_bytes(struct backend *b, uint32_t device, uint32_t memory,
			uint64_t bytes[BACKEND_DIRECTION_NR])
{
	struct cuda *cuda = cuda_of(b);
	bool known = device < WEIR_DEVICES_MAX && memory < WEIR_MEMORIES_MAX;

	pthread_mutex_lock(&cuda->lock);
	for (int d = 0; d < BACKEND_DIRECTION_NR; d++)
		bytes[d] = known ? cuda->inplace_bytes[device][memory][d] : 0;
	pthread_mutex_unlock(&cuda->lock);
}
