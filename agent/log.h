/*
 * One line at a time, to standard error or a file, and never at the job's
 * expense: a line that cannot be written at once is lost. Each is one write(2)
 * of at most LOG_LINE_BYTES with the prefix "ckptagent: "; control characters
 * become '?'. A closed descriptor, a full or broken pipe, a missing disk are
 * survived; no SIGPIPE reaches the job; errno is left as it was.
 *
 * No descriptor is kept between lines: a job that closes or reuses all
 * descriptors neither loses the log nor gets it into its own files.
 */
#ifndef CKPTAGENT_LOG_H
#define CKPTAGENT_LOG_H

#define LOG_LINE_BYTES 4096

enum log_level {
	LOG_ERROR,
	LOG_WARNING,
	LOG_INFO,
	LOG_DEBUG
};

/*
 * What is written from now on, and where: `file` (absolute, kept by the
 * caller for good) or standard error for NULL. The file is appended to,
 * created with mode 0600, and no symbolic link. If it cannot be opened, one
 * line on standard error says so and the lines go there.
 */
void log_open(enum log_level level, const char *file);

void log_line(enum log_level level, const char *line);

/* To standard error whatever the level and the file. */
void log_stderr(const char *line);

/* The level of that name, or -1. */
int log_level_named(const char *name);

void log_format(enum log_level level, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

#endif
