/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first error and the first warning that weir logs while somebody listens: they say where
 * something went wrong, the return value only what.
 */
#ifndef WEIR_CLI_FIRST_LOGGED_H
#define WEIR_CLI_FIRST_LOGGED_H

#include "src/base/log.h"

/* Zeroed: nothing was logged. */
struct first_logged {
	char error[LOG_MESSAGE_MAX], warning[LOG_MESSAGE_MAX];
};

/* For weir_log_set(). arg: struct first_logged *. */
void first_logged_keep(void *arg, enum weir_log_level level, const char *message);

#endif
