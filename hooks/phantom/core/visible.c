#include "visible.h"

#include "settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void phantom_uuid(int physical, uint8_t uuid[PHANTOM_UUID_BYTES])
{
	memset(uuid, 0, PHANTOM_UUID_BYTES);
	memcpy(uuid, "phantom", sizeof("phantom") - 1);
	uuid[PHANTOM_UUID_BYTES - 1] = (uint8_t)physical;
}

void phantom_uuid_text(int physical, char text[PHANTOM_UUID_TEXT_BYTES])
{
	uint8_t uuid[PHANTOM_UUID_BYTES];
	int used = snprintf(text, PHANTOM_UUID_TEXT_BYTES, "GPU");

	phantom_uuid(physical, uuid);
	for (int i = 0; i < PHANTOM_UUID_BYTES; i++) {
		bool group = i == 0 || i == 4 || i == 6 || i == 8 || i == 10;

		used += snprintf(text + used, PHANTOM_UUID_TEXT_BYTES - used,
				 "%s%02x", group ? "-" : "", uuid[i]);
	}
}

static int by_uuid(const char *entry, size_t length, int count)
{
	char text[PHANTOM_UUID_TEXT_BYTES];

	for (int device = 0; device < count; device++) {
		phantom_uuid_text(device, text);
		if (length < sizeof(text) && !strncmp(entry, text, length))
			return device;
	}
	return -1;
}

/* The device that an entry names, or -1. */
static int entry_device(const char *entry, size_t length, int count)
{
	char *end;
	long ordinal;

	while (length && *entry == ' ')
		entry++, length--;
	if (length > 4 && !strncmp(entry, "GPU-", 4))
		return by_uuid(entry, length, count);
	ordinal = strtol(entry, &end, 10);
	while (*end == ' ')
		end++;
	if (!length || end != entry + length || ordinal < 0 || ordinal >= count)
		return -1;
	return (int)ordinal;
}

int phantom_visible(const char *list, int count,
		    int physical[PHANTOM_DEVICES_MAX])
{
	int visible = 0;

	for (; !list && visible < count; visible++)
		physical[visible] = visible;
	while (list && visible < count) {
		size_t length = strcspn(list, ",");
		int device = entry_device(list, length, count);

		if (device < 0)
			return visible;
		for (int i = 0; i < visible; i++)
			if (physical[i] == device)
				return 0;
		physical[visible++] = device;
		list = list[length] ? list + length + 1 : NULL;
	}
	return visible;
}
