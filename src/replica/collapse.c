/* SPDX-License-Identifier: Apache-2.0 */
/* What the host is about to use at the one copy: bring what was written last there. */
#include "src/replica/replica.h"

int one_fill(struct weir_space *space, struct space_use *part, struct settle *settle)
{
	uint64_t offset, end;
	uint8_t copy;
	struct replica *r = replica_of_use(space, part, &copy, &offset);
	int err = 0;

	if (!r)
		return 0;
	end = offset + part->bytes;
	if (use_writes(part) && !part->nr_reserved) {
		err = pieces_reserve(r, 2);
		if (err)
			return err;
		r->nr_reserved += 2;
		part->nr_reserved = 2;
	}
	if (part->kind != WEIR_OVERWRITE)
		err = message_fill(space, r, NULL, COPY_ONE, offset, end, false);
	return err ? err : messages_settle(space, settle);
}

void one_filled(struct weir_space *space, struct space_use *part, bool written)
{
	uint64_t offset;
	uint8_t copy;
	struct replica *r = replica_of_use(space, part, &copy, &offset);

	if (!r || !part->nr_reserved)
		return;
	r->nr_reserved -= part->nr_reserved;
	part->nr_reserved = 0;
	if (written)
		pieces_write(r, offset, offset + part->bytes, COPY_ONE, COPY_NONE, 0);
}
