/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Interruption: the first SIGINT, SIGTERM or SIGHUP asks the run to stop, which it does at the next
 * point where it looks; a second one ends the program on the spot, with a line on standard error.
 * Neither leaves a partial file.
 */
#ifndef WEIR_CLI_INTERRUPT_H
#define WEIR_CLI_INTERRUPT_H

struct weir_machine;

/* Install the handlers; SIGPIPE becomes an error of writing. 0 or a negative errno. */
int interrupt_init(void);

/* The signal that asked to stop, or 0. */
int interrupt_pending(void);

/* Have the long calls of a simulated machine look, too: they fail once it is asked to stop. Before
 * anything is made on the machine. */
void interrupt_look_in(const struct weir_machine *machine);

/* Files that a second signal removes, in places 0 to INTERRUPT_PARTIALS - 1. NULL: none.
 * Borrowed until the place is set again. */
#define INTERRUPT_PARTIALS 3
void interrupt_set_partial(unsigned int place, const char *path);

#endif
