/* SPDX-License-Identifier: Apache-2.0 */
/* See proof.h. */
#include "shim/proof.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "shim/infer.h"
#include "shim/kernel_file.h"
#include "shim/learn.h"
#include "shim/memory.h"
#include "shim/settings.h"
#include "shim/streams.h"
#include "shim/summary.h"
#include "src/base/clock.h"
#include "weir/weir.h"

#define EXIT_FAULT 1
/* With so many sets of places at which it is open, a kernel is taken to be open at all others that
 * are not known: places change from launch to launch where parameters hold old addresses. */
#define OPEN_SETS 4u
#define NAMED_MAX 6u		  /* allocations that the report of a fault has */
#define SPIN_NS UINT64_C(1000000) /* that a launch is waited for before the processor is given up */
#define END_WAIT_S 2		  /* for launches under way as the process ends */

static struct {
	pthread_mutex_t turn; /* guards what follows, where kernels change: --learn. Recursive. */
	pthread_once_t once;
	struct kernel_file file; /* else constant */
	uint64_t nr;		 /* launches that were looked at */
	struct learn_slot *slot; /* --learn: this process's */
	atomic_bool ended;
} proof = {.once = PTHREAD_ONCE_INIT};

/* ------------------------------------------------------------------ the file */

/* Of those that are shared with who started the process. */
static void take_slot(void)
{
	const char *path = settings_get()->learn_shared;
	const int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	struct learn_shared *shared = MAP_FAILED;
	uint32_t slot;

	if (fd >= 0)
		shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (shared == MAP_FAILED)
		settings_fail("--learn: what is learnt cannot be told to who started this program: "
			      "%s",
			      strerror(errno));
	(void)close(fd);
	slot = atomic_fetch_add(&shared->nr, 1);
	if (slot >= LEARN_PROCESSES)
		settings_fail("--learn: more than %u processes of the program use the GPU",
			      LEARN_PROCESSES);
	proof.slot = &shared->slot[slot];
}

static void load(void)
{
	pthread_mutexattr_t attr;
	char err[512];
	int rc;

	(void)pthread_mutexattr_init(&attr);
	(void)pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
	(void)pthread_mutex_init(&proof.turn, &attr);
	(void)pthread_mutexattr_destroy(&attr);
	if (settings_get()->mode == SETTINGS_LEARN)
		take_slot();
	if (!settings_get()->kernels)
		return;
	rc = kernel_file_read(&proof.file, settings_get()->kernels, err, sizeof(err));
	if (rc && !(rc == -ENOENT && settings_get()->mode == SETTINGS_LEARN))
		settings_fail("%s", err);
}

void proof_start(void)
{
	(void)pthread_once(&proof.once, load);
}

/* Write what was seen of kernels that no launch has shown to use more, and say what there is. */
static void save_seen(void)
{
	uint64_t nr_seen = 0;
	char err[512];

	for (uint32_t n = 0; n < proof.file.nr; n++) {
		struct kernel_line *line = proof.file.line[n];

		line->changed = line->state == KERNEL_CLOSED && line->nr_seen;
		nr_seen += line->changed;
	}
	if (kernel_file_update(&proof.file, settings_get()->kernels, err, sizeof(err)))
		settings_fail("%s", err);
	if (proof.nr)
		summary_say("%s: of %" PRIu64 " launches, those of %" PRIu64 " kernels used "
			    "nothing but what their parameters name: observed, not proved",
			    settings_get()->kernels, proof.nr, nr_seen);
}

/* ------------------------------------------------------------------ turns */

bool proof_has_ended(void)
{
	return atomic_load(&proof.ended);
}

void proof_stop(const char *why)
{
	struct weir_space *space = memory_space();
	const int err = space ? weir_space_set_mode(space, WEIR_FIXED) : 0;

	if (err)
		settings_fail("memory cannot be mapped for good: %s: %s", weir_strerror(err), why);
	save_seen();
	atomic_store(&proof.ended, true);
	summary_say("nothing is learnt from here on, and all memory is mapped: %s", why);
}

bool proof_enter(void)
{
	proof_start();
	if (proof_has_ended())
		return false;
	pthread_mutex_lock(&proof.turn);
	if (!proof_has_ended() && proof.nr >= settings_get()->learn_launches)
		proof_stop("as many launches as --learn-launches says were seen");
	if (!proof_has_ended())
		return true;
	pthread_mutex_unlock(&proof.turn);
	return false;
}

void proof_leave(void)
{
	pthread_mutex_unlock(&proof.turn);
}

/* ------------------------------------------------------------------ kernels */

static const char *why_of(const struct kernel_line *line)
{
	return line->state == KERNEL_CLOSED ? NULL : line->why;
}

static const char *why_listed(const struct kernel_line *line)
{
	return line ? why_of(line)
		    : "the file of --kernels does not have its code with pointers at these places";
}

/* A line for what is to be found out. */
static const char *why_learnt(const char *name, uint64_t code, uint64_t places,
			      struct kernel_line **line)
{
	if (!*line && kernel_file_nr_open(&proof.file, name, code) >= OPEN_SETS)
		return "it is open at many sets of places";
	if (!*line)
		*line = kernel_file_add(&proof.file, name, code, places);
	return *line ? why_of(*line) : "there is no memory to keep it";
}

const char *proof_why_open(const char *name, uint64_t code, uint64_t places,
			   struct kernel_line **line)
{
	*line = NULL;
	if (!kernel_name_is_good(name))
		return "it has no name";
	*line = kernel_file_find(&proof.file, name, code, places);
	return settings_get()->mode == SETTINGS_LEARN ? why_learnt(name, code, places, line)
						      : why_listed(*line);
}

bool proof_must_not_wait(const struct kernel_line *line)
{
	return line && line->state == KERNEL_WAITS;
}

/* ------------------------------------------------------------------ launches */

/* @return what the driver says of the stream; CU_NOT_READY: it was waited for too long */
static cu_result wait_for(cu_stream stream)
{
	const struct timespec pause = {.tv_nsec = 100000};
	const uint64_t since_ns = clock_now_ns();
	cu_result result;

	for (;;) {
		const uint64_t waited_ns = clock_now_ns() - since_ns;

		result = streams_query(stream);
		if (result != CU_NOT_READY || waited_ns > settings_get()->hold_ns)
			return result;
		if (waited_ns < SPIN_NS)
			(void)sched_yield();
		else
			(void)nanosleep(&pause, NULL);
	}
}

void proof_wait(cu_stream stream, const char *what)
{
	if (wait_for(stream) == CU_NOT_READY)
		settings_fail("%s did not end within %" PRIu64 " ms (--hold): if it waits for a "
			      "later operation, nothing can be learnt of this program",
			      what, settings_get()->hold_ns / 1000000);
}

/* Whether a kernel that uses memory out of its reach may end so. */
static bool is_fault(cu_result result)
{
	return result == CU_ILLEGAL_ADDRESS ||
	       (result >= CU_HARDWARE_STACK_ERROR && result <= CU_LAUNCH_FAILED);
}

/* The next launch: "launch 7, whose parameters name 64 bytes at 0". */
static void print_launch(const struct infer_uses *uses, char *text)
{
	const size_t bytes = LEARN_LAUNCH_BYTES;
	size_t at = (size_t)snprintf(text, bytes, "launch %" PRIu64 ", whose parameters name%s",
				     proof.nr + 1, uses->nr ? "" : " nothing");

	for (uint32_t u = 0; u < uses->nr && u < NAMED_MAX && at < bytes; u++)
		at += (size_t)snprintf(text + at, bytes - at, "%s %" PRIu64 " bytes at %" PRIu32,
				       u ? "," : "", uses->use[u].bytes, uses->use[u].place);
	if (uses->nr > NAMED_MAX && at < bytes)
		(void)snprintf(text + at, bytes - at, ", %" PRIu32 " more", uses->nr - NAMED_MAX);
}

void proof_launch(const struct kernel_line *line, const struct infer_uses *uses)
{
	struct learn_slot *slot = proof.slot;

	if (!line)
		return;
	slot->code = line->code;
	slot->places = line->places;
	memcpy(slot->name, line->name, strlen(line->name) + 1);
	print_launch(uses, slot->launch);
	if (line->state == KERNEL_CLOSED)
		atomic_store(&slot->state, LEARN_RUNS);
}

/* Tell what the launch did, and end the process: its context is lost. */
static void fail(enum learn_state state, const char *did)
{
	(void)snprintf(proof.slot->why, sizeof(proof.slot->why), "%s", did);
	atomic_store(&proof.slot->state, state);
	_exit(EXIT_FAULT);
}

void proof_check(struct kernel_line *line, cu_stream stream, cu_result result, const char *name)
{
	char waits[64];

	proof.nr++;
	if (!line) {
		proof_wait(stream, name);
		return;
	}
	if (!result)
		result = wait_for(stream);
	(void)snprintf(waits, sizeof(waits), "did not end within %" PRIu64 " ms",
		       settings_get()->hold_ns / 1000000);
	if (result == CU_NOT_READY)
		fail(LEARN_WAITS, waits);
	if (is_fault(result) && line->state == KERNEL_CLOSED)
		fail(LEARN_FAULT, "used an address that its parameters do not show");
	atomic_store(&proof.slot->state, LEARN_IDLE);
	line->nr_seen += !result;
}

/* ------------------------------------------------------------------ the end */

void proof_end(void)
{
	struct timespec until;

	if (settings_get()->mode != SETTINGS_LEARN || proof_has_ended())
		return;
	/* What another thread has launched may never end. */
	(void)clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += END_WAIT_S;
	if (pthread_mutex_timedlock(&proof.turn, &until)) {
		summary_say("a launch is under way as the process ends: nothing of what was seen "
			    "is kept");
		return;
	}
	save_seen();
	atomic_store(&proof.ended, true);
	pthread_mutex_unlock(&proof.turn);
}
