/* SPDX-License-Identifier: Apache-2.0 */
/* What the commands below `weir graph` share; see graph_internal.h. */
#include "cli/graph_internal.h"

#include <errno.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "cli/interrupt.h"
#include "cli/size.h"
#include "src/base/util.h"

#define THREADS_MAX 256u

/* ------------------------------------------------------------------ arguments */

int graph_parse_memory(const char *text, uint64_t *bytes, char *err, size_t err_bytes)
{
	if (!size_parse(text, bytes) && *bytes >= 65536)
		return 0;
	return graph_fail(err, err_bytes, -EINVAL,
			  "--memory '%.40s' is no size of 64KiB or more: write one like 4GiB",
			  text);
}

int graph_parse_number(const char *option, const char *text, uint64_t max, uint64_t *out, char *err,
		       size_t err_bytes)
{
	if (!count_parse(text, out) && *out <= max)
		return 0;
	return graph_fail(err, err_bytes, -EINVAL,
			  "--%s '%.40s' is no whole number up to %llu: write one", option, text,
			  (unsigned long long)max);
}

int graph_parse_threads(const char *text, uint32_t *nr, char *err, size_t err_bytes)
{
	uint64_t value;
	int rc = graph_parse_number("threads", text, THREADS_MAX, &value, err, err_bytes);

	if (!rc)
		*nr = (uint32_t)value;
	return rc;
}

int graph_parse_weights(const char *text, bool keep, enum csr_weights *out, char *err,
			size_t err_bytes)
{
	static const char *const names[] = {[CSR_WEIGHTS_NONE] = "none",
					    [CSR_WEIGHTS_KEEP] = "keep",
					    [CSR_WEIGHTS_GEN] = "gen"};

	for (unsigned int i = 0; i < ARRAY_LEN(names); i++) {
		if (strcasecmp(text, names[i]) == 0 && (keep || i != CSR_WEIGHTS_KEEP)) {
			*out = (enum csr_weights)i;
			return 0;
		}
	}
	return graph_fail(err, err_bytes, -EINVAL, "--weights '%.40s': write %sgen or none", text,
			  keep ? "keep, " : "");
}

/* ------------------------------------------------------------------ jobs */

static bool job_stop(void *arg, double fraction, const char *label)
{
	struct graph_job *job = arg;

	progress_set(&job->progress, fraction, label);
	return interrupt_pending() != 0;
}

/* Perhaps the last input, with the output forgotten. */
static int check_replaced(struct graph_job *job, const char *name)
{
	struct stat st;

	if (stat(name, &st) || !S_ISREG(st.st_mode) || !st.st_size || csr_is_file(name))
		return 0;
	return graph_fail(job->err, sizeof(job->err), -EEXIST,
			  "'%s', named last, is the output, and is there already and no graph "
			  "file: name another one last, or add --force to replace it",
			  name);
}

int graph_job_begin(struct graph_job *job, const char *name, bool force)
{
	int rc = interrupt_init();

	memset(job, 0, sizeof(*job));
	if (rc)
		return graph_fail(job->err, sizeof(job->err), rc, "signals: %s", strerror(-rc));
	progress_start(&job->progress, stderr);
	job->watch = (struct graph_watch){.stop = job_stop, .arg = job};
	if (!name)
		return 0;
	if (strcmp(name, "-") == 0)
		return graph_fail(job->err, sizeof(job->err), -EINVAL,
				  "a graph file is not written in sequence: name a file instead "
				  "of -");
	rc = output_file_check("OUTPUT", name, job->err, sizeof(job->err));
	if (!rc && !force)
		rc = check_replaced(job, name);
	if (!rc)
		rc = output_file_open(&job->output, "OUTPUT", name, job->err, sizeof(job->err));
	if (!rc)
		interrupt_set_partial(0, job->output.partial);
	return rc;
}

int graph_job_build(struct graph_job *job, const struct csr_build *build, struct csr_built *built)
{
	return csr_build(build, fileno(job->output.stream), built, job->err, sizeof(job->err));
}

int graph_job_end(struct graph_job *job, int rc)
{
	const int signal_number = interrupt_pending();

	progress_end(&job->progress);
	if (!rc && job->output.stream)
		rc = output_file_commit(&job->output, job->err, sizeof(job->err));
	else
		output_file_abandon(&job->output);
	interrupt_set_partial(0, NULL);
	if (rc == -ECANCELED) {
		command_complain("interrupted; nothing was written");
		return 128 + signal_number;
	}
	return rc ? command_complain("%s", job->err) : 0;
}

void graph_print_built(const char *name, uint64_t nr_vertices, const struct csr_built *built)
{
	printf("%s: %llu vertices, %llu edges", name, (unsigned long long)nr_vertices,
	       (unsigned long long)built->nr_edges);
	if (built->nr_loops_dropped || built->nr_duplicates_dropped)
		printf(" (left out: %llu self-loops, %llu duplicates)",
		       (unsigned long long)built->nr_loops_dropped,
		       (unsigned long long)built->nr_duplicates_dropped);
	putchar('\n');
}
