/* SPDX-License-Identifier: Apache-2.0 */
/* Reading traces: the file and its frames. What is in the events is checked in
 * trace_file_check.c. */
#include "workloads/trace_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "machine/file_read.h"
#include "src/base/util.h"
#include "workloads/trace_file_check.h"

#define FILE_BYTES_MAX (UINT64_C(1) << 40)

/* ------------------------------------------------------------------ going through it */

static const struct trace_frame *frame_at(const struct trace_file *file, uint64_t at)
{
	return (const struct trace_frame *)(const void *)(file->bytes + at);
}

const struct trace_event *trace_next(struct trace_cursor *cursor)
{
	const struct trace_event *event;

	if (cursor->at == cursor->frame_end) {
		const struct trace_frame *frame;

		if (cursor->at + sizeof(*frame) >= cursor->file->end)
			return NULL;
		frame = frame_at(cursor->file, cursor->at);
		cursor->frame_end = frame->bytes ? cursor->at + frame->bytes : cursor->file->end;
		cursor->at += sizeof(*frame);
	}
	if (cursor->at >= cursor->file->end)
		return NULL;
	event = (const struct trace_event *)(const void *)(cursor->file->bytes + cursor->at);
	cursor->at += event->bytes;
	return event;
}

bool trace_is_pause(const struct trace_event *mark)
{
	return !strcmp(((const struct trace_mark *)(const void *)mark)->text, TRACE_PAUSE);
}

const struct trace_file_use *trace_next_use(struct trace_use_cursor *uses)
{
	if (uses->nr == uses->begin->nr_uses)
		return NULL;
	if (uses->nr % TRACE_USES_MAX == 0 && uses->nr) {
		uses->more = (const struct trace_uses *)(const void *)trace_next(&uses->cursor);
		uses->here = 0;
	}
	uses->nr++;
	return uses->more ? &uses->more->use[uses->here++] : &uses->begin->use[uses->here++];
}

const char *trace_end_name(const struct trace_file *file, const struct trace_end *end)
{
	return end->several ? "several kernels" : end->kernel ? file->name[end->kernel] : "kernel";
}

const char *trace_kind_name(uint32_t kind)
{
	static const char *const names[TRACE_KIND_END] = {
		[TRACE_SPACE] = "space",
		[TRACE_MACHINE] = "machine",
		[TRACE_BUDGET] = "budget",
		[TRACE_MODE] = "mode",
		[TRACE_STREAM] = "stream",
		[TRACE_NAME] = "name",
		[TRACE_ALLOC] = "alloc",
		[TRACE_FREE] = "free",
		[TRACE_BEGIN] = "begin",
		[TRACE_USES] = "uses",
		[TRACE_END] = "end",
		[TRACE_TIME] = "time",
		[TRACE_HOST_BEGIN] = "host-begin",
		[TRACE_HOST_END] = "host-end",
		[TRACE_WRITE] = "write",
		[TRACE_READ] = "read",
		[TRACE_SYNC] = "sync",
		[TRACE_ADVISE] = "advise",
		[TRACE_PREFETCH] = "prefetch",
		[TRACE_MOVE] = "move",
		[TRACE_MOVED] = "moved",
		[TRACE_UNDONE] = "undone",
		[TRACE_PLACE] = "place",
		[TRACE_PLAN] = "plan",
		[TRACE_UNPLAN] = "unplan",
		[TRACE_MARK] = "mark",
		[TRACE_STOP] = "stop",
		[TRACE_WAIT] = "wait",
		[TRACE_COMPARED] = "compared",
	};

	return kind < TRACE_KIND_END ? names[kind] : NULL;
}

int trace_file_span(const struct trace_file *file, const char *from, const char *to,
		    struct trace_span *out, char *err, size_t err_bytes)
{
	struct trace_cursor cursor = trace_cursor(file);
	bool begun = !from, ended = !to;
	const struct trace_event *event;

	*out = (struct trace_span){.end = file->nr_events};
	for (uint64_t n = 0; (event = trace_next(&cursor)) && !(begun && ended); n++) {
		const char *text = ((const struct trace_mark *)(const void *)event)->text;

		if (event->kind != TRACE_MARK)
			continue;
		if (!begun && !strcmp(text, from)) {
			out->first = n;
			begun = true;
		} else if (begun && !ended && !strcmp(text, to)) {
			out->end = n;
			ended = true;
		}
	}
	if (begun && ended)
		return 0;
	(void)snprintf(err, err_bytes, "no mark '%.100s'%s%.100s%s in the trace", begun ? to : from,
		       begun && from ? " behind '" : "", begun && from ? from : "",
		       begun && from ? "'" : "");
	return -ENOENT;
}

/* ------------------------------------------------------------------ checking the file */

int trace_file_bad(const struct trace_check *c, uint64_t at, const char *format, ...)
{
	char what[128];
	va_list args;

	va_start(args, format);
	(void)vsnprintf(what, sizeof(what), format, args);
	va_end(args);
	(void)snprintf(c->err, c->err_bytes, "%s: the trace is damaged at byte %" PRIu64 ": %s",
		       c->name, at, what);
	return -EINVAL;
}

static int refuse(const struct trace_check *c, const char *why)
{
	(void)snprintf(c->err, c->err_bytes, "%s: %s", c->name, why);
	return -EINVAL;
}

static bool is_zero(const char *bytes, uint64_t nr)
{
	return !nr || (!bytes[0] && !memcmp(bytes, bytes + 1, nr - 1));
}

static int check_header(const struct trace_check *c, uint64_t nr_bytes)
{
	struct trace_header header;
	const char *bytes = c->file->bytes;
	char text[96];

	if (nr_bytes < sizeof(header.magic) ||
	    memcmp(bytes, TRACE_MAGIC, sizeof(header.magic)) != 0)
		return refuse(c, "this is no trace");
	if (nr_bytes < TRACE_HEADER_BYTES)
		return refuse(c, "the trace is cut off in its header");
	memcpy(&header, bytes, sizeof(header));
	if (header.crc != trace_crc(0, bytes, offsetof(struct trace_header, crc)))
		return trace_file_bad(c, 0, "its header does not add up");
	if (header.version < TRACE_VERSION_OLDEST || header.version > TRACE_VERSION) {
		(void)snprintf(text, sizeof(text),
			       "the trace is of version %" PRIu32
			       "; this weir reads versions %u to %u",
			       header.version, TRACE_VERSION_OLDEST, TRACE_VERSION);
		return refuse(c, text);
	}
	c->file->version = header.version;
	if (header.header_bytes != TRACE_HEADER_BYTES || header.frame_max != TRACE_FRAME_MAX ||
	    header.size != trace_size((uint32_t)header.size) ||
	    !is_zero(bytes + sizeof(header), TRACE_HEADER_BYTES - sizeof(header)))
		return trace_file_bad(c, 0, "its header contradicts itself");
	if (nr_bytes < (uint32_t)header.size * UINT64_C(4096)) {
		(void)snprintf(text, sizeof(text),
			       "the trace is cut off: %" PRIu64 " bytes of %" PRIu64, nr_bytes,
			       (uint32_t)header.size * UINT64_C(4096));
		return refuse(c, text);
	}
	return 0;
}

/* Events up to an end of a frame that is finished, or the first without a length. *at: behind the
 * last. */
static int check_events(struct trace_check *c, uint64_t *at, uint64_t end, bool finished)
{
	while (*at < end) {
		const struct trace_event *event =
			(const struct trace_event *)(const void *)(c->file->bytes + *at);
		uint64_t left = end - *at;
		int err;

		if (left < sizeof(*event) || (!event->bytes && finished))
			return trace_file_bad(c, *at, "an event without a length");
		if (!event->bytes)
			return 0;
		if (event->bytes < sizeof(*event) || event->bytes % 8 || event->bytes > left)
			return trace_file_bad(c, *at, "an event of %" PRIu32 " bytes",
					      event->bytes);
		err = trace_file_check_event(c, event, *at);
		if (err)
			return err;
		*at += event->bytes;
	}
	return 0;
}

static uint32_t frame_crc(const struct trace_frame *frame)
{
	struct trace_frame head = *frame;

	head.crc = 0;
	return trace_crc(trace_crc(0, &head, sizeof(head)), frame + 1, frame->bytes - sizeof(head));
}

/* One frame, at *at, which is then behind it. *more: whether another one may follow. */
static int check_frame(struct trace_check *c, uint64_t *at, uint64_t nr_bytes, uint32_t number,
		       bool *more)
{
	const struct trace_frame *frame = frame_at(c->file, *at);
	uint64_t left = nr_bytes - *at, events = *at + sizeof(*frame);
	int err;

	*more = false;
	if (left < sizeof(*frame) || !frame->magic)
		return 0;
	if (frame->magic != TRACE_FRAME_MAGIC || frame->number != number)
		return trace_file_bad(c, *at, "no frame where one should be");
	if (!frame->bytes) {
		c->file->unfinished = true;
		err = check_events(c, &events, *at + MIN(left, TRACE_FRAME_MAX), false);
		*at = events;
		return err;
	}
	if (frame->bytes < sizeof(*frame) || frame->bytes > TRACE_FRAME_MAX || frame->bytes % 8 ||
	    frame->bytes > left || frame->crc != frame_crc(frame))
		return trace_file_bad(c, *at, "a frame that does not add up");
	err = check_events(c, &events, *at + frame->bytes, true);
	*at += frame->bytes;
	*more = true;
	return err;
}

static int check_file(struct trace_check *c, uint64_t nr_bytes)
{
	uint64_t at = TRACE_HEADER_BYTES;
	bool more = true;
	int err = check_header(c, nr_bytes);

	for (uint32_t number = 0; !err && more; number++)
		err = check_frame(c, &at, nr_bytes, number, &more);
	if (!err && !is_zero(c->file->bytes + at, nr_bytes - at))
		err = trace_file_bad(c, at, "something behind the last event");
	c->file->end = at;
	return err ? err : trace_file_check_end(c, at);
}

int trace_file_view(const char *name, char *bytes, size_t nr_bytes, struct trace_file *out,
		    char *err, size_t err_bytes)
{
	struct trace_file file = {.bytes = bytes};
	struct trace_check c = {.file = &file, .name = name, .err = err, .err_bytes = err_bytes};
	int rc = trace_check_init(&c);

	if (!rc)
		rc = check_file(&c, nr_bytes);
	trace_check_fini(&c);
	if (rc == -ENOMEM)
		(void)snprintf(err, err_bytes, "%s: no memory on the host", name);
	if (rc)
		trace_file_close(&file);
	else
		*out = file;
	return rc;
}

int trace_file_open(const char *name, struct trace_file *out, char *err, size_t err_bytes)
{
	int fd = open(name, O_RDONLY | O_CLOEXEC), rc = fd < 0 ? -errno : 0;
	size_t nr_bytes = 0;
	char *bytes = NULL;

	if (!rc)
		rc = file_read(fd, FILE_BYTES_MAX, &bytes, &nr_bytes);
	if (fd >= 0)
		(void)close(fd);
	if (rc) {
		(void)snprintf(err, err_bytes, "%s: %s", name, strerrordesc_np(-rc));
		return rc;
	}
	rc = trace_file_view(name, bytes, nr_bytes, out, err, err_bytes);
	if (rc)
		free(bytes);
	else
		out->owned = true;
	return rc;
}

void trace_file_close(struct trace_file *file)
{
	if (file->owned)
		free(file->bytes);
	free(file->life);
	free((void *)(uintptr_t)file->name);
	*file = (struct trace_file){0};
}
