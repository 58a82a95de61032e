/* SPDX-License-Identifier: Apache-2.0 */
/* See brackets.h. */
#include "shim/brackets.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "shim/memory.h"
#include "shim/proof.h"
#include "shim/settings.h"
#include "shim/streams.h"
#include "shim/summary.h"
#include "src/backend/machine.h"
#include "src/base/hash.h"
#include "src/base/util.h"
#include "src/residency/residency.h"
#include "weir/weir.h"

#define SLOTS 256u

/* A stream's turn. Kept until the process ends: streams are few, and the next one at the same
 * address takes it. */
struct stream_turn {
	struct stream_turn *next;
	const struct weir_stream *stream;
	pthread_mutex_t lock;
};

static struct {
	pthread_mutex_t lock; /* guards the table */
	struct stream_turn *slot[SLOTS];
	_Atomic(uint64_t) nr, nr_uses, nr_rare, nr_any, nr_missed;
} brackets = {.lock = PTHREAD_MUTEX_INITIALIZER};

bool brackets_are_on(void)
{
	return settings_get()->trace || (settings_moves() && !proof_has_ended());
}

void brackets_note_missed(void)
{
	atomic_fetch_add(&brackets.nr_missed, 1);
}

struct weir_use bracket_use(uint64_t addr, uint64_t bytes)
{
	return (struct weir_use){
		.addr = (void *)(uintptr_t)addr,
		.bytes = bytes,
		.kind = WEIR_ATOMIC,
		.read_bytes = bytes,
	};
}

/* @return NULL: no memory on the host */
static struct stream_turn *find_turn(const struct weir_stream *stream)
{
	struct stream_turn **slot = &brackets.slot[hash_mix(0, (uintptr_t)stream) % SLOTS], *turn;

	pthread_mutex_lock(&brackets.lock);
	for (turn = *slot; turn && turn->stream != stream; turn = turn->next)
		;
	if (!turn) {
		turn = malloc(sizeof(*turn));
		if (turn) {
			*turn = (struct stream_turn){.next = *slot, .stream = stream};
			(void)pthread_mutex_init(&turn->lock, NULL);
			*slot = turn;
		}
	}
	pthread_mutex_unlock(&brackets.lock);
	return turn;
}

/* One that cannot end now is ended by the next bracket; until then what it names stays. */
static void end(const struct bracket *bracket)
{
	for (int tries = 0; tries < 4 && weir_end(memory_space(), bracket->stream); tries++)
		;
}

/* What was made ready is ready for the bracket's stream, and for no other. */
static int make_ready(const struct bracket *bracket)
{
	if (bracket->of)
		return weir_stream_wait(bracket->of, bracket->stream);
	return bracket->waits ? weir_stream_sync(bracket->stream) : 0;
}

/* Leave out what is no live range any more: a value that was an address when it was found. */
static void keep_live(struct bracket_uses *uses)
{
	uint32_t kept = 0, likely = 0;

	for (uint32_t u = 0; u < uses->nr; u++) {
		struct weir_use use = uses->use[u];
		const cu_ptr addr = (cu_ptr)(uintptr_t)use.addr;
		uint64_t bytes;
		cu_ptr base;

		if (!memory_find(addr, &base, &bytes))
			continue;
		use.bytes = MIN(use.bytes, base + bytes - addr);
		uses->use[kept++] = use;
		likely += u < uses->nr_likely;
	}
	uses->nr = kept;
	uses->nr_likely = likely;
}

static int begin_in_space(const struct bracket *bracket, const struct bracket_uses *uses)
{
	const struct bracket_asked asked = {
		.uses = uses->nr ? uses->use : NULL,
		.nr = uses->nr,
		.nr_likely = uses->nr_likely,
		/* Also where nothing is left of what was named. */
		.open = uses->any || !uses->nr,
		.launched = uses->launched,
		.barrier = bracket->barrier,
		/* What stands in for another stream is used by several threads, or waits. */
		.groups = !bracket->of && !bracket->waits && !bracket->proves,
	};

	return bracket_begin_guessed(memory_space(), bracket->stream, &asked);
}

static int begin(struct bracket *bracket, struct bracket_uses *uses)
{
	int err = begin_in_space(bracket, uses);

	/* One may be open that could not end, see end(). */
	if (err == -WEIR_ECONTRACT && !weir_end(memory_space(), bracket->stream))
		err = begin_in_space(bracket, uses);
	/* Another thread may free, and allocate, what a value in this one happens to point to. */
	for (int tries = 0; err == -EINVAL && tries < 8; tries++) {
		keep_live(uses);
		err = begin_in_space(bracket, uses);
	}
	if (!err) {
		err = make_ready(bracket);
		if (err)
			end(bracket);
	}
	return err;
}

/* The stream that the bracket is on: the space's name of the operation's, or one of weir's own. */
static void choose_stream(struct bracket *bracket, cu_stream stream)
{
	if (!stream) {
		bracket->stream = memory_stream_own();
		return;
	}
	bracket->stream = memory_stream(stream);
	bracket->barrier = stream == CU_STREAM_LEGACY;
	if (!settings_moves() || (bracket->stream && stream != CU_STREAM_PER_THREAD))
		return;
	/* The name of a thread's default stream is the same in all threads. */
	bracket->of = bracket->stream;
	bracket->waits = bracket->of ? NULL : stream;
	bracket->stream = memory_stream_own();
}

static cu_result open_on(struct bracket *bracket, cu_stream stream, struct bracket_uses *uses)
{
	const bool moves = settings_moves();
	int err;

	choose_stream(bracket, stream);
	bracket->turn = bracket->stream ? find_turn(bracket->stream) : NULL;
	err = bracket->turn ? 0 : -ENOMEM;
	if (!err) {
		pthread_mutex_lock(&bracket->turn->lock);
		err = begin(bracket, uses);
		if (err)
			pthread_mutex_unlock(&bracket->turn->lock);
	}
	if (err) {
		bracket->stream = NULL;
		brackets_note_missed();
		return moves ? summary_note_unready(
				       streams_result(err, stream ? stream : CU_STREAM_PER_THREAD))
			     : CU_SUCCESS;
	}
	atomic_fetch_add(&brackets.nr, 1);
	atomic_fetch_add(&brackets.nr_uses, uses->nr);
	atomic_fetch_add(&brackets.nr_rare, uses->nr - uses->nr_likely);
	atomic_fetch_add(&brackets.nr_any, uses->any);
	return CU_SUCCESS;
}

cu_result bracket_open(struct bracket *bracket, cu_stream stream, struct bracket_uses *uses)
{
	cu_result result;

	uses->any = uses->any && settings_moves(); /* where nothing moves, all is there anyway */
	*bracket = (struct bracket){0};
	if (!memory_space() || (!uses->nr && !uses->any))
		return CU_SUCCESS;
	if (stream && !streams_is_queue(stream)) {
		/* Of a kernel's parameters the driver looks at nothing. */
		if (uses->launched)
			return CU_SUCCESS;
		stream = NULL;
	}
	if (!stream && !settings_moves())
		return CU_SUCCESS;
	/* What another GPU does with memory of its own is none of ours. */
	if (!uses->nr && !memory_manages())
		return CU_SUCCESS;
	if (settings_get()->mode == SETTINGS_LEARN) {
		if (!proof_enter())
			return CU_SUCCESS;
		bracket->has_turn = true;
	}
	result = open_on(bracket, stream, uses);
	if (result && bracket->has_turn)
		proof_leave();
	else if (bracket->has_turn)
		bracket->proves = stream;
	return result;
}

cu_result bracket_open_all(struct bracket *bracket)
{
	return bracket_open(bracket, NULL, &(struct bracket_uses){.any = true});
}

void bracket_close(struct bracket *bracket, const char *name)
{
	if (!bracket->stream)
		return;
	if (bracket->proves)
		proof_wait(bracket->proves, name);
	if (bracket->of && weir_stream_wait(bracket->stream, bracket->of))
		(void)real.cuStreamSynchronize(CU_STREAM_PER_THREAD);
	if (bracket->waits)
		(void)real.cuStreamSynchronize(bracket->waits);
	stream_kernel_note(bracket->stream, name);
	end(bracket);
	pthread_mutex_unlock(&bracket->turn->lock);
	if (bracket->has_turn)
		proof_leave();
}

void brackets_account(struct brackets_account *out)
{
	*out = (struct brackets_account){
		.nr = atomic_load(&brackets.nr),
		.nr_uses = atomic_load(&brackets.nr_uses),
		.nr_rare = atomic_load(&brackets.nr_rare),
		.nr_any = atomic_load(&brackets.nr_any),
		.nr_missed = atomic_load(&brackets.nr_missed),
	};
}
