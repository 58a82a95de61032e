/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where in a JSON text a value stands: jansson knows positions of syntax errors only, and a file
 * that is well-formed but wrong deserves a line number too.
 */
#ifndef WEIR_MACHINE_JSON_WHERE_H
#define WEIR_MACHINE_JSON_WHERE_H

#include <stddef.h>

/**
 * Find the line of the value that a path names.
 *
 * @param [in] text   JSON that a parser accepted. Of other text the answer may be wrong.
 * @param [in] path   Keys and indexes: "device[0].hbm_bytes_per_s"; "" is the whole text. A key
 *                    that contains '.', '[' or an escape is not found.
 * @return the line, counted from 1: the member's for a member of an object. 0: not found.
 */
unsigned json_where(const char *text, size_t bytes, const char *path);

#endif
