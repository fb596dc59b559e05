#include "check.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "device_memory.h"

/* A made-up machine: a folder with /proc and /sys in it, new for each test. */
static char root[64];

static int make_root(void **state)
{
	(void)state;
	strcpy(root, "/tmp/ckptagent-test.XXXXXX");
	return mkdtemp(root) ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *s, int type,
		      struct FTW *ftw)
{
	(void)s;
	(void)type;
	(void)ftw;
	return remove(path);
}

static int remove_root(void **state)
{
	(void)state;
	return nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void put(const char *path, const char *text)
{
	char full[512];
	FILE *file;

	snprintf(full, sizeof(full), "%s%s", root, path);
	for (char *slash = strchr(full + 1, '/'); slash;
	     slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		mkdir(full, 0700);
		*slash = '/';
	}
	file = fopen(full, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static void put_physical(void)
{
	put("/proc/meminfo", "MemTotal:       1000 kB\n"
			     "MemFree:         500 kB\n");
}

#define V2_MOUNT \
	"22 1 0:21 / /proc rw - proc proc rw\n" \
	"29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 master:1 " \
	"- cgroup2 cgroup2 rw,nsdelegate\n"

static void without_cgroups_it_is_physical_memory(void **state)
{
	(void)state;
	put_physical();
	assert_int_equal(device_memory(root, 1), 1024000);
	assert_int_equal(device_memory(root, 0), 1024000);
}

static void without_meminfo_it_is_what_the_system_says(void **state)
{
	(void)state;
	assert_int_equal(device_memory(root, 1),
			 (uint64_t)sysconf(_SC_PHYS_PAGES) *
				 (uint64_t)sysconf(_SC_PAGESIZE));
}

static void it_is_divided_among_the_processes_of_the_machine(void **state)
{
	(void)state;
	put_physical();
	assert_int_equal(device_memory(root, 4), 256000);
}

static void version_2_takes_the_smallest_of_all_ancestors(void **state)
{
	(void)state;
	put_physical();
	put("/proc/self/cgroup", "0::/user.slice/job/step\n");
	put("/proc/self/mountinfo", V2_MOUNT);
	put("/sys/fs/cgroup/user.slice/memory.max", "300000\n");
	put("/sys/fs/cgroup/user.slice/job/memory.max", "max\n");
	put("/sys/fs/cgroup/user.slice/job/step/memory.max", "400000\n");
	put("/sys/fs/cgroup/user.slice/other/memory.max", "100\n");
	assert_int_equal(device_memory(root, 1), 300000);
	put("/sys/fs/cgroup/user.slice/job/memory.max", "200000\n");
	assert_int_equal(device_memory(root, 2), 100000);
}

static void a_limit_above_physical_memory_is_none(void **state)
{
	(void)state;
	put_physical();
	put("/proc/self/cgroup", "0::/a\n");
	put("/proc/self/mountinfo", V2_MOUNT);
	put("/sys/fs/cgroup/a/memory.max", "9999999999\n");
	assert_int_equal(device_memory(root, 1), 1024000);
}

static void in_a_container_the_mount_itself_is_the_group(void **state)
{
	(void)state;
	put_physical();
	put("/proc/self/cgroup", "0::/\n");
	put("/proc/self/mountinfo", V2_MOUNT);
	put("/sys/fs/cgroup/memory.max", "123456\n");
	assert_int_equal(device_memory(root, 1), 123456);
}

static void a_group_outside_the_mount_leaves_the_mount_point(void **state)
{
	(void)state;
	put_physical();
	put("/proc/self/cgroup", "0::/../outside\n");
	put("/proc/self/mountinfo", V2_MOUNT);
	put("/sys/fs/cgroup/memory.max", "222222\n");
	assert_int_equal(device_memory(root, 1), 222222);
}

static void version_1_finds_the_memory_controller(void **state)
{
	(void)state;
	put_physical();
	put("/proc/self/cgroup", "5:cpu,cpuacct:/elsewhere\n"
				 "4:memory:/jobs/7\n"
				 "0::/\n");
	put("/proc/self/mountinfo", "34 31 0:32 / /sys/fs/cgroup/cpu rw - "
				    "cgroup cgroup rw,cpu\n"
				    "35 31 0:32 / /sys/fs/cgroup/memory rw - "
				    "cgroup cgroup rw,memory\n");
	put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712"
							   "\n");
	put("/sys/fs/cgroup/memory/jobs/memory.limit_in_bytes", "600000\n");
	put("/sys/fs/cgroup/memory/jobs/7/memory.limit_in_bytes", "700000\n");
	put("/sys/fs/cgroup/cpu/jobs/memory.limit_in_bytes", "5\n");
	assert_int_equal(device_memory(root, 1), 600000);
}

static void version_1_in_docker_mounts_the_group_itself(void **state)
{
	(void)state;
	put_physical();
	put("/proc/self/cgroup", "4:memory:/docker/abc/inner\n");
	put("/proc/self/mountinfo", "35 31 0:32 /docker/abc "
				    "/sys/fs/cgroup/mem\\040ory ro "
				    "- cgroup cgroup rw,memory\n");
	put("/sys/fs/cgroup/mem ory/memory.limit_in_bytes", "500000\n");
	put("/sys/fs/cgroup/mem ory/inner/memory.limit_in_bytes", "450000\n");
	assert_int_equal(device_memory(root, 1), 450000);
	put("/proc/self/cgroup", "4:memory:/docker/abcdef\n");
	assert_int_equal(device_memory(root, 1), 500000);
}

static void both_versions_count(void **state)
{
	(void)state;
	put_physical();
	put("/proc/self/cgroup", "4:memory:/one\n0::/two\n");
	put("/proc/self/mountinfo", "35 31 0:32 / /v1 rw - cgroup cgroup "
				    "rw,memory\n"
				    "36 31 0:33 / /v2 rw - cgroup2 none rw\n");
	put("/v1/one/memory.limit_in_bytes", "800000\n");
	put("/v2/two/memory.max", "900000\n");
	assert_int_equal(device_memory(root, 1), 800000);
	put("/v2/memory.max", "700000\n");
	assert_int_equal(device_memory(root, 1), 700000);
}

static void files_of_another_form_are_passed_over(void **state)
{
	(void)state;
	put_physical();
	put("/proc/self/cgroup", "\nnonsense\n::\n0::/a\n");
	put("/proc/self/mountinfo", "\n - \n - cgroup2\n1 2 3 - cgroup2 x rw\n"
				    "1 2 3 / - cgroup2 x rw\n" V2_MOUNT);
	put("/sys/fs/cgroup/a/memory.max", "\n");
	put("/sys/fs/cgroup/memory.max", "333333\n");
	assert_int_equal(device_memory(root, 1), 333333);
}

#define IN_ROOT(test) \
	cmocka_unit_test_setup_teardown(test, make_root, remove_root)

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_ROOT(without_cgroups_it_is_physical_memory),
		IN_ROOT(without_meminfo_it_is_what_the_system_says),
		IN_ROOT(it_is_divided_among_the_processes_of_the_machine),
		IN_ROOT(version_2_takes_the_smallest_of_all_ancestors),
		IN_ROOT(a_limit_above_physical_memory_is_none),
		IN_ROOT(in_a_container_the_mount_itself_is_the_group),
		IN_ROOT(a_group_outside_the_mount_leaves_the_mount_point),
		IN_ROOT(version_1_finds_the_memory_controller),
		IN_ROOT(version_1_in_docker_mounts_the_group_itself),
		IN_ROOT(both_versions_count),
		IN_ROOT(files_of_another_form_are_passed_over),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
