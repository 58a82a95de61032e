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

int space_fence_record(struct weir_space *space, stream_id_t stream, fence_t *out)
{
	struct backend *b = space->backend;
	int err = b->ops->fence_record(b, stream, out);

	/* Work that was queued and has no fence would never be known to be done. */
	for (int i = 1; err && err != -WEIR_ECONTRACT && i < SPACE_TRIES; i++)
		err = b->ops->fence_record(b, stream, out);
	return err;
}
