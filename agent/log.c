#include "log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PREFIX "ckptagent: "
#define FILE_FLAGS \
	(O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | \
	 O_NOCTTY)

static enum log_level threshold = LOG_WARNING;
static const char *log_file;
static _Atomic bool file_failed;

/* A pipe that polls writable takes PIPE_BUF (4096) bytes without waiting. */
static bool writable(int fd)
{
	struct pollfd poller = { .fd = fd, .events = POLLOUT };

	return poll(&poller, 1, 0) == 1 && poller.revents & POLLOUT;
}

/* Take back the SIGPIPE that write() made pending for this thread. */
static void consume_sigpipe(const sigset_t *pipe_only)
{
	struct timespec at_once = { 0, 0 };

	while (sigtimedwait(pipe_only, NULL, &at_once) < 0 && errno == EINTR)
		;
}

static void write_quietly(int fd, const char *text, size_t n)
{
	sigset_t pipe_only, before, pending;
	bool was_pending;

	if (!writable(fd))
		return;
	sigemptyset(&pipe_only);
	sigaddset(&pipe_only, SIGPIPE);
	sigpending(&pending);
	was_pending = sigismember(&pending, SIGPIPE);
	pthread_sigmask(SIG_BLOCK, &pipe_only, &before);
	if (write(fd, text, n) < 0 && errno == EPIPE && !was_pending)
		consume_sigpipe(&pipe_only);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void printable(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			*text = '?';
}

/* The line as it is written; returns its length. */
static size_t compose(char out[LOG_LINE_BYTES], const char *line)
{
	size_t n;

	snprintf(out, LOG_LINE_BYTES - 1, "%s%s", PREFIX, line);
	printable(out);
	n = strlen(out);
	out[n++] = '\n';
	return n;
}

static void write_stderr(const char *line)
{
	char out[LOG_LINE_BYTES];

	write_quietly(STDERR_FILENO, out, compose(out, line));
}

static void say_file_failed(void)
{
	char why[LOG_LINE_BYTES];

	if (atomic_exchange(&file_failed, true))
		return;
	snprintf(why, sizeof(why), "CKPT_LOG: cannot open %s: %m", log_file);
	write_stderr(why);
}

/*
 * Never under the number of a standard stream that the job has closed: what
 * another thread prints meanwhile would go to our file.
 */
static int open_file(void)
{
	int fd = open(log_file, FILE_FLAGS, 0600), other;

	if (fd < 0 || fd > STDERR_FILENO)
		return fd;
	other = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	close(fd);
	return other;
}

static void write_file(const char *line)
{
	char out[LOG_LINE_BYTES];
	int fd = open_file();

	if (fd < 0) {
		say_file_failed();
		write_stderr(line);
		return;
	}
	write_quietly(fd, out, compose(out, line));
	close(fd);
}

void log_open(enum log_level level, const char *file)
{
	threshold = level;
	log_file = file;
}

void log_line(enum log_level level, const char *line)
{
	int saved = errno;

	if (level > threshold)
		return;
	if (log_file)
		write_file(line);
	else
		write_stderr(line);
	errno = saved;
}

void log_stderr(const char *line)
{
	int saved = errno;

	write_stderr(line);
	errno = saved;
}

void log_format(enum log_level level, const char *format, ...)
{
	char line[LOG_LINE_BYTES];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(line, sizeof(line), format, arguments);
	va_end(arguments);
	log_line(level, line);
}

int log_level_named(const char *name)
{
	static const char *const names[] = { "error", "warning", "info",
					     "debug" };

	for (int i = 0; i < 4; i++)
		if (!strcmp(name, names[i]))
			return i;
	return -1;
}
