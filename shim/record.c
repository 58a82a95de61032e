/* SPDX-License-Identifier: Apache-2.0 */
/* Brackets around the program's launches, for a trace: see record.h. */
#include "shim/record.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim/infer.h"
#include "shim/memory.h"
#include "shim/settings.h"
#include "src/backend/machine.h"
#include "src/base/clock.h"
#include "src/base/hash.h"
#include "weir/trace.h"
#include "weir/weir.h"

#define PARAMETERS_MAX 4096u
#define SLOTS 1024u	 /* of the table of kernels */
#define STREAM_LOCKS 64u /* streams share them */

/* A kernel that was launched. Kept until the process ends: traces name it. */
struct kernel {
	struct kernel *next;
	const void *key; /* NULL: what had the key may be unloaded */
	bool marks;	 /* counts for --mark */
	char name[];
};

/* What a thread uses for one launch after another. */
struct scratch {
	struct infer_uses uses;
	struct weir_use *use;
	uint32_t max;
};

static struct {
	pthread_mutex_t lock;
	struct kernel *slot[SLOTS];
	pthread_mutex_t stream[STREAM_LOCKS];
	pthread_once_t once;
	pthread_key_t scratch;
	_Atomic(uint64_t) nr_marking; /* launches of kernels that mark */
	_Atomic(uint64_t) nr_brackets, nr_uses, nr_missed, infer_ns;
} record = {.lock = PTHREAD_MUTEX_INITIALIZER, .once = PTHREAD_ONCE_INIT};

static void scratch_free(void *at)
{
	struct scratch *scratch = at;

	infer_uses_fini(&scratch->uses);
	free(scratch->use);
	free(scratch);
}

static void init(void)
{
	for (uint32_t i = 0; i < STREAM_LOCKS; i++)
		(void)pthread_mutex_init(&record.stream[i], NULL);
	if (pthread_key_create(&record.scratch, scratch_free))
		settings_fail("--trace: the threads of this process have no keys left");
}

static struct scratch *scratch_get(void)
{
	struct scratch *scratch;

	(void)pthread_once(&record.once, init);
	scratch = pthread_getspecific(record.scratch);
	if (scratch)
		return scratch;
	scratch = calloc(1, sizeof(*scratch));
	if (scratch && pthread_setspecific(record.scratch, scratch)) {
		free(scratch);
		scratch = NULL;
	}
	return scratch;
}

/* ------------------------------------------------------------------ kernels */

static struct kernel **slot_of(const void *key)
{
	return &record.slot[hash_mix(0, (uintptr_t)key) % SLOTS];
}

static struct kernel *find_kernel(const void *key)
{
	struct kernel *kernel;

	pthread_mutex_lock(&record.lock);
	kernel = *slot_of(key);
	while (kernel && kernel->key != key)
		kernel = kernel->next;
	pthread_mutex_unlock(&record.lock);
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

static struct kernel *add_kernel(cu_function function)
{
	struct infer_param *param = malloc(PARAMETERS_MAX * sizeof(*param));
	const char *name = name_of(function);
	struct kernel *kernel = malloc(sizeof(*kernel) + strlen(name) + 1);
	int nr = param ? layout_of(function, param) : -1;

	if (kernel) {
		kernel->key = function;
		memcpy(kernel->name, name, strlen(name) + 1);
		kernel->marks = !settings_get()->mark || strstr(name, settings_get()->mark);
		(void)infer_kernel_add(memory_infer(), function, nr < 0 ? NULL : param,
				       nr < 0 ? 0 : (uint32_t)nr);
		pthread_mutex_lock(&record.lock);
		kernel->next = *slot_of(function);
		*slot_of(function) = kernel;
		pthread_mutex_unlock(&record.lock);
	}
	free(param);
	return kernel;
}

void record_forget_kernels(void)
{
	struct infer *infer = memory_infer();

	if (!infer)
		return;
	pthread_mutex_lock(&record.lock);
	for (uint32_t s = 0; s < SLOTS; s++)
		for (struct kernel *kernel = record.slot[s]; kernel; kernel = kernel->next) {
			if (kernel->key)
				(void)infer_kernel_del(infer, kernel->key);
			kernel->key = NULL;
		}
	pthread_mutex_unlock(&record.lock);
}

/* ------------------------------------------------------------------ launches */

bool record_is_on(void)
{
	return settings_get()->trace != NULL;
}

/* The ranges that a launch names, as the space is told: read and written, in an order that is the
 * program's own. @return false: they are not known */
static bool find_uses(struct scratch *scratch, const struct infer_launch *launch)
{
	const uint64_t since_ns = clock_now_ns();
	struct infer_uses *found = &scratch->uses;

	if (infer_launch(memory_infer(), launch, found))
		return false;
	if (found->nr > scratch->max) {
		struct weir_use *more = realloc(scratch->use, found->nr * sizeof(*more));

		if (!more)
			return false;
		scratch->use = more;
		scratch->max = found->nr;
	}
	for (uint32_t u = 0; u < found->nr; u++)
		scratch->use[u] = (struct weir_use){
			.addr = (void *)(uintptr_t)found->use[u].addr,
			.bytes = found->use[u].bytes,
			.kind = WEIR_ATOMIC,
			.read_bytes = found->use[u].bytes,
		};
	atomic_fetch_add(&record.infer_ns, clock_now_ns() - since_ns);
	return found->nr != 0;
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
	nr = atomic_fetch_add(&record.nr_marking, 1);
	if (settings->mark ? nr % settings->mark_every : nr)
		return;
	(void)snprintf(name, sizeof(name), "epoch %" PRIu64, nr / settings->mark_every + 1);
	weir_space_trace_mark(memory_space(), name);
}

static pthread_mutex_t *lock_of(cu_stream stream)
{
	return &record.stream[hash_mix(0, (uintptr_t)stream) % STREAM_LOCKS];
}

void record_begin(struct record_launch *r, cu_function function, cu_stream stream,
		  const struct infer_launch *launch)
{
	struct scratch *scratch = scratch_get();

	*r = (struct record_launch){0};
	if (!scratch || !memory_infer())
		return;
	r->kernel = find_kernel(function);
	if (!r->kernel)
		r->kernel = add_kernel(function);
	r->stream = memory_stream(stream);
	if (!r->kernel || !r->stream || !find_uses(scratch, launch)) {
		r->stream = NULL;
		atomic_fetch_add(&record.nr_missed, 1);
		return;
	}
	r->lock = lock_of(stream);
	pthread_mutex_lock(r->lock);
	mark_epoch(r->kernel);
	if (weir_begin(memory_space(), r->stream, scratch->use, scratch->uses.nr)) {
		pthread_mutex_unlock(r->lock);
		r->stream = NULL;
		atomic_fetch_add(&record.nr_missed, 1);
		return;
	}
	atomic_fetch_add(&record.nr_brackets, 1);
	atomic_fetch_add(&record.nr_uses, scratch->uses.nr);
}

void record_end(struct record_launch *r)
{
	if (!r->stream)
		return;
	stream_kernel_note(r->stream, r->kernel->name);
	/* A bracket that cannot end now is ended by the next try; what it names stays where it is,
	 * as all does in a fixed space. */
	for (int tries = 0; tries < 4 && weir_end(memory_space(), r->stream); tries++)
		;
	pthread_mutex_unlock(r->lock);
}

void record_account(struct record_account *out)
{
	*out = (struct record_account){
		.nr_brackets = atomic_load(&record.nr_brackets),
		.nr_uses = atomic_load(&record.nr_uses),
		.nr_missed = atomic_load(&record.nr_missed),
		.infer_ns = atomic_load(&record.infer_ns),
	};
}
