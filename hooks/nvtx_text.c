#include "nvtx_text.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "pages.h"

/* Open addressing by handle; never full, so a search ends. */
#define SLOTS (2 * NVTX_TEXT_REGISTERED)

struct registered {
	const void *_Atomic handle;
	_Atomic bool ready;
	char text[RANGES_TEXT];
};

static struct registered *_Atomic slots;
static _Atomic uint32_t count;

int nvtx_text_begin(void)
{
	struct registered *none = NULL, *mapped;

	if (atomic_load(&slots))
		return 0;
	mapped = pages_map(SLOTS * sizeof(*mapped));
	if (!mapped)
		return -ENOMEM;
	if (!atomic_compare_exchange_strong(&slots, &none, mapped))
		pages_unmap(mapped, SLOTS * sizeof(*mapped));
	return 0;
}

static void clean(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < 0x20 || *text == 0x7f)
			*text = '?';
}

/* Cut before the character that byte n is in the middle of. */
static size_t whole(const char *text, size_t n)
{
	while (n > 0 && ((unsigned char)text[n] & 0xc0) == 0x80)
		n--;
	return n;
}

void nvtx_text_narrow(char out[RANGES_TEXT], const char *text)
{
	size_t n = text ? strnlen(text, RANGES_TEXT) : 0;

	if (n == RANGES_TEXT)
		n = whole(text, RANGES_TEXT - 1);
	if (n)
		memcpy(out, text, n);
	out[n] = '\0';
	clean(out);
}

/* One character as UTF-8; how many bytes. What is none becomes '?'. */
static size_t encode(char out[4], uint32_t c)
{
	size_t n;

	if (c < 0x80) {
		out[0] = (char)c;
		return 1;
	}
	if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) {
		out[0] = '?';
		return 1;
	}
	n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
	for (size_t i = n - 1; i > 0; i--, c >>= 6)
		out[i] = (char)(0x80 | (c & 0x3f));
	out[0] = (char)((0xf00 >> n & 0xff) | c);
	return n;
}

void nvtx_text_wide(char out[RANGES_TEXT], const wchar_t *text)
{
	size_t used = 0, n;
	char bytes[4];

	for (; text && *text; text++) {
		n = encode(bytes, (uint32_t)*text);
		if (used + n >= RANGES_TEXT)
			break;
		memcpy(out + used, bytes, n);
		used += n;
	}
	out[used] = '\0';
	clean(out);
}

/* Fibonacci hashing: 14 bits are SLOTS. */
static size_t start_of(const void *handle)
{
	return (uintptr_t)handle * UINT64_C(0x9E3779B97F4A7C15) >> 50;
}

/* The slot of a handle, or the free one where it would stand. */
static struct registered *slot_of(const void *handle)
{
	struct registered *first = atomic_load(&slots);
	size_t i = start_of(handle);
	const void *there;

	while ((there = atomic_load(&first[i].handle)) && there != handle)
		i = (i + 1) % SLOTS;
	return &first[i];
}

static struct registered *claim(const void *handle)
{
	struct registered *slot;
	const void *there;

	do {
		slot = slot_of(handle);
		there = NULL;
	} while (!atomic_compare_exchange_strong(&slot->handle, &there,
						 handle) &&
		 there != handle);
	return slot;
}

/* Ours are the addresses in an array of nothing else. */
static char handles[NVTX_TEXT_REGISTERED];

const void *nvtx_text_register(const void *handle, const char *text)
{
	uint32_t number = atomic_fetch_add(&count, 1);
	struct registered *slot;

	if (number >= NVTX_TEXT_REGISTERED) {
		atomic_store(&count, NVTX_TEXT_REGISTERED);
		return handle;
	}
	if (!handle)
		handle = &handles[number];
	slot = claim(handle);
	if (!atomic_load(&slot->ready)) {
		nvtx_text_narrow(slot->text, text);
		atomic_store(&slot->ready, true);
	}
	return handle;
}

static void copy_registered(char out[RANGES_TEXT], const void *handle)
{
	const struct registered *slot = slot_of(handle);

	if (handle && atomic_load(&slot->ready))
		memcpy(out, slot->text, RANGES_TEXT);
}

void nvtx_text_event(char out[RANGES_TEXT], const struct nvtx_attributes *event)
{
	*out = '\0';
	if (!event || event->size < sizeof(*event))
		return;
	switch (event->message_type) {
	case NVTX_MESSAGE_NARROW:
		nvtx_text_narrow(out, event->message.narrow);
		break;
	case NVTX_MESSAGE_WIDE:
		nvtx_text_wide(out, event->message.wide);
		break;
	case NVTX_MESSAGE_REGISTERED:
		copy_registered(out, event->message.registered);
		break;
	default:
		break;
	}
}
