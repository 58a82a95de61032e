/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The watching backend's operations; see watch.h for what it records. Each passes its call on, in
 * the order in which it came and with what it came, and returns what the other returned.
 */
#include <errno.h>
#include <stdlib.h>

#include "src/backend/watch/watch_internal.h"
#include "src/base/util.h"

static struct backend *inner_of(struct backend *b)
{
	return watch_of(b)->inner;
}

/* ------------------------------------------------------------------ memory and addresses */

static int op_chunk_create(struct backend *b, uint32_t memory, uint64_t bytes, uint64_t devices,
			   struct backend_chunk *out)
{
	struct watch *w = watch_of(b);
	uint64_t begin = watch_call_begin(w);
	int err = w->inner->ops->chunk_create(w->inner, memory, bytes, devices, out);

	watch_call_end(w, WATCH_CREATE, begin, bytes);
	if (!err)
		watch_chunk_add(w, out);
	return err;
}

static int op_chunk_add_devices(struct backend *b, const struct backend_chunk *chunk,
				uint64_t devices)
{
	struct watch *w = watch_of(b);
	uint64_t begin = watch_call_begin(w);
	int err = w->inner->ops->chunk_add_devices(w->inner, chunk, devices);

	watch_call_end(w, WATCH_ACCESS, begin, 0);
	return err;
}

static void op_chunk_destroy(struct backend *b, const struct backend_chunk *chunk)
{
	struct watch *w = watch_of(b);
	uint64_t begin = watch_call_begin(w);

	/* Before: afterwards its addresses may be somebody else's. */
	watch_place_del(w, chunk->alias);
	w->inner->ops->chunk_destroy(w->inner, chunk);
	watch_call_end(w, WATCH_DESTROY, begin, chunk->bytes);
}

static void op_chunk_expect(struct backend *b, uint32_t memory, uint64_t bytes, uint64_t devices,
			    int64_t nr)
{
	inner_of(b)->ops->chunk_expect(inner_of(b), memory, bytes, devices, nr);
}

static int op_va_reserve(struct backend *b, uint64_t bytes, uint64_t unit, void **addr)
{
	struct watch *w = watch_of(b);
	int err = w->inner->ops->va_reserve(w->inner, bytes, unit, addr);

	if (!err)
		watch_region_add(w, *addr, bytes, unit);
	return err;
}

static void op_va_release(struct backend *b, void *addr, uint64_t bytes)
{
	watch_place_del(watch_of(b), addr);
	inner_of(b)->ops->va_release(inner_of(b), addr, bytes);
}

static int op_map(struct backend *b, void *addr, const struct backend_chunk *chunk,
		  enum backend_prot prot, uint64_t devices)
{
	struct watch *w = watch_of(b);
	uint64_t begin = watch_call_begin(w);
	int err = w->inner->ops->map(w->inner, addr, chunk, prot, devices);

	watch_call_end(w, WATCH_MAP, begin, chunk->bytes);
	if (!err)
		watch_map(w, addr, chunk);
	return err;
}

static int op_unmap(struct backend *b, void *addr)
{
	struct watch *w = watch_of(b);
	uint64_t begin = watch_call_begin(w);
	int err = w->inner->ops->unmap(w->inner, addr);

	watch_call_end(w, WATCH_UNMAP, begin, 0);
	if (!err)
		watch_unmap(w, addr);
	return err;
}

static int op_set_access(struct backend *b, void *addr, enum backend_prot prot, uint64_t devices)
{
	struct watch *w = watch_of(b);
	uint64_t begin = watch_call_begin(w);
	int err = w->inner->ops->set_access(w->inner, addr, prot, devices);

	watch_call_end(w, WATCH_ACCESS, begin, 0);
	return err;
}

static int op_device_alloc(struct backend *b, uint32_t memory, uint64_t bytes, void **addr)
{
	struct watch *w = watch_of(b);
	uint64_t begin = watch_call_begin(w);
	int err = w->inner->ops->device_alloc(w->inner, memory, bytes, addr);

	watch_call_end(w, WATCH_ALLOC, begin, bytes);
	if (!err)
		watch_plain_add(w, *addr, bytes, memory);
	return err;
}

static void op_device_free(struct backend *b, void *addr)
{
	struct watch *w = watch_of(b);
	uint64_t begin = watch_call_begin(w);

	if (addr)
		watch_place_del(w, addr);
	w->inner->ops->device_free(w->inner, addr);
	watch_call_end(w, WATCH_FREE, begin, 0);
}

static int op_managed_setup(struct backend *b, const struct backend_managed *setup)
{
	return inner_of(b)->managed->setup(inner_of(b), setup);
}

static int op_managed_stats(struct backend *b, uint32_t device, struct backend_managed_stats *out)
{
	return inner_of(b)->managed->stats(inner_of(b), device, out);
}

static int op_managed_alloc(struct backend *b, uint64_t bytes, void **addr)
{
	return inner_of(b)->managed->alloc(inner_of(b), bytes, addr);
}

static int op_managed_prefetch(struct backend *b, stream_id_t stream, void *addr, uint64_t bytes,
			       uint32_t memory)
{
	return inner_of(b)->managed->prefetch(inner_of(b), stream, addr, bytes, memory);
}

static int op_managed_advise(struct backend *b, void *addr, uint64_t bytes,
			     enum backend_advice advice, uint32_t to)
{
	return inner_of(b)->managed->advise(inner_of(b), addr, bytes, advice, to);
}

static void op_managed_free(struct backend *b, void *addr)
{
	inner_of(b)->managed->free(inner_of(b), addr);
}

static uint32_t op_device_warps(struct backend *b, uint32_t device)
{
	return inner_of(b)->ops->device_warps(inner_of(b), device);
}

static void op_device_text(struct backend *b, uint32_t device, char *text, size_t bytes)
{
	inner_of(b)->observe->device_text(inner_of(b), device, text, bytes);
}

static uint64_t op_memory_used(struct backend *b, uint32_t memory)
{
	return inner_of(b)->ops->memory_used(inner_of(b), memory);
}

static uint64_t op_memory_room(struct backend *b, uint32_t memory)
{
	return inner_of(b)->ops->memory_room(inner_of(b), memory);
}

static void op_memory_holders(struct backend *b, uint32_t memory, char *text, size_t bytes)
{
	inner_of(b)->observe->memory_holders(inner_of(b), memory, text, bytes);
}

/* ------------------------------------------------------------------ work */

/* Note a stream that the machine made, or did not: err. */
static int note_stream(struct watch *w, int err, stream_id_t stream, uint32_t device,
		       enum backend_stream_kind kind, stream_id_t *out)
{
	if (err)
		return err;
	err = watch_stream_add(w, stream, device, kind);
	if (err)
		w->inner->ops->stream_destroy(w->inner, stream);
	else
		*out = stream;
	return err;
}

static int op_stream_create(struct backend *b, uint32_t device, enum backend_stream_kind kind,
			    stream_id_t *out)
{
	struct watch *w = watch_of(b);
	stream_id_t stream = 0;
	int err = w->inner->ops->stream_create(w->inner, device, kind, &stream);

	return note_stream(w, err, stream, device, kind, out);
}

static int op_stream_adopt(struct backend *b, uint32_t device, void *native, stream_id_t *out)
{
	struct watch *w = watch_of(b);
	stream_id_t stream = 0;
	int err = w->inner->ops->stream_adopt(w->inner, device, native, &stream);

	return note_stream(w, err, stream, device, BACKEND_COMPUTE, out);
}

static void op_stream_destroy(struct backend *b, stream_id_t stream)
{
	watch_collect(watch_of(b), stream);
	inner_of(b)->ops->stream_destroy(inner_of(b), stream);
}

static void *op_stream_native(struct backend *b, stream_id_t stream)
{
	return inner_of(b)->ops->stream_native(inner_of(b), stream);
}

static int op_calls_begin(struct backend *b, stream_id_t stream)
{
	return inner_of(b)->ops->calls_begin(inner_of(b), stream);
}

static void op_calls_end(struct backend *b)
{
	inner_of(b)->ops->calls_end(inner_of(b));
}

static int op_stream_wait_native(struct backend *b, stream_id_t stream, void *native)
{
	return inner_of(b)->ops->stream_wait_native(inner_of(b), stream, native);
}

static int op_stream_call(struct backend *b, void *native, int (*fn)(void *native))
{
	return inner_of(b)->ops->stream_call(inner_of(b), native, fn);
}

/* The device of a stream that the log knows; 0 where it is none. */
static uint32_t device_of(struct watch *w, stream_id_t stream)
{
	uint32_t device = 0;

	pthread_mutex_lock(&w->lock);
	for (uint32_t i = 0; i < w->nr_streams; i++)
		if (w->stream[i].id == stream)
			device = w->stream[i].device;
	pthread_mutex_unlock(&w->lock);
	return device;
}

/* What a program declares may be anything: no launch moves so much. */
static uint64_t whole_bytes(double bytes)
{
	return (uint64_t)MIN(bytes, 1e18);
}

/* Bytes of a launch's uses over links, as they are declared and where they lie now. */
static void launch_bytes(struct watch *w, struct watch_work *work, uint32_t own,
			 const struct weir_launch *launch, uint64_t bytes[BACKEND_DIRECTION_NR])
{
	double in[WEIR_MEMORIES_MAX] = {0}, out[WEIR_MEMORIES_MAX] = {0};
	uint64_t by_memory[WEIR_MEMORIES_MAX];

	for (uint32_t i = 0; launch->uses && i < launch->nr_uses; i++) {
		const struct weir_use *use = &launch->uses[i];

		if (use->kind == WEIR_DISCARD || !use->bytes)
			continue;
		watch_bytes(w, use->addr, use->bytes, by_memory);
		for (uint32_t m = 0; m < w->base.desc.nr_memories; m++) {
			double share = (double)by_memory[m] / (double)use->bytes;

			in[m] += share * (double)use->read_bytes;
			out[m] += share * (double)use->write_bytes;
		}
	}
	for (uint32_t m = 0; m < w->base.desc.nr_memories; m++) {
		uint64_t read = whole_bytes(in[m]), written = whole_bytes(out[m]);

		watch_work_flow(w, work, m, own, read);
		watch_work_flow(w, work, own, m, written);
		if (!watch_is_host(w, m))
			continue;
		bytes[BACKEND_TO_DEVICE] += read;
		bytes[BACKEND_TO_HOST] += written;
	}
}

static struct watch_event launch_event(struct watch *w, struct watch_work *work,
				       const struct weir_launch *launch)
{
	const struct weir_device_desc *device = &w->base.desc.device[device_of(w, work->stream)];
	struct watch_event event = {.kind = WATCH_LAUNCH,
				    .name = launch->kernel ? launch->kernel->name : NULL,
				    .least_ns = device->launch_host_ns};

	launch_bytes(w, work, device->memory, launch, event.bytes);
	return event;
}

static int op_launch(struct backend *b, stream_id_t stream, const struct weir_launch *launch)
{
	struct watch_event event = {.kind = WATCH_LAUNCH};
	struct watch *w = watch_of(b);
	struct watch_work work;
	int err;

	watch_work_begin(w, stream, &work);
	if (work.on && launch)
		event = launch_event(w, &work, launch);
	err = w->inner->ops->launch(w->inner, stream, launch);
	watch_work_end(w, &work, err, &event);
	watch_collect(w, stream);
	return err;
}

static int op_packet_prepare(struct backend *b, uint32_t device)
{
	return inner_of(b)->ops->packet_prepare(inner_of(b), device);
}

static int op_packet(struct backend *b, stream_id_t stream, const struct backend_packet *packet)
{
	struct watch_event event = {.kind = WATCH_LAUNCH};
	struct weir_use uses[BACKEND_PACKET_USES];
	struct watch *w = watch_of(b);
	struct watch_work work;
	int err;

	watch_work_begin(w, stream, &work);
	if (work.on && !backend_packet_check(packet)) {
		const struct weir_launch launch = backend_packet_launch(packet, uses);

		event = launch_event(w, &work, &launch);
	}
	err = w->inner->ops->packet(w->inner, stream, packet);
	watch_work_end(w, &work, err, &event);
	watch_collect(w, stream);
	return err;
}

static int op_digest(struct backend *b, stream_id_t stream, const struct backend_chunk *chunk,
		     uint64_t bytes, uint32_t *ticket)
{
	struct watch_event event = {.kind = WATCH_LAUNCH};
	struct watch *w = watch_of(b);
	struct watch_work work;
	struct weir_use use;
	int err;

	watch_work_begin(w, stream, &work);
	if (work.on && !backend_digest_check(&w->base, device_of(w, stream), chunk, bytes)) {
		const struct weir_launch launch = backend_digest_launch(chunk, bytes, &use);

		event = launch_event(w, &work, &launch);
	}
	err = w->inner->ops->digest(w->inner, stream, chunk, bytes, ticket);
	watch_work_end(w, &work, err, &event);
	watch_collect(w, stream);
	return err;
}

static int op_digest_take(struct backend *b, uint32_t ticket, struct digest *out)
{
	return inner_of(b)->ops->digest_take(inner_of(b), ticket, out);
}

static int op_digest_prepare(struct backend *b, uint32_t device)
{
	return inner_of(b)->ops->digest_prepare(inner_of(b), device);
}

/* Where bytes are: how many in host memory, and the one memory that has all of them; -1: none. */
struct whereabouts {
	uint64_t host;
	int memory;
};

static struct whereabouts find_bytes(struct watch *w, const void *addr, uint64_t bytes)
{
	struct whereabouts where = {.memory = -1};
	uint64_t by_memory[WEIR_MEMORIES_MAX];

	watch_bytes(w, addr, bytes, by_memory);
	for (uint32_t m = 0; m < w->base.desc.nr_memories; m++) {
		where.host += watch_is_host(w, m) ? by_memory[m] : 0;
		where.memory = by_memory[m] == bytes ? (int)m : where.memory;
	}
	return where;
}

static void copy_bytes(struct watch *w, struct watch_work *work, const struct backend_copy *copy,
		       uint64_t bytes[BACKEND_DIRECTION_NR])
{
	struct whereabouts from = find_bytes(w, copy->src, copy->bytes);
	struct whereabouts to = find_bytes(w, copy->dst, copy->bytes);

	if (from.host > to.host)
		bytes[BACKEND_TO_DEVICE] += from.host - to.host;
	else
		bytes[BACKEND_TO_HOST] += to.host - from.host;
	if (from.memory >= 0 && to.memory >= 0)
		watch_work_flow(w, work, (uint32_t)from.memory, (uint32_t)to.memory, copy->bytes);
}

static int watch_copy(struct backend *b, stream_id_t stream, const struct backend_copy *copies,
		      uint32_t nr, bool beside)
{
	struct watch_event event = {.kind = WATCH_COPY, .pieces = nr};
	struct watch *w = watch_of(b);
	struct watch_work work;
	int err;

	watch_work_begin(w, stream, &work);
	for (uint32_t i = 0; work.on && copies && i < nr; i++)
		copy_bytes(w, &work, &copies[i], event.bytes);
	err = (beside ? w->inner->ops->copy_beside : w->inner->ops->copy)(w->inner, stream, copies,
									  nr);
	watch_work_end(w, &work, err, &event);
	watch_collect(w, stream);
	return err;
}

static int op_copy(struct backend *b, stream_id_t stream, const struct backend_copy *copies,
		   uint32_t nr)
{
	return watch_copy(b, stream, copies, nr, false);
}

static int op_copy_beside(struct backend *b, stream_id_t stream, const struct backend_copy *copies,
			  uint32_t nr)
{
	return watch_copy(b, stream, copies, nr, true);
}

static int op_upload(struct backend *b, stream_id_t stream, void *dst, const void *data,
		     uint64_t bytes)
{
	struct watch_event event = {.kind = WATCH_UPLOAD};
	struct watch *w = watch_of(b);
	struct watch_work work;
	int err;

	watch_work_begin(w, stream, &work);
	if (work.on)
		event.bytes[BACKEND_TO_DEVICE] = bytes - watch_host_bytes(w, dst, bytes);
	err = w->inner->ops->upload(w->inner, stream, dst, data, bytes);
	watch_call_end(w, WATCH_WAIT, work.called_ns, bytes);
	watch_work_end(w, &work, err, &event);
	watch_collect(w, stream);
	return err;
}

static int op_download(struct backend *b, stream_id_t stream, void *data, const void *src,
		       uint64_t bytes)
{
	struct watch_event event = {.kind = WATCH_DOWNLOAD};
	struct watch *w = watch_of(b);
	struct watch_work work;
	int err;

	watch_work_begin(w, stream, &work);
	if (work.on)
		event.bytes[BACKEND_TO_HOST] = bytes - watch_host_bytes(w, src, bytes);
	err = w->inner->ops->download(w->inner, stream, data, src, bytes);
	watch_call_end(w, WATCH_WAIT, work.called_ns, bytes);
	watch_work_end(w, &work, err, &event);
	watch_collect(w, stream);
	return err;
}

static void op_message_begin(struct backend *b, const struct backend_message *message)
{
	watch_message_begin(watch_of(b), message);
	inner_of(b)->observe->message_begin(inner_of(b), message);
}

static void op_message_end(struct backend *b, bool sent)
{
	inner_of(b)->observe->message_end(inner_of(b), sent);
	watch_message_end(watch_of(b), sent);
}

/* ------------------------------------------------------------------ order and time */

static uint64_t op_now_ns(struct backend *b)
{
	return inner_of(b)->ops->now_ns(inner_of(b));
}

static void op_host_spend(struct backend *b, uint64_t ns)
{
	inner_of(b)->ops->host_spend(inner_of(b), ns);
}

static int op_stream_wait(struct backend *b, stream_id_t stream, fence_t fence)
{
	return inner_of(b)->ops->stream_wait(inner_of(b), stream, fence);
}

static int op_fence_record(struct backend *b, stream_id_t stream, fence_t *out)
{
	return inner_of(b)->ops->fence_record(inner_of(b), stream, out);
}

static int op_fence_mark(struct backend *b, stream_id_t stream, fence_t *out)
{
	return inner_of(b)->observe->fence_mark(inner_of(b), stream, out);
}

static int op_fence_done(struct backend *b, fence_t fence)
{
	return inner_of(b)->ops->fence_done(inner_of(b), fence);
}

static int op_fence_seen(struct backend *b, fence_t fence)
{
	return inner_of(b)->ops->fence_seen(inner_of(b), fence);
}

static int wait_by(struct watch *w, int (*wait)(struct backend *b, fence_t fence), fence_t fence)
{
	uint64_t begin = watch_call_begin(w);
	int err = wait(w->inner, fence);

	watch_call_end(w, WATCH_WAIT, begin, 0);
	watch_collect_all(w);
	return err;
}

static int op_fence_wait(struct backend *b, fence_t fence)
{
	return wait_by(watch_of(b), inner_of(b)->ops->fence_wait, fence);
}

static int op_fence_wait_awake(struct backend *b, fence_t fence)
{
	return wait_by(watch_of(b), inner_of(b)->ops->fence_wait_awake, fence);
}

static uint64_t op_fence_time_ns(struct backend *b, fence_t fence)
{
	return inner_of(b)->observe->fence_time_ns(inner_of(b), fence);
}

/* ------------------------------------------------------------------ the rest */

static int op_access_begin(struct backend *b, stream_id_t stream, const void *owner,
			   const struct weir_use *uses, uint32_t nr)
{
	return inner_of(b)->ops->access_begin(inner_of(b), stream, owner, uses, nr);
}

static void op_access_end(struct backend *b, stream_id_t stream, const void *owner)
{
	inner_of(b)->ops->access_end(inner_of(b), stream, owner);
}

static int op_access_narrow(struct backend *b, stream_id_t stream, const void *owner,
			    const void *addr, uint64_t bytes)
{
	return inner_of(b)->ops->access_narrow(inner_of(b), stream, owner, addr, bytes);
}

static int op_access_guard(struct backend *b, void *reservation, bool guarded)
{
	return inner_of(b)->ops->access_guard(inner_of(b), reservation, guarded);
}

static void op_poison(struct backend *b, const struct backend_chunk *chunk, fence_t after)
{
	inner_of(b)->ops->poison(inner_of(b), chunk, after);
}

static void op_inplace_bytes(struct backend *b, uint32_t device, uint32_t memory,
			     uint64_t bytes[BACKEND_DIRECTION_NR])
{
	inner_of(b)->observe->inplace_bytes(inner_of(b), device, memory, bytes);
}

static int op_device_times(struct backend *b, uint32_t device, uint64_t ns[BACKEND_TIME_NR])
{
	return inner_of(b)->observe->device_times(inner_of(b), device, ns);
}

/* What the inner backend calls: calls of the host that are made in it are the migrator's. */
static void progress_entry(void *arg)
{
	const struct watch_progress *progress = arg;

	watch_migrating(true);
	watch_collect_all(progress->watch);
	progress->fn(progress->arg);
	watch_migrating(false);
}

/* Take the registration of arg out of the list; NULL: there is none. */
static struct watch_progress *progress_take(struct watch *w, const void *arg)
{
	struct watch_progress **at, *found;

	pthread_mutex_lock(&w->lock);
	for (at = &w->progress; *at && (*at)->arg != arg; at = &(*at)->next)
		;
	found = *at;
	if (found)
		*at = found->next;
	pthread_mutex_unlock(&w->lock);
	return found;
}

static int op_aside(struct backend *b, uint64_t (*run)(void *arg), void (*done)(void *arg),
		    void *arg)
{
	struct backend *inner = watch_of(b)->inner;

	return inner->ops->aside(inner, run, done, arg);
}

static int op_set_progress(struct backend *b, void (*fn)(void *arg), void *arg)
{
	struct watch *w = watch_of(b);
	struct watch_progress *before, *progress = NULL;
	int err = 0;

	if (fn) {
		progress = malloc(sizeof(*progress));
		if (!progress)
			return -ENOMEM;
		*progress = (struct watch_progress){.watch = w, .fn = fn, .arg = arg};
		err = w->inner->ops->set_progress(w->inner, progress_entry, progress);
		if (err) {
			free(progress);
			return err;
		}
	}
	before = progress_take(w, arg);
	if (before)
		err = w->inner->ops->set_progress(w->inner, NULL, before);
	free(before);
	if (progress) {
		pthread_mutex_lock(&w->lock);
		progress->next = w->progress;
		w->progress = progress;
		pthread_mutex_unlock(&w->lock);
	}
	return err;
}

static void op_destroy(struct backend *b)
{
	struct watch *w = watch_of(b);

	w->inner->ops->destroy(w->inner);
	while (w->progress) {
		struct watch_progress *next = w->progress->next;

		free(w->progress);
		w->progress = next;
	}
	watch_log_free(w->log);
	watch_places_free(w);
	free(w->stream);
	pthread_mutex_destroy(&w->lock);
	pthread_mutex_destroy(&w->collecting);
	free(w);
}

static const struct backend_ops watch_ops = {
	.name = "watch",
	.destroy = op_destroy,
	.now_ns = op_now_ns,
	.stream_native = op_stream_native,
	.stream_call = op_stream_call,
	.calls_begin = op_calls_begin,
	.calls_end = op_calls_end,
	.stream_wait_native = op_stream_wait_native,
	.chunk_create = op_chunk_create,
	.chunk_add_devices = op_chunk_add_devices,
	.chunk_destroy = op_chunk_destroy,
	.chunk_expect = op_chunk_expect,
	.va_reserve = op_va_reserve,
	.va_release = op_va_release,
	.map = op_map,
	.unmap = op_unmap,
	.set_access = op_set_access,
	.stream_create = op_stream_create,
	.stream_adopt = op_stream_adopt,
	.stream_destroy = op_stream_destroy,
	.launch = op_launch,
	.copy = op_copy,
	.copy_beside = op_copy_beside,
	.packet = op_packet,
	.packet_prepare = op_packet_prepare,
	.digest = op_digest,
	.digest_take = op_digest_take,
	.digest_prepare = op_digest_prepare,
	.upload = op_upload,
	.download = op_download,
	.stream_wait = op_stream_wait,
	.fence_record = op_fence_record,
	.fence_untimed = op_fence_record, /* here they are asked for */
	.fence_done = op_fence_done,
	.fence_seen = op_fence_seen,
	.fence_wait = op_fence_wait,
	.fence_wait_awake = op_fence_wait_awake,
	.access_begin = op_access_begin,
	.access_end = op_access_end,
	.access_narrow = op_access_narrow,
	.access_guard = op_access_guard,
	.poison = op_poison,
	.device_alloc = op_device_alloc,
	.device_free = op_device_free,
	.device_warps = op_device_warps,
	.memory_used = op_memory_used,
	.memory_room = op_memory_room,
	.host_spend = op_host_spend,
	.set_progress = op_set_progress,
	.aside = op_aside,
};

static const struct backend_managed_ops watch_managed_ops = {
	.setup = op_managed_setup,
	.alloc = op_managed_alloc,
	.prefetch = op_managed_prefetch,
	.advise = op_managed_advise,
	.free = op_managed_free,
	.stats = op_managed_stats,
};

static const struct backend_observe_ops watch_observe_ops = {
	.fence_mark = op_fence_mark,
	.fence_time_ns = op_fence_time_ns,
	.device_times = op_device_times,
	.inplace_bytes = op_inplace_bytes,
	.device_text = op_device_text,
	.memory_holders = op_memory_holders,
	.message_begin = op_message_begin,
	.message_end = op_message_end,
};

int watch_create(struct backend *inner, struct backend **out)
{
	struct watch *w = calloc(1, sizeof(*w));

	if (!w)
		return -ENOMEM;
	if (pthread_mutex_init(&w->lock, NULL))
		goto err_free;
	if (pthread_mutex_init(&w->collecting, NULL))
		goto err_lock;
	w->base.ops = &watch_ops;
	w->base.managed = &watch_managed_ops;
	w->base.observe = &watch_observe_ops;
	w->base.desc = inner->desc;
	w->base.data = inner->data;
	w->base.checks = inner->checks;
	w->base.digest_key = inner->digest_key;
	w->inner = inner;
	w->nr_names = 1;
	atomic_init(&w->recording, false);
	*out = &w->base;
	return 0;

err_lock:
	pthread_mutex_destroy(&w->lock);
err_free:
	free(w);
	return -ENOMEM;
}
