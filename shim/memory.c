/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocations as ranges of one space. In a fixed one nothing moves: what the GPU's budget has no
 * room for lies in the host's memory, where kernels use it in place. In a planned one (--mode safe,
 * fast) blocks move between operations, which have brackets (brackets.h).
 *
 * What is freed in the order of a stream is kept for that stream (bins.h); the space is told only
 * when memory is short, or the stream ends.
 *
 * One lock, memory.lock, for what is here. It is not held over calls of the space, which may wait.
 * Before it comes memory.draining, which is: while ranges of other threads' streams are given back,
 * none of these streams may end, and an allocation that finds no room waits for what is given back.
 */
#include "shim/memory.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "shim/bins.h"
#include "shim/captures.h"
#include "shim/evidence.h"
#include "shim/infer.h"
#include "shim/launches.h"
#include "shim/proof.h"
#include "shim/real.h"
#include "shim/settings.h"
#include "shim/streams.h"
#include "shim/summary.h"
#include "shim/when.h"
#include "src/backend/cuda/cuda.h"
#include "src/backend/machine.h"
#include "src/base/clock.h"
#include "src/base/util.h"
#include "src/core/space.h"
#include "src/residency/residency.h"
#include "weir/trace.h"
#include "weir/weir.h"

#define SMALL_BYTES 256u	    /* what ranges below one block are rounded up to, see weir.h */
#define BLOCK_MAX_BYTES (8u << 20)  /* the space's: smaller ones waste less of an allocation */
#define MOVED_MAX_BYTES (32u << 20) /* the same where blocks move: larger ones cost fewer calls */
#define MOVED_BLOCKS 256u	    /* that a budget has of blocks above BLOCK_MAX_BYTES */
/* Of the GPU's memory, left to the driver where no budget is given: modules, stacks, arrays. */
#define HEADROOM_BYTES (UINT64_C(512) << 20)
#define HEADROOM_SHARE 16u /* no more than this part of what is free */
#define APART_SHARE 8u	   /* of all memory, that is left where small ranges have blocks each */
#define PAUSE_NS 50000	   /* between two looks at streams that are to become idle */
#define END_WAIT_S 2	   /* for a lock, by a process that ends */
#define RESERVED_BLOCKS 2u /* of a space's budgets, for copies: weir_alloc() leaves them free */

static struct {
	pthread_mutex_t lock, draining, starting;
	_Atomic(int) device; /* the managed one; -1: none yet */
	struct weir_machine *machine;
	struct weir_space *space;
	uint32_t gpu, gpu_memory, host_memory; /* as the machine numbers them */
	struct infer *infer;		       /* knows the live allocations */
	struct bins bins;
	struct bins later; /* what was freed while streams were captured, see free_later() */
	struct streams streams;
	struct memory_use use;
	struct memory_account account;
	atomic_bool shares;	    /* small allocations do, though they were not to */
	_Atomic(cu_context) broken; /* by a kernel's fault, as a call said; NULL: none is */
	char error[512];	    /* the last message of an error */
	char warning[512]; /* and of a warning: the machine gives less memory than was asked for */
} memory = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.draining = PTHREAD_MUTEX_INITIALIZER,
	.starting = PTHREAD_MUTEX_INITIALIZER,
	.device = -1,
	.account.device = -1,
};

/* ------------------------------------------------------------------ starting */

static void take_message(void *arg, enum weir_log_level level, const char *message)
{
	(void)arg;
	if (level == WEIR_LOG_ERROR) {
		/* Cut, and whole but for the end; two threads' errors may mix. */
		(void)strncpy(memory.error, message, sizeof(memory.error) - 1);
	} else if (level == WEIR_LOG_WARNING) {
		(void)strncpy(memory.warning, message, sizeof(memory.warning) - 1);
	}
	if (settings_get()->explain && level <= WEIR_LOG_INFO)
		summary_say("%s", message);
}

/* What is left of memory for the program when the driver has what it needs for itself. */
static uint64_t leave_headroom(uint64_t bytes)
{
	return bytes - MIN(HEADROOM_BYTES, bytes / HEADROOM_SHARE);
}

static uint64_t gpu_budget(cu_device device)
{
	const uint64_t asked = settings_get()->gpu_budget;
	size_t free = 0, total = 0;

	if (real.cuMemGetInfo_v2(&free, &total))
		settings_fail("GPU %d does not say how much memory it has", device);
	if (asked > total)
		settings_fail("--gpu-budget is %s, and GPU %d has %s: give it less",
			      summary_bytes(asked).text, device, summary_bytes(total).text);
	if (asked)
		return asked;
	return leave_headroom(free);
}

/* --learn: whether each allocation has blocks of its own, so that a kernel which strays from one to
 * another is seen to. */
static bool is_apart(void)
{
	return settings_get()->mode == SETTINGS_LEARN;
}

/* Small blocks waste less of an allocation, large ones cost fewer calls where they move. */
static uint64_t choose_block_bytes(uint64_t budget, uint64_t granularity)
{
	const uint64_t asked = settings_get()->block;
	uint64_t bytes = settings_moves() ? MOVED_MAX_BYTES : BLOCK_MAX_BYTES;

	if (asked && (asked % granularity || asked >> 32))
		settings_fail("--block is %s: it has to be a multiple of %s, below 4 GiB",
			      summary_bytes(asked).text, summary_bytes(granularity).text);
	if (asked || is_apart())
		return asked ? asked : granularity;
	while (bytes > BLOCK_MAX_BYTES && budget / bytes < MOVED_BLOCKS)
		bytes /= 2;
	while (bytes > granularity && budget / bytes < 64)
		bytes /= 2;
	return MAX(bytes, granularity);
}

static int make_space(uint64_t budget)
{
	const struct weir_machine_desc *desc = weir_machine_describe(memory.machine);
	struct weir_space_config config = {
		.devices = WEIR_MEM_DEVICE(memory.gpu),
		.mode = settings_moves() && !when_is_before() && !proof_has_ended() ? WEIR_PLANNED
										    : WEIR_FIXED,
	};
	int host = weir_memory_find(memory.machine, "host"), err;

	if (host < 0)
		return host;
	memory.gpu_memory = desc->device[memory.gpu].memory;
	memory.host_memory = (uint32_t)host;
	/* What is free may be more than the machine takes for the GPU's memory. */
	if (!settings_get()->gpu_budget)
		budget = MIN(budget, leave_headroom(desc->memory[memory.gpu_memory].bytes));
	config.budget_bytes[memory.gpu_memory] = budget;
	config.budget_bytes[host] = settings_get()->host_budget;
	config.block_bytes = choose_block_bytes(budget, desc->vmm.granularity_bytes);
	memory.account.gpu_budget = budget;
	memory.account.host_budget = settings_get()->host_budget ? settings_get()->host_budget
								 : desc->memory[host].bytes;
	memory.account.block_bytes = config.block_bytes;
	err = weir_space_create(memory.machine, &config, &memory.space);
	if (!err) {
		memory.space->guessed = true;
		memory.space->own_only = when_is_before();
		memory.space->patience_ns = settings_get()->hold_ns;
		memory.space->may_group = captures_are_none;
		err = compare_init(memory.space);
	}
	if (!err && settings_get()->trace)
		err = weir_space_trace(memory.space, settings_get()->trace);
	return err;
}

/* Make the space on a device; its context is current. Ends the program where that fails. */
static void start(cu_device device)
{
	/* What a bracket does not name is then out of reach. */
	const struct cuda_config config = {.library = real_path(), .debug = is_apart()};
	const uint64_t budget = gpu_budget(device);
	struct backend *b = NULL;
	int err, gpu = -ENODEV;

	proof_start();
	weir_log_set(take_message, NULL);
	err = cuda_create(&config, &b);
	if (!err) {
		gpu = cuda_device_find(b, device);
		err = machine_wrap(b, &memory.machine);
		if (err)
			b->ops->destroy(b);
	}
	if (!err && gpu < 0)
		err = gpu;
	if (!err)
		err = infer_create(&memory.infer);
	if (!err) {
		memory.gpu = (uint32_t)gpu;
		err = make_space(budget);
	}
	if (err)
		settings_fail("GPU %d cannot be managed: %s", device,
			      memory.error[0] ? memory.error : weir_strerror(err));
	memory.streams = (struct streams){.machine = memory.machine, .gpu = memory.gpu};
	/* The machine holds it. */
	if (!real.cuDevicePrimaryCtxRetain(&memory.streams.primary, device))
		(void)real.cuDevicePrimaryCtxRelease_v2(device);
	memory.account.device = device;
	atomic_store(&memory.device, device);
	when_begin(memory.streams.primary);
	summary_begin();
}

void memory_note_result(cu_result result)
{
	cu_context current = NULL;

	if (streams_is_fault(result) && !real.cuCtxGetCurrent(&current))
		atomic_store(&memory.broken, current);
}

/* Whether the current context is, by what the driver says now: another one may have its handle. */
static bool is_broken(void)
{
	const cu_context broken = atomic_load(&memory.broken);
	cu_context current = NULL;

	return broken && !real.cuCtxGetCurrent(&current) && current == broken &&
	       streams_is_fault(streams_query(CU_STREAM_LEGACY));
}

bool memory_manages(void)
{
	const int asked = settings_get()->gpu;
	cu_device device;

	if (real.cuCtxGetDevice(&device))
		return false;
	if (atomic_load(&memory.device) < 0 && (asked < 0 || asked == device)) {
		pthread_mutex_lock(&memory.starting);
		if (atomic_load(&memory.device) < 0)
			start(device);
		pthread_mutex_unlock(&memory.starting);
	}
	return atomic_load(&memory.device) == device && !is_broken();
}

void memory_check_gpu(void)
{
	const int asked = settings_get()->gpu;
	size_t bytes;

	if (asked >= 0 && real.cuDeviceTotalMem_v2 && real.cuDeviceTotalMem_v2(&bytes, asked))
		summary_say("the driver has no GPU %d (--gpu): all memory of this program is the "
			    "driver's, and without weir",
			    asked);
}

const char *memory_warning(void)
{
	return memory.warning;
}

int memory_device(void)
{
	return atomic_load(&memory.device);
}

/* ------------------------------------------------------------------ accounts */

static uint64_t rounded(uint64_t bytes)
{
	const uint64_t block = MAX(memory.account.block_bytes, (uint64_t)SMALL_BYTES);

	return round_up(bytes, bytes < block && !is_apart() ? SMALL_BYTES : block);
}

/* Lock held. */
static void count_use(void)
{
	struct memory_use *use = &memory.use;

	use->reserved = use->used + memory.bins.bytes;
	use->used_high = MAX(use->used_high, use->used);
	use->reserved_high = MAX(use->reserved_high, use->reserved);
	memory.account.used_high = MAX(memory.account.used_high, use->used);
}

/* An allocation is live from here on. Lock held. @return false: no memory */
static bool begin_life(uint64_t addr, uint64_t bytes)
{
	struct range_live range;

	if (infer_range_add(memory.infer, addr, bytes, &range))
		return false;
	memory.use.used += rounded(bytes);
	count_use();
	return true;
}

/* @return its bytes as asked for; 0: no allocation begins there. Lock held. */
static uint64_t end_life(uint64_t addr)
{
	struct range_live range;

	if (infer_range_del(memory.infer, addr, &range))
		return 0;
	memory.use.used -= rounded(range.bytes);
	evidence_forget(addr);
	return range.bytes;
}

void memory_use(struct memory_use *out)
{
	pthread_mutex_lock(&memory.lock);
	count_use();
	*out = memory.use;
	pthread_mutex_unlock(&memory.lock);
}

void memory_use_reset_high(bool used, bool reserved)
{
	pthread_mutex_lock(&memory.lock);
	if (used)
		memory.use.used_high = memory.use.used;
	if (reserved)
		memory.use.reserved_high = memory.use.reserved;
	pthread_mutex_unlock(&memory.lock);
}

/* What can be allocated, of both budgets together. */
static uint64_t memory_total(void)
{
	return memory.account.gpu_budget + memory.account.host_budget -
	       RESERVED_BLOCKS * memory.account.block_bytes;
}

void memory_info(uint64_t *free, uint64_t *total)
{
	struct memory_use use;

	memory_use(&use);
	*total = memory_total();
	*free = *total - MIN(*total, use.used);
}

/* Lock held. */
static void count_peaks(void)
{
	struct memory_account *account = &memory.account;
	struct weir_space_stats stats;

	if (!memory.space)
		return;
	weir_space_query(memory.space, &stats);
	account->gpu_high = MAX(account->gpu_high, stats.memory[memory.gpu_memory].peak_bytes);
	account->host_high = MAX(account->host_high, stats.memory[memory.host_memory].peak_bytes);
	account->compared_bytes = stats.nr_compared * account->block_bytes;
	account->same_bytes = stats.nr_unchanged * account->block_bytes;
	account->in_bytes = account->out_bytes = 0;
	for (uint32_t l = 0; l < WEIR_LINKS_MAX; l++) /* of host links a is the host */
		for (uint32_t cause = 0; cause < WEIR_CAUSE_INPLACE; cause++) {
			account->in_bytes += stats.link_bytes[l][WEIR_A_TO_B][cause];
			account->out_bytes += stats.link_bytes[l][WEIR_B_TO_A][cause];
		}
	account->nr_waits = stats.nr_waits;
	pthread_mutex_lock(&memory.space->lock);
	account->nr_grouped = memory.space->nr_shared;
	account->nr_ungrouped = memory.space->nr_refused;
	pthread_mutex_unlock(&memory.space->lock);
}

void memory_account(struct memory_account *out)
{
	pthread_mutex_lock(&memory.lock);
	count_peaks();
	*out = memory.account;
	pthread_mutex_unlock(&memory.lock);
}

bool memory_answers(void)
{
	struct timespec until;
	bool answers;

	(void)clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += END_WAIT_S;
	if (pthread_mutex_timedlock(&memory.lock, &until))
		return false;
	answers = !memory.space || !pthread_mutex_timedlock(&memory.space->lock, &until);
	if (answers && memory.space)
		pthread_mutex_unlock(&memory.space->lock);
	pthread_mutex_unlock(&memory.lock);
	return answers;
}

bool memory_find(cu_ptr addr, cu_ptr *base, uint64_t *bytes)
{
	struct range_live range;

	if (atomic_load(&memory.device) < 0 || infer_range_find(memory.infer, addr, &range))
		return false;
	if (base)
		*base = range.addr;
	if (bytes)
		*bytes = range.bytes;
	return true;
}

/* ------------------------------------------------------------------ streams */

struct weir_stream *memory_stream(cu_stream stream)
{
	struct weir_stream *found;

	pthread_mutex_lock(&memory.lock);
	found = streams_find_used(&memory.streams, stream);
	pthread_mutex_unlock(&memory.lock);
	return found;
}

struct weir_stream *memory_stream_own(void)
{
	struct weir_stream *own;

	pthread_mutex_lock(&memory.lock);
	own = streams_own(&memory.streams);
	pthread_mutex_unlock(&memory.lock);
	return own;
}

struct infer *memory_infer(void)
{
	return atomic_load(&memory.device) < 0 ? NULL : memory.infer;
}

struct weir_space *memory_space(void)
{
	return atomic_load(&memory.device) < 0 ? NULL : memory.space;
}

/* Keep a range that is freed for who may wait; lock held. */
static void put_later(const struct kept *kept)
{
	if (!bins_put(&memory.later, kept))
		summary_note_lost(kept->bytes);
}

/* Give kept ranges back to the space: those of a stream, or all. keep: so many bytes may stay. What
 * the space does not take, since the stream is captured now, it gets later. memory.draining
 * held. */
static void drain(const void *stream, bool any_stream, uint64_t keep)
{
	struct kept kept;
	struct weir_stream *behind;
	bool found;

	do {
		pthread_mutex_lock(&memory.lock);
		found = memory.bins.bytes > keep &&
			bins_drain(&memory.bins, stream, any_stream, 0, &kept);
		behind = found ? streams_find(&memory.streams, kept.stream) : NULL;
		pthread_mutex_unlock(&memory.lock);
		if (!found || !weir_free(memory.space, (void *)(uintptr_t)kept.addr, behind))
			continue;
		pthread_mutex_lock(&memory.lock);
		put_later(&kept);
		pthread_mutex_unlock(&memory.lock);
	} while (found);
}

/* Destroy streams that the program has destroyed and whose work is done by now; until then the
 * driver keeps them. memory.draining held, so that nobody else takes streams out of the table. */
static void end_idle_streams(void)
{
	struct stream_gone gone;
	uint32_t from = 0;
	bool found;

	do {
		pthread_mutex_lock(&memory.lock);
		found = streams_take_idle(&memory.streams, &from, &gone);
		pthread_mutex_unlock(&memory.lock);
		if (found) {
			weir_stream_destroy(gone.adopted);
			(void)real.cuStreamDestroy_v2(gone.native);
		}
	} while (found);
}

void memory_trim(uint64_t keep_bytes)
{
	pthread_mutex_lock(&memory.draining);
	drain(NULL, true, keep_bytes);
	pthread_mutex_unlock(&memory.draining);
}

/* Give back what is kept for streams that have no work: who takes it waits for nobody.
 * @return bytes that are kept for others */
static uint64_t drain_idle(void)
{
	uint64_t bytes;
	uint32_t from = 0;
	cu_stream idle;

	pthread_mutex_lock(&memory.draining);
	do {
		pthread_mutex_lock(&memory.lock);
		idle = streams_next_idle(&memory.streams, &from);
		bytes = memory.bins.bytes;
		pthread_mutex_unlock(&memory.lock);
		if (idle)
			drain(idle, false, 0);
	} while (idle);
	pthread_mutex_unlock(&memory.draining);
	return bytes;
}

/* Give back what was kept before memory moves, of what is given back at once from then on: see
 * keeps(). All is done that was queued then. memory.draining held. */
static void drain_done(void)
{
	struct kept kept;
	bool found;

	do {
		pthread_mutex_lock(&memory.lock);
		found = bins_drain(&memory.bins, NULL, true, memory.account.block_bytes, &kept);
		pthread_mutex_unlock(&memory.lock);
		if (found && weir_free(memory.space, (void *)(uintptr_t)kept.addr, NULL))
			summary_note_lost(kept.bytes);
	} while (found);
}

void memory_let_spill(void)
{
	pthread_mutex_lock(&memory.space->lock);
	memory.space->own_only = false;
	pthread_mutex_unlock(&memory.space->lock);
}

int memory_set_moving(void)
{
	pthread_mutex_lock(&memory.draining);
	drain_done();
	pthread_mutex_unlock(&memory.draining);
	return weir_space_set_mode(memory.space, WEIR_PLANNED);
}

void memory_fence_all(void)
{
	if (memory_space())
		bracket_fence_all(memory_space());
}

bool memory_stream_ends(cu_stream stream)
{
	struct weir_stream *adopted;
	struct stream_gone gone;
	bool stays;

	if (atomic_load(&memory.device) < 0)
		return false;
	pthread_mutex_lock(&memory.draining);
	pthread_mutex_lock(&memory.lock);
	adopted = streams_known(&memory.streams, stream);
	pthread_mutex_unlock(&memory.lock);
	if (adopted)
		bracket_stream_ends(memory.space, adopted);
	drain(stream, false, 0);
	pthread_mutex_lock(&memory.lock);
	stays = streams_end(&memory.streams, stream, &gone);
	pthread_mutex_unlock(&memory.lock);
	if (!stays)
		weir_stream_destroy(gone.adopted);
	end_idle_streams();
	pthread_mutex_unlock(&memory.draining);
	return stays;
}

void memory_context_ends(void)
{
	pthread_mutex_lock(&memory.draining);
	pthread_mutex_lock(&memory.lock);
	streams_forget_others(&memory.streams);
	pthread_mutex_unlock(&memory.lock);
	pthread_mutex_unlock(&memory.draining);
}

/* ------------------------------------------------------------------ allocating */

/* The bytes to ask the space for. While there is much room, small ranges that are to have blocks of
 * their own get them. */
static uint64_t bytes_apart(uint64_t bytes)
{
	const uint64_t block = memory.account.block_bytes, total = memory_total();
	struct memory_use use;

	if (!is_apart() || bytes >= block)
		return bytes;
	memory_use(&use);
	if (use.used + block <= total - total / APART_SHARE)
		return block;
	if (!atomic_exchange(&memory.shares, true))
		summary_say("there is little room: small allocations share blocks from here on, "
			    "and a kernel that strays from one to another is not seen to");
	return bytes;
}

/*
 * With --when oom, the GPU's budget has no room. What is kept for reuse makes some, once the
 * streams that it is kept for are idle, which may take for ever: they have the time for which
 * operations are held. Then memory has to move.
 */
static int alloc_beyond(uint64_t bytes, struct weir_stream *stream, void **at)
{
	const struct timespec pause = {.tv_nsec = PAUSE_NS};
	const uint64_t since_ns = clock_now_ns();
	uint64_t kept;
	int err;

	for (;;) {
		kept = drain_idle();
		err = weir_alloc(memory.space, bytes, stream, at);
		if (err != -ENOSPC || !kept || clock_now_ns() - since_ns >= settings_get()->hold_ns)
			break;
		(void)nanosleep(&pause, NULL);
	}
	if (err != -ENOSPC)
		return err;
	when_switch(bytes);
	return weir_alloc(memory.space, bytes, stream, at);
}

/* Wait for all work that was queued, and give back what was freed before that while streams were
 * captured. Work that is queued meanwhile may use what is freed meanwhile. */
static cu_result sync_and_give_back(void)
{
	cu_result result;
	struct kept kept;
	struct bins due;

	pthread_mutex_lock(&memory.lock);
	due = memory.later;
	memory.later = (struct bins){0};
	pthread_mutex_unlock(&memory.lock);
	result = streams_sync(memory_device());
	while (bins_drain(&due, NULL, true, 0, &kept)) {
		if (!result && weir_free(memory.space, (void *)(uintptr_t)kept.addr, NULL))
			summary_note_lost(kept.bytes);
		if (!result)
			continue;
		pthread_mutex_lock(&memory.lock);
		put_later(&kept);
		pthread_mutex_unlock(&memory.lock);
	}
	bins_fini(&due);
	return result;
}

/* The same where memory is short, if there is any and no stream is captured any more. */
static void give_back_later(void)
{
	bool any;

	pthread_mutex_lock(&memory.lock);
	any = memory.later.bytes > 0;
	pthread_mutex_unlock(&memory.lock);
	if (!any || !captures_wait_begin(true))
		return;
	(void)sync_and_give_back();
	captures_wait_end();
}

static int take_range(uint64_t bytes, struct weir_stream *stream, void **at)
{
	int err;

	/* What no machine has is more than the space takes for a size. */
	if (bytes > memory_total())
		return -ENOMEM;
	bytes = bytes_apart(bytes);
	err = weir_alloc(memory.space, bytes, stream, at);
	if (err == -ENOSPC)
		err = alloc_beyond(bytes, stream, at);
	if (err != -ENOMEM)
		return err;
	memory_trim(0);
	give_back_later();
	return weir_alloc(memory.space, bytes, stream, at);
}

static cu_result take_new(cu_ptr *addr, uint64_t bytes, struct weir_stream *stream)
{
	void *at = NULL;
	bool begun;
	int err = take_range(bytes, stream, &at);

	pthread_mutex_lock(&memory.lock);
	begun = !err && begin_life((uintptr_t)at, bytes);
	memory.account.nr_allocs += begun;
	memory.account.nr_refused += !begun;
	pthread_mutex_unlock(&memory.lock);
	if (!begun) {
		if (!err)
			(void)weir_free(memory.space, at, stream);
		summary_note_refused(bytes);
		return streams_result(err ? err : -ENOMEM, CU_STREAM_LEGACY);
	}
	*addr = (uintptr_t)at;
	summary_note_taken();
	return CU_SUCCESS;
}

cu_result memory_alloc(cu_ptr *addr, uint64_t bytes)
{
	return take_new(addr, bytes, NULL);
}

cu_result memory_alloc_ordered(cu_ptr *addr, uint64_t bytes, cu_stream stream)
{
	struct weir_stream *behind;
	uint64_t at = 0;

	stream = hook_stream_all(stream);
	if (!streams_is_queue(stream))
		return CU_NOT_SUPPORTED;
	pthread_mutex_lock(&memory.lock);
	behind = streams_find_used(&memory.streams, stream);
	if (behind)
		at = bins_take(&memory.bins, stream, rounded(bytes));
	if (at && !begin_life(at, bytes)) {
		pthread_mutex_unlock(&memory.lock);
		(void)weir_free(memory.space, (void *)(uintptr_t)at, behind);
		return CU_OUT_OF_MEMORY;
	}
	memory.account.nr_allocs += at != 0;
	memory.account.nr_reused += at != 0;
	pthread_mutex_unlock(&memory.lock);
	if (!behind)
		return CU_NOT_SUPPORTED;
	if (!at)
		return take_new(addr, bytes, behind);
	*addr = at;
	return CU_SUCCESS;
}

/* ------------------------------------------------------------------ freeing */

/* Streams are captured, which a wait would spoil: the allocation is no more, and its memory goes
 * back at the next free that may wait, or when memory is short. */
static cu_result free_later(cu_ptr addr)
{
	struct kept kept = {.addr = addr};
	uint64_t bytes;

	pthread_mutex_lock(&memory.lock);
	bytes = end_life(addr);
	kept.bytes = rounded(bytes);
	if (bytes)
		put_later(&kept);
	pthread_mutex_unlock(&memory.lock);
	return bytes ? CU_SUCCESS : CU_INVALID_VALUE;
}

/* Wait for the work that may use what is freed. *later: nobody did. Of a context of the program's
 * own nobody would know later when its work is done. */
static cu_result wait_to_free(bool *later)
{
	cu_context current = NULL;
	cu_result result;

	*later = false;
	if (!captures_wait_begin(false)) {
		*later = !real.cuCtxGetCurrent(&current) && current == memory.streams.primary;
		return *later ? CU_SUCCESS : streams_sync(memory_device());
	}
	result = sync_and_give_back();
	captures_wait_end();
	return result;
}

cu_result memory_free(cu_ptr addr)
{
	bool later;
	cu_result result = summary_note_result(wait_to_free(&later));
	uint64_t bytes;

	if (result)
		return result;
	if (later)
		return free_later(addr);
	pthread_mutex_lock(&memory.lock);
	bytes = end_life(addr);
	pthread_mutex_unlock(&memory.lock);
	if (!bytes)
		return CU_INVALID_VALUE;
	return streams_result(weir_free(memory.space, (void *)(uintptr_t)addr, NULL),
			      CU_STREAM_LEGACY);
}

bool memory_stays(uint64_t bytes)
{
	return bytes < memory.account.block_bytes && !is_apart();
}

/* Whether what was freed stays with its stream. Of what moves, the space knows best what to do with
 * the memory of a range that is dead. */
static bool keeps(uint64_t bytes)
{
	return !settings_moves() || when_is_before() || memory_stays(bytes);
}

cu_result memory_free_ordered(cu_ptr addr, cu_stream stream)
{
	struct kept kept = {.stream = hook_stream_all(stream), .addr = addr};
	struct weir_stream *behind;
	bool is_kept = false;
	uint64_t bytes;

	if (!streams_is_queue(kept.stream))
		return CU_NOT_SUPPORTED;
	pthread_mutex_lock(&memory.lock);
	behind = streams_find_behind(&memory.streams, kept.stream);
	bytes = behind ? end_life(addr) : 0;
	kept.bytes = rounded(bytes);
	/* The default stream of a thread has the same name in each. */
	if (bytes && kept.stream != CU_STREAM_PER_THREAD && keeps(kept.bytes))
		is_kept = bins_put(&memory.bins, &kept);
	count_use();
	pthread_mutex_unlock(&memory.lock);
	if (!behind) {
		/* Another context's stream, which weir has no events for. */
		cu_result result = real.cuStreamSynchronize(kept.stream);

		return result ? result : memory_free(addr);
	}
	if (!bytes)
		return CU_INVALID_VALUE;
	if (is_kept)
		return CU_SUCCESS;
	return streams_result(weir_free(memory.space, (void *)(uintptr_t)addr, behind),
			      CU_STREAM_LEGACY);
}

void memory_reset(cu_device device)
{
	if (atomic_load(&memory.device) != device)
		return;
	when_end();
	atomic_store(&memory.broken, NULL);
	captures_context_ends(memory.streams.primary);
	launches_forget_kernels();
	/* What is queued may use what has no bracket. An error is about to be reset. */
	(void)streams_sync(device);
	pthread_mutex_lock(&memory.lock);
	count_peaks();
	atomic_store(&memory.device, -1);
	memory.use.used = 0;
	/* Before its streams: a bracket may be open that could not end, and is ended now. */
	weir_space_destroy(memory.space);
	memory.space = NULL;
	streams_fini(&memory.streams);
	bins_fini(&memory.bins);
	bins_fini(&memory.later);
	infer_destroy(memory.infer);
	evidence_forget_all();
	weir_machine_close(memory.machine);
	memory.machine = NULL;
	pthread_mutex_unlock(&memory.lock);
}
