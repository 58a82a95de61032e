/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptions of machines in files, for weir_machine_simulate() and weir_machine_cuda(): a library
 * of its own, libweir-machine, since it needs a JSON library where libweir needs libc alone.
 * Conventions are those of weir/weir.h; the files are described in weir-machine(5).
 *
 *     struct weir_machine_desc desc;
 *     char why[256];
 *
 *     if (weir_machine_file_read("rtx5090", &desc, why, sizeof(why)))
 *             fprintf(stderr, "%s\n", why);
 */
#ifndef WEIR_MACHINE_FILE_H
#define WEIR_MACHINE_FILE_H

#include "weir/weir.h"

#ifdef __cplusplus
extern "C" {
#endif

/** How a number of a description came to be known. */
enum weir_machine_origin {
	WEIR_ORIGIN_MEASURED,  /**< by a run on such a machine */
	WEIR_ORIGIN_PUBLISHED, /**< in a paper or report, by others' runs */
	WEIR_ORIGIN_VENDOR,    /**< the maker's figure */
	WEIR_ORIGIN_FITTED,    /**< computed so that a model meets measured or published times */
	WEIR_ORIGIN_ASSUMED,   /**< taken from something similar, or a plain guess */
	WEIR_ORIGIN_NR
};

/** What a file says about a description besides its numbers. */
struct weir_machine_note {
	const char *about;		 /**< 1 to 127 characters of printable ASCII */
	enum weir_machine_origin origin; /**< of every number */
	const char *source; /**< where that can be looked up: 1 to 1024 such characters */
};

/**
 * Find and read a description.
 *
 * A name is looked up as NAME.json in the folders of the environment variable WEIR_MACHINE_PATH,
 * which colons separate; then where weir's own descriptions were installed, found from where this
 * library lies (from where the program lies, if the library is linked into it); then in a folder
 * `machines` beside it; then in the folder that they were installed to when this library was built.
 *
 * @param [in]  name       With a '/' in it, or ".json" at its end: the path of a file. Else the
 *                         name of a machine.
 * @param [out] desc       Passes weir_machine_check().
 * @param [out] why        Written on error only: one line of printable ASCII that names the file,
 *                         the line and the key where there are such, and what is wrong; cut to
 *                         why_bytes. May be NULL.
 * @param [in]  why_bytes  Size of why.
 * @return 0, or
 *   -EINVAL         no name, or nowhere to write the description
 *   -ENOENT         no such machine or file: for a machine, why lists those that there are
 *   -WEIR_EMACHINE  the file is not JSON, or not a description, or weir_machine_check() refuses it,
 *                   or it was found by another name than its own
 *   -EFBIG          it is larger than 1 MiB
 *   -ENOMEM
 *   or what open() and read() say, -EACCES and -EISDIR among others.
 * Threads: safe. Blocks: for the file.
 */
WEIR_API WEIR_MUST_CHECK int weir_machine_file_read(const char *name,
						    struct weir_machine_desc *desc, char *why,
						    size_t why_bytes);

/**
 * Write a description to a file, which weir_machine_file_read() reads back to the same. The file
 * appears whole, or stays as it was.
 *
 * @param [in]  path       Where. A file that is there is replaced. For it to be found by a name, it
 *                         is called that name with ".json" behind it.
 * @param [in]  desc       Passes weir_machine_check(); names have letters, digits, '-', '_' and '.'
 *                         alone, and whole numbers are up to 2^53. Copied.
 * @param [in]  note       Copied.
 * @param [out] why        As in weir_machine_file_read().
 * @param [in]  why_bytes  Size of why.
 * @return 0, or
 *   -EINVAL         no path, description or note, or a note whose texts or origin are not such
 *   -WEIR_EMACHINE  the description could not be read back
 *   -ENOMEM
 *   or what open(), write() and rename() say.
 * Threads: safe, but for two that write to one path. Blocks: for the file.
 */
WEIR_API WEIR_MUST_CHECK int weir_machine_file_write(const char *path,
						     const struct weir_machine_desc *desc,
						     const struct weir_machine_note *note,
						     char *why, size_t why_bytes);

#ifdef __cplusplus
}
#endif
#endif
