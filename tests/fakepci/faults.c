// SPDX-License-Identifier: GPL-2.0
/*
 * Where a broken function behaves differently. ops.c calls this; a function
 * without faults behaves normally.
 */
#include "fakepci.h"

/* The bits that firmware restores silently: SV RR CR UF. */
#define ACS_RESTORED (PCI_ACS_SV | PCI_ACS_RR | PCI_ACS_CR | PCI_ACS_UF)

static const struct {
	const char *name;
	enum fault fault;
} names[] = {
	{ "small-config", FAULT_SMALL_CONFIG },
	{ "acs-readonly", FAULT_ACS_READONLY },
	{ "acs-revert", FAULT_ACS_REVERT },
	{ "rebar-readonly", FAULT_REBAR_READONLY },
	{ "dead", FAULT_DEAD },
};

int fault_by_name(const char *name)
{
	for (int i = 0; i < ARRAY_SIZE(names); i++)
		if (!strcmp(name, names[i].name))
			return names[i].fault;
	return -EINVAL;
}

static bool has(const struct node *n, enum fault fault)
{
	return n->shape.faults & fault;
}

static bool on_acs_ctrl(const struct node *n, int where, int size)
{
	return n->shape.acs_cap && touches(where, size, CAP_ACS + PCI_ACS_CTRL, 2);
}

/* True if nothing responds there: reads return all ones, writes are lost. */
bool fault_hides(const struct node *n, int where)
{
	if (has(n, FAULT_DEAD) && enumerated)
		return true;
	return has(n, FAULT_SMALL_CONFIG) && where >= PCI_CFG_SPACE_SIZE;
}

u32 fault_on_read(struct node *n, int where, int size, u32 value)
{
	u8 *ctrl = n->now.value + CAP_ACS + PCI_ACS_CTRL;

	if (has(n, FAULT_ACS_REVERT) && on_acs_ctrl(n, where, size) &&
	    ++n->acs_reads == n->shape.revert_read) {
		put_unaligned_le16(ACS_RESTORED, ctrl);
		return size == 4 ? (value & 0xffff) | ACS_RESTORED << 16 : ACS_RESTORED;
	}
	return value;
}

bool fault_drops_write(struct node *n, int where, int size)
{
	if (on_acs_ctrl(n, where, size)) {
		n->acs_reads = 0;
		return has(n, FAULT_ACS_READONLY);
	}
	return has(n, FAULT_REBAR_READONLY) &&
	       touches(where, size, CAP_REBAR + PCI_REBAR_CTRL, 4);
}
