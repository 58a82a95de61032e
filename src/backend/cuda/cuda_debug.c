/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Debug mode (WEIR_CUDA_DEBUG=1): what the simulator traps in virtual time, on a real GPU. It
 * changes no result and costs mapping calls and waits, as many as it takes.
 *
 * Kept: of each stream the brackets that are open, by owner, and those that ended until core was
 * told that their last fence is reached; of each unit of a reservation how many open brackets read
 * and write it (readers, writers), and what the devices may do there just now (given).
 *
 * Rules
 *  1. A remap (map, unmap, or access taken away) of a unit that an open bracket names, or one that
 *     ended and is not known to be done, is refused with -WEIR_ECONTRACT. What counts is what core
 *     was told, not what is so: a remap that came too early is found even if the GPU was quick.
 *  2. In a guarded reservation devices may do in a unit what the strongest use of an open bracket
 *     does there, and never more than core gave; without one, nothing. Access is given in
 *     access_begin and taken in access_end or access_narrow, which wait for the stream first.
 *     Neighbours that change alike are changed by one call.
 *  3. A launch whose uses of guarded reservations no open bracket of its stream allows is refused
 *     with -WEIR_ECONTRACT before it can harm the context. Else it is waited for, and a fault is
 *     reported with the kernel and what it declared.
 *  4. So is a launch in a bracket that conflicts with one that is open on another stream, after a
 *     launch in that one: their declared bytes overlap, one of the two writes, and nothing orders
 *     them.
 *
 * What to know of it
 *  - Several streams, two spaces: counts add up, so a unit that one bracket reads and another one
 *    writes is writable to both kernels meanwhile. A space changes the counts of its own
 *    reservations only, and calls under its lock.
 *  - The unit is what protection can tell apart: small ranges that share an arena, which is not
 *    guarded, and parts of one block show each other's undeclared touches by rule 3 only.
 *  - All devices of a mapping's list get the same.
 *  - Host brackets do not come through here: what the CPU may do is left as core says.
 *  - Kernels that the program queues by itself are waited for when their bracket ends; a fault of
 *    theirs has no name then.
 *  - A bracket whose begin failed after access_begin leaves nothing to wait for: it is told by the
 *    stream, on which no fence was recorded meanwhile.
 *  - Taking access away can fail, in access_end, which cannot, and in access_narrow: it then stays
 *    until the next change.
 */
#include <errno.h>
#include <stdio.h>

#include "src/backend/cuda/cuda_internal.h"
#include "src/base/log.h"
#include "src/base/util.h"

static const char *const kinds[] = {
	"read", "write", "overwrite", "discard", "read elements of", "use by atomics"};

/* ------------------------------------------------------------------ units that brackets name */

/* The part of an interval that lies in one region: take it off the front. NULL: the rest lies in
 * none. Lock held. */
static struct cuda_region *units_next(const struct cuda *cuda, struct access_interval *rest,
				      uint64_t *first, uint64_t *last)
{
	struct cuda_region *region;
	uint64_t end;

	if (rest->begin >= rest->end)
		return NULL;
	region = cuda_region_at(cuda, rest->begin);
	if (!region)
		return NULL;
	end = rest->end - region->base < region->bytes ? rest->end - region->base : region->bytes;
	*first = (rest->begin - region->base) / region->unit;
	*last = (end - 1) / region->unit;
	rest->begin = region->base + end;
	return region;
}

/* Count uses of each unit in or out: of brackets that read it, or that write it. Lock held. */
static void list_mark(const struct cuda *cuda, const struct access_interval *all, size_t nr,
		      bool writes, int by)
{
	struct cuda_region *region;
	uint64_t first, last;

	for (size_t i = 0; i < nr; i++) {
		struct access_interval rest = all[i];

		while ((region = units_next(cuda, &rest, &first, &last)))
			for (uint64_t unit = first; unit <= last; unit++) {
				struct cuda_mapping *m = &region->mapping[unit];

				*(writes ? &m->writers : &m->readers) += (uint32_t)by;
			}
	}
}

/* Count a bracket's uses in or out. Lock held. */
static void marks_change(const struct cuda *cuda, const struct access_bracket *bracket, int by)
{
	list_mark(cuda, bracket->reads, bracket->nr_reads, false, by);
	list_mark(cuda, bracket->atomics, bracket->nr_atomics, true, by);
}

/* Whether the unit is mapped, and to get this much for these devices, which it has not. */
static bool unit_changes(const struct cuda *cuda, const struct cuda_region *region, uint64_t unit,
			 enum backend_prot prot, uint64_t devices)
{
	const struct cuda_mapping *m = &region->mapping[unit];

	return m->chunk && m->given != prot && m->devices == devices &&
	       cuda_unit_allowed(cuda, region, m) == prot;
}

/* Give one run of neighbours what they are to have. *unit: the first; the one behind the run. */
static int run_apply(struct cuda *cuda, struct cuda_region *region, uint64_t *unit, uint64_t last)
{
	const struct cuda_mapping *m = &region->mapping[*unit];
	struct cu_access access[WEIR_DEVICES_MAX + 1];
	enum backend_prot prot;
	uint64_t first = *unit, end = first;
	uint64_t devices;
	size_t nr;
	int err;

	pthread_mutex_lock(&cuda->lock);
	prot = cuda_unit_allowed(cuda, region, m);
	devices = m->devices;
	while (end <= last && unit_changes(cuda, region, end, prot, devices))
		end++;
	pthread_mutex_unlock(&cuda->lock);
	*unit = MAX(end, first + 1);
	if (end == first)
		return 0;
	nr = cuda_access_add(cuda, prot, devices & ~BACKEND_HOST_BIT, access, 0);
	err = !nr ? 0
		  : cuda_access_set(cuda, region->base + first * region->unit,
				    (end - first) * region->unit, access, nr);
	if (err)
		return err;
	pthread_mutex_lock(&cuda->lock);
	for (uint64_t i = first; i < end; i++)
		region->mapping[i].given = prot;
	pthread_mutex_unlock(&cuda->lock);
	return 0;
}

static int units_apply(struct cuda *cuda, struct cuda_region *region, uint64_t first, uint64_t last)
{
	int err = 0;

	for (uint64_t unit = first; unit <= last && !err;)
		err = run_apply(cuda, region, &unit, last);
	return err;
}

static int list_apply(struct cuda *cuda, const struct access_interval *all, size_t nr)
{
	int err = 0;

	for (size_t i = 0; i < nr && !err; i++) {
		struct access_interval rest = all[i];
		struct cuda_region *region;
		uint64_t first, last;

		do {
			pthread_mutex_lock(&cuda->lock);
			region = units_next(cuda, &rest, &first, &last);
			pthread_mutex_unlock(&cuda->lock);
			if (region && region->guarded)
				err = units_apply(cuda, region, first, last);
		} while (region && !err);
	}
	return err;
}

/* Give the units that a bracket names what they are to have. */
static int bracket_apply(struct cuda *cuda, const struct access_bracket *bracket)
{
	int err = list_apply(cuda, bracket->reads, bracket->nr_reads);

	return err ? err : list_apply(cuda, bracket->atomics, bracket->nr_atomics);
}

int cuda_access_guard(struct backend *b, void *reservation, bool guarded)
{
	struct cuda *cuda = cuda_of(b);
	struct cuda_region *region;
	int err;

	pthread_mutex_lock(&cuda->lock);
	region = cuda_region_at(cuda, (cu_ptr)(uintptr_t)reservation);
	if (region && region->base == (cu_ptr)(uintptr_t)reservation)
		region->guarded = guarded;
	else
		region = NULL;
	pthread_mutex_unlock(&cuda->lock);
	if (!region)
		return -EINVAL;
	err = cuda->debug ? units_apply(cuda, region, 0, region->bytes / region->unit - 1) : 0;
	if (!err)
		return 0;
	pthread_mutex_lock(&cuda->lock);
	region->guarded = !guarded;
	pthread_mutex_unlock(&cuda->lock);
	(void)units_apply(cuda, region, 0, region->bytes / region->unit - 1);
	return err;
}

/* ------------------------------------------------------------------ brackets */

/* Forget the ended brackets of which core knows that they are done. Lock held. */
static void ended_drop(struct cuda_stream *stream)
{
	struct access_bracket **at = &stream->ended;

	while (*at) {
		struct access_bracket *bracket = *at;

		if (bracket->end > stream->told) {
			at = &bracket->outer;
			continue;
		}
		*at = bracket->outer;
		access_bracket_free(bracket);
	}
}

/* The stream's open bracket of this owner, with its uses counted out; NULL: none. */
static struct access_bracket *bracket_take(struct cuda *cuda, stream_id_t id, const void *owner)
{
	struct access_bracket *bracket = NULL;
	struct cuda_stream *stream;

	pthread_mutex_lock(&cuda->lock);
	stream = cuda_stream_find(cuda, id);
	if (stream)
		bracket = access_take(&stream->open, owner);
	if (bracket)
		marks_change(cuda, bracket, -1);
	pthread_mutex_unlock(&cuda->lock);
	return bracket;
}

int cuda_access_begin(struct backend *b, stream_id_t id, const void *owner,
		      const struct weir_use *uses, uint32_t nr)
{
	struct cuda *cuda = cuda_of(b);
	struct access_bracket *bracket;
	struct cuda_stream *stream;
	cu_stream queue;
	uint32_t device;
	int err = cuda_stream_get(cuda, id, &queue, &device);

	if (!err)
		err = cuda_capture_check(cuda, id, queue, false);
	if (err || !cuda->debug)
		return err;
	err = access_bracket_create(owner, uses, nr, &bracket);
	if (err)
		return err;
	pthread_mutex_lock(&cuda->lock);
	stream = cuda_stream_find(cuda, id);
	if (stream) {
		bracket->begin = stream->last;
		bracket->outer = stream->open;
		stream->open = bracket;
		marks_change(cuda, bracket, 1);
	}
	pthread_mutex_unlock(&cuda->lock);
	if (!stream) {
		access_bracket_free(bracket);
		return -EINVAL;
	}
	err = bracket_apply(cuda, bracket);
	if (!err)
		return 0;
	bracket = bracket_take(cuda, id, owner);
	(void)bracket_apply(cuda, bracket);
	access_bracket_free(bracket);
	return err;
}

/* Wait for a stream's work. */
static int stream_settle(struct cuda *cuda, cu_stream stream, uint32_t device, const char *what)
{
	int err = cuda_enter(cuda, device);

	if (err)
		return err;
	err = cuda_error(&cuda->driver, cuda->driver.stream_sync(stream), what);
	cuda_leave(cuda);
	return err;
}

void cuda_access_end(struct backend *b, stream_id_t id, const void *owner)
{
	struct cuda *cuda = cuda_of(b);
	struct access_bracket *bracket;
	struct cuda_stream *stream;
	cu_stream queue;
	uint32_t device;

	if (!cuda->debug || cuda_stream_get(cuda, id, &queue, &device))
		return;
	/* An error is the work's, and told where its fence is asked for. */
	(void)stream_settle(cuda, queue, device,
			    "what the program queued by itself in a bracket that has ended");
	bracket = bracket_take(cuda, id, owner);
	if (!bracket)
		return;
	(void)bracket_apply(cuda, bracket);
	pthread_mutex_lock(&cuda->lock);
	stream = cuda_stream_find(cuda, id);
	if (stream && stream->last != bracket->begin) {
		bracket->end = stream->last;
		bracket->outer = stream->ended;
		stream->ended = bracket;
		bracket = NULL;
		ended_drop(stream);
	}
	pthread_mutex_unlock(&cuda->lock);
	access_bracket_free(bracket);
}

int cuda_access_narrow(struct backend *b, stream_id_t id, const void *owner, const void *addr,
		       uint64_t bytes)
{
	struct cuda *cuda = cuda_of(b);
	struct access_bracket *bracket = NULL;
	struct cuda_stream *stream;
	cu_stream queue;
	uint32_t device;
	int err = cuda_stream_get(cuda, id, &queue, &device);

	if (err || !cuda->debug)
		return err;
	/* As in access_end: an error is told where its fence is asked for. */
	(void)stream_settle(cuda, queue, device,
			    "what the program queued by itself before it published a part");
	pthread_mutex_lock(&cuda->lock);
	stream = cuda_stream_find(cuda, id);
	if (stream)
		bracket = access_find(stream->open, owner);
	err = bracket ? 0 : -EINVAL;
	if (bracket) {
		marks_change(cuda, bracket, -1);
		err = access_narrow(bracket, (uintptr_t)addr, bytes);
		marks_change(cuda, bracket, 1);
	}
	pthread_mutex_unlock(&cuda->lock);
	if (!err)
		(void)bracket_apply(cuda, bracket);
	return err;
}

/* ------------------------------------------------------------------ remaps */

/* A bracket in a list that allows anything there; NULL: none. */
static const struct access_bracket *list_meets(const struct access_bracket *list, cu_ptr addr,
					       uint64_t bytes)
{
	while (list && !access_meets(list, addr, bytes))
		list = list->outer;
	return list;
}

int cuda_debug_remap(struct cuda *cuda, const char *call, cu_ptr addr, uint64_t bytes)
{
	const struct access_bracket *open = NULL, *ended = NULL;
	const struct weir_kernel *kernel = NULL;
	stream_id_t id = 0;

	if (!cuda->debug)
		return 0;
	pthread_mutex_lock(&cuda->lock);
	for (uint32_t i = 0; i < cuda->nr_streams; i++) {
		struct cuda_stream *stream = cuda->stream[i];

		id = stream->id;
		ended_drop(stream);
		open = list_meets(stream->open, addr, bytes);
		ended = list_meets(stream->ended, addr, bytes);
		if (open || ended)
			break;
	}
	if (open || ended)
		kernel = open ? open->kernel : ended->kernel;
	pthread_mutex_unlock(&cuda->lock);
	if (!open && !ended)
		return 0;
	log_error("cuda: %s of the block at %#llx is refused: a bracket on stream %u names it and "
		  "%s; the last kernel launched in it: '%s'",
		  call, (unsigned long long)addr, id,
		  open ? "is open" : "ended, and nobody has waited for it",
		  kernel ? kernel->name : "none");
	return -WEIR_ECONTRACT;
}

/* ------------------------------------------------------------------ launches */

/* The uses of a launch as text, as many as there is room for. */
static void uses_format(const struct weir_launch *launch, char *text, size_t bytes)
{
	size_t at = 0;

	text[0] = '\0';
	for (uint32_t i = 0; i < launch->nr_uses && at < bytes; i++) {
		const struct weir_use *use = &launch->uses[i];

		at += (size_t)snprintf(text + at, bytes - at, "%s%s %p+%llu", i ? ", " : "",
				       use->kind < ARRAY_LEN(kinds) ? kinds[use->kind] : "?",
				       use->addr, (unsigned long long)use->bytes);
	}
}

/* Whether brackets of another stream's that are open forbid a launch: one of the two writes what
 * the other one names, and they have no order. Lock held. */
static int check_order(struct cuda *cuda, stream_id_t id, const struct weir_kernel *kernel)
{
	const struct cuda_stream *stream = cuda_stream_find(cuda, id);

	for (uint32_t i = 0; i < cuda->nr_streams; i++) {
		const struct access_bracket *bracket = NULL;
		const struct cuda_region *region;
		uintptr_t at;

		if (cuda->stream[i] && cuda->stream[i] != stream)
			bracket = access_conflict(stream->open, cuda->stream[i]->open, &at);
		if (!bracket)
			continue;
		region = cuda_region_at(cuda, at);
		log_error("cuda: kernel '%s' is not launched on stream %u: a bracket of stream %u, "
			  "with kernel '%s', is open and names, too, the byte at offset %llu of "
			  "range %#llx, and one of the two writes: they have no order",
			  kernel->name, id, i, bracket->kernel->name,
			  (unsigned long long)(region ? at - region->base : 0),
			  (unsigned long long)(region ? region->base : at));
		return -WEIR_ECONTRACT;
	}
	return 0;
}

int cuda_debug_launch_begin(struct cuda *cuda, stream_id_t id, const struct weir_launch *launch)
{
	const struct weir_use *wrong = NULL;
	const struct cuda_stream *stream;
	int other = 0;

	if (!cuda->debug)
		return 0;
	pthread_mutex_lock(&cuda->lock);
	stream = cuda_stream_find(cuda, id);
	for (uint32_t i = 0; stream && i < launch->nr_uses && !wrong; i++) {
		const struct weir_use *use = &launch->uses[i];
		const struct cuda_region *region =
			cuda_region_at(cuda, (cu_ptr)(uintptr_t)use->addr);

		if (region && region->guarded && use_reads(use) &&
		    !access_covers(stream->open, use))
			wrong = use;
	}
	if (stream && !wrong) {
		other = check_order(cuda, id, launch->kernel);
		if (!other)
			access_launched(stream->open, launch->kernel);
	}
	pthread_mutex_unlock(&cuda->lock);
	if (!wrong)
		return other;
	log_error("cuda: kernel '%s' is not launched: no bracket open on stream %u declares to %s "
		  "%p+%llu",
		  launch->kernel->name, id, kinds[wrong->kind], wrong->addr,
		  (unsigned long long)wrong->bytes);
	return -WEIR_ECONTRACT;
}

int cuda_debug_launch_end(struct cuda *cuda, cu_stream stream, uint32_t device,
			  const struct weir_launch *launch)
{
	char uses[200], what[320];

	/* What is only noted for a graph is not waited for. */
	if (!cuda->debug || cuda_capture_check(cuda, 0, stream, true) == -WEIR_ECONTRACT)
		return 0;
	uses_format(launch, uses, sizeof(uses));
	(void)snprintf(what, sizeof(what),
		       "kernel '%s', which touched more than it declares, or wrote what it "
		       "declares to read (%s)",
		       launch->kernel->name, uses);
	return stream_settle(cuda, stream, device, what);
}
