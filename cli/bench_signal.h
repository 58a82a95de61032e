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

/* The file that a second signal removes. NULL: none. Borrowed until it is set again. */
void bench_signal_set_partial(const char *path);

#endif
