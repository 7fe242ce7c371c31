// SPDX-License-Identifier: GPL-2.0
/*
 * uio_barcuda: the guest's door to the region that its host lends it.
 *
 * The region (shm-device/layout.h) is BAR2 of QEMU's ivshmem device, PCI
 * 1af4:1110. A UIO device named "barcuda" hands it out in parts, cached
 * (write-back), so that a process of the group that owns the device node
 * reaches its own channel and extents and nothing else. mmap()'s offset, in
 * pages, says which part:
 *
 *   0  header    [0, header_bytes), read-only. EACCES if writable.
 *   1  channel   A free channel, BARCUDA_CHANNEL_SIZE bytes, as the host
 *                left it: zero except status.channel, its index. Raises the
 *                slot's `opened`. One an open file: EBUSY. None free: EAGAIN
 *                while the host still reclaims one, else ENOSPC. A forked
 *                child does not have it.
 *   2  extents   At address header.base + offset, shared: the region from
 *                `offset` on. Every granule touched must be granted to the
 *                channel of this open file, which this process must have
 *                mapped, else EPERM; out of the heap: EINVAL. Counted in
 *                grant.mapped, in pages, and there not 0 as long as a pipe
 *                or direct I/O holds one. May be moved, not grown. A forked
 *                child sees them as they were at the fork, privately.
 *
 * When a process has unmapped its channel and all of its extents (by munmap,
 * exec, exit or kill), its slot's `closed` is raised and the host cleans up.
 * Slots that an earlier boot of the guest left open are closed at the start.
 *
 * With ivshmem-doorbell, read() waits for the host's next interrupt, and
 * write() of a 32-bit vector rings the host (peer 0). The module itself rings
 * vector 0 whenever it has opened or closed a slot.
 *
 * memory=BYTES makes a device without hardware beside the others. It has a
 * map 3, the whole region: through it root formats it and plays the host.
 */
#include <linux/interrupt.h>
#include <linux/log2.h>
#include <linux/pci.h>
#include <linux/platform_device.h>

#include "barcuda.h"

#define DOORBELL 12		/* in BAR0: peer << 16 | vector */

static char *memory;
module_param(memory, charp, 0444);
MODULE_PARM_DESC(memory, "size of a device without hardware, e.g. 256M");

struct workqueue_struct *barcuda_workqueue;

static void describe(struct region *r)
{
	r->uio.name = "barcuda"; /* what libbarcuda.so looks for */
	r->uio.version = "1";
	r->uio.irq = UIO_IRQ_NONE;
	r->uio.COMPAT_UIO_MMAP = barcuda_mmap;
	r->uio.mem[MAP_HEADER].name = "header";
	r->uio.mem[MAP_HEADER].size = BARCUDA_CHANNELS_OFFSET;
	r->uio.mem[MAP_CHANNEL].name = "channel";
	r->uio.mem[MAP_CHANNEL].size = BARCUDA_CHANNEL_SIZE;
	r->uio.mem[MAP_EXTENTS].name = "extents";
	r->uio.mem[MAP_EXTENTS].size = r->bytes;
}

/* ---- ivshmem ---- */

/* MSI-X needs no acknowledgment; UIO wakes the readers. */
static irqreturn_t rung(int irq, struct uio_info *info)
{
	return IRQ_HANDLED;
}

/* The host, peer 0, is to look: a slot has changed. */
void region_ring(struct region *r)
{
	lockdep_assert_held(&r->lock);
	if (r->registers)
		writel(0, r->registers + DOORBELL);
}

static int ring(struct uio_info *info, s32 vector)
{
	struct region *r =
		container_of(info, struct region, uio);

	if (vector < 0 || vector > U16_MAX)
		return -EINVAL;
	writel(vector, r->registers + DOORBELL);
	return 0;
}

/* ivshmem-plain has no interrupts, and needs none: both sides poll. */
static int attach_doorbell(struct region *r, struct pci_dev *pdev)
{
	int vectors;

	if (!pdev->msix_cap)
		return 0;
	vectors = pcim_iomap_regions(pdev, BIT(0), "barcuda");
	if (vectors)
		return vectors;
	r->registers = pcim_iomap_table(pdev)[0];
	pci_set_master(pdev);
	vectors = pci_alloc_irq_vectors(pdev, 1, 1, PCI_IRQ_MSIX);
	if (vectors < 0)
		return vectors;
	r->uio.irq = pci_irq_vector(pdev, 0);
	r->uio.handler = rung;
	r->uio.irqcontrol = ring;
	return 0;
}

static int barcuda_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	struct region *r;
	int err;

	err = pcim_enable_device(pdev);
	if (err)
		return err;
	if (pci_resource_len(pdev, 2) < BARCUDA_MIN_SIZE)
		return dev_err_probe(&pdev->dev, -ENODEV,
				     "BAR2 is too small for a region\n");
	r = region_new(&pdev->dev);
	if (!r)
		return -ENOMEM;
	err = region_attach_bar(r, pci_resource_start(pdev, 2),
				pci_resource_len(pdev, 2));
	if (!err)
		err = region_check(r);
	if (!err) {
		describe(r);
		err = attach_doorbell(r, pdev);
	}
	if (!err)
		err = uio_register_device(&pdev->dev, &r->uio);
	if (err) {
		pci_free_irq_vectors(pdev);
		region_put(r);
		return err;
	}
	pci_set_drvdata(pdev, r);
	dev_info(&pdev->dev, "%llu MiB at %#llx, %u channels, %u granules%s\n",
		 r->bytes >> 20, r->header.base, r->header.channel_count,
		 r->header.granule_count, r->paged ? "" : ", no struct pages");
	return 0;
}

/* The device is unplugged: processes that still use it get SIGBUS. */
static void barcuda_remove(struct pci_dev *pdev)
{
	struct region *r = pci_get_drvdata(pdev);

	uio_unregister_device(&r->uio);
	pci_free_irq_vectors(pdev);
	region_unplug(r);
}

static const struct pci_device_id barcuda_ids[] = {
	{ PCI_DEVICE(PCI_VENDOR_ID_REDHAT_QUMRANET, 0x1110) },
	{}
};
MODULE_DEVICE_TABLE(pci, barcuda_ids);

static struct pci_driver barcuda_driver = {
	.name = "uio_barcuda",
	.id_table = barcuda_ids,
	.probe = barcuda_probe,
	.remove = barcuda_remove,
	/* to take it from running programs is rmmod's to refuse */
	.driver.suppress_bind_attrs = true,
};

/*
 * A device that came back too soon (region.c) has its turn now. Not while the
 * driver is being taken away: `leaving` is set before what is under way is
 * waited for.
 */
static bool leaving;

void barcuda_probe_again(void)
{
	if (!READ_ONCE(leaving) && driver_attach(&barcuda_driver.driver))
		pr_warn("uio_barcuda: no second look at the devices\n");
}

/* ---- the device without hardware ---- */

static struct platform_device *platform;
static struct region *unreal;

static int make_memory_device(void)
{
	u64 bytes = memparse(memory, NULL);
	int err;

	if (bytes < BARCUDA_MIN_SIZE || !is_power_of_2(bytes)) {
		pr_err("uio_barcuda: memory=%s: not a power of two of at least %llu MiB\n",
		       memory, BARCUDA_MIN_SIZE >> 20);
		return -EINVAL;
	}
	platform = platform_device_register_simple("barcuda-memory", -1, NULL,
						   0);
	if (IS_ERR(platform))
		return PTR_ERR(platform);
	unreal = region_new(&platform->dev);
	err = unreal ? region_attach_memory(unreal, bytes) : -ENOMEM;
	if (!err) {
		describe(unreal);
		unreal->uio.mem[MAP_REGION].name = "region";
		unreal->uio.mem[MAP_REGION].size = bytes;
		err = uio_register_device(&platform->dev, &unreal->uio);
	}
	if (err) {
		if (unreal)
			region_put(unreal);
		platform_device_unregister(platform);
	}
	return err;
}

static void remove_memory_device(void)
{
	if (!memory)
		return;
	uio_unregister_device(&unreal->uio);
	region_unplug(unreal);
	platform_device_unregister(platform);
}

/* ---- the module ---- */

static int __init barcuda_init(void)
{
	int err;

	barcuda_workqueue = alloc_workqueue("barcuda", WQ_UNBOUND, 0);
	if (!barcuda_workqueue)
		return -ENOMEM;
	err = pci_register_driver(&barcuda_driver);
	if (err)
		goto no_driver;
	/* after the real ones, which programs are to find first */
	err = memory ? make_memory_device() : 0;
	if (err)
		goto no_memory;
	return 0;

no_memory:
	WRITE_ONCE(leaving, true);
	flush_workqueue(barcuda_workqueue);
	pci_unregister_driver(&barcuda_driver);
no_driver:
	destroy_workqueue(barcuda_workqueue);
	return err;
}

static void __exit barcuda_exit(void)
{
	WRITE_ONCE(leaving, true);
	flush_workqueue(barcuda_workqueue);
	pci_unregister_driver(&barcuda_driver);
	remove_memory_device();
	destroy_workqueue(barcuda_workqueue); /* waits for region_free() */
}

module_init(barcuda_init);
module_exit(barcuda_exit);
MODULE_DESCRIPTION("Barcuda's shared region for guest processes");
MODULE_AUTHOR("The Barcuda authors");
MODULE_LICENSE("GPL");
