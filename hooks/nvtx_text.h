/*
 * The texts of NVTX messages, as the ledger's ranges want them: UTF-8, cut to
 * RANGES_TEXT bytes at a character, control characters replaced by '?'. What is
 * no UTF-8 stays as it is.
 *
 * Any thread; no lock, no malloc, bounded memory: of registered strings beyond
 * NVTX_TEXT_REGISTERED, and of those that a tool gave no handle, the text is "".
 */
#ifndef CKPTAGENT_NVTX_TEXT_H
#define CKPTAGENT_NVTX_TEXT_H

#include <wchar.h>

#include "nvtx_abi.h"
#include "ranges.h"

#define NVTX_TEXT_REGISTERED 8192

/* Map the registered strings' room, before any is registered. 0 or -ENOMEM. */
int nvtx_text_begin(void);

/* "" for NULL. */
void nvtx_text_narrow(char out[RANGES_TEXT], const char *text);
void nvtx_text_wide(char out[RANGES_TEXT], const wchar_t *text);

/* Of an event; "" if it has none. */
void nvtx_text_event(char out[RANGES_TEXT], const struct nvtx_attributes *event);

/*
 * A string is registered: by a tool, under the handle that it gave, or, with
 * handle NULL, by us. Returns the handle; NULL if there is no room for ours.
 */
const void *nvtx_text_register(const void *handle, const char *text);

#endif
