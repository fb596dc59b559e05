/*
 * sandbox PROGRAM…: becomes a program that may only make the system calls that
 * any dynamically linked one makes. Another one kills it.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static const int allowed[] = {
	SYS_execve,	 SYS_brk,	SYS_access,	  SYS_openat,
	SYS_open,	 SYS_close,	SYS_read,	  SYS_pread64,
	SYS_write,	 SYS_mmap,	SYS_munmap,	  SYS_mprotect,
	SYS_arch_prctl,	 SYS_fstat,	SYS_newfstatat,	  SYS_stat,
	SYS_prlimit64,	 SYS_getrandom, SYS_rseq,	  SYS_set_tid_address,
	SYS_exit_group,	 SYS_futex,	SYS_set_robust_list, SYS_uname,
	SYS_clock_gettime, SYS_readlink, SYS_lseek,	  SYS_madvise,
};
#define ALLOWED (sizeof(allowed) / sizeof(*allowed))

int main(int argc, char **argv)
{
	struct sock_filter filter[2 * ALLOWED + 2] = { BPF_STMT(
		BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)) };
	struct sock_fprog program = { 2 * ALLOWED + 2, filter };

	for (size_t i = 0; i < ALLOWED; i++) {
		filter[2 * i + 1] = (struct sock_filter)BPF_JUMP(
			BPF_JMP | BPF_JEQ | BPF_K, (unsigned)allowed[i], 0, 1);
		filter[2 * i + 2] = (struct sock_filter)BPF_STMT(
			BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	}
	filter[2 * ALLOWED + 1] = (struct sock_filter)BPF_STMT(
		BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
	if (argc < 2 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		return 99;
	execv(argv[1], argv + 1);
	return 98;
}
