/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fake CUDA driver, for tests of the CUDA backend, and of programs, on machines without a GPU:
 * libcuda-fake.so.1 has the functions of src/backend/cuda/driver.h and of functions.h, under the
 * driver's names, and does on the CPU what cuda.h says they do; fakecuda.h steers it. This file:
 * its state, how calls begin and end, faults.
 *
 *   device.c   devices, attributes            context.c     contexts, their stacks
 *   memory.c   physical memory, plain         pool.c        allocations in the order of streams
 *              allocations                    host.c        registered memory of the host
 *   reserve.c  reservations                   attributes.c  what calls tell of an address
 *   mapping.c  mappings, access               ranges.c      sorted ranges of addresses
 *   stream.c   streams and their threads      ask.c         what calls tell of a stream
 *   capture.c  captures of streams, graphs    event.c       events
 *   shapes.c   copies and fills of pictures   words.c       words that streams wait for, and write
 *              and volumes
 *   submit.c   copies, fills, kernels that    work.c        what work does when its turn comes,
 *              tests launch                                 races
 *   change.c   changes of memory under work   packet.c      kernels of packets
 *   module.c   modules, libraries, functions  launch.c      launches of their kernels
 *   kernels.c  the kernels of programs        proc.c        functions by their names, and with a
 *   texture.c  textures and tensor maps                     stream 0 for each thread
 *
 * What it is strict about: results, for all that a caller can get wrong; who may touch what at
 * which address, also the CPU; order, by one thread a stream and by clocks that tell whether two
 * operations are ordered at all; what is still alive at the end. New memory is full of 0xa5, and
 * the copies of a batch run last to first, since neither is promised.
 *
 * A kernel or a copy that touches what it may not breaks its stream's context, as in the real
 * driver: work queued there is dropped (its events count as reached), and from then on calls
 * return CUDA_ERROR_ILLEGAL_ADDRESS. Calls that undo something do their work even then, so that
 * leaks can be told, and return the error. The last release of the context mends it.
 *
 * What is not as in the real driver:
 *  - copies from and to program memory are asynchronous like all others (the real driver stages
 *    them and may wait inside the call: fakecuda_config.pageable_blocks)
 *  - an address that a copy must not touch is always found when it runs (the real driver may refuse
 *    the call)
 *  - a kernel reaches the whole mappings that it names, and so does the CPU meanwhile; what it does
 *    not name is a SIGSEGV, not an error of the context
 *  - plain allocations are of the size asked for, to the byte; real ones go on for some more
 *  - time: everything takes as long as the CPU takes, mapping calls cost next to nothing
 *  - managed memory is host memory; prefetching it does nothing
 *  - objects of a context whose last retain was released are not freed but stay as leaks; calls
 *    that name them return CUDA_ERROR_CONTEXT_IS_DESTROYED; but for modules where handles are used
 *    again
 *  - plain memory is its device's, for all contexts of that
 *  - cuMemAllocAsync() takes new memory each time, and waits for frees that are queued where there
 *    is none left; a free gives it back at once
 *  - cuDevicePrimaryCtxReset() leaves the context retained
 *  - a created context has no flags, limits or affinity
 *  - a capture is of one stream, whose order the graph keeps; no other stream joins it
 *  - the error of a broken context reaches VMM calls by the memory's device, or the devices whose
 *    access is set
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/fakecuda/fake.h"

struct fake fake = {
	.lock = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP,
	.finished = PTHREAD_COND_INITIALIZER,
};

#define FAKE_SYMBOL(member, symbol, parameters) symbol,
static const char *const symbols[CALL_NR] = {CUDA_FUNCTIONS(FAKE_SYMBOL, FAKE_SYMBOL)
						     FAKE_FUNCTIONS(FAKE_SYMBOL)};
#undef FAKE_SYMBOL

void fake_panic(const char *what)
{
	fprintf(stderr, "fakecuda: %s\n", what);
	abort();
}

void fake_wait(unsigned tries)
{
	const struct timespec nap = {.tv_nsec = 50000};

	if (tries < 100)
		sched_yield();
	else
		(void)clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, NULL);
}

/* ------------------------------------------------------------------ configuration */

static uint64_t env_number(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);
	char *end;
	uint64_t value;

	if (!text || !*text)
		return otherwise;
	value = strtoull(text, &end, 0);
	return *end ? otherwise : value;
}

static uint64_t setting(uint64_t asked, const char *name, uint64_t otherwise)
{
	return asked ? asked : env_number(name, otherwise);
}

static void configure(void)
{
	const struct fakecuda_config *asked = &fake.asked;
	struct fakecuda_config *config = &fake.config;
	uint64_t page = page_up(1);
	const char *visible;
	bool hidden;

	if (fake.configured)
		return;
	visible = getenv("CUDA_VISIBLE_DEVICES");
	hidden = visible && !*visible;
	config->devices = asked->devices;
	if (!asked->devices)
		config->devices = hidden ? 0 : (int)env_number("FAKECUDA_DEVICES", 1);
	if (config->devices > DEVICES_MAX)
		config->devices = DEVICES_MAX;
	config->hbm_bytes = setting(asked->hbm_bytes, "FAKECUDA_HBM_BYTES", UINT64_C(64) << 20);
	config->host_bytes = setting(asked->host_bytes, "FAKECUDA_HOST_BYTES", UINT64_C(256) << 20);
	config->granularity = setting(asked->granularity, "FAKECUDA_GRANULARITY", 64 << 10);
	if (config->granularity < page || (config->granularity & (config->granularity - 1)))
		fake_panic("the granularity is not a power of two of whole pages");
	config->version = (int)setting((uint64_t)asked->version, "FAKECUDA_VERSION", 13000);
	config->pageable_blocks = asked->pageable_blocks;
	config->no_vmm = asked->no_vmm;
	config->no_host_vmm = asked->no_host_vmm;
	config->no_peers = setting(asked->no_peers, "FAKECUDA_NO_PEERS", 0) != 0;
	if (!fake.delay_ns)
		fake.delay_ns = setting(asked->delay_ns, "FAKECUDA_DELAY_NS", 0);
	config->unexported = setting(asked->unexported, "FAKECUDA_UNEXPORTED", 0) != 0;
	config->reuse = setting(asked->reuse, "FAKECUDA_REUSE", 0) != 0;
	config->hide_maps = setting(asked->hide_maps, "FAKECUDA_HIDE_MAPS", 0) != 0;
	config->copies_beside = setting(asked->copies_beside, "FAKECUDA_COPIES_BESIDE", 0) != 0;
	config->clock_percent = asked->clock_percent ? asked->clock_percent : 100;
	fake.configured = true;
}

/* Nothing is left of what contexts, mappings and streams held. */
static void counters_clear(void)
{
	memset(fake.fault, 0, sizeof(fake.fault));
	memset(fake.nr_calls_of, 0, sizeof(fake.nr_calls_of));
	fake.fail_at = 0;
	fake.nr_calls = 0;
	fake.nr_races = 0;
	fake.nr_unmaps_in_use = 0;
	fake.problem[0] = 0;
}

void fakecuda_reset(const struct fakecuda_config *config)
{
	pthread_mutex_lock(&fake.lock);
	streams_end();
	events_fini();
	modules_fini();
	graphs_fini();
	textures_fini();
	mappings_fini();
	reservations_fini();
	memories_fini();
	memset(fake.context, 0, sizeof(fake.context));
	memset(fake.pool, 0, sizeof(fake.pool));
	fake.nr_created = 0;
	counters_clear();
	fake.gate_closed = false;
	fake.delay_ns = 0;
	fake.initialised = fake.forked = false;
	fake.configured = false;
	fake.generation++;
	fake.asked = config ? *config : (struct fakecuda_config){0};
	pthread_mutex_unlock(&fake.lock);
}

/* What went wrong in a process that cannot ask. */
__attribute__((destructor)) static void report(void)
{
	const char *path = getenv("FAKECUDA_REPORT");
	unsigned leaks = path && *path ? fakecuda_leaks(NULL) : 0;
	FILE *file = path && *path ? fopen(path, "a") : NULL;

	if (!file)
		return;
	pthread_mutex_lock(&fake.lock);
	fprintf(file, "calls %llu races %llu unmaps %llu leaks %u problem %s\n",
		(unsigned long long)fake.nr_calls, (unsigned long long)fake.nr_races,
		(unsigned long long)fake.nr_unmaps_in_use, leaks,
		fake.problem[0] ? fake.problem : "none");
	pthread_mutex_unlock(&fake.lock);
	fclose(file);
}

/* ------------------------------------------------------------------ calls and faults */

/* Calls that undo something, and that only tell: these do not fail by number. */
static bool call_never_fails(enum call call)
{
	switch (call) {
	case CALL_driver_version:
	case CALL_error_name:
	case CALL_error_string:
	case CALL_context_release:
	case CALL_context_pop:
	case CALL_capture_mode:
	case CALL_mem_unreserve:
	case CALL_mem_release:
	case CALL_mem_unmap:
	case CALL_mem_free:
	case CALL_host_free:
	case CALL_stream_destroy:
	case CALL_event_destroy:
	case CALL_module_unload:
	case CALL_proc:
	case CALL_proc_v2:
	case CALL_context_destroy:
	case CALL_context_reset:
	case CALL_pool_free:
	case CALL_host_unregister:
	case CALL_library_unload:
	case CALL_graph_destroy:
	case CALL_graph_exec_destroy:
	case CALL_texture_destroy:
	case CALL_reference_destroy:
		return true;
	default:
		return false;
	}
}

static cu_result fault_of(enum call call)
{
	for (int i = 0; i < FAULTS_MAX; i++) {
		struct fault *fault = &fake.fault[i];

		if (!fault->result || fault->call != call)
			continue;
		if (!fault->skip)
			return fault->result;
		fault->skip--;
	}
	if (call_never_fails(call))
		return CU_SUCCESS;
	fake.nr_calls++;
	return fake.fail_at && !--fake.fail_at ? fake.fail_result : CU_SUCCESS;
}

/* Calls that ask, wait, allocate or map: what a capture forbids. */
static bool call_is_unsafe(enum call call)
{
	switch (call) {
	case CALL_context_sync:
	case CALL_context_sync_v2:
	case CALL_stream_sync:
	case CALL_event_query:
	case CALL_event_sync:
	case CALL_event_elapsed:
	case CALL_event_elapsed_v2:
	case CALL_mem_reserve:
	case CALL_mem_unreserve:
	case CALL_mem_create:
	case CALL_mem_release:
	case CALL_mem_map:
	case CALL_mem_unmap:
	case CALL_mem_access:
	case CALL_mem_alloc:
	case CALL_mem_free:
	case CALL_host_alloc:
	case CALL_host_free:
	case CALL_managed_alloc:
	case CALL_module_load:
	case CALL_module_unload:
	case CALL_stream_query:
	case CALL_mem_alloc_pitch:
	case CALL_host_alloc_plain:
	case CALL_host_register:
	case CALL_host_unregister:
	case CALL_module_load_data:
	case CALL_library_load:
	case CALL_library_unload:
	case CALL_context_reset:
		return true;
	default:
		return false;
	}
}

cu_result call_enter(enum call call)
{
	cu_result result;

	pthread_mutex_lock(&fake.lock);
	configure();
	fake.nr_calls_of[call]++;
	result = fault_of(call);
	if (!result && call_is_unsafe(call) && capture_forbids()) {
		captures_spoil();
		result = CU_CAPTURE_UNSUPPORTED;
	}
	if (result || (fake.initialised && !fake.forked))
		return result;
	if ((call == CALL_init && !fake.forked) || call == CALL_driver_version ||
	    call == CALL_error_name || call == CALL_error_string || call == CALL_proc ||
	    call == CALL_proc_v2)
		return CU_SUCCESS;
	return CU_NOT_INITIALIZED;
}

cu_result call_leave(cu_result result)
{
	pthread_mutex_unlock(&fake.lock);
	return result;
}

/* CALL_NR: no such function. */
static enum call call_named(const char *symbol)
{
	enum call call = 0;

	while (call < CALL_NR && strcmp(symbols[call], symbol) != 0)
		call++;
	return call;
}

void fakecuda_fail_at(uint64_t n, int result)
{
	pthread_mutex_lock(&fake.lock);
	fake.fail_at = n;
	fake.fail_result = result;
	pthread_mutex_unlock(&fake.lock);
}

static bool fault_set(enum call call, uint64_t skip, cu_result result)
{
	struct fault *free = NULL;

	for (int i = 0; i < FAULTS_MAX; i++) {
		struct fault *fault = &fake.fault[i];

		if (fault->result && fault->call == call)
			fault->result = 0;
		if (!fault->result)
			free = fault;
	}
	if (!result)
		return true;
	if (!free)
		return false;
	*free = (struct fault){call, skip, result};
	return true;
}

bool fakecuda_fail_symbol(const char *symbol, uint64_t skip, int result)
{
	enum call call = call_named(symbol);
	bool set;

	if (call == CALL_NR)
		return false;
	pthread_mutex_lock(&fake.lock);
	set = fault_set(call, skip, result);
	pthread_mutex_unlock(&fake.lock);
	return set;
}

static uint64_t counter_read(const uint64_t *counter)
{
	uint64_t n;

	pthread_mutex_lock(&fake.lock);
	n = *counter;
	pthread_mutex_unlock(&fake.lock);
	return n;
}

uint64_t fakecuda_nr_calls(void)
{
	return counter_read(&fake.nr_calls);
}

uint64_t fakecuda_nr_calls_of(const char *symbol)
{
	enum call call = call_named(symbol);

	return call == CALL_NR ? 0 : counter_read(&fake.nr_calls_of[call]);
}

uint64_t fakecuda_nr_races(void)
{
	return counter_read(&fake.nr_races);
}

uint64_t fakecuda_nr_unmaps_in_use(void)
{
	return counter_read(&fake.nr_unmaps_in_use);
}

void fakecuda_problem(char *text, size_t bytes)
{
	pthread_mutex_lock(&fake.lock);
	snprintf(text, bytes, "%s", fake.problem);
	pthread_mutex_unlock(&fake.lock);
}
