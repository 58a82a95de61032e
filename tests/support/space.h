/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What tests of a space share: a space on a small simulated machine, kernels that check and write a
 * pattern, brackets around one such kernel. The pattern of a word depends on a seed and on the
 * word's address, so that a block taken for another shows as well as a copy left out. Seed 0 means
 * "not looked at" where bytes are checked, and "left alone" where they are written.
 *
 * With WEIR_TEST_LOG in the environment, the errors and warnings of weir, and what kernels find
 * wrong, go to the standard error.
 * With WEIR_TEST_MACHINE in the environment, machines with bytes are the CUDA backend's, with or
 * without a GPU: see driver.h. A real one has its own sizes: see desc.
 * Helpers assert; they do not return errors, but for those whose name ends in _try.
 */
#ifndef WEIR_TEST_SPACE_H
#define WEIR_TEST_SPACE_H

#include "src/core/space.h"
#include "tests/support/kernels.h"
#include "tests/unit/test_sim_machine.h"

#define TEST_STREAMS 4
#define TEST_OTHER 3 /* the stream of device 1, where there is one */

struct test_space {
	struct weir_machine_desc desc;
	struct weir_machine *machine;
	struct backend *backend;
	struct weir_space *space;
	struct weir_stream *stream[TEST_STREAMS]; /* three on device 0, one on device 1 */
	uint64_t block_bytes;
	uint32_t nr_wrong;	 /* words that kernels found wrong, on a simulated machine */
	uint32_t *nr_wrong_cuda; /* the same on CUDA; else NULL */
};

/* Machine, streams and a space with so many blocks of each budget. block_bytes 0: the smallest. */
void test_space_open(struct test_space *t, enum weir_data data, enum weir_space_mode mode,
		     uint64_t block_bytes, uint32_t gpu_blocks, uint32_t host_blocks);

/* The same of a planned space that has blocks of the second GPU's memory, too. */
void test_space_open_places(struct test_space *t, uint64_t block_bytes, uint32_t gpu_blocks,
			    uint32_t gpu1_blocks, uint32_t host_blocks);

/* The same of a planned space of both devices: budgets of their memories, and the host's. */
void test_space_open_devices(struct test_space *t, uint64_t block_bytes, uint32_t gpu0_blocks,
			     uint32_t gpu1_blocks, uint32_t host_blocks);

/* plan_work_ns of the simulated machines that are opened next; 0 unless a test sets it. */
extern uint64_t test_plan_work_ns;

/* Destroy all of it; nothing is leaked, and no kernel found a wrong word. */
void test_space_close(struct test_space *t);

/* The same in two steps, for tests that use a machine for many spaces. */
void test_machine_open(struct test_space *t, enum weir_data data);
/* The same on a machine of so many GPUs, and with each stream on one of its devices. On a real GPU
 * there are as many devices as there are; device d is then d modulo their number. */
void test_machine_open_gpus(struct test_space *t, enum weir_data data, uint32_t nr_gpus,
			    const uint32_t devices[TEST_STREAMS]);
void test_machine_close(struct test_space *t);
int test_space_create_try(struct test_space *t, enum weir_space_mode mode, uint64_t block_bytes,
			  uint64_t gpu_bytes, uint64_t host_bytes);
/* The same, of a space that is all the program's to say. */
int test_space_create_config(struct test_space *t, const struct weir_space_config *config);
/* The same with the second GPU's memory as a place between. */
int test_space_create_places(struct test_space *t, enum weir_space_mode mode, uint64_t block_bytes,
			     uint64_t gpu_bytes, uint64_t gpu1_bytes, uint64_t host_bytes);

/* weir_space_check() passes. */
void do_check(struct test_space *t);

void *do_alloc(struct test_space *t, uint64_t bytes, uint32_t stream);
void do_free(struct test_space *t, void *addr, uint32_t stream);

/* On the CPU: put test_word_at() into a buffer as if it were at addr; words that are not as
 * expected. */
void pattern_put(void *buffer, const void *addr, uint64_t bytes, uint32_t seed);
uint32_t pattern_wrong(const void *buffer, const void *addr, uint64_t bytes, uint32_t seed);

/* Launch a kernel over bytes = nr * cell_bytes at addr. Nothing is opened or waited for. */
int do_launch_cells_try(struct test_space *t, uint32_t stream, void *addr, uint64_t cell_bytes,
			const struct test_cell *cells, uint32_t nr, enum weir_use_kind kind);
void do_launch(struct test_space *t, uint32_t stream, void *addr, uint64_t bytes,
	       enum weir_use_kind kind, uint32_t expect, uint32_t put);

/* The same with the words of another address, as a replica of that has them. */
void do_launch_as(struct test_space *t, uint32_t stream, void *addr, uint64_t bytes,
		  enum weir_use_kind kind, uint32_t expect, uint32_t put, const void *as);
void do_launch_cells_as(struct test_space *t, uint32_t stream, void *addr, uint64_t cell_bytes,
			const struct test_cell *cells, uint32_t nr, enum weir_use_kind kind,
			const void *as);

void do_begin(struct test_space *t, uint32_t stream, void *addr, uint64_t bytes,
	      enum weir_use_kind kind);
void do_end(struct test_space *t, uint32_t stream);

/* One bracket with one kernel. */
void do_fill(struct test_space *t, uint32_t stream, void *addr, uint64_t bytes, uint32_t seed);
void do_expect(struct test_space *t, uint32_t stream, void *addr, uint64_t bytes, uint32_t seed);
void do_change(struct test_space *t, uint32_t stream, void *addr, uint64_t bytes, uint32_t expect,
	       uint32_t put);
void do_discard(struct test_space *t, uint32_t stream, void *addr, uint64_t bytes);

/* Words that kernels found wrong so far. */
uint32_t get_nr_wrong(const struct test_space *t);

/* All work done, without error; no kernel found a wrong word. */
void do_sync(struct test_space *t);

/* weir_write and weir_read of a pattern. */
void do_write(struct test_space *t, void *addr, uint64_t bytes, uint32_t seed);
void do_read(struct test_space *t, void *addr, uint64_t bytes, uint32_t seed);

struct weir_space_stats get_stats(struct test_space *t);

/* Bytes over the host link of the space's device: for one reason, and of all copies. */
uint64_t get_bytes(const struct test_space *t, const struct weir_space_stats *stats,
		   enum backend_direction direction, enum weir_cause cause);
uint64_t get_copied(const struct test_space *t, const struct weir_space_stats *stats,
		    enum backend_direction direction);

/* The state of the block at an address. */
enum block_state { BLOCK_UNBACKED, BLOCK_HBM, BLOCK_HOST, BLOCK_TO_HBM, BLOCK_TO_HOST };
enum block_state get_block_state(struct test_space *t, const void *addr);

/* Where the block at an address is, or is moving to: a memory; -1: it is unbacked. */
int get_block_memory(struct test_space *t, const void *addr);

/* A small, fast, deterministic generator. */
struct test_random {
	uint64_t state;
};
uint32_t random_below(struct test_random *r, uint32_t below);

#endif
