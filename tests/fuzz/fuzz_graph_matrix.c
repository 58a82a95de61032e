/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target: matrices of the Matrix Market. What is accepted must be edges between vertices
 * that are there, and become a graph file that checks; what is refused must be explained in one
 * line.
 */
#include <stdint.h>

#include "tests/fuzz/fuzz_graph_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	fuzz_graph_text(data, bytes, true);
	return 0;
}
