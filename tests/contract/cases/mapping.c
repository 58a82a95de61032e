/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of reservations and of the mappings in them. */
#include "tests/contract/cases/cases.h"

void contract_reserve_arguments(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	void *addr = c;

	assert_int_equal(b->ops->va_reserve(b, 0, c->unit, &addr), -EINVAL);
	assert_int_equal(b->ops->va_reserve(b, c->unit, 0, &addr), -EINVAL);
	assert_int_equal(b->ops->va_reserve(b, c->unit + c->unit / 2, c->unit, &addr), -EINVAL);
	assert_int_equal(b->ops->va_reserve(b, c->unit, 100, &addr), -EINVAL);
	assert_ptr_equal(addr, c);
	assert_int_equal(b->ops->va_reserve(b, 3 * c->unit, c->unit, &addr), 0);
	assert_int_equal((uintptr_t)addr % c->unit, 0);
	b->ops->va_release(b, addr, 3 * c->unit);
}

void contract_map_rules(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	struct backend_chunk chunk, small, other;
	uint64_t nobody = c->devices + 1;
	char *va;

	assert_int_equal(b->ops->va_reserve(b, 4 * c->unit, c->unit, (void **)&va), 0);
	assert_int_equal(b->ops->chunk_create(b, GPU0, c->unit, 0, &chunk), 0);
	assert_int_equal(b->ops->chunk_create(b, GPU0, c->unit, 0, &other), 0);
	assert_int_equal(b->ops->chunk_create(b, GPU0, c->unit / 2, 0, &small), 0);
	assert_int_equal(b->ops->map(b, va + c->unit / 2, &chunk, BACKEND_PROT_WRITE, 1), -EINVAL);
	assert_int_equal(b->ops->map(b, va + 4 * c->unit, &chunk, BACKEND_PROT_WRITE, 1), -EINVAL);
	assert_int_equal(b->ops->map(b, va, &small, BACKEND_PROT_WRITE, 1), -EINVAL);
	assert_int_equal(b->ops->map(b, va, &chunk, BACKEND_PROT_WRITE, nobody), -EINVAL);
	assert_int_equal(b->ops->map(b, va, &chunk, BACKEND_PROT_WRITE, BACKEND_HOST_BIT), -EINVAL);
	assert_int_equal(b->ops->map(b, va, &chunk, BACKEND_PROT_WRITE, 1), 0);
	/* One address for one chunk. */
	assert_int_equal(b->ops->map(b, va, &other, BACKEND_PROT_WRITE, 1), -EINVAL);
	assert_int_equal(b->ops->set_access(b, va, BACKEND_PROT_READ, c->devices), 0);
	assert_int_equal(b->ops->set_access(b, va + c->unit, BACKEND_PROT_READ, 1), -EINVAL);
	assert_int_equal(b->ops->set_access(b, va, BACKEND_PROT_READ, nobody), -EINVAL);
	assert_int_equal(b->ops->unmap(b, va + c->unit), -EINVAL);
	assert_int_equal(b->ops->unmap(b, va + 1), -EINVAL);
	assert_int_equal(b->ops->unmap(b, va), 0);
	assert_int_equal(b->ops->unmap(b, va), -EINVAL);
	assert_int_equal(b->ops->map(b, va + c->unit, &chunk, BACKEND_PROT_WRITE, 1), 0);
	assert_int_equal(b->ops->unmap(b, va + c->unit), 0);
	b->ops->chunk_destroy(b, &chunk);
	assert_int_equal(b->ops->map(b, va, &chunk, BACKEND_PROT_WRITE, 1), -EINVAL);
	b->ops->chunk_destroy(b, &other);
	b->ops->chunk_destroy(b, &small);
	b->ops->va_release(b, va, 4 * c->unit);
}

/* Host memory: a kernel and the CPU see the same bytes at one address, and the CPU is kept out
 * again without harm to them. */
void contract_map_host(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	struct backend_chunk host;
	uint8_t back = 0, *va;

	assert_int_equal(b->ops->va_reserve(b, c->unit, c->unit, (void **)&va), 0);
	assert_int_equal(b->ops->chunk_create(b, HOST, c->unit, 0, &host), 0);
	assert_int_equal(b->ops->map(b, va, &host, BACKEND_PROT_WRITE, BACKEND_HOST_BIT | 1), 0);
	if (can(c, CAN_BYTES)) {
		memset(va, 5, c->unit);
		assert_int_equal(((uint8_t *)host.alias)[7], 5);
	}
	assert_int_equal(b->ops->set_access(b, va, BACKEND_PROT_WRITE, 1), 0);
	assert_int_equal(contract_add(b, c->compute, va, va, c->unit, 1), 0);
	contract_wait(b, c->compute);
	assert_int_equal(b->ops->set_access(b, va, BACKEND_PROT_WRITE, BACKEND_HOST_BIT), 0);
	if (can(c, CAN_BYTES))
		for (uint64_t i = 0; i < c->unit; i++)
			assert_int_equal(va[i], 6);
	assert_int_equal(b->ops->download(b, c->compute, data_of(c, &back), va + c->unit - 1, 1),
			 0);
	assert_int_equal(back, can(c, CAN_BYTES) ? 6 : 0);
	assert_int_equal(b->ops->unmap(b, va), 0);
	b->ops->chunk_destroy(b, &host);
	b->ops->va_release(b, va, c->unit);
}

/* A chunk changes hands: a kernel that is held back writes it at its old address, the next one uses
 * it at its new one, and the old mapping goes when the first is done. */
void contract_map_at_two_addresses(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	struct backend_chunk chunk, sum;
	uint8_t *va, byte = 40;
	fence_t first;

	assert_int_equal(b->ops->va_reserve(b, 3 * c->unit, c->unit, (void **)&va), 0);
	assert_int_equal(b->ops->chunk_create(b, GPU0, c->unit, 0, &chunk), 0);
	assert_int_equal(b->ops->chunk_create(b, GPU0, c->unit, 0, &sum), 0);
	assert_int_equal(b->ops->map(b, va, &chunk, BACKEND_PROT_WRITE, 1), 0);
	assert_int_equal(b->ops->map(b, va + 2 * c->unit, &sum, BACKEND_PROT_WRITE, 1), 0);
	assert_int_equal(b->ops->upload(b, c->compute, va, data_of(c, &byte), 1), 0);
	contract_gate_close(c, c->compute);
	assert_int_equal(contract_add(b, c->compute, va, va, 1, 1), 0);
	assert_int_equal(b->ops->fence_record(b, c->compute, &first), 0);
	/* Mapping waits for no kernel; where time is virtual, it takes some. */
	assert_int_equal(b->ops->map(b, va + c->unit, &chunk, BACKEND_PROT_WRITE, 1), 0);
	assert_int_equal(contract_add(b, c->compute, va + c->unit, va + 2 * c->unit, 1, 1), 0);
	if (can(c, CAN_WAIT))
		assert_int_equal(b->ops->fence_done(b, first), 0);
	contract_gate_open(c);
	assert_int_equal(b->ops->fence_wait(b, first), 0);
	assert_int_equal(b->ops->unmap(b, va), 0);
	assert_int_equal(b->ops->download(b, c->compute, data_of(c, &byte), va + 2 * c->unit, 1),
			 0);
	assert_int_equal(byte, can(c, CAN_BYTES) ? 42 : 40);
	/* The old address is free for it again. */
	assert_int_equal(b->ops->map(b, va, &chunk, BACKEND_PROT_WRITE, 1), 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(b->ops->unmap(b, va + (uint64_t)i * c->unit), 0);
	b->ops->chunk_destroy(b, &chunk);
	b->ops->chunk_destroy(b, &sum);
	b->ops->va_release(b, va, 3 * c->unit);
}

/* One block address after another is a chunk's, as many as it may have, each for another device and
 * with a protection of its own; they are the same bytes, and each comes and goes without the
 * others. */
void contract_map_at_many_addresses(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	const uint64_t bytes = BACKEND_PLACES_MAX * c->unit;
	stream_id_t stream[WEIR_DEVICES_MAX];
	struct backend_chunk chunk;
	uint8_t *va, byte = 40;
	uint8_t sum = byte;

	assert_int_equal(b->ops->va_reserve(b, bytes, c->unit, (void **)&va), 0);
	assert_int_equal(b->ops->chunk_create(b, GPU0, c->unit, 0, &chunk), 0);
	for (uint32_t d = 0; d < b->desc.nr_devices; d++)
		assert_int_equal(b->ops->stream_create(b, d, BACKEND_COMPUTE, &stream[d]), 0);
	for (uint32_t i = 0; i < BACKEND_PLACES_MAX; i++)
		assert_int_equal(b->ops->map(b, va + i * c->unit, &chunk,
					     i % 2 ? BACKEND_PROT_READ : BACKEND_PROT_WRITE,
					     BACKEND_DEVICE_BIT(i % b->desc.nr_devices)),
				 0);
	assert_int_equal(b->ops->upload(b, c->compute, va, data_of(c, &byte), 1), 0);
	/* They go from both ends and the middle; those that are left are as they were. */
	for (uint32_t i = 0; i < BACKEND_PLACES_MAX; i++) {
		uint32_t at = i * 7 % BACKEND_PLACES_MAX, d = at % b->desc.nr_devices;
		uint8_t *addr = va + at * c->unit;

		if (at % 2)
			assert_int_equal(b->ops->set_access(b, addr, BACKEND_PROT_WRITE,
							    BACKEND_DEVICE_BIT(d)),
					 0);
		assert_int_equal(contract_add(b, stream[d], addr, addr, 1, (uint8_t)i), 0);
		contract_wait(b, stream[d]);
		sum = (uint8_t)(sum + i);
		assert_int_equal(b->ops->unmap(b, addr), 0);
		assert_int_equal(b->ops->unmap(b, addr), -EINVAL);
	}
	assert_int_equal(b->ops->map(b, va, &chunk, BACKEND_PROT_READ, 1), 0);
	assert_int_equal(b->ops->download(b, c->compute, data_of(c, &byte), va, 1), 0);
	assert_int_equal(byte, can(c, CAN_BYTES) ? sum : 40);
	assert_int_equal(b->ops->unmap(b, va), 0);
	for (uint32_t d = 0; d < b->desc.nr_devices; d++)
		b->ops->stream_destroy(b, stream[d]);
	b->ops->chunk_destroy(b, &chunk);
	b->ops->va_release(b, va, bytes);
}

/* Access is given to all and taken back from them under a kernel that is held back: it keeps its
 * own, and nobody waits for it. */
void contract_access_of_others(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	struct backend_chunk chunk;
	uint8_t byte = 40;
	fence_t fence;
	void *va;

	assert_int_equal(b->ops->va_reserve(b, c->unit, c->unit, &va), 0);
	assert_int_equal(b->ops->chunk_create(b, HOST, c->unit, 0, &chunk), 0);
	assert_int_equal(b->ops->map(b, va, &chunk, BACKEND_PROT_WRITE, 1), 0);
	assert_int_equal(b->ops->upload(b, c->compute, va, data_of(c, &byte), 1), 0);
	contract_gate_close(c, c->compute);
	assert_int_equal(contract_add(b, c->compute, va, va, 1, 1), 0);
	assert_int_equal(b->ops->fence_record(b, c->compute, &fence), 0);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(b->ops->set_access(b, va, BACKEND_PROT_WRITE,
						    c->devices | BACKEND_HOST_BIT),
				 0);
		assert_int_equal(b->ops->set_access(b, va, BACKEND_PROT_WRITE, 1), 0);
	}
	if (can(c, CAN_WAIT))
		assert_int_equal(b->ops->fence_done(b, fence), 0);
	contract_gate_open(c);
	assert_int_equal(b->ops->fence_wait(b, fence), 0);
	assert_int_equal(b->ops->download(b, c->compute, data_of(c, &byte), va, 1), 0);
	assert_int_equal(byte, can(c, CAN_BYTES) ? 41 : 40);
	assert_int_equal(b->ops->unmap(b, va), 0);
	b->ops->chunk_destroy(b, &chunk);
	b->ops->va_release(b, va, c->unit);
}
