/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_CLI_BENCH_LAYERS_H
#define WEIR_CLI_BENCH_LAYERS_H

/* `weir bench layers`: argv[0] is the first option. Returns the exit status. */
int bench_layers(int argc, char **argv);

#endif
