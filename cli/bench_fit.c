/* SPDX-License-Identifier: Apache-2.0 */
/* Factors of kernels; see bench_fit.h. */
#include "cli/bench_fit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/cost/cost.h"

/* Sums over the launches of one kernel. */
struct fit {
	const char *name;
	double measured_ns, modelled_ns;
};

struct fits {
	struct fit kernel[WEIR_KERNELS_MAX];
	uint32_t nr;
};

/* A step's time with everything in HBM, by the device's rates alone. */
static double modelled_ns(const struct weir_device_desc *device, const struct trace *trace,
			  const struct trace_step *step)
{
	double hbm_ns = 0;

	for (uint32_t i = step->first_use; i < step->first_use + step->nr_uses; i++) {
		const struct weir_use declared = trace_use_declared(&trace->uses[i]);

		hbm_ns += cost_hbm_ns(device, &declared);
	}
	return cost_resident_ns(device, 1, hbm_ns, step->ops);
}

/* The sums of a kernel, new or not. NULL: no room. */
static struct fit *fit_of(struct fits *fits, const char *name)
{
	for (uint32_t i = 0; i < fits->nr; i++)
		if (!strcmp(fits->kernel[i].name, name))
			return &fits->kernel[i];
	if (fits->nr == WEIR_KERNELS_MAX)
		return NULL;
	fits->kernel[fits->nr] = (struct fit){.name = name};
	return &fits->kernel[fits->nr++];
}

static int sum_up(const struct weir_device_desc *device, const struct trace *trace,
		  struct fits *fits)
{
	for (uint32_t s = 0; s < trace->nr_steps; s++) {
		const struct trace_step *step = &trace->steps[s];
		struct fit *fit;
		double ns;

		if (!step->name)
			continue;
		ns = modelled_ns(device, trace, step);
		if (ns <= (double)device->launch_ns)
			continue;
		fit = fit_of(fits, step->name);
		if (!fit)
			return -E2BIG;
		fit->measured_ns += step->compute_ns;
		fit->modelled_ns += ns;
	}
	return 0;
}

int bench_fit_write(FILE *out, struct machine_file *machine, uint32_t device,
		    const struct trace *trace, const char *source)
{
	struct weir_kernel_rate kernel[WEIR_KERNELS_MAX] = {{.factor = 0}};
	struct fits fits = {.nr = 0};
	int err = sum_up(&machine->desc.device[device], trace, &fits);
	char *text;

	for (uint32_t i = 0; i < fits.nr && !err; i++) {
		size_t length = strlen(fits.kernel[i].name);

		if (length >= WEIR_NAME_MAX)
			return -EINVAL;
		memcpy(kernel[i].name, fits.kernel[i].name, length + 1);
		kernel[i].factor = fits.kernel[i].measured_ns / fits.kernel[i].modelled_ns;
	}
	if (!err)
		err = machine_set_kernels(machine, kernel, fits.nr, WEIR_ORIGIN_FITTED, source);
	if (err)
		return err;
	text = machine_format(machine);
	if (!text)
		return -ENOMEM;
	(void)fputs(text, out);
	free(text);
	return 0;
}
