/* SPDX-License-Identifier: Apache-2.0 */
/* `weir policy`: the policies that there are, and what trying one shows. docs/policies.md */
#ifndef WEIR_CLI_POLICY_H
#define WEIR_CLI_POLICY_H

/* argv[0] is "policy". Returns the program's exit status. */
int policy_main(int argc, char **argv);

#endif
