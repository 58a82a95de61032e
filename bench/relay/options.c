/* SPDX-License-Identifier: Apache-2.0 */
/* What bench_relay is asked to do. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "bench/relay/relay.h"
#include "cli/bench_reader.h"
#include "machine/machine_file.h"
#include "src/base/util.h"

#define MACHINE "h200x4"
#define BYTES (UINT64_C(4) << 30)
#define CHECKED_BYTES (UINT64_C(256) << 20) /* where the computer stands in for all memories */
#define BYTES_MAX (UINT64_C(1) << 40)
#define PIECES_MAX (1u << 20)

enum option_id { MACHINE_NAME, TEST, BYTES_EACH, PIECE, BUFFERS, SAMPLES, CHECK, HELP, OPTION_NR };

static const struct option_def option_table[OPTION_NR] = {
	[MACHINE_NAME] = {.name = "machine",
			  .metavar = "M",
			  .preset = MACHINE,
			  .help = "cuda: this computer's GPUs; or a machine to simulate: its name "
				  "or file"},
	[TEST] = {.name = "test",
		  .metavar = "T,...",
		  .preset = "in,out,both,queued,sizes,kernels",
		  .help = "in, out: from the host into the first GPU, and out of it, by the "
			  "number of links; both: at once; queued: in and out without staging; "
			  "sizes: other pieces and numbers of buffers over all links; kernels: "
			  "what relays cost the kernels of their GPUs"},
	[BYTES_EACH] = {.name = "bytes",
			.metavar = "S",
			.help = "to copy each way in a run; the host and the first GPU have two of "
				"it (default: 4GiB; 256MiB where --check is simulated)"},
	[PIECE] = {.name = "piece",
		   .metavar = "S",
		   .preset = "16MiB",
		   .help = "to copy at a time; sizes: from a quarter of it to four"},
	[BUFFERS] = {.name = "buffers",
		     .metavar = "N",
		     .preset = "4",
		     .help = "of each relay and way, 2 to 8; sizes: half of it, too"},
	[SAMPLES] = {.name = "samples",
		     .metavar = "N",
		     .preset = "5",
		     .help = "runs of each kind, after one that does not count"},
	[CHECK] =
		{.name = "check",
		 .help = "compare what arrives, all bytes of each run; simulated: with real bytes"},
	[HELP] = {.name = "help", .help = "show this text"},
};

void relay_help(void)
{
	fputs("usage: bench_relay [options]\n\n"
	      "Host data into one GPU, and out of it, through the host links of several GPUs at\n"
	      "once: through a GPU's memory to its neighbour's. One JSON object a line; times are\n"
	      "nanoseconds, rates 10^9 bytes a second.\n\n",
	      stdout);
	options_help(stdout, option_table, OPTION_NR);
	bench_help_units(stdout);
	fputs("WEIR_PROBE_KERNELS names the kernels' library for --machine cuda (test kernels).\n"
	      "Exit status: 0 done, 1 it failed or bytes are wrong, 2 bad input.\n",
	      stdout);
}

static int read_test(struct bench_reader *r, unsigned int nr, void *arg)
{
	static const char *const name[TEST_NR] = {"in",	    "out",   "both",
						  "queued", "sizes", "kernels"};
	struct relay_options *out = arg;

	(void)nr;
	for (int test = 0; test < TEST_NR; test++) {
		if (strcmp(r->values[TEST].text, name[test]) != 0)
			continue;
		if (out->test[test])
			return bench_refuse(r, TEST, "listed twice; keep one");
		out->test[test] = true;
		return 0;
	}
	return bench_refuse(r, TEST, "no such one; choose in, out, both, queued, sizes or kernels");
}

static int read_bytes(const struct bench_reader *r, struct relay_options *out)
{
	int err = bench_read_bytes(r, PIECE, &out->piece_bytes);

	if (err)
		return err;
	if (!out->piece_bytes || out->piece_bytes % 4096 || out->piece_bytes > BYTES_MAX / 8)
		return bench_refuse(r, PIECE, "choose whole pages of 4 KiB, 128 GiB at the most");
	out->bytes = out->check && out->simulated ? CHECKED_BYTES : BYTES;
	if (r->values[BYTES_EACH].text)
		err = bench_read_bytes(r, BYTES_EACH, &out->bytes);
	if (err)
		return err;
	if (!out->bytes || out->bytes > BYTES_MAX ||
	    out->bytes % (RELAY_PIECE_SPREAD * out->piece_bytes) ||
	    out->bytes / out->piece_bytes > PIECES_MAX / RELAY_PIECE_SPREAD) {
		snprintf(r->err, r->err_bytes,
			 "--bytes %llu: choose a multiple of %u pieces, which are %llu bytes; "
			 "%u pieces and 1 TiB at the most",
			 (unsigned long long)out->bytes, RELAY_PIECE_SPREAD,
			 (unsigned long long)(RELAY_PIECE_SPREAD * out->piece_bytes),
			 PIECES_MAX / RELAY_PIECE_SPREAD);
		return -EINVAL;
	}
	return 0;
}

int relay_options_parse(int argc, char **argv, struct relay_options *out, char *err,
			size_t err_bytes)
{
	struct option_value values[OPTION_NR];
	struct bench_reader reader = {.defs = option_table,
				      .values = values,
				      .nr = OPTION_NR,
				      .err = err,
				      .err_bytes = err_bytes};
	unsigned int nr_tests;
	int rc = options_parse(option_table, OPTION_NR, argc, argv, values, err, err_bytes);

	memset(out, 0, sizeof(*out));
	if (rc)
		return rc;
	out->machine = values[MACHINE_NAME].text;
	out->simulated = strcmp(out->machine, MACHINE_CUDA) != 0;
	out->check = values[CHECK].text;
	rc = read_bytes(&reader, out);
	if (!rc)
		rc = bench_read_u32(&reader, BUFFERS, 2, RELAY_BUFFERS_MAX, &out->nr_buffers);
	if (!rc)
		rc = bench_read_u32(&reader, SAMPLES, 1, RELAY_SAMPLES_MAX, &out->nr_samples);
	if (!rc)
		rc = bench_read_list(&reader, TEST, TEST_NR, read_test, out, &nr_tests);
	return rc;
}
