// SPDX-License-Identifier: GPL-2.0
/*
 * Which functions exist: reads the `topo` parameter, a comma list of nodes
 * `kind[:key=value]...`. A node's number is its index in the list, from 0;
 * `parent=` refers to it. Kinds: rp up dn gpu audio nic. Keys:
 *   parent dev fn id    position and PCI id (device << 16 | vendor)
 *   acs fw              ACS Capability; ACS Control as the firmware left it
 *   sizes cur           Resizable BAR of BAR 1: supported sizes, current size
 *   speed width         link as trained: generation, lanes
 *   fault               small-config acs-readonly acs-revert rebar-readonly dead
 *   revert              acs-revert: the first read after a write that shows it (from 1)
 */
#include <linux/slab.h>
#include "fakepci.h"

struct node *nodes[MAX_NODES];
int node_count;

static const struct {
	const char *word;
	struct shape shape;
} kinds[] = {
	{ "rp", { .kind = ROOT_PORT, .id = 0x14831022, .class = 0x060400, .acs_cap = 0x5f } },
	{ "up", { .kind = UPSTREAM, .id = 0x403611f8, .class = 0x060400 } },
	{ "dn", { .kind = DOWNSTREAM, .id = 0x403611f8, .class = 0x060400, .acs_cap = 0x5f } },
	{ "gpu", { .kind = GPU, .id = 0x268410de, .class = 0x030000 } },
	{ "audio", { .kind = AUDIO, .id = 0x22ba10de, .class = 0x040300 } },
	{ "nic", { .kind = NIC, .id = 0x102115b3, .class = 0x020000 } },
};

static int set(struct shape *s, const char *key, const char *text)
{
	long value;

	if (!strcmp(key, "fault")) {
		int fault = fault_by_name(text);

		if (fault < 0)
			return fault;
		s->faults |= fault;
		return 0;
	}
	if (kstrtol(text, 0, &value))
		return -EINVAL;
	if (!strcmp(key, "parent")) s->parent = value;
	else if (!strcmp(key, "dev")) s->dev = value;
	else if (!strcmp(key, "fn")) s->fn = value;
	else if (!strcmp(key, "id")) s->id = value;
	else if (!strcmp(key, "acs")) s->acs_cap = value;
	else if (!strcmp(key, "fw")) s->acs_ctrl = value;
	else if (!strcmp(key, "sizes")) s->rebar_sizes = value;
	else if (!strcmp(key, "cur")) s->bar1_size = value;
	else if (!strcmp(key, "speed")) s->speed = value;
	else if (!strcmp(key, "width")) s->width = value;
	else if (!strcmp(key, "revert")) s->revert_read = value;
	else return -EINVAL;
	return 0;
}

static int parse_shape(char *text, struct shape *s)
{
	char *kind = strsep(&text, ":"), *pair;
	int i, ret;

	for (i = 0; i < ARRAY_SIZE(kinds); i++)
		if (!strcmp(kind, kinds[i].word))
			break;
	if (i == ARRAY_SIZE(kinds))
		return -EINVAL;
	*s = kinds[i].shape;
	s->parent = -1;
	s->bar1_size = 8;
	s->speed = 4;
	s->width = 16;
	s->revert_read = 2;
	while ((pair = strsep(&text, ":"))) {
		char *key = strsep(&pair, "=");

		ret = pair ? set(s, key, pair) : -EINVAL;
		if (ret)
			return ret;
	}
	if ((s->kind == ROOT_PORT) != (s->parent < 0) || s->parent >= node_count)
		return -EINVAL;
	return s->parent >= 0 && !is_port(nodes[s->parent]) ? -EINVAL : 0;
}

/* With a second function, all functions of a device are multi-function ones. */
static void mark_multifunction(const struct shape *s)
{
	for (int i = 0; s->fn && i < node_count; i++)
		if (nodes[i]->shape.parent == s->parent && nodes[i]->shape.dev == s->dev)
			nodes[i]->shape.multifunction = true;
}

static int add(char *text)
{
	struct node *n;
	int ret;

	if (node_count == MAX_NODES)
		return -ENOSPC;
	n = kvzalloc(sizeof(*n), GFP_KERNEL);
	if (!n)
		return -ENOMEM;
	ret = parse_shape(text, &n->shape);
	if (ret) {
		kvfree(n);
		return ret;
	}
	nodes[node_count++] = n;
	mark_multifunction(&n->shape);
	return 0;
}

int topology_build(const char *text)
{
	char *copy = kstrdup(text, GFP_KERNEL), *rest = copy, *one;
	int ret = copy ? 0 : -ENOMEM;

	while (!ret && (one = strsep(&rest, ",")))
		ret = add(one);
	if (ret)
		pr_err("fakepci: bad topology at node %d: %s\n", node_count, text);
	for (int i = 0; !ret && i < node_count; i++)
		image_build(nodes[i], i + 1);
	kfree(copy);
	return ret;
}

void topology_free(void)
{
	while (node_count)
		kvfree(nodes[--node_count]);
}
