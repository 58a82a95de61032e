/* SPDX-License-Identifier: Apache-2.0 */
/* Opening the CUDA driver, and what its results mean: see driver.h. */
#include "src/backend/cuda/driver.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "src/base/log.h"
#include "src/base/util.h"
#include "weir/weir.h"

#define LIBRARY "libcuda.so.1"

/* That a context is lost was logged. Contexts are the process's, as this is. */
static atomic_bool loss_is_logged;

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
	for (size_t i = 0; i < ARRAY_LEN(functions); i++) {
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
	err = cuda_error(driver, result, "cuInit");
	if (!err)
		err = cuda_error(driver, driver->driver_version(&driver->version),
				 "cuDriverGetVersion");
	if (err == -ENOMEM)
		log_error("the NVIDIA driver finds no memory to initialise with");
	if (err)
		return err == -ENOMEM ? -ENOMEM : -EIO;
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
	/* The driver has threads and handlers of its own: once loaded it stays, closed or not. */
	driver->library = dlopen(library, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	if (!driver->library) {
		if (!quiet)
			log_error("no NVIDIA driver: %s", dlerror());
		return -ENODEV;
	}
	atomic_store(&loss_is_logged, false);
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

/* ------------------------------------------------------------------ results */

/* What to do about a result that the driver's words do not explain. */
static const struct {
	cu_result first, last;
	const char *remedy;
} remedies[] = {
	{CU_NOT_INITIALIZED, CU_NOT_INITIALIZED, "a process that fork() made cannot use CUDA"},
	{CU_STUB_LIBRARY, CU_STUB_LIBRARY,
	 "this libcuda.so.1 is for linking only: take it out of LD_LIBRARY_PATH"},
	{CU_DEVICE_UNAVAILABLE, CU_DEVICE_UNAVAILABLE,
	 "another process has the GPU to itself: end it, or have its compute mode changed"},
	{CU_OPERATING_SYSTEM, CU_OPERATING_SYSTEM,
	 "the system refused: look at `ulimit -l` and vm.max_map_count"},
	{CU_SYSTEM_NOT_READY, CU_SYSTEM_NOT_READY,
	 "the driver's services are not up: is nvidia-fabricmanager running?"},
	{CU_SYSTEM_DRIVER_MISMATCH, CU_SYSTEM_DRIVER_MISMATCH,
	 "the driver's library and kernel module differ in version: restart the machine after an "
	 "update of the driver"},
	{CU_CAPTURE_UNSUPPORTED, CU_CAPTURE_WRONG_THREAD,
	 "a stream is being captured into a graph, and this cannot be part of it"},
};

static const char lost[] = "the GPU's context is lost and every call fails from here on: end the "
			   "program";

bool cuda_is_loss(cu_result result)
{
	switch (result) {
	case CU_DEINITIALIZED:
	case CU_ECC_UNCORRECTABLE:
	case CU_NVLINK_UNCORRECTABLE:
	case CU_CONTAINED:
	case CU_ILLEGAL_ADDRESS:
	case CU_LAUNCH_TIMEOUT:
	case CU_CONTEXT_IS_DESTROYED:
	case CU_ASSERT:
	case CU_LAUNCH_FAILED:
		return true;
	default:
		return result >= CU_HARDWARE_STACK_ERROR && result <= CU_INVALID_PC;
	}
}

int cuda_errno(cu_result result)
{
	if (result >= CU_CAPTURE_UNSUPPORTED && result <= CU_CAPTURE_WRONG_THREAD)
		return -WEIR_ECONTRACT;
	if (result >= CU_HARDWARE_STACK_ERROR && result <= CU_INVALID_PC)
		return -WEIR_ETRAP;
	switch (result) {
	case CU_SUCCESS:
		return 0;
	case CU_NOT_READY:
		return -EAGAIN;
	case CU_OUT_OF_MEMORY:
		return -ENOMEM;
	case CU_INVALID_VALUE:
		return -EINVAL;
	case CU_NO_DEVICE:
	case CU_INVALID_DEVICE:
		return -ENODEV;
	case CU_NOT_SUPPORTED:
		return -ENOTSUP;
	case CU_ILLEGAL_ADDRESS:
	case CU_ASSERT:
	case CU_LAUNCH_FAILED:
		return -WEIR_ETRAP;
	default:
		return -EIO;
	}
}

static const char *remedy_of(cu_result result)
{
	if (cuda_is_loss(result))
		return lost;
	for (size_t i = 0; i < ARRAY_LEN(remedies); i++)
		if (result >= remedies[i].first && result <= remedies[i].last)
			return remedies[i].remedy;
	return NULL;
}

int cuda_failure(const struct cuda_driver *driver, cu_result result, const char *call)
{
	const char *name = NULL, *text = NULL, *remedy;
	int err = cuda_errno(result);

	if (err == -EAGAIN || err == -ENOMEM || result == CU_DEINITIALIZED)
		return err;
	if (cuda_is_loss(result) && atomic_exchange(&loss_is_logged, true))
		return err;
	if (driver->error_name(result, &name) != CU_SUCCESS)
		name = NULL;
	if (driver->error_string(result, &text) != CU_SUCCESS)
		text = NULL;
	remedy = remedy_of(result);
	log_error("%s: %s (%s, %d)%s%s", call, text ? text : "unknown error", name ? name : "?",
		  result, remedy ? ": " : "", remedy ? remedy : "");
	return err;
}

int cuda_undo_error(const struct cuda_driver *driver, cu_result result, const char *call)
{
	int err = cuda_error(driver, result, call);

	return cuda_is_loss(result) ? 0 : err;
}
