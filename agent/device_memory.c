#include "device_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE_BYTES 4096

/* Lines of a file without stdio, which would allocate; longer ones are cut. */
struct lines {
	int fd;
	size_t at, filled;
	char buffer[LINE_BYTES];
};

static bool lines_open(struct lines *lines, const char *root, const char *path)
{
	char full[PATH_MAX];
	int n = snprintf(full, sizeof(full), "%s%s", root, path);

	if (n < 0 || (size_t)n >= sizeof(full))
		return false;
	lines->fd = open(full, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	lines->at = lines->filled = 0;
	return lines->fd >= 0;
}

static int lines_byte(struct lines *lines)
{
	ssize_t n;

	if (lines->at == lines->filled) {
		do {
			n = read(lines->fd, lines->buffer,
				 sizeof(lines->buffer));
		} while (n < 0 && errno == EINTR);
		if (n <= 0)
			return -1;
		lines->at = 0;
		lines->filled = (size_t)n;
	}
	return (unsigned char)lines->buffer[lines->at++];
}

static bool lines_next(struct lines *lines, char line[LINE_BYTES])
{
	size_t n = 0;
	int c = lines_byte(lines);

	if (c < 0)
		return false;
	for (; c >= 0 && c != '\n'; c = lines_byte(lines))
		if (n < LINE_BYTES - 1)
			line[n++] = (char)c;
	line[n] = '\0';
	return true;
}

static void lines_close(struct lines *lines)
{
	close(lines->fd);
}

static uint64_t physical(const char *root)
{
	char line[LINE_BYTES];
	unsigned long long kib;
	struct lines lines;
	uint64_t bytes = 0;

	if (lines_open(&lines, root, "/proc/meminfo")) {
		while (!bytes && lines_next(&lines, line))
			if (sscanf(line, "MemTotal: %llu kB", &kib) == 1)
				bytes = (uint64_t)kib * 1024;
		lines_close(&lines);
	}
	if (!bytes && sysconf(_SC_PHYS_PAGES) > 0)
		bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) *
			(uint64_t)sysconf(_SC_PAGESIZE);
	return bytes;
}

/* One kind of cgroup: how its mount is told, where the limit stands. */
struct hierarchy {
	const char *type;	/* of the file system */
	const char *controller; /* among the mount's options, or NULL */
	const char *file;
};

static const struct hierarchy hierarchies[] = {
	{ "cgroup2", NULL, "memory.max" },
	{ "cgroup", "memory", "memory.limit_in_bytes" },
};

static bool listed(const char *list, const char *word)
{
	size_t n = strlen(word);

	for (; list; list = strchr(list, ',')) {
		list += *list == ',';
		if (!strncmp(list, word, n) && (!list[n] || list[n] == ','))
			return true;
	}
	return false;
}

/* The process's group in a hierarchy: a line "ID:CONTROLLERS:PATH". */
static bool find_group(const char *root, const struct hierarchy *h,
		       char group[LINE_BYTES])
{
	char line[LINE_BYTES], *controllers, *path;
	struct lines lines;
	bool found = false;

	if (!lines_open(&lines, root, "/proc/self/cgroup"))
		return false;
	while (!found && lines_next(&lines, line)) {
		controllers = strchr(line, ':');
		path = controllers ? strchr(controllers + 1, ':') : NULL;
		if (!path)
			continue;
		*controllers++ = '\0';
		*path++ = '\0';
		found = h->controller ? listed(controllers, h->controller) :
					!*controllers;
		if (found)
			memmove(group, path, strlen(path) + 1);
	}
	lines_close(&lines);
	return found;
}

/* mountinfo writes space, tab, newline and backslash as \ooo. */
static void unescape(char *text)
{
	char *to = text;

	for (; *text; text++) {
		char octal[4] = { 0 };

		if (*text == '\\' && strlen(text) >= 4) {
			memcpy(octal, text + 1, 3);
			*to++ = (char)strtol(octal, NULL, 8);
			text += 3;
		} else {
			*to++ = *text;
		}
	}
	*to = '\0';
}

/*
 * A mount: which group it shows at its top, and where. The fields of a line
 * are "id parent dev TOP POINT options … - TYPE source SUPEROPTIONS".
 */
static bool parse_mount(char *line, const struct hierarchy *h, char **top,
			char **point)
{
	char *tail = strstr(line, " - "), *type, *save, *field = NULL;

	if (!tail)
		return false;
	*tail = '\0';
	type = strtok_r(tail + 3, " ", &save);
	if (!type || strcmp(type, h->type) || !strtok_r(NULL, " ", &save))
		return false;
	field = strtok_r(NULL, " ", &save);
	if (h->controller && (!field || !listed(field, h->controller)))
		return false;
	field = strtok_r(line, " ", &save);
	for (int i = 0; i < 3 && field; i++)
		field = strtok_r(NULL, " ", &save);
	*top = field;
	*point = field ? strtok_r(NULL, " ", &save) : NULL;
	if (!*point)
		return false;
	unescape(*top);
	unescape(*point);
	return true;
}

static uint64_t read_limit(const char *root, const char *folder,
			   const char *file)
{
	char path[PATH_MAX], line[LINE_BYTES], *end;
	uint64_t limit = UINT64_MAX;
	struct lines lines;
	int n = snprintf(path, sizeof(path), "%s/%s", folder, file);

	if (n < 0 || (size_t)n >= sizeof(path) ||
	    !lines_open(&lines, root, path))
		return limit;
	if (lines_next(&lines, line)) {
		limit = strtoull(line, &end, 10);
		if (end == line) /* "max" */
			limit = UINT64_MAX;
	}
	lines_close(&lines);
	return limit;
}

/* The smallest limit from the group's folder up to the mount point. */
static uint64_t climb(const char *root, const char *point, const char *below,
		      const char *file)
{
	char folder[PATH_MAX];
	uint64_t least = UINT64_MAX, limit;
	size_t top = strlen(point);
	int n = snprintf(folder, sizeof(folder), "%s%s", point, below);

	if (n < 0 || (size_t)n >= sizeof(folder))
		return least;
	for (;;) {
		limit = read_limit(root, folder, file);
		least = limit < least ? limit : least;
		if (strlen(folder) <= top)
			return least;
		*strrchr(folder, '/') = '\0';
	}
}

/* The part of `group` below `top`; "" where the mount does not show it. */
static const char *below(const char *group, const char *top)
{
	size_t n = strcmp(top, "/") ? strlen(top) : 0;

	if (strncmp(group, top, n) || (group[n] && group[n] != '/') ||
	    strstr(group, "/.."))
		return "";
	return strcmp(group + n, "/") ? group + n : "";
}

static uint64_t hierarchy_limit(const char *root, const struct hierarchy *h)
{
	char group[LINE_BYTES], line[LINE_BYTES], *top, *point;
	uint64_t least = UINT64_MAX, limit;
	struct lines lines;

	if (!find_group(root, h, group) ||
	    !lines_open(&lines, root, "/proc/self/mountinfo"))
		return least;
	while (lines_next(&lines, line)) {
		if (!parse_mount(line, h, &top, &point))
			continue;
		limit = climb(root, point, below(group, top), h->file);
		least = limit < least ? limit : least;
	}
	lines_close(&lines);
	return least;
}

uint64_t device_memory(const char *root, uint64_t processes)
{
	uint64_t least = physical(root), limit;

	for (size_t i = 0; i < sizeof(hierarchies) / sizeof(*hierarchies);
	     i++) {
		limit = hierarchy_limit(root, &hierarchies[i]);
		least = limit < least || !least ? limit : least;
	}
	if (least == UINT64_MAX)
		return 0;
	return least / (processes ? processes : 1);
}
