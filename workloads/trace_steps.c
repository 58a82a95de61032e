/* SPDX-License-Identifier: Apache-2.0 */
/* From a trace in a file to the steps that bounds and oracles take: see trace_file.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/hash.h"
#include "src/base/util.h"
#include "workloads/trace_file.h"

#define NO_STEP UINT32_MAX
#define SHAPES_MAX 4096u /* a power of two */

/* Times of brackets that are alike. */
struct shape {
	uint64_t key; /* 0: free */
	double sum_ns;
	uint32_t nr;
};

struct builder {
	const struct trace_file *file;
	struct trace *trace;
	uint32_t max_steps, max_uses;
	uint32_t *index; /* by life of the file: in the trace; NO_STEP: not there */
	struct {
		uint32_t device;
		uint32_t step; /* of its open bracket; NO_STEP */
	} * stream;	       /* by number */
	uint64_t *bracket;     /* by step that has a kernel: its bracket's number; 0: none */
	int device;	       /* -1: none yet */
	struct shape *shape;
	char *err;
	size_t err_bytes;
};

static int refuse(const struct builder *b, const char *why)
{
	(void)snprintf(b->err, b->err_bytes, "%s", why);
	return -ENOTSUP;
}

static int add_use(struct builder *b, const struct trace_file_use *use, bool discard)
{
	struct trace *t = b->trace;

	/* Memory that was freed before recording began. */
	if (!use->life || b->index[use->life] == NO_STEP)
		return 0;
	if (t->nr_uses == b->max_uses) {
		uint32_t max = MAX(256u, 2 * b->max_uses);
		struct trace_use *uses = realloc(t->uses, max * sizeof(*uses));

		if (!uses || max >= TRACE_NEVER / 2) {
			t->uses = uses ? uses : t->uses;
			return uses ? -E2BIG : -ENOMEM;
		}
		t->uses = uses;
		b->max_uses = max;
	}
	t->uses[t->nr_uses++] = (struct trace_use){
		.life = b->index[use->life],
		.granule = use->granule,
		.offset = use->offset,
		.bytes = use->bytes,
		.read_bytes = discard ? 0 : use->read_bytes,
		.write_bytes = discard ? 0 : use->write_bytes,
		.kind = discard ? WEIR_DISCARD : (enum weir_use_kind)use->kind,
		.pattern = (enum weir_use_pattern)use->pattern,
	};
	t->steps[t->nr_steps - 1].nr_uses++;
	return 0;
}

static int add_step(struct builder *b, const char *name)
{
	struct trace *t = b->trace;

	if (t->nr_steps == b->max_steps) {
		uint32_t max = MAX(256u, 2 * b->max_steps);
		struct trace_step *steps = realloc(t->steps, max * sizeof(*steps));
		uint64_t *bracket;

		if (!steps)
			return -ENOMEM;
		t->steps = steps;
		bracket = realloc(b->bracket, max * sizeof(*bracket));
		if (!bracket)
			return -ENOMEM;
		b->bracket = bracket;
		if (max >= TRACE_NEVER / 2)
			return -E2BIG;
		b->max_steps = max;
	}
	b->bracket[t->nr_steps] = 0;
	t->steps[t->nr_steps++] = (struct trace_step){.name = name, .first_use = t->nr_uses};
	return 0;
}

static int add_bracket(struct builder *b, const struct trace_cursor *cursor,
		       const struct trace_begin *begin)
{
	struct trace_use_cursor uses = {.cursor = *cursor, .begin = begin};
	uint32_t stream = begin->event.stream;
	const struct trace_file_use *use;
	int err;

	if (b->device >= 0 && b->device != (int)b->stream[stream].device)
		return refuse(b, "there are brackets of several devices");
	b->device = (int)b->stream[stream].device;
	err = add_step(b, "kernel");
	b->stream[stream].step = err ? NO_STEP : b->trace->nr_steps - 1;
	while (!err && (use = trace_next_use(&uses)))
		err = add_use(b, use, false);
	return err;
}

/* What the CPU overwrites: what was there is dead, and what it writes is on the host. */
static int add_host(struct builder *b, const struct trace_cursor *cursor,
		    const struct trace_begin *begin)
{
	struct trace_use_cursor uses = {.cursor = *cursor, .begin = begin};
	const struct trace_file_use *use;
	int err = 0;

	while (!err && (use = trace_next_use(&uses)))
		if (use->kind == WEIR_OVERWRITE && use->life) {
			err = add_step(b, NULL);
			if (!err)
				err = add_use(b, use, true);
		}
	return err;
}

static int add_write(struct builder *b, const struct trace_part_of *e)
{
	struct trace_file_use use = {.life = e->life, .offset = e->offset, .bytes = e->bytes};
	int err = e->life ? add_step(b, NULL) : 0;

	return err || !e->life ? err : add_use(b, &use, true);
}

static void end_bracket(struct builder *b, const struct trace_end *e)
{
	uint32_t step = b->stream[e->event.stream].step;

	b->stream[e->event.stream].step = NO_STEP;
	if (step >= b->trace->nr_steps) /* it has none, having begun before the part */
		return;
	b->trace->steps[step].name = trace_end_name(b->file, e);
	b->trace->steps[step].ops = e->ops;
	b->bracket[step] = e->bracket;
}

/* A life begins, or was there before the part. */
static int add_life(struct builder *b, uint64_t number, uint32_t birth)
{
	const struct trace_file_life *life = &b->file->life[number];

	if (life->flags & (TRACE_ALLOC_PAGED | TRACE_ALLOC_WINDOW))
		return refuse(b, "there are paged ranges, or windows of replicated ones");
	b->index[number] = b->trace->nr_lives;
	b->trace->lives[b->trace->nr_lives++] =
		(struct trace_life){.bytes = life->bytes, .birth = birth, .death = TRACE_NEVER};
	return 0;
}

static void note_stream(struct builder *b, const struct trace_stream *e)
{
	b->stream[e->event.stream].device = e->device;
}

/* What comes before the part: which lives are there when it begins. */
static int begin_part(struct builder *b, struct trace_cursor *cursor, uint64_t first)
{
	bool *alive = calloc(b->file->nr_lives + 1, sizeof(*alive));
	const struct trace_event *event;
	int err = 0;

	if (!alive)
		return -ENOMEM;
	for (uint64_t n = 0; n < first && (event = trace_next(cursor)); n++) {
		if (event->kind == TRACE_ALLOC)
			alive[((const struct trace_alloc *)(const void *)event)->life] = true;
		if (event->kind == TRACE_FREE)
			alive[((const struct trace_free *)(const void *)event)->life] = false;
		if (event->kind == TRACE_STREAM)
			note_stream(b, (const void *)event);
	}
	for (uint64_t life = 1; !err && life <= b->file->nr_lives; life++)
		if (alive[life])
			err = add_life(b, life, TRACE_NEVER);
	free(alive);
	return err;
}

static int add_event(struct builder *b, const struct trace_cursor *cursor,
		     const struct trace_event *event)
{
	const void *e = event;
	const struct trace_alloc *alloc = e;

	switch (event->kind) {
	case TRACE_ALLOC:
		return add_life(b, alloc->life,
				alloc->flags & TRACE_ALLOC_BEFORE ? TRACE_NEVER
								  : b->trace->nr_steps);
	case TRACE_FREE:
		b->trace->lives[b->index[((const struct trace_free *)e)->life]].death =
			b->trace->nr_steps;
		return 0;
	case TRACE_STREAM:
		note_stream(b, e);
		return 0;
	case TRACE_BEGIN:
		return add_bracket(b, cursor, e);
	case TRACE_END:
		end_bracket(b, e);
		return 0;
	case TRACE_HOST_BEGIN:
		return add_host(b, cursor, e);
	case TRACE_WRITE:
		return add_write(b, e);
	default:
		return 0;
	}
}

/* ------------------------------------------------------------------ times */

/* A bracket of the whole trace that ended, in the order of the numbers. */
struct ended {
	uint64_t bracket, key; /* of what is like it */
	double ns;	       /* with everything in the device's memory; 0: not known */
};

/* Where the times of brackets that are alike are summed up; NULL: there are too many kinds. */
static struct shape *shape_of(const struct builder *b, uint64_t key)
{
	for (uint32_t i = 0; i < SHAPES_MAX; i++) {
		struct shape *shape = &b->shape[(key + i) % SHAPES_MAX];

		if (!shape->key)
			shape->key = key;
		if (shape->key == key)
			return shape;
	}
	return NULL;
}

/* What brackets have in common that are alike, but for the kernel. */
static uint64_t uses_key(const struct trace_cursor *cursor, const struct trace_begin *begin)
{
	struct trace_use_cursor uses = {.cursor = *cursor, .begin = begin};
	uint64_t key = begin->nr_uses;
	const struct trace_file_use *use;

	while ((use = trace_next_use(&uses))) {
		key = hash_mix(key, use->bytes);
		key = hash_mix(key, use->read_bytes);
		key = hash_mix(key, use->write_bytes);
		key = hash_mix(key, use->granule * UINT64_C(64) + use->kind * UINT64_C(2) +
					    use->pattern);
	}
	return key;
}

static void note_time(struct builder *b, struct ended *ended, uint64_t nr,
		      const struct trace_time *time)
{
	double ns = (double)(time->end_ns - time->begin_ns);
	struct shape *shape;
	uint64_t at;

	SEARCH_SORTED(at, UINT64_C(0), nr, ended[at].bracket < time->bracket);
	if (time->flags & TRACE_END_IN_PLACE || at == nr || ended[at].bracket != time->bracket)
		return;
	ended[at].ns = ns;
	shape = shape_of(b, ended[at].key);
	if (shape) {
		shape->sum_ns += ns;
		shape->nr++;
	}
}

/* Times of all of the trace: what is known of a bracket, and of those like it, comes anywhere. */
static void note_times(struct builder *b, struct ended *ended, uint64_t *key)
{
	struct trace_cursor cursor = trace_cursor(b->file);
	const struct trace_event *event;
	uint64_t nr = 0;

	while ((event = trace_next(&cursor))) {
		const struct trace_end *end = (const void *)event;

		if (event->kind == TRACE_BEGIN)
			key[event->stream] = uses_key(&cursor, (const void *)event);
		else if (event->kind == TRACE_END)
			ended[nr++] = (struct ended){
				.bracket = end->bracket,
				.key = hash_mix(key[event->stream], end->kernel + 1u) | 1};
		else if (event->kind == TRACE_TIME)
			note_time(b, ended, nr, (const void *)event);
	}
}

static int add_times(struct builder *b)
{
	uint64_t nr = b->file->nr_brackets, at;
	struct ended *ended = malloc((nr + 1) * sizeof(*ended));
	uint64_t *key = malloc(((size_t)b->file->nr_streams + 1) * sizeof(*key));
	bool enough = ended && key;

	if (enough)
		note_times(b, ended, key);
	for (uint32_t s = 0; enough && s < b->trace->nr_steps; s++) {
		struct trace_step *step = &b->trace->steps[s];
		const struct shape *shape;

		if (!b->bracket[s])
			continue;
		SEARCH_SORTED(at, UINT64_C(0), nr, ended[at].bracket < b->bracket[s]);
		shape = ended[at].ns > 0 ? NULL : shape_of(b, ended[at].key);
		step->compute_ns = shape && shape->nr ? shape->sum_ns / shape->nr : ended[at].ns;
	}
	free(key);
	free(ended);
	return enough ? 0 : -ENOMEM;
}

/* ------------------------------------------------------------------ all of it */

static void builder_fini(struct builder *b)
{
	free(b->index);
	free(b->stream);
	free(b->bracket);
	free(b->shape);
	trace_destroy(b->trace);
}

static int builder_init(struct builder *b, const struct trace_file *file, char *err,
			size_t err_bytes)
{
	*b = (struct builder){.file = file, .device = -1, .err = err, .err_bytes = err_bytes};
	if (file->nr_lives >= TRACE_NEVER)
		return -E2BIG;
	b->index = malloc((file->nr_lives + 1) * sizeof(*b->index));
	b->stream = calloc((size_t)file->nr_streams + 1, sizeof(*b->stream));
	b->shape = calloc(SHAPES_MAX, sizeof(*b->shape));
	b->trace = calloc(1, sizeof(*b->trace));
	if (b->trace)
		b->trace->lives = calloc(file->nr_lives + 1, sizeof(*b->trace->lives));
	if (!b->index || !b->stream || !b->shape || !b->trace || !b->trace->lives) {
		builder_fini(b);
		return -ENOMEM;
	}
	memset(b->index, 0xff, (file->nr_lives + 1) * sizeof(*b->index));
	for (uint32_t i = 0; i < file->nr_streams; i++)
		b->stream[i].step = NO_STEP;
	return 0;
}

int trace_file_steps(const struct trace_file *file, const struct trace_span *span,
		     struct trace **out, char *err, size_t err_bytes)
{
	struct trace_cursor cursor = trace_cursor(file);
	const struct trace_event *event;
	struct builder b;
	int rc;

	*err = '\0';
	rc = builder_init(&b, file, err, err_bytes);
	if (rc)
		return rc;
	rc = begin_part(&b, &cursor, span->first);
	for (uint64_t n = span->first; !rc && n < span->end && (event = trace_next(&cursor)); n++)
		rc = add_event(&b, &cursor, event);
	if (!rc)
		rc = add_times(&b);
	if (!rc) {
		*out = b.trace;
		b.trace = NULL;
	}
	builder_fini(&b);
	return rc;
}
