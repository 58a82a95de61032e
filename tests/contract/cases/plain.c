/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cases of plain memory: pages, mappings and copies are the same on every backend. The bytes of an
 * object are written through one path and looked at through the others.
 */
#include "src/backend/flaky/flaky.h"
#include "src/backend/machine.h"
#include "src/mem/mem.h"
#include "tests/contract/cases/cases.h"

/* Above the pages and the roots that there are, and no multiple of anything. */
#define ODD_BYTES (MIB(3) + 17)

/* Where the CPU's copy of an object is. */
static uint8_t *buffer_of(const struct contract *c, uint64_t bytes)
{
	uint8_t *buffer = calloc(1, bytes);

	assert_non_null(buffer);
	(void)c;
	return buffer;
}

static struct weir_pool *open_pool(struct contract *c, enum weir_guard guard)
{
	const struct weir_pool_config config = {.name = "cases", .guard = guard};
	struct weir_pool *pool;

	assert_int_equal(weir_pool_create(contract_machine(c), &config, &pool), 0);
	return pool;
}

static void close_pool(struct weir_pool *pool)
{
	struct weir_pool_stats stats;

	assert_int_equal(weir_pool_check(pool), 0);
	weir_pool_query(pool, &stats);
	for (uint32_t m = 0; m < WEIR_MEMORIES_MAX; m++)
		assert_int_equal(stats.nr_objects[m], 0);
	for (uint32_t d = 0; d < WEIR_DEVICES_MAX; d++)
		assert_int_equal(stats.dma_bytes[d], 0);
	weir_pool_destroy(pool);
}

static struct weir_mem *get(struct weir_pool *pool, uint32_t memory, uint64_t bytes)
{
	const struct weir_mem_params params = {.bytes = bytes, .memory = memory};
	struct weir_mem *mem;

	assert_int_equal(weir_mem_alloc(pool, &params, &mem), 0);
	return mem;
}

static struct weir_mem_info info_of(const struct weir_mem *mem)
{
	struct weir_mem_info info;

	weir_mem_query(mem, &info);
	return info;
}

/* Who may use an object: at its address, and by copy engines. */
static void expect_masks(const struct weir_mem *mem, uint64_t users, uint64_t engines)
{
	assert_int_equal(info_of(mem).users, users);
	assert_int_equal(info_of(mem).engines, engines);
}

static uint8_t byte_at(uint64_t seed, uint64_t i)
{
	return (uint8_t)(seed * 31 + i + (i >> 8) * 7);
}

static void fill(const struct contract *c, uint8_t *bytes, uint64_t nr, uint64_t seed)
{
	for (uint64_t i = 0; i < nr && can(c, CAN_BYTES); i++)
		bytes[i] = byte_at(seed, i);
}

/* Bytes are those of the seed, each with `add` more. */
static void expect(const struct contract *c, const uint8_t *bytes, uint64_t nr, uint64_t seed,
		   uint8_t add)
{
	for (uint64_t i = 0; i < nr && can(c, CAN_BYTES); i++)
		if (bytes[i] != (uint8_t)(byte_at(seed, i) + add))
			fail_msg("byte %llu is %u, not %u", (unsigned long long)i, bytes[i],
				 (uint8_t)(byte_at(seed, i) + add));
}

/* ------------------------------------------------------------------ pages */

/* The rules of weir_mem_alloc(), which are those of the driver's own objects. */
void contract_plain_pages(void **state)
{
	static const struct {
		uint32_t memory;
		uint64_t bytes, page;
	} rules[] = {
		{HOST, 1, KIB(4)},
		{HOST, KIB(4) - 1, KIB(4)},
		{HOST, KIB(4), KIB(4)},
		{HOST, 7 * KIB(4), KIB(4)},
		{HOST, MIB(4), KIB(4)},
		{GPU0, 1, KIB(4)},
		{GPU0, KIB(64) - 1, KIB(4)},
		{GPU0, KIB(64), KIB(64)},
		{GPU0, MIB(2) - 1, KIB(64)},
		{GPU0, MIB(2), MIB(2)},
		{GPU0, 2 * MIB(2) - 1, MIB(2)},
	};
	struct contract *c = *state;
	struct weir_pool *pool = open_pool(c, WEIR_GUARD_OFF);

	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
		struct weir_mem *mem = get(pool, rules[i].memory, rules[i].bytes);
		struct weir_mem_info info = info_of(mem);
		uint64_t large = MIB(2);

		assert_int_equal(info.page_bytes, rules[i].page);
		assert_int_equal(info.bytes, rules[i].bytes);
		assert_int_equal(info.memory, rules[i].memory);
		assert_int_equal(info.choice, WEIR_CHOICE_ASKED);
		assert_int_equal(info.users | info.engines, 0);
		assert_null(info.addr);
		assert_true(info.physical_bytes >= rules[i].bytes);
		assert_int_equal(info.physical_bytes % info.page_bytes, 0);
		assert_true(info.physical_bytes - rules[i].bytes <
			    (rules[i].bytes > large ? large : rules[i].page));
		weir_mem_free(mem, NULL);
	}
	/* Larger pages than roots are, on request. */
	for (uint64_t page = KIB(4); page <= MIB(4); page *= 2) {
		const struct weir_mem_params params = {
			.bytes = ODD_BYTES, .memory = GPU0, .page_bytes = page};
		struct weir_mem *mem;

		assert_int_equal(weir_mem_alloc(pool, &params, &mem), 0);
		assert_int_equal(info_of(mem).page_bytes, page);
		assert_int_equal(weir_pool_check(pool), 0);
		weir_mem_free(mem, NULL);
	}
	close_pool(pool);
}

void contract_plain_sizes_refused(void **state)
{
	static const uint64_t pages[] = {1, 2048, 4095, KIB(4) + 1, KIB(12), UINT64_C(1) << 63};
	struct contract *c = *state;
	struct weir_pool *pool = open_pool(c, WEIR_GUARD_OFF), *none = NULL;
	struct weir_mem_params params = {.bytes = 1, .memory = GPU0};
	struct weir_mem *mem = (void *)&params;
	struct weir_pool_config config = {.guard = (enum weir_guard)17};

	for (size_t i = 0; i < sizeof(pages) / sizeof(pages[0]); i++) {
		params.page_bytes = pages[i];
		assert_int_equal(weir_mem_alloc(pool, &params, &mem), -EINVAL);
	}
	params.page_bytes = 0;
	params.bytes = 0;
	assert_int_equal(weir_mem_alloc(pool, &params, &mem), -EINVAL);
	params.bytes = 1;
	params.memory = c->b->desc.nr_memories;
	assert_int_equal(weir_mem_alloc(pool, &params, &mem), -EINVAL);
	params.memory = GPU0;
	params.bytes = c->b->desc.memory[GPU0].bytes + 1;
	assert_int_equal(weir_mem_alloc(pool, &params, &mem), -ENOMEM);
	params.bytes = UINT64_MAX;
	assert_int_equal(weir_mem_alloc(pool, &params, &mem), -ENOMEM);
	assert_ptr_equal(mem, &params);
	assert_int_equal(weir_mem_alloc(NULL, &params, &mem), -EINVAL);
	assert_int_equal(weir_mem_alloc(pool, NULL, &mem), -EINVAL);
	assert_int_equal(weir_pool_create(contract_machine(c), &config, &none), -EINVAL);
	assert_null(none);
	weir_mem_free(NULL, NULL);
	weir_pool_destroy(NULL);
	assert_int_equal(c->b->ops->memory_used(c->b, GPU0), 0);
	close_pool(pool);
}

/* ------------------------------------------------------------------ mappings */

void contract_plain_cpu(void **state)
{
	static const uint64_t sizes[] = {1, KIB(64), ODD_BYTES};
	struct contract *c = *state;
	struct weir_pool *pool = open_pool(c, WEIR_GUARD_OFF);
	struct weir_mem *gpu = get(pool, GPU0, 1);
	void *none = pool;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct weir_mem *mem = get(pool, HOST, sizes[i]);
		void *addr = NULL, *again = NULL;

		weir_mem_unmap(mem, WEIR_MEM_CPU, 0); /* never mapped */
		assert_int_equal(weir_mem_map(mem, WEIR_MEM_CPU, 0, &addr), 0);
		assert_non_null(addr);
		assert_int_equal((uintptr_t)addr % KIB(4), 0);
		assert_int_equal(weir_mem_map(mem, WEIR_MEM_CPU, 0, &again), 0);
		assert_ptr_equal(again, addr);
		expect_masks(mem, WEIR_MEM_CPU, 0);
		if (can(c, CAN_BYTES))
			memset(addr, 0x5a, sizes[i]);
		weir_mem_unmap(mem, WEIR_MEM_CPU, 0);
		weir_mem_unmap(mem, WEIR_MEM_CPU, 0);
		expect_masks(mem, 0, 0);
		assert_ptr_equal(info_of(mem).addr, addr);
		assert_int_equal(weir_mem_map(mem, WEIR_MEM_CPU, 0, &again), 0);
		assert_ptr_equal(again, addr);
		for (uint64_t k = 0; k < sizes[i] && can(c, CAN_BYTES); k++)
			assert_int_equal(((uint8_t *)again)[k], 0x5a);
		assert_int_equal(weir_pool_check(pool), 0);
		weir_mem_free(mem, NULL); /* mapped */
	}
	assert_int_equal(weir_mem_map(gpu, WEIR_MEM_CPU, 0, &none), -ENOTSUP);
	assert_int_equal(weir_mem_map(gpu, WEIR_MEM_CPU | WEIR_MEM_DEVICE(0), 0, &none), -ENOTSUP);
	assert_ptr_equal(none, pool);
	expect_masks(gpu, 0, 0);
	weir_mem_free(gpu, NULL);
	close_pool(pool);
}

/* One device and one memory: the address, what it implies, and who is still there afterwards. */
static void one_device(struct contract *c, struct weir_pool *pool, uint32_t memory, uint32_t d,
		       uint64_t bytes)
{
	struct weir_mem *mem = get(pool, memory, bytes);
	const uint64_t bit = WEIR_MEM_DEVICE(d);
	void *addr = NULL, *again = NULL;

	weir_mem_unmap(mem, WEIR_MEM_ALL, 0);
	assert_int_equal(weir_mem_map(mem, 0, bit, &addr), 0);
	assert_null(addr);
	expect_masks(mem, 0, bit);
	assert_int_equal(weir_mem_map(mem, bit, 0, &addr), 0);
	expect_masks(mem, bit, bit);
	assert_int_equal((uintptr_t)addr % info_of(mem).page_bytes, 0);
	assert_int_equal(weir_mem_map(mem, bit, bit, &again), 0);
	assert_ptr_equal(again, addr);
	/* The engine's goes with the address, not the other way. */
	weir_mem_unmap(mem, bit, 0);
	expect_masks(mem, 0, bit);
	assert_int_equal(weir_mem_map(mem, bit, 0, &again), 0);
	assert_ptr_equal(again, addr);
	weir_mem_unmap(mem, 0, bit);
	expect_masks(mem, 0, 0);
	weir_mem_unmap(mem, bit, bit);
	assert_int_equal(weir_pool_check(pool), 0);
	assert_int_equal(weir_mem_map(mem, bit, 0, &again), 0);
	assert_ptr_equal(again, addr);
	weir_mem_free(mem, NULL);
	(void)c;
}

void contract_plain_devices(void **state)
{
	struct contract *c = *state;
	struct weir_pool *pool = open_pool(c, WEIR_GUARD_OFF);
	struct weir_mem *mem = get(pool, HOST, 1);
	const struct weir_machine_desc *desc = &c->b->desc;

	for (uint32_t m = 0; m < desc->nr_memories; m++)
		for (uint32_t d = 0; d < desc->nr_devices; d++)
			if (mem_reaches(desc, d, m)) {
				one_device(c, pool, m, d, 100);
				one_device(c, pool, m, d, ODD_BYTES);
			}
	assert_int_equal(weir_mem_map(mem, 0, 0, NULL), -EINVAL);
	assert_int_equal(weir_mem_map(NULL, 1, 0, NULL), -EINVAL);
	assert_int_equal(weir_mem_map(mem, WEIR_MEM_DEVICE(20), 0, NULL), -EINVAL);
	assert_int_equal(weir_mem_map(mem, 1, WEIR_MEM_DEVICE(32), NULL), -EINVAL);
	assert_int_equal(weir_mem_map(mem, 1, WEIR_MEM_CPU, NULL), -EINVAL);
	assert_int_equal(weir_mem_map(mem, 1, WEIR_MEM_ALL, NULL), -EINVAL);
	assert_int_equal(weir_mem_map(mem, WEIR_MEM_DEVICE(desc->nr_devices), 0, NULL), -EINVAL);
	assert_int_equal(weir_mem_map(mem, 0, WEIR_MEM_DEVICE(desc->nr_devices), NULL), -EINVAL);
	expect_masks(mem, 0, 0);
	weir_mem_free(mem, NULL);
	close_pool(pool);
}

void contract_plain_all(void **state)
{
	struct contract *c = *state;
	struct weir_pool *pool = open_pool(c, WEIR_GUARD_OFF);

	for (uint32_t m = 0; m < c->b->desc.nr_memories; m++) {
		struct weir_mem *mem = get(pool, m, ODD_BYTES), *small = get(pool, m, 5);
		uint64_t all = c->devices | (m == HOST ? WEIR_MEM_CPU : 0);
		void *addr = NULL, *again = NULL;

		assert_int_equal(weir_mem_map(mem, WEIR_MEM_ALL, 0, &addr), 0);
		assert_int_equal(weir_mem_map(small, WEIR_MEM_ALL, 0, NULL), 0);
		expect_masks(mem, all, c->devices);
		expect_masks(small, all, c->devices);
		weir_mem_unmap(mem, WEIR_MEM_DEVICE(0), 0);
		expect_masks(mem, all & ~WEIR_MEM_DEVICE(0), c->devices);
		assert_int_equal(weir_mem_map(mem, WEIR_MEM_ALL, 0, &again), 0);
		assert_ptr_equal(addr, again);
		assert_int_equal(weir_pool_check(pool), 0);
		weir_mem_unmap(mem, WEIR_MEM_ALL, 0);
		expect_masks(mem, 0, 0);
		weir_mem_free(small, NULL);
		weir_mem_free(mem, NULL);
	}
	close_pool(pool);
}

/* ------------------------------------------------------------------ bytes */

/* Add 1 to every byte with a kernel of a device, at its address. */
static void kernel_adds(struct contract *c, struct weir_mem *mem, uint32_t d)
{
	struct weir_mem_info info = info_of(mem);
	stream_id_t stream;

	assert_int_equal(c->b->ops->stream_create(c->b, d, BACKEND_COMPUTE, &stream), 0);
	assert_int_equal(contract_add(c->b, stream, info.addr, info.addr, info.bytes, 1), 0);
	contract_wait(c->b, stream);
	c->b->ops->stream_destroy(c->b, stream);
}

/* Written by one engine, changed by kernels of all devices at their address and by the CPU at its,
 * copied by an engine to another object, and read by an engine there. */
static void paths_agree(struct contract *c, struct weir_pool *pool, uint32_t memory, uint64_t bytes)
{
	struct weir_mem *mem = get(pool, memory, bytes), *other = get(pool, HOST, bytes);
	uint8_t *data = buffer_of(c, bytes), nr_added = 0;
	struct weir_stream *stream;
	void *seen;

	assert_int_equal(weir_stream_create(contract_machine(c), 0, &stream), 0);
	fill(c, data, bytes, memory + bytes);
	assert_int_equal(weir_mem_map(mem, WEIR_MEM_ALL, 0, NULL), 0);
	assert_int_equal(weir_mem_write(mem, 0, 0, data, bytes), 0);
	for (uint32_t d = 0; d < c->b->desc.nr_devices; d++, nr_added++)
		kernel_adds(c, mem, d);
	if (memory == HOST && can(c, CAN_BYTES)) {
		uint8_t *byte = info_of(mem).addr;

		expect(c, byte, bytes, memory + bytes, nr_added);
		for (uint64_t i = 0; i < bytes; i++)
			byte[i]++;
		nr_added++;
	}
	assert_int_equal(weir_mem_map(other, WEIR_MEM_CPU, WEIR_MEM_DEVICE(0), &seen), 0);
	assert_int_equal(weir_mem_copy(stream, other, 0, mem, 0, bytes), 0);
	assert_int_equal(weir_stream_sync(stream), 0);
	expect(c, seen, bytes, memory + bytes, nr_added);
	memset(data, 0, bytes);
	assert_int_equal(weir_mem_read(mem, 0, 0, data, bytes), 0);
	expect(c, data, bytes, memory + bytes, nr_added);
	/* Parts, at any offset. */
	memset(data, 0, bytes);
	assert_int_equal(weir_mem_read(mem, 0, bytes / 2, data + bytes / 2, bytes - bytes / 2), 0);
	assert_int_equal(weir_mem_read(mem, 0, 0, data, bytes / 2 ? bytes / 2 : 1), 0);
	expect(c, data, bytes, memory + bytes, nr_added);
	assert_int_equal(weir_mem_write(mem, 0, bytes, data, 1), -EINVAL);
	assert_int_equal(weir_mem_read(mem, 0, 0, data, bytes + 1), -EINVAL);
	assert_int_equal(weir_mem_read(mem, 0, 1, data, UINT64_MAX), -EINVAL);
	assert_int_equal(weir_mem_copy(stream, mem, 0, mem, 0, 1), -EINVAL);
	weir_mem_unmap(mem, WEIR_MEM_ALL, 0);
	assert_int_equal(weir_mem_read(mem, 0, 0, data, 1), -EACCES);
	assert_int_equal(weir_mem_copy(stream, mem, 0, other, 0, 1), -EACCES);
	weir_mem_free(mem, NULL);
	weir_mem_free(other, NULL);
	weir_stream_destroy(stream);
	free(data);
}

void contract_plain_paths_agree(void **state)
{
	struct contract *c = *state;
	struct weir_pool *pool = open_pool(c, WEIR_GUARD_OFF);

	for (uint32_t m = 0; m < c->b->desc.nr_memories; m++) {
		paths_agree(c, pool, m, 1);
		paths_agree(c, pool, m, KIB(60));
		paths_agree(c, pool, m, ODD_BYTES);
	}
	close_pool(pool);
}

/* Many small objects of one root, mapped for one or another: none has another's bytes. */
void contract_plain_small_ones(void **state)
{
	enum { NR = 24, BYTES = 5000 };
	struct contract *c = *state;
	struct weir_pool *pool = open_pool(c, WEIR_GUARD_OFF);
	struct weir_mem *mem[NR];
	uint8_t *data = buffer_of(c, BYTES);

	for (uint32_t i = 0; i < NR; i++) {
		mem[i] = get(pool, HOST, BYTES);
		assert_int_equal(
			weir_mem_map(mem[i], i % 2 ? WEIR_MEM_CPU : WEIR_MEM_DEVICE(0), 0, NULL),
			0);
		assert_int_equal(weir_mem_map(mem[i], 0, WEIR_MEM_DEVICE(0), NULL), 0);
		fill(c, data, BYTES, i);
		assert_int_equal(weir_mem_write(mem[i], 0, 0, data, BYTES), 0);
		assert_int_equal(weir_pool_check(pool), 0);
	}
	for (uint32_t i = 0; i < NR; i += 3) {
		weir_mem_free(mem[i], NULL);
		mem[i] = NULL;
		assert_int_equal(weir_pool_check(pool), 0);
	}
	for (uint32_t i = 0; i < NR; i++) {
		if (!mem[i])
			continue;
		if (i % 2)
			expect(c, info_of(mem[i]).addr, BYTES, i, 0);
		else
			kernel_adds(c, mem[i], 0);
		assert_int_equal(weir_mem_read(mem[i], 0, 0, data, BYTES), 0);
		expect(c, data, BYTES, i, i % 2 ? 0 : 1);
		weir_mem_free(mem[i], NULL);
	}
	free(data);
	close_pool(pool);
}

/* Zeros, after the same memory held something else. */
void contract_plain_zeroed(void **state)
{
	struct contract *c = *state;
	struct weir_pool *pool = open_pool(c, WEIR_GUARD_OFF);
	uint8_t *data = buffer_of(c, ODD_BYTES);

	for (uint32_t m = 0; m < c->b->desc.nr_memories; m++)
		for (uint32_t i = 0; i < 3; i++) {
			const uint64_t bytes = i == 0 ? 7 : i == 1 ? KIB(100) : ODD_BYTES;
			struct weir_mem_params params = {.bytes = bytes, .memory = m};
			struct weir_mem *mem;

			mem = get(pool, m, bytes);
			fill(c, data, bytes, 1);
			assert_int_equal(weir_mem_map(mem, 0, WEIR_MEM_DEVICE(0), NULL), 0);
			assert_int_equal(weir_mem_write(mem, 0, 0, data, bytes), 0);
			weir_mem_free(mem, NULL);
			params.zero = 1;
			assert_int_equal(weir_mem_alloc(pool, &params, &mem), 0);
			assert_int_equal(weir_mem_map(mem, 0, WEIR_MEM_DEVICE(0), NULL), 0);
			assert_int_equal(weir_mem_read(mem, 0, 0, data, bytes), 0);
			for (uint64_t at = 0; at < bytes && can(c, CAN_BYTES); at++)
				assert_int_equal(data[at], 0);
			weir_mem_free(mem, NULL);
		}
	free(data);
	close_pool(pool);
}

void contract_plain_contiguous(void **state)
{
	struct contract *c = *state;
	struct weir_pool *pool = open_pool(c, WEIR_GUARD_OFF);
	uint64_t granularity = c->b->desc.vmm.granularity_bytes;
	uint64_t piece = granularity > MIB(2) ? granularity : MIB(2);
	struct weir_mem *small = get(pool, HOST, KIB(20)), *large = get(pool, HOST, piece + 5);

	assert_int_equal(weir_mem_contiguous(small, 0, KIB(20)), 1);
	assert_int_equal(weir_mem_contiguous(small, KIB(20) - 1, 1), 1);
	assert_int_equal(weir_mem_contiguous(small, KIB(20), 1), -EINVAL);
	assert_int_equal(weir_mem_contiguous(small, 0, KIB(20) + 1), -EINVAL);
	assert_int_equal(weir_mem_contiguous(small, 0, 0), -EINVAL);
	assert_int_equal(weir_mem_contiguous(small, 1, UINT64_MAX), -EINVAL);
	assert_int_equal(weir_mem_contiguous(NULL, 0, 1), -EINVAL);
	assert_int_equal(weir_mem_contiguous(large, 0, piece), 1);
	assert_int_equal(weir_mem_contiguous(large, 1, piece - 1), 1);
	assert_int_equal(weir_mem_contiguous(large, piece, 5), 1);
	assert_int_equal(weir_mem_contiguous(large, 1, piece), 0);
	assert_int_equal(weir_mem_contiguous(large, piece - 1, 2), 0);
	assert_int_equal(weir_mem_contiguous(large, 0, piece + 5), 0);
	weir_mem_free(small, NULL);
	weir_mem_free(large, NULL);
	close_pool(pool);
}

/* Who is taken off, or never was on, cannot use the address. */
void contract_plain_unmapped_traps(void **state)
{
	struct contract *c = *state;
	struct weir_pool *pool = open_pool(c, WEIR_GUARD_OFF);
	struct weir_mem *mem = get(pool, GPU0, 100);
	void *addr;

	assert_int_equal(weir_mem_map(mem, WEIR_MEM_DEVICE(0), 0, &addr), 0);
	kernel_adds(c, mem, 0);
	for (uint32_t d = 0; d < c->b->desc.nr_devices; d++) {
		stream_id_t stream;
		fence_t fence;

		if (d == 0)
			weir_mem_unmap(mem, WEIR_MEM_DEVICE(0), 0);
		else
			assert_int_equal(weir_mem_map(mem, WEIR_MEM_DEVICE(0), 0, NULL), 0);
		assert_int_equal(c->b->ops->stream_create(c->b, d, BACKEND_COMPUTE, &stream), 0);
		assert_int_equal(contract_add(c->b, stream, addr, addr, 100, 1), 0);
		assert_int_equal(c->b->ops->fence_record(c->b, stream, &fence), 0);
		assert_int_equal(c->b->ops->fence_wait(c->b, fence), -WEIR_ETRAP);
		c->b->ops->stream_destroy(c->b, stream);
	}
	weir_mem_free(mem, NULL);
	close_pool(pool);
}

void contract_plain_dma_counted(void **state)
{
	struct contract *c = *state;
	struct weir_pool *pool = open_pool(c, WEIR_GUARD_OFF);
	struct weir_mem *host = get(pool, HOST, KIB(5)), *gpu = get(pool, GPU0, KIB(5));
	struct weir_pool_stats stats;

	for (int i = 0; i < 2; i++) /* once is enough */
		assert_int_equal(weir_mem_map(host, 0, WEIR_MEM_DEVICE(0), NULL), 0);
	assert_int_equal(weir_mem_map(gpu, 0, WEIR_MEM_DEVICE(0), NULL), 0);
	weir_pool_query(pool, &stats);
	assert_int_equal(stats.dma_bytes[0], KIB(8)); /* its own memory does not count */
	assert_int_equal(stats.object_bytes[HOST], KIB(8));
	assert_int_equal(stats.nr_objects[GPU0], 1);
	assert_true(stats.held_bytes[GPU0] >= KIB(8));
	weir_mem_unmap(host, 0, WEIR_MEM_DEVICE(0));
	weir_mem_unmap(host, 0, WEIR_MEM_DEVICE(0));
	weir_pool_query(pool, &stats);
	assert_int_equal(stats.dma_bytes[0], 0);
	assert_int_equal(weir_mem_map(host, WEIR_MEM_DEVICE(0), 0, NULL), 0);
	weir_pool_query(pool, &stats);
	assert_int_equal(stats.dma_bytes[0], KIB(8));
	weir_mem_free(host, NULL); /* mapped */
	weir_mem_free(gpu, NULL);
	close_pool(pool);
}

/* Freed while a kernel that uses it waits: it is taken back later; nobody else gets it before. */
void contract_plain_free_behind_work(void **state)
{
	struct contract *c = *state;
	struct weir_pool *pool = open_pool(c, WEIR_GUARD_OFF);
	struct weir_mem *mem = get(pool, GPU0, KIB(64)), *next;
	struct weir_stream *stream;
	struct weir_pool_stats stats;
	void *addr, *other;

	assert_int_equal(weir_stream_create(contract_machine(c), 0, &stream), 0);
	assert_int_equal(weir_mem_map(mem, WEIR_MEM_DEVICE(0), 0, &addr), 0);
	contract_gate_close(c, stream_id(stream));
	assert_int_equal(contract_add(c->b, stream_id(stream), addr, addr, KIB(64), 1), 0);
	weir_mem_free(mem, stream);
	weir_pool_query(pool, &stats);
	assert_int_equal(stats.nr_objects[GPU0], 0);
	assert_int_equal(stats.object_bytes[GPU0], KIB(64));
	assert_int_equal(stats.nr_unmaps_late, 1);
	next = get(pool, GPU0, KIB(64));
	assert_int_equal(weir_mem_map(next, WEIR_MEM_DEVICE(0), 0, &other), 0);
	assert_ptr_not_equal(other, addr);
	assert_int_equal(weir_pool_check(pool), 0);
	contract_gate_open(c);
	assert_int_equal(weir_stream_sync(stream), 0);
	(void)weir_pool_trim(pool);
	weir_pool_query(pool, &stats);
	assert_int_equal(stats.object_bytes[GPU0], KIB(64));
	/* And with a stream that is gone by the time that it is asked for. */
	weir_mem_free(next, stream);
	weir_stream_destroy(stream);
	close_pool(pool);
}

/* ------------------------------------------------------------------ guards */

void contract_plain_guards(void **state)
{
	struct contract *c = *state;
	struct weir_pool *pool = open_pool(c, WEIR_GUARD_ON);
	uint64_t sizes[] = {1, KIB(4), KIB(64) - 1, MIB(2) - 3};
	uint8_t byte = 0;

	for (uint32_t m = 0; m < c->b->desc.nr_memories; m++)
		for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
			struct weir_mem *mem = get(pool, m, sizes[i]);
			uint64_t bytes = mem->bytes;

			assert_true(mem->guard_bytes >= MEM_GUARD_BYTES);
			assert_int_equal(weir_mem_map(mem, 0, WEIR_MEM_DEVICE(0), NULL), 0);
			assert_int_equal(weir_mem_write(mem, 0, bytes - 1, &byte, 1), 0);
			assert_int_equal(weir_mem_write(mem, 0, bytes, &byte, 1), -EINVAL);
			assert_int_equal(weir_pool_check(pool), 0);
			/* A program that takes the object for larger. */
			mem->bytes++;
			assert_int_equal(weir_mem_write(mem, 0, bytes, &byte, 1), 0);
			mem->bytes--;
			assert_int_equal(weir_pool_check(pool), -EUCLEAN);
			weir_mem_free(mem, NULL);
			assert_int_equal(weir_pool_check(pool), 0);
		}
	close_pool(pool);
}

/* ------------------------------------------------------------------ little memory */

/* Until there is no more: nothing is left of what failed, and what was there is as it was. */
void contract_plain_pressure(void **state)
{
	enum { MOST = 64 };
	struct contract *c = *state;
	struct weir_pool *pool = open_pool(c, WEIR_GUARD_OFF);
	struct weir_mem_params params = {.bytes = MIB(1), .memory = GPU0};
	struct weir_pool_stats before, after;
	struct weir_mem *mem[MOST], *large = NULL;
	uint32_t nr = 0;
	int err;

	while ((err = weir_mem_alloc(pool, &params, &mem[nr])) == 0 && ++nr < MOST)
		assert_int_equal(weir_mem_map(mem[nr - 1], WEIR_MEM_DEVICE(0), 0, NULL), 0);
	assert_int_equal(err, -ENOMEM);
	assert_true(nr >= 12);
	weir_pool_query(pool, &before);
	params.bytes = MIB(4);
	params.page_bytes = MIB(4);
	assert_int_equal(weir_mem_alloc(pool, &params, &large), -ENOMEM);
	weir_pool_query(pool, &after);
	assert_memory_equal(&before, &after, sizeof(before));
	assert_int_equal(weir_pool_check(pool), 0);
	/* What other pages left unused is had again. */
	while (nr)
		weir_mem_free(mem[--nr], NULL);
	assert_int_equal(weir_mem_alloc(pool, &params, &large), 0);
	weir_mem_free(large, NULL);
	close_pool(pool);
}

/* ------------------------------------------------------------------ failing calls */

/* What a script leaves behind of one object, whatever failed. */
static int plain_script(struct contract *c, struct weir_pool *pool)
{
	const struct weir_mem_params params[] = {
		{.bytes = KIB(5), .memory = HOST, .zero = 1},
		{.bytes = MIB(3), .memory = GPU0, .zero = 1},
		{.bytes = KIB(64), .memory = GPU0},
	};
	struct weir_mem *mem[3] = {0};
	uint8_t byte = 0;
	int err = 0, first = 0;

	for (int i = 0; i < 3; i++) {
		uint64_t users = 0, engines = 0;

		err = weir_mem_alloc(pool, &params[i], &mem[i]);
		first = first ? first : err;
		assert_int_equal(weir_pool_check(pool), 0);
		if (err)
			continue;
		for (uint32_t round = 0; round < 3; round++) {
			err = weir_mem_map(mem[i], round == 1 ? WEIR_MEM_DEVICE(0) : WEIR_MEM_ALL,
					   0, NULL);
			first = first ? first : err;
			if (err)
				expect_masks(mem[i], users, engines);
			assert_int_equal(weir_pool_check(pool), 0);
			users = info_of(mem[i]).users;
			engines = info_of(mem[i]).engines;
			if (round == 0 && !err) {
				weir_mem_unmap(mem[i], WEIR_MEM_ALL, 0);
				users = engines = 0;
				expect_masks(mem[i], 0, 0);
			}
			assert_int_equal(weir_pool_check(pool), 0);
		}
		if (info_of(mem[i]).engines & WEIR_MEM_DEVICE(0)) {
			err = weir_mem_read(mem[i], 0, KIB(3), can(c, CAN_BYTES) ? &byte : NULL, 1);
			first = first ? first : err;
			assert_int_equal(weir_pool_check(pool), 0);
		}
	}
	for (int i = 0; i < 3; i++) {
		weir_mem_free(mem[i], NULL);
		assert_int_equal(weir_pool_check(pool), 0);
	}
	return first;
}

/* Each call of the backend fails in turn, once and with the next. */
void contract_plain_each_call_fails(void **state)
{
	struct contract *c = *state;
	uint64_t begin, nr_calls, nr_told = 0;
	struct weir_pool *pool = open_pool(c, WEIR_GUARD_OFF);

	begin = flaky_nr_calls(c->b);
	assert_int_equal(plain_script(c, pool), 0);
	nr_calls = flaky_nr_calls(c->b) - begin;
	weir_pool_destroy(pool);
	assert_true(nr_calls > 20);
	for (uint64_t at = 1; at <= nr_calls; at++) {
		int err;

		pool = open_pool(c, WEIR_GUARD_OFF);
		flaky_arm(c->b, flaky_nr_calls(c->b) + at, at % 2 ? -EIO : -ENOMEM);
		err = plain_script(c, pool);
		assert_true(!err || err == (at % 2 ? -EIO : -ENOMEM));
		nr_told += err != 0;
		weir_pool_destroy(pool);
		flaky_arm(c->b, 0, 0);
		for (uint32_t m = 0; m < c->b->desc.nr_memories; m++)
			if (m != HOST || !c->gate)
				assert_int_equal(c->b->ops->memory_used(c->b, m), 0);
	}
	assert_true(nr_told > 10);
}
