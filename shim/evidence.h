/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Evidence that kernels use more than what their launches name: addresses of live ranges that the
 * program copies to where kernels can read them. It is looked for where --mode fast trusts launches
 * otherwise. What kernels themselves store is not seen. Threads: all functions are safe.
 */
#ifndef WEIR_SHIM_EVIDENCE_H
#define WEIR_SHIM_EVIDENCE_H

#include <stdbool.h>

#include "shim/hooks.h"

/* Copies above this are not looked at: arrays of pointers are small. */
#define EVIDENCE_BYTES_MAX (64u << 10)

/* The program copies bytes of its own to memory of the device. The driver reads them now or later;
 * what stands there now is looked at. */
void evidence_copied(cu_ptr dst, const void *src, uint64_t bytes);

/* One of the two, where the driver tells by the address what it copies from. */
void evidence_copied_unified(cu_ptr dst, cu_ptr src, uint64_t bytes);

/* Memory is copied within the device: what holds addresses, its copy does, too. */
void evidence_copied_on(cu_ptr dst, cu_ptr src);

/* Whether the range that begins there was given addresses of others. */
bool evidence_of(cu_ptr base);

/* Whether memory that is none of weir's was, variables of modules say. */
bool evidence_elsewhere(void);

/* The range was freed. */
void evidence_forget(cu_ptr base);

#endif
