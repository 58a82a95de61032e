/* SPDX-License-Identifier: Apache-2.0 */
/* The options of `weir bench pagein` and `weir bench gups`; see bench_touch_options.h. */
#include "cli/bench_touch_options.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench_check.h"
#include "cli/size.h"
#include "src/base/util.h"
#include "workloads/touch/cuda.h"

#define BYTES_GPU (UINT64_C(2) << 30)
#define BYTES_SIMULATED (UINT64_C(16) << 20)
#define UPDATES_A_WORD 4u
#define UPDATES_PRESET_MAX (UINT64_C(1) << 26) /* a second or two, one by one over a link */

enum touch_option { BYTES = BENCH_PASS_OPTION_NR, SHARED_NR };
enum pagein_option { PATTERN = SHARED_NR, ACCESS, TOUCH, ELEMENTS, PAGEIN_NR };
enum gups_option { UPDATES = SHARED_NR, GUPS_NR };

_Static_assert((int)GUPS_NR <= (int)PAGEIN_NR, "values of either fit");

#define SHARED_OPTIONS(blocks, threads)                                                    \
	BENCH_PASS_OPTIONS("native,zerocopy,uvm,weir-paged", "the table", "64KiB", blocks, \
			   threads, "2025", "of contents and updates",                     \
			   "read the table back and compare it"),                          \
		[BYTES] = {"bytes", "S,...", "WEIR_BYTES", NULL,                           \
			   "sizes of the table (default: 2GiB on a GPU, 16MiB simulated)"}

static const struct option_def pagein_table[PAGEIN_NR] = {
	SHARED_OPTIONS("16", "1024"),
	[PATTERN] = {"pattern", "P,...", "WEIR_PATTERN", "stream", "stream, random or strided"},
	[ACCESS] = {"access", "A", "WEIR_ACCESS", "read",
		    "read, write (every word overwritten) or both"},
	[TOUCH] = {"touch", "P%", "WEIR_TOUCH", "100%",
		   "of the pages in a pass, the first of the pattern; others: read only"},
	[ELEMENTS] = {"elements", NULL, NULL, NULL, "access word by word, not page by page"},
};

static const struct option_def gups_table[GUPS_NR] = {
	SHARED_OPTIONS("0", "256"),
	[UPDATES] = {"updates", "N", "WEIR_UPDATES", NULL,
		     "random additions a pass (default: 4 a word, at most 67108864)"},
};

/* ------------------------------------------------------------------ single options */

static int read_size(struct bench_reader *r, unsigned int nr, void *arg)
{
	struct bench_touch_params *p = arg;

	return bench_add_bytes(r, BYTES, nr, p->bytes);
}

static int read_pattern(struct bench_reader *r, unsigned int nr, void *arg)
{
	struct bench_touch_params *p = arg;

	for (int i = 0; i < TOUCH_PATTERN_NR; i++) {
		if (strcmp(r->values[PATTERN].text, touch_pattern_name((enum touch_pattern)i)))
			continue;
		for (unsigned int k = 0; k < nr; k++)
			if (p->pattern[k] == (enum touch_pattern)i)
				return bench_refuse(r, PATTERN, "listed twice; keep one");
		p->pattern[nr] = (enum touch_pattern)i;
		return 0;
	}
	return bench_refuse(r, PATTERN, "no such pattern; choose stream, random or strided");
}

static int read_access(const struct bench_reader *r, struct bench_touch_params *p)
{
	for (int i = 0; i < TOUCH_ACCESS_NR; i++) {
		if (strcmp(r->values[ACCESS].text, touch_access_name((enum touch_access)i)) == 0) {
			p->access = (enum touch_access)i;
			return 0;
		}
	}
	return bench_refuse(r, ACCESS, "no such access; choose read, write or both");
}

/* ------------------------------------------------------------------ cases */

struct touch_params bench_touch_case(const struct bench_touch_params *p, uint64_t bytes,
				     uint64_t page_bytes, enum touch_pattern pattern)
{
	const struct bench_params *base = &p->pass.base;
	uint64_t updates = bytes / sizeof(uint64_t) * UPDATES_A_WORD;
	const uint64_t nr_pages = bytes / page_bytes;
	double pages = p->touch_fraction < 1 ? p->touch_fraction * (double)nr_pages : 0;

	if (updates > UPDATES_PRESET_MAX)
		updates = UPDATES_PRESET_MAX;
	if (pages > 0 && pages < 1)
		pages = 1;
	return (struct touch_params){
		.kind = p->kind,
		.pages = (uint64_t)pages,
		.bytes = bytes,
		.page_bytes = (uint32_t)page_bytes,
		.updates = p->updates ? p->updates : updates,
		.seed = base->seed,
		.passes = base->warm_up + base->epochs,
		.warm_up = base->warm_up,
		.pattern = pattern,
		.access = p->access,
		.elements = p->elements,
		.warm = p->pass.warm,
		.check = base->check,
		.shape = {.blocks = p->pass.blocks,
			  .threads = p->pass.threads,
			  .agents = p->pass.agents},
	};
}

/* The table, its copy in frames, and what is read back. least: as bench_pass_check_budgets(). */
static int check_case(const struct bench_touch_params *p, uint64_t bytes, uint64_t page_bytes,
		      uint64_t *least, char *err, size_t err_bytes)
{
	struct touch_params one = bench_touch_case(p, bytes, page_bytes, p->pattern[0]);
	bool in_order = p->nr_patterns == 1 && p->pattern[0] == TOUCH_STREAM;
	char table[SIZE_TEXT_BYTES], ram[SIZE_TEXT_BYTES];
	int rc = touch_params_check(&one, err, err_bytes);

	if (!rc)
		rc = bench_pass_check_budgets(&p->pass, "a table", bytes, page_bytes, least, err,
					      err_bytes);
	if (!rc && !in_order)
		rc = bench_pass_check_order(&p->pass, "a table", bytes, *least, err, err_bytes);
	if (rc)
		return rc;
	if (p->pass.base.data == WEIR_DATA_REAL && bytes > bench_ram_bytes() / 2) {
		snprintf(err, err_bytes,
			 "--bytes: a table of %s is more than half of this computer's memory of "
			 "%s; choose less",
			 size_format(bytes, table, sizeof(table)),
			 size_format(bench_ram_bytes(), ram, sizeof(ram)));
		return -EINVAL;
	}
	return 0;
}

static int check_cases(const struct bench_touch_params *p, char *err, size_t err_bytes)
{
	uint64_t least_of_all = UINT64_MAX;
	int rc = 0;

	for (unsigned int i = 0; i < p->nr_bytes; i++) {
		for (unsigned int k = 0; k < p->pass.nr_page_bytes && !rc; k++) {
			uint64_t least = UINT64_MAX;

			rc = check_case(p, p->bytes[i], p->pass.page_bytes[k], &least, err,
					err_bytes);
			least_of_all = MIN(least, least_of_all);
		}
	}
	return rc ? rc : bench_pass_check_managers(&p->pass, least_of_all, err, err_bytes);
}

/* ------------------------------------------------------------------ all of it */

static int read_table(struct bench_reader *r, struct bench_touch_params *p)
{
	int err = 0;

	p->bytes[0] = p->pass.base.real_gpu ? BYTES_GPU : BYTES_SIMULATED;
	p->nr_bytes = r->values[BYTES].text == NULL;
	if (r->values[BYTES].text)
		err = bench_read_list(r, BYTES, BENCH_LIST_MAX, read_size, p, &p->nr_bytes);
	if (!err && p->kind == TOUCH_PAGEIN) {
		p->elements = r->values[ELEMENTS].text != NULL;
		err = bench_read_list(r, PATTERN, TOUCH_PATTERN_NR, read_pattern, p,
				      &p->nr_patterns);
		if (!err)
			err = read_access(r, p);
		if (!err)
			err = bench_read_percent(r, TOUCH, 100, &p->touch_fraction);
	} else if (!err) {
		p->pattern[0] = TOUCH_RANDOM;
		p->nr_patterns = 1;
		p->access = TOUCH_BOTH;
		p->elements = true;
		if (r->values[UPDATES].text)
			err = bench_read_count(r, UPDATES, 1, TOUCH_UPDATES_MAX, &p->updates);
	}
	return err;
}

int bench_touch_parse(enum touch_kind kind, int argc, char **argv, struct bench_touch_params *out,
		      char *err, size_t err_bytes)
{
	bool gups = kind == TOUCH_GUPS;
	struct option_value values[PAGEIN_NR]; /* gups has fewer */
	struct bench_reader reader = {.defs = gups ? gups_table : pagein_table,
				      .values = values,
				      .nr = gups ? (unsigned int)GUPS_NR : (unsigned int)PAGEIN_NR,
				      .load_kernels = touch_cuda_load,
				      .pages = true,
				      .err = err,
				      .err_bytes = err_bytes};
	int rc;

	memset(out, 0, sizeof(*out));
	out->kind = kind;
	rc = options_parse(reader.defs, reader.nr, argc, argv, values, err, err_bytes);
	if (rc)
		return rc;
	snprintf(err, err_bytes, "not enough memory on this computer");
	rc = bench_set_command(&reader, gups ? "gups" : "pagein", NULL, 0, &out->pass.base);
	if (!rc)
		rc = bench_pass_read(&reader, &out->pass);
	if (!rc)
		rc = read_table(&reader, out);
	if (!rc)
		rc = check_cases(out, err, err_bytes);
	if (rc)
		bench_touch_params_fini(out);
	return rc;
}

void bench_touch_params_fini(struct bench_touch_params *params)
{
	bench_params_fini(&params->pass.base);
}

void bench_touch_help(enum touch_kind kind, FILE *out)
{
	if (kind == TOUCH_PAGEIN) {
		fputs("usage: weir bench pagein [options]\n\n"
		      "Touch every page of a table in the host's memory once a pass, on this\n"
		      "computer's GPU or a simulated machine, under several ways to hold it.\n\n",
		      out);
		options_help(out, pagein_table, PAGEIN_NR);
	} else {
		fputs("usage: weir bench gups [options]\n\n"
		      "Add to random words of a table in the host's memory, on this computer's\n"
		      "GPU or a simulated machine, under several ways to hold it.\n\n",
		      out);
		options_help(out, gups_table, GUPS_NR);
	}
	bench_help_end(out, true);
	fputs("Exit status: 0 done (out of memory is a result), 1 a run failed or found wrong\n"
	      "bytes, 2 bad input or output, 128 + n stopped by signal n.\n",
	      out);
}
