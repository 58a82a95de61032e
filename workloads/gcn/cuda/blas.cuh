/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuBLAS, opened at run time: what the kernels of the linear layers call of it. Its functions have
 * the types that its header gives them.
 */
#ifndef WEIR_GCN_CUDA_BLAS_CUH
#define WEIR_GCN_CUDA_BLAS_CUH

#include <cublasLt.h>
#include <cublas_v2.h>

#define BLAS_FUNCTIONS(X)                       \
	X(cublasCreate_v2)                      \
	X(cublasDestroy_v2)                     \
	X(cublasSetStream_v2)                   \
	X(cublasSetWorkspace_v2)                \
	X(cublasSetMathMode)                    \
	X(cublasGetStatusString)                \
	X(cublasSgemm_v2)                       \
	X(cublasSgemmStridedBatched)            \
	X(cublasLtMatmulDescCreate)             \
	X(cublasLtMatmulDescDestroy)            \
	X(cublasLtMatmulDescSetAttribute)       \
	X(cublasLtMatrixLayoutCreate)           \
	X(cublasLtMatrixLayoutDestroy)          \
	X(cublasLtMatmulPreferenceCreate)       \
	X(cublasLtMatmulPreferenceDestroy)      \
	X(cublasLtMatmulPreferenceSetAttribute) \
	X(cublasLtMatmulAlgoGetHeuristic)       \
	X(cublasLtMatmul)

/* A member for each function, named as it. */
struct blas {
#define MEMBER(name) decltype(&::name) name;
	BLAS_FUNCTIONS(MEMBER)
#undef MEMBER
};

/* The library, opened at the first call that finds it. NULL: it is not there, gcn_cuda_error()
 * says what was looked for. From one thread at a time until it is open. */
const struct blas *gcn_cuda_blas(void);

/* A handle for a stream, with the math of plain fp32. On error *out is left alone. */
int gcn_cuda_blas_open(void *stream, void *workspace, void **out);
void gcn_cuda_blas_close(void *handle);

/* The outcome of a call of cuBLAS. */
int gcn_cuda_blas_checked(cublasStatus_t status, const char *what);

#endif
