/* SPDX-License-Identifier: Apache-2.0 */
/* What weir logs first; see first_logged.h. */
#include "cli/first_logged.h"

#include <stdio.h>

void first_logged_keep(void *arg, enum weir_log_level level, const char *message)
{
	struct first_logged *first = arg;

	if (level == WEIR_LOG_ERROR && !first->error[0])
		(void)snprintf(first->error, sizeof(first->error), "%s", message);
	if (level == WEIR_LOG_WARNING && !first->warning[0])
		(void)snprintf(first->warning, sizeof(first->warning), "%s", message);
}
