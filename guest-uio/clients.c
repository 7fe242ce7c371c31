// SPDX-License-Identifier: GPL-2.0
/*
 * clients.c: the two tables in the region that the guest's side writes. A
 * slot says whether its channel is open; a grant, how many pages of its
 * granule are mapped. The host acts on both, and writes its own words beside
 * them: `reclaimed` and `owner`.
 */
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "barcuda.h"

/* ---- slots ---- */

static bool slot_is_open(struct barcuda_slot *s)
{
	return READ_ONCE(s->opened) != READ_ONCE(s->closed);
}

static bool slot_is_free(struct barcuda_slot *s)
{
	return !slot_is_open(s) &&
	       smp_load_acquire(&s->reclaimed) == READ_ONCE(s->closed);
}

/* -EAGAIN: the host will soon reclaim one; -ENOSPC: all are in use. */
static int find_slot(struct region *r, u32 *slot)
{
	int err = -ENOSPC;
	u32 i;

	for (i = 0; i < r->header.channel_count; i++) {
		struct barcuda_slot *s = slot_at(r, i);

		if (!r->clients[i] && slot_is_free(s)) {
			*slot = i;
			return 0;
		}
		if (!slot_is_open(s))
			err = -EAGAIN;
	}
	return err;
}

struct client *client_of(struct region *r, const struct file *file)
{
	u32 i;

	lockdep_assert_held(&r->lock);
	for (i = 0; i < r->header.channel_count; i++)
		if (r->clients[i] && r->clients[i]->file == file)
			return r->clients[i];
	return NULL;
}

/* A new client with one mapping: its channel, which the host left clean. */
struct client *client_open(struct region *r, const struct file *file)
{
	struct client *c;
	struct barcuda_slot *s;
	u32 slot;
	int err;

	lockdep_assert_held(&r->lock);
	if (client_of(r, file))
		return ERR_PTR(-EBUSY);
	err = find_slot(r, &slot);
	if (err)
		return ERR_PTR(err);
	c = kzalloc(sizeof(*c), GFP_KERNEL_ACCOUNT);
	if (!c)
		return ERR_PTR(-ENOMEM);
	kref_init(&c->ref);
	mutex_init(&c->lock);
	INIT_LIST_HEAD(&c->snapshots);
	region_get(r);
	c->region = r;
	c->file = file;
	c->mm = current->mm;
	c->slot = slot;
	c->mappings = 1;
	r->clients[slot] = c;

	s = slot_at(r, slot);
	WRITE_ONCE(s->pid, 0);
	WRITE_ONCE(s->start_time, 0);
	smp_store_release(&s->opened, READ_ONCE(s->opened) + 1);
	region_ring(r);
	return c;
}

/* The client's process is gone, or its device is: the host may clean up. */
void client_close(struct client *c)
{
	struct region *r = c->region;
	struct barcuda_slot *s = slot_at(r, c->slot);

	lockdep_assert_held(&r->lock);
	if (r->clients[c->slot] != c)
		return;
	r->clients[c->slot] = NULL;
	smp_store_release(&s->closed, READ_ONCE(s->opened));
	region_ring(r);
}

static void client_free(struct kref *ref)
{
	struct client *c =
		container_of(ref, struct client, ref);

	region_put(c->region);
	kfree(c);
}

void client_put(struct client *c)
{
	kref_put(&c->ref, client_free);
}

void client_map(struct client *c)
{
	mutex_lock(&c->region->lock);
	c->mappings++;
	mutex_unlock(&c->region->lock);
	kref_get(&c->ref);
}

void client_unmap(struct client *c)
{
	mutex_lock(&c->region->lock);
	if (!--c->mappings)
		client_close(c);
	mutex_unlock(&c->region->lock);
	client_put(c);
}

/* ---- grants ---- */

/* Pairs with the bridge, which clears `owner` and then looks at `mapped`. */
bool grants_hold(struct client *c, u64 offset, u64 bytes)
{
	struct barcuda_header *h = &c->region->header;
	u64 first = (offset - h->extents_offset) / BARCUDA_GRANULE;
	u64 last = (offset + bytes - 1 - h->extents_offset) / BARCUDA_GRANULE;
	u64 i;

	virt_mb();
	for (i = first; i <= last; i++)
		if (READ_ONCE(grant_at(c->region, i)->owner) != c->slot + 1)
			return false;
	return true;
}

/*
 * What a granule's pages are still used for when no process maps them any
 * more: direct I/O under way, a pipe after vmsplice(). The host must not grant
 * them again, and they must not lose their struct pages. A page of a device
 * has one reference of its own, each use adds one.
 */
static bool granule_in_use(struct region *r, u32 i)
{
	u64 at = r->header.extents_offset + (u64)i * BARCUDA_GRANULE;
	unsigned long pfn = r->pfn + PHYS_PFN(at);
	unsigned long end = pfn + PHYS_PFN(BARCUDA_GRANULE);

	for (; r->paged && pfn < end; pfn++)
		if (page_ref_count(pfn_to_page(pfn)) > 1)
			return true;
	return false;
}

/* No event says when a use ends: look again, and keep the module until then. */
static void hold(struct region *r)
{
	if (r->looking)
		return;
	r->looking = true;
	region_get(r);
	__module_get(THIS_MODULE); /* the mapping that ends still has it */
	queue_delayed_work(barcuda_workqueue, &r->look_again, HZ / 50);
}

/* Tells the host. More than it can be told (many forks) is very many. */
static void publish(struct region *r, u32 i)
{
	struct granule *g = &r->granules[i];

	if (!r->gone)
		smp_store_release(&grant_at(r, i)->mapped,
				  g->mapped ? min_t(u64, g->mapped, U32_MAX) :
					      g->held);
}

void grants_look_again(struct work_struct *work)
{
	struct region *r = container_of(to_delayed_work(work), struct region,
					look_again);
	bool more = false;
	u32 i;

	mutex_lock(&r->lock);
	for (i = 0; i < r->header.granule_count; i++) {
		struct granule *g = &r->granules[i];

		if (!g->held)
			continue;
		g->held = !g->mapped && granule_in_use(r, i);
		more |= g->held;
		publish(r, i);
	}
	r->looking = more;
	mutex_unlock(&r->lock);
	if (more) {
		queue_delayed_work(barcuda_workqueue, &r->look_again, HZ / 50);
		return;
	}
	region_put(r);
	module_put(THIS_MODULE);
}

/* Counts pages, not mappings: then a split changes nothing. */
void grants_count(struct region *r, u64 at, u64 bytes, bool up)
{
	struct barcuda_header *h = &r->header;
	u64 end = at + bytes;

	lockdep_assert_held(&r->lock);
	while (at < end) {
		u64 i = (at - h->extents_offset) / BARCUDA_GRANULE;
		u64 next = min(end, h->extents_offset + (i + 1) * BARCUDA_GRANULE);
		u64 count = (next - at) >> PAGE_SHIFT;
		struct granule *g = &r->granules[i];

		g->mapped += up ? count : -count;
		if (!g->mapped && granule_in_use(r, i)) {
			g->held = true;
			hold(r);
		}
		publish(r, i);
		at = next;
	}
}

void grants_count_vma(struct region *r, struct vm_area_struct *vma, bool up)
{
	mutex_lock(&r->lock);
	grants_count(r, (u64)vma->vm_pgoff << PAGE_SHIFT,
		     vma->vm_end - vma->vm_start, up);
	mutex_unlock(&r->lock);
}

/*
 * For vm_ops->open(): a new VMA in the midst of what is mapped is half of a
 * split. One that stands alone is mremap()'s new place. Its old one is closed
 * later, or, when the move fails, this one is.
 */
void grants_count_moved(struct region *r, struct vm_area_struct *vma)
{
	if (find_vma_intersection(vma->vm_mm, vma->vm_start, vma->vm_end))
		return;
	grants_count_vma(r, vma, true);
}
