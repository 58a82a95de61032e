/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What comparisons of blocks say of guessed uses: see trace_file_observe(). The events are gone
 * through from the end on: of each block the comparison that comes next is known then, and that is
 * the one that saw what a bracket left behind.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "src/base/util.h"
#include "workloads/trace_file.h"

/* What a life's blocks will be found to be. */
struct observed_life {
	uint8_t *next; /* by block: enum trace_compared_result; NULL: none is compared any more */
	uint32_t nr[TRACE_COMPARED_CHANGED + 1]; /* blocks, by what they will be found to be */
};

struct observer {
	struct trace_file *file;
	struct observed_life *life; /* by number */
	uint64_t *at; /* where events are: comparisons, and brackets with their uses */
	uint64_t nr;
	struct trace_observed *out;
};

static void *event_at(const struct observer *o, uint64_t at)
{
	return o->file->bytes + at;
}

/* Find the events that count. The CPU's brackets are no guesses. */
static void collect(struct observer *o)
{
	struct trace_cursor cursor = trace_cursor(o->file);
	const struct trace_event *event;
	bool guessed = false;

	while ((event = trace_next(&cursor))) {
		if (event->kind == TRACE_BEGIN || event->kind == TRACE_HOST_BEGIN)
			guessed = event->kind == TRACE_BEGIN;
		if (event->kind == TRACE_COMPARED ||
		    (guessed && (event->kind == TRACE_BEGIN || event->kind == TRACE_USES)))
			o->at[o->nr++] = cursor.at - event->bytes;
	}
}

static int note_compared(struct observer *o, const struct trace_compared *e)
{
	struct observed_life *life = &o->life[e->life];

	if (!e->life)
		return 0;
	if (!life->next) {
		life->next = calloc(o->file->life[e->life].nr_blocks, sizeof(*life->next));
		if (!life->next)
			return -ENOMEM;
		life->nr[TRACE_COMPARED_FIRST] = o->file->life[e->life].nr_blocks;
	}
	life->nr[life->next[e->block]]--;
	life->next[e->block] = (uint8_t)e->result;
	life->nr[e->result]++;
	return 0;
}

/* Whether some of its blocks will be found unchanged, and none changed. */
static bool is_unchanged(const struct observer *o, const struct trace_file_use *use)
{
	const struct observed_life *life = &o->life[use->life];
	const uint64_t block_bytes = o->file->space->block_bytes;
	uint64_t first = use->offset / block_bytes, nr_same = 0;
	uint64_t end = div_round_up(use->offset + use->bytes, block_bytes);

	if (!life->nr[TRACE_COMPARED_SAME])
		return false;
	if (!life->nr[TRACE_COMPARED_CHANGED] && !life->nr[TRACE_COMPARED_FIRST])
		return true;
	for (uint64_t i = first; i < end; i++) {
		if (life->next[i] == TRACE_COMPARED_CHANGED)
			return false;
		nr_same += life->next[i] == TRACE_COMPARED_SAME;
	}
	return nr_same > 0;
}

static void observe_uses(const struct observer *o, struct trace_file_use *use, uint64_t nr)
{
	for (uint64_t u = 0; u < nr; u++) {
		if (use[u].kind != WEIR_WRITE)
			continue;
		o->out->nr_writes++;
		if (!is_unchanged(o, &use[u]))
			continue;
		use[u].kind = WEIR_READ;
		use[u].write_bytes = 0;
		o->out->nr_reads++;
	}
}

static int observe(struct observer *o)
{
	int err = 0;

	for (uint64_t n = o->nr; !err && n-- > 0;) {
		struct trace_event *event = event_at(o, o->at[n]);
		struct trace_begin *begin = (void *)event;
		struct trace_uses *uses = (void *)event;

		if (event->kind == TRACE_COMPARED)
			err = note_compared(o, (void *)event);
		else if (event->kind == TRACE_BEGIN)
			observe_uses(o, begin->use,
				     (event->bytes - sizeof(*begin)) / sizeof(begin->use[0]));
		else
			observe_uses(o, uses->use,
				     (event->bytes - sizeof(*uses)) / sizeof(uses->use[0]));
	}
	return err;
}

int trace_file_observe(struct trace_file *file, struct trace_observed *out, char *err,
		       size_t err_bytes)
{
	const uint64_t max =
		file->nr_of[TRACE_COMPARED] + file->nr_of[TRACE_BEGIN] + file->nr_of[TRACE_USES];
	struct observer o = {.file = file, .out = out};
	int rc;

	*out = (struct trace_observed){0};
	if (!(file->space->flags & TRACE_SPACE_GUESSED) || !file->nr_of[TRACE_COMPARED]) {
		(void)snprintf(err, err_bytes, "%s",
			       file->nr_of[TRACE_COMPARED] ? "its uses are declared, and no guesses"
							   : "it holds no comparisons of blocks");
		return -ENODATA;
	}
	o.life = calloc(file->nr_lives + 1, sizeof(*o.life));
	o.at = malloc(max * sizeof(*o.at));
	rc = o.life && o.at ? 0 : -ENOMEM;
	if (!rc) {
		collect(&o);
		rc = observe(&o);
	}
	if (rc)
		(void)snprintf(err, err_bytes, "no memory on the host");
	for (uint64_t life = 1; o.life && life <= file->nr_lives; life++)
		free(o.life[life].next);
	free(o.life);
	free(o.at);
	return rc;
}
