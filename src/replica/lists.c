/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of elements, as their runs: see lists.h. */
#include "src/replica/lists.h"

#include <errno.h>
#include <stdlib.h>

#include "src/base/log.h"

/* -EINVAL: the numbers do not ascend. */
static int count_runs(const uint32_t *element, uint64_t nr, uint32_t *nr_runs)
{
	*nr_runs = 1;
	for (uint64_t i = 1; i < nr; i++) {
		if (element[i] <= element[i - 1]) {
			log_error("subscribe: elements ascend, and of numbers %llu and %llu of the "
				  "list they are %u and %u",
				  (unsigned long long)(i - 1), (unsigned long long)i,
				  element[i - 1], element[i]);
			return -EINVAL;
		}
		*nr_runs += element[i] != element[i - 1] + 1;
	}
	return 0;
}

int list_create(const uint32_t *element, uint64_t nr, struct list **out)
{
	struct list *list;
	uint32_t nr_runs, k = 0;
	int err = element ? count_runs(element, nr, &nr_runs) : -EINVAL;

	if (err)
		return err;
	list = calloc(1, sizeof(*list));
	if (list)
		list->run = malloc(nr_runs * sizeof(*list->run));
	if (!list || !list->run) {
		free(list);
		return -ENOMEM;
	}
	list->nr = nr;
	list->nr_runs = nr_runs;
	for (uint64_t i = 0; i < nr; i++)
		if (!i || element[i] != element[i - 1] + 1)
			list->run[k++] = (struct run){element[i], (uint32_t)i};
	*out = list;
	return 0;
}

/* How many elements of a list have lower numbers; *run: the last run that has any of them, and
 * nr_runs if there is none. */
static uint64_t count_below(const struct list *list, uint64_t number, uint32_t *run)
{
	uint32_t k;

	SEARCH_SORTED(k, 0, list->nr_runs, list->run[k].first < number);
	*run = k ? k - 1 : list->nr_runs;
	if (!k)
		return 0;
	k--;
	return MIN(list->run[k].index + (number - list->run[k].first), list_run_end(list, k));
}

bool list_find(const struct list *list, uint32_t element_bytes, uint64_t offset, uint64_t end,
	       struct list_part *out)
{
	uint32_t first_run, last_run;
	uint64_t index = count_below(list, offset / element_bytes, &first_run);
	uint64_t index_end = count_below(list, div_round_up(end, element_bytes), &last_run);

	if (index == index_end)
		return false;
	/* The first one is in that run still, or begins the next one. */
	if (first_run == list->nr_runs)
		first_run = 0;
	else if (list_run_end(list, first_run) == index)
		first_run++;
	*out = (struct list_part){
		.index = index,
		.nr = index_end - index,
		.run = first_run,
		.nr_runs = last_run - first_run + 1,
		.first = (uint32_t)(list->run[first_run].first +
				    (index - list->run[first_run].index)),
		.last = (uint32_t)(list->run[last_run].first +
				   (index_end - 1 - list->run[last_run].index)),
	};
	return true;
}

uint32_t list_span(const struct list *list, uint64_t index, uint64_t nr, uint32_t *first,
		   uint32_t *last)
{
	uint32_t k, end;

	SEARCH_SORTED(k, 0, list->nr_runs, list->run[k].index <= index);
	SEARCH_SORTED(end, k, list->nr_runs, list->run[end].index < index + nr);
	*first = (uint32_t)(list->run[k - 1].first + (index - list->run[k - 1].index));
	*last = (uint32_t)(list->run[end - 1].first + (index + nr - 1 - list->run[end - 1].index));
	return end - k + 1;
}

void list_part_run(const struct list *list, uint32_t element_bytes, const struct list_part *part,
		   uint32_t k, uint64_t *offset, uint64_t *end)
{
	const struct run *run = &list->run[part->run + k];
	uint64_t behind = run->first + (list_run_end(list, part->run + k) - run->index);

	*offset = (uint64_t)MAX(run->first, part->first) * element_bytes;
	*end = MIN(behind, (uint64_t)part->last + 1) * element_bytes;
}
