/* SPDX-License-Identifier: Apache-2.0 */
/* A space on a small machine, for tests: see space.h. */
#include "tests/support/space.h"

#include <errno.h>
#include <stdlib.h>

#include "src/backend/machine.h"
#include "src/cost/cost.h"
#include "tests/support/driver.h"

/* ------------------------------------------------------------------ patterns */

void pattern_put(void *buffer, const void *addr, uint64_t bytes, uint32_t seed)
{
	uint64_t *words = buffer;

	for (uint64_t i = 0; i < bytes / 8; i++)
		words[i] = test_word_at(seed, (const uint64_t *)addr + i);
}

uint32_t pattern_wrong(const void *buffer, const void *addr, uint64_t bytes, uint32_t seed)
{
	const uint64_t *words = buffer;
	uint32_t nr = 0;

	for (uint64_t i = 0; i < bytes / 8; i++)
		nr += words[i] != test_word_at(seed, (const uint64_t *)addr + i);
	return nr;
}

/* ------------------------------------------------------------------ kernels */

static int launch_cells(struct test_space *t, uint32_t stream, void *addr, uint64_t cell_bytes,
			const struct test_cell *cells, uint32_t nr, enum weir_use_kind kind,
			const void *as)
{
	struct weir_use use = use_of(addr, cell_bytes * nr, kind);
	struct test_cells_args args = {
		.addr = addr,
		.as = as,
		.words = cell_bytes / 8,
		.nr_wrong = t->nr_wrong_cuda ? t->nr_wrong_cuda : &t->nr_wrong,
		.nr = nr,
	};
	struct weir_launch launch = {.kernel = &test_kernel_cells,
				     .args = &args,
				     .args_bytes = sizeof(args),
				     .uses = &use,
				     .nr_uses = 1};

	assert_true(nr <= TEST_CELLS_MAX);
	memcpy(args.cell, cells, nr * sizeof(*cells));
	return weir_stream_launch(t->stream[stream], &launch);
}

int do_launch_cells_try(struct test_space *t, uint32_t stream, void *addr, uint64_t cell_bytes,
			const struct test_cell *cells, uint32_t nr, enum weir_use_kind kind)
{
	return launch_cells(t, stream, addr, cell_bytes, cells, nr, kind, NULL);
}

void do_launch_cells_as(struct test_space *t, uint32_t stream, void *addr, uint64_t cell_bytes,
			const struct test_cell *cells, uint32_t nr, enum weir_use_kind kind,
			const void *as)
{
	assert_int_equal(launch_cells(t, stream, addr, cell_bytes, cells, nr, kind, as), 0);
}

void do_launch_as(struct test_space *t, uint32_t stream, void *addr, uint64_t bytes,
		  enum weir_use_kind kind, uint32_t expect, uint32_t put, const void *as)
{
	struct test_cell cell = {expect, put};

	assert_int_equal(launch_cells(t, stream, addr, bytes, &cell, 1, kind, as), 0);
}

void do_launch(struct test_space *t, uint32_t stream, void *addr, uint64_t bytes,
	       enum weir_use_kind kind, uint32_t expect, uint32_t put)
{
	struct test_cell cell = {expect, put};

	assert_int_equal(do_launch_cells_try(t, stream, addr, bytes, &cell, 1, kind), 0);
}

/* ------------------------------------------------------------------ machine and space */

uint64_t test_plan_work_ns;

/* The counter of wrong words, where a GPU reaches it. */
static void counter_create(struct test_space *t)
{
	void *counter;

	assert_int_equal(
		t->backend->ops->device_alloc(t->backend, HOST, sizeof(t->nr_wrong), &counter), 0);
	t->nr_wrong_cuda = counter;
	*t->nr_wrong_cuda = 0;
}

uint32_t get_nr_wrong(const struct test_space *t)
{
	return t->nr_wrong_cuda ? *t->nr_wrong_cuda : t->nr_wrong;
}

/* A CUDA machine of the description's sizes, where that can be chosen. */
static int cuda_machine_open(const struct weir_machine_desc *desc, struct weir_machine **out)
{
	const struct fakecuda_config config = {
		.devices = (int)desc->nr_devices,
		.hbm_bytes = desc->memory[GPU0].bytes,
		.host_bytes = desc->memory[HOST].bytes,
		.granularity = desc->vmm.granularity_bytes,
	};
	struct backend *b;
	int err = test_cuda_open(&config, &b);

	return err ? err : machine_wrap(b, out);
}

void test_machine_open(struct test_space *t, enum weir_data data)
{
	static const uint32_t devices[TEST_STREAMS] = {[TEST_OTHER] = 1};

	test_machine_open_gpus(t, data, 2, devices);
}

void test_machine_open_gpus(struct test_space *t, enum weir_data data, uint32_t nr_gpus,
			    const uint32_t devices[TEST_STREAMS])
{
	bool cuda = test_machine_kind() != TEST_SIMULATED && data == WEIR_DATA_REAL;

	test_log_begin();
	memset(t, 0, sizeof(*t));
	test_machine_gpus(&t->desc, nr_gpus);
	/* Blocks are small here; mapping calls are no more beside them than beside large ones, or
	 * plans would not move anything. */
	t->desc.vmm.map_ns = t->desc.vmm.set_access_ns = t->desc.vmm.unmap_ns = 100;
	for (uint32_t d = 0; d < nr_gpus; d++)
		t->desc.device[d].plan_work_ns = test_plan_work_ns;
	if (cuda)
		assert_int_equal(cuda_machine_open(&t->desc, &t->machine), 0);
	else
		assert_int_equal(weir_machine_simulate(&t->desc, data, &t->machine), 0);
	t->backend = machine_backend(t->machine);
	t->desc = t->backend->desc;
	for (uint32_t i = 0; i < TEST_STREAMS; i++)
		assert_int_equal(weir_stream_create(t->machine, devices[i] % t->desc.nr_devices,
						    &t->stream[i]),
				 0);
	if (cuda)
		counter_create(t);
}

void test_machine_close(struct test_space *t)
{
	bool cuda = t->nr_wrong_cuda != NULL;

	for (uint32_t i = 0; i < TEST_STREAMS; i++)
		weir_stream_destroy(t->stream[i]);
	assert_int_equal(get_nr_wrong(t), 0);
	if (cuda)
		t->backend->ops->device_free(t->backend, t->nr_wrong_cuda);
	else
		assert_int_equal(sim_leaks(t->backend), 0);
	for (uint32_t m = 0; m < t->desc.nr_memories; m++)
		assert_int_equal(t->backend->ops->memory_used(t->backend, m), 0);
	weir_machine_close(t->machine);
	if (cuda)
		test_cuda_nothing_left(NULL);
}

int test_space_create_try(struct test_space *t, enum weir_space_mode mode, uint64_t block_bytes,
			  uint64_t gpu_bytes, uint64_t host_bytes)
{
	return test_space_create_places(t, mode, block_bytes, gpu_bytes, 0, host_bytes);
}

int test_space_create_places(struct test_space *t, enum weir_space_mode mode, uint64_t block_bytes,
			     uint64_t gpu_bytes, uint64_t gpu1_bytes, uint64_t host_bytes)
{
	struct weir_space_config config = {
		.budget_bytes = {[HOST] = host_bytes, [GPU0] = gpu_bytes, [GPU1] = gpu1_bytes},
		.block_bytes = block_bytes,
		.mode = mode};

	return test_space_create_config(t, &config);
}

int test_space_create_config(struct test_space *t, const struct weir_space_config *config)
{
	int err = weir_space_create(t->machine, config, &t->space);

	if (err)
		return err;
	t->block_bytes = t->space->block_bytes;
	t->space->poison = true;
	return 0;
}

void test_space_open(struct test_space *t, enum weir_data data, enum weir_space_mode mode,
		     uint64_t block_bytes, uint32_t gpu_blocks, uint32_t host_blocks)
{
	test_machine_open(t, data);
	block_bytes = block_bytes ? block_bytes : t->desc.vmm.granularity_bytes;
	assert_int_equal(test_space_create_try(t, mode, block_bytes, gpu_blocks * block_bytes,
					       host_blocks * block_bytes),
			 0);
}

void test_space_open_places(struct test_space *t, uint64_t block_bytes, uint32_t gpu_blocks,
			    uint32_t gpu1_blocks, uint32_t host_blocks)
{
	test_machine_open(t, WEIR_DATA_REAL);
	assert_int_equal(
		test_space_create_places(t, WEIR_PLANNED, block_bytes, gpu_blocks * block_bytes,
					 gpu1_blocks * block_bytes, host_blocks * block_bytes),
		0);
}

void test_space_open_devices(struct test_space *t, uint64_t block_bytes, uint32_t gpu0_blocks,
			     uint32_t gpu1_blocks, uint32_t host_blocks)
{
	struct weir_space_config config = {.devices = WEIR_MEM_DEVICE(0) | WEIR_MEM_DEVICE(1),
					   .mode = WEIR_PLANNED};

	test_machine_open(t, WEIR_DATA_REAL);
	config.block_bytes = block_bytes ? block_bytes : t->desc.vmm.granularity_bytes;
	config.budget_bytes[GPU0] = gpu0_blocks * config.block_bytes;
	config.budget_bytes[GPU1] = gpu1_blocks * config.block_bytes;
	config.budget_bytes[HOST] = host_blocks * config.block_bytes;
	assert_int_equal(weir_space_create(t->machine, &config, &t->space), 0);
	t->block_bytes = t->space->block_bytes;
	t->space->poison = true;
}

void test_space_close(struct test_space *t)
{
	do_check(t);
	weir_space_destroy(t->space);
	test_machine_close(t);
}

void do_check(struct test_space *t)
{
	assert_int_equal(weir_space_check(t->space), 0);
}

/* ------------------------------------------------------------------ calls */

void *do_alloc(struct test_space *t, uint64_t bytes, uint32_t stream)
{
	void *addr = NULL;

	assert_int_equal(weir_alloc(t->space, bytes, t->stream[stream], &addr), 0);
	assert_non_null(addr);
	do_check(t);
	return addr;
}

void do_free(struct test_space *t, void *addr, uint32_t stream)
{
	assert_int_equal(weir_free(t->space, addr, t->stream[stream]), 0);
	do_check(t);
}

void do_begin(struct test_space *t, uint32_t stream, void *addr, uint64_t bytes,
	      enum weir_use_kind kind)
{
	struct weir_use use = use_of(addr, bytes, kind);

	assert_int_equal(weir_begin(t->space, t->stream[stream], &use, 1), 0);
	do_check(t);
}

void do_end(struct test_space *t, uint32_t stream)
{
	assert_int_equal(weir_end(t->space, t->stream[stream]), 0);
	do_check(t);
}

static void run(struct test_space *t, uint32_t stream, void *addr, uint64_t bytes,
		enum weir_use_kind kind, uint32_t expect, uint32_t put)
{
	do_begin(t, stream, addr, bytes, kind);
	do_launch(t, stream, addr, bytes, kind, expect, put);
	do_end(t, stream);
}

void do_fill(struct test_space *t, uint32_t stream, void *addr, uint64_t bytes, uint32_t seed)
{
	run(t, stream, addr, bytes, WEIR_OVERWRITE, 0, seed);
}

void do_expect(struct test_space *t, uint32_t stream, void *addr, uint64_t bytes, uint32_t seed)
{
	run(t, stream, addr, bytes, WEIR_READ, seed, 0);
}

void do_change(struct test_space *t, uint32_t stream, void *addr, uint64_t bytes, uint32_t expect,
	       uint32_t put)
{
	run(t, stream, addr, bytes, WEIR_WRITE, expect, put);
}

void do_discard(struct test_space *t, uint32_t stream, void *addr, uint64_t bytes)
{
	do_begin(t, stream, addr, bytes, WEIR_DISCARD);
	do_end(t, stream);
}

void do_sync(struct test_space *t)
{
	assert_int_equal(weir_space_sync(t->space), 0);
	for (uint32_t i = 0; i < TEST_STREAMS; i++)
		assert_int_equal(weir_stream_sync(t->stream[i]), 0);
	assert_int_equal(get_nr_wrong(t), 0);
	do_check(t);
}

void do_write(struct test_space *t, void *addr, uint64_t bytes, uint32_t seed)
{
	void *buffer = malloc(bytes);

	assert_non_null(buffer);
	pattern_put(buffer, addr, bytes, seed);
	assert_int_equal(weir_write(t->space, addr, buffer, bytes), 0);
	free(buffer);
	do_check(t);
}

void do_read(struct test_space *t, void *addr, uint64_t bytes, uint32_t seed)
{
	void *buffer = malloc(bytes);

	assert_non_null(buffer);
	assert_int_equal(weir_read(t->space, buffer, addr, bytes), 0);
	assert_int_equal(pattern_wrong(buffer, addr, bytes, seed), 0);
	free(buffer);
	do_check(t);
}

struct weir_space_stats get_stats(struct test_space *t)
{
	struct weir_space_stats stats;

	weir_space_query(t->space, &stats);
	return stats;
}

uint64_t get_bytes(const struct test_space *t, const struct weir_space_stats *stats,
		   enum backend_direction direction, enum weir_cause cause)
{
	return stats->link_bytes[cost_host_link(&t->desc, t->space->device[0])][direction][cause];
}

uint64_t get_copied(const struct test_space *t, const struct weir_space_stats *stats,
		    enum backend_direction direction)
{
	uint64_t bytes = 0;

	for (int cause = 0; cause < WEIR_CAUSE_NR; cause++)
		if (cause != WEIR_CAUSE_INPLACE)
			bytes += get_bytes(t, stats, direction, (enum weir_cause)cause);
	return bytes;
}

static const struct block *find_block(struct test_space *t, const void *addr)
{
	struct range *range = range_find(t->space, addr);

	assert_non_null(range);
	return &range->block[(uint64_t)((const char *)addr - (const char *)range->addr) /
			     t->block_bytes];
}

enum block_state get_block_state(struct test_space *t, const void *addr)
{
	const struct block *block = find_block(t, addr);

	if (!block_is_backed(block))
		return BLOCK_UNBACKED;
	if (block_is_at(block, PLACE_OWN))
		return block_is_moving(block) ? BLOCK_TO_HBM : BLOCK_HBM;
	return block_is_moving(block) ? BLOCK_TO_HOST : BLOCK_HOST;
}

int get_block_memory(struct test_space *t, const void *addr)
{
	const struct block *block = find_block(t, addr);

	return block_is_backed(block) ? (int)t->space->pmm[block->at.home->place].memory : -1;
}

uint32_t random_below(struct test_random *r, uint32_t below)
{
	r->state = r->state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(((r->state >> 33) * below) >> 31);
}
