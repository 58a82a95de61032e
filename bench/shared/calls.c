/* SPDX-License-Identifier: Apache-2.0 */
/* The calls that give memory back, alone; see calls.h. */
#include "bench/shared/calls.h"

#include <errno.h>
#include <stdlib.h>

#include "src/backend/backend.h"
#include "src/backend/machine.h"

/* One more chunk, mapped. */
static int add(struct backend *b, const struct calls *calls, char *at, struct backend_chunk *out)
{
	int err = b->ops->chunk_create(b, calls->memory, calls->block_bytes, 0, out);

	if (err)
		return err;
	err = b->ops->map(b, at, out, BACKEND_PROT_WRITE, BACKEND_DEVICE_BIT(calls->device));
	if (err)
		b->ops->chunk_destroy(b, out);
	return err;
}

int calls_measure(struct weir_machine *machine, const struct calls *calls, uint64_t *ns)
{
	struct backend *b = machine_backend(machine);
	struct backend_chunk *chunk = calloc(calls->nr_chunks, sizeof(*chunk));
	const uint64_t bytes = calls->nr_chunks * calls->block_bytes;
	int err = chunk ? 0 : -ENOMEM;
	uint32_t nr = 0;
	uint64_t start;
	char *at;

	if (!err)
		err = b->ops->va_reserve(b, bytes, calls->block_bytes, (void **)&at);
	if (err) {
		free(chunk);
		return err;
	}
	for (; nr < calls->nr_chunks && !err; nr += !err)
		err = add(b, calls, at + nr * calls->block_bytes, &chunk[nr]);
	start = weir_machine_now_ns(machine);
	for (uint32_t i = 0; i < nr; i++) {
		int err_unmap = b->ops->unmap(b, at + i * calls->block_bytes);

		err = err ? err : err_unmap;
		b->ops->chunk_destroy(b, &chunk[i]);
	}
	if (!err)
		*ns = weir_machine_now_ns(machine) - start;
	b->ops->va_release(b, at, bytes);
	free(chunk);
	return err;
}
