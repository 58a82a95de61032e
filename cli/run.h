/* SPDX-License-Identifier: Apache-2.0 */
/* `weir run`: a CUDA program, as it is, with its GPU memory under weir. */
#ifndef WEIR_CLI_RUN_H
#define WEIR_CLI_RUN_H

/* argv[0] is the first argument. Does not return where the program starts. */
int run_main(int argc, char **argv);

#endif
