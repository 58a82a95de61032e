/* SPDX-License-Identifier: Apache-2.0 */
/* Options that all workloads of `weir bench` have, and values of any option; see bench_reader.h. */
#include "cli/bench_reader.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/first_logged.h"
#include "cli/kept.h"
#include "cli/size.h"
#include "src/backend/cuda/cuda.h"
#include "src/base/variables.h"
#include "src/cost/cost.h"

/* "--nodes" or "WEIR_NODES", as the user gave it. */
static const char *label(const struct bench_reader *r, unsigned int id, char *text, size_t bytes)
{
	if (r->values[id].origin == OPTION_ENV)
		snprintf(text, bytes, "%s", r->defs[id].env);
	else
		snprintf(text, bytes, "--%s", r->defs[id].name);
	return text;
}

int bench_refuse(const struct bench_reader *r, unsigned int id, const char *what)
{
	char name[64];

	snprintf(r->err, r->err_bytes, "%s '%s': %s", label(r, id, name, sizeof(name)),
		 r->values[id].text, what);
	return -EINVAL;
}

/* ------------------------------------------------------------------ single values */

int bench_read_count(const struct bench_reader *r, unsigned int id, uint64_t least, uint64_t most,
		     uint64_t *out)
{
	char what[96];
	uint64_t count;
	int err = count_parse(r->values[id].text, &count);

	if (err == -EINVAL)
		return bench_refuse(r, id, "not a count; write a whole number such as 5M or 20000");
	if (err || count < least || count > most) {
		snprintf(what, sizeof(what), "out of range; choose %" PRIu64 " to %" PRIu64, least,
			 most);
		return bench_refuse(r, id, what);
	}
	*out = count;
	return 0;
}

int bench_read_u32(const struct bench_reader *r, unsigned int id, uint32_t least, uint32_t most,
		   uint32_t *out)
{
	uint64_t count;
	int err = bench_read_count(r, id, least, most, &count);

	if (!err)
		*out = (uint32_t)count;
	return err;
}

int bench_read_bytes(const struct bench_reader *r, unsigned int id, uint64_t *out)
{
	int err = size_parse(r->values[id].text, out);

	if (err == -ERANGE)
		return bench_refuse(r, id, "too large for a size; sizes end below 2^64 bytes");
	if (err)
		return bench_refuse(r, id, "not a size; write for example 33.67GB or 512MiB");
	return 0;
}

int bench_read_seed(const struct bench_reader *r, unsigned int id, uint64_t *out)
{
	const char *text = r->values[id].text;
	char *end;

	errno = 0;
	*out = strtoull(text, &end, 10);
	if (text[0] < '0' || text[0] > '9' || *end || errno)
		return bench_refuse(r, id, "not a seed; write a whole number below 2^64");
	return 0;
}

int bench_read_percent(const struct bench_reader *r, unsigned int id, double most, double *out)
{
	const char *text = r->values[id].text;
	size_t length = strlen(text) - 1; /* of the number */
	double percent = strtod(text, NULL);
	char what[64];

	if (!length || strspn(text, "0123456789.") != length ||
	    strchr(text, '.') != strrchr(text, '.'))
		return bench_refuse(r, id, "not a percentage; write for example 40%");
	if (!(percent > 0) || percent > most) {
		snprintf(what, sizeof(what), "out of range; choose above 0%% and up to %.0f%%",
			 most);
		return bench_refuse(r, id, what);
	}
	*out = percent / 100;
	return 0;
}

/* ------------------------------------------------------------------ lists */

char *bench_next_item(char **rest)
{
	char *item = strsep(rest, ",");

	return item && item[0] ? item : NULL;
}

int bench_read_list(struct bench_reader *r, unsigned int id, unsigned int most, bench_item_fn read,
		    void *arg, unsigned int *nr)
{
	char *text = strdup(r->values[id].text), *rest = text;
	struct option_value whole = r->values[id];
	int err = 0;

	if (!text)
		return -ENOMEM;
	while (rest && !err) {
		char *item = bench_next_item(&rest);

		if (!item) {
			err = bench_refuse(r, id, "an item is missing; write A,B");
			break;
		}
		r->values[id].text = item; /* so that an error names the one that is wrong */
		err = *nr == most ? bench_refuse(r, id, "too many or listed twice; keep one each")
				  : read(r, *nr, arg);
		*nr += !err;
		r->values[id] = whole;
	}
	free(text);
	return err;
}

int bench_add_bytes(const struct bench_reader *r, unsigned int id, unsigned int nr, uint64_t *sizes)
{
	int err = bench_read_bytes(r, id, &sizes[nr]);

	for (unsigned int i = 0; i < nr && !err; i++)
		if (sizes[i] == sizes[nr])
			err = bench_refuse(r, id, "listed twice; keep one");
	return err;
}

/* ------------------------------------------------------------------ device, managers */

int bench_read_device(const struct bench_reader *r, struct bench_params *p)
{
	const char *text = r->values[BENCH_DEVICE].text;
	char what[96];

	for (uint32_t i = 0; i < p->machine.nr_devices; i++) {
		char index[16];

		snprintf(index, sizeof(index), "%" PRIu32, i);
		if (strcmp(text, index) == 0 || strcmp(text, p->machine.device[i].name) == 0) {
			p->device = i;
			return 0;
		}
	}
	snprintf(what, sizeof(what), "no such device; machine '%s' has 0 to %" PRIu32,
		 p->machine.name, p->machine.nr_devices - 1);
	return bench_refuse(r, BENCH_DEVICE, what);
}

static int unknown_manager(const struct bench_reader *r, const char *name)
{
	char text[64], all[160] = "";
	size_t used = 0;

	for (unsigned int i = 0; manager_list[i] && used < sizeof(all); i++)
		used += (size_t)snprintf(all + used, sizeof(all) - used, "%s%s", i ? ", " : "",
					 manager_list[i]->name);
	snprintf(r->err, r->err_bytes, "%s: no manager '%s'; there are %s",
		 label(r, BENCH_MANAGER, text, sizeof(text)), name, all);
	return -EINVAL;
}

int bench_read_managers(const struct bench_reader *r, struct bench_params *p)
{
	char what[160], *rest;

	p->manager_text = strdup(r->values[BENCH_MANAGER].text);
	if (!p->manager_text)
		return -ENOMEM;
	rest = p->manager_text;
	while (rest) {
		char *name = bench_next_item(&rest);

		if (!name)
			return bench_refuse(r, BENCH_MANAGER,
					    "a name is missing; write for example native,weir");
		if (!bench_manager_find(name) || strchr(name, ' '))
			return unknown_manager(r, name);
		if (!r->pages && bench_manager_find(name)->paged_begin) {
			snprintf(what, sizeof(what),
				 "%.60s is for kernels that page for themselves, and this "
				 "workload's take addresses; leave it out",
				 name);
			return bench_refuse(r, BENCH_MANAGER, what);
		}
		for (unsigned int i = 0; i < p->nr_managers; i++) {
			if (strcmp(p->manager[i], name) == 0) {
				snprintf(what, sizeof(what), "%s is listed twice; keep one", name);
				return bench_refuse(r, BENCH_MANAGER, what);
			}
		}
		if (p->nr_managers == BENCH_LIST_MAX)
			return bench_refuse(r, BENCH_MANAGER, "too many; split the run");
		p->manager[p->nr_managers++] = name;
	}
	return 0;
}

/* ------------------------------------------------------------------ machine */

/* Whether each GPU that there is, and its link to the host, were measured. */
static bool describes(const struct weir_machine_desc *measured,
		      const struct weir_machine_desc *gpus)
{
	uint32_t host = cost_host_memory(gpus);
	bool all = measured->nr_devices >= gpus->nr_devices;

	for (uint32_t d = 0; d < gpus->nr_devices && all; d++)
		all = measured->device[d].memory == gpus->device[d].memory &&
		      cost_link_find(measured, host, gpus->device[d].memory) >= 0;
	return all && cost_host_memory(measured) == host;
}

const char *bench_taken(const struct bench_reader *r, const char *memory)
{
	size_t length = strlen(memory);

	for (unsigned int i = 0; i < r->nr_taken; i++)
		if (strncmp(r->taken[i], memory, length) == 0 && r->taken[i][length] == ':')
			return r->taken[i];
	return "";
}

/* What is logged while a machine is opened: errors, and warnings of memory that others hold. */
struct opening {
	struct bench_reader *reader;
	struct first_logged first;
};

static void keep_opening(void *arg, enum weir_log_level level, const char *message)
{
	struct opening *opening = arg;
	struct bench_reader *r = opening->reader;

	first_logged_keep(&opening->first, level, message);
	if (level == WEIR_LOG_WARNING && r->nr_taken < WEIR_DEVICES_MAX)
		snprintf(r->taken[r->nr_taken++], BENCH_WHY_BYTES, "%s", message);
}

/* Look at this computer's GPUs, and load the kernels for them. measured: may be NULL. why: what is
 * missing, of BENCH_WHY_BYTES. */
static int find_gpus(struct bench_reader *r, const struct weir_machine_desc *measured,
		     struct bench_params *p, char *why)
{
	struct weir_machine *machine;
	struct opening opening = {.reader = r};
	const char *logged = opening.first.error;
	time_t now = time(NULL);
	struct tm tm;
	int err;

	r->nr_taken = 0;
	weir_log_set(keep_opening, &opening);
	err = weir_machine_cuda(measured, &machine);
	if (!err) {
		p->machine = *weir_machine_describe(machine);
		weir_machine_close(machine);
		err = r->load_kernels();
	}
	weir_log_set(NULL, NULL);
	snprintf(why, BENCH_WHY_BYTES, "%.*s", BENCH_WHY_BYTES - 1,
		 logged[0] ? logged : weir_strerror(err));
	p->real_gpu = !err;
	if (!err && gmtime_r(&now, &tm))
		(void)strftime(p->date, sizeof(p->date), "%Y-%m-%dT%H:%M:%SZ", &tm);
	return err;
}

/* A description by its name or path; its file is an input, which no output may replace. */
static int read_file(struct bench_reader *r, const char *name, struct bench_params *p)
{
	int err = machine_file_read(name, &p->file, r->err, r->err_bytes);

	if (!err)
		kept_add_name(p->file.path);
	return err;
}

static int read_cuda(struct bench_reader *r, struct bench_params *p)
{
	const char *measured = r->values[BENCH_MEASURED].text;
	char why[BENCH_WHY_BYTES];
	int err = 0;

	if (measured)
		err = read_file(r, measured, p);
	if (err)
		return err;
	/* The backend reads the variable each time a machine is opened. */
	if (r->values[BENCH_DEBUG].text && setenv(VARIABLE_CUDA_DEBUG, "1", 1))
		return -ENOMEM;
	err = find_gpus(r, measured ? &p->file.desc : NULL, p, why);
	if (err) {
		snprintf(r->err, r->err_bytes,
			 "machine '" MACHINE_CUDA "': %s; or choose a simulated one, `weir info` "
			 "lists them",
			 why);
		return err;
	}
	if (measured && !describes(&p->file.desc, &p->machine))
		return bench_refuse(
			r, BENCH_MEASURED,
			"describes another machine: it has the host's memory first, then one "
			"of each GPU that is here, and its link");
	return 0;
}

int bench_read_machine(struct bench_reader *r, struct bench_params *p)
{
	const char *name = r->values[BENCH_MACHINE].text;
	char why[BENCH_WHY_BYTES];
	int err;

	if (!name && !r->values[BENCH_MEASURED].text && !r->values[BENCH_DEBUG].text) {
		/* A GPU where there is one; where there is none, the user hears of it. */
		if (!find_gpus(r, NULL, p, why))
			return 0;
		name = MACHINE_DEFAULT;
		snprintf(p->note, sizeof(p->note), "no GPU to run on: %s; simulating %s", why,
			 name);
	}
	if (!name || strcmp(name, MACHINE_CUDA) == 0)
		return read_cuda(r, p);
	if (r->values[BENCH_MEASURED].origin == OPTION_GIVEN)
		return bench_refuse(r, BENCH_MEASURED,
				    "is for --machine " MACHINE_CUDA "; drop one of them");
	if (r->values[BENCH_DEBUG].text) {
		snprintf(r->err, r->err_bytes,
			 "--debug is for real GPUs: choose --machine " MACHINE_CUDA
			 " or drop it; a simulated machine always checks");
		return -EINVAL;
	}
	err = read_file(r, name, p);
	if (!err)
		p->machine = p->file.desc;
	return err;
}

int bench_read_timeline(const struct bench_reader *r, unsigned int id, unsigned int all,
			struct bench_params *p)
{
	p->timeline = r->values[id].text;
	p->timeline_all = r->values[all].text != NULL;
	if (p->timeline && strcmp(p->timeline, "-") == 0)
		return bench_refuse(r, id, "not the standard output; name a file");
	if (!p->timeline_all || p->timeline)
		return 0;
	snprintf(r->err, r->err_bytes, "--timeline-all is for --timeline; give both");
	return -EINVAL;
}

void bench_read_explain(const struct bench_reader *r, struct bench_params *p)
{
	p->explain = r->values[BENCH_EXPLAIN].text != NULL;
}

int bench_set_command(const struct bench_reader *r, const char *workload,
		      const char *const *operands, int nr_operands, struct bench_params *p)
{
	/* --threads of gcn is of this computer, that of others of launches. */
	const char *const but[] = {"json",
				   "timeline",
				   "timeline-all",
				   "output",
				   "fit-kernels",
				   "verbose",
				   strcmp(workload, "gcn") == 0 ? "threads" : NULL,
				   NULL};
	char command[64];

	snprintf(command, sizeof(command), "weir bench %s", workload);
	p->command =
		options_command(command, r->defs, r->nr, r->values, operands, nr_operands, but);
	return p->command ? 0 : -ENOMEM;
}

void bench_help_end(FILE *out, bool pages)
{
	fputs("\nmanagers:\n", out);
	for (unsigned int i = 0; manager_list[i]; i++)
		if (pages || !manager_list[i]->paged_begin)
			options_help_line(out, manager_list[i]->name, manager_list[i]->help);
	bench_help_units(out);
}

void bench_help_units(FILE *out)
{
	fputs("\n[...] is the default, {...} the environment variable that sets it.\n"
	      "Sizes take KB, MB, GB, TB and KiB, MiB, GiB, TiB; counts take k, M, G.\n",
	      out);
}
