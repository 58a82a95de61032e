/* SPDX-License-Identifier: Apache-2.0 */
/* The options of `weir bench pagein` and `weir bench gups`; see bench_touch_options.h. */
#include "cli/bench_touch_options.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/bench_check.h"
#include "cli/bench_reader.h"
#include "cli/size.h"
#include "workloads/touch/cuda.h"

#define EPOCHS_MAX 100000u
#define EPOCHS "5"
#define WARM_UP 1u
#define BYTES_GPU (UINT64_C(2) << 30)
#define BYTES_SIMULATED (UINT64_C(16) << 20)
#define UPDATES_A_WORD 4u
#define UPDATES_PRESET_MAX (UINT64_C(1) << 26) /* a second or two, one by one over a link */
#define ROOM_BYTES (UINT64_C(4) << 20)
#define ROOM_UNIT (UINT64_C(2) << 20)

enum touch_option {
	BYTES = BENCH_OPTION_NR,
	PAGE_SIZE,
	GPU_BUDGET,
	HOST_BUDGET,
	EPOCHS_OPTION,
	WARM,
	BLOCKS,
	THREADS,
	AGENTS,
	SEED,
	DATA,
	CHECK,
	JSON,
	HELP,
	SHARED_NR
};

enum pagein_option { PATTERN = SHARED_NR, ACCESS, TOUCH, ELEMENTS, PAGEIN_NR };
enum gups_option { UPDATES = SHARED_NR, GUPS_NR };

_Static_assert((int)GUPS_NR <= (int)PAGEIN_NR, "values of either fit");

#define SHARED_OPTIONS(blocks, threads)                                                        \
	BENCH_OPTIONS("device that runs the kernel: index or name",                            \
		      "native,zerocopy,uvm,weir-paged"),                                       \
		[BYTES] = {"bytes", "S,...", "WEIR_BYTES", NULL,                               \
			   "sizes of the table (default: 2GiB on a GPU, 16MiB simulated)"},    \
		[PAGE_SIZE] = {"page-size", "S,...", "WEIR_PAGE_SIZE", "64KiB",                \
			       "4KiB, 8KiB, 16KiB or 64KiB"},                                  \
		[GPU_BUDGET] = {"gpu-budget", "S", "WEIR_GPU_BUDGET", NULL,                    \
				"GPU memory for the table, or P% of it (default: all of it)"}, \
		[HOST_BUDGET] = {"host-budget", "S", "WEIR_HOST_BUDGET", NULL,                 \
				 "host memory to use (default: all)"},                         \
		[EPOCHS_OPTION] = {"epochs", "E", "WEIR_EPOCHS", EPOCHS,                       \
				   "measured passes, after one of warm-up"},                   \
		[WARM] = {"warm", NULL, NULL, NULL,                                            \
			  "keep what a pass brought to the GPU for the next"},                 \
		[BLOCKS] = {"blocks", "N", "WEIR_BLOCKS", blocks,                              \
			    "blocks of a launch; 0: as many as are resident"},                 \
		[THREADS] = {"threads", "N", "WEIR_BLOCK_THREADS", threads, "of a block"},     \
		[AGENTS] = {"agents", "N", "WEIR_AGENTS", "1",                                 \
			    "simulated: host threads that page (weir-paged)"},                 \
		[SEED] = {"seed", "N", "WEIR_SEED", "2025", "of contents and updates"},        \
		[DATA] = {"data", "KIND", "WEIR_DATA", "real", "real or phantom"},             \
		[CHECK] = {"check", NULL, NULL, NULL, "read the table back and compare it"},   \
		[JSON] = {"json", "FILE", NULL, NULL,                                          \
			  "write one JSON object a result; - is stdout"},                      \
		[HELP] = {"help", NULL, NULL, NULL, "show this text"}

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

/* ------------------------------------------------------------------ lists */

/* Read one item of a list into place nr of wherever it goes, under an option whose text it is. */
typedef int (*item_fn)(struct bench_reader *r, unsigned int nr, struct bench_touch_params *p);

static int read_list(struct bench_reader *r, unsigned int id, unsigned int most, item_fn read,
		     struct bench_touch_params *p, unsigned int *nr)
{
	char *text = strdup(r->values[id].text), *rest = text;
	struct option_value whole = r->values[id];
	int err = 0;

	if (!text)
		return -ENOMEM;
	while (rest && !err) {
		char *item = bench_next_item(&rest);

		if (!item) {
			err = bench_refuse(r, id, "an item is missing; write A,B");
			break;
		}
		r->values[id].text = item; /* so that an error names the one that is wrong */
		err = *nr == most ? bench_refuse(r, id, "too many or listed twice; keep one each")
				  : read(r, *nr, p);
		*nr += !err;
		r->values[id] = whole;
	}
	free(text);
	return err;
}

static int add_size(const struct bench_reader *r, unsigned int id, unsigned int nr, uint64_t *sizes)
{
	int err = bench_read_bytes(r, id, &sizes[nr]);

	for (unsigned int i = 0; i < nr && !err; i++)
		if (sizes[i] == sizes[nr])
			err = bench_refuse(r, id, "listed twice; keep one");
	return err;
}

static int read_size(struct bench_reader *r, unsigned int nr, struct bench_touch_params *p)
{
	return add_size(r, BYTES, nr, p->bytes);
}

static int read_page_size(struct bench_reader *r, unsigned int nr, struct bench_touch_params *p)
{
	uint64_t *bytes = &p->page_bytes[nr];
	int err = add_size(r, PAGE_SIZE, nr, p->page_bytes);

	if (err)
		return err;
	if (*bytes == 4096 || *bytes == 8192 || *bytes == 16384 || *bytes == 65536)
		return 0;
	return bench_refuse(r, PAGE_SIZE, "no page size; choose 4KiB, 8KiB, 16KiB or 64KiB");
}

static int read_pattern(struct bench_reader *r, unsigned int nr, struct bench_touch_params *p)
{
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

/* ------------------------------------------------------------------ single options */

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

static int read_u32(const struct bench_reader *r, unsigned int id, uint32_t least, uint32_t most,
		    uint32_t *out)
{
	uint64_t count;
	int err = bench_read_count(r, id, least, most, &count);

	if (!err)
		*out = (uint32_t)count;
	return err;
}

static int read_shape(const struct bench_reader *r, struct bench_touch_params *p)
{
	int err = read_u32(r, BLOCKS, 0, TOUCH_BLOCKS_MAX, &p->blocks);

	if (!err)
		err = read_u32(r, THREADS, 32, TOUCH_THREADS_MAX, &p->threads);
	if (!err && p->threads % 32)
		err = bench_refuse(r, THREADS, "no whole warps; choose a multiple of 32");
	if (!err)
		err = read_u32(r, AGENTS, 1, AGENTS_MAX, &p->agents);
	return err;
}

static int read_data(const struct bench_reader *r, struct bench_touch_params *p)
{
	struct bench_params *base = &p->base;

	base->check = r->values[CHECK].text != NULL;
	base->data = WEIR_DATA_REAL;
	if (strcmp(r->values[DATA].text, "phantom") == 0)
		base->data = WEIR_DATA_PHANTOM;
	else if (strcmp(r->values[DATA].text, "real") != 0)
		return bench_refuse(r, DATA, "no such kind of data; choose real or phantom");
	if (base->data == WEIR_DATA_REAL)
		return 0;
	if (base->real_gpu)
		return bench_refuse(r, DATA, "a real GPU has real data only; choose real");
	if (base->check)
		return bench_refuse(r, DATA, "nothing to --check in it; drop one");
	for (unsigned int i = 0; i < base->nr_managers; i++)
		if (bench_manager_find(base->manager[i])->paged_begin)
			return bench_refuse(r, DATA,
					    "weir-paged pages real bytes only; choose real, or "
					    "leave it out of --manager");
	return 0;
}

static int read_budgets(const struct bench_reader *r, struct bench_touch_params *p)
{
	const struct weir_machine_desc *machine = &p->base.machine;
	const char *gpu = r->values[GPU_BUDGET].text;
	uint64_t host = machine->memory[bench_host_memory(&p->base)].bytes;
	int err = 0;

	p->base.host_budget_bytes = host;
	if (r->values[HOST_BUDGET].text)
		err = bench_read_bytes(r, HOST_BUDGET, &p->base.host_budget_bytes);
	if (!err && (p->base.host_budget_bytes > host || !p->base.host_budget_bytes))
		err = bench_refuse(r, HOST_BUDGET,
				   "beyond the host's memory, or nothing; choose "
				   "another or leave the option out");
	if (err || !gpu)
		return err;
	if (gpu[strlen(gpu) - 1] == '%')
		return bench_read_percent(r, GPU_BUDGET, &p->base.gpu_budget_fraction);
	err = bench_read_bytes(r, GPU_BUDGET, &p->base.gpu_budget_bytes);
	if (!err && !p->base.gpu_budget_bytes)
		err = bench_refuse(r, GPU_BUDGET, "no memory at all; choose at least a page");
	return err;
}

/* ------------------------------------------------------------------ cases */

uint64_t bench_touch_budget(const struct bench_touch_params *p, uint64_t bytes, uint64_t page_bytes)
{
	uint64_t budget = p->base.gpu_budget_bytes ? p->base.gpu_budget_bytes : bytes;

	if (p->base.gpu_budget_fraction > 0)
		budget = (uint64_t)((double)bytes * p->base.gpu_budget_fraction);
	return budget - budget % page_bytes;
}

uint64_t bench_touch_room(const struct bench_touch_params *p, uint64_t budget_bytes)
{
	const struct weir_machine_desc *machine = &p->base.machine;
	uint64_t has = machine->memory[machine->device[p->base.device].memory].bytes;
	uint64_t room = (budget_bytes + ROOM_UNIT - 1) / ROOM_UNIT * ROOM_UNIT + ROOM_BYTES;

	return room < has ? room : 0;
}

struct touch_params bench_touch_case(const struct bench_touch_params *p, uint64_t bytes,
				     uint64_t page_bytes, enum touch_pattern pattern)
{
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
		.seed = p->base.seed,
		.passes = p->base.warm_up + p->base.epochs,
		.warm_up = p->base.warm_up,
		.pattern = pattern,
		.access = p->access,
		.elements = p->elements,
		.warm = p->warm,
		.check = p->base.check,
		.shape = {.blocks = p->blocks, .threads = p->threads, .agents = p->agents},
	};
}

/* Whether a case would be simulated fault by fault, each evicting a block: for minutes and more. */
static bool too_slow(const struct bench_touch_params *p, uint64_t bytes, uint64_t budget)
{
	bool in_order = p->nr_patterns == 1 && p->pattern[0] == TOUCH_STREAM;

	if (p->base.real_gpu || in_order || budget >= bytes)
		return false;
	for (unsigned int i = 0; i < p->base.nr_managers; i++)
		if (strncmp(p->base.manager[i], "uvm", 3) == 0)
			return true;
	return false;
}

/* The table, its copy in frames, and what is read back. */
static int check_case(const struct bench_touch_params *p, uint64_t bytes, uint64_t page_bytes,
		      char *err, size_t err_bytes)
{
	const long page = sysconf(_SC_PAGESIZE), pages = sysconf(_SC_PHYS_PAGES);
	const uint64_t ram = page > 0 && pages > 0 ? (uint64_t)page * (uint64_t)pages : UINT64_MAX;
	const struct weir_machine_desc *machine = &p->base.machine;
	uint64_t has = machine->memory[machine->device[p->base.device].memory].bytes;
	struct touch_params one = bench_touch_case(p, bytes, page_bytes, p->pattern[0]);
	uint64_t budget = bench_touch_budget(p, bytes, page_bytes);
	char table[SIZE_TEXT_BYTES], frames[SIZE_TEXT_BYTES];
	int rc = touch_params_check(&one, err, err_bytes);

	if (rc)
		return rc;
	size_format(bytes, table, sizeof(table));
	size_format(budget, frames, sizeof(frames));
	if (!budget || budget > has) {
		snprintf(err, err_bytes,
			 "--gpu-budget: %s for a table of %s: choose at least a page, and no more "
			 "than the device's memory",
			 frames, table);
		return -EINVAL;
	}
	if (too_slow(p, bytes, budget)) {
		snprintf(
			err, err_bytes,
			"--manager: simulating uvm out of order with a table of %s in %s takes too "
			"long; leave it out, or choose a larger --gpu-budget",
			table, frames);
		return -EINVAL;
	}
	if (p->base.data == WEIR_DATA_REAL && bytes > ram / 2) {
		snprintf(err, err_bytes,
			 "--bytes: a table of %s is more than half of this computer's memory; "
			 "choose less",
			 table);
		return -EINVAL;
	}
	return 0;
}

static int check_cases(const struct bench_touch_params *p, char *err, size_t err_bytes)
{
	int rc = 0;

	for (unsigned int i = 0; i < p->nr_bytes; i++)
		for (unsigned int k = 0; k < p->nr_page_bytes && !rc; k++)
			rc = check_case(p, p->bytes[i], p->page_bytes[k], err, err_bytes);
	return rc;
}

/* ------------------------------------------------------------------ all of it */

static int read_table(struct bench_reader *r, struct bench_touch_params *p)
{
	int err = 0;

	p->bytes[0] = p->base.real_gpu ? BYTES_GPU : BYTES_SIMULATED;
	p->nr_bytes = r->values[BYTES].text == NULL;
	if (r->values[BYTES].text)
		err = read_list(r, BYTES, BENCH_LIST_MAX, read_size, p, &p->nr_bytes);
	if (!err)
		err = read_list(r, PAGE_SIZE, BENCH_LIST_MAX, read_page_size, p, &p->nr_page_bytes);
	if (!err && p->kind == TOUCH_PAGEIN) {
		p->elements = r->values[ELEMENTS].text != NULL;
		err = read_list(r, PATTERN, TOUCH_PATTERN_NR, read_pattern, p, &p->nr_patterns);
		if (!err)
			err = read_access(r, p);
		if (!err)
			err = bench_read_percent(r, TOUCH, &p->touch_fraction);
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

/* With the least room that a case gives them. */
static int check_managers(const struct bench_touch_params *p, char *err, size_t err_bytes)
{
	struct bench_params one = p->base;
	uint64_t least = UINT64_MAX;

	for (unsigned int i = 0; i < p->nr_bytes; i++) {
		uint64_t budget = bench_touch_budget(p, p->bytes[i], p->page_bytes[0]);

		least = budget < least ? budget : least;
	}
	one.gpu_budget_bytes = bench_touch_room(p, least);
	return bench_check_managers(&one, err, err_bytes);
}

static int read_all(struct bench_reader *r, struct bench_touch_params *p)
{
	int err = bench_read_machine(r, &p->base);

	if (!err)
		err = bench_read_device(r, &p->base);
	if (!err)
		err = bench_read_managers(r, &p->base);
	if (!err)
		err = read_table(r, p);
	if (!err)
		err = read_shape(r, p);
	if (!err)
		err = read_data(r, p);
	if (!err)
		err = read_budgets(r, p);
	if (!err)
		err = bench_read_seed(r, SEED, &p->base.seed);
	if (!err)
		err = read_u32(r, EPOCHS_OPTION, 1, EPOCHS_MAX, &p->base.epochs);
	p->base.warm_up = WARM_UP;
	p->warm = r->values[WARM].text != NULL;
	p->base.json = r->values[JSON].text;
	if (!err)
		err = check_cases(p, r->err, r->err_bytes);
	if (!err)
		err = check_managers(p, r->err, r->err_bytes);
	return err;
}

int bench_touch_parse(enum touch_kind kind, int argc, char **argv, struct bench_touch_params *out,
		      char *err, size_t err_bytes)
{
	bool gups = kind == TOUCH_GUPS;
	struct option_value values[PAGEIN_NR]; /* gups has fewer */
	struct bench_reader reader = {.defs = gups ? gups_table : pagein_table,
				      .values = values,
				      .load_kernels = touch_cuda_load,
				      .pages = true,
				      .err = err,
				      .err_bytes = err_bytes};
	int rc;

	memset(out, 0, sizeof(*out));
	out->kind = kind;
	rc = options_parse(reader.defs, gups ? (unsigned int)GUPS_NR : (unsigned int)PAGEIN_NR,
			   argc, argv, values, err, err_bytes);
	if (rc)
		return rc;
	snprintf(err, err_bytes, "not enough memory on this computer");
	rc = read_all(&reader, out);
	if (rc)
		bench_touch_params_fini(out);
	return rc;
}

void bench_touch_params_fini(struct bench_touch_params *params)
{
	bench_params_fini(&params->base);
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
