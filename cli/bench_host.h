/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a run takes of this computer's memory: for runs on a real GPU, where that is a result. Of
 * the whole process, so that one run at a time is measured.
 */
#ifndef WEIR_CLI_BENCH_HOST_H
#define WEIR_CLI_BENCH_HOST_H

#include <stdint.h>

struct bench_host {
	uint64_t peak_rss_bytes;    /* 0: not known */
	uint64_t bookkeeping_bytes; /* of the C heap, more than when the run began; 0: no more */
	uint64_t before_bytes;
};

/* Begin to measure. Where the system does not let a process forget its peak, that is the peak since
 * the process began. */
void bench_host_start(struct bench_host *host);

/* While the run still holds what it holds. */
void bench_host_look(struct bench_host *host);

#endif
