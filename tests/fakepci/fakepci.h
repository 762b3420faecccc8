/* SPDX-License-Identifier: GPL-2.0 */
/*
 * fakepci: a PCI host bridge whose configuration space is in kernel memory. The
 * real kernel enumerates, sizes and resets the functions behind it; no BAR
 * decodes anything. The files:
 *
 *   topology.c  which functions exist (the `topo` parameter)
 *   image.c     a function's configuration space at power-on
 *   ops.c       what a read and a write do to it
 *   faults.c    how a broken function behaves differently
 *   registers.c the registers that NVIDIA's driver reads before it starts a GPU
 *   bridge.c    registers all this with the kernel
 *   driver.c    a driver that binds functions
 */
#ifndef FAKEPCI_H
#define FAKEPCI_H

#include <linux/module.h>
#include <linux/pci.h>
#include <linux/unaligned.h>

#define CONFIG_BYTES PCI_CFG_SPACE_EXP_SIZE
#define MAX_NODES 48

/* Ports first: everything up to DOWNSTREAM is a bridge. */
enum kind { ROOT_PORT, UPSTREAM, DOWNSTREAM, GPU, AUDIO, NIC };

/* Where image.c puts the capabilities. */
enum { CAP_PCIE = 0x60, CAP_AER = 0x100, CAP_ACS = 0x148, CAP_REBAR = 0x200 };

enum fault {
	FAULT_SMALL_CONFIG = BIT(0),	/* 256 bytes, as without ECAM */
	FAULT_ACS_READONLY = BIT(1),	/* ACS Control ignores writes */
	FAULT_ACS_REVERT = BIT(2),	/* ACS Control reverts silently after a write */
	FAULT_REBAR_READONLY = BIT(3),	/* Resizable BAR Control ignores writes */
	FAULT_DEAD = BIT(4),		/* fell off the bus after enumeration: all ones */
};

/* One function as described by the topology. */
struct shape {
	enum kind kind;
	int parent;		/* index of the port above; -1: on the root bus */
	u8 dev, fn;
	u32 id, class;		/* device << 16 | vendor; 24-bit class code */
	u16 acs_cap, acs_ctrl;	/* acs_cap 0: no such capability */
	u32 rebar_sizes;	/* bit n: 2^n MiB; 0: no such capability */
	u8 bar1_size;		/* n of the size at power-on, 2^n MiB */
	u8 speed, width;	/* link as trained; the maximum of every link is 16 GT/s x16 */
	bool multifunction;
	u32 faults;		/* enum fault */
	u32 revert_read;	/* FAULT_ACS_REVERT: the first read after a write that shows it */
};

struct image {
	u8 value[CONFIG_BYTES];
	u8 writable[CONFIG_BYTES];	/* 1: a write changes this bit */
	u8 clears[CONFIG_BYTES];	/* 1: writing 1 clears this bit */
};

struct node {
	struct shape shape;
	struct image now, power_on;
	u32 acs_reads;			/* since the last write to ACS Control */
};

extern struct node *nodes[MAX_NODES];
extern int node_count;
extern int root_bus;

/* Set at the end of enumeration; functions with FAULT_DEAD die then. */
extern bool enumerated;

static inline bool is_port(const struct node *n)
{
	return n->shape.kind <= DOWNSTREAM;
}

static inline bool touches(int where, int size, int reg, int bytes)
{
	return where < reg + bytes && reg < where + size;
}

int topology_build(const char *text);
void topology_free(void);

void image_build(struct node *n, int port_number);
void image_size_bar1(struct node *n, int size);

u32 fault_on_read(struct node *n, int where, int size, u32 value);
bool fault_hides(const struct node *n, int where);
bool fault_drops_write(struct node *n, int where, int size);
int fault_by_name(const char *name);

/* Physical address of the memory for the GPUs' BAR 0; 0: none, reads find no device. */
extern ulong registers;
void registers_fill(int domain);

extern struct pci_ops fakepci_ops;

int driver_register_stub(void);
void driver_unregister_stub(void);

#endif
