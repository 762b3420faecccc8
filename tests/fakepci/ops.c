// SPDX-License-Identifier: GPL-2.0
/*
 * The effect of reads and writes of configuration space, one at a time under
 * a lock: masks, write-one-to-clear bits, Resizable BAR, and secondary bus reset.
 */
#include <linux/bitfield.h>
#include <linux/spinlock.h>
#include "fakepci.h"

static DEFINE_RAW_SPINLOCK(lock);

/* Nothing is reachable through a port without a bus number. */
static int bus_of(const struct node *n)
{
	if (n->shape.parent < 0)
		return root_bus;
	return nodes[n->shape.parent]->now.value[PCI_SECONDARY_BUS] ?: -1;
}

static struct node *find(int bus, unsigned int devfn)
{
	for (int i = 0; i < node_count; i++) {
		struct node *n = nodes[i];

		if (bus_of(n) == bus && PCI_DEVFN(n->shape.dev, n->shape.fn) == devfn)
			return n;
	}
	return NULL;
}

static u32 load(const u8 *bytes, int size)
{
	if (size == 1)
		return *bytes;
	return size == 2 ? get_unaligned_le16(bytes) : get_unaligned_le32(bytes);
}

static int ops_read(struct pci_bus *bus, unsigned int devfn, int where, int size, u32 *value)
{
	unsigned long flags;
	struct node *n;

	*value = ~0;
	raw_spin_lock_irqsave(&lock, flags);
	n = find(bus->number, devfn);
	if (n && !fault_hides(n, where))
		*value = fault_on_read(n, where, size, load(n->now.value + where, size));
	raw_spin_unlock_irqrestore(&lock, flags);
	return n ? PCIBIOS_SUCCESSFUL : PCIBIOS_DEVICE_NOT_FOUND;
}

/* Resets everything below a port to its state at power-on. */
static void reset_below(const struct node *port)
{
	for (int i = 0; i < node_count; i++) {
		struct node *n = nodes[i];

		if (n->shape.parent < 0 || nodes[n->shape.parent] != port)
			continue;
		n->now = n->power_on;
		reset_below(n);
	}
}

/* A supported size takes effect at once: the BAR's address bits change. */
static void write_rebar(struct node *n, int where, u32 value)
{
	int shift = (where & 3) * 8;
	int size = FIELD_GET(PCI_REBAR_CTRL_BAR_SIZE, value << shift);

	if (shift > 8 || size > 31 || !(n->shape.rebar_sizes & BIT(size)))
		return;
	n->now.value[CAP_REBAR + PCI_REBAR_CTRL + 1] = size;
	image_size_bar1(n, size);
}

static void write_masked(struct image *m, int where, int size, u32 value)
{
	for (int i = where; i < where + size; i++, value >>= 8) {
		u8 mask = m->writable[i];

		m->value[i] = ((m->value[i] & ~mask) | (value & mask)) & ~(value & m->clears[i]);
	}
}

static bool in_reset(const struct node *n)
{
	return is_port(n) && n->now.value[PCI_BRIDGE_CONTROL] & PCI_BRIDGE_CTL_BUS_RESET;
}

static void write_node(struct node *n, int where, int size, u32 value)
{
	bool was_in_reset = in_reset(n);

	if (fault_hides(n, where) || fault_drops_write(n, where, size))
		return;
	if (n->shape.rebar_sizes && touches(where, size, CAP_REBAR + PCI_REBAR_CTRL, 4))
		write_rebar(n, where, value);
	else
		write_masked(&n->now, where, size, value);
	if (in_reset(n) && !was_in_reset)
		reset_below(n);
}

static int ops_write(struct pci_bus *bus, unsigned int devfn, int where, int size, u32 value)
{
	unsigned long flags;
	struct node *n;

	raw_spin_lock_irqsave(&lock, flags);
	n = find(bus->number, devfn);
	if (n)
		write_node(n, where, size, value);
	raw_spin_unlock_irqrestore(&lock, flags);
	return n ? PCIBIOS_SUCCESSFUL : PCIBIOS_DEVICE_NOT_FOUND;
}

struct pci_ops fakepci_ops = { .read = ops_read, .write = ops_write };
