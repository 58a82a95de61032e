/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was observed of kernels: `weir run --learn` writes it to a file, and --kernels reads it. A
 * text with one line for each kernel, code of it and set of places where its launches had pointers;
 * docs/dropin.md has the format. Knows neither CUDA nor a program's memory. Threads: the caller's
 * lock; files: what several processes add at once is all kept.
 */
#ifndef WEIR_SHIM_KERNEL_FILE_H
#define WEIR_SHIM_KERNEL_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KERNEL_WHY_BYTES 128u
#define KERNEL_NAME_BYTES 8192u

/* In the order of what is known: a line that changes takes a later one. */
enum kernel_state {
	KERNEL_CLOSED, /* launches used nothing but what their parameters name */
	KERNEL_OPEN,   /* one used more */
	KERNEL_WAITS,  /* the same, and it cannot be waited for: it waits for later work */
	KERNEL_STATES,
};

struct kernel_line {
	enum kernel_state state;
	bool changed;		    /* what kernel_file_update() is to write */
	uint64_t code;		    /* see code.h */
	uint64_t places;	    /* infer_uses.places_hash of its launches */
	uint64_t nr_launches;	    /* KERNEL_CLOSED: that were observed; as read from a file */
	uint64_t nr_seen;	    /* the same, since */
	char why[KERNEL_WHY_BYTES]; /* else: why it is */
	char *name;
};

/* Zeroed: without lines. */
struct kernel_file {
	struct kernel_line **line;
	uint32_t nr, max;
	uint32_t *slot; /* of a hash table: the line's number plus 1; 0: empty */
	uint32_t nr_slots;
};

/*
 * Add the lines of a file.
 *
 * @param [in,out] file  Zeroed.
 * @param [out] err      One line on what is wrong with the file, cut to err_bytes: on errors alone.
 * @return 0; or with err and no line:
 *   -ENOENT  there is no such file
 *   -EINVAL  it is no regular file, or not as described
 *   another negative errno: of reading it, or for lack of memory
 */
int kernel_file_read(struct kernel_file *file, const char *path, char *err, size_t err_bytes);

/* Whether a kernel of this name can have a line: it has no control characters, is not empty, and
 * shorter than KERNEL_NAME_BYTES. */
bool kernel_name_is_good(const char *name);

/* The same of the reason of one that is not closed, and KERNEL_WHY_BYTES. */
bool kernel_why_is_good(const char *why);

/* NULL: there is none. */
struct kernel_line *kernel_file_find(const struct kernel_file *file, const char *name,
				     uint64_t code, uint64_t places);

/* The same, added at first: closed, without a launch. name: a good one. NULL: no memory. */
struct kernel_line *kernel_file_add(struct kernel_file *file, const char *name, uint64_t code,
				    uint64_t places);

/* The number of a kernel's lines that are not closed, for whatever places. */
uint32_t kernel_file_nr_open(const struct kernel_file *file, const char *name, uint64_t code);

/*
 * Bring a file up to date: its lines stay, those that changed here are added or, where more is
 * known now, take their place; launches that were seen count. It is replaced at once, by a whole
 * one, or stays as it was. Where path is a link, what it leads to is.
 *
 * @param [out] err  As above; on success its contents are undefined.
 * @return 0 or as kernel_file_read(), but that a file which is not there is made.
 */
int kernel_file_update(const struct kernel_file *changed, const char *path, char *err,
		       size_t err_bytes);

/*
 * Remove what processes left beside a file that were killed while they brought it up to date: parts
 * of it, as kernel_file_update() names them, of the same user's processes that are gone. Nothing
 * happens where the file system has no locks.
 */
void kernel_file_clean(const char *path);

void kernel_file_fini(struct kernel_file *file);

#endif
