/* SPDX-License-Identifier: Apache-2.0 */
/* Who holds a GPU's memory, from NVIDIA's management library where there is one. */
#ifndef WEIR_CUDA_NVML_H
#define WEIR_CUDA_NVML_H

#include <stddef.h>

/*
 * Other processes on a GPU as text: "process 4711 (python): 30.1 GB, process 12: 1.2 GB"; empty:
 * there are none, or nobody knows. A container may hide them.
 *
 * @param [in]  library  The library's file; NULL: libnvidia-ml.so.1.
 * @param [in]  pci      The GPU's bus id, as the driver gives it.
 * @param [out] text     Always ends with 0; cut to bytes, which is > 0.
 * Threads: safe. Blocks: it asks the driver.
 */
void nvml_holders(const char *library, const char *pci, char *text, size_t bytes);

#endif
