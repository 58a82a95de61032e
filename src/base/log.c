/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where messages go: one receiver for the process. It is called under the log's own lock, so that
 * once weir_log_set() has returned, the earlier receiver is not running and its argument may go.
 */
#include "src/base/log.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

/* Leaf lock: protects the receiver, and is held while it runs. */
static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static weir_log_fn log_fn;
static void *log_arg;

/*
 * Spares dropped messages the lock and the formatting. Relaxed: a message that races with
 * weir_log_set() may go either way.
 */
static atomic_bool log_wanted;

void weir_log_set(weir_log_fn fn, void *arg)
{
	pthread_mutex_lock(&log_lock);
	log_fn = fn;
	log_arg = arg;
	atomic_store_explicit(&log_wanted, fn != NULL, memory_order_relaxed);
	pthread_mutex_unlock(&log_lock);
}

void log_message(enum weir_log_level level, const char *format, ...)
{
	char message[LOG_MESSAGE_MAX];
	int saved = errno;
	va_list args;

	if (!atomic_load_explicit(&log_wanted, memory_order_relaxed))
		return;

	va_start(args, format);
	vsnprintf(message, sizeof(message), format, args);
	va_end(args);

	pthread_mutex_lock(&log_lock);
	if (log_fn)
		log_fn(log_arg, level, message);
	pthread_mutex_unlock(&log_lock);
	errno = saved;
}
