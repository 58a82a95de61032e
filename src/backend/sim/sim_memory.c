/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulator's memories: extents of an alias space that is wider than the memory, so that only
 * bytes count, as they do for a driver that maps any physical pages. Pieces of 2 MiB and more are
 * taken from the bottom, smaller ones from the top, each first fit. Knows nothing of mappings.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "src/backend/sim/sim_internal.h"
#include "src/base/log.h"
#include "src/base/util.h"

#define ALIAS_SPARE (UINT64_C(1) << 30)

int sim_memory_init(struct sim *sim, uint32_t index)
{
	struct sim_memory *memory = &sim->memory[index];
	bool real = sim->base.data == WEIR_DATA_REAL;
	uint64_t bytes =
		round_up(2 * sim->base.desc.memory[index].bytes, SIM_LARGE_PAGE) + ALIAS_SPARE;
	void *alias;

	memory->fd = -1;
	memory->free = malloc(sizeof(*memory->free));
	if (!memory->free)
		return -ENOMEM;
	if (real) {
		memory->fd = memfd_create("weir-sim", MFD_CLOEXEC);
		if (memory->fd < 0 || ftruncate(memory->fd, (off_t)bytes))
			goto err_fini;
		alias = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
			     memory->fd, 0);
	} else {
		alias = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
			     -1, 0);
	}
	if (alias == MAP_FAILED)
		goto err_fini;
	memory->alias = alias;
	memory->alias_bytes = bytes;
	memory->free[0] = (struct sim_extent){0, bytes};
	memory->nr_free = 1;
	return 0;

err_fini:
	sim_memory_fini(sim, index);
	return -ENOMEM;
}

static void piece_free(struct sim_piece *piece)
{
	free(piece->more);
	free(piece);
}

void sim_memory_fini(struct sim *sim, uint32_t index)
{
	struct sim_memory *memory = &sim->memory[index];

	if (memory->alias)
		munmap(memory->alias, memory->alias_bytes);
	if (memory->fd >= 0)
		close(memory->fd);
	for (size_t i = 0; i < memory->nr_pieces; i++)
		piece_free(memory->pieces[i]);
	free(memory->pieces);
	free(memory->free);
	*memory = (struct sim_memory){.fd = -1};
}

/* Index of the first piece that begins beyond an offset. */
static size_t piece_after(const struct sim_memory *memory, uint64_t offset)
{
	size_t at;

	SEARCH_SORTED(at, 0, memory->nr_pieces, memory->pieces[at]->offset <= offset);
	return at;
}

static int pieces_grow(struct sim_memory *memory)
{
	size_t max = memory->max_pieces ? 2 * memory->max_pieces : 64;
	struct sim_extent *extents;
	struct sim_piece **pieces;

	if (memory->nr_pieces < memory->max_pieces)
		return 0;
	/* Each piece parts two free extents at the most. */
	extents = realloc(memory->free, (max + 1) * sizeof(*extents));
	if (!extents)
		return -ENOMEM;
	memory->free = extents;
	pieces = realloc(memory->pieces, max * sizeof(struct sim_piece *));
	if (!pieces)
		return -ENOMEM;
	memory->pieces = pieces;
	memory->max_pieces = max;
	return 0;
}

static void free_insert(struct sim_memory *memory, size_t at, struct sim_extent extent)
{
	memmove(&memory->free[at + 1], &memory->free[at],
		(memory->nr_free - at) * sizeof(*memory->free));
	memory->free[at] = extent;
	memory->nr_free++;
}

static void free_remove(struct sim_memory *memory, size_t at)
{
	memory->nr_free--;
	memmove(&memory->free[at], &memory->free[at + 1],
		(memory->nr_free - at) * sizeof(*memory->free));
}

/* Cut [offset, offset + bytes) out of the free extent at. Room for one more is there. */
static void free_cut(struct sim_memory *memory, size_t at, uint64_t offset, uint64_t bytes)
{
	struct sim_extent extent = memory->free[at];
	struct sim_extent after = {offset + bytes, extent.offset + extent.bytes - offset - bytes};

	memory->free[at].bytes = offset - extent.offset;
	if (after.bytes)
		free_insert(memory, at + 1, after);
	if (!memory->free[at].bytes)
		free_remove(memory, at);
}

static int extent_take(struct sim_memory *memory, uint64_t bytes, uint64_t align, bool from_top,
		       uint64_t *out)
{
	for (size_t n = 0; n < memory->nr_free; n++) {
		size_t i = from_top ? memory->nr_free - 1 - n : n;
		uint64_t begin = memory->free[i].offset, end = begin + memory->free[i].bytes;
		uint64_t offset;

		if (memory->free[i].bytes < bytes)
			continue;
		offset = from_top ? (end - bytes) / align * align : round_up(begin, align);
		if (offset < begin || offset + bytes > end)
			continue;
		free_cut(memory, i, offset, bytes);
		*out = offset;
		return 0;
	}
	return -ENOMEM;
}

static void extent_give(struct sim_memory *memory, struct sim_extent extent)
{
	size_t at;

	SEARCH_SORTED(at, 0, memory->nr_free, memory->free[at].offset < extent.offset);
	if (at > 0 && memory->free[at - 1].offset + memory->free[at - 1].bytes == extent.offset) {
		at--;
		memory->free[at].bytes += extent.bytes;
	} else {
		free_insert(memory, at, extent);
	}
	if (at + 1 < memory->nr_free &&
	    memory->free[at].offset + memory->free[at].bytes == memory->free[at + 1].offset) {
		memory->free[at].bytes += memory->free[at + 1].bytes;
		free_remove(memory, at + 1);
	}
}

int sim_memory_alloc(struct sim *sim, uint32_t index, uint64_t bytes, uint64_t align, bool chunk,
		     struct sim_piece **out)
{
	struct sim_memory *memory = &sim->memory[index];
	uint64_t limit = sim->base.desc.memory[index].bytes;
	struct sim_piece *piece;
	uint64_t rounded, offset;
	size_t at;
	int err;

	if (bytes > limit)
		return -ENOMEM;
	rounded = round_up(bytes, align);
	if (rounded > limit - memory->used_bytes)
		return -ENOMEM;
	piece = calloc(1, sizeof(*piece));
	if (!piece)
		return -ENOMEM;
	err = pieces_grow(memory);
	if (err)
		goto err_free;
	err = extent_take(memory, rounded, align, rounded < SIM_LARGE_PAGE, &offset);
	if (err) {
		log_warning("memory '%s': %llu bytes are free, but no addresses for %llu in a row",
			    sim->base.desc.memory[index].name,
			    (unsigned long long)(limit - memory->used_bytes),
			    (unsigned long long)rounded);
		goto err_free;
	}
	*piece = (struct sim_piece){.handle = chunk ? ++sim->last_handle : 0,
				    .offset = offset,
				    .bytes = rounded,
				    .asked_bytes = bytes,
				    .memory = index,
				    .devices = UINT64_MAX};
	at = piece_after(memory, offset);
	memmove(&memory->pieces[at + 1], &memory->pieces[at],
		(memory->nr_pieces - at) * sizeof(struct sim_piece *));
	memory->pieces[at] = piece;
	memory->nr_pieces++;
	memory->used_bytes += rounded;
	*out = piece;
	return 0;

err_free:
	free(piece);
	return err;
}

void sim_memory_free(struct sim *sim, struct sim_piece *piece)
{
	struct sim_memory *memory = &sim->memory[piece->memory];
	size_t at = piece_after(memory, piece->offset) - 1;

	/* Best effort: bytes that stay behind cost the host memory, and nothing else. */
	if (memory->fd >= 0)
		(void)fallocate(memory->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				(off_t)piece->offset, (off_t)piece->bytes);
	memory->nr_pieces--;
	memmove(&memory->pieces[at], &memory->pieces[at + 1],
		(memory->nr_pieces - at) * sizeof(struct sim_piece *));
	extent_give(memory, (struct sim_extent){piece->offset, piece->bytes});
	memory->used_bytes -= piece->bytes;
	piece_free(piece);
}

struct sim_piece *sim_memory_piece_at(struct sim *sim, const void *alias)
{
	uintptr_t addr = (uintptr_t)alias;

	for (uint32_t i = 0; i < sim->base.desc.nr_memories; i++) {
		const struct sim_memory *memory = &sim->memory[i];
		uint64_t offset = addr - (uintptr_t)memory->alias;
		struct sim_piece *piece;
		size_t at;

		if (addr < (uintptr_t)memory->alias || offset >= memory->alias_bytes)
			continue;
		at = piece_after(memory, offset);
		if (!at)
			return NULL;
		piece = memory->pieces[at - 1];
		return offset - piece->offset < piece->bytes ? piece : NULL;
	}
	return NULL;
}

char *sim_memory_alias(const struct sim *sim, const struct sim_piece *piece)
{
	return sim->memory[piece->memory].alias + piece->offset;
}

struct sim_piece *sim_memory_chunk(struct sim *sim, const struct backend_chunk *chunk)
{
	struct sim_piece *piece = chunk ? sim_memory_piece_at(sim, chunk->alias) : NULL;

	return piece && piece->handle && piece->handle == chunk->handle ? piece : NULL;
}
