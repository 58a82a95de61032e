/* SPDX-License-Identifier: Apache-2.0 */
/* See replay_oracle.h. The record of the benchmark's runs is told of two epochs: what comes before
 * those that count, and all that do. */
#include "cli/replay_oracle.h"

#include <errno.h>

#include "cli/bench_oracle.h"

int replay_oracle_begin(struct replay_oracle *o, struct manager **manager)
{
	*o = (struct replay_oracle){.record = {.trace_wanted = true, .first_epoch = 1}};
	return bench_record_manager(&o->record, manager);
}

int replay_oracle_counting(void *arg, bool begin)
{
	struct replay_oracle *o = arg;

	return bench_record_progress(&o->record, begin ? 1 : 2, 2);
}

int replay_oracle_end(struct replay_oracle *o, const struct weir_machine_desc *machine,
		      const struct manager_config *config, const char *manager, uint32_t nr,
		      char *err, size_t err_bytes)
{
	const struct bench_run run = {
		.machine = machine,
		.manager = manager,
		.config = *config,
		.epochs = nr + 1,
		.record = &o->record,
	};
	int rc;

	if (!o->record.trace || !o->record.trace->block_bytes)
		return 0;
	/* The run is a result all the same: the caller says what there is no comparison for. */
	rc = bench_oracle(&run, &o->min, err, err_bytes);
	o->known = !rc;
	return rc == -EINVAL || rc == -ENOMEM ? rc : 0;
}

void replay_oracle_fini(struct replay_oracle *o)
{
	bench_record_fini(&o->record);
}
