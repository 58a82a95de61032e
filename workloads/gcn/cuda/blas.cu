/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where cuBLAS is found. It is not linked: half a gigabyte that only linear layers need, in one of
 * several versions. Its two libraries come together: the one that is opened depends on cublasLt.
 */
#include "workloads/gcn/cuda/blas.cuh"

#include <dlfcn.h>

#include "workloads/gcn/cuda/launch.cuh"

/* Toolkits are often not where the dynamic linker looks. */
#define NAMES(X)                                   \
	X("libcublas.so.13")                       \
	X("libcublas.so.12")                       \
	X("/usr/local/cuda/lib64/libcublas.so.13") \
	X("/usr/local/cuda/lib64/libcublas.so.12")

static struct blas functions;
static bool is_open;

static int blas_resolve(void *library, const char *name)
{
#define RESOLVE(function)                                          \
	*(void **)&functions.function = dlsym(library, #function); \
	if (!functions.function)                                   \
		return gcn_cuda_fail(-ENOENT, "cuBLAS: %s has no " #function, name);
	BLAS_FUNCTIONS(RESOLVE)
#undef RESOLVE
	return 0;
}

const struct blas *gcn_cuda_blas(void)
{
#define NAME(name) name,
	static const char *const names[] = {NAMES(NAME)};
#undef NAME

	for (size_t i = 0; !is_open && i < sizeof(names) / sizeof(names[0]); i++) {
		void *library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);

		if (!library)
			continue;
		if (blas_resolve(library, names[i])) {
			dlclose(library);
			return NULL;
		}
		is_open = true;
	}
	if (is_open)
		return &functions;
#define NAME(name) " " name
	gcn_cuda_fail(-ENOENT, "no cuBLAS: looked for" NAMES(NAME) "; name its folder in "
								   "LD_LIBRARY_PATH");
#undef NAME
	return NULL;
}

int gcn_cuda_blas_checked(cublasStatus_t status, const char *what)
{
	switch (status) {
	case CUBLAS_STATUS_SUCCESS:
		return 0;
	case CUBLAS_STATUS_ALLOC_FAILED:
		return gcn_cuda_fail(-ENOMEM, "%s: cuBLAS finds no memory on the device", what);
	case CUBLAS_STATUS_NOT_SUPPORTED:
		return gcn_cuda_fail(-ENOTSUP, "%s: cuBLAS does not support these sizes", what);
	default:
		return gcn_cuda_fail(-EIO, "%s: %s", what, functions.cublasGetStatusString(status));
	}
}

/* The default math mode is plain fp32, as in PyTorch: TF32 must be asked for. Set all the same: it
 * is what the results rest on. A new stream resets the workspace, so that comes last. */
int gcn_cuda_blas_open(void *stream, void *workspace, void **out)
{
	const struct blas *b = gcn_cuda_blas();
	cublasHandle_t handle;
	cublasStatus_t status;

	if (!b)
		return -ENOENT;
	status = b->cublasCreate_v2(&handle);
	if (status != CUBLAS_STATUS_SUCCESS)
		return gcn_cuda_blas_checked(status, "cublasCreate");
	status = b->cublasSetMathMode(handle, CUBLAS_DEFAULT_MATH);
	if (status == CUBLAS_STATUS_SUCCESS)
		status = b->cublasSetStream_v2(handle, (cudaStream_t)stream);
	if (status == CUBLAS_STATUS_SUCCESS)
		status = b->cublasSetWorkspace_v2(handle, workspace, WORKSPACE_BYTES);
	if (status != CUBLAS_STATUS_SUCCESS) {
		b->cublasDestroy_v2(handle);
		return gcn_cuda_blas_checked(status, "cublasSetWorkspace");
	}
	*out = handle;
	return 0;
}

void gcn_cuda_blas_close(void *handle)
{
	if (handle)
		functions.cublasDestroy_v2((cublasHandle_t)handle);
}
