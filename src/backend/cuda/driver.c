/* SPDX-License-Identifier: Apache-2.0 */
/* Opening the CUDA driver, and what its results mean: see driver.h. */
#include "src/backend/cuda/driver.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#include "src/base/log.h"
#include "weir/weir.h"

#define LIBRARY "libcuda.so.1"

/* Where each function goes in struct cuda_driver. */
static const struct {
	const char *symbol;
	size_t member;
	bool required;
} functions[] = {
#define REQUIRED(member, symbol, parameters) {symbol, offsetof(struct cuda_driver, member), true},
#define OPTIONAL(member, symbol, parameters) {symbol, offsetof(struct cuda_driver, member), false},
	CUDA_FUNCTIONS(REQUIRED, OPTIONAL)
#undef REQUIRED
#undef OPTIONAL
};

static int find_functions(struct cuda_driver *driver, const char *library)
{
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		void *found = dlsym(driver->library, functions[i].symbol);

		if (!found && functions[i].required) {
			log_error("%s has no %s: update the NVIDIA driver", library,
				  functions[i].symbol);
			return -ENOTSUP;
		}
		/* POSIX has dlsym() give functions as objects. */
		memcpy((char *)driver + functions[i].member, &found, sizeof(found));
	}
	return 0;
}

static int initialise(struct cuda_driver *driver, bool quiet)
{
	cu_result result = driver->init(0);
	int nr = 0, err;

	if (result == CU_SUCCESS)
		result = driver->device_count(&nr);
	if (result == CU_NO_DEVICE || (result == CU_SUCCESS && !nr)) {
		if (!quiet)
			log_error("the NVIDIA driver shows this process no GPU: is one installed, "
				  "and does CUDA_VISIBLE_DEVICES hide it?");
		return -ENODEV;
	}
	if (result == CU_SYSTEM_DRIVER_MISMATCH) {
		log_error("the NVIDIA driver's library and kernel module differ in version: "
			  "restart the machine after an update of the driver");
		return -EIO;
	}
	err = cuda_error(driver, result, "cuInit");
	if (err)
		return -EIO;
	err = cuda_error(driver, driver->driver_version(&driver->version), "cuDriverGetVersion");
	if (err)
		return -EIO;
	if (driver->version < CUDA_DRIVER_MIN) {
		log_error(
			"the NVIDIA driver serves CUDA %d.%d, weir needs %d.%d: update the driver",
			driver->version / 1000, driver->version % 1000 / 10, CUDA_DRIVER_MIN / 1000,
			CUDA_DRIVER_MIN % 1000 / 10);
		return -ENOTSUP;
	}
	return 0;
}

int cuda_driver_open(struct cuda_driver *driver, const char *library, bool quiet)
{
	int err;

	*driver = (struct cuda_driver){0};
	library = library ? library : LIBRARY;
	driver->library = dlopen(library, RTLD_NOW | RTLD_LOCAL);
	if (!driver->library) {
		if (!quiet)
			log_error("no NVIDIA driver: %s", dlerror());
		return -ENODEV;
	}
	err = find_functions(driver, library);
	if (!err)
		err = initialise(driver, quiet);
	if (err)
		cuda_driver_close(driver);
	return err;
}

void cuda_driver_close(struct cuda_driver *driver)
{
	if (driver->library)
		dlclose(driver->library);
	*driver = (struct cuda_driver){0};
}

int cuda_error(const struct cuda_driver *driver, cu_result result, const char *call)
{
	const char *name = NULL, *text = NULL;

	switch (result) {
	case CU_SUCCESS:
		return 0;
	case CU_NOT_READY:
		return -EAGAIN;
	case CU_OUT_OF_MEMORY:
		return -ENOMEM;
	default:
		break;
	}
	if (driver->error_name(result, &name) != CU_SUCCESS)
		name = NULL;
	if (driver->error_string(result, &text) != CU_SUCCESS)
		text = NULL;
	log_error("%s: %s (%s, %d)", call, text ? text : "unknown error", name ? name : "?",
		  result);
	switch (result) {
	case CU_INVALID_VALUE:
		return -EINVAL;
	case CU_NO_DEVICE:
	case CU_INVALID_DEVICE:
		return -ENODEV;
	case CU_NOT_SUPPORTED:
		return -ENOTSUP;
	case CU_ILLEGAL_ADDRESS:
	case CU_LAUNCH_FAILED:
		return -WEIR_ETRAP;
	default:
		return -EIO;
	}
}
