/*
 * Where the libraries are, found from where this command is: beside it in a
 * build folder; in an installed or moved prefix, by the way from the folder of
 * commands to the folder of libraries.
 */
#ifndef CKPTAGENT_CLI_LOCATE_H
#define CKPTAGENT_CLI_LOCATE_H

/* The absolute path of a library, malloc'ed; NULL if there is none. */
char *locate_library(const char *name);

/*
 * The absolute path of a file or folder of the project's data, given by its
 * way from the root of the sources, malloc'ed; NULL if there is none.
 */
char *locate_data(const char *name);

/* The absolute path of this command, malloc'ed; NULL without /proc. */
char *locate_command(void);

/* The first executable of that name on PATH, malloc'ed; NULL: none. */
char *locate_on_path(const char *name);

#endif
