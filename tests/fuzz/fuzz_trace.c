/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target: traces. The first byte of an input says what the rest is: 0: a file as it is; else
 * the events of a trace, in frames of so many times 512 bytes, whose header, lengths of frames and
 * checksums are made right; an odd one leaves the last frame unfinished. What is accepted is gone
 * through by all that reads traces; what is refused must be explained in one line.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/trace_internal.h"
#include "workloads/replay.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void require(int condition)
{
	if (!condition)
		abort();
}

/* Events up to so many bytes; at least one, if there is a whole one. */
static size_t frame_events(const uint8_t *data, size_t bytes, size_t most)
{
	size_t nr = 0;

	while (bytes - nr >= 8) {
		uint32_t length;

		memcpy(&length, data + nr, sizeof(length));
		if (length < 8 || length % 8 || length > bytes - nr || (nr && nr + length > most))
			break;
		nr += length;
	}
	/* What is no event comes along, whole words of it. */
	return nr ? nr : bytes < most ? bytes / 8 * 8 : most;
}

/* The file that the events make. */
static size_t expand(const uint8_t *data, size_t bytes, uint8_t kind, char *file)
{
	struct trace_header header = {.version = TRACE_VERSION,
				      .header_bytes = TRACE_HEADER_BYTES,
				      .frame_max = TRACE_FRAME_MAX};
	size_t at = TRACE_HEADER_BYTES, most = kind * 512u;

	for (uint32_t number = 0; bytes >= 8; number++) {
		struct trace_frame frame = {.magic = TRACE_FRAME_MAGIC, .number = number};
		size_t nr = frame_events(data, bytes, most);

		memcpy(file + at + sizeof(frame), data, nr);
		data += nr;
		bytes -= nr;
		frame.bytes = (uint32_t)(sizeof(frame) + nr);
		if (bytes < 8 && kind & 1)
			frame.bytes = 0;
		frame.crc = frame.bytes ? trace_crc(trace_crc(0, &frame, sizeof(frame)),
						    file + at + sizeof(frame), nr)
					: 0;
		memcpy(file + at, &frame, sizeof(frame));
		at += sizeof(frame) + nr;
	}
	memcpy(header.magic, TRACE_MAGIC, sizeof(header.magic));
	header.crc = trace_crc(0, &header, offsetof(struct trace_header, crc));
	at = (at + 4095) / 4096 * 4096;
	header.size = trace_size((uint32_t)(at / 4096));
	memcpy(file, &header, sizeof(header));
	return at;
}

/* All that reads a trace, over all of it and over the part behind the first mark. */
static void read_all(const struct trace_file *file)
{
	struct trace_input input = {.file = *file, .span = {.end = file->nr_events}};
	struct weir_machine_desc machine = file->machine;
	struct replay_plan plan;
	struct trace *trace;
	FILE *out = fopen("/dev/null", "w");
	char err[512];

	require(out != NULL);
	(void)replay_check(file, &plan, err, sizeof(err));
	replay_kernels(file, &machine);
	require(!weir_machine_check(&machine, NULL, 0));
	for (int part = 0; part < 2; part++) {
		int rc = trace_file_steps(file, &input.span, &trace, err, sizeof(err));

		require(!rc || rc == -ENOTSUP);
		if (!rc) {
			require(!trace_check(trace));
			trace_destroy(trace);
		}
		require(!trace_write_csv(&input, out));
		require(!trace_write_timeline(&input, out));
		input.span.first = file->nr_events / 2;
	}
	require(!fclose(out));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	size_t most = TRACE_HEADER_BYTES + 4 * bytes + 8192, nr;
	char *file = calloc(1, most), err[512] = "";
	struct trace_file trace;
	int rc;

	require(file != NULL);
	if (bytes && data[0]) {
		nr = expand(data + 1, bytes - 1, data[0], file);
	} else {
		nr = bytes ? bytes - 1 : 0;
		memcpy(file, data + (bytes > 0), nr);
	}
	require(nr <= most);
	rc = trace_file_view("fuzz", file, nr, &trace, err, sizeof(err));
	require(!rc || (rc == -EINVAL && !strncmp(err, "fuzz: ", 6) && !strchr(err, '\n')));
	if (!rc) {
		struct trace_observed observed;

		read_all(&trace);
		rc = trace_file_observe(&trace, &observed, err, sizeof(err));
		require(!rc || rc == -ENODATA);
		if (!rc)
			read_all(&trace);
		trace_file_close(&trace);
	}
	free(file);
	return 0;
}
