#include "lock.h"

#include <pthread.h>

static pthread_mutex_t books = PTHREAD_MUTEX_INITIALIZER;

void phantom_lock(void)
{
	pthread_mutex_lock(&books);
}

void phantom_unlock(void)
{
	pthread_mutex_unlock(&books);
}

__attribute__((constructor)) static void survive_fork(void)
{
	pthread_atfork(phantom_lock, phantom_unlock, phantom_unlock);
}
