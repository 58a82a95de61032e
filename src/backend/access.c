/* SPDX-License-Identifier: Apache-2.0 */
/* Brackets as intervals: see access.h. Does not look at mappings. */
#include "src/backend/access.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/util.h"

static int interval_compare(const void *left, const void *right)
{
	const struct access_interval *a = left, *b = right;

	return (a->begin > b->begin) - (a->begin < b->begin);
}

static bool are_sorted(const struct access_interval *all, size_t nr)
{
	for (size_t i = 1; i < nr; i++)
		if (all[i].begin < all[i - 1].begin)
			return false;
	return true;
}

/* Sort, and merge what overlaps or touches. */
static size_t intervals_merge(struct access_interval *all, size_t nr)
{
	size_t last = 0;

	if (!nr)
		return 0;
	if (!are_sorted(all, nr)) /* a list of few often is */
		qsort(all, nr, sizeof(*all), interval_compare);
	for (size_t i = 1; i < nr; i++) {
		if (all[i].begin > all[last].end)
			all[++last] = all[i];
		else if (all[i].end > all[last].end)
			all[last].end = all[i].end;
	}
	return last + 1;
}

/* How many begin below addr. */
static size_t intervals_below(const struct access_interval *all, size_t nr, uintptr_t addr)
{
	size_t at;

	SEARCH_SORTED(at, 0, nr, all[at].begin < addr);
	return at;
}

static bool intervals_cover(const struct access_interval *all, size_t nr,
			    struct access_interval what)
{
	size_t below = intervals_below(all, nr, what.begin + 1);

	return below && all[below - 1].end >= what.end;
}

static struct access_interval interval_of(const struct weir_use *use)
{
	uintptr_t begin = (uintptr_t)use->addr;

	return (struct access_interval){begin, begin + use->bytes};
}

bool access_covers(const struct access_bracket *bracket, const struct weir_use *use)
{
	struct access_interval what = interval_of(use);

	for (; bracket; bracket = bracket->outer) {
		bool covers = intervals_cover(bracket->any, bracket->nr_any, what);

		if (covers)
			return true;
		covers = use->kind == WEIR_ATOMIC
				 ? intervals_cover(bracket->atomics, bracket->nr_atomics, what)
			 : use_writes(use)
				 ? intervals_cover(bracket->writes, bracket->nr_writes, what)
				 : intervals_cover(bracket->reads, bracket->nr_reads, what);

		if (covers)
			return true;
	}
	return false;
}

/* Whether some of a list lies in [begin, begin + bytes). */
static bool intervals_meet_one(const struct access_interval *all, size_t nr, uintptr_t begin,
			       uint64_t bytes)
{
	size_t below = intervals_below(all, nr, begin + bytes);

	return below && all[below - 1].end > begin;
}

bool access_meets(const struct access_bracket *bracket, uintptr_t begin, uint64_t bytes)
{
	return intervals_meet_one(bracket->reads, bracket->nr_reads, begin, bytes) ||
	       intervals_meet_one(bracket->atomics, bracket->nr_atomics, begin, bytes);
}

/* Whether two lists of intervals meet, and where first. */
static bool intervals_meet(const struct access_interval *a, size_t nr_a,
			   const struct access_interval *b, size_t nr_b, uintptr_t *at)
{
	for (size_t i = 0, n = 0; i < nr_a && n < nr_b;) {
		uintptr_t begin = a[i].begin > b[n].begin ? a[i].begin : b[n].begin;

		if (begin < a[i].end && begin < b[n].end) {
			*at = begin;
			return true;
		}
		if (a[i].end < b[n].end)
			i++;
		else
			n++;
	}
	return false;
}

const struct access_bracket *access_conflict(const struct access_bracket *mine,
					     const struct access_bracket *others, uintptr_t *at)
{
	for (; mine; mine = mine->outer)
		for (const struct access_bracket *o = others; o; o = o->outer)
			if (o->kernel && (intervals_meet(mine->atomics, mine->nr_atomics, o->reads,
							 o->nr_reads, at) ||
					  intervals_meet(mine->reads, mine->nr_reads, o->atomics,
							 o->nr_atomics, at)))
				return o;
	return NULL;
}

void access_launched(struct access_bracket *innermost, const struct weir_kernel *kernel)
{
	for (; innermost; innermost = innermost->outer)
		innermost->kernel = kernel;
}

void access_bracket_free(struct access_bracket *bracket)
{
	if (!bracket)
		return;
	free(bracket->made_writes);
	free(bracket->made_atomics);
	free(bracket);
}

/* Most brackets have no use by atomics: then what they write is all that may be used so. */
static void atomics_share(struct access_bracket *bracket)
{
	bracket->atomics = bracket->writes;
	bracket->nr_atomics = bracket->nr_writes;
}

/* Whether it is one beside others like it. */
static bool use_is_atomic(const struct weir_use *use)
{
	return use->kind == WEIR_ATOMIC || use->kind == BACKEND_ANY;
}

/* Those that are, and what is written. */
static int atomics_make(struct access_bracket *bracket, const struct weir_use *uses, uint32_t nr,
			size_t nr_atomics)
{
	size_t at = bracket->nr_writes;

	bracket->made_atomics = malloc((at + nr_atomics) * sizeof(*bracket->atomics));
	if (!bracket->made_atomics)
		return -ENOMEM;
	bracket->atomics = bracket->made_atomics;
	memcpy(bracket->atomics, bracket->writes, at * sizeof(*bracket->atomics));
	for (uint32_t i = 0; i < nr; i++)
		if (use_is_atomic(&uses[i]))
			bracket->atomics[at++] = interval_of(&uses[i]);
	bracket->nr_atomics = intervals_merge(bracket->atomics, at);
	return 0;
}

int access_bracket_create(const void *owner, const struct weir_use *uses, uint32_t nr,
			  struct access_bracket **out)
{
	struct access_bracket *bracket;
	size_t nr_atomics = 0;

	if (nr && !uses)
		return -EINVAL;
	for (uint32_t i = 0; i < nr; i++)
		if (!uses[i].bytes || uses[i].bytes > UINTPTR_MAX - (uintptr_t)uses[i].addr)
			return -EINVAL;
	/* In one piece: in the simulator every bracket has one. */
	bracket = malloc(sizeof(*bracket) + 3 * (nr + (size_t)1) * sizeof(bracket->list[0]));
	if (!bracket)
		return -ENOMEM;
	*bracket = (struct access_bracket){
		.owner = owner,
		.reads = bracket->list,
		.writes = bracket->list + nr + 1,
		.any = bracket->list + 2 * (nr + (size_t)1),
	};
	for (uint32_t i = 0; i < nr; i++) {
		if (uses[i].kind == BACKEND_ANY)
			bracket->any[bracket->nr_any++] = interval_of(&uses[i]);
		if (use_is_atomic(&uses[i])) {
			nr_atomics++;
			continue;
		}
		if (use_reads(&uses[i]))
			bracket->reads[bracket->nr_reads++] = interval_of(&uses[i]);
		if (use_writes(&uses[i]))
			bracket->writes[bracket->nr_writes++] = interval_of(&uses[i]);
	}
	bracket->nr_reads = intervals_merge(bracket->reads, bracket->nr_reads);
	bracket->nr_writes = intervals_merge(bracket->writes, bracket->nr_writes);
	bracket->nr_any = intervals_merge(bracket->any, bracket->nr_any);
	if (!nr_atomics) {
		atomics_share(bracket);
	} else if (atomics_make(bracket, uses, nr, nr_atomics)) {
		access_bracket_free(bracket);
		return -ENOMEM;
	}
	*out = bracket;
	return 0;
}

/* Take a part out of a list; `out` has room for one more. @return how many there are then. */
static size_t intervals_cut(const struct access_interval *all, size_t nr_all,
			    struct access_interval part, struct access_interval *out)
{
	size_t nr = 0;

	for (size_t i = 0; i < nr_all; i++) {
		struct access_interval was = all[i];

		if (was.begin < part.begin)
			out[nr++] = (struct access_interval){was.begin, MIN(was.end, part.begin)};
		if (part.end < was.end)
			out[nr++] = (struct access_interval){MAX(was.begin, part.end), was.end};
	}
	return nr;
}

int access_narrow(struct access_bracket *bracket, uintptr_t begin, uint64_t bytes)
{
	const struct access_interval part = {begin, begin + bytes};
	const bool shared = bracket->atomics == bracket->writes;
	struct access_interval *writes = malloc((bracket->nr_writes + 1) * sizeof(*writes));
	struct access_interval *atomics =
		shared ? NULL : malloc((bracket->nr_atomics + 1) * sizeof(*atomics));

	if (!writes || (!shared && !atomics)) {
		free(writes);
		free(atomics);
		return -ENOMEM;
	}
	bracket->nr_writes = intervals_cut(bracket->writes, bracket->nr_writes, part, writes);
	if (!shared) {
		bracket->nr_atomics =
			intervals_cut(bracket->atomics, bracket->nr_atomics, part, atomics);
		free(bracket->made_atomics);
		bracket->atomics = bracket->made_atomics = atomics;
	}
	free(bracket->made_writes);
	bracket->writes = bracket->made_writes = writes;
	if (shared)
		atomics_share(bracket);
	return 0;
}

struct access_bracket *access_find(struct access_bracket *bracket, const void *owner)
{
	while (bracket && bracket->owner != owner)
		bracket = bracket->outer;
	return bracket;
}

struct access_bracket *access_take(struct access_bracket **innermost, const void *owner)
{
	struct access_bracket **at = innermost, *found;

	while (*at && (*at)->owner != owner)
		at = &(*at)->outer;
	found = *at;
	if (found)
		*at = found->outer;
	return found;
}
