/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading the file that says what is in a pool. Its writer may be in the middle of it, may have
 * ended at any point, or be somebody who means ill: nothing is mapped, sizes and text are checked,
 * and only files of the user's own are opened.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "src/mem/mem_file.h"

#define READ_TRIES 2000u
#define READ_NAP_EVERY 10u
#define READ_NAP_NS 1000000

/* ------------------------------------------------------------------ checking */

struct finding {
	char *why;
	size_t bytes;
};

__attribute__((format(printf, 2, 3))) static int wrong(const struct finding *finding,
						       const char *format, ...)
{
	va_list args;

	va_start(args, format);
	(void)vsnprintf(finding->why, finding->bytes, format, args);
	va_end(args);
	return -EINVAL;
}

/* End a text, and leave no byte in it that a terminal would act on. */
static void text_tame(char *text, size_t bytes)
{
	text[bytes - 1] = '\0';
	for (; *text; text++)
		if (*text < ' ' || *text > '~')
			*text = '?';
}

static int header_check(const struct mem_file_header *header, pid_t pid,
			const struct finding *finding)
{
	if (memcmp(header->magic, MEM_FILE_MAGIC, sizeof(header->magic)) != 0)
		return wrong(finding, "it is no file of a pool");
	if (header->version != MEM_FILE_VERSION ||
	    header->header_bytes != sizeof(struct mem_file_header) ||
	    header->record_bytes != sizeof(struct mem_file_record) ||
	    header->nr_records != MEM_FILE_RECORDS)
		return wrong(finding, "it is of another version of weir");
	if (header->seq % 2)
		return -EAGAIN;
	if (header->pid != pid)
		return wrong(finding, "it says that it is of process %lld", (long long)header->pid);
	if (!header->nr_memories || header->nr_memories > WEIR_MEMORIES_MAX ||
	    header->nr_devices > WEIR_DEVICES_MAX)
		return wrong(finding, "it has %u memories and %u devices", header->nr_memories,
			     header->nr_devices);
	if (header->nr_top > MEM_FILE_RECORDS)
		return wrong(finding, "it has %llu objects", (unsigned long long)header->nr_top);
	return 0;
}

static int record_check(const struct mem_file_header *header, const struct mem_file_record *record,
			const struct finding *finding)
{
	if (!record->bytes)
		return 0;
	if (record->memory >= header->nr_memories)
		return wrong(finding, "an object lies in memory %u, which there is not",
			     record->memory);
	if (record->physical_bytes < record->bytes)
		return wrong(finding, "an object is larger than its pages");
	if (record->choice >= WEIR_CHOICE_NR)
		return wrong(finding, "an object's memory was chosen for a reason of its own");
	return 0;
}

int mem_file_parse(const void *data, size_t bytes, pid_t pid, struct mem_file *out, char *why,
		   size_t why_bytes)
{
	const struct finding finding = {why, why_bytes};
	struct mem_file_header *header = &out->header;
	size_t listed;
	int err;

	if (bytes < sizeof(*header))
		return wrong(&finding, "it has %zu bytes alone", bytes);
	memset(out, 0, sizeof(*out));
	memcpy(header, data, sizeof(*header));
	err = header_check(header, pid, &finding);
	if (err)
		return err;
	listed = header->nr_top * sizeof(out->record[0]);
	if (bytes - sizeof(*header) < listed)
		return wrong(&finding, "it ends after %zu bytes", bytes);
	memcpy(out->record, (const char *)data + sizeof(*header), listed);
	text_tame(header->pool, sizeof(header->pool));
	for (uint32_t m = 0; m < WEIR_MEMORIES_MAX; m++)
		text_tame(header->memory[m].name, sizeof(header->memory[m].name));
	for (uint32_t d = 0; d < WEIR_DEVICES_MAX; d++)
		text_tame(header->device[d], sizeof(header->device[d]));
	for (uint32_t i = 0; !err && i < header->nr_top; i++) {
		err = record_check(header, &out->record[i], &finding);
		text_tame(out->record[i].owner, sizeof(out->record[i].owner));
		text_tame(out->record[i].source, sizeof(out->record[i].source));
	}
	return err;
}

/* ------------------------------------------------------------------ reading */

static int system_error(const struct finding *finding)
{
	int err = -errno;

	(void)snprintf(finding->why, finding->bytes, "%s", strerrordesc_np(-err));
	return err;
}

/* The user's own regular file, and nobody else's. */
static int file_open(int dir, const char *name, const struct finding *finding)
{
	/* Without waiting, if it is no file but a pipe. */
	int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat stat;

	if (fd < 0)
		return system_error(finding);
	if (!fstat(fd, &stat) && S_ISREG(stat.st_mode) && stat.st_uid == geteuid())
		return fd;
	(void)close(fd);
	(void)wrong(finding, "it is no file of yours");
	return -EPERM;
}

/* Read all of it. @return bytes, or a negative error */
static ssize_t file_read(int fd, void *data, size_t bytes)
{
	size_t at = 0;

	while (at < bytes) {
		ssize_t nr = pread(fd, (char *)data + at, bytes - at, (off_t)at);

		if (nr < 0 && errno == EINTR)
			continue;
		if (nr < 0)
			return -errno;
		if (!nr)
			break;
		at += (size_t)nr;
	}
	return (ssize_t)at;
}

/* Once. -EAGAIN: it was being written. */
static int file_try(int fd, pid_t pid, struct mem_file *data, struct mem_file *out,
		    const struct finding *finding)
{
	struct mem_file_header *header = &out->header;
	size_t wanted = sizeof(*header);
	uint64_t seq = 0;
	ssize_t nr;
	int err;

	/* As little as there is: the less there is to read, the sooner it is between two writes. */
	nr = file_read(fd, header, sizeof(*header));
	if (nr == sizeof(*header)) {
		seq = header->seq;
		if (header->nr_top <= MEM_FILE_RECORDS)
			wanted += header->nr_top * sizeof(out->record[0]);
	}
	if (nr >= 0)
		nr = file_read(fd, data, wanted);
	if (nr < 0) {
		errno = (int)-nr;
		return system_error(finding);
	}
	err = mem_file_parse(data, (size_t)nr, pid, out, finding->why, finding->bytes);
	if ((size_t)nr < sizeof(*header))
		return err;
	/* Before: there may be more now than was read. After: the records may be of two writes. */
	if (header->seq != seq ||
	    pread(fd, &seq, sizeof(seq), offsetof(struct mem_file_header, seq)) != sizeof(seq) ||
	    header->seq != seq)
		return -EAGAIN;
	return err;
}

/* Whether the process that wrote it lives. */
static bool process_lives(const struct mem_file_header *header)
{
	uint64_t ticks = mem_file_start_ticks((pid_t)header->pid);

	return ticks && ticks == header->start_ticks;
}

int mem_file_read(int dir, const char *name, pid_t pid, struct mem_file *out, char *why,
		  size_t why_bytes)
{
	const struct timespec nap = {.tv_nsec = READ_NAP_NS};
	const struct finding finding = {why, why_bytes};
	struct mem_file *data = malloc(sizeof(*data));
	int fd, err = -EAGAIN;

	if (!data)
		return -ENOMEM;
	fd = file_open(dir, name, &finding);
	if (fd < 0) {
		free(data);
		return fd;
	}
	for (uint32_t i = 0; i < READ_TRIES && err == -EAGAIN; i++) {
		if (i % READ_NAP_EVERY == READ_NAP_EVERY - 1)
			(void)nanosleep(&nap, NULL);
		err = file_try(fd, pid, data, out, &finding);
	}
	(void)close(fd);
	free(data);
	if (err == -EAGAIN || !err) {
		if (!process_lives(&out->header)) {
			(void)snprintf(why, why_bytes,
				       "its process has ended without destroying its pool");
			return -ESRCH;
		}
		if (err) {
			(void)snprintf(why, why_bytes, "its process never finishes writing it");
			return -EBUSY;
		}
	}
	return err;
}
