/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Interruption: the first SIGINT, SIGTERM or SIGHUP asks the run to stop, which it does at the next
 * point where it looks; a second one ends the program on the spot. Neither leaves a partial file.
 */
#ifndef WEIR_CLI_BENCH_SIGNAL_H
#define WEIR_CLI_BENCH_SIGNAL_H

/* Install the handlers; SIGPIPE becomes an error of writing. 0 or a negative errno. */
int bench_signal_init(void);

/* The signal that asked to stop, or 0. */
int bench_signal_pending(void);

/* Files that a second signal removes, in places 0 to BENCH_SIGNAL_PARTIALS - 1. NULL: none.
 * Borrowed until the place is set again. */
#define BENCH_SIGNAL_PARTIALS 3
void bench_signal_set_partial(unsigned int place, const char *path);

#endif
