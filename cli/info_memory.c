/* SPDX-License-Identifier: Apache-2.0 */
/* `weir info --memory`: finds a process's files, reads all of them, and prints them. */
#include "cli/info_memory.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/size.h"
#include "src/base/clock.h"
#include "src/base/variables.h"
#include "src/mem/mem.h"

#define POOLS_MAX 64u
#define NAME_BYTES 64u
#define MAPPED_BYTES (8 + WEIR_DEVICES_MAX * (WEIR_NAME_MAX + 8)) /* all devices, with "(dma)" */

/* The files of a process, in the order in which its pools were made. */
struct pools {
	uint32_t number[POOLS_MAX];
	struct mem_file *file[POOLS_MAX];
	size_t nr;
};

struct message {
	char *text;
	size_t bytes;
};

__attribute__((format(printf, 2, 3))) static int fail(const struct message *message,
						      const char *format, ...)
{
	va_list args;

	va_start(args, format);
	(void)vsnprintf(message->text, message->bytes, format, args);
	va_end(args);
	return -1;
}

/* ------------------------------------------------------------------ finding, reading */

static int by_number(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

/* The number of a process's pool in a file's name; false: it is none of its. */
static bool name_parse(const char *name, long pid, uint32_t *number)
{
	char prefix[NAME_BYTES], *end;
	unsigned long value;
	int length = snprintf(prefix, sizeof(prefix), MEM_FILE_PREFIX "%ld-", pid);

	if (strncmp(name, prefix, (size_t)length) != 0 || name[length] < '0' || name[length] > '9')
		return false;
	errno = 0;
	value = strtoul(name + length, &end, 10);
	if (*end || errno || value > UINT32_MAX)
		return false;
	*number = (uint32_t)value;
	return true;
}

static int pools_find(int dir, long pid, struct pools *pools, const struct message *message)
{
	int copy = dup(dir);
	DIR *stream = copy < 0 ? NULL : fdopendir(copy);
	const struct dirent *entry;

	if (!stream) {
		if (copy >= 0)
			(void)close(copy);
		return fail(message, "%s", strerror(errno));
	}
	while (pools->nr < POOLS_MAX && (entry = readdir(stream)) != NULL)
		pools->nr += name_parse(entry->d_name, pid, &pools->number[pools->nr]);
	(void)closedir(stream);
	qsort(pools->number, pools->nr, sizeof(pools->number[0]), by_number);
	return 0;
}

/* A pool that is destroyed meanwhile is left out. */
static int pools_read(int dir, long pid, struct pools *pools, const struct message *message)
{
	size_t nr = pools->nr;

	pools->nr = 0;
	for (size_t i = 0; i < nr; i++) {
		struct mem_file *file = malloc(sizeof(*file));
		char name[NAME_BYTES], why[256] = "";
		int err;

		if (!file)
			return fail(message, "out of memory");
		(void)snprintf(name, sizeof(name), MEM_FILE_PREFIX "%ld-%u", pid, pools->number[i]);
		err = mem_file_read(dir, name, (pid_t)pid, file, why, sizeof(why));
		if (!err)
			pools->file[pools->nr++] = file;
		else
			free(file);
		if (err && err != -ENOENT)
			return fail(message, "%s: %s", name, *why ? why : strerror(-err));
	}
	return 0;
}

static int pools_get(long pid, struct pools *pools, const struct message *message)
{
	char path[PATH_MAX], why[PATH_MAX + 128];
	int dir = mem_file_dir(false, path, sizeof(path), why, sizeof(why)), err = 0;

	if (dir < 0 && dir != -ENOENT)
		return fail(message, "%s", why);
	if (dir >= 0)
		err = pools_find(dir, pid, pools, message);
	if (!err && pools->nr)
		err = pools_read(dir, pid, pools, message);
	if (!err && !pools->nr)
		err = fail(message,
			   "process %ld shows no pools in %s: start it with " VARIABLE_MEMORY_FILE
			   "=1 in its environment",
			   pid, path);
	if (dir >= 0)
		(void)close(dir);
	return err;
}

static void pools_fini(struct pools *pools)
{
	for (size_t i = 0; i < pools->nr; i++)
		free(pools->file[i]);
}

/* ------------------------------------------------------------------ printing */

/* Who may use an object: "cpu gpu0 gpu1(dma)". */
static void mapped_format(const struct mem_file_header *header,
			  const struct mem_file_record *record, char text[MAPPED_BYTES])
{
	size_t at = 0;

	text[0] = '\0';
	if (record->users & WEIR_MEM_CPU)
		at = (size_t)snprintf(text, MAPPED_BYTES, "cpu");
	for (uint32_t d = 0; d < header->nr_devices && at < MAPPED_BYTES; d++)
		if ((record->users | record->engines) & WEIR_MEM_DEVICE(d))
			at += (size_t)snprintf(text + at, MAPPED_BYTES - at, "%s%s%s",
					       at ? " " : "", header->device[d],
					       record->users & WEIR_MEM_DEVICE(d) ? "" : "(dma)");
	if (!text[0])
		(void)snprintf(text, MAPPED_BYTES, "nobody");
}

static double age_s(uint64_t then_ns)
{
	uint64_t now = clock_now_ns();

	return now > then_ns ? (double)(now - then_ns) / 1e9 : 0;
}

static void print_object(const struct mem_file *file, const struct mem_file_record *record)
{
	char bytes[SIZE_TEXT_BYTES], page[SIZE_TEXT_BYTES], mapped[MAPPED_BYTES];

	mapped_format(&file->header, record, mapped);
	printf("  %-8s %10s %9s  %8.1f s  %-16s %-16s %s:%u  (%s)\n",
	       file->header.memory[record->memory].name,
	       size_format(record->bytes, bytes, sizeof(bytes)),
	       size_format(record->page_bytes, page, sizeof(page)), age_s(record->created_ns),
	       mapped, record->owner, record->source, record->line,
	       weir_choice_text((enum weir_choice)record->choice));
}

static void print_pool(const struct mem_file *file)
{
	const struct mem_file_header *header = &file->header;
	char bytes[SIZE_TEXT_BYTES], held[SIZE_TEXT_BYTES];

	printf("pool '%s' of process %" PRId64 ", as of %.1f s ago\n", header->pool, header->pid,
	       age_s(header->updated_ns));
	for (uint32_t m = 0; m < header->nr_memories; m++)
		if (header->memory[m].held_bytes || header->memory[m].nr_objects)
			printf("  %-8s %" PRIu64 " objects, %s; %s held\n", header->memory[m].name,
			       header->memory[m].nr_objects,
			       size_format(header->memory[m].object_bytes, bytes, sizeof(bytes)),
			       size_format(header->memory[m].held_bytes, held, sizeof(held)));
	for (uint32_t d = 0; d < header->nr_devices; d++)
		if (header->dma_bytes[d])
			printf("  %-8s %s of other memories are mapped for its copy engines\n",
			       header->device[d],
			       size_format(header->dma_bytes[d], bytes, sizeof(bytes)));
	printf("  %-8s %10s %9s  %10s  %-16s %-16s %s\n", "memory", "bytes", "pages", "age",
	       "mapped for", "owner", "allocated at");
	for (uint32_t i = 0; i < MEM_FILE_RECORDS; i++)
		if (file->record[i].bytes)
			print_object(file, &file->record[i]);
	if (header->nr_unlisted)
		printf("  and %" PRIu64 " more\n", header->nr_unlisted);
}

static json_t *object_json(const struct mem_file *file, const struct mem_file_record *record)
{
	char mapped[MAPPED_BYTES];

	mapped_format(&file->header, record, mapped);
	return json_pack("{ss sI sI sI sf ss ss ss sI ss}", "memory",
			 file->header.memory[record->memory].name, "bytes",
			 (json_int_t)record->bytes, "physical_bytes",
			 (json_int_t)record->physical_bytes, "page_bytes",
			 (json_int_t)record->page_bytes, "age_s", age_s(record->created_ns),
			 "mapped", mapped, "owner", record->owner, "file", record->source, "line",
			 (json_int_t)record->line, "choice",
			 weir_choice_text((enum weir_choice)record->choice));
}

static json_t *pool_json(const struct mem_file *file)
{
	const struct mem_file_header *header = &file->header;
	json_t *memories = json_array(), *devices = json_array(), *objects = json_array();

	for (uint32_t m = 0; m < header->nr_memories; m++)
		(void)json_array_append_new(
			memories,
			json_pack("{ss sI sI sI}", "name", header->memory[m].name, "objects",
				  (json_int_t)header->memory[m].nr_objects, "object_bytes",
				  (json_int_t)header->memory[m].object_bytes, "held_bytes",
				  (json_int_t)header->memory[m].held_bytes));
	for (uint32_t d = 0; d < header->nr_devices; d++)
		(void)json_array_append_new(devices, json_pack("{ss sI}", "name", header->device[d],
							       "dma_bytes",
							       (json_int_t)header->dma_bytes[d]));
	for (uint32_t i = 0; i < MEM_FILE_RECORDS; i++)
		if (file->record[i].bytes)
			(void)json_array_append_new(objects, object_json(file, &file->record[i]));
	return json_pack("{ss sI sf so so so sI}", "pool", header->pool, "pid",
			 (json_int_t)header->pid, "updated_s", age_s(header->updated_ns),
			 "memories", memories, "devices", devices, "objects", objects, "unlisted",
			 (json_int_t)header->nr_unlisted);
}

static int print_json(const struct pools *pools, const struct message *message)
{
	json_t *root = json_array();
	int bad = root ? 0 : -1;

	for (size_t i = 0; i < pools->nr && !bad; i++)
		bad = json_array_append_new(root, pool_json(pools->file[i]));
	if (bad) {
		bad = fail(message, "out of memory");
	} else {
		/* Output errors show when the stream is closed. */
		(void)json_dumpf(root, stdout, JSON_INDENT(2));
		(void)putchar('\n');
	}
	json_decref(root);
	return bad;
}

int info_memory(const char *text, bool json, char *err, size_t err_bytes)
{
	const struct message message = {err, err_bytes};
	struct pools pools = {.nr = 0};
	uint64_t pid;
	int status;

	if (count_parse(text, &pid) || !pid || pid > INT_MAX)
		return fail(&message, "--memory: '%s' is no process: write its number", text);
	status = pools_get((long)pid, &pools, &message);
	if (!status && json)
		status = print_json(&pools, &message);
	for (size_t i = 0; !status && !json && i < pools.nr; i++)
		print_pool(pools.file[i]);
	pools_fini(&pools);
	return status;
}
