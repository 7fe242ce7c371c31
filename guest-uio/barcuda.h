/* SPDX-License-Identifier: GPL-2.0 */
/*
 * barcuda.h: the nouns of the module, shared by its rooms:
 *
 *   main.c      the PCI device, the device without hardware, UIO, the doorbell
 *   region.c    the memory behind a device, and its header
 *   clients.c   its slots and grants: who holds which channel and what
 *   maps.c      what a process may map, and the owner's page faults
 *   snapshot.c  what a forked child sees of its parent's extents
 *   compat.h    what differs between kernels
 *
 * Lock order: mmap_lock, region->lock, client->lock; a page lock comes before
 * client->lock. Faults hold region_faults (SRCU) so that a device can go away.
 */
#ifndef UIO_BARCUDA_H
#define UIO_BARCUDA_H

#include <linux/kref.h>
#include <linux/list.h>
#include <linux/memremap.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/srcu.h>
#include <linux/uio_driver.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

#include "compat.h"
#include "layout.h"

/* The UIO map that mmap()'s offset names, in pages. */
enum barcuda_map {
	MAP_HEADER = 0,
	MAP_CHANNEL = 1,
	MAP_EXTENTS = 2,
	MAP_REGION = 3,		/* everything; only without hardware, for root */
};

/* What the guest's processes have of a granule; region->lock. */
struct granule {
	u64 mapped;		/* pages, each as often as it is mapped */
	bool held;		/* mapped no more, but in use (clients.c) */
};

/*
 * One device. Outlives its unplugging until the last mapping is gone: the
 * pages must not lose their struct page under a process that maps them.
 */
struct region {
	struct uio_info uio;
	struct device *dev;
	struct kref ref;	/* the bound device, clients, all mappings */
	struct work_struct release;
	struct list_head attached; /* all regions whose memory is a BAR */

	void *memory;
	u64 bytes;
	unsigned long pfn;	/* of memory, if it is a BAR */
	bool hardware;
	bool reserved;		/* in /proc/iomem; until it is unplugged */
	bool paged;		/* has struct pages that may be mapped */
	struct dev_pagemap pgmap;
	struct address_space *pages_mapping; /* what those pages belong to */

	struct mutex lock;	/* all below; slots and grants in memory */
	bool gone;		/* unplugged: read under region_faults too */
	bool ready;		/* header is a checked copy */
	struct barcuda_header header;
	struct granule *granules;
	struct delayed_work look_again; /* at granules that are held */
	bool looking;		/* it will */
	struct client *clients[BARCUDA_MAX_CHANNELS];
	struct list_head nodes;	/* struct node: inodes it is mapped through */

	void __iomem *registers; /* BAR0 of ivshmem-doorbell, or NULL; lock */
};

/* A process that holds a channel, from its mmap to its last unmap. */
struct client {
	struct region *region;
	struct kref ref;	/* its mappings and its snapshots */
	const struct file *file; /* who it is to mmap; only while mappings > 0 */
	struct mm_struct *mm;	/* its process's; also only then */
	u32 slot;
	u32 mappings;		/* VMAs of channel and extents; region->lock */

	struct mutex lock;
	/* Grows only under mm's mmap_lock held for writing (fork). */
	struct list_head snapshots;
};

extern struct srcu_struct region_faults;
extern struct workqueue_struct *barcuda_workqueue;

/* main.c */
void region_ring(struct region *r);
void barcuda_probe_again(void);

/* region.c */
struct region *region_new(struct device *dev);
int region_attach_bar(struct region *r, phys_addr_t start, u64 bytes);
int region_attach_memory(struct region *r, u64 bytes);
int region_check(struct region *r);
void region_unplug(struct region *r);
void region_get(struct region *r);
void region_put(struct region *r);
unsigned long region_pfn(struct region *r, pgoff_t pgoff);
struct page *region_page(struct region *r, pgoff_t pgoff);
int region_map(struct region *r, const struct file *file);
void region_map_again(struct region *r, struct vm_area_struct *vma);
void region_unmap_locked(struct region *r, const struct file *file);
void region_unmap(struct region *r, struct vm_area_struct *vma);

/* clients.c */
struct client *client_open(struct region *r, const struct file *file);
struct client *client_of(struct region *r, const struct file *file);
void client_close(struct client *c);
void client_map(struct client *c);
void client_unmap(struct client *c);
void client_put(struct client *c);
bool grants_hold(struct client *c, u64 offset, u64 bytes);
void grants_count(struct region *r, u64 at, u64 bytes, bool up);
void grants_count_vma(struct region *r, struct vm_area_struct *vma, bool up);
void grants_count_moved(struct region *r, struct vm_area_struct *vma);
void grants_look_again(struct work_struct *work);

/* maps.c */
int barcuda_mmap(struct uio_info *info, compat_asked *asked);

/* snapshot.c */
void snapshot_fork(struct client *c, struct vm_area_struct *vma);
int snapshot_keep(struct client *c, struct vm_area_struct *vma,
		  pgoff_t pgoff);

static inline bool client_has_snapshots(struct client *c)
{
	return !list_empty_careful(&c->snapshots);
}

static inline void *region_at(struct region *r, u64 offset)
{
	return r->memory + offset;
}

static inline struct barcuda_slot *slot_at(struct region *r, u32 i)
{
	return (struct barcuda_slot *)region_at(r, BARCUDA_SLOTS_OFFSET) + i;
}

static inline struct barcuda_grant *grant_at(struct region *r, u32 i)
{
	return (struct barcuda_grant *)region_at(r, BARCUDA_GRANTS_OFFSET) + i;
}

#endif
