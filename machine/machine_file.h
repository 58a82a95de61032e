/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Machine descriptions as files: JSON in which every constant says where it comes from. The format
 * is documented in docs/machines.md and weir-machine(5).
 *
 * Errors: each function that takes err writes one line there, without a newline and in printable
 * ASCII, that names the file, the line and the key where there is one, and what is wrong. err may
 * be NULL when err_bytes is 0; the text is cut to err_bytes. Outputs are written on success only.
 */
#ifndef WEIR_MACHINE_MACHINE_FILE_H
#define WEIR_MACHINE_MACHINE_FILE_H

#include <stddef.h>

#include "weir/machine_file.h"

/* The machine that is taken where none is named. */
#define MACHINE_DEFAULT "rtx5090"

/* The GPUs of this computer: no description. */
#define MACHINE_CUDA "cuda"

/* No larger file is read. */
#define MACHINE_FILE_BYTES_MAX ((size_t)1 << 20)

#define MACHINE_KEY_MAX 96
#define MACHINE_ABOUT_MAX 128
#define MACHINE_SOURCE_MAX 1024 /* characters */

enum machine_unit {
	MACHINE_BYTES,
	MACHINE_NS,
	MACHINE_BYTES_PER_S,
	MACHINE_PER_S, /* of whatever the key counts */
	MACHINE_TIMES, /* one over another */
	MACHINE_COUNT,
};

/* One number of a description. */
struct machine_constant {
	char path[MACHINE_KEY_MAX]; /* "device[0].hbm_bytes_per_s": the desc field of that name */
	const char *help;	    /* static: what it means, in a few words */
	enum machine_unit unit;
	double value; /* exact: the format has no whole number above 2^53 */
	enum weir_machine_origin origin;
	char *source; /* owned: where the origin can be looked up */
};

/* A description and what its file says about it. Release it with machine_file_fini(). */
struct machine_file {
	struct weir_machine_desc desc;
	char about[MACHINE_ABOUT_MAX];	   /* one line */
	char *path;			   /* owned: the file it was read from; NULL: none */
	struct machine_constant *constant; /* owned; in the order of desc */
	size_t nr_constants;
};

/**
 * Parse a description.
 *
 * @param [in]  text  JSON, bytes long; any bytes at all are survived. Need not be terminated.
 * @param [in]  file  What err calls the text.
 * @param [out] out   machine_file_fini() it.
 * @return 0, or
 *   -WEIR_EMACHINE  not JSON; an unknown, missing or doubled key; a wrong type; a value out of
 *                   range; a machine that weir_machine_check() refuses
 *   -ENOMEM
 */
int machine_parse(const char *text, size_t bytes, const char *file, struct machine_file *out,
		  char *err, size_t err_bytes) WEIR_MUST_CHECK;

/** Release what machine_parse() or machine_file_read() filled. */
void machine_file_fini(struct machine_file *machine);

/**
 * Put other kernels into a description, each with one origin and source, in place of those that it
 * has.
 *
 * @param [in] kernel  nr of them, up to WEIR_KERNELS_MAX, as weir_machine_check() accepts them.
 *                     Copied.
 * @param [in] source  Copied; 1 to 1024 characters of printable ASCII.
 * @return 0, or -ENOMEM: then nothing changed.
 */
int machine_set_kernels(struct machine_file *machine, const struct weir_kernel_rate *kernel,
			uint32_t nr, enum weir_machine_origin origin,
			const char *source) WEIR_MUST_CHECK;

/**
 * A description as the JSON that machine_parse() reads back to the same.
 * @return text, terminated, with a newline at its end; free() it. NULL: out of memory.
 */
char *machine_format(const struct machine_file *machine);

/** "measured", "published", ... Static. */
const char *machine_origin_name(enum weir_machine_origin origin);

/**
 * Find and parse a description.
 *
 * @param [in] name  With a '/' in it or ".json" at its end: the path of a file. Else the name of a
 *                   machine: NAME.json in the directories of $WEIR_MACHINE_PATH, then in weir's own
 *                   (see weir_machine_file_read()); the first that exists counts, and must bear
 *                   the name.
 * @return 0; -ENOENT (no such machine or file: for a name, err lists what there is); as
 *         machine_parse(); -EFBIG; or what open() and read() say, -EISDIR and -EACCES among others.
 */
int machine_file_read(const char *name, struct machine_file *out, char *err,
		      size_t err_bytes) WEIR_MUST_CHECK;

/** As machine_file_read(), the description alone: nothing is to be released. */
int machine_file_load(const char *name, struct weir_machine_desc *out, char *err,
		      size_t err_bytes) WEIR_MUST_CHECK;

/* Names of machines, sorted. */
struct machine_names {
	char **name; /* owned */
	size_t nr;
};

/**
 * The names that machine_file_read() finds, whether the files are right or wrong.
 *
 * @param [out] out  machine_names_fini() it.
 * @return 0 or -ENOMEM. A directory that cannot be read counts as empty.
 */
int machine_file_list(struct machine_names *out) WEIR_MUST_CHECK;

void machine_names_fini(struct machine_names *names);

/** Write "WHAT: WHY" to err, in printable ASCII. */
void machine_say(char *err, size_t err_bytes, const char *what, const char *why);

#endif
