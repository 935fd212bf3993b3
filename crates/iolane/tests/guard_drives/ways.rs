//! The ways in which a kernel has a drive in use, each as a shell script that begins it and one that ends it. A script finds in
//! `$USED` the drive or the partition that it is to use; in `$OTHER` one of another drive, which it may use with it; in `$GENERIC`
//! and `$CONTROLLER` the character devices of the drive; in `$FOLDER` a folder of its own, beside which it may make files; and in
//! `$NVMET` where exports are configured.
//!
//! Each names how much it may change of what it uses, from the beginning; the test compares the rest.

/// A way to use a drive.
pub(crate) struct Way {
    pub(crate) name: &'static str,
    pub(crate) begin: &'static str,
    pub(crate) end: &'static str,
    /// What it may change of what it uses, from the beginning.
    pub(crate) changes_mib: u64,
    /// Whether `$OTHER` is in use as well, and changes as much.
    pub(crate) uses_other: bool,
    /// Whether a partition can be used so.
    pub(crate) of_partitions: bool,
}

impl Way {
    /// Changes nothing.
    const fn new(name: &'static str, begin: &'static str, end: &'static str) -> Self {
        Self { name, begin, end, changes_mib: 0, uses_other: false, of_partitions: true }
    }

    const fn changes(mut self, mib: u64) -> Self {
        self.changes_mib = mib;
        self
    }

    const fn with_other(mut self) -> Self {
        self.uses_other = true;
        self
    }

    const fn of_drives_only(mut self) -> Self {
        self.of_partitions = false;
        self
    }
}

pub(crate) const WAYS: &[Way] = &[
    Way::new("ext4", "mkfs.ext4 -q -F -E nodiscard $USED 32m; mount -t ext4 $USED $FOLDER", "umount $FOLDER")
        .changes(32),
    Way::new(
        "ext4 in another mount namespace",
        "mkfs.ext4 -q -F -E nodiscard $USED 32m
         unshare -m sh -e -c \"exec 9<$FOLDER; mount -t ext4 $USED $FOLDER; touch $FOLDER.begun; exec sleep 6000\" \
             >$FOLDER.log 2>&1 &
         echo $! >$FOLDER.pid
         until [ -e $FOLDER.begun ]; do kill -0 $!; sleep 0.1; done",
        END_PROGRAM,
    )
    .changes(32),
    Way::new(
        "ext4 with its journal on another drive",
        "mkfs.ext4 -q -F -E nodiscard -O journal_dev -b 4096 $USED 8192
         mkfs.ext4 -q -F -E nodiscard -b 4096 -J device=$USED $OTHER 32m
         mount -t ext4 $OTHER $FOLDER",
        "umount $FOLDER",
    )
    .changes(32)
    .with_other(),
    Way::new("btrfs", "mkfs.btrfs -q -f -K -M -b 32m $USED; mount -t btrfs $USED $FOLDER", "umount $FOLDER")
        .changes(32),
    Way::new(
        "btrfs over two drives, mounted by the name of the other",
        "mkfs.btrfs -q -f -K -M -b 100m -d raid1 -m raid1 $OTHER $USED
         mount -t btrfs -o device=$OTHER,device=$USED $OTHER $FOLDER",
        "umount $FOLDER",
    )
    .changes(100)
    .with_other(),
    Way::new("swap", "mkswap -q $USED 32768; swapon $USED", "swapoff $USED").changes(32),
    // Its data, of which nothing is written, may lie behind some MiB for the superblock.
    Way::new("a RAID", MAKE_RAID, STOP_RAID).changes(48),
    Way::new(
        "a logical volume",
        "lvm pvcreate -qq -ff -y $USED; lvm vgcreate -qq group $USED
         lvm lvcreate -qq -y -Zn -Wn -l 4 -n volume group",
        "lvm vgremove -qq -ff -y group; lvm pvremove -qq -ff -y $USED",
    )
    .changes(32),
    Way::new("a device-mapper table", "echo 0 65536 linear $USED 0 | dmsetup create table", "dmsetup remove table"),
    Way::new(
        "a device-mapper table that is suspended",
        "echo 0 65536 linear $USED 0 | dmsetup create table; dmsetup suspend table",
        "dmsetup resume table; dmsetup remove table",
    ),
    Way::new(
        "the backing of a cache",
        "head -c 128k /dev/zero >$USED; make-bcache -B $USED >$FOLDER.log; echo $USED >/sys/fs/bcache/register",
        "echo 1 >/sys/block/bcache0/bcache/stop; while [ -e /sys/block/bcache0 ]; do sleep 0.1; done",
    )
    .changes(1),
    Way::new("a loop device", "losetup -f --show $USED >$FOLDER.loop", "losetup -d $(cat $FOLDER.loop)"),
    Way::new(
        "a loop device that was detached while it was mounted",
        "mkfs.ext4 -q -F -E nodiscard $USED 32m; losetup -f --show $USED >$FOLDER.loop
         mount -t ext4 $(cat $FOLDER.loop) $FOLDER; losetup -d $(cat $FOLDER.loop)",
        "umount $FOLDER",
    )
    .changes(32),
    Way::new("an NVMe target", EXPORT, END_EXPORT),
    Way::new(
        "an NVMe target, by another name",
        "ln -sf $USED $FOLDER.name; mkdir $NVMET/drive $NVMET/drive/namespaces/1
         echo -n $FOLDER.name >$NVMET/drive/namespaces/1/device_path; echo 1 >$NVMET/drive/namespaces/1/enable",
        END_EXPORT,
    ),
    Way::new(
        "an NVMe target that passes commands through",
        "mkdir $NVMET/drive
         if [ ! -e $NVMET/drive/passthru ]; then rmdir $NVMET/drive; echo this kernel has no passthru >&2; exit 1; fi
         echo -n $CONTROLLER >$NVMET/drive/passthru/device_path; echo 1 >$NVMET/drive/passthru/enable",
        "echo 0 >$NVMET/drive/passthru/enable; rmdir $NVMET/drive",
    )
    .of_drives_only(),
    Way::new("a program that reads", "exec 9<$USED; sleep 6000 >$FOLDER.log 2>&1 & echo $! >$FOLDER.pid", END_PROGRAM),
    Way::new(
        "a program that writes",
        "exec 9<>$USED; sleep 6000 >$FOLDER.log 2>&1 & echo $! >$FOLDER.pid",
        END_PROGRAM,
    ),
    Way::new(
        "a program with the generic device",
        "exec 9<$GENERIC; sleep 6000 >$FOLDER.log 2>&1 & echo $! >$FOLDER.pid",
        END_PROGRAM,
    )
    .of_drives_only(),
];

const MAKE_RAID: &str =
    "mdadm --quiet --create /dev/md7 --run --assume-clean --level=1 --raid-devices=2 --size=32M $USED missing";
const STOP_RAID: &str = "mdadm --quiet --stop /dev/md7; mdadm --quiet --zero-superblock $USED";
const EXPORT: &str = "mkdir $NVMET/drive $NVMET/drive/namespaces/1
     echo -n $USED >$NVMET/drive/namespaces/1/device_path; echo 1 >$NVMET/drive/namespaces/1/enable";
const END_EXPORT: &str = "echo 0 >$NVMET/drive/namespaces/1/enable; rmdir $NVMET/drive/namespaces/1 $NVMET/drive";
/// The program has the descriptor 9 until it is gone.
const END_PROGRAM: &str = "read pid <$FOLDER.pid; kill -9 $pid; while [ -e /proc/$pid/fd/9 ]; do sleep 0.1; done";
