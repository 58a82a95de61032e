/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_CLI_INFO_H
#define WEIR_CLI_INFO_H

/**
 * `weir info`: list machine descriptions, or show one.
 *
 * @param argv  Begins with the sub-command's name.
 * @return the program's exit status: 0, or 2 after one line on standard error.
 */
int info_main(int argc, char **argv);

#endif
