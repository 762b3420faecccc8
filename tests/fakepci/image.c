// SPDX-License-Identifier: GPL-2.0
/*
 * A function's configuration space at power-on: header, BARs, and the PCIe,
 * AER, ACS and Resizable BAR capabilities, each with the bits that a write may
 * change. Register layouts: include/uapi/linux/pci_regs.h.
 */
#include <linux/sizes.h>
#include "fakepci.h"

#define MEMORY_64_PREFETCHABLE \
	(PCI_BASE_ADDRESS_MEM_TYPE_64 | PCI_BASE_ADDRESS_MEM_PREFETCH)

static void put16(u8 *bytes, int at, u16 v) { put_unaligned_le16(v, bytes + at); }
static void put32(u8 *bytes, int at, u32 v) { put_unaligned_le32(v, bytes + at); }

/* The address bits above the size are writable; the flags below are not. */
static void bar(struct image *m, int index, u64 size, u32 flags)
{
	int at = PCI_BASE_ADDRESS_0 + 4 * index;
	u64 mask = ~(size - 1), addr = get_unaligned_le32(m->value + at);
	bool wide = flags & PCI_BASE_ADDRESS_MEM_TYPE_64;

	if (wide)
		addr |= (u64)get_unaligned_le32(m->value + at + 4) << 32;
	addr &= mask & ~0xfULL;
	put32(m->writable, at, mask & ~0xfULL);
	put32(m->value, at, (u32)addr | flags);
	if (wide) {
		put32(m->writable, at + 4, mask >> 32);
		put32(m->value, at + 4, addr >> 32);
	}
}

void image_size_bar1(struct node *n, int size)
{
	bar(&n->now, 1, (u64)SZ_1M << size, MEMORY_64_PREFETCHABLE);
}

static void header(struct image *m, const struct shape *s)
{
	put32(m->value, PCI_VENDOR_ID, s->id);
	put32(m->value, PCI_CLASS_REVISION, s->class << 8 | 0xa1);
	put16(m->value, PCI_STATUS, PCI_STATUS_CAP_LIST);
	m->clears[PCI_STATUS + 1] = 0xf9;
	put16(m->writable, PCI_COMMAND, 0x0547);
	m->writable[PCI_CACHE_LINE_SIZE] = 0xff;
	m->writable[PCI_INTERRUPT_LINE] = 0xff;
	m->value[PCI_CAPABILITY_LIST] = CAP_PCIE;
	if (s->multifunction)
		m->value[PCI_HEADER_TYPE] = PCI_HEADER_TYPE_MFD;
}

static void port_header(struct image *m)
{
	m->value[PCI_HEADER_TYPE] |= PCI_HEADER_TYPE_BRIDGE;
	memset(m->writable + PCI_PRIMARY_BUS, 0xff, 3);
	put32(m->writable, PCI_MEMORY_BASE, 0xfff0fff0);
	put32(m->value, PCI_MEMORY_BASE, 0x0000fff0);		/* closed: base above limit */
	put32(m->writable, PCI_PREF_MEMORY_BASE, 0xfff0fff0);
	put32(m->value, PCI_PREF_MEMORY_BASE, 0x0001fff1);	/* closed, 64 bits */
	put32(m->writable, PCI_PREF_BASE_UPPER32, ~0);
	put32(m->writable, PCI_PREF_LIMIT_UPPER32, ~0);
	put16(m->writable, PCI_BRIDGE_CONTROL, 0x007f);
	m->clears[PCI_SEC_STATUS + 1] = 0xf9;
}

static int pcie_type(enum kind kind)
{
	switch (kind) {
	case ROOT_PORT: return PCI_EXP_TYPE_ROOT_PORT;
	case UPSTREAM: return PCI_EXP_TYPE_UPSTREAM;
	case DOWNSTREAM: return PCI_EXP_TYPE_DOWNSTREAM;
	default: return PCI_EXP_TYPE_ENDPOINT;
	}
}

static void pcie(struct image *m, const struct shape *s, int port_number)
{
	bool below = s->kind == ROOT_PORT || s->kind == DOWNSTREAM;	/* has a link below it */
	u8 *v = m->value + CAP_PCIE, *w = m->writable + CAP_PCIE;

	v[0] = PCI_CAP_ID_EXP;
	put16(v, PCI_EXP_FLAGS, 2 | pcie_type(s->kind) << 4 | (below ? PCI_EXP_FLAGS_SLOT : 0));
	put32(v, PCI_EXP_DEVCAP, PCI_EXP_DEVCAP_RBER | 1 |	/* 256-byte payload */
	      (s->kind == GPU ? PCI_EXP_DEVCAP_FLR : 0));
	put16(v, PCI_EXP_DEVCTL, 0x2810);
	put16(w, PCI_EXP_DEVCTL, 0x7fff);
	m->clears[CAP_PCIE + PCI_EXP_DEVSTA] = 0x0f;
	put32(v, PCI_EXP_LNKCAP, PCI_EXP_LNKCAP_SLS_16_0GB | 16 << 4 |
	      (below ? PCI_EXP_LNKCAP_DLLLARC : 0) | (below ? port_number : 0) << 24);
	put16(w, PCI_EXP_LNKCTL, 0x0fcb);
	put16(v, PCI_EXP_LNKSTA, s->speed | s->width << 4 | (below ? PCI_EXP_LNKSTA_DLLLA : 0));
	if (below) {
		put32(v, PCI_EXP_SLTCAP, (u32)port_number << 19);
		put16(v, PCI_EXP_SLTSTA, PCI_EXP_SLTSTA_PDS);
		put16(w, PCI_EXP_SLTCTL, 0x1fff);
	}
	if (s->kind == ROOT_PORT)
		put16(w, PCI_EXP_RTCTL, 0x1f);
	put16(w, PCI_EXP_DEVCTL2, 0xffff);
	put32(v, PCI_EXP_LNKCAP2, 0x1e);				/* 2.5 to 16 GT/s */
	put16(v, PCI_EXP_LNKCTL2, PCI_EXP_LNKCTL2_TLS_16_0GT);
	put16(w, PCI_EXP_LNKCTL2, 0x0f);
}

static void aer(struct image *m)
{
	put32(m->value, CAP_AER, 2 << 16 | PCI_EXT_CAP_ID_ERR);
	put32(m->writable, CAP_AER + PCI_ERR_UNCOR_MASK, 0x07fff030);
	put32(m->writable, CAP_AER + PCI_ERR_UNCOR_SEVER, 0x07fff030);
	put32(m->writable, CAP_AER + PCI_ERR_COR_MASK, 0x0000f1c1);
	put32(m->clears, CAP_AER + PCI_ERR_UNCOR_STATUS, ~0);
	put32(m->clears, CAP_AER + PCI_ERR_COR_STATUS, ~0);
}

/* Appends an extended capability to the chain that starts at AER. */
static void extend(struct image *m, int at, int id)
{
	put32(m->value, CAP_AER, get_unaligned_le32(m->value + CAP_AER) | at << 20);
	put32(m->value, at, 1 << 16 | id);
}

static void acs(struct image *m, const struct shape *s)
{
	extend(m, CAP_ACS, PCI_EXT_CAP_ID_ACS);
	put16(m->value, CAP_ACS + PCI_ACS_CAP, s->acs_cap);
	put16(m->value, CAP_ACS + PCI_ACS_CTRL, s->acs_ctrl);
	put16(m->writable, CAP_ACS + PCI_ACS_CTRL, s->acs_cap);
}

static void rebar(struct image *m, const struct shape *s)
{
	extend(m, CAP_REBAR, PCI_EXT_CAP_ID_REBAR);
	put32(m->value, CAP_REBAR + PCI_REBAR_CAP, s->rebar_sizes << 4);
	put32(m->value, CAP_REBAR + PCI_REBAR_CTRL, 1 | 1 << 5 | s->bar1_size << 8);
}

static void endpoint_bars(struct node *n)
{
	switch (n->shape.kind) {
	case GPU:	/* registers, memory aperture, and a third of 32 MiB */
		bar(&n->now, 0, SZ_16M, 0);
		image_size_bar1(n, n->shape.bar1_size);
		bar(&n->now, 3, SZ_32M, MEMORY_64_PREFETCHABLE);
		break;
	case AUDIO:
		bar(&n->now, 0, SZ_16K, 0);
		break;
	default:	/* a NIC's registers */
		bar(&n->now, 0, SZ_32M, MEMORY_64_PREFETCHABLE);
	}
	put32(n->now.value, PCI_SUBSYSTEM_VENDOR_ID, 0x88900000 | (n->shape.id & 0xffff));
}

void image_build(struct node *n, int port_number)
{
	struct image *m = &n->now;

	header(m, &n->shape);
	if (is_port(n))
		port_header(m);
	else
		endpoint_bars(n);
	pcie(m, &n->shape, port_number);
	aer(m);
	if (n->shape.acs_cap)
		acs(m, &n->shape);
	if (n->shape.rebar_sizes)
		rebar(m, &n->shape);
	n->power_on = n->now;
}
