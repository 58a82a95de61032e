/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans in files: see bench_plan.h. Both files are JSON. What a plan is made from:
 *
 *   {"schema":1, "fingerprint":"...", "budget_blocks":N, "map_ns":.., "unmap_ns":..,
 *    "map_busy_ns":.., "map_busy_host_ns":.., "below":{"in_ns":.., ...},
 *    "lives":[{"blocks":N,"birth":I,"death":I,"permanent":false,"below":false}, ...],
 *    "steps":[{"compute_ns":..,"uses":[{"life":L,"kind":"read", ...}, ...]}, ...]}
 *
 * and levels for it, of each life those in each step:
 *
 *   {"schema":1, "fingerprint":"...", "resident":[[N, ...], ...]}
 */
#include "cli/bench_plan.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "cli/output_file.h"

#define SCHEMA 1
#define FINGERPRINT_BYTES 17

/* ------------------------------------------------------------------ what plans are made from */

static const char *kind_name(enum weir_use_kind kind)
{
	switch (kind) {
	case WEIR_READ:
	case WEIR_READ_ELEMENTS:
		return "read";
	case WEIR_WRITE:
	case WEIR_ATOMIC:
		return "write";
	case WEIR_OVERWRITE:
		return "overwrite";
	case WEIR_DISCARD:
		break;
	}
	return "discard";
}

static const char *boolean(bool value)
{
	return value ? "true" : "false";
}

static void print_use(FILE *out, const struct plan_use *use)
{
	const struct plan_rate *at = &use->at[0];

	fprintf(out, "{\"life\":%" PRIu32 ",\"kind\":\"%s\",\"whole\":%s,\"fresh\":%s", use->life,
		kind_name(use->kind), boolean(use->whole), boolean(use->fresh));
	fprintf(out, ",\"first\":%" PRIu32 ",\"nr\":%" PRIu32 ",\"in\":%.17g,\"out\":%.17g",
		use->first, use->nr, use->in, use->out);
	fprintf(out, ",\"in_ns\":%.17g,\"out_ns\":%.17g,\"serial_ns\":%.17g", at->in_ns, at->out_ns,
		at->serial_ns);
	fprintf(out, ",\"hbm_ns\":%.17g,\"hit\":%.17g,\"reach_blocks\":%.17g}", use->hbm_ns,
		at->hit, at->reach_blocks);
}

static void print_head(FILE *out, const struct plan_input *input)
{
	const struct plan_below *below = &input->below[0];

	fprintf(out, "{\"schema\":%d,\"fingerprint\":\"%016" PRIx64 "\",\"budget_blocks\":%" PRIu32,
		SCHEMA, plan_fingerprint(input), input->budget_blocks);
	fprintf(out, ",\"map_ns\":%.17g,\"unmap_ns\":%.17g,\"map_busy_ns\":%.17g", input->map_ns,
		input->unmap_ns, input->map_busy_ns);
	fprintf(out, ",\"map_busy_host_ns\":%.17g,\n\"below\":{\"in_ns\":%.17g,\"out_ns\":%.17g",
		input->map_busy_host_ns, below->in_ns, below->out_ns);
	fprintf(out, ",\"duplex_ns\":%.17g,\"inplace_duplex_ns\":%.17g,\"inplace_both_ns\":%.17g",
		below->duplex_ns, below->inplace_duplex_ns, below->inplace_both_ns);
	fprintf(out, ",\"map_ns\":%.17g,\"unmap_ns\":%.17g},\n\"lives\":[", below->map_ns,
		below->unmap_ns);
}

static void print_input(FILE *out, const struct plan_input *input)
{
	print_head(out, input);
	for (uint32_t l = 0; l < input->nr_lives; l++) {
		const struct plan_life *life = &input->life[l];

		fprintf(out, "%s{\"blocks\":%" PRIu32 ",\"birth\":%" PRIu32 ",\"death\":%" PRIu32,
			l ? ",\n" : "\n", life->nr_blocks, life->birth, life->death);
		fprintf(out, ",\"permanent\":%s,\"below\":%s}", boolean(life->permanent),
			boolean(life->below));
	}
	fputs("],\n\"steps\":[", out);
	for (uint32_t i = 0; i < input->nr_steps; i++) {
		const struct plan_step *step = &input->step[i];

		fprintf(out, "%s{\"compute_ns\":%.17g,\"uses\":[", i ? ",\n" : "\n",
			step->compute_ns);
		for (uint32_t u = 0; u < step->nr_uses; u++) {
			fputs(u ? "," : "", out);
			print_use(out, &input->use[step->first_use + u]);
		}
		fputs("]}", out);
	}
	fputs("]}\n", out);
}

static int keep_input(struct bench_plan *plan, const struct plan_input *input)
{
	FILE *out;
	int err;

	free(plan->input);
	plan->input = NULL;
	out = open_memstream(&plan->input, &plan->input_bytes);
	if (!out)
		return -ENOMEM;
	print_input(out, input);
	err = ferror(out) ? -ENOMEM : 0;
	return fclose(out) ? -ENOMEM : err;
}

static bool fits(struct bench_plan *plan, const struct plan_input *input)
{
	const struct plan_given *given = &plan->given;

	if (given->nr_steps != input->nr_steps || given->nr_lives != input->nr_lives)
		snprintf(plan->wrong, sizeof(plan->wrong),
			 "--plan %.100s: it has %" PRIu32 " brackets and %" PRIu32
			 " lives, the program repeats %" PRIu32 " with %" PRIu32,
			 plan->name, given->nr_steps, given->nr_lives, input->nr_steps,
			 input->nr_lives);
	else if (given->fingerprint != plan_fingerprint(input))
		snprintf(plan->wrong, sizeof(plan->wrong),
			 "--plan %.100s: it was made for other uses, sizes or another budget",
			 plan->name);
	else
		return true;
	return false;
}

/* Repetitions that are not the one the levels are for, such as that of a loop, are planned as
 * ever. */
static int make(void *arg, const struct plan_input *input, struct plan **out)
{
	struct bench_plan *plan = arg;
	int err = 0;

	if (plan->input_name)
		err = keep_input(plan, input);
	if (err)
		return err;
	if (!plan->name || !fits(plan, input))
		return plan_create(input, out);
	err = plan_create_given(input, &plan->given, out);
	plan->nr_made += !err;
	return err;
}

/* ------------------------------------------------------------------ levels */

static int refuse(const char *name, const char *what, char *err, size_t err_bytes)
{
	snprintf(err, err_bytes, "--plan %.100s: %s", name, what);
	return -EINVAL;
}

/* The levels of all lives. @return NULL, or what is wrong with them. */
static const char *read_levels(const json_t *resident, struct bench_plan *plan)
{
	const size_t nr_lives = json_array_size(resident);
	const size_t nr_steps = json_array_size(json_array_get(resident, 0));

	if (!nr_steps || nr_lives > UINT32_MAX / nr_steps)
		return "\"resident\" is no list of lists of numbers";
	plan->level = malloc(nr_lives * nr_steps * sizeof(*plan->level));
	if (!plan->level)
		return "not enough memory on this computer";
	for (size_t l = 0; l < nr_lives; l++) {
		const json_t *row = json_array_get(resident, l);

		if (json_array_size(row) != nr_steps)
			return "\"resident\" has lists of different lengths";
		for (size_t i = 0; i < nr_steps; i++) {
			const json_t *level = json_array_get(row, i);
			const json_int_t blocks = json_integer_value(level);

			if (!json_is_integer(level) || blocks < 0 || blocks > UINT32_MAX)
				return "\"resident\" has something that is no number of blocks";
			plan->level[l * nr_steps + i] = (uint32_t)blocks;
		}
	}
	plan->given.nr_lives = (uint32_t)nr_lives;
	plan->given.nr_steps = (uint32_t)nr_steps;
	plan->given.level = plan->level;
	return NULL;
}

static const char *read_plan(const json_t *root, struct bench_plan *plan)
{
	const char *fingerprint = json_string_value(json_object_get(root, "fingerprint"));
	char *end;

	if (json_integer_value(json_object_get(root, "schema")) != SCHEMA)
		return "no plan of schema 1";
	if (!fingerprint || strlen(fingerprint) != FINGERPRINT_BYTES - 1)
		return "no \"fingerprint\" of 16 hexadecimal digits";
	plan->given.fingerprint = strtoull(fingerprint, &end, 16);
	if (*end)
		return "no \"fingerprint\" of 16 hexadecimal digits";
	return read_levels(json_object_get(root, "resident"), plan);
}

int bench_plan_init(const struct bench_params *p, struct bench_plan *plan, char *err,
		    size_t err_bytes)
{
	json_error_t error;
	const char *wrong;
	json_t *root;

	*plan = (struct bench_plan){.name = p->plan, .input_name = p->plan_input};
	plan->maker = (struct plan_maker){.make = make, .arg = plan};
	if (!p->plan)
		return 0;
	root = json_load_file(p->plan, JSON_REJECT_DUPLICATES, &error);
	if (!root)
		return refuse(p->plan, error.text, err, err_bytes);
	wrong = read_plan(root, plan);
	json_decref(root);
	if (!wrong)
		return 0;
	bench_plan_fini(plan);
	return refuse(p->plan, wrong, err, err_bytes);
}

void bench_plan_fini(struct bench_plan *plan)
{
	free(plan->level);
	free(plan->input);
	*plan = (struct bench_plan){0};
}

const struct plan_maker *bench_plan_maker(const struct bench_plan *plan)
{
	return plan->name || plan->input_name ? &plan->maker : NULL;
}

const char *bench_plan_wrong(struct bench_plan *plan)
{
	if (plan->input_name && !plan->input)
		return "--plan-input: nothing was planned, since no repetition was recognised; "
		       "give more --epochs";
	if (!plan->name || plan->nr_made)
		return NULL;
	if (!plan->wrong[0])
		snprintf(plan->wrong, sizeof(plan->wrong),
			 "--plan %.100s: not followed, since no repetition was recognised; give "
			 "more --epochs",
			 plan->name);
	return plan->wrong;
}

int bench_plan_write(const struct bench_plan *plan, char *err, size_t err_bytes)
{
	struct output_file output = {0};
	int rc;

	if (!plan->input_name || !plan->input)
		return 0;
	rc = output_file_open(&output, "--plan-input", plan->input_name, err, err_bytes);
	if (rc)
		return rc;
	fwrite(plan->input, 1, plan->input_bytes, output.stream);
	return output_file_commit(&output, err, err_bytes);
}
