#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "json_read.h"

/* One byte more than the limit is read, to know that there is more. */
static char *read_all(FILE *file, int *error)
{
	size_t room = 1 << 16, length = 0;
	char *text = malloc(room + 1), *grown;

	while (text) {
		length += fread(text + length, 1, room - length, file);
		if (length < room)
			break;
		if (room > JSON_TEXT_MAX)
			break;
		room *= 2;
		grown = realloc(text, room + 1);
		if (!grown)
			free(text);
		text = grown;
	}
	if (!text)
		*error = -ENOMEM;
	else if (ferror(file))
		*error = errno ? -errno : -EIO;
	else if (length > JSON_TEXT_MAX)
		*error = -EFBIG;
	else if (memchr(text, '\0', length))
		*error = -EILSEQ;
	else
		text[length] = '\0';
	return text;
}

char *file_read(const char *path, int *error)
{
	FILE *file = fopen(path, "re");
	char *text;

	*error = 0;
	if (!file) {
		*error = -errno;
		return NULL;
	}
	errno = 0;
	text = read_all(file, error);
	fclose(file);
	if (*error) {
		free(text);
		return NULL;
	}
	return text;
}

static int write_all(int fd, const char *text)
{
	size_t left = strlen(text);

	while (left) {
		ssize_t n = write(fd, text, left);

		if (n < 0 && errno != EINTR)
			return -errno;
		if (n > 0) {
			text += n;
			left -= (size_t)n;
		}
	}
	return fsync(fd) < 0 && errno != EINVAL ? -errno : 0;
}

int file_replace(const char *path, const char *text)
{
	char name[PATH_MAX];
	mode_t mask = umask(0);
	int fd, error;

	umask(mask);
	if (snprintf(name, sizeof(name), "%s.XXXXXX", path) >=
	    (int)sizeof(name))
		return -ENAMETOOLONG;
	fd = mkostemp(name, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	error = write_all(fd, text);
	if (!error && fchmod(fd, 0666 & ~mask) < 0)
		error = -errno;
	if (close(fd) < 0 && !error)
		error = -errno;
	if (!error && rename(name, path) < 0)
		error = -errno;
	if (error)
		unlink(name);
	return error;
}

const char *file_fault(int error)
{
	if (error == -EILSEQ)
		return "not a text (it has a NUL byte)";
	if (error == -EFBIG)
		return "more than 64 MiB";
	return strerror(-error);
}
