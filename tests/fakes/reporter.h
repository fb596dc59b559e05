/* The symbols of libc10 that matter here. */
#ifndef CKPTAGENT_TESTS_REPORTER_H
#define CKPTAGENT_TESTS_REPORTER_H

#include <stddef.h>

#define EXPORT __attribute__((visibility("default")))

#define reporter_new _ZN3c1025ProfiledCPUMemoryReporter3NewEPvm
#define reporter_delete _ZN3c1025ProfiledCPUMemoryReporter6DeleteEPv

EXPORT void reporter_new(void *self, void *ptr, size_t bytes);
EXPORT void reporter_delete(void *self, void *ptr);

#endif
