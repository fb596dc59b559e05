/*
 * Where this library is, and the Python files that belong to it: both are
 * found from where the library was loaded, so that a build folder, an
 * installed prefix and a moved prefix all work.
 */
#ifndef CKPTAGENT_PATHS_H
#define CKPTAGENT_PATHS_H

/*
 * Remember where the library is while the current directory still is the one
 * that a relative LD_PRELOAD was meant for. Once, from the constructor.
 */
void paths_remember(void);

/* `path` made absolute with the current directory; -ENAMETOOLONG or 0. */
int paths_absolute(char out[], unsigned long size, const char *path);

/* The absolute path of libckptagent.so, "" if unknown. */
const char *paths_library(void);

/*
 * The absolute path of sitecustomize.py: in the build folder's
 * python-sitecustomize or in the installed data. -ENOENT or 0.
 */
int paths_sitecustomize(char out[], unsigned long size);

#endif
