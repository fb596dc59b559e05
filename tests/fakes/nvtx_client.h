/* What a library that contains NVTX can do: see nvtx_client.c. */
#ifndef CKPTAGENT_TESTS_NVTX_CLIENT_H
#define CKPTAGENT_TESTS_NVTX_CLIENT_H

#include <stdint.h>
#include <wchar.h>

/* CLIENT(result, name, arguments): each is exported as client_NAME. */
#define CLIENT_FUNCTIONS(CLIENT) \
	CLIENT(int, init, (uint32_t version)) \
	CLIENT(int, push, (const char *text)) \
	CLIENT(int, push_wide, (const wchar_t *text)) \
	CLIENT(int, push_event, (const void *event)) \
	CLIENT(int, pop, (void)) \
	CLIENT(uint64_t, start, (const char *text)) \
	CLIENT(void, end, (uint64_t id)) \
	CLIENT(void, mark, (const char *text)) \
	CLIENT(void *, domain, (const char *name)) \
	CLIENT(const void *, enter, (void *domain, const char *text)) \
	CLIENT(int, domain_push, (void *domain, const void *event)) \
	CLIENT(int, domain_pop, (void *domain))

#define CLIENT(result, name, arguments) \
	__attribute__((visibility("default"))) result client_##name arguments;
CLIENT_FUNCTIONS(CLIENT)
#undef CLIENT

#endif
