/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `weir info --memory PID`: what is in the pools of a running process, from the files that it keeps
 * where WEIR_MEMORY_FILE is 1 in its environment (src/mem/mem_file.h).
 */
#ifndef WEIR_CLI_INFO_MEMORY_H
#define WEIR_CLI_INFO_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Print the pools of a process to standard output.
 * @return 0, or -1 with one line in err that says what is wrong and what can be done; nothing was
 *         printed then
 */
int info_memory(const char *pid, bool json, char *err, size_t err_bytes);

#endif
