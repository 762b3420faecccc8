/* A null process 1, against which `./run bench-boot` measures init: it makes the mounts of init's table
 * (init/src/stages/mounts.rs), prints the milliseconds that they took, and powers the machine off. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define SAFE (MS_NOSUID | MS_NODEV | MS_NOEXEC)

static const struct { const char *type, *at; unsigned long flags; const char *data; } table[] = {
	{ "proc", "/proc", SAFE, "" },
	{ "sysfs", "/sys", SAFE, "" },
	{ "devtmpfs", "/dev", MS_NOSUID, "mode=0755" },
	{ "devpts", "/dev/pts", MS_NOSUID | MS_NOEXEC, "mode=0620,gid=5,ptmxmode=0666" },
	{ "tmpfs", "/dev/shm", MS_NOSUID | MS_NODEV, "mode=1777,size=50%" },
	{ "tmpfs", "/run", MS_NOSUID | MS_NODEV, "mode=0755" },
	{ "tmpfs", "/tmp", MS_NOSUID | MS_NODEV, "mode=1777" },
	{ "cgroup2", "/sys/fs/cgroup", SAFE, "" },
	{ "efivarfs", "/sys/firmware/efi/efivars", SAFE, "" },
	{ "pstore", "/sys/fs/pstore", SAFE, "" },
	{ "securityfs", "/sys/kernel/security", SAFE, "" },
};

static double milliseconds(void)
{
	struct timespec now;
	clock_gettime(CLOCK_BOOTTIME, &now);
	return now.tv_sec * 1e3 + now.tv_nsec / 1e6;
}

int main(void)
{
	double began = milliseconds();
	unsigned n, mounted = 0;
	for (n = 0; n < sizeof(table) / sizeof(table[0]); n++) {
		mkdir(table[n].at, 0755);
		mounted += mount(table[n].type, table[n].at, table[n].type, table[n].flags, table[n].data) == 0;
	}
	double took = milliseconds() - began;
	dprintf(open("/dev/console", O_WRONLY), "null      %u mounted in %.2f ms\n", mounted, took);
	sync();
	reboot(RB_POWER_OFF);
	return 0;
}
