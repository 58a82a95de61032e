/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pools of plain memory on the simulator: all sizes at once, what pools say about what is left in
 * them, limits, devices that do not reach a memory, mapping calls that fail half-way, and the
 * checker itself. What is alike on every backend is tests/contract/cases/plain.c.
 */
#include <errno.h>
#include <stdlib.h>

#include "src/backend/machine.h"
#include "src/base/util.h"
#include "src/mem/mem.h"
#include "src/backend/flaky/flaky.h"
#include "tests/unit/test_sim_machine.h"

#define LINES_MAX 16

static struct {
	enum weir_log_level level;
	char text[256];
} lines[LINES_MAX];
static uint32_t nr_lines;

static struct backend *sim, *flaky;
static struct backend_ops stubborn; /* those of flaky, with an unmap that can be made to fail */
static bool unmaps_fail;
static struct weir_machine *machine;
static struct weir_pool *pool;

static void on_log(void *arg, enum weir_log_level level, const char *message)
{
	(void)arg;
	if (nr_lines == LINES_MAX || level == WEIR_LOG_DEBUG)
		return;
	lines[nr_lines].level = level;
	(void)snprintf(lines[nr_lines++].text, sizeof(lines[0].text), "%s", message);
}

/* The one line that was logged. */
static void expect_line(enum weir_log_level level, const char *part)
{
	assert_int_equal(nr_lines, 1);
	if (!strstr(lines[0].text, part))
		fail_msg("no '%s' in: %s", part, lines[0].text);
	assert_int_equal(lines[0].level, level);
	nr_lines = 0;
}

static int unmap(struct backend *b, void *addr)
{
	return unmaps_fail ? -EIO : flaky_inner(b)->ops->unmap(flaky_inner(b), addr);
}

static void open_machine(const struct weir_machine_desc *desc)
{
	assert_int_equal(sim_create(desc, WEIR_DATA_REAL, &sim), 0);
	assert_int_equal(flaky_create(sim, &flaky), 0);
	stubborn = *flaky->ops;
	stubborn.unmap = unmap;
	unmaps_fail = false;
	assert_int_equal(machine_wrap(flaky, &machine), 0);
	nr_lines = 0;
}

static void open_pool(const struct weir_pool_config *config)
{
	assert_int_equal(weir_pool_create(machine, config, &pool), 0);
}

static int setup(void **state)
{
	const struct weir_pool_config config = {.name = "tested", .guard = WEIR_GUARD_OFF};
	struct weir_machine_desc desc;

	(void)state;
	test_machine(&desc);
	open_machine(&desc);
	open_pool(&config);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	if (pool)
		assert_int_equal(weir_pool_check(pool), 0);
	weir_pool_destroy(pool);
	pool = NULL;
	assert_int_equal(nr_lines, 0);
	assert_int_equal(sim_leaks(sim), 0);
	weir_machine_close(machine);
	return 0;
}

static struct weir_mem *get(uint32_t memory, uint64_t bytes, uint64_t page)
{
	const struct weir_mem_params params = {
		.bytes = bytes, .memory = memory, .page_bytes = page, .owner = "a test"};
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

static struct weir_pool_stats stats_of(void)
{
	struct weir_pool_stats stats;

	weir_pool_query(pool, &stats);
	return stats;
}

/* ------------------------------------------------------------------ all at once */

#define ALL_MOST 128

/* Every size with every page, mapped for all who can, alive together: if two of them shared memory
 * one would have the other's bytes. */
static void test_mem_all(void **state)
{
	static const uint64_t sizes[] = {1, 4, 16, 1024, 4096, MIB(1), MIB(7) + 17};
	static const uint64_t pages[] = {0, KIB(4), KIB(64), KIB(128), MIB(2), MIB(8)};
	static uint64_t *buffer;
	struct weir_mem *mem[ALL_MOST];
	struct weir_machine_desc desc;
	uint32_t nr = 0;

	(void)state;
	test_machine(&desc);
	for (uint32_t m = 0; m < desc.nr_memories; m++)
		desc.memory[m].bytes = MIB(512);
	open_machine(&desc);
	open_pool(NULL);
	buffer = malloc(MIB(8));
	assert_non_null(buffer);
	for (uint32_t m = 0; m < desc.nr_memories; m++)
		for (size_t p = 0; p < ARRAY_LEN(pages); p++)
			for (size_t s = 0; s < ARRAY_LEN(sizes); s++, nr++) {
				mem[nr] = get(m, sizes[s], pages[p]);
				assert_int_equal(weir_mem_map(mem[nr], WEIR_MEM_ALL, 0, NULL), 0);
				for (uint64_t i = 0; i < sizes[s] / 8 + 1; i++)
					buffer[i] = nr * MIB(64) + sizes[s] + i;
				assert_int_equal(
					weir_mem_write(mem[nr], nr % 2, 0, buffer, sizes[s]), 0);
			}
	assert_true(nr <= ALL_MOST);
	assert_int_equal(weir_pool_check(pool), 0);
	for (uint32_t k = 0; k < nr; k++) {
		uint64_t bytes = info_of(mem[k]).bytes;

		memset(buffer, 0, MIB(8));
		assert_int_equal(weir_mem_read(mem[k], 1 - k % 2, 0, buffer, bytes), 0);
		for (uint64_t i = 0; i < bytes / 8; i++)
			assert_int_equal(buffer[i], k * MIB(64) + bytes + i);
	}
	for (uint32_t k = 0; k < nr; k++)
		weir_mem_free(mem[(k * 37) % nr], NULL);
	free(buffer);
}

/* A page that is the larger, and what just fits into one. */
static void test_mem_page_edges(void **state)
{
	static const uint64_t pages[] = {KIB(4), KIB(64), MIB(2), MIB(4)};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(pages); i++) {
		struct weir_mem *mem = get(GPU0, pages[i], pages[i]);

		assert_int_equal(info_of(mem).physical_bytes, pages[i]);
		weir_mem_free(mem, NULL);
		mem = get(GPU0, pages[i] - 1, pages[i]);
		assert_int_equal(info_of(mem).physical_bytes, pages[i]);
		weir_mem_free(mem, NULL);
		mem = get(GPU0, pages[i] + 1, pages[i]);
		assert_int_equal(info_of(mem).physical_bytes, 2 * pages[i]);
		weir_mem_free(mem, NULL);
	}
}

/* ------------------------------------------------------------------ reports */

static void test_mem_leak_report(void **state)
{
	char place[64];
	struct weir_mem *mem = get(GPU0, KIB(5), 0);
	unsigned line;

	(void)state;
	line = mem->line;
	assert_int_equal(weir_mem_map(mem, WEIR_MEM_ALL, 0, NULL), 0);
	assert_int_equal(weir_pool_report(pool), 1);
	(void)snprintf(place, sizeof(place), "test_mem.c:%u", line);
	assert_non_null(strstr(lines[0].text, place));
	expect_line(WEIR_LOG_INFO, "5120 bytes in 'gpu0' is in use: owner 'a test'");
	weir_pool_destroy(pool);
	pool = NULL;
	assert_non_null(strstr(lines[0].text, place));
	assert_non_null(strstr(lines[0].text, " s ago"));
	expect_line(WEIR_LOG_WARNING, "5120 bytes in 'gpu0' was not freed: owner 'a test'");
}

/* A long path is known by its end, a long owner by its beginning, none by nothing. */
static void test_mem_names(void **state)
{
	char file[300], owner[300];
	struct weir_mem_params params = {.bytes = 1, .memory = HOST, .owner = owner};
	struct weir_mem *mem;

	(void)state;
	memset(file, 'd', sizeof(file));
	memcpy(file + 280, "/end.c", sizeof("/end.c"));
	memset(owner, 'o', sizeof(owner));
	owner[299] = '\0';
	assert_int_equal(weir_mem_alloc_at(file, 7, pool, &params, &mem), 0);
	(void)weir_pool_report(pool);
	assert_non_null(strstr(lines[0].text, "d/end.c:7"));
	expect_line(WEIR_LOG_INFO, "owner 'ooooo");
	weir_mem_free(mem, NULL);
	params.owner = NULL;
	assert_int_equal(weir_mem_alloc_at(NULL, 0, pool, &params, &mem), 0);
	(void)weir_pool_report(pool);
	expect_line(WEIR_LOG_INFO, "owner '', allocated at :0");
	weir_mem_free(mem, NULL);
}

static void test_mem_guard_report(void **state)
{
	const struct weir_pool_config config = {.guard = WEIR_GUARD_ON};
	struct weir_mem *mem;
	char *addr;

	(void)state;
	weir_pool_destroy(pool);
	open_pool(&config);
	mem = get(HOST, 100, 0);
	assert_int_equal(weir_mem_map(mem, WEIR_MEM_CPU, 0, (void **)&addr), 0);
	addr[102] = (char)(addr[102] + 1);
	assert_int_equal(weir_pool_check(pool), -EUCLEAN);
	expect_line(WEIR_LOG_ERROR, "of 100 bytes was written 3 bytes beyond its end");
	weir_mem_free(mem, NULL);
	expect_line(WEIR_LOG_ERROR, "was written 3 bytes beyond its end");
}

/* In builds that check invariants guards are the default. */
static void test_mem_guard_default(void **state)
{
	(void)state;
	weir_pool_destroy(pool);
	open_pool(NULL);
#ifdef WEIR_DEBUG_CHECKS
	assert_true(pool->guard);
#else
	assert_false(pool->guard);
#endif
}

/* ------------------------------------------------------------------ limits, reach */

static void test_mem_limit(void **state)
{
	const struct weir_pool_config config = {.limit_bytes = {[GPU0] = KIB(12)},
						.guard = WEIR_GUARD_OFF};
	struct weir_mem_params params = {.bytes = 1, .memory = GPU0};
	struct weir_mem *mem[4] = {0};

	(void)state;
	weir_pool_destroy(pool);
	open_pool(&config);
	mem[0] = get(GPU0, KIB(8), 0);
	mem[1] = get(GPU0, 1, 0);
	assert_int_equal(weir_mem_alloc(pool, &params, &mem[2]), -ENOMEM);
	expect_line(WEIR_LOG_WARNING, "beyond its limit of 12288 in 'gpu0'");
	/* The choice knows of it. */
	params.memory = WEIR_MEMORY_ANY;
	params.use.devices = 1;
	assert_int_equal(weir_mem_alloc(pool, &params, &mem[2]), 0);
	assert_int_equal(info_of(mem[2]).memory, GPU1);
	assert_int_equal(info_of(mem[2]).choice, WEIR_CHOICE_PRESSURE);
	weir_mem_free(mem[1], NULL);
	assert_int_equal(weir_mem_alloc(pool, &params, &mem[1]), 0);
	assert_int_equal(info_of(mem[1]).memory, GPU0);
	assert_int_equal(info_of(mem[1]).choice, WEIR_CHOICE_OWN);
	params.use.devices = 8;
	assert_int_equal(weir_mem_alloc(pool, &params, &mem[3]), -EINVAL);
	expect_line(WEIR_LOG_ERROR, "that there are not");
	for (int i = 0; i < 4; i++)
		weir_mem_free(mem[i], NULL);
}

/* Who is named and does not reach it spoils it for the others, too. */
static void test_mem_no_link(void **state)
{
	struct weir_machine_desc desc;
	struct weir_mem *mem;
	void *addr = &desc;

	(void)state;
	test_machine(&desc);
	desc.nr_links = 2; /* none between the GPUs */
	open_machine(&desc);
	open_pool(NULL);
	mem = get(GPU0, 1, 0);
	assert_int_equal(weir_mem_map(mem, WEIR_MEM_ALL, 0, &addr), -ENOTSUP);
	expect_line(WEIR_LOG_ERROR, "gpu1 has no link to memory 'gpu0'");
	assert_int_equal(weir_mem_map(mem, WEIR_MEM_DEVICE(0), WEIR_MEM_DEVICE(1), &addr),
			 -ENOTSUP);
	nr_lines = 0;
	expect_masks(mem, 0, 0);
	assert_ptr_equal(addr, &desc);
	assert_int_equal(weir_mem_map(mem, WEIR_MEM_DEVICE(0), 0, &addr), 0);
	weir_mem_free(mem, NULL);
}

/* As many devices as there can be: each has a bit of its own in both masks. */
static void test_mem_many_devices(void **state)
{
	const uint64_t all = WEIR_MEM_DEVICE(WEIR_DEVICES_MAX) - 1;
	struct weir_machine_desc desc;
	struct weir_mem *mem;

	(void)state;
	test_machine(&desc);
	for (uint32_t d = 2; d < WEIR_DEVICES_MAX; d++) {
		desc.memory[1 + d] = desc.memory[GPU0];
		desc.device[d] = desc.device[0];
		desc.device[d].memory = 1 + d;
		(void)snprintf(desc.memory[1 + d].name, WEIR_NAME_MAX, "gpu%u", d);
		(void)snprintf(desc.device[d].name, WEIR_NAME_MAX, "gpu%u", d);
		desc.link[1 + d] = desc.link[0];
		desc.link[1 + d].b = 1 + d;
	}
	desc.nr_devices = WEIR_DEVICES_MAX;
	desc.nr_memories = WEIR_MEMORIES_MAX;
	desc.nr_links = 1 + WEIR_DEVICES_MAX;
	open_machine(&desc);
	open_pool(NULL);
	mem = get(HOST, 1, 0);
	assert_int_equal(weir_mem_map(mem, WEIR_MEM_DEVICE(8) | WEIR_MEM_DEVICE(15),
				      WEIR_MEM_DEVICE(7), NULL),
			 0);
	expect_masks(mem, 0x8100, 0x8180);
	assert_int_equal(mem->window->at[0].access, 0x8100);
	assert_int_equal(weir_pool_check(pool), 0);
	assert_int_equal(stats_of().dma_bytes[15], KIB(4));
	assert_int_equal(stats_of().dma_bytes[14], 0);
	assert_int_equal(weir_mem_map(mem, WEIR_MEM_ALL, 0, NULL), 0);
	expect_masks(mem, all | WEIR_MEM_CPU, all);
	assert_int_equal(mem->window->at[0].access, all | BACKEND_HOST_BIT);
	weir_mem_unmap(mem, WEIR_MEM_CPU, WEIR_MEM_DEVICE(15));
	expect_masks(mem, all >> 1, all >> 1);
	weir_mem_free(mem, NULL);
}

/* A program that is on a machine may not be on another. */
static void test_mem_two_machines(void **state)
{
	struct weir_machine_desc desc;
	struct weir_machine *other;
	struct weir_stream *stream;
	struct weir_mem *mem = get(HOST, 10, 0), *to = get(HOST, 10, 0);

	(void)state;
	test_machine(&desc);
	assert_int_equal(weir_machine_simulate(&desc, WEIR_DATA_REAL, &other), 0);
	assert_int_equal(weir_stream_create(other, 0, &stream), 0);
	assert_int_equal(weir_mem_map(mem, 0, WEIR_MEM_DEVICE(0), NULL), 0);
	assert_int_equal(weir_mem_map(to, 0, WEIR_MEM_DEVICE(0), NULL), 0);
	assert_int_equal(weir_mem_copy(stream, to, 0, mem, 0, 1), -EINVAL);
	weir_stream_destroy(stream);
	weir_machine_close(other);
	weir_mem_free(mem, NULL);
	weir_mem_free(to, NULL);
}

/* ------------------------------------------------------------------ half-way, and later */

#define BOTH (WEIR_MEM_DEVICE(0) | WEIR_MEM_DEVICE(1))

/* Nobody copies what an engine could not be given, and it works when it is tried again. One call is
 * made for each root and engine that does not have it yet. */
static void test_mem_engines_half_way(void **state)
{
	(void)state;
	for (uint64_t at = 1; at <= 4; at++) {
		struct weir_mem *mem = get(HOST, MIB(5), 0);
		uint64_t nr;
		int err;

		flaky_arm(flaky, flaky_nr_calls(flaky) + at, -EIO);
		err = weir_mem_map(mem, 0, WEIR_MEM_DEVICE(1), NULL);
		flaky_arm(flaky, 0, 0);
		if (at == 1)
			assert_int_equal(err, -EIO);
		if (err)
			expect_masks(mem, 0, 0);
		assert_int_equal(weir_mem_map(mem, 0, WEIR_MEM_DEVICE(1), NULL), 0);
		assert_int_equal(weir_mem_write(mem, 1, MIB(4), "x", 1), 0);
		assert_int_equal(weir_mem_write(mem, 0, MIB(4), "x", 1), -EACCES);
		expect_line(WEIR_LOG_ERROR, "the copy engine of gpu0 may not use it");
		/* Those that it has are not given again. */
		weir_mem_unmap(mem, 0, WEIR_MEM_DEVICE(1));
		nr = flaky_nr_calls(flaky);
		assert_int_equal(weir_mem_map(mem, 0, WEIR_MEM_DEVICE(1), NULL), 0);
		assert_int_equal(flaky_nr_calls(flaky), nr);
		weir_mem_free(mem, NULL);
		assert_int_equal(weir_pool_check(pool), 0);
	}
}

/* Three roots, of which the n-th cannot be mapped, and then cannot be put back either: nobody is
 * mapped, everything is in order, and it works when it is tried again. */
static void test_mem_half_way(void **state)
{
	(void)state;
	for (uint64_t at = 1; at <= 8; at++) {
		struct weir_mem *mem = get(HOST, MIB(5), 0);
		void *addr, *again;
		int err;

		assert_int_equal(weir_mem_map(mem, WEIR_MEM_CPU, 0, &addr), 0);
		/* Engines reach it from here on, so that no call is made for them below. */
		assert_int_equal(weir_mem_map(mem, 0, BOTH, NULL), 0);
		weir_mem_unmap(mem, 0, BOTH);
		flaky_arm(flaky, flaky_nr_calls(flaky) + at, -EIO);
		err = weir_mem_map(mem, WEIR_MEM_ALL, 0, NULL);
		assert_int_equal(err, at <= 3 ? -EIO : 0);
		flaky_arm(flaky, 0, 0);
		assert_int_equal(weir_pool_check(pool), 0);
		if (err)
			expect_masks(mem, WEIR_MEM_CPU, 0);
		/* Those before the one that failed were put back. */
		for (uint32_t i = 0; err && i < mem->nr_pieces; i++)
			assert_int_equal(mem->window->at[i].access, BACKEND_HOST_BIT);
		assert_int_equal(weir_mem_map(mem, WEIR_MEM_ALL, 0, &again), 0);
		assert_ptr_equal(addr, again);
		assert_int_equal(weir_pool_check(pool), 0);
		/* Taking it back never fails, whatever the backend does. */
		flaky_arm(flaky, flaky_nr_calls(flaky) + at, -EIO);
		weir_mem_unmap(mem, WEIR_MEM_ALL, 0);
		flaky_arm(flaky, 0, 0);
		expect_masks(mem, 0, 0);
		assert_int_equal(weir_pool_check(pool), 0);
		weir_mem_free(mem, NULL);
		assert_int_equal(stats_of().object_bytes[HOST], 0);
	}
}

/* Who was taken off is off: also where a root serves others. */
static void test_mem_unmapped(void **state)
{
	struct weir_mem *one = get(HOST, 10, 0), *other = get(HOST, 10, 0);

	(void)state;
	assert_int_equal(weir_mem_map(one, WEIR_MEM_ALL, 0, NULL), 0);
	assert_int_equal(weir_mem_map(other, WEIR_MEM_DEVICE(1) | WEIR_MEM_CPU, 0, NULL), 0);
	assert_ptr_equal(one->window, other->window);
	assert_int_equal(one->window->at[0].access, BACKEND_HOST_BIT | 3);
	weir_mem_unmap(one, WEIR_MEM_ALL, 0);
	assert_int_equal(one->window->at[0].access, BACKEND_HOST_BIT | 2);
	weir_mem_unmap(other, WEIR_MEM_CPU, 0);
	assert_int_equal(one->window->at[0].access, 2);
	weir_mem_free(other, NULL);
	assert_int_equal(one->window->at[0].access, 0);
	weir_mem_free(one, NULL);
}

/* What other pages left unused is given up for who finds no room. */
static void test_mem_pressure(void **state)
{
	struct weir_mem_params params = {.bytes = MIB(1), .memory = GPU0};
	struct weir_mem *mem[16], *large;
	uint32_t nr = 0;

	(void)state;
	while (!weir_mem_alloc(pool, &params, &mem[nr]))
		nr++;
	expect_line(WEIR_LOG_WARNING, "no room for 1048576 bytes in 'gpu0'");
	assert_true(nr >= 12);
	/* Three roots: one goes back, two are kept for objects of such pages. */
	for (uint32_t i = 0; i < 6; i++)
		weir_mem_free(mem[i], NULL);
	assert_true(sim->ops->memory_used(sim, GPU0) > MIB(12));
	large = get(GPU0, MIB(4), MIB(4));
	weir_mem_free(large, NULL);
	for (uint32_t i = 6; i < nr; i++)
		weir_mem_free(mem[i], NULL);
}

/* What one pool holds unused another one gets, as much as it needs; what is in use stays. */
static void test_mem_others_give(void **state)
{
	const struct weir_pool_config config = {.guard = WEIR_GUARD_OFF};
	struct weir_mem_params params = {.bytes = MIB(4), .memory = GPU0, .page_bytes = MIB(4)};
	struct phys_memory *account = phys_of(machine, GPU0);
	struct weir_mem *mem[3], *used;
	struct weir_pool *other;

	(void)state;
	assert_int_equal(weir_pool_create(machine, &config, &other), 0);
	used = get(GPU0, KIB(4), 0);
	for (int i = 0; i < 2; i++) /* two unused roots are kept of each size of pages */
		mem[i] = get(GPU0, MIB(4), MIB(4));
	for (int i = 0; i < 2; i++)
		weir_mem_free(mem[i], NULL);
	assert_int_equal(stats_of().held_bytes[GPU0], MIB(10));
	/* 16 MiB, of which 10 are held and some are the sources of zeros. */
	assert_int_equal(weir_mem_alloc(other, &params, &mem[0]), 0);
	assert_int_equal(stats_of().held_bytes[GPU0], MIB(6));
	assert_int_equal(weir_mem_alloc(other, &params, &mem[1]), 0);
	assert_int_equal(stats_of().held_bytes[GPU0], MIB(2));
	assert_int_equal(weir_mem_alloc(other, &params, &mem[2]), -ENOMEM);
	expect_line(WEIR_LOG_WARNING, "8.0 MiB in pool 'pool', 2.0 MiB in pool 'tested'");
	assert_int_equal(phys_check(account), 0);
	assert_int_equal(weir_pool_check(pool), 0);
	weir_mem_free(used, NULL);
	weir_mem_free(mem[0], NULL);
	weir_mem_free(mem[1], NULL);
	weir_pool_destroy(other);
	assert_int_equal(weir_pool_trim(pool), MIB(2));
	assert_int_equal(account->held_bytes, 0);
}

/* What was freed behind work that is done by now is unused, too. */
static void test_mem_others_give_doomed(void **state)
{
	const struct weir_pool_config config = {.guard = WEIR_GUARD_OFF};
	struct weir_mem_params params = {.bytes = MIB(8), .memory = GPU0, .page_bytes = MIB(8)};
	struct weir_stream *stream;
	struct weir_pool *other;
	struct weir_mem *mem;

	(void)state;
	assert_int_equal(weir_stream_create(machine, 0, &stream), 0);
	assert_int_equal(weir_pool_create(machine, &config, &other), 0);
	mem = get(GPU0, MIB(8), MIB(8));
	weir_mem_free(mem, stream);
	assert_int_equal(weir_mem_alloc(other, &params, &mem), 0);
	weir_mem_free(mem, NULL);
	weir_pool_destroy(other);
	weir_stream_destroy(stream);
}

/* A window that cannot be unmapped keeps its memory until it can. */
static void test_mem_unmap_fails(void **state)
{
	struct weir_mem *small = get(HOST, 10, 0), *large = get(GPU0, MIB(5), 0), *next;
	void *addr, *other;

	(void)state;
	flaky->ops = &stubborn;
	assert_int_equal(weir_mem_map(small, WEIR_MEM_ALL, 0, &addr), 0);
	assert_int_equal(weir_mem_map(large, WEIR_MEM_ALL, 0, NULL), 0);
	unmaps_fail = true;
	weir_mem_free(small, NULL);
	weir_mem_free(large, NULL);
	assert_int_equal(stats_of().nr_unmaps_late, 2);
	assert_int_equal(stats_of().object_bytes[HOST], KIB(4));
	assert_int_equal(stats_of().object_bytes[GPU0], MIB(6));
	assert_int_equal(stats_of().dma_bytes[0], 0);
	assert_int_equal(weir_pool_check(pool), 0);
	/* Another object of the root has the window. */
	next = get(HOST, 10, 0);
	assert_int_equal(weir_mem_map(next, WEIR_MEM_CPU, 0, &other), 0);
	assert_ptr_not_equal(addr, other);
	assert_int_equal(stats_of().object_bytes[HOST], KIB(8)); /* doomed, and this one */
	(void)weir_pool_trim(pool);
	assert_int_equal(stats_of().object_bytes[HOST], KIB(4));
	unmaps_fail = false;
	(void)weir_pool_trim(pool);
	assert_int_equal(stats_of().object_bytes[GPU0], 0);
	weir_mem_free(next, NULL);
}

/* One that never can is told, and kept; another that only waits for work is freed. */
static void test_mem_never_unmapped(void **state)
{
	static struct weir_pool *kept; /* found here by leak checkers */
	struct weir_mem *mem = get(HOST, 10, 0), *from = get(HOST, MIB(1), 0);
	struct weir_mem *to = get(GPU0, MIB(1), 0);
	struct weir_stream *stream;

	(void)state;
	flaky->ops = &stubborn;
	assert_int_equal(weir_stream_create(machine, 0, &stream), 0);
	assert_int_equal(weir_mem_map(mem, WEIR_MEM_CPU, 0, NULL), 0);
	assert_int_equal(weir_mem_map(from, 0, WEIR_MEM_DEVICE(0), NULL), 0);
	assert_int_equal(weir_mem_map(to, 0, WEIR_MEM_DEVICE(0), NULL), 0);
	unmaps_fail = true;
	weir_mem_free(mem, NULL);
	assert_int_equal(weir_mem_copy(stream, to, 0, from, 0, MIB(1)), 0);
	weir_mem_free(from, stream);
	weir_mem_free(to, stream);
	assert_int_equal(stats_of().object_bytes[GPU0], MIB(1));
	kept = pool;
	weir_pool_destroy(pool);
	expect_line(WEIR_LOG_ERROR, "cannot be unmapped");
	/* What a program cannot do: the driver changes its mind. */
	unmaps_fail = false;
	weir_pool_destroy(kept);
	kept = pool = NULL;
	weir_stream_destroy(stream);
}

/* Whatever is wrong at the end is told. */
static void test_mem_dma_left(void **state)
{
	(void)state;
	pool->dma_bytes[1] += 4096;
	weir_pool_destroy(pool);
	pool = NULL;
	expect_line(WEIR_LOG_ERROR, "4096 bytes are still mapped for DMA by gpu1");
}

/* ------------------------------------------------------------------ the checker */

#define EXPECT_FOUND(change, undo)                                 \
	do {                                                       \
		change;                                            \
		assert_int_equal(weir_pool_check(pool), -EUCLEAN); \
		assert_int_equal(nr_lines, 1);                     \
		nr_lines = 0;                                      \
		undo;                                              \
		assert_int_equal(weir_pool_check(pool), 0);        \
	} while (0)

static void test_mem_checker(void **state)
{
	struct weir_mem *mem = get(HOST, 10, 0), *large = get(HOST, MIB(3), 0);

	(void)state;
	assert_int_equal(weir_mem_map(mem, WEIR_MEM_ALL, 0, NULL), 0);
	assert_int_equal(weir_mem_map(large, WEIR_MEM_DEVICE(1), 0, NULL), 0);
	EXPECT_FOUND(pool->allocated_bytes[HOST] -= 4096, pool->allocated_bytes[HOST] += 4096);
	EXPECT_FOUND(pool->nr_objects[GPU0]++, pool->nr_objects[GPU0]--);
	EXPECT_FOUND(pool->dma_bytes[0] += 1, pool->dma_bytes[0] -= 1);
	EXPECT_FOUND(mem->engines &= ~WEIR_MEM_DEVICE(0), mem->engines |= WEIR_MEM_DEVICE(0));
	EXPECT_FOUND(large->window->at[1].access = 1, large->window->at[1].access = 2);
	EXPECT_FOUND(mem->offset += 4096, mem->offset -= 4096);
	EXPECT_FOUND(mem->offset += 8, mem->offset -= 8);
	EXPECT_FOUND(mem->bytes += 8192, mem->bytes -= 8192);
	EXPECT_FOUND(mem->window->handle += 1, mem->window->handle -= 1);
	EXPECT_FOUND(large->window->at[0].chunk.handle++, large->window->at[0].chunk.handle--);
	EXPECT_FOUND(mem->window->nr_users[0]++, mem->window->nr_users[0]--);
	EXPECT_FOUND(mem->window->nr_objects++, mem->window->nr_objects--);
	weir_mem_free(mem, NULL);
	weir_mem_free(large, NULL);
}

int main(int argc, char **argv)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_mem_all, teardown),
		TEST(test_mem_page_edges),
		TEST(test_mem_leak_report),
		TEST(test_mem_names),
		TEST(test_mem_guard_report),
		TEST(test_mem_guard_default),
		TEST(test_mem_limit),
		cmocka_unit_test_teardown(test_mem_no_link, teardown),
		cmocka_unit_test_teardown(test_mem_many_devices, teardown),
		TEST(test_mem_two_machines),
		TEST(test_mem_engines_half_way),
		TEST(test_mem_half_way),
		TEST(test_mem_unmapped),
		TEST(test_mem_pressure),
		TEST(test_mem_others_give),
		TEST(test_mem_others_give_doomed),
		TEST(test_mem_unmap_fails),
		TEST(test_mem_never_unmapped),
		TEST(test_mem_dma_left),
		TEST(test_mem_checker),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	weir_log_set(on_log, NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
