// SPDX-License-Identifier: GPL-2.0
/*
 * A driver that only binds functions: it represents a loaded GPU or network
 * driver for programs that want to move their resources.
 */
#include "fakepci.h"

static uint bind;
module_param(bind, uint, 0444);
MODULE_PARM_DESC(bind, "PCI id (device << 16 | vendor) of the functions to hold; 0: none");

static int hold(struct pci_dev *dev, const struct pci_device_id *id)
{
	return 0;
}

static struct pci_device_id ids[2];	/* the second ends the list */
static struct pci_driver driver = { .name = "fakepci", .id_table = ids, .probe = hold };

int driver_register_stub(void)
{
	if (!bind)
		return 0;
	ids[0] = (struct pci_device_id){ PCI_DEVICE(bind & 0xffff, bind >> 16) };
	return pci_register_driver(&driver);
}

void driver_unregister_stub(void)
{
	if (bind)
		pci_unregister_driver(&driver);
}
