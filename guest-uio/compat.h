/* SPDX-License-Identifier: GPL-2.0 */
/*
 * compat.h: what differs between the kernels that the module is built for. No
 * other file asks for a version. Each form says from which kernel on it holds.
 */
#ifndef UIO_BARCUDA_COMPAT_H
#define UIO_BARCUDA_COMPAT_H

#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/uio_driver.h>
#include <linux/version.h>

#define KERNEL(major, minor) \
	(LINUX_VERSION_CODE >= KERNEL_VERSION(major, minor, 0))

#if !KERNEL(5, 10)
#error "uio_barcuda is for Linux 5.10 and newer"
#endif
#if !IS_ENABLED(CONFIG_UIO)
#error "uio_barcuda needs a kernel with CONFIG_UIO"
#endif

/* ---- a VMA's flags: changed by functions, which lock it (6.3) ---- */

static inline void compat_flags(struct vm_area_struct *vma, unsigned long set,
				unsigned long clear)
{
#if KERNEL(6, 3)
	vm_flags_set(vma, set);
	vm_flags_clear(vma, clear);
#else
	vma->vm_flags = (vma->vm_flags | set) & ~clear;
#endif
}

/* ---- pages ---- */

/* What names a page in a shared futex: in its folio since 5.16. */
static inline void compat_name_page(struct page *page,
				    struct address_space *mapping)
{
#if KERNEL(5, 16)
	struct folio *folio = page_folio(page);

	if (!folio->mapping) {
		folio->index = page_to_pfn(page);
		WRITE_ONCE(folio->mapping, mapping);
	}
#else
	if (!page->mapping) {
		page->index = page_to_pfn(page);
		WRITE_ONCE(page->mapping, mapping);
	}
#endif
}

static inline int compat_mapcount(struct page *page)
{
#if KERNEL(6, 10)
	return folio_mapcount(page_folio(page));
#else
	return page_mapcount(page);
#endif
}

/*
 * Whether unmap_mapping_range() also finds a child's entry for a page whose
 * mapping is not the file's. Where it does not (until 5.18) a child must not
 * have one, and reads copies.
 */
#define COMPAT_CHILDREN_MAP_PAGES KERNEL(5, 18)

/*
 * Maps a device's page where none is mapped, for the kernel to use as any
 * other: direct I/O, futexes. What is mapped already stays as it is, or becomes
 * writable if COMPAT_GAINS_WRITING.
 *
 * Until 6.15 the entry is marked as a device's, and takes no reference. It is
 * made with vm_page_prot, which is read-only where pfn_mkwrite() wants to see
 * the first write. It need not stay so: only our faults look at it, and those
 * that run at a time want the same, or are content with either. Since 6.15
 * such entries count as mappings of the page, like any file's.
 */
#if KERNEL(6, 15)
#define COMPAT_GAINS_WRITING 1

static inline vm_fault_t compat_insert(struct vm_fault *vmf,
				       unsigned long address, struct page *page,
				       bool writable)
{
	struct vm_fault at = {
		.vma = vmf->vma,
		.address = address,
		.flags = vmf->flags,
	};

	return vmf_insert_page_mkwrite(&at, page, writable);
}
#else
#include <linux/pfn_t.h>

#define COMPAT_GAINS_WRITING 0

static inline vm_fault_t compat_insert(struct vm_fault *vmf,
				       unsigned long address, struct page *page,
				       bool writable)
{
	struct vm_area_struct *vma = vmf->vma;
	unsigned long flags = vma->vm_flags & ~(writable ? 0 : VM_SHARED);
	pgprot_t prot = vm_get_page_prot(flags);

	if (pgprot_val(vma->vm_page_prot) != pgprot_val(prot))
		WRITE_ONCE(vma->vm_page_prot, prot);
	return vmf_insert_mixed(vma, address,
				phys_to_pfn_t(PFN_PHYS(page_to_pfn(page)),
					      PFN_DEV | PFN_MAP));
}
#endif

/* ---- mmap() ---- */

/* What a process asks to map, and what it gets. */
struct request {
	struct file *file;
	unsigned long start, end;
	pgoff_t pgoff;
	unsigned long flags;
	const struct vm_operations_struct *ops;
	/* when all else is in order; may put the VMA's own data at `data` */
	int (*mapped)(unsigned long start, unsigned long end, pgoff_t pgoff,
		      const struct file *file, void **data);
};

/*
 * Since 7.1 UIO asks before there is a VMA, and the kernel itself calls
 * vm_ops->mapped().
 */
#if KERNEL(7, 1)
#define COMPAT_UIO_MMAP mmap_prepare
#define COMPAT_MAPPED(function) .mapped = (function),

typedef struct vm_area_desc compat_asked;

static inline struct request compat_request(compat_asked *asked)
{
	return (struct request){
		.file = asked->file,
		.start = asked->start,
		.end = asked->end,
		.pgoff = asked->pgoff,
		.flags = vma_flags_to_legacy(asked->vma_flags),
	};
}

static inline int compat_grant(compat_asked *asked, const struct request *q,
			       void *data)
{
	asked->pgoff = q->pgoff;
	asked->vma_flags = legacy_to_vma_flags(q->flags);
	asked->vm_ops = q->ops;
	asked->private_data = data;
	return 0;
}
#else
#define COMPAT_UIO_MMAP mmap
#define COMPAT_MAPPED(function)

typedef struct vm_area_struct compat_asked;

static inline struct request compat_request(compat_asked *asked)
{
	return (struct request){
		.file = asked->vm_file,
		.start = asked->vm_start,
		.end = asked->vm_end,
		.pgoff = asked->vm_pgoff,
		.flags = asked->vm_flags,
	};
}

static inline int compat_grant(compat_asked *asked, const struct request *q,
			       void *data)
{
	int err = q->mapped(q->start, q->end, q->pgoff, q->file, &data);

	if (err)
		return err;
	compat_flags(asked, q->flags, ~q->flags);
	asked->vm_pgoff = q->pgoff;
	asked->vm_ops = q->ops;
	asked->vm_private_data = data;
	return 0;
}
#endif

#endif
