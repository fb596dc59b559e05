#include "plan_files.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void data_path(char *path, size_t size, const char *name)
{
	const char *source = getenv("srcdir");

	snprintf(path, size, "%s/tests/data/%s", source ? source : ".", name);
}

char *data_text(const char *name)
{
	char path[4096];
	FILE *file;
	char *text = NULL;
	size_t room = 0;

	data_path(path, sizeof(path), name);
	file = fopen(path, "r");
	if (!file)
		return NULL;
	if (getdelim(&text, &room, '\0', file) < 0)
		abort();
	fclose(file);
	return text;
}

void data_each(const char *prefix, void (*visit)(const char *name))
{
	char pattern[4096];
	glob_t found;

	data_path(pattern, sizeof(pattern), prefix);
	strncat(pattern, "*.json", sizeof(pattern) - strlen(pattern) - 1);
	if (glob(pattern, 0, NULL, &found))
		abort();
	for (size_t i = 0; i < found.gl_pathc; i++)
		visit(strrchr(found.gl_pathv[i], '/') + 1);
	globfree(&found);
}
