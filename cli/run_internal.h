/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of `weir run`. Each function that fails prints one line and returns COMMAND_EXIT_BAD. */
#ifndef WEIR_CLI_RUN_INTERNAL_H
#define WEIR_CLI_RUN_INTERNAL_H

#include <limits.h>

/*
 * The file that a command starts, found as execvp() does.
 *
 * @param [out] path  PATH_MAX bytes.
 */
int run_find_file(const char *command, char *path);

/* The same, if a library can be preloaded into it. */
int run_find_program(const char *command, char *path);

/* Where what the program needs is. */
struct run_files {
	char driver[PATH_MAX]; /* the CUDA driver */
	char folder[PATH_MAX]; /* holds the stub, as libcuda.so.1 and libcuda.so */
};

/* Find the driver and the drop-in library, and see to it that the stub is there. */
int run_prepare(struct run_files *files);

#endif
