/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Around the failing backend: notes which op it is that fails, and fails several calls in a row.
 * One at a time.
 */
#ifndef WEIR_TEST_FAULTS_HOOK_H
#define WEIR_TEST_FAULTS_HOOK_H

#include "src/backend/flaky/flaky.h"

/* Which calls of the backend fail. */
struct faults {
	uint64_t at; /* counted from 1; 0: none */
	uint32_t nr; /* that many in a row */
	int err;
	bool give_up; /* the program does not try again */
};

static struct {
	struct faults faults;
	uint32_t nr_failed;
	const char *op; /* that failed first */
	const struct backend_ops *flaky;
	struct backend_ops ops;
} hook;

static inline bool hook_is_failing(struct backend *b)
{
	return hook.nr_failed < hook.faults.nr &&
	       flaky_nr_calls(b) + 1 == hook.faults.at + hook.nr_failed;
}

static inline void hook_note(struct backend *b, const char *op)
{
	if (!hook.nr_failed++)
		hook.op = op;
	if (hook.nr_failed < hook.faults.nr)
		flaky_arm(b, hook.faults.at + hook.nr_failed, hook.faults.err);
}

#define PASS(...) __VA_ARGS__
#define HOOK(op, params, args)                                      \
	static inline int hook_##op(struct backend *b, PASS params) \
	{                                                           \
		bool fails = hook_is_failing(b);                    \
		int err = hook.flaky->op(b, PASS args);             \
                                                                    \
		if (fails)                                          \
			hook_note(b, #op);                          \
		return err;                                         \
	}

HOOK(chunk_create, (uint32_t memory, uint64_t bytes, uint64_t devices, struct backend_chunk *out),
     (memory, bytes, devices, out))
HOOK(chunk_add_devices, (const struct backend_chunk *chunk, uint64_t devices), (chunk, devices))
HOOK(va_reserve, (uint64_t bytes, uint64_t unit, void **addr), (bytes, unit, addr))
HOOK(map, (void *addr, const struct backend_chunk *chunk, enum backend_prot prot, uint64_t devices),
     (addr, chunk, prot, devices))
HOOK(unmap, (void *addr), (addr))
HOOK(set_access, (void *addr, enum backend_prot prot, uint64_t devices), (addr, prot, devices))
HOOK(stream_create, (uint32_t device, enum backend_stream_kind kind, stream_id_t *out),
     (device, kind, out))
HOOK(launch, (stream_id_t stream, const struct weir_launch *launch), (stream, launch))
HOOK(copy, (stream_id_t stream, const struct backend_copy *copies, uint32_t nr),
     (stream, copies, nr))
HOOK(copy_beside, (stream_id_t stream, const struct backend_copy *copies, uint32_t nr),
     (stream, copies, nr))
HOOK(packet, (stream_id_t stream, const struct backend_packet *packet), (stream, packet))
HOOK(packet_prepare, (uint32_t device), (device))
HOOK(digest,
     (stream_id_t stream, const struct backend_chunk *chunk, uint64_t bytes, uint32_t *ticket),
     (stream, chunk, bytes, ticket))
HOOK(digest_prepare, (uint32_t device), (device))
HOOK(upload, (stream_id_t stream, void *dst, const void *data, uint64_t bytes),
     (stream, dst, data, bytes))
HOOK(download, (stream_id_t stream, void *data, const void *src, uint64_t bytes),
     (stream, data, src, bytes))
HOOK(stream_wait, (stream_id_t stream, fence_t fence), (stream, fence))
HOOK(fence_record, (stream_id_t stream, fence_t *out), (stream, out))
HOOK(fence_untimed, (stream_id_t stream, fence_t *out), (stream, out))
HOOK(fence_done, (fence_t fence), (fence))
HOOK(fence_seen, (fence_t fence), (fence))
HOOK(fence_wait, (fence_t fence), (fence))
HOOK(fence_wait_awake, (fence_t fence), (fence))
HOOK(device_alloc, (uint32_t memory, uint64_t bytes, void **addr), (memory, bytes, addr))
HOOK(access_begin,
     (stream_id_t stream, const void *owner, const struct weir_use *uses, uint32_t nr),
     (stream, owner, uses, nr))
HOOK(access_narrow, (stream_id_t stream, const void *owner, const void *addr, uint64_t bytes),
     (stream, owner, addr, bytes))
HOOK(access_guard, (void *reservation, bool guarded), (reservation, guarded))

static inline int hook_set_progress(struct backend *b, void (*fn)(void *arg), void *arg)
{
	bool fails = fn && hook_is_failing(b);
	int err = hook.flaky->set_progress(b, fn, arg);

	if (fails)
		hook_note(b, "set_progress");
	return err;
}

/* flaky: as created, not used yet. */
static inline void hook_install(struct backend *flaky, const struct faults *faults)
{
	hook.faults = *faults;
	hook.nr_failed = 0;
	hook.op = NULL;
	hook.flaky = flaky->ops;
	hook.ops = *flaky->ops;
	hook.ops.chunk_create = hook_chunk_create;
	hook.ops.chunk_add_devices = hook_chunk_add_devices;
	hook.ops.va_reserve = hook_va_reserve;
	hook.ops.map = hook_map;
	hook.ops.unmap = hook_unmap;
	hook.ops.set_access = hook_set_access;
	hook.ops.stream_create = hook_stream_create;
	hook.ops.launch = hook_launch;
	hook.ops.copy = hook_copy;
	hook.ops.copy_beside = hook_copy_beside;
	hook.ops.packet = hook_packet;
	hook.ops.packet_prepare = hook_packet_prepare;
	hook.ops.digest = hook_digest;
	hook.ops.digest_prepare = hook_digest_prepare;
	hook.ops.upload = hook_upload;
	hook.ops.download = hook_download;
	hook.ops.stream_wait = hook_stream_wait;
	hook.ops.fence_record = hook_fence_record;
	hook.ops.fence_untimed = hook_fence_untimed;
	hook.ops.fence_done = hook_fence_done;
	hook.ops.fence_seen = hook_fence_seen;
	hook.ops.fence_wait = hook_fence_wait;
	hook.ops.fence_wait_awake = hook_fence_wait_awake;
	hook.ops.device_alloc = hook_device_alloc;
	hook.ops.access_begin = hook_access_begin;
	hook.ops.access_narrow = hook_access_narrow;
	hook.ops.access_guard = hook_access_guard;
	hook.ops.set_progress = hook_set_progress;
	flaky->ops = &hook.ops;
	flaky_arm(flaky, faults->at, faults->err);
}

#endif
