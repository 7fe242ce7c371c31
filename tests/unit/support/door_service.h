// SPDX-License-Identifier: Apache-2.0
// door_service.h: the guest service as its clients see it (shm-device/doors/service_messages.h), without virtio-pmem:
// each part of the region is a memfd. It grants every granule but the last to every client.
#pragma once
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "shm-device/doors/service_messages.h"
#include "shm-device/layout.h"
#include "shm-device/queue/sync.h"

namespace barcuda::test {

class DoorService {
  public:
    // `tables`: BARCUDA_CHANNELS_OFFSET bytes of a region's beginning, which the service shows from here on.
    DoorService(const std::string& path, const char* tables) : header_file_(::memfd_create("header", MFD_CLOEXEC)) {
        EXPECT_EQ(::ftruncate(header_file_, BARCUDA_CHANNELS_OFFSET), 0);
        void* p = ::mmap(nullptr, BARCUDA_CHANNELS_OFFSET, PROT_READ | PROT_WRITE, MAP_SHARED, header_file_, 0);
        tables_ = static_cast<char*>(p);
        std::memcpy(tables_, tables, BARCUDA_CHANNELS_OFFSET);
        sockaddr_un address{AF_UNIX, ""};
        path.copy(address.sun_path, sizeof address.sun_path - 1);
        listener_ = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        EXPECT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
        EXPECT_EQ(::listen(listener_, 8), 0);
        thread_ = std::thread([this] {
            for (int client; (client = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC)) >= 0;)
                clients_.emplace_back([this, client] { serve(client); });
        });
    }
    // After its clients have closed their regions.
    ~DoorService() {
        ::shutdown(listener_, SHUT_RDWR);
        thread_.join();
        for (std::thread& t : clients_) t.join();
        for (const auto& [index, file] : channels_) ::close(file);
        for (const auto& [offset, file] : granules_) ::close(file);
        ::munmap(tables_, BARCUDA_CHANNELS_OFFSET);
        ::close(listener_);
        ::close(header_file_);
    }
    DoorService(const DoorService&) = delete;

  private:
    barcuda_slot& slot(std::uint32_t i) { return reinterpret_cast<barcuda_slot*>(tables_ + BARCUDA_SLOTS_OFFSET)[i]; }

    void serve(int client) {
        std::uint32_t own = 0;
        bool has_channel = false;
        door::Request request;
        while (::recv(client, &request, sizeof request, 0) == sizeof request) {
            const std::lock_guard lock(mutex_);
            door::Answer answer;
            std::vector<int> files;
            switch (request.what) {
                case door::What::header: files = {::dup(header_file_)}; break;
                case door::What::channel:
                    own = answer.channel = next_channel_++;
                    has_channel = true;
                    files = {channel(own)};
                    publish(slot(own).opened, 1);
                    break;
                case door::What::extent: answer.error = extents(request, files); break;
                case door::What::released:
                    if (has_channel && is_unmapped(channels_[own])) publish(slot(own).closed, 1);
                    continue;
            }
            send(client, answer, files);
            for (int file : files) ::close(file);
        }
        ::close(client);
    }

    int channel(std::uint32_t index) {
        const int file = ::memfd_create("channel", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        EXPECT_EQ(::ftruncate(file, BARCUDA_CHANNEL_SIZE), 0);
        const std::uint32_t number = index;
        const auto at = BARCUDA_STATUS_OFFSET + offsetof(barcuda_status, channel);
        EXPECT_EQ(::pwrite(file, &number, sizeof number, static_cast<off_t>(at)), static_cast<ssize_t>(sizeof number));
        channels_[index] = ::dup(file);
        return file;
    }

    int extents(const door::Request& request, std::vector<int>& files) {
        const auto& header = *reinterpret_cast<const barcuda_header*>(tables_);
        if (request.offset + request.bytes >= header.size) return EACCES;
        for (std::uint64_t at = 0; at < request.bytes; at += BARCUDA_GRANULE) {
            int& file = granules_.try_emplace(request.offset + at, -1).first->second;
            if (file < 0) {
                file = ::memfd_create("granule", MFD_CLOEXEC);
                EXPECT_EQ(::ftruncate(file, BARCUDA_GRANULE), 0);
            }
            files.push_back(::dup(file));
        }
        return 0;
    }

    // A file that is mapped to be written cannot be sealed against writes.
    static bool is_unmapped(int file) { return ::fcntl(file, F_ADD_SEALS, F_SEAL_WRITE) == 0; }

    static void send(int client, const door::Answer& answer, const std::vector<int>& files) {
        alignas(cmsghdr) char control[CMSG_SPACE(door::most_files * sizeof(int))] = {};
        iovec data{const_cast<door::Answer*>(&answer), sizeof answer};
        msghdr message{};
        message.msg_iov = &data;
        message.msg_iovlen = 1;
        if (!files.empty()) {
            message.msg_control = control;
            message.msg_controllen = CMSG_SPACE(files.size() * sizeof(int));
            cmsghdr* c = CMSG_FIRSTHDR(&message);
            c->cmsg_level = SOL_SOCKET;
            c->cmsg_type = SCM_RIGHTS;
            c->cmsg_len = CMSG_LEN(files.size() * sizeof(int));
            std::memcpy(CMSG_DATA(c), files.data(), files.size() * sizeof(int));
        }
        EXPECT_EQ(::sendmsg(client, &message, MSG_NOSIGNAL), static_cast<ssize_t>(sizeof answer));
    }

    const int header_file_;
    char* tables_;
    int listener_;
    std::thread thread_;
    std::vector<std::thread> clients_;
    std::mutex mutex_;
    std::uint32_t next_channel_ = 0;
    std::map<std::uint32_t, int> channels_;
    std::map<std::uint64_t, int> granules_;
};

}  // namespace barcuda::test
