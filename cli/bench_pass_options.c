/* SPDX-License-Identifier: Apache-2.0 */
/* Options of workloads that make passes over memory; see bench_pass_options.h. */
#include "cli/bench_pass_options.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/bench_check.h"
#include "cli/bench_near.h"
#include "cli/bench_policy.h"
#include "cli/size.h"
#include "src/base/util.h"
#include "workloads/agents.h"

#define EPOCHS_MAX 100000u
#define WARM_UP 1u
#define ROOM_BYTES (UINT64_C(4) << 20)
#define ROOM_UNIT (UINT64_C(2) << 20)

/* ------------------------------------------------------------------ lists */

static int read_page_size(struct bench_reader *r, unsigned int nr, void *arg)
{
	struct bench_pass_params *p = arg;
	uint64_t *bytes = &p->page_bytes[nr];
	int err = bench_add_bytes(r, BENCH_PAGE_SIZE, nr, p->page_bytes);

	if (err)
		return err;
	if (*bytes == 4096 || *bytes == 8192 || *bytes == 16384 || *bytes == 65536)
		return 0;
	return bench_refuse(r, BENCH_PAGE_SIZE, "no page size; choose 4KiB, 8KiB, 16KiB or 64KiB");
}

int bench_read_budget(const struct bench_reader *r, unsigned int id, unsigned int nr,
		      struct bench_budget *budgets)
{
	struct bench_budget *budget = &budgets[nr];
	const char *text = r->values[id].text;
	int err;

	*budget = (struct bench_budget){0};
	if (text[strlen(text) - 1] == '%')
		err = bench_read_percent(r, id, BENCH_BUDGET_PERCENT_MAX, &budget->fraction);
	else
		err = bench_read_bytes(r, id, &budget->bytes);
	if (!err && !budget->bytes && !(budget->fraction > 0))
		err = bench_refuse(r, id, "no memory at all; choose at least a page");
	for (unsigned int i = 0; i < nr && !err; i++)
		if (budgets[i].bytes == budget->bytes && budgets[i].fraction == budget->fraction)
			err = bench_refuse(r, id, "listed twice; keep one");
	return err;
}

static int read_budget(struct bench_reader *r, unsigned int nr, void *arg)
{
	struct bench_pass_params *p = arg;

	return bench_read_budget(r, BENCH_GPU_BUDGET, nr, p->budget);
}

/* ------------------------------------------------------------------ single options */

static int read_shape(const struct bench_reader *r, struct bench_pass_params *p)
{
	int err = bench_read_u32(r, BENCH_BLOCKS, 0, BENCH_BLOCKS_MAX, &p->blocks);

	if (!err)
		err = bench_read_u32(r, BENCH_THREADS, 32, BENCH_BLOCK_THREADS_MAX, &p->threads);
	if (!err && p->threads % 32)
		err = bench_refuse(r, BENCH_THREADS, "no whole warps; choose a multiple of 32");
	if (!err)
		err = bench_read_u32(r, BENCH_AGENTS, 1, AGENTS_MAX, &p->agents);
	return err;
}

static int read_data(const struct bench_reader *r, struct bench_params *p)
{
	const char *text = r->values[BENCH_DATA].text;

	p->check = r->values[BENCH_CHECK].text != NULL;
	p->data = WEIR_DATA_REAL;
	if (!text)
		text = p->real_gpu ? "real" : "phantom";
	if (strcmp(text, "phantom") == 0)
		p->data = WEIR_DATA_PHANTOM;
	else if (strcmp(text, "real") != 0)
		return bench_refuse(r, BENCH_DATA, "no such kind of data; choose real or phantom");
	if (p->data == WEIR_DATA_REAL)
		return 0;
	if (p->real_gpu)
		return bench_refuse(r, BENCH_DATA, "a real GPU has real data only; choose real");
	if (p->check)
		return bench_refuse(r, BENCH_DATA, "nothing to --check in it; drop one");
	for (unsigned int i = 0; i < p->nr_managers; i++)
		if (bench_manager_find(p->manager[i])->paged_begin)
			return bench_refuse(r, BENCH_DATA,
					    "weir-paged pages real bytes only; choose real, or "
					    "leave it out of --manager");
	return 0;
}

static int refuse_host_budget(const struct bench_reader *r, uint64_t host_bytes)
{
	char what[128], has[SIZE_TEXT_BYTES];

	snprintf(what, sizeof(what),
		 "not above 0 and up to the host's memory, %s; choose so much or leave the option "
		 "out",
		 size_format(host_bytes, has, sizeof(has)));
	return bench_refuse(r, BENCH_HOST_BUDGET, what);
}

static int read_host_budget(const struct bench_reader *r, struct bench_params *p)
{
	uint64_t host = p->machine.memory[bench_host_memory(p)].bytes;
	int err = 0;

	p->host_budget_bytes = host;
	if (r->values[BENCH_HOST_BUDGET].text)
		err = bench_read_bytes(r, BENCH_HOST_BUDGET, &p->host_budget_bytes);
	if (!err && (p->host_budget_bytes > host || !p->host_budget_bytes))
		err = refuse_host_budget(r, host);
	return err;
}

int bench_pass_read(struct bench_reader *r, struct bench_pass_params *out)
{
	struct bench_params *base = &out->base;
	int err = bench_read_machine(r, base);

	if (!err)
		err = bench_read_device(r, base);
	if (!err)
		err = bench_read_managers(r, base);
	if (!err)
		err = bench_read_policies(r, base);
	if (!err)
		err = bench_read_list(r, BENCH_PAGE_SIZE, BENCH_LIST_MAX, read_page_size, out,
				      &out->nr_page_bytes);
	if (!err)
		err = read_shape(r, out);
	if (!err)
		err = read_data(r, base);
	if (!err)
		err = bench_read_list(r, BENCH_GPU_BUDGET, BENCH_LIST_MAX, read_budget, out,
				      &out->nr_budgets);
	if (!err)
		err = read_host_budget(r, base);
	if (!err)
		err = bench_read_near(r, base);
	if (!err)
		err = bench_read_seed(r, BENCH_SEED, &base->seed);
	if (!err)
		err = bench_read_u32(r, BENCH_EPOCHS, 1, EPOCHS_MAX, &base->epochs);
	base->warm_up = WARM_UP;
	out->warm = r->values[BENCH_WARM].text != NULL;
	base->json = r->values[BENCH_JSON].text;
	bench_read_explain(r, base);
	return err;
}

/* ------------------------------------------------------------------ budgets */

uint64_t bench_pass_budget(const struct bench_budget *budget, uint64_t bytes, uint64_t page_bytes)
{
	uint64_t most = budget->bytes;

	if (budget->fraction > 0)
		most = (uint64_t)((double)bytes * budget->fraction);
	return most - most % page_bytes;
}

/* Of several devices, the least. */
static uint64_t device_bytes(const struct bench_params *p)
{
	uint64_t bytes = p->machine.memory[p->machine.device[p->device].memory].bytes;

	for (uint32_t d = p->device + 1; d < p->device + p->nr_devices; d++)
		bytes = MIN(bytes, p->machine.memory[p->machine.device[d].memory].bytes);
	return bytes;
}

static uint64_t whole_units(uint64_t bytes)
{
	return round_up(bytes, ROOM_UNIT);
}

uint64_t bench_pass_room(const struct bench_params *p, uint64_t budget_bytes)
{
	uint64_t room = whole_units(budget_bytes) + ROOM_BYTES;

	return room < device_bytes(p) ? room : 0;
}

int bench_pass_check_budgets(const struct bench_pass_params *p, const char *what, uint64_t bytes,
			     uint64_t page_bytes, uint64_t *least, char *err, size_t err_bytes)
{
	char managed[SIZE_TEXT_BYTES], frames[SIZE_TEXT_BYTES], page[SIZE_TEXT_BYTES];
	char has[SIZE_TEXT_BYTES];

	size_format(bytes, managed, sizeof(managed));
	for (unsigned int i = 0; i < p->nr_budgets; i++) {
		uint64_t budget = bench_pass_budget(&p->budget[i], bytes, page_bytes);

		*least = budget < *least ? budget : *least;
		if (budget && budget <= device_bytes(&p->base)) {
			int rc = bench_near_check(
				&p->base, bytes, bench_pass_room(&p->base, budget), err, err_bytes);

			if (rc)
				return rc;
			continue;
		}
		size_format(budget, frames, sizeof(frames));
		snprintf(err, err_bytes,
			 "--gpu-budget: %s for %s of %s: choose at least a page, %s, and no more "
			 "than the device's memory, %s",
			 frames, what, managed, size_format(page_bytes, page, sizeof(page)),
			 size_format(device_bytes(&p->base), has, sizeof(has)));
		return -EINVAL;
	}
	return 0;
}

int bench_pass_check_order(const struct bench_pass_params *p, const char *what, uint64_t bytes,
			   uint64_t budget_bytes, char *err, size_t err_bytes)
{
	char managed[SIZE_TEXT_BYTES], room[SIZE_TEXT_BYTES];
	bool uvm = false;

	for (unsigned int i = 0; i < p->base.nr_managers; i++)
		uvm |= bench_manager_find(p->base.manager[i]) == &manager_uvm;
	if (!uvm || p->base.real_gpu || whole_units(budget_bytes) >= bytes)
		return 0;
	snprintf(err, err_bytes,
		 "--manager: simulating uvm out of order with %s of %s in %s takes too long; leave "
		 "it out, or choose a larger --gpu-budget",
		 what, size_format(bytes, managed, sizeof(managed)),
		 size_format(budget_bytes, room, sizeof(room)));
	return -EINVAL;
}

int bench_pass_check_managers(const struct bench_pass_params *p, uint64_t least, char *err,
			      size_t err_bytes)
{
	struct bench_params one = p->base;

	one.gpu_budget_bytes = bench_pass_room(&p->base, least);
	return bench_check_managers(&one, err, err_bytes);
}
