/*
 * Fails one call of the agent's to libc. Preloaded after the agent, it stands
 * before the functions below; calls by others pass through. A place in the
 * agent that calls one of them is a site; sites are numbered in the order of
 * their first calls. The site that the variable FAULT or faults_arm() names
 * fails once, the first time that it is reached.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define SITES 256

static struct {
	const void *place;
	const char *name;
} sites[SITES];
static int count, armed = -1;
static uintptr_t first, last; /* addresses of the agent */

EXPORT void faults_arm(int site)
{
	armed = site;
}

EXPORT int faults_count(void)
{
	return count;
}

EXPORT const char *faults_name(int site)
{
	return sites[site].name;
}

static int find_agent(struct dl_phdr_info *info, size_t size, void *unused)
{
	(void)size;
	(void)unused;
	if (!strstr(info->dlpi_name, "libckptagent.so"))
		return 0;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		uintptr_t start = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;

		if (info->dlpi_phdr[i].p_type != PT_LOAD)
			continue;
		if (!first)
			first = start;
		last = start + info->dlpi_phdr[i].p_memsz;
	}
	return 1;
}

/* Before the agent's own constructor: what is loaded later starts first. */
__attribute__((constructor)) static void start(void)
{
	const char *fault = getenv("FAULT");

	dl_iterate_phdr(find_agent, NULL);
	if (fault)
		armed = atoi(fault);
}

/* Whether the call from `place` is to fail. */
static int fails(const void *place, const char *name)
{
	if ((uintptr_t)place < first || (uintptr_t)place >= last)
		return 0;
	for (int i = 0; i < count; i++)
		if (sites[i].place == place)
			return 0;
	if (count == SITES)
		abort();
	sites[count].place = place;
	sites[count].name = name;
	return count++ == armed;
}

/* The real one, looked up once. */
#define REAL(name) \
	({ \
		static __typeof__(name) *real; \
		if (!real) \
			real = (__typeof__(name) *)next(#name); \
		real; \
	})

static void *next(const char *name)
{
	static void *(*look_up)(void *, const char *);

	if (!look_up)
		look_up = (void *(*)(void *, const char *))dlvsym(
			RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
	return look_up(RTLD_NEXT, name);
}

/* FAULTY(result, name, parameters, arguments, what a failure returns, errno) */
#define FAULTY(type, name, parameters, arguments, failure, error) \
	EXPORT type name parameters \
	{ \
		if (fails(__builtin_return_address(0), #name)) { \
			errno = error; \
			return failure; \
		} \
		return REAL(name) arguments; \
	}

FAULTY(void *, mmap,
       (void *at, size_t n, int prot, int flags, int fd, off_t from),
       (at, n, prot, flags, fd, from), MAP_FAILED, ENOMEM)
FAULTY(ssize_t, write, (int fd, const void *data, size_t n), (fd, data, n), -1,
       ENOSPC)
FAULTY(ssize_t, read, (int fd, void *data, size_t n), (fd, data, n), -1, EIO)
FAULTY(int, poll, (struct pollfd * fds, nfds_t n, int ms), (fds, n, ms), -1,
       EINTR)
FAULTY(int, access, (const char *path, int mode), (path, mode), -1, EACCES)
FAULTY(char *, getcwd, (char *path, size_t n), (path, n), NULL, ENOENT)
FAULTY(long, sysconf, (int name), (name), -1, EINVAL)
FAULTY(int, pthread_create,
       (pthread_t * thread, const pthread_attr_t *attributes,
	void *(*body)(void *), void *argument),
       (thread, attributes, body, argument), EAGAIN, 0)
FAULTY(int, dladdr, (const void *address, Dl_info *info), (address, info), 0, 0)
FAULTY(void *, dlsym, (void *restrict handle, const char *restrict name),
       (handle, name), NULL, 0)
FAULTY(void *, dlopen, (const char *path, int flags), (path, flags), NULL, 0)

EXPORT int open(const char *path, int flags, ...)
{
	va_list more;
	mode_t mode;

	va_start(more, flags);
	mode = flags & O_CREAT ? va_arg(more, mode_t) : 0;
	va_end(more);
	if (fails(__builtin_return_address(0), "open")) {
		errno = EMFILE;
		return -1;
	}
	return REAL(open)(path, flags, mode);
}
