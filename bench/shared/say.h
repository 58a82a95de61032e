/* SPDX-License-Identifier: Apache-2.0 */
/* What a benchmark says on stderr: a line each, which begins with its name. One thread. */
#ifndef WEIR_BENCH_SHARED_SAY_H
#define WEIR_BENCH_SHARED_SAY_H

/* From here on weir's own errors and warnings are said, too. program: kept, not copied. */
void say_begin(const char *program);

/* Say what failed, and why. @return err */
int say_error(int err, const char *what, ...) __attribute__((format(printf, 2, 3)));

#endif
