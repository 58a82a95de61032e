/* SPDX-License-Identifier: Apache-2.0 */
/* See evidence.h. */
#include "shim/evidence.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "shim/infer.h"
#include "shim/memory.h"
#include "shim/settings.h"
#include "shim/streams.h"
#include "shim/summary.h"
#include "src/base/clock.h"

/* Ranges that hold addresses; programs have few. With more, all memory counts as such. */
#define RANGES_MAX 256u

static struct {
	pthread_mutex_t lock;
	cu_ptr range[RANGES_MAX];
	_Atomic(uint32_t) nr;
	atomic_bool elsewhere;
} evidence = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Whether an address of a range stands there, where launches are searched for them, too. */
static bool holds_any_address(const void *at, uint64_t bytes)
{
	return memory_infer() && infer_range_any(memory_infer(), at, bytes);
}

/* Whether an address in the range stands there that begins at base. */
static bool holds_address(const unsigned char *at, uint64_t bytes, cu_ptr base)
{
	for (uint64_t i = 0; i + sizeof(cu_ptr) <= bytes; i += sizeof(uint32_t)) {
		cu_ptr value, found;

		memcpy(&value, at + i, sizeof(value));
		if (value && memory_find(value, &found, NULL) && found == base)
			return true;
	}
	return false;
}

/* Lock held. */
static uint32_t find(cu_ptr base)
{
	uint32_t i = 0, nr = atomic_load(&evidence.nr);

	while (i < nr && evidence.range[i] != base)
		i++;
	return i;
}

static void note_range(cu_ptr base)
{
	uint32_t i, nr;

	pthread_mutex_lock(&evidence.lock);
	i = find(base);
	nr = atomic_load(&evidence.nr);
	if (i == nr && nr < RANGES_MAX) {
		evidence.range[nr] = base;
		atomic_store(&evidence.nr, nr + 1);
	} else if (i == nr) {
		atomic_store(&evidence.elsewhere, true);
	}
	pthread_mutex_unlock(&evidence.lock);
}

static void note_elsewhere(const char *what)
{
	if (!atomic_exchange(&evidence.elsewhere, true) && settings_get()->explain)
		summary_say("%s: from here on any kernel may use any allocation", what);
}

#define COPIED "an address of an allocation is copied to memory of the driver's"

void evidence_copied(cu_ptr dst, const void *src, uint64_t bytes)
{
	cu_ptr base;

	if (settings_get()->mode != SETTINGS_FAST || !src || bytes > EVIDENCE_BYTES_MAX ||
	    !holds_any_address(src, bytes))
		return;
	if (memory_find(dst, &base, NULL))
		note_range(base);
	else
		note_elsewhere(COPIED);
}

void evidence_copied_on(cu_ptr dst, cu_ptr src)
{
	cu_ptr base;

	if (settings_get()->mode != SETTINGS_FAST || !memory_find(src, &base, NULL) ||
	    !evidence_of(base))
		return;
	if (memory_find(dst, &base, NULL))
		note_range(base);
	else
		note_elsewhere(COPIED);
}

/* What the driver does not know is the program's own memory. */
static bool is_host(cu_ptr addr)
{
	enum { MEMORY_TYPE = 2, HOST = 1 }; /* of CUpointer_attribute, CUmemorytype */
	unsigned int type = HOST;

	return real.cuPointerGetAttribute(&type, MEMORY_TYPE, addr) || type == HOST;
}

void evidence_copied_unified(cu_ptr dst, cu_ptr src, uint64_t bytes)
{
	const bool ours = memory_find(src, NULL, NULL);

	if (settings_get()->mode != SETTINGS_FAST || (!ours && bytes > EVIDENCE_BYTES_MAX) ||
	    (!memory_find(dst, NULL, NULL) && is_host(dst)))
		return;
	if (ours)
		evidence_copied_on(dst, src);
	else if (is_host(src))
		evidence_copied(dst, (const void *)(uintptr_t)src, bytes);
}

void evidence_hidden(cu_ptr addr, const char *what)
{
	if (settings_get()->mode == SETTINGS_FAST && memory_find(addr, NULL, NULL))
		note_elsewhere(what);
}

void evidence_encoded(cu_ptr addr, const void *made, uint64_t bytes)
{
	cu_ptr base;

	if (memory_find(addr, &base, NULL) && !holds_address(made, bytes, base))
		evidence_hidden(addr, "the address of an allocation is hidden in a tensor map");
}

bool evidence_becomes_idle(cu_stream stream)
{
	const struct timespec pause = {.tv_nsec = 20000};
	const uint64_t since_ns = clock_now_ns();

	while (streams_query(stream) == CU_NOT_READY) {
		if (clock_now_ns() - since_ns > EVIDENCE_WAIT_NS)
			return false;
		(void)nanosleep(&pause, NULL);
	}
	return true;
}

static bool read_out(cu_stream stream, cu_ptr base, uint64_t bytes, void *at)
{
	bool read;
	int mode;

	if (hook_relax(&mode))
		return false;
	read = !real.cuMemcpyDtoHAsync_v2(at, base, bytes, stream) &&
	       !real.cuStreamSynchronize(stream);
	hook_unrelax(mode);
	return read;
}

enum evidence_seen evidence_look(cu_stream stream, cu_ptr base, uint64_t bytes, void *at)
{
	if (evidence_of(base))
		return EVIDENCE_FOUND;
	if (!read_out(stream, base, bytes, at))
		return EVIDENCE_UNKNOWN;
	if (!holds_any_address(at, bytes))
		return EVIDENCE_NONE;
	note_range(base);
	return EVIDENCE_FOUND;
}

bool evidence_of(cu_ptr base)
{
	bool found;

	if (!atomic_load(&evidence.nr))
		return false;
	pthread_mutex_lock(&evidence.lock);
	found = find(base) < atomic_load(&evidence.nr);
	pthread_mutex_unlock(&evidence.lock);
	return found;
}

bool evidence_elsewhere(void)
{
	return atomic_load(&evidence.elsewhere);
}

void evidence_forget(cu_ptr base)
{
	uint32_t i, nr;

	if (!atomic_load(&evidence.nr))
		return;
	pthread_mutex_lock(&evidence.lock);
	i = find(base);
	nr = atomic_load(&evidence.nr);
	if (i < nr) {
		evidence.range[i] = evidence.range[nr - 1];
		atomic_store(&evidence.nr, nr - 1);
	}
	pthread_mutex_unlock(&evidence.lock);
}

void evidence_forget_all(void)
{
	pthread_mutex_lock(&evidence.lock);
	atomic_store(&evidence.nr, 0);
	atomic_store(&evidence.elsewhere, false);
	pthread_mutex_unlock(&evidence.lock);
}
