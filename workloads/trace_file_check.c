/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checking the events of a trace: that each has what its kind has, and that it speaks of what there
 * is: lives that are alive, streams, names, places and memories. Who reads the events afterwards
 * relies on all of that.
 */
#include "workloads/trace_file_check.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/util.h"
#include "src/trace/part.h"

int trace_check_init(struct trace_check *c)
{
	c->stream = calloc(TRACE_STREAMS_MAX, sizeof(*c->stream));
	return c->stream ? 0 : -ENOMEM;
}

void trace_check_fini(struct trace_check *c)
{
	free(c->alive);
	free(c->stream);
	free(c->host);
}

static const struct trace_space *space_of(const struct trace_check *c)
{
	return c->file->space;
}

/* ------------------------------------------------------------------ what there is */

static bool is_alive(const struct trace_check *c, uint64_t life)
{
	return life && life <= c->file->nr_lives && c->alive[life];
}

/* Whether a part lies in a life that is alive; 0 is one that nobody knows. */
static bool is_part(const struct trace_check *c, uint64_t life, uint64_t offset, uint64_t bytes)
{
	uint64_t all;

	if (!life)
		return bytes != 0;
	if (!is_alive(c, life) || !bytes)
		return false;
	all = c->file->life[life].bytes;
	return offset < all && bytes <= all - offset;
}

static bool is_place(const struct trace_check *c, uint32_t place)
{
	return place < space_of(c)->nr_places;
}

static bool is_stream(const struct trace_check *c, const struct trace_event *event)
{
	return event->stream < TRACE_STREAMS_MAX && c->stream[event->stream].known;
}

static bool is_text(const char *text, size_t bytes)
{
	return bytes && bytes <= TRACE_TEXT_MAX + 8 && memchr(text, '\0', bytes) != NULL;
}

/* ------------------------------------------------------------------ lives, names, streams */

static int grow_lives(struct trace_check *c)
{
	uint64_t max = MAX(64u, 2 * c->max_lives);
	struct trace_file_life *life;
	bool *alive;

	if (c->file->nr_lives + 1 < c->max_lives)
		return 0;
	life = realloc(c->file->life, max * sizeof(*life));
	if (!life)
		return -ENOMEM;
	c->file->life = life;
	alive = realloc(c->alive, max * sizeof(*alive));
	if (!alive)
		return -ENOMEM;
	c->alive = alive;
	c->max_lives = max;
	return 0;
}

static int check_alloc(struct trace_check *c, const void *event, uint64_t at)
{
	const struct trace_alloc *e = event;
	uint64_t number = c->file->nr_lives + 1;
	int err;

	if (e->life != number || !e->bytes || e->bytes > UINT64_MAX / 2 ||
	    e->device >= c->file->machine.nr_devices ||
	    (e->nr_blocks && e->nr_blocks != div_round_up(e->bytes, space_of(c)->block_bytes)))
		return trace_file_bad(c, at, "an allocation that cannot be");
	err = grow_lives(c);
	if (err)
		return err;
	c->file->nr_lives = number;
	c->file->life[number] = (struct trace_file_life){e->bytes, e->nr_blocks, e->flags};
	c->alive[number] = true;
	return 0;
}

static int check_free(struct trace_check *c, const void *event, uint64_t at)
{
	const struct trace_free *e = event;

	if (!is_alive(c, e->life))
		return trace_file_bad(c, at, "a free of what is not allocated");
	c->alive[e->life] = false;
	return 0;
}

static int check_name(struct trace_check *c, const void *event, uint64_t at)
{
	const struct trace_name *e = event;
	uint32_t max = MAX(16u, 2 * c->max_names);
	const char **name;

	if (e->number != c->file->nr_names + 1 || !is_text(e->text, e->event.bytes - sizeof(*e)))
		return trace_file_bad(c, at, "a name that cannot be");
	if (c->file->nr_names + 2 > c->max_names) {
		name = realloc((void *)(uintptr_t)c->file->name, max * sizeof(*name));
		if (!name)
			return -ENOMEM;
		c->file->name = name;
		c->max_names = max;
	}
	c->file->name[++c->file->nr_names] = e->text;
	return 0;
}

static int check_stream(struct trace_check *c, const void *event, uint64_t at)
{
	const struct trace_stream *e = event;
	uint32_t number = e->event.stream;

	if (number >= TRACE_STREAMS_MAX || e->device >= c->file->machine.nr_devices ||
	    c->stream[number].open)
		return trace_file_bad(c, at, "a stream that cannot be");
	c->stream[number].known = true;
	c->file->nr_streams = MAX(c->file->nr_streams, number + 1);
	return 0;
}

static int check_mark(struct trace_check *c, const void *event, uint64_t at)
{
	const struct trace_mark *e = event;

	return is_text(e->text, e->event.bytes - sizeof(*e))
		       ? 0
		       : trace_file_bad(c, at, "a mark without a name");
}

/* ------------------------------------------------------------------ the machine */

/* The part of the description that comes behind this one. */
static void next_part(struct trace_check *c)
{
	c->index++;
	while (c->part < TRACE_PART_NR &&
	       c->index >= trace_part_count(&c->file->machine, (enum trace_part)c->part)) {
		c->part++;
		c->index = 0;
	}
}

/* How many words at the end of a part traces of a version do not have (src/trace/format.h). */
static uint32_t nr_lacking(uint32_t version, enum trace_part part)
{
	switch (part) {
	case TRACE_PART_DEVICE:
		return version <= 4;
	case TRACE_PART_LINK:
		return version <= 1 ? 2 : version <= 3;
	case TRACE_PART_UVM:
		return version <= 2;
	default:
		return 0;
	}
}

/* Read the part of the description that is expected. What an old trace does not know is 0, but for
 * inplace_serial_random: that is as inplace_serial, two words before it, says. */
static bool machine_read(struct trace_check *c, const struct trace_machine *e)
{
	const enum trace_part part = (enum trace_part)c->part;
	const uint32_t nr = trace_part_words(part) - nr_lacking(c->file->version, part);
	uint64_t word[TRACE_PART_WORDS_MAX] = {0};

	if (e->event.bytes != sizeof(*e) + nr * sizeof(*word))
		return false;
	memcpy(word, e->word, nr * sizeof(*word));
	if (c->file->version <= 1 && part == TRACE_PART_LINK)
		word[nr] = word[nr - 2];
	return trace_part_read(&c->file->machine, part, e->index, word);
}

static int check_machine(struct trace_check *c, const void *event, uint64_t at)
{
	const struct trace_machine *e = event;

	if (c->part == TRACE_PART_NR || e->part != c->part || e->index != c->index ||
	    !machine_read(c, e))
		return trace_file_bad(c, at, "a part of a machine that cannot be");
	next_part(c);
	if (c->part == TRACE_PART_NR && (weir_machine_check(&c->file->machine, NULL, 0) ||
					 space_of(c)->devices >> c->file->machine.nr_devices))
		return trace_file_bad(c, at, "a machine that cannot be");
	return 0;
}

static int check_space(struct trace_check *c, const void *event, uint64_t at)
{
	const struct trace_space *e = event;
	bool ok = !c->file->space && e->block_bytes && e->block_bytes <= UINT32_MAX &&
		  e->nr_places >= 2 && e->nr_places <= WEIR_MEMORIES_MAX && e->devices &&
		  e->devices < UINT64_C(1) << WEIR_DEVICES_MAX &&
		  memchr(e->weir, '\0', sizeof(e->weir));

	c->file->space = e;
	c->file->begin_ns = e->event.ns;
	for (uint32_t place = 0; ok && place < e->nr_places; place++)
		ok = e->memory[place] < WEIR_MEMORIES_MAX;
	return ok ? 0 : trace_file_bad(c, at, "a space that cannot be");
}

static int check_budget(struct trace_check *c, const void *event, uint64_t at)
{
	const struct trace_budget *e = event;

	return e->memory < c->file->machine.nr_memories
		       ? 0
		       : trace_file_bad(c, at, "a budget of a memory that is not there");
}

static int check_mode(struct trace_check *c, const void *event, uint64_t at)
{
	const struct trace_mode *e = event;

	return e->mode <= WEIR_PLANNED ? 0 : trace_file_bad(c, at, "a mode that is not there");
}

/* ------------------------------------------------------------------ brackets */

static int check_uses(struct trace_check *c, const struct trace_file_use *use, uint32_t nr,
		      uint64_t at)
{
	for (uint32_t u = 0; u < nr; u++)
		if (use[u].kind > WEIR_DISCARD || use[u].pattern > WEIR_RANDOM ||
		    !is_part(c, use[u].life, use[u].offset, use[u].bytes))
			return trace_file_bad(c, at, "a use of what is not there");
	return 0;
}

static int check_begin_uses(struct trace_check *c, const struct trace_begin *e, uint64_t at)
{
	uint32_t here = MIN(e->nr_uses, TRACE_USES_MAX);

	if (e->event.bytes != sizeof(*e) + here * sizeof(e->use[0]))
		return trace_file_bad(c, at, "a bracket without its uses");
	c->uses_left = e->nr_uses - here;
	c->begin_at = at;
	c->begin_events = c->file->nr_events;
	return check_uses(c, e->use, here, at);
}

static int check_begin(struct trace_check *c, const void *event, uint64_t at)
{
	const struct trace_begin *e = event;

	if (!is_stream(c, &e->event) || c->stream[e->event.stream].open)
		return trace_file_bad(c, at, "a bracket on a stream that is not there, or has one");
	c->stream[e->event.stream].open = true;
	return check_begin_uses(c, e, at);
}

static int check_more_uses(struct trace_check *c, const void *event, uint64_t at)
{
	const struct trace_uses *e = event;
	uint32_t here = MIN(c->uses_left, TRACE_USES_MAX);

	if (!here || e->event.bytes != sizeof(*e) + here * sizeof(e->use[0]))
		return trace_file_bad(c, at, "uses of no bracket");
	c->uses_left -= here;
	return check_uses(c, e->use, here, at);
}

static int check_end(struct trace_check *c, const void *event, uint64_t at)
{
	const struct trace_end *e = event;

	if (!is_stream(c, &e->event) || !c->stream[e->event.stream].open ||
	    e->bracket <= c->last_bracket || e->kernel > c->file->nr_names ||
	    !(e->ops >= 0 && isfinite(e->ops)))
		return trace_file_bad(c, at, "the end of a bracket that is not there");
	c->stream[e->event.stream].open = false;
	c->last_bracket = e->bracket;
	c->file->nr_brackets++;
	return 0;
}

static int check_time(struct trace_check *c, const void *event, uint64_t at)
{
	const struct trace_time *e = event;

	return is_stream(c, &e->event) && e->bracket <= c->last_bracket && e->bracket &&
			       e->begin_ns < e->end_ns
		       ? 0
		       : trace_file_bad(c, at, "a time of a bracket that is not there");
}

static int check_host_begin(struct trace_check *c, const void *event, uint64_t at)
{
	const struct trace_begin *e = event;

	if (e->number <= c->last_host)
		return trace_file_bad(c, at, "a host bracket that cannot be");
	if (c->nr_hosts == c->max_hosts) {
		uint32_t max = MAX(16u, 2 * c->max_hosts);
		uint32_t *host = realloc(c->host, max * sizeof(*host));

		if (!host)
			return -ENOMEM;
		c->host = host;
		c->max_hosts = max;
	}
	c->host[c->nr_hosts++] = c->last_host = e->number;
	return check_begin_uses(c, e, at);
}

static int check_host_end(struct trace_check *c, const void *event, uint64_t at)
{
	const struct trace_host_end *e = event;

	for (uint32_t i = c->nr_hosts; i-- > 0;)
		if (c->host[i] == e->number) {
			c->host[i] = c->host[--c->nr_hosts];
			return 0;
		}
	return trace_file_bad(c, at, "the end of a host bracket that is not there");
}

/* ------------------------------------------------------------------ other calls, moves */

static int check_part(struct trace_check *c, const void *event, uint64_t at)
{
	const struct trace_part_of *e = event;

	return is_part(c, e->life, e->offset, e->bytes) && e->memory < c->file->machine.nr_memories
		       ? 0
		       : trace_file_bad(c, at, "a copy of what is not there");
}

static int check_advise(struct trace_check *c, const void *event, uint64_t at)
{
	const struct trace_advise *e = event;

	return (!e->life || is_alive(c, e->life)) && e->advice <= WEIR_ADVISE_ACCESSED_BY
		       ? 0
		       : trace_file_bad(c, at, "advice on what is not there");
}

/* Whether these blocks are blocks of a life, if it is one. */
static bool are_blocks(const struct trace_check *c, uint64_t life, uint32_t first, uint32_t nr)
{
	uint32_t all;

	if (!life || life > c->file->nr_lives)
		return !life;
	all = c->file->life[life].nr_blocks;
	return first < all && nr <= all - first;
}

static int check_move(struct trace_check *c, const void *event, uint64_t at)
{
	const struct trace_move *e = event;

	if (!is_place(c, e->from) || !is_place(c, e->to) || e->from == e->to ||
	    e->cause > WEIR_CAUSE_NR || !are_blocks(c, e->life, e->block, 1))
		return trace_file_bad(c, at, "a move that cannot be");
	c->queued[e->from][e->to]++;
	return 0;
}

static int check_moved(struct trace_check *c, const void *event, uint64_t at)
{
	const struct trace_moved *e = event;

	if (!is_place(c, e->from) || !is_place(c, e->to) || !e->nr ||
	    e->nr > c->queued[e->from][e->to])
		return trace_file_bad(c, at, "the end of moves that are not there");
	c->queued[e->from][e->to] -= e->nr;
	return 0;
}

static int check_place(struct trace_check *c, const void *event, uint64_t at)
{
	const struct trace_place *e = event;

	return (e->from == TRACE_NO_PLACE || is_place(c, e->from)) &&
			       (e->to == TRACE_NO_PLACE || is_place(c, e->to)) && e->nr &&
			       are_blocks(c, e->life, e->first, e->nr)
		       ? 0
		       : trace_file_bad(c, at, "blocks that are not there");
}

static int check_compared(struct trace_check *c, const void *event, uint64_t at)
{
	const struct trace_compared *e = event;

	return e->result <= TRACE_COMPARED_CHANGED && are_blocks(c, e->life, e->block, 1)
		       ? 0
		       : trace_file_bad(c, at, "a comparison that cannot be");
}

static int check_plan(struct trace_check *c, const void *event, uint64_t at)
{
	const struct trace_plan *e = event;

	return e->device < c->file->machine.nr_devices
		       ? 0
		       : trace_file_bad(c, at, "a plan of a device that is not there");
}

static int check_stop(struct trace_check *c, const void *event, uint64_t at)
{
	(void)event;
	(void)at;
	c->file->ended = true;
	return 0;
}

/* ------------------------------------------------------------------ all kinds */

struct kind_check {
	size_t bytes; /* of the event; the least, where it is open-ended */
	size_t older; /* of traces written before a member was added; 0: the same */
	bool open_ended;
	int (*check)(struct trace_check *c, const void *event, uint64_t at);
};

static const struct kind_check checks[TRACE_KIND_END] = {
	[TRACE_SPACE] = {sizeof(struct trace_space), 0, false, check_space},
	[TRACE_MACHINE] = {sizeof(struct trace_machine), 0, true, check_machine},
	[TRACE_BUDGET] = {sizeof(struct trace_budget), offsetof(struct trace_budget, took_ns),
			  false, check_budget},
	[TRACE_MODE] = {sizeof(struct trace_mode), 0, false, check_mode},
	[TRACE_STREAM] = {sizeof(struct trace_stream), 0, false, check_stream},
	[TRACE_NAME] = {sizeof(struct trace_name), 0, true, check_name},
	[TRACE_ALLOC] = {sizeof(struct trace_alloc), 0, false, check_alloc},
	[TRACE_FREE] = {sizeof(struct trace_free), 0, false, check_free},
	[TRACE_BEGIN] = {sizeof(struct trace_begin), 0, true, check_begin},
	[TRACE_USES] = {sizeof(struct trace_uses), 0, true, check_more_uses},
	[TRACE_END] = {sizeof(struct trace_end), 0, false, check_end},
	[TRACE_TIME] = {sizeof(struct trace_time), 0, false, check_time},
	[TRACE_HOST_BEGIN] = {sizeof(struct trace_begin), 0, true, check_host_begin},
	[TRACE_HOST_END] = {sizeof(struct trace_host_end), 0, false, check_host_end},
	[TRACE_WRITE] = {sizeof(struct trace_part_of), 0, false, check_part},
	[TRACE_READ] = {sizeof(struct trace_part_of), 0, false, check_part},
	[TRACE_SYNC] = {sizeof(struct trace_sync), 0, false, NULL},
	[TRACE_ADVISE] = {sizeof(struct trace_advise), offsetof(struct trace_advise, took_ns),
			  false, check_advise},
	[TRACE_PREFETCH] = {sizeof(struct trace_part_of), 0, false, check_part},
	[TRACE_MOVE] = {sizeof(struct trace_move), 0, false, check_move},
	[TRACE_MOVED] = {sizeof(struct trace_moved), 0, false, check_moved},
	[TRACE_UNDONE] = {sizeof(struct trace_moved), 0, false, check_moved},
	[TRACE_PLACE] = {sizeof(struct trace_place), 0, false, check_place},
	[TRACE_PLAN] = {sizeof(struct trace_plan), 0, false, check_plan},
	[TRACE_UNPLAN] = {sizeof(struct trace_plan), 0, false, check_plan},
	[TRACE_MARK] = {sizeof(struct trace_mark), 0, true, check_mark},
	[TRACE_WAIT] = {sizeof(struct trace_sync), 0, false, NULL},
	[TRACE_COMPARED] = {sizeof(struct trace_compared), 0, false, check_compared},
	[TRACE_STOP] = {sizeof(struct trace_event), 0, false, check_stop},
};

/* Whether an event of the kind may come now. */
static bool is_expected(const struct trace_check *c, uint32_t kind)
{
	if (c->file->ended)
		return false;
	if (!c->file->space)
		return kind == TRACE_SPACE;
	if (c->part < TRACE_PART_NR)
		return kind == TRACE_MACHINE;
	return c->uses_left ? kind == TRACE_USES : kind != TRACE_SPACE && kind != TRACE_MACHINE;
}

int trace_file_check_event(struct trace_check *c, const struct trace_event *event, uint64_t at)
{
	const struct kind_check *check;
	int err;

	if (!event->kind || event->kind >= TRACE_KIND_END)
		return trace_file_bad(c, at, "an event of kind %u", (unsigned)event->kind);
	check = &checks[event->kind];
	if (event->bytes < check->bytes ? event->bytes != check->older
					: !check->open_ended && event->bytes != check->bytes)
		return trace_file_bad(c, at, "an event of kind %s that has %" PRIu32 " bytes",
				      trace_kind_name(event->kind), event->bytes);
	if (!is_expected(c, event->kind))
		return trace_file_bad(c, at, "an event of kind %s out of order",
				      trace_kind_name(event->kind));
	err = check->check ? check->check(c, event, at) : 0;
	if (err)
		return err;
	c->file->nr_events++;
	c->file->nr_of[event->kind]++;
	c->file->end_ns = MAX(c->file->end_ns, event->ns);
	return 0;
}

int trace_file_check_end(struct trace_check *c, uint64_t at)
{
	struct trace_file *file = c->file;
	const struct trace_event *begin;

	if (!file->space || c->part < TRACE_PART_NR)
		return trace_file_bad(c, at, "nothing of the space that it is of");
	if (!c->uses_left)
		return 0;
	/* The bracket that was being written is not there yet. */
	file->nr_of[TRACE_USES] -= file->nr_events - c->begin_events - 1;
	file->nr_events = c->begin_events;
	file->end = c->begin_at;
	begin = (const struct trace_event *)(const void *)(file->bytes + c->begin_at);
	file->nr_of[begin->kind]--;
	return 0;
}
