/* SPDX-License-Identifier: Apache-2.0 */
/* A machine description in memory as a file's contents: what weir makes itself, to be written. */
#ifndef WEIR_MACHINE_MACHINE_MAKE_H
#define WEIR_MACHINE_MACHINE_MAKE_H

#include "machine/machine_file.h"

/**
 * Say where one constant comes from.
 *
 * @param [in]  path    "device[0].hbm_bytes_per_s".
 * @param [out] origin  Set.
 * @param [out] source  Text of 1 to 1024 characters in memory of its own; NULL: out of memory.
 *                      What is not printable ASCII is replaced.
 */
typedef void (*machine_origin_fn)(void *arg, const char *path, enum weir_machine_origin *origin,
				  char **source);

/**
 * Make a machine_file of a description.
 *
 * @param [in]  desc   Passes weir_machine_check(). Copied.
 * @param [in]  about  One line; cut to what fits, and made printable.
 * @param [out] out    machine_file_fini() it.
 * @return 0 or -ENOMEM.
 */
int machine_make(const struct weir_machine_desc *desc, const char *about, machine_origin_fn origin,
		 void *arg, struct machine_file *out) WEIR_MUST_CHECK;

#endif
