/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing the file that says what is in a pool, and the folder of such files. Nothing here may keep
 * a pool from working: what fails is a warning, and the pool goes on without its file.
 */
#include "src/mem/mem_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/clock.h"
#include "src/base/log.h"
#include "src/base/util.h"
#include "src/base/variables.h"
#include "src/mem/mem.h"

struct mem_file_writer {
	int fd, dir;
	bool broken;
	uint32_t next; /* no record before it is free */
	char name[48];
	struct mem_file_header header;
	bool used[MEM_FILE_RECORDS];
	uint64_t nr_used;
};

uint64_t mem_file_start_ticks(pid_t pid)
{
	char path[64], text[1024];
	uint64_t ticks = 0;
	const char *at;
	FILE *file;
	size_t nr;

	(void)snprintf(path, sizeof(path), "/proc/%ld/stat", (long)pid);
	file = fopen(path, "re");
	if (!file)
		return 0;
	nr = fread(text, 1, sizeof(text) - 1, file);
	(void)fclose(file);
	text[nr] = '\0';
	/* The second field is a name in brackets, which may hold anything; this is the 22nd. */
	at = strrchr(text, ')');
	for (int field = 2; at && field < 22; field++)
		at = strchr(at + 1, ' ');
	if (at)
		ticks = strtoull(at + 1, NULL, 10);
	return ticks;
}

/* ------------------------------------------------------------------ the folder */

static void folder_path(char *path, size_t bytes)
{
	const char *runtime = secure_getenv("XDG_RUNTIME_DIR");

	if (runtime && runtime[0] == '/')
		(void)snprintf(path, bytes, "%s/weir", runtime);
	else
		(void)snprintf(path, bytes, "/tmp/weir-%lu", (unsigned long)geteuid());
}

int mem_file_dir(bool make, char *path, size_t path_bytes, char *why, size_t why_bytes)
{
	struct stat stat;
	int dir, err;

	folder_path(path, path_bytes);
	if (make && mkdir(path, 0700) && errno != EEXIST) {
		err = -errno;
		(void)snprintf(why, why_bytes, "%s cannot be made: %s", path,
			       strerrordesc_np(-err));
		return err;
	}
	/* Not through a link that somebody else has put there. */
	dir = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0) {
		err = -errno;
		(void)snprintf(why, why_bytes, "%s cannot be opened: %s", path,
			       strerrordesc_np(-err));
		return err;
	}
	if (fstat(dir, &stat) || stat.st_uid != geteuid() || stat.st_mode & 077) {
		(void)close(dir);
		(void)snprintf(why, why_bytes,
			       "%s is open to others than you: remove it, or have it 0700", path);
		return -EPERM;
	}
	return dir;
}

/* ------------------------------------------------------------------ writing */

static bool write_at(const struct mem_file_writer *writer, const void *data, size_t bytes,
		     size_t offset)
{
	return pwrite(writer->fd, data, bytes, (off_t)offset) == (ssize_t)bytes;
}

/* Make the file and its size, empty. */
static int file_open(struct mem_file_writer *writer, char *why, size_t why_bytes)
{
	static atomic_uint last;
	char path[4096];
	int err;

	writer->dir = mem_file_dir(true, path, sizeof(path), why, why_bytes);
	if (writer->dir < 0)
		return writer->dir;
	(void)snprintf(writer->name, sizeof(writer->name), MEM_FILE_PREFIX "%ld-%u", (long)getpid(),
		       atomic_fetch_add(&last, 1));
	/* Of a process that had the number before. */
	(void)unlinkat(writer->dir, writer->name, 0);
	writer->fd = openat(writer->dir, writer->name,
			    O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (writer->fd >= 0 && !ftruncate(writer->fd, sizeof(struct mem_file)))
		return 0;
	err = -errno;
	(void)snprintf(why, why_bytes, "%s/%s cannot be made: %s", path, writer->name,
		       strerrordesc_np(-err));
	if (writer->fd >= 0) {
		(void)unlinkat(writer->dir, writer->name, 0);
		(void)close(writer->fd);
	}
	(void)close(writer->dir);
	return err;
}

/* Write what changed: the header's figures, and one record (slot MEM_FILE_RECORDS: none). A write
 * that fails ends the file, with a warning. */
static void writer_update(struct mem_file_writer *writer, const struct mem_file_header *header,
			  uint32_t slot, const struct mem_file_record *record)
{
	struct mem_file_header *mine = &writer->header;
	bool done;

	if (slot < MEM_FILE_RECORDS && !record->bytes) {
		writer->used[slot] = false;
		writer->nr_used--;
		writer->next = MIN(writer->next, slot);
	}
	if (writer->broken)
		return;
	memcpy(mine->memory, header->memory, sizeof(mine->memory));
	memcpy(mine->dma_bytes, header->dma_bytes, sizeof(mine->dma_bytes));
	mine->nr_unlisted = 0;
	for (uint32_t m = 0; m < WEIR_MEMORIES_MAX; m++)
		mine->nr_unlisted += header->memory[m].nr_objects;
	mine->nr_unlisted -= writer->nr_used;
	mine->nr_top = slot < MEM_FILE_RECORDS ? MAX(mine->nr_top, slot + 1) : mine->nr_top;
	while (mine->nr_top && !writer->used[mine->nr_top - 1])
		mine->nr_top--;
	mine->updated_ns = clock_now_ns();
	mine->seq++;
	done = write_at(writer, &mine->seq, sizeof(mine->seq),
			offsetof(struct mem_file_header, seq));
	if (done && slot < MEM_FILE_RECORDS)
		done = write_at(writer, record, sizeof(*record),
				offsetof(struct mem_file, record) + slot * sizeof(*record));
	done = done && write_at(writer, mine, sizeof(*mine), 0);
	mine->seq++;
	done = done && write_at(writer, &mine->seq, sizeof(mine->seq),
				offsetof(struct mem_file_header, seq));
	if (done)
		return;
	log_warning("%s cannot be written: what is in the pool is no longer shown", writer->name);
	writer->broken = true;
	(void)unlinkat(writer->dir, writer->name, 0);
}

/* Make the file of a pool; header: its constant fields, the rest is filled in here. Logged. */
static int writer_create(const struct mem_file_header *header, struct mem_file_writer **out)
{
	struct mem_file_writer *writer = calloc(1, sizeof(*writer));
	char why[4200];
	int err;

	if (!writer)
		return -ENOMEM;
	writer->header = *header;
	memcpy(writer->header.magic, MEM_FILE_MAGIC, sizeof(writer->header.magic));
	writer->header.version = MEM_FILE_VERSION;
	writer->header.header_bytes = sizeof(struct mem_file_header);
	writer->header.record_bytes = sizeof(struct mem_file_record);
	writer->header.nr_records = MEM_FILE_RECORDS;
	writer->header.pid = getpid();
	writer->header.start_ticks = mem_file_start_ticks(getpid());
	err = file_open(writer, why, sizeof(why));
	if (err) {
		log_warning("what is in pools is not shown: %s", why);
		free(writer);
		return err;
	}
	writer_update(writer, header, MEM_FILE_RECORDS, NULL);
	*out = writer;
	return 0;
}

/* A record that is free; MEM_FILE_RECORDS: there is none. It is given back with an empty one. */
static uint32_t slot_get(struct mem_file_writer *writer)
{
	while (writer->next < MEM_FILE_RECORDS && writer->used[writer->next])
		writer->next++;
	if (writer->next == MEM_FILE_RECORDS)
		return MEM_FILE_RECORDS;
	writer->used[writer->next] = true;
	writer->nr_used++;
	return writer->next;
}

/* ------------------------------------------------------------------ what is written */

static void header_fill(struct weir_pool *pool, struct mem_file_header *header)
{
	const struct weir_machine_desc *desc = &pool->backend->desc;
	struct weir_pool_stats stats;

	mem_pool_figures(pool, &stats);
	memset(header, 0, sizeof(*header));
	memcpy(header->pool, pool->name, sizeof(header->pool));
	header->nr_memories = desc->nr_memories;
	header->nr_devices = desc->nr_devices;
	for (uint32_t m = 0; m < desc->nr_memories; m++) {
		memcpy(header->memory[m].name, desc->memory[m].name, WEIR_NAME_MAX);
		header->memory[m].nr_objects = stats.nr_objects[m];
		header->memory[m].object_bytes = stats.object_bytes[m];
		header->memory[m].held_bytes = stats.held_bytes[m];
	}
	for (uint32_t d = 0; d < desc->nr_devices; d++) {
		memcpy(header->device[d], desc->device[d].name, WEIR_NAME_MAX);
		header->dma_bytes[d] = stats.dma_bytes[d];
	}
}

int mem_file_begin(struct weir_pool *pool)
{
	struct mem_file_header header;
	bool wanted = false;
	int err = variable_bool(VARIABLE_MEMORY_FILE, &wanted);

	if (err || !wanted)
		return err;
	header_fill(pool, &header);
	/* A pool without its file is as good, and the log has the reason. */
	(void)writer_create(&header, &pool->writer);
	return 0;
}

/* One record, and the figures. */
static void file_write(struct weir_mem *mem, const struct mem_file_record *record)
{
	struct mem_file_header header;

	header_fill(mem->pool, &header);
	writer_update(mem->pool->writer, &header, mem->slot, record);
}

void mem_file_show(struct weir_mem *mem)
{
	struct mem_file_record record = {.bytes = mem->bytes,
					 .physical_bytes = mem->physical_bytes,
					 .page_bytes = mem->page_bytes,
					 .created_ns = mem->created_ns,
					 .memory = mem->memory,
					 .users = mem->users,
					 .engines = mem->engines,
					 .line = mem->line,
					 .choice = (uint32_t)mem->choice};

	if (!mem->pool->writer)
		return;
	if (mem->slot == MEM_FILE_RECORDS)
		mem->slot = slot_get(mem->pool->writer);
	memcpy(record.owner, mem->owner, sizeof(record.owner));
	memcpy(record.source, mem->file, sizeof(record.source));
	file_write(mem, &record);
}

void mem_file_hide(struct weir_mem *mem)
{
	static const struct mem_file_record none;

	if (!mem->pool->writer)
		return;
	file_write(mem, &none);
	mem->slot = MEM_FILE_RECORDS;
}

void mem_file_end(struct weir_pool *pool)
{
	struct mem_file_writer *writer = pool->writer;

	if (!writer)
		return;
	(void)unlinkat(writer->dir, writer->name, 0);
	(void)close(writer->fd);
	(void)close(writer->dir);
	free(writer);
}
