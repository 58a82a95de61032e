/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contract of src/backend/backend.h, on every implementation that runs anywhere. A backend
 * that holds no bytes is asked for everything but bytes.
 *
 * Labels: threads
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "src/backend/flaky/flaky.h"
#include "src/backend/watch/watch.h"
#include "tests/unit/test_sim_machine.h"

#define UNIT KIB(64)

struct contract {
	struct backend *b;
	struct backend *sim; /* the simulator inside, for its leak count */
	stream_id_t compute, in, out;
	bool real;
};

enum wrapper { BARE, FLAKY, WATCHED };

static int setup(void **state, enum weir_data data, enum wrapper wrapper)
{
	struct contract *c = calloc(1, sizeof(*c));
	struct weir_machine_desc desc;

	assert_non_null(c);
	test_machine(&desc);
	assert_int_equal(sim_create(&desc, data, &c->sim), 0);
	c->b = c->sim;
	if (wrapper == FLAKY)
		assert_int_equal(flaky_create(c->sim, &c->b), 0);
	if (wrapper == WATCHED) {
		assert_int_equal(watch_create(c->sim, &c->b), 0);
		assert_int_equal(watch_start(c->b, 1000), 0);
	}
	c->real = data == WEIR_DATA_REAL;
	assert_int_equal(c->b->ops->stream_create(c->b, 0, BACKEND_COMPUTE, &c->compute), 0);
	assert_int_equal(c->b->ops->stream_create(c->b, 0, BACKEND_COPY_IN, &c->in), 0);
	assert_int_equal(c->b->ops->stream_create(c->b, 0, BACKEND_COPY_OUT, &c->out), 0);
	*state = c;
	return 0;
}

static int setup_real(void **state)
{
	return setup(state, WEIR_DATA_REAL, BARE);
}

static int setup_phantom(void **state)
{
	return setup(state, WEIR_DATA_PHANTOM, BARE);
}

static int setup_flaky(void **state)
{
	return setup(state, WEIR_DATA_REAL, FLAKY);
}

/* It records, and is torn down while it does. */
static int setup_watched(void **state)
{
	return setup(state, WEIR_DATA_REAL, WATCHED);
}

static int teardown(void **state)
{
	struct contract *c = *state;

	c->b->ops->stream_destroy(c->b, c->compute);
	c->b->ops->stream_destroy(c->b, c->in);
	c->b->ops->stream_destroy(c->b, c->out);
	assert_int_equal(sim_leaks(c->sim), 0);
	c->b->ops->destroy(c->b);
	free(c);
	return 0;
}

static void wait_for(struct backend *b, stream_id_t stream)
{
	fence_t fence;

	assert_int_equal(b->ops->fence_record(b, stream, &fence), 0);
	assert_int_equal(b->ops->fence_wait(b, fence), 0);
	assert_int_equal(b->ops->fence_done(b, fence), 1);
}

/* ------------------------------------------------------------------ memory */

static void test_chunk_account_exact(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	struct backend_chunk chunk[16], more = {.handle = 77};

	for (int i = 0; i < 16; i++) {
		assert_int_equal(b->ops->chunk_create(b, GPU0, MIB(1), &chunk[i]), 0);
		assert_int_not_equal(chunk[i].handle, 0);
		assert_non_null(chunk[i].alias);
		assert_int_equal(chunk[i].bytes, MIB(1));
		assert_int_equal(chunk[i].memory, GPU0);
	}
	assert_int_equal(b->ops->memory_used(b, GPU0), MIB(16));
	assert_int_equal(b->ops->memory_used(b, HOST), 0);
	assert_int_equal(b->ops->chunk_create(b, GPU0, 4096, &more), -ENOMEM);
	assert_int_equal(more.handle, 77);
	/* Holes of one chunk each hold a large allocation: memory does not fragment. */
	for (int i = 0; i < 16; i += 2)
		b->ops->chunk_destroy(b, &chunk[i]);
	assert_int_equal(b->ops->memory_used(b, GPU0), MIB(8));
	assert_int_equal(b->ops->chunk_create(b, GPU0, MIB(8), &more), 0);
	assert_int_equal(b->ops->memory_used(b, GPU0), MIB(16));
	b->ops->chunk_destroy(b, &more);
	for (int i = 1; i < 16; i += 2)
		b->ops->chunk_destroy(b, &chunk[i]);
	assert_int_equal(b->ops->memory_used(b, GPU0), 0);
}

static void test_chunk_bad_arguments(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	struct backend_chunk chunk;

	assert_int_equal(b->ops->chunk_create(b, 3, 4096, &chunk), -EINVAL);
	assert_int_equal(b->ops->chunk_create(b, GPU0, 0, &chunk), -EINVAL);
	assert_int_equal(b->ops->chunk_create(b, GPU0, 4097, &chunk), -EINVAL);
	assert_int_equal(b->ops->chunk_create(b, GPU0, UINT64_MAX - 4095, &chunk), -ENOMEM);
}

static void test_plain_account(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	void *small, *large, *third = &small;

	assert_int_equal(b->ops->device_alloc(b, GPU0, 1, &small), 0);
	assert_int_equal(b->ops->memory_used(b, GPU0), 512);
	assert_int_equal(b->ops->device_alloc(b, GPU0, MIB(2) + 1, &large), 0);
	assert_int_equal(b->ops->memory_used(b, GPU0), MIB(4) + 512);
	assert_int_equal(b->ops->device_alloc(b, GPU0, MIB(12), &third), -ENOMEM);
	assert_ptr_equal(third, &small);
	assert_int_equal(b->ops->device_alloc(b, GPU0, 0, &third), -EINVAL);
	assert_int_equal(b->ops->device_alloc(b, 9, 1, &third), -EINVAL);
	assert_int_equal(b->ops->device_alloc(b, GPU0, UINT64_MAX, &third), -ENOMEM);
	b->ops->device_free(b, small);
	b->ops->device_free(b, NULL);
	assert_int_equal(b->ops->device_alloc(b, GPU0, MIB(12), &third), 0);
	b->ops->device_free(b, large);
	b->ops->device_free(b, third);
	assert_int_equal(b->ops->memory_used(b, GPU0), 0);
}

/* ------------------------------------------------------------------ mapping */

static void test_reserve_bad_arguments(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	void *addr = c;

	assert_int_equal(b->ops->va_reserve(b, 0, UNIT, &addr), -EINVAL);
	assert_int_equal(b->ops->va_reserve(b, UNIT, 0, &addr), -EINVAL);
	assert_int_equal(b->ops->va_reserve(b, UNIT + 4096, UNIT, &addr), -EINVAL);
	assert_int_equal(b->ops->va_reserve(b, UNIT, 100, &addr), -EINVAL);
	assert_ptr_equal(addr, c);
	assert_int_equal(b->ops->va_reserve(b, 3 * UNIT, UNIT, &addr), 0);
	assert_int_equal((uintptr_t)addr % UNIT, 0);
	b->ops->va_release(b, addr, 3 * UNIT);
}

static void test_map_rules(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	struct backend_chunk chunk, small, other;
	char *va;

	assert_int_equal(b->ops->va_reserve(b, 4 * UNIT, UNIT, (void **)&va), 0);
	assert_int_equal(b->ops->chunk_create(b, GPU0, UNIT, &chunk), 0);
	assert_int_equal(b->ops->chunk_create(b, GPU0, UNIT, &other), 0);
	assert_int_equal(b->ops->chunk_create(b, GPU0, 4096, &small), 0);
	assert_int_equal(b->ops->map(b, va + 4096, &chunk, BACKEND_PROT_WRITE, 1), -EINVAL);
	assert_int_equal(b->ops->map(b, va + 4 * UNIT, &chunk, BACKEND_PROT_WRITE, 1), -EINVAL);
	assert_int_equal(b->ops->map(b, va, &small, BACKEND_PROT_WRITE, 1), -EINVAL);
	assert_int_equal(b->ops->map(b, va, &chunk, BACKEND_PROT_WRITE, 1u << 2), -EINVAL);
	assert_int_equal(b->ops->map(b, va, &chunk, BACKEND_PROT_WRITE, BACKEND_HOST_BIT), -EINVAL);
	assert_int_equal(b->ops->map(b, va, &chunk, BACKEND_PROT_WRITE, 1), 0);
	/* One address for one chunk. */
	assert_int_equal(b->ops->map(b, va, &other, BACKEND_PROT_WRITE, 1), -EINVAL);
	assert_int_equal(b->ops->set_access(b, va, BACKEND_PROT_READ, 3), 0);
	assert_int_equal(b->ops->set_access(b, va + UNIT, BACKEND_PROT_READ, 1), -EINVAL);
	assert_int_equal(b->ops->set_access(b, va, BACKEND_PROT_READ, 1u << 5), -EINVAL);
	assert_int_equal(b->ops->unmap(b, va + UNIT), -EINVAL);
	assert_int_equal(b->ops->unmap(b, va + 1), -EINVAL);
	assert_int_equal(b->ops->unmap(b, va), 0);
	assert_int_equal(b->ops->unmap(b, va), -EINVAL);
	assert_int_equal(b->ops->map(b, va + UNIT, &chunk, BACKEND_PROT_WRITE, 1), 0);
	assert_int_equal(b->ops->unmap(b, va + UNIT), 0);
	b->ops->chunk_destroy(b, &chunk);
	assert_int_equal(b->ops->map(b, va, &chunk, BACKEND_PROT_WRITE, 1), -EINVAL);
	b->ops->chunk_destroy(b, &other);
	b->ops->chunk_destroy(b, &small);
	b->ops->va_release(b, va, 4 * UNIT);
}

/* A chunk changes hands: a kernel writes it at its old address, the next one reads it at its new
 * one, and the old mapping goes when the first is done. */
static void test_map_at_two_addresses(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	struct backend_chunk chunk;
	struct weir_use use;
	uint32_t sum = 0;
	fence_t first;
	uint8_t *va;

	assert_int_equal(b->ops->va_reserve(b, 2 * UNIT, UNIT, (void **)&va), 0);
	assert_int_equal(b->ops->chunk_create(b, GPU0, UNIT, &chunk), 0);
	assert_int_equal(b->ops->map(b, va, &chunk, BACKEND_PROT_WRITE, 1), 0);
	use = use_of(va, UNIT, WEIR_WRITE);
	assert_int_equal(
		launch_touch(b, c->compute, (struct touch){.write = va + 5, .value = 77}, &use, 1),
		0);
	assert_int_equal(b->ops->fence_record(b, c->compute, &first), 0);
	assert_int_equal(b->ops->map(b, va + UNIT, &chunk, BACKEND_PROT_WRITE, 1), 0);
	use = use_of(va + UNIT, UNIT, WEIR_READ);
	assert_int_equal(launch_touch(b, c->compute,
				      (struct touch){.read = va + UNIT + 5, .sum = &sum}, &use, 1),
			 0);
	assert_int_equal(b->ops->fence_wait(b, first), 0);
	assert_int_equal(b->ops->unmap(b, va), 0);
	wait_for(b, c->compute);
	if (c->real)
		assert_int_equal(sum, 77);
	assert_int_equal(b->ops->unmap(b, va), -EINVAL);
	assert_int_equal(b->ops->map(b, va, &chunk, BACKEND_PROT_WRITE, 1), 0);
	assert_int_equal(b->ops->unmap(b, va + UNIT), 0);
	assert_int_equal(b->ops->unmap(b, va), 0);
	b->ops->chunk_destroy(b, &chunk);
	b->ops->va_release(b, va, 2 * UNIT);
}

static void test_map_cost(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	const struct weir_vmm_desc *vmm = &b->desc.vmm;
	struct backend_chunk chunk;
	uint64_t t;
	char *va;

	assert_int_equal(b->ops->va_reserve(b, UNIT, UNIT, (void **)&va), 0);
	t = b->ops->now_ns(b);
	assert_int_equal(b->ops->chunk_create(b, GPU0, UNIT, &chunk), 0);
	assert_int_equal(b->ops->now_ns(b) - t, vmm->create_hbm_ns);
	t = b->ops->now_ns(b);
	assert_int_equal(b->ops->map(b, va, &chunk, BACKEND_PROT_WRITE, 3), 0);
	assert_int_equal(b->ops->now_ns(b) - t,
			 vmm->map_ns + vmm->set_access_ns + vmm->set_access_device_ns);
	t = b->ops->now_ns(b);
	assert_int_equal(b->ops->set_access(b, va, BACKEND_PROT_READ, 1), 0);
	assert_int_equal(b->ops->now_ns(b) - t, vmm->set_access_ns);
	t = b->ops->now_ns(b);
	assert_int_equal(b->ops->unmap(b, va), 0);
	assert_int_equal(b->ops->now_ns(b) - t, vmm->unmap_ns);
	t = b->ops->now_ns(b);
	b->ops->host_spend(b, 12345);
	assert_int_equal(b->ops->now_ns(b) - t, 12345);
	b->ops->chunk_destroy(b, &chunk);
	b->ops->va_release(b, va, UNIT);
}

/* ------------------------------------------------------------------ work */

static void test_upload_kernel_download(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	struct backend_chunk chunk[2];
	uint8_t *bytes = malloc(2 * UNIT), *back = calloc(1, 2 * UNIT);
	struct weir_use uses[2];
	uint32_t sum = 0;
	uint8_t *va;

	for (uint64_t i = 0; i < 2 * UNIT; i++)
		bytes[i] = (uint8_t)(i * 7 + i / 256);
	assert_int_equal(b->ops->va_reserve(b, 2 * UNIT, UNIT, (void **)&va), 0);
	for (uint32_t i = 0; i < 2; i++) {
		assert_int_equal(b->ops->chunk_create(b, i ? HOST : GPU0, UNIT, &chunk[i]), 0);
		assert_int_equal(b->ops->map(b, va + i * UNIT, &chunk[i], BACKEND_PROT_WRITE, 1),
				 0);
	}
	/* Across the border between a block in HBM and one on the host, unaligned. */
	assert_int_equal(
		b->ops->upload(b, c->compute, va + 3, c->real ? bytes : NULL, 2 * UNIT - 3), 0);
	uses[0] = use_of(va, UNIT, WEIR_READ);
	uses[1] = use_of(va + UNIT, UNIT, WEIR_WRITE);
	assert_int_equal(launch_touch(b, c->compute,
				      (struct touch){.read = va + 3 + 100,
						     .write = va + UNIT + 10,
						     .value = 99,
						     .sum = &sum},
				      uses, 2),
			 0);
	assert_int_equal(
		b->ops->download(b, c->compute, c->real ? back : NULL, va + 3, 2 * UNIT - 3), 0);
	if (c->real) {
		assert_int_equal(sum, bytes[100]);
		bytes[UNIT + 10 - 3] = 99;
		assert_memory_equal(bytes, back, 2 * UNIT - 3);
	}
	assert_int_equal(b->ops->upload(b, c->compute, va, bytes, 2 * UNIT + 1), -EINVAL);
	assert_int_equal(b->ops->upload(b, c->compute, back, bytes, 1), -EINVAL);
	assert_int_equal(b->ops->upload(b, 1234, va, bytes, 1), -EINVAL);
	if (c->real)
		assert_int_equal(b->ops->download(b, c->compute, NULL, va, 1), -EINVAL);
	assert_int_equal(b->ops->unmap(b, va + UNIT), 0);
	assert_int_equal(b->ops->download(b, c->compute, back, va, UNIT + 1), -EINVAL);
	assert_int_equal(b->ops->unmap(b, va), 0);
	for (uint32_t i = 0; i < 2; i++)
		b->ops->chunk_destroy(b, &chunk[i]);
	b->ops->va_release(b, va, 2 * UNIT);
	free(bytes);
	free(back);
}

static void test_copy_moves_bytes(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	struct backend_chunk host, gpu, peer;
	struct backend_copy copies[2];

	assert_int_equal(b->ops->chunk_create(b, HOST, UNIT, &host), 0);
	assert_int_equal(b->ops->chunk_create(b, GPU0, UNIT, &gpu), 0);
	assert_int_equal(b->ops->chunk_create(b, GPU1, UNIT, &peer), 0);
	if (c->real)
		memset(host.alias, 0x5a, UNIT);
	copies[0] = (struct backend_copy){gpu.alias, host.alias, UNIT};
	copies[1] = (struct backend_copy){peer.alias, gpu.alias, UNIT};
	assert_int_equal(b->ops->copy(b, c->in, copies, 2), 0);
	wait_for(b, c->in);
	if (c->real)
		assert_memory_equal(peer.alias, host.alias, UNIT);
	copies[0].bytes = UNIT + 1;
	assert_int_equal(b->ops->copy(b, c->in, copies, 1), -EINVAL);
	copies[0].bytes = 0;
	assert_int_equal(b->ops->copy(b, c->in, copies, 1), -EINVAL);
	copies[0] = (struct backend_copy){gpu.alias, &copies, 8};
	assert_int_equal(b->ops->copy(b, c->in, copies, 1), -EINVAL);
	copies[0] = (struct backend_copy){gpu.alias, (char *)gpu.alias + 4, 8};
	assert_int_equal(b->ops->copy(b, c->in, copies, 1), -EINVAL);
	assert_int_equal(b->ops->copy(b, c->in, copies, 0), -EINVAL);
	b->ops->chunk_destroy(b, &host);
	b->ops->chunk_destroy(b, &gpu);
	b->ops->chunk_destroy(b, &peer);
}

static void test_fence_orders_streams(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	struct backend_chunk host, gpu, back;
	fence_t first, second;
	uint64_t now;

	assert_int_equal(b->ops->chunk_create(b, HOST, MIB(1), &host), 0);
	assert_int_equal(b->ops->chunk_create(b, HOST, MIB(1), &back), 0);
	assert_int_equal(b->ops->chunk_create(b, GPU0, MIB(1), &gpu), 0);
	if (c->real) {
		memset(host.alias, 1, MIB(1));
		memset(gpu.alias, 2, MIB(1));
		memset(back.alias, 3, MIB(1));
	}
	assert_int_equal(
		b->ops->copy(b, c->in, &(struct backend_copy){gpu.alias, host.alias, MIB(1)}, 1),
		0);
	assert_int_equal(b->ops->fence_record(b, c->in, &first), 0);
	assert_int_not_equal(first, 0);
	assert_int_equal(b->ops->fence_done(b, first), 0);
	assert_int_equal(b->ops->fence_time_ns(b, first), 0);
	assert_int_equal(b->ops->stream_wait(b, c->out, first), 0);
	assert_int_equal(b->ops->stream_wait(b, c->out, 0), 0);
	assert_int_equal(
		b->ops->copy(b, c->out, &(struct backend_copy){back.alias, gpu.alias, MIB(1)}, 1),
		0);
	assert_int_equal(b->ops->fence_record(b, c->out, &second), 0);
	now = b->ops->now_ns(b);
	assert_int_equal(b->ops->fence_wait(b, second), 0);
	assert_true(b->ops->now_ns(b) > now);
	assert_int_equal(b->ops->fence_done(b, first), 1);
	assert_true(b->ops->fence_time_ns(b, first) > 0);
	assert_true(b->ops->fence_time_ns(b, first) < b->ops->fence_time_ns(b, second));
	assert_int_equal(b->ops->fence_time_ns(b, second), b->ops->now_ns(b));
	if (c->real)
		assert_memory_equal(back.alias, host.alias, MIB(1));
	b->ops->chunk_destroy(b, &host);
	b->ops->chunk_destroy(b, &gpu);
	b->ops->chunk_destroy(b, &back);
}

static void test_fence_bad_arguments(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	stream_id_t gone;
	fence_t fence;

	assert_int_equal(b->ops->fence_done(b, 0), 1);
	assert_int_equal(b->ops->fence_wait(b, 0), 0);
	assert_int_equal(b->ops->fence_record(b, 99, &fence), -EINVAL);
	assert_int_equal(b->ops->fence_record(b, c->compute, &fence), 0);
	assert_int_equal(b->ops->fence_done(b, fence + 1), -EINVAL);
	assert_int_equal(b->ops->stream_wait(b, c->compute, fence + 1), -EINVAL);
	assert_int_equal(b->ops->stream_wait(b, 99, fence), -EINVAL);
	assert_int_equal(b->ops->stream_create(b, 2, BACKEND_COMPUTE, &gone), -EINVAL);
	assert_null(b->ops->stream_native(b, c->compute));
	/* A fence outlives its stream. */
	assert_int_equal(b->ops->stream_create(b, 1, BACKEND_COMPUTE, &gone), 0);
	assert_int_equal(b->ops->fence_record(b, gone, &fence), 0);
	b->ops->stream_destroy(b, gone);
	assert_int_equal(b->ops->fence_done(b, fence), 1);
	assert_int_equal(b->ops->fence_wait(b, fence), 0);
	assert_int_equal(b->ops->fence_record(b, gone, &fence), -EINVAL);
}

static void test_launch_bad_arguments(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	struct weir_use use;
	uint32_t sum = 0;
	void *addr;

	assert_int_equal(b->ops->device_alloc(b, GPU0, 1000, &addr), 0);
	use = use_of(addr, 1001, WEIR_READ);
	assert_int_equal(launch_touch(b, c->compute, (struct touch){0}, &use, 1), -EINVAL);
	use.bytes = 0;
	assert_int_equal(launch_touch(b, c->compute, (struct touch){0}, &use, 1), -EINVAL);
	use.bytes = UINT64_MAX;
	assert_int_equal(launch_touch(b, c->compute, (struct touch){0}, &use, 1), -EINVAL);
	use = use_of(&sum, sizeof(sum), WEIR_READ);
	assert_int_equal(launch_touch(b, c->compute, (struct touch){0}, &use, 1), -EINVAL);
	assert_int_equal(launch_touch(b, c->compute, (struct touch){0}, NULL, 1), -EINVAL);
	assert_int_equal(launch_touch(b, 99, (struct touch){0}, NULL, 0), -EINVAL);
	assert_int_equal(launch_touch(b, c->compute, (struct touch){0}, NULL, 0), 0);
	wait_for(b, c->compute);
	b->ops->device_free(b, addr);
}

static void test_free_waits(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	struct weir_use use;
	uint32_t sum = 0;
	fence_t fence;
	uint8_t *addr;

	assert_int_equal(b->ops->device_alloc(b, GPU0, MIB(2), (void **)&addr), 0);
	use = use_of(addr, MIB(2), WEIR_WRITE);
	assert_int_equal(
		launch_touch(b, c->compute, (struct touch){.read = addr, .sum = &sum}, &use, 1), 0);
	assert_int_equal(b->ops->fence_record(b, c->compute, &fence), 0);
	assert_int_equal(b->ops->fence_done(b, fence), 0);
	b->ops->device_free(b, addr);
	assert_int_equal(b->ops->fence_done(b, fence), 1);
}

/* ------------------------------------------------------------------ access, errors */

static void test_trap_is_reported_once(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	struct weir_use use;
	fence_t before, after;
	char *va;

	assert_int_equal(b->ops->va_reserve(b, UNIT, UNIT, (void **)&va), 0);
	assert_int_equal(b->ops->fence_record(b, c->compute, &before), 0);
	use = use_of(va, UNIT, WEIR_READ);
	assert_int_equal(launch_touch(b, c->compute, (struct touch){0}, &use, 1), 0);
	assert_int_equal(b->ops->fence_record(b, c->compute, &after), 0);
	assert_int_equal(b->ops->fence_wait(b, before), 0);
	assert_int_equal(b->ops->fence_wait(b, after), -WEIR_ETRAP);
	assert_int_equal(b->ops->fence_wait(b, after), 0);
	assert_int_equal(b->ops->fence_done(b, after), 1);
	b->ops->va_release(b, va, UNIT);
}

static void test_guard_needs_bracket(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	struct backend_chunk chunk;
	struct weir_use use, declared;
	fence_t fence;
	char *va;

	assert_int_equal(b->ops->va_reserve(b, UNIT, UNIT, (void **)&va), 0);
	assert_int_equal(b->ops->chunk_create(b, GPU0, UNIT, &chunk), 0);
	assert_int_equal(b->ops->map(b, va, &chunk, BACKEND_PROT_WRITE, 1), 0);
	assert_int_equal(b->ops->access_guard(b, va + 1, true), -EINVAL);
	assert_int_equal(b->ops->access_guard(b, va, true), 0);
	use = use_of(va, UNIT, WEIR_WRITE);
	for (int kind = -1; kind <= WEIR_DISCARD; kind++) {
		bool enough = kind == WEIR_WRITE || kind == WEIR_OVERWRITE;

		declared = use_of(va, UNIT, kind < 0 ? WEIR_READ : (enum weir_use_kind)kind);
		if (kind >= 0)
			assert_int_equal(b->ops->access_begin(b, c->compute, &declared, 1), 0);
		assert_int_equal(launch_touch(b, c->compute, (struct touch){0}, &use, 1), 0);
		if (kind >= 0)
			b->ops->access_end(b, c->compute);
		assert_int_equal(b->ops->fence_record(b, c->compute, &fence), 0);
		assert_int_equal(b->ops->fence_wait(b, fence), enough ? 0 : -WEIR_ETRAP);
	}
	assert_int_equal(b->ops->access_begin(b, 99, &declared, 1), -EINVAL);
	declared.bytes = 0;
	assert_int_equal(b->ops->access_begin(b, c->compute, &declared, 1), -EINVAL);
	assert_int_equal(b->ops->access_guard(b, va, false), 0);
	assert_int_equal(launch_touch(b, c->compute, (struct touch){0}, &use, 1), 0);
	wait_for(b, c->compute);
	assert_int_equal(b->ops->unmap(b, va), 0);
	b->ops->chunk_destroy(b, &chunk);
	b->ops->va_release(b, va, UNIT);
}

static void test_poison_behind_fence(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	struct backend_chunk host, gpu;
	fence_t fence;

	assert_int_equal(b->ops->chunk_create(b, HOST, UNIT, &host), 0);
	assert_int_equal(b->ops->chunk_create(b, GPU0, UNIT, &gpu), 0);
	if (c->real) {
		memset(gpu.alias, 7, UNIT);
		memset(host.alias, 0, UNIT);
	}
	assert_int_equal(
		b->ops->copy(b, c->out, &(struct backend_copy){host.alias, gpu.alias, UNIT}, 1), 0);
	assert_int_equal(b->ops->fence_record(b, c->out, &fence), 0);
	b->ops->poison(b, &gpu, fence);
	assert_int_equal(b->ops->fence_wait(b, fence), 0);
	if (c->real) {
		float value;

		assert_int_equal(((uint8_t *)host.alias)[UNIT - 1], 7);
		memcpy(&value, (char *)gpu.alias + UNIT - 4, 4);
		assert_true(value != value);
	}
	b->ops->poison(b, &host, 0);
	b->ops->chunk_destroy(b, &host);
	b->ops->chunk_destroy(b, &gpu);
}

/* ------------------------------------------------------------------ progress */

struct progress {
	struct backend *b;
	fence_t fence;
	uint64_t nr, seen_ns;
	int blocking;
};

static void progress_count(void *arg)
{
	struct progress *p = arg;

	p->nr++;
	if (!p->seen_ns && p->b->ops->fence_done(p->b, p->fence) == 1)
		p->seen_ns = p->b->ops->now_ns(p->b);
	/* Virtual time passes for the migrator; it is not called again from here. */
	p->b->ops->host_spend(p->b, 10);
}

static void test_progress_after_completion(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	struct progress p = {.b = b};
	uint64_t nr;

	assert_int_equal(b->ops->set_progress(b, progress_count, &p), 0);
	assert_int_equal(launch_touch(b, c->compute, (struct touch){0}, NULL, 0), 0);
	assert_int_equal(b->ops->fence_record(b, c->compute, &p.fence), 0);
	assert_int_equal(p.nr, 0);
	b->ops->host_spend(b, 100000);
	assert_int_equal(p.nr, 1);
	assert_int_equal(p.seen_ns, b->ops->fence_time_ns(b, p.fence));
	assert_int_equal(b->ops->set_progress(b, NULL, &p), 0);
	nr = p.nr;
	assert_int_equal(launch_touch(b, c->compute, (struct touch){0}, NULL, 0), 0);
	wait_for(b, c->compute);
	b->ops->host_spend(b, 100000);
	assert_int_equal(p.nr, nr);
}

/* A mark is reached in its place on the stream, has a time, and calls nobody. */
static void test_marks(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	struct progress p = {.b = b};
	fence_t before, after;

	assert_int_equal(b->ops->set_progress(b, progress_count, &p), 0);
	b->ops->host_spend(b, 1000);
	assert_int_equal(b->ops->fence_mark(b, c->compute, &before), 0);
	assert_int_equal(launch_touch(b, c->compute, (struct touch){0}, NULL, 0), 0);
	assert_int_equal(b->ops->fence_mark(b, c->compute, &after), 0);
	assert_int_equal(b->ops->fence_time_ns(b, after), 0);
	b->ops->host_spend(b, 100000);
	assert_int_equal(p.nr, 0);
	assert_true(b->ops->fence_time_ns(b, before) > 0);
	/* A launch call of 300 ns, and the least time of a kernel. */
	assert_int_equal(b->ops->fence_time_ns(b, after) - b->ops->fence_time_ns(b, before), 800);
	assert_int_equal(b->ops->fence_mark(b, 99, &before), -EINVAL);
	assert_int_equal(b->ops->set_progress(b, NULL, &p), 0);
}

static void test_time_is_monotone(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	struct backend_chunk chunk;
	uint64_t last = b->ops->now_ns(b);

	for (int i = 0; i < 100; i++) {
		assert_int_equal(b->ops->chunk_create(b, GPU0, UNIT, &chunk), 0);
		assert_int_equal(launch_touch(b, c->compute, (struct touch){0}, NULL, 0), 0);
		if (i % 7 == 0)
			wait_for(b, c->compute);
		b->ops->chunk_destroy(b, &chunk);
		assert_true(b->ops->now_ns(b) > last);
		last = b->ops->now_ns(b);
	}
	wait_for(b, c->compute);
}

static void test_managed_is_optional(void **state)
{
	struct contract *c = *state;
	void *addr;

	assert_int_equal(c->b->ops->managed_alloc(c->b, 4096, &addr), -ENOSYS);
	assert_int_equal(c->b->ops->managed_prefetch(c->b, c->compute, NULL, 1, 0), -ENOSYS);
}

/* ------------------------------------------------------------------ threads */

static void *hammer(void *arg)
{
	struct contract *c = arg;
	struct backend *b = c->b;
	intptr_t failures = 0;

	for (int i = 0; i < 200; i++) {
		struct backend_chunk chunk;
		fence_t fence;
		void *va;

		failures += b->ops->va_reserve(b, UNIT, UNIT, &va) != 0;
		failures += b->ops->chunk_create(b, GPU0, UNIT, &chunk) != 0;
		failures += b->ops->map(b, va, &chunk, BACKEND_PROT_WRITE, 1) != 0;
		failures += launch_touch(b, c->compute, (struct touch){0}, NULL, 0) != 0;
		failures += b->ops->fence_record(b, c->compute, &fence) != 0;
		failures += b->ops->fence_wait(b, fence) != 0;
		failures += b->ops->unmap(b, va) != 0;
		b->ops->chunk_destroy(b, &chunk);
		b->ops->va_release(b, va, UNIT);
	}
	return (void *)failures;
}

static void test_threads(void **state)
{
	struct contract *c = *state;
	struct progress p = {.b = c->b};
	pthread_t thread[3];

	assert_int_equal(c->b->ops->set_progress(c->b, progress_count, &p), 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, hammer, c), 0);
	for (int i = 0; i < 3; i++) {
		void *failures;

		pthread_join(thread[i], &failures);
		assert_null(failures);
	}
	assert_true(p.nr > 0);
	assert_int_equal(c->b->ops->set_progress(c->b, NULL, &p), 0);
}

/* ------------------------------------------------------------------ injected failures */

/* Everything once; the first error, with what was made taken back. */
static int scripted_run(struct backend *b)
{
	struct weir_use use = {.kind = WEIR_READ};
	struct backend_chunk host, gpu;
	fence_t fence = 0;
	stream_id_t stream;
	void *va, *plain;
	uint8_t byte = 1;
	int err;

	err = b->ops->chunk_create(b, HOST, UNIT, &host);
	if (err)
		return err;
	err = b->ops->chunk_create(b, GPU0, UNIT, &gpu);
	if (err)
		goto err_host;
	err = b->ops->va_reserve(b, UNIT, UNIT, &va);
	if (err)
		goto err_gpu;
	err = b->ops->map(b, va, &gpu, BACKEND_PROT_WRITE, 1);
	if (err)
		goto err_release;
	err = b->ops->stream_create(b, 0, BACKEND_COMPUTE, &stream);
	if (err)
		goto err_unmap;
	err = b->ops->device_alloc(b, GPU0, 100, &plain);
	if (err)
		goto err_stream;
	use = use_of(va, UNIT, WEIR_READ);
	(void)((err = b->ops->set_access(b, va, BACKEND_PROT_READ, 1)) ||
	       (err = b->ops->access_guard(b, va, true)) ||
	       (err = b->ops->access_begin(b, stream, &use, 1)));
	(void)(err || (err = launch_touch(b, stream, (struct touch){0}, &use, 1)) ||
	       (err = b->ops->copy(b, stream, &(struct backend_copy){gpu.alias, host.alias, UNIT},
				   1)) ||
	       (err = b->ops->upload(b, stream, plain, &byte, 1)) ||
	       (err = b->ops->download(b, stream, &byte, plain, 1)) ||
	       (err = b->ops->fence_record(b, stream, &fence)) ||
	       (err = b->ops->stream_wait(b, stream, fence)) ||
	       (err = b->ops->fence_wait(b, fence)) ||
	       (err = b->ops->fence_done(b, fence) == 1 ? 0 : -EIO));
	b->ops->access_end(b, stream);
	b->ops->device_free(b, plain);
err_stream:
	b->ops->stream_destroy(b, stream);
err_unmap:
	while (b->ops->unmap(b, va))
		err = err ? err : -EIO;
err_release:
	b->ops->va_release(b, va, UNIT);
err_gpu:
	b->ops->chunk_destroy(b, &gpu);
err_host:
	b->ops->chunk_destroy(b, &host);
	return err;
}

static void test_flaky_fails_each_call(void **state)
{
	struct contract *c = *state;
	uint64_t before = flaky_nr_calls(c->b), nr;
	int leaks = sim_leaks(c->sim);

	assert_ptr_equal(flaky_inner(c->b), c->sim);
	assert_int_equal(scripted_run(c->b), 0);
	nr = flaky_nr_calls(c->b) - before;
	assert_true(nr >= 18);
	for (uint64_t i = 1; i <= nr; i++) {
		flaky_arm(c->b, flaky_nr_calls(c->b) + i, -EIO);
		assert_int_equal(scripted_run(c->b), -EIO);
		assert_int_equal(sim_leaks(c->sim), leaks);
		assert_int_equal(c->b->ops->memory_used(c->b, GPU0), 0);
		assert_int_equal(c->b->ops->memory_used(c->b, HOST), 0);
	}
	flaky_arm(c->b, 0, 0);
	assert_int_equal(scripted_run(c->b), 0);
}

/* ------------------------------------------------------------------ */

#define CASE(test, setup)                                          \
	{                                                          \
#test " (" #setup ")", test, setup, teardown, NULL \
	}
#define SUITE(setup)                                                                              \
	CASE(test_chunk_account_exact, setup), CASE(test_chunk_bad_arguments, setup),             \
		CASE(test_plain_account, setup), CASE(test_reserve_bad_arguments, setup),         \
		CASE(test_map_rules, setup), CASE(test_map_cost, setup),                          \
		CASE(test_map_at_two_addresses, setup), CASE(test_upload_kernel_download, setup), \
		CASE(test_copy_moves_bytes, setup), CASE(test_fence_orders_streams, setup),       \
		CASE(test_fence_bad_arguments, setup), CASE(test_launch_bad_arguments, setup),    \
		CASE(test_free_waits, setup), CASE(test_trap_is_reported_once, setup),            \
		CASE(test_guard_needs_bracket, setup), CASE(test_poison_behind_fence, setup),     \
		CASE(test_progress_after_completion, setup), CASE(test_marks, setup),             \
		CASE(test_time_is_monotone, setup), CASE(test_managed_is_optional, setup),        \
		CASE(test_threads, setup)

int main(void)
{
	const struct CMUnitTest tests[] = {
		SUITE(setup_real),
		SUITE(setup_phantom),
		SUITE(setup_flaky),
		SUITE(setup_watched),
		CASE(test_flaky_fails_each_call, setup_flaky),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
