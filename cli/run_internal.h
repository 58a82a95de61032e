/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of `weir run`. Each function that fails prints one line and returns COMMAND_EXIT_BAD. */
#ifndef WEIR_CLI_RUN_INTERNAL_H
#define WEIR_CLI_RUN_INTERNAL_H

#include <limits.h>
#include <stdbool.h>

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

/* Whether a file of kernels is as it should be (shim/kernel_file.h). learn: it may be missing, and
 * can be written then. */
int run_check_kernels(const char *path, bool learn);

/* Remove the lines of earlier runs from the file for --stats, where it is a regular one: before
 * each start of the program, whose processes add to it. */
int run_empty_stats(void);

/*
 * Run a program again and again until it ends without the fault of a kernel, each of which adds to
 * the file of kernels.
 *
 * @param [in] quiet  Say nothing but errors.
 * @return what the command is to end with: the program's status; of a signal, 128 and its number.
 */
int run_learn(const char *program, char **argv, const char *kernels, bool quiet);

#endif
