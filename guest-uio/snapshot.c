// SPDX-License-Identifier: GPL-2.0
/*
 * snapshot.c: fork. The owner of the extents keeps the region's pages, for
 * the host's GPU writes there; its child sees them as they were at the fork.
 *
 * At the fork the child's mapping becomes a private mapping of a file that
 * never changes, the snapshot: the kernel itself copies what the child
 * writes, and does the same for the child's children. What is left to do is
 * that the file does not change: before the owner first writes a page after
 * a fork, the page is copied, once, for all snapshots that lack it. Until
 * then the child reads the region's own page. So a fork costs no copying at
 * all, only the owner's page table entries.
 *
 *   owner                                   child
 *   fork: its entries are removed           its mapping becomes private
 *   snapshot_keep() [lock of the page]      snapshot_fault() [lock of the page]
 *     store a copy for each snapshot          the copy, if there is one;
 *     remove children's entries               else the region's page
 *   write
 *
 * The child's mapping counts in grant.mapped like any other. So the owner may
 * exit first: its channel is closed, and the host leaves the granules alone
 * until the last child has gone.
 *
 * Only the owner's own writes are seen coming. What the host writes (a copy
 * from the GPU), or direct I/O that was under way at the fork, shows in the
 * children if the page was not yet kept; the library can have it kept by
 * writing to it first (MADV_POPULATE_WRITE, or an atomic or of 0 a page).
 */
#include <linux/pagemap.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "barcuda.h"

struct snapshot {
	struct kref ref;	/* VMAs of the child and its descendants */
	struct client *client;
	struct mm_struct *mm;	/* the child's, held so that no other is taken for it */
	struct list_head list;	/* in client->snapshots, newest first */
	struct xarray pages;	/* by region page; only ever added to */
};

static void snapshot_free(struct kref *ref)
{
	struct snapshot *s = container_of(ref, struct snapshot, ref);
	struct client *c = s->client;
	struct page *page;
	unsigned long i;

	mutex_lock(&c->lock);
	list_del_init_careful(&s->list);
	mutex_unlock(&c->lock);
	xa_for_each(&s->pages, i, page)
		put_page(page);
	xa_destroy(&s->pages);
	mmdrop(s->mm);
	client_put(c);
	kfree(s);
}

/* ---- the owner's side ---- */

static int keep_locked(struct client *c, pgoff_t pgoff)
{
	struct page *copy = NULL;
	struct snapshot *s;
	int err = 0;

	list_for_each_entry(s, &c->snapshots, list) {
		if (xa_load(&s->pages, pgoff))
			continue;
		if (!copy) {
			copy = alloc_page(GFP_USER | __GFP_ACCOUNT);
			if (!copy)
				return -ENOMEM;
			copy_page(page_address(copy),
				  region_at(c->region, (u64)pgoff << PAGE_SHIFT));
		}
		err = xa_err(xa_store(&s->pages, pgoff, copy, GFP_KERNEL_ACCOUNT));
		if (err)
			break;
		get_page(copy);
	}
	if (copy)
		put_page(copy);
	return err;
}

/* The owner is about to write this page of its mapping. */
int snapshot_keep(struct client *c, struct vm_area_struct *vma,
		  pgoff_t pgoff)
{
	struct page *page = NULL;
	int err;

	if (c->region->paged) {
		page = region_page(c->region, pgoff);
		lock_page(page);
	}
	mutex_lock(&c->lock);
	err = keep_locked(c, pgoff);
	mutex_unlock(&c->lock);
	if (page) {
		/* Children's entries; the owner's, where they count, as well. */
		if (!err && compat_mapcount(page))
			unmap_mapping_range(vma->vm_file->f_mapping,
					    (loff_t)pgoff << PAGE_SHIFT,
					    PAGE_SIZE, 0);
		unlock_page(page);
	}
	return err;
}

/* ---- the child's side ---- */

static struct page *kept(struct snapshot *s, pgoff_t pgoff)
{
	return xa_load(&s->pages, pgoff);
}

/*
 * The region's own page, locked until the kernel has mapped or copied it: so
 * long the owner waits in snapshot_keep(). Or the copy.
 */
static vm_fault_t give_paged(struct snapshot *s, struct vm_fault *vmf)
{
	struct page *page = region_page(s->client->region, vmf->pgoff);
	struct page *copy;

	lock_page(page);
	copy = kept(s, vmf->pgoff);
	if (copy) {
		unlock_page(page);
		get_page(copy);
		vmf->page = copy;
		return 0;
	}
	get_page(page);
	vmf->page = page;
	return VM_FAULT_LOCKED;
}

/* Where the region's own page cannot be given: always a copy. */
static vm_fault_t give_copy(struct snapshot *s, struct vm_fault *vmf)
{
	int err;

	mutex_lock(&s->client->lock);
	err = keep_locked(s->client, vmf->pgoff);
	mutex_unlock(&s->client->lock);
	if (err)
		return VM_FAULT_OOM;
	vmf->page = kept(s, vmf->pgoff);
	get_page(vmf->page);
	return 0;
}

static vm_fault_t snapshot_fault(struct vm_fault *vmf)
{
	struct snapshot *s = vmf->vma->vm_private_data;
	int idx = srcu_read_lock(&region_faults);
	vm_fault_t ret = VM_FAULT_SIGBUS;

	if (!READ_ONCE(s->client->region->gone))
		ret = COMPAT_CHILDREN_MAP_PAGES && s->client->region->paged ?
			      give_paged(s, vmf) :
			      give_copy(s, vmf);
	srcu_read_unlock(&region_faults, idx);
	return ret;
}

/* A split (same pages), or a fork of the child: the kernel copies its pages. */
static void snapshot_open(struct vm_area_struct *vma)
{
	struct snapshot *s = vma->vm_private_data;

	region_map_again(s->client->region, vma);
	kref_get(&s->ref);
	if (vma->vm_mm != current->mm)
		grants_count_vma(s->client->region, vma, true);
	else
		grants_count_moved(s->client->region, vma);
}

static void snapshot_close(struct vm_area_struct *vma)
{
	struct snapshot *s = vma->vm_private_data;
	struct region *r = s->client->region;

	grants_count_vma(r, vma, false);
	kref_put(&s->ref, snapshot_free);
	region_unmap(r, vma);
}

static int refuse_mremap(struct vm_area_struct *vma)
{
	return -EINVAL;
}

static const struct vm_operations_struct snapshot_ops = {
	.open = snapshot_open,
	.close = snapshot_close,
	.mremap = refuse_mremap,
	.fault = snapshot_fault,
};

/* ---- fork ---- */

/* One snapshot a child, however many mappings it inherits. */
static struct snapshot *snapshot_of(struct client *c,
				    struct mm_struct *mm)
{
	struct snapshot *s;

	mutex_lock(&c->lock);
	s = list_first_entry_or_null(&c->snapshots, struct snapshot, list);
	if (s && s->mm == mm) {
		kref_get(&s->ref);
		mutex_unlock(&c->lock);
		return s;
	}
	/* vm_ops->open() cannot report failure */
	s = kzalloc(sizeof(*s), GFP_KERNEL_ACCOUNT | __GFP_NOFAIL);
	kref_init(&s->ref);
	xa_init(&s->pages);
	kref_get(&c->ref);
	s->client = c;
	mmgrab(mm);
	s->mm = mm;
	list_add(&s->list, &c->snapshots);
	mutex_unlock(&c->lock);
	return s;
}

/*
 * What MAP_PRIVATE would have made of it, in every book the kernel keeps. The
 * kernel has not yet counted the new mapping among the file's writable ones
 * (one that already had would count one too many, which does no harm).
 */
static void make_private(struct vm_area_struct *vma)
{
	compat_flags(vma, 0, VM_SHARED | VM_MAYSHARE | VM_MIXEDMAP | VM_PFNMAP |
				     VM_IO);
	vma->vm_page_prot = vm_get_page_prot(vma->vm_flags);
	if (vma->vm_flags & VM_WRITE)
		vma->vm_mm->data_vm += vma_pages(vma);
}

/*
 * The kernel forks the owner and has duplicated this VMA; it holds both
 * mmap_locks, so no fault is under way, and what threads wrote until now they
 * wrote before the fork. It copies the page table before or after this call:
 * the owner's entries go, so that nothing is left to copy and every write to
 * come is seen, and the child's, if there are any.
 */
void snapshot_fork(struct client *c, struct vm_area_struct *vma)
{
	struct snapshot *s = snapshot_of(c, vma->vm_mm);

	make_private(vma);
	vma->vm_private_data = s;
	vma->vm_ops = &snapshot_ops;
	grants_count_vma(c->region, vma, true);
	unmap_mapping_range(vma->vm_file->f_mapping,
			    (loff_t)vma->vm_pgoff << PAGE_SHIFT,
			    vma->vm_end - vma->vm_start, 0);
}
