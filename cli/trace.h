/* SPDX-License-Identifier: Apache-2.0 */
/* `weir trace`: what is in traces, parts of them, and other formats. docs/traces.md */
#ifndef WEIR_CLI_TRACE_H
#define WEIR_CLI_TRACE_H

/* argv[0] is "trace". Returns the program's exit status. */
int trace_main(int argc, char **argv);

#endif
