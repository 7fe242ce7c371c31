// SPDX-License-Identifier: GPL-2.0
/*
 * region.c: the memory behind a device, from its first check to its
 * unplugging. The header is checked once and copied: sizes are never read
 * back from memory that others write.
 */
#include <linux/anon_inodes.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/io.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "barcuda.h"

DEFINE_SRCU(region_faults);

static bool pages = true;
module_param(pages, bool, 0444);
MODULE_PARM_DESC(pages,
		 "make struct pages for the BAR (default), so that O_DIRECT, io_uring, process_vm_readv and shared futexes "
		 "work on it");

/*
 * A BAR that was unplugged may come back at the same address, while processes
 * still hold its pages: only after region_free() can it be used again. The
 * kernel's own list of resources forgets it with the device.
 */
static LIST_HEAD(attached);
static DEFINE_MUTEX(attached_lock);

/* ---- memory ---- */

struct node {
	struct list_head list;
	struct inode *inode;
	unsigned int mappings;
};

/*
 * A page's address space answers two questions of the kernel: what to do when
 * it is dirtied (nothing) and what names it in a shared futex (with index).
 * The anonymous inode lives forever and knows both.
 */
static const struct file_operations pages_fops = { .owner = THIS_MODULE };

struct region *region_new(struct device *dev)
{
	struct region *r = kzalloc(sizeof(*r), GFP_KERNEL);

	if (!r)
		return NULL;
	kref_init(&r->ref);
	mutex_init(&r->lock);
	INIT_LIST_HEAD(&r->nodes);
	INIT_LIST_HEAD(&r->attached);
	INIT_DELAYED_WORK(&r->look_again, grants_look_again);
	r->dev = get_device(dev);
	return r;
}

static void release_bar(struct region *r)
{
	if (r->reserved)
		release_mem_region(PFN_PHYS(r->pfn), r->bytes);
	r->reserved = false;
}

static void region_free(struct work_struct *work)
{
	struct region *r =
		container_of(work, struct region, release);

	if (r->paged)
		memunmap_pages(&r->pgmap);
	else if (r->hardware && r->memory)
		memunmap(r->memory);
	else
		vfree(r->memory);
	release_bar(r);
	put_device(r->dev);
	kvfree(r->granules);
	mutex_lock(&attached_lock);
	list_del(&r->attached);
	mutex_unlock(&attached_lock);
	if (r->gone && r->hardware)
		barcuda_probe_again();
	kfree(r);
}

/*
 * The last reference may fall in munmap(), under locks that memory hotplug
 * does not like above its own: the freeing is left to a worker.
 */
static void region_last_put(struct kref *ref)
{
	struct region *r =
		container_of(ref, struct region, ref);

	INIT_WORK(&r->release, region_free);
	queue_work(barcuda_workqueue, &r->release);
}

void region_get(struct region *r)
{
	kref_get(&r->ref);
}

void region_put(struct region *r)
{
	kref_put(&r->ref, region_last_put);
}

/*
 * struct pages for the whole BAR cost 1/64 of its size in RAM. Better no
 * O_DIRECT than a guest that swaps: at most half of what is free goes there.
 */
static int make_pages(struct region *r)
{
	u64 needed = r->bytes / PAGE_SIZE * sizeof(struct page);
	u64 available = (u64)max(si_mem_available(), 0L) << PAGE_SHIFT;
	struct file *file;
	void *memory;

	if (!pages)
		return -EPERM;
	if (needed > available / 2) {
		dev_notice(r->dev, "%llu MiB of RAM for struct pages needed, %llu MiB available",
			   needed >> 20, available >> 20);
		return -ENOMEM;
	}
	file = anon_inode_getfile("[barcuda]", &pages_fops, NULL, O_RDWR);
	if (IS_ERR(file))
		return PTR_ERR(file);
	r->pgmap.type = MEMORY_DEVICE_GENERIC;
	r->pgmap.range.start = PFN_PHYS(r->pfn);
	r->pgmap.range.end = r->pgmap.range.start + r->bytes - 1;
	r->pgmap.nr_range = 1;
	memory = memremap_pages(&r->pgmap, NUMA_NO_NODE);
	if (IS_ERR(memory)) {
		fput(file);
		return PTR_ERR(memory);
	}
	/* The file itself would keep the module from being removed. */
	r->pages_mapping = file->f_mapping;
	fput(file);
	r->memory = memory;
	r->paged = true;
	return 0;
}

static int reserve_bar(struct region *r)
{
	u64 end = r->pfn + PHYS_PFN(r->bytes);
	struct region *other;
	int err = 0;

	mutex_lock(&attached_lock);
	list_for_each_entry(other, &attached, attached)
		if (other->pfn < end &&
		    r->pfn < other->pfn + PHYS_PFN(other->bytes))
			err = -EPROBE_DEFER;
	if (!err && !request_mem_region(PFN_PHYS(r->pfn), r->bytes, "barcuda"))
		err = -EBUSY;
	r->reserved = !err;
	if (!err)
		list_add(&r->attached, &attached);
	mutex_unlock(&attached_lock);
	return err;
}

int region_attach_bar(struct region *r, phys_addr_t start, u64 bytes)
{
	int err;

	r->hardware = true;
	r->pfn = PHYS_PFN(start);
	r->bytes = bytes;
	err = reserve_bar(r);
	if (err) {
		dev_notice(r->dev, "%s\n", err == -EBUSY ?
			   "another driver has the BAR" :
			   "processes still map the BAR from before it was unplugged: it comes back when they have ended");
		return err;
	}
	err = make_pages(r);
	if (!err)
		return 0;
	if (pages)
		dev_notice(r->dev,
			   "no struct pages for the BAR (error %d): O_DIRECT, io_uring, process_vm_readv and shared "
			   "futexes will fail on region memory",
			   err);
	/* Also reserves the memory type: without it, mappings are uncached. */
	r->memory = memremap(start, bytes, MEMREMAP_WB);
	return r->memory ? 0 : -ENOMEM;
}

int region_attach_memory(struct region *r, u64 bytes)
{
	r->memory = vmalloc_user(bytes);
	r->bytes = bytes;
	return r->memory ? 0 : -ENOMEM;
}

unsigned long region_pfn(struct region *r, pgoff_t pgoff)
{
	if (r->hardware)
		return r->pfn + pgoff;
	return vmalloc_to_pfn(region_at(r, (u64)pgoff << PAGE_SHIFT));
}

/* For paged regions only. */
struct page *region_page(struct region *r, pgoff_t pgoff)
{
	struct page *page = pfn_to_page(r->pfn + pgoff);

	compat_name_page(page, r->pages_mapping); /* no two devices share it */
	return page;
}

/* ---- the header ---- */

static const char *header_fault(struct region *r,
				const struct barcuda_header *h)
{
	u64 channels = (u64)h->channel_count * BARCUDA_CHANNEL_SIZE;
	u64 extents = (u64)h->granule_count * BARCUDA_GRANULE;

	if (h->magic != BARCUDA_MAGIC)
		return "no region (has barcuda-bridge formatted it?)";
	if (h->layout != BARCUDA_LAYOUT ||
	    h->header_bytes != BARCUDA_CHANNELS_OFFSET ||
	    h->channel_size != BARCUDA_CHANNEL_SIZE ||
	    h->granule != BARCUDA_GRANULE)
		return "a region of another layout: install module and bridge of one version";
	if (h->size != r->bytes || h->size > BARCUDA_MAX_SIZE)
		return "a region of another size than the BAR";
	if (!h->channel_count || h->channel_count > BARCUDA_MAX_CHANNELS ||
	    h->extents_offset % BARCUDA_GRANULE ||
	    h->extents_offset < BARCUDA_CHANNELS_OFFSET + channels ||
	    h->extents_offset > h->size || extents > h->size - h->extents_offset)
		return "a region whose parts overlap";
	if (h->base % BARCUDA_GRANULE || !h->base ||
	    h->base >= TASK_SIZE_MAX || h->size > TASK_SIZE_MAX - h->base)
		return "a region at an impossible address";
	return NULL;
}

/*
 * Takes the region into use, once its header is valid. Whatever an earlier
 * boot of this guest left open is closed: its processes are gone.
 */
static int region_check_locked(struct region *r)
{
	struct barcuda_header *shared = r->memory;
	struct barcuda_header h;
	const char *fault;
	u64 magic;
	u32 i;

	if (r->ready)
		return 0;
	magic = smp_load_acquire(&shared->magic); /* the host writes it last */
	h = *shared;
	h.magic = magic;
	fault = header_fault(r, &h);
	if (fault) {
		dev_err_ratelimited(r->dev, "the memory holds %s\n", fault);
		return -ENXIO;
	}
	r->granules = kvcalloc(h.granule_count, sizeof(*r->granules),
			       GFP_KERNEL);
	if (!r->granules)
		return -ENOMEM;
	r->header = h;
	for (i = 0; i < h.granule_count; i++)
		WRITE_ONCE(grant_at(r, i)->mapped, 0);
	for (i = 0; i < h.channel_count; i++) {
		struct barcuda_slot *s = slot_at(r, i);

		smp_store_release(&s->closed, READ_ONCE(s->opened));
	}
	r->ready = true;
	return 0;
}

int region_check(struct region *r)
{
	int err;

	mutex_lock(&r->lock);
	err = r->gone ? -ENODEV : region_check_locked(r);
	mutex_unlock(&r->lock);
	return err;
}

/* ---- mappings ---- */

/*
 * Unplugging must find every mapping. They are in the books of the inodes
 * through which they were made, one for each device node. A mapping's file
 * keeps its inode; we must not, longer than that: the file system that the
 * node is on, say a container's /dev, could not be unmounted any more.
 */
static struct node *node_of(struct region *r, const struct file *file)
{
	struct inode *inode = file->f_mapping->host;
	struct node *n;

	lockdep_assert_held(&r->lock);
	list_for_each_entry(n, &r->nodes, list)
		if (n->inode == inode)
			return n;
	return NULL;
}

/* A new mapping, which holds the region until region_unmap(). */
int region_map(struct region *r, const struct file *file)
{
	struct node *n = node_of(r, file);

	if (r->gone)
		return -ENODEV;
	if (!n) {
		n = kzalloc(sizeof(*n), GFP_KERNEL);
		if (!n)
			return -ENOMEM;
		n->inode = file->f_mapping->host;
		list_add(&n->list, &r->nodes);
	}
	n->mappings++;
	region_get(r);
	return 0;
}

/* For vm_ops->open(): there is such a mapping already. */
void region_map_again(struct region *r, struct vm_area_struct *vma)
{
	mutex_lock(&r->lock);
	node_of(r, vma->vm_file)->mappings++;
	mutex_unlock(&r->lock);
	region_get(r);
}

/* The caller has a reference of its own. */
void region_unmap_locked(struct region *r, const struct file *file)
{
	struct node *n = node_of(r, file);

	if (!--n->mappings) {
		list_del(&n->list);
		kfree(n);
	}
	region_put(r);
}

void region_unmap(struct region *r, struct vm_area_struct *vma)
{
	region_get(r);
	mutex_lock(&r->lock);
	region_unmap_locked(r, vma->vm_file);
	mutex_unlock(&r->lock);
	region_put(r);
}

/* ---- the end ---- */

/* From here on every access is SIGBUS and every client is closed. */
void region_unplug(struct region *r)
{
	struct node *n;
	u32 i;

	mutex_lock(&r->lock);
	WRITE_ONCE(r->gone, true);
	synchronize_srcu(&region_faults);
	list_for_each_entry(n, &r->nodes, list)
		unmap_mapping_range(n->inode->i_mapping, 0, 0, 1);
	for (i = 0; i < r->header.granule_count; i++)
		WRITE_ONCE(grant_at(r, i)->mapped, 0);
	for (i = 0; i < r->header.channel_count; i++)
		if (r->clients[i])
			client_close(r->clients[i]);
	r->registers = NULL; /* unmapped once the driver has let go */
	mutex_unlock(&r->lock);
	release_bar(r);
	region_put(r);
}
