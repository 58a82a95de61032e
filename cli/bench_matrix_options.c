/* SPDX-License-Identifier: Apache-2.0 */
/* The options of `weir bench mvt`, `atax` and `bicg`; see bench_matrix_options.h. */
#include "cli/bench_matrix_options.h"

#include <errno.h>
#include <string.h>

#include "cli/bench_check.h"
#include "cli/size.h"
#include "workloads/matrix/cuda.h"

#define SIZE_GPU 65536u
#define SIZE_SIMULATED 4096u

enum matrix_option { SIZE = BENCH_PASS_OPTION_NR, DEVICES, MATRIX_NR };

static const struct option_def table[MATRIX_NR] = {
	BENCH_PASS_OPTIONS("native,zerocopy,uvm,weir-paged", "the matrix", "16KiB", "0", "512",
			   "2025", "of what is in the matrix and vectors",
			   "read the matrix back and compare it"),
	[SIZE] = {"size", "N,...", "WEIR_SIZE", NULL,
		  "rows and columns, or RxC (default: 65536 on a GPU, 4096 simulated)"},
	[DEVICES] = {"devices", "N", "WEIR_DEVICES", "1",
		     "split the rows between the first N devices (manager weir)"},
};

/* ------------------------------------------------------------------ sizes */

/* A count of rows or columns; 0: it is none. */
static uint32_t read_side(const char *text)
{
	uint64_t count;

	return count_parse(text, &count) || count > MATRIX_SIZE_MAX ? 0 : (uint32_t)count;
}

/* "65536" or "4096x65536". */
static int read_size(struct bench_reader *r, unsigned int nr, void *arg)
{
	struct bench_matrix_params *p = arg;
	struct bench_matrix_size *size = &p->size[nr];
	const char *text = r->values[SIZE].text;
	size_t length = strcspn(text, "x");
	char rows[32];

	snprintf(rows, sizeof(rows), "%.*s", (int)length, text);
	size->rows = read_side(rows);
	size->columns = text[length] ? read_side(text + length + 1) : size->rows;
	if (!size->rows || !size->columns)
		return bench_refuse(r, SIZE,
				    "no size; write rows and columns as 65536 or 4096x65536, at "
				    "most 262144");
	for (unsigned int i = 0; i < nr; i++)
		if (p->size[i].rows == size->rows && p->size[i].columns == size->columns)
			return bench_refuse(r, SIZE, "listed twice; keep one");
	return 0;
}

static int read_sizes(struct bench_reader *r, struct bench_matrix_params *p)
{
	uint32_t side = p->pass.base.real_gpu ? SIZE_GPU : SIZE_SIMULATED;

	p->size[0] = (struct bench_matrix_size){side, side};
	p->nr_sizes = r->values[SIZE].text == NULL;
	return p->nr_sizes ? 0
			   : bench_read_list(r, SIZE, BENCH_LIST_MAX, read_size, p, &p->nr_sizes);
}

/* ------------------------------------------------------------------ devices */

/* Whose memory --near names is not the device's own, but it may be that of another one. */
static int check_near(const struct bench_reader *r, const struct bench_params *p)
{
	char what[96];

	for (uint32_t d = 1; d < p->nr_devices; d++) {
		uint32_t memory = p->machine.device[d].memory;

		if (!p->near.bytes[memory] && !(p->near.fraction[memory] > 0))
			continue;
		snprintf(
			what, sizeof(what),
			"has the memory of %s, which --gpu-budget is for; leave that out of --near",
			p->machine.device[d].name);
		return bench_refuse(r, DEVICES, what);
	}
	return 0;
}

/* Whether the machine has them, and each manager can use them. */
static int read_devices(const struct bench_reader *r, struct bench_params *p)
{
	char what[160];
	int err = bench_read_u32(r, DEVICES, 1, WEIR_DEVICES_MAX, &p->nr_devices);

	if (err || p->nr_devices == 1)
		return err;
	if (p->nr_devices > p->machine.nr_devices) {
		snprintf(what, sizeof(what), "machine '%s' has %u; choose no more", p->machine.name,
			 p->machine.nr_devices);
		return bench_refuse(r, DEVICES, what);
	}
	if (p->device)
		return bench_refuse(r, DEVICES,
				    "begins with the machine's first device; leave --device out");
	for (unsigned int i = 0; i < p->nr_managers; i++) {
		if (bench_manager_find(p->manager[i])->launch_on)
			continue;
		snprintf(what, sizeof(what),
			 "%.60s runs kernels on one device; leave it out of --manager",
			 p->manager[i]);
		return bench_refuse(r, DEVICES, what);
	}
	return check_near(r, p);
}

/* Several devices are for one manager: where none is named, it is that one. */
static void default_manager(struct option_value *values)
{
	uint64_t nr;

	if (values[BENCH_MANAGER].origin == OPTION_PRESET &&
	    !count_parse(values[DEVICES].text, &nr) && nr > 1)
		values[BENCH_MANAGER].text = "weir";
}

/* ------------------------------------------------------------------ cases */

struct matrix_params bench_matrix_case(const struct bench_matrix_params *p,
				       const struct bench_matrix_size *size, uint64_t page_bytes)
{
	const struct bench_params *base = &p->pass.base;

	return (struct matrix_params){
		.kind = p->kind,
		.rows = size->rows,
		.columns = size->columns,
		.page_bytes = (uint32_t)page_bytes,
		.seed = base->seed,
		.passes = base->warm_up + base->epochs,
		.warm_up = base->warm_up,
		.warm = p->pass.warm,
		.check = base->check,
		.blocks = p->pass.blocks,
		.threads = p->pass.threads,
		.agents = p->pass.agents,
		.devices = base->nr_devices,
	};
}

/* The matrix, its copy in frames, and what is read back. least: as bench_pass_check_budgets(). */
static int check_case(const struct bench_matrix_params *p, const struct bench_matrix_size *size,
		      uint64_t page_bytes, uint64_t *least, char *err, size_t err_bytes)
{
	struct matrix_params one = bench_matrix_case(p, size, page_bytes);
	char matrix[SIZE_TEXT_BYTES], ram[SIZE_TEXT_BYTES];
	int rc = matrix_params_check(&one, err, err_bytes);

	if (!rc)
		rc = bench_pass_check_budgets(&p->pass, "a matrix", matrix_bytes(&one), page_bytes,
					      least, err, err_bytes);
	if (rc)
		return rc;
	if (p->pass.base.data == WEIR_DATA_REAL && matrix_bytes(&one) > bench_ram_bytes() / 2) {
		snprintf(err, err_bytes,
			 "--size: a matrix of %s is more than half of this computer's memory of "
			 "%s; choose less",
			 size_format(matrix_bytes(&one), matrix, sizeof(matrix)),
			 size_format(bench_ram_bytes(), ram, sizeof(ram)));
		return -EINVAL;
	}
	return 0;
}

static int check_cases(const struct bench_matrix_params *p, char *err, size_t err_bytes)
{
	uint64_t least = UINT64_MAX;
	int rc = 0;

	for (unsigned int i = 0; i < p->nr_sizes; i++)
		for (unsigned int k = 0; k < p->pass.nr_page_bytes && !rc; k++)
			rc = check_case(p, &p->size[i], p->pass.page_bytes[k], &least, err,
					err_bytes);
	return rc ? rc : bench_pass_check_managers(&p->pass, least, err, err_bytes);
}

/* ------------------------------------------------------------------ all of it */

int bench_matrix_parse(enum matrix_kind kind, int argc, char **argv,
		       struct bench_matrix_params *out, char *err, size_t err_bytes)
{
	struct option_value values[MATRIX_NR];
	struct bench_reader reader = {.defs = table,
				      .values = values,
				      .nr = MATRIX_NR,
				      .load_kernels = matrix_cuda_load,
				      .pages = true,
				      .err = err,
				      .err_bytes = err_bytes};
	int rc;

	memset(out, 0, sizeof(*out));
	out->kind = kind;
	rc = options_parse(table, MATRIX_NR, argc, argv, values, err, err_bytes);
	if (rc)
		return rc;
	default_manager(values);
	snprintf(err, err_bytes, "not enough memory on this computer");
	rc = bench_set_command(&reader, matrix_kind_name(kind), NULL, 0, &out->pass.base);
	if (!rc)
		rc = bench_pass_read(&reader, &out->pass);
	if (!rc)
		rc = read_devices(&reader, &out->pass.base);
	if (!rc)
		rc = read_sizes(&reader, out);
	if (!rc)
		rc = check_cases(out, err, err_bytes);
	if (rc)
		bench_matrix_params_fini(out);
	return rc;
}

void bench_matrix_params_fini(struct bench_matrix_params *params)
{
	bench_params_fini(&params->pass.base);
}

void bench_matrix_help(enum matrix_kind kind, FILE *out)
{
	static const char *const sums[] = {"x1 += A y1, x2 += A^T y2", "y = A^T (A x)",
					   "q = A p, s = A^T r"};

	fprintf(out,
		"usage: weir bench %s [options]\n\n"
		"%s, of a dense matrix A of floats in the host's memory, on\n"
		"this computer's GPU or a simulated machine, under several ways to hold it.\n\n",
		matrix_kind_name(kind), sums[kind]);
	options_help(out, table, MATRIX_NR);
	bench_help_end(out, true);
	fputs("Exit status: 0 done (out of memory is a result), 1 a run failed or found wrong\n"
	      "sums, 2 bad input or output, 128 + n stopped by signal n.\n",
	      out);
}
