/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The writer of traces: see writer.h. One piece of the file is mapped at a time, behind the header,
 * which always is. A frame lies in one piece, which may overlap with the next one by a page.
 */
#include "src/trace/writer.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/log.h"
#include "src/base/util.h"

#define PAGE UINT64_C(4096)
#define PIECE (UINT64_C(1) << 20)
#define NUMBERS_MAX 999u
#define NAMES_MAX 1024u /* a power of two; half of them are used */

/* Lies in memory of its own that a fork leaves empty in the child. */
struct trace_writer {
	bool open; /* false: nothing is written any more, or never was in this process */
	int fd;
	struct trace_header *header;
	char *piece;	      /* mapped from piece_at on, PIECE bytes; NULL: none yet */
	uint64_t piece_at;    /* in the file; of pages */
	uint64_t frame_at;    /* in the file, of the frame being filled */
	uint32_t frame_bytes; /* of it, so far; 0: none was begun */
	uint32_t frame_number;
	struct trace_event *event; /* being put together, and its bytes */
	uint32_t event_bytes;
	uint32_t nr_names;
	struct {
		const char *text;
		uint32_t number;
	} name[NAMES_MAX]; /* by address */
	char path[4096];
};

/* ------------------------------------------------------------------ the file */

/* Take a file that is there or not: locked, and empty or a trace. */
static int file_take(const char *path, int *out)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0666), err;
	char magic[sizeof(TRACE_MAGIC) - 1];
	struct stat stat;
	ssize_t nr;

	if (fd < 0)
		return -errno;
	err = fstat(fd, &stat) ? -errno : S_ISREG(stat.st_mode) ? 0 : -EEXIST;
	if (!err && stat.st_size) {
		nr = pread(fd, magic, sizeof(magic), 0);
		if (nr != sizeof(magic) || memcmp(magic, TRACE_MAGIC, sizeof(magic)) != 0)
			err = -EEXIST;
	}
	if (!err && flock(fd, LOCK_EX | LOCK_NB))
		err = errno == EWOULDBLOCK ? -EBUSY : -errno;
	if (err) {
		(void)close(fd);
		return err;
	}
	*out = fd;
	return 0;
}

static int file_find(struct trace_writer *w, const char *path, bool numbered)
{
	int err = -EBUSY;

	for (uint32_t n = 1; err == -EBUSY && n <= (numbered ? NUMBERS_MAX : 1); n++) {
		int length = n == 1 ? snprintf(w->path, sizeof(w->path), "%s", path)
				    : snprintf(w->path, sizeof(w->path), "%s.%u", path, n);

		err = length < (int)sizeof(w->path) ? file_take(w->path, &w->fd) : -ENAMETOOLONG;
	}
	return err;
}

/* Have room on the disk for a part of the file that is not there yet. */
static int file_grow(const struct trace_writer *w, uint64_t at, uint64_t bytes)
{
	struct rlimit limit;
	int err;

	/* Beyond the process's limit the call would come with a signal that ends it. */
	if (!getrlimit(RLIMIT_FSIZE, &limit) && at + bytes > limit.rlim_cur)
		return -EFBIG;
	do
		err = posix_fallocate(w->fd, (off_t)at, (off_t)bytes);
	while (err == EINTR);
	return -err;
}

static void header_size(const struct trace_writer *w, uint64_t bytes)
{
	__atomic_store_n(&w->header->size, trace_size((uint32_t)(bytes / PAGE)), __ATOMIC_RELEASE);
}

static int header_create(struct trace_writer *w)
{
	const struct trace_header header = {.version = TRACE_VERSION,
					    .header_bytes = TRACE_HEADER_BYTES,
					    .frame_max = TRACE_FRAME_MAX};
	int err = ftruncate(w->fd, 0) ? -errno : file_grow(w, 0, TRACE_HEADER_BYTES);
	void *mapped;

	if (err)
		return err;
	mapped = mmap(NULL, TRACE_HEADER_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, w->fd, 0);
	if (mapped == MAP_FAILED)
		return -errno;
	w->header = mapped;
	*w->header = header;
	memcpy(w->header->magic, TRACE_MAGIC, sizeof(w->header->magic));
	w->header->crc = trace_crc(0, w->header, offsetof(struct trace_header, crc));
	header_size(w, TRACE_HEADER_BYTES);
	return 0;
}

static void unmap_all(struct trace_writer *w)
{
	if (w->piece)
		(void)munmap(w->piece, PIECE);
	if (w->header)
		(void)munmap(w->header, TRACE_HEADER_BYTES);
	w->piece = NULL;
	w->header = NULL;
}

/* Map the piece in which a frame of any size may begin at an offset of the file. */
static int piece_map(struct trace_writer *w, uint64_t at)
{
	uint64_t first = at / PAGE * PAGE;
	void *mapped;
	int err;

	if (w->piece && at + TRACE_FRAME_MAX <= w->piece_at + PIECE)
		return 0;
	if (first + PIECE > UINT32_MAX * PAGE)
		return -EFBIG;
	err = file_grow(w, first, PIECE);
	if (err)
		return err;
	mapped = mmap(NULL, PIECE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, w->fd,
		      (off_t)first);
	if (mapped == MAP_FAILED)
		return -errno;
	if (w->piece)
		(void)munmap(w->piece, PIECE);
	w->piece = mapped;
	w->piece_at = first;
	header_size(w, first + PIECE);
	return 0;
}

/* ------------------------------------------------------------------ frames */

static struct trace_frame *frame_of(const struct trace_writer *w)
{
	return (struct trace_frame *)(w->piece + (w->frame_at - w->piece_at));
}

/* The frame is finished: its length comes last. */
static void frame_end(struct trace_writer *w)
{
	struct trace_frame *frame = frame_of(w), head = *frame;
	uint32_t crc;

	head.bytes = w->frame_bytes;
	crc = trace_crc(trace_crc(0, &head, sizeof(head)), frame + 1,
			w->frame_bytes - sizeof(head));
	frame->crc = crc;
	__atomic_store_n(&frame->bytes, head.bytes, __ATOMIC_RELEASE);
	w->frame_at += w->frame_bytes;
	w->frame_bytes = 0;
}

static int frame_begin(struct trace_writer *w)
{
	int err = piece_map(w, w->frame_at);
	struct trace_frame *frame;

	if (err)
		return err;
	frame = frame_of(w);
	frame->number = w->frame_number++;
	__atomic_store_n(&frame->magic, TRACE_FRAME_MAGIC, __ATOMIC_RELEASE);
	w->frame_bytes = sizeof(*frame);
	return 0;
}

/* Nothing more is written. What was allocated of the file and not used goes. */
static void finish(struct trace_writer *w)
{
	uint64_t bytes;

	if (w->frame_bytes)
		frame_end(w);
	w->open = false;
	bytes = round_up(w->frame_at, PAGE);
	/* In this order: who reads meanwhile finds no less than he was told of. */
	header_size(w, bytes);
	unmap_all(w);
	if (ftruncate(w->fd, (off_t)bytes))
		log_warning("trace: %s: what it does not need cannot be cut off: %s", w->path,
			    strerrordesc_np(errno));
	(void)close(w->fd);
}

/* ------------------------------------------------------------------ events */

void *trace_writer_event(struct trace_writer *w, enum trace_kind kind, uint32_t stream, uint64_t ns,
			 size_t bytes)
{
	int err = 0;

	assert(bytes % 8 == 0 && bytes <= TRACE_FRAME_MAX - sizeof(struct trace_frame));
	if (!w->open)
		return NULL;
	if (w->frame_bytes && w->frame_bytes + bytes > TRACE_FRAME_MAX)
		frame_end(w);
	if (!w->frame_bytes)
		err = frame_begin(w);
	if (err) {
		log_warning("trace: %s ends here, and the program goes on: %s", w->path,
			    strerrordesc_np(-err));
		finish(w);
		return NULL;
	}
	w->event = (struct trace_event *)((char *)frame_of(w) + w->frame_bytes);
	w->event_bytes = (uint32_t)bytes;
	w->event->kind = (uint16_t)kind;
	w->event->stream = (uint16_t)stream;
	w->event->ns = ns;
	return w->event;
}

void trace_writer_commit(struct trace_writer *w)
{
	w->frame_bytes += w->event_bytes;
	/* Who reads the file sees the rest of the event if it sees this; and the compiler keeps it
	 * last, so that a process that is killed leaves whole events. */
	__atomic_store_n(&w->event->bytes, w->event_bytes, __ATOMIC_RELEASE);
}

void *trace_writer_text(struct trace_writer *w, enum trace_kind kind, uint64_t ns,
			size_t head_bytes, const char *text)
{
	size_t length = strnlen(text, TRACE_TEXT_MAX);
	char *event = trace_writer_event(w, kind, TRACE_NO_STREAM, ns,
					 round_up(head_bytes + length + 1, 8));

	if (event)
		memcpy(event + head_bytes, text, length);
	return event;
}

uint32_t trace_writer_name(struct trace_writer *w, const char *name, uint64_t ns)
{
	uint64_t at = (uintptr_t)name / 8 * 0x9e3779b97f4a7c15u >> 54; /* of NAMES_MAX */
	struct trace_name *event;

	if (!name || !w->open)
		return 0;
	for (; w->name[at].text; at = (at + 1) % NAMES_MAX)
		if (w->name[at].text == name)
			return w->name[at].number;
	event = trace_writer_text(w, TRACE_NAME, ns, sizeof(*event), name);
	if (!event)
		return 0;
	event->number = ++w->nr_names;
	trace_writer_commit(w);
	/* Beyond that a name is written each time. */
	if (w->nr_names <= NAMES_MAX / 2) {
		w->name[at].text = name;
		w->name[at].number = w->nr_names;
	}
	return w->nr_names;
}

/* ------------------------------------------------------------------ beginning and end */

static struct trace_writer *writer_alloc(void)
{
	struct trace_writer *w =
		mmap(NULL, sizeof(*w), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (w == MAP_FAILED)
		return NULL;
	if (!madvise(w, sizeof(*w), MADV_WIPEONFORK))
		return w;
	(void)munmap(w, sizeof(*w));
	return NULL;
}

static const char *why(int err)
{
	if (err == -EEXIST)
		return "it is there, and no trace";
	if (err == -EBUSY)
		return "it is being written";
	return strerrordesc_np(-err);
}

int trace_writer_open(const char *path, bool numbered, struct trace_writer **out)
{
	struct trace_writer *w = writer_alloc();
	int err;

	if (!w)
		return -ENOMEM;
	err = file_find(w, path, numbered);
	if (err) {
		log_error("trace: %s is not written: %s", w->path, why(err));
		goto err_free;
	}
	err = header_create(w);
	if (!err)
		err = piece_map(w, TRACE_HEADER_BYTES);
	if (err) {
		log_error("trace: %s cannot be written: %s", w->path, strerrordesc_np(-err));
		goto err_close;
	}
	w->frame_at = TRACE_HEADER_BYTES;
	w->open = true;
	*out = w;
	return 0;

err_close:
	unmap_all(w);
	(void)ftruncate(w->fd, 0);
	(void)close(w->fd);
err_free:
	(void)munmap(w, sizeof(*w));
	return err;
}

void trace_writer_close(struct trace_writer *w)
{
	if (!w)
		return;
	if (w->open)
		finish(w);
	(void)munmap(w, sizeof(*w));
}
