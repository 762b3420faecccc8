// SPDX-License-Identifier: GPL-2.0
/*
 * What NVIDIA's driver needs to recognise a GPU: an interrupt line, and BAR 0 on
 * memory with the registers that identify the chip. After that the driver starts
 * the GPU's firmware, which does not exist here.
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

/*
 * NV_PMC_BOOT_0 and NV_PMC_BOOT_42 (nv_ref.h of NVIDIA's open modules) of revision A1: architecture
 * and implementation in bits 28:20 of the one and 29:20 of the other.
 */
enum { PMC_BOOT_0 = 0x000, PMC_BOOT_42 = 0xa00, REVISION_0 = 0xa1, REVISION_42 = 0xa1000 };

/* The largest chip of each generation, by the first PCI device id of its boards. */
static const struct {
	u16 first;
	u32 chip;	/* architecture << 4 | implementation */
} chips[] = { { 0x2900, 0x1b2 /* GB202 */ }, { 0x2600, 0x192 /* AD102 */ }, { 0x2200, 0x172 /* GA102 */ } };

static void name_chip(struct pci_dev *gpu)
{
	u8 *bar0 = memremap(pci_resource_start(gpu, 0), PAGE_SIZE, MEMREMAP_WB);
	int i = 0;

	if (!bar0)
		return;
	while (i < ARRAY_SIZE(chips) - 1 && gpu->device < chips[i].first)
		i++;
	put_unaligned_le32(chips[i].chip << 20 | REVISION_0, bar0 + PMC_BOOT_0);
	put_unaligned_le32(chips[i].chip << 20 | REVISION_42, bar0 + PMC_BOOT_42);
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
