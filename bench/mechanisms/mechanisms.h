/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What bench_mechanisms measures, and on what.
 *
 *   case     elements of a range that one device writes and others read: how many bytes of them,
 *            how they lie, and how many devices read them
 *   way      how they are sent: by one of the mechanisms of weir/replica.h, or by the one that the
 *            library chooses
 *   round    one publication, from the end of the writer's bracket until all readers may go on
 *   rig      the machine, a space on it, and ranges that all cases use
 *
 * Functions that fail return a negative errno and have printed what failed.
 */
#ifndef WEIR_BENCH_MECHANISMS_H
#define WEIR_BENCH_MECHANISMS_H

#include <stdbool.h>
#include <stdint.h>

#include "src/base/util.h"
#include "weir/replica.h"

#define ROUNDS_MAX 100u
#define READERS_MAX 7u

enum { BY_CHOICE = WEIR_REPLICA_MECHANISM_NR, NR_WAYS };

/* ------------------------------------------------------------------ options.c */

struct mechanisms_options {
	const char *machine;  /* of argv */
	const char *measured; /* a description with the GPUs' rates; NULL: none */
	bool simulated;
	bool quick, check;
	uint32_t nr_rounds;  /* of each way, that count */
	uint32_t limit_s;    /* no case begins later */
	uint32_t nr_readers; /* > 0: of the cases with most of them */
};

/* Read them (argv[0] is the first option). On an error err has one line, culprit and remedy. */
int mechanisms_options(int argc, char **argv, struct mechanisms_options *out, char *err,
		       size_t err_bytes);
void mechanisms_help(void);

/* ------------------------------------------------------------------ rig.c */

/* The sizes of elements; a range for each. */
static const uint32_t element_size[] = {4, 16};
#define NR_SIZES ARRAY_LEN(element_size)

struct rig {
	struct weir_machine *machine;
	struct weir_space *space;
	struct weir_stream *stream[WEIR_DEVICES_MAX]; /* NULL: the device takes no part */
	bool simulated, has_bytes;
	uint32_t nr_gpus;	      /* that devices are, or are parts of */
	uint32_t nr_readers;	      /* devices that can read what device 0 writes, ... */
	uint32_t reader[READERS_MAX]; /* ... each on another GPU */
	uint64_t range_bytes;	      /* of each range */
	void *range[NR_SIZES];	      /* replicated, for elements of each size */
	char *window[NR_SIZES][WEIR_DEVICES_MAX];
	char *pattern;			/* what device 0 writes, in a range of its own */
	char *copied[WEIR_DEVICES_MAX]; /* where a reader copies its window to; or NULL */
	unsigned char *wanted, *found;	/* the pattern, and what was copied, on the host; or NULL */
};

/* What device 0 writes begins so many words of 32 bytes later in the pattern each round. */
#define PATTERN_STEP 32u
#define PATTERN_SHIFTS 64u

/* Open the machine and make everything. On error nothing is left. */
int rig_open(struct rig *rig, const struct mechanisms_options *asked, uint64_t range_bytes);
void rig_close(struct rig *rig);

/* ------------------------------------------------------------------ rounds.c */

struct bench_case {
	uint64_t bytes;	    /* of elements, sent to each reader */
	uint64_t run_bytes; /* of elements that follow each other */
	uint64_t apart;	    /* bytes from where one run may begin to where the next one may */
	uint32_t size;	    /* of elements: an index of element_size */
	uint32_t nr_readers;

	/* Made by case_prepare(). */
	uint32_t *element; /* owned */
	uint64_t nr, nr_runs;
	uint64_t span; /* of the range, that is written */
};

struct case_times {
	uint64_t ns[NR_WAYS]; /* medians; 0: that way is not possible */
	uint64_t idle_ns;     /* of a round in which nothing is sent */
	enum weir_replica_mechanism chosen;
	uint32_t nr_mixed;   /* rounds by choice in which another one was chosen as well */
	uint64_t nr_fetched; /* messages that came late: there should be none */
	uint64_t nr_wrong;   /* elements, of all ways */
};

/* Choose the elements, and subscribe the readers to them. Release it in any case. */
int case_prepare(struct rig *rig, struct bench_case *c);
void case_release(struct rig *rig, struct bench_case *c);

int case_measure(struct rig *rig, const struct bench_case *c,
		 const struct mechanisms_options *asked, struct case_times *out);

#endif
