// SPDX-License-Identifier: GPL-2.0
/*
 * What NVIDIA's driver needs to take a GPU for one: an interrupt line, and BAR 0
 * on memory that reads as the registers which name the chip. Past that the
 * driver starts the GPU's firmware, and there is nobody to answer it.
 */
#include <linux/io.h>
#include <linux/module.h>
#include "fakepci.h"

static uint irq;
module_param(irq, uint, 0444);
MODULE_PARM_DESC(irq, "interrupt line of the GPUs; 0: none");
ulong registers;
module_param(registers, ulong, 0444);
MODULE_PARM_DESC(registers, "address of 256 MiB of memory that the kernel does not use, for BAR 0");

/* NV_PMC_BOOT_0 and NV_PMC_BOOT_42 (dev_boot.h of NVIDIA's open modules) as an AD102 has them. */
enum { PMC_BOOT_0 = 0x000, PMC_BOOT_42 = 0xa00, AD102_BOOT_0 = 0x192000a1, AD102_BOOT_42 = 0x192a1000 };

static void name_chip(struct pci_dev *gpu)
{
	u8 *bar0 = memremap(pci_resource_start(gpu, 0), PAGE_SIZE, MEMREMAP_WB);

	if (!bar0)
		return;
	put_unaligned_le32(AD102_BOOT_0, bar0 + PMC_BOOT_0);
	put_unaligned_le32(AD102_BOOT_42, bar0 + PMC_BOOT_42);
	memunmap(bar0);
}

void registers_fill(int domain)
{
	struct pci_dev *d = NULL;

	while ((d = pci_get_device(PCI_VENDOR_ID_NVIDIA, PCI_ANY_ID, d))) {
		if (pci_domain_nr(d->bus) != domain || d->class >> 16 != PCI_BASE_CLASS_DISPLAY)
			continue;
		d->irq = irq;
		if (registers && pci_resource_start(d, 0))
			name_chip(d);
	}
}
