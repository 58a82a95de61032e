/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A random program on a space, and the model that holds what every live range must contain. A range
 * is divided into cells; the model keeps each cell's seed, kernels and the CPU check and write
 * patterns. Brackets on several streams conflict as it comes, and are in the order of the calls.
 * What is launched outside brackets the model orders, as a program would have to: it knows which
 * streams have work under way on a range. The functions assert.
 *
 *   model.c    parts of ranges, launches on them, allocation
 *   bracket.c  brackets and launches outside them
 *   open.c     brackets whose launches may touch anything
 *   calls.c    the other calls of a space
 *   script.c   programs that repeat themselves
 *   space.c    the machine and the space, decisions at random
 */
#ifndef WEIR_TEST_SPACE_RANDOM_MODEL_H
#define WEIR_TEST_SPACE_RANDOM_MODEL_H

#include "tests/support/space.h"

#define NR_RANGES 8u
#define NR_FENCES 4u
#define CELLS_PER_BLOCK 8u
#define BLOCKS_MAX 6u
#define CELLS_MAX (CELLS_PER_BLOCK * BLOCKS_MAX)
#define SMALL_CELL 256u
#define PARTS_MAX 4u
#define NR_STREAMS TEST_STREAMS
#define MEMORIES_MAX (1 + TEST_GPUS_MAX)

struct model_range {
	bool live;
	uint8_t *addr;
	uint64_t cell_bytes;
	uint32_t nr_cells;
	uint32_t seed[CELLS_MAX];  /* 0: undefined */
	uint32_t readers, writers; /* streams with work that may not be done, */
	uint32_t loose;		   /* in open brackets that do not name it */
	uint32_t life;		   /* number of its allocation */
};

struct part {
	struct model_range *range;
	uint32_t first, nr; /* cells */
	enum weir_use_kind kind;
};

struct model {
	struct test_space t;
	struct test_random random;
	enum weir_space_mode mode;
	bool quiet;		       /* repeating itself: nothing else happens */
	bool compares;		       /* what leaves is compared first, see compare.c */
	uint64_t nr_blocks;	       /* all budgets now, */
	uint64_t most_blocks;	       /* and the most there were */
	uint64_t budget[MEMORIES_MAX]; /* by memory, blocks */
	uint32_t own[MEMORIES_MAX];    /* memories of the space's devices, */
	uint32_t near[MEMORIES_MAX];   /* and of other GPUs, that are places: */
	uint32_t nr_own, nr_near;      /* so many */
	uint32_t device[NR_STREAMS];   /* of the streams */
	uint64_t cell_bytes;
	uint8_t *buffer; /* the largest range */
	uint32_t last_seed, last_life;
	struct model_range range[NR_RANGES];
	struct weir_fence *fence[NR_FENCES];
	uint32_t open;		       /* mask of streams with an open bracket */
	struct part pinned[PARTS_MAX]; /* by the outer one of them */
	uint32_t nr_pinned;
};

/* Links by what they join: the memory of one of the space's devices, other GPUs', the host's. */
enum link_kind { LINK_OWN_HOST, LINK_OWN_NEAR, LINK_NEAR_HOST, LINK_NEAR_NEAR, LINK_KIND_NR };

/* What went on in all sequences, to see that they reach what they are for. */
extern struct model_total {
	struct weir_space_stats stats;
	uint64_t bytes[BACKEND_DIRECTION_NR][WEIR_CAUSE_NR]; /* over the host link */
	uint64_t copied[LINK_KIND_NR];			     /* bytes */
	uint64_t nr_places[1 + MEMORIES_MAX];		     /* sequences, by places, */
	uint64_t nr_devices[1 + MEMORIES_MAX];		     /* and by devices of the space */
	uint64_t nr_budgets[2];				     /* raised, lowered */
	uint64_t nr_policies, nr_decisions;		     /* set, asked */
	uint64_t nr_open, nr_beside; /* open brackets, and those open beside another one */
} model_total;

/* Whether to say what is done. */
extern bool model_tracing;

#define trace(...)                                    \
	do {                                          \
		if (model_tracing)                    \
			fprintf(stderr, __VA_ARGS__); \
	} while (0)

extern const char *const kind_name[];

static inline uint32_t below(struct model *m, uint32_t n)
{
	return random_below(&m->random, n);
}

static inline bool one_in(struct model *m, uint32_t n)
{
	return below(m, n) == 0;
}

/* ------------------------------------------------------------------ model.c */

static inline void *part_addr(const struct part *part)
{
	return part->range->addr + part->first * part->range->cell_bytes;
}

static inline uint64_t part_bytes(const struct part *part)
{
	return part->nr * part->range->cell_bytes;
}

/* Whether a memory is that of one of the space's devices. */
static inline bool is_own(const struct model *m, uint32_t memory)
{
	for (uint32_t d = 0; d < m->nr_own; d++)
		if (m->own[d] == memory)
			return true;
	return false;
}

/* A live range; NULL: there is none. */
struct model_range *pick_live(struct model *m);
struct part pick_part_of(struct model *m, struct model_range *range);
struct weir_use part_use(struct model *m, const struct part *part);

/* Whether the open bracket names some of it. */
bool is_pinned(const struct model *m, const struct model_range *range);

/* Wait for a stream. */
void sync_stream(struct model *m, uint32_t stream);

/* As a program must where no bracket does: wait for what other streams do with the part's range. */
void order_part(struct model *m, uint32_t stream, const struct part *part);

/* What a kernel or the CPU does with the part; the model then says what it has done. */
void plan_cells(struct model *m, const struct part *part, struct test_cell *cells);
void forget_cells(const struct part *part);
void launch_part(struct model *m, uint32_t stream, const struct part *part);

/* cell_bytes * nr_cells bytes. stream: NR_STREAMS for any. NULL: no room. */
struct model_range *alloc_range(struct model *m, uint64_t cell_bytes, uint32_t nr_cells,
				uint32_t stream);
void free_range(struct model *m, struct model_range *range);
void op_alloc(struct model *m);

/* ------------------------------------------------------------------ bracket.c */

void begin_parts(struct model *m, uint32_t stream, const struct part *parts, uint32_t nr);
void end_parts(struct model *m, uint32_t stream, const struct part *parts, uint32_t nr);

/* A bracket with its launches, and what may happen in one. */
void run_bracket(struct model *m, uint32_t stream, const struct part *parts, uint32_t nr);
void op_bracket(struct model *m);
void op_whole_space(struct model *m);
void op_launch_alone(struct model *m);

/* A call that the stream's open bracket, which names the part or may touch it, forbids. */
void forbidden(struct model *m, uint32_t stream, const struct part *part);

/* ------------------------------------------------------------------ open.c */

/* An open bracket that names the parts, if there are any, and touches others as well. */
void run_open(struct model *m, uint32_t stream, const struct part *parts, uint32_t nr);
void op_open(struct model *m);

/* ------------------------------------------------------------------ the other files */

/* What the CPU does with a part that it may use. */
void cpu_part(struct model *m, const struct part *part);

/* Anything that may happen at any time. */
void some_op(struct model *m);

/* A script, several times over. */
void op_phase(struct model *m);

/* Another policy, or none. */
void op_policy(struct model *m);
void policies_open(uint64_t seed);
void policies_close(void);

/* seed: of the sequence, to which m->random was set. */
void open_space(struct model *m, uint64_t seed);
void close_space(struct model *m);

#endif
