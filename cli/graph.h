/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_CLI_GRAPH_H
#define WEIR_CLI_GRAPH_H

/**
 * `weir graph`: make graph files, and show what is in one.
 *
 * @param argv  Begins with the sub-command's name.
 * @return the program's exit status: 0; 2 after one line on standard error; 128 + n when stopped by
 *   signal n.
 */
int graph_main(int argc, char **argv);

#endif
