/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Staged relays, as bench_relay measures them.
 *
 *   target   the machine's first GPU, whose data comes from the host and goes there
 *   way      from the host into the target's memory, or out of it
 *   lane     what one GPU's host link carries of a way. The target's own lane is direct. That of
 *            another GPU, a relay, is staged: its engines copy a piece into a buffer in its memory
 *            and from there on, over its host link and the link between the GPUs
 *   piece    what is copied at a time
 *
 * Functions that fail return a negative error and have printed what failed.
 */
#ifndef WEIR_BENCH_RELAY_H
#define WEIR_BENCH_RELAY_H

#include "src/backend/backend.h"

enum way { WAY_IN, WAY_OUT, WAY_NR };

#define RELAY_BUFFERS_MAX 8u
/* Pieces that a lane has queued beyond those in its buffers, so that it need not wait for the
 * host. */
#define RELAY_AHEAD 2u
#define RELAY_QUEUED_MAX (RELAY_BUFFERS_MAX + RELAY_AHEAD)
/* Sizes of pieces are from the one that is asked for over this to so many of it. */
#define RELAY_PIECE_SPREAD 4u
#define RELAY_SAMPLES_MAX 1000u

/* ------------------------------------------------------------------ options.c */

enum relay_test { TEST_IN, TEST_OUT, TEST_BOTH, TEST_QUEUED, TEST_SIZES, TEST_KERNELS, TEST_NR };

struct relay_options {
	const char *machine; /* of argv */
	bool simulated;
	uint64_t bytes, piece_bytes;
	uint32_t nr_buffers, nr_samples;
	bool check;
	bool test[TEST_NR];
};

/*
 * Read them (argv[0] is the first option).
 * @return 0 or a negative errno: err has one line, culprit and remedy.
 */
int relay_options_parse(int argc, char **argv, struct relay_options *out, char *err,
			size_t err_bytes);
void relay_help(void);

/* ------------------------------------------------------------------ lanes.c */

/* Memory of chunks of one size, which pieces do not cross. */
struct span {
	struct backend_chunk *chunk; /* owned */
	uint32_t nr;		     /* of those that were created */
	uint64_t chunk_bytes;
};

static inline char *span_at(const struct span *span, uint64_t at)
{
	return (char *)span->chunk[at / span->chunk_bytes].alias + at % span->chunk_bytes;
}

struct lane {
	uint32_t device;
	stream_id_t into, from; /* of the device: copies to its memory, and from there */
	uint32_t nr_streams;	/* of those that were created, in this order */
	struct backend_chunk buffer[RELAY_BUFFERS_MAX]; /* of a relay, in its memory */
	uint32_t nr_buffers;				/* of those that were created */

	/* Of one run. */
	fence_t left[RELAY_BUFFERS_MAX];   /* what was in a buffer is copied from there */
	fence_t arrived[RELAY_QUEUED_MAX]; /* the last pieces */
	uint32_t nr_queued, nr_done;	   /* pieces */
	uint64_t end_ns;		   /* when the last piece arrived, as far as was noticed */
};

/* relay_close() it. */
struct relay {
	struct backend *b;
	bool simulated;
	uint32_t host, target;	  /* memories */
	uint64_t bytes;		  /* of each span */
	struct span far[WAY_NR];  /* in the host's memory: where a way begins, or ends */
	struct span near[WAY_NR]; /* in the target's */
	uint32_t nr_lanes;	  /* of each way; the first is the target's own */
	struct lane lane[WAY_NR][WEIR_DEVICES_MAX];
};

/* Open the machine and create everything. On error nothing is left. */
int relay_open(struct relay *r, const struct relay_options *asked);
void relay_close(struct relay *r);

/* Queue a copy; prints nothing. Copy all of a span, and wait. */
int relay_copy(struct relay *r, stream_id_t stream, void *to, const void *from, uint64_t bytes);
int relay_copy_span(struct relay *r, stream_id_t stream, const struct span *to,
		    const struct span *from);

/* Let a moment pass before the host looks again what is done. */
void relay_look_again(struct relay *r);

/* Sort the values; the least, the middle one, and that which 99 % do not exceed. nr > 0. */
struct quantiles {
	uint64_t min, median, p99;
};
struct quantiles relay_quantiles(uint64_t *values, uint32_t nr);

/* ------------------------------------------------------------------ load.c */

/* Kernels that read a part of each relay's own memory from end to end, again and again. */
struct load;

/* For the first nr_lanes' relays. load_close() takes NULL. */
int load_open(struct relay *r, uint32_t nr_lanes, uint64_t bytes, struct load **out);
void load_close(struct relay *r, struct load *load);

/* Between the two, load_step() keeps kernels queued, and notes the times of those that are done.
 * The end waits for the others, whose times do not count. */
void load_begin(struct load *load);
int load_step(struct relay *r, struct load *load);
int load_end(struct relay *r, struct load *load);

/* Nothing but the kernels, until each GPU is done with so many. */
int load_alone(struct relay *r, struct load *load, uint32_t nr);

/* Times that are noted, and forget them. The array is the load's. */
uint64_t *load_times(struct load *load, uint32_t *nr);
void load_forget(struct load *load);

/* ------------------------------------------------------------------ deal.c */

struct relay_run {
	bool way[WAY_NR];
	bool queued; /* nothing is staged: other GPUs' engines copy past their memory */
	uint32_t nr_lanes, nr_buffers;
	uint64_t piece_bytes;
	struct load *load; /* runs beside it; NULL: nothing does */
};

struct relay_outcome {
	uint64_t ns;		   /* until the first way was done */
	double gb_per_s[WAY_NR];   /* of what had arrived then, in 10^9 bytes a second */
	uint64_t apart_ns[WAY_NR]; /* from the end of the first lane to that of the last */
	uint32_t nr[WAY_NR][WEIR_DEVICES_MAX]; /* pieces of each lane */
};

/* All bytes of each way that is asked for, once. Nothing is queued any more when it succeeds. */
int relay_run(struct relay *r, const struct relay_run *run, struct relay_outcome *out);

/* ------------------------------------------------------------------ check.c */

/* Give what a run copies contents that no run had before; salt: a number of the run's own. And
 * compare what arrived, all of it. -EBADMSG: it differs. */
int check_begin(struct relay *r, const struct relay_run *run, uint64_t salt);
int check_end(struct relay *r, const struct relay_run *run, uint64_t salt);

#endif
