// SPDX-License-Identifier: GPL-2.0
/*
 * The first program of a test boot (rdinit=/t/init): loads /t/fakepci.ko with
 * the parameters in the kernel word `fakepci=`, then becomes the product's own
 * /init. `;` in the word represents a blank between parameters. Without the
 * word, or if the module does not load, the boot stops.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static void die(const char *what)
{
	printf("fakepci: %s: %s\n", what, strerror(errno));
	sleep(1);	/* the end of process 1 is a panic: let the line be printed first */
	exit(1);
}

/* The kernel passes unknown words to process 1 as environment variables. */
static char *parameters(void)
{
	char *word = getenv("fakepci");

	if (!word) {
		errno = ENOENT;
		die("kernel word fakepci=");
	}
	for (char *c = word; *c; c++)
		if (*c == ';')
			*c = ' ';
	return word;
}

static void open_console(void)
{
	mkdir("/dev", 0755);
	mount("devtmpfs", "/dev", "devtmpfs", 0, NULL);
	int fd = open("/dev/console", O_RDWR);

	for (int i = 0; fd >= 0 && i < 3; i++)
		dup2(fd, i);
}

int main(int argc, char **argv)
{
	(void)argc;
	if (fcntl(1, F_GETFD) < 0)
		open_console();
	setvbuf(stdout, NULL, _IONBF, 0);
	int module = open("/t/fakepci.ko", O_RDONLY | O_CLOEXEC);

	if (module < 0)
		die("/t/fakepci.ko");
	if (syscall(SYS_finit_module, module, parameters(), 0))
		die("finit_module");
	unsetenv("fakepci");
	argv[0] = "/init";
	execv("/init", argv);
	die("/init");
}
