/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 */
/* layout.h: where everything lies in the region. Plain C: the kernel module includes it too.
 *
 *   0            header      struct barcuda_header, one page
 *   +4 KiB       slots       struct barcuda_slot[channel_count]: who holds which channel
 *   +64 KiB      grants      struct barcuda_grant[granule_count]: which client holds which granule of the heap
 *   +256 KiB     devices     struct barcuda_device[device_count]: what the host's GPUs are
 *   +320 KiB     rows        barcuda_u64[row_count]: which commands the bridge knows (identity.h)
 *   +384 KiB     snapshot    struct barcuda_snapshot: how the GPUs are doing, as NVML says it (snapshot.h)
 *   +1 MiB       channels    struct barcuda_channel + queue memory, BARCUDA_CHANNEL_SIZE each
 *   extents      the heap    granules of BARCUDA_GRANULE bytes, granted to clients in runs ("extents")
 *
 * Every word has one writer, named beside it: H the host (bridge; its workers or its monitor where said), D the
 * guest's door (its kernel module; on the flat transport the client itself), C the client. Guest processes see
 * header, slots, grants, devices, rows and snapshot read-only through the module. All integers are little-endian,
 * all offsets count bytes from the region's start.
 */
#ifndef BARCUDA_LAYOUT_H
#define BARCUDA_LAYOUT_H

#ifdef __KERNEL__
#include <linux/build_bug.h>
#include <linux/stddef.h>
#include <linux/types.h>
typedef __u32 barcuda_u32;
typedef __s32 barcuda_s32;
typedef __u64 barcuda_u64;
#else
#include <stddef.h>
#include <stdint.h>
typedef uint32_t barcuda_u32;
typedef int32_t barcuda_s32;
typedef uint64_t barcuda_u64;
#ifndef __cplusplus
#include <assert.h>
#endif
#endif

#define BARCUDA_MAGIC 0x3141445543524142ull /* "BARCUDA1" */
/* Grows with every change of this file that the other side would misread. (Not where reserved bytes get a meaning,
 * and zeros go on meaning that there is nothing.)
 */
#define BARCUDA_LAYOUT 7u
/* Grows when the same values of a command would travel as other bytes: packet.h, the heads, a kind's encoding, wire.h.
 * (docs/versions.md. The guest's module does not care.)
 */
#define BARCUDA_PACKETS 1u

#define BARCUDA_PAGE 4096ull
#define BARCUDA_SLOTS_OFFSET 0x1000ull
#define BARCUDA_GRANTS_OFFSET 0x10000ull
#define BARCUDA_DEVICES_OFFSET 0x40000ull
#define BARCUDA_ROWS_OFFSET 0x50000ull
#define BARCUDA_SNAPSHOT_OFFSET 0x60000ull
#define BARCUDA_SNAPSHOT_SIZE 0xa0000ull
#define BARCUDA_CHANNELS_OFFSET 0x100000ull
#define BARCUDA_CHANNEL_SIZE 0x100000ull
#define BARCUDA_GRANULE 0x2000000ull         /* 32 MiB: a mimalloc segment, a multiple of every huge page but 1 GiB */
#define BARCUDA_DEFAULT_BASE 0x200000000000ull /* free on x86-64 Linux, under ASan too; a region may name another */
/* Where the GPU's own memory may lie in a worker, and so in kernel arguments. Workers run with the legacy mmap
 * layout: what the driver maps goes to 0x2a..., its pools to the first terabyte. Guest programs have nothing in
 * this window but the region itself, and the library reserves the rest of it: an address alone says which of the
 * two it is. These are the windows of a header that names none (windows.h).
 */
#define BARCUDA_DEVICE_BASE 0x200000000ull
#define BARCUDA_DEVICE_POOLS_END 0x10000000000ull /* below: pools and reservations of the driver */
#define BARCUDA_DEVICE_MAPPED 0x2a0000000000ull   /* from here on: what it maps; the region lies in between, or above */
#define BARCUDA_DEVICE_END 0x500000000000ull
#define BARCUDA_MIN_SIZE 0x8000000ull        /* 128 MiB: 8 channels and three granules */
#define BARCUDA_MAX_SIZE 0x4000000000ull     /* 256 GiB: what SeaBIOS and 40 physical address bits can place */
#define BARCUDA_MAX_CHANNELS 256u
#define BARCUDA_MAX_DEVICES 32u             /* more than any machine that is sold has */
#define BARCUDA_MAX_ROWS 8192u               /* some thirty times what there are */
#define BARCUDA_MAX_PROCESSES 1024u          /* in a snapshot: a client on two devices counts as two */
#define BARCUDA_BYTES_PER_CHANNEL 0x4000000ull /* one channel slot for each 64 MiB of region, within 8..256 */

struct barcuda_header {            /* all H; written before `magic`, constant afterwards except `heartbeat` */
	barcuda_u64 magic;         /* BARCUDA_MAGIC, stored last with release order */
	barcuda_u32 layout;        /* BARCUDA_LAYOUT */
	barcuda_u32 header_bytes;  /* BARCUDA_CHANNELS_OFFSET: all that a guest process may read */
	barcuda_u32 packets;       /* BARCUDA_PACKETS */
	barcuda_u32 row_count;     /* 1 to BARCUDA_MAX_ROWS */
	barcuda_u64 base;          /* virtual address of offset 0 in every process, except clients with a base of their own */
	barcuda_u64 size;          /* bytes, a power of two */
	barcuda_u64 channel_size;  /* BARCUDA_CHANNEL_SIZE */
	barcuda_u64 granule;       /* BARCUDA_GRANULE */
	barcuda_u64 extents_offset; /* a multiple of `granule` */
	barcuda_u32 channel_count;
	barcuda_u32 granule_count;
	barcuda_u32 device_count;
	barcuda_u32 epoch;         /* grows when a bridge takes over an existing region: older channels are dead */
	barcuda_u32 bridge_pid;    /* in the host's pid namespace; 0: no bridge serves this region now */
	barcuda_u32 driver_version; /* cuDriverGetVersion of the host */
	barcuda_u64 bridge_start;  /* /proc/PID/stat starttime of bridge_pid: tells a reused pid */
	char build[64];            /* the host's version, for messages */
	barcuda_u64 heartbeat;     /* grows several times a second while a bridge serves the region */
	barcuda_u64 rows_offset;   /* a multiple of 8; the rows lie behind the devices and before header_bytes */
	barcuda_u64 snapshot_offset; /* a multiple of 4096; 0: this bridge takes none */
	barcuda_u32 windows_epoch; /* == `epoch`: the next four hold, and a client may have a base of its own. Else (an
	                            * older bridge leaves what it finds) they are BARCUDA_DEVICE_*, and no client has one
	                            */
	barcuda_u32 reserved;
	barcuda_u64 device_base;   /* windows of the GPU's own memory: see BARCUDA_DEVICE_BASE */
	barcuda_u64 device_pools_end;
	barcuda_u64 device_mapped;
	barcuda_u64 device_end;
};

/* A channel slot's life is three counters, each written by one side and only ever growing:
 *   free       opened == closed == reclaimed
 *   open       opened == closed + 1, closed == reclaimed        (door: a client maps it)
 *   closed     opened == closed, reclaimed == closed - 1        (door: its last mapping is gone; host must clean up)
 * On the flat transport the client raises `opened` (compare-and-swap), and the bridge raises `closed` when the pid
 * is gone.
 */
struct barcuda_slot {
	barcuda_u32 opened;        /* D */
	barcuda_u32 closed;        /* D */
	barcuda_u32 pid;           /* D: flat transport: the client's pid; 0 behind a module */
	barcuda_u32 map_lock;      /* D: flat transport: 1: the slot's second byte is locked while its channel is mapped */
	barcuda_u64 start_time;    /* D: flat transport: starttime of pid, /proc/PID/stat field 22 */
	barcuda_u64 reserved1[5];
	barcuda_u32 reclaimed;     /* H */
	barcuda_u32 served;        /* H: == opened once a worker serves this opening */
	barcuda_u64 reserved2[7];
};

/* A granule is free when owner == 0 and mapped == 0; the host clears its contents before it grants it again. */
struct barcuda_grant {
	barcuda_u32 owner;         /* H: channel index + 1 of the client that may map it; 0: none */
	barcuda_u32 mapped;        /* D: pages of it that guest processes map, with forked children; flat transport: 0 */
};

struct barcuda_device {            /* all H, constant */
	char name[256];
	unsigned char uuid[16];
	char pci_bus_id[32];
	barcuda_u64 total_memory;  /* bytes */
	barcuda_u32 attribute_count;
	barcuda_u32 reserved;
	barcuda_s32 attributes[256]; /* by CUdevice_attribute; BARCUDA_ATTRIBUTE_UNKNOWN where the host's driver has none */
};
#define BARCUDA_ATTRIBUTE_UNKNOWN (-0x7fffffff - 1)

/* The state of the GPUs: answers to NVML's questions, which the bridge's monitor asks more than once a second while
 * a client is `watching`. Behind this head are `answer_count` times struct barcuda_answers, then what they name. A
 * reader copies, and starts again if `sequence` has changed.
 */
struct barcuda_snapshot {
	barcuda_u64 sequence;      /* H (monitor): odd while it writes; 0: it has not yet */
	barcuda_u32 state;         /* H (bridge): enum barcuda_snapshot_state */
	barcuda_u32 answer_count;  /* H (monitor), as all below */
	barcuda_u32 process_count; /* 0 to BARCUDA_MAX_PROCESSES */
	barcuda_u32 processes_offset; /* from the snapshot's start: struct barcuda_process[process_count] */
	barcuda_u64 taken;         /* when, in microseconds since 1970 on the host */
	barcuda_u64 reserved[4];
};
enum barcuda_snapshot_state {
	BARCUDA_SNAPSHOT_TAKEN = 0,  /* again and again while a client watches */
	BARCUDA_SNAPSHOT_SILENT = 1, /* the monitor has not come back from the host's driver for seconds */
	BARCUDA_SNAPSHOT_NONE = 2    /* the host has no NVML that works */
};
struct barcuda_answers {           /* to one question: of each device, and each other key that the question has */
	barcuda_u64 identity;      /* of the row (nvml_rows.h) */
	barcuda_u32 offset;        /* from the snapshot's start, a multiple of 8 */
	barcuda_u32 bytes;         /* of all of them */
};
struct barcuda_process {           /* a client that uses a device */
	barcuda_u32 pid;           /* the guest's, as the client says */
	barcuda_u32 device;        /* index */
	barcuda_u64 used_memory;   /* bytes; 2^64-1: not known */
	barcuda_u64 sampled;       /* when the four below were, in microseconds since 1970; 0: never */
	barcuda_u32 sm, memory, encoder, decoder; /* utilization in percent */
};

/* The head of each channel. Queue sizes are in virtqueue descriptors of 16 bytes. */
#define BARCUDA_QUEUE_SIZE 1024u
#define BARCUDA_FENCES 1024u
#define BARCUDA_STATUS_OFFSET 0x0ull
#define BARCUDA_CLIENT_OFFSET 0x1000ull
#define BARCUDA_FENCES_OFFSET 0x2000ull
#define BARCUDA_RING_OFFSET 0x4000ull
#define BARCUDA_DRIVER_EVENT_OFFSET 0x8000ull
#define BARCUDA_KICKS_OFFSET 0x8004ull /* u32, C: grows with each kick; a worker sleeps on it */
#define BARCUDA_DEVICE_EVENT_OFFSET 0x8040ull
#define BARCUDA_WAKES_OFFSET 0x8044ull /* u32, H: grows with each wake-up; the client's threads sleep on it */
#define BARCUDA_CALLS_OFFSET 0x8080ull
#define BARCUDA_SUPPLY_OFFSET 0x8100ull
#define BARCUDA_COMMANDS_OFFSET 0x9000ull
#define BARCUDA_COMMANDS_SIZE (BARCUDA_CHANNEL_SIZE - BARCUDA_COMMANDS_OFFSET)

enum barcuda_state {
	BARCUDA_STATE_NEW = 0,     /* no worker yet: commands wait in the queue */
	BARCUDA_STATE_READY = 1,   /* a worker serves this channel */
	BARCUDA_STATE_REFUSED = 2, /* the client broke the protocol: its session has ended */
	BARCUDA_STATE_DEAD = 3,    /* the worker died (crash, kill, lost GPU) */
	BARCUDA_STATE_GONE = 4     /* the bridge has stopped */
};

enum barcuda_prints {
	BARCUDA_PRINTS_UNTOLD = 0,  /* a worker of an older version: it says so of each function */
	BARCUDA_PRINTS_PERHAPS = 1, /* some of the client's code may print, or is being looked through yet */
	BARCUDA_PRINTS_NOT = 2      /* none of it does */
};

enum barcuda_paused {              /* by the host's administrator: commands wait in the queue, and are not lost */
	BARCUDA_PAUSED_NO = 0,
	BARCUDA_PAUSED_HELD = 1,    /* the client's memory is on the GPU */
	BARCUDA_PAUSED_AWAY = 2     /* the host keeps it elsewhere */
};

struct barcuda_status {            /* H (bridge and worker), at BARCUDA_STATUS_OFFSET */
	barcuda_u32 state;         /* enum barcuda_state; final once > READY */
	barcuda_u32 channel;       /* this channel's index */
	barcuda_u32 opening;       /* the slot's `opened` that this status speaks of */
	barcuda_u32 worker_pid;
	barcuda_s32 posted_error;  /* CUresult of the last posted command that failed */
	barcuda_u32 posted_op;     /* which command that was: its number at the bridge */
	barcuda_u64 posted_count;  /* how many posted commands failed so far; stored last, for clients to compare */
	barcuda_s32 fatal_error;   /* CUresult for every call once state > READY */
	barcuda_s32 context_error; /* sticky CUresult of a GPU fault: every later call of the client gets it; 0: none */
	char message[256];         /* why, for a person; NUL-terminated */
	barcuda_u32 prints;        /* enum barcuda_prints; stored before the reply to a command that loads code */
	barcuda_u32 paused;        /* enum barcuda_paused */
};

enum barcuda_bell {                /* how a client kicks a worker that sleeps, and wants to be woken */
	BARCUDA_BELL_NONE = 0,    /* not at all (plain ivshmem): both look by themselves */
	BARCUDA_BELL_FUTEX = 1,   /* one kernel: FUTEX_WAKE on the two words; the worker fences for both (virtqueue.h) */
	BARCUDA_BELL_DOORBELL = 2 /* ivshmem's doorbell, which the bridge hears, and its interrupt */
};

struct barcuda_client {            /* C, at BARCUDA_CLIENT_OFFSET */
	barcuda_u32 pid;           /* in the guest's eyes: for the host's log lines only */
	barcuda_u32 bell;          /* enum barcuda_bell */
	char program[120];         /* for the log too */
	barcuda_u64 rows_hash;     /* of the rows by which its commands are numbered; before its first command */
	unsigned char devices[BARCUDA_MAX_DEVICES]; /* which of the region's devices its program sees, in its order */
	barcuda_u32 device_count;  /* how many; stored last. 0: it has not said so, and gets no worker yet */
	barcuda_u32 watching;      /* grows when it asks how the GPUs are doing: the monitor then answers for some seconds */
	char user[32];             /* whose process it is, by name, or by number if the name is not known: for display */
	barcuda_u64 base;          /* of offset 0 in this client and its worker; before `device_count`. 0: the header's */
};

/* At BARCUDA_CALLS_OFFSET: work of the GPU waits for a function of the program (cuLaunchHostFunc). One at a time:
 * the worker asks, the client runs the function and says so.
 */
struct barcuda_calls {
	barcuda_u64 asked;         /* H: grows with each call, stored after the next two */
	barcuda_u64 function;      /* H: which: the number that the client gave it */
	barcuda_s32 status;        /* H: CUresult of the work before it */
	barcuda_u32 reserved0;
	barcuda_u64 reserved1[5];
	barcuda_u64 done;          /* C: == asked once the function has returned */
	barcuda_u64 reserved2[7];
};

/* At BARCUDA_SUPPLY_OFFSET: extents for the client's heap, on a road of their own. A driver sometimes makes the
 * worker wait for the GPU, and the GPU may wait for the thread that asks here, in a malloc. One request at a time.
 */
struct barcuda_supply {
	barcuda_u64 asked;         /* C: grows with each request, stored after `bytes`; the worker sleeps on its low half */
	barcuda_u64 bytes;         /* C: wanted, a multiple of `granule` */
	barcuda_u64 reserved0[6];
	barcuda_u64 answered;      /* H: == asked once the next three hold */
	barcuda_u64 offset;        /* H: of the extent */
	barcuda_u64 granted;       /* H: its bytes, at least those wanted; zero-filled */
	barcuda_s32 error;         /* H: CUresult; 0: granted */
	barcuda_u32 reserved1;
	barcuda_u64 reserved2[4];
};

#ifdef __cplusplus
#define BARCUDA_ASSERT(x) static_assert(x, #x)
#else
#define BARCUDA_ASSERT(x) _Static_assert(x, #x)
#endif
BARCUDA_ASSERT(sizeof(struct barcuda_header) <= BARCUDA_SLOTS_OFFSET);
BARCUDA_ASSERT(offsetof(struct barcuda_header, base) == 24);
BARCUDA_ASSERT(offsetof(struct barcuda_header, channel_count) == 64);
BARCUDA_ASSERT(offsetof(struct barcuda_header, build) == 96);
BARCUDA_ASSERT(offsetof(struct barcuda_header, heartbeat) == 160);
BARCUDA_ASSERT(offsetof(struct barcuda_header, rows_offset) == 168);
BARCUDA_ASSERT(offsetof(struct barcuda_header, snapshot_offset) == 176);
BARCUDA_ASSERT(offsetof(struct barcuda_header, windows_epoch) == 184);
BARCUDA_ASSERT(sizeof(struct barcuda_header) == 224 && offsetof(struct barcuda_client, base) == 208);
BARCUDA_ASSERT(BARCUDA_DEFAULT_BASE + BARCUDA_MAX_SIZE <= BARCUDA_DEVICE_MAPPED);
BARCUDA_ASSERT(sizeof(struct barcuda_slot) == 128 && offsetof(struct barcuda_slot, reclaimed) == 64);
BARCUDA_ASSERT(BARCUDA_SLOTS_OFFSET + BARCUDA_MAX_CHANNELS * sizeof(struct barcuda_slot) <= BARCUDA_GRANTS_OFFSET);
BARCUDA_ASSERT(sizeof(struct barcuda_grant) == 8);
BARCUDA_ASSERT(BARCUDA_GRANTS_OFFSET + BARCUDA_MAX_SIZE / BARCUDA_GRANULE * sizeof(struct barcuda_grant) <=
	       BARCUDA_DEVICES_OFFSET);
BARCUDA_ASSERT(sizeof(struct barcuda_device) == 1344);
BARCUDA_ASSERT(BARCUDA_DEVICES_OFFSET + BARCUDA_MAX_DEVICES * sizeof(struct barcuda_device) <= BARCUDA_ROWS_OFFSET);
BARCUDA_ASSERT(BARCUDA_ROWS_OFFSET + BARCUDA_MAX_ROWS * 8 <= BARCUDA_SNAPSHOT_OFFSET);
BARCUDA_ASSERT(BARCUDA_SNAPSHOT_OFFSET + BARCUDA_SNAPSHOT_SIZE <= BARCUDA_CHANNELS_OFFSET);
BARCUDA_ASSERT(sizeof(struct barcuda_snapshot) == 64);
BARCUDA_ASSERT(sizeof(struct barcuda_answers) == 16);
BARCUDA_ASSERT(sizeof(struct barcuda_process) == 40);
BARCUDA_ASSERT(BARCUDA_CHANNELS_OFFSET + BARCUDA_MAX_CHANNELS * BARCUDA_CHANNEL_SIZE <= BARCUDA_MAX_SIZE);
BARCUDA_ASSERT(sizeof(struct barcuda_status) <= BARCUDA_PAGE && sizeof(struct barcuda_client) <= BARCUDA_PAGE);
BARCUDA_ASSERT(sizeof(struct barcuda_calls) == 128 && offsetof(struct barcuda_calls, done) == 64);
BARCUDA_ASSERT(BARCUDA_CALLS_OFFSET + sizeof(struct barcuda_calls) <= BARCUDA_SUPPLY_OFFSET);
BARCUDA_ASSERT(sizeof(struct barcuda_supply) == 128 && offsetof(struct barcuda_supply, answered) == 64);
BARCUDA_ASSERT(BARCUDA_SUPPLY_OFFSET + sizeof(struct barcuda_supply) <= BARCUDA_COMMANDS_OFFSET);
BARCUDA_ASSERT(BARCUDA_FENCES_OFFSET + BARCUDA_FENCES * 8 <= BARCUDA_RING_OFFSET);
BARCUDA_ASSERT(BARCUDA_RING_OFFSET + BARCUDA_QUEUE_SIZE * 16 <= BARCUDA_DRIVER_EVENT_OFFSET);
BARCUDA_ASSERT(BARCUDA_DRIVER_EVENT_OFFSET / 64 == BARCUDA_KICKS_OFFSET / 64);
BARCUDA_ASSERT(BARCUDA_DEVICE_EVENT_OFFSET / 64 == BARCUDA_WAKES_OFFSET / 64);

#endif
