/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Results out of JSON lines; see report_read.h. One table names the numbers, so that a missing one
 * and a wrong one are told apart in one place.
 */
#include "cli/report_read.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report_explain.h"
#include "src/base/util.h"

void report_printable(char *text)
{
	for (; *text; text++)
		if (*text < ' ' || *text > '~')
			*text = '?';
}

int report_refuse(struct report_source *source, const char *format, ...)
{
	char line[16] = "";
	va_list args;
	int at;

	if (!source->err_bytes)
		return -EINVAL;
	if (source->line)
		(void)snprintf(line, sizeof(line), "%u:", source->line);
	at = snprintf(source->err, source->err_bytes, "%.200s:%s ", source->file, line);
	if (at > 0 && (size_t)at < source->err_bytes) {
		va_start(args, format);
		(void)vsnprintf(source->err + at, source->err_bytes - (size_t)at, format, args);
		va_end(args);
	}
	report_printable(source->err);
	return -EINVAL;
}

/* ------------------------------------------------------------------ members */

static bool known(const json_t *json)
{
	return json && !json_is_null(json);
}

/* Beyond any size or time, and far from what sums of doubles cannot hold. */
#define NUMBER_MAX 1e20

static bool is_amount(const json_t *json)
{
	return json_is_number(json) && json_number_value(json) >= 0 &&
	       json_number_value(json) <= NUMBER_MAX;
}

/* A member that must be a number from 0 up, where it is known. */
static int get_number(struct report_source *source, const json_t *object, const char *name,
		      double *out)
{
	json_t *json = json_object_get(object, name);

	*out = NAN;
	if (!known(json))
		return 0;
	if (!is_amount(json))
		return report_refuse(
			source,
			"\"%.40s\" is no number from 0 to 1e20: write such a number or null", name);
	*out = json_number_value(json);
	return 0;
}

static int get_text(struct report_source *source, const json_t *object, const char *name,
		    const char **out)
{
	json_t *json = json_object_get(object, name);

	*out = NULL;
	if (!known(json))
		return 0;
	if (!json_is_string(json))
		return report_refuse(source, "\"%s\" is no text: write a text or null", name);
	*out = json_string_value(json);
	return 0;
}

/* Same, but it has to be there, and to say something. */
static int need_text(struct report_source *source, const json_t *object, const char *name,
		     const char **out)
{
	int err = get_text(source, object, name, out);

	if (err || (*out && **out))
		return err;
	report_refuse(source, "\"%s\" is missing: give a file of `weir bench --json`", name);
	return -EINVAL; /* as report_refuse() does, which the analyzer does not look into */
}

/* A member that must be an object, where it is known; else *out is NULL. */
static int get_object(struct report_source *source, const json_t *object, const char *name,
		      json_t **out)
{
	json_t *json = json_object_get(object, name);

	*out = NULL;
	if (!known(json))
		return 0;
	if (!json_is_object(json))
		return report_refuse(source, "\"%.40s\" is no object: write an object or null",
				     name);
	*out = json;
	return 0;
}

struct number_member {
	const char *name;
	double *value;
};

static int get_numbers(struct report_source *source, const json_t *object,
		       const struct number_member *members, size_t nr)
{
	int err = 0;

	for (size_t i = 0; i < nr && !err; i++)
		err = get_number(source, object, members[i].name, members[i].value);
	return err;
}

static bool is_one_of(const char *name, const char *const *names)
{
	while (*names && strcmp(*names, name) != 0)
		names++;
	return *names != NULL;
}

/* Of a table or a matrix. */
static bool is_touch(const struct report_result *result)
{
	static const char *const names[] = {"pagein", "gups", "layers", "mvt",
					    "atax",   "bicg", NULL};

	return is_one_of(result->workload, names);
}

static bool is_graph(const struct report_result *result)
{
	static const char *const names[] = {"bfs", "sssp", "cc", "pagerank", NULL};

	return is_one_of(result->workload, names);
}

static bool is_solver(const struct report_result *result)
{
	static const char *const names[] = {"jacobi", "diffusion", "als", NULL};

	/* What runs on graphs is one if it is timed by iteration. */
	return is_one_of(result->workload, names) ||
	       (is_graph(result) && json_object_get(result->json, "iteration_s"));
}

/* What was replayed, and how. */
static int read_replay(struct report_source *source, struct report_result *result)
{
	const json_t *parameters = result->parameters;
	const char *kinds = json_string_value(json_object_get(parameters, "kinds"));
	int err = need_text(source, parameters, "trace", &result->trace);

	result->observed = kinds && strcmp(kinds, "observed") == 0;
	result->no_think = json_is_false(json_object_get(parameters, "think"));
	result->no_advice = json_is_false(json_object_get(parameters, "advice"));
	result->cold = json_is_true(json_object_get(parameters, "cold"));
	result->nodes = 0;
	return err;
}

static int read_parameters(struct report_source *source, struct report_result *result)
{
	const struct number_member members[] = {
		{"nodes", &result->nodes},
		{"slice", &result->slice},
		{"hidden", &result->hidden},
		{"epochs", &result->epochs},
		{"seed", &result->seed},
		{"warm_up", &result->warm_up},
		{"host_budget_bytes", &result->host_budget_bytes},
		{"block_bytes", &result->block_bytes},
	};
	json_t *parameters;
	int err;

	err = get_object(source, result->json, "parameters", &parameters);
	if (!err)
		err = get_numbers(source, parameters, members, ARRAY_LEN(members));
	if (!err)
		err = get_text(source, parameters, "data", &result->data);
	if (!err)
		err = get_text(source, parameters, "graph", &result->graph);
	if (!err)
		err = get_text(source, parameters, "device", &result->device);
	result->parameters = parameters;
	if (!err && strcmp(result->workload, "replay") == 0)
		return read_replay(source, result);
	if (!err && !is_touch(result) && !is_graph(result) && !is_solver(result) &&
	    !(result->nodes > 0))
		err = report_refuse(
			source,
			"\"parameters\" lacks \"nodes\": give a file of `weir bench --json`");
	return err;
}

/* What all workloads have that make passes. */
static int read_pass(struct report_source *source, struct report_result *result)
{
	json_t *pages;
	int err = get_object(source, result->json, "pages", &pages);
	const struct number_member moved[] = {{"in", &result->pages_in},
					      {"out", &result->pages_out},
					      {"in_place", &result->pages_in_place}};

	if (!err)
		err = get_numbers(source, pages, moved, ARRAY_LEN(moved));
	if (!err)
		err = get_number(source, result->parameters, "page_bytes", &result->page_bytes);
	if (!err)
		err = get_number(source, result->json, "useful_bytes_per_s",
				 &result->useful_bytes_per_s);
	result->warm = json_is_true(json_object_get(result->parameters, "warm"));
	return err;
}

/* What can be told in bytes. */
static bool is_size(double bytes)
{
	return bytes >= 1 && bytes < 1e18;
}

static int read_touch(struct report_source *source, struct report_result *result)
{
	const struct number_member of[] = {
		{"bytes", &result->bytes},    {"touched_pages", &result->touched_pages},
		{"rows", &result->rows},      {"columns", &result->columns},
		{"ranges", &result->ranges},  {"split", &result->split},
		{"devices", &result->devices}};
	int err = read_pass(source, result);

	if (!err)
		err = get_numbers(source, result->parameters, of, ARRAY_LEN(of));
	if (!err)
		err = get_number(source, result->json, "updates_per_s", &result->updates_per_s);
	if (!err)
		err = get_text(source, result->parameters, "pattern", &result->pattern);
	if (!err)
		err = get_text(source, result->parameters, "access", &result->access);
	if (err)
		return err;
	result->elements = json_is_true(json_object_get(result->parameters, "elements"));
	if (is_size(result->bytes) && is_size(result->page_bytes) &&
	    !(result->budget_bytes >= 1e18))
		return 0;
	return report_refuse(source,
			     "\"parameters\" lacks \"bytes\" or \"page_bytes\", or they are "
			     "no sizes: give a file of `weir bench --json`");
}

static int read_graph(struct report_source *source, struct report_result *result)
{
	int err = read_pass(source, result);

	if (!err)
		err = get_number(source, result->json, "teps_per_s", &result->teps_per_s);
	if (!err)
		err = get_number(source, result->json, "edge_bytes", &result->edge_bytes);
	if (err)
		return err;
	if (result->graph && is_size(result->page_bytes) && result->edge_bytes < 1e18 &&
	    !(result->budget_bytes >= 1e18))
		return 0;
	return report_refuse(source, "\"graph\", \"page_bytes\" or \"edge_bytes\" is missing, or "
				     "they are no sizes: give a file of `weir bench --json`");
}

static int read_solver(struct report_source *source, struct report_result *result)
{
	const struct number_member of[] = {{"planes", &result->planes},
					   {"rows", &result->rows},
					   {"columns", &result->columns},
					   {"devices", &result->devices}};
	int err = read_pass(source, result);

	if (!err)
		err = get_numbers(source, result->parameters, of, ARRAY_LEN(of));
	if (!err)
		err = get_number(source, result->json, "iteration_s", &result->iteration_s);
	if (!err && strcmp(result->workload, "als") == 0)
		err = get_number(source, result->parameters, "users", &result->planes);
	if (!err && strcmp(result->workload, "als") == 0)
		err = get_number(source, result->parameters, "items", &result->rows);
	if (err || (result->rows > 0 && result->columns > 0) || result->graph)
		return err;
	return report_refuse(source, "\"parameters\" lacks \"rows\" or \"columns\": give a file "
				     "of `weir bench --json`");
}

static int read_status(struct report_source *source, struct report_result *result)
{
	const char *text;
	int err = need_text(source, result->json, "status", &text);

	if (err)
		return err;
	for (int status = RESULT_OK; status <= RESULT_FAILED; status++) {
		if (strcmp(text, result_status_name((enum result_status)status)) == 0) {
			result->status = (enum result_status)status;
			return 0;
		}
	}
	return report_refuse(source,
			     "no status '%.40s': there are ok, out-of-memory, "
			     "refused, failed",
			     text);
}

/* ------------------------------------------------------------------ what was measured */

/* The median of the epochs, computed where it is not given. */
static int read_epochs(struct report_source *source, struct report_result *result)
{
	json_t *epochs = json_object_get(result->json, "epoch_s");
	size_t nr = json_array_size(epochs);
	double *values;
	int err;

	err = get_number(source, result->json, "epoch_median_s", &result->epoch_s);
	if (!err && known(epochs) && !json_is_array(epochs))
		err = report_refuse(source, "\"epoch_s\" is no array: write an array of seconds");
	if (err || !isnan(result->epoch_s) || !nr)
		return err;
	values = calloc(nr, sizeof(*values));
	if (!values)
		return -ENOMEM;
	for (size_t i = 0; i < nr && !err; i++) {
		values[i] = json_number_value(json_array_get(epochs, i));
		if (!is_amount(json_array_get(epochs, i)))
			err = report_refuse(
				source, "\"epoch_s\" has an epoch that is no time: write seconds");
	}
	if (!err)
		result->epoch_s = result_median(values, (uint32_t)nr);
	free(values);
	return err;
}

/* The parts of the time. What later versions tell apart besides counts as other. */
static int read_parts(struct report_source *source, struct report_result *result)
{
	static const char *const names[REPORT_PART_NR] = {
		"compute", "in_place", "allocation", "first_touch", "demand", "eviction", "other"};
	const char *name;
	json_t *parts, *part;
	double value;
	int err;

	result->parts_s = NAN;
	err = get_object(source, result->json, "time_s", &parts);
	if (err || !parts)
		return err;
	result->parts_s = 0;
	json_object_foreach(parts, name, part)
	{
		size_t i = 0;

		(void)part;
		err = get_number(source, parts, name, &value);
		if (err)
			return err;
		while (i < REPORT_OTHER && strcmp(names[i], name) != 0)
			i++;
		if (value > 0) {
			result->time_s[i] += value;
			result->parts_s += value;
		}
	}
	/* All of it unknown or zero: nothing is told apart. */
	if (!(result->parts_s > 0))
		result->parts_s = NAN;
	return 0;
}

static int read_flows(struct report_source *source, struct report_result *result)
{
	const char *name;
	json_t *flows, *causes;
	int err;

	err = get_object(source, result->json, "bytes", &flows);
	if (err || !flows)
		return err;
	if (json_object_size(flows) > REPORT_FLOWS_MAX)
		return report_refuse(
			source, "\"bytes\" has more than %d links and directions: leave some out",
			REPORT_FLOWS_MAX);
	json_object_foreach(flows, name, causes)
	{
		struct report_flow *flow = &result->flow[result->nr_flows++];

		(void)causes;
		flow->name = name;
		err = get_object(source, flows, name, &causes);
		for (int cause = 0; cause < WEIR_CAUSE_NR && !err; cause++)
			err = get_number(source, causes, result_cause_name((enum weir_cause)cause),
					 &flow->bytes[cause]);
		if (err)
			return err;
	}
	return 0;
}

/* What an object's members, one a memory, add up to; NaN: none is known. */
static int read_sum(struct report_source *source, const struct report_result *result,
		    const char *member, double *out)
{
	const char *name;
	json_t *memories, *memory;
	double bytes;
	int err;

	*out = NAN;
	err = get_object(source, result->json, member, &memories);
	if (err)
		return err;
	json_object_foreach(memories, name, memory)
	{
		(void)memory;
		err = get_number(source, memories, name, &bytes);
		if (err)
			return err;
		if (!isnan(bytes))
			*out = isnan(*out) ? bytes : *out + bytes;
	}
	return 0;
}

/* What was copied in, and the least, of blocks of one size. */
static int read_oracle(struct report_source *source, struct report_result *result)
{
	double block_bytes = NAN, copies = NAN, least = NAN;
	const struct number_member members[] = {
		{"block_bytes", &block_bytes}, {"copy_ins", &copies}, {"min_copy_ins", &least}};
	json_t *oracle;
	int err = get_object(source, result->json, "oracle", &oracle);

	if (!err)
		err = get_numbers(source, oracle, members, ARRAY_LEN(members));
	result->copied_bytes = copies * block_bytes;
	result->least_bytes = least * block_bytes;
	return err;
}

static int read_globals(struct report_source *source, const json_t *decisions, const json_t **out)
{
	const char *name;
	json_t *globals, *value;
	int err = get_object(source, decisions, "globals", &globals);

	if (err)
		return err;
	json_object_foreach(globals, name, value)
	{
		if (!json_is_number(value))
			return report_refuse(source, "the global \"%.40s\" is no number", name);
	}
	*out = globals;
	return 0;
}

static int read_decisions(struct report_source *source, struct report_result *result)
{
	static const char *const hooks[] = {"admit", "victim", "fault", "moved"};
	struct report_decisions *out = &result->decisions;
	json_t *decisions, *hook;
	int err = get_object(source, result->json, "decisions", &decisions);

	out->known = decisions != NULL;
	for (size_t i = 0; i < ARRAY_LEN(hooks) && !err; i++) {
		err = get_object(source, decisions, hooks[i], &hook);
		if (!err)
			err = get_number(source, hook, "asked", &out->asked[i]);
		if (!err)
			err = get_number(source, hook, "answered", &out->answered[i]);
	}
	if (!err)
		err = get_number(source, decisions, "wrong", &out->wrong);
	if (!err)
		err = get_number(source, decisions, "instructions", &out->instructions);
	return err ? err : read_globals(source, decisions, &out->globals);
}

static int read_check(struct report_source *source, struct report_result *result)
{
	json_t *check, *passed;
	int err = get_object(source, result->json, "check", &check);

	passed = json_object_get(check, "passed");
	result->passed = json_is_boolean(passed) ? json_is_true(passed) : -1;
	if (!err && known(passed) && !json_is_boolean(passed))
		err = report_refuse(source, "\"passed\" is no truth: write true, false or null");
	return err;
}

/* A result of a real GPU says so, or its machine's name does. */
static int read_real_gpu(struct report_source *source, struct report_result *result)
{
	const char *bound = NULL;
	json_t *gpu;
	int err = get_object(source, result->json, "real_gpu", &gpu);

	if (!err)
		err = get_text(source, gpu, "bound", &bound);
	if (!err && isnan(result->in_memory_s))
		err = get_number(source, gpu, "in_memory_s", &result->in_memory_s);
	result->measured = gpu || strcmp(result->machine, "cuda") == 0;
	result->bound_measured = bound && strcmp(bound, "measured") == 0;
	return err;
}

static int read_measures(struct report_source *source, struct report_result *result)
{
	const struct number_member members[] = {
		{"faults", &result->faults},
		{"first_touches", &result->first_touches},
		{"budget_bytes", &result->budget_bytes},
		{"bound_s", &result->bound_s},
		{"needs_bytes", &result->needs_bytes},
		{"in_memory_s", &result->in_memory_s},
	};
	int err = get_numbers(source, result->json, members, ARRAY_LEN(members));

	if (!err)
		err = read_epochs(source, result);
	if (!err)
		err = read_parts(source, result);
	if (!err)
		err = read_flows(source, result);
	if (!err)
		err = read_sum(source, result, "peak_bytes", &result->peak_bytes);
	if (!err)
		err = read_sum(source, result, "near_budget_bytes", &result->near_bytes);
	if (isnan(result->near_bytes))
		result->near_bytes = 0;
	if (!err)
		err = read_oracle(source, result);
	if (!err)
		err = read_check(source, result);
	if (!err)
		err = read_decisions(source, result);
	if (!err)
		err = report_explain_read(source, result);
	if (!err)
		err = read_real_gpu(source, result);
	if (result->status != RESULT_OK || !(result->epoch_s > 0))
		result->epoch_s = result->parts_s = NAN;
	return err;
}

/* ------------------------------------------------------------------ lines */

static int read_result(struct report_source *source, struct report_result *result)
{
	const char *schema;
	int err;

	if (!json_is_object(result->json))
		return report_refuse(source, "no JSON object: give a file of `weir bench --json`");
	err = need_text(source, result->json, "schema", &schema);
	if (!err && strcmp(schema, RESULT_SCHEMA) != 0)
		err = report_refuse(source,
				    "unknown schema '%.40s': this version reads " RESULT_SCHEMA,
				    schema);
	if (!err)
		err = need_text(source, result->json, "workload", &result->workload);
	if (!err)
		err = need_text(source, result->json, "machine", &result->machine);
	if (!err)
		err = need_text(source, result->json, "manager", &result->manager);
	if (!err)
		err = get_text(source, result->json, "policy", &result->policy);
	if (!err)
		err = get_text(source, result->json, "version", &result->version);
	if (!err)
		err = get_text(source, result->json, "error", &result->error);
	if (!err)
		err = get_text(source, result->json, "command", &result->command);
	if (!err)
		err = get_text(source, result->json, "date", &result->date);
	if (!err)
		err = read_parameters(source, result);
	if (!err)
		err = read_status(source, result);
	if (!err)
		err = read_measures(source, result);
	if (!err && result->trace && !(result->budget_bytes > 0))
		err = report_refuse(source, "a replay lacks \"budget_bytes\": give a file of `weir "
					    "replay --json`");
	if (!err && is_touch(result))
		err = read_touch(source, result);
	else if (!err && is_solver(result))
		err = read_solver(source, result);
	else if (!err && is_graph(result))
		err = read_graph(source, result);
	return err;
}

/* The last result was read whole: one of a workload that makes passes goes to its own. */
static int set_apart(struct report_results *results)
{
	struct report_result *last = &results->result[results->nr - 1], *moved;
	struct report_list *list = is_touch(last)    ? &results->touch
				   : is_solver(last) ? &results->solver
				   : is_graph(last)  ? &results->graph
						     : NULL;

	if (!list)
		return 0;
	moved = reallocarray(list->result, list->nr + 1, sizeof(*moved));
	if (!moved)
		return -ENOMEM;
	list->result = moved;
	moved[list->nr++] = *last;
	results->nr--;
	return 0;
}

static int append(struct report_source *source, struct report_results *results, json_t *json,
		  struct report_result **out)
{
	struct report_result *moved;

	if (report_results_nr(results) == REPORT_RESULTS_MAX)
		return report_refuse(source, "more than %d results: give fewer files",
				     REPORT_RESULTS_MAX);
	moved = reallocarray(results->result, results->nr + 1, sizeof(*moved));
	if (!moved)
		return -ENOMEM;
	results->result = moved;
	*out = &moved[results->nr++];
	**out = (struct report_result){
		.json = json_incref(json), .file = source->file, .line = source->line};
	return 0;
}

static bool is_blank(const char *line, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		if (line[i] != ' ' && line[i] != '\t' && line[i] != '\r')
			return false;
	return true;
}

static int read_line(struct report_source *source, const char *line, size_t bytes,
		     struct report_results *results)
{
	struct report_result *result = NULL;
	json_error_t error;
	json_t *json;
	int err;

	if (is_blank(line, bytes))
		return 0;
	/* As doubles, integers of any size can be read. */
	json = json_loadb(line, bytes, JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, &error);
	if (!json)
		return report_refuse(source,
				     "no JSON object (%.80s): give a file of `weir bench --json`",
				     error.text);
	err = append(source, results, json, &result);
	json_decref(json);
	if (!err)
		err = read_result(source, result);
	return err ? err : set_apart(results);
}

int report_read(const char *text, size_t bytes, const char *file, struct report_results *results,
		char *err, size_t err_bytes)
{
	struct report_source source = {.file = file, .err = err, .err_bytes = err_bytes};
	const char *end = text + bytes;
	int error = 0;

	while (text < end && !error) {
		const char *newline = memchr(text, '\n', (size_t)(end - text));
		size_t length = (size_t)((newline ? newline : end) - text);

		source.line++;
		error = read_line(&source, text, length, results);
		text += length + 1;
	}
	if (error == -ENOMEM) {
		(void)report_refuse(&source, "not enough memory on this computer");
		return -ENOMEM;
	}
	return error;
}

static void list_free(struct report_result *result, size_t nr)
{
	for (size_t i = 0; i < nr; i++) {
		report_explain_fini(&result[i]);
		json_decref(result[i].json);
	}
	free(result);
}

void report_results_fini(struct report_results *results)
{
	list_free(results->result, results->nr);
	list_free(results->touch.result, results->touch.nr);
	list_free(results->graph.result, results->graph.nr);
	list_free(results->solver.result, results->solver.nr);
	*results = (struct report_results){0};
}
