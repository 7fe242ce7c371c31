// SPDX-License-Identifier: Apache-2.0
// stack.cc: device-mapper is asked by ioctl (linux/dm-ioctl.h), as dmsetup asks it, which not every guest has.
#include "guest-allocator/pmem/stack.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/dm-ioctl.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <vector>

#include "base/message.h"
#include "guest-allocator/pmem/tables.h"
#include "shm-device/region/region.h"

namespace barcuda::pmem {
namespace {

constexpr std::uint64_t sector = 512;
constexpr char mapped_name[] = "barcuda";

std::string failed(const std::string& what) { return fmt::format("{}: {}", what, strerror(errno)); }

// Past the page cache: what the host has written is in the device alone.
bool read_first_page(const std::string& device, barcuda_header& header) {
    const File file(open(device.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC));
    const std::unique_ptr<void, decltype(&free)> page(aligned_alloc(BARCUDA_PAGE, BARCUDA_PAGE), free);
    if (!file || !page || pread(file.fd(), page.get(), BARCUDA_PAGE, 0) != BARCUDA_PAGE) return false;
    std::memcpy(&header, page.get(), sizeof header);
    return true;
}

class Mapper {
  public:
    Mapper() : file_(open("/dev/mapper/control", O_RDWR | O_CLOEXEC)) {}
    explicit operator bool() const { return static_cast<bool>(file_); }

    // The device's number; 0: there is none of that name.
    dev_t find() { return ask(DM_DEV_STATUS) ? request_.dev : 0; }
    bool remove() { return ask(DM_DEV_REMOVE); }

    struct Part {
        std::uint64_t from, bytes;  // of `under`
    };
    // A new one, of these parts of a device.
    bool make(dev_t under, const std::vector<Part>& parts) {
        if (!ask(DM_DEV_CREATE)) return false;
        std::vector<char> table;
        std::uint64_t at = 0;
        for (const Part& part : parts) {
            const std::string where = fmt::format("{}:{} {}", major(under), minor(under), part.from / sector);
            dm_target_spec spec{};
            spec.sector_start = at / sector;
            spec.length = part.bytes / sector;
            spec.next = static_cast<std::uint32_t>((sizeof spec + where.size() + 1 + 7) / 8 * 8);
            std::strcpy(spec.target_type, "linear");
            const std::size_t begin = table.size();
            table.resize(begin + spec.next);
            std::memcpy(table.data() + begin, &spec, sizeof spec);
            std::memcpy(table.data() + begin + sizeof spec, where.c_str(), where.size() + 1);
            at += part.bytes;
        }
        if (ask(DM_TABLE_LOAD, table, parts.size()) && ask(DM_DEV_SUSPEND)) return true;  // without its flag: resume
        const int error = errno;
        remove();
        errno = error;
        return false;
    }

  private:
    bool ask(unsigned long what, const std::vector<char>& data = {}, std::size_t targets = 0) {
        std::vector<char> bytes(sizeof request_ + data.size());
        request_ = {};
        request_.version[0] = 4;  // what all kernels since 2.6 answer to
        request_.data_size = static_cast<std::uint32_t>(bytes.size());
        request_.data_start = sizeof request_;
        request_.target_count = static_cast<std::uint32_t>(targets);
        std::memcpy(request_.name, mapped_name, std::strlen(mapped_name) + 1);
        std::memcpy(bytes.data(), &request_, sizeof request_);
        std::copy(data.begin(), data.end(), bytes.begin() + sizeof request_);
        if (ioctl(file_.fd(), what, bytes.data())) return false;
        std::memcpy(&request_, bytes.data(), sizeof request_);
        return true;
    }
    File file_;
    dm_ioctl request_{};
};

// devtmpfs makes it at once, whatever udev does.
std::string node_of(dev_t device) { return fmt::format("/dev/dm-{}", minor(device)); }

bool in_use(const std::string& node) {
    return !File(open(node.c_str(), O_RDWR | O_EXCL | O_CLOEXEC)) && errno == EBUSY;
}

std::string write_tables(const std::string& node, const barcuda_header& header) {
    const std::vector<std::byte> bytes = tables(header);
    const File file(open(node.c_str(), O_WRONLY | O_CLOEXEC));
    if (!file) return failed(node);
    for (std::size_t at = 0; at < bytes.size();) {
        const ssize_t n = pwrite(file.fd(), bytes.data() + at, bytes.size() - at, static_cast<off_t>(at));
        if (n <= 0) return failed(node);
        at += static_cast<std::size_t>(n);
    }
    return fsync(file.fd()) ? failed(node) : "";
}

}  // namespace

std::string find_device() {
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator("/sys/class/block", error)) {
        const std::string name = entry.path().filename();
        barcuda_header header;
        if (name.starts_with("pmem") && read_first_page("/dev/" + name, header) && header.magic == BARCUDA_MAGIC)
            return "/dev/" + name;
    }
    return {};
}

Error read_header(const std::string& device, barcuda_header& header) {
    barcuda_header found;
    if (!read_first_page(device, found)) return error(Error::system, errno, "%s: cannot be read", device.c_str());
    if (Error e = validate(found, 0, device.c_str())) return e;
    const std::uint64_t end = BARCUDA_CHANNELS_OFFSET + found.channel_count * BARCUDA_CHANNEL_SIZE;
    if (found.extents_offset < end + tables_room)
        return error(Error::malformed, 0, "%s: its header leaves no room between channels and extents", device.c_str());
    header = found;
    return {};
}

std::string mount_files(const std::string& device, const barcuda_header& header, const std::string& folder) {
    struct stat st;
    if (stat(device.c_str(), &st) || !S_ISBLK(st.st_mode)) return failed(device);
    Mapper mapper;
    if (!mapper) return failed("/dev/mapper/control (modprobe dm_mod)");
    dev_t mapped = mapper.find();
    if (!mapped || !in_use(node_of(mapped))) {
        if (mapped && !mapper.remove()) return failed("a device of an earlier service cannot be removed");
        if (!mapper.make(st.st_rdev, {{header.extents_offset - tables_room, tables_room}, {0, header.size}}))
            return failed("device-mapper refuses");
        mapped = mapper.find();
        if (std::string wrong = write_tables(node_of(mapped), header); !wrong.empty()) return wrong;
    }
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (unshare(CLONE_NEWNS) || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr)) return failed("unshare");
    if (mount(node_of(mapped).c_str(), folder.c_str(), "ext4", MS_NOATIME | MS_NODEV | MS_NOEXEC | MS_NOSUID,
              "dax,noblock_validity"))
        return failed("mount of ext4 with dax (dmesg says why)");
    return {};
}

}  // namespace barcuda::pmem
