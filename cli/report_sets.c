/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Results in order; see report_sets.h. Searches are linear and there are few results: a page of two
 * thousand takes no time that anybody would notice.
 */
#include "cli/report_sets.h"

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cli/size.h"
#include "src/base/util.h"

/* In the order in which they are shown. Others follow as they come. */
static const char *const known_managers[] = {
	"native",  "malloc",	   "zerocopy",	       "uvm",
	"uvm+max", "uvm+prefetch", "uvm+prefetch+max", "weir",
};

#define NR_KNOWN ARRAY_LEN(known_managers)

enum split { SPLIT_NOT, SPLIT_BY_BUDGET, SPLIT_BY_OVER };

/* Results that are compared while sets are made. */
struct making {
	const struct report_results *results;
	struct report_sets *sets;
	size_t *group; /* by result: of one set but for the budget */
	size_t nr_groups;
};

static bool same_text(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

/* NaN is the same as NaN. */
static bool same_number(double a, double b)
{
	return a == b || (isnan(a) && isnan(b));
}

/* Budgets that are a percentage of what is needed are rounded. */
static bool same_over(double a, double b)
{
	return same_number(a, b) || fabs(a - b) <= 1e-2 * fmax(a, b);
}

static double over_of(double needs_bytes, double budget_bytes)
{
	return budget_bytes > 0 ? needs_bytes / budget_bytes : NAN;
}

/* ------------------------------------------------------------------ which belong together */

static bool same_setup(const struct report_result *a, const struct report_result *b)
{
	return same_text(a->workload, b->workload) && same_text(a->machine, b->machine) &&
	       same_text(a->version, b->version) && a->measured == b->measured &&
	       same_text(a->data, b->data) && same_text(a->graph, b->graph) &&
	       same_text(a->trace, b->trace) && a->no_think == b->no_think &&
	       a->no_advice == b->no_advice && a->cold == b->cold && a->observed == b->observed &&
	       same_text(a->device, b->device) && same_number(a->slice, b->slice) &&
	       same_number(a->hidden, b->hidden) &&
	       same_number(a->host_budget_bytes, b->host_budget_bytes) &&
	       same_number(a->block_bytes, b->block_bytes);
}

bool report_same_work(const struct report_result *a, const struct report_result *b)
{
	return same_text(a->workload, b->workload) && same_text(a->graph, b->graph) &&
	       same_text(a->trace, b->trace) && same_number(a->slice, b->slice) &&
	       same_number(a->hidden, b->hidden);
}

/* Of the same size, too: it then needs the same memory. */
static bool same_run(const struct report_result *a, const struct report_result *b)
{
	return a->nodes == b->nodes && report_same_work(a, b);
}

/*
 * What the work needs: said by a result, or held by a manager that keeps one copy of everything for
 * good; else the least that a manager's peaks add up to, which is no less.
 */
static double needs_of(const struct report_results *results, const struct report_result *work)
{
	double exact = NAN, least = NAN;

	for (size_t i = 0; i < results->nr; i++) {
		const struct report_result *r = &results->result[i];

		if (!same_run(r, work))
			continue;
		if (r->needs_bytes > 0)
			return r->needs_bytes;
		if (r->status != RESULT_OK || !(r->peak_bytes > 0))
			continue;
		if (strcmp(r->manager, "native") == 0 || strcmp(r->manager, "malloc") == 0 ||
		    strcmp(r->manager, "zerocopy") == 0)
			exact = fmax(exact, r->peak_bytes);
		least = fmin(least, r->peak_bytes);
	}
	return isnan(exact) ? least : exact;
}

/*
 * How a group falls apart where sizes and budgets both vary: by budget, where sizes share one; by
 * how much is over, where each budget was chosen for a size.
 */
static enum split split_of(const struct making *m, size_t group)
{
	const struct report_result *result = m->results->result;
	bool sizes = false, crossed = false, shared = false;

	for (size_t i = 0; i < m->results->nr; i++) {
		for (size_t k = 0; k < i; k++) {
			bool size, budget;

			if (m->group[i] != group || m->group[k] != group)
				continue;
			size = result[i].nodes == result[k].nodes;
			budget = report_same_budget(result[i].budget_bytes, result[k].budget_bytes);
			sizes |= !size;
			crossed |= size && !budget;
			shared |= !size && budget;
		}
	}
	return shared ? SPLIT_BY_BUDGET : sizes && crossed ? SPLIT_BY_OVER : SPLIT_NOT;
}

/* Whether the i-th result has the k-th one's work, size, budget and manager, and may use another
 * amount of other GPUs' memory. */
static bool differs_near(const struct making *m, size_t i, size_t k)
{
	const struct report_result *a = &m->results->result[i], *b = &m->results->result[k];

	return same_run(a, b) && report_same_budget(a->budget_bytes, b->budget_bytes) &&
	       same_text(a->manager, b->manager) && a->near_bytes != b->near_bytes;
}

/* Results that use no other GPU's memory are with the first ones that do. */
static bool fits_group(const struct making *m, size_t i, size_t group)
{
	for (size_t k = 0; k < i; k++)
		if (m->group[k] == group && differs_near(m, i, k))
			return false;
	return true;
}

static void group_results(struct making *m)
{
	const struct report_result *result = m->results->result;

	for (size_t i = 0; i < m->results->nr; i++) {
		size_t k = 0;

		while (k < i &&
		       !(same_setup(&result[i], &result[k]) && fits_group(m, i, m->group[k])))
			k++;
		m->group[i] = k < i ? m->group[k] : m->nr_groups++;
	}
}

static int append_to_set(struct report_set *set, const struct report_result *result)
{
	const struct report_result **moved =
		reallocarray(set->result, set->nr_results + 1, sizeof(*moved));

	if (!moved)
		return -ENOMEM;
	set->result = moved;
	moved[set->nr_results++] = result;
	return 0;
}

static bool of_one_set(const struct making *m, const struct report_result *a,
		       const struct report_result *b, enum split split)
{
	if (split == SPLIT_BY_BUDGET)
		return report_same_budget(a->budget_bytes, b->budget_bytes);
	return split == SPLIT_NOT || same_over(over_of(needs_of(m->results, a), a->budget_bytes),
					       over_of(needs_of(m->results, b), b->budget_bytes));
}

/* The set that a result of a group belongs to; NULL: there are too many. */
static struct report_set *set_for(struct making *m, size_t *group_of_set, size_t i,
				  enum split split)
{
	const struct report_result *result = &m->results->result[i];
	struct report_sets *sets = m->sets;
	struct report_set *set;

	for (size_t k = 0; k < sets->nr; k++)
		if (group_of_set[k] == m->group[i] &&
		    of_one_set(m, sets->set[k].result[0], result, split))
			return &sets->set[k];
	if (sets->nr == REPORT_SETS_MAX)
		return NULL;
	group_of_set[sets->nr] = m->group[i];
	set = &sets->set[sets->nr++];
	*set = (struct report_set){.measured = result->measured};
	return set;
}

static int divide(struct making *m, char *err, size_t err_bytes)
{
	size_t group_of_set[REPORT_SETS_MAX] = {0};
	enum split *split = calloc(m->nr_groups + 1, sizeof(*split));
	int rc = split ? 0 : -ENOMEM;

	for (size_t g = 0; g < m->nr_groups && !rc; g++)
		split[g] = split_of(m, g);
	for (size_t i = 0; i < m->results->nr && !rc; i++) {
		struct report_set *set = set_for(m, group_of_set, i, split[m->group[i]]);

		if (set) {
			rc = append_to_set(set, &m->results->result[i]);
			continue;
		}
		snprintf(err, err_bytes,
			 "these results are of more than %d machines, budgets, versions or "
			 "configurations: give fewer files",
			 REPORT_SETS_MAX);
		rc = -E2BIG;
	}
	free(split);
	return rc;
}

/* ------------------------------------------------------------------ managers */

static size_t manager_index(const struct report_sets *sets, const char *name)
{
	size_t i = 0;

	while (i < sets->nr_managers && strcmp(sets->manager[i], name) != 0)
		i++;
	return i;
}

static bool has_manager(const struct report_results *results, const char *name)
{
	for (size_t i = 0; i < results->nr; i++)
		if (strcmp(results->result[i].manager, name) == 0)
			return true;
	return false;
}

/* Others share the slots that are left. */
static void add_manager(struct report_sets *sets, const char *name, size_t slot)
{
	if (slot >= REPORT_SLOTS_MAX)
		slot = NR_KNOWN + slot % (REPORT_SLOTS_MAX - NR_KNOWN);
	sets->slot[sets->nr_managers] = slot;
	sets->manager[sets->nr_managers++] = name;
}

size_t report_manager_slot(const char *name)
{
	size_t slot = 0;

	while (slot < NR_KNOWN && strcmp(known_managers[slot], name) != 0)
		slot++;
	return slot;
}

static int list_managers(const struct report_results *results, struct report_sets *sets, char *err,
			 size_t err_bytes)
{
	size_t others = 0;

	for (size_t i = 0; i < NR_KNOWN; i++)
		if (has_manager(results, known_managers[i]))
			add_manager(sets, known_managers[i], i);
	for (size_t i = 0; i < results->nr; i++) {
		if (manager_index(sets, results->result[i].manager) < sets->nr_managers)
			continue;
		if (sets->nr_managers == REPORT_MANAGERS_MAX) {
			snprintf(err, err_bytes,
				 "these results are of more than %d managers: give fewer files",
				 REPORT_MANAGERS_MAX);
			return -E2BIG;
		}
		add_manager(sets, results->result[i].manager, NR_KNOWN + others++);
	}
	return 0;
}

/* ------------------------------------------------------------------ cases */

/* An epoch in memory: native's on the same machine where it got through, else what results say. */
static double in_memory_of(const struct report_results *results, const struct report_result *work)
{
	double said = work->in_memory_s;

	for (size_t i = 0; i < results->nr; i++) {
		const struct report_result *r = &results->result[i];

		if (!same_run(r, work) || !same_text(r->machine, work->machine) ||
		    !same_text(r->version, work->version))
			continue;
		if (strcmp(r->manager, "native") == 0 && !isnan(r->epoch_s))
			return r->epoch_s;
		if (isnan(said))
			said = r->in_memory_s;
	}
	return said > 0 ? said : NAN;
}

static bool in_case(const struct report_case *c, const struct report_result *result)
{
	return c->nodes == result->nodes &&
	       report_same_budget(c->budget_bytes, result->budget_bytes);
}

/* Of repeated runs, the one in the middle by time: its parts belong together. */
static const struct report_result *middle(const struct report_set *set, const struct report_case *c,
					  const char *manager)
{
	const struct report_result *best = NULL;
	size_t nr = 0;

	for (size_t i = 0; i < set->nr_results; i++)
		nr += in_case(c, set->result[i]) && !strcmp(set->result[i]->manager, manager) &&
		      !isnan(set->result[i]->epoch_s);
	for (size_t i = 0; i < set->nr_results; i++) {
		const struct report_result *r = set->result[i];
		size_t before = 0;

		if (!in_case(c, r) || strcmp(r->manager, manager) != 0)
			continue;
		if (!best)
			best = r;
		for (size_t k = 0; k < set->nr_results; k++) {
			const struct report_result *other = set->result[k];

			before += in_case(c, other) && !strcmp(other->manager, manager) &&
				  (other->epoch_s < r->epoch_s ||
				   (other->epoch_s == r->epoch_s && k < i));
		}
		if (!isnan(r->epoch_s) && before == (nr - 1) / 2)
			best = r;
	}
	return best;
}

static void fill_case(const struct report_results *results, const struct report_sets *sets,
		      const struct report_set *set, const struct report_result *first,
		      struct report_case *c)
{
	*c = (struct report_case){
		.nodes = first->nodes,
		.budget_bytes = first->budget_bytes,
		.needs_bytes = needs_of(results, first),
		.in_memory_s = in_memory_of(results, first),
		.bound_s = NAN,
	};
	c->over = over_of(c->needs_bytes, c->budget_bytes);
	/* With other GPUs' memory the bound is another one, see report_bound_s(). */
	for (size_t i = 0; i < set->nr_results; i++)
		if (in_case(c, set->result[i]) && set->result[i]->bound_s > 0 &&
		    !(set->result[i]->near_bytes > 0))
			c->bound_s = set->result[i]->bound_s;
	for (size_t m = 0; m < sets->nr_managers; m++)
		c->cell[m] = middle(set, c, sets->manager[m]);
}

/* Sizes go up, budgets down. */
static int compare_cases(const void *a, const void *b)
{
	const struct report_case *x = a, *y = b;

	if (x->nodes != y->nodes)
		return x->nodes < y->nodes ? -1 : 1;
	return (x->budget_bytes < y->budget_bytes) - (x->budget_bytes > y->budget_bytes);
}

static int make_cases(const struct report_results *results, const struct report_sets *sets,
		      struct report_set *set)
{
	double least = INFINITY, most = 0;

	set->cases = calloc(set->nr_results, sizeof(*set->cases));
	if (!set->cases)
		return -ENOMEM;
	for (size_t i = 0; i < set->nr_results; i++) {
		size_t k = 0;

		while (k < set->nr_cases && !in_case(&set->cases[k], set->result[i]))
			k++;
		if (k < set->nr_cases)
			continue;
		fill_case(results, sets, set, set->result[i], &set->cases[set->nr_cases++]);
	}
	qsort(set->cases, set->nr_cases, sizeof(*set->cases), compare_cases);
	for (size_t i = 0; i < set->nr_cases; i++) {
		set->by_nodes |= isnan(set->cases[i].over);
		least = fmin(least, set->cases[i].over);
		most = fmax(most, set->cases[i].over);
	}
	set->by_nodes |= same_over(least, most);
	set->by_nodes &= !report_is_replay(set);
	return 0;
}

/* By case and manager, and repeated ones as they came. */
static void sort_results(const struct report_sets *sets, struct report_set *set)
{
	size_t nr = 0;

	for (size_t k = 0; k < set->nr_cases; k++)
		for (size_t m = 0; m < sets->nr_managers; m++)
			for (size_t i = nr; i < set->nr_results; i++) {
				const struct report_result *r = set->result[i];

				if (!in_case(&set->cases[k], r) ||
				    strcmp(r->manager, sets->manager[m]) != 0)
					continue;
				memmove(&set->result[nr + 1], &set->result[nr],
					(i - nr) * sizeof(struct report_result *));
				set->result[nr++] = r;
			}
}

/* ------------------------------------------------------------------ titles */

/* How much of other GPUs' memory a set's first result that uses any may use; 0: none does. */
static double near_of(const struct report_set *set)
{
	for (size_t i = 0; i < set->nr_results; i++)
		if (set->result[i]->near_bytes > 0)
			return set->result[i]->near_bytes;
	return 0;
}

/* What sets may differ in besides the machine: shown where they do. */
static void write_differences(FILE *out, const struct report_sets *sets,
			      const struct report_set *set)
{
	const struct report_result *own = set->result[0];
	bool version = false, data = false, graph = false, device = false, slice = false;
	bool hidden = false, host = false, block = false, near = false, how = false;
	char text[SIZE_TEXT_BYTES];

	for (size_t i = 0; i < sets->nr; i++) {
		const struct report_result *other = sets->set[i].result[0];

		version |= !same_text(own->version, other->version);
		/* Of other machines, that is clear. */
		data |= same_text(own->machine, other->machine) &&
			!same_text(own->data, other->data);
		graph |= !same_text(own->graph, other->graph);
		device |= !same_text(own->device, other->device);
		slice |= !same_number(own->slice, other->slice);
		hidden |= !same_number(own->hidden, other->hidden);
		host |= !same_number(own->host_budget_bytes, other->host_budget_bytes);
		block |= !same_number(own->block_bytes, other->block_bytes);
		near |= near_of(set) != near_of(&sets->set[i]);
		how |= own->no_think != other->no_think || own->no_advice != other->no_advice ||
		       own->cold != other->cold || own->observed != other->observed;
	}
	if (how)
		fprintf(out, "%s%s%s%s", own->no_think ? ", without the program's own time" : "",
			own->no_advice ? ", without advice" : "", own->cold ? ", cold" : "",
			own->observed ? ", kinds as observed" : "");
	if (version && own->version)
		fprintf(out, ", version %s", own->version);
	if (device && own->device)
		fprintf(out, ", device %s", own->device);
	if (graph)
		fprintf(out, ", graph %s", own->graph ? own->graph : "generated");
	if (data && own->data)
		fprintf(out, ", %s data", own->data);
	if (slice && own->slice > 0)
		fprintf(out, ", slices of %s",
			count_format((uint64_t)own->slice, text, sizeof(text)));
	if (hidden && own->hidden > 0)
		fprintf(out, ", hidden layer of %.0f", own->hidden);
	if (host && own->host_budget_bytes > 0)
		fprintf(out, ", %s of host memory",
			size_format((uint64_t)own->host_budget_bytes, text, sizeof(text)));
	if (near && near_of(set) > 0)
		fprintf(out, ", %s of other GPUs' memory",
			size_format((uint64_t)near_of(set), text, sizeof(text)));
	if (block)
		fprintf(out, ", blocks of %s",
			own->block_bytes > 0
				? size_format((uint64_t)own->block_bytes, text, sizeof(text))
				: "the usual size");
}

static int make_title(const struct report_sets *sets, struct report_set *set)
{
	const struct report_result *own = set->result[0];
	bool one_budget = true;
	char text[SIZE_TEXT_BYTES];
	size_t bytes;
	FILE *out;

	for (size_t i = 0; i < set->nr_cases; i++)
		one_budget &= report_same_budget(set->cases[i].budget_bytes, own->budget_bytes);
	out = open_memstream(&set->title, &bytes);
	if (!out)
		return -ENOMEM;
	/* "cuda" stands for whatever GPU there was. */
	if (set->measured && strcmp(own->machine, "cuda") == 0)
		fprintf(out, "%s on a real GPU", own->workload);
	else
		fprintf(out, "%s on a %s %s", own->workload, set->measured ? "real" : "simulated",
			own->machine);
	if (report_is_replay(set))
		fprintf(out, ", %s", own->trace);
	else if (report_one_size(set))
		fprintf(out, ", %s nodes", count_format((uint64_t)own->nodes, text, sizeof(text)));
	if (one_budget && own->budget_bytes > 0)
		fprintf(out, ", %s of GPU memory",
			size_format((uint64_t)own->budget_bytes, text, sizeof(text)));
	else if (set->nr_cases > 1 && set->by_nodes && set->cases[0].over > 0)
		fprintf(out, ", GPU memory of %.0f %% of what it needs", 100 / set->cases[0].over);
	write_differences(out, sets, set);
	return fclose(out) ? -ENOMEM : 0;
}

/* ------------------------------------------------------------------ the whole */

int report_sets_make(const struct report_results *results, struct report_sets *sets, char *err,
		     size_t err_bytes)
{
	struct making m = {.results = results, .sets = sets};
	int rc;

	*sets = (struct report_sets){.results = results};
	m.group = calloc(results->nr + 1, sizeof(*m.group));
	if (!m.group)
		return -ENOMEM;
	group_results(&m);
	rc = list_managers(results, sets, err, err_bytes);
	if (!rc)
		rc = divide(&m, err, err_bytes);
	free(m.group);
	for (size_t i = 0; i < sets->nr && !rc; i++) {
		rc = make_cases(results, sets, &sets->set[i]);
		if (!rc)
			sort_results(sets, &sets->set[i]);
	}
	for (size_t i = 0; i < sets->nr && !rc; i++)
		rc = make_title(sets, &sets->set[i]);
	return rc;
}

void report_sets_fini(struct report_sets *sets)
{
	for (size_t i = 0; i < sets->nr; i++) {
		free(sets->set[i].title);
		free(sets->set[i].result);
		free(sets->set[i].cases);
	}
	*sets = (struct report_sets){0};
}
