/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A backend that passes everything on to another and fails one call when armed: with every call of
 * a run failed in turn, every error path is walked. A failed call never reaches the inner backend,
 * so its state is as before. Adds no state and no order of its own.
 */
#include "src/backend/flaky/flaky.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

/* nr_calls only grows; fail_at and err are set before the calls that they are meant for. */
struct flaky {
	struct backend base;
	struct backend *inner; /* owned */
	atomic_uint_fast64_t nr_calls, fail_at;
	atomic_int err;
};

static struct backend *inner_of(const struct backend *b)
{
	return ((const struct flaky *)b)->inner;
}

/* Count one call. 0, or the error that it is to return. */
static int flaky_check(struct backend *b)
{
	struct flaky *f = (struct flaky *)b;
	uint64_t call = atomic_fetch_add(&f->nr_calls, 1) + 1;

	return call == atomic_load(&f->fail_at) ? atomic_load(&f->err) : 0;
}

/* Count, fail or forward. */
#define FLAKY_FORWARD_IN(table, b, op, ...)                                                      \
	do {                                                                                     \
		int flaky_err = flaky_check(b);                                                  \
                                                                                                 \
		return flaky_err ? flaky_err : inner_of(b)->table->op(inner_of(b), __VA_ARGS__); \
	} while (0)
#define FLAKY_FORWARD(b, ...) FLAKY_FORWARD_IN(ops, b, __VA_ARGS__)

static void flaky_destroy(struct backend *b)
{
	inner_of(b)->ops->destroy(inner_of(b));
	free(b);
}

static void *flaky_stream_native(struct backend *b, stream_id_t stream)
{
	return inner_of(b)->ops->stream_native(inner_of(b), stream);
}

static void flaky_device_text(struct backend *b, uint32_t device, char *text, size_t bytes)
{
	inner_of(b)->observe->device_text(inner_of(b), device, text, bytes);
}

static uint32_t flaky_device_warps(struct backend *b, uint32_t device)
{
	return inner_of(b)->ops->device_warps(inner_of(b), device);
}

static int flaky_stream_call(struct backend *b, void *native, int (*fn)(void *native))
{
	FLAKY_FORWARD(b, stream_call, native, fn);
}

/* That it fails is seen by nobody: it counts as no call. */
static int flaky_calls_begin(struct backend *b, stream_id_t stream)
{
	return inner_of(b)->ops->calls_begin(inner_of(b), stream);
}

static void flaky_calls_end(struct backend *b)
{
	inner_of(b)->ops->calls_end(inner_of(b));
}

static int flaky_stream_wait_native(struct backend *b, stream_id_t stream, void *native)
{
	FLAKY_FORWARD(b, stream_wait_native, stream, native);
}

static uint64_t flaky_now_ns(struct backend *b)
{
	return inner_of(b)->ops->now_ns(inner_of(b));
}

static int flaky_chunk_create(struct backend *b, uint32_t memory, uint64_t bytes, uint64_t devices,
			      struct backend_chunk *out)
{
	FLAKY_FORWARD(b, chunk_create, memory, bytes, devices, out);
}

static int flaky_chunk_add_devices(struct backend *b, const struct backend_chunk *chunk,
				   uint64_t devices)
{
	FLAKY_FORWARD(b, chunk_add_devices, chunk, devices);
}

static void flaky_chunk_destroy(struct backend *b, const struct backend_chunk *chunk)
{
	inner_of(b)->ops->chunk_destroy(inner_of(b), chunk);
}

static void flaky_chunk_expect(struct backend *b, uint32_t memory, uint64_t bytes, uint64_t devices,
			       int64_t nr)
{
	inner_of(b)->ops->chunk_expect(inner_of(b), memory, bytes, devices, nr);
}

static int flaky_va_reserve(struct backend *b, uint64_t bytes, uint64_t unit, void **addr)
{
	FLAKY_FORWARD(b, va_reserve, bytes, unit, addr);
}

static void flaky_va_release(struct backend *b, void *addr, uint64_t bytes)
{
	inner_of(b)->ops->va_release(inner_of(b), addr, bytes);
}

static int flaky_map(struct backend *b, void *addr, const struct backend_chunk *chunk,
		     enum backend_prot prot, uint64_t devices)
{
	FLAKY_FORWARD(b, map, addr, chunk, prot, devices);
}

static int flaky_unmap(struct backend *b, void *addr)
{
	FLAKY_FORWARD(b, unmap, addr);
}

static int flaky_set_access(struct backend *b, void *addr, enum backend_prot prot, uint64_t devices)
{
	FLAKY_FORWARD(b, set_access, addr, prot, devices);
}

static int flaky_stream_create(struct backend *b, uint32_t device, enum backend_stream_kind kind,
			       stream_id_t *out)
{
	FLAKY_FORWARD(b, stream_create, device, kind, out);
}

static int flaky_stream_adopt(struct backend *b, uint32_t device, void *native, stream_id_t *out)
{
	FLAKY_FORWARD(b, stream_adopt, device, native, out);
}

static void flaky_stream_destroy(struct backend *b, stream_id_t stream)
{
	inner_of(b)->ops->stream_destroy(inner_of(b), stream);
}

static int flaky_launch(struct backend *b, stream_id_t stream, const struct weir_launch *launch)
{
	FLAKY_FORWARD(b, launch, stream, launch);
}

static int flaky_copy(struct backend *b, stream_id_t stream, const struct backend_copy *copies,
		      uint32_t nr)
{
	FLAKY_FORWARD(b, copy, stream, copies, nr);
}

static int flaky_copy_beside(struct backend *b, stream_id_t stream,
			     const struct backend_copy *copies, uint32_t nr)
{
	FLAKY_FORWARD(b, copy_beside, stream, copies, nr);
}

static int flaky_packet(struct backend *b, stream_id_t stream, const struct backend_packet *packet)
{
	FLAKY_FORWARD(b, packet, stream, packet);
}

static int flaky_packet_prepare(struct backend *b, uint32_t device)
{
	FLAKY_FORWARD(b, packet_prepare, device);
}

static int flaky_digest(struct backend *b, stream_id_t stream, const struct backend_chunk *chunk,
			uint64_t bytes, uint32_t *ticket)
{
	FLAKY_FORWARD(b, digest, stream, chunk, bytes, ticket);
}

/* It gives something back, which does not fail. */
static int flaky_digest_take(struct backend *b, uint32_t ticket, struct digest *out)
{
	return inner_of(b)->ops->digest_take(inner_of(b), ticket, out);
}

static int flaky_digest_prepare(struct backend *b, uint32_t device)
{
	FLAKY_FORWARD(b, digest_prepare, device);
}

static int flaky_upload(struct backend *b, stream_id_t stream, void *dst, const void *data,
			uint64_t bytes)
{
	FLAKY_FORWARD(b, upload, stream, dst, data, bytes);
}

static int flaky_download(struct backend *b, stream_id_t stream, void *data, const void *src,
			  uint64_t bytes)
{
	FLAKY_FORWARD(b, download, stream, data, src, bytes);
}

static int flaky_stream_wait(struct backend *b, stream_id_t stream, fence_t fence)
{
	FLAKY_FORWARD(b, stream_wait, stream, fence);
}

static int flaky_fence_record(struct backend *b, stream_id_t stream, fence_t *out)
{
	FLAKY_FORWARD(b, fence_record, stream, out);
}

static int flaky_fence_untimed(struct backend *b, stream_id_t stream, fence_t *out)
{
	FLAKY_FORWARD(b, fence_untimed, stream, out);
}

static int flaky_fence_mark(struct backend *b, stream_id_t stream, fence_t *out)
{
	FLAKY_FORWARD_IN(observe, b, fence_mark, stream, out);
}

static int flaky_fence_done(struct backend *b, fence_t fence)
{
	FLAKY_FORWARD(b, fence_done, fence);
}

static int flaky_fence_seen(struct backend *b, fence_t fence)
{
	FLAKY_FORWARD(b, fence_seen, fence);
}

static int flaky_fence_wait(struct backend *b, fence_t fence)
{
	FLAKY_FORWARD(b, fence_wait, fence);
}

static int flaky_fence_wait_awake(struct backend *b, fence_t fence)
{
	FLAKY_FORWARD(b, fence_wait_awake, fence);
}

static uint64_t flaky_fence_time_ns(struct backend *b, fence_t fence)
{
	return inner_of(b)->observe->fence_time_ns(inner_of(b), fence);
}

static int flaky_access_begin(struct backend *b, stream_id_t stream, const void *owner,
			      const struct weir_use *uses, uint32_t nr)
{
	FLAKY_FORWARD(b, access_begin, stream, owner, uses, nr);
}

static void flaky_access_end(struct backend *b, stream_id_t stream, const void *owner)
{
	inner_of(b)->ops->access_end(inner_of(b), stream, owner);
}

static int flaky_access_narrow(struct backend *b, stream_id_t stream, const void *owner,
			       const void *addr, uint64_t bytes)
{
	FLAKY_FORWARD(b, access_narrow, stream, owner, addr, bytes);
}

static int flaky_access_guard(struct backend *b, void *reservation, bool guarded)
{
	FLAKY_FORWARD(b, access_guard, reservation, guarded);
}

static void flaky_poison(struct backend *b, const struct backend_chunk *chunk, fence_t after)
{
	inner_of(b)->ops->poison(inner_of(b), chunk, after);
}

static int flaky_device_alloc(struct backend *b, uint32_t memory, uint64_t bytes, void **addr)
{
	FLAKY_FORWARD(b, device_alloc, memory, bytes, addr);
}

static void flaky_device_free(struct backend *b, void *addr)
{
	inner_of(b)->ops->device_free(inner_of(b), addr);
}

static int flaky_managed_setup(struct backend *b, const struct backend_managed *setup)
{
	FLAKY_FORWARD_IN(managed, b, setup, setup);
}

static int flaky_managed_alloc(struct backend *b, uint64_t bytes, void **addr)
{
	FLAKY_FORWARD_IN(managed, b, alloc, bytes, addr);
}

static int flaky_managed_prefetch(struct backend *b, stream_id_t stream, void *addr, uint64_t bytes,
				  uint32_t memory)
{
	FLAKY_FORWARD_IN(managed, b, prefetch, stream, addr, bytes, memory);
}

static int flaky_managed_advise(struct backend *b, void *addr, uint64_t bytes,
				enum backend_advice advice, uint32_t to)
{
	FLAKY_FORWARD_IN(managed, b, advise, addr, bytes, advice, to);
}

static void flaky_managed_free(struct backend *b, void *addr)
{
	inner_of(b)->managed->free(inner_of(b), addr);
}

static uint64_t flaky_memory_room(struct backend *b, uint32_t memory)
{
	return inner_of(b)->ops->memory_room(inner_of(b), memory);
}

static void flaky_memory_holders(struct backend *b, uint32_t memory, char *text, size_t bytes)
{
	inner_of(b)->observe->memory_holders(inner_of(b), memory, text, bytes);
}

static void flaky_message_begin(struct backend *b, const struct backend_message *message)
{
	inner_of(b)->observe->message_begin(inner_of(b), message);
}

static void flaky_message_end(struct backend *b, bool sent)
{
	inner_of(b)->observe->message_end(inner_of(b), sent);
}

static uint64_t flaky_memory_used(struct backend *b, uint32_t memory)
{
	return inner_of(b)->ops->memory_used(inner_of(b), memory);
}

static void flaky_host_spend(struct backend *b, uint64_t ns)
{
	inner_of(b)->ops->host_spend(inner_of(b), ns);
}

static int flaky_set_progress(struct backend *b, void (*fn)(void *arg), void *arg)
{
	if (!fn)
		return inner_of(b)->ops->set_progress(inner_of(b), fn, arg);
	FLAKY_FORWARD(b, set_progress, fn, arg);
}

static int flaky_aside(struct backend *b, uint64_t (*run)(void *arg), void (*done)(void *arg),
		       void *arg)
{
	FLAKY_FORWARD(b, aside, run, done, arg);
}

static void flaky_inplace_bytes(struct backend *b, uint32_t device, uint32_t memory,
				uint64_t bytes[BACKEND_DIRECTION_NR])
{
	inner_of(b)->observe->inplace_bytes(inner_of(b), device, memory, bytes);
}

/* Queries that not every backend answers: not ones that fail. */
static int flaky_managed_stats(struct backend *b, uint32_t device,
			       struct backend_managed_stats *out)
{
	return inner_of(b)->managed->stats(inner_of(b), device, out);
}

static int flaky_device_times(struct backend *b, uint32_t device, uint64_t ns[BACKEND_TIME_NR])
{
	return inner_of(b)->observe->device_times(inner_of(b), device, ns);
}

static const struct backend_ops flaky_ops = {
	.name = "flaky",
	.destroy = flaky_destroy,
	.now_ns = flaky_now_ns,
	.stream_native = flaky_stream_native,
	.stream_call = flaky_stream_call,
	.calls_begin = flaky_calls_begin,
	.calls_end = flaky_calls_end,
	.stream_wait_native = flaky_stream_wait_native,
	.chunk_create = flaky_chunk_create,
	.chunk_add_devices = flaky_chunk_add_devices,
	.chunk_destroy = flaky_chunk_destroy,
	.chunk_expect = flaky_chunk_expect,
	.va_reserve = flaky_va_reserve,
	.va_release = flaky_va_release,
	.map = flaky_map,
	.unmap = flaky_unmap,
	.set_access = flaky_set_access,
	.stream_create = flaky_stream_create,
	.stream_adopt = flaky_stream_adopt,
	.stream_destroy = flaky_stream_destroy,
	.launch = flaky_launch,
	.copy = flaky_copy,
	.copy_beside = flaky_copy_beside,
	.packet = flaky_packet,
	.packet_prepare = flaky_packet_prepare,
	.digest = flaky_digest,
	.digest_take = flaky_digest_take,
	.digest_prepare = flaky_digest_prepare,
	.upload = flaky_upload,
	.download = flaky_download,
	.stream_wait = flaky_stream_wait,
	.fence_record = flaky_fence_record,
	.fence_untimed = flaky_fence_untimed,
	.fence_done = flaky_fence_done,
	.fence_seen = flaky_fence_seen,
	.fence_wait = flaky_fence_wait,
	.fence_wait_awake = flaky_fence_wait_awake,
	.access_begin = flaky_access_begin,
	.access_end = flaky_access_end,
	.access_narrow = flaky_access_narrow,
	.access_guard = flaky_access_guard,
	.poison = flaky_poison,
	.device_alloc = flaky_device_alloc,
	.device_free = flaky_device_free,
	.device_warps = flaky_device_warps,
	.memory_used = flaky_memory_used,
	.memory_room = flaky_memory_room,
	.host_spend = flaky_host_spend,
	.set_progress = flaky_set_progress,
	.aside = flaky_aside,
};

static const struct backend_managed_ops flaky_managed_ops = {
	.setup = flaky_managed_setup,
	.alloc = flaky_managed_alloc,
	.prefetch = flaky_managed_prefetch,
	.advise = flaky_managed_advise,
	.free = flaky_managed_free,
	.stats = flaky_managed_stats,
};

static const struct backend_observe_ops flaky_observe_ops = {
	.fence_mark = flaky_fence_mark,
	.fence_time_ns = flaky_fence_time_ns,
	.device_times = flaky_device_times,
	.inplace_bytes = flaky_inplace_bytes,
	.device_text = flaky_device_text,
	.memory_holders = flaky_memory_holders,
	.message_begin = flaky_message_begin,
	.message_end = flaky_message_end,
};

int flaky_create(struct backend *inner, struct backend **out)
{
	struct flaky *f = malloc(sizeof(*f));

	if (!f)
		return -ENOMEM;
	f->base.ops = &flaky_ops;
	f->base.managed = &flaky_managed_ops;
	f->base.observe = &flaky_observe_ops;
	f->base.desc = inner->desc;
	f->base.data = inner->data;
	f->base.checks = inner->checks;
	f->base.digest_key = inner->digest_key;
	f->inner = inner;
	atomic_init(&f->nr_calls, 0);
	atomic_init(&f->fail_at, 0);
	atomic_init(&f->err, 0);
	*out = &f->base;
	return 0;
}

void flaky_arm(struct backend *flaky, uint64_t fail_at, int err)
{
	struct flaky *f = (struct flaky *)flaky;

	atomic_store(&f->err, err);
	atomic_store(&f->fail_at, fail_at);
}

uint64_t flaky_nr_calls(const struct backend *flaky)
{
	return atomic_load(&((const struct flaky *)flaky)->nr_calls);
}

struct backend *flaky_inner(const struct backend *flaky)
{
	return inner_of(flaky);
}
