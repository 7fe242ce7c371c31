// SPDX-License-Identifier: GPL-2.0
/*
 * maps.c: what a process may map, and the page faults of the mappings that
 * it made itself (a forked child's are in snapshot.c).
 *
 * mmap()'s offset names the map, but a mapping of extents remembers where in
 * the region it begins: vm_pgoff becomes the region's page number, which the
 * kernel keeps right through splits, and by which all mappings of a page are
 * found. Others begin at 0: a channel's is known to its client.
 */
#include <linux/capability.h>
#include <linux/mm.h>
#include <linux/pagemap.h>

#include "barcuda.h"

static u64 bytes_of(const struct request *q)
{
	return q->end - q->start;
}

/* ---- faults ---- */

/* Maps one page unless it is mapped; a mapped one can only gain the right to write. */
static vm_fault_t insert(struct region *r, struct vm_fault *vmf,
			 unsigned long address, pgoff_t first, bool writable)
{
	struct vm_area_struct *vma = vmf->vma;
	pgoff_t pgoff = first + linear_page_index(vma, address);

	if (vma->vm_flags & VM_MIXEDMAP)
		return compat_insert(vmf, address, region_page(r, pgoff),
				     writable);
	return vmf_insert_pfn_prot(vma, address, region_pfn(r, pgoff),
				   writable ? vm_get_page_prot(vma->vm_flags) :
					      vma->vm_page_prot);
}

/* A fault costs more than the 512 entries of a page table: fill them all. */
static vm_fault_t insert_around(struct region *r, struct vm_fault *vmf,
				pgoff_t first, bool writable)
{
	struct vm_area_struct *vma = vmf->vma;
	unsigned long at = max(vmf->address & PMD_MASK, vma->vm_start);
	unsigned long end = min((vmf->address & PMD_MASK) + PMD_SIZE,
				vma->vm_end);
	vm_fault_t ret;

	ret = insert(r, vmf, vmf->address & PAGE_MASK, first, writable);
	for (; ret == VM_FAULT_NOPAGE && at < end; at += PAGE_SIZE)
		insert(r, vmf, at, first, writable);
	return ret;
}

/* Where what is mapped read-only would stay so, it is removed first. */
static vm_fault_t insert_writable(struct region *r, struct vm_fault *vmf)
{
	loff_t table = ((loff_t)vmf->pgoff << PAGE_SHIFT) & PMD_MASK;

	if (!COMPAT_GAINS_WRITING)
		unmap_mapping_range(vmf->vma->vm_file->f_mapping, table,
				    PMD_SIZE, 0);
	return insert_around(r, vmf, 0, true);
}

static vm_fault_t window_fault(struct vm_fault *vmf, struct region *r,
			       pgoff_t first)
{
	int idx = srcu_read_lock(&region_faults);
	vm_fault_t ret = VM_FAULT_SIGBUS;

	if (!READ_ONCE(r->gone))
		ret = insert_around(r, vmf, first,
				    vmf->vma->vm_flags & VM_WRITE);
	srcu_read_unlock(&region_faults, idx);
	return ret;
}

/* Mappings without struct page have no other way in for a debugger. */
static int access_region(struct region *r, pgoff_t first,
			 struct vm_area_struct *vma, unsigned long address,
			 void *buffer, int bytes, int write)
{
	u64 at = ((u64)(first + vma->vm_pgoff) << PAGE_SHIFT) +
		 (address - vma->vm_start);
	int idx = srcu_read_lock(&region_faults);

	bytes = min_t(u64, bytes, vma->vm_end - address);
	if (READ_ONCE(r->gone))
		bytes = -EIO;
	else if (!write)
		memcpy(buffer, region_at(r, at), bytes);
	else if (vma->vm_flags & VM_WRITE)
		memcpy(region_at(r, at), buffer, bytes);
	else
		bytes = -EACCES;
	srcu_read_unlock(&region_faults, idx);
	return bytes;
}

/*
 * How these mappings differ from a file's: no growing, and pages of a device.
 * Only extents' pages may be used by the kernel beyond their mapping (clients.c
 * waits for the end of that); a channel is its next client's at once.
 */
static void set_flags(struct request *q, bool paged)
{
	q->flags |= VM_DONTEXPAND;
	q->flags |= paged ? VM_MIXEDMAP : VM_PFNMAP | VM_IO;
}

/*
 * What is asked for is mapped in two steps. map_...() looks at the request
 * alone. ..._mapped() keeps the books, once nothing else can fail; at `data`
 * is the region, or the mapping's own key.
 */

/* ---- map 0: the header (and map 3: the region) ---- */

static vm_fault_t header_fault(struct vm_fault *vmf)
{
	return window_fault(vmf, vmf->vma->vm_private_data, 0);
}

static int header_access(struct vm_area_struct *vma, unsigned long address,
			 void *buffer, int bytes, int write)
{
	return access_region(vma->vm_private_data, 0, vma, address, buffer,
			     bytes, write);
}

static void header_open(struct vm_area_struct *vma)
{
	region_map_again(vma->vm_private_data, vma);
}

static void header_close(struct vm_area_struct *vma)
{
	region_unmap(vma->vm_private_data, vma);
}

static int header_mapped(unsigned long start, unsigned long end, pgoff_t pgoff,
			 const struct file *file, void **data)
{
	struct region *r = *data;
	int err;

	mutex_lock(&r->lock);
	err = region_map(r, file);
	mutex_unlock(&r->lock);
	return err;
}

static const struct vm_operations_struct header_ops = {
	COMPAT_MAPPED(header_mapped)
	.open = header_open,
	.close = header_close,
	.fault = header_fault,
	.access = header_access,
};

static int map_window(struct request *q)
{
	q->pgoff = 0;
	set_flags(q, false);
	q->ops = &header_ops;
	q->mapped = header_mapped;
	return 0;
}

static int map_header(struct request *q)
{
	if (bytes_of(q) > BARCUDA_CHANNELS_OFFSET)
		return -EINVAL;
	if (q->flags & VM_WRITE)
		return -EACCES;
	q->flags &= ~VM_MAYWRITE; /* nor later, nor through a debugger */
	return map_window(q);
}

static int map_region(struct region *r, struct request *q)
{
	if (r->hardware || bytes_of(q) > r->bytes || !(q->flags & VM_SHARED))
		return -EINVAL;
	if (!capable(CAP_SYS_RAWIO))
		return -EPERM;
	return map_window(q);
}

/* ---- map 1: a fresh channel ---- */

static struct client *client_in(struct vm_area_struct *vma)
{
	return vma->vm_private_data;
}

static pgoff_t first_page(struct client *c)
{
	return PHYS_PFN(BARCUDA_CHANNELS_OFFSET +
			(u64)c->slot * BARCUDA_CHANNEL_SIZE);
}

static vm_fault_t channel_fault(struct vm_fault *vmf)
{
	struct client *c = client_in(vmf->vma);

	return window_fault(vmf, c->region, first_page(c));
}

static int channel_access(struct vm_area_struct *vma, unsigned long address,
			  void *buffer, int bytes, int write)
{
	struct client *c = client_in(vma);

	return access_region(c->region, first_page(c), vma, address, buffer,
			     bytes, write);
}

static void channel_open(struct vm_area_struct *vma)
{
	struct client *c = client_in(vma);

	region_map_again(c->region, vma);
	client_map(c);
}

static void channel_close(struct vm_area_struct *vma)
{
	struct client *c = client_in(vma);
	struct region *r = c->region;

	client_unmap(c);
	region_unmap(r, vma);
}

static int channel_mapped(unsigned long start, unsigned long end,
			  pgoff_t pgoff, const struct file *file, void **data)
{
	struct region *r = *data;
	struct client *c;
	int err;

	mutex_lock(&r->lock);
	err = region_map(r, file);
	if (!err) {
		c = client_open(r, file);
		err = PTR_ERR_OR_ZERO(c);
		if (err)
			region_unmap_locked(r, file);
		else
			*data = c;
	}
	mutex_unlock(&r->lock);
	return err;
}

static const struct vm_operations_struct channel_ops = {
	COMPAT_MAPPED(channel_mapped)
	.open = channel_open,
	.close = channel_close,
	.fault = channel_fault,
	.access = channel_access,
};

static int map_channel(struct request *q)
{
	if (bytes_of(q) != BARCUDA_CHANNEL_SIZE)
		return -EINVAL;
	if (!(q->flags & VM_SHARED))
		return -EACCES; /* MAP_PRIVATE, or opened read-only */
	q->pgoff = 0;
	set_flags(q, false);
	q->flags |= VM_DONTCOPY; /* a forked child is no client */
	q->ops = &channel_ops;
	q->mapped = channel_mapped;
	return 0;
}

/* ---- map 2: granted extents ---- */

static vm_fault_t extents_fault(struct vm_fault *vmf)
{
	struct client *c = client_in(vmf->vma);
	int idx = srcu_read_lock(&region_faults);
	bool write = vmf->flags & FAULT_FLAG_WRITE;
	vm_fault_t ret;

	if (READ_ONCE(c->region->gone))
		ret = VM_FAULT_SIGBUS;
	else if (!client_has_snapshots(c))
		ret = insert_around(c->region, vmf, 0, true);
	else if (!write)
		ret = insert_around(c->region, vmf, 0, false);
	else if (snapshot_keep(c, vmf->vma, vmf->pgoff))
		ret = VM_FAULT_OOM;
	else
		ret = insert(c->region, vmf, vmf->address & PAGE_MASK, 0, true);
	srcu_read_unlock(&region_faults, idx);
	return ret;
}

/*
 * The first write to a page that a fork, or mprotect(), left read-only. Its
 * neighbours are like it: they are mapped again, with the right to write.
 */
static vm_fault_t extents_mkwrite(struct vm_fault *vmf)
{
	struct client *c = client_in(vmf->vma);
	int idx = srcu_read_lock(&region_faults);
	vm_fault_t ret = 0;

	if (READ_ONCE(c->region->gone))
		ret = VM_FAULT_SIGBUS;
	else if (client_has_snapshots(c))
		ret = snapshot_keep(c, vmf->vma, vmf->pgoff) ? VM_FAULT_OOM : 0;
	else if (c->region->paged)
		ret = insert_writable(c->region, vmf);
	srcu_read_unlock(&region_faults, idx);
	return ret;
}

static int extents_access(struct vm_area_struct *vma, unsigned long address,
			  void *buffer, int bytes, int write)
{
	struct client *c = client_in(vma);
	unsigned long at = address & PAGE_MASK;

	for (; write && at < min(address + bytes, vma->vm_end); at += PAGE_SIZE)
		if (snapshot_keep(c, vma, linear_page_index(vma, at)))
			return -ENOMEM;
	return access_region(c->region, 0, vma, address, buffer, bytes, write);
}

/* A second VMA: half of a split, a forked child's, or mremap()'s new place. */
static void extents_open(struct vm_area_struct *vma)
{
	struct client *c = client_in(vma);

	region_map_again(c->region, vma);
	if (vma->vm_mm != c->mm) {
		snapshot_fork(c, vma);
		return;
	}
	client_map(c);
	grants_count_moved(c->region, vma);
}

static void extents_close(struct vm_area_struct *vma)
{
	struct client *c = client_in(vma);
	struct region *r = c->region;

	grants_count_vma(r, vma, false);
	client_unmap(c);
	region_unmap(r, vma);
}

static int extents_mapped(unsigned long start, unsigned long end, pgoff_t pgoff,
			  const struct file *file, void **data)
{
	u64 offset = (u64)pgoff << PAGE_SHIFT, bytes = end - start;
	struct region *r = *data;
	struct client *c;
	int err;

	mutex_lock(&r->lock);
	c = client_of(r, file);
	err = c && c->mm == current->mm ? region_map(r, file) : -EPERM;
	if (!err) {
		grants_count(r, offset, bytes, true);
		if (!grants_hold(c, offset, bytes)) {
			grants_count(r, offset, bytes, false);
			region_unmap_locked(r, file);
			err = -EPERM;
		}
	}
	if (!err) {
		c->mappings++;
		kref_get(&c->ref);
		*data = c;
	}
	mutex_unlock(&r->lock);
	return err;
}

/*
 * A mapping begins at its own address, where its pointers mean the same on the
 * host. But it may be moved: the library lends pages of extents to memory that
 * lies elsewhere (guest-allocator/heap/registered), and maps their address
 * again.
 */
static const struct vm_operations_struct extents_ops = {
	COMPAT_MAPPED(extents_mapped)
	.open = extents_open,
	.close = extents_close,
	.fault = extents_fault,
	.page_mkwrite = extents_mkwrite,
	.pfn_mkwrite = extents_mkwrite,
	.access = extents_access,
};

static int map_extents(struct region *r, struct request *q)
{
	struct barcuda_header *h = &r->header;
	u64 heap = (u64)h->granule_count * BARCUDA_GRANULE;
	u64 offset = q->start - h->base; /* below base: out of range */

	if (!(q->flags & VM_SHARED))
		return -EACCES;
	if (offset < h->extents_offset || offset - h->extents_offset >= heap ||
	    bytes_of(q) > heap - (offset - h->extents_offset))
		return -EINVAL;
	q->pgoff = PHYS_PFN(offset);
	set_flags(q, r->paged);
	q->ops = &extents_ops;
	q->mapped = extents_mapped;
	return 0;
}

/* ---- UIO's mmap ---- */

static int map(struct region *r, struct request *q)
{
	int err;

	/* The one map that needs no header: through it, one is written. */
	if (q->pgoff == MAP_REGION)
		return map_region(r, q);
	err = region_check(r);
	if (err)
		return err;
	switch (q->pgoff) {
	case MAP_HEADER:
		return map_header(q);
	case MAP_CHANNEL:
		return map_channel(q);
	case MAP_EXTENTS:
		return map_extents(r, q);
	}
	return -EINVAL;
}

int barcuda_mmap(struct uio_info *info, compat_asked *asked)
{
	struct region *r = container_of(info, struct region, uio);
	struct request q = compat_request(asked);
	int err = map(r, &q);

	return err ? err : compat_grant(asked, &q, r);
}
