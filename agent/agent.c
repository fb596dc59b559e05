#include "agent.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "boot.h"
#include "config.h"
#include "cupti.h"
#include "device_memory.h"
#include "hooks.h"
#include "log.h"
#include "paths.h"
#include "tape.h"

#define LONG_PATH_BYTES 8192

static struct config config;
static char device_memory_text[24], budget_share_text[24];
static char log_file[LONG_PATH_BYTES];

/* Paths that may be relative to where the job began; "": as given. */
static const char *const path_settings[] = { "plan", "spill", "out" };
#define PATH_SETTINGS (sizeof(path_settings) / sizeof(*path_settings))
static char absolute[PATH_SETTINGS][LONG_PATH_BYTES];

static _Atomic bool on;
static _Atomic bool resolved;

bool agent_on(void)
{
	return atomic_load_explicit(&on, memory_order_relaxed);
}

void agent_leave(void)
{
	atomic_store(&on, false);
}

void agent_stand_down(const char *why)
{
	if (atomic_exchange(&on, false))
		log_format(LOG_ERROR, "%s; standing down", why);
}

/* One thread does it; before it has, nobody else has reason to ask. */
static void resolve(void)
{
	const char *local = getenv("LOCAL_WORLD_SIZE");
	uint64_t memory;

	if (atomic_exchange(&resolved, true))
		return;
	memory = device_memory("", local ? strtoull(local, NULL, 10) : 1);
	snprintf(device_memory_text, sizeof(device_memory_text), "%" PRIu64,
		 memory);
	if (config.budget.kind == UNITS_SHARE && config.has_budget)
		snprintf(budget_share_text, sizeof(budget_share_text),
			 "%" PRIu64, (uint64_t)config.budget.millionths);
	config_resolve(&config, memory);
}

bool agent_prepare(void)
{
	for (int i = 0; i < CONFIG_SETTINGS; i++) {
		if (!*config.message[i])
			continue;
		if (config.refused)
			log_stderr(config.message[i]);
		else
			log_line(LOG_WARNING, config.message[i]);
	}
	if (config.refused) {
		agent_leave();
		return false;
	}
	resolve();
	return true;
}

const char *agent_setting(const char *name)
{
	resolve();
	if (!strcmp(name, "device_memory"))
		return device_memory_text;
	if (!strcmp(name, "budget_share"))
		return budget_share_text;
	for (size_t i = 0; i < PATH_SETTINGS; i++)
		if (!strcmp(name, path_settings[i]) && *absolute[i])
			return absolute[i];
	return config_value(&config, name);
}

static void open_log(void)
{
	const char *file = config.log_file;

	if (file && !paths_absolute(log_file, sizeof(log_file), file))
		file = log_file;
	log_open(config.log_level, file);
}

/* A job may change its folder later. */
static void make_paths_absolute(void)
{
	for (size_t i = 0; i < PATH_SETTINGS; i++) {
		const char *value = config_value(&config, path_settings[i]);

		if (*value && *value != '/' &&
		    paths_absolute(absolute[i], LONG_PATH_BYTES, value))
			*absolute[i] = '\0';
	}
}

/* Other threads are gone: what they had begun must not wait for them. */
static void after_fork(void)
{
	tape_abandon();
	cupti_after_fork();
	boot_after_fork();
}

/* A set-user-ID program must not do what its caller's variables ask for. */
__attribute__((constructor)) static void load(void)
{
	config_read(&config, secure_getenv);
	if (config.disabled || getauxval(AT_SECURE))
		return;
	paths_remember();
	open_log();
	make_paths_absolute();
	pthread_atfork(NULL, NULL, after_fork);
	atomic_store(&on, true);
	hook_nvtx_load(!strcmp(config_value(&config, "blocks"), "nvtx"));
}
