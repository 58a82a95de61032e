/* SPDX-License-Identifier: Apache-2.0 */
/* The brackets that are open on each stream. */
#include <errno.h>

#include "src/backend/sim/sim_internal.h"

int sim_access_begin(struct backend *b, stream_id_t id, const void *owner,
		     const struct weir_use *uses, uint32_t nr)
{
	struct sim *sim = sim_of(b);
	struct access_bracket *bracket;
	struct sim_stream *stream;
	int err = access_bracket_create(owner, uses, nr, &bracket);

	if (err)
		return err;
	sim_enter(sim);
	stream = sim_stream_find(sim, id);
	if (stream) {
		if (!stream->bracket)
			stream->span = ++sim->last_span;
		bracket->outer = stream->bracket;
		stream->bracket = bracket;
	}
	sim_leave(sim);
	if (!stream) {
		access_bracket_free(bracket);
		return -EINVAL;
	}
	return 0;
}

void sim_access_end(struct backend *b, stream_id_t id, const void *owner)
{
	struct sim *sim = sim_of(b);
	struct access_bracket *bracket = NULL;
	struct sim_stream *stream;

	sim_enter(sim);
	stream = sim_stream_find(sim, id);
	if (stream)
		bracket = access_take(&stream->bracket, owner);
	sim_leave(sim);
	access_bracket_free(bracket);
}

int sim_access_narrow(struct backend *b, stream_id_t id, const void *owner, const void *addr,
		      uint64_t bytes)
{
	struct sim *sim = sim_of(b);
	struct access_bracket *bracket = NULL;
	struct sim_stream *stream;
	int err;

	sim_enter(sim);
	stream = sim_stream_find(sim, id);
	if (stream)
		bracket = access_find(stream->bracket, owner);
	err = bracket ? access_narrow(bracket, (uintptr_t)addr, bytes) : -EINVAL;
	sim_leave(sim);
	return err;
}
