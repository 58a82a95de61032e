/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that no output of the same command may replace: its inputs, and its other outputs. They are
 * known by device and inode, so that another spelling, a link or standard input makes no
 * difference. Files that are not regular (pipes, terminals, /dev/null) have nothing to lose and are
 * not kept. For one thread.
 */
#ifndef WEIR_CLI_KEPT_H
#define WEIR_CLI_KEPT_H

#include <sys/stat.h>

enum kept_as { KEPT_NOT, KEPT_INPUT, KEPT_OUTPUT, KEPT_UNKNOWN };

/* Keep an input that is open, or by its name ("-": standard input). One that is not there is not
 * kept: whoever opens it says so. */
void kept_add_fd(int fd);
void kept_add_name(const char *name);

/* Keep an output: what is or will be under its name. */
void kept_add_output(int fd);

/* What a file is kept as. KEPT_UNKNOWN: there was no memory to keep all of them. */
enum kept_as kept_find(const struct stat *st);

#endif
