// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/suspended/set.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <set>
#include <system_error>
#include <vector>

#include "base/bytes.h"
#include "host-bridge/suspended/crew.h"

namespace barcuda {
namespace {

constexpr const char* description_name = "set.json";
constexpr std::size_t most_description = 1 << 20;  // 256 clients have 200 KiB
constexpr std::size_t smallest_begun = 1 << 20;

Failure sync(const File& file, const std::string& called) {
    if (file && fsync(file.fd()) == 0) return {};
    return fmt::format("{}: {}", called, strerror(errno));
}

std::string folder_of(const std::string& path) { return std::filesystem::path(path).parent_path(); }

// Why a file or folder of a set is not believed.
Failure refuse(int file, mode_t type, const std::string& called) {
    struct stat st;
    if (fstat(file, &st) != 0) return fmt::format("{}: {}", called, strerror(errno));
    if ((st.st_mode & S_IFMT) != type)
        return fmt::format("{} is no {}", called, type == S_IFDIR ? "folder" : "regular file");
    if (st.st_uid != 0 && st.st_uid != geteuid())
        return fmt::format("{} belongs to user {}, and not to root or to this user: its contents may be anything",
                           called, st.st_uid);
    if (st.st_mode & (S_IWGRP | S_IWOTH)) return fmt::format("other users may write to {} (chmod go-w)", called);
    if (type == S_IFREG && st.st_nlink != 1) return fmt::format("{} has a second name (a hard link)", called);
    return {};
}

// Opens it without following a link, and without waiting for a pipe.
Failure open_there(int folder, const std::string& name, mode_t type, const std::string& called, File& file) {
    const int how = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | (type == S_IFDIR ? O_DIRECTORY : 0);
    file = File(openat(folder, name.c_str(), how));
    struct stat st;
    const bool link = !file && fstatat(folder, name.c_str(), &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode);
    if (link) return fmt::format("{} is a symbolic link: name what it leads to", called);
    if (!file) return fmt::format("{}: {}", called, strerror(errno));
    return refuse(file.fd(), type, called);
}

std::string first_folder(const std::string& name) {
    const auto slash = name.find('/');
    return slash == std::string::npos ? "" : name.substr(0, slash);
}

}  // namespace

// ---- writing

SetWriter::~SetWriter() {
    if (!folder_) return;
    std::error_code ec;
    std::filesystem::remove_all(part_, ec);
}

Failure SetWriter::begin(const std::string& folder) {
    std::error_code ec;
    place_ = std::filesystem::absolute(folder, ec).lexically_normal();
    while (place_.size() > 1 && place_.ends_with('/')) place_.pop_back();
    part_ = place_ + ".part";
    if (std::filesystem::exists(std::filesystem::symlink_status(place_, ec)) &&
        (!std::filesystem::is_directory(std::filesystem::symlink_status(place_, ec)) ||
         !std::filesystem::is_empty(place_, ec)))
        return fmt::format("{}: it is there already; name a new folder", place_);
    Failure failure = take_folder();
    if (failure) folder_ = File();  // and it stays as it is
    return failure;
}

Failure SetWriter::take_folder() {
    const bool is_new = mkdir(part_.c_str(), 0700) == 0;
    if (!is_new && errno != EEXIST) return fmt::format("{}: {}", part_, strerror(errno));
    if (Failure failure = open_there(AT_FDCWD, part_, S_IFDIR, part_, folder_)) return failure;
    const std::string taken = fmt::format("{}: another command writes it", part_);
    if (flock(folder_.fd(), LOCK_EX | LOCK_NB) != 0) {
        if (errno == EWOULDBLOCK) return taken;
        // A file system that locks no folders says nothing of a command that was killed.
        return is_new ? Failure() : taken + ", or was killed; remove it";
    }
    // The one that had the lock may have given the folder its name.
    struct stat locked, named;
    if (fstat(folder_.fd(), &locked) != 0 || lstat(part_.c_str(), &named) != 0 || locked.st_ino != named.st_ino ||
        locked.st_dev != named.st_dev)
        return taken;
    return is_new ? Failure() : remove_left();
}

// Only what a set has: the folder may be another program's.
Failure SetWriter::remove_left() const {
    namespace fs = std::filesystem;
    std::error_code ec;
    std::vector<fs::path> folders, files;
    for (fs::recursive_directory_iterator its(part_, ec), end; !ec && its != end; its.increment(ec)) {
        const std::string name = its->path().lexically_relative(part_);
        const bool is_folder = its->is_directory(ec) && !its->is_symlink(ec);
        if (!is_part(is_folder ? name + "/births" : name) && name != description_name && name != part_of_domain)
            return fmt::format("{}: it is there, and {} in it is of no suspend: remove it, or name another folder",
                               part_, name);
        (is_folder ? folders : files).push_back(its->path());
    }
    for (const std::vector<fs::path>& all : {files, folders})
        for (const fs::path& path : all)
            if (!ec) fs::remove(path, ec);
    return ec ? fmt::format("{}: what a command that was killed has left there cannot be removed: {}", part_,
                            ec.message())
              : Failure();
}

Failure SetWriter::aside(File& file, std::uint64_t& most) {
    file = File(openat(folder_.fd(), ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
    if (!file) {  // a file system that has none without a name
        constexpr const char* name = "aside";
        if (Failure failure = make_file(name, file)) return failure;
        if (unlinkat(folder_.fd(), name, 0) != 0) return failed(name);
    }
    struct statvfs there;
    if (fstatvfs(file.fd(), &there) != 0) return failed("");
    // One without a limit says that it has no blocks at all.
    most = there.f_blocks == 0 ? ~std::uint64_t{} : there.f_bavail * there.f_frsize / 2;
    return {};
}

Failure SetWriter::failed(const std::string& name) const {
    return fmt::format("{}/{}: {}", part_, name, strerror(errno));
}

Failure SetWriter::make_file(const std::string& name, File& file) const {
    if (const std::string folder = first_folder(name);
        !folder.empty() && mkdirat(folder_.fd(), folder.c_str(), 0700) != 0 && errno != EEXIST)
        return failed(folder);
    file = File(openat(folder_.fd(), name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    return file ? Failure() : failed(name);
}

Failure SetWriter::make(const std::string& name, Sink& sink) {
    File file;
    if (Failure failure = make_file(name, file)) return failure;
    sink = [fd = file.fd(), name](std::span<const std::byte> bytes) -> Failure {
        while (!bytes.empty()) {
            const ssize_t n = write(fd, bytes.data(), bytes.size());
            if (n < 0 && errno == EINTR) continue;
            if (n <= 0) return fmt::format("{}: {}", name, strerror(errno));
            bytes = bytes.subspan(static_cast<std::size_t>(n));
        }
        return {};
    };
    const std::lock_guard lock(mutex_);
    files_[name].file = std::move(file);
    return {};
}

FrameWriter::SinkAt SetWriter::sink_at(const std::string& name) {
    const std::lock_guard lock(mutex_);
    Begun& its = files_.at(name);
    its.wide = std::make_shared<WideFile>(its.file.fd());
    return [file = its.wide, fd = its.file.fd()](std::uint64_t at, std::span<const std::byte> bytes) -> Failure {
        if (const int error = file->write(at, bytes)) return strerror(error);
        // The disk begins at once: the end waits for less. (It is no promise, and may fail.)
        if (bytes.size() >= smallest_begun)
            (void)sync_file_range(fd, static_cast<off_t>(at), static_cast<off_t>(bytes.size()), SYNC_FILE_RANGE_WRITE);
        return {};
    };
}

Failure SetWriter::finish(const std::string& name, std::uint64_t bytes, const Digest& digest) {
    std::unique_lock lock(mutex_);
    const auto its = files_.extract(name);
    lock.unlock();
    if (!its) return name + " was not begun";
    if (Failure failure = sync(its.mapped().file, name)) return failure;
    lock.lock();
    parts_.push_back({name, bytes, digest.text()});
    return {};
}

Failure SetWriter::commit(Description description) {
    description.parts = parts_;
    const std::string text = text_of(description);
    if (Description same; Failure failure = parse(text, same)) return failure;  // as its reader will
    File file;
    if (Failure failure = make_file(description_name, file)) return failure;
    if (write(file.fd(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
        return failed(description_name);
    if (Failure failure = sync(file, description_name)) return failure;
    std::set<std::string> folders;
    for (const Description::Part& part : parts_)
        if (const std::string folder = first_folder(part.name); !folder.empty()) folders.insert(folder);
    for (const std::string& name : folders)
        if (Failure failure = sync(File(openat(folder_.fd(), name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)), name))
            return failure;
    if (Failure failure = sync(folder_, part_)) return failure;
    // An empty folder gives way; one that was filled meanwhile does not.
    if (rename(part_.c_str(), place_.c_str()) != 0) return fmt::format("{}: {}", place_, strerror(errno));
    folder_ = File();
    const std::string above = folder_of(place_);
    return sync(File(open(above.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)), above);
}

void SetWriter::take_back() {
    std::error_code ec;
    std::filesystem::remove_all(place_, ec);
}

// ---- reading

Failure SetReader::open(const std::string& path) {
    File folder, file;
    if (Failure failure = open_there(AT_FDCWD, path, S_IFDIR, path, folder)) return failure;
    const std::string called = path + "/" + description_name;
    if (Failure failure = open_there(folder.fd(), description_name, S_IFREG, called, file)) return failure;
    std::string text(most_description, 0);
    const ssize_t n = pread(file.fd(), text.data(), text.size(), 0);
    if (n < 0) return fmt::format("{}: {}", called, strerror(errno));
    text.resize(static_cast<std::size_t>(n));
    Description description;
    if (Failure failure = parse(text, description)) return fmt::format("{}: {}", called, failure.text());
    files_.clear();
    for (const Description::Part& part : description.parts)
        if (Failure failure = open_part(folder, part)) return fmt::format("{}: {}", path, failure.text());
    description_ = std::move(description);
    path_ = path;
    verified_ = false;
    return {};
}

Failure SetReader::verify(const std::function<Failure()>& goes_on) {
    struct Chunk {
        std::size_t part;
        std::uint64_t at;
    };
    const std::vector<Description::Part>& parts = description_.parts;
    std::vector<Chunk> chunks;
    std::vector<std::vector<Digest::Hash>> hashes(parts.size());
    for (std::size_t part = 0; part < parts.size(); ++part) {
        for (std::uint64_t at = 0; at < parts[part].bytes; at += Digest::chunk) chunks.push_back({part, at});
        hashes[part].resize((parts[part].bytes + Digest::chunk - 1) / Digest::chunk);
    }
    Failure failure = in_threads(chunks.size(), Crew::threads(), [&](std::size_t i) -> Failure {
        if (goes_on)
            if (Failure given_up = goes_on()) return given_up;
        thread_local const std::unique_ptr<std::byte[]> room(new std::byte[Digest::chunk]);
        const auto [number, at] = chunks[i];
        const Description::Part& part = parts[number];
        const std::span bytes(room.get(), std::min<std::uint64_t>(Digest::chunk, part.bytes - at));
        if (const int e = read_all(files_.at(part.name).fd(), bytes, at))
            return fmt::format("{}: {}: {}", path_, part.name, e == ENODATA ? "it became shorter" : strerror(e));
        hashes[number][at / Digest::chunk] = Digest::of_chunk(bytes);
        return {};
    });
    if (failure) return failure;
    for (std::size_t part = 0; part < parts.size(); ++part) {
        Digest digest;
        for (const Digest::Hash& hash : hashes[part]) digest.add_chunk(hash);
        if (digest.text() != parts[part].hash)
            return fmt::format("{}: {} is damaged: its bytes do not fit its hash", path_, parts[part].name);
    }
    verified_ = true;
    return {};
}

Failure SetReader::open_part(const File& folder, const Description::Part& part) {
    File file, inner;
    int from = folder.fd();
    if (const std::string name = first_folder(part.name); !name.empty()) {
        if (Failure failure = open_there(from, name, S_IFDIR, name, inner)) return failure;
        from = inner.fd();
    }
    const std::string name = std::filesystem::path(part.name).filename();
    if (Failure failure = open_there(from, name, S_IFREG, part.name, file)) return failure;
    struct stat st;
    if (fstat(file.fd(), &st) != 0) return fmt::format("{}: {}", part.name, strerror(errno));
    if (static_cast<std::uint64_t>(st.st_size) != part.bytes)
        return fmt::format("{} has {} bytes in place of {}: it was cut short, or belongs to another set", part.name,
                           st.st_size, part.bytes);
    files_[part.name] = std::move(file);
    return {};
}

}  // namespace barcuda
