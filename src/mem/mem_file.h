/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file in which a pool says what is in it, for `weir info --memory`: DIR/memory-PID-N, where
 * DIR is $XDG_RUNTIME_DIR/weir, or /tmp/weir-UID, and is the user's alone (0700). The pool writes
 * it in its own calls, with pwrite: no thread serves it, and nobody can make a write fault by
 * cutting it. Numbers are in the computer's own byte order.
 *
 * A writer makes `seq` odd, writes, and makes it even (a sequence lock; Lameter, "Effective
 * synchronization on Linux/NUMA systems", 2005). A reader reads the file up to `nr_top`, and reads
 * it again unless `seq` was even and is still the same; the writer never waits for it. It trusts
 * nothing that it reads.
 */
#ifndef WEIR_MEM_MEM_FILE_H
#define WEIR_MEM_MEM_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "weir/weir.h"

#define MEM_FILE_MAGIC "weirmem"
#define MEM_FILE_VERSION 2u
#define MEM_FILE_RECORDS 1024u
#define MEM_FILE_OWNER 32u
#define MEM_FILE_SOURCE 64u
#define MEM_FILE_PREFIX "memory-"

struct mem_file_memory {
	char name[WEIR_NAME_MAX];
	uint64_t nr_objects, object_bytes, held_bytes;
};

struct mem_file_header {
	char magic[8];
	uint32_t version, header_bytes, record_bytes, nr_records;
	uint64_t seq;
	int64_t pid;
	uint64_t start_ticks; /* of the process, since boot: numbers of processes come again */
	uint64_t updated_ns;  /* CLOCK_MONOTONIC, as are all times here */
	uint64_t nr_unlisted; /* live objects for which there was no record */
	uint64_t nr_top;      /* records from there on are empty */
	uint32_t nr_memories, nr_devices;
	char pool[MEM_FILE_OWNER];
	struct mem_file_memory memory[WEIR_MEMORIES_MAX];
	char device[WEIR_DEVICES_MAX][WEIR_NAME_MAX];
	uint64_t dma_bytes[WEIR_DEVICES_MAX];
};

/* An object; bytes 0: none. */
struct mem_file_record {
	uint64_t bytes, physical_bytes, page_bytes, created_ns;
	uint64_t users, engines; /* masks of weir.h */
	uint32_t memory, line, choice, unused;
	char owner[MEM_FILE_OWNER];
	char source[MEM_FILE_SOURCE];
};

/* The whole file. */
struct mem_file {
	struct mem_file_header header;
	struct mem_file_record record[MEM_FILE_RECORDS];
};

/* ------------------------------------------------------------------ both sides */

/*
 * The user's folder for such files, open; made if it is not there.
 * @return a descriptor, or a negative error: -EPERM (not the user's alone), and what the system
 *         says. why: in words; path: of the folder.
 */
int mem_file_dir(bool make, char *path, size_t path_bytes, char *why, size_t why_bytes);

/* Of a process, in ticks since boot; 0: there is no such process. */
uint64_t mem_file_start_ticks(pid_t pid);

/* ------------------------------------------------------------------ reading */

/*
 * Check what was read (the header and nr_top records, or more), and make it safe to print: text
 * ends, and has printing characters alone. pid: the process that it is to be of.
 * @return 0; -EAGAIN (it was being written); -EINVAL, with what is wrong in why
 */
int mem_file_parse(const void *data, size_t bytes, pid_t pid, struct mem_file *out, char *why,
		   size_t why_bytes);

/*
 * Read one file of the folder; tries again while it is being written.
 * @return 0, or a negative error, with its reason in why: -EPERM (not the user's), -EINVAL, -EBUSY
 *         (its writer never finished), -ESRCH (its process has ended), or what the system says
 */
int mem_file_read(int dir, const char *name, pid_t pid, struct mem_file *out, char *why,
		  size_t why_bytes);

#endif
