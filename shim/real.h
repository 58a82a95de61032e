/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA driver behind the stub: opened by its path at the first call of any of its functions,
 * and never closed. Threads: all functions are safe.
 */
#ifndef WEIR_SHIM_REAL_H
#define WEIR_SHIM_REAL_H

/* A function of the driver; NULL: it has none of that name. Ends the program with one line where
 * the driver cannot be opened. */
void *real_find(const char *name);

/* The driver's path, as `weir run` found it. */
const char *real_path(void);

#endif
