// SPDX-License-Identifier: GPL-2.0
/*
 * maps.c: what a process may map, and the page faults of the mappings that
 * it made itself (a forked child's are in snapshot.c).
 *
 * mmap()'s offset names the map, but a mapping remembers where in the region
 * it begins: vm_pgoff becomes the region's page number, which the kernel
 * keeps right through splits, and by which all mappings of a page are found.
 */
#include <linux/capability.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/pfn_t.h>

#include "barcuda.h"

static u64 vma_bytes(struct vm_area_struct *vma)
{
	return vma->vm_end - vma->vm_start;
}

/* ---- faults ---- */

/* Maps one page unless it is mapped; a mapped one can only gain the right to write. */
static vm_fault_t insert(struct region *r, struct vm_area_struct *vma,
			 unsigned long address, bool writable)
{
	pgoff_t pgoff = linear_page_index(vma, address);
	unsigned long pfn = region_pfn(r, pgoff);
	pfn_t devmap;

	if (!(vma->vm_flags & VM_MIXEDMAP))
		return vmf_insert_pfn_prot(vma, address, pfn,
					   writable ? vm_get_page_prot(vma->vm_flags) :
						      vma->vm_page_prot);
	region_page(r, pgoff);
	devmap = phys_to_pfn_t(PFN_PHYS(pfn), PFN_DEV | PFN_MAP);
	return writable ? vmf_insert_mixed_mkwrite(vma, address, devmap) :
			  vmf_insert_mixed(vma, address, devmap);
}

/* A fault costs more than the 512 entries of a page table: fill them all. */
static vm_fault_t insert_around(struct region *r, struct vm_fault *vmf,
				bool writable)
{
	struct vm_area_struct *vma = vmf->vma;
	unsigned long at = max(vmf->address & PMD_MASK, vma->vm_start);
	unsigned long end = min((vmf->address & PMD_MASK) + PMD_SIZE,
				vma->vm_end);
	vm_fault_t ret;

	ret = insert(r, vma, vmf->address & PAGE_MASK, writable);
	for (; ret == VM_FAULT_NOPAGE && at < end; at += PAGE_SIZE)
		insert(r, vma, at, writable);
	return ret;
}

static vm_fault_t window_fault(struct vm_fault *vmf, struct region *r)
{
	int idx = srcu_read_lock(&region_faults);
	vm_fault_t ret = VM_FAULT_SIGBUS;

	if (!READ_ONCE(r->gone))
		ret = insert_around(r, vmf, vmf->vma->vm_flags & VM_WRITE);
	srcu_read_unlock(&region_faults, idx);
	return ret;
}

/* Mappings without struct page have no other way in for a debugger. */
static int access_region(struct region *r, struct vm_area_struct *vma,
			 unsigned long address, void *buffer, int bytes,
			 int write)
{
	u64 at = ((u64)vma->vm_pgoff << PAGE_SHIFT) + (address - vma->vm_start);
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
static void set_flags(struct vm_area_struct *vma, bool paged)
{
	vma->vm_flags |= VM_DONTEXPAND;
	vma->vm_flags |= paged ? VM_MIXEDMAP : VM_PFNMAP | VM_IO;
}

/* ---- map 0: the header (and map 3: the region) ---- */

static vm_fault_t header_fault(struct vm_fault *vmf)
{
	return window_fault(vmf, vmf->vma->vm_private_data);
}

static int header_access(struct vm_area_struct *vma, unsigned long address,
			 void *buffer, int bytes, int write)
{
	return access_region(vma->vm_private_data, vma, address, buffer, bytes,
			     write);
}

static void header_open(struct vm_area_struct *vma)
{
	region_map_again(vma->vm_private_data, vma);
}

static void header_close(struct vm_area_struct *vma)
{
	region_unmap(vma->vm_private_data, vma);
}

static const struct vm_operations_struct header_ops = {
	.open = header_open,
	.close = header_close,
	.fault = header_fault,
	.access = header_access,
};

static int map_window(struct region *r, struct vm_area_struct *vma)
{
	vma->vm_pgoff = 0;
	set_flags(vma, false);
	vma->vm_private_data = r;
	vma->vm_ops = &header_ops;
	return 0;
}

static int map_header(struct region *r, struct vm_area_struct *vma)
{
	if (vma_bytes(vma) > BARCUDA_CHANNELS_OFFSET)
		return -EINVAL;
	if (vma->vm_flags & VM_WRITE)
		return -EACCES;
	vma->vm_flags &= ~VM_MAYWRITE; /* nor later, nor through a debugger */
	return map_window(r, vma);
}

static int map_region(struct region *r, struct vm_area_struct *vma)
{
	if (r->hardware || vma_bytes(vma) > r->bytes ||
	    !(vma->vm_flags & VM_SHARED))
		return -EINVAL;
	if (!capable(CAP_SYS_RAWIO))
		return -EPERM;
	return map_window(r, vma);
}

/* ---- map 1: a fresh channel ---- */

static struct client *client_in(struct vm_area_struct *vma)
{
	return vma->vm_private_data;
}

static vm_fault_t channel_fault(struct vm_fault *vmf)
{
	return window_fault(vmf, client_in(vmf->vma)->region);
}

static int channel_access(struct vm_area_struct *vma, unsigned long address,
			  void *buffer, int bytes, int write)
{
	return access_region(client_in(vma)->region, vma, address, buffer,
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

static const struct vm_operations_struct channel_ops = {
	.open = channel_open,
	.close = channel_close,
	.fault = channel_fault,
	.access = channel_access,
};

static int map_channel(struct region *r, struct vm_area_struct *vma)
{
	struct client *c;

	if (vma_bytes(vma) != BARCUDA_CHANNEL_SIZE)
		return -EINVAL;
	if (!(vma->vm_flags & VM_SHARED))
		return -EACCES; /* MAP_PRIVATE, or opened read-only */
	c = client_open(r, vma->vm_file);
	if (IS_ERR(c))
		return PTR_ERR(c);
	vma->vm_pgoff = PHYS_PFN(BARCUDA_CHANNELS_OFFSET +
				 (u64)c->slot * BARCUDA_CHANNEL_SIZE);
	set_flags(vma, false);
	vma->vm_flags |= VM_DONTCOPY; /* a forked child is no client */
	vma->vm_private_data = c;
	vma->vm_ops = &channel_ops;
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
		ret = insert_around(c->region, vmf, true);
	else if (!write)
		ret = insert_around(c->region, vmf, false);
	else if (snapshot_keep(c, vmf->vma, vmf->pgoff))
		ret = VM_FAULT_OOM;
	else
		ret = insert(c->region, vmf->vma, vmf->address & PAGE_MASK,
			     true);
	srcu_read_unlock(&region_faults, idx);
	return ret;
}

/* The first write to a page that a fork, or mprotect(), left read-only. */
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
		ret = insert_around(c->region, vmf, true);
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
	return access_region(c->region, vma, address, buffer, bytes, write);
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

	mutex_lock(&r->lock);
	grants_count(r, vma, false);
	mutex_unlock(&r->lock);
	client_unmap(c);
	region_unmap(r, vma);
}

/*
 * A mapping begins at its own address, where its pointers mean the same on the
 * host. But it may be moved: the library lends pages of extents to memory that
 * lies elsewhere (guest-allocator/heap/registered), and maps their address
 * anew.
 */
static const struct vm_operations_struct extents_ops = {
	.open = extents_open,
	.close = extents_close,
	.fault = extents_fault,
	.pfn_mkwrite = extents_mkwrite,
	.access = extents_access,
};

static int map_extents(struct region *r, struct vm_area_struct *vma)
{
	struct barcuda_header *h = &r->header;
	u64 heap = (u64)h->granule_count * BARCUDA_GRANULE;
	u64 bytes = vma_bytes(vma);
	u64 offset = vma->vm_start - h->base; /* below base: out of range */
	struct client *c = client_of(r, vma->vm_file);

	if (!c || c->mm != current->mm)
		return -EPERM;
	if (!(vma->vm_flags & VM_SHARED))
		return -EACCES;
	if (offset < h->extents_offset || offset - h->extents_offset >= heap ||
	    bytes > heap - (offset - h->extents_offset))
		return -EINVAL;
	vma->vm_pgoff = PHYS_PFN(offset);
	grants_count(r, vma, true);
	if (!grants_hold(c, offset, bytes)) {
		grants_count(r, vma, false);
		return -EPERM;
	}
	set_flags(vma, r->paged);
	c->mappings++;
	kref_get(&c->ref);
	vma->vm_private_data = c;
	vma->vm_ops = &extents_ops;
	return 0;
}

/* ---- UIO's mmap ---- */

static int map(struct region *r, struct vm_area_struct *vma)
{
	switch (vma->vm_pgoff) {
	case MAP_HEADER:
		return map_header(r, vma);
	case MAP_CHANNEL:
		return map_channel(r, vma);
	case MAP_EXTENTS:
		return map_extents(r, vma);
	}
	return -EINVAL;
}

int barcuda_mmap(struct uio_info *info, struct vm_area_struct *vma)
{
	struct region *r =
		container_of(info, struct region, uio);
	int err = 0;

	/* The one map that needs no header: through it, one is written. */
	if (vma->vm_pgoff != MAP_REGION)
		err = region_check(r);
	if (err)
		return err;
	mutex_lock(&r->lock);
	err = r->gone ? -ENODEV : region_map(r, vma);
	if (!err) {
		err = vma->vm_pgoff == MAP_REGION ? map_region(r, vma) :
						    map(r, vma);
		if (err)
			region_unmap_locked(r, vma);
	}
	mutex_unlock(&r->lock);
	return err;
}
