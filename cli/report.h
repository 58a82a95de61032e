/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_CLI_REPORT_H
#define WEIR_CLI_REPORT_H

/**
 * `weir report`: a page that shows results of `weir bench`, and says what is in them.
 *
 * @param argv  Begins with the sub-command's name.
 * @return the program's exit status: 0, 2 after one line on standard error, 128 + n when stopped by
 *   signal n.
 */
int report_main(int argc, char **argv);

#endif
