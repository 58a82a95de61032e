/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What backends share: stubs for ops that one leaves out, packets and digests as launches, and
 * checks of packets, digests, budgets and advice. Knows no implementation.
 */
#include "src/backend/backend.h"

#include <errno.h>
#include <stdio.h>

#include "src/base/log.h"
#include "src/base/util.h"
#include "src/cost/cost.h"

/* A thread of a GPU has so much of a packet, and of the list, in one access. */
#define PACKET_ALIGN 16u

/* ------------------------------------------------------------------ ops that may be left out */

static void stub_chunk_expect(struct backend *b, uint32_t memory, uint64_t bytes, uint64_t devices,
			      int64_t nr)
{
	(void)b, (void)memory, (void)bytes, (void)devices, (void)nr;
}

static int stub_packet_prepare(struct backend *b, uint32_t device)
{
	return device < b->desc.nr_devices ? 0 : -EINVAL;
}

static int stub_digest(struct backend *b, stream_id_t stream, const struct backend_chunk *chunk,
		       uint64_t bytes, uint32_t *ticket)
{
	(void)b, (void)stream, (void)chunk, (void)bytes, (void)ticket;
	return -ENOSYS;
}

static int stub_digest_take(struct backend *b, uint32_t ticket, struct digest *out)
{
	(void)b, (void)ticket, (void)out;
	return -ENOSYS;
}

static int stub_digest_prepare(struct backend *b, uint32_t device)
{
	(void)b, (void)device;
	return -ENOSYS;
}

static int stub_access_begin(struct backend *b, stream_id_t stream, const void *owner,
			     const struct weir_use *uses, uint32_t nr)
{
	(void)b, (void)stream, (void)owner, (void)uses, (void)nr;
	return 0;
}

static void stub_access_end(struct backend *b, stream_id_t stream, const void *owner)
{
	(void)b, (void)stream, (void)owner;
}

static int stub_access_narrow(struct backend *b, stream_id_t stream, const void *owner,
			      const void *addr, uint64_t bytes)
{
	(void)b, (void)stream, (void)owner, (void)addr, (void)bytes;
	return 0;
}

static int stub_access_guard(struct backend *b, void *reservation, bool guarded)
{
	(void)b, (void)reservation, (void)guarded;
	return 0;
}

static void *stub_stream_native(struct backend *b, stream_id_t stream)
{
	(void)b, (void)stream;
	return NULL;
}

static uint32_t stub_device_warps(struct backend *b, uint32_t device)
{
	(void)b, (void)device;
	return 64;
}

static int stub_calls_begin(struct backend *b, stream_id_t stream)
{
	(void)b, (void)stream;
	return 0;
}

static void stub_calls_end(struct backend *b)
{
	(void)b;
}

static int stub_stream_wait_native(struct backend *b, stream_id_t stream, void *native)
{
	(void)b, (void)stream, (void)native;
	return -ENOSYS;
}

static int stub_stream_adopt(struct backend *b, uint32_t device, void *native, stream_id_t *out)
{
	(void)b, (void)device, (void)native, (void)out;
	return -ENOSYS;
}

static int stub_stream_call(struct backend *b, void *native, int (*fn)(void *native))
{
	(void)b, (void)native, (void)fn;
	return -ENOSYS;
}

static void stub_poison(struct backend *b, const struct backend_chunk *chunk, fence_t after)
{
	(void)b, (void)chunk, (void)after;
}

static uint64_t stub_memory_room(struct backend *b, uint32_t memory)
{
	(void)b, (void)memory;
	return UINT64_MAX;
}

static int stub_aside(struct backend *b, uint64_t (*run)(void *arg), void (*done)(void *arg),
		      void *arg)
{
	(void)b, (void)run, (void)done, (void)arg;
	return -ENOSYS;
}

void backend_ops_complete(struct backend_ops *ops)
{
	if (!ops->aside)
		ops->aside = stub_aside;
	if (!ops->chunk_expect)
		ops->chunk_expect = stub_chunk_expect;
	/* A backend that cannot check access has nothing to check: that is no failure. */
	if (!ops->copy_beside)
		ops->copy_beside = ops->copy;
	if (!ops->packet_prepare)
		ops->packet_prepare = stub_packet_prepare;
	if (!ops->digest)
		ops->digest = stub_digest;
	if (!ops->digest_take)
		ops->digest_take = stub_digest_take;
	if (!ops->digest_prepare)
		ops->digest_prepare = stub_digest_prepare;
	if (!ops->access_begin)
		ops->access_begin = stub_access_begin;
	if (!ops->access_end)
		ops->access_end = stub_access_end;
	if (!ops->access_narrow)
		ops->access_narrow = stub_access_narrow;
	if (!ops->access_guard)
		ops->access_guard = stub_access_guard;
	if (!ops->stream_native)
		ops->stream_native = stub_stream_native;
	if (!ops->device_warps)
		ops->device_warps = stub_device_warps;
	if (!ops->fence_untimed)
		ops->fence_untimed = ops->fence_record;
	if (!ops->fence_seen)
		ops->fence_seen = ops->fence_done;
	if (!ops->fence_wait_awake)
		ops->fence_wait_awake = ops->fence_wait;
	if (!ops->calls_begin || !ops->calls_end) {
		ops->calls_begin = stub_calls_begin;
		ops->calls_end = stub_calls_end;
	}
	if (!ops->stream_wait_native)
		ops->stream_wait_native = stub_stream_wait_native;
	if (!ops->stream_adopt)
		ops->stream_adopt = stub_stream_adopt;
	if (!ops->stream_call)
		ops->stream_call = stub_stream_call;
	if (!ops->poison)
		ops->poison = stub_poison;
	if (!ops->memory_room)
		ops->memory_room = stub_memory_room;
}

/* ------------------------------------------------------------------ packets */

int backend_packet_check(const struct backend_packet *packet)
{
	const struct backend_packet *p = packet;

	if (!p || !p->elements || !p->packet || !p->index || !p->nr || p->first > p->last)
		return -EINVAL;
	if (!is_power_of_2(p->element_bytes) || p->element_bytes > PACKET_ALIGN ||
	    (uintptr_t)p->elements % p->element_bytes ||
	    ((uintptr_t)p->packet | (uintptr_t)p->index) % PACKET_ALIGN)
		return -EINVAL;
	/* Each number once, and every element has its sector. */
	if (p->nr - 1 > p->last - p->first || (p->nr == 1 && p->first != p->last) ||
	    p->sector_bytes < p->nr * p->element_bytes)
		return -EINVAL;
	return 0;
}

struct weir_launch backend_packet_launch(const struct backend_packet *packet,
					 struct weir_use uses[BACKEND_PACKET_USES])
{
	static const struct weir_kernel pack = {.name = "pack"}, unpack = {.name = "unpack"};
	uint64_t bytes = packet->nr * packet->element_bytes, sectors = packet->sector_bytes;
	uint64_t index_bytes = packet->nr * sizeof(*packet->index);

	uses[0] = (struct weir_use){
		.addr = (char *)packet->elements + (uint64_t)packet->first * packet->element_bytes,
		.bytes = ((uint64_t)packet->last - packet->first + 1) * packet->element_bytes,
		.kind = packet->unpack ? WEIR_WRITE : WEIR_READ,
		.read_bytes = packet->unpack ? MIN(sectors, 2 * (sectors - bytes)) : sectors,
		.write_bytes = packet->unpack ? sectors : 0,
	};
	uses[1] = (struct weir_use){
		.addr = (void *)(uintptr_t)packet->index,
		.bytes = index_bytes,
		.kind = WEIR_READ,
		.read_bytes = index_bytes,
	};
	uses[2] = (struct weir_use){
		.addr = packet->packet,
		.bytes = bytes,
		.kind = packet->unpack ? WEIR_READ : WEIR_OVERWRITE,
		.read_bytes = packet->unpack ? bytes : 0,
		.write_bytes = packet->unpack ? 0 : bytes,
	};
	return (struct weir_launch){.kernel = packet->unpack ? &unpack : &pack,
				    .uses = uses,
				    .nr_uses = BACKEND_PACKET_USES};
}

/* ------------------------------------------------------------------ digests */

int backend_digest_check(const struct backend *b, uint32_t device,
			 const struct backend_chunk *chunk, uint64_t bytes)
{
	if (!chunk || !bytes || bytes % DIGEST_TILE_BYTES || bytes > chunk->bytes)
		return -EINVAL;
	return chunk->memory == b->desc.device[device].memory ? 0 : -EINVAL;
}

struct weir_launch backend_digest_launch(const struct backend_chunk *chunk, uint64_t bytes,
					 struct weir_use *use)
{
	static const struct weir_kernel digest = {.name = "digest"};

	*use = (struct weir_use){
		.addr = chunk->alias, .bytes = bytes, .kind = WEIR_READ, .read_bytes = bytes};
	return (struct weir_launch){.kernel = &digest, .uses = use, .nr_uses = 1};
}

/* ------------------------------------------------------------------ managed memory */

static int stub_managed_setup(struct backend *b, const struct backend_managed *setup)
{
	(void)b, (void)setup;
	return -ENOSYS;
}

static int stub_managed_alloc(struct backend *b, uint64_t bytes, void **addr)
{
	(void)b, (void)bytes, (void)addr;
	return -ENOSYS;
}

static int stub_managed_prefetch(struct backend *b, stream_id_t stream, void *addr, uint64_t bytes,
				 uint32_t memory)
{
	(void)b, (void)stream, (void)addr, (void)bytes, (void)memory;
	return -ENOSYS;
}

static int stub_managed_advise(struct backend *b, void *addr, uint64_t bytes,
			       enum backend_advice advice, uint32_t to)
{
	(void)b, (void)addr, (void)bytes, (void)advice, (void)to;
	return -ENOSYS;
}

static void stub_managed_free(struct backend *b, void *addr)
{
	(void)b, (void)addr;
}

static int stub_managed_stats(struct backend *b, uint32_t device, struct backend_managed_stats *out)
{
	(void)b, (void)device, (void)out;
	return -ENOSYS;
}

void backend_managed_complete(struct backend_managed_ops *managed)
{
	if (!managed->setup)
		managed->setup = stub_managed_setup;
	if (!managed->alloc)
		managed->alloc = stub_managed_alloc;
	if (!managed->prefetch)
		managed->prefetch = stub_managed_prefetch;
	if (!managed->advise)
		managed->advise = stub_managed_advise;
	if (!managed->free)
		managed->free = stub_managed_free;
	if (!managed->stats)
		managed->stats = stub_managed_stats;
}

/* ------------------------------------------------------------------ what is only watched */

static int stub_fence_mark(struct backend *b, stream_id_t stream, fence_t *out)
{
	return b->ops->fence_record(b, stream, out);
}

static uint64_t stub_fence_time_ns(struct backend *b, fence_t fence)
{
	(void)b, (void)fence;
	return 0;
}

static int stub_device_times(struct backend *b, uint32_t device, uint64_t ns[BACKEND_TIME_NR])
{
	(void)b, (void)device, (void)ns;
	return -ENOSYS;
}

static void stub_inplace_bytes(struct backend *b, uint32_t device, uint32_t memory,
			       uint64_t bytes[BACKEND_DIRECTION_NR])
{
	(void)b, (void)device, (void)memory;
	for (int i = 0; i < BACKEND_DIRECTION_NR; i++)
		bytes[i] = 0;
}

static void stub_device_text(struct backend *b, uint32_t device, char *text, size_t bytes)
{
	snprintf(text, bytes, "%s", b->desc.device[device].name);
}

static void stub_memory_holders(struct backend *b, uint32_t memory, char *text, size_t bytes)
{
	(void)b, (void)memory, (void)bytes;
	text[0] = '\0';
}

static void stub_message_begin(struct backend *b, const struct backend_message *message)
{
	(void)b, (void)message;
}

static void stub_message_end(struct backend *b, bool sent)
{
	(void)b, (void)sent;
}

void backend_observe_complete(struct backend_observe_ops *observe)
{
	if (!observe->fence_mark)
		observe->fence_mark = stub_fence_mark;
	if (!observe->fence_time_ns)
		observe->fence_time_ns = stub_fence_time_ns;
	if (!observe->device_times)
		observe->device_times = stub_device_times;
	if (!observe->inplace_bytes)
		observe->inplace_bytes = stub_inplace_bytes;
	if (!observe->device_text)
		observe->device_text = stub_device_text;
	if (!observe->memory_holders)
		observe->memory_holders = stub_memory_holders;
	if (!observe->message_begin)
		observe->message_begin = stub_message_begin;
	if (!observe->message_end)
		observe->message_end = stub_message_end;
}

/* ------------------------------------------------------------------ checks */

int backend_chunk_devices(const struct backend *b, uint32_t memory, uint64_t *devices)
{
	const struct weir_machine_desc *desc = &b->desc;
	uint64_t reaching = 0;

	for (uint32_t d = 0; d < desc->nr_devices; d++)
		if (desc->device[d].memory == memory ||
		    cost_link_find(desc, desc->device[d].memory, memory) >= 0)
			reaching |= BACKEND_DEVICE_BIT(d);
	if (!*devices)
		*devices = reaching;
	if (desc->memory[memory].kind == WEIR_MEMORY_HOST)
		*devices &= ~BACKEND_HOST_BIT;
	return *devices & ~reaching ? -EINVAL : 0;
}

int backend_advice_check(const struct backend *b, enum backend_advice advice, uint32_t to,
			 uint64_t offset, uint64_t bytes, uint64_t whole)
{
	const struct weir_machine_desc *desc = &b->desc;

	if (!bytes || offset > whole || bytes > whole - offset)
		return -EINVAL;
	if (offset % BACKEND_MANAGED_BLOCK_BYTES ||
	    (bytes % BACKEND_MANAGED_BLOCK_BYTES && bytes != whole - offset))
		return -EINVAL;
	switch (advice) {
	case BACKEND_ADVICE_READ_MOSTLY:
	case BACKEND_ADVICE_UNSET_READ_MOSTLY:
	case BACKEND_ADVICE_UNSET_PREFERRED:
		return 0;
	case BACKEND_ADVICE_PREFERRED:
		return to < desc->nr_memories ? 0 : -EINVAL;
	case BACKEND_ADVICE_ACCESSED_BY:
	case BACKEND_ADVICE_UNSET_ACCESSED_BY:
		return to < desc->nr_devices ? 0 : -EINVAL;
	case BACKEND_ADVICE_NR:
		break;
	}
	return -EINVAL;
}

int backend_budget(struct backend *b, uint32_t memory, uint64_t *bytes)
{
	const struct weir_memory_desc *desc = &b->desc.memory[memory];
	uint64_t room = b->ops->memory_room(b, memory);
	char holders[256];

	if (!*bytes) {
		*bytes = MIN(room, desc->bytes);
		return 0;
	}
	if (*bytes > desc->bytes) {
		log_error("a budget of %.1f MB is beyond memory '%s', which has %.1f MB: ask for "
			  "less",
			  (double)*bytes / 1e6, desc->name, (double)desc->bytes / 1e6);
		return -EINVAL;
	}
	if (*bytes <= room)
		return 0;
	b->observe->memory_holders(b, memory, holders, sizeof(holders));
	log_error("a budget of %.1f MB is beyond the %.1f MB that are free in memory '%s' now: ask "
		  "for less, or see who holds the rest: %s",
		  (double)*bytes / 1e6, (double)room / 1e6, desc->name,
		  holders[0] ? holders : "processes that the system does not name");
	return -ENOMEM;
}
