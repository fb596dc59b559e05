#include "locate.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char *locate_command(void)
{
	return realpath("/proc/self/exe", NULL);
}

static char *if_readable(const char *folder, const char *way, const char *name)
{
	char path[PATH_MAX];

	if (snprintf(path, sizeof(path), "%s/%s/%s", folder, way, name) >=
	    (int)sizeof(path))
		return NULL;
	return access(path, R_OK) ? NULL : realpath(path, NULL);
}

/* The way from one folder to another, e.g. /usr/bin to /usr/lib: ../lib. */
static void way_between(const char *from, const char *to, char *way,
			size_t size)
{
	size_t common = 0, length = 0;

	for (size_t i = 0;; i++) {
		bool end_from = !from[i] || from[i] == '/';
		bool end_to = !to[i] || to[i] == '/';

		if (end_from && end_to)
			common = i;
		if (!from[i] || !to[i] || from[i] != to[i])
			break;
	}
	way[0] = '\0';
	for (const char *c = from + common; *c; c++)
		if (*c == '/' && c[1] && c[1] != '/' && length + 4 < size)
			length += (size_t)snprintf(way + length, size - length,
						   "../");
	while (to[common] == '/')
		common++;
	snprintf(way + length, size - length, "%s", to + common);
}

/* From the command's folder: `beside` it, or by the way to an installed one. */
static char *locate(const char *beside, const char *installed, const char *name)
{
	char *command = locate_command(), *found;
	char way[PATH_MAX];

	if (!command)
		return NULL;
	*strrchr(command, '/') = '\0';
	found = if_readable(command, beside, name);
	if (!found) {
		way_between(BINDIR, installed, way, sizeof(way));
		found = if_readable(command, way, name);
	}
	free(command);
	return found;
}

char *locate_library(const char *name)
{
	return locate(".", LIBDIR, name);
}

/* A build folder has a link to the shim in the sources. */
char *locate_data(const char *name)
{
	return locate("python-sitecustomize/..", DATADIR, name);
}

char *locate_on_path(const char *name)
{
	const char *path = getenv("PATH");
	char file[PATH_MAX];

	while (path && *path) {
		size_t length = strcspn(path, ":");

		if (length &&
		    snprintf(file, sizeof(file), "%.*s/%s", (int)length, path,
			     name) < (int)sizeof(file) &&
		    !access(file, X_OK))
			return strdup(file);
		path += length + (path[length] == ':');
	}
	return NULL;
}
