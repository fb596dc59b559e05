#include "paths.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char library[PATH_MAX];

int paths_absolute(char out[], unsigned long size, const char *path)
{
	char current[PATH_MAX] = "";
	int n;

	if (*path != '/' && !getcwd(current, sizeof(current)))
		return -ENOENT;
	n = snprintf(out, size, "%s%s%s", current, *current ? "/" : "", path);
	return n >= 0 && (unsigned long)n < size ? 0 : -ENAMETOOLONG;
}

void paths_remember(void)
{
	Dl_info info;

	if (!dladdr((void *)paths_remember, &info) || !info.dli_fname ||
	    paths_absolute(library, sizeof(library), info.dli_fname))
		*library = '\0';
}

const char *paths_library(void)
{
	return library;
}

static int beside(char out[], unsigned long size, const char *of)
{
	/* A build folder before an installed prefix. */
	static const char *const folders[] = { "python-sitecustomize",
					       PYTHON_FROM_LIBRARY };
	int n = (int)(strrchr(of, '/') - of);

	for (size_t i = 0; i < sizeof(folders) / sizeof(*folders); i++) {
		int end = snprintf(out, size, "%.*s/%s/sitecustomize.py", n, of,
				   folders[i]);

		if (end > 0 && (unsigned long)end < size && !access(out, R_OK))
			return 0;
	}
	return -ENOENT;
}

/* By the name it was loaded under, or else by the file that this leads to. */
int paths_sitecustomize(char out[], unsigned long size)
{
	char resolved[PATH_MAX];

	if (!*library)
		return -ENOENT;
	if (!beside(out, size, library))
		return 0;
	return realpath(library, resolved) ? beside(out, size, resolved) :
					     -ENOENT;
}
