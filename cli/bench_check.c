/* SPDX-License-Identifier: Apache-2.0 */
/* The checks of bench_check.h. They leave nothing behind. */
#include "cli/bench_check.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/bench_near.h"
#include "cli/first_logged.h"
#include "cli/size.h"
#include "workloads/gcn/gcn.h"

/* Phantom runs take no memory, but addresses: a peak beyond this has no room for them. */
#define PEAK_BYTES_MAX (UINT64_C(8) << 40)

uint64_t bench_ram_bytes(void)
{
	const long page = sysconf(_SC_PAGESIZE), pages = sysconf(_SC_PHYS_PAGES);

	return page > 0 && pages > 0 ? (uint64_t)page * (uint64_t)pages : UINT64_MAX;
}

/* What training needs must be a number, and with real data this computer must have it. */
int bench_check_peaks(const struct bench_params *p, char *err, size_t err_bytes)
{
	const uint64_t ram = bench_ram_bytes();
	char count[SIZE_TEXT_BYTES], needs[SIZE_TEXT_BYTES], has[SIZE_TEXT_BYTES];

	for (unsigned int i = 0; i < p->nr_nodes; i++) {
		struct gcn_params gcn = {
			.nodes = p->nodes[i],
			.slice = p->slice,
			.epochs = p->epochs,
			.seed = p->seed,
			.graph_dir = p->graph_dir,
			.hidden = p->hidden,
		};
		uint64_t peak = gcn_peak_bytes(&gcn);

		count_format(p->nodes[i], count, sizeof(count));
		size_format(peak, needs, sizeof(needs));
		size_format(ram, has, sizeof(has));
		if (peak > PEAK_BYTES_MAX) {
			snprintf(err, err_bytes,
				 "%s nodes, %" PRIu32 " hidden and slices of %" PRIu64
				 " are too large to run: they need %s, and %s is the most; choose "
				 "fewer",
				 count, p->hidden, p->slice, needs,
				 size_format(PEAK_BYTES_MAX, has, sizeof(has)));
			return -EINVAL;
		}
		if (p->data == WEIR_DATA_REAL && !p->real_gpu && peak > ram) {
			snprintf(err, err_bytes,
				 "real data of %s nodes needs %s and this computer has %s; choose "
				 "--data phantom or fewer --nodes",
				 count, needs, has);
			return -EINVAL;
		}
	}
	return 0;
}

/*
 * Of managed memory the simulator walks through every fault and eviction. Seconds for a million
 * nodes and four epochs, as they were on one processor: 1 while twice the budget is enough, then
 * more and more blocks come in again and again, up to 8 where three times the budget is needed.
 */
double bench_check_uvm_s(const struct bench_params *p, uint64_t nodes, double over)
{
	double million_s = over <= 2 ? 1 : over >= 3 ? 8 : 1 + 7 * (over - 2);

	return (double)nodes / 1e6 * million_s * (p->warm_up + p->epochs) / 4;
}

/* Put into words why a manager was refused; logged: what it said itself, or "". */
static void say_refused(const char *name, int rc, const char *logged, char *err, size_t err_bytes)
{
	const char *options = strchr(name, '+');

	if (logged[0])
		snprintf(err, err_bytes, "manager '%s': %s", name, logged);
	else if (rc == -EINVAL && options)
		snprintf(err, err_bytes, "manager '%s' has no such option; write '%.*s'", name,
			 (int)(options - name), name);
	else
		snprintf(err, err_bytes,
			 "manager '%s' cannot run with this budget and block size: %s; "
			 "change --gpu-budget, --host-budget or --block-size",
			 name, weir_strerror(rc));
}

/* Create each manager once, on a machine without bytes: what it refuses, it refuses now. */
int bench_check_managers(const struct bench_params *p, char *err, size_t err_bytes)
{
	struct manager_config config = {
		.device = p->device,
		.nr_devices = p->nr_devices,
		.gpu_budget_bytes = p->gpu_budget_bytes,
		.host_budget_bytes = p->host_budget_bytes,
		.block_bytes = p->block_bytes,
		.near_bytes_per_s = p->near.bytes_per_s,
		.options = "",
	};
	struct weir_machine_desc machine = p->machine;
	int rc = 0;

	bench_near_bytes(p, 0, config.near_bytes);
	/* A real GPU has managed memory, whatever it costs; nothing runs here. */
	if (p->real_gpu)
		machine.uvm.batch_faults = 1;
	for (unsigned int i = 0; i < p->nr_managers && !rc; i++) {
		struct first_logged logged = {0};
		struct manager *manager;

		/* What pages real bytes alone has nothing to be created on. */
		if (bench_manager_find(p->manager[i])->paged_begin)
			continue;
		rc = weir_machine_simulate(&machine, WEIR_DATA_PHANTOM, &config.machine);
		if (rc) {
			snprintf(err, err_bytes, "machine '%s': %s", p->machine.name,
				 weir_strerror(rc));
			break;
		}
		weir_log_set(first_logged_keep, &logged);
		rc = manager_create(p->manager[i], &config, &manager);
		weir_log_set(NULL, NULL);
		if (rc)
			say_refused(p->manager[i], rc, logged.error, err, err_bytes);
		else
			manager->ops->destroy(manager);
		weir_machine_close(config.machine);
	}
	return rc;
}
