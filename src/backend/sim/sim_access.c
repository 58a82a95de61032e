/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What open brackets declared, as sorted intervals, so that a launch's use is looked up in
 * logarithmic time even in a bracket that names a whole space. Does not look at mappings.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/backend/sim/sim_internal.h"

bool use_reads(const struct weir_use *use)
{
	return use->kind != WEIR_DISCARD;
}

bool use_writes(const struct weir_use *use)
{
	return use->kind == WEIR_WRITE || use->kind == WEIR_OVERWRITE;
}

static int interval_compare(const void *left, const void *right)
{
	const struct sim_interval *a = left, *b = right;

	return (a->begin > b->begin) - (a->begin < b->begin);
}

/* Sort, and merge what overlaps or touches. */
static size_t intervals_merge(struct sim_interval *all, size_t nr)
{
	size_t last = 0;

	if (!nr)
		return 0;
	qsort(all, nr, sizeof(*all), interval_compare);
	for (size_t i = 1; i < nr; i++) {
		if (all[i].begin > all[last].end)
			all[++last] = all[i];
		else if (all[i].end > all[last].end)
			all[last].end = all[i].end;
	}
	return last + 1;
}

static bool intervals_cover(const struct sim_interval *all, size_t nr, struct sim_interval what)
{
	size_t low = 0, high = nr;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (all[middle].begin <= what.begin)
			low = middle + 1;
		else
			high = middle;
	}
	return low && all[low - 1].end >= what.end;
}

static struct sim_interval interval_of(const struct weir_use *use)
{
	uintptr_t begin = (uintptr_t)use->addr;

	return (struct sim_interval){begin, begin + use->bytes};
}

bool bracket_covers(const struct sim_bracket *bracket, const struct weir_use *use)
{
	struct sim_interval what = interval_of(use);

	/* What a bracket overwrites or writes, an earlier launch of it may have filled: it may be
	 * read. What it discards nobody may touch. */
	for (; bracket; bracket = bracket->outer)
		if (use_writes(use) ? intervals_cover(bracket->writes, bracket->nr_writes, what)
				    : intervals_cover(bracket->reads, bracket->nr_reads, what))
			return true;
	return false;
}

void bracket_free(struct sim_bracket *bracket)
{
	if (!bracket)
		return;
	free(bracket->reads);
	free(bracket->writes);
	free(bracket);
}

static int bracket_create(const struct weir_use *uses, uint32_t nr, struct sim_bracket **out)
{
	struct sim_bracket *bracket = calloc(1, sizeof(*bracket));

	if (!bracket)
		return -ENOMEM;
	bracket->reads = malloc((nr + (size_t)1) * sizeof(*bracket->reads));
	bracket->writes = malloc((nr + (size_t)1) * sizeof(*bracket->writes));
	if (!bracket->reads || !bracket->writes) {
		bracket_free(bracket);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < nr; i++) {
		if (use_reads(&uses[i]))
			bracket->reads[bracket->nr_reads++] = interval_of(&uses[i]);
		if (use_writes(&uses[i]))
			bracket->writes[bracket->nr_writes++] = interval_of(&uses[i]);
	}
	bracket->nr_reads = intervals_merge(bracket->reads, bracket->nr_reads);
	bracket->nr_writes = intervals_merge(bracket->writes, bracket->nr_writes);
	*out = bracket;
	return 0;
}

int sim_access_begin(struct backend *b, stream_id_t id, const struct weir_use *uses, uint32_t nr)
{
	struct sim *sim = sim_of(b);
	struct sim_bracket *bracket;
	struct sim_stream *stream;
	int err;

	if (nr && !uses)
		return -EINVAL;
	for (uint32_t i = 0; i < nr; i++)
		if (!uses[i].bytes || uses[i].bytes > UINTPTR_MAX - (uintptr_t)uses[i].addr)
			return -EINVAL;
	err = bracket_create(uses, nr, &bracket);
	if (err)
		return err;
	sim_enter(sim);
	stream = stream_find(sim, id);
	if (stream) {
		bracket->outer = stream->bracket;
		stream->bracket = bracket;
	}
	sim_leave(sim);
	if (!stream) {
		bracket_free(bracket);
		return -EINVAL;
	}
	return 0;
}

void sim_access_end(struct backend *b, stream_id_t id)
{
	struct sim *sim = sim_of(b);
	struct sim_bracket *bracket = NULL;
	struct sim_stream *stream;

	sim_enter(sim);
	stream = stream_find(sim, id);
	if (stream && stream->bracket) {
		bracket = stream->bracket;
		stream->bracket = bracket->outer;
	}
	sim_leave(sim);
	bracket_free(bracket);
}
