/* SPDX-License-Identifier: Apache-2.0 */
/* What the commands below `weir graph` share. */
#ifndef WEIR_CLI_GRAPH_INTERNAL_H
#define WEIR_CLI_GRAPH_INTERNAL_H

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/output_file.h"
#include "cli/progress.h"
#include "workloads/graph/build.h"
#include "workloads/graph/fail.h"

/* Each is given what follows its name, and returns the program's exit status. */
int graph_convert(int argc, char **argv);
int graph_generate(int argc, char **argv);
int graph_info(int argc, char **argv);

/* Values of options that several commands have. 0, or -EINVAL with one line. */
int graph_parse_memory(const char *text, uint64_t *bytes, char *err, size_t err_bytes);
int graph_parse_threads(const char *text, uint32_t *nr, char *err, size_t err_bytes);
int graph_parse_number(const char *option, const char *text, uint64_t max, uint64_t *out, char *err,
		       size_t err_bytes);
int graph_parse_weights(const char *text, bool keep, enum csr_weights *out, char *err,
			size_t err_bytes);

/* Work that is watched: it shows how far it is, and a signal ends it. */
struct graph_job {
	struct progress progress;
	struct graph_watch watch;
	struct output_file output; /* not open where a job writes none */
	char err[GRAPH_ERROR_BYTES];
};

/*
 * Begin to watch. name: the output; NULL: none. force: whether it replaces a file that is neither
 * empty nor a graph file. 0, or a negative errno with a line in job->err.
 */
int graph_job_begin(struct graph_job *job, const char *name, bool force);

/* Build into the output; built is written on success only. As csr_build(). */
int graph_job_build(struct graph_job *job, const struct csr_build *build, struct csr_built *built);

/*
 * End the job: with rc 0 the output gets its name, otherwise nothing is left of it.
 * @return the exit status; unless it is 0, one line was printed.
 */
int graph_job_end(struct graph_job *job, int rc);

/* One line about what was made, to standard output. */
void graph_print_built(const char *name, uint64_t nr_vertices, const struct csr_built *built);

#endif
