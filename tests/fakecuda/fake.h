/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the fake driver. One lock guards everything; it is given up only while an operation does
 * its work (a copy, a fill, a kernel) and in waits. Functions here are called with it held, but for
 * the driver's own, which take it by call_enter() and give it back by call_leave().
 */
#ifndef WEIR_TESTS_FAKE_H
#define WEIR_TESTS_FAKE_H

#include <pthread.h>

#include "src/backend/cuda/driver.h"
#include "tests/fakecuda/fakecuda.h"
#include "tests/fakecuda/functions.h"

/* More results and values of cuda.h, which driver.h has no use for. */
enum {
	CU_INVALID_IMAGE = 200,
	CU_INVALID_CONTEXT = 201,
	CU_INVALID_PTX = 218,
	CU_INVALID_HANDLE = 400,
	CU_NOT_FOUND = 500,
	CU_ALREADY_MAPPED = 208,
	CU_HOST_ALREADY_REGISTERED = 712,
	CU_HOST_NOT_REGISTERED = 713,
	CU_CAPTURE_INVALIDATED = 901,
	CU_CAPTURE_UNMATCHED = 903,
	CU_CAPTURE_ISOLATION = 905,
	CU_CAPTURED_EVENT = 907,
};
enum { CU_EVENT_INTERPROCESS = 4 };
enum { PRIORITY_GREATEST = -5 }; /* of streams; the least is 0 */
enum { PITCH_ALIGN = 512 };

/*
 * The driver's functions: fake_<member>(), which the linker knows by the driver's name, and
 * fake_<member>_own(), whose stream 0 is the calling thread's own. Calls of both count as one.
 */
#define FAKE_DECLARE(member, symbol, parameters) \
	FAKECUDA_API cu_result fake_##member parameters __asm__(symbol);
#define FAKE_DECLARE_OWN(member, symbol, parameters, arguments) \
	FAKECUDA_API cu_result fake_##member##_own parameters __asm__(symbol);
CUDA_FUNCTIONS(FAKE_DECLARE, FAKE_DECLARE)
FAKE_FUNCTIONS(FAKE_DECLARE)
FAKE_PER_THREAD(FAKE_DECLARE_OWN)
#undef FAKE_DECLARE
#undef FAKE_DECLARE_OWN

#define FAKE_CALL(member, symbol, parameters) CALL_##member,
enum call { CUDA_FUNCTIONS(FAKE_CALL, FAKE_CALL) FAKE_FUNCTIONS(FAKE_CALL) CALL_NR };
#undef FAKE_CALL

enum {
	DEVICES_MAX = FAKECUDA_DEVICES_MAX,
	CONTEXTS_MAX = DEVICES_MAX + 8, /* first the devices' primary ones */
	STREAMS_MAX = FAKECUDA_STREAMS_MAX,
	FAULTS_MAX = 8,
	MEMORY_HOST = DEVICES_MAX, /* before it, the devices' */
	MEMORY_MANAGED,
	MEMORY_NR,
};

/* ------------------------------------------------------------------ memory.c */

/* One file, whose offsets are given out once: what is freed is punched out of it. */
struct memory {
	int fd;
	uint64_t bytes, used_bytes, end;
};

/* Physical memory: a part of a file, or, with borrowed set, memory of the program that it has
 * registered. Lives as long as its handle, a mapping, or running work. */
struct piece {
	unsigned memory;
	int location; /* CU_LOCATION_* that it was created with */
	uint64_t offset, bytes;
	char *shadow; /* always readable and writable: the fake's own view */
	bool borrowed;
	unsigned refs;
};

/* bytes is a multiple of the page. One reference is the caller's. CU_SUCCESS or an error. */
cu_result piece_create(unsigned memory, int location, uint64_t bytes, struct piece **out);
void piece_get(struct piece *piece);
void piece_put(struct piece *piece);
uint64_t page_up(uint64_t bytes);
cu_result memories_init(void);
void memories_fini(void);

/* Pointers under numbers that are never used twice: handles of memory, streams and events. */
struct table {
	void **at;
	size_t nr, max;
};

uint64_t table_add(struct table *table, uint64_t base, void *thing);  /* 0: no memory */
void **table_at(struct table *table, uint64_t base, uint64_t number); /* NULL: none there */

/* ------------------------------------------------------------------ mapping.c, reserve.c */

struct range {
	uint64_t addr, bytes;
};

/* Ranges that do not overlap, sorted; of mappings or of reservations, which begin with theirs. */
struct ranges {
	struct range **at;
	size_t nr, max;
};

enum mapping_kind {
	MAPPING_VMM,
	MAPPING_PLAIN,
	MAPPING_HOST,
	MAPPING_MANAGED,
	MAPPING_POOL,	    /* allocated in the order of a stream */
	MAPPING_REGISTERED, /* memory of the program */
	MAPPING_GLOBAL,	    /* variables of a module */
};

struct mapping {
	struct range range; /* as asked for; its pages may go on */
	struct piece *piece;
	enum mapping_kind kind;
	int context;		     /* where it was allocated; -1: by a handle */
	unsigned id;		     /* not 0, never used twice */
	bool freeing;		     /* a free is queued */
	uint8_t device[DEVICES_MAX]; /* CU_ACCESS_* */
	uint8_t host;		     /* the same, for the CPU outside kernels */
	int prot;		     /* what the pages have now, with kernels that run */
};

static inline bool ranges_meet(uint64_t a, uint64_t a_bytes, uint64_t b, uint64_t b_bytes)
{
	return a < b + b_bytes && b < a + a_bytes;
}

struct range *ranges_find(const struct ranges *ranges, uint64_t addr);
size_t ranges_after(const struct ranges *ranges, uint64_t addr); /* first that ends beyond addr */
bool ranges_any(const struct ranges *ranges, uint64_t addr, uint64_t bytes);
bool ranges_add(struct ranges *ranges, struct range *range); /* false: no memory */
void ranges_del(struct ranges *ranges, const struct range *range);

static inline void *pointer(uint64_t addr)
{
	return (void *)(uintptr_t)addr;
}

/* For mmap(): addresses that nothing lies at. */
#define PAGES_OF_NOBODY (MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE)

/* Whether it is memory of one device, for kernels of that alone. */
static inline bool mapping_is_plain(const struct mapping *mapping)
{
	return mapping->kind == MAPPING_PLAIN || mapping->kind == MAPPING_POOL ||
	       mapping->kind == MAPPING_GLOBAL;
}

struct mapping *mapping_find(uint64_t addr); /* that holds the address; NULL: none does */

/* Map a new piece by itself, at an address of the system's choice. */
cu_result mapping_create(enum mapping_kind kind, unsigned memory, uint64_t bytes, int context,
			 struct mapping **out);

/* Let all devices reach memory of the program. */
cu_result mapping_register(uint64_t addr, uint64_t bytes, int context);

/* Work that still names it counts as an unmap in use. */
void mapping_destroy(struct mapping *mapping);

/* Bring the pages of a range in line with the kernels that run now. */
void pages_update(uint64_t addr, uint64_t bytes);

/* Close what was unmapped under kernels that have ended. */
void graves_close(void);
void mappings_fini(void);
void reservations_fini(void);

/* ------------------------------------------------------------------ work.c, change.c */

/* Per slot, how much of that stream is ordered before a point. */
struct clock {
	uint64_t at[STREAMS_MAX];
};

/* One cuEventRecord(). Held by the event, while it is the last, and by operations. */
struct record {
	unsigned refs;
	bool done;
	uint64_t time_ns;
	struct clock clock;
};

struct touch {
	uint64_t addr, bytes;
	bool write;
};

/* Where a touch lies: bytes of a piece, or of the program (piece NULL, begin is the address). */
struct span {
	struct piece *piece;
	uint64_t begin, bytes;
	char *data;
	bool write;
	int owner; /* for comparing two lists */
};

struct spans {
	struct span *at;
	size_t nr, max;
};

enum op_kind { OP_NOTHING, OP_RECORD, OP_COPY, OP_FILL, OP_KERNEL, OP_ALLOC, OP_FREE };

/* In touch, a copy has pairs: what it writes, what it reads. That memory of a pool comes or goes
 * touches all of it. */
struct op {
	struct op *next;
	enum op_kind kind;
	int context, device;
	uint64_t seq;	  /* in its slot, from 1 */
	uint64_t stamp;	  /* when it was queued, */
	uint64_t started; /* and begun, among all; 0: not yet */
	uint64_t ready_ns;
	struct clock clock;    /* what must be done first, itself included */
	struct record *record; /* of OP_RECORD */
	struct touch *touch;
	size_t nr_touches;
	struct spans spans; /* while it runs */
	uint32_t word;
	unsigned word_bytes;
	const struct kernel *kernel; /* NULL: a function of a test */
	void (*fn)(const void *args);
	void *args;
	size_t args_bytes;
	void (*find)(struct op *op); /* adds touches that are known only as it starts; NULL: none */
	bool sleeps;		     /* records an event to sleep on */
	bool disturbed;		     /* its memory was taken away while it ran */
};

struct stream;

struct op *op_create(enum op_kind kind, size_t nr_touches);

/* The same work once more, of one that was never queued; NULL: no memory. */
struct op *op_copy(const struct op *op);
void op_free(struct op *op);
void record_put(struct record *record);

/* One touch; false at the first byte that is not mapped or not allowed. lenient: pass over it. */
bool touch_resolve(const struct op *op, const struct touch *touch, bool lenient,
		   struct spans *spans);

const char *op_name(const struct op *op);

/* Whether an operation may touch a mapping on its device. */
bool access_allows(const struct mapping *mapping, const struct op *op, bool write);

/* Add a touch. */
void op_touch(struct op *op, uint64_t addr, uint64_t bytes, bool write);

/* Copy what lies at an address, for an operation that may read there; false: it may not. */
bool op_read(const struct op *op, uint64_t addr, void *out, uint64_t bytes);

/* Do what a stream's first operation says; gives up the lock meanwhile. */
void op_run(struct stream *stream, struct op *op);

/* CU_ACCESS_* that kernels which run now have on addresses. */
int kernels_access(uint64_t addr, uint64_t bytes);

/* Work that names addresses is about to lose them; counts once. */
void work_check_unmap(uint64_t addr, uint64_t bytes);

/* The mapping's access for devices is about to change. */
void work_check_access(const struct mapping *mapping, const uint8_t device[DEVICES_MAX]);

/* Whether an address is none of the driver's: ordinary memory of the program. */
bool addr_is_program(uint64_t addr);

void problem_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ------------------------------------------------------------------ pool.c */

/* Of a device; there is one each. */
struct pool {
	uint64_t threshold, used_high;
	bool no_reuse[CU_POOL_RELEASE_THRESHOLD];
};

cu_pool pool_handle(int device);

/* ------------------------------------------------------------------ module.c, kernels.c */

enum { PARAMETERS_MAX = 6 };

/* A kernel that the fake has: a function of the CPU on its parameters, which lie in args as they
 * do in the real driver's buffer. */
struct kernel {
	const char *name;
	unsigned nr_parameters;
	uint16_t parameter_bytes[PARAMETERS_MAX]; /* each is aligned to its size, or to 8 */
	const char *global; /* whose address is one more parameter; NULL: none */
	void (*run)(const void *args);
	void (*touch)(struct op *op); /* adds what the parameters name */
	void (*find)(struct op *op);  /* see struct op */
};

/* Offset of a parameter, or with nr_parameters the bytes of all. */
size_t kernel_offset(const struct kernel *kernel, unsigned parameter);
const struct kernel *kernel_nth(unsigned n); /* the library's first; NULL: there are fewer */

/* What a function is in a context, and the address of the variable that it reads; or NULL with the
 * result to return. */
const struct kernel *function_kernel(cu_function function, int context, uint64_t *global,
				     cu_result *result);

/* Those of packets, by number: five sizes of elements, each packed and unpacked. */
enum { PACKET_KERNELS = 10 };
extern const struct kernel packet_kernels[PACKET_KERNELS];
extern const struct kernel digest_kernel;

/* Those that read through textures and tensor maps. */
enum { TEXTURE_KERNELS = 2 };
extern const struct kernel texture_kernels[TEXTURE_KERNELS];

/* These together: the kernels of weir's library. */
enum { LIBRARY_KERNELS = PACKET_KERNELS + 1 };
void modules_fini(void);

/* A context's modules go with it, where their handles are used again. */
void modules_end(int context);
void textures_fini(void);

/* ------------------------------------------------------------------ stream.c, event.c, submit.c */

/* The stream for an operation, in a call that needs a context. */
cu_result stream_for(cu_stream handle, struct stream **stream, int *context);

/* A slot goes to another stream when this one has ended; sequence numbers go on. */
struct stream {
	uint64_t number; /* the handle */
	unsigned slot;
	int context, device;
	unsigned generation; /* of the context */
	struct op *first, *last, *running;
	unsigned nr_ops, nr_sleeps; /* queued; records of events to sleep on among them */
	struct clock clock;
	pthread_cond_t wake;
	uint64_t delay_ns;
	bool gate_closed, closing;
	bool blocking; /* ordered with the context's stream 0 */
	int priority;
	uint64_t owner;		 /* 0, or the thread whose own it is */
	bool capturing, spoiled; /* into a graph; and a forbidden call has ended that */
	struct graph *graph;	 /* what is captured; NULL: nothing, work is done as ever */
	int capture_mode;
	pthread_t capturer;
	bool waiting; /* for work of other streams */
};

struct event {
	bool captured; /* recorded last in a stream that is being captured: never reached */
	unsigned flags;
	int context;
	unsigned generation;
	struct record *record; /* NULL: never recorded */
};

/* A stream by its handle, or NULL with the result to return; where a context is given, NULL is its
 * stream 0 and the two handles that stand for a stream do, else they are no streams. */
struct stream *stream_find(const void *handle, int context, cu_result *result);

/* While it is set, stream 0 is the calling thread's own. */
extern _Thread_local bool stream_zero_is_own;

/* Whether an ongoing capture forbids the thread what could harm it; and a thread did it yet. */
bool capture_forbids(void);
void captures_spoil(void);

/* The same of streams of one context, which somebody waits for. @return whether there are any */
bool captures_spoil_of(int context);

/* Work that is captured is the graph's, and not queued. */
void graph_add(struct graph *graph, struct op *op);
void graph_free(struct graph *graph);

/* Whether an operation may be captured: the memory of a copy has to be mapped. */
bool graph_takes(const struct op *op);
void graphs_fini(void);

/* When a call that copies returns: at once, but for program memory where that makes calls block; or
 * when it is done, but for copies within the memory of devices. */
enum until { UNTIL_QUEUED, UNTIL_DONE };

/* Queue, and wait as said. */
cu_result op_submit(struct stream *stream, struct op *op, enum until until);

/* Append; the operation is the stream's then, and waits for what its clock says. */
void stream_add(struct stream *stream, struct op *op);
bool stream_is_dead(const struct stream *stream);

/* Wait until what is queued now on a context's streams is done; -1: on all. */
void streams_wait(int context);

/* The same for one operation, with its context's error. */
cu_result op_wait(const struct stream *stream, uint64_t seq);
void slots_wait(const uint64_t until[STREAMS_MAX]);
void streams_wake(void);
void stream_close(struct stream *stream);
void streams_end(void);
void events_fini(void);

/* ------------------------------------------------------------------ call.c, context.c */

struct context {
	uint64_t number; /* the handle; 0: never used */
	int device;
	unsigned retains;    /* of one that was created: whether it lives */
	unsigned generation; /* the streams and events of an older one are gone */
	cu_result error;     /* sticky */
	struct stream *zero; /* stream 0, from its first use on */
};

struct fault {
	enum call call;
	uint64_t skip;
	cu_result result; /* 0: not in use */
};

extern struct fake {
	pthread_mutex_t lock;
	pthread_cond_t finished; /* an operation is done, or a stream has ended */
	bool configured, initialised, resetting;
	bool forked; /* fork() made the process of one that was initialised: no call works */
	unsigned generation; /* of the whole driver; a reset begins another */
	struct fakecuda_config asked, config;

	struct memory memory[MEMORY_NR];
	struct context context[CONTEXTS_MAX];
	struct pool pool[DEVICES_MAX];
	unsigned nr_created;  /* contexts, so far */
	unsigned nr_mappings; /* so far */
	struct ranges reservations, mappings;
	struct table handles, streams, events, modules, graphs, textures;

	struct stream *slot[STREAMS_MAX];
	uint64_t queued[STREAMS_MAX], done[STREAMS_MAX]; /* sequence numbers */
	uint64_t stamp;
	bool gate_closed;
	uint64_t delay_ns;

	struct fault fault[FAULTS_MAX];
	uint64_t fail_at; /* 0: never, else counts down */
	cu_result fail_result;
	uint64_t nr_calls, nr_calls_of[CALL_NR];
	uint64_t nr_races, nr_unmaps_in_use;
	char problem[256];
} fake;

#define HANDLE_BASE UINT64_C(0x4d00000000)
#define STREAM_BASE UINT64_C(0x5700000000)
#define EVENT_BASE UINT64_C(0xe700000000)
#define MODULE_BASE UINT64_C(0xf000000000)
#define FUNCTION_BASE UINT64_C(0xfc00000000)
#define POOL_BASE UINT64_C(0xb000000000)
#define GRAPH_BASE UINT64_C(0x9a00000000)
#define TEXTURE_BASE UINT64_C(0x7e00000000)

/* Begin a driver call: take the lock, count, and say whether it fails before it does anything. */
cu_result call_enter(enum call call);
cu_result call_leave(cu_result result);

cu_context context_handle(int context);

/* The number of the thread's current context; CU_SUCCESS, or that there is none, or its error. */
cu_result context_current(int *context);

/* The same for calls that undo something: they do their work and then report the error. */
cu_result context_current_undo(int *context, cu_result *error);
cu_result device_check(int device);
void context_break(int context, cu_result error);

/* Before a kernel looks at a word once more, after so many times: most are written soon, and for
 * those that are not the processor is left to others. */
void fake_wait(unsigned tries);

/* Cannot go on: the fake itself failed. */
void fake_panic(const char *what) __attribute__((noreturn));

#endif
