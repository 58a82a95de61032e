/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What tests of paged memory in a space share: a space and a pool in it on a simulated machine, and
 * a kernel that uses a mapped and a paged range. Functions assert.
 */
#ifndef WEIR_TESTS_UNIT_TEST_SPACE_PAGED_H
#define WEIR_TESTS_UNIT_TEST_SPACE_PAGED_H

#include "src/core/space.h"
#include "tests/unit/test_paged.h"

#define PAGE 512u		   /* words */
#define BLOCK (UINT64_C(4) * 4096) /* of the space: four frames */
#define BUDGET 16u		   /* blocks */

struct both {
	struct paged_test p;
	struct weir_space *space;
	struct paged_log log;
};

static inline void space_open(struct both *b, enum weir_space_mode mode)
{
	struct weir_space_config config = {.block_bytes = BLOCK, .mode = mode};

	config.budget_bytes[GPU0] = BUDGET * BLOCK;
	config.budget_bytes[HOST] = 4 * BUDGET * BLOCK;
	paged_machine_open(&b->p, WEIR_DATA_REAL);
	assert_int_equal(weir_space_create(b->p.machine, &config, &b->space), 0);
	paged_log_begin(&b->log);
}

static inline struct weir_paged_config pool_config(const struct both *b, uint64_t nr_frames)
{
	return (struct weir_paged_config){.page_bytes = 4096,
					  .gpu_bytes = nr_frames * 4096,
					  .gpu_max_bytes = 256 * 4096,
					  .name = "test",
					  .space = b->space};
}

static inline void both_open(struct both *b, enum weir_space_mode mode, uint64_t nr_frames)
{
	struct weir_paged_config config;

	space_open(b, mode);
	config = pool_config(b, nr_frames);
	assert_int_equal(weir_paged_create(b->p.machine, &config, &b->p.pool), 0);
}

static inline void check(struct both *b)
{
	assert_int_equal(weir_space_check(b->space), 0);
	assert_int_equal(phys_check(phys_of(b->p.machine, GPU0)), 0);
	/* The space and its pools together. */
	assert_true(phys_of(b->p.machine, GPU0)->held_bytes <= BUDGET * BLOCK);
}

static inline void both_close(struct both *b)
{
	check(b);
	assert_int_equal(weir_paged_check(b->p.pool), 0);
	weir_paged_destroy(b->p.pool);
	check(b);
	assert_int_equal(b->space->pmm[PLACE_OWN].max_chunks, BUDGET);
	for (uint32_t r = 0; r < b->space->nr_ranges; r++)
		assert_null(b->space->range[r]->kind);
	weir_space_destroy(b->space);
	weir_log_set(NULL, NULL);
	assert_int_equal(b->p.nr_wrong, 0);
	paged_machine_close(&b->p);
}

static inline struct weir_use use(void *addr, uint64_t bytes, enum weir_use_kind kind)
{
	return (struct weir_use){
		.addr = addr, .bytes = bytes, .kind = kind, .read_bytes = bytes * 9};
}

static inline uint64_t nr_frames(struct both *b)
{
	return paged_stats(&b->p).nr_frames;
}

/* Chunks that the space has for blocks. */
static inline uint64_t nr_chunks(const struct both *b)
{
	return b->space->pmm[PLACE_OWN].max_chunks;
}

/* ------------------------------------------------------------------ brackets */

/* A kernel that adds words of a mapped range to words of a paged one. */
struct sum_args {
	struct weir_paged_view view;
	uint32_t range;
	const uint64_t *mapped;
	uint64_t nr_pages;
	uint32_t *nr_wrong;
};

static inline void sum_cpu(const void *args)
{
	const struct sum_args *a = args;
	struct paging_agent *agent;
	struct paging *pool;
	uint64_t old;

	if (paging_over(&a->view, 1, &pool) || paging_enter(pool, &agent)) {
		++*a->nr_wrong;
		return;
	}
	for (uint64_t i = 0; i < a->nr_pages; i++)
		*a->nr_wrong +=
			paging_add(agent, a->range, i * 4096, 8, a->mapped[i * PAGE], &old) != 0;
	*a->nr_wrong += paging_leave(agent) != 0;
	paging_destroy(pool);
}

static const struct weir_kernel sum_kernel = {.name = "sum", .cpu = sum_cpu};

static inline int sum_launch(struct both *b, struct weir_stream *stream, uint32_t range,
			     uint64_t *mapped, uint64_t nr_pages)
{
	const struct weir_use uses = use(mapped, nr_pages * 4096, WEIR_READ);
	struct sum_args a = {
		.range = range, .mapped = mapped, .nr_pages = nr_pages, .nr_wrong = &b->p.nr_wrong};
	const struct weir_launch launch = {.kernel = &sum_kernel,
					   .args = &a,
					   .args_bytes = sizeof(a),
					   .uses = &uses,
					   .nr_uses = 1};
	int err = weir_paged_view_get(b->p.pool, stream, &a.view);

	return err ? err : weir_stream_launch(stream, &launch);
}

/* One bracket that names both, with that kernel. */
static inline void sum_run(struct both *b, struct weir_stream *stream, uint32_t range,
			   uint64_t *words, uint64_t *mapped, uint64_t nr_pages)
{
	const struct weir_use uses[] = {
		use(words, nr_pages * 4096, WEIR_WRITE),
		use(mapped, nr_pages * 4096, WEIR_READ),
	};

	assert_int_equal(weir_begin(b->space, stream, uses, 2), 0);
	assert_int_equal(sum_launch(b, stream, range, mapped, nr_pages), 0);
	assert_int_equal(weir_end(b->space, stream), 0);
}

/* A mapped range whose pages begin with 1, 2 and so on. */
static inline uint64_t *mapped_range(struct both *b, uint64_t nr_pages)
{
	uint64_t *words;

	assert_int_equal(weir_alloc(b->space, nr_pages * 4096, b->p.stream, (void **)&words), 0);
	for (uint64_t i = 0; i < nr_pages; i++) {
		uint64_t value = i + 1;

		assert_int_equal(weir_write(b->space, words + i * PAGE, &value, 8), 0);
	}
	return words;
}

/* The word of each page of a paged range. */
static inline void expect_words(struct both *b, const uint64_t *words, uint64_t nr_pages,
				uint64_t times)
{
	for (uint64_t i = 0; i < nr_pages; i++) {
		uint64_t word = 0;

		assert_int_equal(weir_read(b->space, &word, words + i * PAGE, 8), 0);
		assert_int_equal(word, times * (i + 1));
	}
}

#endif
