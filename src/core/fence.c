/* SPDX-License-Identifier: Apache-2.0 */
/* What the backend says of a space's queued work: fences, and the errors that it ends with. */
#include "src/core/space.h"

void space_note_error(struct weir_space *space, int err)
{
	if (err && !space->error)
		space->error = err;
}

bool space_fence_done(struct weir_space *space, fence_t fence, int *err)
{
	struct backend *b = space->backend;
	int last = 0;

	/* An error says that the work failed, hence is done, as the next answer says; or that there
	 * was no answer. */
	for (int i = 0; i < SPACE_TRIES; i++) {
		int done = b->ops->fence_done(b, fence);

		if (done > 0 && last && err)
			*err = last;
		if (done >= 0)
			return done != 0;
		last = done;
		space_note_error(space, done);
	}
	return false;
}

/* Work that was queued and has no fence would never be known to be done. */
static int try_to_record(struct weir_space *space,
			 int (*op)(struct backend *b, stream_id_t stream, fence_t *out),
			 stream_id_t stream, fence_t *out)
{
	int err = op(space->backend, stream, out);

	for (int i = 1; err && err != -WEIR_ECONTRACT && i < SPACE_TRIES; i++)
		err = op(space->backend, stream, out);
	return err;
}

int space_fence_record(struct weir_space *space, stream_id_t stream, fence_t *out)
{
	return try_to_record(space, space->backend->ops->fence_record, stream, out);
}

int space_fence_untimed(struct weir_space *space, stream_id_t stream, fence_t *out)
{
	return try_to_record(space, space->backend->ops->fence_untimed, stream, out);
}
