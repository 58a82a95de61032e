/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A random program on a space with replicated ranges, and its shadow: the seed of the pattern of
 * each 8-byte word. Brackets of several streams and devices are open at the same time. Each has its
 * own view of all words, as the rule of weir/replica.h has it: what ended before it began, and what
 * its own launches put; a word that another open bracket may write at the same time is not looked
 * at. Launches, the CPU and weir_read() check and put patterns. The functions assert.
 *
 *   model.c    words, parts, launches
 *   bracket.c  brackets on streams and on the host
 *   calls.c    the other calls of a space, wrong ones among them
 *   track.c    noting what is read
 *   space.c    the machine and the space
 */
#ifndef WEIR_TEST_REPLICA_RANDOM_MODEL_H
#define WEIR_TEST_REPLICA_RANDOM_MODEL_H

#include "tests/support/space.h"
#include "weir/replica.h"

#define NR_RANGES 5u
#define NR_STREAMS 20u
#define NR_BRACKETS (NR_STREAMS + 1) /* the last is the host's */
#define HOST_BRACKET NR_STREAMS
#define USES_MAX 3u
#define PARTS_MAX (USES_MAX + 8u) /* with what is left beside parts that are published */
#define SCRIPT_MAX 5u
#define GRANULE_WORDS 512u /* the smallest */
#define WORDS_MAX (10 * GRANULE_WORDS)
#define MEMORIES_MAX (1 + WEIR_DEVICES_MAX)

struct model_range {
	bool live, replicated;
	uint32_t nr_names; /* uses of open brackets that name it, freed or not */
	uint8_t *addr;
	uint32_t nr_words;
	uint64_t devices; /* that have windows */
	uint32_t element_bytes;
	bool has_list[WEIR_DEVICES_MAX]; /* by device; then the words that are in it whole: */
	bool listed[WEIR_DEVICES_MAX][WORDS_MAX];
	/* By device: whether reads are noted, where, and the words that were read since. */
	bool tracking[WEIR_DEVICES_MAX];
	struct weir_tracked tracked[WEIR_DEVICES_MAX];
	bool noted[WEIR_DEVICES_MAX][WORDS_MAX];
	uint32_t seed[WORDS_MAX]; /* 0: undefined */
};

struct part {
	uint32_t range; /* in the model */
	uint32_t first, nr;
	enum weir_use_kind kind;
	bool elements; /* WEIR_READ_ELEMENTS; kind is WEIR_READ */
	bool window;
	uint8_t *addr; /* that the part is named by */
};

struct bracket {
	bool open;
	bool ends; /* nobody begins before it ends, who might write what it looks at */
	struct part part[PARTS_MAX];
	uint32_t nr;
	struct weir_use uses[USES_MAX];
	/* Of parts that are read by elements: words that are in the list as the bracket begins. */
	bool listed[USES_MAX][WORDS_MAX];
	uint32_t seed[NR_RANGES][WORDS_MAX]; /* what its launches find; 0: not looked at */
};

struct model {
	struct test_space t;
	struct test_random random;
	uint32_t nr_devices;
	uint32_t nr_streams;
	uint32_t device[NR_STREAMS];
	struct weir_stream *stream[NR_STREAMS];
	uint64_t budget[MEMORIES_MAX]; /* by memory, blocks */
	bool ample;		       /* no begin may fail for memory */
	uint32_t forced;	       /* struct replicas has it */
	bool arrange_soon;	       /* the same */
	uint32_t packet_granules;      /* the same, in granules; 0: as it is */
	uint32_t last_seed;
	struct model_range range[NR_RANGES];
	struct bracket bracket[NR_BRACKETS];
	uint32_t edge[NR_RANGES]; /* where a part ended lately, words */
};

/* What went on in all sequences, to see that they reach what they are for. */
extern struct model_total {
	uint64_t nr_begins, nr_full, nr_nested, nr_frees_open, nr_checked, nr_unordered;
	uint64_t nr_messages, nr_published, nr_slices, nr_borrowed, nr_evicted, nr_host_copies,
		nr_back, nr_contradictions, nr_elements, nr_tracked, nr_exchanged,
		nr_sent[WEIR_REPLICA_MECHANISM_NR];
	uint64_t nr_devices[1 + WEIR_DEVICES_MAX];
} model_total;

extern bool model_tracing;
/* Nobody reads what another open bracket writes: the driver without a GPU takes a message to such a
 * reader for a race. */
extern bool model_ordered;

#define trace(...)                                    \
	do {                                          \
		if (model_tracing)                    \
			fprintf(stderr, __VA_ARGS__); \
	} while (0)

static inline uint32_t below(struct model *m, uint32_t n)
{
	return random_below(&m->random, n);
}

static inline bool one_in(struct model *m, uint32_t n)
{
	return below(m, n) == 0;
}

static inline bool kind_writes(enum weir_use_kind kind)
{
	return kind == WEIR_WRITE || kind == WEIR_OVERWRITE;
}

static inline uint8_t *word_addr(const struct model_range *range, uint32_t word)
{
	return range->addr + 8ull * word;
}

/* Whether the space may have no chunk for a block: what was lent for copies stays lent. */
static inline bool may_be_full(const struct model *m)
{
	return !m->ample || m->t.space->shared;
}

/* ------------------------------------------------------------------ model.c */

/* A live range; -1: there is none. */
int pick_live(struct model *m);

/* A part of a range; through a device's window (device < nr_devices), where it has one. */
struct part pick_part(struct model *m, uint32_t range, uint32_t device);

/* Whether the bytes of two parts are the same ones somewhere. */
bool parts_meet(const struct part *a, const struct part *b);

/* Whether brackets with the two parts must not be open together. host: one of them is the CPU's. */
bool parts_contradict(const struct part *a, const struct part *b);

/* An open bracket with which one of some parts contradicts; -1: none. */
int find_contradiction(const struct model *m, const struct part *parts, uint32_t nr);

/* What a bracket declares of a part. */
struct weir_use part_use(const struct part *part);

/* Let launches of a bracket check and put words of one of its parts. */
void launch_part(struct model *m, uint32_t bracket, const struct part *part);

/* The CPU's part of the same, at a buffer that has the words. */
void cpu_part(struct model *m, uint32_t *seeds, const struct part *part, uint64_t *words);

/* Wait for everything; nothing was found wrong. */
void sync_all(struct model *m);

/* ------------------------------------------------------------------ bracket.c */

/* Begin a bracket, or go on with the one that is open, of a stream. */
void op_stream(struct model *m);
void op_phase(struct model *m);
void op_host_bracket(struct model *m);
void end_bracket(struct model *m, uint32_t bracket);
void end_all(struct model *m);

/* ------------------------------------------------------------------ calls.c, space.c */

void op_alloc(struct model *m);
/* Begin to note what a device reads, or make that its list. */
void op_track(struct model *m);
void some_call(struct model *m);
void check_range(struct model *m, uint32_t range);

void open_space(struct model *m);
void close_space(struct model *m);

#endif
