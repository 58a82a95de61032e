/* SPDX-License-Identifier: Apache-2.0 */
/* Locks that are held for microseconds. */
#ifndef WEIR_BASE_MUTEX_H
#define WEIR_BASE_MUTEX_H

#include <pthread.h>

/* A lock that whoever finds it taken first tries again some 100 times, before it sleeps: to sleep
 * and be woken takes longer than those hold it who take it often. 0 or an errno. */
static inline int mutex_init_brief(pthread_mutex_t *mutex)
{
	pthread_mutexattr_t attributes;
	int err = pthread_mutexattr_init(&attributes);

	if (err)
		return err;
	err = pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ADAPTIVE_NP);
	if (!err)
		err = pthread_mutex_init(mutex, &attributes);
	(void)pthread_mutexattr_destroy(&attributes);
	return err;
}

#endif
