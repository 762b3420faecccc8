/* clock.c: shifts the date that every program sees by CLOCK_SECONDS (set at compilation). It is preloaded into the
   second build of reproduce.sh, so that a date that ends up in an output is found. Only the calendar clocks are
   shifted; clocks that measure durations are not. Programs without a dynamic loader, and the times that the kernel
   gives to files, are not affected. */
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#ifndef CLOCK_SECONDS
#error "CLOCK_SECONDS is not defined"
#endif

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int status = syscall(SYS_clock_gettime, clock, now);
    if (status == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_TAI))
        now->tv_sec += CLOCK_SECONDS;
    return status;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    int status = syscall(SYS_gettimeofday, now, zone);
    if (status == 0)
        now->tv_sec += CLOCK_SECONDS;
    return status;
}

int timespec_get(struct timespec *now, int base)
{
    if (base != TIME_UTC || clock_gettime(CLOCK_REALTIME, now) != 0)
        return 0;
    return base;
}

time_t time(time_t *to)
{
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0)
        return (time_t)-1;
    if (to)
        *to = now.tv_sec;
    return now.tv_sec;
}
