/* SPDX-License-Identifier: Apache-2.0 */
/* Other GPUs' memories for `weir bench`; see bench_near.h. */
#include "cli/bench_near.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/bench_check.h"
#include "cli/size.h"
#include "src/cost/cost.h"

/* The least of a memory that a space takes, see weir_space_create(). */
static uint64_t least_bytes(const struct bench_params *p)
{
	return 2 * (p->block_bytes ? p->block_bytes : p->machine.vmm.granularity_bytes);
}

static uint32_t own_memory(const struct bench_params *p)
{
	return p->machine.device[p->device].memory;
}

/* ------------------------------------------------------------------ which memory */

static int refuse_unknown(const struct bench_reader *r, const struct bench_params *p)
{
	char what[BENCH_WHY_BYTES];
	size_t used = (size_t)snprintf(what, sizeof(what), "no such memory; choose from");

	for (uint32_t m = 0; m < p->machine.nr_memories && used < sizeof(what); m++)
		if (m != own_memory(p) && p->machine.memory[m].kind == WEIR_MEMORY_HBM)
			used += (size_t)snprintf(what + used, sizeof(what) - used, " %s",
						 p->machine.memory[m].name);
	return bench_refuse(r, BENCH_NEAR, what);
}

/* Whether blocks can move between it and the other memories that were named, and the device's. */
static int check_links(const struct bench_reader *r, const struct bench_params *p, uint32_t memory)
{
	char what[96 + 2 * WEIR_NAME_MAX];

	for (uint32_t m = 0; m < p->machine.nr_memories; m++) {
		bool used = m == own_memory(p) || p->near.bytes[m] || p->near.fraction[m] > 0;

		if (!used || cost_link_find(&p->machine, memory, m) >= 0)
			continue;
		snprintf(what, sizeof(what), "there is no link between %s and %s; leave it out",
			 p->machine.memory[memory].name, p->machine.memory[m].name);
		return bench_refuse(r, BENCH_NEAR, what);
	}
	return 0;
}

/* The memory of a name of so many bytes. */
static int read_memory(const struct bench_reader *r, const struct bench_params *p, size_t length,
		       uint32_t *out)
{
	const struct weir_memory_desc *memory = p->machine.memory;
	const char *name = r->values[BENCH_NEAR].text;
	uint32_t m = 0;

	while (m < p->machine.nr_memories &&
	       (strlen(memory[m].name) != length || strncmp(memory[m].name, name, length) != 0))
		m++;
	if (m == p->machine.nr_memories)
		return refuse_unknown(r, p);
	if (m == own_memory(p))
		return bench_refuse(r, BENCH_NEAR,
				    "is the device's own memory, which --gpu-budget is for; name "
				    "another GPU's");
	if (memory[m].kind != WEIR_MEMORY_HBM)
		return bench_refuse(r, BENCH_NEAR,
				    "is the host's memory, which --host-budget is for; name "
				    "another GPU's");
	if (p->near.bytes[m] || p->near.fraction[m] > 0)
		return bench_refuse(r, BENCH_NEAR, "names a memory twice; keep one");
	*out = m;
	return check_links(r, p, m);
}

/* ------------------------------------------------------------------ how much of it */

static int read_bytes(const struct bench_reader *r, struct bench_params *p, uint32_t m)
{
	const struct weir_memory_desc *memory = &p->machine.memory[m];
	const char *taken = bench_taken(r, memory->name);
	char what[160 + BENCH_WHY_BYTES], has[SIZE_TEXT_BYTES];
	uint64_t bytes;
	int err = bench_read_bytes(r, BENCH_NEAR, &bytes);

	if (err)
		return err;
	if (bytes > memory->bytes) {
		snprintf(what, sizeof(what),
			 "beyond what is free of memory '%s', %s (%" PRIu64
			 " bytes); choose less%s%s",
			 memory->name, size_format(memory->bytes, has, sizeof(has)), memory->bytes,
			 taken[0] ? "; " : "", taken);
		return bench_refuse(r, BENCH_NEAR, what);
	}
	if (bytes < least_bytes(p)) {
		snprintf(what, sizeof(what), "below two blocks; choose at least %" PRIu64 " bytes",
			 least_bytes(p));
		return bench_refuse(r, BENCH_NEAR, what);
	}
	p->near.bytes[m] = bytes;
	return 0;
}

/* "gpu1:100GB" or "gpu1:50%". */
static int read_item(struct bench_reader *r, unsigned int nr, void *arg)
{
	struct option_value *value = &r->values[BENCH_NEAR];
	struct bench_params *p = arg;
	const char *item = value->text, *colon = strchr(item, ':');
	uint32_t memory = 0;
	int err;

	(void)nr;
	if (!colon || colon == item || !colon[1])
		return bench_refuse(r, BENCH_NEAR,
				    "not a memory and how much of it; write for example "
				    "gpu1:100GB");
	err = read_memory(r, p, (size_t)(colon - item), &memory);
	if (err)
		return err;
	value->text = colon + 1;
	if (value->text[strlen(value->text) - 1] == '%')
		err = bench_read_percent(r, BENCH_NEAR, BENCH_BUDGET_PERCENT_MAX,
					 &p->near.fraction[memory]);
	else
		err = read_bytes(r, p, memory);
	value->text = item;
	return err;
}

/* ------------------------------------------------------------------ the options */

static int read_rate(const struct bench_reader *r, struct bench_params *p)
{
	const char *text = r->values[BENCH_NEAR_RATE].text;
	const size_t length = strlen(text);
	char size[SIZE_TEXT_BYTES];
	uint64_t bytes = 0;
	int err = -EINVAL;

	if (length > 2 && length < sizeof(size) && strcmp(text + length - 2, "/s") == 0) {
		snprintf(size, sizeof(size), "%.*s", (int)(length - 2), text);
		err = size_parse(size, &bytes);
	}
	if (err || !bytes)
		return bench_refuse(r, BENCH_NEAR_RATE,
				    err ? "not a rate; write for example 150GB/s"
					: "moves nothing; choose more, or leave --near out");
	p->near.bytes_per_s = (double)bytes;
	return 0;
}

/* Whether there is somebody to use what is named, and something for whoever asks for it. */
static int check_managers(const struct bench_reader *r, const struct bench_params *p)
{
	const bool given = r->values[BENCH_NEAR].text != NULL;
	const char *near = NULL;

	for (unsigned int i = 0; i < p->nr_managers && !near; i++)
		near = manager_is_near(p->manager[i]) ? p->manager[i] : NULL;
	if (given && !near)
		return bench_refuse(r, BENCH_NEAR,
				    "is for managers whose names end in +near, as weir+near, and "
				    "for weir+near-copy; add one of them to --manager");
	if (given && p->machine.nr_devices < 2) {
		snprintf(r->err, r->err_bytes,
			 "--near '%s': machine '%s' has one GPU, which has no neighbour; choose "
			 "another --machine, or leave the option out",
			 r->values[BENCH_NEAR].text, p->machine.name);
		return -EINVAL;
	}
	if (near && !given) {
		snprintf(r->err, r->err_bytes,
			 "manager '%s' uses other GPUs' memories: name them with --near, for "
			 "example gpu1:10GB",
			 near);
		return -EINVAL;
	}
	for (unsigned int i = 0; i < p->nr_managers && !p->real_gpu; i++)
		if (bench_manager_find(p->manager[i]) == &manager_uvm &&
		    manager_is_near(p->manager[i]))
			return bench_refuse(r, BENCH_MANAGER,
					    "simulated managed memory is between one GPU and the "
					    "host: uvm+near is for --machine cuda");
	if (r->values[BENCH_NEAR_RATE].text && !given)
		return bench_refuse(r, BENCH_NEAR_RATE, "is for --near; give both");
	return 0;
}

int bench_read_near(struct bench_reader *r, struct bench_params *p)
{
	unsigned int nr = 0;
	int err = check_managers(r, p);

	if (err || !r->values[BENCH_NEAR].text)
		return err;
	err = bench_read_list(r, BENCH_NEAR, WEIR_MEMORIES_MAX, read_item, p, &nr);
	if (!err && r->values[BENCH_NEAR_RATE].text)
		err = read_rate(r, p);
	p->near.given = true;
	return err;
}

/* ------------------------------------------------------------------ once the work is known */

void bench_near_bytes(const struct bench_params *p, uint64_t needs_bytes,
		      uint64_t near_bytes[WEIR_MEMORIES_MAX])
{
	for (uint32_t m = 0; m < WEIR_MEMORIES_MAX; m++) {
		const double fraction = p->near.fraction[m];
		const bool open = fraction > 0 || (p->near.bytes[m] && p->gpu_budget_fraction > 0);

		near_bytes[m] = p->near.bytes[m];
		if (!needs_bytes && open)
			near_bytes[m] = p->machine.memory[m].bytes;
		else if (fraction > 0)
			near_bytes[m] = (uint64_t)((double)needs_bytes * fraction);
	}
}

/* A percentage is of something that was not known before. */
static int check_shares(const struct bench_params *p, const uint64_t *near_bytes, char *err,
			size_t err_bytes)
{
	for (uint32_t m = 0; m < p->machine.nr_memories; m++) {
		const struct weir_memory_desc *memory = &p->machine.memory[m];
		bool few = near_bytes[m] < least_bytes(p);
		char asked[SIZE_TEXT_BYTES], limit[SIZE_TEXT_BYTES];

		if (!(p->near.fraction[m] > 0) || (!few && near_bytes[m] <= memory->bytes))
			continue;
		snprintf(err, err_bytes, "--near '%s:%.6g%%' is %s, %s, %s; choose %s",
			 memory->name, p->near.fraction[m] * 100,
			 size_format(near_bytes[m], asked, sizeof(asked)),
			 few ? "below two blocks" : "beyond what is free there",
			 size_format(few ? least_bytes(p) : memory->bytes, limit, sizeof(limit)),
			 few ? "more" : "less");
		return -EINVAL;
	}
	return 0;
}

int bench_near_check(const struct bench_params *p, uint64_t needs_bytes, uint64_t gpu_budget_bytes,
		     char *err, size_t err_bytes)
{
	struct bench_params one = *p;
	int rc;

	if (!p->near.given)
		return 0;
	bench_near_bytes(p, needs_bytes, one.near.bytes);
	rc = check_shares(p, one.near.bytes, err, err_bytes);
	if (rc)
		return rc;
	memset(one.near.fraction, 0, sizeof(one.near.fraction));
	one.gpu_budget_fraction = 0;
	one.gpu_budget_bytes = gpu_budget_bytes;
	return bench_check_managers(&one, err, err_bytes);
}
