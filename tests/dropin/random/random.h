/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random programs on the CUDA driver that keep a shadow of all contents on the CPU: see main.c. A
 * thread has streams, buffers and so on of its own; what is here is one thread's, and needs no
 * lock.
 */
#ifndef WEIR_TESTS_DROPIN_RANDOM_H
#define WEIR_TESTS_DROPIN_RANDOM_H

#include <pthread.h>

#include "tests/dropin/random/driver.h"

enum {
	STREAMS = 6, /* of a thread; number 0 is the default stream */
	RING = 32,   /* events of a stream */
	PARTS = 4,   /* of a buffer, each with an order of its own */
	BUFFERS = 48,
	SLOTS = 6,
	ARRAYS = 4,
	POINTERS = 32, /* in an array; nodes of a list */
	GRAPHS = 2,
	STEPS = 5, /* of a graph */
	USES = 256,
	THREADS = 3,
	SMALL_BYTES = 2048,   /* of a buffer where weir looks for addresses */
	LOOKED_BYTES = 16384, /* of one where it may */
};

/* The command line. Constant once it is read. */
extern struct options {
	uint64_t seed, nr_seeds;
	unsigned ops, jobs;
	size_t bytes;	     /* that live at most, of all threads */
	const char *kernels; /* a file with the image of the kernels; NULL: the fake driver's */
	bool verbose, plant; /* plant: a wrong byte, which must be found */
} options;

/* What a seed's program is like. */
struct plan {
	unsigned threads, hidden; /* hidden: 0: no pointers in memory; 1: arrays, lists; 2: all */
	bool per_thread;	  /* stream 0 is each thread's own */
};

/* How far a stream is: the seq-th event that was recorded on it. */
struct mark {
	unsigned stream;
	uint64_t seq; /* 0: nothing */
};

struct stream {
	CUstream native;
	bool independent; /* has no order with stream 0 */
	CUevent ring[RING];
	uint64_t nr;		 /* events that were recorded */
	uint64_t done;		 /* of them, those that the thread has waited for */
	uint64_t knows[STREAMS]; /* events of the others that it waits for */
};

struct part {
	struct mark wrote;
	uint64_t read[STREAMS]; /* since then, by stream */
};

/* An allocation. All of it was written, and is as in the shadow once its marks are reached. */
struct buffer {
	unsigned number; /* for messages */
	CUdeviceptr addr;
	size_t bytes;
	unsigned char *shadow;
	bool ordered;  /* allocated in the order of a stream */
	bool pointers; /* holds addresses, and nothing else is written there */
	unsigned pins; /* graphs that use it */
	unsigned last; /* operation that wrote there last */
	struct part part[PARTS];
};

/* Part of a buffer that an operation uses. */
struct use {
	struct buffer *buffer;
	size_t off, bytes;
	bool write;
};

/* Memory of the host for one copy after another. */
struct slot {
	unsigned char *at, *expected;
	bool pinned, checks; /* checks: expected is what it has to be once mark is reached */
	size_t bytes;
	struct mark mark;
	unsigned number, op, last; /* for messages: the buffer's */
	size_t off;
};

enum kernel {
	K_FILL,
	K_COPY,
	K_ADD,
	K_SUM,
	K_GATHER,
	K_LIST,
	K_TABLE,
	K_ADDRESSES,
	K_WAIT,
	K_STORE,
	NR_KERNELS,
};

/* Addresses in memory that kernels follow: an array, or a list. */
struct array {
	struct buffer *at; /* NULL: none */
	size_t off;
	unsigned nr;
	bool list;
	bool shown; /* the program copied the addresses from its own memory, or from such a copy */
	struct {
		struct buffer *buffer;
		size_t off;
	} target[POINTERS];
	uint32_t sum; /* of a list */
};

enum what {
	STEP_FILL, /* kernels */
	STEP_COPY,
	STEP_ADD,
	STEP_SUM,
	STEP_GATHER,
	STEP_LIST,
	STEP_TABLE,
	STEP_ADDRESSES,
	STEP_ON, /* copies within the device */
	STEP_UNIFIED,
	STEP_PEER,
	STEP_2D,
	STEP_3D,
	STEP_3D_PEER,
	STEP_BATCH,
	STEP_SET, /* fills */
	STEP_SET_2D,
	STEP_WORDS, /* a stream writes words */
	NR_STEPS,
};

struct region {
	struct buffer *buffer;
	size_t off, bytes;
};

/* How rows lie in a region, from its first byte. */
struct rows {
	size_t x, y, z, pitch, rows;
};

struct box {
	size_t width, height, depth;
};

/* Work for the device that reads src and more, and writes dst. */
struct step {
	enum what what;
	bool sync; /* by the call that takes no stream */
	unsigned way;
	struct region dst, src, more;
	uint64_t nr, value, base, stride;
	struct rows to, from;
	struct box box;
	const struct array *array;
};

/* Steps that were captured, and what they use. */
struct graph {
	CUgraphExec exec; /* NULL: none */
	struct step step[STEPS];
	unsigned nr, nr_uses;
	struct use use[USES];
	struct mark last; /* of its launches */
};

struct thread {
	unsigned number, op;
	const struct plan *plan;
	uint64_t random;
	unsigned nr_streams, nr_buffers, nr_made, nr_uses, nr_launches;
	struct stream stream[STREAMS];
	struct buffer *buffer[BUFFERS];
	size_t bytes, limit; /* of live buffers */
	struct use use[USES];
	struct slot slot[SLOTS];
	struct array array[ARRAYS];
	struct graph graph[GRAPHS];
	struct buffer table; /* the module's variable */
	CUmodule module;
	CUlibrary library;
	CUfunction function[2][NR_KERNELS]; /* the module's, the library's */
	bool found[2][NR_KERNELS];	    /* it followed pointers that weir had to find by then */
};

extern CUcontext context;

/* ------------------------------------------------------------------ main.c */

/* The calling thread; NULL: none runs. */
extern _Thread_local struct thread *self;

/* End the process with a line, and with how to repeat it. */
void fail(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* With --verbose: say what is done. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

uint64_t draw(struct thread *t);
size_t below(struct thread *t, size_t nr); /* 0 to nr - 1; nr > 0 */
bool chance(struct thread *t, unsigned percent);
void *make(size_t nr, size_t bytes); /* zeroed; never NULL */

/* ------------------------------------------------------------------ order.c */

void streams_open(struct thread *t);
void streams_close(struct thread *t);
void stream_renew(struct thread *t, unsigned s);
unsigned stream_any(struct thread *t);
unsigned stream_independent(struct thread *t, unsigned but); /* STREAMS: there is none */

/* Note that the operation under way uses part of a buffer. */
void use(struct thread *t, struct buffer *buffer, size_t off, size_t bytes, bool write);
void uses_wait(struct thread *t, unsigned s);	    /* a stream waits for all of it */
void uses_sync(struct thread *t);		    /* the thread does */
struct mark uses_end(struct thread *t, unsigned s); /* the operation is queued */
void uses_forget(struct thread *t);

void mark_sync(struct thread *t, struct mark mark);
void buffer_sync(struct thread *t, const struct buffer *buffer);
void stream_sync(struct thread *t, unsigned s);
void all_sync(struct thread *t);

/* ------------------------------------------------------------------ memory.c */

void slots_open(struct thread *t);
void slots_close(struct thread *t);

/* A buffer, by a way to allocate that is drawn, all of it written. NULL: there are too many. */
struct buffer *buffer_new(struct thread *t, size_t bytes, bool pointers);
size_t bytes_any(struct thread *t);
void buffer_free(struct thread *t, unsigned n);
void buffer_drop(struct thread *t, unsigned n); /* out of the table */

/* One that any operation may write to; NULL: there is none. but: not this one. */
/* Held to read while a stream is captured, to write by who waits for a context. */
extern pthread_rwlock_t captures;

struct buffer *buffer_any(struct thread *t, const struct buffer *but);

/* Write bytes by a copy from the host; NULL: what is drawn. ordered: on a stream that is drawn. */
void buffer_write(struct thread *t, struct buffer *buffer, size_t off, const void *from,
		  size_t bytes);

/* Compare part of a buffer with its shadow, some time. */
void buffer_check(struct thread *t, struct buffer *buffer, size_t off, size_t bytes);

/* By rows, from the host or, with check, to it. */
void buffer_rows(struct thread *t, struct buffer *buffer, bool check);
void slots_check(struct thread *t); /* all that is to be compared */

/* ------------------------------------------------------------------ steps.c, issue.c */

/* Draw a step that reads and writes ordinary buffers; false: there are none for it. */
bool step_draw(struct thread *t, struct step *step);
void step_uses(struct thread *t, const struct step *step);
void step_issue(struct thread *t, const struct step *step, unsigned s);
void step_shadow(struct thread *t, const struct step *step);

/* All of these, in order, on a stream. */
void step_do(struct thread *t, const struct step *step, unsigned s);

/* Rows that fit into bytes; the region from the first to the last of them. */
size_t rows_first(const struct rows *rows);
size_t rows_bytes(const struct rows *rows, const struct box *box);
void rows_draw(struct thread *t, size_t bytes, const struct box *box, struct rows *rows);
void box_draw(struct thread *t, size_t bytes, bool deep, struct box *box);
size_t row_at(const struct rows *rows, const struct box *box, size_t n); /* of height * depth */

void kernels_open(struct thread *t);
void kernels_close(struct thread *t);

/* In a way that is drawn. module: of the module, not of the library. @return 1: the library's */
void launch(struct thread *t, enum kernel kernel, unsigned library, unsigned s,
	    void *const *parameters, unsigned nr);

/* ------------------------------------------------------------------ hidden.c, graphs.c */

void array_make(struct thread *t);
bool array_draw(struct thread *t, struct step *step);		 /* a step that follows pointers */
void arrays_drop(struct thread *t, const struct buffer *buffer); /* those that lead there */
void table_do(struct thread *t);
void list_do(struct thread *t); /* a list all over the buffers */

void graph_do(struct thread *t);
void graph_end(struct thread *t, struct graph *graph);
void spin_do(struct thread *t);

#endif
