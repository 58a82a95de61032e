/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages to whoever set weir_log_set(); nowhere by default. The function that first decides an
 * error logs it; its callers pass the error on in silence. Not for signal handlers.
 */
#ifndef WEIR_BASE_LOG_H
#define WEIR_BASE_LOG_H

#include "weir/weir.h"

/* Longer messages are cut. */
#define LOG_MESSAGE_MAX 512

/* Format and pass on one message, without a newline. Keeps errno. Threads: safe. */
void log_message(enum weir_log_level level, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

#define log_error(...) log_message(WEIR_LOG_ERROR, __VA_ARGS__)
#define log_warning(...) log_message(WEIR_LOG_WARNING, __VA_ARGS__)
#define log_info(...) log_message(WEIR_LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_message(WEIR_LOG_DEBUG, __VA_ARGS__)

#endif
