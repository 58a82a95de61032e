/* SPDX-License-Identifier: Apache-2.0 */
/* What launches name; see launches.h. */
#include "shim/launches.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim/code.h"
#include "shim/evidence.h"
#include "shim/infer.h"
#include "shim/memory.h"
#include "shim/proof.h"
#include "shim/settings.h"
#include "shim/streams.h"
#include "shim/summary.h"
#include "shim/windows.h"
#include "src/base/clock.h"
#include "src/base/hash.h"
#include "weir/trace.h"
#include "weir/weir.h"

#define PARAMETERS_MAX 4096u
#define SLOTS 1024u	/* of the table of kernels */
#define TIMED_EVERY 17u /* launches of a thread; a prime, so as not to meet the same ones only */
#define LOOKS 8u /* launches of a kernel, and of each new place of pointers, that are looked at */

/* Why a kernel may use anything. */
#define HOLDS_ADDRESSES "an allocation that it names holds addresses of others"
#define NOT_IN_TIME "what it names could not be looked at in time"

/* A kernel that was launched. Kept until the process ends: traces name it. */
struct kernel {
	struct kernel *next;
	const void *key;		   /* NULL: what had the key may be unloaded */
	bool marks;			   /* counts for --mark */
	uint64_t code;			   /* see code.h; 0: nobody asks */
	atomic_bool said;		   /* that it may use any range */
	_Atomic(uint32_t) nr_looks;	   /* launches whose small ranges were looked at */
	_Atomic(const char *) any;	   /* why it may; NULL: nothing says so */
	_Atomic(struct windows *) windows; /* NULL: no launch named anything large yet */
	char name[];
};

/* What a thread uses for one launch after another. */
struct scratch {
	struct infer_uses uses;
	struct weir_use *use; /* those that are rare come last, and with them the rest of ranges */
	uint32_t nr, max, nr_likely, nr_launches;
	void *seen; /* EVIDENCE_BYTES_MAX bytes; NULL: not yet */
};

static struct {
	pthread_mutex_t lock;
	struct kernel *slot[SLOTS];
	pthread_once_t once;
	pthread_key_t scratch;
	_Atomic(uint64_t) nr_marking; /* launches of kernels that mark */
	_Atomic(uint64_t) nr_closed, nr_open, nr_windows, infer_ns;
	_Atomic(const struct kernel *) last[LAUNCHES_LAST]; /* launched last, a ring */
	_Atomic(uint32_t) nr_last;
} launches = {.lock = PTHREAD_MUTEX_INITIALIZER, .once = PTHREAD_ONCE_INIT};

static void scratch_free(void *at)
{
	struct scratch *scratch = at;

	infer_uses_fini(&scratch->uses);
	free(scratch->use);
	free(scratch->seen);
	free(scratch);
}

static void init(void)
{
	if (pthread_key_create(&launches.scratch, scratch_free))
		settings_fail("the threads of this process have no keys left");
}

static struct scratch *scratch_get(void)
{
	struct scratch *scratch;

	(void)pthread_once(&launches.once, init);
	scratch = pthread_getspecific(launches.scratch);
	if (scratch)
		return scratch;
	scratch = calloc(1, sizeof(*scratch));
	if (scratch && pthread_setspecific(launches.scratch, scratch)) {
		free(scratch);
		scratch = NULL;
	}
	return scratch;
}

/* ------------------------------------------------------------------ kernels */

static struct kernel **slot_of(const void *key)
{
	return &launches.slot[hash_mix(0, (uintptr_t)key) % SLOTS];
}

static struct kernel *find_kernel(const void *key)
{
	struct kernel *kernel;

	pthread_mutex_lock(&launches.lock);
	kernel = *slot_of(key);
	while (kernel && kernel->key != key)
		kernel = kernel->next;
	pthread_mutex_unlock(&launches.lock);
	return kernel;
}

/* A handle is that of a kernel of a library, or of a function of a module. */
static const char *name_of(cu_function function)
{
	const char *name = NULL;

	if ((real.cuFuncGetName && !real.cuFuncGetName(&name, function) && name) ||
	    (real.cuKernelGetName && !real.cuKernelGetName(&name, function) && name))
		return name;
	return "?";
}

/* Its layout. @return the number of parameters; negative: the driver does not say */
static int layout_of(cu_function function, struct infer_param *param)
{
	cu_result (*const ask[])(cu_function, size_t, size_t *,
				 size_t *) = {real.cuFuncGetParamInfo, real.cuKernelGetParamInfo};
	size_t offset, bytes;

	for (size_t i = 0; i < sizeof(ask) / sizeof(ask[0]); i++) {
		uint32_t nr = 0;
		cu_result result = CU_INVALID_HANDLE;

		while (ask[i] && nr < PARAMETERS_MAX) {
			result = ask[i](function, nr, &offset, &bytes);
			if (result)
				break;
			param[nr++] = (struct infer_param){(uint32_t)offset, (uint32_t)bytes};
		}
		/* Behind the last parameter the index is refused. */
		if (result == CU_INVALID_VALUE)
			return (int)nr;
	}
	return -1;
}

/* By what the file of --learn and --kernels tells it from others of its name. */
static uint64_t find_code(cu_function function, const char *name, const struct infer_param *param,
			  int nr)
{
	bool image_is_known;
	uint64_t code;

	if (!settings_get()->kernels)
		return 0;
	code = code_of(function, nr < 0 ? NULL : param, nr < 0 ? 0 : (uint32_t)nr, &image_is_known);
	if (!image_is_known && settings_get()->explain)
		summary_say("the code of kernel %s was not seen as it was loaded: it is told from "
			    "other code by its registers, memory and parameters alone",
			    name);
	return code;
}

static struct kernel *add_kernel(cu_function function)
{
	struct infer_param *param = malloc(PARAMETERS_MAX * sizeof(*param));
	const char *name = name_of(function);
	struct kernel *kernel = malloc(sizeof(*kernel) + strlen(name) + 1);
	int nr = param ? layout_of(function, param) : -1;

	if (kernel) {
		kernel->code = find_code(function, name, param, nr);
		kernel->key = function;
		atomic_init(&kernel->said, false);
		atomic_init(&kernel->nr_looks, 0);
		atomic_init(&kernel->any, NULL);
		atomic_init(&kernel->windows, NULL);
		memcpy(kernel->name, name, strlen(name) + 1);
		kernel->marks = !settings_get()->mark || strstr(name, settings_get()->mark);
		(void)infer_kernel_add(memory_infer(), function, nr < 0 ? NULL : param,
				       nr < 0 ? 0 : (uint32_t)nr);
		pthread_mutex_lock(&launches.lock);
		kernel->next = *slot_of(function);
		*slot_of(function) = kernel;
		pthread_mutex_unlock(&launches.lock);
	}
	free(param);
	return kernel;
}

void launches_forget_kernels(void)
{
	struct infer *infer = memory_infer();

	if (!infer)
		return;
	pthread_mutex_lock(&launches.lock);
	for (uint32_t s = 0; s < SLOTS; s++)
		for (struct kernel *kernel = launches.slot[s]; kernel; kernel = kernel->next) {
			if (kernel->key)
				(void)infer_kernel_del(infer, kernel->key);
			kernel->key = NULL;
		}
	pthread_mutex_unlock(&launches.lock);
}

/* ------------------------------------------------------------------ launches */

/* Room for so many uses. @return false: no memory */
static bool grow(struct scratch *scratch, uint32_t nr)
{
	struct weir_use *more;

	if (nr <= scratch->max)
		return true;
	more = realloc(scratch->use, nr * sizeof(*more));
	if (!more)
		return false;
	scratch->use = more;
	scratch->max = nr;
	return true;
}

/* What is known of a kernel's windows; NULL: no memory. */
static struct windows *windows_of(struct kernel *kernel)
{
	struct windows *windows = atomic_load(&kernel->windows), *made;

	if (windows)
		return windows;
	made = windows_create();
	if (!made || atomic_compare_exchange_strong(&kernel->windows, &windows, made))
		return made;
	windows_destroy(made);
	return windows;
}

/* Of a range that a launch names at one place, the bytes that it is taken to use from the pointer
 * on; 0: all of it. */
static uint64_t find_window(struct kernel *kernel, const struct infer_use *use)
{
	struct windows *windows;

	if (use->rare || use->nr > 1 || use->bytes < WINDOWS_RANGE_MIN || !settings_moves())
		return 0;
	windows = windows_of(kernel);
	return windows ? windows_note(windows, use->place, use->serial, use->at - use->addr,
				      use->bytes)
		       : 0;
}

/* The ranges that a launch names, as the space is told. @return false: they are not known */
static bool find_uses(struct kernel *kernel, struct scratch *scratch,
		      const struct infer_launch *launch)
{
	struct infer_uses *found = &scratch->uses;

	if (infer_launch(memory_infer(), launch, found) || !grow(scratch, 2 * found->nr))
		return false;
	scratch->nr = found->nr;
	scratch->nr_likely = 0;
	for (uint32_t u = 0, rare = found->nr - found->nr_rare; u < found->nr; u++) {
		const struct infer_use *use = &found->use[u];
		const struct weir_use whole = bracket_use(use->addr, use->bytes);
		const uint64_t window = find_window(kernel, use);

		scratch->use[use->rare ? rare++ : scratch->nr_likely++] =
			window ? bracket_use(use->at, window) : whole;
		if (window)
			scratch->use[scratch->nr++] = whole;
	}
	if (scratch->nr > found->nr)
		atomic_fetch_add(&launches.nr_windows, scratch->nr - found->nr);
	return true;
}

/* The same; what it takes is measured at one launch of many, which counts for all of them, since
 * two calls of the clock cost a tenth of a search. */
static bool find_uses_timed(struct kernel *kernel, struct scratch *scratch,
			    const struct infer_launch *launch)
{
	uint64_t since_ns;
	bool known;

	if (scratch->nr_launches++ % TIMED_EVERY != TIMED_EVERY / 2)
		return find_uses(kernel, scratch, launch);
	since_ns = clock_now_ns();
	known = find_uses(kernel, scratch, launch);
	atomic_fetch_add(&launches.infer_ns, TIMED_EVERY * (clock_now_ns() - since_ns));
	return known;
}

/* Set a mark where an epoch begins: at every so many-th launch of a kernel that marks; where the
 * user named none, at the first of all. */
static void mark_epoch(const struct kernel *kernel)
{
	const struct settings *settings = settings_get();
	char name[32];
	uint64_t nr;

	if (!kernel->marks)
		return;
	nr = atomic_fetch_add(&launches.nr_marking, 1);
	if (settings->mark ? nr % settings->mark_every : nr)
		return;
	(void)snprintf(name, sizeof(name), "epoch %" PRIu64, nr / settings->mark_every + 1);
	weir_space_trace_mark(memory_space(), name);
}

/* ------------------------------------------------------------------ what may use anything */

/* Whether a range is looked at: its contents are few, and never leave the GPU to make room. */
static bool is_small(uint64_t bytes)
{
	return bytes <= EVIDENCE_BYTES_MAX && memory_stays(bytes);
}

/* Where kernels differ: say it once of each. */
static void note_any(struct kernel *kernel, const char *why)
{
	if (settings_get()->mode != SETTINGS_SAFE && !atomic_exchange(&kernel->said, true) &&
	    settings_get()->explain)
		summary_say("kernel %s may use any allocation: %s", kernel->name, why);
}

/* Whether weir looks at what a launch names, in its bracket: at small ranges, of a kernel's first
 * launches. *why: it was to, and could not in time. */
static bool is_looked_at(struct kernel *kernel, cu_stream stream, struct scratch *scratch,
			 const char **why)
{
	bool small = false;

	if (scratch->uses.new_place)
		atomic_store(&kernel->nr_looks, 0);
	if (atomic_load(&kernel->nr_looks) >= LOOKS || !streams_is_queue(stream))
		return false;
	if (atomic_fetch_add(&kernel->nr_looks, 1) >= LOOKS) {
		atomic_store(&kernel->nr_looks, LOOKS);
		return false;
	}
	for (uint32_t u = 0; u < scratch->uses.nr && !small; u++)
		small = is_small(scratch->uses.use[u].bytes);
	if (small && !scratch->seen)
		scratch->seen = malloc(EVIDENCE_BYTES_MAX);
	if (small && !scratch->seen)
		*why = "there was no memory to look at what it names";
	else if (small && !evidence_becomes_idle(stream))
		*why = NOT_IN_TIME;
	return small && !*why;
}

/* Look at small ranges that a launch names, in its bracket. If they hold addresses, which only its
 * kernel can tell from numbers, that kernel may use any range, for good: then the bracket is one
 * for that. @return what the launch is to end with */
static cu_result look(struct launch *l, cu_stream stream, struct bracket_uses *uses, void *scratch)
{
	enum evidence_seen seen = EVIDENCE_NONE;

	for (uint32_t u = 0; l->bracket.stream && u < uses->nr && seen == EVIDENCE_NONE; u++) {
		const struct weir_use *use = &uses->use[u];

		if (is_small(use->bytes))
			seen = evidence_look(stream, (uintptr_t)use->addr, use->bytes, scratch);
	}
	if (seen == EVIDENCE_NONE)
		return CU_SUCCESS;
	if (seen == EVIDENCE_FOUND)
		atomic_store(&l->kernel->any, HOLDS_ADDRESSES);
	note_any(l->kernel, seen == EVIDENCE_FOUND ? HOLDS_ADDRESSES : NOT_IN_TIME);
	bracket_close(&l->bracket, l->kernel->name);
	uses->any = true;
	return bracket_open(&l->bracket, stream, uses);
}

/* Whether something says that a launch uses more than it names; NULL: nothing does. */
static const char *why_evident(struct kernel *kernel, const struct scratch *scratch)
{
	if (!scratch->uses.nr)
		return "it names no allocation";
	if (evidence_elsewhere())
		return "memory of the driver's holds addresses of allocations";
	for (uint32_t u = 0; u < scratch->uses.nr; u++)
		if (evidence_of(scratch->uses.use[u].addr))
			atomic_store(&kernel->any, HOLDS_ADDRESSES);
	return atomic_load(&kernel->any);
}

/* Whether a launch may use more than it names, and why; NULL: it is taken not to. */
static const char *why_any(struct launch *l, const struct scratch *scratch, bool known)
{
	struct kernel *kernel = l->kernel;
	const enum settings_mode mode = settings_get()->mode;

	if (mode == SETTINGS_SAFE)
		return "any kernel may";
	if (!known)
		return "its parameters could not be read";
	if (mode == SETTINGS_FAST)
		return why_evident(kernel, scratch);
	return proof_why_open(kernel->name, kernel->code, scratch->uses.places_hash, &l->line);
}

static void keep_last(const struct kernel *kernel)
{
	const uint32_t nr = atomic_fetch_add(&launches.nr_last, 1);

	atomic_store(&launches.last[nr % LAUNCHES_LAST], kernel);
}

void launches_last(const char **name)
{
	const uint32_t nr = atomic_load(&launches.nr_last);

	for (uint32_t i = 0; i < LAUNCHES_LAST; i++) {
		const struct kernel *kernel =
			atomic_load(&launches.last[(nr - 1 - i) % LAUNCHES_LAST]);

		name[i] = kernel && i < nr ? kernel->name : NULL;
	}
}

/* What is known of the launch: why it may use any range. *looks: it is to be looked at, too. */
static const char *judge(struct launch *l, cu_stream stream, struct scratch *scratch, bool known,
			 bool *looks)
{
	const char *why = NULL;

	if (settings_moves())
		why = why_any(l, scratch, known);
	if (settings_get()->mode == SETTINGS_FAST && !why)
		*looks = is_looked_at(l->kernel, stream, scratch, &why);
	if (settings_moves())
		atomic_fetch_add(why ? &launches.nr_open : &launches.nr_closed, 1);
	if (why)
		note_any(l->kernel, why);
	else if (!known || (!scratch->uses.nr && !settings_get()->kernels))
		brackets_note_missed();
	return why;
}

/* The kernel waits for what comes behind it: there is no more to learn. */
static void stop_before(const struct kernel *kernel)
{
	char why[512];

	(void)snprintf(why, sizeof(why), "the next kernel is not to be waited for: %s",
		       kernel->name);
	proof_stop(why);
}

static cu_result begin(struct launch *l, cu_function function, cu_stream stream,
		       const struct infer_launch *launch)
{
	struct scratch *scratch = scratch_get();
	struct bracket_uses uses = {0};
	const char *why;
	bool known, looks = false;
	cu_result result;

	l->kernel = find_kernel(function);
	if (!l->kernel)
		l->kernel = add_kernel(function);
	if (!scratch || !l->kernel) {
		brackets_note_missed();
		return settings_moves() ? CU_OUT_OF_MEMORY : CU_SUCCESS;
	}
	known = find_uses_timed(l->kernel, scratch, launch);
	why = judge(l, stream, scratch, known, &looks);
	keep_last(l->kernel);
	mark_epoch(l->kernel);
	if (l->proves && proof_must_not_wait(l->line)) {
		stop_before(l->kernel);
		l->kernel = NULL;
		return CU_SUCCESS;
	}
	if (known)
		uses = (struct bracket_uses){.use = scratch->use,
					     .nr = scratch->nr,
					     .nr_likely = scratch->nr_likely,
					     .launched = hash_mix(0, (uintptr_t)l->kernel) | 1};
	uses.any = why != NULL;
	result = bracket_open(&l->bracket, stream, &uses);
	if (!result && looks)
		result = look(l, stream, &uses, scratch->seen);
	/* What is part of a graph does not run now, and another GPU's memory is none of ours. */
	l->checks = !result && l->proves && streams_is_queue(stream) && memory_manages();
	if (l->checks)
		proof_launch(l->line, &scratch->uses);
	return result;
}

cu_result launch_begin(struct launch *l, cu_function function, cu_stream stream,
		       const struct infer_launch *launch)
{
	cu_result result;

	*l = (struct launch){.stream = stream};
	if (!memory_infer())
		return CU_SUCCESS;
	if (settings_get()->mode == SETTINGS_LEARN) {
		l->proves = proof_enter();
		if (!l->proves)
			return CU_SUCCESS;
	}
	result = begin(l, function, stream, launch);
	if (result && l->proves)
		proof_leave();
	return result;
}

void launch_end(struct launch *l, cu_result result)
{
	if (l->checks)
		proof_check(l->line, l->stream, result, l->kernel->name);
	if (l->kernel)
		bracket_close(&l->bracket, l->kernel->name);
	if (l->proves)
		proof_leave();
}

void launches_account(struct launches_account *out)
{
	*out = (struct launches_account){
		.nr_closed = atomic_load(&launches.nr_closed),
		.nr_open = atomic_load(&launches.nr_open),
		.nr_windows = atomic_load(&launches.nr_windows),
		.infer_ns = atomic_load(&launches.infer_ns),
	};
}
