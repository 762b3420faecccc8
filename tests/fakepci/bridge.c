// SPDX-License-Identifier: GPL-2.0
/*
 * Makes the domain visible to the kernel: a host bridge with its own domain,
 * bus numbers and address windows, registered when the module loads.
 */
#include <linux/platform_device.h>
#include <linux/sizes.h>
#include "fakepci.h"

static char *topo = "";
module_param(topo, charp, 0444);
MODULE_PARM_DESC(topo, "which functions exist, see topology.c");
static int domain = 1;
module_param(domain, int, 0444);
int root_bus;
module_param_named(bus, root_bus, int, 0444);
MODULE_PARM_DESC(bus, "number of the root bus; domain 0 already has a bus 0");
static ulong window = 96ULL << 30;
module_param(window, ulong, 0444);
MODULE_PARM_DESC(window, "bytes of the 64-bit prefetchable window at 256 GiB");
static bool preserve;
module_param(preserve, bool, 0444);
MODULE_PARM_DESC(preserve, "the firmware forbids moving its resources (_DSM 5)");

bool enumerated;

/*
 * The 32-bit window is at an unused address, and below 4 GiB as seen from the
 * bus; or it is on memory, which then provides the contents of BAR 0.
 */
#define LOW_CPU_ADDRESS 0x3f00000000ULL
#define LOW_BUS_ADDRESS 0xc0000000ULL

static u64 low_address(void)
{
	return registers ? registers : LOW_CPU_ADDRESS;
}

static u64 low_offset(void)
{
	return registers ? 0 : LOW_CPU_ADDRESS - LOW_BUS_ADDRESS;
}

static struct platform_device *parent;
static struct pci_host_bridge *host;
static struct pci_sysdata sysdata;
static struct resource buses, low, high;

static int claim_windows(void)
{
	int ret;

	buses = (struct resource)DEFINE_RES_NAMED(root_bus, 0x40, "fakepci bus", IORESOURCE_BUS);
	low = (struct resource)DEFINE_RES_NAMED(low_address(), SZ_256M, "fakepci low", IORESOURCE_MEM);
	high = (struct resource)DEFINE_RES_NAMED(256ULL << 30, window, "fakepci high",
		IORESOURCE_MEM | IORESOURCE_MEM_64 | IORESOURCE_PREFETCH);
	ret = insert_resource(&iomem_resource, &low);
	if (ret)
		return ret;
	ret = insert_resource(&iomem_resource, &high);
	if (ret)
		remove_resource(&low);
	return ret;
}

static void release_windows(void)
{
	remove_resource(&high);
	remove_resource(&low);
}

static int probe(void)
{
	int ret;

	host = pci_alloc_host_bridge(0);
	if (!host)
		return -ENOMEM;
	pci_add_resource(&host->windows, &buses);
	pci_add_resource_offset(&host->windows, &low, low_offset());
	pci_add_resource(&host->windows, &high);
	sysdata.domain = domain;
	sysdata.node = NUMA_NO_NODE;
	host->dev.parent = &parent->dev;
	host->sysdata = &sysdata;
	host->ops = &fakepci_ops;
	host->busnr = root_bus;
	ret = pci_host_probe(host);
	if (ret) {
		pci_free_host_bridge(host);
		return ret;
	}
	host->preserve_config = preserve;	/* only now: registration sets it itself */
	enumerated = true;
	registers_fill(domain);
	return 0;
}

static int __init fakepci_init(void)
{
	int ret = topology_build(topo);

	if (ret)
		goto no_topology;
	parent = platform_device_register_simple("fakepci", -1, NULL, 0);
	ret = PTR_ERR_OR_ZERO(parent);
	if (ret)
		goto no_topology;
	ret = claim_windows();
	if (ret)
		goto no_windows;
	ret = driver_register_stub();
	if (ret)
		goto no_driver;
	ret = probe();
	if (!ret)
		return 0;
	driver_unregister_stub();
no_driver:
	release_windows();
no_windows:
	platform_device_unregister(parent);
no_topology:
	topology_free();
	return ret;
}
module_init(fakepci_init);

static void __exit fakepci_exit(void)
{
	struct pci_bus *bus = host->bus;

	pci_lock_rescan_remove();
	pci_stop_root_bus(bus);
	pci_remove_root_bus(bus);
	pci_unlock_rescan_remove();
	driver_unregister_stub();
	release_windows();
	platform_device_unregister(parent);
	topology_free();
}
module_exit(fakepci_exit);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("PCI host bridge in memory, for tests");
