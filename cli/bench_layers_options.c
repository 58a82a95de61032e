/* SPDX-License-Identifier: Apache-2.0 */
/* The options of `weir bench layers`; see bench_layers_options.h. */
#include "cli/bench_layers_options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench_check.h"
#include "cli/size.h"
#include "src/base/util.h"
#include "workloads/touch/cuda.h"

#define WARM_UP_MAX 100000u

enum layers_option {
	RANGES = BENCH_PASS_OPTION_NR,
	RANGE_BYTES,
	ORDER,
	WRITE,
	COMPUTE,
	SPLIT,
	LAYERS_WARM_UP,
	LAYERS_NR
};

/* Those of BENCH_PASS_OPTIONS that no kernel here has, since none pages, are without help. */
static const struct option_def table[LAYERS_NR] = {
	BENCH_OPTIONS("device that runs the kernels: index or name",
		      "native,zerocopy,uvm+prefetch,weir"),
	[RANGES] = {"ranges", "N", NULL, "60", "ranges; a pass has as many launches"},
	[RANGE_BYTES] = {"range-bytes", "S", NULL, "1GiB", "of each range"},
	[ORDER] = {"order", "O,...", NULL, "cyclic",
		   "cyclic, permuted, random, skewed or moving: which range a launch uses"},
	[WRITE] = {"write", NULL, NULL, NULL, "ranges are read and written, not only read"},
	[COMPUTE] = {"compute", "X", NULL, "1",
		     "kernel's time, in times that it takes to read its range in GPU memory"},
	[SPLIT] = {"split", "N,...", NULL, "none",
		   "ranges that weir is advised to keep in GPU memory, the others on the host; "
		   "none: no advice; best: the fastest of several"},
	[BENCH_PAGE_SIZE] = {"page-size", "S", NULL, "64KiB", NULL},
	[BENCH_GPU_BUDGET] = {"gpu-budget", "S,...", "WEIR_GPU_BUDGET", "50%",
			      "GPU memory to use, or P% of all ranges"},
	[BENCH_HOST_BUDGET] = {"host-budget", "S", "WEIR_HOST_BUDGET", NULL,
			       "host memory to use (default: all)"},
	[BENCH_EPOCHS] = {"epochs", "E", "WEIR_EPOCHS", "5", "measured passes"},
	[LAYERS_WARM_UP] = {"warm-up", "N", NULL, "2", "passes before them"},
	[BENCH_WARM] = {"warm", NULL, NULL, NULL, NULL},
	[BENCH_BLOCKS] = {"blocks", "N", "WEIR_BLOCKS", "0",
			  "blocks of a launch; 0: as many as are resident"},
	[BENCH_THREADS] = {"threads", "N", "WEIR_BLOCK_THREADS", "256", "of a block"},
	[BENCH_AGENTS] = {"agents", "N", NULL, "1", NULL},
	[BENCH_SEED] = {"seed", "N", "WEIR_SEED", "2025", "of contents, orders and sizes"},
	[BENCH_DATA] = {"data", "KIND", "WEIR_DATA", NULL,
			"real or phantom (default: phantom on a simulated machine)"},
	[BENCH_CHECK] = {"check", NULL, NULL, NULL, "read the ranges back and compare them"},
	[BENCH_JSON] = {"json", "FILE", NULL, NULL, "write one JSON object a result; - is stdout"},
	[BENCH_HELP] = {"help", NULL, NULL, NULL, "show this text"},
};

/* ------------------------------------------------------------------ single options */

static int read_order(struct bench_reader *r, unsigned int nr, void *arg)
{
	struct bench_layers_params *p = arg;
	const char *text = r->values[ORDER].text;
	int order = 0;

	while (order < LAYERS_ORDER_NR &&
	       strcmp(text, layers_order_name((enum layers_order)order)) != 0)
		order++;
	if (order == LAYERS_ORDER_NR)
		return bench_refuse(
			r, ORDER,
			"no such order; choose cyclic, permuted, random, skewed or moving");
	for (unsigned int i = 0; i < nr; i++)
		if (p->order[i] == (enum layers_order)order)
			return bench_refuse(r, ORDER, "listed twice; keep one");
	p->order[nr] = (enum layers_order)order;
	return 0;
}

static int read_split(struct bench_reader *r, unsigned int nr, void *arg)
{
	struct bench_layers_params *p = arg;
	const char *text = r->values[SPLIT].text;
	uint32_t *split = &p->split[nr];
	int err = 0;

	if (strcmp(text, "none") == 0)
		*split = LAYERS_NO_SPLIT;
	else if (strcmp(text, "best") == 0)
		*split = BENCH_SPLIT_BEST;
	else
		err = bench_read_u32(r, SPLIT, 0, p->nr_ranges, split);
	for (unsigned int i = 0; i < nr && !err; i++)
		if (p->split[i] == *split)
			err = bench_refuse(r, SPLIT, "listed twice; keep one");
	return err;
}

static int read_compute(const struct bench_reader *r, double *out)
{
	const char *text = r->values[COMPUTE].text;
	char *end;

	*out = strtod(text, &end);
	if (end == text || *end || !(*out >= 1 && *out <= 1e6))
		return bench_refuse(r, COMPUTE, "no number from 1 to 1000000; choose one");
	return 0;
}

/* ------------------------------------------------------------------ cases */

struct layers_params bench_layers_case(const struct bench_layers_params *p, enum layers_order order,
				       uint32_t split)
{
	const struct bench_params *base = &p->pass.base;

	return (struct layers_params){
		.nr_ranges = p->nr_ranges,
		.range_bytes = p->range_bytes,
		.order = order,
		.write = p->write,
		.compute = p->compute,
		.seed = base->seed,
		.split = split,
		.passes = base->warm_up + base->epochs,
		.warm_up = base->warm_up,
		.check = base->check,
		.blocks = p->pass.blocks,
		.threads = p->pass.threads,
	};
}

static int check_cases(const struct bench_layers_params *p, char *err, size_t err_bytes)
{
	struct layers_params one = bench_layers_case(p, p->order[0], LAYERS_NO_SPLIT);
	uint64_t bytes = bench_layers_bytes(p), least = UINT64_MAX;
	char ranges[SIZE_TEXT_BYTES], ram[SIZE_TEXT_BYTES];
	int rc = layers_params_check(&one, err, err_bytes);

	if (!rc)
		rc = bench_pass_check_budgets(&p->pass, "ranges", bytes, LAYERS_PAGE_BYTES, &least,
					      err, err_bytes);
	if (!rc && (p->nr_orders > 1 || p->order[0] != LAYERS_CYCLIC))
		rc = bench_pass_check_order(&p->pass, "ranges", bytes, least, err, err_bytes);
	if (rc)
		return rc;
	if (p->pass.base.data == WEIR_DATA_REAL && bytes > bench_ram_bytes() / 2) {
		snprintf(err, err_bytes,
			 "--ranges: %s are more than half of this computer's memory of %s; choose "
			 "fewer, or smaller ones",
			 size_format(bytes, ranges, sizeof(ranges)),
			 size_format(bench_ram_bytes(), ram, sizeof(ram)));
		return -EINVAL;
	}
	return bench_pass_check_managers(&p->pass, least, err, err_bytes);
}

/* ------------------------------------------------------------------ all of it */

static int read_layers(struct bench_reader *r, struct bench_layers_params *p)
{
	int err = bench_read_u32(r, RANGES, 1, LAYERS_RANGES_MAX, &p->nr_ranges);

	if (!err)
		err = bench_read_bytes(r, RANGE_BYTES, &p->range_bytes);
	if (!err)
		err = bench_read_list(r, ORDER, LAYERS_ORDER_NR, read_order, p, &p->nr_orders);
	if (!err)
		err = bench_read_list(r, SPLIT, BENCH_LIST_MAX, read_split, p, &p->nr_splits);
	if (!err)
		err = read_compute(r, &p->compute);
	if (!err)
		err = bench_read_u32(r, LAYERS_WARM_UP, 0, WARM_UP_MAX, &p->pass.base.warm_up);
	p->write = r->values[WRITE].text != NULL;
	return err;
}

int bench_layers_parse(int argc, char **argv, struct bench_layers_params *out, char *err,
		       size_t err_bytes)
{
	struct option_value values[LAYERS_NR];
	struct bench_reader reader = {.defs = table,
				      .values = values,
				      .nr = LAYERS_NR,
				      .load_kernels = touch_cuda_load,
				      .err = err,
				      .err_bytes = err_bytes};
	int rc;

	memset(out, 0, sizeof(*out));
	rc = options_parse(table, LAYERS_NR, argc, argv, values, err, err_bytes);
	if (rc)
		return rc;
	snprintf(err, err_bytes, "not enough memory on this computer");
	rc = bench_set_command(&reader, "layers", NULL, 0, &out->pass.base);
	if (!rc)
		rc = bench_pass_read(&reader, &out->pass);
	if (!rc)
		rc = read_layers(&reader, out);
	if (!rc)
		rc = check_cases(out, err, err_bytes);
	if (rc)
		bench_layers_params_fini(out);
	return rc;
}

void bench_layers_params_fini(struct bench_layers_params *params)
{
	bench_params_fini(&params->pass.base);
}

void bench_layers_help(FILE *out)
{
	fputs("usage: weir bench layers [options]\n\n"
	      "Use ranges one after another, again and again, each with a temporary of another\n"
	      "size, so that nothing repeats that a plan could be made of, on this computer's GPU\n"
	      "or a simulated machine, under several ways to hold it.\n\n",
	      out);
	options_help(out, table, LAYERS_NR);
	bench_help_end(out, false);
	fputs("Exit status: 0 done (out of memory is a result), 1 a run failed or found wrong\n"
	      "bytes, 2 bad input or output, 128 + n stopped by signal n.\n",
	      out);
}
