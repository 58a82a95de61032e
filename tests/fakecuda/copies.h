/* SPDX-License-Identifier: Apache-2.0 */
/*
 * More functions of the driver, which functions.h has in its lists: copies and fills of pictures
 * and volumes, copies between devices, and words that streams wait for and write. Each has a
 * variant for the calling thread's own stream 0.
 */
#ifndef WEIR_TESTS_FAKE_COPIES_H
#define WEIR_TESTS_FAKE_COPIES_H

#include "shim/copies.h"

/* cuStreamWaitValue32() and so on, cuStreamBatchMemOp() */
enum { CU_WAIT_GEQ, CU_WAIT_EQ, CU_WAIT_AND, CU_WAIT_NOR };
enum { CU_OP_WAIT32 = 1, CU_OP_WRITE32 = 2, CU_OP_WAIT64 = 4, CU_OP_WRITE64 = 5 };

/* ROW(X, member, symbol, suffix of the variant, parameters, arguments) */
#define FAKE_COPY_ROWS(ROW, X)                                                                  \
	ROW(X, copy_peer, "cuMemcpyPeer", "_ptds",                                              \
	    (cu_ptr dst, cu_context to, cu_ptr src, cu_context from, size_t bytes),             \
	    (dst, to, src, from, bytes))                                                        \
	ROW(X, copy_peer_async, "cuMemcpyPeerAsync", "_ptsz",                                   \
	    (cu_ptr dst, cu_context to, cu_ptr src, cu_context from, size_t bytes,              \
	     cu_stream stream),                                                                 \
	    (dst, to, src, from, bytes, stream))                                                \
	ROW(X, copy2d, "cuMemcpy2D_v2", "_ptds", (const struct cu_copy2d *copy), (copy))        \
	ROW(X, copy2d_unaligned, "cuMemcpy2DUnaligned_v2", "_ptds",                             \
	    (const struct cu_copy2d *copy), (copy))                                             \
	ROW(X, copy2d_async, "cuMemcpy2DAsync_v2", "_ptsz",                                     \
	    (const struct cu_copy2d *copy, cu_stream stream), (copy, stream))                   \
	ROW(X, copy3d, "cuMemcpy3D_v2", "_ptds", (const struct cu_copy3d *copy), (copy))        \
	ROW(X, copy3d_async, "cuMemcpy3DAsync_v2", "_ptsz",                                     \
	    (const struct cu_copy3d *copy, cu_stream stream), (copy, stream))                   \
	ROW(X, copy3d_peer, "cuMemcpy3DPeer", "_ptds", (const struct cu_copy3d *copy), (copy))  \
	ROW(X, copy3d_peer_async, "cuMemcpy3DPeerAsync", "_ptsz",                               \
	    (const struct cu_copy3d *copy, cu_stream stream), (copy, stream))                   \
	ROW(X, fill2d8, "cuMemsetD2D8_v2", "_ptds",                                             \
	    (cu_ptr addr, size_t pitch, unsigned char word, size_t width, size_t height),       \
	    (addr, pitch, word, width, height))                                                 \
	ROW(X, fill2d8_async, "cuMemsetD2D8Async", "_ptsz",                                     \
	    (cu_ptr addr, size_t pitch, unsigned char word, size_t width, size_t height,        \
	     cu_stream stream),                                                                 \
	    (addr, pitch, word, width, height, stream))                                         \
	ROW(X, fill2d16, "cuMemsetD2D16_v2", "_ptds",                                           \
	    (cu_ptr addr, size_t pitch, unsigned short word, size_t width, size_t height),      \
	    (addr, pitch, word, width, height))                                                 \
	ROW(X, fill2d16_async, "cuMemsetD2D16Async", "_ptsz",                                   \
	    (cu_ptr addr, size_t pitch, unsigned short word, size_t width, size_t height,       \
	     cu_stream stream),                                                                 \
	    (addr, pitch, word, width, height, stream))                                         \
	ROW(X, fill2d32, "cuMemsetD2D32_v2", "_ptds",                                           \
	    (cu_ptr addr, size_t pitch, unsigned int word, size_t width, size_t height),        \
	    (addr, pitch, word, width, height))                                                 \
	ROW(X, fill2d32_async, "cuMemsetD2D32Async", "_ptsz",                                   \
	    (cu_ptr addr, size_t pitch, unsigned int word, size_t width, size_t height,         \
	     cu_stream stream),                                                                 \
	    (addr, pitch, word, width, height, stream))                                         \
	ROW(X, wait32, "cuStreamWaitValue32", "_ptsz",                                          \
	    (cu_stream stream, cu_ptr addr, uint32_t value, unsigned int flags),                \
	    (stream, addr, value, flags))                                                       \
	ROW(X, wait32_v2, "cuStreamWaitValue32_v2", "_ptsz",                                    \
	    (cu_stream stream, cu_ptr addr, uint32_t value, unsigned int flags),                \
	    (stream, addr, value, flags))                                                       \
	ROW(X, wait64, "cuStreamWaitValue64", "_ptsz",                                          \
	    (cu_stream stream, cu_ptr addr, uint64_t value, unsigned int flags),                \
	    (stream, addr, value, flags))                                                       \
	ROW(X, wait64_v2, "cuStreamWaitValue64_v2", "_ptsz",                                    \
	    (cu_stream stream, cu_ptr addr, uint64_t value, unsigned int flags),                \
	    (stream, addr, value, flags))                                                       \
	ROW(X, write32, "cuStreamWriteValue32", "_ptsz",                                        \
	    (cu_stream stream, cu_ptr addr, uint32_t value, unsigned int flags),                \
	    (stream, addr, value, flags))                                                       \
	ROW(X, write32_v2, "cuStreamWriteValue32_v2", "_ptsz",                                  \
	    (cu_stream stream, cu_ptr addr, uint32_t value, unsigned int flags),                \
	    (stream, addr, value, flags))                                                       \
	ROW(X, write64, "cuStreamWriteValue64", "_ptsz",                                        \
	    (cu_stream stream, cu_ptr addr, uint64_t value, unsigned int flags),                \
	    (stream, addr, value, flags))                                                       \
	ROW(X, write64_v2, "cuStreamWriteValue64_v2", "_ptsz",                                  \
	    (cu_stream stream, cu_ptr addr, uint64_t value, unsigned int flags),                \
	    (stream, addr, value, flags))                                                       \
	ROW(X, stream_ops, "cuStreamBatchMemOp", "_ptsz",                                       \
	    (cu_stream stream, unsigned int nr, struct cu_stream_op *list, unsigned int flags), \
	    (stream, nr, list, flags))                                                          \
	ROW(X, stream_ops_v2, "cuStreamBatchMemOp_v2", "_ptsz",                                 \
	    (cu_stream stream, unsigned int nr, struct cu_stream_op *list, unsigned int flags), \
	    (stream, nr, list, flags))

#define FAKE_COPY_ROW(X, member, symbol, suffix, parameters, arguments) \
	X(member, symbol, parameters)
#define FAKE_COPY_ROW_OWN(X, member, symbol, suffix, parameters, arguments) \
	X(member, symbol suffix, parameters, arguments)
#define FAKE_COPIES(X) FAKE_COPY_ROWS(FAKE_COPY_ROW, X)
#define FAKE_COPIES_PER_THREAD(X) FAKE_COPY_ROWS(FAKE_COPY_ROW_OWN, X)

#endif
