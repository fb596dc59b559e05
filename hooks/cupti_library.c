#include "cupti_library.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>

#include "linked.h"
#include "symbols.h"

#define LIBRARY "libcupti.so"
#define NEEDED_BY "libtorch_cpu.so" /* Kineto is a part of it */

int cupti_say(int error, char *why, size_t why_bytes, const char *what,
	      int code)
{
	snprintf(why, why_bytes, what, code);
	return error;
}

static int find(struct cupti *cupti, char *why, size_t why_bytes)
{
	const void *torch = symbols_text(NEEDED_BY);
	const char *name = torch ? linked_needs(torch, LIBRARY) : NULL;
	void *library = name ? dlopen(name, RTLD_NOLOAD | RTLD_LAZY) : NULL;

	struct cupti all;

	if (!library)
		return cupti_say(-ENOENT, why, why_bytes,
				 "this torch was not linked to a libcupti", 0);
#define CUPTI(name, arguments) \
	all.name = (int(*) arguments)dlsym(library, #name); \
	if (!all.name) \
		return cupti_say(-ENOENT, why, why_bytes, \
				 "its libcupti lacks " #name, 0);
	CUPTI_FUNCTIONS(CUPTI)
#undef CUPTI
	*cupti = all;
	return 0;
}

static bool is_known(uint32_t version)
{
	return (version >= CUPTI_VERSION_OLDEST &&
		version <= CUPTI_VERSION_LAST_OF_12) ||
	       (version >= CUPTI_VERSION_FIRST_OF_13 &&
		version <= CUPTI_VERSION_NEWEST);
}

static int check_version(const struct cupti *cupti, char *why, size_t why_bytes)
{
	uint32_t version = 0;
	int error = cupti->cuptiGetVersion(&version);

	if (error)
		return cupti_say(-EIO, why, why_bytes,
				 "cuptiGetVersion: error %d", error);
	if (!is_known(version))
		return cupti_say(-ENOTSUP, why, why_bytes,
				 "CUPTI of version %d is not known here",
				 (int)version);
	return 0;
}

/* The callback of a subscription for which no callback was switched on. */
static void ignore(void *data, int domain, uint32_t id, const void *call)
{
	(void)data;
	(void)domain;
	(void)id;
	(void)call;
}

int cupti_alone(const struct cupti *cupti, char *why, size_t why_bytes)
{
	void *subscriber = NULL;
	int error = cupti->cuptiSubscribe(&subscriber, (void *)ignore, NULL);

	if (error == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED)
		return cupti_say(-EBUSY, why, why_bytes,
				 "a profiler has CUPTI (error %d)", error);
	if (error)
		return cupti_say(-EIO, why, why_bytes,
				 "cuptiSubscribe: error %d", error);
	error = cupti->cuptiUnsubscribe(subscriber);
	return error ? cupti_say(-EIO, why, why_bytes,
				 "cuptiUnsubscribe: error %d", error) :
		       0;
}

int cupti_library(struct cupti *cupti, char *why, size_t why_bytes)
{
	int error = cupti->cuptiGetVersion ? 0 : find(cupti, why, why_bytes);

	return error ? error : check_version(cupti, why, why_bytes);
}
