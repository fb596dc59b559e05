#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "log.h"

/* Standard error is a file or pipe of the test's while `body` runs. */
static void with_stderr(int fd, void (*body)(void))
{
	int kept = dup(STDERR_FILENO);

	if (fd < 0)
		close(STDERR_FILENO);
	else
		dup2(fd, STDERR_FILENO);
	body();
	dup2(kept, STDERR_FILENO);
	close(kept);
}

static char folder[64], path[128];

static int make_folder(void **state)
{
	(void)state;
	strcpy(folder, "/tmp/ckptagent-test.XXXXXX");
	if (!mkdtemp(folder))
		return -1;
	snprintf(path, sizeof(path), "%s/log", folder);
	return 0;
}

static int remove_folder(void **state)
{
	(void)state;
	log_open(LOG_WARNING, NULL);
	unlink(path);
	return rmdir(folder);
}

static char *text_of(const char *file)
{
	static char text[3 * LOG_LINE_BYTES];
	int fd = open(file, O_RDONLY);
	ssize_t n;

	assert_true(fd >= 0);
	n = read(fd, text, sizeof(text) - 1);
	assert_true(n >= 0);
	text[n] = '\0';
	close(fd);
	return text;
}

static void one_at_each_level(void)
{
	log_line(LOG_ERROR, "e");
	log_line(LOG_WARNING, "w");
	log_line(LOG_INFO, "i");
	log_line(LOG_DEBUG, "d");
}

static void a_level_lets_through_itself_and_what_is_worse(void **state)
{
	static const char *const expected[] = {
		"ckptagent: e\n",
		"ckptagent: e\nckptagent: w\n",
		"ckptagent: e\nckptagent: w\nckptagent: i\n",
		"ckptagent: e\nckptagent: w\nckptagent: i\nckptagent: d\n",
	};

	(void)state;
	for (int level = LOG_ERROR; level <= LOG_DEBUG; level++) {
		log_open((enum log_level)level, path);
		one_at_each_level();
		assert_string_equal(text_of(path), expected[level]);
		unlink(path);
	}
}

static void levels_have_names(void **state)
{
	(void)state;
	assert_int_equal(log_level_named("error"), LOG_ERROR);
	assert_int_equal(log_level_named("warning"), LOG_WARNING);
	assert_int_equal(log_level_named("info"), LOG_INFO);
	assert_int_equal(log_level_named("debug"), LOG_DEBUG);
	assert_int_equal(log_level_named("Info"), -1);
	assert_int_equal(log_level_named(""), -1);
}

static void it_appends_to_a_private_file(void **state)
{
	struct stat s;
	mode_t kept = umask(0);

	(void)state;
	log_open(LOG_WARNING, path);
	log_line(LOG_ERROR, "one");
	log_format(LOG_ERROR, "two %d", 2);
	umask(kept);
	assert_string_equal(text_of(path), "ckptagent: one\nckptagent: two "
					   "2\n");
	assert_int_equal(stat(path, &s), 0);
	assert_int_equal(s.st_mode & 0777, 0600);
}

static void a_line_stays_one_line_of_limited_length(void **state)
{
	static char longer[2 * LOG_LINE_BYTES];
	const char *text;

	(void)state;
	log_open(LOG_WARNING, path);
	log_line(LOG_ERROR, "a\nb\tc\033[1m\x7f");
	assert_string_equal(text_of(path), "ckptagent: a?b?c?[1m?\n");
	unlink(path);
	memset(longer, 'x', sizeof(longer) - 1);
	log_line(LOG_ERROR, longer);
	text = text_of(path);
	assert_true(strlen(text) <= LOG_LINE_BYTES);
	assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
}

static void say_one_line(void)
{
	errno = 77;
	log_line(LOG_ERROR, "x");
	log_stderr("y");
	assert_int_equal(errno, 77);
}

static void to_stderr_and_file(void)
{
	log_line(LOG_ERROR, "x");
	log_stderr("y");
}

static void log_stderr_goes_there_in_spite_of_a_file(void **state)
{
	char other[160];
	int fd;

	(void)state;
	snprintf(other, sizeof(other), "%s/stderr", folder);
	fd = open(other, O_RDWR | O_CREAT, 0600);
	log_open(LOG_ERROR, path);
	with_stderr(fd, to_stderr_and_file);
	close(fd);
	assert_string_equal(text_of(path), "ckptagent: x\n");
	assert_string_equal(text_of(other), "ckptagent: y\n");
	unlink(other);
}

static void a_closed_stderr_is_survived(void **state)
{
	(void)state;
	log_open(LOG_WARNING, NULL);
	with_stderr(-1, say_one_line);
}

static _Atomic int sigpipes;

static void count_sigpipe(int number)
{
	(void)number;
	sigpipes++;
}

static void a_broken_pipe_raises_no_signal_in_the_job(void **state)
{
	struct sigaction counting = { .sa_handler = count_sigpipe }, kept;
	sigset_t pending;
	int ends[2];

	(void)state;
	assert_int_equal(pipe(ends), 0);
	close(ends[0]);
	sigaction(SIGPIPE, &counting, &kept);
	log_open(LOG_WARNING, NULL);
	with_stderr(ends[1], say_one_line);
	close(ends[1]);
	sigaction(SIGPIPE, &kept, NULL);
	assert_int_equal(sigpipes, 0);
	sigpending(&pending);
	assert_false(sigismember(&pending, SIGPIPE));
}

static void a_sigpipe_that_the_job_holds_back_is_still_there(void **state)
{
	sigset_t pipe_only, before, pending;
	struct timespec at_once = { 0, 0 };
	int ends[2];

	(void)state;
	sigemptyset(&pipe_only);
	sigaddset(&pipe_only, SIGPIPE);
	pthread_sigmask(SIG_BLOCK, &pipe_only, &before);
	raise(SIGPIPE);
	assert_int_equal(pipe(ends), 0);
	close(ends[0]);
	log_open(LOG_WARNING, NULL);
	with_stderr(ends[1], say_one_line);
	close(ends[1]);
	sigpending(&pending);
	assert_true(sigismember(&pending, SIGPIPE));
	assert_int_equal(sigtimedwait(&pipe_only, NULL, &at_once), SIGPIPE);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void a_full_pipe_does_not_wait(void **state)
{
	static char block[4096];
	int ends[2];

	(void)state;
	assert_int_equal(pipe(ends), 0);
	fcntl(ends[1], F_SETFL, O_NONBLOCK);
	while (write(ends[1], block, sizeof(block)) > 0)
		;
	fcntl(ends[1], F_SETFL, 0);
	log_open(LOG_WARNING, NULL);
	alarm(10);
	with_stderr(ends[1], say_one_line);
	alarm(0);
	close(ends[0]);
	close(ends[1]);
}

static void a_fifo_that_nobody_reads_does_not_wait(void **state)
{
	int null = open("/dev/null", O_WRONLY);

	(void)state;
	assert_int_equal(mkfifo(path, 0600), 0);
	log_open(LOG_WARNING, path);
	alarm(10);
	with_stderr(null, say_one_line);
	alarm(0);
	close(null);
}

static void a_symbolic_link_is_not_followed(void **state)
{
	char target[160];
	int null = open("/dev/null", O_WRONLY);

	(void)state;
	snprintf(target, sizeof(target), "%s/target", folder);
	assert_int_equal(symlink(target, path), 0);
	log_open(LOG_WARNING, path);
	with_stderr(null, say_one_line);
	close(null);
	assert_int_equal(access(target, F_OK), -1);
}

static void no_descriptor_is_kept(void **state)
{
	int before = dup(0), after;

	(void)state;
	close(before);
	log_open(LOG_WARNING, path);
	log_line(LOG_ERROR, "x");
	after = dup(0);
	close(after);
	assert_int_equal(before, after);
}

#define IN_FOLDER(test) \
	cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_FOLDER(a_level_lets_through_itself_and_what_is_worse),
		IN_FOLDER(levels_have_names),
		IN_FOLDER(it_appends_to_a_private_file),
		IN_FOLDER(a_line_stays_one_line_of_limited_length),
		IN_FOLDER(log_stderr_goes_there_in_spite_of_a_file),
		IN_FOLDER(a_closed_stderr_is_survived),
		IN_FOLDER(a_broken_pipe_raises_no_signal_in_the_job),
		IN_FOLDER(a_sigpipe_that_the_job_holds_back_is_still_there),
		IN_FOLDER(a_full_pipe_does_not_wait),
		IN_FOLDER(a_fifo_that_nobody_reads_does_not_wait),
		IN_FOLDER(a_symbolic_link_is_not_followed),
		IN_FOLDER(no_descriptor_is_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
