// SPDX-License-Identifier: MIT
// firstlight: the level of its changes, in nvidia.ko's .modinfo. A module without them behaves like one whose changes have no
// effect; this field distinguishes the two before the module is loaded.

#include <linux/module.h>

__MODULE_INFO(firstlight.patch, firstlight_patch, "@LEVEL@");
