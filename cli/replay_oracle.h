/* SPDX-License-Identifier: Apache-2.0 */
/* `weir replay --oracle`: what a replay copied into the device's memory, against MIN. */
#ifndef WEIR_CLI_REPLAY_ORACLE_H
#define WEIR_CLI_REPLAY_ORACLE_H

#include "cli/bench_record.h"
#include "cli/result.h"

/* One replay that is looked at. A zeroed one is of a replay that is not. */
struct replay_oracle {
	struct bench_record record;
	struct result_oracle min;
	bool known; /* min is */
};

/* Wrap a manager that is new, so that its launches are recorded. -ENOMEM. */
int replay_oracle_begin(struct replay_oracle *o, struct manager **manager);

/* For struct replay_params. */
int replay_oracle_counting(void *arg, bool begin);

/* Of a replay that got through with nr epochs that count. The configuration is the manager's; err
 * has a line where there is something to say. @return 0, also where there is no least number; or a
 * negative errno. */
int replay_oracle_end(struct replay_oracle *o, const struct weir_machine_desc *machine,
		      const struct manager_config *config, const char *manager, uint32_t nr,
		      char *err, size_t err_bytes);

void replay_oracle_fini(struct replay_oracle *o);

#endif
