/* SPDX-License-Identifier: Apache-2.0 */
/* `weir replay`: what a trace's calls would take under other managers, budgets and machines. */
#ifndef WEIR_CLI_REPLAY_H
#define WEIR_CLI_REPLAY_H

/* argv[0] is "replay". Returns the program's exit status. */
int replay_main(int argc, char **argv);

#endif
