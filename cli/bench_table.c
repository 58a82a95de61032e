/* SPDX-License-Identifier: Apache-2.0 */
/* The benchmark's tables; see bench_table.h. Figures are rounded here and nowhere else. */
#include "cli/bench_table.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "cli/size.h"
#include "cli/table.h"
#include "src/base/util.h"

#define GB 1e9

/* Seconds with four digits. Failures to add a cell are kept by the table and come out of
 * table_print(). */
static void add_seconds(struct table *table, double s)
{
	(void)table_add_double(table, s < 1 ? "%.4g" : s < 1000 ? "%.3f" : "%.0f", s);
}

static void add_bytes(struct table *table, const struct bench_row *row, uint64_t bytes)
{
	if (row->status == RESULT_OK)
		(void)table_add_double(table, bytes && (double)bytes < GB ? "%.3g" : "%.1f",
				       (double)bytes / GB);
	else
		(void)table_add(table, "-");
}

/* "15M" where that is the whole truth, else all digits. */
static void add_count(struct table *table, uint64_t count)
{
	char text[SIZE_TEXT_BYTES];

	if (count % 100000 == 0)
		(void)table_add(table, "%s", count_format(count, text, sizeof(text)));
	else
		(void)table_add(table, "%" PRIu64, count);
}

static uint64_t copied(const struct bench_row *row, enum backend_direction direction)
{
	uint64_t sum = 0;

	for (int cause = 0; cause < WEIR_CAUSE_NR; cause++)
		if (cause != WEIR_CAUSE_INPLACE)
			sum += row->traffic.stats.bytes[direction][cause];
	return sum;
}

static void add_check(struct table *table, const struct bench_row *row)
{
	static const char *const texts[] = {"-", "same", "DIFFERS"};

	(void)table_add(table, "%s", row->status == RESULT_OK ? texts[row->check] : "-");
}

/* Of other GPUs' memories together. */
static void add_near(struct table *table, const struct bench_row *row)
{
	uint64_t bytes = 0;

	for (uint32_t m = 0; m < WEIR_MEMORIES_MAX; m++)
		bytes += row->traffic.near_bytes[m];
	if (bytes)
		(void)table_add_size(table, bytes);
	else
		(void)table_add(table, "-");
}

static void add_row(struct table *table, const struct bench_row *row, bool near, bool losses)
{
	add_count(table, row->nodes);
	(void)table_add_size(table, row->gpu_budget_bytes);
	(void)table_add(table, "%s", row->manager);
	if (near)
		add_near(table, row);
	if (row->status == RESULT_OK)
		add_seconds(table, row->epoch_median_s);
	else
		(void)table_add(table, "%s", result_status_name(row->status));
	(void)table_add_double(table, "%.3f", row->epoch_median_s / row->in_memory_s);
	add_bytes(table, row, copied(row, BACKEND_TO_DEVICE));
	add_bytes(table, row, copied(row, BACKEND_TO_HOST));
	add_bytes(table, row, row->traffic.stats.bytes[BACKEND_TO_DEVICE][WEIR_CAUSE_INPLACE]);
	add_bytes(table, row, row->traffic.stats.bytes[BACKEND_TO_HOST][WEIR_CAUSE_INPLACE]);
	add_seconds(table, row->bound_s);
	(void)table_add_double(table, "%.3f", row->epoch_median_s / row->bound_s);
	add_check(table, row);
	if (losses) {
		(void)table_add_double(table, "%.6f", row->last_loss);
		(void)table_add_double(table, "%.3f", row->test_accuracy);
	}
}

static bool any_near(const struct bench_row *rows, unsigned int nr)
{
	for (unsigned int i = 0; i < nr; i++)
		if (result_is_near(&rows[i].traffic))
			return true;
	return false;
}

static int print_main(FILE *out, const struct bench_row *rows, unsigned int nr)
{
	static const struct table_column keys[] = {
		{"nodes", TABLE_RIGHT}, {"GPU budget", TABLE_RIGHT}, {"manager", TABLE_LEFT}};
	static const struct table_column figures[] = {
		{"epoch s", TABLE_RIGHT}, {"ratio", TABLE_RIGHT},    {"in GB", TABLE_RIGHT},
		{"out GB", TABLE_RIGHT},  {"read GB", TABLE_RIGHT},  {"written GB", TABLE_RIGHT},
		{"bound s", TABLE_RIGHT}, {"distance", TABLE_RIGHT}, {"check", TABLE_LEFT},
		{"loss", TABLE_RIGHT},	  {"accuracy", TABLE_RIGHT},
	};
	struct table_column columns[ARRAY_LEN(keys) + 1 + ARRAY_LEN(figures)];
	const bool near = any_near(rows, nr);
	unsigned int nr_columns = ARRAY_LEN(keys);
	struct table *table;
	bool losses = false;
	int err;

	for (unsigned int i = 0; i < nr; i++)
		losses |= isfinite(rows[i].last_loss);
	memcpy(columns, keys, sizeof(keys));
	if (near)
		columns[nr_columns++] = (struct table_column){"near", TABLE_RIGHT};
	memcpy(columns + nr_columns, figures, sizeof(figures));
	nr_columns += (unsigned int)ARRAY_LEN(figures) - (losses ? 0 : 2);
	err = table_create(columns, nr_columns, &table);
	if (err)
		return err;
	table_set_keys(table, 3);
	for (unsigned int i = 0; i < nr; i++)
		add_row(table, &rows[i], near, losses);
	err = table_print(table, out);
	table_destroy(table);
	return err;
}

static int print_causes(FILE *out, const struct bench_row *rows, unsigned int nr)
{
	struct table_column columns[3 + WEIR_CAUSE_NR] = {
		{"nodes", TABLE_RIGHT}, {"manager", TABLE_LEFT}, {"direction", TABLE_LEFT}};
	struct table *table;
	int err;

	for (int cause = 0; cause < WEIR_CAUSE_NR; cause++)
		columns[3 + cause] = (struct table_column){
			result_cause_name((enum weir_cause)cause), TABLE_RIGHT};
	err = table_create(columns, 3 + WEIR_CAUSE_NR, &table);
	if (err)
		return err;
	table_set_keys(table, 3);
	for (unsigned int i = 0; i < nr * BACKEND_DIRECTION_NR; i++) {
		const struct bench_row *row = &rows[i / BACKEND_DIRECTION_NR];
		unsigned int direction = i % BACKEND_DIRECTION_NR;

		add_count(table, row->nodes);
		(void)table_add(table, "%s", row->manager);
		(void)table_add(table, "%s",
				direction == BACKEND_TO_DEVICE ? "to device" : "to host");
		for (int cause = 0; cause < WEIR_CAUSE_NR; cause++)
			add_bytes(table, row, row->traffic.stats.bytes[direction][cause]);
	}
	fputs("\nGB by cause\n\n", out);
	err = table_print(table, out);
	table_destroy(table);
	return err;
}

/* What crossed one link one way. @return whether that is anything */
static bool add_way(struct table *table, const struct bench_row *row, uint32_t link,
		    enum weir_direction direction)
{
	const uint64_t *bytes = result_link_bytes(&row->traffic, link, direction);
	char name[RESULT_WAY_BYTES];
	uint64_t sum = 0;

	for (int cause = 0; cause < WEIR_CAUSE_NR; cause++)
		sum += bytes[cause];
	if (!sum)
		return false;
	result_way_name(row->traffic.machine, link, direction, name);
	add_count(table, row->nodes);
	(void)table_add(table, "%s", row->manager);
	(void)table_add(table, "%s", name);
	add_bytes(table, row, sum - bytes[WEIR_CAUSE_INPLACE]);
	add_bytes(table, row, bytes[WEIR_CAUSE_INPLACE]);
	return true;
}

/* What runs that use other GPUs' memories moved over each link. */
static int print_ways(FILE *out, const struct bench_row *rows, unsigned int nr)
{
	static const struct table_column columns[] = {{"nodes", TABLE_RIGHT},
						      {"manager", TABLE_LEFT},
						      {"link", TABLE_LEFT},
						      {"copied GB", TABLE_RIGHT},
						      {"in place GB", TABLE_RIGHT}};
	struct table *table;
	bool any = false;
	int err;

	if (!any_near(rows, nr))
		return 0;
	err = table_create(columns, ARRAY_LEN(columns), &table);
	if (err)
		return err;
	table_set_keys(table, 3);
	for (unsigned int i = 0; i < nr; i++) {
		const struct result *traffic = &rows[i].traffic;

		if (rows[i].status != RESULT_OK || !result_is_near(traffic))
			continue;
		for (uint32_t link = 0; link < traffic->machine->nr_links; link++) {
			if (!result_uses_link(traffic, link))
				continue;
			any |= add_way(table, &rows[i], link, WEIR_A_TO_B);
			any |= add_way(table, &rows[i], link, WEIR_B_TO_A);
		}
	}
	if (any) {
		fputs("\nGB by link, over the whole run\n\n", out);
		err = table_print(table, out);
	}
	table_destroy(table);
	return err;
}

static void add_oracle(struct table *table, const struct bench_row *row, bool near)
{
	const struct result_oracle *oracle = &row->oracle;

	add_count(table, row->nodes);
	(void)table_add_size(table, row->gpu_budget_bytes);
	(void)table_add(table, "%s", row->manager);
	(void)table_add(table, "%" PRIu64, oracle->capacity_blocks);
	(void)table_add_double(table, "%.1f", oracle->copy_ins);
	(void)table_add_double(table, oracle->exact ? "%.1f" : "~%.1f", oracle->min_copy_ins);
	(void)table_add_double(table, "%.3f", oracle->copy_ins / oracle->min_copy_ins);
	(void)table_add_double(table, "%.1f", oracle->write_backs);
	(void)table_add_double(table, "%.1f", oracle->min_write_backs);
	(void)table_add_double(table, "%.1f", oracle->in_place_bytes / GB);
	if (near) {
		(void)table_add_double(table, "%.1f", oracle->host_copy_ins);
		(void)table_add_double(table, "%.1f", oracle->min_host_copy_ins);
	}
}

static int print_oracles(FILE *out, const struct bench_row *rows, unsigned int nr)
{
	static const struct table_column columns[] = {
		{"nodes", TABLE_RIGHT},	    {"GPU budget", TABLE_RIGHT},
		{"manager", TABLE_LEFT},    {"room", TABLE_RIGHT},
		{"copy-ins", TABLE_RIGHT},  {"MIN", TABLE_RIGHT},
		{"over MIN", TABLE_RIGHT},  {"write-backs", TABLE_RIGHT},
		{"MIN's", TABLE_RIGHT},	    {"in place GB", TABLE_RIGHT},
		{"from host", TABLE_RIGHT}, {"its MIN", TABLE_RIGHT},
	};
	const bool near = any_near(rows, nr);
	struct table *table;
	bool any = false;
	int err;

	for (unsigned int i = 0; i < nr; i++)
		any |= rows[i].has_oracle;
	if (!any)
		return 0;
	err = table_create(columns, ARRAY_LEN(columns) - (near ? 0 : 2), &table);
	if (err)
		return err;
	table_set_keys(table, 3);
	for (unsigned int i = 0; i < nr; i++)
		if (rows[i].has_oracle)
			add_oracle(table, &rows[i], near);
	fputs("\nBlocks moved an epoch, against the fewest copy-ins for what was served from GPU\n"
	      "memory\n\n",
	      out);
	err = table_print(table, out);
	table_destroy(table);
	return err;
}

int bench_table_print(FILE *out, const struct bench_row *rows, unsigned int nr, bool verbose)
{
	int err;

	err = print_main(out, rows, nr);
	if (!err && verbose)
		err = print_causes(out, rows, nr);
	if (!err)
		err = print_ways(out, rows, nr);
	if (!err)
		err = print_oracles(out, rows, nr);
	if (err)
		return err;
	fputs("\nratio: epoch time over that of a GPU with enough memory. in, out: copied from\n"
	      "and to the host; read, written: used in place there; all over the whole run.\n"
	      "distance: epoch time over the lower bound for this budget.\n",
	      out);
	return ferror(out) ? -EIO : 0;
}
