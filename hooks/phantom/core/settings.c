#include "settings.h"

#include "say.h"
#include "units.h"
#include "visible.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB ((uint64_t)1 << 20)
#define MEMORY_MIN (64 * MIB)
#define MEMORY_MAX ((uint64_t)1 << 40) /* the address window of a device */
#define KEYS_BYTES 512

static struct phantom_settings settings;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Each reader returns false, and says what it accepts, for a bad value. */
static bool refuse(const char *variable, const char *value,
		   const char *accepted)
{
	phantom_say("%s=%s is not understood: there is no device; accepted: %s",
		    variable, value, accepted);
	return false;
}

static bool read_device(const char *value)
{
	const struct phantom_model *model = phantom_model_named(value);
	char keys[KEYS_BYTES];

	if (!model) {
		phantom_model_keys(keys, sizeof(keys));
		return refuse("CKPT_PHANTOM_DEVICE", value, keys);
	}
	settings.model = *model;
	snprintf(settings.name, sizeof(settings.name), "%s", model->name);
	settings.memory_bytes = model->memory_mib * MIB;
	return true;
}

static bool read_count(const char *value)
{
	char *end;
	long count = strtol(value, &end, 10);

	if (!*value || *end || count < 0 || count > PHANTOM_DEVICES_MAX)
		return refuse("CKPT_PHANTOM_COUNT", value, "0 to 16");
	settings.physical_count = (int)count;
	return true;
}

static bool read_memory(const char *value)
{
	if (units_bytes(value, &settings.memory_bytes) ||
	    settings.memory_bytes < MEMORY_MIN ||
	    settings.memory_bytes > MEMORY_MAX)
		return refuse("CKPT_PHANTOM_MEMORY", value,
			      "64M to 1T, such as 80G or 42298834944");
	return true;
}

static bool read_name(const char *value)
{
	if (!*value || strlen(value) >= sizeof(settings.name))
		return refuse("CKPT_PHANTOM_NAME", value, "1 to 255 bytes");
	snprintf(settings.name, sizeof(settings.name), "%s", value);
	return true;
}

static bool read_capability(const char *value)
{
	int used = 0;
	char keys[KEYS_BYTES];
	struct phantom_model *model = &settings.model;

	if (sscanf(value, "%2d.%1d%n", &model->major, &model->minor, &used) !=
		    2 ||
	    value[used] ||
	    !phantom_architecture_of(model->major, model->minor)) {
		phantom_architecture_keys(keys, sizeof(keys));
		return refuse("CKPT_PHANTOM_CAPABILITY", value, keys);
	}
	return true;
}

static bool read_bytes(const char *variable, const char *value, uint64_t *bytes)
{
	*bytes = 0;
	if (strcmp(value, "0") && units_bytes(value, bytes))
		return refuse(variable, value, "0, or bytes such as 512M");
	return true;
}

static bool read_context(const char *value)
{
	return read_bytes("CKPT_PHANTOM_CONTEXT", value,
			  &settings.context_bytes);
}

static bool read_copy_max(const char *value)
{
	return read_bytes("CKPT_PHANTOM_COPY_MAX", value,
			  &settings.copy_max_bytes);
}

static bool read_flag(const char *variable, const char *value, bool *flag)
{
	if (strcmp(value, "0") && strcmp(value, "1"))
		return refuse(variable, value, "0, 1");
	*flag = *value == '1';
	return true;
}

static bool read_overcommit(const char *value)
{
	return read_flag("CKPT_PHANTOM_OVERCOMMIT", value,
			 &settings.overcommit);
}

static bool read_strict(const char *value)
{
	return read_flag("CKPT_PHANTOM_STRICT", value, &settings.strict);
}

static bool read_trace(const char *value)
{
	return read_flag("CKPT_PHANTOM_TRACE", value, &settings.trace);
}

/* In this order: the device first, what changes it after. */
static const struct {
	const char *variable;
	const char *unset;
	bool (*read)(const char *value);
} readers[] = {
	{ "CKPT_PHANTOM_DEVICE", "H100-80G", read_device },
	{ "CKPT_PHANTOM_COUNT", "1", read_count },
	{ "CKPT_PHANTOM_MEMORY", NULL, read_memory },
	{ "CKPT_PHANTOM_NAME", NULL, read_name },
	{ "CKPT_PHANTOM_CAPABILITY", NULL, read_capability },
	{ "CKPT_PHANTOM_CONTEXT", "512M", read_context },
	{ "CKPT_PHANTOM_COPY_MAX", "1M", read_copy_max },
	{ "CKPT_PHANTOM_OVERCOMMIT", "0", read_overcommit },
	{ "CKPT_PHANTOM_STRICT", "0", read_strict },
	{ "CKPT_PHANTOM_TRACE", "0", read_trace },
};

static bool read_all(void)
{
	for (size_t i = 0; i < sizeof(readers) / sizeof(*readers); i++) {
		const char *value = getenv(readers[i].variable);

		if (!value)
			value = readers[i].unset;
		if (value && !readers[i].read(value))
			return false;
	}
	if (settings.context_bytes < settings.memory_bytes)
		return true;
	return refuse("CKPT_PHANTOM_CONTEXT", getenv("CKPT_PHANTOM_CONTEXT"),
		      "less than the memory of the device");
}

static void read_environment(void)
{
	if (!read_all())
		settings.physical_count = 0;
	settings.architecture = phantom_architecture_of(settings.model.major,
							settings.model.minor);
	settings.count = phantom_visible(getenv("CUDA_VISIBLE_DEVICES"),
					 settings.physical_count,
					 settings.physical);
}

const struct phantom_settings *phantom_settings(void)
{
	pthread_once(&once, read_environment);
	return &settings;
}
