/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The measuring of a machine as a command: which machine, where its description goes, and what that
 * says about itself. How things are measured is workloads/probe/.
 */
#include "cli/measure.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/commands.h"
#include "cli/first_logged.h"
#include "cli/interrupt.h"
#include "cli/kept.h"
#include "machine/machine_file.h"
#include "machine/machine_make.h"
#include "cli/measure_table.h"
#include "cli/output_file.h"
#include "cli/progress.h"
#include "src/backend/backend.h"
#include "src/backend/machine.h"
#include "src/cost/cost.h"
#include "workloads/probe/probe.h"

#define EXIT_ERROR 2
#define ERROR_BYTES 512
#define TEXT_BYTES 256

/* Of host memory that nothing uses, measuring takes one part in so many. */
#define HOST_SHARE 4

/* One run of the command. */
struct measure {
	const struct measure_params *params;
	struct output_file output;
	struct progress bar;
	struct probe_result result;
	struct first_logged logged;
	char subject[TEXT_BYTES]; /* what was measured, when: sources begin with it */
	char err[ERROR_BYTES];
};

/* One line on standard error, the bar out of its way. */
static int complain(struct measure *m)
{
	progress_clear(&m->bar);
	command_print_line(m->err);
	return EXIT_ERROR;
}

__attribute__((format(printf, 2, 3))) static void set_error(struct measure *m, const char *format,
							    ...)
{
	va_list args;

	va_start(args, format);
	(void)vsnprintf(m->err, sizeof(m->err), format, args);
	va_end(args);
}

/* ------------------------------------------------------------------ the machine */

static bool is_cuda(const struct measure *m)
{
	return strcmp(m->params->machine, MACHINE_CUDA) == 0;
}

static int machine_open(struct measure *m, struct weir_machine **out)
{
	struct machine_file machine;
	int err;

	if (is_cuda(m)) {
		err = weir_machine_cuda(NULL, out);
		if (err)
			set_error(m,
				  "this computer's GPUs: %.300s; or measure a simulated "
				  "machine: --machine NAME",
				  m->logged.error[0] ? m->logged.error : weir_strerror(err));
		return err;
	}
	err = machine_file_read(m->params->machine, &machine, m->err, sizeof(m->err));
	if (err)
		return err;
	/* The output is open already, and what is an input is known only now. */
	kept_add_name(machine.path);
	err = output_file_check("--output", m->params->output, m->err, sizeof(m->err));
	if (!err) {
		err = weir_machine_simulate(&machine.desc, WEIR_DATA_PHANTOM, out);
		if (err)
			set_error(m, "the machine cannot be simulated here: %.300s",
				  weir_strerror(err));
	}
	machine_file_fini(&machine);
	return err;
}

/* ", driver 580.95", as the kernel module says; or nothing. */
static void driver_text(char *text, size_t bytes)
{
	FILE *file = fopen("/sys/module/nvidia/version", "re");
	char version[32] = "";

	text[0] = '\0';
	if (file && fgets(version, sizeof(version), file)) {
		version[strcspn(version, "\n")] = '\0';
		(void)snprintf(text, bytes, ", driver %s", version);
	}
	if (file)
		(void)fclose(file);
}

/* What was measured and when. A simulated machine has no date: its figures depend on none. */
static void subject_fill(struct measure *m, struct weir_machine *machine)
{
	struct backend *b = machine_backend(machine);
	bool all = m->params->device == PROBE_ALL_DEVICES;
	char name[128], driver[48], date[16] = "";
	time_t now = time(NULL);
	struct tm tm;

	if (!is_cuda(m)) {
		(void)snprintf(m->subject, sizeof(m->subject), "simulated %s", b->desc.name);
		return;
	}
	b->observe->device_text(b, all ? 0 : m->params->device, name, sizeof(name));
	driver_text(driver, sizeof(driver));
	if (gmtime_r(&now, &tm))
		(void)strftime(date, sizeof(date), ", %Y-%m-%d", &tm);
	(void)snprintf(m->subject, sizeof(m->subject), "%s%s%s", name, driver, date);
}

/* ------------------------------------------------------------------ measuring */

static int on_progress(void *arg, double fraction, const char *label)
{
	struct measure *m = arg;

	/* What was logged before was got over. */
	m->logged = (struct first_logged){0};
	progress_set(&m->bar, fraction, label);
	return interrupt_pending();
}

static int machine_measure(struct measure *m)
{
	struct probe_options options = {.device = m->params->device,
					.quick = m->params->quick,
					.progress = on_progress,
					.progress_arg = m};
	struct weir_machine *machine;
	struct backend *b;
	char why[ERROR_BYTES / 2] = "";
	uint32_t nr_devices;
	int err = machine_open(m, &machine);

	if (err)
		return err;
	nr_devices = weir_machine_describe(machine)->nr_devices;
	if (options.device != PROBE_ALL_DEVICES && options.device >= nr_devices) {
		set_error(m, "--device %u: there is none such; they go from 0 to %u",
			  options.device, nr_devices - 1);
		err = -EINVAL;
		goto out;
	}
	b = machine_backend(machine);
	if (is_cuda(m))
		options.host_bytes =
			b->ops->memory_room(b, cost_host_memory(&b->desc)) / HOST_SHARE;
	subject_fill(m, machine);
	progress_start(&m->bar, stderr);
	err = probe_run(machine, &options, &m->result, why, sizeof(why));
	progress_end(&m->bar);
	if (err)
		set_error(m, "%.200s: %.300s", why,
			  m->logged.error[0] ? m->logged.error : weir_strerror(err));
out:
	weir_machine_close(machine);
	return err;
}

/* ------------------------------------------------------------------ the description */

/* Where a constant comes from: a measurement, the machine's own word for its sizes, or nowhere. */
static void origin_of(void *arg, const char *path, enum weir_machine_origin *origin, char **source)
{
	const struct measure *m = arg;
	const struct probe_record *record = probe_record_find(&m->result, path);
	const char *how = "an estimate: not measured";

	*origin = WEIR_ORIGIN_ASSUMED;
	if (strncmp(path, "memory", strlen("memory")) == 0) {
		*origin = WEIR_ORIGIN_MEASURED;
		how = "what there was to use when it was measured";
	} else if (strcmp(path, "vmm.granularity_bytes") == 0) {
		*origin = WEIR_ORIGIN_VENDOR;
		how = "least granularity of chunks in all memories";
	} else if (record && record->nr) {
		*origin = WEIR_ORIGIN_MEASURED;
		how = record->how;
	} else if (record) {
		if (asprintf(source, "%s: an estimate: %s", m->subject, record->how) < 0)
			*source = NULL;
		return;
	}
	if (asprintf(source, "%s: %s", m->subject, how) < 0)
		*source = NULL;
}

/* A file that is found by name bears that name: take the file's, if it can be one. */
static void name_machine(struct measure *m)
{
	const char *slash = strrchr(m->params->output, '/');
	const char *base = slash ? slash + 1 : m->params->output;
	const char *end = strstr(base, ".json");
	size_t nr = end && !end[5] ? (size_t)(end - base) : 0;

	if (nr && nr < WEIR_NAME_MAX && base[0] != '.' &&
	    strspn(base, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") >=
		    nr + 5)
		(void)snprintf(m->result.desc.name, WEIR_NAME_MAX, "%.*s", (int)nr, base);
	else if (is_cuda(m))
		(void)snprintf(m->result.desc.name, WEIR_NAME_MAX, "measured");
}

static int description_write(struct measure *m)
{
	struct machine_file machine;
	char about[TEXT_BYTES + 16];
	char *text = NULL;
	int err;

	name_machine(m);
	(void)snprintf(about, sizeof(about), "%s, as measured", m->subject);
	err = machine_make(&m->result.desc, about, origin_of, m, &machine);
	if (!err) {
		text = machine_format(&machine);
		machine_file_fini(&machine);
	}
	if (!text) {
		set_error(m, "not enough memory on this computer");
		return -ENOMEM;
	}
	(void)fputs(text, m->output.stream);
	free(text);
	return output_file_commit(&m->output, m->err, sizeof(m->err));
}

/* ------------------------------------------------------------------ the command */

static int report(struct measure *m)
{
	FILE *table = m->output.stream == stdout ? stderr : stdout;
	int err;

	/* A signal from here on no longer stops it. */
	err = description_write(m);
	interrupt_set_partial(0, NULL);
	if (err)
		return complain(m);
	errno = 0;
	err = measure_table_print(table, &m->result);
	if (!err && (fflush(table) || ferror(table)))
		err = -EIO;
	if (!err)
		return 0;
	set_error(m, "cannot write the table: %s; send the output elsewhere",
		  strerror(errno ? errno : -err));
	return complain(m);
}

int measure_run(const struct measure_params *params)
{
	struct measure m = {.params = params};
	int err = interrupt_init(), status;

	if (err) {
		set_error(&m, "cannot handle signals: %s", strerror(-err));
		return complain(&m);
	}
	if (output_file_open(&m.output, "--output", params->output, m.err, sizeof(m.err)))
		return complain(&m);
	interrupt_set_partial(0, m.output.partial);
	weir_log_set(first_logged_keep, &m.logged);
	err = machine_measure(&m);
	weir_log_set(NULL, NULL);
	if (!err) {
		status = report(&m);
	} else if (interrupt_pending()) {
		set_error(&m, "interrupted; nothing was written");
		(void)complain(&m);
		status = 128 + interrupt_pending();
	} else {
		status = complain(&m);
	}
	interrupt_set_partial(0, NULL);
	output_file_abandon(&m.output);
	probe_result_fini(&m.result);
	return status;
}
