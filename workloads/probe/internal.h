/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A measurement on its way, shared by the files of this folder alone. One thread; functions return
 * 0 or a negative error, which probe_run() reports with the label of the step.
 */
#ifndef WEIR_PROBE_INTERNAL_H
#define WEIR_PROBE_INTERNAL_H

#include "src/backend/backend.h"
#include "workloads/probe/fit.h"
#include "workloads/probe/kernels.h"
#include "workloads/probe/probe.h"

#define PROBE_LABEL_MAX 96
#define KIB (UINT64_C(1) << 10)
#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

/* ------------------------------------------------------------------ buffers (buffer.c) */

/* Memory at one address for kernels, in chunks of unit bytes. */
struct probe_buffer {
	char *addr; /* NULL: there is none */
	uint64_t bytes, unit;
	uint32_t nr; /* chunks that are created; the first nr_mapped are mapped */
	uint32_t nr_mapped;
	struct backend_chunk *chunk; /* owned */
};

/* A measurement. What probe_run() fills comes first, and then does not change but for counts. */
struct probe {
	struct backend *b;
	const struct probe_options *options;
	const struct weir_machine_desc *estimates;
	struct weir_machine_desc *desc; /* the result's */
	struct probe_result *out;
	uint32_t max_records;
	bool no_memory;		  /* for a record */
	struct probe_record lost; /* what is written then */
	uint32_t repetitions;	  /* that count; one before them does not */
	uint64_t host_bytes;	  /* of the host's memory, at a time */
	uint32_t nr_steps, step;
	char label[PROBE_LABEL_MAX]; /* of the step */

	/* Of the device that is being measured. */
	uint32_t device;
	stream_id_t stream[3]; /* by enum backend_stream_kind */
	uint32_t nr_streams;
	struct probe_buffer plug; /* own memory: what plugs read, and where sums go */
	double plug_pass_ns;	  /* time of one pass over it */
	uint32_t salt;
};

/* Make a buffer that the device may use. bytes: a power of two, at least one granule. */
int probe_buffer_create(struct probe *p, uint32_t memory, uint64_t bytes, struct probe_buffer *out);

/* The same, of nr > 0 chunks of unit bytes. unit: a multiple of the granularity. */
int probe_buffer_create_of(struct probe *p, uint32_t memory, uint64_t unit, uint32_t nr,
			   struct probe_buffer *out);

/* Where the chunks of a buffer lie, by turns: the i-th one in memory[i % nr]. */
struct probe_turns {
	const uint32_t *memory;
	uint32_t nr;
};

/* The same, of several memories, for a device that reaches them. */
int probe_buffer_create_turns(struct probe *p, uint32_t device, struct probe_turns turns,
			      uint64_t unit, uint32_t nr, struct probe_buffer *out);

/* Wait for the device's work, then give the buffer back. A zeroed one is allowed. */
void probe_buffer_destroy(struct probe *p, struct probe_buffer *buffer);

/* Wait for the device's work, whatever comes of it. */
void probe_drain(struct probe *p);

/* The same for one stream. */
void probe_stream_drain(struct probe *p, stream_id_t stream);

/* The largest power of two up to most that a memory has to spare for measuring: of parts buffers
 * each. */
uint64_t probe_room(const struct probe *p, uint32_t memory, uint64_t most, uint32_t parts);

/* ------------------------------------------------------------------ launches (work.c) */

/* A launch of one of the kernels. It points into itself: it is filled where it stays. */
struct probe_work {
	struct weir_launch launch;
	double bytes; /* that it reads, plus those that it writes */
	struct weir_use use[3];
	union {
		struct probe_empty_args empty;
		struct probe_read_args read;
		struct probe_write_args write;
		struct probe_copy_args copy;
		struct probe_gather_args gather;
		struct probe_update_args update;
		struct probe_add_args add;
		struct probe_mixed_args mixed;
		struct probe_list_args list;
	} args;
};

void probe_work_empty(struct probe_work *w);
void probe_work_read(const struct probe *p, struct probe_work *w, void *in, uint64_t bytes,
		     uint64_t passes);
void probe_work_read_into(struct probe_work *w, uint64_t *sum, void *in, uint64_t bytes,
			  uint64_t passes);
void probe_work_write(struct probe_work *w, void *out, uint64_t bytes, uint64_t value);
void probe_work_copy(struct probe_work *w, void *in, void *out, uint64_t bytes);

/* Pieces of a footprint at random: all, or as many as most. No two have the same order. */
void probe_work_gather(struct probe *p, struct probe_work *w, void *in, uint64_t footprint,
		       uint32_t piece, uint32_t most);
void probe_work_update(struct probe *p, struct probe_work *w, void *data, uint64_t footprint,
		       uint32_t piece, uint32_t most);
void probe_work_add(struct probe *p, struct probe_work *w, void *data, uint64_t footprint,
		    uint32_t piece, uint32_t most);

/* Pieces of a footprint of far at random, in turns with those of all of near, to out: as many as
 * near and out allow, and most. near, out: the device's own. @return how many are of far; 0: there
 * is no room for any, and no launch. */
uint32_t probe_work_mixed(struct probe *p, struct probe_work *w, void *far, uint64_t footprint,
			  const struct probe_buffer *near, const struct probe_buffer *out,
			  uint32_t piece, uint32_t most);

/* Make an ascending list of indexes, one of each step. */
void probe_work_list(struct probe_work *w, uint32_t *list, uint32_t nr, uint32_t step);

/* ------------------------------------------------------------------ bursts (burst.c) */

/* Work on one stream that is timed as a whole. */
struct probe_burst {
	enum backend_stream_kind kind; /* which of the device's streams */
	int (*queue)(struct probe *p, stream_id_t stream, const void *arg);
	const void *arg;
	uint32_t nr_calls; /* that queue makes: it must be done with them before work starts */
	double begin_ns, end_ns; /* out: on the device; begin: everything before it was done */
	double host_ns;		 /* out: what queueing took */
};

/*
 * Queue bursts (1 or 2, on different streams) behind a kernel long enough for the host to be done
 * with queueing, and wait. Where the host was too slow it is done again behind a longer one, a few
 * times.
 */
int probe_burst_run(struct probe *p, struct probe_burst *bursts, uint32_t nr);

/* What a burst queues: the same launch, or the same batch of copies, again and again. */
struct probe_launches {
	const struct weir_launch *launch;
	uint32_t nr;
};

struct probe_copies {
	const struct backend_copy *piece;
	uint32_t nr_pieces, times;
};

int probe_queue_launches(struct probe *p, stream_id_t stream, const void *launches);
int probe_queue_copies(struct probe *p, stream_id_t stream, const void *copies);

/* Time of one launch on the device and (unless NULL) on the host, of nr that follow each other. */
int probe_time_launch(struct probe *p, const struct weir_launch *launch, uint32_t nr, double *ns,
		      double *host_ns);

/* Find out how long the plug's kernel is. */
int probe_plug_calibrate(struct probe *p);

/* Queue a plug of about that length on the device's compute stream; plugged: its end. */
int probe_plug(struct probe *p, double ns, fence_t *plugged);

/* When a fence was reached, on its device's clock; the fence is done. */
int probe_fence_ns(struct probe *p, fence_t fence, double *ns);

/* ------------------------------------------------------------------ two devices (flow.c) */

enum pair_end { PAIR_HOST, PAIR_ONE, PAIR_OTHER, PAIR_ENDS };

#define PAIR_CHUNKS_MAX 4u

/* The host and two devices. The first is the one that is being measured. */
struct probe_pair {
	uint32_t memory[PAIR_ENDS];
	uint32_t device[PAIR_ENDS]; /* PAIR_HOST: undefined */
	bool linked;		    /* each device reaches the other's memory */
	struct backend_chunk chunk[PAIR_ENDS][PAIR_CHUNKS_MAX];
	uint32_t nr_chunks[PAIR_ENDS];
};

struct probe_way {
	enum pair_end from, to;
};

/* The same copy, or launch, again and again on a stream of its own. Zeroed, it may be closed. */
struct probe_flow {
	uint32_t device;
	enum backend_stream_kind kind;
	struct backend_copy piece;
	const struct weir_launch *launch; /* NULL: copies */
	uint64_t bytes;			  /* that it moves each time */
	double overhead_ns; /* of each time, what rates leave out beside the bytes' own time */
	uint32_t nr;	    /* times that it is to be queued */
	bool is_open;
	stream_id_t stream; /* while it is open */
};

/* What each of the three memories has room for, as probe_room() says. */
uint64_t probe_pair_room(const struct probe *p, const struct probe_pair *pair, uint64_t most,
			 uint32_t parts);

/* Create nr chunks of these bytes in each of the memories; free them all. */
int probe_pair_alloc(struct probe *p, struct probe_pair *pair, uint64_t bytes, uint32_t nr);
void probe_pair_free(struct probe *p, struct probe_pair *pair);

/* Whether there is a link that way. */
bool probe_way_exists(const struct probe_pair *pair, struct probe_way way);

/* Copies between two chunks, named by their numbers at each end, that take about ns alone; no more
 * than most. The way exists. */
struct probe_flow probe_flow_of(const struct probe *p, const struct probe_pair *pair,
				struct probe_way way, const uint32_t chunk[2], double ns,
				uint32_t most);

/* How often something of these bytes is to be done to take about ns at a rate: 1 to most. */
uint32_t probe_flow_times(double ns, double bytes_per_s, uint64_t bytes, uint32_t most);

/* Create the flow's stream; wait for its work and destroy it. */
int probe_flow_open(struct probe *p, struct probe_flow *flow);
void probe_flow_close(struct probe *p, struct probe_flow *flow);

/* Queue it once. */
int probe_flow_queue(struct probe *p, const struct probe_flow *flow);

/* ------------------------------------------------------------------ flows at once (together.c) */

/* Both ways between a memory and that of each other device. */
#define PROBE_FLOWS_MAX (2 * WEIR_DEVICES_MAX)
#define PROBE_FLOW_TIMES_MAX 16u

/* Flows that run together. The caller fills flows and their number; the rest begins with zero. */
struct probe_together {
	uint32_t nr;
	struct probe_flow flow[PROBE_FLOWS_MAX];  /* nr of each: PROBE_FLOW_TIMES_MAX at most */
	struct fit_series per_s[PROBE_FLOWS_MAX]; /* out: bytes a second of each */
	/* The beginning of each flow, then the end of each of its copies; and when that was, since
	 * the beginning. */
	fence_t mark[PROBE_FLOWS_MAX][PROBE_FLOW_TIMES_MAX + 1];
	double ns[PROBE_FLOWS_MAX][PROBE_FLOW_TIMES_MAX + 1];
	double all_ns; /* from when they may begin until all are done, on the host's clock */
};

/* Open all flows, run them at once so many times after one that does not count, close them. */
int probe_together_run(struct probe *p, struct probe_together *t, uint32_t repetitions);

/* What some of the flows moved together, each time. */
void probe_together_sum(const struct probe_together *t, uint32_t first, uint32_t nr,
			struct fit_series *out);

/* ------------------------------------------------------------------ mapping calls (vmm.c) */

/* Times of one round of calls. */
struct probe_calls {
	double map, set_access;
	double set_access_more; /* for each device beyond one; of one device undefined */
	double unmap;
};

/* How many rounds are measured. */
uint32_t probe_nr_calls(const struct probe *p);

/* Map a crowd of granules. What is measured beside it needs some of the memory, too. */
int probe_crowd_create(struct probe *p, uint32_t memory, struct probe_buffer *out);

/* One of the crowd is unmapped and mapped again, as a block that moves is. It is another one each
 * round, since a driver finds sooner what it has at hand. devices: a mask of those that get access,
 * with the measured one. */
int probe_remap(struct probe *p, const struct probe_buffer *crowd, uint64_t devices, uint32_t round,
		struct probe_calls *out);

/* ------------------------------------------------------------------ what is kept (probe.c) */

/* Keep what was measured under a path (printf), for the table and the file. @return the median, in
 * five digits. */
__attribute__((format(printf, 5, 6))) double probe_keep(struct probe *p,
							const struct fit_series *series,
							double estimate, const char *how,
							const char *path, ...);

/* The same of what another record has under a name that says more: the table leaves it out. */
__attribute__((format(printf, 5, 6))) double probe_keep_again(struct probe *p,
							      const struct fit_series *series,
							      double estimate, const char *how,
							      const char *path, ...);

/* Note why something is not measured, so that the estimate stands. */
__attribute__((format(printf, 4, 5))) void probe_assume(struct probe *p, double estimate,
							const char *why, const char *path, ...);

/* Begin with something: it shows in the progress and in errors (printf). -EINTR: stop. */
__attribute__((format(printf, 2, 3))) int probe_step(struct probe *p, const char *label, ...);

/* -EINTR: stop, in the middle of a step. */
int probe_continue(struct probe *p);

static inline uint64_t probe_round(double x)
{
	return x > 0 ? (uint64_t)(x + 0.5) : 0;
}

/* ------------------------------------------------------------------ the measurements */

/* Steps that each takes: calls of probe_step(). */
#define PROBE_DEVICE_STEPS 5u
#define PROBE_LINK_STEPS 3u
#define PROBE_VMM_STEPS 2u
#define PROBE_PACKETS_STEPS 1u
#define PROBE_PAIR_STEPS 4u
#define PROBE_PORTS_STEPS 4u

int probe_device(struct probe *p);
int probe_link_copies(struct probe *p, uint32_t link);
int probe_link_inplace(struct probe *p, uint32_t link);
int probe_link_serial(struct probe *p, uint32_t link);
int probe_link_events(struct probe *p, uint32_t link);
int probe_vmm(struct probe *p);
int probe_packets(struct probe *p);

/* What two devices do together, the first of which is the measured one. Chunks of the pair are
 * created and freed inside. */
int probe_several(struct probe *p, struct probe_pair *pair);
int probe_pieces(struct probe *p, struct probe_pair *pair);
int probe_events(struct probe *p, const struct probe_pair *pair);
int probe_beside(struct probe *p, struct probe_pair *pair);

/* What memories send and receive over several links at once, with the first device as the measured
 * one. It replaces the description's ports. */
int probe_ports(struct probe *p);

#endif
