#include "models.h"

#include <stdio.h>
#include <string.h>

#define MIB_BYTES (1 << 20)
#define COUNT(table) (sizeof(table) / sizeof(*(table)))

/*
 * Memory is what the driver leaves to programs, rounded down to a MiB, as
 * torch's own messages give it in public reports ("a total capacity of ...").
 * It differs between drivers by up to half a percent: CKPT_PHANTOM_MEMORY sets
 * another. The rest is from NVIDIA's data sheets.
 */
static const struct phantom_model models[] = {
	{ "T4-16G", "Tesla T4", 7, 5, 15102, 40, 4 * MIB_BYTES, 256, 1590000,
	  5001000 },
	{ "V100-16G", "Tesla V100-SXM2-16GB", 7, 0, 16160, 80, 6 * MIB_BYTES,
	  4096, 1530000, 877000 },
	{ "V100-32G", "Tesla V100-SXM2-32GB", 7, 0, 32510, 80, 6 * MIB_BYTES,
	  4096, 1530000, 877000 },
	{ "A100-40G", "NVIDIA A100-SXM4-40GB", 8, 0, 40339, 108, 40 * MIB_BYTES,
	  5120, 1410000, 1215000 },
	{ "A100-80G", "NVIDIA A100-SXM4-80GB", 8, 0, 81050, 108, 40 * MIB_BYTES,
	  5120, 1410000, 1593000 },
	{ "RTX3090-24G", "NVIDIA GeForce RTX 3090", 8, 6, 24268, 82,
	  6 * MIB_BYTES, 384, 1695000, 9751000 },
	{ "RTX4090-24G", "NVIDIA GeForce RTX 4090", 8, 9, 24217, 128,
	  72 * MIB_BYTES, 384, 2520000, 10501000 },
	{ "L4-24G", "NVIDIA L4", 8, 9, 22559, 58, 48 * MIB_BYTES, 192, 2040000,
	  6251000 },
	{ "L40S-48G", "NVIDIA L40S", 8, 9, 45466, 142, 96 * MIB_BYTES, 384,
	  2520000, 9001000 },
	{ "H100-80G", "NVIDIA H100 80GB HBM3", 9, 0, 81007, 132, 50 * MIB_BYTES,
	  5120, 1980000, 2619000 },
	{ "H200-141G", "NVIDIA H200", 9, 0, 143155, 132, 60 * MIB_BYTES, 6144,
	  1980000, 3201000 },
	{ "B200-180G", "NVIDIA B200", 10, 0, 182630, 148, 126 * MIB_BYTES, 8192,
	  1965000, 3996000 },
};

/* The table of compute capabilities in NVIDIA's CUDA C++ Programming Guide. */
static const struct phantom_architecture architectures[] = {
	{ 7, 0, 96 << 10, 96 << 10, 2048, 32 },
	{ 7, 5, 64 << 10, 64 << 10, 1024, 16 },
	{ 8, 0, 164 << 10, 163 << 10, 2048, 32 },
	{ 8, 6, 100 << 10, 99 << 10, 1536, 16 },
	{ 8, 9, 100 << 10, 99 << 10, 1536, 24 },
	{ 9, 0, 228 << 10, 227 << 10, 2048, 32 },
	{ 10, 0, 228 << 10, 227 << 10, 2048, 32 },
	{ 12, 0, 100 << 10, 99 << 10, 1536, 24 },
};

const struct phantom_model *phantom_model_named(const char *key)
{
	for (size_t i = 0; i < COUNT(models); i++)
		if (!strcmp(models[i].key, key))
			return &models[i];
	return NULL;
}

const struct phantom_architecture *phantom_architecture_of(int major, int minor)
{
	for (size_t i = 0; i < COUNT(architectures); i++)
		if (architectures[i].major == major &&
		    architectures[i].minor == minor)
			return &architectures[i];
	return NULL;
}

static void add_word(char *text, size_t bytes, const char *word)
{
	size_t used = strlen(text);

	snprintf(text + used, bytes - used, "%s%s", used ? " " : "", word);
}

void phantom_model_keys(char *text, size_t bytes)
{
	*text = '\0';
	for (size_t i = 0; i < COUNT(models); i++)
		add_word(text, bytes, models[i].key);
}

void phantom_architecture_keys(char *text, size_t bytes)
{
	char word[16];

	*text = '\0';
	for (size_t i = 0; i < COUNT(architectures); i++) {
		snprintf(word, sizeof(word), "%d.%d", architectures[i].major,
			 architectures[i].minor);
		add_word(text, bytes, word);
	}
}
