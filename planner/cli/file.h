/* Whole files. */
#ifndef CKPTAGENT_CLI_FILE_H
#define CKPTAGENT_CLI_FILE_H

/*
 * The text of a file of at most 64 MiB without a NUL byte, malloc'ed; NULL
 * with a negative errno value in *error otherwise (-EFBIG, -EILSEQ, or what
 * the system said).
 */
char *file_read(const char *path, int *error);

/*
 * Write under a temporary name in the same folder and rename; the mode is what
 * the umask makes of 0666. 0 or a negative errno value, and then the old file
 * is what it was.
 */
int file_replace(const char *path, const char *text);

/* Why a file could not be read or written, in words. */
const char *file_fault(int error);

#endif
