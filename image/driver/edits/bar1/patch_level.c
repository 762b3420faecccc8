// SPDX-License-Identifier: MIT
// firstlight: the level of its changes, in nvidia.ko's .modinfo and, of the loaded module, in /sys/module/nvidia/parameters.
// A module without them behaves like one whose changes have no effect; the field distinguishes the two before the module is
// loaded, and the parameter, which nobody can set, afterwards.

#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/moduleparam.h>

__MODULE_INFO(firstlight.patch, firstlight_patch, "@LEVEL@");

static int level_set(const char *value, const struct kernel_param *parameter)
{
    return -EPERM;
}

static int level_get(char *buffer, const struct kernel_param *parameter)
{
    return sprintf(buffer, "%s\n", "@LEVEL@");
}

static const struct kernel_param_ops level_ops = { .set = level_set, .get = level_get };

module_param_cb(firstlight_patch, &level_ops, NULL, 0444);
